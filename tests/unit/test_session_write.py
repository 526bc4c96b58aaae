"""Writers who meet: one session is one writer's at a time, and what two sessions say of the same thing is all kept."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mnemon import AsyncMemory, Config, Memory
from mnemon.contracts.errors import Busy, Unavailable
from mnemon.contracts.filters import Eq
from mnemon.contracts.jobs import JobStatus
from mnemon.contracts.scope import Owner, Scope, SessionKey
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.pipelines.index.projection import claim_of
from mnemon.pipelines.jobs import digest_job
from mnemon.pipelines.write.order import WriteOrder
from mnemon.testing.answers import EXTRACTORS, PROFILE, SUMMARY, TAGGING, fact, model, script, tag, tagging
from mnemon.testing.clock import FixedClock
from mnemon.testing.scripted import Said, ScriptedLLM

QUIET = Config(background_worker=False)
STEWARD = Scope.steward_of("acme")
KEY = SessionKey("acme", Owner.user("lin"), "s")
CITIES = ["上海", "杭州", "北京", "广州", "成都", "西安", "南京", "苏州"]
TALK = [
    {"turn_id": "1", "role": "user", "text": "我对花生过敏。"},
    {"turn_id": "2", "role": "assistant", "text": "记下了。"},
    {"turn_id": "3", "role": "user", "text": "I live in Paris."},
    {"turn_id": "4", "role": "user", "text": "我喜欢爬山，也喜欢喝绿茶。"},
]


def opened(home: Path, llm: Any = "rules", clock: FixedClock | None = None) -> AsyncMemory:
    return AsyncMemory(home, embedder=HashEmbedder(), config=QUIET, clock=clock or FixedClock(), llm=llm)


def endless(answer: Callable[[str], dict[str, Any]]) -> ScriptedLLM:
    """A model that gives the same answers as often as it is asked."""
    by_prompt: dict[str, list[Said]] = {
        name: [answer(name)] * 500 for name in (TAGGING, SUMMARY, *EXTRACTORS, "policy.merge_bundle")
    }
    return ScriptedLLM(by_prompt=by_prompt)


def allergy(name: str) -> dict[str, Any]:
    if name == TAGGING:
        return tagging(tag(TALK[0], "我对花生过敏"))
    if name == SUMMARY:
        return {"summary": ""}
    return {"facts": [fact(TALK[0], "我对花生过敏", "用户对花生过敏")] if name == PROFILE else []}


async def state(memory: AsyncMemory) -> dict[str, Any]:
    """Everything an archive and its index say, but for times, versions, salts and the order of equals."""
    archive, found = memory.parts.archive, {}
    async for record in archive.sessions(STEWARD):
        key = record.key
        claims = await archive.read_claims(STEWARD, key)
        assert sorted(record.claim_ids) == sorted(c.claim_id for c in claims)
        page = await memory.parts.index.scroll(STEWARD, Eq("uri", key.uri), "position", 500)
        indexed = [claim_of(e) for e in page.entries if e.kind == "claim"]
        assert sorted(indexed, key=lambda c: c.claim_id) == sorted(claims, key=lambda c: c.claim_id)
        found[key.uri] = {
            "status": record.status,
            "commits": record.commits,
            "turns": [t.turn.text for t in await archive.read_turns(STEWARD, key)],
            "tags": [t.output.model_dump() for t in await archive.read_tags(STEWARD, key)],
            "claims": {c.claim_id: (c.statement, c.state, c.superseded_by, c.repeats) for c in claims},
            "shown": [e.text for e in page.entries if e.kind == "turn" and e.fields["kept"]],
        }
    for summary in await archive.list_children(STEWARD, Owner.user("lin"), recursive=True):
        if not summary.is_dir:
            node = await memory.node("acme", "lin", summary.uri)
            rows = {row["claim_id"]: row.get("state", "active") for row in node.metadata["claims"]}
            found[summary.uri] = (rows, sorted(node.overview.splitlines()))
    assert (await memory.verify()).ok
    assert (await memory.verify()).notes == []
    assert await memory.jobs() == []
    return found


async def alone(home: Path, *sessions: tuple[str, list[dict[str, Any]]], llm: Any = "rules") -> dict[str, Any]:
    async with opened(home, llm) as memory:
        for name, turns in sessions:
            await memory.session_write("acme", "lin", name, turns=turns)
        return await state(memory)


# --- one session, many writers


@pytest.mark.parametrize("llm", ["rules", "scripted"])
async def test_two_memories_write_one_session_at_once_and_one_of_them_wins(tmp_path: Path, llm: str) -> None:
    def chosen() -> Any:
        return endless(allergy) if llm == "scripted" else "rules"

    expected = await alone(tmp_path / "alone", ("s", TALK), llm=chosen())
    for attempt in range(8):
        home = tmp_path / str(attempt)
        async with opened(home, chosen()) as one, opened(home, chosen()) as two:
            results = await asyncio.gather(
                *(m.session_write("acme", "lin", "s", turns=TALK) for m in (one, two, one, two))
            )
            assert sorted(r.status for r in results) == ["ok", *["skipped_existing"] * 3]
            assert await state(two) == expected


async def test_overwriters_at_once_end_in_the_same_state(tmp_path: Path) -> None:
    expected = await alone(tmp_path / "alone", ("s", TALK))
    async with opened(tmp_path / "many") as one, opened(tmp_path / "many") as two:
        results = await asyncio.gather(
            *(m.session_write("acme", "lin", "s", turns=TALK, overwrite_existing=True) for m in (one, two) * 4)
        )
        assert {r.status for r in results} == {"ok"}
        found = await state(one)
        assert found["ctx://acme/users/lin/sessions/s"].pop("commits") == 8
        expected["ctx://acme/users/lin/sessions/s"].pop("commits")
        assert found == expected


def test_threads_append_to_one_session_and_every_turn_is_judged_once(tmp_path: Path) -> None:
    with Memory(tmp_path, embedder=HashEmbedder(), config=QUIET, llm="rules") as memory:

        def write(n: int) -> None:
            turn = {"turn_id": f"{n}", "role": "user", "text": f"我住在{CITIES[n]}。"}
            memory.session_write("acme", "lin", "s", turns=[turn], mode="append")

        threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        claims = memory.claims("acme", "lin", state=None).items
        assert {c.statement for c in claims} == {f"用户住在{city}" for city in CITIES}
        assert len(memory.claims("acme", "lin").items) == 1
        found = asyncio.run(state(memory._memory))
        assert found["ctx://acme/users/lin/sessions/s"]["commits"] == 8


_WRITER = """
import json, sys, time
from pathlib import Path
from mnemon import Config, Memory
from mnemon.drivers.embed.hash import HashEmbedder
home, name, turns = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
with Memory(home, embedder=HashEmbedder(), config=Config(background_worker=False), llm="rules") as memory:
    Path(home, f"ready-{name}-{turns[0]['turn_id']}").touch()
    while not Path(home, "go").exists():
        time.sleep(0.001)
    print(memory.session_write("acme", "lin", name, turns=turns).status)
"""


def processes(home: Path, *jobs: tuple[str, list[dict[str, Any]]]) -> list[str]:
    """A process for each, all let go at the same moment."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(home), name, json.dumps(turns)], stdout=subprocess.PIPE, text=True
        )
        for name, turns in jobs
    ]
    while len(list(home.glob("ready-*"))) < len({(name, turns[0]["turn_id"]) for name, turns in jobs}):
        assert all(process.poll() is None for process in running)
    (home / "go").touch()
    return [process.communicate(timeout=60)[0].strip() for process in running]


async def test_two_processes_write_one_session_and_the_other_session_at_once(tmp_path: Path) -> None:
    here = [{"turn_id": "a", "role": "user", "text": "我住在上海。", "timestamp_iso": "2026-01-01T00:00:00Z"}]
    there = [{"turn_id": "b", "role": "user", "text": "我住在杭州。", "timestamp_iso": "2026-02-01T00:00:00Z"}]
    expected = await alone(tmp_path / "alone", ("one", here), ("two", there))
    home = tmp_path / "many"
    home.mkdir()
    said = await asyncio.to_thread(processes, home, ("one", here), ("two", there), ("one", here))
    assert sorted(said) == ["ok", "ok", "skipped_existing"]
    async with opened(home) as memory:
        assert await state(memory) == expected


async def test_a_writer_that_waits_too_long_is_told_who_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemon.pipelines.write.session.HOLD_S", 0.0)
    async with opened(tmp_path) as memory:
        job = digest_job(KEY, WriteOrder().to_payload())
        assert await memory.parts.queue.take(job, memory.parts.worker)
        with pytest.raises(Busy) as caught:
            await memory.session_write("acme", "lin", "s", turns=TALK)
        assert caught.value.session_id == "s"
        assert (await memory.status()).sessions == 0
        await memory.parts.queue.done(job.job_id)
        assert (await memory.session_write("acme", "lin", "s", turns=TALK)).status == "ok"


async def test_whoever_finds_the_session_done_does_not_take_the_others_job_away(tmp_path: Path) -> None:
    """One completes the words and leaves the index to the worker, while another waits for the session."""
    async with opened(tmp_path) as memory:
        queue, held = memory.parts.queue, asyncio.Event()
        take = queue.take

        async def late(job: Any, *rest: Any) -> bool:
            await held.wait()
            return await take(job, *rest)

        waiting = asyncio.create_task(_write_with(memory, late))
        await asyncio.sleep(0)
        async with opened(tmp_path) as other:
            await other.session_write("acme", "lin", "s", turns=TALK, extract=False, wait="archived")
        held.set()
        assert (await waiting).status == "skipped_existing"
        assert len((await memory.bind("acme", "lin").messages_list()).items) == 4
        assert await memory.jobs() == []


async def _write_with(memory: AsyncMemory, take: Any) -> Any:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory.parts.queue, "take", take)
        return await memory.session_write("acme", "lin", "s", turns=TALK, extract=False)


# --- many sessions, the same nodes


def moves() -> list[tuple[str, list[dict[str, Any]]]]:
    """Every session says where its user lives since when, and that they like tea."""
    return [
        (
            f"s{n}",
            [
                {"turn_id": "a", "role": "user", "text": f"我住在{city}。", "timestamp_iso": f"2026-0{n}-01T00:00:00Z"},
                {"turn_id": "b", "role": "user", "text": "I like tea.", "timestamp_iso": f"2026-0{n}-02T00:00:00Z"},
            ],
        )
        for n, city in enumerate(CITIES, 1)
    ]


async def test_sessions_written_at_once_lose_no_claim_and_agree_what_holds(tmp_path: Path) -> None:
    expected = await alone(tmp_path / "alone", *moves())
    for attempt in range(5):
        home = tmp_path / str(attempt)
        async with opened(home) as one, opened(home) as two:
            order = moves()[attempt:] + moves()[:attempt]
            results = await asyncio.gather(
                *(
                    (one, two)[n % 2].session_write("acme", "lin", name, turns=turns)
                    for n, (name, turns) in enumerate(order)
                )
            )
            assert [(r.status, r.error_reason) for r in results] == [("ok", None)] * 8
            assert await state(one) == expected


# --- the worker takes up what its writer left


async def test_a_digest_whose_process_died_is_finished_by_the_worker(tmp_path: Path) -> None:
    expected = await alone(tmp_path / "alone", ("s", TALK))
    async with opened(tmp_path / "here") as memory:
        await memory.session_write("acme", "lin", "s", turns=TALK, wait="archived")
        (job,) = await memory.jobs()
        assert await memory.parts.queue.take(job, f"{memory.parts.worker.rsplit(':', 2)[0]}:999999:gone")
        assert (await memory.run_jobs()).succeeded == 1, "those of dead workers are taken over"
        assert await state(memory) == expected


async def test_a_writer_takes_over_from_a_dead_one_at_once(tmp_path: Path) -> None:
    expected = await alone(tmp_path / "alone", ("s", TALK))
    async with opened(tmp_path / "here") as memory:
        dead = f"{memory.parts.worker.rsplit(':', 2)[0]}:999999:gone"
        assert await memory.parts.queue.take(digest_job(KEY, WriteOrder().to_payload()), dead, timedelta(hours=1))
        assert (await memory.session_write("acme", "lin", "s", turns=TALK)).status == "ok"
        assert await state(memory) == expected


async def test_sessions_another_one_changed_are_indexed_by_the_job_where_the_index_was_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = moves()[:2]
    expected = await alone(tmp_path / "alone", first, second)
    clock = FixedClock()
    async with opened(tmp_path / "here", clock=clock) as memory:
        await memory.session_write("acme", "lin", first[0], turns=first[1])

        async def away(*args: Any) -> None:
            raise Unavailable("the index is away")

        with monkeypatch.context() as patched:
            patched.setattr(memory.parts.index, "upsert", away)
            result = await memory.session_write("acme", "lin", second[0], turns=second[1])
        assert (result.status, result.counts["facts_written"]) == ("ok", 2)
        assert any(d.what == "index_pending" and "away" in d.why for d in result.degraded)
        clock.tick(hours=1)
        assert (await memory.run_jobs()).succeeded == 1
        assert await state(memory) == expected


async def test_a_worker_without_a_model_marks_the_session_failed_and_keeps_the_job(tmp_path: Path) -> None:
    async with opened(tmp_path, "rules") as memory:
        await memory.session_write("acme", "lin", "s", turns=TALK, wait="archived")
    clock = FixedClock()
    async with AsyncMemory(tmp_path, embedder=HashEmbedder(), config=QUIET, clock=clock) as memory:
        for _ in range(4):
            clock.tick(hours=2)
            await memory.run_jobs()
        (job,) = await memory.jobs("failed")
        assert job.status is JobStatus.FAILED
        record = await memory.parts.archive.read_session(STEWARD, KEY)
        assert record is not None
        assert "language model" in str(record.error_reason)
        # The words are there, and whoever writes the session again with a model takes the job over.
        assert (await memory.session_write("acme", "lin", "s", turns=TALK, llm="rules")).status == "ok"
        assert await memory.jobs() == []


async def test_what_was_lent_is_given_back_when_somebody_else_finishes(tmp_path: Path) -> None:
    async with opened(tmp_path, None) as memory:
        await memory.session_write("acme", "lin", "s", turns=TALK, llm=model(script(tagging())), wait="archived")
        assert len(memory.parts.writer.lent) == 1
        await memory.session_write("acme", "lin", "s", turns=TALK, llm="rules")
        assert memory.parts.writer.lent == {}
