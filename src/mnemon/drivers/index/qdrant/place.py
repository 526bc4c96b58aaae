"""Where a Qdrant index lives: reading its URL, opening a client on it, and the client's errors in our words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from urllib.parse import parse_qs, unquote, urlsplit

from qdrant_client import AsyncQdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from mnemon.contracts.errors import Busy, InvalidArgument, Unavailable

_DEFAULT_COLLECTION = "mnemon"
_TIMEOUT_S = 30
_MEMORY = ":memory:"
_KNOWN = ("api_key", "collection", "https")


@dataclass(frozen=True, slots=True)
class Place:
    """A server, or a folder, or this process's memory; and the collection's name there."""

    collection: str
    server: str = ""
    folder: str = ""
    api_key: str | None = field(default=None, repr=False)

    @property
    def label(self) -> str:
        """Names the place in messages; never holds the key."""
        return f"qdrant {self.collection!r} at {self.server or self.folder or _MEMORY}"

    @property
    def is_local(self) -> bool:
        return not self.server


def parse_place(url: str) -> Place:
    """`qdrant://host:6333/collection?api_key=…&https=1`, `qdrant://local/path?collection=…` (a second slash makes the
    path absolute), or `qdrant://:memory:/collection`."""
    split = urlsplit(url)
    if split.scheme != "qdrant" or not split.netloc:
        raise InvalidArgument("a Qdrant URL is qdrant://host:6333/collection or qdrant://local/folder", field="url")
    options = {name: values[-1] for name, values in parse_qs(split.query, keep_blank_values=True).items()}
    if unknown := options.keys() - set(_KNOWN):
        raise InvalidArgument(
            f"unknown option {min(unknown)!r} in a Qdrant URL; known: {', '.join(_KNOWN)}", field="url"
        )
    path = unquote(split.path.removeprefix("/"))
    if split.netloc == "local":
        return Place(_named(options.get("collection", "")), folder=str(Path(path).expanduser().absolute()))
    collection = _named(path.strip("/") or options.get("collection", ""))
    if split.netloc == _MEMORY:
        return Place(collection)
    scheme = "https" if options.get("https", "0") in ("1", "true", "yes") else "http"
    return Place(collection, f"{scheme}://{_authority(split.netloc)}", api_key=options.get("api_key") or None)


def _authority(netloc: str) -> str:
    if "@" in netloc:
        raise InvalidArgument("a Qdrant URL takes its key as ?api_key=…, not before an @", field="url")
    has_port = netloc.rpartition("]")[2].count(":") == 1
    return netloc if has_port else f"{netloc}:6333"


def _named(collection: str) -> str:
    if set(collection) & set('/\\<>:"|?*\0') or len(collection) > 200:
        raise InvalidArgument(f"{collection!r} cannot be the name of a Qdrant collection", field="url")
    return collection or _DEFAULT_COLLECTION


# A folder, or a name in memory, is held by one client in a process; everybody who opens it here shares that client.
_shared: dict[str, tuple[AsyncQdrantClient, int]] = {}
_sharing = Lock()


def connect(place: Place) -> AsyncQdrantClient:
    if place.server:
        return AsyncQdrantClient(url=place.server, api_key=place.api_key, timeout=_TIMEOUT_S, check_compatibility=False)
    with _sharing:
        key = _key(place)
        client, users = _shared.get(key) or (_open_local(place), 0)
        _shared[key] = (client, users + 1)
        return client


async def disconnect(place: Place, client: AsyncQdrantClient) -> None:
    if not place.server:
        with _sharing:
            key = _key(place)
            users = _shared[key][1] - 1
            if users:
                _shared[key] = (client, users)
                return
            del _shared[key]
    await client.close()


def _key(place: Place) -> str:
    return place.folder or f"{_MEMORY}{place.collection}"


def _open_local(place: Place) -> AsyncQdrantClient:
    if not place.folder:
        return AsyncQdrantClient(location=_MEMORY)
    try:
        return AsyncQdrantClient(path=place.folder, force_disable_check_same_thread=True)
    except RuntimeError as error:
        raise Busy(f"{place.label} is open in another process; use a Qdrant server to share it") from error


def is_missing(error: Exception) -> bool:
    """Does the client say that there is no such collection?"""
    if isinstance(error, UnexpectedResponse):
        return error.status_code == 404
    return isinstance(error, ValueError) and "not found" in str(error)


def is_there_already(error: Exception) -> bool:
    if isinstance(error, UnexpectedResponse):
        return error.status_code == 409 or (error.status_code == 400 and b"already exists" in error.content)
    return isinstance(error, ValueError) and "already exists" in str(error)


@contextmanager
def clear_errors(place: Place) -> Iterator[None]:
    """The client's errors in our words; they name the place, never the key."""
    try:
        yield
    except UnexpectedResponse as error:
        if error.status_code in (401, 403):
            raise Unavailable(f"{place.label} refuses the api_key ({error.status_code})") from None
        said = error.content[:200].decode("utf-8", "replace")
        raise Unavailable(f"{place.label} answers {error.status_code}: {said}") from error
    except ResponseHandlingException as error:
        raise Unavailable(f"{place.label} does not answer ({type(error.source).__name__})") from error
