"""The table of lives and how several of them become one: pure, and in no order."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import resources

from mnemon.contracts.claims import Claim, Language
from mnemon.contracts.governance import EvidenceLevel, ForgetPolicy, Governance, Kind, Status

_STRENGTH = {level: n for n, level in enumerate(EvidenceLevel)}
_KEEPING = {ForgetPolicy.TEMPORARY: 0, ForgetPolicy.UNTIL_CHANGED: 1, ForgetPolicy.PERMANENT: 2}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: for which kinds, states and evidence it counts, and the life it gives."""

    name: str
    kinds: frozenset[Kind]
    statuses: frozenset[Status]
    evidence: frozenset[EvidenceLevel]
    forget_policy: ForgetPolicy
    ttl_seconds: int
    archive_only: bool
    notes: dict[Language, str]

    def fits(self, kind: Kind, status: Status, evidence: EvidenceLevel) -> bool:
        return (
            kind in self.kinds
            and (not self.statuses or status in self.statuses)
            and (not self.evidence or evidence in self.evidence)
        )


_DATA = tomllib.loads(resources.files("mnemon.logic").joinpath("data/governance.toml").read_text(encoding="utf-8"))


def _load() -> tuple[Row, ...]:
    return tuple(
        Row(
            name=row["name"],
            kinds=frozenset(map(Kind, row["kinds"])),
            statuses=frozenset(map(Status, row.get("status", []))),
            evidence=frozenset(map(EvidenceLevel, row.get("evidence", []))),
            forget_policy=ForgetPolicy(row["forget_policy"]),
            ttl_seconds=row["ttl_seconds"],
            archive_only=row.get("archive_only", False),
            notes={"zh": row["zh"], "en": row["en"]},
        )
        for row in _DATA["row"]
    )


TABLE = _load()
ARCHIVE_ONLY_TTL = next(row.ttl_seconds for row in TABLE if row.archive_only)


def row_for(kind: Kind, status: Status, evidence: EvidenceLevel) -> Row:
    return next(row for row in TABLE if row.fits(kind, status, evidence))


def governed(
    kind: Kind,
    status: Status,
    evidence: EvidenceLevel,
    *,
    importance: float = 0.6,
    ttl_seconds: int = 0,
    requires_confirmation: bool = False,
) -> Governance:
    """The life the table gives. A `ttl_seconds` asked for counts only where it is shorter; 0 asks for nothing."""
    row = row_for(kind, status, evidence)
    shorter = ttl_seconds > 0 and (row.ttl_seconds == 0 or ttl_seconds < row.ttl_seconds)
    return Governance(
        importance=importance,
        ttl_seconds=ttl_seconds if shorter else row.ttl_seconds,
        forget_policy=ForgetPolicy.TEMPORARY if shorter else row.forget_policy,
        evidence_level=evidence,
        requires_confirmation=requires_confirmation,
        ttl_policy=f"{row.name}:shortened" if shorter else row.name,
    )


def governed_end(evidence: EvidenceLevel, importance: float) -> Governance:
    """The life of what a bot wrote down itself at the end of a turn."""
    row = _DATA["end"]
    return Governance(
        importance=importance,
        ttl_seconds=row["ttl_seconds"],
        forget_policy=ForgetPolicy(row["forget_policy"]),
        evidence_level=evidence,
        ttl_policy=row["name"],
    )


def join(parts: Iterable[Governance]) -> Governance:
    """Several tags behind one claim: the strictest life, the highest importance, the strongest evidence; confirmation
    only if every one asks for it. The same whatever the order, and joining twice changes nothing."""
    given = list(parts)
    if not given:
        raise ValueError("nothing to join")
    life = min(given, key=_life)
    return Governance(
        importance=max(g.importance for g in given),
        ttl_seconds=life.ttl_seconds,
        forget_policy=life.forget_policy,
        evidence_level=max((g.evidence_level for g in given), key=_STRENGTH.__getitem__),
        requires_confirmation=all(g.requires_confirmation for g in given),
        ttl_policy=life.ttl_policy,
    )


def _life(governance: Governance) -> tuple[float, int, str]:
    """The strictest first: a positive ttl before none, then what is sooner let go, then the name of the rule."""
    ttl = governance.ttl_seconds or float("inf")
    return ttl, _KEEPING[governance.forget_policy], governance.ttl_policy


def table_text(language: Language) -> str:
    """The table as it stands in a prompt."""
    heads = {
        "zh": "| 类别 | 证据/状态 | forget_policy | ttl_seconds | 说明 |",
        "en": "| category | evidence / status | forget_policy | ttl_seconds | note |",
    }
    lines = [heads[language], "|---|---|---|---:|---|"]
    for row in TABLE:
        when = ", ".join(sorted([*row.statuses, *row.evidence])) or "*"
        kinds = ", ".join(kind.value for kind in Kind if kind in row.kinds)
        policy = "archive_only" if row.archive_only else row.forget_policy.value
        lines.append(f"| {kinds} | {when} | {policy} | {row.ttl_seconds} | {row.notes[language]} |")
    return "\n".join(lines)


def lives_begin(claims: Sequence[Claim], begun: datetime) -> list[Claim]:
    """Lives counted from a moment: that of the clock, or a later one where the clock went back. What is learnt under a
    clock that is a year behind must not be over as soon as the clock is right."""
    ends = [claim.governance.expires_at(begun) for claim in claims]
    return [
        c if end is None or c.expires_at is None or end <= c.expires_at else c.model_copy(update={"expires_at": end})
        for c, end in zip(claims, ends, strict=True)
    ]
