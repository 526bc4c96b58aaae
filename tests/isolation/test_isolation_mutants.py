"""The suite can fail: drivers broken in the usual ways are caught by the very questions that the real one passes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from asking_index import DIMENSION, Examination, filled
from tally import Tally
from world import SEED, World

from mnemon.contracts.entries import Ask, Entry, Hit, Page
from mnemon.contracts.filters import OrderBy, Where
from mnemon.contracts.scope import Scope
from mnemon.drivers.index.sqlite import SqliteIndex
from mnemon.drivers.index.sqlite.sections import Section
from mnemon.logic.text import fold

WORLD = World(SEED, rows_per_tenant=50)
EVERYBODY = sorted({principal for row in WORLD.rows for principal in row.principals})


class Broken(SqliteIndex):
    """Asks in another scope than it was asked in."""

    def taken_for(self, scope: Scope) -> Scope:
        raise NotImplementedError

    async def search(self, scope: Scope, ask: Ask) -> list[Hit]:
        return await super().search(self.taken_for(scope), ask)

    async def get(self, scope: Scope, ids: Sequence[str]) -> list[Entry]:
        return await super().get(self.taken_for(scope), ids)

    async def count(self, scope: Scope, where: Where) -> int:
        return await super().count(self.taken_for(scope), where)

    async def scroll(
        self, scope: Scope, where: Where, order: OrderBy = "newest", limit: int = 100, cursor: str | None = None
    ) -> Page:
        return await super().scroll(self.taken_for(scope), where, order, limit, cursor)


class ForgetsTheTenant(SqliteIndex):
    def _visible(self, scope: Scope, kinds: frozenset[str] | None) -> list[Section]:
        return [s for t in WORLD.tenants for s in SqliteIndex._visible(self, replace(scope, tenant_id=t), kinds)]

    def _from_memory(self, *asked: object) -> None:
        return None


class TakesAnyForWithin(Broken):
    """A row that carries one of the caller's principals is shown, whoever else it is for."""

    def taken_for(self, scope: Scope) -> Scope:
        return replace(scope, steward=True, match="any", narrow=scope.principals)


class MatchesByLike(Broken):
    """The caller's id is a pattern: `%` and `_` are everybody."""

    def taken_for(self, scope: Scope) -> Scope:
        return replace(scope, principals=frozenset().union(*map(_like, scope.principals)))


@cache
def _like(pattern: str) -> frozenset[str]:
    wild = re.compile("".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in pattern), re.IGNORECASE | re.DOTALL)
    return frozenset(p for p in EVERYBODY if wild.fullmatch(p))


class MatchesByPrefix(Broken):
    def taken_for(self, scope: Scope) -> Scope:
        return replace(scope, principals=frozenset(p for p in EVERYBODY if p.startswith(tuple(scope.principals))))


class FoldsIds(Broken):
    """Case, width and composition make no difference to it."""

    def taken_for(self, scope: Scope) -> Scope:
        folded = {fold(p) for p in scope.principals}
        return replace(scope, principals=frozenset(p for p in EVERYBODY if fold(p) in folded))


class HasAnEverybody(Broken):
    """`user_id="*"` returns everybody's rows."""

    def taken_for(self, scope: Scope) -> Scope:
        return replace(scope, steward=True) if "u:*" in scope.principals | scope.narrow else scope


class ForgetsToNarrow(Broken):
    def taken_for(self, scope: Scope) -> Scope:
        return replace(scope, match="within")


class FindsNothing(Broken):
    def taken_for(self, scope: Scope) -> Scope:
        return replace(scope, principals=frozenset())


class LosesTheLast(SqliteIndex):
    async def scroll(
        self, scope: Scope, where: Where, order: OrderBy = "newest", limit: int = 100, cursor: str | None = None
    ) -> Page:
        page = await super().scroll(scope, where, order, limit, cursor)
        return replace(page, entries=page.entries[:-1])


async def examined(kind: type[SqliteIndex], tmp_path: Path) -> Tally:
    index, tally = kind(tmp_path / "index.db", "m", DIMENSION), Tally(SEED)
    await filled(index, WORLD.rows, SEED)
    await Examination(index, WORLD, tally, askers=300).ask(2_500)
    await index.close()
    return tally


async def test_a_sound_driver_passes(tmp_path: Path) -> None:
    tally = await examined(SqliteIndex, tmp_path)
    assert (tally.leaks, tally.missing) == ([], [])


@pytest.mark.parametrize(
    "broken",
    [
        ForgetsTheTenant,
        TakesAnyForWithin,
        MatchesByLike,
        MatchesByPrefix,
        FoldsIds,
        HasAnEverybody,
        ForgetsToNarrow,
    ],
)
async def test_a_driver_that_shows_too_much_is_caught(broken: type[SqliteIndex], tmp_path: Path) -> None:
    assert (await examined(broken, tmp_path)).leaks


@pytest.mark.parametrize("broken", [FindsNothing, LosesTheLast])
async def test_a_driver_that_shows_too_little_is_caught(broken: type[SqliteIndex], tmp_path: Path) -> None:
    tally = await examined(broken, tmp_path)
    assert tally.missing
    assert not tally.leaks
