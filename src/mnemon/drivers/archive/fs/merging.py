"""A session that went on in two places, made one where the words of one are the beginning of the other's."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mnemon.contracts.claims import Claim
from mnemon.contracts.commits import CommitRecord
from mnemon.contracts.errors import Corrupt
from mnemon.contracts.sessions import SessionRecord, SessionStatus
from mnemon.drivers.archive.fs.durable import make_dirs, replace_file
from mnemon.drivers.archive.fs.layout import CLAIMS, COMMIT, SESSION, TAGS, TURNS
from mnemon.drivers.archive.fs.papers import commit_folders
from mnemon.drivers.archive.fs.sealed import seal, seal_lines, unseal, unseal_lines
from mnemon.logic.merging import Side, merged, same_claims

_CHUNK = 1 << 20
# What of a page says nothing about the session itself.
_OF_THE_PAGE = {"version", "created_at", "updated_at"}


@dataclass(frozen=True, slots=True)
class Merged:
    """What came of it: the session's page, how many files were written, which claims were taken away elsewhere."""

    page: SessionRecord
    written: int = 0
    gone: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Telling:
    page: SessionRecord
    turns: Path | None
    tags: bytes | None
    claims: list[Claim]
    commits: dict[int, bytes]

    @property
    def side(self) -> Side:
        made = [CommitRecord.model_validate(unseal(data, COMMIT)) for data in self.commits.values()]
        return Side(self.claims, frozenset(id_ for commit in made for id_ in commit.claim_ids))


def merge(folder: Path, members: Mapping[Path, Path]) -> Merged | None:
    """`members` are the files of the other telling by where they belong. None where the two cannot become one: other
    words, other readers, or one of them unfinished. Call it locked."""
    try:
        here = _telling(folder, {path: path for path in _papers(folder)})
        there = _telling(folder, members)
        if not _may_meet(here.page, there.page):
            return None
        longer = _longer(here.turns, there.turns)
        if longer is None or any(there.commits.get(n, data) != data for n, data in here.commits.items()):
            return None
        return _made_one(folder, here, there, longer == "there")
    except (Corrupt, ValueError, KeyError):  # damaged: nothing is taken from it, and verify names what is ours
        return None


def _papers(folder: Path) -> list[Path]:
    commits = (place / COMMIT for place in commit_folders(folder).values())
    return [p for p in (folder / SESSION, folder / TURNS, folder / TAGS, folder / CLAIMS, *commits) if p.is_file()]


def _telling(folder: Path, files: Mapping[Path, Path]) -> _Telling:
    page = SessionRecord.model_validate(unseal(files[folder / SESSION].read_bytes(), SESSION))
    lines = unseal_lines(files[folder / CLAIMS].read_bytes(), CLAIMS) if folder / CLAIMS in files else []
    claims = [Claim.model_validate_json(line) for line in lines]
    held = set(page.claim_ids)
    return _Telling(
        page,
        files.get(folder / TURNS),
        files[folder / TAGS].read_bytes() if folder / TAGS in files else None,
        [c for c in claims if c.claim_id in held],
        {int(path.parent.name): at.read_bytes() for path, at in files.items() if path.name == COMMIT},
    )


def _may_meet(here: SessionRecord, there: SessionRecord) -> bool:
    done = here.status is SessionStatus.COMPLETED is there.status
    return done and here.key == there.key and set(here.principals) == set(there.principals)


def _longer(here: Path | None, there: Path | None) -> str | None:
    """Which of two logs goes on where the other ends; `here` where they are equal, None where they part."""
    if there is None or (here is not None and is_prefix(there, here)):
        return "here"
    return "there" if here is None or is_prefix(here, there) else None


def _made_one(folder: Path, here: _Telling, there: _Telling, words: bool) -> Merged:
    """`words` when those there are more."""
    claims, gone = merged(here.side, there.side)
    judged = len(there.commits) > len(here.commits)  # all of ours are among them
    base = (there if judged else here).page
    told = (there if words else here).page
    ids = tuple(c.claim_id for c in claims)
    page = base.model_copy(
        update={
            "turn_count": told.turn_count,
            "chain_head": told.chain_head,
            "claim_ids": ids,
            "counts": {**base.counts, "events": told.turn_count, "claims": len(ids)},
            "version": max(here.page.version, there.page.version) + 1,
            "created_at": min(here.page.created_at, there.page.created_at),
            "updated_at": max(here.page.updated_at, there.page.updated_at),
        }
    )
    known = same_claims(claims, here.claims) and _told(page) == _told(here.page)
    if known and not words and not judged:
        return Merged(here.page)
    if words and there.turns is not None:
        there.turns.replace(folder / TURNS)
    files: dict[Path, bytes] = {}
    if judged:
        files |= {folder / TAGS: there.tags} if there.tags is not None else {}
        files |= {folder / "archives" / str(n) / COMMIT: data for n, data in there.commits.items()}
    files[folder / CLAIMS] = seal_lines([c.model_dump_json(exclude_defaults=True).encode() for c in claims])
    files[folder / SESSION] = seal(page.model_dump(mode="json"))
    if not claims:
        del files[folder / CLAIMS]
        (folder / CLAIMS).unlink(missing_ok=True)
    for path, data in files.items():
        make_dirs(path.parent)
        replace_file(path, data)
    return Merged(page, len(files) + words, gone)


def _told(page: SessionRecord) -> dict[str, object]:
    told = page.model_dump(exclude=_OF_THE_PAGE)
    return {**told, "claim_ids": sorted(page.claim_ids), "counts": None}


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_prefix(short: Path, long: Path) -> bool:
    """Does one file begin with the whole of the other?"""
    if short.stat().st_size > long.stat().st_size:
        return False
    with short.open("rb") as a, long.open("rb") as b:
        while chunk := a.read(_CHUNK):
            if b.read(len(chunk)) != chunk:
                return False
    return True
