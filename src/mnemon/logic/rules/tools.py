"""What tools say and do: short plain results are facts, every answer counts for the tool that gave it, and a trace that
shows a way to a result is a case."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mnemon.contracts.claims import Claim, Language, ToolStats
from mnemon.contracts.drafts import Draft
from mnemon.contracts.governance import ForgetPolicy, Kind
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.turns import Span, Turn
from mnemon.logic import dates
from mnemon.logic.clauses import sentences
from mnemon.logic.denoise import verbatim_length
from mnemon.logic.language import language_of
from mnemon.logic.rules.tables import WORDING
from mnemon.logic.toolwork import ACCOUNT, Call, Episode, episodes, failed, tool_name

_LONGEST = 240
_MOST_FIELDS = 6
# What is done a thousand times is proven by the first and the last of them.
_MOST_PROOFS = 8
_MOST_FAILURES = 3
_LONGEST_FAILURE = 100
_ENDS = "。.!！;； "
STEP = " → "
_FIELD = re.compile(r"\s*([\w .\-\u4e00-\u9fff]{1,30}?)\s*[:：=]\s*(\S.{0,80})")
_SENTENCE = re.compile(r"[^\n{}<>\[\]|]{8,160}[.。]?")
_NAMING = re.compile(r"(?i)^(?:.*[ _])?(?:id|name|title|city|order|编号|名称|城市|单号|订单号|标题)$")


@dataclass(frozen=True, slots=True)
class Result:
    """A plain answer: its fields as (name, value), and the thing it is about."""

    fields: tuple[tuple[str, str], ...]
    about: str


def plain_result(turn: Turn) -> Result | None:
    """A handful of fields, or one sentence; anything longer, nested or broken is no fact to keep."""
    text = turn.text.strip()
    if ACCOUNT in turn.meta:
        return None
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


def skills(calls: Sequence[Call], sums: Mapping[str, ToolStats]) -> list[Draft]:
    """One draft a tool: how often it was called and how often that went well."""
    by_tool: dict[str, list[Call]] = {}
    for call in calls:
        by_tool.setdefault(call.tool, []).append(call)
    return [_skill(name, by_tool[name], stats) for name, stats in sums.items() if name in by_tool]


def _skill(name: str, calls: Sequence[Call], stats: ToolStats) -> Draft:
    spans = tuple(_first_line(call.turn) for call in [*calls[:_MOST_PROOFS], *calls[_MOST_PROOFS:][-_MOST_PROOFS:]])
    made, well = stats.call_count, stats.success_count
    outcome = "succeeded" if well == made else "failed" if not well else "mixed"
    failures = dict.fromkeys(_first_line(call.turn).text_exact[:_LONGEST_FAILURE] for call in calls if call.ok is False)
    return Draft(
        type=Kind.FACT,
        category=Shelf.SKILLS,
        routing_key=name[:200],
        statement=WORDING["skills"][_language(calls, spans)][outcome].format(name),
        scope=ForgetPolicy.PERMANENT,
        importance=0.3,
        confidence=0.9,
        subject=name,
        spans=spans,
        tool=stats.model_copy(
            update={"common_failures": stats.common_failures or "; ".join(list(failures)[:_MOST_FAILURES])}
        ),
    )


def _language(calls: Sequence[Call], spans: Sequence[Span]) -> Language:
    """An account of calls is in no language; a tool's name will do."""
    said = [span.text_exact for call, span in zip(calls, spans, strict=False) if ACCOUNT not in call.turn.meta]
    return language_of("\n".join(said))


def cases(turns: Sequence[Turn]) -> list[Draft]:
    """What was asked or had failed, the tools that answered in turn, and what the last one said: one draft for every
    stretch of a trace that shows a way to a result."""
    return [_case(episode) for episode in episodes(turns) if episode.proves_a_way]


def _case(episode: Episode) -> Draft:
    asked = _first_sentence(episode.ask) if episode.ask else None
    proofs = [asked] if asked else []
    proofs += [_first_line(call.turn) for call in episode.calls]
    problem = proofs[0] if asked else _first_line(episode.failures[0].turn)
    language = language_of(problem.text_exact)
    words = WORDING["cases"][language]
    told = {
        # What was meant by "yesterday" stands in the quoted words; a sentence that lasts does without it.
        "problem": "" if dates.relative(problem.text_exact) else problem.text_exact.rstrip(_ENDS),
        "steps": STEP.join(f"{c.tool}{words['failed'] if c.ok is False else ''}" for c in episode.calls),
        "result": proofs[-1].text_exact.rstrip(_ENDS),
    }
    return Draft(
        type=Kind.FACT,
        category=Shelf.CASES,
        routing_key=(told["problem"] or STEP.join(episode.steps))[:60],
        title=STEP.join(episode.steps),
        statement=words["statement" if told["problem"] else "without"].format(**told),
        overview="\n".join(f"- {words[f'the_{name}']}{text}" for name, text in told.items() if text),
        scope=ForgetPolicy.PERMANENT,
        importance=0.5,
        confidence=0.9,
        subject=episode.calls[-1].tool,
        spans=tuple(dict.fromkeys(proofs[:_MOST_PROOFS] + proofs[_MOST_PROOFS:][-_MOST_PROOFS:])),
    )


def pattern(case: Claim) -> Draft:
    """The steps of a case that were gone before."""
    return Draft(
        type=Kind.FACT,
        category=Shelf.PATTERNS,
        routing_key=case.title[:200],
        title=case.title,
        statement=WORDING["patterns"][case.language].format(case.title),
        scope=ForgetPolicy.PERMANENT,
        importance=0.5,
        confidence=0.9,
        subject=case.subject,
        spans=case.spans,
    )


def _first_line(turn: Turn) -> Span:
    text = turn.text[: verbatim_length(turn)]
    start = len(text) - len(text.lstrip())
    line = text[start:].splitlines()[0][:_LONGEST].rstrip()
    return Span.cut(turn, start, start + len(line))


def _first_sentence(turn: Turn) -> Span | None:
    start, end = next(iter(sentences(turn.text)), (0, 0))
    start += len(turn.text[start:end]) - len(turn.text[start:end].lstrip())
    return Span.cut(turn, start, min(end, start + _LONGEST)) if end > start else None
