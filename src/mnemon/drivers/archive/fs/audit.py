"""The proof of a tenant's archive: every byte is read, every hash, chain and pointer is checked, every defect named."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from mnemon.contracts.errors import Corrupt
from mnemon.contracts.nodes import LEVELS, Shelf
from mnemon.contracts.reports import Defect, VerifyReport
from mnemon.contracts.scope import Owner, OwnerKind, SessionKey
from mnemon.contracts.sessions import SessionRecord
from mnemon.contracts.turns import Turn
from mnemon.drivers.archive.fs import chainlog
from mnemon.drivers.archive.fs.durable import TEMPORARY, locked
from mnemon.drivers.archive.fs.layout import FULL_NAME, LEVEL_FILES, META, RELATIONS, SESSION, TURNS, Layout, name_of
from mnemon.drivers.archive.fs.logs import log_genesis, segments
from mnemon.drivers.archive.fs.nodes import node_of, node_page, read_state
from mnemon.drivers.archive.fs.sealed import read_sealed
from mnemon.drivers.archive.fs.turns import session_genesis
from mnemon.logic.paths import escape

_KNOWN_FOLDERS = {kind.value for kind in OwnerKind} | {"blobs", "revisions", "entries", "ledger"}


class Audit:
    def __init__(self, layout: Layout, tenant_id: str) -> None:
        self._layout = layout
        self._tenant_id = tenant_id
        self._root = layout.tenant(tenant_id)
        self.report = VerifyReport()
        self._blobs_named: set[str] = set()

    def run(self) -> VerifyReport:
        if self._root.exists():
            for owner in self._layout.owners(self._tenant_id):
                self._owner(owner)
            for log in ("entries", "ledger"):
                self._log(log)
            self._revisions()
            self._blobs()
            self._unknown(self._root, _KNOWN_FOLDERS)
        return self.report

    def _where(self, path: Path) -> str:
        return str(path.relative_to(self._layout.home))

    def _defect(self, path: Path, kind: str, detail: str) -> None:
        self.report.defects.append(Defect(self._where(path), kind, detail))

    def _note(self, path: Path, kind: str, detail: str) -> None:
        self.report.notes.append(Defect(self._where(path), kind, detail))

    def _unknown(self, folder: Path, known: set[str]) -> None:
        for path in sorted(folder.iterdir()):
            if path.name.startswith(TEMPORARY):
                self._note(path, "leftover", "an unfinished write of a crashed process; repair removes it")
            elif path.name == FULL_NAME:
                if escape(path.read_bytes().decode(errors="replace")) != folder.name:
                    self._defect(path, "name", "does not hold the id its folder stands for")
            elif path.name not in known:
                self._note(path, "unknown", "not part of the archive")

    # --- owners

    def _owner(self, owner: Owner) -> None:
        folder = self._layout.owner(self._tenant_id, owner)
        self._unknown(folder, {"sessions", "memories"})
        for session in self._layout.session_folders(self._tenant_id, owner):
            with locked(session, shared=True):
                self._session(session, SessionKey(self._tenant_id, owner, name_of(session)))
        for shelf in Shelf:
            for node in self._layout.node_folders(self._tenant_id, owner, shelf):
                with locked(node, shared=True):
                    self._node(node)

    def _session(self, folder: Path, key: SessionKey) -> None:
        self.report.sessions += 1
        self._unknown(folder, {SESSION, TURNS})
        record = self._record(folder, key)
        heads = self._turns(folder / TURNS, key, record.turn_count if record else 0)
        if record is None:
            if heads[0]:
                self._defect(folder / SESSION, "missing", "the session has turns but no page")
            return
        if record.turn_count > heads[0]:
            self._defect(
                folder / TURNS, "lost_turns", f"{record.turn_count} turns were acknowledged, {heads[0]} are here"
            )
        elif record.turn_count and record.chain_head != heads[1]:
            self._defect(folder / TURNS, "chain", f"turn {record.turn_count} is not the one the session's page names")

    def _record(self, folder: Path, key: SessionKey) -> SessionRecord | None:
        path = folder / SESSION
        try:
            body = read_sealed(path)
        except Corrupt as error:
            self._defect(path, "seal", error.message)
            return None
        if body is None:
            return None
        self.report.bytes += path.stat().st_size
        record = SessionRecord.model_validate(body)
        if record.key != key:
            self._defect(path, "misplaced", f"is the page of {record.key.uri}, not of {key.uri}")
        return record

    def _turns(self, path: Path, key: SessionKey, promised: int) -> tuple[int, str]:
        """How many lines hold, and the chain at the line the session's page promised."""
        head, seq, at_promise = session_genesis(key), 0, ""
        for item in chainlog.read_lines(path):
            if isinstance(item, chainlog.Torn):
                self._note(path, "torn", f"{item.length} bytes after turn {seq} were never acknowledged")
                break
            offset, raw = item
            self.report.bytes += len(raw)
            line = chainlog.prove(raw, head, seq + 1)
            if isinstance(line, str):
                self._defect(path, "turn", f"line {seq + 1} at byte {offset}: {line}")
                # Go on from what the line claims, so that one defect is one defect.
                claimed = chainlog.parse(raw)
                seq, head = seq + 1, claimed.chain if claimed else head
                continue
            seq, head = line.seq, line.chain
            at_promise = head if seq == promised else at_promise
            if line.body is None:
                self.report.tombstones += 1
                continue
            self.report.turns += 1
            self._pointers(path, Turn.model_validate_json(line.body))
        return seq, at_promise

    def _pointers(self, path: Path, turn: Turn) -> None:
        for attachment in turn.attachments:
            if attachment.ref.startswith("blob://"):
                sha256 = attachment.ref.removeprefix("blob://")
                self._blobs_named.add(sha256)
                if sha256 != attachment.sha256 or not self._layout.blob(self._tenant_id, sha256).exists():
                    self._defect(path, "pointer", f"turn {turn.turn_id} points at blob {sha256}, which is not here")

    # --- nodes

    def _node(self, folder: Path) -> None:
        self._unknown(folder, {META, RELATIONS, *LEVEL_FILES.values()})
        try:
            state = read_state(folder)
            read_sealed(folder / RELATIONS)
        except Corrupt as error:
            self._defect(folder, "seal", error.message)
            return
        if state is None:
            self._note(folder, "uncommitted", "a node that was never finished; repair finishes or removes it")
            return
        self.report.nodes += 1
        self.report.bytes += sum(p.stat().st_size for p in folder.iterdir())
        node = node_of(state.meta, state.texts)
        if self._layout.node(node.key) != folder:
            self._defect(folder, "misplaced", f"holds the node {node.key.uri}")
            return
        copies = self._layout.revisions(node.key)
        if (copies / f"{node.version + 1}.json").exists():
            self._note(folder, "unfinished", "a write was cut off; repair finishes it")
        elif state.changed:
            names = ", ".join(LEVEL_FILES[level] for level in state.changed)
            self._defect(folder, "edited", f"{names} changed outside Mnemon; repair records it as a version")
        if not (copies / f"{node.version}.json").exists():
            self._defect(folder, "revision", f"the copy of version {node.version} is missing")

    def _revisions(self) -> None:
        root = self._root / "revisions"
        for path in sorted(root.rglob("*")) if root.exists() else []:
            if path.is_dir():
                continue
            if path.name.startswith(TEMPORARY):
                self._note(path, "leftover", "an unfinished write of a crashed process; repair removes it")
                continue
            self.report.revisions += 1
            self.report.bytes += path.stat().st_size
            try:
                body = read_sealed(path)
            except Corrupt as error:
                self._defect(path, "seal", error.message)
                continue
            if body is None:
                continue
            node = node_of(body["page"], body["texts"])
            if node_page(node)["sha256"] != body["page"]["sha256"] or set(body["texts"]) != set(LEVELS):
                self._defect(path, "revision", "its words do not match its page")
            if path != self._layout.revisions(node.key) / f"{node.version}.json":
                self._defect(path, "misplaced", f"is version {node.version} of {node.key.uri}")

    # --- logs and blobs

    def _log(self, log: str) -> None:
        head, seq = log_genesis(self._tenant_id, log), 0
        there = segments(self._layout.log(self._tenant_id, log))
        for number, path in enumerate(there, 1):
            if int(path.stem) != number:
                self._defect(path, "missing", f"segment {number} of the log is not here")
            for item in chainlog.read_lines(path):
                if isinstance(item, chainlog.Torn):
                    self._note(path, "torn", f"{item.length} bytes after line {seq} were never acknowledged")
                    break
                self.report.bytes += len(item[1])
                line = chainlog.prove(item[1], head, seq + 1)
                if isinstance(line, str):
                    self._defect(path, "line", f"line {seq + 1} at byte {item[0]}: {line}")
                    claimed = chainlog.parse(item[1])
                    seq, head = seq + 1, claimed.chain if claimed else head
                    continue
                seq, head = line.seq, line.chain
                self.report.log_lines += 1

    def _blobs(self) -> None:
        root = self._root / "blobs"
        for path in sorted(root.rglob("*")) if root.exists() else []:
            if path.is_dir():
                continue
            if path.name.startswith(TEMPORARY):
                self._note(path, "leftover", "an unfinished write of a crashed process; repair removes it")
                continue
            self.report.blobs += 1
            self.report.bytes += path.stat().st_size
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if digest != path.name or path.parent.name != path.name[:2]:
                self._defect(path, "blob", "its bytes do not match its name")
            elif digest not in self._blobs_named:
                self._note(path, "unreferenced", "no turn points at this blob")


def audit(layout: Layout, tenant_id: str) -> VerifyReport:
    return Audit(layout, tenant_id).run()


def leftovers(root: Path) -> list[Path]:
    """Files an interrupted write left under a name nobody reads."""
    found: list[Path] = []
    for folder, _, names in os.walk(root):
        found += [Path(folder) / n for n in names if n.startswith(TEMPORARY)]
    return found
