"""What pure functions remember of the words they were given: for speed, and only until somebody says forget."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_clear: list[Callable[[], None]] = []


def remembered(most: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A cache of at most so many answers, which `forget_everything` empties."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        cached = lru_cache(maxsize=most)(function)
        _clear.append(cached.cache_clear)
        return cached  # type: ignore[return-value]

    return decorate


def also_forget(clear: Callable[[], None]) -> None:
    """For what is remembered in another way."""
    _clear.append(clear)


def forget_everything() -> None:
    for clear in _clear:
        clear()
