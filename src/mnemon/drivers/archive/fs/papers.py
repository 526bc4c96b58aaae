"""A session's papers on disk: what is derived from its words, and lies beside them.

`tags.json` and `archives/{n}/commit.json` are sealed documents. `claims.jsonl` is one claim a line, readable with any
tool, and a last line that seals the others.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mnemon.contracts.claims import Claim
from mnemon.contracts.commits import CommitRecord
from mnemon.contracts.errors import Corrupt, InvalidArgument
from mnemon.contracts.scope import Scope, SessionKey
from mnemon.contracts.tags import Tagging
from mnemon.drivers.archive.fs import chainlog
from mnemon.drivers.archive.fs.durable import Step, make_dirs, replace_file, sweep, sync_dir
from mnemon.drivers.archive.fs.layout import ARCHIVES, CLAIMS, COMMIT, TAGS, Layout, subfolders
from mnemon.drivers.archive.fs.sealed import Encoded, read_sealed, seal, seal_lines, unseal_lines
from mnemon.drivers.archive.fs.turns import TurnFiles
from mnemon.logic.memo import also_forget

_SESSIONS_KEPT = 64
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class _Tags:
    """A file as it was left, what it says, and how that is written, where we wrote it."""

    stamp: chainlog.Stamp
    taggings: list[Tagging]
    encoded: list[Encoded] = field(default_factory=list)


_tags_known: dict[Path, _Tags] = {}
also_forget(_tags_known.clear)


def _remember(path: Path, tags: _Tags) -> _Tags:
    if len(_tags_known) >= _SESSIONS_KEPT:
        _tags_known.clear()
    _tags_known[path] = tags
    return tags


def read_taggings(folder: Path) -> list[Tagging]:
    body = read_sealed(folder / TAGS)
    return [Tagging.model_validate(row) for row in body["taggings"]] if body is not None else []


def read_claims(folder: Path) -> list[Claim]:
    return [Claim.model_validate_json(line) for line in _claim_lines(folder)]


def _claim_lines(folder: Path) -> list[bytes]:
    data = _bytes(folder / CLAIMS)
    return unseal_lines(data, str(folder / CLAIMS)) if data is not None else []


def commit_folders(folder: Path) -> dict[int, Path]:
    """The folders of a session's commits by number, oldest first."""
    found = {int(path.name): path for path in subfolders(folder / ARCHIVES) if _NUMBER.fullmatch(path.name)}
    return dict(sorted(found.items()))


def read_commit(folder: Path) -> CommitRecord | None:
    body = read_sealed(folder / COMMIT)
    return CommitRecord.model_validate(body) if body is not None else None


class PaperFiles:
    def __init__(self, layout: Layout, turns: TurnFiles, step: Step) -> None:
        self._layout = layout
        self._turns = turns
        self._step = step

    def _visible(self, scope: Scope, key: SessionKey) -> Path:
        self._turns.visible_record(scope, key)
        return self._layout.session(key)

    def tags(self, scope: Scope, key: SessionKey) -> list[Tagging]:
        """Of a long session they are many, and asked for at every append: read again where the file has changed."""
        path = self._visible(scope, key) / TAGS
        stamp = chainlog.stamp(str(path))
        if (known := _tags_known.get(path)) is None or known.stamp != stamp:
            known = _remember(path, _Tags(stamp, read_taggings(path.parent)))
        return list(known.taggings)

    def write_tags(self, scope: Scope, key: SessionKey, taggings: Sequence[Tagging]) -> None:
        path = self._layout.session(key) / TAGS
        known = _tags_known.get(path)
        before = {id(t): e for t, e in zip(known.taggings, known.encoded, strict=False)} if known else {}
        with _storable("taggings"):
            encoded = [before.get(id(t)) or Encoded.of(t.model_dump(mode="json")) for t in taggings]
            data = seal({"taggings": Encoded.listed(encoded)})
        with self._turns.writing(scope, key):
            self._put(path, data if taggings else None, "tags")
            _remember(path, _Tags(chainlog.stamp(str(path)), list(taggings), encoded))

    def claims(self, scope: Scope, key: SessionKey) -> list[Claim]:
        return read_claims(self._visible(scope, key))

    def put_claims(self, scope: Scope, key: SessionKey, claims: Sequence[Claim], gone: Collection[str]) -> None:
        for claim in claims:
            if claim.session != key:
                said = f"claim {claim.claim_id} is of {claim.session.uri}, not of {key.uri}"
                raise InvalidArgument(said, field="claims")
        with _storable("claims"):
            new = {claim.claim_id: claim.model_dump_json(exclude_defaults=True).encode() for claim in claims}
        with self._turns.writing(scope, key) as folder:
            # Those there keep their place and, where they are not replaced, every byte.
            there = {json.loads(line)["claim_id"]: line for line in _claim_lines(folder)} | new
            lines = [line for claim_id, line in there.items() if claim_id not in gone]
            self._put(folder / CLAIMS, seal_lines(lines) if lines else None, "claims")
            if gone:
                sweep(folder, held=True)  # what was cut off may have left copies

    def commits(self, scope: Scope, key: SessionKey, after: int = 0) -> list[CommitRecord]:
        folder, page = self._layout.session(key), self._turns.visible_record(scope, key)
        if not after:
            return [c for place in commit_folders(folder).values() if (c := read_commit(place)) is not None]
        found: list[CommitRecord] = []
        # They are numbered one after the other: no need to look through all that ever were.
        while (c := read_commit(folder / ARCHIVES / str(after + 1))) is not None or after < page.commits:
            after += 1
            found += [c] if c is not None else []
        return found

    def write_commit(self, scope: Scope, key: SessionKey, record: CommitRecord) -> None:
        if not _NUMBER.fullmatch(str(record.number)):
            raise InvalidArgument(f"commits are numbered from 1, not {record.number}", field="number")
        with _storable("record"):
            data = seal(record.model_dump(mode="json"))
        with self._turns.writing(scope, key) as folder:
            place = folder / ARCHIVES / str(record.number)
            make_dirs(place)
            self._step("commit.folder_made")
            self._put(place / COMMIT, data, "commit")

    def _put(self, path: Path, data: bytes | None, what: str) -> None:
        """A paper in its place, or none; where that is so already, nothing is written."""
        there = _bytes(path)
        if data is not None and data != there:
            replace_file(path, data, self._step, what)
            return
        if data is None and there is not None:
            self._step(f"{what}.before_unlink")
            path.unlink()
        sync_dir(path.parent)  # also for whoever wrote the same and died before they could

    def any(self, key: SessionKey) -> bool:
        folder = self._layout.session(key)
        return any((folder / name).exists() for name in (TAGS, CLAIMS, ARCHIVES))

    def clear(self, key: SessionKey) -> None:
        """Take all papers of a session away. Call it locked."""
        folder = self._layout.session(key)
        for name in (TAGS, CLAIMS):
            (folder / name).unlink(missing_ok=True)
            self._step(f"papers.{name}.gone")
        if (folder / ARCHIVES).exists():
            shutil.rmtree(folder / ARCHIVES)
        sync_dir(folder)
        self._step("papers.gone")


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        raise Corrupt(f"{path}: a folder in place of a file", where=str(path)) from None


@contextmanager
def _storable(field: str) -> Iterator[None]:
    """What no JSON file can hold (half a surrogate pair, an object) is the caller's to put right."""
    try:
        yield
    except ValueError as error:
        raise InvalidArgument(f"{field} hold what cannot be stored: {str(error)!a}", field=field) from None
