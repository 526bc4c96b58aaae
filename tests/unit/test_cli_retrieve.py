"""`mnemon retrieve`: what a person sees, and what a program gets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mnemon import Config, Memory
from mnemon.surfaces.cli import cli


@pytest.fixture
def place(tmp_path: Path) -> list[str]:
    talk = [{"turn_id": "t1", "role": "user", "speaker": "Lin", "text": "我住在上海，喜欢绿茶。"}]
    with Memory(tmp_path, embedder="hash", llm="rules", config=Config(background_worker=False)) as memory:
        memory.session_write("t", "lin", "s", turns=talk)
    return ["--home", str(tmp_path), "--embedder", "hash", "--tenant", "t", "--user", "lin"]


def run(*words: str) -> str:
    done = CliRunner().invoke(cli, ["retrieve", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("strategy", ["dialog_v1", "dialog_v2"])
def test_hits_are_shown_with_their_words_and_how_they_were_found(place: list[str], strategy: str) -> None:
    shown = run("绿茶", "--strategy", strategy, "--explain", *place)
    assert "绿茶" in shown
    assert "total:" in shown
    assert ("words" if strategy == "dialog_v2" else "fact_search") in shown


def test_json_holds_the_whole_result(place: list[str]) -> None:
    told = json.loads(run("绿茶", "--topk", "1", "--json", *place))
    assert told["strategy"] == "dialog_v2"
    assert told["hits"][0]["evidence"][0]["text"] == "我住在上海，喜欢绿茶。"
    assert told["debug"]["plan"]["total_latency_ms"] > 0


def test_an_answer_without_a_model_says_so(place: list[str]) -> None:
    shown = run("绿茶", "--with-answer", "--rerank", *place)
    assert "answer: Unable to answer in dummy mode." in shown


def test_a_prompt_is_printed_as_it_is(place: list[str]) -> None:
    assert "相关记忆：" in run("我住在哪里", "--strategy", "auto_v1", *place)


def test_nothing_found_is_said(place: list[str]) -> None:
    assert "nothing found" in run("绿茶", "--until", "2001-01-01T00:00:00Z", *place)
