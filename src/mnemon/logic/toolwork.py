"""Tools at work: the calls a trace shows, the calls a caller tells of, and what they add up to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mnemon.contracts.claims import ToolStats
from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.turns import Role, Turn
from mnemon.logic.ids import stable_id
from mnemon.logic.text import fold

# How a turn says that it is a caller's account of its calls, and not what a tool said.
ACCOUNT = "used_tools"
_FAILURES = re.compile("error|exception|traceback|failed|timeout|失败|错误|超时")
_NONE_OF_IT = re.compile(r"\b(?:0|no|without(?: any)?|zero)\s+(?:\w+\s+)?$|(?:没有|无|未|0 ?个?)(?:任何|发现)?$")
_LONGEST_NOTE = 300
_MOST_NOTES = 5
_WENT_WELL = frozenset({"ok", "success", "succeeded", "completed", "done", "passed"})
_WENT_WRONG = frozenset({"error", "failed", "failure", "timeout", "timed_out", "cancelled", "aborted"})


@dataclass(frozen=True, slots=True)
class Call:
    """A tool's answer. `ok` is None where neither a flag nor its words say how it went; `recorded` where the trace
    itself tells it as the result of a call, and not only the name of who speaks."""

    tool: str
    turn: Turn
    stats: ToolStats
    ok: bool | None
    recorded: bool


class Told(NamedTuple):
    """What a caller tells of one tool; `judged` if it says how the calls went."""

    stats: ToolStats
    judged: bool


# --- what the turns show


def tool_name(turn: Turn) -> str:
    """The tool a turn comes from, "" if nobody says."""
    tool = turn.meta.get("tool")
    if isinstance(tool, dict) and isinstance(tool.get("name"), str):
        return str(tool["name"])
    if turn.speaker.startswith("tool:"):
        return turn.speaker.removeprefix("tool:")
    return next((a.name for a in turn.attachments if a.type == "tool_result" and a.name), "")


def failed(turn: Turn) -> bool:
    """Does a tool's answer say that it failed? Its flag decides, then its words; "0 failed" is no failure."""
    if (flagged := _flag(turn)) is not None:
        return not flagged
    head = fold(turn.text[:200])
    return any(not _NONE_OF_IT.search(head[: found.start()]) for found in _FAILURES.finditer(head))


def _flag(turn: Turn) -> bool | None:
    tool = turn.meta.get("tool")
    if not isinstance(tool, dict):
        return None
    if isinstance(tool.get("ok"), bool):
        return bool(tool["ok"])
    return False if tool.get("error") else None


def calls(turns: Iterable[Turn]) -> list[Call]:
    """Every answer of a tool that has a name, in order."""
    return [call for turn in turns if (call := call_in(turn)) is not None]


def call_in(turn: Turn) -> Call | None:
    name = tool_name(turn)
    if turn.role is not Role.TOOL or not name or not turn.text.strip():
        return None
    if isinstance(account := turn.meta.get(ACCOUNT), dict):
        stats = ToolStats.model_validate(account)
        return Call(name, turn, stats, None, True)
    flagged = _flag(turn)
    ok = flagged if flagged is not None else (False if failed(turn) else None)
    tool = turn.meta.get("tool")
    record: Mapping[str, Any] = tool if isinstance(tool, dict) else {}
    stats = ToolStats(
        tool_name=name,
        call_count=1,
        success_count=ok is not False,
        total_duration_ms=_amount(record.get("duration_ms", turn.meta.get("duration_ms"))),
        total_tokens=_tokens(turn),
    )
    return Call(name, turn, stats, ok, len(record) > 1)


def _tokens(turn: Turn) -> int:
    usage = turn.meta.get("usage")
    if not isinstance(usage, dict):
        return _amount(turn.meta.get("tokens"))
    return _amount(usage.get("total_tokens")) or sum(_amount(usage.get(f"{way}_tokens")) for way in ("input", "output"))


def _amount(value: object) -> int:
    return round(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0


def added(known: Sequence[ToolStats]) -> ToolStats:
    """Several accounts of different calls as one."""
    return ToolStats(
        tool_name=next((t.tool_name for t in known if t.tool_name), ""),
        skill_name=next((t.skill_name for t in known if t.skill_name), ""),
        call_count=sum(t.call_count for t in known),
        success_count=sum(t.success_count for t in known),
        total_duration_ms=sum(t.total_duration_ms for t in known),
        total_tokens=sum(t.total_tokens for t in known),
        best_for=_few(t.best_for for t in known),
        common_failures=_few(t.common_failures for t in known),
    )


def _few(notes: Iterable[str]) -> str:
    return "; ".join(list(dict.fromkeys(note for note in notes if note))[-_MOST_NOTES:])


def sums(shown: Sequence[Call], used_tools: Sequence[Mapping[str, Any]]) -> dict[str, ToolStats]:
    """A tool each: what the trace shows and what the caller tells are two accounts of the same calls, so the fuller
    one counts, and the other lends what it leaves out."""
    by_tool: dict[str, list[ToolStats]] = {}
    for call in shown:
        by_tool.setdefault(call.tool, []).append(call.stats)
    seen = {name: added(stats) for name, stats in by_tool.items()}
    told = told_of(used_tools)
    return {name: _fuller(seen.get(name), told.get(name)) for name in dict.fromkeys([*seen, *told])}


def _fuller(shown: ToolStats | None, told: Told | None) -> ToolStats:
    if told is None or shown is None:
        return shown or (told.stats if told else ToolStats())
    first, other = (told.stats, shown) if told.stats.call_count >= shown.call_count else (shown, told.stats)
    kept = {
        name: getattr(first, name) or getattr(other, name)
        for name in ("skill_name", "total_duration_ms", "total_tokens", "best_for", "common_failures")
    }
    if first is told.stats and not told.judged:
        kept["success_count"] = first.call_count - (shown.call_count - shown.success_count)
    return first.model_copy(update=kept)


# --- what a caller tells


def told_of(used_tools: Sequence[Mapping[str, Any]]) -> dict[str, Told]:
    """`used_tools`, read: one record a call, or the sums of a tool. `InvalidArgument` names what cannot be counted."""
    found: dict[str, list[Told]] = {}
    for n, record in enumerate(used_tools):
        told = _told(record, f"used_tools[{n}]")
        found.setdefault(told.stats.tool_name, []).append(told)
    return {name: Told(added([t.stats for t in parts]), all(t.judged for t in parts)) for name, parts in found.items()}


def _told(record: Mapping[str, Any], where: str) -> Told:
    name = next((record[key] for key in ("name", "tool_name", "tool") if record.get(key)), None)
    if not isinstance(name, str) or not name.strip():
        raise InvalidArgument(f"{where} must name its tool: {{'name': …}}", field=f"{where}.name")
    count = _number(record, where, "call_count", "calls", "count")
    made = 1 if count is None else count
    well = _number(record, where, "success_count", "successes")
    if well is None and (wrong := _number(record, where, "failure_count", "error_count", "failures")) is not None:
        well = made - wrong
    if well is None and (went := _went(record)) is not None:
        well = made if went else 0
    if not 0 <= (well or 0) <= made:
        raise InvalidArgument(
            f"{where}: {well} calls went well, of {made}; count both over the same calls",
            field=f"{where}.success_count",
        )
    tokens = _number(record, where, "total_tokens", "tokens")
    if tokens is None:
        parts = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens")
        tokens = sum(_number(record, where, part) or 0 for part in parts)
    stats = ToolStats(
        tool_name=name.strip()[:200],
        skill_name=_note(record, "skill_name"),
        call_count=made,
        success_count=made if well is None else well,
        total_duration_ms=_number(record, where, "total_duration_ms", "duration_ms", "elapsed_ms") or 0,
        total_tokens=tokens,
        best_for=_note(record, "best_for"),
        common_failures=_note(record, "common_failures", "error"),
    )
    return Told(stats, well is not None)


def _went(record: Mapping[str, Any]) -> bool | None:
    for key in ("ok", "success", "succeeded"):
        if isinstance(record.get(key), bool):
            return bool(record[key])
    status = str(record.get("status") or record.get("tool_status") or "").lower()
    if status in _WENT_WELL or status in _WENT_WRONG:
        return status in _WENT_WELL
    return False if record.get("error") else None


def _number(record: Mapping[str, Any], where: str, *names: str) -> int | None:
    for name in names:
        value = record.get(name)
        if value is None:
            continue
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
            raise InvalidArgument(
                f"{where}.{name} must be a number of 0 or more, not {value!r}", field=f"{where}.{name}"
            )
        return round(value)
    return None


def _note(record: Mapping[str, Any], *names: str) -> str:
    found = next((record[name] for name in names if isinstance(record.get(name), str)), "")
    return " ".join(found.split())[:_LONGEST_NOTE]


def is_account(turn_id: str) -> bool:
    """Is this turn a caller's account of a tool, rather than something said?"""
    return turn_id.startswith(f"{ACCOUNT}-")


def account_turns(used_tools: Sequence[Mapping[str, Any]], shown: Sequence[Call], after: Turn) -> list[Turn]:
    """For tools nobody hears of otherwise, the caller's account as a turn: what is counted has words to point at. The
    ids hang on the turn it follows, so the same call again says nothing new."""
    names = {call.tool for call in shown}
    turns = []
    for name, told in told_of(used_tools).items():
        if name in names:
            continue
        stats = told.stats.model_dump(mode="json", exclude_defaults=True)
        text = json.dumps(stats, ensure_ascii=False)
        turns.append(
            Turn(
                turn_id=f"{ACCOUNT}-{stable_id('account', after.turn_id, text)[:13]}",
                role=Role.TOOL,
                speaker=f"tool:{name}",
                timestamp_iso=after.timestamp_iso,
                text=text,
                meta={"tool": {"name": name}, ACCOUNT: stats},
            )
        )
    return turns


# --- what was done with them


@dataclass(frozen=True, slots=True)
class Episode:
    """From one thing a user says to the next: what was asked, which tools answered, and whether the agent spoke after
    the last of them."""

    ask: Turn | None
    calls: tuple[Call, ...]
    closed: bool

    @property
    def steps(self) -> tuple[str, ...]:
        """The tools in order, one used again at once named once."""
        names = [call.tool for call in self.calls]
        return tuple(name for n, name in enumerate(names) if n == 0 or names[n - 1] != name)

    @property
    def failures(self) -> tuple[Call, ...]:
        return tuple(call for call in self.calls if call.ok is False)

    @property
    def proves_a_way(self) -> bool:
        """Is it shown that this led somewhere? How every call went is known, a tool that failed went well in the end,
        and there was a failure to get over, or a task the agent came back from with an answer."""
        if len(self.calls) < 2 or any(call.ok is None for call in self.calls):
            return False
        last = {call.tool: call.ok for call in self.calls}
        overcome = all(last[call.tool] for call in self.failures) and bool(self.calls[-1].ok)
        return overcome and (bool(self.failures) or (self.closed and self.ask is not None))


def episodes(turns: Iterable[Turn]) -> list[Episode]:
    found: list[Episode] = []
    ask: Turn | None = None
    done: list[Call] = []
    closed = False

    def ends() -> None:
        if done:
            found.append(Episode(ask, tuple(done), closed))

    for turn in turns:
        if turn.role is Role.USER:
            ends()
            ask, done, closed = turn, [], False
        elif turn.role is Role.ASSISTANT:
            closed = bool(done) and "tool_calls" not in turn.meta and not turn.meta.get("thought")
        elif (call := call_in(turn)) is not None and ACCOUNT not in turn.meta:
            done.append(call)
            closed = False
    ends()
    return found
