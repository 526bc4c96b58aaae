"""A statement may say what the cited words say: no other word, number, date or sense, and nothing turned round."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mnemon.contracts.governance import Kind
from mnemon.logic.clauses import around, clauses
from mnemon.logic.numerals import numbers
from mnemon.logic.polarity import negative
from mnemon.logic.support import Cited, says_nothing, twisted, unsupported

SAID_AT = datetime(2026, 3, 10, 10, 30, tzinfo=UTC)  # a Tuesday


def odd(statement: str, words: str, **more: str) -> list[str]:
    return unsupported(statement, [Cited(words, said_at=SAID_AT, **more)])


def twist(statement: str, words: str, kind: Kind = Kind.FACT) -> str:
    return twisted(statement, [Cited(words, said_at=SAID_AT, before=words)], kind)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("The user lives in Rome.", "I live in Rome"),
        ("The user resides in Rome.", "I live in Rome"),
        (
            "The user bought a boat.",
            "I'm going to buy a boat",
        ),  # the words are there; how they are meant is another gate
        ("用户住在成都。", "我家住成都"),
        ("用户搬到了成都，住在成都。", "上个月搬到成都了"),
        ("The user has 12 cats.", "I have twelve cats"),
        ("用户有12只猫。", "我有十二只猫"),
        ("用户的预算是30万。", "预算三十万"),
        ("Due on 2026-03-13.", "due on Friday"),
        ("用户在2026年2月搬家。", "我上个月搬家了"),
        ("The meeting is in March 2026.", "The meeting is tomorrow"),
        ("The run was 5 km.", "The run was 5km"),
    ],
)
def test_what_was_said_may_be_said_again(statement: str, words: str) -> None:
    assert odd(statement, words) == []


@pytest.mark.parametrize(
    ("statement", "words", "what"),
    [
        ("The user lives in Milan.", "I live in Rome", "Milan"),
        ("用户住在重庆。", "我住在成都", "重庆"),
        ("The user lives in Rome.", "I visited Rome", "live"),
        ("用户在华为工作。", "我喜欢华为手机", "work"),
        ("The user has 3 cats.", "I have 2 cats", "3"),
        ("用户有三只猫。", "我有两只猫", "3"),
        ("The user has 5 dogs.", "I have 2 dogs and 5 cats", "5"),
        ("用户有五只狗。", "我有两只狗和五只猫", "5"),
        ("The user has 5 plants.", "I have twenty-five plants", "5"),
        ("The rate is 5.", "The rate is 5%", "5"),
        ("预算是30。", "预算是30万", "30"),
        ("The run was 5 miles.", "The run was 5 km", "miles"),
        ("跑了5英里。", "跑了5公里", "英里"),
        ("It costs $5.", "It costs 5 euros", "$"),
        ("Married in 2026.", "married in 2019", "2026"),
        ("Married on 2019-05-02.", "married in 2019", "2019-05-02"),
        ("会议在2026年3月11日下午五点。", "会议明天下午三点", "下午五点"),
        ("The user likes tea 🍵.", "I like tea", "🍵"),
        ("The user drinks tea daily.", "I drink tea", "daily"),
        ("用户每天喝茶。", "我喝茶", "daily"),
        ("The user likes Ann.", "I like Anna", "Ann"),
    ],
)
def test_what_was_not_said_is_named(statement: str, words: str, what: str) -> None:
    assert what in odd(statement, words)


def test_a_tool_says_nothing_of_the_user_unless_it_names_one() -> None:
    assert unsupported("The user lives in Bali.", [Cited("I live in Bali", from_tool=True)]) == ["The user"]
    assert unsupported("The user lives in Bali.", [Cited("user lives in Bali", from_tool=True)]) == []


def test_a_question_gives_its_sense_to_the_answer_and_none_of_its_words() -> None:
    assert odd("The user lives in Oslo.", "Oslo", asked="Where do you live?") == []
    assert odd("用户对花生过敏。", "花生", asked="对什么过敏？") == []
    assert odd("The user lives in Oslo.", "yes", asked="Do you live in Oslo?") == ["Oslo"]
    assert twisted("用户对花生过敏。", [Cited("花生", asked="对什么过敏？")]) == ""


@pytest.mark.parametrize("statement", ["The user is a person.", "用户说了。", "It is.", "!!!"])
def test_words_that_fit_anything_say_nothing(statement: str) -> None:
    assert says_nothing(statement)
    assert not says_nothing("The user likes it.")


ROUND = "turns the quoted words round"


@pytest.mark.parametrize(
    ("statement", "words", "why"),
    [
        ("The user likes tea.", "I don't like tea.", ROUND),
        ("The user does not like tea.", "I like tea.", ROUND),
        ("用户喜欢茶。", "我不喜欢茶。", ROUND),
        ("用户不喜欢茶。", "我喜欢茶。", ROUND),
        ("The user likes milk but not tea.", "I like tea but not milk.", ROUND),
        ("用户喜欢咖啡，不喜欢茶。", "我喜欢茶，不喜欢咖啡。", ROUND),
        ("The user hates tea.", "I like tea and hate coffee.", ROUND),
        ("The user lives in Rome.", "Do I live in Rome?", "states what was asked"),
        ("用户住在成都。", "我是不是住在成都？", "states what was asked"),
        ("The user moved to Rome.", "If I moved to Rome, rent would double.", "states what was only supposed"),
        ("用户搬到成都。", "要是我搬到成都就好了。", "states what was only supposed"),
        ("The user learns Go.", "I want to learn Go.", "states as so what was only wished or planned"),
        ("用户学吉他。", "我想学吉他。", "states as so what was only wished or planned"),
        ("The user is allergic to cats.", "Maybe I'm allergic to cats.", "states as certain what was in doubt"),
        ("用户对猫过敏。", "我可能对猫过敏。", "states as certain what was in doubt"),
        ("The user is lazy.", "My boss says I'm lazy.", "states as so what others say"),
        ("用户很懒。", "老板说我很懒。", "states as so what others say"),
        ("The user smokes.", "I used to smoke.", "states as so what is over"),
        ("用户抽烟。", "我以前抽烟。", "states as so what is over"),
        ("The user is a pilot.", "Translate this: I am a pilot", "takes a text to be worked on for what somebody says"),
        ("用户是飞行员。", "翻译一下：我是飞行员", "takes a text to be worked on for what somebody says"),
        ("The user is a chef.", "You are a chef.", "says of the speaker what was said to another"),
        ("用户是律师。", "你是律师，帮我看看。", "says of the speaker what was said to another"),
        ("The user lives in Rome.", "My sister lives in Rome.", "leaves out that it was said of sister"),
        ("The user hates cats.", "My sister snores and hates cats.", "leaves out that it was said of sister"),
        ("用户住在成都。", "我妹妹住在成都。", "leaves out that it was said of 妹妹"),
        ("The user lives in Rome.", "She lives in Rome.", "leaves out that it was said of She"),
        ("The user prefers Emacs to Vim.", "I prefer Vim to Emacs.", "changes what comes before and after"),
        ("用户从上海搬到成都。", "我从成都搬到上海。", "changes what comes before and after"),
        ("The food is 1200.", "The rent is 1200, the food is 300.", "says 1200 of another thing"),
        ("用户的伙食费三千。", "房租三千，伙食费一千五。", "says 3000 of another thing"),
        ("Ben lives in Rome.", "Anna met Ben. Anna lives in Rome.", "leaves out that it was said of Anna"),
    ],
)  # fmt: skip
def test_a_statement_of_the_right_words_may_still_be_twisted(statement: str, words: str, why: str) -> None:
    assert twist(statement, words) == why


@pytest.mark.parametrize(
    ("statement", "words", "kind"),
    [
        ("The user does not like tea or coffee.", "I don't like tea, coffee or beer.", Kind.PREFERENCE),
        ("用户不喜欢咖啡。", "我不喜欢茶，咖啡，可乐。", Kind.PREFERENCE),
        ("The user lives in Rome.", "I live in Rome, where should I eat?", Kind.FACT),
        ("用户住在成都。", "我住在成都，附近有什么好吃的？", Kind.FACT),
        ("Remind the user to call Ann.", "Can you remind me to call Ann?", Kind.TASK),
        ("提醒用户给安娜打电话。", "能不能提醒我给安娜打电话？", Kind.TASK),
        ("If the user asks for code, use Go.", "If I ask for code, use Go.", Kind.RULE),
        ("The user wants to learn Go.", "I want to learn Go.", Kind.FACT),
        ("用户可能对猫过敏。", "我可能对猫过敏。", Kind.FACT),
        ("The user's sister lives in Rome.", "My sister lives in Rome.", Kind.FACT),
        ("The user and their brother live in Rome.", "My brother and I live in Rome.", Kind.FACT),
        ("The user lives with their brother in Rome.", "I live with my brother in Rome.", Kind.FACT),
        ("用户什么都吃。", "我什么都吃。", Kind.PREFERENCE),
        ("The food is 300.", "The rent is 1200, the food is 300.", Kind.FACT),
        ("用户的伙食费一千五。", "房租三千，伙食费一千五。", Kind.FACT),
        ("The user can't live without coffee.", "I can't live without coffee.", Kind.PREFERENCE),
    ],
)
def test_fair_statements_are_not_called_twisted(statement: str, words: str, kind: Kind) -> None:
    assert twist(statement, words, kind) == ""


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("twenty-five", ["25"]), ("two hundred and five", ["205"]), ("one, two", ["1", "2"]), ("a dozen", ["12"]),
        ("3.5万", ["35000"]), ("三百零五", ["305"]), ("二〇二六", ["2026"]), ("1,000,000", ["1000000"]),
        ("12k", ["12000"]), ("百分之五", ["5%"]), ("five percent", ["5%"]), ("none", []),
        ("九" + "亿" * 900, ["九" + "亿" * 900]),
    ],
)  # fmt: skip
def test_numbers_are_read_however_they_are_written(text: str, values: list[str]) -> None:
    assert [value for value, _, _ in numbers(text)] == values


@pytest.mark.parametrize(
    ("text", "against"),
    [("我不喜欢", True), ("不得不说喜欢", False), ("非洲很大", False), ("don’t", True), ("can't live without", False),
     ("not only tea", False), ("戒指", False), ("戒烟", True), ("haven't", True)],
)  # fmt: skip
def test_signs_are_counted(text: str, against: bool) -> None:
    assert negative(text) is against


def test_a_quote_stands_for_its_sentence_and_one_that_points_back_takes_the_one_before_along() -> None:
    text = "I have two cats. They are called Miso and Tofu. 我住在成都。"
    assert around(text, text.index("Miso"), text.index("Miso") + 4).strip() == text[:47]
    assert around(text, text.index("成都"), text.index("成都") + 2).strip() == "我住在成都。"


def test_a_clause_has_a_verb_of_its_own_or_belongs_to_its_neighbour() -> None:
    assert len(clauses("I don't like tea, coffee or beer.")) == 1
    assert len(clauses("I like tea but not coffee.")) == 2
    assert len(clauses("我喜欢茶，不喜欢咖啡。")) == 2
    assert len(clauses("周末的时候，我不喝酒。")) == 1
