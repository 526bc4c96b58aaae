"""The proof of forgetting: every file of a tenant, and all that tenants share, searched for what should be gone.

What is found is left, unless somebody who stays said the same: a piece that stands in words, claims or logs which are
not to be forgotten cannot be told apart by its bytes, and is counted instead. The rows of index and graph are asked for
by whoever forgets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from mnemon.contracts.forgetting import Intent, Traces
from mnemon.drivers.archive.fs.layout import CLAIMS, LEVEL_FILES, META, TAGS, TURNS, Layout
from mnemon.drivers.archive.fs.logs import LOGS, segments
from mnemon.drivers.archive.fs.promises import PROMISES
from mnemon.logic.traces import Matcher

_CHUNK = 1 << 20
_TENANTS = "tenants"
_WORDS = (TURNS, TAGS, CLAIMS)


def look(layout: Layout, intent: Intent, alive: Sequence[str]) -> Traces:
    """`alive` are the addresses of the memories the tenant still has."""
    matcher = Matcher(bytes.fromhex(intent.salt), [*intent.words, *intent.names])
    files = size = 0
    where: dict[int, list[str]] = defaultdict(list)
    for path in _searched(layout, intent.tenant_id):
        name = path.relative_to(layout.home).as_posix()
        found, read = _search(path, matcher)
        files, size = files + 1, size + read
        for number in found | matcher.find(name.encode()):
            where[number].append(name)
    shared = _shared(layout, intent, alive, matcher, set(where)) if where else set()
    left = sorted({name for number, names in where.items() if number not in shared for name in names})
    return Traces(files, size, len(intent.words) + len(intent.names), len(shared), tuple(left))


def _searched(layout: Layout, tenant_id: str) -> Iterator[Path]:
    own = (layout.tenant(tenant_id), layout.tenant_grave(tenant_id))
    for root in sorted(layout.home.iterdir()):
        if root.name != PROMISES:  # they hold no words, but the names of memories until those are gone
            for place in own if root.name == _TENANTS else (root,):
                yield from _files(place)


def _files(root: Path) -> Iterator[Path]:
    paths = sorted(root.rglob("*")) if root.is_dir() else [root]
    yield from (path for path in paths if path.is_file() and not path.is_symlink())


def _search(path: Path, matcher: Matcher) -> tuple[set[int], int]:
    """Which pieces stand in a file, and how long it is; what was removed meanwhile holds nothing."""
    found: set[int] = set()
    size = 0
    try:
        with path.open("rb") as file:
            kept = b""
            while chunk := file.read(_CHUNK):
                size += len(chunk)
                found |= matcher.find(kept + chunk)
                # A piece may stand across the border of two chunks.
                kept = (kept + chunk)[-max(matcher.longest - 1, 1) :]
    except FileNotFoundError:
        pass
    return found, size


def _shared(layout: Layout, intent: Intent, alive: Sequence[str], matcher: Matcher, wanted: set[int]) -> set[int]:
    """Which of these pieces somebody else said, or something else is called. First this tenant is asked, and the others
    only if that does not explain all: they share the index and the queue."""
    found = {n for uri in alive for n in matcher.find(uri.encode())} & wanted
    names_from = len(intent.words)
    for tenant in sorted(layout.tenants(), key=lambda t: t != intent.tenant_id):
        for path in _said(layout, tenant, intent):
            if found >= wanted:
                return found
            here = _search(path, matcher)[0] & wanted
            told = path.name in _WORDS or path.parent.name in LOGS
            # What memories are called and hold may be said by other memories too; words only by words.
            found |= here if told else {n for n in here if n >= names_from}
    return found


def _said(layout: Layout, tenant_id: str, intent: Intent) -> Iterator[Path]:
    """What a tenant's people said and told, and their memories; without what is to be forgotten."""
    ours = tenant_id == intent.tenant_id
    if ours and intent.what == "tenant":
        return
    for owner in layout.owners(tenant_id):
        if ours and intent.what == "user" and owner == intent.owner:
            continue
        for name, folder in layout.session_folders(tenant_id, owner).items():
            if not (ours and intent.what == "session" and (owner, name) == (intent.owner, intent.target["session_id"])):
                yield from (folder / name for name in _WORDS)
        for folder in (layout.owner(tenant_id, owner) / "memories").glob("*/*"):
            if (folder / META).exists():
                yield from (folder / name for name in LEVEL_FILES.values())
    for log in LOGS:
        yield from segments(layout.log(tenant_id, log))
