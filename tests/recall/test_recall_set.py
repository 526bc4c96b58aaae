"""Recall without a model against people and questions labelled by hand, on the parts that are measured.

The figures stand in docs/figures.md; what is held here is a little below them, so that a step back is seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from recall_people import DEVELOPMENT, MEASURED, NOW, PARTS, Part, people
from recall_scoring import Score, scores

from mnemon import Config, Memory
from mnemon.testing.clock import FixedClock

# The larger part takes as long as all the rest of recall: `scripts/test --long`.
PLAIN: Part = "test"
ASKED: tuple[Part, ...] = MEASURED if os.environ.get("MNEMON_LONG") else (PLAIN,)


def least(plain: float, loose: float) -> pytest.MarkDecorator:
    """What is held of each part that is asked."""
    floors = {PLAIN: plain, "loose_test": loose}
    return pytest.mark.parametrize(("part", "floor"), [(part, floors[part]) for part in ASKED])


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    home: Path = tmp_path_factory.mktemp("recall")
    with Memory(home, config=Config(background_worker=False), clock=FixedClock(NOW)) as opened:
        yield opened


@pytest.fixture(scope="module")
def found(memory: Memory) -> dict[Part, Score]:
    return {part: scores(memory, part)["both"] for part in ASKED}


def test_the_set_is_as_large_as_it_says() -> None:
    everybody = [person for part in PARTS for person in people(part)]
    questions = [question for person in everybody for question in person.questions]
    assert len(everybody) == 64
    assert sum(person.language == "zh" for person in everybody) == 32
    assert len(questions) >= 600
    assert sum(not question.expect for question in questions) >= 180
    for person in everybody:
        assert len(person.questions) >= 8
        assert 150 <= sum(len(talk.said) for talk in person.talks) <= 400


def test_those_to_measure_on_share_no_name_and_no_sentence_with_the_others() -> None:
    def known(parts: tuple[Part, ...]) -> set[str]:
        everybody = [person for part in parts for person in people(part)]
        said = {said.text for person in everybody for talk in person.talks for said in talk.said if said.key}
        return said | {person.id for person in everybody}

    assert not known(MEASURED) & known(DEVELOPMENT)


@pytest.mark.parametrize("part", ASKED)
def test_nothing_is_stated_without_words_somebody_said(found: dict[Part, Score], part: Part) -> None:
    assert found[part].baseless == 0


@pytest.mark.parametrize("part", ASKED)
def test_eight_calls_are_enough(found: dict[Part, Score], part: Part) -> None:
    assert found[part].few_calls >= 0.95


@least(plain=0.85, loose=0.30)
def test_items_are_correct(found: dict[Part, Score], part: Part, floor: float) -> None:
    assert found[part].items_correct >= floor


@least(plain=0.95, loose=0.65)
def test_evidence_is_what_a_reader_would_cite(found: dict[Part, Score], part: Part, floor: float) -> None:
    assert found[part].evidence >= floor


@least(plain=0.85, loose=0.35)
def test_conflicts_are_settled_as_labelled(found: dict[Part, Score], part: Part, floor: float) -> None:
    assert found[part].settled >= floor


@least(plain=0.95, loose=0.80)
def test_what_was_never_said_is_not_known(found: dict[Part, Score], part: Part, floor: float) -> None:
    assert found[part].dont_know >= floor
