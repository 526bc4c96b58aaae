"""The proof of a tenant's archive: every byte is read, every hash, chain and pointer is checked, every defect named."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeGuard

from mnemon.contracts.claims import Claim
from mnemon.contracts.commits import CommitRecord
from mnemon.contracts.errors import Corrupt
from mnemon.contracts.nodes import LEVELS, Edge, Node, NodeKey, Shelf
from mnemon.contracts.reports import Defect, VerifyReport
from mnemon.contracts.scope import OwnerKind, SessionKey
from mnemon.contracts.sessions import SessionRecord, SessionStatus
from mnemon.contracts.turns import Turn
from mnemon.drivers.archive.fs import chainlog
from mnemon.drivers.archive.fs.aside import SET_ASIDE, has_aside
from mnemon.drivers.archive.fs.blobs import blobs_named
from mnemon.drivers.archive.fs.durable import TEMPORARY, locked
from mnemon.drivers.archive.fs.layout import (
    ARCHIVES,
    CLAIMS,
    COMMIT,
    ERASED,
    FULL_NAME,
    LEVEL_FILES,
    META,
    RELATIONS,
    SEEN,
    SESSION,
    TAGS,
    TURNS,
    UNNEEDED,
    Layout,
    name_of,
    subfolders,
)
from mnemon.drivers.archive.fs.logs import LOGS, log_genesis, segments
from mnemon.drivers.archive.fs.nodes import NodeState, node_of, node_page, read_state, versions_kept
from mnemon.drivers.archive.fs.papers import commit_folders, read_claims, read_commit, read_taggings
from mnemon.drivers.archive.fs.quotes import Broken, Quotes, Sources
from mnemon.drivers.archive.fs.relations import read_edges
from mnemon.drivers.archive.fs.restoring import is_here, missing_commits, related
from mnemon.drivers.archive.fs.sealed import read_sealed
from mnemon.drivers.archive.fs.tail import session_genesis
from mnemon.drivers.archive.fs.turns import unneeded_blobs

_KNOWN_FOLDERS = {kind.value for kind in OwnerKind} | {"blobs", "revisions", ERASED, *LOGS}


@dataclass(slots=True)
class _Walk:
    """What a walk along a session's log has found: the number of its last line, and of those its page promised the
    last one's chain and how many are no tombstones."""

    count: int = 0
    head: str = ""
    alive: int = 0


class Audit:
    def __init__(self, layout: Layout, tenant_id: str) -> None:
        self._layout = layout
        self._tenant_id = tenant_id
        self._root = layout.tenant(tenant_id)
        self.report = VerifyReport()
        self._blobs_named: set[str] = set()
        self._sources = Sources(layout)
        self._damaged: set[SessionKey] = set()
        self._at: SessionKey | None = None  # the session being proven

    def run(self) -> VerifyReport:
        for grave in (self._layout.owner_grave(self._tenant_id), self._layout.tenant_grave(self._tenant_id)):
            if grave.exists():
                self._note(grave, "unfinished", "an erasure was cut off; repair finishes it")
        if self._root.is_dir():
            self._id(self._root)
            self._known(self._root, folders=_KNOWN_FOLDERS)
            for kind in OwnerKind:
                self._ids(self._root / kind.value)
            self._owners()
            for log in LOGS:
                self._log(log)
            self._revisions()
            self._blobs()
        return self.report

    def _where(self, path: Path) -> str:
        return str(path.relative_to(self._layout.home))

    def _defect(self, path: Path, kind: str, detail: str) -> None:
        if self._at is not None and self._at not in self.report.damaged:
            self.report.damaged.append(self._at)
        self.report.defects.append(Defect(self._where(path), kind, detail))

    def _note(self, path: Path, kind: str, detail: str) -> None:
        self.report.notes.append(Defect(self._where(path), kind, detail))

    @contextmanager
    def _reading(self, path: Path) -> Iterator[None]:
        """Whatever lies there instead of what should, it is named and the proof goes on."""
        try:
            yield
        except Corrupt as error:
            self._defect(Path(error.details.get("where", path)), "seal", error.message)
        except OSError as error:
            if path.exists() or not isinstance(error, FileNotFoundError):  # else it was erased meanwhile
                self._defect(path, "unreadable", f"{error.strerror}: {error.filename}")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            self._defect(path, "foreign", f"whole, but not what belongs here ({type(error).__name__})")

    # --- folders

    def _known(
        self, folder: Path, files: frozenset[str] | set[str] = frozenset(), folders: set[str] | None = None
    ) -> None:
        """What else lies in a folder: a leftover, an id's full name, something foreign, something of the wrong kind."""
        for path in sorted(folder.iterdir()):
            if path.name.startswith(TEMPORARY):
                self._leftover(path)
            elif path.name == FULL_NAME:
                with self._reading(path):
                    self.report.bytes += path.stat().st_size
                    if name_of(folder) is None or path.read_bytes().decode() != name_of(folder):
                        self._defect(path, "name", "does not hold the id its folder stands for")
            elif path.name == SET_ASIDE and path.is_dir():
                for damaged in sorted(path.iterdir()):
                    self._note(damaged, "set_aside", "damaged bytes that were replaced; delete them when you like")
            elif path.name in files or path.name in (folders or ()):
                if path.is_dir() != (path.name not in files):
                    self._defect(path, "foreign", "a file in place of a folder, or a folder in place of a file")
            else:
                self._note(path, "unknown", "not part of the archive")

    def _leftover(self, path: Path) -> None:
        self._note(path, "leftover", "an unfinished write of a crashed process; repair removes it")

    def _ids(self, parent: Path) -> None:
        for folder in subfolders(parent):
            self._id(folder)

    def _id(self, folder: Path) -> None:
        """A folder that stands for no id was renamed, or has lost its name."""
        if name_of(folder) is not None:
            if "~~" in folder.name and not (folder / FULL_NAME).exists():
                self._defect(folder / FULL_NAME, "name", "is not here; repair writes it again from the pages")
            return
        if folder.name.startswith("."):
            self._note(folder, "unknown", "not part of the archive")
        elif all(path.name.startswith(TEMPORARY) for path in folder.iterdir()):
            self._note(folder, "unfinished", "a folder that a crashed process had just made")
        elif "~~" in folder.name:
            self._defect(folder / FULL_NAME, "name", "does not hold the id its folder stands for")
        else:
            self._defect(folder, "misplaced", "no id has this folder name")

    # --- owners

    def _owners(self) -> None:
        """All words first: a memory may cite a session of another owner."""
        owners = self._layout.owners(self._tenant_id)
        for owner in owners:
            folder = self._layout.owner(self._tenant_id, owner)
            with self._reading(folder):
                self._known(folder, folders={"sessions", "memories"})
                self._ids(folder / "sessions")
            for name, session in self._layout.session_folders(self._tenant_id, owner).items():
                self._at = SessionKey(self._tenant_id, owner, name)
                with self._reading(session), locked(session, shared=True):
                    self._session(session, self._at)
        self._at = None
        for owner in owners:
            memories = self._layout.owner(self._tenant_id, owner) / "memories"
            with self._reading(memories):
                if memories.is_dir():
                    self._known(memories, folders={shelf.value for shelf in Shelf})
                for shelf in Shelf:
                    self._ids(memories / shelf.value)
            for shelf in Shelf:
                for name, node in self._layout.node_folders(self._tenant_id, owner, shelf).items():
                    with self._reading(node), locked(node, shared=True):
                        self._node(node, NodeKey(self._tenant_id, owner, shelf, name))

    # --- sessions

    def _session(self, folder: Path, key: SessionKey) -> None:
        self.report.sessions += 1
        self._known(folder, {SESSION, TURNS, TAGS, CLAIMS, UNNEEDED, SEEN}, {ARCHIVES})
        with self._reading(folder / UNNEEDED):
            self._unneeded(folder)
        record: SessionRecord | None = None
        with self._reading(folder / SESSION):
            record = self._record(folder / SESSION, key)
        quotes = Quotes()
        self._papers(folder, key, record, quotes)
        with self._reading(folder / TURNS):
            self._words(folder, key, record, quotes)

    def _unneeded(self, folder: Path) -> None:
        if unneeded_blobs(folder):
            self.report.bytes += (folder / UNNEEDED).stat().st_size
            self._note(folder / UNNEEDED, "unfinished", "blobs of forgotten words are to go; repair lets go of them")

    def _words(self, folder: Path, key: SessionKey, record: SessionRecord | None, quotes: Quotes) -> None:
        before = len(self.report.defects)
        broken: list[Broken] = []
        found = self._turns(folder / TURNS, key, record, quotes, broken)
        if record is None:
            if found.count and not (folder / SESSION).exists():
                self._defect(folder / SESSION, "missing", "the session has turns but no page")
        elif record.turn_count > found.count:
            told = f"{record.turn_count} turns were acknowledged, {found.count} are here"
            self._defect(folder / TURNS, "lost_turns", told)
        elif record.turn_count and record.chain_head != found.head:
            told = f"turn {record.turn_count} is not the one the session's page names"
            self._defect(folder / TURNS, "chain", told)
        if len(self.report.defects) > before:
            self._damaged.add(key)  # turns that are not there are then told already
        else:
            broken += quotes.unmet()
        for path, kind, detail in broken:
            self._defect(path, kind, detail)
        if found.alive and _is_complete(record) and record.kept == "tagged" and not (folder / TAGS).exists():
            self._defect(folder / TAGS, "missing", "which turns were kept is not known without it")

    def _record(self, path: Path, key: SessionKey) -> SessionRecord | None:
        body = read_sealed(path)
        if body is None:
            return None
        self.report.bytes += path.stat().st_size
        record = SessionRecord.model_validate(body)
        if record.key != key:
            self._defect(path, "misplaced", f"is the page of {record.key.uri}, not of {key.uri}")
        return record

    def _turns(
        self, path: Path, key: SessionKey, record: SessionRecord | None, quotes: Quotes, broken: list[Broken]
    ) -> _Walk:
        found = _Walk()
        promised = record.turn_count if record else 0
        for line, holds in self._chain(path, session_genesis(key), 0):
            found.count = line.seq
            if line.seq == promised:
                found.head = line.chain
            if not holds:
                continue
            if line.body is None:
                self.report.tombstones += 1
                broken += quotes.meet(line, None)
                continue
            self.report.turns += 1
            found.alive += line.seq <= promised
            with self._reading(path):
                turn = Turn.model_validate_json(line.body)
                self._pointers(path, turn)
                broken += quotes.meet(line, turn)
        return found

    # --- what is derived from the words

    def _papers(self, folder: Path, key: SessionKey, record: SessionRecord | None, quotes: Quotes) -> None:
        with self._reading(folder / TAGS):
            self._tags(folder, quotes)
        with self._reading(folder / CLAIMS):
            self._claims(folder, key, record, quotes)
        with self._reading(folder / ARCHIVES):
            self._commits(folder, record, quotes)

    def _tags(self, folder: Path, quotes: Quotes) -> None:
        path = folder / TAGS
        for tagging in read_taggings(folder):
            quotes.add_head(path, tagging.last_seq, tagging.head)
            for tag in tagging.output.tags:
                quotes.add_span(path, f"tag {tag.tag_id}", tag.as_span())
                self.report.tags += 1
        self.report.bytes += path.stat().st_size if path.exists() else 0

    def _claims(self, folder: Path, key: SessionKey, record: SessionRecord | None, quotes: Quotes) -> None:
        path = folder / CLAIMS
        there: set[str] = set()
        for claim in read_claims(folder):
            there.add(claim.claim_id)
            if claim.session != key:
                self._defect(path, "misplaced", f"claim {claim.claim_id} is of {claim.session.uri}, not of {key.uri}")
                continue
            for span in claim.spans:
                quotes.add_span(path, f"claim {claim.claim_id}", span)
        self.report.claims += len(there)
        self.report.bytes += path.stat().st_size if path.exists() else 0
        if _is_complete(record):
            for claim_id in sorted(there.symmetric_difference(record.claim_ids)):
                told = "the session's page does not name it" if claim_id in there else "the session's page names it"
                self._defect(path, "claims", f"claim {claim_id} is {'' if claim_id in there else 'not '}here; {told}")

    def _commits(self, folder: Path, record: SessionRecord | None, quotes: Quotes) -> None:
        folders = commit_folders(folder)
        if (folder / ARCHIVES).exists():
            self._known(folder / ARCHIVES, folders={place.name for place in folders.values()})
        found: dict[int, CommitRecord] = {}
        unreadable: set[int] = set()
        for number, place in folders.items():
            self._known(place, {COMMIT})
            if (place / COMMIT).exists():
                unreadable.add(number)
            with self._reading(place / COMMIT):
                if (commit := self._commit(place / COMMIT, number, quotes)) is not None:
                    found[number] = commit
        unreadable -= {*found}
        log = list(chainlog.readable_lines(folder / TURNS)) if record and len(found) < record.commits else []
        for number in sorted({*missing_commits(record.commits if record else 0, found, log)} - unreadable):
            self._defect(folder / ARCHIVES / str(number) / COMMIT, "missing", f"commit {number} is not here")

    def _commit(self, path: Path, number: int, quotes: Quotes) -> CommitRecord | None:
        record = read_commit(path.parent)
        if record is None:
            return None
        self.report.commits += 1
        self.report.bytes += path.stat().st_size
        quotes.add_head(path, record.last_seq, record.head)
        if record.number != number:
            self._defect(path, "misplaced", f"is commit {record.number}, not {number}")
        return record

    def _chain(self, path: Path, head: str, seq: int) -> Iterator[tuple[chainlog.Line, bool]]:
        """Every line of a log and whether it holds; one that does not is named on the way."""
        for item in chainlog.read_lines(path):
            if isinstance(item, chainlog.Torn):
                if chainlog.lost_its_end(item, head, seq + 1):
                    self._defect(path, "line", f"line {seq + 1} at byte {item.offset}: its end was changed")
                else:
                    self._note(path, "torn", f"{item.length} bytes after line {seq} were never acknowledged")
                return
            offset, raw = item
            self.report.bytes += len(raw)
            line = chainlog.prove(raw, head, seq + 1)
            holds = isinstance(line, chainlog.Line)
            if isinstance(line, str):
                self._defect(path, "line", f"line {seq + 1} at byte {offset}: {line}")
                # Go on from what the line claims, so that one defect is one defect.
                line = chainlog.parse(raw) or chainlog.Line(seq + 1, None, head, None)
            seq, head = line.seq, line.chain
            yield line, holds

    def _pointers(self, path: Path, turn: Turn) -> None:
        known = {attachment.sha256 for attachment in turn.attachments}
        for sha256 in sorted(blobs_named([turn])):
            self._blobs_named.add(sha256)
            if sha256 not in known or not self._layout.blob(self._tenant_id, sha256).is_file():
                self._defect(path, "pointer", f"turn {turn.turn_id} points at blob {sha256}, which is not here")

    # --- nodes

    def _node(self, folder: Path, key: NodeKey) -> None:
        self._known(folder, {META, RELATIONS, *LEVEL_FILES.values()})
        with self._reading(folder / RELATIONS):
            self._edges(folder / RELATIONS, key)
        with self._reading(folder / META):
            state = read_state(folder)
            if state is not None:
                self._page(folder, key, state)
            elif versions_kept(self._layout.revisions(key))[1:] and not (folder / META).exists():
                self._defect(folder / META, "missing", "the node has earlier versions but no page; repair restores it")
            else:
                self._note(folder, "uncommitted", "a node that was never finished; repair finishes or removes it")

    def _edges(self, path: Path, key: NodeKey) -> None:
        for edge in read_edges(path, key):
            if not is_here(self._layout, self._tenant_id, edge.to_uri):
                self._note(path, "dangling", f"leads to {edge.to_uri}, which is not here; repair takes it away")
        if not path.exists() and self._related.get(key.uri):
            self._defect(path, "missing", "commits gave this memory relations; repair makes them again")

    @cached_property
    def _related(self) -> dict[str, list[Edge]]:
        return related(self._layout, self._tenant_id)

    def _page(self, folder: Path, key: NodeKey, state: NodeState) -> None:
        self.report.nodes += 1
        ours = (META, RELATIONS, *LEVEL_FILES.values())
        self.report.bytes += sum((folder / name).stat().st_size for name in ours if (folder / name).exists())
        node = node_of(state.meta, state.texts)
        if node.key != key:
            self._defect(folder / META, "misplaced", f"is the page of {node.key.uri}, not of {key.uri}")
            return
        copies = versions_kept(self._layout.revisions(key))
        if copies and copies[-1] > node.version:
            self._note(folder, "unfinished", "a write was cut off; repair finishes it")
            return
        for level in LEVELS:
            path = folder / LEVEL_FILES[level]
            if level in state.changed:
                self._defect(path, "edited", "changed outside Mnemon; repair records it as a version")
            elif not path.exists():
                self._defect(path, "missing", "is not here; repair puts it back")
        for version in sorted({node.version, *range(min(copies, default=node.version), node.version)} - {*copies}):
            path = self._layout.revisions(key) / f"{version}.json"
            if not has_aside(folder, path.name):
                self._defect(path, "missing", f"the copy of version {version} is not here")
        self._cited(folder / META, node)

    def _cited(self, path: Path, node: Node) -> None:
        """The claims a node was made of, each against its own session."""
        by_session: dict[SessionKey, list[Claim]] = {}
        for row in node.metadata.get("claims", ()):
            claim = Claim.model_validate(row)
            by_session.setdefault(claim.session, []).append(claim)
        for session, claims in by_session.items():
            if session.tenant_id != self._tenant_id:
                self._defect(path, "span", f"cites {session.uri}, which is another tenant's")
                continue
            for wrong in self._sources.check(session, claims, session in self._damaged):
                self._defect(path, "span", wrong)

    def _files_under(self, root: Path) -> Iterator[Path]:
        for path in sorted(root.rglob("*")) if root.is_dir() else []:
            if path.is_dir():
                continue
            if path.name.startswith(TEMPORARY):
                self._leftover(path)
            else:
                yield path

    def _revisions(self) -> None:
        for path in self._files_under(self._root / "revisions"):
            self.report.revisions += 1
            with self._reading(path):
                self._copy(path)

    def _copy(self, path: Path) -> None:
        self.report.bytes += path.stat().st_size
        body = read_sealed(path)
        if body is None:  # pruned since the folder was listed
            return
        node = node_of(body["page"], body["texts"])
        if node_page(node)["sha256"] != body["page"]["sha256"] or set(body["texts"]) != set(LEVELS):
            self._defect(path, "revision", "its words do not match its page")
        if path != self._layout.revisions(node.key) / f"{node.version}.json":
            self._defect(path, "misplaced", f"is version {node.version} of {node.key.uri}")
        elif not self._layout.node(node.key).is_dir() and path.exists():
            self._defect(path, "missing", f"{node.key.uri}, of which this is a version, is not here")
        elif node.version < versions_kept(path.parent)[-1]:  # the newest one is the node itself
            self._cited(path, node)

    # --- logs and blobs

    def _log(self, log: str) -> None:
        folder = self._layout.log(self._tenant_id, log)
        there = segments(folder)
        if folder.is_dir():
            self._known(folder, {path.name for path in there})
        head, seq = log_genesis(self._tenant_id, log), 0
        for number, path in enumerate(there, 1):
            if int(path.stem) != number:
                self._defect(path, "missing", f"segment {number} of the log is not here")
            with self._reading(path):
                for line, holds in self._chain(path, head, seq):
                    head, seq = line.chain, line.seq
                    self.report.log_lines += holds

    def _blobs(self) -> None:
        for path in self._files_under(self._root / "blobs"):
            if path.parent.name == SET_ASIDE:
                self._note(path, "set_aside", "damaged bytes that were replaced; delete them when you like")
                continue
            self.report.blobs += 1
            with self._reading(path):
                self._blob(path)

    def _blob(self, path: Path) -> None:
        self.report.bytes += path.stat().st_size
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != path.name or path.parent.name != path.name[:2]:
            self._defect(path, "blob", "its bytes do not match its name")
        elif digest not in self._blobs_named:
            self._note(path, "unreferenced", "no turn points at this blob")


def audit(layout: Layout, tenant_id: str) -> VerifyReport:
    return Audit(layout, tenant_id).run()


def _is_complete(record: SessionRecord | None) -> TypeGuard[SessionRecord]:
    return record is not None and record.status is SessionStatus.COMPLETED
