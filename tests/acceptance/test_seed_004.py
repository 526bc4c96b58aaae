"""Seed 004, §5, §7 and §8: provider protocols, the node API over real files, relations."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from pathlib import Path

import pytest

from mnemon import Memory, Scope
from mnemon.contracts.entries import EmbeddingVector
from mnemon.contracts.errors import NotFound, VersionConflict
from mnemon.contracts.nodes import Edge, Node, NodeKey, Shelf
from mnemon.contracts.ports import LLM, Archive
from mnemon.contracts.scope import Owner

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
