"""From which cosine on two memories may be the same one, for the embedder in use. `python benchmarks/dedup.py`"""

from __future__ import annotations

import asyncio
import itertools

import numpy as np

from mnemon.drivers.embed.local import LocalEmbedder
from mnemon.logic.likeness import threshold
from report import table

# Each group says one thing in different words; sentences of different groups say different things.
GROUPS = [
    ["User is allergic to peanuts", "User has a peanut allergy", "User cannot eat peanuts because of an allergy"],
    ["用户对花生过敏", "用户不能吃花生，会过敏", "用户有花生过敏"],
    ["User loves spicy food", "User really likes spicy food", "User enjoys hot and spicy dishes"],
    ["用户喜欢吃辣", "用户很爱吃辣的", "用户爱吃辣"],
    ["User works at Siemens", "User is employed by Siemens", "User has a job at Siemens"],
    ["用户在西门子工作", "用户是西门子的员工", "用户就职于西门子"],
    ["User lives in Lisbon", "User's home is in Lisbon", "User resides in Lisbon"],
    ["用户住在杭州", "用户家在杭州", "用户居住在杭州"],
    ["User's sister Wei is a doctor", "User has a sister, Wei, who works as a doctor"],
    ["用户的妹妹是医生", "用户有个当医生的妹妹"],
    ["User prefers dark mode in the editor", "User likes the editor in dark mode"],
    ["用户喜欢编辑器用深色模式", "用户偏好深色的编辑器主题"],
    ["User has to send the contract to Zhou by Friday", "User must send Zhou the contract before Friday"],
    ["用户周五之前要把合同发给老周", "用户要在周五前给老周发合同"],
    ["Answer the user in Chinese", "Always reply to the user in Chinese"],
    ["以后都用中文回复用户", "用户要求一直用中文回答"],
    ["User plays the guitar every Sunday", "User practises guitar on Sundays"],
    ["用户每周日练吉他", "用户星期天会弹吉他"],
    ["User has a cat called Momo", "User's cat is named Momo"],
    ["用户养了一只叫团子的猫", "用户的猫叫团子"],
]
# Alike in form and not in what they say: these are what a threshold has to keep apart.
NEAR = [
    ("User is allergic to peanuts", "User is allergic to shellfish"),
    ("用户对花生过敏", "用户对海鲜过敏"),
    ("User loves spicy food", "User loves sweet food"),
    ("用户喜欢吃辣", "用户喜欢吃甜"),
    ("User works at Siemens", "User works at Bosch"),
    ("用户在西门子工作", "用户在博世工作"),
    ("User lives in Lisbon", "User lives in Kyoto"),
    ("用户住在杭州", "用户住在成都"),
    ("User has a cat called Momo", "User has a dog called Momo"),
    ("用户每周日练吉他", "用户每周日练瑜伽"),
]


async def main() -> None:
    embedder = LocalEmbedder()
    texts = sorted({t for group in GROUPS for t in group} | {t for pair in NEAR for t in pair})
    vectors = dict(zip(texts, (v.dense_vector for v in await embedder.embed_texts(texts)), strict=True))

    def scores(pairs: list[tuple[str, str]]) -> np.ndarray:
        return np.array([float(vectors[a] @ vectors[b]) for a, b in pairs])

    alike = scores([p for group in GROUPS for p in itertools.combinations(group, 2)])
    unlike = scores([(a, b) for one, two in itertools.combinations(GROUPS, 2) for a in one[:1] for b in two[:1]])
    near = scores(NEAR)
    rows = [
        [f"{t:.2f}", f"{(alike >= t).mean():.0%}", f"{(near >= t).mean():.0%}", f"{(unlike >= t).mean():.1%}"]
        for t in (0.5, 0.55, 0.6, 0.65, 0.7, 0.72, 0.75, 0.8, 0.85, 0.9)
    ]
    table(
        f"Pairs at or above a threshold, {embedder.model} (in use: {threshold(embedder.model)})",
        ["threshold", f"alike ({len(alike)})", f"near misses ({len(near)})", f"unlike ({len(unlike)})"],
        rows,
    )
    await embedder.close()


if __name__ == "__main__":
    asyncio.run(main())
