"""Made-up bilingual chat lines, the same for every benchmark."""

from __future__ import annotations

import random

_CHINESE = """
我 喜欢 不吃辣 火锅 周末 爬山 上海 工作 妈妈 生日 妹妹 合同 周五 医生 预约 过敏 花生 咖啡 失眠 高铁
会议 项目 客户 预算 猫 钢琴 旅行 成都 北京 明天 提醒 房租 面试 跑步 牛奶 手机 密码 地址 快递 电影
""".split()  # noqa: SIM905  a list of words reads better as words
_ENGLISH = """
I like spicy food hiking weekend project deadline allergic peanuts coffee doctor appointment sister birthday
contract Friday trail Sunday meeting budget client cat piano travel remind rent interview running milk phone
address parcel movie train ticket hotel quiet window garden recipe salary dentist passport visa language
""".split()  # noqa: SIM905


def sentence(rng: random.Random) -> str:
    """About twenty words, one language or a mixture of both."""
    kind = rng.random()
    if kind < 0.45:
        return "".join(rng.choices(_CHINESE, k=10)) + "，" + "".join(rng.choices(_CHINESE, k=6)) + "。"
    if kind < 0.9:
        return " ".join(rng.choices(_ENGLISH, k=18)) + "."
    return " ".join(rng.choices(_ENGLISH, k=8)) + " " + "".join(rng.choices(_CHINESE, k=6))
