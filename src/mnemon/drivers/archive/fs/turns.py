"""Sessions on disk: the words, chained, and the session's own page."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any

from mnemon.contracts.errors import Conflict, Corrupt, NotFound, VersionConflict
from mnemon.contracts.ports import Clock
from mnemon.contracts.scope import Owner, Scope, SessionKey
from mnemon.contracts.sessions import AppendResult, Kept, SessionRecord, SessionStatus, StoredTurn, Tombstone
from mnemon.contracts.turns import Turn
from mnemon.drivers.archive.fs import chainlog
from mnemon.drivers.archive.fs.aside import drop_aside
from mnemon.drivers.archive.fs.blobs import BlobFiles, blobs_named
from mnemon.drivers.archive.fs.durable import (
    Step,
    locked,
    replace_file,
    sweep,
    sync_dir,
    temporary_name,
    write_file,
)
from mnemon.drivers.archive.fs.layout import FULL_NAME, SESSION, TURNS, UNNEEDED, Layout
from mnemon.drivers.archive.fs.sealed import read_sealed, seal
from mnemon.drivers.archive.fs.seen import GONE, Reach, Seen, forget_seen
from mnemon.drivers.archive.fs.tail import Tail, scan, session_genesis, stored, turn_body
from mnemon.drivers.together import Pace

_OPEN_SESSIONS = 512
_FEW = 8


def _owns(scope: Scope, key: SessionKey) -> bool:
    """May this scope write what lies in the session's folder?"""
    return scope.tenant_id == key.tenant_id and (scope.steward or key.owner.principal in scope.principals)


def _turned_at(folder: Path) -> int:
    """When a session's page was last written; 0 where there is none."""
    return chainlog.stamp(str(folder / SESSION)).changed_ns


def _not_within(key: SessionKey) -> NotFound:
    return NotFound(f"session {key.session_id} is not within this scope", session_id=key.session_id)


def _check_within(scope: Scope, record: SessionRecord) -> None:
    if not _owns(scope, record.key) or not scope.sees(record.principals):
        raise _not_within(record.key)


def _no_session(key: SessionKey) -> NotFound:
    return NotFound(f"no session {key.session_id} in this scope", session_id=key.session_id)


class TurnFiles:
    def __init__(
        self, layout: Layout, blobs: BlobFiles, clock: Clock, entropy: Callable[[int], bytes], step: Step
    ) -> None:
        self._layout = layout
        self._blobs = blobs
        self._clock = clock
        self._entropy = entropy
        self._step = step
        self._tails: OrderedDict[SessionKey, Tail] = OrderedDict()
        self._pages: dict[str, tuple[chainlog.Stamp, SessionRecord]] = {}
        self._guard = Lock()
        self._pace = Pace()

    # --- the session's page

    def read_session(self, scope: Scope, key: SessionKey) -> SessionRecord | None:
        record = self.load_record(self._layout.session(key)) if scope.tenant_id == key.tenant_id else None
        return record if record and scope.sees(record.principals) else None

    def load_record(self, folder: Path) -> SessionRecord | None:
        path = f"{folder}/{SESSION}"
        there = chainlog.stamp(path)
        if there == chainlog.NO_FILE:
            return None
        known = self._pages.get(path)
        if known is not None and known[0] == there:
            return known[1]
        body = read_sealed(Path(path))
        return self._know_page(path, there, SessionRecord.model_validate(body)) if body is not None else None

    def _know_page(self, path: str, stamp: chainlog.Stamp, record: SessionRecord) -> SessionRecord:
        """So that a page nobody has touched since is not read again."""
        with self._guard:
            if len(self._pages) >= _OPEN_SESSIONS:
                self._pages.pop(next(iter(self._pages)))
            self._pages[path] = (stamp, record)
        return record

    def is_at_hand(self, key: SessionKey) -> bool:
        """Can the page be told without reading it? Or is there none?"""
        path = f"{self._layout.session(key)}/{SESSION}"
        there = chainlog.stamp(path)
        known = self._pages.get(path)
        return there == chainlog.NO_FILE or (known is not None and known[0] == there)

    def write_session(self, scope: Scope, record: SessionRecord, expect: int) -> SessionRecord:
        _check_within(scope, record)
        try:
            folder = self._layout.make_session(record.key)
            with locked(folder):
                record = self._next(scope, self.load_record(folder), record, expect)
                self._put_page(record)
        except FileNotFoundError:
            if not self._layout.home.exists():
                raise
            raise _no_session(record.key) from None  # erased under our hands
        return record

    def _next(self, scope: Scope, there: SessionRecord | None, record: SessionRecord, expect: int) -> SessionRecord:
        """The page as it would stand after the one that is there. Call it locked."""
        if there and not scope.sees(there.principals):
            raise _not_within(record.key)
        version = there.version if there else 0
        if version != expect:
            raise VersionConflict(
                f"session {record.session_id} is at version {version}, not {expect}",
                session_id=record.session_id,
                version=version,
            )
        if there and set(there.principals) != set(record.principals):
            raise Conflict(
                f"session {record.session_id} was written for {sorted(there.principals)}; "
                f"its visibility cannot change to {sorted(record.principals)}",
                field="visibility",
            )
        now = self._clock.now()
        created = there.created_at if there else now
        return record.model_copy(update={"version": version + 1, "updated_at": now, "created_at": created})

    def _put_page(self, record: SessionRecord) -> None:
        path = self._layout.session(record.key) / SESSION
        replace_file(path, seal(record.model_dump(mode="json")), self._step, "session")
        self._know_page(str(path), chainlog.stamp(str(path)), record)

    @contextmanager
    def writing(self, scope: Scope, key: SessionKey) -> Iterator[Path]:
        """Hold a session's folder against others; NotFound for whoever may not write in it."""
        if not _owns(scope, key):
            raise _no_session(key)
        with self._held(key) as folder:
            self.visible_record(scope, key)
            yield folder

    @contextmanager
    def _held(self, key: SessionKey) -> Iterator[Path]:
        folder = self._layout.session(key)
        try:
            with locked(folder):
                yield folder
        except FileNotFoundError:  # erased since it was looked up
            raise _no_session(key) from None

    def is_silent(self, key: SessionKey) -> bool:
        """Was there something said, and is all of it forgotten?"""
        gone = (line.body is None for line in chainlog.readable_lines(self._layout.session(key) / TURNS))
        return next(gone, False) and all(gone)

    def empty_page(self, key: SessionKey) -> None:
        """The page of a session without words: it promises the chain, and nothing else. Call it locked."""
        folder = self._layout.session(key)
        there = self.load_record(folder)
        if there is None:
            return
        values: dict[str, Any] = {
            "status": SessionStatus.COMPLETED,
            "claim_ids": (),
            "counts": {},
            "error_reason": None,
            "owes": 0,
            "order": None,
            "answered": None,
        }
        last = deque(chainlog.readable_lines(folder / TURNS), maxlen=1)
        if last and last[0].seq > there.turn_count:
            values |= {"turn_count": last[0].seq, "chain_head": last[0].chain}
        emptied = there.model_copy(update=values)
        if emptied != there:
            now = {"version": there.version + 1, "updated_at": self._clock.now()}
            self._put_page(emptied.model_copy(update=now))

    def visible_record(self, scope: Scope, key: SessionKey) -> SessionRecord:
        record = self.read_session(scope, key)
        if record is None:
            raise _no_session(key)
        return record

    def sessions(self, scope: Scope, owner: Owner | None, newest: int | None = None) -> Iterator[SessionRecord]:
        for whose in [owner] if owner else self._layout.owners(scope.tenant_id):
            folders = list(self._layout.session_folders(scope.tenant_id, whose).items())
            if newest is not None:
                folders = sorted(folders, key=lambda named: _turned_at(named[1]), reverse=True)[:newest]
            for name, folder in folders:
                key = SessionKey(scope.tenant_id, whose, name)
                try:
                    record = self.load_record(folder)
                    damage = "its page is not here" if record is None and (folder / TURNS).exists() else ""
                    damage = damage or ("its page is another session's" if record and record.key != key else "")
                except (Corrupt, OSError, ValueError) as error:
                    record, damage = None, str(error)
                if damage:
                    record = self._stand_in(key, damage) if scope.steward else None
                if record and scope.sees(record.principals):
                    yield record

    @staticmethod
    def _readable(path: Path) -> int:
        try:
            return sum(1 for _ in chainlog.readable_lines(path))
        except (Corrupt, OSError):
            return 0

    def _stand_in(self, key: SessionKey, damage: str) -> SessionRecord:
        """For a damaged page: that there is such a session, and why nothing more is known of it before repair."""
        now = self._clock.now()
        return SessionRecord(
            tenant_id=key.tenant_id,
            owner_kind=key.owner.kind,
            owner_id=key.owner.id,
            session_id=key.session_id,
            principals=(key.owner.principal,),
            status=SessionStatus.FAILED,
            turn_count=self._readable(self._layout.session(key) / TURNS),
            error_reason=f"damaged: {damage}; run `mnemon repair`",
            created_at=now,
            updated_at=now,
        )

    # --- the words

    def is_quick(self, key: SessionKey, turns: Sequence[Turn]) -> bool:
        """A few turns behind a known tail, on a disk that syncs fast: a thread would cost more than the append."""
        return len(turns) <= _FEW and key in self._tails and self._pace.is_quick

    def append(
        self, scope: Scope, key: SessionKey, turns: Sequence[Turn], numbered: bool = False, wait: bool = True
    ) -> AppendResult:
        folder = self._layout.session(key)
        if scope.tenant_id != key.tenant_id:
            raise _no_session(key)
        try:
            with locked(folder, wait=wait):
                tail = self._tail(scope, key, folder, wait)
                return self._append(tail, key, tail.numbered(turns) if numbered else turns)
        except FileNotFoundError:
            raise _no_session(key) from None

    def keep(
        self,
        scope: Scope,
        record: SessionRecord,
        expect: int,
        turns: Sequence[Turn],
        numbered: bool = False,
        wait: bool = True,
    ) -> Kept:
        _check_within(scope, record)
        folder = self._layout.session(record.key)
        if expect == 0 and turns and not os.path.exists(folder):  # noqa: PTH110  this is hot
            kept = self._create(folder, record, turns)
            if kept is not None:
                return kept
            # Somebody made it a moment ago: then it is as for any session that is there.
        self._layout.make_session(record.key)
        with locked(folder, wait=wait):
            there = self.load_record(folder)
            page = self._next(scope, there, record, expect)
            if there is None:  # no word without a page that says whose it is
                self._put_page(_opened(page))
                page = page.model_copy(update={"version": page.version + 1})
            tail = self._tail(scope, record.key, folder, wait)
            if tail.count != record.turn_count:
                raise VersionConflict(f"session {record.session_id} holds words its page does not know of")
            appended = self._append(tail, record.key, tail.numbered(turns) if numbered else turns)
            page = page.with_words(appended.turn_count, appended.chain_head)
            self._put_page(page)
        return Kept(page, appended)

    def _create(self, folder: Path, record: SessionRecord, turns: Sequence[Turn]) -> Kept | None:
        """A session with its first words, as a folder that comes into being in one step; None if it is there by now."""
        key = record.key
        self._layout.make_owner(key.tenant_id, key.owner)
        self._layout.make_folder(folder.parent)
        now = self._clock.now()
        path = str(folder / TURNS)
        tail = Tail(
            key.session_id, path, chainlog.NO_FILE, 0, 0, session_genesis(key), frozenset(record.principals), Seen()
        )
        new, bodies, prints = tail.unseen(turns)
        data, chains = chainlog.chained(bodies, now, 0, tail.head, self._entropy(16 * len(bodies)))
        page = record.model_copy(update={"version": 1, "created_at": now, "updated_at": now})
        page = page.with_words(len(new), chains[-1])
        staged = temporary_name(folder)
        named = blobs_named(new)
        with self._blobs.held(key.tenant_id, named) if named else nullcontext():
            try:
                tail.stamp, written = self._stage(staged, folder, data, page)
                staged.rename(folder)
            except OSError as error:
                # No copy of it stays as long as this process lives.
                shutil.rmtree(staged, ignore_errors=True)
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                return None
            self._step("keep.before_dir_sync")
            sync_dir(folder.parent)
        tail.size, tail.count, tail.head = len(data), len(new), chains[-1]
        tail.seen.update(prints)
        self._remember(key, tail)
        self._know_page(f"{folder}/{SESSION}", written, page)
        words = stored(new, chains, now, 0, session_genesis(key))
        return Kept(page, AppendResult(words, len(turns) - len(new), len(new), chains[-1]))

    def _stage(
        self, staged: Path, folder: Path, words: bytes, page: SessionRecord
    ) -> tuple[chainlog.Stamp, chainlog.Stamp]:
        """A session's folder under a name nobody reads yet; how its words and its page were left."""
        staged.mkdir()
        said = chainlog.stamped(write_file(f"{staged}/{TURNS}", words))
        self._step("keep.words_written")
        written = chainlog.stamped(write_file(f"{staged}/{SESSION}", seal(page.model_dump(mode="json"))))
        if self._layout.is_hashed(folder):
            write_file(f"{staged}/{FULL_NAME}", page.session_id.encode())
        sync_dir(staged)
        self._step("keep.before_rename")
        return said, written

    def _append(self, tail: Tail, key: SessionKey, turns: Sequence[Turn]) -> AppendResult:
        new, bodies, prints = tail.unseen(turns)
        repeated = len(turns) - len(new)
        forgotten = sum(tail.seen.get(turn.turn_id) == GONE for turn in turns) if repeated else 0
        if not new:
            return AppendResult((), repeated, tail.count, tail.head, forgotten)
        at = self._clock.now()
        before, head = tail.count, tail.head
        data, chains = chainlog.chained(bodies, at, before, head, self._entropy(16 * len(bodies)))
        named = blobs_named(new)
        with self._blobs.held(key.tenant_id, named) if named else nullcontext():
            begun = time.perf_counter()
            tail.stamp = chainlog.append(tail.path, data, tail.size, self._step, "turns")
            self._pace.took(begun)
        tail.size, tail.count, tail.head = tail.stamp.size, before + len(new), chains[-1]
        tail.seen.update(prints)
        if tail.seen.is_due:
            last = len(data) - data.rfind(b"\n", 0, -1) - 1
            tail.seen.keep(Path(tail.path), Reach(tail.count, tail.head, tail.size - last, tail.size))
        return AppendResult(stored(new, chains, at, before, head), repeated, tail.count, tail.head, forgotten)

    def _tail(self, scope: Scope, key: SessionKey, folder: Path, wait: bool) -> Tail:
        with self._guard:
            tail = self._tails.get(key)
            if tail is not None:
                self._tails.move_to_end(key)
        there = chainlog.stamp(tail.path if tail else str(folder / TURNS))
        # Where there is no file, nothing tells an old session from a new one in its place.
        if tail is None or tail.stamp != there or there == chainlog.NO_FILE:
            if not wait:
                raise BlockingIOError  # somebody else has written, and reading that takes a while
            tail = scan(self.visible_record(scope, key), folder / TURNS)
            self._remember(key, tail)
        elif not scope.sees(tail.principals):
            raise _no_session(key)
        return tail

    def _remember(self, key: SessionKey, tail: Tail) -> None:
        with self._guard:
            self._tails[key] = tail
            while len(self._tails) > _OPEN_SESSIONS:
                self._tails.popitem(last=False)

    def read(self, scope: Scope, key: SessionKey, after: int, limit: int | None) -> list[StoredTurn]:
        self.visible_record(scope, key)
        path = self._layout.session(key) / TURNS
        out: list[StoredTurn] = []
        for item in chainlog.read_lines(path, chainlog.place_after(path, after)):
            if isinstance(item, chainlog.Torn):
                break
            line = chainlog.parse(item[1])
            if line is None:
                raise Corrupt(f"{path}: unreadable line at byte {item[0]}", where=str(path))
            if limit is not None and len(out) >= limit:
                break
            if line.body is not None and line.at is not None and line.seq > after:
                out.append(StoredTurn(Turn.model_validate_json(line.body), line.seq, line.at, line.chain))
        return out

    def tombstones(self, scope: Scope, key: SessionKey) -> list[Tombstone]:
        self.visible_record(scope, key)
        return [
            Tombstone(g["turn_id"], line.seq, datetime.fromisoformat(g["at"]), g["reason"], line.chain)
            for line in chainlog.lines(self._layout.session(key) / TURNS)
            if (g := line.gone)
        ]

    def forget(self, scope: Scope, key: SessionKey, turn_ids: Sequence[str] | None, reason: str) -> int:
        self.visible_record(scope, key)
        with self._held(key):
            turns, _ = self.bury(key, turn_ids, reason)
        return turns

    def bury(self, key: SessionKey, turn_ids: Sequence[str] | None, reason: str) -> tuple[int, int]:
        """Turn words into tombstones and let go of their blobs; how many of each. Call it locked."""
        wanted = None if turn_ids is None else set(turn_ids)

        def buried(line: bytes, turn: Turn) -> tuple[bytes, set[str]] | None:
            if wanted is not None and turn.turn_id not in wanted:
                return None
            return chainlog.render_gone(line, self._gone(turn, reason)), blobs_named([turn])

        return self._rewrite(key, buried)

    def mask(self, scope: Scope, key: SessionKey, masks: Mapping[str, Sequence[tuple[int, int]]]) -> int:
        def masked(line: bytes, turn: Turn) -> tuple[bytes, set[str]] | None:
            made, gone = self._blobs.masked(key.tenant_id, turn, masks.get(turn.turn_id, ()))
            return None if made == turn else (chainlog.render_masked(line, turn_body(made)), gone)

        with self.writing(scope, key):
            return self._rewrite(key, masked)[0]

    def _rewrite(
        self, key: SessionKey, change: Callable[[bytes, Turn], tuple[bytes, set[str]] | None]
    ) -> tuple[int, int]:
        """The log with some lines in another form, and without the blobs they named; how many of each."""
        path = self._layout.session(key) / TURNS
        named: set[str] = set()
        kept: list[bytes] = []
        changed = 0
        for item in chainlog.read_lines(path):
            if isinstance(item, chainlog.Torn):
                break
            line = chainlog.parse(item[1])
            made = change(item[1], Turn.model_validate_json(line.body)) if line and line.body is not None else None
            kept.append(made[0] if made else item[1])
            changed += made is not None
            named |= made[1] if made else set()
        if changed:
            self._no_longer_need(path.parent, named)
            forget_seen(path)
            replace_file(path, b"".join(kept), self._step, "forget")
        sweep(path.parent, held=True)  # what was cut off may have left copies
        sweep(path.parent.parent, deep=False)
        drop_aside(path.parent)
        self.drop_memory(key.tenant_id, key.owner, key.session_id)
        return changed, self.let_go(key)

    def _gone(self, turn: Turn, reason: str) -> dict[str, str]:
        return {"turn_id": turn.turn_id, "at": self._clock.now().isoformat(), "reason": reason}

    def _no_longer_need(self, folder: Path, named: set[str]) -> None:
        """Written before the words go: afterwards nothing would tell which blobs were theirs."""
        if named:
            waiting = unneeded_blobs(folder)
            replace_file(folder / UNNEEDED, seal({"blobs": sorted(waiting | named)}), self._step, "unneeded")

    def let_go(self, key: SessionKey) -> int:
        """Erase the blobs that only forgotten words pointed at; after a crash, done again. Call it locked."""
        folder = self._layout.session(key)
        if not (named := unneeded_blobs(folder)):
            return 0
        gone = self._blobs.release(key.tenant_id, named)
        self._step("unneeded.released")
        (folder / UNNEEDED).unlink()
        sync_dir(folder)
        return gone

    def drop_memory(self, tenant_id: str, owner: Owner | None = None, session_id: str | None = None) -> None:
        """Know nothing any more of a session, of an owner's sessions, of a tenant's."""
        with self._guard:
            for key in [k for k in self._tails if k.tenant_id == tenant_id]:
                if owner in (None, key.owner) and session_id in (None, key.session_id):
                    del self._tails[key]


def _opened(page: SessionRecord) -> SessionRecord:
    """The page of a session about to be written, as it is before its first word."""
    return page.model_copy(
        update={"status": SessionStatus.IN_PROGRESS, "turn_count": 0, "chain_head": "", "counts": {}}
    )


def unneeded_blobs(folder: Path) -> set[str]:
    """The blobs a session has no need of any more and that may still be there."""
    body = read_sealed(folder / UNNEEDED)
    return set(body["blobs"]) if body else set()
