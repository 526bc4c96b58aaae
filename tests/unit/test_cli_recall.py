"""`mnemon recall`: what a person sees, and what a program gets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mnemon import Config, Memory
from mnemon.contracts.errors import NotFound
from mnemon.surfaces.cli import cli

TALK = (
    ("user", "我不吃辣，也不吃海鲜。"),
    ("assistant", "好的，记住了。"),
    ("user", "I moved to Hangzhou for the new job."),
)


@pytest.fixture
def place(tmp_path: Path) -> list[str]:
    with Memory(tmp_path, embedder="hash", config=Config(background_worker=False)) as memory:
        memory.session_write(
            "t", "lin", "s", turns=[{"role": role, "text": text} for role, text in TALK], extract=False
        )
    return ["--home", str(tmp_path), "--embedder", "hash", "--tenant", "t", "--user", "lin"]


def run(*words: str) -> str:
    done = CliRunner().invoke(cli, ["recall", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_every_point_is_shown_with_its_words_and_how_far_was_looked(place: list[str]) -> None:
    shown = run("你记得我有什么饮食偏好吗？", *place)
    assert "preferences" in shown
    assert "• 不吃辣，也不吃海鲜" in shown
    assert "“我不吃辣，也不吃海鲜”" in shown
    assert "looked from" in shown
    assert "round 1" not in shown


def test_explain_draws_the_rounds(place: list[str]) -> None:
    shown = run("你记得我有什么饮食偏好吗？", "--explain", *place)
    for word in ("round 1", "suppose", "why", "ask", "semantic_search", "found", "reflect", "decide"):
        assert word in shown
    assert shown.index("round 1") < shown.index("• 不吃辣")


def test_json_holds_the_whole_result(place: list[str]) -> None:
    told = json.loads(run("Where do I live?", "--role", "user", "--json", "--explain", *place))
    assert {"memory_view", "evidence", "limits", "trace", "planner"} <= told.keys()
    assert told["evidence"][0]["content"] in TALK[2][1]
    assert told["trace"]
    assert json.loads(run("Where do I live?", "--json", *place))["trace"] == []


def test_what_is_not_known_is_said(place: list[str]) -> None:
    shown = run("我是不是说过我喜欢篮球？", "--since", "2001-01-01", "--until", "2002-01-01", *place)
    assert "我不知道" in shown
    assert "2001-01-01 to 2002-01-01" in shown


def test_a_skill_that_is_not_there_is_an_error(place: list[str]) -> None:
    done = CliRunner().invoke(cli, ["recall", "x", "--skill", "nowhere", *place])
    assert isinstance(done.exception, NotFound)
