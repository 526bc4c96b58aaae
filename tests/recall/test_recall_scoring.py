"""The scorer itself: what counts as right, as wrong, as well cited and as baseless."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from recall_people import Label, Question
from recall_scoring import Marked, Score

from mnemon.contracts.recall import Evidence, Item, MemoryView, RecallResult
from mnemon.contracts.results import Message
from mnemon.contracts.turns import Role

SAID = {
    "tea": "I drink green tea now.",
    "coffee": "I need coffee every morning.",
    "joke": "I live on coffee beans, just kidding.",
}
STORED = {
    f"id-{key}": Message(f"id-{key}", "2026-03-01T08:00:00.000Z", "user", text, "s", "") for key, text in SAID.items()
}
TEA = Label(
    shelves=frozenset({"preferences"}),
    statuses=frozenset({"changed"}),
    words=(("green tea", "绿茶"),),
    evidence=frozenset({"tea"}),
    against=frozenset({"coffee"}),
    optional=False,
)
ASKED = Question("What do I drink?", "changed", (TEA,), frozenset({"joke"}))


def item(statement: str = "drinks green tea", **changes: Any) -> Item:
    given = {"status": "changed", "confidence": 0.9, "evidence": ("id-tea",), "against": ("id-coffee",), **changes}
    return Item(statement=statement, **given)


def marked(*items: Item, question: Question = ASKED, shelf: str = "preferences", cut: str = "") -> Score:
    evidence = tuple(
        Evidence(
            message_id=id_,
            session_id="s",
            ts=message.ts,
            role=Role.USER,
            content=cut or message.content,
            start=0,
            end=len(message.content),
        )
        for id_, message in STORED.items()
    )
    result = RecallResult(
        question=question.ask, answer="…", memory_view=MemoryView(**{shelf: items}), evidence=evidence
    )
    return Marked(question, result, {f"id-{key}": key for key in SAID}, STORED).score()


def test_what_is_labelled_is_right() -> None:
    score = marked(item())
    assert (score.right, score.wrong, score.cited, score.cited_well, score.conflicts_right) == (1, 0, 2, 2, 1)
    assert (score.baseless, score.errors) == (0, [])


@pytest.mark.parametrize(
    "given",
    [
        item("drinks coffee"),
        item(status="settled"),
        item(evidence=("id-coffee", "id-tea")),
        item(evidence=("id-tea", "id-joke")),
    ],
    ids=["other words", "another status", "the weaker evidence first", "a joke for proof"],
)
def test_what_is_not_as_labelled_is_both_missed_and_wrong(given: Item) -> None:
    score = marked(given)
    assert (score.right, score.wrong, score.items_correct) == (0, 1, 0.0)


def test_another_shelf_is_wrong() -> None:
    assert marked(item(), shelf="profile").right == 0


def test_the_same_thing_twice_is_once_too_often() -> None:
    score = marked(item(), item("green tea"))
    assert (score.right, score.wrong, score.items_correct) == (1, 1, 0.5)


def test_one_item_may_meet_two_labels() -> None:
    both = replace(ASKED, expect=(TEA, replace(TEA, words=(("drinks",),))))
    assert (marked(item(), question=both).right, marked(item(), question=both).wrong) == (2, 0)


def test_an_optional_item_is_no_gain_and_no_loss() -> None:
    perhaps = replace(ASKED, expect=(replace(TEA, optional=True),))
    for given in ((), (item(),)):
        score = marked(*given, question=perhaps)
        assert (score.expected, score.right, score.wrong) == (0, 0, 0)


def test_what_is_unclear_is_shown_from_both_sides_in_one_item_or_in_two() -> None:
    label = replace(TEA, statuses=frozenset({"uncertain"}), words=(("green tea", "coffee"),))
    unclear = replace(ASKED, expect=(label,))
    one, tea = item(status="uncertain"), item(status="uncertain", against=())
    two = (tea, item("coffee", status="uncertain", evidence=("id-coffee",), against=()))
    for given in ((one,), two):
        score = marked(*given, question=unclear)
        assert (score.right, score.wrong, score.evidence) == (1, 0, 1.0)
    assert marked(tea, question=unclear).right == 0


def test_a_joke_may_be_cited_against_but_not_for() -> None:
    assert marked(item(against=("id-joke",))).evidence == 1.0
    assert marked(item(evidence=("id-tea", "id-joke"), against=())).evidence == 0.5


def test_an_item_where_nothing_can_be_known_is_wrong() -> None:
    nothing = replace(ASKED, expect=())
    assert marked(question=nothing).dont_know == 1.0
    assert (marked(item(), question=nothing).dont_know, marked(item(), question=nothing).wrong) == (0.0, 1)


def test_words_nobody_said_and_messages_nobody_sees_are_baseless() -> None:
    assert marked(item(), cut="I drink oolong now.").baseless == len(STORED)
    assert marked(item(evidence=("id-tea", "elsewhere"))).baseless == 1
