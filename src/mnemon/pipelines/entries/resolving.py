"""Which row somebody means by an id: their own entry before anything else that has it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mnemon.contracts.entries import Entry
from mnemon.contracts.errors import Conflict, NotFound
from mnemon.contracts.ports import Index
from mnemon.contracts.scope import Scope, checked_id
from mnemon.logic.memories import keys_of
from mnemon.pipelines.entries.projection import DELETED, WRITTEN
from mnemon.pipelines.index.projection import CHUNK, CLAIM, TURN

_REFUSALS = {
    TURN: "is a turn: words are never rewritten; erase them with `forget`",
    CLAIM: "is a claim: `correct`, `confirm` or `reject` it, or erase it with `forget`",
    CHUNK: "is a piece of a readable memory: it follows its claims, or an edit of its file",
}


@dataclass(frozen=True, slots=True)
class Resolver:
    index: Index

    async def rows(self, scope: Scope, ids: Iterable[str]) -> dict[str, Entry]:
        """What each id means; those that mean nothing here are left out."""
        meant = {id: [*keys_of(scope, id), id] for id in dict.fromkeys(ids)}
        found = {row.id: row for row in await self.index.get(scope, [key for keys in meant.values() for key in keys])}
        first = {id: next((key for key in keys if key in found), None) for id, keys in meant.items()}
        return {id: found[key] for id, key in first.items() if key is not None}

    async def written(self, scope: Scope, id: str, deleted: bool = False) -> Entry:
        """An entry that came in through `write`; `deleted` ones only where they are asked for."""
        row = (await self.rows(scope, [checked_id("id", id)])).get(id)
        if row is None:
            raise NotFound(f"no entry {id} in this scope", id=id)
        if row.kind not in WRITTEN:
            why = _REFUSALS.get(row.kind, "did not come in through `write`")
            raise Conflict(f"{id} {why}", id=id)
        if row.fields.get("state") == DELETED and not deleted:
            version = row.metadata["version"]
            raise NotFound(f"entry {id} was deleted; roll back version {version} to have it again", id=id)
        return row
