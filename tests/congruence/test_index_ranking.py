"""One bilingual corpus, every index driver: the same ten best, for vectors and for words."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from bilingual_corpus import OWNERS, SENTENCES

from mnemon.contracts.entries import Ask, Entry, Hit
from mnemon.contracts.filters import EVERYTHING, And, Eq, In, Not, Or, Range, Where
from mnemon.contracts.ports import Index
from mnemon.contracts.scope import Scope
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.drivers.index.qdrant import QdrantIndex
from mnemon.drivers.index.sqlite import SqliteIndex
from mnemon.testing.index_suite import listed, paged

EMBEDDER = HashEmbedder()
SCOPES = {
    "alice": Scope.of("t1", user_id="alice"),
    "alice in the app": Scope.of("t1", user_id="alice", product_id="app"),
    "bob in the team": Scope.of("t1", user_id="bob", group_id="team"),
    "what is public": Scope.of("t1"),
    "narrowed": Scope.of("t1", user_id="alice", product_id="app").narrowed("any", ["p:app"]),
    "steward": Scope.steward_of("t1"),
}
WHERES: tuple[Where, ...] = (
    EVERYTHING,
    Eq("kind", "turn"),
    And((Eq("kind", "turn"), Range("seq", gte=3, lt=20))),
    Or((Eq("role", "assistant"), In("tags", ("even", "third")))),
    Not(Eq("tags", "even")),
)
QUESTIONS = (
    "杭州的茶",
    "What tea do I like?",
    "我对什么过敏",
    "peanut allergy",
    "北京",
    "猫",
    "meeting on Monday morning",
    "下周一的会议",
    "咖啡 coffee",
    "marathon training in spring",
)
WORD_QUERIES = (
    *QUESTIONS,
    "猫 OR cat",
    "coffee -machine",
    "每天 AND 早上",
    '"green tea"',
    "「西湖」",
    "(tea OR coffee) AND (morning OR doctor)",
    "的 -我",
    "python",
    "gpt 模型",
    "the",
)


async def entries() -> list[Entry]:
    spoken = [(owner, text) for owner, texts in SENTENCES.items() for text in texts]
    vectors = await EMBEDDER.embed_texts([text for _, text in spoken])
    out: list[Entry] = []
    for n, ((owner, text), vector) in enumerate(zip(spoken, vectors, strict=True)):
        fields = {
            "seq": n % 40,
            "ts": 1_700_000_000_000 + n * 60_000,
            "role": "assistant" if n % 5 == 0 else "user",
            "tags": [name for name, by in (("even", 2), ("third", 3)) if n % by == 0],
        }
        kind = "node" if n % 7 == 0 else "turn"
        out.append(Entry(f"e{n:03}", OWNERS[owner], text, kind, fields, {}, vector.dense_vector))
    return out


@pytest.fixture
async def indexes(tmp_path: Path) -> AsyncIterator[dict[str, Index]]:
    made: dict[str, Index] = {
        "sqlite": SqliteIndex(tmp_path / "index.db", EMBEDDER.model, EMBEDDER.dimension),
        "qdrant": QdrantIndex(f"qdrant://:memory:/{uuid.uuid4().hex}", EMBEDDER.model, EMBEDDER.dimension),
    }
    if url := os.environ.get("TEST_QDRANT_URL"):
        address, _, options = url.partition("?")
        place = f"{address.rstrip('/')}/mnemon-congruence-{uuid.uuid4().hex}?{options}"
        made["qdrant server"] = QdrantIndex(place, EMBEDDER.model, EMBEDDER.dimension)
    for index in made.values():
        await index.upsert(Scope.steward_of("t1"), await entries())
    yield made
    for index in made.values():
        await index.close()


def assert_alike(answers: dict[str, list[Hit]], what: object) -> None:
    (reference, expected), *others = answers.items()
    for name, hits in others:
        assert [h.entry for h in hits] == [h.entry for h in expected], (name, reference, what)
        assert [h.score for h in hits] == pytest.approx([h.score for h in expected], abs=2e-6), (name, what)


async def test_every_index_ranks_vectors_alike(indexes: dict[str, Index]) -> None:
    vectors = await EMBEDDER.embed_texts(QUESTIONS, "query")
    found = 0
    for name, scope in SCOPES.items():
        for question, vector in zip(QUESTIONS, vectors, strict=True):
            for where in WHERES[: 5 if question == QUESTIONS[0] else 1]:
                ask = Ask(vector=vector.dense_vector, where=where)
                answers = {driver: await index.search(scope, ask) for driver, index in indexes.items()}
                assert_alike(answers, (name, question, where))
                found += len(answers["sqlite"])
    assert found > 500


async def test_every_index_ranks_words_alike(indexes: dict[str, Index]) -> None:
    found = 0
    for name, scope in SCOPES.items():
        for n, query in enumerate(WORD_QUERIES):
            ask = Ask(text=query, where=WHERES[n % len(WHERES)])
            answers = {driver: await index.search(scope, ask) for driver, index in indexes.items()}
            assert_alike(answers, (name, query, ask.where))
            found += len(answers["sqlite"])
    assert found > 150


async def test_every_index_pages_and_lists_alike(indexes: dict[str, Index]) -> None:
    scope = SCOPES["steward"]
    for ask in (Ask(text="我 the", limit=9), Ask(text="每天 every", limit=4)):
        pages = {driver: await paged(index, scope, ask) for driver, index in indexes.items()}
        assert_alike(pages, ask)
        assert len(pages["sqlite"]) > ask.limit
    for where in WHERES:
        listings = [await listed(index, scope, where, "newest", 30) for index in indexes.values()]
        assert all(listing == listings[0] for listing in listings)
        assert len({await index.count(scope, where) for index in indexes.values()}) == 1
