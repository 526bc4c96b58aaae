"""What tools say: short plain results are facts, and every answer counts for the tool that gave it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from mnemon.contracts.claims import ToolStats
from mnemon.contracts.drafts import Draft
from mnemon.contracts.governance import ForgetPolicy, Kind
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.turns import Role, Span, Turn
from mnemon.logic import dates
from mnemon.logic.denoise import verbatim_length
from mnemon.logic.drafting import failed
from mnemon.logic.language import language_of
from mnemon.logic.rules.tables import WORDING

_LONGEST = 240
_MOST_FIELDS = 6
_FIELD = re.compile(r"\s*([\w .\-\u4e00-\u9fff]{1,30}?)\s*[:：=]\s*(\S.{0,80})")
_SENTENCE = re.compile(r"[^\n{}<>\[\]|]{8,160}[.。]?")
_NAMING = re.compile(r"(?i)^(?:.*[ _])?(?:id|name|title|city|order|编号|名称|城市|单号|订单号|标题)$")


@dataclass(frozen=True, slots=True)
class Result:
    """A plain answer: its fields as (name, value), and the thing it is about."""

    fields: tuple[tuple[str, str], ...]
    about: str


def tool_name(turn: Turn) -> str:
    """The tool a turn comes from, "" if nobody says."""
    tool = turn.meta.get("tool")
    if isinstance(tool, dict) and isinstance(tool.get("name"), str):
        return str(tool["name"])
    if turn.speaker.startswith("tool:"):
        return turn.speaker.removeprefix("tool:")
    return next((a.name for a in turn.attachments if a.type == "tool_result" and a.name), "")


def plain_result(turn: Turn) -> Result | None:
    """A handful of fields, or one sentence; anything longer, nested or broken is no fact to keep."""
    text = turn.text.strip()
    if len(text) > _LONGEST or verbatim_length(turn) < len(turn.text) or failed(turn) or dates.relative(text):
        return None
    fields = _json_fields(text) if text.startswith("{") else _line_fields(text)
    if fields:
        about = next((value for name, value in fields if _NAMING.match(name)), tool_name(turn) or fields[0][0])
        return Result(fields, about)
    if _SENTENCE.fullmatch(text) and not text.endswith(("?", "？")) and tool_name(turn):
        return Result((), tool_name(turn))
    return None


def _json_fields(text: str) -> tuple[tuple[str, str], ...]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(data, dict) or not 1 < len(data) <= _MOST_FIELDS:
        return ()
    if not all(isinstance(value, str | int | float) and str(value) for value in data.values()):
        return ()
    return tuple((str(name), json.dumps(v) if isinstance(v, bool) else str(v)) for name, v in data.items())


def _line_fields(text: str) -> tuple[tuple[str, str], ...]:
    lines = text.splitlines()
    matches = [_FIELD.fullmatch(line) for line in lines]
    if not 1 < len(lines) <= _MOST_FIELDS or not all(matches):
        return ()
    return tuple((match[1], match[2].strip()) for match in matches if match)


def fact(turn: Turn, result: Result) -> str:
    """The result as one line, in its own words."""
    if not result.fields:
        return turn.text.strip()
    return ", ".join(f"{name}: {value}" for name, value in result.fields)


def skills(turns: Sequence[Turn]) -> list[Draft]:
    """One draft a tool: how often it was called and how often that went well, over the turns given."""
    by_tool: dict[str, list[Turn]] = {}
    for turn in turns:
        if turn.role is Role.TOOL and turn.text.strip() and (name := tool_name(turn)):
            by_tool.setdefault(name, []).append(turn)
    return [_skill(name, calls) for name, calls in by_tool.items()]


def _skill(name: str, calls: Sequence[Turn]) -> Draft:
    spans = tuple(_first_line(turn) for turn in calls)
    well = sum(not failed(turn) for turn in calls)
    outcome = "succeeded" if well == len(calls) else "failed" if not well else "mixed"
    words = WORDING["skills"][language_of("\n".join(span.text_exact for span in spans))]
    return Draft(
        type=Kind.FACT,
        category=Shelf.SKILLS,
        routing_key=name[:200],
        statement=words[outcome].format(name),
        scope=ForgetPolicy.PERMANENT,
        importance=0.3,
        confidence=0.9,
        subject=name,
        spans=spans,
        tool=ToolStats(tool_name=name, call_count=len(calls), success_count=well),
    )


def _first_line(turn: Turn) -> Span:
    text = turn.text[: verbatim_length(turn)]
    start = len(text) - len(text.lstrip())
    line = text[start:].splitlines()[0][:_LONGEST].rstrip()
    return Span.cut(turn, start, start + len(line))
