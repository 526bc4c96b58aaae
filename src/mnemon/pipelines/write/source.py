"""Whatever a caller hands over as a conversation, as the chunks of text or the parsed data an adapter reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from mnemon.contracts.errors import InvalidArgument, NotFound, StorageFailed
from mnemon.logic.adapters import Source, decoded

Raw = str | bytes | PathLike[str] | BinaryIO | list[Any] | dict[str, Any] | Iterable[str]

_CHUNK = 1 << 16


@contextmanager
def opened(raw: Raw) -> Iterator[Source]:
    """Text, bytes, a path (as `Path`), an open binary file, chunks of text, or data already parsed."""
    match raw:
        case str():
            yield [raw]
        case bytes():
            yield decoded(iter([raw]))
        case list() | dict():
            yield raw
        case PathLike():
            with _open(Path(raw)) as file:
                yield decoded(iter(lambda: file.read(_CHUNK), b""))
        case _ if hasattr(raw, "read"):
            yield decoded(iter(lambda: raw.read(_CHUNK), b""))
        case Iterable():
            yield raw
        case _:
            raise InvalidArgument(
                f"raw must be text, bytes, a path or parsed data, not {type(raw).__name__}", field="raw"
            )


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}", field="raw") from None
    except IsADirectoryError:
        raise InvalidArgument(f"{path} is a folder; name one export file", field="raw") from None
    except OSError as error:
        raise StorageFailed.of(error, path) from error
