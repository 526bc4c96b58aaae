"""Whoever asks the archive for whatever session, turn, node or blob: their own, all of it, and nobody else's."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from asking_index import scope_of
from tally import Tally
from world import AWKWARD, SEED, SHARES, TIMES, Asker, World, Written, marks

from mnemon.contracts.errors import NotFound, PermissionDenied
from mnemon.contracts.nodes import NodeKey, Shelf
from mnemon.contracts.scope import Owner, OwnerKind, Scope, SessionKey
from mnemon.drivers.archive.fs import FsArchive
from mnemon.testing.archive_suite import node, record, turn
from mnemon.testing.clock import FixedClock

_KINDS = {"u": OwnerKind.USERS, "g": OwnerKind.GROUPS, "a": OwnerKind.AGENTS}
CLOCK = FixedClock()


def owner_of(written: Written) -> Owner:
    letter, _, id_ = written.owner.partition(":")
    return Owner(_KINDS[letter], id_)


@dataclass(frozen=True)
class Kept:
    """A session in the archive, a node beside it and a blob of its tenant, all with the same mark."""

    written: Written
    session: SessionKey
    node: NodeKey
    blob: str

    @property
    def mark(self) -> str:
        return self.written.marks[0]

    def seen_by(self, asker: Asker) -> bool:
        return asker.may_see(self.session.tenant_id, self.written.principals)


async def kept(archive: FsArchive, world: World, count: int) -> list[Kept]:
    made: dict[SessionKey, Kept] = {}
    for n, written in enumerate(world.sessions(count, turns=1)):
        tenant, owner = written.caller.tenant, owner_of(written)
        steward, principals = Scope.steward_of(tenant), tuple(sorted(written.principals))
        key = SessionKey(tenant, owner, written.session)
        if key in made:
            continue
        page = await archive.write_session(steward, record(CLOCK, key, principals), 0)
        added = await archive.append_turns(steward, key, [turn(f"t{n}", written.turns[0])])
        told = {"turn_count": added.turn_count, "chain_head": added.chain_head}
        await archive.write_session(steward, page.model_copy(update=told), page.version)
        place = NodeKey(tenant, owner, Shelf.PREFERENCES, f"{n % 3}{AWKWARD[n % len(AWKWARD)]}"[:200])
        if not await archive.exists(steward, place):
            await archive.write_node(steward, node(place, written.marks[0], principals=principals))
        else:
            place = replace(place, slug=f"node {n}")
            await archive.write_node(steward, node(place, written.marks[0], principals=principals))
        blob = await archive.put_blob(steward, written.marks[0].encode())
        made[key] = Kept(written, key, place, blob)
    return list(made.values())


async def found(answer: Awaitable[Any]) -> set[str]:
    """The marks of what is there; what is not there, or not the asker's, is simply not found."""
    try:
        return marks(await answer)
    except (NotFound, PermissionDenied):
        return set()


class Examination:
    def __init__(self, archive: FsArchive, world: World, all_: list[Kept], tally: Tally) -> None:
        self._archive = archive
        self._all = all_
        self._tally = tally
        self._rng = random.Random(world.seed + 1)
        self._askers = world.askers(400)
        self._at = {key: k for k in all_ for key in (k.session, k.node)}
        self._own = {asker: [k for k in all_ if k.seen_by(asker)] for asker in self._askers}

    async def ask(self, count: int) -> None:
        kinds = [*[self._one_thing] * 12, self._listings, self._blob]
        while self._tally.checks < count:
            asker = self._rng.choice(self._askers)
            own = self._own[asker]
            for kind in kinds:
                await kind(asker, self._rng.choice(own if own and self._rng.random() < 0.4 else self._all))

    async def _one_thing(self, asker: Asker, target: Kept) -> None:
        """By its own address, or by the same address in the asker's tenant or under a name like the owner's."""
        archive, scope = self._archive, scope_of(asker)
        session, place = target.session, target.node
        if self._rng.random() < 0.3:
            here = self._rng.choice((asker.tenant, session.tenant_id))
            owner = replace(session.owner, id=self._rng.choice((session.owner.id, asker.caller.user or "")))
            session, place = replace(session, tenant_id=here, owner=owner), replace(place, tenant_id=here, owner=owner)
        read: tuple[Callable[[], Awaitable[Any]], ...] = (
            lambda: archive.read_session(scope, session),
            lambda: archive.read_turns(scope, session),
            lambda: archive.read_node(scope, place),
            lambda: archive.revisions(scope, place),
            lambda: archive.exists(scope, place),
            lambda: archive.read_claims(scope, session),
        )
        which = self._rng.randrange(len(read))
        there = self._at.get(place if which in (2, 3, 4) else session)
        may = {there.mark} if there is not None and there.seen_by(asker) else set()
        if which in (1, 2):
            self._tally.judge(asker, f"{which} of {session}", await found(read[which]()), may)
        else:
            self._tally.counted(asker, f"{which} of {session}", await self._there(read[which]()), len(may))

    async def _there(self, answer: Awaitable[Any]) -> bool:
        try:
            told = await answer
        except (NotFound, PermissionDenied):
            return False
        return bool(told) or told == []

    async def _listings(self, asker: Asker, target: Kept) -> None:
        archive, scope, own = self._archive, scope_of(asker), self._own[asker]
        owner = self._rng.choice((target.session.owner, Owner.user(asker.caller.user or "?")))
        sessions = {page.key async for page in archive.sessions(scope, owner)}
        self._tally.judge(asker, f"sessions of {owner}", sessions, {k.session for k in own if k.session.owner == owner})
        nodes = {s.uri for s in await archive.list_children(scope, owner, recursive=True) if not s.is_dir}
        self._tally.judge(asker, f"nodes of {owner}", nodes, {k.node.uri for k in own if k.node.owner == owner})
        if self._rng.random() < 0.1:
            everything = {page.key async for page in archive.sessions(scope)}
            self._tally.judge(asker, "all sessions", everything, {k.session for k in own})
            owners = {o.principal async for o in archive.owners(scope)}
            here = {k.session.owner.principal for k in self._all if k.session.tenant_id == asker.tenant}
            self._tally.judge(asker, "who is there", owners, here & asker.principals)

    async def _blob(self, asker: Asker, target: Kept) -> None:
        """A blob is its tenant's: whoever knows its hash there knew its content."""
        got = await found(_decoded(self._archive, scope_of(asker), target.blob))
        may = {k.mark for k in self._all if k.session.tenant_id == asker.tenant and k.blob == target.blob}
        self._tally.judge(asker, f"blob {target.blob}", got, may)

    async def try_to_change(self, rounds: int) -> None:
        """What somebody does not see they can neither add to, nor rewrite, nor forget."""
        archive = self._archive
        for _ in range(rounds):
            asker, target = self._rng.choice(self._askers), self._rng.choice(self._all)
            if target.seen_by(asker):
                continue
            scope, key = scope_of(asker), target.session
            principals = tuple(sorted(asker.principals)) or ("pub",)
            tries: dict[str, Awaitable[Any]] = {
                "append": archive.append_turns(scope, key, [turn("new", "mine now")]),
                "rewrite": archive.write_session(scope, record(CLOCK, key, principals), 0),
                "forget": archive.forget_turns(scope, key, None, "no reason"),
                "mask": archive.mask_turns(scope, key, {"t1": [(0, 3)]}),
                "erase": archive.erase_session(scope, key, "no reason"),
                "rewrite node": archive.write_node(scope, node(target.node, "mine", principals=principals)),
                "level": archive.write_level(scope, target.node, "abstract", "mine now"),
                "edge": archive.upsert_edges(scope, target.node, []),
                "read log": archive.read_log(scope, "ledger"),
            }
            for what, attempt in tries.items():
                try:
                    await attempt
                except (NotFound, PermissionDenied):
                    self._tally.refused(asker, what, True)
                else:
                    self._tally.refused(asker, f"{what} {key}", False)
            self._tally.refused(asker, "delete node", not await archive.delete_node(scope, target.node))
            self._tally.refused(asker, "drop", not await archive.drop_session(scope, key))


async def _decoded(archive: FsArchive, scope: Scope, sha256: str) -> str:
    return (await archive.get_blob(scope, sha256)).decode()


async def test_no_question_reaches_beyond_its_scope_and_nobody_changes_what_they_do_not_see(tmp_path: Path) -> None:
    world, tally = World(SEED + 4), Tally(SEED)
    archive = FsArchive(tmp_path, CLOCK)
    all_ = await kept(archive, world, 240)
    examination = Examination(archive, world, all_, tally)
    await examination.try_to_change(40 * TIMES)
    tried, found_by_then = tally.checks, tally.found
    assert (tried >= 300, found_by_then) == (True, 0)
    await examination.ask(SHARES["archive"] * TIMES)
    for tenant in world.tenants:
        report = await archive.verify(Scope.steward_of(tenant))
        assert not report.defects
    await archive.close()
    tally.close("archive")
