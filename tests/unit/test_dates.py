"""Dates in two languages: which days are meant, how they are written for ever, and what only looks like one."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemon.logic.dates import absolutise, find, relative

TUESDAY = datetime(2026, 3, 10, 10, 30)

CHINESE = [
    # text, the expression in it, its first day, its last day, how exact, relative?
    ("昨天我去看了牙医", "昨天", "2026-03-09", "2026-03-09", "day", True),
    ("今天好累", "今天", "2026-03-10", "2026-03-10", "day", True),
    ("明天见", "明天", "2026-03-11", "2026-03-11", "day", True),
    ("后天交稿", "后天", "2026-03-12", "2026-03-12", "day", True),
    ("大后天出发", "大后天", "2026-03-13", "2026-03-13", "day", True),
    ("前天买的", "前天", "2026-03-08", "2026-03-08", "day", True),
    ("大前天下的单", "大前天", "2026-03-07", "2026-03-07", "day", True),
    ("昨日重现", "昨日", "2026-03-09", "2026-03-09", "day", True),
    ("昨晚没睡好", "昨晚", "2026-03-09", "2026-03-09", "day", True),
    ("明早叫我", "明早", "2026-03-11", "2026-03-11", "day", True),
    ("上周五开会了", "上周五", "2026-03-06", "2026-03-06", "day", True),
    ("下周三出差", "下周三", "2026-03-18", "2026-03-18", "day", True),
    ("这周五聚餐", "这周五", "2026-03-13", "2026-03-13", "day", True),
    ("这周一已经交了", "这周一", "2026-03-09", "2026-03-09", "day", True),
    ("下个星期一体检", "下个星期一", "2026-03-16", "2026-03-16", "day", True),
    ("上礼拜天去爬山", "上礼拜天", "2026-03-08", "2026-03-08", "day", True),
    ("上上周三签的", "上上周三", "2026-02-25", "2026-02-25", "day", True),
    ("这周末去露营", "这周末", "2026-03-14", "2026-03-15", "day", True),
    ("下周末加班", "下周末", "2026-03-21", "2026-03-22", "day", True),
    ("本周很忙", "本周", "2026-03-09", "2026-03-15", "week", True),
    ("上周请假", "上周", "2026-03-02", "2026-03-08", "week", True),
    ("下下周回国", "下下周", "2026-03-23", "2026-03-29", "week", True),
    ("上个月搬的家", "上个月", "2026-02-01", "2026-02-28", "month", True),
    ("下个月15号体检", "下个月15号", "2026-04-15", "2026-04-15", "day", True),
    ("下月底交房", "下月底", "2026-04-24", "2026-04-30", "week", True),
    ("月底前交报告", "月底", "2026-03-25", "2026-03-31", "week", True),
    ("年底结婚", "年底", "2026-12-01", "2026-12-31", "month", True),
    ("去年毕业", "去年", "2025-01-01", "2025-12-31", "year", True),
    ("今年五月结婚", "今年五月", "2026-05-01", "2026-05-31", "month", True),
    ("明年3月9日到期", "明年3月9日", "2027-03-09", "2027-03-09", "day", True),
    ("去年年底离职", "去年年底", "2025-12-01", "2025-12-31", "month", True),
    ("三天前提交的", "三天前", "2026-03-07", "2026-03-07", "day", True),
    ("三天后出发", "三天后", "2026-03-13", "2026-03-13", "day", True),
    ("10天以后再说", "10天以后", "2026-03-20", "2026-03-20", "day", True),
    ("十二天之前", "十二天之前", "2026-02-26", "2026-02-26", "day", True),
    ("两周前辞职", "两周前", "2026-02-23", "2026-03-01", "week", True),
    ("三个月前开始学琴", "三个月前", "2025-12-01", "2025-12-31", "month", True),
    ("半年前认识的", "半年前", "2025-09-01", "2025-09-30", "month", True),
    ("两年前来的上海", "两年前", "2024-01-01", "2024-12-31", "year", True),
    ("12小时前发的", "12小时前", "2026-03-09", "2026-03-09", "day", True),
    ("三天内还钱", "三天内", "2026-03-10", "2026-03-13", "day", True),
    ("最近三天没胃口", "最近三天", "2026-03-07", "2026-03-10", "day", True),
    ("未来两周很忙", "未来两周", "2026-03-10", "2026-03-24", "day", True),
    ("前几天见过", "前几天", "2026-03-04", "2026-03-08", "week", True),
    ("周五之前发给王总", "周五", "2026-03-13", "2026-03-13", "day", True),
    ("周五我去了医院", "周五", "2026-03-06", "2026-03-06", "day", True),
    ("星期天要搬家", "星期天", "2026-03-15", "2026-03-15", "day", True),
    ("周二见客户", "周二", "2026-03-17", "2026-03-17", "day", True),
    ("15号之前还信用卡", "15号", "2026-03-15", "2026-03-15", "day", True),
    ("3月9日是我生日", "3月9日", "2027-03-09", "2027-03-09", "day", False),
    ("12月24号有晚会", "12月24号", "2026-12-24", "2026-12-24", "day", False),
    ("三月我去过日本了", "三月", "2025-03-01", "2025-03-31", "month", False),
    ("十二月份很冷", "十二月份", "2026-12-01", "2026-12-31", "month", False),
    ("2026年3月上线", "2026年3月", "2026-03-01", "2026-03-31", "month", False),
    ("2025年12月24日", "2025年12月24日", "2025-12-24", "2025-12-24", "day", False),
    ("二〇二六年三月九日", "二〇二六年三月九日", "2026-03-09", "2026-03-09", "day", False),
    ("1998年出生", "1998年", "1998-01-01", "1998-12-31", "year", False),
    ("2026-03-02那周请假", "2026-03-02那周", "2026-03-02", "2026-03-08", "week", False),
    ("昨儿个写的", "昨儿个", "2026-03-09", "2026-03-09", "day", True),
    ("明后天我都在", "明后天", "2026-03-11", "2026-03-12", "day", True),
    ("今明两天停水", "今明两天", "2026-03-10", "2026-03-11", "day", True),
    ("三年前的今天我还在高三", "三年前的今天", "2023-03-10", "2023-03-10", "day", True),
    ("去年今天下雪了", "去年今天", "2025-03-10", "2025-03-10", "day", True),
    ("再过三个月毕业", "再过三个月", "2026-06-01", "2026-06-30", "month", True),
    ("半小时前点的", "半小时前", "2026-03-10", "2026-03-10", "day", True),
    ("31号前交", "31号", "2026-03-31", "2026-03-31", "day", True),
    ("下午三点开会", "下午三点", "2026-03-10", "2026-03-10", "time", False),
    ("10点半到", "10点半", "2026-03-10", "2026-03-10", "time", False),
]
ENGLISH = [
    ("I saw him yesterday.", "yesterday", "2026-03-09", "2026-03-09", "day", True),
    ("Today is fine", "Today", "2026-03-10", "2026-03-10", "day", True),
    ("see you tomorrow", "tomorrow", "2026-03-11", "2026-03-11", "day", True),
    ("tomorrow morning works", "tomorrow morning", "2026-03-11", "2026-03-11", "day", True),
    ("I'll call tonight", "tonight", "2026-03-10", "2026-03-10", "day", True),
    ("we talked last night", "last night", "2026-03-09", "2026-03-09", "day", True),
    ("the day after tomorrow", "the day after tomorrow", "2026-03-12", "2026-03-12", "day", True),
    ("it broke the day before yesterday", "the day before yesterday", "2026-03-08", "2026-03-08", "day", True),
    ("we met last Friday", "last Friday", "2026-03-06", "2026-03-06", "day", True),
    ("last Tuesday we met", "last Tuesday", "2026-03-03", "2026-03-03", "day", True),
    ("due next Friday", "next Friday", "2026-03-20", "2026-03-20", "day", True),
    ("next Monday then", "next Monday", "2026-03-16", "2026-03-16", "day", True),
    ("this Friday at noon", "this Friday", "2026-03-13", "2026-03-13", "day", True),
    ("this coming Sunday", "this coming Sunday", "2026-03-15", "2026-03-15", "day", True),
    ("Wednesday of next week", "Wednesday of next week", "2026-03-18", "2026-03-18", "day", True),
    ("I need it by Friday", "Friday", "2026-03-13", "2026-03-13", "day", True),
    ("On Friday I met Ann.", "Friday", "2026-03-06", "2026-03-06", "day", True),
    ("Saturday night is fine", "Saturday night", "2026-03-14", "2026-03-14", "day", True),
    ("friday works for me", "friday", "2026-03-13", "2026-03-13", "day", True),
    ("last week was hard", "last week", "2026-03-02", "2026-03-08", "week", True),
    ("next week", "next week", "2026-03-16", "2026-03-22", "week", True),
    ("we hike this weekend", "this weekend", "2026-03-14", "2026-03-15", "day", True),
    ("last weekend", "last weekend", "2026-03-07", "2026-03-08", "day", True),
    ("last month", "last month", "2026-02-01", "2026-02-28", "month", True),
    ("next month's rent", "next month", "2026-04-01", "2026-04-30", "month", True),
    ("this year", "this year", "2026-01-01", "2026-12-31", "year", True),
    ("last year I moved", "last year", "2025-01-01", "2025-12-31", "year", True),
    ("3 days ago", "3 days ago", "2026-03-07", "2026-03-07", "day", True),
    ("two weeks ago", "two weeks ago", "2026-02-23", "2026-03-01", "week", True),
    ("a month ago", "a month ago", "2026-02-01", "2026-02-28", "month", True),
    ("a couple of years ago", "a couple of years ago", "2024-01-01", "2024-12-31", "year", True),
    ("in three days", "in three days", "2026-03-13", "2026-03-13", "day", True),
    ("in 2 weeks", "in 2 weeks", "2026-03-23", "2026-03-29", "week", True),
    ("five days from now", "five days from now", "2026-03-15", "2026-03-15", "day", True),
    ("an hour ago", "an hour ago", "2026-03-10", "2026-03-10", "day", True),
    ("a few days ago", "a few days ago", "2026-03-04", "2026-03-08", "week", True),
    ("over the past two weeks", "over the past two weeks", "2026-02-24", "2026-03-10", "day", True),
    ("the next 3 days", "the next 3 days", "2026-03-10", "2026-03-13", "day", True),
    ("by the end of the month", "the month", "2026-03-01", "2026-03-31", "month", True),
    ("done before the weekend", "the weekend", "2026-03-14", "2026-03-15", "day", True),
    ("pay by the 15th.", "the 15th", "2026-03-15", "2026-03-15", "day", True),
    ("last March we moved", "last March", "2025-03-01", "2025-03-31", "month", True),
    ("next June", "next June", "2026-06-01", "2026-06-30", "month", True),
    ("I'll move in March", "March", "2026-03-01", "2026-03-31", "month", False),
    ("We married in May.", "May", "2025-05-01", "2025-05-31", "month", False),
    ("due March 9th", "March 9th", "2027-03-09", "2027-03-09", "day", False),
    ("9 March 2026", "9 March 2026", "2026-03-09", "2026-03-09", "day", False),
    ("the 4th of July", "the 4th of July", "2026-07-04", "2026-07-04", "day", False),
    ("Dec. 24, 2025", "Dec. 24, 2025", "2025-12-24", "2025-12-24", "day", False),
    ("june 1 is fine", "june 1", "2026-06-01", "2026-06-01", "day", False),
    ("March 2026", "March 2026", "2026-03-01", "2026-03-31", "month", False),
    ("born in 1998", "1998", "1998-01-01", "1998-12-31", "year", False),
    ("2026-03-09", "2026-03-09", "2026-03-09", "2026-03-09", "day", False),
    ("2026/3/9", "2026/3/9", "2026-03-09", "2026-03-09", "day", False),
    ("during 2026-03", "2026-03", "2026-03-01", "2026-03-31", "month", False),
    ("3/25/2026", "3/25/2026", "2026-03-25", "2026-03-25", "day", False),
    ("25/3/2026", "25/3/2026", "2026-03-25", "2026-03-25", "day", False),
    ("the week of 2026-03-02", "the week of 2026-03-02", "2026-03-02", "2026-03-08", "week", False),
    ("anyone up for it tmrw?", "tmrw", "2026-03-11", "2026-03-11", "day", True),
    ("due in half an hour", "in half an hour", "2026-03-10", "2026-03-10", "day", True),
    ("我today很忙", "today", "2026-03-10", "2026-03-10", "day", True),
    ("I won't be in on Friday", "Friday", "2026-03-13", "2026-03-13", "day", True),
    ("I'm reading Dune, I started it on Sunday", "Sunday", "2026-03-08", "2026-03-08", "day", True),
    ("at 3pm", "3pm", "2026-03-10", "2026-03-10", "time", False),
    ("at 15:30 sharp", "15:30", "2026-03-10", "2026-03-10", "time", False),
]
NOT_DATES = [
    "后天努力比天赋重要", "后天性近视", "以前天天加班", "如今天气好了", "目前天气不错", "过去年轻不懂事",
    "以前年轻", "他很周到", "本周刊已停刊", "学校周围", "文明天下", "每周五开会", "周一到周五上班",
    "周末我喜欢爬山", "周三通常在家办公", "有一点辣", "三个月大", "我工作了三年", "第三天", "五月天的歌",
    "今日头条", "晚上月亮很圆", "日本周边", "3号楼", "2月30日", "每月底结账", "最后天黑了", "一点点", "三点水",
    "I may go", "may be", "march on", "they march in line", "second thought", "wait a second", "every Friday",
    "on Fridays", "Monday to Friday", "Black Friday", "I usually run on Sunday", "3/9/2026", "for three years",
    "the last week of term", "version 2026", "sun and moon", "mayor", "daytime", "13:75", "13/13/2026",
    "February 30", "1/2", "May I ask", "a weekday", "yearly",
]  # fmt: skip


@pytest.mark.parametrize(("text", "words", "begins", "last", "precision", "is_relative"), CHINESE + ENGLISH)
def test_a_date_is_found_and_means_these_days(
    text: str, words: str, begins: str, last: str, precision: str, is_relative: bool
) -> None:
    found = find(text, TUESDAY)
    dated = next(d for d in found if d.text == words)
    assert text[dated.start : dated.end] == words
    assert (dated.begins, dated.ends) == (date.fromisoformat(begins), date.fromisoformat(last) + timedelta(days=1))
    assert (dated.precision, dated.relative) == (precision, is_relative)
    assert [d.text for d in found if d.relative] == ([words] if is_relative else [])


@pytest.mark.parametrize("text", NOT_DATES)
def test_what_only_looks_like_a_date_is_left_alone(text: str) -> None:
    assert find(text, TUESDAY) == []
    assert relative(text) == []
    assert absolutise(text, TUESDAY) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("昨天我去看了牙医", "2026-03-09我去看了牙医"),
        ("明天3点半见", "2026-03-11 3点半见"),
        ("明天下午三点", "2026-03-11下午三点"),
        ("上周很忙", "2026-03-02那周很忙"),
        ("这周末去露营", "2026-03-14的周末去露营"),
        ("上个月搬家", "2026-02搬家"),
        ("去年毕业", "2025年毕业"),
        ("月底前交", "2026-03的月底前交"),
        ("昨晚失眠", "2026-03-09晚失眠"),
        ("三天内还", "2026-03-13前还"),
        ("前几天见过", "2026-03-10的几天前见过"),
        ("半小时前和两小时后", "2026-03-10 10:00和2026-03-10 12:30"),
        ("几分钟前", "2026-03-10 10:30的几分钟前"),
        ("我today很忙", "我2026-03-10很忙"),
        ("看https://a.cn/今天 和@昨天 今天", "看https://a.cn/今天 和@昨天 2026-03-10"),
        ("他说“明天见”，后天真的来了", "他说“明天见”，2026-03-12真的来了"),
        ("我喜欢《明天会更好》和《今天》", "我喜欢《明天会更好》和《今天》"),
        ("运行`date 昨天`", "运行`date 昨天`"),
        ("3月9日和2026年3月", "3月9日和2026年3月"),
        ("I met Bob yesterday", "I met Bob on 2026-03-09"),
        ("Yesterday I met Bob", "On 2026-03-09 I met Bob"),
        ("send it by Friday", "send it by 2026-03-13"),
        ("we leave on Friday", "we leave on 2026-03-13"),
        ("tomorrow's meeting", "2026-03-11's meeting"),
        ("Today is my birthday", "2026-03-10 is my birthday"),
        ("The exam is tomorrow morning.", "The exam is on 2026-03-11 in the morning."),
        ("it broke ten minutes ago", "it broke at 2026-03-10 10:20"),
        ("half an hour ago it broke", "At 2026-03-10 10:00 it broke"),
        ("we moved last month", "we moved in 2026-02"),
        ("we moved last year", "we moved in 2025"),
        ("I was ill last week", "I was ill in the week of 2026-03-02"),
        ("we hike this weekend", "we hike on the weekend of 2026-03-14"),
        ("by the end of next month", "by the end of 2026-04"),
        ("today and tomorrow", "On 2026-03-10 and 2026-03-11"),
        ("I quit a few days ago", "I quit a few days before 2026-03-10"),
        ("busy the past two weeks", "busy from 2026-02-24 to 2026-03-10"),
        ('she said "see you tomorrow"', 'she said "see you tomorrow"'),
        ("```\ntoday = now()\n```", "```\ntoday = now()\n```"),
        ("due 2026-03-09, March 9th", "due 2026-03-09, March 9th"),
        ("nothing here", "nothing here"),
    ],
)
def test_relative_dates_are_written_for_ever(text: str, expected: str) -> None:
    assert absolutise(text, TUESDAY) == expected
    assert relative(expected) == []


def test_relative_dates_are_named_unless_quoted() -> None:
    assert relative("昨天他说“明天见”，next Friday we leave on 2026-03-09") == ["昨天", "next Friday"]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("下午三点", time(15)),
        ("早上8点", time(8)),
        ("晚上十点半", time(22, 30)),
        ("中午12点", time(12)),
        ("凌晨一点一刻", time(1, 15)),
        ("9点20分", time(9, 20)),
        ("3pm", time(15)),
        ("12 am", time(0)),
        ("7:45 p.m.", time(19, 45)),
        ("15:30", time(15, 30)),
    ],
)
def test_a_time_of_day_is_read(text: str, at: time) -> None:
    (found,) = find(text, TUESDAY)
    assert (found.precision, found.at, found.relative) == ("time", at, False)


@pytest.mark.parametrize("text", ["明天下午三点", "tomorrow at 3pm"])
def test_a_time_belongs_to_the_day_before_it(text: str) -> None:
    day, clock = find(text, TUESDAY)
    assert clock.begins == day.begins == date(2026, 3, 11)


@pytest.mark.parametrize(
    ("said", "text", "meant"),
    [
        (datetime(2026, 3, 13), "周五", "2026-03-20"),
        (datetime(2026, 3, 15), "下周五", "2026-03-20"),
        (datetime(2026, 3, 15), "next Friday", "2026-03-20"),
        (datetime(2026, 3, 15), "last Friday", "2026-03-13"),
        (datetime(2026, 3, 13), "this Friday", "2026-03-13"),
        (datetime(2026, 1, 31), "下个月", "2026-02-01"),
        (datetime(2024, 2, 29), "去年", "2023-01-01"),
        (datetime(2026, 12, 31), "明天", "2027-01-01"),
        (datetime(2026, 3, 10), "2月29日", "2028-02-29"),
        (datetime(2026, 4, 10), "31号前", "2026-05-31"),
        (datetime(2026, 2, 10), "by the 30th", "2026-03-30"),
        (datetime(2026, 3, 10, 0, 30), "an hour ago", "2026-03-09"),
    ],
)
def test_the_same_words_mean_other_days_on_other_days(said: datetime, text: str, meant: str) -> None:
    assert find(text, said)[0].begins == date.fromisoformat(meant)


@given(
    st.lists(
        st.one_of(
            st.text(max_size=6),
            st.sampled_from([case[0] for case in CHINESE + ENGLISH]),
            st.sampled_from(["“", "”", '"', "`", "9999天后", "9999年前", "0月0日", "in 999 years", "31号前"]),
        ),
        max_size=6,
    ),
    st.datetimes(),
)
def test_any_text_on_any_day_is_read_without_fault_and_written_once(pieces: list[str], said: datetime) -> None:
    text = "".join(pieces)
    end = 0
    for dated in find(text, said):
        assert end <= dated.start < dated.end
        assert text[dated.start : dated.end] == dated.text
        assert dated.begins < dated.ends
        end = dated.end
    assert absolutise(text, said) == text or relative(text)
