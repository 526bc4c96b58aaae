"""`mnemon write`, `search` and `history`: what a person sees, and what a program gets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mnemon import errors
from mnemon.surfaces.cli import cli

ROWS = [
    {"id": "n1", "kind": "semantic", "contents": ["林喜欢绿茶"], "metadata": {"tags": ["tea"]}},
    {"id": "n2", "kind": "episodic", "contents": ["I bought a cup"]},
    {"src_id": "n1", "dst_id": "n2", "rel_type": "USED_WITH"},
]


@pytest.fixture
def place(tmp_path: Path) -> list[str]:
    return ["--home", str(tmp_path / "home"), "--embedder", "hash", "--tenant", "t", "--user", "lin"]


def run(*words: str, given: str | None = None) -> Result:
    return CliRunner().invoke(cli, list(words), input=given, catch_exceptions=False)


def ok(*words: str, given: str | None = None) -> str:
    done = run(*words, given=given)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def written(place: list[str], tmp_path: Path) -> list[str]:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS) + "\n\n", encoding="utf-8")
    assert "2 entries kept as version 3" in ok("write", str(path), *place)
    return place


def test_entries_come_from_a_file_and_are_shown_with_their_links(written: list[str]) -> None:
    shown = ok("search", "绿茶", *written)
    assert "林喜欢绿茶" in shown
    assert "USED_WITH" in shown
    assert "2 found" in shown
    assert "USED_WITH" not in ok("search", "绿茶", "--no-graph", *written)


def test_entries_come_from_standard_input(place: list[str]) -> None:
    told = json.loads(ok("write", "-", "--json", *place, given=json.dumps(ROWS[0])))
    assert (told["version"], told["id_map"]) == (1, {"n1": "n1"})
    with pytest.raises(errors.Conflict):
        run("write", "-", "--no-upsert", *place, given=json.dumps(ROWS[0]))


def test_json_holds_the_whole_result(written: list[str]) -> None:
    told = json.loads(ok("search", "绿茶", "--topk", "1", "--json", *written))
    assert told["hits"][0]["entry"]["metadata"]["tags"] == ["tea"]
    assert told["neighbors"]["n1"][0]["id"] == "n2"
    assert told["trace"]["timings_ms"]["total"] > 0


def test_filters_are_json_and_mistakes_are_named(written: list[str]) -> None:
    assert "nothing found with filters tags" in ok("search", "茶", "--filters", '{"tags": ["coffee"]}', *written)
    for wrong in ("{", "[1]"):
        with pytest.raises(errors.MalformedInput, match="--filters"):
            run("search", "茶", "--filters", wrong, *written)
    with pytest.raises(errors.InvalidArgument, match="did you mean tags"):
        run("search", "茶", "--filters", '{"tag": ["coffee"]}', *written)


@pytest.mark.parametrize("line", ["{", "[]", '"x"'])
def test_a_broken_line_is_named_and_nothing_is_written(place: list[str], line: str) -> None:
    with pytest.raises(errors.MalformedInput, match="line 2"):
        run("write", "-", *place, given=json.dumps(ROWS[0]) + f"\n{line}\n")
    assert "nothing found" in ok("search", "茶", *place)


def test_the_past_of_an_entry_is_told(written: list[str]) -> None:
    ok("write", "-", *written, given=json.dumps({**ROWS[0], "contents": ["林喜欢红茶"]}))
    shown = ok("history", "n1", *written)
    assert "林喜欢红茶" in shown
    assert "林喜欢绿茶" in shown
    told = json.loads(ok("history", "n1", "--json", *written))
    assert [item["version"] for item in told["items"]] == [4, 3]
    with pytest.raises(errors.NotFound):
        run("history", "nobody", *written)
