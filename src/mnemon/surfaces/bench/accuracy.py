"""From outcomes to accuracy: per category, with how sure it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mnemon.surfaces.bench.confidence import Interval, bootstrap, wilson
from mnemon.surfaces.bench.recall import ADVERSARIAL
from mnemon.surfaces.bench.run_file import Outcome


@dataclass(frozen=True, slots=True)
class QaFigures:
    """`accuracy` is of all that was asked: what failed or could not be judged is never right. `f1` is the mean over
    questions that have an answer."""

    n: int
    right: int
    wrong: int
    unjudged: int
    failed: int
    degraded: int
    accuracy: float
    wilson: Interval
    bootstrap: Interval | None
    f1: float | None


def summed(outcomes: Sequence[Outcome], seed: int) -> dict[str, QaFigures]:
    sets: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups = ["all", outcome.category] + ([] if outcome.category == ADVERSARIAL else ["answerable"])
        for name in groups:
            sets.setdefault(name, []).append(outcome)
    first = [name for name in ("all", "answerable") if name in sets]
    return {name: _figures(sets[name], seed) for name in [*first, *sorted(sets.keys() - set(first))]}


def _figures(outcomes: Sequence[Outcome], seed: int) -> QaFigures:
    standing = [o.standing for o in outcomes]
    right, n = standing.count("right"), len(outcomes)
    f1 = [o.f1 for o in outcomes if o.f1 is not None]
    return QaFigures(
        n=n,
        right=right,
        wrong=standing.count("wrong"),
        unjudged=standing.count("unjudged"),
        failed=standing.count("failed"),
        degraded=sum(bool(o.degraded) for o in outcomes),
        accuracy=right / n,
        wilson=wilson(right, n),
        bootstrap=bootstrap(list(_by_conversation(outcomes)), seed),
        f1=sum(f1) / len(f1) if f1 else None,
    )


def _by_conversation(outcomes: Iterable[Outcome]) -> Iterator[tuple[int, int]]:
    """(right, asked) of each."""
    counts: dict[str, list[int]] = {}
    for outcome in outcomes:
        count = counts.setdefault(outcome.owner, [0, 0])
        count[0] += outcome.standing == "right"
        count[1] += 1
    return ((right, n) for right, n in counts.values())
