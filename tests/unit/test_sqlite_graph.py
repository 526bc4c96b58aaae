"""What is particular to the SQLite graph: its file, its indexes, other processes, forgetting down to the bytes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from importlib import resources
from pathlib import Path

import pytest

from mnemon.contracts.errors import Corrupt, Unavailable
from mnemon.contracts.graph import Evidence, GraphAsk, Knowledge, Pointer, UtteranceEvidence
from mnemon.contracts.scope import Scope
from mnemon.drivers.graph.sqlite import SqliteGraph
from mnemon.drivers.graph.sqlite.asking import compile_ask
from mnemon.testing.graph_suite import ALICE, DAY, STEWARD, edge, entity, event, given_back, saying, seen, whose

CHILD = """
import asyncio, sys
from pathlib import Path
from mnemon.drivers.graph.sqlite import SqliteGraph
from mnemon.testing.graph_suite import ALICE, event, saying

async def main(path, name):
    graph = SqliteGraph(Path(path))
    for n in range(12):
        await graph.put(ALICE, [saying(name, event(f"{name}-{n}"), whole=False, mark=str(n))])
    await graph.close()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "graph.db"


@pytest.fixture
async def graph(path: Path) -> AsyncIterator[SqliteGraph]:
    opened = SqliteGraph(path)
    yield opened
    await opened.close()


def elsewhere(path: Path, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", CHILD, str(path), name], stderr=subprocess.PIPE, text=True)


def test_a_file_that_is_no_database_says_what_to_do(path: Path) -> None:
    path.write_bytes(b"this is not a database at all, and long enough to be looked at" * 50)
    with pytest.raises(Corrupt, match="mnemon rebuild"):
        SqliteGraph(path)


async def test_a_file_of_a_newer_version_is_left_alone(path: Path) -> None:
    await SqliteGraph(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(Unavailable, match="newer Mnemon"):
        SqliteGraph(path)


async def test_a_row_that_cannot_be_read_is_named(graph: SqliteGraph, path: Path) -> None:
    await graph.put(ALICE, [saying("o", event("x"))])
    with sqlite3.connect(path) as db:
        db.execute("UPDATE item SET body = '{'")
    db.close()
    with pytest.raises(Corrupt, match="x cannot be read"):
        await graph.get(ALICE, ["x"])


async def test_three_processes_write_at_once_and_nothing_is_lost(path: Path) -> None:
    """They also create the file at the same moment."""
    children = [elsewhere(path, name) for name in "abc"]
    for child in children:
        assert child.communicate(timeout=60)[1] == ""
        assert child.returncode == 0
    graph = SqliteGraph(path)
    assert set(await seen(graph, ALICE)) == {f"{name}-{n}" for name in "abc" for n in range(12)}
    assert await graph.marks(ALICE, ["a", "b", "c"]) == {"a": "11", "b": "11", "c": "11"}
    await graph.close()


OLD_ROWS = """
INSERT INTO audience VALUES (1, 't1', 'u:alice', '["u:alice"]', 'dialog'), (2, 't1', 'u:bob', '["u:bob"]', 'dialog');
INSERT INTO origin VALUES (1, 't1', 'one'), (2, 't1', 'two'), (3, 't2', 'one');
INSERT INTO said VALUES (1, 1, 'm1'), (1, 2, 'm1'), (2, 1, 'm2');
INSERT INTO item VALUES
 (1, 'tom', 1, 1, 'entity', -4611686018427387904, NULL, NULL, NULL, 9, 0, 1, NULL, '{"id":"tom","name":"Tom"}'),
 (2, 'tom', 1, 2, 'entity', -4611686018427387904, NULL, NULL, NULL, 9, 0, 1, NULL, '{"id":"tom","name":"Thomas"}'),
 (3, 'e', 1, 1, 'event', 5, NULL, 'tom', NULL, 9, 0, 0, 9, '{"id":"e","summary":"went home","actor_id":"tom"}'),
 (4, 'e', 2, 1, 'event', 5, NULL, NULL, NULL, 9, 0, 1, NULL, '{"id":"e","summary":"bob''s own"}');
INSERT INTO name VALUES ('tom', 1), ('thomas', 2);
INSERT INTO edge VALUES
 (1, 'e', 'INVOLVES', 'tom', 1, 1, 0.5, NULL, 1, NULL, '[[0,1,2]]', NULL),
 (2, 'e', 'INVOLVES', 'tom', 1, 2, 0.5, NULL, 1, NULL, '[["u",3,4]]', NULL),
 (3, 'e', 'NEXT_EVENT', 'later', 2, 1, 1.0, NULL, 1, NULL, NULL, NULL)
"""


async def test_a_file_of_the_first_schema_is_carried_over_whole(path: Path) -> None:
    first = resources.files("mnemon.drivers.graph.sqlite").joinpath("schema/001_first.sql").read_text(encoding="utf-8")
    with sqlite3.connect(path) as db:
        db.executescript(f"{first};{OLD_ROWS};PRAGMA user_version = 1")
    db.close()
    graph = SqliteGraph(path)
    tom, went = entity("tom", "Tom", aliases=("Thomas",)), event("e", None, summary="went home", actor_id="tom")
    assert await graph.get(ALICE, ["tom", "e"]) == [
        given_back(tom),
        given_back(went.model_copy(update={"published": False})),
    ]
    assert await seen(graph, ALICE, "entity", names=("thomas",)) == ["tom"]
    assert await seen(graph, ALICE, "event", subjects=("tom",), linked=("tom",)) == ["e"]
    (involves,) = await graph.edges(ALICE, ["tom"])
    assert [(p.utterance_id, p.span_start) for p in involves.evidence] == [("e", 1), ("u", 3)]
    assert await graph.marks(STEWARD, ["one", "two"]) == {"one": "m1", "two": "m2"}
    assert await graph.count(STEWARD) == {"entity": 1, "event": 1, "edges": 2}
    assert await graph.drop(STEWARD, ["one"]) == 5
    assert await graph.count(STEWARD) == {"entity": 1, "edges": 1}
    await graph.close()


async def test_what_is_said_again_as_it_stands_is_not_written(graph: SqliteGraph) -> None:
    told = [event("x\0y"), entity("e", "Tom"), edge("x\0y", "INVOLVES", "e")]
    for step in range(3):
        before = graph._writer.total_changes
        await graph.put(ALICE, [saying("o", *told, event(f"new {step}"), whole=False, mark=str(step))])
        new = 2 + (step > 0)  # its id, itself, and the mark
        assert step == 0 or graph._writer.total_changes - before == new
    await graph.put(ALICE, [saying("o", entity("e", "Tim"), whole=False)])
    assert await seen(graph, ALICE, "entity", names=("tom",)) == []
    assert await seen(graph, ALICE, "entity", names=("tim",)) == ["e"]


async def test_few_ids_are_answered_at_once_and_behind_another_reader_by_a_thread(
    graph: SqliteGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    await graph.put(ALICE, [saying("o", event("x"), mark="1")])
    handed: list[object] = []

    async def noted(work: Callable[..., object], *given: object) -> object:
        handed.append(work)
        graph._reading.release()
        return work(*given)

    monkeypatch.setattr("asyncio.to_thread", noted)
    assert await graph.marks(ALICE, ["o"]) == {"o": "1"}
    assert [item.id for item in await graph.get(ALICE, ["x"])] == ["x"]
    assert handed == []
    graph._reading.acquire()
    assert await graph.marks(ALICE, ["o"]) == {"o": "1"}
    assert len(handed) == 1
    monkeypatch.undo()


SECRETS = ("zebra-word", "zebra-name", "zebra-id", "zebra-origin", "zebra-mark", "u:zebra", "斑马")


@pytest.mark.parametrize("how", ["drop", "erase", "said anew"])
async def test_what_was_forgotten_is_in_no_byte_of_the_file(graph: SqliteGraph, path: Path, how: str) -> None:
    scope, who = Scope.of("t1", user_id="zebra"), ("u:zebra",)
    told = [
        event("zebra-id", summary="zebra-word", who=who),
        entity("e", "zebra-name", who, aliases=("斑马",)),
        UtteranceEvidence(id="u", raw_text="zebra-word", **whose(who)),
        Evidence(id="zebra-id/2", utterance_id="zebra-id", span_start=0, span_end=5, text="zebra-word", **whose(who)),
        Knowledge(id="k", summary="zebra-word", data={"斑马": "zebra-word"}, **whose(who)),
        edge("zebra-id", "MENTIONS", "e", who, evidence=(Pointer(utterance_id="zebra-id", span_start=0, span_end=1),)),
    ]
    await graph.put(STEWARD, [saying("stays", *(event(f"stays-{n}") for n in range(50)))])
    await graph.put(scope, [saying("zebra-origin", *told, mark="zebra-mark")])
    await graph.purge()
    assert all(word.encode() in path.read_bytes() for word in SECRETS)
    if how == "drop":
        assert await graph.drop(STEWARD, ["zebra-origin"]) == len(told)
    elif how == "erase":
        assert await graph.erase(STEWARD.narrowed("any", who)) == len(told)
    else:
        await graph.put(STEWARD, [saying("zebra-origin")])
        await graph.drop(STEWARD, ["zebra-origin"])
    await graph.purge()
    files = [file for file in path.parent.iterdir() if file.name.startswith(path.name)]
    left = [word for word in SECRETS for file in files if word.encode() in file.read_bytes()]
    assert left == []
    assert len(await seen(graph, ALICE)) == 50


def steps(graph: SqliteGraph, ask: GraphAsk) -> list[str]:
    sql, values = compile_ask(ask, [1, 2], [1], None)
    return [row[3] for row in graph._reader.execute(f"EXPLAIN QUERY PLAN {sql}", values)]


@pytest.mark.parametrize(
    ("ask", "index"),
    [
        (GraphAsk("event", now=DAY), "item_by_time"),
        (GraphAsk("event", since=DAY, until=DAY + timedelta(days=1), now=DAY), "item_by_time"),
        (GraphAsk("event", ids=("a",)), "item_by_id"),
        (GraphAsk("entity", names=("tom",), now=DAY), "PRIMARY KEY"),
        (GraphAsk("state", subjects=("s",), property="home"), "item_by_subject"),
        (GraphAsk("event", linked=("tom",), now=DAY), "edge_in"),
        (GraphAsk("event", linked=("tom",), rel_types=("INVOLVES",)), "edge_out"),
    ],
)
async def test_every_question_goes_along_an_index(graph: SqliteGraph, ask: GraphAsk, index: str) -> None:
    await graph.put(
        ALICE,
        [saying("o", *(event(f"e{n}") for n in range(200)), *(edge(f"e{n}", "INVOLVES", "tom") for n in range(200)))],
    )
    plan = steps(graph, ask)
    assert any(index in step for step in plan), plan
    assert not [step for step in plan if step.startswith("SCAN") and "VIRTUAL TABLE" not in step], plan
