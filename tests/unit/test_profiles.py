"""Profiles: readable, put together for whoever may see them, compared, and taken back and forth without a loss."""

from __future__ import annotations

import asyncio
import inspect
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_chats import Chat

from mnemon import Config, errors
from mnemon.contracts.chats import ProfileVersion
from mnemon.contracts.claims import Claim, ClaimState
from mnemon.contracts.cognitive import CognitiveConfig, HistorianConfig
from mnemon.contracts.filters import Eq, In, every
from mnemon.contracts.nodes import Node, NodeKey, Shelf
from mnemon.contracts.scope import Owner, Scope
from mnemon.logic.front_matter import split
from mnemon.logic.policies import claims_in
from mnemon.pipelines.govern.claims import ClaimKeeper
from mnemon.pipelines.graph.projection import Grapher
from mnemon.pipelines.historian.desk import ChatDesk
from mnemon.pipelines.index.indexing import Indexer
from mnemon.pipelines.index.projection import CHUNK, CLAIM, PROFILE, claim_of
from mnemon.pipelines.replicas import Replicas

GROUP = Scope.of("acme", group_id="dev")
STEWARD = Scope.steward_of("acme")
NODE = NodeKey("acme", Owner.group("dev"), Shelf.PROFILE, "user-null")


@pytest.fixture
async def chat(tmp_path: Path) -> AsyncIterator[Chat]:
    made = Chat(tmp_path / "home")
    yield made
    await made.memory.close()


async def learnt(chat: Chat, *lines: str, **more: Any) -> None:
    for line in lines:
        await chat.end(line, **more)


async def versions(chat: Chat) -> tuple[ProfileVersion, ...]:
    return await chat.door().profile_history("user", "null")


async def known(chat: Chat) -> dict[str, ClaimState]:
    """What the sessions hold of the profile's lines."""
    found: dict[str, ClaimState] = {}
    async for record in chat.memory.parts.archive.sessions(STEWARD):
        claims = await chat.memory.parts.archive.read_claims(STEWARD, record.key)
        assert {c.claim_id for c in claims} == set(record.claim_ids)
        found |= {c.statement: c.state for c in claims if c.shelf is Shelf.PROFILE}
    return found


async def claims(chat: Chat) -> list[Claim]:
    records = [record async for record in chat.memory.parts.archive.sessions(STEWARD)]
    found = [await chat.memory.parts.archive.read_claims(STEWARD, record.key) for record in records]
    return [claim for of_session in found for claim in of_session if claim.shelf is Shelf.PROFILE]


async def indexed(chat: Chat) -> dict[str, ClaimState]:
    page = await chat.memory.parts.index.scroll(STEWARD, every(Eq("kind", CLAIM), Eq("shelf", "profile")), limit=500)
    return {(claim := claim_of(entry)).statement: claim.state for entry in page.entries}


# --- reading


async def test_a_profile_is_markdown_with_one_head_and_the_words_that_prove_it(chat: Chat) -> None:
    await chat.end("Null住在上海", said="我住在上海", sender_name="Null")
    profile = await chat.door().get_profile("user", "null")
    head, body = split(profile.text)
    assert list(head) == ["entity_type", "entity_id", "name", "tags", "updated_at", "source_event_id"]
    assert (head["entity_type"], head["entity_id"], head["name"]) == ("user", "null", "Null")
    assert (head["updated_at"], head["source_event_id"]) == ("2026-03-02T12:00:00+08:00", "r1:1")
    assert body == profile.body
    assert "> 我住在上海 — " in profile.body
    assert "我住在上海 — " not in profile.overview
    assert profile.versions == {NODE.uri: 1}
    assert (profile.id, profile.tags) == ("user:null", tuple(head["tags"]))


async def test_nobody_is_told_what_was_learnt_elsewhere(chat: Chat) -> None:
    await learnt(chat, "Null在dev群说喜欢猫")
    await learnt(chat, "Null在ops群说喜欢狗", group="ops")
    await learnt(chat, "Null私下说喜欢鱼", group=None)
    await learnt(chat, "Null在别家说喜欢鸟", tenant="other")
    bodies = {
        "猫": await chat.door().get_profile("user", "null"),
        "狗": await chat.door(group="ops").get_profile("user", "null"),
        "鱼": await chat.door(group=None).get_profile("user", "null"),
        "鸟": await chat.door(tenant="other").get_profile("user", "null"),
    }
    for word, profile in bodies.items():
        assert [animal for animal in bodies if animal in profile.text] == [word]
    for door in (chat.door("mo"), chat.door("mo", None), chat.door("mo", "ops")):
        found = [h.text for h in await door.search_profiles("喜欢什么动物 猫狗鱼鸟")]
        assert len(found) <= 1
        assert not any("鱼" in text or "鸟" in text for text in found)
    with pytest.raises(errors.NotFound):
        await chat.door("mo", None).get_profile("user", "null")
    with pytest.raises(errors.NotFound):
        await chat.door("mo", None).get_profile("group", "dev")
    with pytest.raises(errors.NotFound):
        await chat.door("null", None).rollback_profile("group", "dev", 1)


async def test_whoever_may_see_several_parts_gets_them_as_one(chat: Chat) -> None:
    await learnt(chat, "Null私下说喜欢鱼", group=None)
    await learnt(chat, "Null在dev群说喜欢猫")
    both = chat.memory.cognitive("acme", "null", "dev", include_private=True)
    profile = await both.get_profile("user", "null")
    assert profile.text.count("---\n") == 2
    assert profile.body.count("# ") == 1
    assert "猫" in profile.body
    assert "鱼" in profile.body
    assert profile.body.index("猫") < profile.body.index("鱼"), "what changed last comes first"
    assert profile.source_event_id == "r2:1"
    assert len(profile.versions) == 2
    assert len(profile.overview.splitlines()) == 2
    (newest, *_) = await both.profile_history("user", "null")
    assert newest.uri == NODE.uri, "the one that changed last is meant"


async def test_a_line_whose_time_is_over_is_not_shown_though_nobody_has_swept_yet(chat: Chat) -> None:
    await learnt(chat, "Null住在上海", "Null喜欢猫")
    archive = chat.memory.parts.archive
    node = await archive.read_node(STEWARD, NODE)
    rows = [dict(row) for row in node.metadata["claims"]]
    rows[1]["expires_at"] = chat.clock.now().isoformat()
    await archive.write_metadata(STEWARD, NODE, {**node.metadata, "claims": rows})
    profile = await chat.door().get_profile("user", "null")
    assert "上海" in profile.text
    assert "猫" not in profile.text
    assert profile.versions == {NODE.uri: 3}
    rows[0]["expires_at"] = rows[1]["expires_at"]
    await archive.write_metadata(STEWARD, NODE, {**node.metadata, "claims": rows})
    with pytest.raises(errors.NotFound):
        await chat.door().get_profile("user", "null")


async def test_a_profile_of_before_there_were_heads_has_one(chat: Chat) -> None:
    await learnt(chat, "Null住在上海")
    archive = chat.memory.parts.archive
    node = await archive.read_node(STEWARD, NODE)
    await archive.write_node(STEWARD, replace(node, content=split(node.content)[1]))
    profile = await chat.door().get_profile("user", "null")
    assert split(profile.text)[0]["source_event_id"] == "r1:1"
    assert "上海" in profile.body
    plain = Node(replace(NODE, owner=Owner.group("ops")), ("g:ops",), "Null", "- likes tea", "likes tea\n")
    await archive.write_node(STEWARD, plain)
    profile = await chat.door(group="ops").get_profile("user", "null")
    assert (profile.name, profile.body, profile.overview) == ("null", "likes tea\n", "- likes tea")
    assert profile.updated_at
    assert "likes tea" in (await chat.door(group="ops").context("tea")).text


async def test_what_a_person_wrote_into_the_file_is_what_is_shown(chat: Chat, tmp_path: Path) -> None:
    await learnt(chat, "Null住在上海")
    (path,) = [p for p in (tmp_path / "home").rglob("*.md") if "entity_type" in p.read_text()]
    text = path.read_text().replace("- Null住在上海", "- Null住在苏州，早上喝茶").replace("name: ", "name: 老Null #")
    path.write_text(text.replace("updated_at: ", "updated_at: yesterday "))
    profile = await chat.door().get_profile("user", "null")
    assert "苏州" in profile.body
    assert "苏州" in profile.overview
    assert "> " not in profile.overview
    assert profile.name.startswith("老Null")
    assert profile.updated_at.startswith("2026-03-02T"), "a time nobody can read is not told"
    assert "苏州" in (await chat.door().context("住在哪里")).text
    await chat.memory.repair()
    await chat.memory.run_jobs()
    assert "苏州" in (await chat.door().search_profiles("住在哪里"))[0].text


# --- finding


async def test_a_profile_is_found_by_what_it_says_and_narrowed_by_whom_it_is_about(chat: Chat) -> None:
    await learnt(chat, "Null喜欢用Python写爬虫", sender_name="Null")
    await learnt(chat, "Mo喜欢在周末钓鱼", user="mo")
    await learnt(chat, "本群约定周五不发版", group_name="研发群")
    door = chat.door()
    hits = await door.search_profiles("谁会写爬虫")
    assert hits[0].id == "user:null"
    assert {hit.id for hit in hits} == {"user:null", "user:mo", "group:dev"}
    assert hits[0].uri == NODE.uri
    assert hits[0].updated_at == "2026-03-02T12:00:00+08:00"
    assert [h.id for h in await door.search_profiles("谁", entity_type="group")] == ["group:dev"]
    assert [h.id for h in await door.search_profiles("谁", entity_type="user", entity_id="mo")] == ["user:mo"]
    assert [h.id for h in await door.search_profiles("谁", entity_id="dev")] == ["group:dev"]
    assert await door.search_profiles("谁", entity_type="group", entity_id="mo") == ()
    assert len(await door.search_profiles("谁", top_k=1)) == 1


# --- earlier versions


async def test_history_tells_every_version_kept_newest_first(chat: Chat) -> None:
    await learnt(chat, "Null住在上海", "Null喜欢猫", "Null会游泳")
    newest, second, first = await versions(chat)
    assert [v.version for v in (newest, second, first)] == [3, 2, 1]
    assert [newest.current, second.current] == [True, False]
    assert second.reason == "learnt in r2:1"
    assert "会游泳" in newest.text
    assert "会游泳" not in second.text
    assert {v.uri for v in (newest, second, first)} == {NODE.uri}


async def test_a_difference_is_told_line_by_line_and_statement_by_statement(chat: Chat) -> None:
    await learnt(chat, "Null住在上海", "Null喜欢猫", "Null住在北京")
    diff = await chat.door().profile_diff("user", "null", 2)
    assert (diff.from_version, diff.to_version) == (2, 3)
    assert (diff.added, diff.removed) == (("Null住在北京",), ("Null住在上海",))
    assert "+- Null住在北京 (自 2026-03-04 起)" in diff.text.splitlines()
    assert "entity_type" not in diff.text
    back = await chat.door().profile_diff("user", "null", 3, 2)
    assert (back.added, back.removed) == (diff.removed, diff.added)
    assert (await chat.door().profile_diff("user", "null", 3)).text == ""
    with pytest.raises(errors.NotFound, match="there are 3, 2, 1"):
        await chat.door().profile_diff("user", "null", 9)


# --- taking back


async def test_a_rollback_is_a_new_version_equal_to_the_old_one_and_forgets_what_was_learnt_since(chat: Chat) -> None:
    await learnt(chat, "Null住在上海", "Null喜欢猫", "Null住在北京")
    old = (await versions(chat))[1]
    (since,) = [c for c in await claims(chat) if c.statement == "Null住在北京"]
    assert await chat.memory.parts.graph.get(STEWARD, [since.claim_id])
    assert (await known(chat))["Null住在上海"] is ClaimState.SUPERSEDED
    profile = await chat.door().rollback_profile("user", "null", 2)
    assert profile.text == old.text
    assert profile.versions == {NODE.uri: 4}
    held = {"Null住在上海": ClaimState.ACTIVE, "Null喜欢猫": ClaimState.ACTIVE}
    assert await known(chat) == await indexed(chat) == held, "as it stood then"
    (hit,) = await chat.door().search_profiles("Null住在哪里")
    assert "北京" not in hit.text
    assert not await chat.memory.parts.graph.get(STEWARD, [since.claim_id])
    events = await chat.door().search_events("Null住在北京")
    assert "北京" in events[0].text, "what happened stays"
    assert "Null住在北京" in [quote.text for quote in events[0].evidence]
    assert (await chat.memory.verify()).ok
    assert [v.version for v in await versions(chat)] == [4, 3, 2, 1]


async def test_rolling_forward_brings_it_back(chat: Chat) -> None:
    await learnt(chat, "Null住在上海", "Null喜欢猫", "Null住在北京")
    before = (await known(chat), await indexed(chat), (await chat.door().get_profile("user", "null")).text)
    await chat.door().rollback_profile("user", "null", 1)
    await chat.door().rollback_profile("user", "null", 3)
    assert (await known(chat), await indexed(chat), (await chat.door().get_profile("user", "null")).text) == before
    assert (await chat.memory.verify()).ok
    await learnt(chat, "Null会游泳")
    assert (await known(chat))["Null会游泳"] is ClaimState.ACTIVE, "and life goes on"
    assert "北京" in (await chat.door().get_profile("user", "null")).body


async def test_a_rollback_is_in_the_ledger_by_id_and_without_words(chat: Chat) -> None:
    await learnt(chat, "Null住在上海", "Null会游泳")
    (line,) = [c for c in await claims(chat) if c.statement == "Null会游泳"]
    await chat.door().rollback_profile("user", "null", 1)
    await chat.door().rollback_profile("user", "null", 2)
    rows = [entry.body for entry in await chat.memory.parts.archive.read_log(STEWARD, "ledger")]
    assert rows == [{"op": verb, "claim_id": line.claim_id} for verb in ("rollback", "restore")]


async def test_the_same_turn_told_once_more_does_not_undo_a_rollback(chat: Chat) -> None:
    await learnt(chat, "Null住在上海", "Null会游泳")
    await chat.door().rollback_profile("user", "null", 1)
    chat.clock.tick(days=-1)
    await chat.end(
        "Null会游泳", request_id="r2", messages=[{"message_id": "m2", "sender_id": "null", "text": "Null会游泳"}]
    )
    assert list(await known(chat)) == ["Null住在上海"]
    assert "游泳" not in (await chat.door().get_profile("user", "null")).body


async def test_what_was_learnt_in_a_written_session_is_taken_back_like_the_rest(chat: Chat) -> None:
    await learnt(chat, "Null住在上海", group=None)
    turns = [{"role": "user", "text": "我是工程师。昨天我去了成都参加婚礼。"}]
    await chat.memory.session_write("acme", "null", "s1", turns=turns)
    door = chat.door(group=None)
    assert "工程师" in (await door.get_profile("user", "null")).body
    assert "工程师" not in (await door.rollback_profile("user", "null", 1)).body
    assert list(await known(chat)) == ["Null住在上海"]
    assert "婚礼" in (await door.search_events("婚礼"))[0].text
    assert "工程师" in (await door.rollback_profile("user", "null", 2)).body
    assert (await chat.memory.verify()).ok


async def test_a_version_that_is_not_there_changes_nothing(chat: Chat) -> None:
    await learnt(chat, "Null住在上海", "Null会游泳")
    with pytest.raises(errors.NotFound):
        await chat.door().rollback_profile("user", "null", 7)
    with pytest.raises(errors.NotFound):
        await chat.door().rollback_profile("user", "nobody", 1)
    assert (await chat.door().rollback_profile("user", "null", 2)).versions == {NODE.uri: 2}, "it is that one already"


async def test_what_a_person_wrote_can_be_rolled_back_and_is_not_lost(chat: Chat, tmp_path: Path) -> None:
    await learnt(chat, "Null住在上海", "Null会游泳")
    (path,) = [p for p in (tmp_path / "home").rglob("*.md") if "entity_type" in p.read_text()]
    path.write_text(path.read_text() + "\n我自己写的一行\n")
    profile = await chat.door().rollback_profile("user", "null", 1)
    assert "自己写的" not in profile.body
    assert "游泳" not in profile.body
    assert [v.version for v in await versions(chat)] == [4, 3, 2, 1]
    edited = (await versions(chat))[1]
    assert (edited.reason, "自己写的" in edited.text) == ("edited by hand", True)
    assert "自己写的" in (await chat.door().rollback_profile("user", "null", 3)).body


async def test_what_is_over_by_now_does_not_come_back(chat: Chat) -> None:
    await learnt(chat, "Null住在上海", "Null喜欢猫")
    archive = chat.memory.parts.archive
    node = await archive.read_node(STEWARD, NODE)
    rows = [dict(row) for row in node.metadata["claims"]]
    rows[1]["expires_at"] = chat.clock.now().isoformat()
    await archive.write_metadata(STEWARD, NODE, {**node.metadata, "claims": rows})
    await learnt(chat, "Null会游泳")
    profile = await chat.door().rollback_profile("user", "null", 3)
    assert "上海" in profile.body
    assert "猫" not in profile.body
    assert "游泳" not in profile.body


async def test_a_session_forgotten_after_a_rollback_takes_the_versions_that_quote_it_with_it(
    chat: Chat, tmp_path: Path
) -> None:
    await learnt(chat, "Null住在上海", "Null对榴莲过敏")
    (line,) = [c for c in await claims(chat) if c.statement == "Null对榴莲过敏"]
    await chat.door().rollback_profile("user", "null", 1)
    target = {"what": "session", "owner_kind": "groups", "owner_id": "dev", "session_id": line.session_id}
    await chat.memory.parts.forgetter.forget("acme", target)
    assert [v.version for v in await versions(chat)] == [3]
    left = [p for p in (tmp_path / "home").rglob("*.json*") if "榴莲" in p.read_text()]
    assert left == []
    with pytest.raises(errors.NotFound):
        await chat.door().rollback_profile("user", "null", 2)


# --- at the same time, and cut off


class Meddling:
    """Passes every call on; what `before` says happens first."""

    def __init__(self, inner: Any, before: Callable[[str], Awaitable[None]]) -> None:
        self._inner = inner
        self._before = before

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            await self._before(name)
            return await found(*args, **kwargs)

        return call


def desk_with(chat: Chat, before: Callable[[str], Awaitable[None]]) -> ChatDesk:
    parts = chat.memory.parts
    archive: Any = Meddling(parts.archive, before)
    index: Any = Meddling(parts.index, before)
    graph: Any = Meddling(parts.graph, before)
    replicas = Replicas(Indexer(archive, index, parts.embedder), Grapher(archive, graph), parts.replicas.presence)
    keeper = ClaimKeeper(archive, index, replicas, parts.clock, parts.queue, parts.worker)
    return ChatDesk(
        parts.chats.ender, archive, index, parts.embedder, keeper, replicas, parts.clock, parts.config.cognitive.query
    )


async def test_what_is_learnt_while_a_profile_is_taken_back_is_kept(chat: Chat) -> None:
    await learnt(chat, "Null住在上海", "Null喜欢猫", "Null住在北京")
    told: list[str] = []

    async def meanwhile(name: str) -> None:
        if name == "write_node" and not told:
            told.append(name)
            await chat.end("Null会游泳")

    await desk_with(chat, meanwhile).rollback_profile(GROUP, "user", "null", 1)
    profile = await chat.door().get_profile("user", "null")
    assert "上海" in profile.body
    assert "游泳" in profile.body
    assert "猫" not in profile.body
    assert "北京" not in profile.body
    held = {"Null住在上海": ClaimState.ACTIVE, "Null会游泳": ClaimState.ACTIVE}
    assert await known(chat) == await indexed(chat) == held
    assert (await chat.memory.verify()).ok


async def test_two_rollbacks_at_once_leave_node_sessions_and_index_in_agreement(chat: Chat) -> None:
    await learnt(chat, "Null住在上海", "Null喜欢猫", "Null住在北京", "Null会游泳")
    await asyncio.gather(*(chat.door().rollback_profile("user", "null", version) for version in (1, 2, 3)))
    node = await chat.memory.parts.archive.read_node(STEWARD, NODE)
    in_node = {c.statement: c.state for c in claims_in(node)}
    held, found = await known(chat), await indexed(chat)
    assert held == in_node
    assert found == in_node
    assert (await chat.memory.verify()).ok


# What leaves something behind in the archive, the index or the graph; between two of these nothing changes.
WRITES = {"put_claims", "write_session", "append_log", "write_node", "upsert", "delete", "publish", "put", "drop"}


class Cut(Exception):
    """Stands for the end of the process."""


FEW = Config(background_worker=False, cognitive=CognitiveConfig(historian=HistorianConfig(profile_revision_keep=2)))


async def everything(chat: Chat) -> dict[str, Any]:
    """How it all stands: the node, the sessions, the index, the graph."""
    parts = chat.memory.parts
    node = await parts.archive.read_node(STEWARD, NODE)
    where = every(In("kind", (CHUNK, PROFILE, CLAIM)))
    rows = (await parts.index.scroll(STEWARD, where, limit=1000)).entries
    return {
        "node": (node.version, node.content, node.metadata),
        "sessions": await known(chat),
        "index": sorted((row.kind, row.id, row.text, str(row.fields.get("state"))) for row in rows),
        "graph": await parts.graph.count(STEWARD),
        "verified": (await chat.memory.verify()).ok,
    }


@pytest.mark.parametrize("version", [1, 2])
async def test_a_rollback_cut_off_anywhere_is_finished_by_making_it_again(tmp_path: Path, version: int) -> None:
    """Also the one to the oldest version kept, whose copy goes when the new one is written."""
    first = Chat(tmp_path / "first", FEW)
    await learnt(first, "Null住在上海", "Null住在北京", "Null会游泳")
    await first.memory.close()
    cut_at, wanted, finished = 0, None, False
    while not finished:
        home = tmp_path / f"cut{cut_at}"
        shutil.copytree(tmp_path / "first", home)
        chat = Chat(home, FEW)
        chat.clock.tick(days=3)
        calls = 0

        async def until(name: str) -> None:
            nonlocal calls
            calls += name in WRITES
            if calls == cut_at and name in WRITES:  # noqa: B023
                raise Cut

        try:
            await desk_with(chat, until).rollback_profile(GROUP, "user", "null", version)
            finished = cut_at > 0
        except Cut:
            await chat.door().rollback_profile("user", "null", version)
        found = await everything(chat)
        wanted = wanted or found
        assert found == wanted, f"cut off before call {cut_at}"
        await chat.memory.close()
        shutil.rmtree(home)
        cut_at += 1
    assert wanted is not None
    assert wanted["verified"]
    assert cut_at > 10, "cut off before each of them once"
