"""The benchmark harness: datasets become sessions and questions, rankings become figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mnemon import Config, Memory
from mnemon.contracts.errors import InvalidArgument, NotFound
from mnemon.surfaces.bench.datasets import load
from mnemon.surfaces.bench.measures import measured
from mnemon.surfaces.bench.recall import asked, write
from mnemon.surfaces.cli import cli


def folder(place: Path, docs: list[dict[str, Any]], queries: list[dict[str, Any]]) -> Path:
    for name, rows in (("docs", docs), ("queries", queries)):
        lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        (place / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    return place


def turn(id: str, session: int, speaker: str, text: str) -> dict[str, Any]:
    date = f"1:56 pm on {session} May, 2023"
    return {"group": "g", "doc_id": id, "session": session, "speaker": speaker, "date": date, "text": text}


def question(id: str, text: str, *evidence: str, category: Any = 4, **more: Any) -> dict[str, Any]:
    return {"query_id": id, "group": "g", "question": text, "category": category, "evidence": list(evidence), **more}


@pytest.fixture
def people(tmp_path: Path) -> Path:
    docs = [
        turn("D1:1", 1, "Ann", "I bought a red bicycle."),
        turn("D1:2", 1, "Bob", "Nice, where?"),
        turn("D2:1", 2, "Bob", "My cat is called Momo."),
    ]
    queries = [
        question("q1", "What did Ann buy?", "D1:1"),
        question("q2", "What is Bob's cat called?", "D2:1"),
        question("q3", "What is Ann's cat called?", "D2:1", category=5),
    ]
    return folder(tmp_path, docs, queries)


def test_evidence_is_counted_at_every_depth() -> None:
    figures = measured(frozenset("ac"), ["b", "a", "a", "x", "c"])
    assert (figures["any@1"], figures["any@5"]) == (0, 1)
    assert (figures["rec@5"], figures["full@5"], figures["rec@1"]) == (1, 1, 0)
    assert figures["ndcg@10"] == pytest.approx((1 / 1.584962 + 1 / 2.321928) / (1 + 1 / 1.584962), abs=1e-5)


def test_two_people_talking_become_sessions_of_one_owner(people: Path) -> None:
    dataset = load("locomo", people)
    assert [(c.owner, c.session_id, len(c.turns)) for c in dataset.conversations] == [("g", "1", 2), ("g", "2", 1)]
    assert dataset.conversations[0].turns[0]["timestamp_iso"] == "2023-05-01T13:56:00"


def test_what_comes_after_a_question_does_not_count(tmp_path: Path) -> None:
    docs = [
        {
            "group": "g",
            "doc_id": id,
            "order": n,
            "date": "2025-12-15 (Monday)",
            "text": f"User: tea {id}\nAssistant: ok",
        }
        for n, id in enumerate(("early", "late"))
    ]
    dataset = load("realmem", folder(tmp_path, docs, [question("q", "tea", "early", before=1)]))
    assert [t["role"] for t in dataset.conversations[0].turns] == ["user", "assistant"]
    with Memory(":memory:", embedder="hash", config=Config(background_worker=False)) as memory:
        write(memory, dataset)
        report = asked(memory, dataset, ["bm25", "dense", "dialog_v2"])
    assert {system: ranked["q"] for system, ranked in report.rankings.items()} == {
        "bm25": ["early"],
        "dense": ["early"],
        "dialog_v2": ["early"],
    }


def test_chinese_memories_are_asked_with_what_the_person_says(tmp_path: Path) -> None:
    docs = [{"group": "all", "doc_id": "7", "user": 1, "date": "2023-12-25", "text": "2023-12-25 跳舞"}]
    query = {"query_id": "z", "group": "all", "question": "不用", "userq": "跳舞", "category": "all", "evidence": ["7"]}
    dataset = load("madial", folder(tmp_path, docs, [query]))
    assert dataset.questions[0].text == "跳舞"


def test_the_command_measures_strategies_and_baselines_in_one_run(people: Path, tmp_path: Path) -> None:
    command = ["bench", "recall", "--dataset", "locomo", "--data", str(people), "--home", str(tmp_path / "home")]
    options = ["--embedder", "hash", "--runs", str(tmp_path / "runs"), "--json"]
    done = CliRunner().invoke(cli, [*command, *options], catch_exceptions=False)
    told = json.loads(done.stdout)["figures"]
    assert list(told) == ["bm25", "dense", "dialog_v1", "dialog_v2"]
    assert list(told["dialog_v2"]) == ["all", "4", "5"]
    assert told["dialog_v2"]["all"]["n"] == 2
    assert told["dialog_v2"]["all"]["rec@10"] == 1
    runs = (tmp_path / "runs" / "locomo-dialog_v2.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["query_id"] for line in runs] == ["q1", "q2", "q3"]
    shown = CliRunner().invoke(cli, [*command, "--embedder", "hash", "--limit", "1", "--no-baselines"])
    assert "dialog_v1" in shown.output


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"docs\.jsonl"):
        load("locomo", tmp_path)
    with pytest.raises(InvalidArgument, match="dataset must be one of"):
        load("unknown", tmp_path)
    with pytest.raises(InvalidArgument, match="has no field 'speaker'"):
        load("locomo", folder(tmp_path, [{"group": "g", "session": 1, "doc_id": "x"}], []))
    (tmp_path / "docs.jsonl").write_text("{", encoding="utf-8")
    with pytest.raises(InvalidArgument, match="line 1"):
        load("locomo", tmp_path)
