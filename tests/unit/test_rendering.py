"""A node shows what holds, what held, and the words that prove each, in the language of its claims."""

from __future__ import annotations

import pytest
from made_claims import day, made

from mnemon.contracts.claims import Claim, ClaimState
from mnemon.contracts.governance import Kind, Status
from mnemon.logic.rendering import Levels, language_of_claims, render
from mnemon.logic.superseding import in_time

NOW = day(20)


@pytest.mark.parametrize(
    ("first", "second", "quote", "shown", "head"),
    [
        ("用户住在成都。", "用户住在上海。", "我搬到上海了", "自 2026-01-05 起", "曾经"),
        ("The user lives in Rome.", "The user lives in Oslo.", "I moved to Oslo", "since 2026-01-05", "Earlier"),
    ],
)
def test_what_holds_comes_first_and_what_held_keeps_its_interval(
    first: str, second: str, quote: str, shown: str, head: str
) -> None:
    claims = in_time([made(first, 1, key="home"), made(second, 5, key="home", quote=quote)])
    levels = render("home", claims, NOW)
    assert levels.abstract == second.rstrip("。.")
    assert levels.overview.splitlines()[0] == f"- {second} ({shown})"
    assert f"{head}:" in levels.overview
    holding, over = levels.content.split(f"## {head}")
    assert levels.content.startswith("# home\n")
    assert f"> {quote} — " in holding
    assert first in over
    assert "2026-01-05" in over


@pytest.mark.parametrize(
    "hidden",
    [
        made("用户喜欢秘密。", state=ClaimState.PENDING),
        made("用户喜欢秘密。", state=ClaimState.EXPIRED),
        made("用户喜欢秘密。", expires_at=day(19)),
        made("The user likes 秘密.", expires_at=NOW),
    ],
)
def test_what_waits_and_what_is_over_is_never_shown(hidden: Claim) -> None:
    levels = render("茶", [made("用户喜欢茶。"), hidden], NOW)
    assert "秘密" not in "".join(levels)
    assert "用户喜欢茶" in levels.abstract


def test_what_is_said_again_stands_on_one_line_with_all_its_words() -> None:
    claims = in_time([made("用户喜欢茶。", on, quote=f"我喜欢茶，第{on}次说") for on in (1, 2, 3)])
    levels = render("茶", claims, NOW)
    assert levels.overview.count("用户喜欢茶") == 1
    assert all(f"> 我喜欢茶，第{on}次说 — 会话 s{on}" in levels.content for on in (1, 2, 3))


def test_a_task_shows_how_it_stands() -> None:
    tasks = [
        made("交房租", 1, kind=Kind.TASK, status=Status.OPEN),
        made("订机票", 2, kind=Kind.TASK, status=Status.DONE),
    ]
    assert "[未完成] 交房租" in render("待办", tasks, NOW).overview
    assert "[已完成] 订机票" in render("待办", tasks, NOW).overview


def test_a_models_wording_stands_above_the_proof_and_never_replaces_it() -> None:
    levels = render("tea", [made("The user likes tea.")], NOW, Levels("Tea lover", "Likes tea", "A text."))
    assert (levels.abstract, levels.overview) == ("Tea lover", "Likes tea")
    assert "A text." in levels.content
    assert "> The user likes tea. — session s1" in levels.content


def test_a_quote_of_several_lines_stays_one_line_of_proof() -> None:
    content = render("x", [made("The user likes tea.", quote="I like\n# tea\n\n> a lot")], NOW).content
    assert "> I like # tea > a lot — " in content


def test_the_language_is_that_of_most_claims_and_chinese_when_even() -> None:
    zh, en = made("用户喜欢茶。"), made("The user likes tea.")
    assert [language_of_claims(c) for c in ([zh], [en], [zh, en], [zh, en, en])] == ["zh", "en", "zh", "en"]
