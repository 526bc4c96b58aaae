"""Recall as laws: whatever is asked and whatever the tools show, nothing is stated that nobody said."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from mnemon.contracts.recall import Call, Item, RecallSettings, Recollection, Seen
from mnemon.contracts.results import Message
from mnemon.logic.recall import recall_flow

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
TRIES = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

# Questions of every kind and what people say to be asked about, so that there is something to find.
QUESTIONS = (
    """
你记得我有什么饮食偏好吗？|Do I still drink coffee?|我住在哪里？|Where do I live?|我最近有什么重要日程？|What is coming up?
我们上次聊到的那个项目进展怎样了？|What did you promise me?|我妈妈喜欢吃什么？|Does Anna like jazz?|我喜欢咖啡还是茶？
What did I say in January?|按我喜欢的格式总结一下|我是不是说过我不吃辣？|How many cats do I have?|我还有什么没做？|What are my rules?
""".strip()
    .replace("\n", "|")
    .split("|")
)
SAYINGS = (
    """
我不吃辣，也不吃海鲜。|I drink coffee every morning.|我现在不喝咖啡了|I moved to Rome.|我住在北京。|I live in Berlin.
下周三要去面试|I have an interview on March 25.|项目叫青鸟，刚立项。|青鸟上线了|I will send you the report by Friday.|我妈妈爱吃鱼
Anna loves jazz.|打错了，是茶|Sorry, I meant tea.|开玩笑的|just kidding|如果我吃素|Maybe I like opera.|他说“我讨厌香菜”|您不吃辣，对吧？
对的。|以后都先说结论|Please always use bullet points.|我有两只猫，一只叫 Momo|👨‍👩‍👧 我家三口人|cafe\u0301 我爱喝|\u202e我住在广州\u202c
""".strip()
    .replace("\n", "|")
    .split("|")
)
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.text("我不吃辣喜欢？吗了 Ilikedont.,'“”…\n", max_size=40)
questions = st.sampled_from(QUESTIONS) | ANY
contents = st.sampled_from(SAYINGS) | ANY.map(lambda text: f"{text} 嗯嗯")


@st.composite
def talks(draw: st.DrawFn) -> tuple[Message, ...]:
    """Messages of a few sessions, some of them at the same moment."""
    rows = draw(
        st.lists(
            st.tuples(contents, st.sampled_from(("user", "user", "assistant", "system", "tool")), st.integers(0, 40)),
            max_size=14,
        )
    )
    return tuple(
        Message(f"m{n}", _at(days), role, content, f"s{days % 3}", "", {"seq": n} if days % 2 else {})
        for n, (content, role, days) in enumerate(rows)
    )


def _at(days: int) -> str:
    return (NOW - timedelta(days=days * 3, minutes=days)).isoformat().replace("+00:00", "Z")


def shown(talk: tuple[Message, ...], call: Call) -> Seen:
    """What a store of these messages would show: a score for each that is the same however often it is asked."""
    if call.tool == "neighbors":
        anchor = next(m for m in talk if m.message_id == call.arguments["message_id"])
        return Seen(tuple(m for m in talk if m.session_id == anchor.session_id))
    narrowed = call.arguments if call.tool == "messages_list" else call.arguments.get("filter", {})
    there = tuple(m for m in talk if narrowed.get("role", m.role) == m.role)
    if call.tool == "messages_list":
        return Seen(there)
    scores = [1 / (2 + n) if m.content in SAYINGS else 0.1 / (2 + n) for n, m in enumerate(there)]
    return Seen(there, tuple(scores))


def recalled(question: str, use: Callable[[Call], Seen], limits: RecallSettings | None = None) -> Recollection:
    """The end of a flow, which has to come within its calls."""
    limits = limits or RecallSettings()
    flow = recall_flow(question, limits, NOW)
    try:
        call = next(flow)
        for _ in range(limits.max_calls):
            call = flow.send(use(call))
    except StopIteration as ended:
        made: Recollection = ended.value
        return made
    raise AssertionError(f"after {limits.max_calls} calls it still asks for {call}")


@TRIES
@given(questions, talks())
@example("", ())
@example("\x00\u202e🙂", ())
@example("？？？？", (Message("m0", _at(0), "user", "😂😂", "s", ""),))
def test_whatever_is_asked_it_ends_with_an_answer(question: str, talk: tuple[Message, ...]) -> None:
    made = recalled(question, lambda call: shown(talk, call))
    assert made.answer
    assert made.limits.calls == len(made.trace)
    assert made.limits.messages_considered <= len(talk)


@TRIES
@given(questions, talks(), st.integers(0, 8), st.integers(1, 6), st.booleans())
def test_no_budget_is_ever_exceeded_and_no_call_made_twice(
    question: str, talk: tuple[Message, ...], max_calls: int, max_rounds: int, fails: bool
) -> None:
    calls: list[tuple[str, str]] = []

    def use(call: Call) -> Seen:
        calls.append((call.tool, repr(call.arguments)))
        seen = shown(talk, call)
        return Seen(error="down") if fails and len(calls) % 2 else Seen(seen.messages, seen.scores, more=True)

    made = recalled(question, use, RecallSettings(max_calls=max_calls, max_rounds=max_rounds))
    assert len(calls) <= max_calls
    assert made.limits.rounds <= max_rounds
    assert fails or len(set(calls)) == len(calls)


@TRIES
@given(questions, talks())
def test_the_same_question_over_the_same_messages_has_the_same_answer(
    question: str, talk: tuple[Message, ...]
) -> None:
    first, again = (recalled(question, lambda call: shown(talk, call)) for _ in range(2))
    assert first == again


@TRIES
@given(st.sampled_from(QUESTIONS), talks(), st.integers(1, 60))
@example("我住在哪里？", (Message("m0", _at(1), "user", "我住在北京。", "s", ""),), 3)
def test_every_point_rests_on_words_that_were_said(question: str, talk: tuple[Message, ...], longest: int) -> None:
    made = recalled(question, lambda call: shown(talk, call), RecallSettings(evidence_length=longest))
    cited = {row.message_id: row for row in made.evidence}
    there = {message.message_id: message for message in talk}
    assert len(cited) == len(made.evidence)
    for item in made.view.items():
        assert item.evidence
        assert {*item.evidence, *item.against} <= cited.keys()
        assert not {*item.evidence} & {*item.against}
    for row in made.evidence:
        message = there[row.message_id]
        assert row.content == message.content[row.start : row.end]
        assert len(row.content) <= max(longest, 1)
        assert (row.role, row.ts, row.session_id) == (message.role, message.ts, message.session_id)
        assert {*row.neighbors} <= there.keys() - {row.message_id}
    assert {row.message_id for row in made.evidence} == {
        id_ for item in made.view.items() for id_ in (*item.evidence, *item.against)
    }


@TRIES
@given(st.sampled_from(QUESTIONS), talks(), st.randoms(use_true_random=False))
def test_the_order_of_what_is_shown_and_showing_it_twice_change_nothing(
    question: str, talk: tuple[Message, ...], chance: object
) -> None:
    def mixed(call: Call) -> Seen:
        seen = shown(talk, call)
        rows = list(zip(seen.messages, seen.scores or (0.0,) * len(seen.messages), strict=True))
        if call.tool != "semantic_search":  # how far a score stands out is told by the list as a whole
            rows += rows
        chance.shuffle(rows)  # type: ignore[attr-defined]
        return Seen(tuple(m for m, _ in rows), tuple(score for _, score in rows) if seen.scores else ())

    plain = recalled(question, lambda call: shown(talk, call))
    assert recalled(question, mixed).view == plain.view


@pytest.mark.parametrize("grounds", [(), None, ""])
def test_no_point_can_be_made_without_evidence(grounds: object) -> None:
    with pytest.raises(ValidationError):
        Item.model_validate({"statement": "不吃辣", "status": "settled", "confidence": 0.9, "evidence": grounds})
