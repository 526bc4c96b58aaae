"""Where the operating system's errors become ours: a driver that keeps files raises nothing else."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from mnemon.contracts.errors import StorageFailed

C = TypeVar("C", bound=type)
T = TypeVar("T")


@contextmanager
def named(path: Path | str) -> Iterator[None]:
    """What fails in here has to do with this file, also where the system does not say so (a write to an open one)."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def in_our_words(cls: C) -> C:
    """Every door of a driver: an `OSError` that comes out of it is `StorageFailed`, with the file and the cure.

    The driver's first argument is the folder it keeps; it is named where nothing better is known."""
    for name, member in list(vars(cls).items()):
        if name == "__init__":
            setattr(cls, name, _opening(member))
        elif inspect.iscoroutinefunction(member) and not name.startswith("_"):
            setattr(cls, name, _awaited(member))
        elif inspect.isfunction(member) and not name.startswith("_") and _iterates(member):
            setattr(cls, name, _listed(member))
    return cls


def _iterates(function: Callable[..., Any]) -> bool:
    return "AsyncIterator" in str(function.__annotations__.get("return", ""))


def _opening(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def opened(self: Any, root: Path, *args: Any, **kwargs: Any) -> None:
        self._where = root
        try:
            function(self, root, *args, **kwargs)
        except OSError as error:
            raise StorageFailed.of(error, root) from error

    return opened


def _awaited(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return await function(self, *args, **kwargs)
        except OSError as error:
            raise StorageFailed.of(error, self._where) from error

    return called


def _listed(function: Callable[..., AsyncIterator[T]]) -> Callable[..., AsyncIterator[T]]:
    @functools.wraps(function)
    async def each(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[T]:
        try:
            async for item in function(self, *args, **kwargs):
                yield item
        except OSError as error:
            raise StorageFailed.of(error, self._where) from error

    return each
