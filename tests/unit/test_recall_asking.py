"""What a question to memory asks for: the area of life, the things it names, of whom, in which form."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mnemon.contracts.recall import RecallSettings
from mnemon.contracts.turns import Role
from mnemon.logic.recall.asking import Asked, understood
from mnemon.logic.recall.hypotheses import hypotheses

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)


def asked(question: str, settings: RecallSettings | None = None) -> Asked:
    return understood(question, settings or RecallSettings(), NOW)


def area_of(question: str) -> str:
    found = asked(question).area
    return found.name if found else ""


def needles(question: str) -> list[str]:
    return [wanted.text for wanted in asked(question).needles]


@pytest.mark.parametrize(
    ("question", "area", "shelf"),
    [
        ("你记得我有什么饮食偏好吗？", "food", "preferences"),
        ("Do you remember what I like to eat?", "food", "preferences"),
        ("我是不是说过我不吃辣？", "food", "preferences"),
        ("按我喜欢的格式总结一下上面的内容", "format", "preferences"),
        ("Summarise the above in the format I like", "format", "preferences"),
        ("你还记得我在哪里工作吗？", "employer", "profile"),
        ("Where do I work?", "employer", "profile"),
        ("我是做什么职业的？", "job", "profile"),
        ("What do I do for a living?", "job", "profile"),
        ("我们上次聊到的那个项目进展怎样了？", "project", "profile"),
        ("How is the project we talked about last time going?", "project", "profile"),
        ("我最近有什么重要日程/要办的事？", "schedule", "profile"),
        ("What important appointments do I have coming up?", "schedule", "profile"),
        ("我对什么过敏？", "allergy", "constraints"),
        ("What am I allergic to?", "allergy", "constraints"),
        ("我住在哪里？", "residence", "profile"),
        ("Where do I live?", "residence", "profile"),
        ("我的作息是怎样的？", "sleep", "preferences"),
        ("What is my sleep routine?", "sleep", "preferences"),
        ("你不能做什么？", "rules", "constraints"),
        ("What must you never do?", "rules", "constraints"),
    ],
)
def test_a_question_falls_into_its_area_of_life(question: str, area: str, shelf: str) -> None:
    found = asked(question).area
    assert found is not None
    assert (found.name, found.shelf) == (area, shelf)


@pytest.mark.parametrize("question", ["你记得我有什么饮食偏好吗？", "What do I like to eat?"])
def test_what_somebody_eats_is_also_what_they_must_not_eat(question: str) -> None:
    assert {area.name for area in asked(question).areas} >= {"food", "allergy"}


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("我是不是说过我不吃辣？", "辣"),
        ("Did I ever tell you that I don't eat spicy food?", "spicy"),
        ("Do I like cilantro?", "cilantro"),
        ("我什么时候去东京？", "东京"),
        ("When do I fly to Tokyo?", "Tokyo"),
        ("我养蛇吗？", "蛇"),
        ("Do I play the ukulele?", "ukulele"),
    ],
)
def test_what_a_question_names_is_looked_for(question: str, named: str) -> None:
    assert named in needles(question)


@pytest.mark.parametrize(
    "question",
    [
        "你记得我有什么饮食偏好吗？",
        "Do you remember what I like to eat?",
        "我住在哪里？",
        "Where do I live?",
        "我最近有什么重要日程/要办的事？",
        "1月我说过什么？",
        "What did I talk about in January?",
    ],
)
def test_the_frame_of_a_question_names_nothing(question: str) -> None:
    assert needles(question) == []


@pytest.mark.parametrize(
    ("question", "also"),
    [
        ("我吃辣吗？", "spicy"),
        ("Do I eat spicy food?", "辣"),
        ("我喝咖啡吗？", "coffee"),
        ("Do I like coffee?", "咖啡"),
    ],
)
def test_what_is_named_is_known_in_the_other_language_too(question: str, also: str) -> None:
    assert any(also in wanted.forms for wanted in asked(question).needles)


@pytest.mark.parametrize(("question", "kind"), [("我会什么乐器？", "钢琴"), ("Which instrument do I play?", "piano")])
def test_a_kind_answers_a_question_for_the_thing(question: str, kind: str) -> None:
    assert any(kind in wanted.kinds for wanted in asked(question).needles)


@pytest.mark.parametrize(
    ("question", "about", "names"),
    [
        ("我妈妈喜欢吃什么？", "妈妈", ()),
        ("What does my mum like to eat?", "mum", ()),
        ("我女儿对什么过敏？", "女儿", ()),
        ("What is my daughter allergic to?", "daughter", ()),
        ("Where does my brother live?", "brother", ()),
        ("小王喜欢什么音乐？", "", ("小王",)),
        ("Does Anna like jazz?", "", ("Anna",)),
        ("我住在哪里？", "", ()),
        ("Where do I live?", "", ()),
    ],
)
def test_whom_a_question_asks_of(question: str, about: str, names: tuple[str, ...]) -> None:
    found = asked(question)
    assert (found.about, found.names) == (about, names)


@pytest.mark.parametrize("question", ["我有弟弟吗？", "Do I have a brother?"])
def test_whether_there_is_such_a_person_is_asked_of_the_speaker(question: str) -> None:
    assert asked(question).about == ""


@pytest.mark.parametrize(
    ("zh", "en"), [("我妈妈住在哪里？", "Where does my mum live?"), ("我爸爸做什么工作？", "What does my dad do?")]
)
def test_what_is_asked_of_somebody_else_falls_into_the_area_it_would_for_oneself(zh: str, en: str) -> None:
    assert area_of(zh) == area_of(en) != ""


@pytest.mark.parametrize(
    ("question", "yes_no"),
    [
        ("我吃辣吗？", True),
        ("我是不是说过我不吃辣？", True),
        ("我有没有去过日本？", True),
        ("Do I like coffee?", True),
        ("你记得我喜欢什么吗？", False),
        ("你知道我在哪里工作吗？", False),
        ("Do you remember what I like?", False),
    ],
)
def test_which_questions_can_be_answered_by_yes_or_no(question: str, yes_no: bool) -> None:
    assert asked(question).yes_no is yes_no


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("我是不是说过我不吃辣？", True),
        ("我提过我的生日吗？", True),
        ("Did I ever tell you about my allergy?", True),
        ("Have I mentioned my dog?", True),
        ("我吃辣吗？", False),
        ("Do I eat spicy food?", False),
    ],
)
def test_which_questions_ask_for_what_was_said(question: str, said: bool) -> None:
    assert asked(question).said is said


@pytest.mark.parametrize(
    ("question", "still"),
    [
        ("我还喝咖啡吗？", True),
        ("Do I still drink coffee?", True),
        ("Don't I drink coffee anymore?", True),
        ("你还记得我喝咖啡吗？", False),
        ("我还有什么要办？", False),
        ("Do I drink coffee?", False),
    ],
)
def test_which_questions_ask_whether_it_is_still_so(question: str, still: bool) -> None:
    assert asked(question).still is still


@pytest.mark.parametrize(
    ("question", "wants"),
    [
        ("我什么时候去东京？", ("when",)),
        ("When do I fly to Tokyo?", ("when",)),
        ("我有几只猫？", ("number",)),
        ("How many cats do I have?", ("number",)),
        ("我的猫叫什么？", ("name",)),
        ("What is my cat called?", ("name",)),
        ("我喜欢什么音乐？", ()),
        ("What music do I like?", ()),
    ],
)
def test_what_an_answer_has_to_hold(question: str, wants: tuple[str, ...]) -> None:
    assert asked(question).wants == wants


@pytest.mark.parametrize(
    ("question", "sides"),
    [
        ("我喜欢咖啡还是茶？", ("咖啡", "茶")),
        ("Do I like coffee or tea?", ("coffee", "tea")),
        ("Do I work night shifts or day shifts?", ("night", "day")),
        ("我喜欢咖啡吗？", ()),
        ("Do I like coffee?", ()),
    ],
)
def test_the_two_sides_of_a_choice(question: str, sides: tuple[str, ...]) -> None:
    assert tuple(side.text for side in asked(question).either) == sides


@pytest.mark.parametrize(
    "question",
    [
        "你答应过我什么？",
        "你上次推荐了哪本书？",
        "你说过周五之前要给我什么？",
        "What did you promise me?",
        "What did you say you would send me by Friday?",
        "Which book did you recommend?",
    ],
)
def test_what_the_assistant_said_is_looked_for_in_its_own_words(question: str) -> None:
    found = asked(question)
    assert found.role is Role.ASSISTANT
    assert [h.proof for h in hypotheses(found)] in (["助手的原话"], ["the assistant's own words"])


@pytest.mark.parametrize("question", ["我告诉过你我住哪吗？", "Did I tell you where I live?"])
def test_what_the_user_said_is_looked_for_in_their_words(question: str) -> None:
    assert asked(question).role is Role.USER
    assert asked(question, RecallSettings(role=None)).role is None


@pytest.mark.parametrize(("question", "language"), [("我住在哪里？", "zh"), ("Where do I live?", "en")])
def test_the_language_is_that_of_the_question_unless_the_caller_sets_one(question: str, language: str) -> None:
    assert asked(question).language == language
    assert asked(question, RecallSettings(language="en")).language == "en"


@pytest.mark.parametrize(
    "question",
    [
        "你记得我有什么饮食偏好吗？",
        "我是不是说过我不吃辣？",
        "按我喜欢的格式总结一下上面的内容",
        "你还记得我在哪里工作/做什么职业吗？",
        "我们上次聊到的那个项目进展怎样了？",
        "我最近有什么重要日程/要办的事？",
        "我妈妈喜欢吃什么？",
        "Do I still drink coffee?",
        "What did I say in January?",
        "What did you promise me?",
        "?",
    ],
)
def test_one_to_three_hypotheses_each_with_what_would_prove_it(question: str) -> None:
    found = asked(question)
    supposed = hypotheses(found)
    assert 1 <= len(supposed) <= 3
    assert len({h.statement for h in supposed}) == len(supposed)
    assert all(h.statement and h.proof for h in supposed)
    assert {h.shelf for h in supposed} == {found.area.shelf if found.area else "profile"}


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("我是不是说过我不吃辣？", "辣"),
        ("Do I like cilantro?", "cilantro"),
        ("我妈妈喜欢吃什么？", "妈妈"),
        ("What does Anna like?", "Anna"),
        ("你记得我有什么饮食偏好吗？", "饮食"),
    ],
)
def test_the_first_hypothesis_is_about_what_is_asked(question: str, word: str) -> None:
    assert word in hypotheses(asked(question))[0].statement


@pytest.mark.parametrize("question", ["我还喝咖啡吗？", "Do I still drink coffee?", "我住在哪里？", "Where do I live?"])
def test_where_only_one_thing_can_hold_it_is_supposed_that_it_may_have_changed(question: str) -> None:
    assert any("变" in h.statement or "changed" in h.statement for h in hypotheses(asked(question)))
