"""Seed 004: data and defaults, providers, nodes as files, and a commit from its messages to its index."""

from __future__ import annotations

import asyncio
import errno
import inspect
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from mnemon import AsyncMemory, Config, Memory, Scope
from mnemon.contracts.claims import ToolStats
from mnemon.contracts.commits import (
    ArchiveConfig,
    CommitConfig,
    CommitOptions,
    CommitResult,
    CommitStats,
    DedupConfig,
    OutboxEvent,
    OutboxEventType,
    PipelineConfig,
    PlanAction,
    SessionArchive,
    SessionStats,
    WritePlan,
    WriteResult,
)
from mnemon.contracts.entries import EmbeddingVector, Entry
from mnemon.contracts.errors import (
    CommitError,
    InvalidArgument,
    ModelFailed,
    NotFound,
    StorageFailed,
    Unavailable,
    VersionConflict,
)
from mnemon.contracts.filters import Eq
from mnemon.contracts.jobs import Job
from mnemon.contracts.nodes import RELATION_TYPES, Edge, Node, NodeKey, NodeStat, NodeSummary, Shelf
from mnemon.contracts.ports import LLM, Archive
from mnemon.contracts.reports import IndexBatchResult
from mnemon.contracts.scope import Owner
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.logic.chunking import ChunkRecord
from mnemon.logic.shelves import EXTRACTORS, SHELVES
from mnemon.pipelines.prompts import prompt
from mnemon.testing.answers import (
    DEDUP,
    MERGE,
    PREFERENCES,
    PROFILE,
    SUMMARY,
    TAGGING,
    fact,
    model,
    script,
    tag,
    tagging,
)
from mnemon.testing.clock import FixedClock
from mnemon.testing.scripted import ScriptedLLM, asking

OWNER = Owner.user("u1")
KEY = NodeKey("acme", OWNER, Shelf.PREFERENCES, "饮食")
SCOPE = Scope.of("acme", "u1")
NODE = Node(KEY, ("u:u1",), "不吃辣", "- 不吃辣\n- 花生过敏", "2026-03-09 说过：我不吃辣。", {"confidence": 0.9})


@pytest.fixture
def archive(memory: Memory) -> Archive:
    return memory.parts.archive


def test_5_1_the_llm_protocol() -> None:
    for name in ("complete_json", "complete_json_sync"):
        assert {"prompt", "schema"} <= set(inspect.signature(getattr(LLM, name)).parameters)
    assert inspect.iscoroutinefunction(LLM.complete_json)
    assert not inspect.iscoroutinefunction(LLM.complete_json_sync)


async def test_5_2_an_embedder_gives_embedding_vectors(memory: Memory) -> None:
    (vector,) = await memory.parts.embedder.embed_texts(["文本"])
    assert isinstance(vector, EmbeddingVector)
    assert vector.dense_vector.shape == (memory.parts.embedder.dimension,)
    assert vector.sparse_vector is None


async def test_7_write_read_exists_stat(archive: Archive) -> None:
    assert not await archive.exists(SCOPE, KEY)
    assert (await archive.stat_node(SCOPE, KEY)).exists is False
    written = await archive.write_node(SCOPE, NODE)
    assert written.version == 1
    read = await archive.read_node(SCOPE, KEY)
    assert (read.abstract, read.overview, read.content, read.metadata) == (
        NODE.abstract,
        NODE.overview,
        NODE.content,
        NODE.metadata,
    )
    assert (await archive.read_node(SCOPE, KEY, include_content=False)).content == ""
    stat = await archive.stat_node(SCOPE, KEY)
    assert (stat.uri, stat.exists, stat.version) == (KEY.uri, True, 1)
    assert stat.size > 0


async def test_7_a_node_is_files_people_can_read(archive: Archive) -> None:
    await archive.write_node(SCOPE, NODE)
    folder = Path(await archive.resolve_path(SCOPE, KEY))
    assert folder.name == "饮食"
    assert (folder / ".abstract.md").read_text(encoding="utf-8") == NODE.abstract
    assert (folder / ".overview.md").read_text(encoding="utf-8") == NODE.overview
    assert (folder / "content.md").read_text(encoding="utf-8") == NODE.content
    meta = json.loads((folder / ".meta.json").read_text(encoding="utf-8"))
    assert (meta["version"], meta["shelf"], meta["uri"]) == (1, "preferences", KEY.uri)


async def test_7_write_level_and_metadata_keep_the_rest(archive: Archive) -> None:
    await archive.write_node(SCOPE, NODE)
    await archive.write_level(SCOPE, KEY, "abstract", "少辣")
    await archive.write_metadata(SCOPE, KEY, {"confidence": 1.0})
    read = await archive.read_node(SCOPE, KEY)
    assert (read.abstract, read.content, read.metadata, read.version) == ("少辣", NODE.content, {"confidence": 1.0}, 3)


async def test_7_list_children(archive: Archive) -> None:
    await archive.write_node(SCOPE, NODE)
    await archive.write_node(SCOPE, replace(NODE, key=replace(KEY, shelf=Shelf.EVENTS, slug="e1")))
    shelves = await archive.list_children(SCOPE, OWNER)
    assert [(s.name, s.is_dir) for s in shelves] == [("preferences", True), ("events", True)]
    nodes = await archive.list_children(SCOPE, OWNER, Shelf.PREFERENCES)
    assert [(n.name, n.uri, n.category) for n in nodes] == [("饮食", KEY.uri, "preferences")]
    assert len(await archive.list_children(SCOPE, OWNER, recursive=True)) == 4


async def test_7_versions_five_are_kept_and_rolled_back_to(archive: Archive) -> None:
    for n in range(9):
        await archive.write_node(SCOPE, replace(NODE, content=f"第 {n} 版"))
    revisions = await archive.revisions(SCOPE, KEY)
    assert [r.node.content for r in revisions] == [f"第 {n} 版" for n in (7, 6, 5, 4, 3)]
    await archive.rollback_node(SCOPE, KEY, revisions[-1].node.version)
    assert (await archive.read_node(SCOPE, KEY)).content == "第 3 版"
    with pytest.raises(VersionConflict):
        await archive.write_node(SCOPE, NODE, expect=1)


async def test_7_every_call_carries_its_scope(archive: Archive) -> None:
    await archive.write_node(SCOPE, NODE)
    for other in (Scope.of("acme", "u2"), Scope.of("other", "u1")):
        assert not await archive.exists(other, KEY)
        with pytest.raises(NotFound):
            await archive.read_node(other, KEY)
        with pytest.raises(NotFound):
            await archive.write_level(other, KEY, "content", "x")


async def test_8_relations(archive: Archive) -> None:
    await archive.write_node(SCOPE, NODE)
    to = "ctx://acme/users/u1/memories/entities/project-alpha"
    edge = Edge(KEY.uri, to, "related_to", "同一项目上下文")
    await archive.upsert_edges(SCOPE, KEY, [edge])
    await archive.upsert_edges(SCOPE, KEY, [replace(edge, weight=0.5)])
    assert [(e.to_uri, e.weight) for e in await archive.get_edges(SCOPE, KEY)] == [(to, 0.5)]
    await archive.append_edges(SCOPE, KEY, [replace(edge, relation_type="references")])
    assert len(await archive.get_edges(SCOPE, KEY)) == 2
    assert await archive.remove_edges(SCOPE, KEY, relation_types=["references"]) == 1
    folder = Path(await archive.resolve_path(SCOPE, KEY))
    body = json.loads((folder / ".relations.json").read_text(encoding="utf-8"))
    assert set(body) >= {"edges", "updated_at"}
    assert set(body["edges"][0]) == {"id", "to_uri", "relation_type", "reason", "weight", "created_at"}


async def test_9_repair_notices_a_hand_edit_and_verify_is_clean_again(memory: Memory, archive: Archive) -> None:
    await archive.write_node(SCOPE, NODE)
    folder = Path(await archive.resolve_path(SCOPE, KEY))
    (folder / "content.md").write_text("我改过的", encoding="utf-8")
    steward = Scope.steward_of("acme")
    assert [d.kind for d in (await archive.verify(steward)).defects] == ["edited"]
    await archive.repair(steward)
    assert (await archive.verify(steward)).ok
    assert (await archive.read_node(SCOPE, KEY)).content == "我改过的"
    assert [r.node.content for r in await archive.revisions(SCOPE, KEY)] == [NODE.content]


# --- a commit

JOB = {"turn_id": "t1", "role": "user", "text": "我在北京做后端工程师，主要用 Python。"}
STYLE = {"turn_id": "t2", "role": "user", "text": "I prefer four spaces in Python code."}
ALPHA = {"turn_id": "t3", "role": "user", "text": "Project Alpha ships with Anna on 2026-04-01."}
FIX = {"turn_id": "t4", "role": "tool", "speaker": "tool:pytest", "text": "pytest passed: 12 tests in 3 seconds"}
TALK = [JOB, STYLE, ALPHA, FIX]
TAGS = tagging(
    tag(JOB, "我在北京做后端工程师"), tag(STYLE, "I prefer four spaces", "preference"),
    tag(ALPHA, "Project Alpha ships"), tag(FIX, "pytest passed", evidence_level="S2_tool_grounded"),
)  # fmt: skip
WORKS = fact(JOB, "我在北京做后端工程师，主要用 Python", "用户在北京做后端工程师，主要用 Python")
SPACES = fact(
    STYLE, "I prefer four spaces in Python code", "User prefers four spaces in Python code", "preferences",
    routing_key="Code style", overview="- four spaces in Python", content="I prefer four spaces in Python code",
)  # fmt: skip
PROJECT = fact(
    ALPHA, "Project Alpha ships with Anna on 2026-04-01", "Project Alpha ships on 2026-04-01", "entities",
    routing_key="Project Alpha", entity_names=["Anna"],
)  # fmt: skip
ANNA = fact(ALPHA, "Project Alpha ships with Anna", "Anna ships Project Alpha", "entities", routing_key="Anna")
SHIPS = fact(
    ALPHA, "Project Alpha ships with Anna on 2026-04-01", "Project Alpha ships with Anna on 2026-04-01", "events",
    routing_key="Alpha ships",
)  # fmt: skip
TOOL = fact(
    FIX, "pytest passed: 12 tests in 3 seconds", "pytest passed 12 tests in 3 seconds", "skills", routing_key="pytest",
    tool={"tool_name": "pytest", "call_count": 99, "success_count": 99},
)  # fmt: skip
SAID: dict[str, Any] = {
    "summary": "Project Alpha ships on 2026-04-01.",
    "key_topics": ["Project Alpha", "Python"],
    "key_decisions": ["four spaces in Python"],
    "unresolved": ["Anna"],
}
EVERYTHING = (WORKS, SPACES, PROJECT, ANNA, SHIPS, TOOL)
ME = "tenants/acme/users/lin"
URI = "ctx://acme/users/lin"


class Likeness(HashEmbedder):
    """Close enough to meaning for what a test needs: alike is what shares most of its words."""

    model = "likeness/test"
    semantic = True


@pytest.fixture
def alike(home: Path, clock: FixedClock) -> Iterator[Memory]:
    config = Config(background_worker=False, dedup=DedupConfig(similarity_threshold=0.6))
    with Memory(home, embedder=Likeness(), config=config, clock=clock) as opened:
        yield opened


def everything(*facts: Any, **more: Any) -> ScriptedLLM:
    return model(script(TAGS, *(facts or EVERYTHING), summary=SAID, **more))


def commit(memory: Memory, llm: Any, turns: Any = None, session: str = "s", **options: Any) -> CommitResult:
    ours = ("used_contexts", "used_tools", "agent_id", "trace_id")
    given = {name: options.pop(name) for name in ours if name in options}
    return memory.commit_session(
        "acme", "lin", session, turns=turns or TALK, llm=llm, options=CommitOptions(**options), **given
    )


def held(memory: Memory, kind: str) -> list[Entry]:
    async def found() -> list[Entry]:
        page = await memory.parts.index.scroll(Scope.steward_of("acme"), Eq("kind", kind), "oldest", 500)
        return list(page.entries)

    return asyncio.run(found())


def indexed(memory: Memory) -> list[Any]:
    return [(e.id, e.text, e.fields) for kind in ("turn", "claim", "chunk") for e in held(memory, kind)]


def one_fact(n: int, words: str, statement: str, category: str = "preferences", **given: Any) -> tuple[Any, Any]:
    """A session of one turn and a model that makes one claim of it."""
    turn = {"turn_id": f"t{n}", "role": "user", "text": words, "timestamp_iso": f"2026-0{n}-01T10:00:00Z"}
    kind = {"preferences": "preference", "rules": "rule"}.get(category, "fact")
    more = given.pop("more", None)
    made = fact(turn, words, statement, category, **given)
    return [turn], model(script(tagging(tag(turn, words, kind)), made, more=more))


def on_disk(home: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file() and not path.name.startswith(("index.db", "graph.db")) and "/queue/" not in str(path)
    }


# --- 1.4 and 3


async def test_1_4_a_commit_is_done_when_the_files_are_written_whatever_the_index_says(
    home: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Config(background_worker=False)
    async with AsyncMemory(home, embedder=HashEmbedder(), config=config, clock=clock) as memory:

        async def away(*args: Any) -> None:
            raise Unavailable("the index is away")

        with monkeypatch.context() as patched:
            patched.setattr(memory.parts.index, "upsert", away)
            result = await memory.commit_session("acme", "lin", "s", turns=TALK, llm=everything())
        assert result.status == "success"
        assert "index_pending" in {d.what for d in result.degraded}
        assert (home / ME / "memories/profile/profile/content.md").exists()
        assert (await memory.claims("acme", "lin")).items == ()
        clock.tick(hours=1)
        assert (await memory.run_jobs()).succeeded == 1
        assert len((await memory.claims("acme", "lin", limit=100)).items) == 6


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (SessionArchive, "session_id archive_uri summary recent_messages used_contexts used_tools stats"),
        (SessionStats, "total_turns total_tokens compression_count memories_extracted"),
        (WriteResult, "uri action node_version created updated"),
        (WritePlan, "action target_uri relation_ops reason"),
        (CommitResult, "archive write_results outbox_events stats status"),
        (
            CommitStats,
            "candidates_extracted candidates_skipped nodes_created nodes_merged nodes_appended relations_written "
            "outbox_events_queued duration_ms",
        ),
        (OutboxEvent, "event_id event_type uri payload status"),
        (Edge, "from_uri to_uri relation_type reason weight created_at"),
        (ChunkRecord, "chunk_id uri level chunk_index text_content"),
        (NodeStat, "uri exists version size updated_at"),
        (NodeSummary, "uri name is_dir has_children category updated_at"),
        (IndexBatchResult, "claimed succeeded failed"),
    ],
)
def test_3_the_types_have_the_fields_of_the_seed(kind: Any, names: str) -> None:
    assert set(names.split()) <= {f.name for f in fields(kind)}


def test_3_3_and_3_4_the_words_of_the_enumerations() -> None:
    assert {"profile", "preferences", "entities", "events", "cases", "patterns", "skills"} <= {s.value for s in Shelf}
    assert {"create", "merge", "append", "skip"} <= {a.value for a in PlanAction}
    assert {e.value for e in OutboxEventType} == {
        "UPSERT_CONTEXT", "DELETE_CONTEXT", "MOVE_CONTEXT", "UPSERT_RELATION",
    }  # fmt: skip
    assert set(RELATION_TYPES) == {"related_to", "derived_from", "part_of", "references"}
    assert set(ToolStats.model_fields) == {
        "tool_name", "skill_name", "call_count", "success_count", "total_duration_ms", "total_tokens", "best_for",
        "common_failures",
    }  # fmt: skip


def test_3_10_9_5_10_5_15_4_the_defaults() -> None:
    assert CommitOptions() == CommitOptions(False, False, False, False, None, None)
    assert DedupConfig() == DedupConfig(5, 0.85, True)
    assert ArchiveConfig() == ArchiveConfig(50, True, 500)
    assert PipelineConfig() == PipelineConfig(0.5, 5000, 20, 4)
    assert CommitConfig() == CommitConfig(20, True, 3, True, True, False)
    assert Job("j", "index", "t").max_retries == 3  # type: ignore[arg-type]


# --- 9


def test_9_the_archive_holds_the_session_in_short(memory: Memory, home: Path) -> None:
    used = [{"name": "pytest", "calls": 1}]
    result = commit(memory, everything(), used_contexts=[f"{URI}/memories/profile/profile"], used_tools=used)
    archive = result.archive
    assert archive is not None
    assert (archive.session_id, archive.archive_uri) == ("s", f"{URI}/sessions/s/archives/1")
    assert (archive.summary, archive.key_topics) == (SAID["summary"], ("Project Alpha", "Python"))
    assert (archive.key_decisions, archive.unresolved) == (("four spaces in Python",), ("Anna",))
    assert [m["text"] for m in archive.recent_messages] == [t["text"] for t in TALK]
    assert (archive.used_contexts, archive.used_tools) == ((f"{URI}/memories/profile/profile",), tuple(used))
    assert (archive.stats.total_turns, archive.stats.compression_count, archive.stats.memories_extracted) == (4, 1, 6)
    assert archive.stats.total_tokens > 20
    body = json.loads((home / ME / "sessions/s/archives/1/commit.json").read_text(encoding="utf-8"))
    assert {name: body[name] for name in SAID} == SAID
    assert (body["used_contexts"], body["used_tools"]) == ([f"{URI}/memories/profile/profile"], used)


def test_9_3_only_the_last_messages_are_summed_up_and_kept(home: Path) -> None:
    config = Config(archive=ArchiveConfig(max_recent_messages=2))
    with Memory(home, embedder="hash", config=config) as memory:
        llm = everything(more={SUMMARY: [{"summary": "pytest passed"}]})
        archive = commit(memory, llm).archive
        assert archive is not None
        assert [m["turn_id"] for m in archive.recent_messages] == ["t3", "t4"]
        (asked,) = [m for m in llm.asked if asking(m) == SUMMARY]
        assert "four spaces" not in asked[-1].text


def test_9_4_the_prompt_asks_for_summary_topics_decisions_and_what_is_open() -> None:
    for language in ("zh", "en"):
        text = "\n".join(
            m.text
            for m in prompt(SUMMARY).render(language, messages="M", tools="T", max_tokens="500")  # type: ignore[arg-type]
        )
        assert all(word in text for word in ("summary", "key_topics", "key_decisions", "unresolved", "500"))


def test_9_5_what_is_not_to_be_kept_is_not_on_the_disk(home: Path) -> None:
    with Memory(home, embedder="hash", config=Config(archive=ArchiveConfig(persist_archive=False))) as memory:
        result = commit(memory, everything())
        assert result.archive is not None
        assert result.archive.summary == SAID["summary"]
        body = json.loads((home / ME / "sessions/s/archives/1/commit.json").read_text(encoding="utf-8"))
        assert (body["summary"], body["key_topics"], body["key_decisions"]) == ("", [], [])


def test_9_a_summary_that_names_what_nobody_said_is_replaced(memory: Memory) -> None:
    invented = {"summary": "Project Omega ships on 2030-01-01."}
    llm = everything(more={SUMMARY: [invented, invented]})
    result = commit(memory, llm)
    assert result.archive is not None
    assert "Omega" not in result.archive.summary
    assert "summary" in {d.what for d in result.degraded}


# --- 10


def test_10_3_each_extractor_has_its_shelves() -> None:
    assert {
        PROFILE: {Shelf.PROFILE},
        PREFERENCES: {Shelf.PREFERENCES, Shelf.RULES},
        "extraction.entity_event": {Shelf.ENTITIES, Shelf.EVENTS, Shelf.TASKS},
        "extraction.procedure": {Shelf.CASES, Shelf.PATTERNS, Shelf.SKILLS},
    } == EXTRACTORS


def test_10_3_claims_stand_where_the_seed_puts_them(memory: Memory) -> None:
    result = commit(memory, everything())
    where = {c.shelf.value: c.node_uri.removeprefix(f"{URI}/memories/") for c in result.claims if c is not None}
    assert where["profile"] == "profile/profile"
    assert where["preferences"] == "preferences/code-style"
    assert where["entities"] in ("entities/project-alpha", "entities/anna")
    assert where["events"].startswith("events/")
    assert where["skills"].startswith("skills/pytest")


def test_10_2_what_is_too_uncertain_is_left_out_and_named(memory: Memory) -> None:
    unsure = {**WORKS, "confidence": 0.49}
    result = commit(memory, everything(unsure, SPACES))
    assert [c.statement for c in result.claims] == [SPACES["statement"]]
    assert [(r.text, "0.49" in r.reason) for r in result.rejected] == [(WORKS["statement"], True)]
    assert (result.stats.candidates_extracted, result.stats.candidates_skipped) == (2, 1)


def test_10_2_two_that_say_the_same_become_one_with_the_words_of_both(memory: Memory) -> None:
    again = {"turn_id": "t5", "role": "user", "text": "Again: I prefer four spaces in Python code!"}
    second = fact(
        again, "I prefer four spaces in Python code", SPACES["statement"], "preferences", routing_key="Code style",
        confidence=0.95,
    )  # fmt: skip
    tags = tagging(*TAGS["tags"], tag(again, "I prefer four spaces", "preference"))
    result = commit(memory, model(script(tags, SPACES, second, summary=SAID)), [*TALK, again])
    (claim,) = result.claims
    assert (claim.confidence, claim.source_turn_ids) == (0.95, ("t5", "t2"))


def test_10_2_long_content_is_cut(home: Path) -> None:
    with Memory(home, embedder="hash", config=Config(pipeline=PipelineConfig(max_content_length=8))) as memory:
        (claim,) = commit(memory, everything(SPACES)).claims
        assert (claim.content, claim.overview) == ("I prefer", "- four s")


def test_10_4_the_prompts_ask_for_three_levels_absolute_dates_and_details() -> None:
    for name in EXTRACTORS:
        shown = {"summary": "S", "messages": "M", "tags": "T", "tools": "X"}
        text = "\n".join(m.text for m in prompt(name).render("zh", **shown))
        assert all(word in text for word in ("overview", "content", "confidence", "绝对日期"))


# --- 11


def test_11_2_every_category_has_its_policy() -> None:
    assert {s.value: rule.policy for s, rule in SHELVES.items()} == {
        "profile": "profile",
        "preferences": "aggregate_topic",
        "entities": "aggregate_topic",
        "events": "append_only",
        "cases": "append_only",
        "patterns": "aggregate_topic",
        "skills": "skill_tool",
        "tasks": "aggregate_topic",
        "rules": "aggregate_topic",
    }


def test_11_4_the_profile_is_one_node_and_everything_merges_into_it(memory: Memory) -> None:
    for n, (words, statement) in enumerate([("我是程序员。", "用户是程序员"), ("我 30 岁了。", "用户 30 岁了")], 1):
        turns, llm = one_fact(n, words, statement, "profile", more={MERGE: [ModelFailed("away")]})
        result = commit(memory, llm, turns, f"s{n}")
        assert [(w.uri, w.created, w.updated) for w in result.write_results] == [
            (f"{URI}/memories/profile/profile", n == 1, n == 2)
        ]
    node = memory.node("acme", "lin", f"{URI}/memories/profile/profile")
    assert "程序员" in node.content
    assert "30 岁" in node.content


def test_11_4_events_are_created_each_time(memory: Memory) -> None:
    for n in (1, 2):
        turns, llm = one_fact(n, "We shipped the release.", "User shipped the release", "events", routing_key="release")
        assert commit(memory, llm, turns, f"s{n}").stats.nodes_created == 1
    assert len(memory.nodes("acme", "lin", "events")) == 2


def test_11_4_a_skill_adds_up_what_was_counted_not_what_was_said(memory: Memory) -> None:
    failed = {"turn_id": "t9", "role": "tool", "speaker": "tool:pytest", "text": "pytest error: 1 test in 2 seconds"}
    commit(memory, everything(TOOL))
    second = fact(
        failed, "pytest error: 1 test in 2 seconds", "pytest error: 1 test in 2 seconds", "skills",
        routing_key="pytest", tool={"tool_name": "pytest", "call_count": 50},
    )  # fmt: skip
    tags = tagging(tag(failed, "pytest error", evidence_level="S2_tool_grounded"))
    commit(memory, model(script(tags, second, more={MERGE: [ModelFailed("away")]})), [failed], "b")
    (node,) = [memory.node("acme", "lin", n.uri) for n in memory.nodes("acme", "lin", "skills")]
    assert (node.metadata["tool"]["call_count"], node.metadata["tool"]["success_count"]) == (2, 1)


def trace(
    *steps: tuple[str, bool, str], ask: str = "帮我修复登录测试失败的问题。", end: str = "已修复。"
) -> dict[str, Any]:
    """An agent at work: what was asked, a result for every (tool, ok, output), and what the agent said in the end."""
    done: list[dict[str, Any]] = [{"type": "user_message", "text": ask}] if ask else []
    for n, (name, ok, output) in enumerate(steps):
        tool = {"name": name, "call_id": f"c{n}"}
        done.append({"type": "tool_call", "tool": tool})
        told = {**tool, "output": output, "ok": ok, "duration_ms": 100 + n}
        done.append({"type": "tool_result", "tool": told, "usage": {"input_tokens": 4, "output_tokens": 6}})
    done += [{"type": "assistant_message", "text": end}] if end else []
    return {"schema": "agent_trace_v1", "steps": done}


FIXING = (
    ("grep", True, "src/login.py:12: def login"), ("pytest", False, "1 failed: test_login, 11 passed"),
    ("edit", True, "edited src/login.py"), ("pytest", True, "12 passed, 0 failed"),
)  # fmt: skip


def work(memory: Memory, session: str, given: Any, llm: Any = "rules", **more: Any) -> CommitResult:
    return memory.commit_session("acme", "lin", session, raw=given, input_format="agent_trace_v1", llm=llm, **more)


def statistics(memory: Memory) -> dict[str, ToolStats]:
    nodes = [memory.node("acme", "lin", n.uri) for n in memory.nodes("acme", "lin", "skills")]
    return {n.metadata["title"]: ToolStats.model_validate(n.metadata["tool"]) for n in nodes}


def test_11_4_tools_of_a_trace_are_counted_once_and_add_up_over_commits(memory: Memory) -> None:
    for _ in range(2):  # the same call again counts nothing twice
        work(memory, "s1", trace(*FIXING))
    pytest_ = statistics(memory)["pytest"]
    assert (pytest_.call_count, pytest_.success_count, pytest_.total_duration_ms, pytest_.total_tokens) == (
        2,
        1,
        204,
        20,
    )
    assert (pytest_.success_rate, pytest_.avg_duration_ms) == (0.5, 102.0)
    assert pytest_.common_failures == "1 failed: test_login, 11 passed"
    longer = trace(*FIXING)
    longer["steps"] += trace(("pytest", True, "13 passed"), ("pytest", True, "14 passed"), ask="再跑两次。")["steps"]
    work(memory, "s1", longer)  # the session goes on: what is new in it is added
    work(memory, "s2", trace(*FIXING))
    assert (statistics(memory)["pytest"].call_count, statistics(memory)["pytest"].success_count) == (6, 4)
    (node,) = [memory.node("acme", "lin", n.uri) for n in memory.nodes("acme", "lin", "skills") if "pytest" in n.uri]
    assert "6 calls, 4 went well (67%)" in node.content
    assert "6 calls, 4 went well (67%)" in node.overview
    memory.session_write(
        "acme", "lin", "s1", raw=longer, input_format="agent_trace_v1", llm="rules", overwrite_existing=True
    )
    assert statistics(memory)["pytest"].call_count == 6
    memory.forget("acme", "lin", session_id="s1")
    assert (statistics(memory)["pytest"].call_count, statistics(memory)["pytest"].success_count) == (2, 1)
    assert memory.verify().ok


@pytest.mark.parametrize("llm", ["rules", "model"])
def test_11_4_used_tools_are_counted_with_and_without_a_model(memory: Memory, llm: str) -> None:
    used = [
        {"tool_name": "grep", "call_count": 3, "success_count": 2, "total_duration_ms": 120, "best_for": "查日志"},
        {"name": "ls", "ok": True, "duration_ms": 5, "tokens": 7},
        {"name": "ls", "status": "error", "error": "没有这个目录"},
    ]
    talk = [{"turn_id": f"t{n}", "role": "user", "text": text} for n, text in enumerate(["看看日志", "谢谢", "再见"])]
    for session in ("a", "a", "b"):
        models = {"rules": "rules", "model": model(script(tagging(), summary={"summary": "看看日志"}))}
        result = commit(memory, models[llm], talk, session, used_tools=used)
        assert result.status == "success"
    assert statistics(memory) == {
        "grep": ToolStats(
            tool_name="grep", call_count=6, success_count=4, total_duration_ms=240, best_for="查日志"
        ),
        "ls": ToolStats(
            tool_name="ls", call_count=4, success_count=2, total_duration_ms=10, total_tokens=14,
            common_failures="没有这个目录",
        ),
    }  # fmt: skip
    (proof,) = {s.text_exact for c in result.claims if c.routing_key == "grep" for s in c.spans}
    assert json.loads(proof)["call_count"] == 3
    assert memory.verify().notes == []
    more = [*talk, {"turn_id": "t9", "role": "user", "text": "再看一次"}]
    models = {"rules": "rules", "model": model(script(tagging(), summary={"summary": "看看日志"}))}
    commit(memory, models[llm], more, "b", used_tools=used[:1])  # a later round of the same session
    assert statistics(memory)["grep"].call_count == 9


def test_11_4_whichever_write_fails_the_call_made_again_counts_everything_once(home: Path, clock: FixedClock) -> None:
    writes = ("append_turns", "write_tags", "put_claims", "write_commit", "write_node", "upsert_edges", "write_session")
    used, left = [{"name": "ls", "call_count": 2, "success_count": 1}], 1
    expected = {"grep": (1, 1), "pytest": (2, 1), "edit": (1, 1), "ls": (2, 1)}
    for broken in range(1, 60, 1 if os.environ.get("MNEMON_LONG") else 4):
        config = Config(background_worker=False)
        with Memory(home / str(broken), embedder="hash", config=config, clock=clock) as memory:
            left = broken
            with pytest.MonkeyPatch.context() as patched:
                for name in writes:
                    honest = getattr(memory.parts.archive, name)

                    async def at_last_not(*args: Any, _honest: Any = honest, **given: Any) -> Any:
                        nonlocal left
                        left -= 1
                        if left == 0:
                            raise StorageFailed("no room")
                        return await _honest(*args, **given)

                    patched.setattr(memory.parts.archive, name, at_last_not)
                with suppress(StorageFailed, CommitError):
                    work(memory, "s", trace(*FIXING), used_tools=used)
            work(memory, "s", trace(*FIXING), used_tools=used)
            told = {name: (t.call_count, t.success_count) for name, t in statistics(memory).items()}
            assert told == expected, broken
            assert memory.verify().ok
        if left > 0:  # it got by without the one that was to fail
            break
    assert 12 < broken < 56


def test_11_4_a_trace_and_used_tools_are_two_accounts_of_the_same_calls(memory: Memory) -> None:
    work(memory, "a", trace(*FIXING), used_tools=[{"name": "pytest", "calls": 2}, {"name": "grep", "call_count": 5}])
    told = statistics(memory)
    assert (told["pytest"].call_count, told["pytest"].success_count, told["pytest"].total_duration_ms) == (2, 1, 204)
    assert (told["grep"].call_count, told["grep"].success_count, told["grep"].total_duration_ms) == (5, 5, 100)


def test_11_4_with_a_model_a_tool_is_counted_by_the_program_and_described_by_the_model(memory: Memory) -> None:
    failed = {"turn_id": "t5", "role": "tool", "text": "1 failed: test_login, 11 passed"}
    ok = {"turn_id": "t9", "role": "tool", "text": "12 passed, 0 failed"}
    guide = {"tool_name": "pytest", "call_count": 40, "best_for": "登录测试", "common_failures": "火星撞地球"}
    drafts = [
        fact(ok, "12 passed, 0 failed", "pytest 12 passed, 0 failed", "skills", routing_key="pytest", tool=guide),
        fact(failed, "1 failed", "pytest 1 failed", "skills", routing_key="pytest", tool={"tool_name": "pytest"}),
    ]
    given = trace(*FIXING)
    for step, name in zip(given["steps"][1:-1], "23456789", strict=True):
        step["meta"] = {}
        step["step_id"] = name
    tags = tagging(tag({**ok, "turn_id": "t0009"}, "12 passed"), tag({**failed, "turn_id": "t0005"}, "1 failed"))
    for draft, at in zip(drafts, ("t0009", "t0005"), strict=True):
        draft["spans"][0]["turn_id"] = at
    work(memory, "s", given, model(script(tags, *drafts, summary={"summary": "已修复。"})))
    told = statistics(memory)["pytest"]
    assert (told.call_count, told.success_count, told.total_duration_ms) == (2, 1, 204)
    assert (told.best_for, told.common_failures) == ("登录测试", "")
    assert set(statistics(memory)) == {"pytest", "grep", "edit"}


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({}, "used_tools[0].name"),
        ({"name": "x", "call_count": "3"}, "used_tools[0].call_count"),
        ({"name": "x", "call_count": 1, "success_count": 2}, "used_tools[0].success_count"),
        ({"name": "x", "duration_ms": -1}, "used_tools[0].duration_ms"),
    ],
)
def test_3_2_used_tools_that_cannot_be_counted_are_refused_before_anything_is_kept(
    memory: Memory, record: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        commit(memory, "rules", used_tools=[record])
    assert caught.value.field == field
    assert memory.status().turns == 0


@pytest.mark.parametrize(
    ("given", "cases"),
    [
        (
            trace(*FIXING),
            ["处理“帮我修复登录测试失败的问题”：grep → pytest（失败） → edit → pytest；最后得到：12 passed, 0 failed"],
        ),
        (
            trace(("ls", True, "three files"), ("cat", True, "port = 8080"), ask="Which port is set?", end="8080."),
            ["On “Which port is set?”: ls → cat; in the end: port = 8080"],
        ),
        (trace(("pytest", False, "1 failed"), ("edit", True, "edited a.py"), ("pytest", False, "1 failed")), []),
        (trace(("pytest", False, "1 failed"), ("ls", True, "three files")), []),  # nobody shows that it was mended
        (trace(("ls", True, "three files"), ("cat", True, "port = 8080"), end=""), []),  # nobody came back with it
        (trace(("ls", True, "three files")), []),
        (
            trace(*FIXING[1:], ask="", end=""),
            [
                "On “1 failed: test_login, 11 passed”: pytest (failed) → edit → pytest; "
                "in the end: 12 passed, 0 failed"
            ],
        ),
    ],
)  # fmt: skip
def test_10_3_a_case_is_what_a_trace_proves_and_no_more(memory: Memory, given: Any, cases: list[str]) -> None:
    found = [c for c in work(memory, "s", given).claims if c.shelf is Shelf.CASES]
    assert [c.statement for c in found] == cases
    for case in found:
        assert {memory_role(memory, s.turn_id) for s in case.spans} >= {"tool"}
        assert case.governance.evidence_level == "S2_tool_grounded"
    assert memory.verify().ok


def memory_role(memory: Memory, turn_id: str) -> str:
    found = memory.bind("acme", "lin").messages_list(page_size=200).items
    return next(m.role for m in found if m.meta["turn_id"] == turn_id)


def test_10_3_steps_that_led_to_a_result_again_are_a_pattern_derived_from_its_cases(memory: Memory) -> None:
    first = work(memory, "s1", trace(*FIXING))
    assert not [c for c in first.claims if c.shelf is Shelf.PATTERNS]
    second = work(memory, "s2", trace(*FIXING, ask="Fix the login, please.", end="Done."))
    (pattern,) = [c for c in second.claims if c.shelf is Shelf.PATTERNS]
    assert pattern.statement == "The steps grep → pytest → edit → pytest led to a result more than once"
    cases = {c.node_uri for r in (first, second) for c in r.claims if c.shelf is Shelf.CASES}
    edges = memory.relations("acme", "lin", pattern.node_uri, relation_type="derived_from")
    assert {(e.from_uri, e.to_uri) for e in edges} == {(pattern.node_uri, case) for case in cases}
    assert work(memory, "s2", trace(*FIXING, ask="Fix the login, please.", end="Done.")).claims == ()
    memory.forget("acme", "lin", session_id="s1")
    left = memory.relations("acme", "lin", pattern.node_uri, relation_type="derived_from")
    assert [e.reason for e in left] == ["s2"]
    assert memory.verify().ok


@pytest.mark.parametrize(
    ("topic", "slug"),
    [("排障", "排障"), ("troubleshooting", "troubleshooting"), ("嫁给马可", "general"), ("2030 计划", "general"),
     ("../../etc", "etc"), ("一二三四五六七八九十一二三", "general")],
)  # fmt: skip
def test_3_3_a_topic_word_of_the_models_own_is_kept_where_it_says_nothing(
    memory: Memory, topic: str, slug: str
) -> None:
    words = "出问题时先看日志再看代码"
    turns, llm = one_fact(1, words, words, "preferences", routing_key=topic)
    (claim,) = commit(memory, llm, turns).claims
    assert claim.node_uri == f"{URI}/memories/preferences/{slug}"


TEA = ("I like green tea in the morning.", "User likes green tea in the morning", {"routing_key": "tea"})
TEA_AGAIN = ("I like green tea in the evening.", "User likes green tea in the evening", {"routing_key": "evenings"})


@pytest.mark.parametrize(
    ("decision", "nodes", "skipped"),
    [("create", {"tea", "evenings"}, 0), ("merge_existing", {"tea"}, 0), ("skip", {"tea"}, 1)],
)
def test_11_5_the_model_decides_about_what_is_alike(
    alike: Memory, decision: str, nodes: set[str], skipped: int
) -> None:
    turns, llm = one_fact(1, TEA[0], TEA[1], **TEA[2])
    commit(alike, llm, turns, "a")
    decided: dict[str, Any] = {DEDUP: [{"decision": decision}], MERGE: [ModelFailed("away")]}
    turns, llm = one_fact(2, TEA_AGAIN[0], TEA_AGAIN[1], **TEA_AGAIN[2], more=decided)
    result = commit(alike, llm, turns, "b")
    assert {n.name for n in alike.nodes("acme", "lin", "preferences")} == nodes
    assert result.stats.candidates_skipped == skipped
    words = [alike.node("acme", "lin", n.uri).content for n in alike.nodes("acme", "lin")]
    assert all(any(f"> {said[:-1]}" in text for text in words) for said in (TEA[0], TEA_AGAIN[0]))
    assert alike.verify().notes == []


def test_11_5_below_the_threshold_nobody_is_asked(alike: Memory) -> None:
    turns, llm = one_fact(1, TEA[0], TEA[1], **TEA[2])
    commit(alike, llm, turns, "a")
    turns, llm = one_fact(2, "I play the violin.", "User plays the violin", routing_key="music")
    commit(alike, llm, turns, "b")
    assert DEDUP not in {asking(m) for m in llm.asked}
    assert len(alike.nodes("acme", "lin")) == 2


def test_11_5_the_decision_of_a_model_can_be_switched_off(home: Path) -> None:
    config = Config(dedup=DedupConfig(similarity_threshold=0.6, enable_llm_decision=False))
    with Memory(home, embedder=Likeness(), config=config) as memory:
        for n, (words, statement, given) in enumerate([TEA, TEA_AGAIN], 1):
            turns, llm = one_fact(n, words, statement, **given, more={MERGE: [ModelFailed("away")]})
            commit(memory, llm, turns, f"s{n}")
        assert {n.name for n in memory.nodes("acme", "lin")} == {"tea"}


def test_11_5_rules_decide_without_a_model(home: Path) -> None:
    config = Config(dedup=DedupConfig(similarity_threshold=0.6))
    with Memory(home, embedder=Likeness(), config=config) as memory:
        turns, llm = one_fact(1, TEA[0], TEA[1], **TEA[2])
        commit(memory, llm, turns, "a")
        result = commit(memory, "rules", [{"turn_id": "x", "role": "user", "text": TEA[0]}], "b")
        assert [n.name for n in memory.nodes("acme", "lin")] == ["tea"]
        assert result.stats.nodes_created == 0


def test_11_5_an_index_that_is_away_makes_it_new_and_says_so(alike: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    turns, llm = one_fact(1, TEA[0], TEA[1], **TEA[2])
    commit(alike, llm, turns, "a")

    async def away(*args: Any) -> list[Any]:
        raise Unavailable("the index is away")

    monkeypatch.setattr(alike.parts.index, "search", away)
    turns, llm = one_fact(2, TEA_AGAIN[0], TEA_AGAIN[1], **TEA_AGAIN[2])
    result = commit(alike, llm, turns, "b")
    assert result.status == "success"
    assert any(d.what == "dedup" and "away" in d.why for d in result.degraded)
    assert {n.name for n in alike.nodes("acme", "lin")} == {"tea", "evenings"}


def test_11_6_a_merge_in_the_models_words_says_only_what_the_claims_say(memory: Memory) -> None:
    tea = {"routing_key": "drinks"}
    turns, llm = one_fact(1, TEA[0], TEA[1], **tea)
    commit(memory, llm, turns, "a")
    told = {"abstract": "User likes green tea in the morning, in the evening", "overview": "- green tea", "content": ""}
    turns, llm = one_fact(2, TEA_AGAIN[0], TEA_AGAIN[1], **tea, more={MERGE: [told]})
    commit(memory, llm, turns, "b")
    node = memory.node("acme", "lin", f"{URI}/memories/preferences/drinks")
    assert (node.abstract, node.overview) == (told["abstract"], told["overview"])
    assert node.content.count("> I like green tea") == 2
    invented: dict[str, Any] = {**told, "abstract": "User likes coffee"}
    turns, llm = one_fact(
        3, "I like green tea at noon.", "User likes green tea at noon", **tea, more={MERGE: [invented, invented]}
    )
    result = commit(memory, llm, turns, "c")
    assert "merge" in {d.what for d in result.degraded}
    assert "coffee" not in memory.node("acme", "lin", node.key.uri).content


# --- 12, 13


def test_12_a_node_is_written_as_files_and_the_commit_keeps_before_and_after(memory: Memory, home: Path) -> None:
    for n, (words, statement, _) in enumerate([TEA, TEA_AGAIN], 1):
        turns, llm = one_fact(n, words, statement, routing_key="drinks", more={MERGE: [ModelFailed("away")]})
        result = commit(memory, llm, turns, f"s{n}")
    folder = home / ME / "memories/preferences/drinks"
    assert {p.name for p in folder.iterdir()} == {".abstract.md", ".overview.md", "content.md", ".meta.json"}
    (written,) = result.write_results
    assert (written.action, written.node_version, written.created, written.updated) == ("merge", 2, False, True)
    body = json.loads((home / ME / "sessions/s2/archives/1/commit.json").read_text(encoding="utf-8"))
    (change,) = body["changes"]
    assert (change["action"], change["before"]["version"]) == ("merge", 1)
    assert "evening" not in change["before"]["content"]
    assert "evening" in change["after"]["content"]
    assert change["after"]["content"] == (folder / "content.md").read_text(encoding="utf-8")
    assert "1 new" in change["reason"]


def test_12_earlier_versions_are_kept_five_of_them(memory: Memory) -> None:
    for n in range(1, 9):
        turns, llm = one_fact(n, f"I like tea {n}.", f"User likes tea {n}", routing_key="tea", more={
            MERGE: [ModelFailed("away")]
        })  # fmt: skip
        commit(memory, llm, turns, f"s{n}")
    history = memory.node_history("acme", "lin", f"{URI}/memories/preferences/tea")
    assert [r.node.version for r in history] == [7, 6, 5, 4, 3]


def test_13_a_node_refers_to_those_it_names(memory: Memory, home: Path) -> None:
    result = commit(memory, everything(PROJECT, ANNA))
    body = json.loads((home / ME / "memories/entities/project-alpha/.relations.json").read_text(encoding="utf-8"))
    (edge,) = body["edges"]
    assert (edge["to_uri"], edge["relation_type"], edge["reason"]) == (
        f"{URI}/memories/entities/anna", "references", "Anna",
    )  # fmt: skip
    assert result.stats.relations_written == 1
    assert [(e.event_type, e.payload) for e in result.outbox_events if e.event_type == "UPSERT_RELATION"] == [
        ("UPSERT_RELATION", {"to_uri": edge["to_uri"], "relation_type": "references"})
    ]


def test_8_and_13_the_four_relation_types_are_made_shown_followed_and_removed(memory: Memory) -> None:
    at = f"{URI}/memories"
    happened = {**SHIPS, "subject": "Project Alpha", "entity_names": ["Anna"]}
    commit(memory, everything(PROJECT, ANNA, happened, SPACES, WORKS))
    (event,) = [n.uri for n in memory.nodes("acme", "lin", "events")]
    alpha, anna = f"{at}/entities/project-alpha", f"{at}/entities/anna"
    shown = {(e.from_uri, e.relation_type, e.to_uri) for e in memory.relations("acme", "lin", event)}
    assert shown == {(event, "part_of", alpha), (event, "references", anna)}
    tea = {"turn_id": "t", "role": "user", "text": "I like jasmine tea and I live in Paris."}
    told = [
        fact(tea, tea["text"], "User likes jasmine tea", "preferences", routing_key="tea"),
        fact(tea, tea["text"], "User lives in Paris", "entities", routing_key="Paris"),
    ]
    commit(memory, model(script(tagging(tag(tea, "I like jasmine tea", "preference")), *told)), [tea], "tea")
    (edge,) = memory.relations("acme", "lin", f"{at}/preferences/tea")
    assert ({edge.from_uri, edge.to_uri}, edge.relation_type) == (
        {f"{at}/preferences/tea", f"{at}/entities/paris"}, "related_to",
    )  # fmt: skip
    assert edge.reason == "tea#t"  # where the words stand, not what they are: an edge must not outlive them
    found = work(memory, "t", trace(*FIXING)).claims
    skills = {c.routing_key: c.node_uri for c in found if c.shelf is Shelf.SKILLS}
    assert [(e.relation_type, e.to_uri) for e in memory.relations("acme", "lin", f"{at}/entities/edit")] == [
        ("derived_from", skills["edit"])
    ]
    # made and followed by hand
    assert (
        memory.relate("acme", "lin", alpha, f"{at}/entities/paris", reason="同一项目上下文").reason == "同一项目上下文"
    )
    near = memory.relations("acme", "lin", f"{at}/preferences/tea", hops=3)
    assert {alpha, anna, event} <= {e.to_uri for e in near} | {e.from_uri for e in near}
    assert memory.relations("acme", "lin", anna, relation_type="part_of") == []
    # a memory that moves keeps them, one that goes takes them along
    memory.move_node("acme", "lin", alpha, "Alpha")
    alpha = f"{at}/entities/alpha"
    assert (event, "part_of", alpha) in {
        (e.from_uri, e.relation_type, e.to_uri) for e in memory.relations("acme", "lin", alpha)
    }
    assert memory.unrelate("acme", "lin", alpha, f"{at}/entities/paris") == 1
    (claim,) = [c for c in memory.claims("acme", "lin", shelf="entities", limit=100).items if c.node_uri == anna]
    memory.reject("acme", "lin", claim.claim_id)
    assert not [e for e in memory.relations("acme", "lin", event) if e.to_uri == anna]
    assert not list_of_edges_to(memory, anna)
    assert memory.verify().ok


def list_of_edges_to(memory: Memory, uri: str) -> list[str]:
    files = Path(memory.parts.home or ".").rglob(".relations.json")
    return [str(f) for f in files if uri in f.read_text(encoding="utf-8")]


@pytest.mark.parametrize(
    ("given", "field"),
    [({"to_uri": "nowhere"}, "uri"), ({"relation_type": "likes"}, "relation_type"), ({"weight": 2}, "weight")],
)
def test_8_a_relation_that_cannot_be_is_refused(memory: Memory, given: dict[str, Any], field: str) -> None:
    commit(memory, everything(PROJECT, ANNA))
    alpha, anna = (f"{URI}/memories/entities/{name}" for name in ("project-alpha", "anna"))
    with pytest.raises(InvalidArgument) as caught:
        memory.relate("acme", "lin", **{"uri": alpha, "to_uri": anna, **given})
    assert caught.value.field == field
    with pytest.raises(NotFound):
        memory.relate("acme", "lin", alpha, f"{anna}-gone")
    with pytest.raises(NotFound):
        memory.relations("acme", "mei", alpha)


# --- 14


def test_14_2_an_event_for_every_node_written(memory: Memory) -> None:
    result = commit(memory, everything())
    upserts = {e.uri: e.payload for e in result.outbox_events if e.event_type == OutboxEventType.UPSERT_CONTEXT}
    assert upserts == {w.uri: {"action": w.action, "version": w.node_version} for w in result.write_results}
    assert result.stats.outbox_events_queued == len(result.outbox_events)
    assert len({e.event_id for e in result.outbox_events}) == len(result.outbox_events)


def test_14_a_queue_that_is_away_does_not_stop_the_commit_and_repair_makes_up_for_it(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*args: Any) -> bool:
        raise Unavailable("the queue is away")

    with monkeypatch.context() as patched:
        patched.setattr(memory.parts.queue, "take", away)
        result = commit(memory, everything())
    assert (result.status, result.outbox_events, result.stats.outbox_events_queued) == ("success", (), 0)
    assert "queue" in {d.what for d in result.degraded}
    assert len(memory.claims("acme", "lin", limit=100).items) == 6
    assert memory.verify().notes == []


# --- 15


def test_15_2_a_commit_says_what_it_came_to(memory: Memory) -> None:
    result = commit(memory, everything())
    assert result.status == "success"
    stats = result.stats
    assert (stats.candidates_extracted, stats.candidates_skipped, stats.nodes_created) == (6, 0, 6)
    assert (stats.nodes_merged, stats.nodes_appended) == (0, 0)
    assert stats.duration_ms > 0
    assert memory.verify().ok


def test_15_2_messages_are_a_session_too_and_a_later_commit_adds_to_it(memory: Memory) -> None:
    first = [{"role": "user", "content": "我喜欢喝绿茶。"}]
    memory.commit_session("acme", "lin", "s", first, llm="rules")
    more = [*first, {"role": "assistant", "content": "好的"}, {"role": "user", "content": "I live in Paris."}]
    result = memory.commit_session("acme", "lin", "s", more, llm="rules")
    assert [c.statement for c in result.claims] == ["User lives in Paris"]
    assert len(memory.claims("acme", "lin").items) == 2


def test_15_a_dry_run_plans_everything_and_writes_nothing_at_all(memory: Memory, home: Path) -> None:
    commit(memory, everything(WORKS))
    before, rows = on_disk(home), indexed(memory)
    more = {"turn_id": "t5", "role": "user", "text": "I like tea."}
    told = fact(more, "I like tea", "User likes tea", "preferences", routing_key="tea")
    llm = model(script(tagging(tag(more, "I like tea", "preference")), told))
    result = commit(memory, llm, [*TALK, more], dry_run=True)
    assert [(p.action, p.target_uri) for p in result.plans] == [("create", f"{URI}/memories/preferences/tea")]
    assert "User likes tea" in str(result.plans[0].after)
    assert result.write_results == result.outbox_events == ()
    assert result.stats.nodes_created == 1
    assert (on_disk(home), indexed(memory), memory.jobs()) == (before, rows, [])
    fresh = commit(memory, everything(more={MERGE: [ModelFailed("away")]}), session="never", dry_run=True)
    assert (fresh.stats.nodes_merged, fresh.stats.nodes_created) == (1, 5)
    assert (on_disk(home), indexed(memory), memory.jobs()) == (before, rows, [])


def test_15_skip_archive_sums_nothing_up(memory: Memory) -> None:
    llm = everything()
    result = commit(memory, llm, skip_archive=True)
    assert result.archive is None
    assert SUMMARY not in {asking(m) for m in llm.asked}
    assert len(result.claims) == 6


def test_15_4_a_short_session_is_not_summed_up(memory: Memory) -> None:
    llm = model(script(tagging(*TAGS["tags"][:2]), WORKS))
    result = commit(memory, llm, TALK[:2])
    assert SUMMARY not in {asking(m) for m in llm.asked}
    assert result.archive is None


def test_15_4_unless_it_is_to_be(home: Path) -> None:
    config = Config(commit=CommitConfig(skip_archive_on_short_session=False))
    with Memory(home, embedder="hash", config=config) as memory:
        turns, _ = one_fact(1, "I like tea.", "User likes tea")
        llm = model(script(tagging(), summary={"summary": "I like tea."}))
        result = commit(memory, llm, turns)
        assert result.archive is not None
        assert result.archive.summary == "I like tea."


def test_15_skip_dedup_asks_nothing_about_what_is_alike(alike: Memory) -> None:
    for n, (words, statement, given) in enumerate([TEA, TEA_AGAIN], 1):
        turns, llm = one_fact(n, words, statement, **given)
        commit(alike, llm, turns, f"s{n}", skip_dedup=True)
    assert {n.name for n in alike.nodes("acme", "lin")} == {"tea", "evenings"}


def test_15_skip_relations_writes_none(memory: Memory, home: Path) -> None:
    result = commit(memory, everything(PROJECT, ANNA), skip_relations=True)
    assert result.stats.relations_written == 0
    assert not list(home.rglob(".relations.json"))


def test_15_only_the_categories_asked_for(memory: Memory) -> None:
    llm = everything()
    result = commit(memory, llm, categories_filter=(Shelf.PROFILE,))
    assert [c.shelf for c in result.claims] == ["profile"]
    assert {asking(m) for m in llm.asked} == {TAGGING, SUMMARY, PROFILE}


def test_15_at_most_so_many_candidates_and_the_rest_is_named(memory: Memory) -> None:
    important = {**SPACES, "importance": 0.95}
    result = commit(memory, everything(WORKS, important, PROJECT), max_candidates=1)
    assert len(result.claims) == 1
    assert len([r for r in result.rejected if "more than 1 candidates" in r.reason]) == 2
    assert "candidates" in {d.what for d in result.degraded}


@pytest.mark.parametrize("where", ["pipeline", "commit"])
def test_15_4_either_setting_limits_the_candidates(home: Path, where: str) -> None:
    limits: dict[str, Any] = {
        "pipeline": PipelineConfig(max_candidates_per_commit=2),
        "commit": CommitConfig(max_candidates_per_commit=2),
    }
    with Memory(home, embedder="hash", config=Config(**{where: limits[where]})) as memory:
        assert len(commit(memory, everything()).claims) == 2
        asked = commit(memory, everything(more={MERGE: [ModelFailed("away")] * 3}), session="b", max_candidates=3)
        assert len(asked.claims) == 3


@pytest.mark.parametrize(
    ("phase", "broken"),
    [
        ("archive", {SUMMARY: [ModelFailed("away")]}),
        ("extract", {TAGGING: [ModelFailed("away")]}),
        ("extract", {name: [ModelFailed("away")] for name in EXTRACTORS}),
    ],
)
def test_15_3_phases_one_to_three_raise_and_leave_no_memory(memory: Memory, phase: str, broken: dict[str, Any]) -> None:
    with pytest.raises(CommitError) as caught:
        commit(memory, everything(more=broken))
    assert (caught.value.phase, caught.value.message) == (phase, "away")
    assert (memory.nodes("acme", "lin"), memory.claims("acme", "lin", state=None).items) == ([], ())
    assert commit(memory, everything(more={TAGGING: [TAGS]})).status == "success"
    assert memory.verify().notes == []


def test_15_3_a_plan_that_fails_says_so(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*args: Any) -> bool:
        raise Unavailable("the archive cannot be read")

    with monkeypatch.context() as patched:
        patched.setattr(memory.parts.archive, "read_node", away)
        with pytest.raises(CommitError) as caught:
            commit(memory, everything(WORKS))
    assert caught.value.phase == "plan"
    assert memory.nodes("acme", "lin") == []


@pytest.mark.parametrize("error", [OSError("disk full"), Unavailable("not now")])
def test_15_3_a_node_that_cannot_be_written_is_partial_and_a_retry_completes(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    write_node = memory.parts.archive.write_node

    async def breaks(scope: Any, node: Node, **given: Any) -> Node:
        if node.key.shelf is Shelf.PREFERENCES:
            raise error
        return await write_node(scope, node, **given)

    with monkeypatch.context() as patched:
        patched.setattr(memory.parts.archive, "write_node", breaks)
        result = commit(memory, everything())
    assert (result.status, result.stats.nodes_created) == ("partial", 5)
    assert [d.why for d in result.degraded if d.what == "node"] == [f"{URI}/memories/preferences/code-style: {error}"]
    assert memory.claims("acme", "lin").items == ()
    llm = ScriptedLLM()
    again = commit(memory, llm)
    assert (again.status, llm.asked, len(again.write_results)) == ("success", [], 6)
    assert again.archive is not None
    assert again.archive.summary == SAID["summary"]
    assert len(memory.claims("acme", "lin", limit=100).items) == 6
    assert memory.verify().notes == []


def test_15_3_on_a_real_disk_too_a_memory_in_the_way_is_passed_over_and_named(memory: Memory, home: Path) -> None:
    blocked = home / "tenants/acme/revisions/users/lin/preferences"
    blocked.parent.mkdir(parents=True)
    blocked.write_text("not a folder")
    result = commit(memory, everything())
    assert (result.status, result.stats.nodes_created) == ("partial", 5)
    (why,) = [d.why for d in result.degraded if d.what == "node"]
    assert str(blocked) in why
    assert "something that is no folder stands where a folder belongs: move it away" in why
    blocked.unlink()
    llm = ScriptedLLM()
    again = commit(memory, llm)
    assert (again.status, llm.asked, len(again.write_results)) == ("success", [], 6)
    assert memory.verify().notes == []


@pytest.mark.parametrize(("block", "phase"), [("memories", "plan"), ("sessions", "archive")])
def test_15_3_what_the_disk_refuses_is_a_commit_error_with_the_file_and_the_cure(
    memory: Memory, home: Path, block: str, phase: str
) -> None:
    (home / ME).mkdir(parents=True)
    (home / ME / block).write_text("in the way")
    with pytest.raises(CommitError) as caught:
        commit(memory, everything())
    assert (caught.value.phase, caught.value.partial_results) == (phase, ())
    assert str(home / ME / block) in caught.value.message
    assert "move it away" in caught.value.message
    (home / ME / block).unlink()
    assert commit(memory, everything()).status == "success"


def test_15_3_a_full_disk_keeps_what_was_acknowledged_and_says_what_helps(
    memory: Memory, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(memory, model(script(tagging(TAGS["tags"][0]), WORKS)), TALK[:1])
    full = OSError(errno.ENOSPC, "No space left on device")

    def no_room(fd: int, data: bytes) -> None:
        raise full

    for module in ("durable", "chainlog"):
        monkeypatch.setattr(f"mnemon.drivers.archive.fs.{module}.write_all", no_room)
    with pytest.raises(StorageFailed) as caught:
        memory.session_write("acme", "lin", "t", turns=TALK, llm="rules")
    assert (caught.value.errno, caught.value.status, caught.value.exit_code) == ("ENOSPC", 503, 7)
    assert str(home) in caught.value.message
    assert "make room and call again" in caught.value.message
    with pytest.raises(CommitError, match="the disk is full"):
        commit(memory, everything(), session="t")
    monkeypatch.undo()
    assert len(memory.claims("acme", "lin").items) == 1
    assert commit(memory, everything(more={MERGE: [ModelFailed("away")]}), session="t").status == "success"
    assert memory.verify().ok


def test_3_1_a_trace_id_is_carried_to_the_job_the_commit_record_and_the_result(memory: Memory, home: Path) -> None:
    result = commit(memory, everything(), trace_id="trace-7")
    assert result.debug["trace_id"] == "trace-7"
    body = json.loads((home / ME / "sessions/s/archives/1/commit.json").read_text(encoding="utf-8"))
    assert body["trace_id"] == "trace-7"
    with pytest.raises(InvalidArgument, match="trace_id"):
        commit(memory, "rules", trace_id="")


def test_3_2_compressions_are_counted(memory: Memory) -> None:
    counts = []
    for n in (2, 4, 8):
        turns = [{"turn_id": f"t{i}", "role": "user", "text": f"I like tea number {i}."} for i in range(n)]
        archive = commit(memory, "rules", turns).archive
        counts.append(archive.stats.compression_count if archive else 0)
    assert counts == [0, 0, 1]  # only what is long enough is put in short
    more = [{"turn_id": f"u{i}", "role": "user", "text": f"I like cake number {i}."} for i in range(3)]
    archive = commit(memory, "rules", more).archive
    assert archive is not None
    assert archive.stats.compression_count == 2


@pytest.mark.parametrize(
    ("said", "first", "topics"),
    [
        (
            ["我是一名后端工程师，在上海工作。", "assistant|恭喜！", "我喜欢喝绿茶。"],
            "我是一名后端工程师，在上海工作。", {"后端工程师", "绿茶"},
        ),
        (
            ["Hi", "I'm a nurse and I hate mornings.", "assistant|Nice!", "I like jasmine tea."],
            "I'm a nurse and I hate mornings.", {"nurse", "jasmine tea"},
        ),
    ],
)  # fmt: skip
def test_9_without_a_model_the_summary_is_what_the_user_said_and_does_not_complain_of_itself(
    memory: Memory, said: list[str], first: str, topics: set[str]
) -> None:
    turns = [
        {"turn_id": f"t{n}", "role": role or "user", "text": text}
        for n, (role, _, text) in enumerate(line.rpartition("|") for line in said)
    ]
    result = commit(memory, "rules", turns)
    assert result.archive is not None
    assert result.archive.summary.splitlines() == [first, said[-1]]
    assert topics <= set(result.archive.key_topics)
    assert not [d for d in result.degraded if d.what == "summary"]


def test_001_every_fact_that_is_found_carries_its_governance(memory: Memory) -> None:
    commit(memory, everything({**WORKS, "rationale": "我在北京做后端工程师"}))
    hits = [h for h in memory.retrieval("后端工程师", "acme", "lin").hits if h.source == "fact_search"]
    found = memory.search(query="后端工程师", tenant_id="acme", user_id="lin", filters={"memory_type": ["semantic"]})
    for entry in (hits[0].entry, found.hits[0].entry):
        told = entry.metadata
        assert (told["tenant_id"], told["ttl_seconds"], told["requires_confirmation"]) == (
            "acme",
            told["ttl_seconds"],
            False,
        )
        assert (told["importance_level"], told["rationale"]) == ("medium", "我在北京做后端工程师")
        assert isinstance(told["ttl_seconds"], int)


def test_15_3_when_no_node_can_be_written_it_has_failed(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    async def breaks(*args: Any, **given: Any) -> Node:
        raise OSError("disk full")

    monkeypatch.setattr(memory.parts.archive, "write_node", breaks)
    assert commit(memory, everything()).status == "failed"


async def test_6_and_18_the_same_commit_with_and_without_await(home: Path) -> None:
    async with AsyncMemory(home / "a", embedder=HashEmbedder(), config=Config()) as memory:
        awaited = await memory.commit_session("acme", "lin", "s", turns=TALK, llm=everything())
    with Memory(home / "b", embedder=HashEmbedder(), config=Config()) as memory:
        called = await asyncio.to_thread(commit, memory, everything())
    assert [c.claim_id for c in awaited.claims] == [c.claim_id for c in called.claims]


# --- 16


def test_16_1_a_node_is_in_the_index_in_its_three_levels(memory: Memory) -> None:
    commit(memory, everything(SPACES))
    node = memory.node("acme", "lin", f"{URI}/memories/preferences/code-style")
    chunks = {(e.fields["level"], e.fields["seq"]): e for e in held(memory, "chunk")}
    assert chunks[0, 0].text == node.abstract
    assert chunks[1, 0].text == node.overview
    assert node.content.strip().startswith(chunks[2, 0].text[:40])
    assert {e.metadata["version"] for e in chunks.values()} == {node.version}
    assert {(e.fields["shelf"], e.fields["uri"]) for e in chunks.values()} == {("preferences", node.key.uri)}


def test_16_1_a_node_that_is_gone_leaves_the_index(memory: Memory) -> None:
    result = commit(memory, everything(SPACES))
    memory.reject("acme", "lin", result.claims[0].claim_id)
    assert (memory.nodes("acme", "lin"), held(memory, "chunk"), held(memory, "claim")) == ([], [], [])
    assert memory.verify().notes == []


def test_16_1_a_node_that_moves_takes_its_claims_and_its_index_along(memory: Memory) -> None:
    commit(memory, everything(SPACES))
    old, new = f"{URI}/memories/preferences/code-style", f"{URI}/memories/preferences/python"
    memory.move_node("acme", "lin", old, "Python")
    assert {e.fields["uri"] for e in held(memory, "chunk")} == {new}
    (claim,) = memory.claims("acme", "lin").items
    assert claim.node_uri == new
    assert memory.claim("acme", "lin", claim.claim_id) == claim
    assert memory.jobs() == []
    assert memory.verify().notes == []


@pytest.mark.parametrize("what", ["missing", "stale", "orphaned", "session"])
def test_16_3_repair_finds_what_the_index_does_not_hold_as_the_archive_does(memory: Memory, what: str) -> None:
    commit(memory, everything())
    before = indexed(memory)
    steward, index = Scope.steward_of("acme"), memory.parts.index
    uri = f"{URI}/memories/preferences/code-style"

    async def spoil() -> None:
        rows = (await index.scroll(steward, Eq("uri", uri), "oldest", 10)).entries
        first = next(e for e in rows if e.fields["level"] == 0)
        vector = (await memory.parts.embedder.embed_texts([first.text]))[0].dense_vector
        if what == "missing":
            await index.delete(steward, Eq("uri", uri))
        elif what == "stale":
            await index.upsert(steward, [replace(first, text="old", metadata={"version": 0}, vector=vector)])
        elif what == "orphaned":
            lost = {**first.fields, "uri": f"{uri}-gone", "node": f"{uri}-gone", "level": 0}
            await index.upsert(steward, [replace(first, id="lost", fields=lost, vector=vector)])
        else:
            await index.delete(steward, Eq("uri", f"{URI}/sessions/s"))

    asyncio.run(spoil())
    assert memory.verify().notes
    memory.repair()
    assert memory.verify().notes == []
    assert indexed(memory) == before


def test_a_change_of_mind_supersedes_across_sessions_in_both_languages(memory: Memory, home: Path) -> None:
    for words in (("我住在上海。", "我现在住在杭州。"), ("I live in Paris.", "I live in Berlin now.")):
        user = words[0]
        for n, text in enumerate(words, 1):
            turn = {"turn_id": "t", "role": "user", "text": text, "timestamp_iso": f"2026-0{n}-01T10:00:00Z"}
            result = memory.session_write("acme", user, f"s{n}", turns=[turn], llm="rules")
        (old,) = result.superseded
        (new,) = memory.claims("acme", user).items
        assert (old.superseded_by, old.state, old.valid_to) == (new.claim_id, "superseded", new.valid_from)
        listed = {c.claim_id: c for c in memory.claims("acme", user, state=None).items}
        assert listed[old.claim_id] == old == memory.claim("acme", user, old.claim_id)
        (node,) = [memory.node("acme", user, n.uri) for n in memory.nodes("acme", user)]
        assert "2026-01-01" in node.content
        assert "2026-02-01" in node.content
        assert f"> {words[0].rstrip('。.')}" in node.content
        assert old.statement not in node.abstract
