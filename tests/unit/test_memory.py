"""The engine: writing, catching up, rebuilding, moving house, and what it says when it cannot."""

from __future__ import annotations

import asyncio
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mnemon import AsyncMemory, Config, Memory, Turn
from mnemon.contracts.entries import EmbeddingVector
from mnemon.contracts.errors import (
    Conflict,
    EmbedderFailed,
    EmbedderMismatch,
    InvalidArgument,
    MalformedInput,
    MissingExtra,
    NotFound,
)
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.pipelines.index import indexing
from mnemon.pipelines.write.spool import Spool
from mnemon.testing.clock import FixedClock

QUIET = Config(background_worker=False)


class OtherEmbedder(HashEmbedder):
    model = "hash/other"


class FailingEmbedder(HashEmbedder):
    """Fails as long as it is told to."""

    fails = True

    async def embed_texts(self, texts: Sequence[str], purpose: Any = "document") -> list[EmbeddingVector]:
        if self.fails:
            raise EmbedderFailed("the service is away")
        return await super().embed_texts(texts, purpose)


def turns(*texts: str) -> list[dict[str, Any]]:
    return [{"turn_id": f"{n:03d}", "role": "user", "text": text} for n, text in enumerate(texts)]


def fill(memory: Memory, sessions: int = 3) -> None:
    for n in range(sessions):
        memory.session_write("t", "u", f"s{n}", turns=turns(f"花生 peanut {n}", "不吃辣", "hiking"), extract=False)


def answers(memory: Memory) -> list[Any]:
    bound = memory.bind("t", "u")
    words = [
        (h.message.message_id, h.score)
        for q in ("花生", "辣", "hike OR peanuts")
        for h in bound.lexical_search(q).items
    ]
    return words + [(h.message.message_id, h.score) for h in bound.semantic_search("peanut 花生")]


def test_delete_the_index_and_rebuild_gives_the_same_ids_and_scores(tmp_path: Path) -> None:
    with Memory(tmp_path, embedder=HashEmbedder(), config=QUIET) as memory:
        fill(memory)
        before = answers(memory)
    for file in tmp_path.glob("index.db*"):
        file.unlink()
    with Memory(tmp_path, embedder=HashEmbedder(), config=QUIET) as memory:
        assert answers(memory) == []
        seen: list[tuple[int, int, int]] = []
        result = memory.rebuild(progress=lambda *args: seen.append(args))
        assert (result.sessions, result.entries, result.resumed) == (3, 9, 0)
        assert seen[-1] == (3, 3, 9)
        assert answers(memory) == before


def test_another_model_is_an_error_that_names_rebuild_and_rebuild_mends_it(tmp_path: Path) -> None:
    with Memory(tmp_path, embedder=HashEmbedder(), config=QUIET) as memory:
        fill(memory)
        before = answers(memory)
    with pytest.raises(EmbedderMismatch, match="mnemon rebuild") as caught:
        Memory(tmp_path, embedder=OtherEmbedder(), config=QUIET)
    assert caught.value.built_with == HashEmbedder.model
    with Memory(tmp_path, embedder=OtherEmbedder(), config=QUIET, for_rebuild=True) as memory:
        memory.rebuild()
    with Memory(tmp_path, embedder=OtherEmbedder(), config=QUIET) as memory:
        assert answers(memory) == before


def test_a_rebuild_that_stops_halfway_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with Memory(tmp_path, embedder=HashEmbedder(), config=QUIET) as memory:
        fill(memory, 4)
        before = answers(memory)

        def stop(done: int, total: int, entries: int) -> None:
            if done == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            memory.rebuild(progress=stop)
        assert answers(memory) == before  # the old index answers meanwhile
        assert memory.status().building == HashEmbedder.model
        result = memory.rebuild()
        assert result.resumed == 2
        assert result.entries == 6
        assert answers(memory) == before
        assert memory.status().building is None


def test_sessions_written_during_a_rebuild_are_in_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with AsyncMemory(tmp_path, embedder=HashEmbedder(), config=QUIET) as memory:
            for n in range(3):
                await memory.session_write("t", "u", f"s{n}", turns=turns("a", "b"), extract=False)
            late = asyncio.Event()

            async def write_late() -> None:
                await late.wait()
                await memory.session_write("t", "u", "late", turns=turns("迟到的话"), extract=False)

            task = asyncio.create_task(write_late())
            await memory.rebuild(progress=lambda *_: late.set())
            await task
            await memory.repair()
            assert (await memory.bind("t", "u").lexical_search("迟到")).items
            assert (await memory.verify()).notes == []

    asyncio.run(story())


def test_an_embedder_that_is_away_is_lag_not_loss(tmp_path: Path) -> None:
    embedder = FailingEmbedder()
    clock = FixedClock()
    with Memory(tmp_path, embedder=embedder, config=QUIET, clock=clock) as memory:
        result = memory.session_write("t", "u", "s", turns=turns("花生"), extract=False)
        assert result.status == "ok"
        assert any(d.what == "index_pending" and "away" in d.why for d in result.degraded)
        assert memory.status().turns == 1
        assert memory.verify().ok
        embedder.fails = False
        clock.tick(minutes=10)
        assert memory.run_jobs().succeeded == 1
        assert memory.bind("t", "u").lexical_search("花生").items


def test_a_job_that_keeps_failing_is_listed_and_can_be_retried(tmp_path: Path) -> None:
    embedder = FailingEmbedder()
    clock = FixedClock()
    with Memory(tmp_path, embedder=embedder, config=QUIET, clock=clock) as memory:
        memory.session_write("t", "u", "s", turns=turns("花生"), extract=False)
        for _ in range(4):
            clock.tick(hours=1)
            memory.run_jobs()
        (job,) = memory.jobs("failed")
        assert "away" in str(job.error)
        assert memory.status().queue.failed == 1
        embedder.fails = False
        memory.retry_job(job.job_id)
        assert memory.run_jobs().succeeded == 1
        assert memory.jobs() == []
        with pytest.raises(InvalidArgument, match="pending"):
            memory.jobs("lost")


def test_archived_is_indexed_by_the_background_worker(tmp_path: Path) -> None:
    async def story() -> None:
        async with AsyncMemory(tmp_path, embedder=HashEmbedder(), config=Config(poll_interval_seconds=0.05)) as memory:
            result = await memory.session_write("t", "u", "s", turns=turns("花生"), extract=False, wait="archived")
            assert result.counts["turns_indexed"] == 0
            assert next(d.what for d in result.degraded) == "index_pending"
            bound = memory.bind("t", "u")
            async with asyncio.timeout(120):  # or the worker does not index it at all
                while not (await bound.lexical_search("花生")).items:  # noqa: ASYNC110  nobody tells
                    await asyncio.sleep(0.02)

    asyncio.run(story())


def test_a_long_session_is_indexed_by_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "BATCH", 7)
    with Memory(tmp_path, embedder=HashEmbedder(), config=QUIET) as memory:
        texts = [f"word{n}" for n in range(50)]
        memory.session_write("t", "u", "s", turns=turns(*texts), extract=False, wait="archived")
        memory.run_jobs()
        assert memory.verify().notes == []
        assert [m.content for m in memory.bind("t", "u").messages_list(page_size=200).items] == texts[::-1]


def test_export_and_import_one_user(tmp_path: Path) -> None:
    with Memory(tmp_path / "a", embedder=HashEmbedder(), config=QUIET) as memory:
        fill(memory, 2)
        big = "工具输出 " * 4000
        memory.session_write("t", "u", "tool", turns=[{"role": "tool", "text": big}], extract=False)
        memory.session_write("t", "other", "s", turns=turns("秘密"), extract=False)
        result = memory.export(tmp_path / "u.zip", tenant_id="t", user_id="u")
        assert result.files >= 7
        before = answers(memory)
    with zipfile.ZipFile(tmp_path / "u.zip") as box:
        assert not [n for n in box.namelist() if "other" in n]
    with Memory(tmp_path / "b", embedder=HashEmbedder(), config=QUIET) as memory:
        done = memory.import_archive(tmp_path / "u.zip")
        assert (done.sessions, done.conflicts, done.reindexed_sessions) == (3, (), 3)
        assert answers(memory) == before
        message = memory.bind("t", "u").messages_list(session_id="tool").items[0]
        sha256 = message.meta["attachments"][0]["sha256"]
        assert memory.bind("t", "u").attachment(message.message_id, sha256).decode() == big
        assert memory.verify().ok
        again = memory.import_archive(tmp_path / "u.zip")
        assert (again.added, again.conflicts) == (0, ())


def test_import_names_what_differs_and_overwrites_nothing(tmp_path: Path) -> None:
    for name, text in (("a", "one"), ("b", "other")):
        with Memory(tmp_path / name, embedder=HashEmbedder(), config=QUIET) as memory:
            memory.session_write("t", "u", "s", turns=turns(text), extract=False)
            if name == "a":
                memory.export(tmp_path / "a.zip")
            else:
                with pytest.raises(Conflict):
                    memory.import_archive(tmp_path / "a.zip")
                assert [m.content for m in memory.bind("t", "u").messages_list().items] == ["other"]
                assert memory.verify().ok


@pytest.mark.parametrize("damage", ["flip", "missing", "extra", "garbage", "format"])
def test_a_damaged_export_is_refused_whole(tmp_path: Path, damage: str) -> None:
    with Memory(tmp_path / "a", embedder=HashEmbedder(), config=QUIET) as memory:
        fill(memory, 2)
        memory.export(tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as box:
        files = {n: box.read(n) for n in box.namelist()}
    some = next(n for n in files if n.endswith("turns.jsonl"))
    if damage == "flip":
        files[some] = files[some].replace("花生".encode(), "杏仁".encode())
    elif damage == "missing":
        del files[some]
    elif damage == "extra":
        files["t/users/u/sessions/x/../../../../evil"] = b"x"
    elif damage == "format":
        manifest = json.loads(files["manifest.json"])
        files["manifest.json"] = json.dumps({**manifest, "format": "mnemon-export-99"}).encode()
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as box:
        for name, data in files.items():
            box.writestr(name, data)
    if damage == "garbage":
        (tmp_path / "b.zip").write_bytes(b"not a zip")
    with Memory(tmp_path / "b", embedder=HashEmbedder(), config=QUIET) as memory:
        with pytest.raises(MalformedInput):
            memory.import_archive(tmp_path / "b.zip")
        assert memory.status().sessions == 0


def test_backup_while_others_write_imports_clean(tmp_path: Path) -> None:
    async def story() -> None:
        async with AsyncMemory(tmp_path / "a", embedder=HashEmbedder(), config=QUIET) as memory:
            stop, begun = asyncio.Event(), asyncio.Event()

            async def write() -> int:
                number = 0
                while not stop.is_set():
                    text = [{"turn_id": str(number), "role": "user", "text": f"turn {number}"}]
                    await memory.session_write("t", "u", f"s{number % 3}", turns=text, extract=False, mode="append")
                    number += 1
                    begun.set()
                return number

            task = asyncio.create_task(write())
            await begun.wait()
            for n in range(4):
                await asyncio.sleep(0.05)
                await memory.export(tmp_path / f"{n}.zip")
            stop.set()
            assert await task > 1
        for n in range(4):
            async with AsyncMemory(tmp_path / f"b{n}", embedder=HashEmbedder(), config=QUIET) as copy:
                await copy.import_archive(tmp_path / f"{n}.zip")
                report = await copy.verify()
                assert report.defects == []

    asyncio.run(story())


def test_repair_indexes_what_was_archived_without_a_job(tmp_path: Path) -> None:
    with Memory(tmp_path, embedder=HashEmbedder(), config=QUIET) as memory:
        fill(memory)
        before = answers(memory)
    for file in tmp_path.glob("index.db*"):
        file.unlink()
    with Memory(tmp_path, embedder=HashEmbedder(), config=QUIET) as memory:
        assert {n.kind for n in memory.verify().notes} == {"index_missing"}
        assert memory.repair().reindexed_sessions == 3
        assert answers(memory) == before


def test_two_memories_on_one_home(tmp_path: Path) -> None:
    with (
        Memory(tmp_path, embedder=HashEmbedder(), config=QUIET) as one,
        Memory(tmp_path, embedder=HashEmbedder(), config=QUIET) as two,
    ):
        one.session_write("t", "u", "s", turns=turns("花生"), extract=False)
        assert two.bind("t", "u").lexical_search("花生").items
        two.session_write("t", "u", "s", turns=turns("花生", "牛奶"), extract=False, mode="append")
        assert one.bind("t", "u").lexical_search("牛奶").items
        assert one.verify().ok


def test_many_writers_of_one_session_lose_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with AsyncMemory(tmp_path, embedder=HashEmbedder(), config=QUIET) as memory:

            async def write(name: int) -> None:
                for n in range(5):
                    turn = [{"turn_id": f"{name}-{n}", "role": "user", "text": f"{name} {n}"}]
                    await memory.session_write("t", "u", "s", turns=turn, extract=False, mode="append")

            await asyncio.gather(*(write(n) for n in range(8)))
            page = await memory.bind("t", "u").messages_list(page_size=200)
            assert {m.content for m in page.items} == {f"{a} {b}" for a in range(8) for b in range(5)}
            report = await memory.verify()
            assert report.ok
            assert report.notes == []

    asyncio.run(story())


def test_the_spool_spills_to_disk_and_gives_everything_back() -> None:
    from_memory, from_disk = Spool(), Spool(in_memory=500)
    given = [Turn(turn_id=str(n), role="user", text=f"字 {n}\n") for n in range(40)]
    for spool in (from_memory, from_disk):
        for turn in given:
            spool.add(turn, (turn.text.encode() * 3,))
        assert list(spool.turns()) == given
        assert list(spool.turns()) == given
        assert list(spool.blobs()) == [t.text.encode() * 3 for t in given]
        assert spool.count == 40
        spool.close()


def test_redaction_masks_before_anything_is_archived(tmp_path: Path) -> None:
    secret = "sk-" + "a1B2" * 10
    with Memory(tmp_path, embedder=HashEmbedder(), config=QUIET) as memory:
        result = memory.session_write(
            "t", "u", "s", turns=turns(f"my key is {secret} 手机 13812345678"), extract=False, redact=True
        )
        assert len({m.pattern for m in result.redacted}) == 2
        assert result.counts["masked"] == 2
    for file in tmp_path.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            assert secret.encode() not in data
            assert b"13812345678" not in data


def test_a_memory_in_memory_leaves_nothing_behind() -> None:
    memory = Memory(":memory:", embedder=HashEmbedder(), config=QUIET)
    home = memory.parts.home
    fill(memory)
    assert home.exists()
    memory.close()
    memory.close()
    assert not home.exists()
    with pytest.raises(InvalidArgument, match="closed"):
        memory.status()


def test_odd_places_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", "http://example.com", "qdrant://x"):
        with pytest.raises(InvalidArgument):
            Memory(place, embedder=HashEmbedder())


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "turns"),
        ({"turns": [], "raw": "[]"}, "turns"),
        ({"turns": "text"}, "turns"),
        ({"turns": [{"role": "user", "text": "x"}], "input_format": "openai_messages_v1"}, "input_format"),
        ({"raw": 5, "input_format": "openai_messages_v1"}, "raw"),
        ({"turns": [{"role": "user", "text": "x"}], "stages": "half"}, "stages"),
        ({"turns": [{"role": "user", "text": "x"}], "mode": "twice"}, "mode"),
        ({"turns": [{"role": "user", "text": "x"}], "wait": "never"}, "wait"),
    ],
)
def test_bad_arguments_are_named(tmp_path: Path, given: dict[str, Any], field: str) -> None:
    with Memory(tmp_path, embedder=HashEmbedder(), config=QUIET) as memory:
        with pytest.raises(InvalidArgument) as caught:
            memory.session_write("t", "u", "s", extract=False, **given)
        assert caught.value.field == field
        assert memory.status().sessions == 0


def test_raw_comes_in_many_shapes(tmp_path: Path) -> None:
    text = json.dumps([{"role": "user", "content": "花生 " * 9}], ensure_ascii=False)
    file = tmp_path / "export.json"
    file.write_text(text, encoding="utf-8")
    shapes: list[Any] = [text, text.encode(), file, file.open("rb"), json.loads(text), iter([text[:7], text[7:]])]
    with Memory(tmp_path / "m", embedder=HashEmbedder(), config=QUIET) as memory:
        for number, raw in enumerate(shapes):
            memory.session_write("t", "u", f"s{number}", raw=raw, input_format="openai_messages_v1", extract=False)
        assert {m.content for m in memory.bind("t", "u").messages_list().items} == {"花生 " * 9}
        assert memory.status().turns == len(shapes)
        with pytest.raises(NotFound):
            memory.session_write(
                "t", "u", "x", raw=tmp_path / "no.json", input_format="openai_messages_v1", extract=False
            )
        with pytest.raises(MalformedInput, match="UTF-8"):
            memory.session_write("t", "u", "x", raw=b"\xff\xfe", input_format="openai_messages_v1", extract=False)
    shapes[3].close()


def test_without_the_local_model_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(self: Any) -> None:
        raise MissingExtra("embed:local needs tokenizers: pip install …")

    monkeypatch.setattr("mnemon.drivers.embed.local.LocalEmbedder.check", gone)
    with Memory(tmp_path, config=QUIET) as memory:
        state = memory.status()
        assert not state.semantic
        assert "NOT semantic" in state.warnings[0]
        result = memory.session_write("t", "u", "s", turns=turns("x"), extract=False)
        assert any(d.what == "embedder" for d in result.degraded)
    with pytest.raises(MissingExtra, match="pip install"):
        Memory(tmp_path / "b", config=QUIET, embedder="local")


def test_an_openai_embedder_needs_to_be_told_everything() -> None:
    for given, missing in (
        ({}, "model"),
        ({"model": "m"}, "base_url"),
        ({"model": "m", "base_url": "http://x"}, "dimension"),
    ):
        with pytest.raises(InvalidArgument) as caught:
            Memory(":memory:", embedder={"provider": "openai", **given}, config=QUIET)
        assert caught.value.field == f"embedder.{missing}"
    with pytest.raises(InvalidArgument, match="modell"):
        Memory(":memory:", embedder={"provider": "openai", "modell": "m"}, config=QUIET)
