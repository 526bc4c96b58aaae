"""What messages could prove, and what would count as proof: one to three hypotheses a question (003 §4.1)."""

from __future__ import annotations

from mnemon.contracts.recall import Hypothesis, Shelf
from mnemon.contracts.turns import Role
from mnemon.logic.recall.asking import Asked
from mnemon.logic.recall.tables import load

_TELLING = load("telling")
_EXAMPLES = 3


def hypotheses(asked: Asked) -> tuple[Hypothesis, ...]:
    says, proof = _TELLING["hypotheses"][asked.language], _TELLING["proof"][asked.language]
    shelf: Shelf = asked.area.shelf if asked.area else "profile"
    topic = " ".join(wanted.text for wanted in asked.needles)
    if asked.role is Role.ASSISTANT:
        return (Hypothesis(statement=says["promised"], proof=proof["assistant"], shelf=shelf),)
    found: list[tuple[str, str]] = []
    if asked.about or asked.names:
        found.append((says["of_them"].format(asked.about or " ".join(asked.names)), proof["of_them"]))
    elif asked.of_schedule:
        found.append((says["timeline"], proof["within"]))
    elif asked.of_project:
        found += [(says["thread"], proof["latest"])]
    elif topic:
        found.append((says["topic"].format(topic), proof["own_or_not"]))
    elif asked.area:
        label, words = asked.area.label[asked.language], asked.area.words[asked.language].split()
        found.append((says["area"].format(label, says["or"].join(words[:_EXAMPLES])), proof["own"]))
    else:
        found.append((says["topic"].format(asked.text), proof["own"]))
    if asked.said:
        found.append((says["scene"], proof["own"]))
    found.append((says["recent"], proof["within"]) if asked.windows.exact else (says["scattered"], proof["own"]))
    if asked.still or (asked.area and asked.area.single):
        found.append((says["changed"], proof["latest"]))
    return tuple(Hypothesis(statement=text, proof=what, shelf=shelf) for text, what in found[:3])
