"""Bytes that are on the disk when the call returns: append, atomic replace, folders, locks."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mnemon.drivers.liveness import is_running
from mnemon.drivers.os_errors import named

# Called by name at every step a crash could fall between; tests kill the process there.
Step = Callable[[str], None]

TEMPORARY = ".tmp-"
_LEFTOVER = re.compile(re.escape(TEMPORARY) + r"([1-9][0-9]{0,9})-[0-9a-f]+")


def no_step(name: str) -> None:
    """The step of everyday life: nothing happens."""


def sync_dir(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_dirs(path: Path) -> None:
    """Create a folder and its parents so that they survive a power cut."""
    missing: list[Path] = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync_dir(folder.parent)


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def temporary_name(path: Path) -> Path:
    """Beside a path, a name nobody reads; it tells whose it is."""
    return path.with_name(f"{TEMPORARY}{os.getpid()}-{os.urandom(4).hex()}")


def write_file(path: Path | str, data: bytes) -> os.stat_result:
    """A new file, its bytes synced; how it was left."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with named(path):
            write_all(fd, data)
            os.fsync(fd)
            return os.fstat(fd)
    finally:
        os.close(fd)


def write_temporary(path: Path, data: bytes) -> Path:
    """The bytes, synced, under a name nobody reads yet."""
    temporary = temporary_name(path)
    try:
        with named(path):
            write_file(temporary, data)
    except OSError:
        _take_back([temporary])
        raise
    return temporary


def _take_back(staged: Iterable[Path]) -> None:
    """What a full or failing disk did not let finish: no copy of it stays as long as this process lives."""
    for temporary in staged:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def replace_files(folder: Path, files: dict[str, bytes], step: Step = no_step, what: str = "file") -> None:
    """Put files in place, each atomically, in the order given, with one sync of the folder at the end."""
    staged: dict[Path, Path] = {}
    try:
        for name, data in files.items():
            staged[folder / name] = write_temporary(folder / name, data)
        for target, temporary in staged.items():
            step(f"{what}.{target.name}.before_rename" if len(staged) > 1 else f"{what}.before_rename")
            temporary.replace(target)
    except OSError:
        _take_back(staged.values())
        raise
    step(f"{what}.before_dir_sync")
    sync_dir(folder)


def replace_file(path: Path, data: bytes, step: Step = no_step, what: str = "file") -> None:
    replace_files(path.parent, {path.name: data}, step, what)


def sweep(root: Path, held: bool = False, deep: bool = True) -> list[Path]:
    """Remove what dead processes left under names nobody reads, and say what it was. With `held`, also what living ones
    could not take back: whoever holds the folder knows that nobody is writing in it. Unless `deep`, of this folder
    alone."""
    swept: list[Path] = []
    for folder, folders, names in os.walk(root):
        for name in names:
            if _is_left(name, held):
                swept.append(Path(folder) / name)
                swept[-1].unlink(missing_ok=True)
        for name in [name for name in folders if _is_left(name, held)]:
            folders.remove(name)
            swept.append(Path(folder) / name)
            shutil.rmtree(swept[-1], ignore_errors=True)
        if not deep:
            break
    return swept


def _is_left(name: str, held: bool) -> bool:
    match = _LEFTOVER.fullmatch(name)
    return match is not None and (held or not is_running(int(match[1])))


@contextmanager
def locked(folder: Path, shared: bool = False, wait: bool = True) -> Iterator[None]:
    """Hold a folder against other threads and processes; a crash lets go of it.

    Without `wait`, `BlockingIOError` where somebody else holds it."""
    how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
    while True:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(fd, how)
            # Who held it before may have deleted it, and somebody else made a new one: that one is to be held.
            if os.path.samestat(os.fstat(fd), os.stat(folder)):  # noqa: PTH116  this is hot
                yield
                return
        finally:
            os.close(fd)
