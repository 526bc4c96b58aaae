"""Chunks hold at most two hundred tokens and lose nothing."""

from __future__ import annotations

import pytest

from mnemon.contracts.nodes import Node, NodeKey, Shelf
from mnemon.contracts.scope import Owner
from mnemon.logic.chunking import MAX_TOKENS, chunk_for_node, cut, tokens_in

TEXTS = {
    "short": "用户喜欢乌龙茶。",
    "many paragraphs": "\n\n".join(f"- 第{n}条：用户说过的话，有一点长。 said number {n}" for n in range(80)),
    "one endless Chinese sentence": "我们一路走一路聊" * 300,
    "one endless English sentence": "word after word and " * 900,
    "no spaces at all": "a" * 5000 + "好" * 900,
    "sentences": "I like tea. 我不喜欢咖啡！Why? " * 200,
    "mixed width": "😀👨‍👩‍👧 café 茶 " * 400,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_chunks_are_small_and_cover_all_the_text(text: str) -> None:
    chunks = list(cut(text))
    assert max(map(tokens_in, chunks)) <= MAX_TOKENS
    assert all(chunk.strip() for chunk in chunks)
    assert "".join("".join(chunks).split()) == "".join(text.split())


@pytest.mark.parametrize("text", ["", " \n\n ", "\n"])
def test_nothing_is_no_chunk(text: str) -> None:
    assert list(cut(text)) == []


def test_what_fits_together_stays_together() -> None:
    assert list(cut("第一段。\n\n第二段。")) == ["第一段。\n\n第二段。"]


def test_a_node_is_its_abstract_its_overview_and_its_content_in_pieces() -> None:
    node = Node(NodeKey("t", Owner.user("ann"), Shelf.RULES, "tone"), ("u:ann",), "短", "", TEXTS["sentences"])
    records = chunk_for_node(node)
    assert [r.level for r in records][:2] == [0, 2]
    assert [r.chunk_index for r in records if r.level == 2] == list(range(len(records) - 1))
    assert len({r.chunk_id for r in records}) == len(records)
    assert records == chunk_for_node(node)
