"""The command line over the temporal graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from made_graph import payload

from mnemon.contracts.errors import InvalidArgument, MalformedInput, NotFound
from mnemon.surfaces.cli import cli

WHO = ("--tenant", "t", "--user", "ann")


def run(home: Path, *arguments: str, **given: Any) -> Result:
    options = ["--home", str(home), "--embedder", "hash", "--llm", "rules"]
    result = CliRunner().invoke(cli, ["graph", *arguments, *WHO, *options], **given)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def run_json(home: Path, *arguments: str) -> Any:
    return json.loads(run(home, *arguments, "--json").stdout)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    file = tmp_path / "graph.json"
    file.write_text(json.dumps(payload(), ensure_ascii=False), encoding="utf-8")
    told = run(tmp_path / "home", "upsert", str(file))
    assert "5 entities" in told.output
    return tmp_path / "home"


def test_events_are_listed_in_pages(home: Path) -> None:
    assert "Ann moved to Hangzhou" in run(home, "events").output
    page = run_json(home, "events", "--limit", "2")
    assert [e["id"] for e in page["items"]] == ["moved", "visit"]
    rest = run(home, "events", "--limit", "2", "--cursor", page["next_cursor"])
    assert "Tom likes tea" in rest.output
    assert "nothing found" in run(home, "events", "--since", "2027-01-01").output
    assert "--cursor" in run(home, "events", "--limit", "1").output


def test_names_are_resolved(home: Path) -> None:
    assert "小王" in run(home, "entities").output
    assert [e["id"] for e in run_json(home, "entities", "--name", "tom")["items"]] == ["tom"]
    said = run(home, "resolve", "Tom").output
    assert "Tom is Tom: tom" in said
    assert "perhaps Tom Smith (part of the other name)" in said
    assert "nobody for sure" in run(home, "resolve", "老王").output
    assert run_json(home, "resolve", "Nobody Known")["entity"] is None


def test_an_explanation_is_drawn_down_to_the_words(home: Path) -> None:
    drawn = run(home, "explain", "lives").output
    assert "Ann lives in Hangzhou" in drawn
    assert "“我搬到杭州了” [0:6]" in drawn
    assert drawn.index("Ann moved") < drawn.index("我搬到杭州了，和王小明一起住。")
    quotes = run_json(home, "explain", "lives")["utterances"][0]["quotes"]
    assert [q["text_exact"] for q in quotes] == ["搬到杭州", "杭州"]
    assert "known from it: Ann lives in Hangzhou" in run(home, "explain", "moved", "--event").output
    with pytest.raises(NotFound):
        run(home, "explain", "moved")


def test_states_and_their_changes(home: Path) -> None:
    assert "杭州" in run(home, "states", "me").output
    assert "Rome" in run(home, "states", "me", "--at", "2025-05-01").output
    assert [h["state"]["value"] for h in run_json(home, "states", "me", "--known-at", "2026-01-01")["items"]] == [
        "Rome"
    ]
    assert [c["to_value"] for c in run_json(home, "states", "me", "--changes")["items"]] == ["Rome", "杭州"]
    assert "Rome" in run(home, "states", "me", "--changes").output
    assert "nothing is known" in run(home, "states", "tom").output
    assert "nothing changed" in run(home, "states", "me", "--changes", "--until", "2020-01-01").output


def test_two_become_one_when_somebody_says_so(home: Path) -> None:
    assert "Tom Smith" in run(home, "pending").output
    (equiv,) = [e for e in run_json(home, "pending")["items"] if e["entity_id"] == "tom"]
    assert "Tom Smith visited" not in run(home, "timeline", "tom").output
    assert run_json(home, "approve", equiv["id"])["status"] == "approved"
    assert "Tom Smith visited" in run(home, "timeline", "tom").output
    assert "rejected: tom and tom-smith" in run(home, "reject", equiv["id"]).output
    assert [e["id"] for e in run_json(home, "timeline", "tom")["items"]] == ["tea"]


@pytest.mark.parametrize(
    ("text", "error"), [("{", MalformedInput), ("[]", MalformedInput), ('{"x": []}', InvalidArgument)]
)
def test_a_file_that_cannot_be_told_says_why(home: Path, text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        run(home, "upsert", "-", input=text)


def test_a_file_that_is_not_there_is_named(home: Path) -> None:
    with pytest.raises(NotFound):
        run(home, "upsert", "nowhere.json")
    assert run_json(home, "upsert", str(home.parent / "graph.json"))["ok"]
