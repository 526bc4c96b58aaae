"""Changes of entries as lines of the archive's log: what it was, what it became, by whom and why.

One line holds one entry, or links: when an entry is erased, nothing of anybody else's is. The lines of one write stand
side by side, and the number of the last is its version."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from mnemon.contracts.memories import EntryOp, EntryState
from mnemon.contracts.ports import Archive, LogName
from mnemon.contracts.scope import Scope
from mnemon.contracts.sessions import LogLine

LOG: LogName = "entries"


@dataclass(frozen=True, slots=True)
class Item:
    """One entry; `previous` is the line that says what it was before, 0 for none."""

    key: str
    before: EntryState | None
    after: EntryState | None
    previous: int = 0


@dataclass(frozen=True, slots=True)
class LinkChange:
    """A link by the keys of its ends; a weight of None is no link."""

    src_id: str
    dst_id: str
    rel_type: str
    weight: float | None
    before: float | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A line. `erased` are earlier lines that have to go with it; `seq`, `at` and `chain` are its place in the log."""

    op: EntryOp
    audience: tuple[str, ...]
    by: tuple[str, ...]
    reason: str = ""
    item: Item | None = None
    links: tuple[LinkChange, ...] = ()
    erased: tuple[int, ...] = ()
    part: tuple[int, int] = (1, 1)
    seq: int = 0
    at: str = ""
    chain: str = ""

    @property
    def version(self) -> int:
        return self.seq - self.part[0] + self.part[1]

    @property
    def written_together(self) -> range:
        """The lines of the whole write."""
        return range(self.seq - self.part[0] + 1, self.version + 1)


def _state(state: EntryState | None) -> dict[str, Any] | None:
    return None if state is None else state.model_dump(mode="json", exclude_defaults=True)


def _read(state: dict[str, Any] | None) -> EntryState | None:
    return None if state is None else EntryState.model_validate(state)


def _item(item: Item) -> dict[str, Any]:
    return {"id": item.key, "before": _state(item.before), "after": _state(item.after), "previous": item.previous}


def _body(change: Change) -> dict[str, Any]:
    return {
        "op": change.op,
        "by": list(change.by),
        "reason": change.reason,
        "audience": list(change.audience),
        "part": list(change.part),
        "items": [_item(change.item)] if change.item else [],
        "links": [asdict(link) for link in change.links],
        **({"erased": list(change.erased)} if change.erased else {}),
    }


def change_of(line: LogLine) -> Change | None:
    """What a line says; None where it is not one of ours."""
    body = line.body
    if "op" not in body or "audience" not in body:
        return None
    item = next(
        (Item(i["id"], _read(i["before"]), _read(i["after"]), int(i["previous"])) for i in body.get("items", ())), None
    )
    return Change(
        op=body["op"],
        audience=tuple(body["audience"]),
        by=tuple(body["by"]),
        reason=body["reason"],
        item=item,
        links=tuple(LinkChange(**link) for link in body["links"]),
        erased=tuple(body.get("erased", ())),
        part=(int(body["part"][0]), int(body["part"][1])),
        seq=line.seq,
        at=line.at.isoformat(),
        chain=line.chain,
    )


async def append(archive: Archive, scope: Scope, changes: Sequence[Change], expect: int) -> list[Change]:
    """Durable on return; `VersionConflict` where somebody else has written since line `expect`."""
    parts = [replace(change, part=(n, len(changes))) for n, change in enumerate(changes, 1)]
    lines = await archive.append_log(scope, LOG, [_body(change) for change in parts], expect)
    return [
        replace(change, seq=line.seq, at=line.at.isoformat(), chain=line.chain)
        for change, line in zip(parts, lines, strict=True)
    ]


async def read(archive: Archive, tenant_id: str, after: int, limit: int) -> tuple[list[Change], int]:
    """The changes behind a line, and the number of the last line read."""
    lines = await archive.read_log(Scope.steward_of(tenant_id), LOG, after, limit)
    return [change for line in lines if (change := change_of(line))], lines[-1].seq if lines else after


async def at(archive: Archive, tenant_id: str, seqs: Iterable[int]) -> list[Change]:
    """The changes on these lines; what is forgotten is left out."""
    scope = Scope.steward_of(tenant_id)
    lines = [line for seq in seqs for line in await archive.read_log(scope, LOG, seq - 1, 1) if line.seq == seq]
    return [change for line in lines if (change := change_of(line))]


async def trail(archive: Archive, tenant_id: str, seq: int) -> list[Change]:
    """Everything that happened to an entry up to a line, newest first."""
    found: list[Change] = []
    while seq and (here := await at(archive, tenant_id, [seq])) and (item := here[0].item):
        found.append(here[0])
        seq = item.previous
    return found
