"""A commit step by step: taken up where it was cut off, planned again where others were faster, told to every file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mnemon import AsyncMemory, Config
from mnemon.contracts.claims import Claim
from mnemon.contracts.commits import PipelineConfig
from mnemon.contracts.entries import EmbeddingVector
from mnemon.contracts.errors import ModelFailed
from mnemon.contracts.filters import Eq
from mnemon.contracts.scope import Owner, Scope, SessionKey
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.logic.shelves import filed_key
from mnemon.pipelines.index.projection import claim_of
from mnemon.pipelines.write import tagging as stage2
from mnemon.pipelines.write.applying import Applier
from mnemon.pipelines.write.settling import settle_others
from mnemon.testing.answers import MERGE, SUMMARY, TAGGING, fact, model, script, tag, tagging
from mnemon.testing.clock import FixedClock
from mnemon.testing.scripted import ScriptedLLM, asking

QUIET = Config(background_worker=False)
STEWARD = Scope.steward_of("acme")
KEY = SessionKey("acme", Owner.user("lin"), "s")
TEA = {"turn_id": "1", "role": "user", "text": "I like green tea."}
HOME = {"turn_id": "2", "role": "user", "text": "我住在上海。"}
CAT = {"turn_id": "3", "role": "user", "text": "我有一只猫。"}
LIKES = fact(TEA, "I like green tea", "User likes green tea", "preferences", routing_key="tea")
LIVES = fact(HOME, "我住在上海", "用户住在上海", dedup_key="residence")
HAS = fact(CAT, "我有一只猫", "用户有一只猫", "entities", routing_key="猫")


class Cut(Exception):
    """Stands for the end of the process."""


class CountingEmbedder(HashEmbedder):
    def __init__(self) -> None:
        self.texts: list[str] = []

    async def embed_texts(self, texts: Sequence[str], purpose: Any = "document") -> list[EmbeddingVector]:
        self.texts += texts
        return await super().embed_texts(texts, purpose)


def opened(home: Path, embedder: Any = None, config: Config = QUIET, llm: Any = None) -> AsyncMemory:
    return AsyncMemory(home, embedder=embedder or HashEmbedder(), config=config, clock=FixedClock(), llm=llm)


def both() -> ScriptedLLM:
    tags = tagging(tag(TEA, "I like green tea", "preference"), tag(HOME, "我住在上海"))
    return model(script(tags, LIKES, LIVES))


async def write(memory: AsyncMemory, llm: Any, *turns: Any, session: str = "s", **given: Any) -> Any:
    return await memory.session_write("acme", "lin", session, turns=list(turns or (TEA, HOME)), llm=llm, **given)


async def known(memory: AsyncMemory) -> set[str]:
    """What is said in the same words in the session's file, in the nodes and in the index."""
    async for record in memory.parts.archive.sessions(STEWARD):
        for claim in await memory.parts.archive.read_claims(STEWARD, record.key):
            if claim.node_uri:
                node = await memory.parts.archive.read_node(STEWARD, filed_key(claim))
                rows = {row["claim_id"]: Claim.model_validate(row) for row in node.metadata["claims"]}
                assert rows[claim.claim_id] == claim
            (entry,) = await memory.parts.index.get(STEWARD, [claim.claim_id])
            assert claim_of(entry) == claim
    assert (await memory.verify()).defects == []
    assert (await memory.verify()).notes == []
    return {c.statement for c in (await memory.claims("acme", "lin", limit=200)).items}


# --- cut off and taken up


async def test_a_commit_that_was_decided_is_finished_without_asking_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as memory:

        async def cut(*args: Any) -> None:
            raise Cut

        with monkeypatch.context() as patched:
            patched.setattr(Applier, "apply", cut)
            with pytest.raises(Cut):
                await write(memory, both())
        assert await memory.nodes("acme", "lin") == []
        result = await write(memory, ScriptedLLM())
        assert (result.status, result.counts["facts_written"], result.counts["turns_kept"]) == ("ok", 2, 2)
        assert len(result.tags) == 2
        assert await known(memory) == {"User likes green tea", "用户住在上海"}


async def test_a_commit_cut_between_two_nodes_writes_only_the_one_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as memory:
        write_node, written = memory.parts.archive.write_node, 0

        async def dies(*args: Any, **given: Any) -> Any:
            nonlocal written
            written += 1
            if written == 2:
                raise Cut
            return await write_node(*args, **given)

        with monkeypatch.context() as patched:
            patched.setattr(memory.parts.archive, "write_node", dies)
            with pytest.raises(Cut):
                await write(memory, both())
        result = await write(memory, ScriptedLLM())
        assert {n.node_version for n in result.nodes} == {1}
        assert await known(memory) == {"User likes green tea", "用户住在上海"}


async def test_more_turns_after_a_cut_are_judged_together_and_what_is_left_over_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as memory:

        async def cut(*args: Any, **given: Any) -> None:
            raise Cut

        with monkeypatch.context() as patched:
            patched.setattr("mnemon.pipelines.write.commit.settle_others", cut)
            with pytest.raises(Cut):
                await write(memory, both())
        assert len(await memory.nodes("acme", "lin")) == 2
        tags = tagging(tag(HOME, "我住在上海"), tag(CAT, "我有一只猫"))
        more = {MERGE: [ModelFailed("away")]}
        result = await write(memory, model(script(tags, LIVES, HAS, more=more)), TEA, HOME, CAT)
        assert result.counts["facts_removed"] == 1
        assert await known(memory) == {"用户住在上海", "用户有一只猫"}
        assert {n.category for n in await memory.nodes("acme", "lin")} == {"profile", "entities"}


async def test_an_overwrite_that_was_begun_is_gone_through_with_by_whoever_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as memory:
        await write(memory, both())

        async def cut(*args: Any, **given: Any) -> None:
            raise Cut

        with monkeypatch.context() as patched:
            patched.setattr("mnemon.pipelines.write.commit.settle_others", cut)
            with pytest.raises(Cut):
                await write(memory, model(script(tagging(tag(HOME, "我住在上海")), LIVES)), overwrite_existing=True)
        assert [n.category for n in await memory.nodes("acme", "lin")] == ["profile"]
        tags = tagging(tag(HOME, "我住在上海"), tag(CAT, "我有一只猫"))
        await write(memory, model(script(tags, LIVES, HAS)), TEA, HOME, CAT, mode="append")
        assert await known(memory) == {"用户住在上海", "用户有一只猫"}


async def test_stage_2_is_a_checkpoint(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        broken = script(tagging(tag(HOME, "我住在上海")), more={name: [ModelFailed("away")] for name in _extractors()})
        assert (await write(memory, model(broken))).status == "failed"
        llm = model({name: answers for name, answers in script({}, LIVES).items() if name != TAGGING})
        assert (await write(memory, llm)).status == "ok"
        assert TAGGING not in {asking(messages) for messages in llm.asked}


def _extractors() -> list[str]:
    return [name for name in script({}) if name.startswith("extraction.")]


# --- others were faster


async def test_files_are_told_what_their_nodes_say_whoever_told_them_last(tmp_path: Path) -> None:
    """A writer that was slow tells a file what was true of its node a moment ago."""
    async with opened(tmp_path, llm="rules") as memory:
        for n, text in enumerate(("我住在上海。", "我住在杭州。"), 1):
            turn = {"turn_id": "t", "role": "user", "text": text, "timestamp_iso": f"2026-0{n}-01T00:00:00Z"}
            await write(memory, "rules", turn, session=f"s{n}")
        (over,) = (await memory.claims("acme", "lin", state="superseded")).items
        late = over.model_copy(update={"state": "active", "superseded_by": "", "valid_to": None})
        assert await settle_others(memory.parts.archive, STEWARD, [late]) == [over]
        assert await memory.claim("acme", "lin", over.claim_id) == over


async def test_a_page_that_changes_while_it_is_indexed_is_indexed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as memory:
        await write(memory, both())
        archive, upsert, once = memory.parts.archive, memory.parts.index.upsert, [True]
        record = await archive.read_session(STEWARD, KEY)
        assert record is not None
        claims = await archive.read_claims(STEWARD, KEY)
        await archive.write_session(STEWARD, record, record.version)

        async def meanwhile(*args: Any) -> None:
            if once.pop() if once else False:
                better = claims[0].model_copy(update={"title": "said meanwhile"})
                await archive.put_claims(STEWARD, KEY, [better])
                await archive.write_session(STEWARD, record, record.version + 1)
            await upsert(*args)

        monkeypatch.setattr(memory.parts.index, "upsert", meanwhile)
        await memory.parts.replicas.index_session(KEY)
        (entry,) = await memory.parts.index.get(STEWARD, [claims[0].claim_id])
        assert claim_of(entry).title == "said meanwhile"
        notes = (await memory.verify()).notes
        assert {note.kind for note in notes} <= {"unsettled"}, "nobody told the node"


async def test_a_node_that_changes_while_it_is_indexed_is_indexed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as memory:
        result = await write(memory, both())
        key = filed_key(result.claims[0])
        archive, upsert, once = memory.parts.archive, memory.parts.index.upsert, [True]

        async def meanwhile(*args: Any) -> None:
            if once.pop() if once else False:
                await archive.write_level(STEWARD, key, "abstract", "changed meanwhile")
            await upsert(*args)

        monkeypatch.setattr(memory.parts.index, "upsert", meanwhile)
        await memory.parts.replicas.index_node(key)
        page = await memory.parts.index.scroll(STEWARD, Eq("uri", key.uri), "oldest", 10)
        assert "changed meanwhile" in {e.text for e in page.entries}


# --- what it costs


async def test_what_is_indexed_already_is_not_embedded_again(tmp_path: Path) -> None:
    embedder = CountingEmbedder()
    async with opened(tmp_path, embedder) as memory:
        await write(memory, both())
        embedder.texts.clear()
        assert await memory.parts.replicas.index_session(KEY) == 0
        await write(memory, ScriptedLLM(), mode="append")
        assert "I like green tea." not in embedder.texts


async def test_a_session_reads_the_files_of_those_it_changes_and_of_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, llm="rules") as memory:
        read, asked = memory.parts.archive.read_claims, []

        async def counted(scope: Any, key: SessionKey) -> Any:
            asked.append(key.session_id)
            return await read(scope, key)

        monkeypatch.setattr(memory.parts.archive, "read_claims", counted)
        for n in range(12):
            asked.clear()
            turn = {"turn_id": "t", "role": "user", "text": f"我对食物{n}号过敏。"}
            await write(memory, "rules", turn, session=f"s{n}")
        assert set(asked) == {"s11"}


# --- windows


async def test_a_long_conversation_is_judged_in_windows_and_numbered_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage2, "WINDOW_TURNS", 2)
    turns = [{"turn_id": f"{n}", "role": "user", "text": f"我有{n}只猫。"} for n in range(5)]
    parts = [tagging(*(tag(t, "我有") for t in turns[a : a + 2])) for a in (0, 2, 4)]
    limits = Config(background_worker=False, pipeline=PipelineConfig(extraction_concurrency=1))
    async with opened(tmp_path, config=limits) as memory:
        answers = {TAGGING: parts, SUMMARY: [{"summary": ""}], **{name: [{"facts": []}] * 3 for name in _extractors()}}
        result = await write(memory, model(answers), *turns)
        assert [(t.tag_id, t.turn_id) for t in result.tags] == [(f"m000{n + 1}", f"{n}") for n in range(5)]
        (tagged,) = await memory.parts.archive.read_tags(STEWARD, KEY)
        assert (tagged.output.stats.input_turns, tagged.first_seq, tagged.last_seq) == (5, 1, 5)


async def test_one_window_that_fails_the_gates_costs_its_own_tags_and_no_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage2, "WINDOW_TURNS", 1)
    bad = tagging(tag(HOME, "我住在上海", turn_id="9"))
    limits = Config(background_worker=False, pipeline=PipelineConfig(extraction_concurrency=1))
    async with opened(tmp_path, config=limits) as memory:
        tags = [tagging(tag(TEA, "I like green tea", "preference")), bad, bad]
        llm = model({TAGGING: tags, **{name: [{"facts": []}] * 2 for name in _extractors()}})
        result = await write(memory, llm)
        assert "tagging" in {d.what for d in result.degraded}
        assert [t.turn_id for t in result.tags] == [TEA["turn_id"]]
        assert [r.what for r in result.rejected] == ["tag"]
        (record,) = [r async for r in memory.parts.archive.sessions(STEWARD)]
        assert record.owes == 1
        assert result.counts["turns_kept"] == 2, "what nobody judged is kept"
