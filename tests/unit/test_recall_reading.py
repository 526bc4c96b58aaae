"""What messages say: whose a clause is, how it is meant, whether it is for or against, and where it stands."""

from __future__ import annotations

import pytest

from mnemon.contracts.results import Message
from mnemon.logic.recall.aftermath import confirmed, correction, taken_back
from mnemon.logic.recall.reading import read
from mnemon.logic.recall.saying import EARNEST, Saying

EARLY = "2026-03-01T10:00:00Z"


def said(content: str, role: str = "user", *, number: int = 1, at: str = EARLY, session: str = "s") -> Message:
    return Message(f"m{number}", at, role, content, session, "", {"seq": number})


def clauses(content: str, role: str = "user") -> tuple[Saying, ...]:
    return read(said(content, role))


@pytest.mark.parametrize(
    ("content", "who"),
    [
        ("我不吃辣。", [""]),
        ("I don't eat spicy food.", [""]),
        ("我妈妈喜欢喝茶。", ["妈妈"]),
        ("My mum loves tea.", ["mum"]),
        ("我女儿对花生过敏。", ["女儿"]),
        ("My daughter is allergic to peanuts.", ["daughter"]),
        ("儿子喜欢足球。", ["儿子"]),
        ("小王喜欢摇滚。", ["小王"]),
        ("Anna loves jazz.", ["Anna"]),
        ("她不喜欢狗。", ["她"]),
        ("She hates dogs.", ["She"]),
        ("Her mum is a nurse.", ["Her mum"]),
        ("Tom's sister lives in Oslo.", ["Tom's sister"]),
        ("我同事住在上海。", ["同事"]),
        ("我和我妈妈都喜欢喝茶。", [""]),
        ("办公室小顾怀二胎了。", ["办公室小顾"]),
        ("Colleague Dave got a fine.", ["Colleague"]),
        ("Flying to Lagos for my mum's birthday.", [""]),
        ("我妈找我帮忙。", ["妈"]),
        ("我老公吃素，我什么都吃。", ["老公", ""]),
        ("My husband is vegan, but I eat everything.", ["husband", ""]),
        ("我在谷歌工作，住在北京，喜欢猫。", ["", "", ""]),
    ],
)
def test_whose_a_clause_is(content: str, who: list[str]) -> None:
    found = [saying.who for saying in clauses(content)]
    assert len(found) == len(who)
    assert all(whom in name if whom else not name for name, whom in zip(found, who, strict=True))


@pytest.mark.parametrize(
    "content", ["我爸爱喝酒。每天都喝。", "My dad likes wine. He drinks every day.", "老板昨天找我谈话，很生气。"]
)
def test_what_goes_on_about_somebody_else_is_not_the_speakers(content: str) -> None:
    found = clauses(content)
    assert len(found) == 2
    assert all(saying.who for saying in found)


@pytest.mark.parametrize(
    "content",
    [
        "医生说我不能吃甜的。",
        "My doctor told me to avoid sugar.",
        "对我来说咖啡太苦了。",
        "Running helps me relax.",
        "I bought flowers for my mum.",
    ],
)
def test_what_somebody_else_orders_or_gets_is_still_said_of_the_speaker(content: str) -> None:
    assert [saying.who for saying in clauses(content)] == [""]


@pytest.mark.parametrize(
    ("content", "standing"),
    [
        ("我不吃辣。", "plain"),
        ("I don't eat spicy food.", "plain"),
        ("以后都用中文回答。", "plain"),
        ("Please always answer in English.", "plain"),
        ("我喜欢吃辣吗？", "asked"),
        ("Do I like spicy food?", "asked"),
        ("如果我是素食者，我会吃豆腐。", "supposed"),
        ("If I were a vegetarian, I would eat tofu.", "supposed"),
        ("假设我养了一条狗。", "supposed"),
        ("Imagine I had a dog.", "supposed"),
        ("我一顿能吃十斤辣椒，哈哈哈", "joked"),
        ("I could eat a whole cow lol", "joked"),
        ("我吃素。开玩笑的。", "joked"),
        ("I'm a vegetarian. Just kidding!", "joked"),
        ("Yeah right, I love overtime.", "joked"),
        ("听说吃辣对胃不好。", "told"),
        ("有人说我不喜欢茶。", "told"),
        ("People say I should eat less meat.", "told"),
        ("You like coffee.", "hearer"),
        ("你很喜欢咖啡。", "hearer"),
        ("我没说过我不吃辣。", "denied"),
        ("I never said I was a vegetarian.", "denied"),
        ("我好像对花生过敏。", "vague"),
        ("Maybe I am allergic to peanuts.", "vague"),
        ("我想去冰岛看极光。", "wished"),
        ("I want to go to Iceland.", "wished"),
        ("我以前住在北京。", "over"),
        ("I used to live in Berlin.", "over"),
        ("帮我写一封邮件。", "request"),
        ("Translate this sentence: I love cats.", "request"),
    ],
)
def test_how_a_clause_is_meant(content: str, standing: str) -> None:
    assert {saying.standing for saying in clauses(content)} == {standing}


@pytest.mark.parametrize("content", ["我从小就怕狗。", "I've been a nurse since 2010."])
def test_what_began_long_ago_and_goes_on_is_not_over(content: str) -> None:
    assert [saying.standing for saying in clauses(content)] == ["plain"]


@pytest.mark.parametrize("content", ["我想去冲浪，应该会去吧。", "我想养猫，不太确定。"])
def test_a_doubt_with_nothing_of_its_own_belongs_to_the_clause_before_it(content: str) -> None:
    assert clauses(content)[0].standing == "vague"


@pytest.mark.parametrize(
    "content", ["他说：“我最讨厌香菜。”", 'He said "I hate cilantro."', "小李发朋友圈说「我终于搬到杭州了」"]
)
def test_quoted_speech_is_nobodys_own_statement(content: str) -> None:
    found = clauses(content)
    assert found
    assert not any(saying.standing in EARNEST for saying in found)
    assert not any(word in saying.text for saying in found for word in ("香菜", "cilantro", "杭州"))


@pytest.mark.parametrize(("content", "name"), [("我最喜欢《活着》和“三体”。", "三体"), ('I love "Dune".', "Dune")])
def test_a_name_in_quotes_is_no_speech(content: str, name: str) -> None:
    (saying,) = clauses(content)
    assert saying.standing == "plain"
    assert name in saying.text


@pytest.mark.parametrize(
    ("content", "against"),
    [
        ("我不吃辣。", True),
        ("我怕辣。", True),
        ("我讨厌香菜。", True),
        ("我戒酒了。", True),
        ("I don't like coffee.", True),
        ("I hate cilantro.", True),
        ("I gave up coffee.", True),
        ("我喜欢咖啡。", False),
        ("I like coffee.", False),
        ("我不是不喜欢咖啡。", False),
    ],
)
def test_for_or_against(content: str, against: bool) -> None:
    assert [saying.against for saying in clauses(content)] == [against]


@pytest.mark.parametrize(
    ("content", "turning"),
    [
        ("我现在不喝咖啡了。", True),
        ("我搬到杭州了。", True),
        ("I no longer drink coffee.", True),
        ("I moved to Rome.", True),
        ("我喝咖啡。", False),
        ("我住在北京。", False),
        ("I drink coffee.", False),
        ("I live in Rome.", False),
    ],
)
def test_what_says_that_something_is_no_more_as_it_was(content: str, turning: bool) -> None:
    assert [saying.turning for saying in clauses(content)] == [turning]


@pytest.mark.parametrize("content", ["您不吃辣，对吧。", "You live in Rome.", "我会在周五之前发给您。"])
def test_what_the_assistant_says_is_an_echo(content: str) -> None:
    assert {saying.standing for saying in clauses(content, "assistant")} == {"echo"}


@pytest.mark.parametrize(("role", "content"), [("system", "我不吃辣。"), ("tool", "I live in Rome."), ("user", " \n ")])
def test_nothing_is_read_from_tools_the_system_and_blanks(role: str, content: str) -> None:
    assert clauses(content, role) == ()


@pytest.mark.parametrize(
    "content",
    [
        "我不吃辣，也不吃海鲜。上个月开始吃素了！！",
        "I live in Rome; I moved there in May. My cat? She loves it…",
        "  \n\t我住在成都。 \n\n 喜欢火锅。  ",
        "👨‍👩‍👧 我家三口人 😂 👍🏽",
        "代码：`print('我')`，我喜欢 Python。",
        "他说：“我最讨厌香菜。”我倒是喜欢。",
        "cafe\u0301 cre\u0300me 我很喜欢",
        "……",
        "？",
        "`x = 1`",
    ],
)
def test_every_clause_is_a_cut_of_its_message(content: str) -> None:
    for saying in clauses(content):
        start, end = saying.sentence
        assert 0 <= start <= saying.start < saying.end <= len(content)
        assert start < end <= len(content)
        assert len(saying.own) == len(content)
        assert saying.message.content[saying.start : saying.end].strip()


@pytest.mark.parametrize("after", ["开玩笑的", "逗你的", "just kidding", "I was only joking!"])
def test_the_next_message_may_make_a_joke_of_it(after: str) -> None:
    (saying,) = clauses("我吃素。")
    assert taken_back(saying, [said(after, number=2)]) == "joked"


@pytest.mark.parametrize("after", ["刚才那句话不是我说的", "发错人了", "That was my brother typing."])
def test_the_next_message_may_disown_it(after: str) -> None:
    (saying,) = clauses("我吃素。")
    assert taken_back(saying, [said(after, number=2)]) == "told"


@pytest.mark.parametrize(
    ("after", "how"),
    [
        (said("好的，谢谢。", number=2), "it says nothing of the kind"),
        (said("开玩笑的", "assistant", number=2), "somebody else says so"),
        (said("开玩笑的", number=2, session="other"), "it is another conversation"),
        (said("开玩笑的", number=40), "it comes much later"),
        (said("开玩笑的", number=0), "it came before"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_nothing_else_takes_a_message_back(after: Message, how: str) -> None:
    (saying,) = clauses("我吃素。")
    assert taken_back(saying, [after]) is None, how


@pytest.mark.parametrize("after", ["打错了，是9点。", "不对，应该是9点。", "Sorry, I meant 9 o'clock."])
def test_the_next_message_may_put_it_right(after: str) -> None:
    right = said(after, number=2)
    assert correction(said("航班是8点。"), [right]) == right


def test_only_the_very_next_message_of_the_same_speaker_puts_right() -> None:
    wrong, other, right = said("航班是8点。"), said("我要靠窗的座位。", number=2), said("打错了，是9点。", number=3)
    assert correction(wrong, [right, other]) is None
    assert correction(wrong, [said("打错了，是9点。", "assistant", number=2)]) is None


@pytest.mark.parametrize(
    ("claim", "yes"), [("您住在杭州，对吗？", "对的。"), ("So you live in Rome?", "Yes, exactly.")]
)
def test_a_plain_yes_makes_the_assistants_words_the_users(claim: str, yes: str) -> None:
    heard, answer = said(claim, "assistant"), said(yes, number=2)
    assert confirmed(heard, [answer]) == answer
    assert confirmed(heard, [said("不对。", number=2)]) is None
    assert confirmed(heard, [said(yes, "assistant", number=2)]) is None
