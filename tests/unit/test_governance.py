"""The table of lives is enforced whatever a model asks for, and joins do not depend on order."""

from __future__ import annotations

from itertools import permutations

import pytest

from mnemon.contracts.governance import EvidenceLevel, ForgetPolicy, Governance, Kind, Status
from mnemon.logic.governance import ARCHIVE_ONLY_TTL, TABLE, governed, join, row_for, table_text

DAY = 86_400
S0, S1, S2, S3 = (
    EvidenceLevel.USER_CLAIM,
    EvidenceLevel.AI_INFERENCE,
    EvidenceLevel.TOOL_GROUNDED,
    EvidenceLevel.USER_CONFIRMED,
)
# Seed 000 §4.3, row by row.
ROWS = [
    (Kind.PREFERENCE, Status.NONE, S0, "until_changed", 0),
    (Kind.RULE, Status.NONE, S0, "permanent", 0),
    (Kind.TASK, Status.OPEN, S0, "temporary", 30 * DAY),
    (Kind.TASK, Status.NONE, S0, "temporary", 30 * DAY),
    (Kind.TASK, Status.DONE, S0, "temporary", 7 * DAY),
    (Kind.TASK, Status.CANCELLED, S3, "temporary", 7 * DAY),
    (Kind.FACT, Status.NONE, S0, "temporary", 180 * DAY),
    (Kind.FACT, Status.NONE, S2, "permanent", 0),
    (Kind.FACT, Status.NONE, S3, "permanent", 0),
    *((kind, Status.NONE, S1, "temporary", DAY) for kind in Kind),
]


@pytest.mark.parametrize(("kind", "status", "evidence", "policy", "ttl"), ROWS)
def test_the_table_decides_and_a_model_can_only_shorten(
    kind: Kind, status: Status, evidence: EvidenceLevel, policy: str, ttl: int
) -> None:
    for asked in (0, ttl, ttl + 1, 10 * 365 * DAY):
        given = governed(kind, status, evidence, ttl_seconds=asked)
        if ttl or not asked:
            assert (given.forget_policy.value, given.ttl_seconds) == (policy, ttl)
    shorter = governed(kind, status, evidence, ttl_seconds=60)
    assert (shorter.forget_policy, shorter.ttl_seconds) == (ForgetPolicy.TEMPORARY, 60)
    assert shorter.ttl_policy.endswith(":shortened")


def test_every_kind_status_and_evidence_has_a_row() -> None:
    assert all(row_for(kind, status, level) for kind in Kind for status in Status for level in EvidenceLevel)
    assert ARCHIVE_ONLY_TTL == DAY


@pytest.mark.parametrize("language", ["zh", "en"])
def test_the_table_stands_in_the_prompt_in_both_languages(language: str) -> None:
    text = table_text(language)  # type: ignore[arg-type]
    assert all(row.notes[language] in text and f"| {row.ttl_seconds} |" in text for row in TABLE)  # type: ignore[index]


PARTS = [
    governed(Kind.FACT, Status.NONE, S0, importance=0.2, requires_confirmation=True),
    governed(Kind.FACT, Status.NONE, S2, importance=0.9),
    governed(Kind.TASK, Status.OPEN, S3, importance=0.5, requires_confirmation=True),
    governed(Kind.PREFERENCE, Status.NONE, S0, importance=0.5, ttl_seconds=30 * DAY),
]


def test_a_join_takes_the_strictest_life_the_strongest_evidence_and_does_not_depend_on_order() -> None:
    joined = join(PARTS)
    assert (joined.ttl_seconds, joined.importance, joined.evidence_level) == (30 * DAY, 0.9, S3)
    assert not joined.requires_confirmation
    assert {join(order) for order in permutations(PARTS)} == {joined}


def test_joining_twice_or_in_parts_changes_nothing() -> None:
    joined = join(PARTS)
    assert join([joined, joined]) == joined
    assert join([*PARTS, joined]) == joined
    for a, b, c in permutations(PARTS, 3):
        assert join([join([a, b]), c]) == join([a, join([b, c])])


def test_zero_is_long_lived_only_if_all_are_and_confirmation_is_needed_only_if_all_need_it() -> None:
    lasting = governed(Kind.PREFERENCE, Status.NONE, S0)
    assert join([lasting, lasting]).ttl_seconds == 0
    assert join([lasting, PARTS[0]]).ttl_seconds == 180 * DAY
    waiting = Governance(requires_confirmation=True)
    assert join([waiting, waiting]).requires_confirmation


def test_nothing_cannot_be_joined() -> None:
    with pytest.raises(ValueError, match="nothing to join"):
        join([])
