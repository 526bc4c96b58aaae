"""What a question says, how turns are weighed, and what is served: without an index."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from mnemon.contracts.entries import Entry
from mnemon.contracts.memories import MemoryEntry
from mnemon.contracts.retrieval import RetrievalHit, Source
from mnemon.logic.lexical import parse
from mnemon.logic.retrieval.choosing import in_order, spread
from mnemon.logic.retrieval.features import FEATURES, Candidate, tabled
from mnemon.logic.retrieval.fusing import fused
from mnemon.logic.retrieval.prompting import prompt_of
from mnemon.logic.retrieval.ranking_data import Several, ranking_data
from mnemon.logic.retrieval.understanding import Understood, understand

DATA = ranking_data()
TODAY = datetime(2026, 3, 10, tzinfo=UTC)


def asked(text: str, *speakers: str) -> Understood:
    return understand(text, TODAY, DATA.forms, speakers)


def turn(text: str, seq: int = 1, session: str = "s", speaker: str = "", day: int = 1, **scores: float) -> Candidate:
    said = int(datetime(2026, 1, day, tzinfo=UTC).timestamp() * 1000)
    fields = {"uri": session, "seq": seq, "speaker": speaker, "ts": said}
    return Candidate(Entry(f"{session}/{seq}", ("u:a",), text, fields=fields), **scores)


def feature(name: str, question: Understood, *turns: Candidate) -> dict[str, float]:
    table = tabled(question, turns, DATA)
    column = table.values[:, FEATURES.index(name)]
    return {c.entry.id: round(float(v), 3) for c, v in zip(table.candidates, column, strict=True)}


def hit(id: str, score: float, source: Source) -> RetrievalHit:
    return RetrievalHit(id, score, 0.0, source, MemoryEntry(id=id, kind="episodic", contents=(id,)))


# --- dialog_v1's order


def test_each_route_counts_with_its_fixed_weight() -> None:
    order = fused([hit("e", 1.0, "event_search"), hit("f", 0.6, "fact_search"), hit("r", 0.6, "reference_trace")], 9)
    assert [(h.id, h.final_score) for h in order] == [("f", 1.2), ("r", 1.08), ("e", 1.0)]


def test_an_id_found_twice_keeps_its_better_score() -> None:
    order = fused([hit("x", 0.9, "event_search"), hit("x", 0.6, "reference_trace"), hit("y", 0.1, "event_search")], 9)
    assert [(h.id, h.source) for h in order] == [("x", "reference_trace"), ("y", "event_search")]


def test_ties_are_settled_by_id_and_the_rest_is_cut() -> None:
    assert [h.id for h in fused([hit(i, 0.5, "event_search") for i in "cab"], 2)] == ["a", "b"]


# --- understanding


def test_a_speaker_s_name_is_neither_looked_for_nor_embedded() -> None:
    question = asked("What is Caroline's favourite tea, and did Caroline buy it?", "Caroline", "Mel")
    assert question.names == ("Caroline",)
    assert "caroline" not in question.words
    assert question.as_said == "What is my favourite tea, and did I buy it?"


def test_chinese_names_are_found_without_spaces() -> None:
    question = asked("小林的猫叫什么？小林什么时候养的？", "小林", "小周")
    assert question.names == ("小林",)
    assert question.as_said == "我的猫叫什么？我什么时候养的？"
    assert question.wants_date


def test_a_name_inside_a_word_is_no_name() -> None:
    assert asked("Is the melon ripe?", "Mel").names == ()


def test_a_speaker_is_called_by_the_first_name_too() -> None:
    assert asked("Where does Ann live?", "Ann Lee").names == ("Ann",)


@pytest.mark.parametrize(
    "text", ['say "AND" OR (not -this', "NOT", "a -b", "“引号", "((", "C++ -- 吗？", "it's 100% 'quoted'"]
)
def test_any_text_becomes_words_a_search_can_read(text: str) -> None:
    words = asked(text).words
    assert not words or parse(words)


def test_a_question_of_nothing_but_empty_words_looks_for_no_word() -> None:
    assert asked("What is it?").words == ""


def test_dates_in_a_question_are_stretches_of_time() -> None:
    (period,) = asked("上周我说了什么？").periods
    days = [datetime.fromtimestamp(ms / 1000, UTC).date().isoformat() for ms in period]
    assert days == ["2026-03-02", "2026-03-09"]


@pytest.mark.parametrize(
    ("text", "several"),
    [
        ("What books has Ann read?", True),
        ("How many times did they meet?", True),
        ("他去过哪些城市？", True),
        ("Where was Ann born?", False),
        ("他住在哪里？", False),
    ],
)
def test_some_questions_want_several_places(text: str, several: bool) -> None:
    assert asked(text).wants_several is several


# --- weighing


def test_every_weight_has_a_feature_and_every_feature_a_range() -> None:
    assert DATA.weights.keys() <= set(FEATURES)
    turns = [turn(f"I like tea {n}", n, words=n, meaning=n, facts=n, day=n) for n in range(1, 9)]
    table = tabled(asked("When did I like tea on 2026-01-03?"), turns, DATA)
    assert ((table.values >= 0) & (table.values <= 1)).all()


def test_what_stands_next_to_a_match_is_lifted() -> None:
    turns = (turn("Where do you live?", 1, words=4.0), turn("In Lisbon.", 2), turn("Nice weather.", 9))
    assert feature("words_before", asked("live"), *turns) == {"s/1": 0.0, "s/2": 1.0, "s/9": 0.0}
    assert feature("answers", asked("live"), *turns)["s/2"] == 0.5


def test_neighbours_are_neighbours_in_one_session_only() -> None:
    turns = (turn("one", 1, "a", words=1.0), turn("two", 2, "b"))
    assert feature("words_before", asked("one"), *turns)["b/2"] == 0.0


def test_the_one_named_counts_only_if_one_is_named() -> None:
    turns = (turn("I paint", 1, speaker="Ann", words=1.0), turn("I paint", 2, speaker="Bob", words=1.0))
    assert feature("speaker", asked("What does Ann paint?", "Ann", "Bob"), *turns) == {"s/1": 1.0, "s/2": 0.0}
    assert set(feature("speaker", asked("Do Ann and Bob paint?", "Ann", "Bob"), *turns).values()) == {0.0}


def test_a_date_in_the_words_matters_where_one_is_asked_for() -> None:
    turns = (turn("We met yesterday", 1, words=1.0), turn("We met", 2, words=1.0), turn("我们昨天见的", 3, words=1.0))
    assert feature("dated", asked("When did they meet?"), *turns) == {"s/1": 1.0, "s/2": 0.0, "s/3": 1.0}
    assert set(feature("dated", asked("Where did they meet?"), *turns).values()) == {0.0}


def test_a_stretch_of_time_in_the_question_meets_the_time_of_a_turn() -> None:
    turns = (turn("tea", 1, words=1.0, day=3), turn("tea", 2, words=1.0, day=4))
    assert feature("in_period", asked("tea on 2026-01-03"), *turns) == {"s/1": 1.0, "s/2": 0.0}


def test_asking_is_told_from_telling_in_both_languages() -> None:
    turns = (turn("Is it raining?", 1), turn("It rains.", 2), turn("下雨了吗", 3), turn("下雨了", 4))
    assert feature("asks", asked("rain"), *turns) == {"s/1": 1.0, "s/2": 0.0, "s/3": 1.0, "s/4": 0.0}


def test_rare_words_cover_more_of_a_question() -> None:
    turns = (turn("tea shop", 1, "a"), turn("tea", 5, "b"), turn("tea", 9, "c"), turn("shop", 20, "d"))
    covered = feature("coverage", asked("tea shop"), *turns)
    assert covered["a/1"] == 1.0
    assert 0 < covered["b/5"] < covered["d/20"] < 1


# --- serving


def test_a_ranking_is_the_same_whatever_order_turns_come_in() -> None:
    turns = [turn(str(n), n) for n in range(5)]
    scores = np.array([1.0, 2.0, 2.0, 0.5, 2.0])
    back = [turns[::-1][i].entry.id for i in in_order(turns[::-1], scores[::-1], 9)]
    assert [turns[i].entry.id for i in in_order(turns, scores, 9)] == back == ["s/1", "s/2", "s/4", "s/0", "s/3"]


def test_several_places_come_before_several_turns_of_one() -> None:
    turns = [turn("a", 1, "x"), turn("b", 2, "x"), turn("c", 1, "y")]
    scores = np.array([1.0, 0.98, 0.95])
    assert [turns[i].entry.text for i in spread(turns, scores, 3, Several(0.02, 0.1))] == ["a", "c", "b"]
    assert [turns[i].entry.text for i in spread(turns, scores, 2, Several(0.0, 0.0))] == ["a", "b"]


# --- a piece of prompt


def test_a_prompt_has_the_profile_first_and_keeps_to_its_budget() -> None:
    text, used = prompt_of("en", "Ann, a painter.", ["short one", "word " * 300, "another short one"], 80)
    assert text.splitlines()[1:] == [
        "About the user:",
        "Ann, a painter.",
        "Relevant memories:",
        "- short one",
        "- another short one",
    ]
    assert used == (0, 2)


@pytest.mark.parametrize(("language", "said"), [("zh", "相关记忆："), ("en", "Relevant memories:")])
def test_a_prompt_speaks_the_language_of_the_question(language: Any, said: str) -> None:
    assert said in prompt_of(language, "", ["x"], 100)[0]


def test_nothing_to_say_is_an_empty_prompt() -> None:
    assert prompt_of("en", "", [], 100) == ("", ())
