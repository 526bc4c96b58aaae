"""Optional masking of secrets, card and phone numbers, before anything is stored; the patterns are data.

Call order is normalise → redact → denoise, so that the blob of a long tool output is masked as well.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.turns import Turn


@dataclass(frozen=True)
class Masked:
    """What was masked, never the thing itself."""

    turn_id: str
    pattern: str
    count: int


def passes_luhn(text: str) -> bool:
    """The checksum of card numbers, over the digits alone."""
    total = 0
    digits = [int(c) for c in text if c.isdecimal()]
    for place, digit in enumerate(reversed(digits)):
        doubled = digit * 2 if place % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return len(digits) >= 12 and total % 10 == 0 and any(digits)


CHECKS: dict[str, Callable[[str], bool]] = {"luhn": passes_luhn}


@dataclass(frozen=True)
class _Pattern:
    name: str
    regex: re.Pattern[str]
    replacement: str
    check: Callable[[str], bool] | None
    keys: re.Pattern[str] | None

    def mask(self, text: str, found: Counter[str]) -> str:
        return self.regex.sub(lambda match: self._masked(match, found), text)

    def _masked(self, match: re.Match[str], found: Counter[str]) -> str:
        if self.check is not None and not self.check(match.group()):
            return match.group()
        found[self.name] += 1
        if "secret" not in self.regex.groupindex:
            return self.replacement
        start, end = (at - match.start() for at in match.span("secret"))
        return match.group()[:start] + self.replacement + match.group()[end:]


def default_patterns() -> dict[str, Any]:
    """The patterns that come with the package, as parsed TOML."""
    text = resources.files("mnemon.logic").joinpath("data/redaction.toml").read_text("utf-8")
    return tomllib.loads(text)


class Redactor:
    """Masks the text, the speaker, the attachments' names and references, and every string in `meta`."""

    def __init__(self, patterns: dict[str, Any]) -> None:
        listed = patterns.get("pattern")
        if not isinstance(listed, list) or not listed:
            raise InvalidArgument("redaction needs a list of [[pattern]] tables", field="pattern")
        self._patterns = [_compiled(entry, number) for number, entry in enumerate(listed)]

    def __call__(self, turn: Turn) -> tuple[Turn, list[Masked]]:
        found: Counter[str] = Counter()
        text = self._mask(turn.text, found)
        speaker = self._mask(turn.speaker, found)
        attachments = tuple(
            attachment.model_copy(
                update={"name": self._mask(attachment.name, found), "ref": self._mask(attachment.ref, found)}
            )
            for attachment in turn.attachments
        )
        meta = self._mask_tree(turn.meta, found)
        if not found:
            return turn, []
        meta = {**meta, "redacted": dict(sorted(found.items()))}
        masked = turn.model_copy(update={"text": text, "speaker": speaker, "attachments": attachments, "meta": meta})
        return masked, [Masked(turn.turn_id, name, count) for name, count in sorted(found.items())]

    def _mask(self, text: str, found: Counter[str]) -> str:
        for pattern in self._patterns:
            text = pattern.mask(text, found)
        return text

    def _mask_tree(self, value: Any, found: Counter[str]) -> Any:
        """Recursion is safe here: what an adapter lets through is at most a hundred levels deep."""
        if isinstance(value, str):
            return self._mask(value, found)
        if isinstance(value, list | tuple):
            return [self._mask_tree(child, found) for child in value]
        if isinstance(value, dict):
            return {self._mask(key, found): self._mask_under(key, child, found) for key, child in value.items()}
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**9:
            masked = self._mask(str(value), found)
            return value if masked == str(value) else masked
        return value

    def _mask_under(self, key: str, value: Any, found: Counter[str]) -> Any:
        """`{"password": "hunter2"}`: only the key tells that the value is a secret."""
        # A number of one to three digits under such a key is a count or a flag.
        if (isinstance(value, str) and value) or (isinstance(value, int) and abs(value) >= 1_000):
            for pattern in self._patterns:
                if pattern.keys is not None and pattern.keys.search(key) and value != pattern.replacement:
                    found[pattern.name] += 1
                    return pattern.replacement
        return self._mask_tree(value, found)


def _compiled(entry: Any, number: int) -> _Pattern:
    here = f"pattern[{number}]"
    if not isinstance(entry, dict):
        raise InvalidArgument(f"{here} is not a table", field=here)
    for key in ("name", "regex", "replacement"):
        if not isinstance(entry.get(key), str) or not entry[key]:
            raise InvalidArgument(f"{here} needs the text `{key}`", field=f"{here}.{key}")
    unknown = set(entry) - {"name", "regex", "replacement", "check", "keys"}
    if unknown:
        raise InvalidArgument(f"{here} has the unknown key `{min(unknown)}`", field=f"{here}.{min(unknown)}")
    check = entry.get("check")
    if check is not None and check not in CHECKS:
        raise InvalidArgument(f"{here}: unknown check {check!r}; known: {', '.join(CHECKS)}", field=f"{here}.check")
    return _Pattern(
        name=entry["name"],
        regex=_regex(entry["regex"], f"{here}.regex"),
        replacement=entry["replacement"],
        check=CHECKS[check] if check is not None else None,
        keys=_regex(entry["keys"], f"{here}.keys") if "keys" in entry else None,
    )


def _regex(text: str, field: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidArgument(f"{field} is not a regular expression: {error}", field=field) from None
