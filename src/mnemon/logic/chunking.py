"""A node in pieces an index can hold: its abstract, its overview, and its content cut where it can be cut."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mnemon.contracts.nodes import Node
from mnemon.logic.front_matter import split
from mnemon.logic.ids import stable_id
from mnemon.logic.policies import handwritten
from mnemon.logic.text import pieces

MAX_TOKENS = 200

_LONGEST_WORD = 24

_PARAGRAPH = re.compile(r"\n\s*\n")
_SENTENCE = re.compile(r"(?<=[。！？!?；;\n])|(?<=\.)(?=\s)")


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """`level` 0 is the abstract, 1 the overview, 2 the content."""

    chunk_id: str
    uri: str
    level: int
    chunk_index: int
    text_content: str


def tokens_in(text: str) -> int:
    """About what an embedder counts: a character is a token, a word one and a third, and what is too long for a word
    one for every four letters."""
    return round(weight(text))


def weight(text: str) -> float:
    """The same unrounded: what lines weigh together is the sum of what each weighs."""
    return sum(len(run) or max(4 / 3, len(word) / 4 if len(word) > _LONGEST_WORD else 0) for run, word in pieces(text))


def chunk_id(uri: str, level: int, n: int) -> str:
    return stable_id("chunk", uri, str(level), str(n))


def chunk_for_node(node: Node) -> list[ChunkRecord]:
    """What a person wrote into it stands by itself as well: no claim and no turn says it."""
    content = [*cut(split(node.content)[1]), *by_hand(node)]
    levels = [[node.abstract], [node.overview] if node.overview else [], content]
    return [
        ChunkRecord(chunk_id(node.key.uri, level, n), node.key.uri, level, n, text)
        for level, texts in enumerate(levels)
        for n, text in enumerate(texts)
        if text.strip()
    ]


def by_hand(node: Node) -> list[str]:
    return [part for line in handwritten(node) for part in cut(line)]


def cut(text: str) -> Iterator[str]:
    """Whole paragraphs while they fit together, sentences where one is too long, and in need anywhere."""
    held: list[str] = []
    size = 0.0
    for part in _parts(text):
        cost = weight(part)
        if held and size + cost > MAX_TOKENS:
            yield "".join(held).strip()
            held, size = [], 0.0
        held.append(part)
        size += cost
    if "".join(held).strip():
        yield "".join(held).strip()


def _parts(text: str) -> Iterator[str]:
    for paragraph in _PARAGRAPH.split(text):
        if tokens_in(paragraph) <= MAX_TOKENS:
            yield f"{paragraph}\n\n"
            continue
        for sentence in _SENTENCE.split(paragraph):
            while tokens_in(sentence) > MAX_TOKENS:
                head = _head(sentence)
                yield sentence[:head]
                sentence = sentence[head:]
            yield sentence
        yield "\n\n"


def _head(sentence: str) -> int:
    """How many characters of a sentence without a stop fit."""
    low, high = 1, len(sentence)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens_in(sentence[:middle]) <= MAX_TOKENS else (low, middle - 1)
    return low
