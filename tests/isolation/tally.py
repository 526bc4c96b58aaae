"""The verdict on an answer: nothing that is not the asker's, and, where all of it is promised, nothing missing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from world import SHARES, TIMES

_SHOWN = 5


@dataclass
class Tally:
    """Counts every question asked and keeps what was wrong with the answers."""

    seed: int
    checks: int = 0
    found: int = 0
    leaks: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def judge(
        self,
        who: object,
        asked: object,
        got: Collection[Any],
        may: Collection[Any],
        complete: bool = True,
        at_most: int | None = None,
    ) -> None:
        """`may` is all the asker may get; `complete` says that all of it (up to `at_most`) was promised."""
        self.checks += 1
        self.found += len(got)
        allowed = set(may)
        if more := set(got) - allowed:
            self.leaks.append(f"{who} asked {asked} and got {sorted(map(str, more))[:_SHOWN]}")
        promised = len(allowed) if at_most is None else min(at_most, len(allowed))
        if complete and len(set(got) & allowed) < promised:
            self.missing.append(f"{who} asked {asked} and got {len(set(got))} of {promised}")

    def counted(self, who: object, asked: object, got: int, may: int) -> None:
        self.checks += 1
        self.found += got
        if got != may:
            (self.leaks if got > may else self.missing).append(f"{who} asked {asked} and got {got} of {may}")

    def refused(self, who: object, asked: object, was: bool) -> None:
        """Something that must not be done, or must not be found."""
        self.checks += 1
        if not was:
            self.leaks.append(f"{who} could {asked}")

    def close(self, part: str) -> None:
        """Nothing leaked, nothing missing, enough asked, and not all of it in vain."""
        again = f"again with MNEMON_ISOLATION_SEED={self.seed}"
        assert not self.leaks, f"{len(self.leaks)} leaks, {again}: {self.leaks[:_SHOWN]}"
        assert not self.missing, f"{len(self.missing)} incomplete, {again}: {self.missing[:_SHOWN]}"
        wanted = SHARES[part] * TIMES
        assert self.checks >= wanted, f"only {self.checks} questions of {wanted}"
        assert self.found > self.checks // 4, f"{self.checks} questions found only {self.found} rows"
        print(f"{part}: {self.checks} questions, {self.found} rows, seed {self.seed}")
