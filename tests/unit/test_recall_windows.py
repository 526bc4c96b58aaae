"""How far back recall looks: what a question says about time, what the caller says, and how a window grows."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from mnemon.contracts.recall import RecallSettings, Window
from mnemon.contracts.turns import parse_time
from mnemon.logic.recall.asking import understood
from mnemon.logic.recall.windows import Windows, windows

# A Wednesday.
NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
PLAIN = RecallSettings()


def looked(question: str, settings: RecallSettings = PLAIN, now: datetime = NOW) -> Windows:
    return windows(question, settings, now, ahead=False)


def days_back(window: Window) -> int:
    assert window.since, "the window is open"
    return (NOW - parse_time(window.since)).days


@pytest.mark.parametrize(
    ("question", "shortest", "longest"),
    [
        ("我刚才说了什么？", 1, 7),
        ("这两天我聊了什么？", 2, 7),
        ("我最近在忙什么？", 2, 7),
        ("这周我说过想吃什么？", 2, 7),
        ("What did I say just now?", 1, 7),
        ("What have I been up to lately?", 2, 7),
        ("What did I bring up in the last couple of days?", 2, 7),
        ("我们上次说的那本书叫什么？", 14, 30),
        ("我之前提到过的餐厅是哪家？", 14, 30),
        ("我们聊过的那部电影是什么？", 14, 30),
        ("Which book was it last time?", 14, 30),
        ("What was the film we talked about?", 14, 30),
        ("What was the place I mentioned the other day?", 14, 30),
        ("我的长期目标是什么？", 180, 180),
        ("我一直喝什么茶？", 180, 180),
        ("我从小怕什么？", 180, 180),
        ("What have I always been afraid of?", 180, 180),
        ("What have I liked since childhood?", 180, 180),
        ("Which paper have I read for years?", 180, 180),
        ("What is my long-term goal?", 180, 180),
    ],
)
def test_what_a_question_says_about_time_is_the_first_window(question: str, shortest: int, longest: int) -> None:
    first = looked(question).steps[0]
    assert shortest <= days_back(first) <= longest
    assert first.until == ""


@pytest.mark.parametrize(
    ("question", "since", "until"),
    [
        ("2026年1月我说过什么？", "2026-01-01", "2026-02-01"),
        ("1月份我说过什么？", "2026-01-01", "2026-02-01"),
        ("2月14日我说了什么？", "2026-02-14", "2026-02-15"),
        ("上个月我说过要学什么？", "2026-02-01", "2026-03-01"),
        ("上周我说过什么？", "2026-03-09", "2026-03-16"),
        ("1月我们聊过什么？", "2026-01-01", "2026-02-01"),
        ("我去年9月提到过什么？", "2025-09-01", "2025-10-01"),
        ("What did I mention earlier in January?", "2026-01-01", "2026-02-01"),
        ("What did I say in January?", "2026-01-01", "2026-02-01"),
        ("What did I tell you on 14 February?", "2026-02-14", "2026-02-15"),
        ("What did I tell you on February 14, 2026?", "2026-02-14", "2026-02-15"),
        ("What did I say last month?", "2026-02-01", "2026-03-01"),
        ("What did I say last week?", "2026-03-09", "2026-03-16"),
    ],
)
def test_a_day_or_a_month_by_name_is_that_stretch_and_nothing_else(question: str, since: str, until: str) -> None:
    found = looked(question)
    assert [(w.since[:10], w.until[:10]) for w in found.steps] == [(since, until)]
    assert found.exact


@pytest.mark.parametrize("question", ["12月我说过什么？", "What did I say in December?"])
def test_what_was_said_in_a_month_to_come_was_said_the_year_before(question: str) -> None:
    (only,) = looked(question).steps
    assert (only.since[:10], only.until[:10]) == ("2025-12-01", "2026-01-01")


@pytest.mark.parametrize(
    ("question", "since", "until"),
    [
        ("我住在哪里？", "2025-05-01T00:00:00Z", "2025-06-01T00:00:00Z"),
        ("我最近在学什么？", "2025-05-01T00:00:00Z", "2025-06-01T00:00:00Z"),
        ("What do I always drink?", "2025-05-01T00:00:00Z", ""),
        ("What did I say in January?", "", "2025-06-01T00:00:00Z"),
    ],
)
def test_the_callers_range_wins_over_the_words_of_the_question(question: str, since: str, until: str) -> None:
    found = looked(question, RecallSettings(since=since, until=until))
    assert found == Windows((Window(since=since, until=until),), exact=True)


@pytest.mark.parametrize("window_days", [1, 30, 90, 400])
def test_without_a_word_on_time_the_default_window_comes_first_and_all_time_last(window_days: int) -> None:
    found = looked("我住在哪里？", RecallSettings(window_days=window_days))
    assert days_back(found.steps[0]) == window_days
    assert found.steps[-1] == Window()
    assert not found.exact


@pytest.mark.parametrize(
    "question",
    [
        "我住在哪里？",
        "Where do I live?",
        "我们上次聊到哪了？",
        "What did we talk about last time?",
        "我一直住在哪里？",
        "What do I always drink?",
        "我最近有什么安排？",
        "What is coming up?",
    ],
)
def test_each_window_holds_the_one_before_it(question: str) -> None:
    steps = looked(question).steps
    assert len(steps) > 1
    since = [step.since for step in steps]
    assert since == sorted(since, reverse=True)
    assert len(set(since)) == len(since)
    assert all(step.until == "" for step in steps)


@pytest.mark.parametrize("question", ["我最近在学什么？", "What have I been learning lately?", "这两天我聊了什么？"])
def test_what_is_asked_of_lately_is_never_looked_for_in_all_time(question: str) -> None:
    found = looked(question)
    assert found.exact
    assert all(days_back(step) <= 30 for step in found.steps)


@pytest.mark.parametrize(
    "question",
    [
        "我说过周五之前要交什么？",
        "我说周五要去哪？",
        "我答应下周三给谁打电话？",
        "What did I say must be done by Friday?",
        "What did I want to finish before Monday?",
        "What did I have to send by tomorrow?",
    ],
)
def test_a_day_by_which_something_is_due_says_nothing_about_when_it_was_told(question: str) -> None:
    found = looked(question)
    assert not found.exact
    assert found == looked("我住在哪里？")


@pytest.mark.parametrize("question", ["我周日一般做什么？", "What do I do on Sundays?", "我周末喜欢干什么？"])
def test_a_day_of_habit_is_no_day_on_which_something_was_said(question: str) -> None:
    assert looked(question) == looked("我住在哪里？")


@pytest.mark.parametrize(
    ("question", "begins", "ends"),
    [
        ("下周我有什么安排？", date(2026, 3, 23), date(2026, 3, 30)),
        ("明天我有什么日程？", date(2026, 3, 19), date(2026, 3, 20)),
        ("What appointments do I have next week?", date(2026, 3, 23), date(2026, 3, 30)),
        ("What is on my calendar tomorrow?", date(2026, 3, 19), date(2026, 3, 20)),
    ],
)
def test_a_question_for_the_schedule_looks_ahead_for_the_day_and_back_for_the_words(
    question: str, begins: date, ends: date
) -> None:
    asked = understood(question, PLAIN, NOW)
    assert asked.period is not None
    assert (asked.period.begins, asked.period.ends) == (begins, ends)
    assert all(
        not step.until and parse_time(step.since or "1970-01-01T00:00:00Z") < NOW for step in asked.windows.steps
    )


def test_the_same_question_in_the_same_second_asks_for_the_same() -> None:
    later = NOW + timedelta(microseconds=999_999)
    for question in ("我住在哪里？", "我最近在学什么？", "What did I say in January?"):
        assert looked(question) == looked(question, now=later)


def test_days_are_those_of_whoever_asks_and_moments_are_told_in_utc() -> None:
    there = NOW.astimezone(timezone(timedelta(hours=8)))
    assert looked("我最近在学什么？", now=there) == looked("我最近在学什么？")
    (day,) = looked("2月14日我说了什么？", now=there).steps
    assert (day.since, day.until) == ("2026-02-13T16:00:00Z", "2026-02-14T16:00:00Z")
