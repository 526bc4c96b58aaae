"""A damaged session put together again: its words, its claims, its commits and its page, each from what the others and
a witness know of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from mnemon.contracts.claims import Claim
from mnemon.contracts.commits import CommitRecord, NodeChange, PlanAction
from mnemon.contracts.errors import Corrupt
from mnemon.contracts.nodes import Edge, NodeKey, Shelf
from mnemon.contracts.ports import Clock
from mnemon.contracts.reports import How
from mnemon.contracts.scope import SessionKey, in_address
from mnemon.contracts.sessions import SessionRecord, SessionStatus, StoredTurn, Witness
from mnemon.contracts.tags import Tagging
from mnemon.drivers.archive.fs import chainlog
from mnemon.drivers.archive.fs.aside import has_aside, keep_copy, set_aside
from mnemon.drivers.archive.fs.durable import make_dirs, replace_file
from mnemon.drivers.archive.fs.layout import ARCHIVES, CLAIMS, COMMIT, META, RELATIONS, SESSION, TAGS, TURNS, Layout
from mnemon.drivers.archive.fs.papers import commit_folders, read_claims, read_commit, read_taggings
from mnemon.drivers.archive.fs.relations import read_edges, relations_page
from mnemon.drivers.archive.fs.salvage import Memory, salvage
from mnemon.drivers.archive.fs.sealed import read_sealed, seal, seal_lines
from mnemon.drivers.archive.fs.seen import forget_seen
from mnemon.drivers.archive.fs.tail import session_genesis, turn_body

_BROKEN = (Corrupt, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
_AGAIN = "made again after damage"


class Tell(Protocol):
    def __call__(self, path: Path, what: str, how: How = "mended") -> None: ...


@dataclass(slots=True)
class _Papers:
    """What can be read in a session's folder; None where a file lies there and cannot."""

    page: SessionRecord | None
    tags: list[Tagging] | None
    claims: list[Claim] | None
    commits: dict[int, CommitRecord]
    broken: list[int]

    @property
    def heads(self) -> dict[int, str]:
        """The links of the chain that papers vouch for."""
        named = [(p.last_seq, p.head) for p in (*(self.tags or ()), *self.commits.values())]
        if self.page:
            named.append((self.page.turn_count, self.page.chain_head))
        return {seq: head for seq, head in named if seq and head}


class Restorer:
    def __init__(
        self, layout: Layout, clock: Clock, entropy: Callable[[int], bytes], tenant_id: str, tell: Tell
    ) -> None:
        self._layout = layout
        self._clock = clock
        self._entropy = entropy
        self._tenant_id = tenant_id
        self._tell = tell

    def session(self, folder: Path, key: SessionKey, witness: Witness | None) -> None:
        """Call it with the folder locked."""
        papers = self._read(folder, key)
        if papers.page is None and not _anything(folder):
            return
        log = self._log(folder, key, papers, witness)
        if log and all(line.body is None for line in log):
            return  # all of it is forgotten, and what was made of it goes too
        self._tags(folder, papers)
        self._claims(folder, key, papers, witness)
        self._commits(folder, papers, log)
        self._page(folder, key, papers, log, witness)

    # --- what there is

    def _read(self, folder: Path, key: SessionKey) -> _Papers:
        page = tags = claims = None
        with suppress(*_BROKEN):
            body = read_sealed(folder / SESSION)
            page = SessionRecord.model_validate(body) if body else None
            page = page if page and page.key == key else None
        with suppress(*_BROKEN):
            tags = read_taggings(folder)
        with suppress(*_BROKEN):
            claims = read_claims(folder)
        if (folder / ARCHIVES).exists() and not (folder / ARCHIVES).is_dir():
            set_aside(folder / ARCHIVES)
            self._tell(folder / ARCHIVES, "set aside: a file in place of a folder", "set aside")
        commits: dict[int, CommitRecord] = {}
        broken: list[int] = []
        for number, place in commit_folders(folder).items():
            try:
                record = read_commit(place)
                if record is not None and record.number == number:
                    commits[number] = record
                elif (place / COMMIT).exists():
                    broken.append(number)
            except _BROKEN:
                broken.append(number)
        return _Papers(page, tags, claims, commits, broken)

    # --- words

    def _log(self, folder: Path, key: SessionKey, papers: _Papers, witness: Witness | None) -> list[chainlog.Line]:
        """The lines as they are in the end."""
        path = folder / TURNS
        if path.is_dir():
            set_aside(path)
        raws = [item.raw if isinstance(item, chainlog.Torn) else item[1] for item in chainlog.read_lines(path)]
        heads = papers.heads
        if witness and witness.head[0]:
            heads.setdefault(*witness.head)
        promised = max([papers.page.turn_count if papers.page else 0, *heads])
        memory = {t.seq: _memory(t) for t in witness.turns} if witness else {}
        lines = _proven(raws, session_genesis(key))
        whole = len(lines) >= promised and all(lines[s - 1].chain == h for s, h in heads.items() if s <= len(lines))
        rest = raws[len(lines) :]
        if whole and all(not raw.endswith(b"\n") for raw in rest):
            return lines  # what is torn off behind them was never acknowledged
        if not rest and len(lines) >= promised:
            # The words hold by themselves, and papers name another chain: ours, if it was made anew here before.
            if has_aside(folder, TURNS):
                self._rehead(folder, papers, lines)
            return lines
        stated = [line.seq for raw in raws if (line := chainlog.parse(raw)) and line.seq <= len(raws)]
        last = max([promised, len(lines), *stated, *memory, 0 if papers.page else len(set(raws))])
        made = salvage(raws, session_genesis(key), last, heads, memory, self._clock.now(), self._entropy)
        if path.exists():
            keep_copy(path)
        forget_seen(path)
        replace_file(path, b"".join(made.lines))
        lines = _proven(made.lines, session_genesis(key))
        self._tell(path, made.told() or "lines put in order", made.how)
        if not made.same_chain:
            self._rehead(folder, papers, lines)
        return lines

    def _rehead(self, folder: Path, papers: _Papers, lines: Sequence[chainlog.Line]) -> None:
        """Papers about these very turns name the links as they are now."""

        def at(seq: int) -> dict[str, Any]:
            return {"head": lines[seq - 1].chain} if 0 < seq <= len(lines) else {}

        if papers.tags:
            papers.tags = [t.model_copy(update=at(t.last_seq)) for t in papers.tags]
            replace_file(folder / TAGS, seal({"taggings": [t.model_dump(mode="json") for t in papers.tags]}))
        for number, commit in papers.commits.items():
            papers.commits[number] = commit.model_copy(update=at(commit.last_seq))
            self._write_commit(folder, papers.commits[number])
        if papers.page:
            update = {"turn_count": len(lines), "chain_head": lines[-1].chain if lines else ""}
            papers.page = self._turned(folder, papers.page, update)

    # --- papers

    def _tags(self, folder: Path, papers: _Papers) -> None:
        if papers.tags is None:
            set_aside(folder / TAGS)
            self._tell(folder / TAGS, "set aside: what was judged worth keeping is not known any more", "set aside")
        if papers.page and papers.page.kept == "tagged" and not (folder / TAGS).exists():
            papers.tags = None
            papers.page = self._turned(folder, papers.page, {"kept": "all"})
            self._tell(folder, "every turn of it counts as kept: what was judged is not known any more", "salvaged")

    def _claims(self, folder: Path, key: SessionKey, papers: _Papers, witness: Witness | None) -> None:
        """From their nodes first: they have what holds; then from what a replica holds and what can be read here."""
        path = folder / CLAIMS
        wanted = papers.page.claim_ids if papers.page else witness.claim_ids if witness else ()
        there = {c.claim_id: c for c in papers.claims if c.session == key} if papers.claims is not None else None
        if there is not None and (set(wanted) <= set(there)) and len(there) == len(papers.claims or ()):
            return
        known = {c.claim_id: c for c in _readable_claims(path, key)} if there is None else {}
        known |= {c.claim_id: c for c in witness.claims} if witness else {}
        known |= there or {}
        known |= {i: c for i, c in self._filed.items() if c.session == key and (i in wanted or i in known)}
        # Without a page nobody says which there were: all that anybody knows.
        known |= {} if wanted else {i: c for i, c in self._filed.items() if c.session == key}
        order = [i for i in dict.fromkeys((*wanted, *known)) if i in known]
        if path.exists() and papers.claims is None:
            keep_copy(path) if path.is_file() else set_aside(path)
        if order:
            rows = [known[i].model_dump_json(exclude_defaults=True).encode() for i in order]
            replace_file(path, seal_lines(rows))
        elif path.exists():
            set_aside(path)
        lost = [i for i in wanted if i not in known]
        papers.claims = [known[i] for i in order]
        told = f"{len(order)} claims put together again" + (f", {len(lost)} are lost" if lost else "")
        self._tell(path, told, "set aside" if lost else "salvaged")
        if papers.page and lost:
            papers.page = self._turned(folder, papers.page, {"claim_ids": tuple(order)})

    @cached_property
    def _filed(self) -> dict[str, Claim]:
        """Every claim that a node of the tenant holds, as it holds it."""
        found: dict[str, Claim] = {}
        root = self._layout.tenant(self._tenant_id)
        for path in (*root.glob("revisions/*/*/*/*/*.json"), *root.glob(f"*/*/memories/*/*/{META}")):
            try:
                body = read_sealed(path) or {}
                for row in body.get("page", body).get("metadata", {}).get("claims", ()):
                    claim = Claim.model_validate(row)
                    found[claim.claim_id] = claim
            except _BROKEN:
                continue
        return found

    def _commits(self, folder: Path, papers: _Papers, log: Sequence[chainlog.Line]) -> None:
        """What a commit decided is lost with its record; what it was about can be told again."""
        for number in papers.broken:
            set_aside(folder / ARCHIVES / str(number) / COMMIT, folder)
        counted = papers.page.commits if papers.page else max([0, *papers.commits, *papers.broken])
        for number in missing_commits(counted, papers.commits, log, papers.broken):
            commit = self._again(number, papers, log)
            papers.commits[number] = commit
            make_dirs(folder / ARCHIVES / str(number))
            self._write_commit(folder, commit)
            self._tell(folder / ARCHIVES / str(number) / COMMIT, f"{_AGAIN}; its summary is lost", "salvaged")

    def _again(self, number: int, papers: _Papers, log: Sequence[chainlog.Line]) -> CommitRecord:
        before = [c for n, c in papers.commits.items() if n < number]
        behind = [c for n, c in papers.commits.items() if n > number]
        done = max((c.last_seq for c in before), default=0)
        begin = done + 1 if done < len(log) else 1
        judged = next((t for t in papers.tags or () if t.first_seq == begin), None)
        end = min([judged.last_seq if judged else len(log), *(c.first_seq - 1 for c in behind if c.first_seq > begin)])
        end = min(end, len(log))
        named = {i for c in papers.commits.values() for i in c.claim_ids}
        within = {_turn_id(line): line.seq for line in log[begin - 1 : end]}
        claims = [
            c for c in papers.claims or () if c.claim_id not in named and all(i in within for i in c.source_turn_ids)
        ]
        uris = dict.fromkeys(c.node_uri for c in claims if c.node_uri)
        return CommitRecord(
            number=number,
            first_seq=begin,
            last_seq=end,
            head=log[end - 1].chain,
            at=log[end - 1].at or self._clock.now(),
            claim_ids=tuple(c.claim_id for c in claims),
            changes=tuple(
                NodeChange(
                    uri=uri,
                    action=PlanAction.SKIP,
                    reason=_AGAIN,
                    claim_ids=tuple(c.claim_id for c in claims if c.node_uri == uri),
                )
                for uri in uris
            ),
        )

    def _write_commit(self, folder: Path, commit: CommitRecord) -> None:
        replace_file(folder / ARCHIVES / str(commit.number) / COMMIT, seal(commit.model_dump(mode="json")))

    # --- the page

    def _page(
        self, folder: Path, key: SessionKey, papers: _Papers, log: Sequence[chainlog.Line], witness: Witness | None
    ) -> None:
        path = folder / SESSION
        if papers.page is not None:
            self._name_claims(folder, papers)
            return
        if path.exists() or path.is_symlink():
            set_aside(path)
        principals, sure = _principals(key, papers, witness)
        now = self._clock.now()
        counted = max(papers.commits, default=0)
        if witness and witness.version:
            done, kept, counted = witness.completed, witness.kept, min(counted, max(witness.commits, 0)) or counted
        else:
            covered = max((c.last_seq for c in papers.commits.values()), default=0)
            done, kept = not papers.commits or covered >= len(log), "tagged" if papers.tags else "all"
        if kept == "tagged" and not papers.tags:
            kept = "all"
        claim_ids = tuple(c.claim_id for c in papers.claims or ())
        page = SessionRecord(
            tenant_id=key.tenant_id,
            owner_kind=key.owner.kind,
            owner_id=key.owner.id,
            session_id=key.session_id,
            principals=principals,
            status=SessionStatus.COMPLETED if done else SessionStatus.FAILED,
            version=(witness.version if witness else 0) + 1,
            turn_count=len(log),
            chain_head=log[-1].chain if log else "",
            kept=kept,
            graph=witness.graph if witness else True,
            commits=counted,
            claim_ids=claim_ids,
            counts={"events": len(log), "claims": len(claim_ids)},
            error_reason=None if done else "its page was lost before it was complete; write it again",
            created_at=next((line.at for line in log if line.at), None) or now,
            updated_at=now,
        )
        replace_file(path, seal(page.model_dump(mode="json")))
        unsure = "" if sure else "; who may see it is not known any more: its owner alone"
        self._tell(path, f"its page is made again from its {len(log)} turns{unsure}", "mended" if sure else "salvaged")

    def _name_claims(self, folder: Path, papers: _Papers) -> None:
        """A completed page names the claims that are there."""
        page, there = papers.page, [c.claim_id for c in papers.claims or ()]
        if page is None or page.status is not SessionStatus.COMPLETED or set(there) == set(page.claim_ids):
            return
        named = tuple(i for i in dict.fromkeys((*page.claim_ids, *there)) if i in there)
        papers.page = self._turned(folder, page, {"claim_ids": named})
        self._tell(folder / SESSION, f"names the {len(named)} claims that are there")

    def _turned(self, folder: Path, page: SessionRecord, update: Mapping[str, Any]) -> SessionRecord:
        turned = page.model_copy(update={**update, "version": page.version + 1, "updated_at": self._clock.now()})
        replace_file(folder / SESSION, seal(turned.model_dump(mode="json")))
        return turned

    # --- relations

    def edges(self, folder: Path, key: NodeKey) -> None:
        """A node's relations, from the commits that made them; one that leads nowhere is taken away."""
        path = folder / RELATIONS
        try:
            there: list[Edge] | None = read_edges(path, key) if path.exists() else None
            damaged = False
        except _BROKEN:
            there, damaged = None, True
        if damaged:
            set_aside(path)
        if there is None:
            made = self._related.get(key.uri, [])
            if not made and not damaged:
                return
            there = [e for e in made if is_here(self._layout, self._tenant_id, e.to_uri)]
            if there:
                replace_file(path, relations_page(there, self._clock.now()))
            what = f"{len(there)} relations made again from the commits that made them"
            self._tell(path, what, "salvaged")
            return
        kept = [e for e in there if is_here(self._layout, self._tenant_id, e.to_uri)]
        if len(kept) < len(there):
            replace_file(path, relations_page(kept, self._clock.now()))
            self._tell(path, f"took away {len(there) - len(kept)} relations to memories that are gone")

    @cached_property
    def _related(self) -> dict[str, list[Edge]]:
        return related(self._layout, self._tenant_id)


def related(layout: Layout, tenant_id: str) -> dict[str, list[Edge]]:
    """The relations that commits made, by node; not those of a node that was made anew since, of other claims."""
    found: dict[str, dict[tuple[str, str], Edge]] = {}
    for owner in layout.owners(tenant_id):
        for folder in layout.session_folders(tenant_id, owner).values():
            for place in commit_folders(folder).values():
                try:
                    commit = read_commit(place)
                except _BROKEN:
                    continue
                for change in commit.changes if commit else ():
                    if change.relations and not change.forgotten and _rests_on(layout, tenant_id, change):
                        edges = [Edge(change.uri, **row) for row in change.relations]
                        found.setdefault(change.uri, {}).update({(e.to_uri, e.relation_type): e for e in edges})
    return {uri: list(edges.values()) for uri, edges in found.items()}


def is_here(layout: Layout, tenant_id: str, uri: str) -> bool:
    """Is there such a memory? What is no memory of this tenant is nobody's to judge."""
    ours = f"ctx://{in_address(tenant_id)}/"
    address = uri.removeprefix(ours).split("/")
    is_memory = uri.startswith(ours) and len(address) == 5 and address[2] == "memories"
    return not is_memory or _folder_of(layout, tenant_id, uri) is not None


def _folder_of(layout: Layout, tenant_id: str, uri: str) -> Path | None:
    for owner in layout.owners(tenant_id):
        if uri.startswith(owner.uri(tenant_id) + "/memories/"):
            for shelf in Shelf:
                for slug, folder in layout.node_folders(tenant_id, owner, shelf).items():
                    if NodeKey(tenant_id, owner, shelf, slug).uri == uri:
                        return folder
    return None


def _rests_on(layout: Layout, tenant_id: str, change: NodeChange) -> bool:
    """Does the node still hold claims this change put there?"""
    folder = _folder_of(layout, tenant_id, change.uri)
    try:
        page = read_sealed(folder / META) if folder else None
        return bool({row["claim_id"] for row in (page or {})["metadata"]["claims"]} & {*change.claim_ids})
    except _BROKEN:
        return False


def missing_commits(
    counted: int, found: Mapping[int, CommitRecord], log: Sequence[chainlog.Line], broken: Sequence[int] = ()
) -> list[int]:
    """The numbers of commits that should be here. One whose turns were all erased went with them: a commit begins where
    the one before it ended, and that turn is alive if it is not erased."""
    missing = []
    for number in range(1, counted + 1):
        if number in found:
            continue
        done = max((c.last_seq for n, c in found.items() if n < number), default=0)
        begin = done + 1 if done < len(log) else 1
        if begin <= len(log) and (log[begin - 1].body is not None or number in broken):
            missing.append(number)
    return missing


def _anything(folder: Path) -> bool:
    names = (SESSION, TURNS, TAGS, CLAIMS, ARCHIVES)
    return any((folder / name).exists() or (folder / name).is_symlink() for name in names)


def _proven(raws: Sequence[bytes], head: str) -> list[chainlog.Line]:
    """The lines up to the first that does not hold."""
    lines: list[chainlog.Line] = []
    for raw in raws:
        line = chainlog.prove(raw, head, len(lines) + 1)
        if isinstance(line, str):
            break
        lines.append(line)
        head = line.chain
    return lines


def _memory(stored: StoredTurn) -> Memory:
    return Memory(stored.archived_at, json.loads(turn_body(stored.turn)))


def _turn_id(line: chainlog.Line) -> str:
    body = json.loads(line.body) if line.body else line.gone or {}
    return str(body.get("turn_id", ""))


def _readable_claims(path: Path, key: SessionKey) -> list[Claim]:
    """Lines of a damaged file that are claims of this session, each whole in itself."""
    found: list[Claim] = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return found
    for line in lines:
        try:
            claim = Claim.model_validate_json(line)
        except ValueError:
            continue
        found += [claim] if claim.session == key else []
    return found


def _principals(key: SessionKey, papers: _Papers, witness: Witness | None) -> tuple[tuple[str, ...], bool]:
    """Who may see it, and whether anything tells."""
    if witness and witness.principals:
        return witness.principals, True
    told = {tuple(sorted(c.principals)) for c in papers.claims or ()}
    return (told.pop(), True) if len(told) == 1 else ((key.owner.principal,), False)
