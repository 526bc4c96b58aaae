"""Recall as laws: whatever is asked and whatever the tools show, nothing is stated that nobody said."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from mnemon.contracts.recall import Call, Item, RecallSettings, Recollection, Seen
from mnemon.contracts.results import Message
from mnemon.logic.recall import recall_flow

Asked = tuple[str, tuple[Message, ...]]

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
TRIES = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

# What may be asked, and what people say about it: in earnest, in doubt, in jest, of others, taken back, put right.
TOPICS: dict[str, str] = {
    "Do I still drink coffee?": """
I drink coffee every morning.|I no longer drink coffee.|If I drank coffee, I'd sleep badly.|Maybe I like coffee.
My brother loves coffee.|just kidding|我现在不喝咖啡了|He said “I hate coffee”""",
    "我住在哪里？": """
我住在北京。|我上个月搬到杭州了。|如果我住在东京|我妈妈住在上海。|I moved to Rome.
打错了，是苏州|\u202e我住在广州\u202c""",
    "你记得我有什么饮食偏好吗？": """
我不吃辣，也不吃海鲜。|我能吃十斤辣椒，哈哈哈|现在能吃辣了|我好像对花生过敏
您不吃辣，对吧？|对的。|cafe\u0301 我爱喝""",
    "我最近有什么重要日程？": """
下周三要去面试|3月25日交房租，别忘了|I have an exam on March 24.|Sorry, I meant March 25.|上周三开会了""",
    "我们上次聊到的那个项目进展怎样了？": """
项目叫青鸟，刚立项。|青鸟上线了|The app is called Heron.|Heron is stuck in review.""",
    "What did you promise me?": """
I will send you the report by Friday.|我会在周五之前发给您|I promise.|You promised me a report.""",
    "Does Anna like jazz?": """
Anna loves jazz.|She hates jazz now.|I like jazz.|Maybe Anna likes jazz.|🎷 Anna?""",
    "How do I like your answers?": """
以后都先说结论|Please always use bullet points.|Translate this: use bullet points|别用表格 👨‍👩‍👧""",
    "What did I say in January?": """
I planted tomatoes.|我种了番茄。|Sure.""",
}
# Everyday talk in which a matter can be told in every way there is, and questions that some of it only touches.
THINGS = (("仓鼠", "hamsters"), ("狗", "dogs"), ("猫", "cats"), ("自行车", "bikes"), ("兄弟", "brothers"))
ASKING = (
    "我的{0}叫什么？|我有几{1}{0}？|我的{0}在哪里？|我还有{0}吗？",
    "How many {0} do I have?|Do I have {0}?|Where are my {0}?",
)
TELLING = (
    "我的{0}叫豆豆。|我有三{1}{0}。|{0}昨晚跑了|我没有{0}|我以前有{0}|我好像有两{1}{0}|要是我有{0}就好了|我妈妈有{0}|"
    "{0}叫什么来着？|帮我给{0}取个名字|想养{0}|开玩笑的|打错了，是五{1}|你有{0}吧？|对",
    "I have two {0}.|My {0} are loud.|I used to have three {0}.|I don't have {0} any more.|Maybe I have {0}.|Yes.|"
    "I wish I had five {0}.|My sister has {0}.|Do I have {0}?|Write about my two {0}.|just kidding|"
    "Sorry, I meant four.|You have six {0}, right?",
)
SAID = {question: tuple(told.strip().replace("\n", "|").split("|")) for question, told in TOPICS.items()}
SAYINGS = tuple(saying for told in SAID.values() for saying in told)
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.text(
    "我不吃辣喜欢？吗了 Ilikedont.,'“”…", max_size=40
)
# Beside them, what has nothing to do with anything: most of what anybody says.
TALK = tuple(f"第{n}班车晚点了。" for n in range(1, 9))


@st.composite
def talks(draw: st.DrawFn, about: tuple[str, ...] = SAYINGS, at_least: int = 0) -> tuple[Message, ...]:
    """Messages of a few sessions, some of them at the same moment."""
    said = st.sampled_from(about)
    contents = said | said | ANY
    roles = st.sampled_from(("user", "user", "user", "assistant", "system", "tool"))
    rows = draw(st.lists(st.tuples(contents, roles, st.integers(0, 40)), min_size=at_least, max_size=9))
    rows += [(content, "user", n) for n, content in enumerate(TALK)]
    return tuple(
        Message(f"m{n}", _at(days), role, content, f"s{days % 3}", "", {"seq": n} if days % 2 else {})
        for n, (content, role, days) in enumerate(rows)
    )


questions = st.sampled_from(sorted(TOPICS)) | ANY
asked = st.sampled_from(sorted(TOPICS)).flatmap(lambda question: st.tuples(st.just(question), talks(SAID[question], 4)))


def _at(days: int) -> str:
    return (NOW - timedelta(days=days * 3, minutes=days)).isoformat().replace("+00:00", "Z")


def _talk(*texts: str) -> tuple[Message, ...]:
    return tuple(Message(f"m{n}", _at(9 - n), "user", text, "s", "", {"seq": n}) for n, text in enumerate(texts))


def shown(talk: tuple[Message, ...], call: Call) -> Seen:
    """What a store of these messages would show: a score for each that is the same however often it is asked."""
    if call.tool == "neighbors":
        anchor = next(m for m in talk if m.message_id == call.arguments["message_id"])
        return Seen(tuple(m for m in talk if m.session_id == anchor.session_id))
    narrowed = call.arguments if call.tool == "messages_list" else call.arguments.get("filter", {})
    there = tuple(m for m in talk if narrowed.get("role", m.role) == m.role)
    if call.tool == "messages_list":
        return Seen(there)
    scores = ((0.7 if m.content in SAYINGS else 0.1) - n / 500 for n, m in enumerate(there))
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


@st.composite
def everyday(draw: st.DrawFn) -> Asked:
    """A question of every day, and a handful of messages that bear on it, each in some way or other."""
    language = draw(st.integers(0, 1))
    thing = draw(st.sampled_from(THINGS))[language]
    question = draw(st.sampled_from(ASKING[language].split("|")))
    ways = st.sampled_from(TELLING[language].split("|"))
    rows = draw(st.lists(st.tuples(ways, st.integers(0, 6)), min_size=2, max_size=7))
    told = [
        (text.format(thing, "只"), days, "assistant" if text[:3] in ("You", "你有{") else "user") for text, days in rows
    ]
    return question.format(thing, "只"), tuple(
        Message(f"m{n}", _at(days), role, text, f"s{days % 2}", "", {"seq": n})
        for n, (text, days, role) in enumerate(told)
    )


@settings(TRIES, max_examples=120)
@given(everyday())
@example(("我的仓鼠叫什么？", _talk("我的仓鼠叫豆豆。", "我没有仓鼠", "仓鼠昨晚跑了")))
@example(("How many dogs do I have?", _talk("I have two dogs.", "I don't have dogs any more.", "My dogs are loud.")))
def test_an_everyday_question_is_answered_whatever_bears_on_it(about: Asked) -> None:
    question, talk = about
    made = recalled(question, lambda call: shown(talk, call))
    assert made.answer
    assert {row.message_id for row in made.evidence} <= {message.message_id for message in talk}


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
@given(asked)
def test_the_same_question_over_the_same_messages_has_the_same_answer(about: Asked) -> None:
    question, talk = about
    first, again = (recalled(question, lambda call: shown(talk, call)) for _ in range(2))
    assert first == again


@TRIES
@given(asked, st.integers(1, 60))
def test_every_point_rests_on_words_that_were_said(about: Asked, longest: int) -> None:
    question, talk = about
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
@given(asked, st.randoms(use_true_random=False))
def test_the_order_of_what_is_shown_and_showing_it_twice_change_nothing(about: Asked, chance: Random) -> None:
    question, talk = about

    def mixed(call: Call) -> Seen:
        seen = shown(talk, call)
        rows = list(zip(seen.messages, seen.scores or (0.0,) * len(seen.messages), strict=True))
        if call.tool != "semantic_search":  # how far a score stands out is told by the list as a whole
            rows += rows
        chance.shuffle(rows)
        return Seen(tuple(m for m, _ in rows), tuple(score for _, score in rows) if seen.scores else ())

    plain = recalled(question, lambda call: shown(talk, call))
    assert recalled(question, mixed).view == plain.view


@pytest.mark.parametrize("grounds", [(), None, ""])
def test_no_point_can_be_made_without_evidence(grounds: object) -> None:
    with pytest.raises(ValidationError):
        Item.model_validate({"statement": "不吃辣", "status": "settled", "confidence": 0.9, "evidence": grounds})
