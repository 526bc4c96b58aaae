"""Damaged bytes set aside: never deleted by repair, beside what took their place, where a person finds them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from mnemon.drivers.archive.fs.durable import make_dirs, sync_dir

SET_ASIDE = "set-aside"


def set_aside(path: Path, folder: Path | None = None) -> Path:
    """Move a file (or whatever lies there) out of the way, into a folder of its own; where it went."""
    target = _free(path, folder or path.parent)
    path.rename(target)
    sync_dir(target.parent)
    sync_dir(path.parent)
    return target


def keep_copy(path: Path, folder: Path | None = None) -> Path:
    """The bytes as they are, while the file stays where it is until it is replaced."""
    place = (folder or path.parent) / SET_ASIDE
    data = path.read_bytes()
    for earlier in place.glob(f"{_plain(path)}.*") if place.is_dir() else ():
        if earlier.is_file() and earlier.read_bytes() == data:
            return earlier  # whoever set it aside was cut off before the rest
    target = _free(path, folder or path.parent)
    shutil.copyfile(path, target)
    with target.open("rb") as file:
        os.fsync(file.fileno())
    sync_dir(place)
    return target


def has_aside(folder: Path, name: str) -> bool:
    """Was a file of this name damaged here once?"""
    place = folder / SET_ASIDE
    return place.is_dir() and any(place.glob(f"{name.removeprefix('.')}.*"))


def drop_aside(folder: Path) -> None:
    """Forgetting: what is damaged cannot be taken apart, so all of it goes."""
    if (folder / SET_ASIDE).is_dir():
        shutil.rmtree(folder / SET_ASIDE)
        sync_dir(folder)


def _free(path: Path, folder: Path) -> Path:
    make_dirs(folder / SET_ASIDE)
    number = 1
    while (target := folder / SET_ASIDE / f"{_plain(path)}.{number}").exists() or target.is_symlink():
        number += 1
    return target


def _plain(path: Path) -> str:
    return path.name.removeprefix(".")
