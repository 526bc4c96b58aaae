"""What a memory is worth to a question: how well it fits, how long ago it was, and how little it repeats.

    fit     = mean of the routes that found anything: exp((cosine - best) / 0.15), and BM25 / best
    worth   = fit * max(floor, 2 ** (-age / half life))         where the question names no time
            = 0.35 + 0.65 * fit inside the time it names, floor * fit outside
    value   = worth * (1 - diversity * likeness to the nearest one chosen before)

Only the best of a route is a measure for the others: how many there are, and how bad the worst is, does not matter."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from mnemon.logic.memo import remembered
from mnemon.logic.text import grams, terms

K = TypeVar("K")
Period = tuple[int, int]

# Cosines lie close together: this much below the best one is worth about a third of it.
SPREAD = 0.15
# What lies in the time a question names is worth this much, whatever else it says.
NAMED = 0.35
_DAY_MS = 86_400_000


def fits(meaning: Mapping[K, float], words: Mapping[K, float]) -> dict[K, float]:
    """Between 0 and 1 for everything one of the routes found."""
    close, best = max(meaning.values(), default=0.0), max(words.values(), default=0.0)
    routes = [{key: math.exp((cosine - close) / SPREAD) for key, cosine in meaning.items()}]
    routes.append({key: score / best for key, score in words.items()} if best > 0 else {})
    heard = [route for route in routes if route]
    found = dict.fromkeys([*meaning, *words])
    return {key: sum(route.get(key, 0.0) for route in heard) / max(len(heard), 1) for key in found}


def fading(age_ms: float, half_life_days: float, floor: float) -> float:
    """Half after the half life, and never less than the floor; what is yet to come has not faded. Without a half life
    nothing fades."""
    if half_life_days <= 0 or age_ms <= 0:
        return 1.0
    return max(floor, math.exp2(-age_ms / (half_life_days * _DAY_MS)))


def timely(fit: float, inside: bool, floor: float) -> float:
    """Where a question names a time, that counts instead of how long ago it was."""
    return NAMED + (1 - NAMED) * fit if inside else floor * fit


def overlaps(periods: Iterable[Period], others: Collection[Period]) -> bool:
    return any(begin < to and since < end for begin, end in periods for since, to in others)


def likeness(a: Collection[int], b: Collection[int]) -> float:
    """How much of their words two texts share: 1 for the same words, 0 for none."""
    if not a or not b:
        return 0.0
    return len(set(a) & set(b)) / math.sqrt(len(a) * len(b))


@remembered(20_000)
def words_of(text: str) -> frozenset[int]:
    """What a text is compared by: its words, and its Chinese characters two by two."""
    return frozenset(grams(terms(text)))


def varied(
    items: Sequence[K],
    worth: Callable[[K], float],
    words: Callable[[K], Collection[int]],
    limit: int,
    diversity: float,
) -> list[tuple[K, float]]:
    """The best ones, each with its value; of equals the earlier in `items`. Values never rise from one to the next.

    What would not be among the best even if all before it were alike is not looked at."""
    ranked = sorted(map(worth, items), reverse=True)[:limit]
    least = (1 - diversity) * ranked[-1] if ranked else 0.0
    left = [(item, worth(item), words(item)) for item in items if worth(item) >= least]
    nearest = [0.0] * len(left)
    waiting = set(range(len(left)))
    chosen: list[tuple[K, float]] = []
    while waiting and len(chosen) < limit:
        value, at = max((left[n][1] * (1 - diversity * nearest[n]), -n) for n in waiting)
        item, _, said = left[-at]
        chosen.append((item, value))
        waiting.discard(-at)
        for n in waiting:
            nearest[n] = max(nearest[n], likeness(said, left[n][2]))
    return chosen
