"""Stage 1, second half: drop what is plainly not speech, cut oversized tool output, and never touch another word.

Call order is normalise → redact → denoise: the whole of a cut output goes to a blob, so a secret must be gone before.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mnemon.contracts.errors import MalformedInput, NoUsableContent
from mnemon.contracts.turns import Attachment, Role, Turn
from mnemon.logic.adapters.turns import position_of

TRUNCATED_MARK = "…[TRUNCATED]"

# A JSON object of these keys alone is bookkeeping of a model's API.
_META_NAMES = """
tokenCount token_count tokens tokenUsage token_usage finishReason finish_reason stopReason stop_reason finishMessage
usage usageMetadata usage_metadata safetyRatings safety_ratings avgLogprobs logprobs index
promptTokenCount candidatesTokenCount totalTokenCount cachedContentTokenCount thoughtsTokenCount
toolUsePromptTokenCount promptTokensDetails candidatesTokensDetails prompt_tokens completion_tokens total_tokens
input_tokens output_tokens cached_tokens reasoning_tokens modelVersion model_version responseId response_id
system_fingerprint service_tier latencyMs latency_ms durationMs duration_ms
"""
META_KEYS = frozenset(_META_NAMES.split())
# In lines such as `tokenCount: 12` a bare English word could be speech; only coined names count.
_LINE_KEYS = sorted((key for key in META_KEYS if "_" in key or key != key.lower()), key=len, reverse=True)
_STATS_LINE = re.compile(
    r"[\s\"'{},]*(?:"
    + "|".join(map(re.escape, _LINE_KEYS))
    + r")[\"']?\s*[:=：]\s*[\"']?[A-Za-z0-9_.+-]{0,64}[\"']?[\s,;}]*"
)
_CODE_WORD = re.compile(r"[A-Za-z0-9_.:+-]{0,64}")
_STATS_LIMIT = 4_000
_BACK_OFF = 64
_JOINER = "\u200d"


@dataclass(frozen=True)
class DenoiseRules:
    """`keep_dropped` keeps what a rule would drop and marks it with the rule's name in `drop_candidate`."""

    drop_empty: bool = True
    drop_stats_only: bool = True
    drop_thoughts: bool = True
    tool_text_limit: int = 8_000
    keep_dropped: bool = False


@dataclass(frozen=True)
class Dropped:
    turn_id: str
    reason: str
    raw_path: str
    raw_index: int


@dataclass(frozen=True)
class Denoised:
    """A turn that stays, or word of one that went; `blobs` are whole contents to store under their sha256."""

    turn: Turn | None = None
    dropped: Dropped | None = None
    blobs: tuple[bytes, ...] = ()


def denoise(turns: Iterable[Turn], rules: DenoiseRules | None = None) -> Iterator[Denoised]:
    """Every turn that comes in comes out, either kept or reported."""
    rules = rules or DenoiseRules()
    for turn in turns:
        reason = _reason(turn, rules)
        if reason is not None and not rules.keep_dropped:
            ref = turn.source_ref
            where = Dropped(turn.turn_id, reason, ref.raw_path if ref else "", ref.raw_index if ref else 0)
            yield Denoised(dropped=where)
            continue
        if reason is not None:
            turn = turn.model_copy(update={"drop_candidate": reason})
        yield _cut(turn, rules.tool_text_limit)


def verbatim_length(turn: Turn) -> int:
    """How much of the text was really said: a span must end before the marker."""
    if _is_cut(turn):
        return len(turn.text) - len(TRUNCATED_MARK)
    return len(turn.text)


def is_stats_only(text: str) -> bool:
    """Token counts and finish reasons and nothing else; ordinary prose never is."""
    stripped = text.strip()
    if not stripped or len(stripped) > _STATS_LIMIT:
        return False
    if stripped[0] in "{[":
        try:
            data = json.loads(stripped)
        except (ValueError, RecursionError):
            data = None
        if data is not None:
            entries = data if isinstance(data, list) else [data]
            return bool(entries) and all(_is_stats(entry) for entry in entries)
    lines = (line for line in stripped.splitlines() if line.strip(" \t{}[],"))
    first = next(lines, None)
    return first is not None and _is_stats_line(first) and all(map(_is_stats_line, lines))


def _is_stats_line(line: str) -> bool:
    return _STATS_LINE.fullmatch(line) is not None


def _reason(turn: Turn, rules: DenoiseRules) -> str | None:
    if rules.drop_thoughts and turn.meta.get("thought") is True:
        return "thought"
    if rules.drop_empty and not turn.text.strip():
        return "empty"
    if rules.drop_stats_only and is_stats_only(turn.text):
        return "stats_only"
    return None


def _is_stats(entry: object) -> bool:
    return isinstance(entry, dict) and bool(entry) and META_KEYS.issuperset(entry) and _is_wordless(entry)


def _is_wordless(value: object) -> bool:
    """Numbers and code words such as STOP; a sentence under a bookkeeping key would still be a sentence."""
    if isinstance(value, dict):
        return all(_CODE_WORD.fullmatch(key) and _is_wordless(child) for key, child in value.items())
    if isinstance(value, list):
        return all(_is_wordless(child) for child in value)
    return not isinstance(value, str) or _CODE_WORD.fullmatch(value) is not None


def _is_cut(turn: Turn) -> bool:
    return turn.text.endswith(TRUNCATED_MARK) and any(a.truncated and a.type == "tool_result" for a in turn.attachments)


def _cut(turn: Turn, limit: int) -> Denoised:
    """Only a tool's words may be cut; a turn that was cut before is left as it is."""
    if turn.role is not Role.TOOL or verbatim_length(turn) <= limit:
        return Denoised(turn)
    whole = turn.text.encode()
    digest = hashlib.sha256(whole).hexdigest()
    attachment = Attachment(
        type="tool_result", name=_tool_name(turn), truncated=True, sha256=digest, ref=f"blob://{digest}"
    )
    text = turn.text[: _clean_border(turn.text, limit)] + TRUNCATED_MARK
    kept = turn.model_copy(update={"text": text, "attachments": (*turn.attachments, attachment)})
    return Denoised(kept, blobs=(whole,))


def _tool_name(turn: Turn) -> str:
    tool = turn.meta.get("tool")
    name = tool.get("name") if isinstance(tool, dict) else None
    if isinstance(name, str) and name:
        return name
    return turn.speaker.removeprefix("tool:") or "tool"


def _clean_border(text: str, limit: int) -> int:
    """Back off to where a new character begins; text of nothing but marks is cut at the limit after all."""
    for cut in range(limit, max(limit - _BACK_OFF, 0), -1):
        if not _continues(text[cut - 1], text[cut]):
            return cut
    return limit


def _continues(before: str, after: str) -> bool:
    """Whether the two code points show as one character: accents, emoji sequences, CR LF."""
    if unicodedata.category(after) in ("Mn", "Mc", "Me") or _JOINER in (before, after):
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff":
        return True
    return before == "\r" and after == "\n"


class OutputCheck:
    """The acceptance of stage 1: ids are unique, and there is something to remember. The type checks the roles."""

    def __init__(self, min_text_ratio: float = 0.0) -> None:
        self._minimum = min_text_ratio
        self._turns = 0
        self._with_text = 0
        # Ids made by position cost eight bytes each; only the caller's own ids have to be kept as text.
        self._by_position = array("q")
        self._by_id: dict[str, int] = {}

    def add(self, turn: Turn) -> None:
        self._turns += 1
        self._with_text += bool(turn.text.strip())
        index = turn.source_ref.raw_index if turn.source_ref else self._turns - 1
        earlier = self._note(turn.turn_id, index)
        if earlier is not None:
            path = turn.source_ref.raw_path if turn.source_ref else ""
            raise MalformedInput(
                f"{path or f'element {index}'}: the turn_id {turn.turn_id!r} was already used by element {earlier}; "
                "expected a turn_id of its own for every turn",
                path=path,
                turn_id=turn.turn_id,
                first_index=earlier,
                second_index=index,
                expected="a unique turn_id",
            )

    def finish(self) -> None:
        if not self._with_text:
            raise NoUsableContent(f"none of the {self._turns} turns holds any text", turns=self._turns)
        ratio = self._with_text / self._turns
        if ratio < self._minimum:
            raise NoUsableContent(
                f"only {self._with_text} of {self._turns} turns hold text ({ratio:.0%}); "
                f"expected at least {self._minimum:.0%}",
                turns=self._turns,
                with_text=self._with_text,
            )

    def _note(self, turn_id: str, index: int) -> int | None:
        """The element that already has this id, or None after noting it."""
        position = position_of(turn_id)
        # A gap this wide is not a dropped turn but a caller's own number; it must not reserve memory.
        if position is None or position > len(self._by_position) + 100_000:
            if turn_id in self._by_id:
                return self._by_id[turn_id]
            self._by_id[turn_id] = index
            return None
        if turn_id in self._by_id:
            return self._by_id[turn_id]
        missing = position + 1 - len(self._by_position)
        if missing > 0:
            self._by_position.extend([-1] * missing)
        if self._by_position[position] >= 0:
            return self._by_position[position]
        self._by_position[position] = min(index, 2**62)
        return None
