"""Remembers vectors by the content they were made from, around any embedder."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from mnemon.contracts.entries import EmbeddingVector, Vector
from mnemon.contracts.errors import EmbedderFailed
from mnemon.contracts.ports import Embedder, Purpose
from mnemon.drivers.sqlite_file import open_file

# `space` is the hash of model and purpose, `text` the hash of the text: a text can be forgotten in every space at once.
# `used` counts calls, not seconds.
SCHEMA = """
CREATE TABLE IF NOT EXISTS vectors (
    text    BLOB NOT NULL,
    space   BLOB NOT NULL,
    used    INTEGER NOT NULL,
    vector  BLOB NOT NULL,
    PRIMARY KEY (text, space)
);
CREATE INDEX IF NOT EXISTS vectors_by_use ON vectors (used);
"""
GET = "SELECT vector, used FROM vectors WHERE text = ? AND space = ?"
PUT = "INSERT OR REPLACE INTO vectors (text, space, used, vector) VALUES (?, ?, ?, ?)"
TOUCH = "UPDATE vectors SET used = ? WHERE text = ? AND space = ?"
FORGET = "DELETE FROM vectors WHERE text = ?"
NOW = "SELECT coalesce(max(used), 0) + 1 FROM vectors"
SIZE = "SELECT count(*), coalesce(sum(length(vector)), 0) FROM vectors"
EVICT = "DELETE FROM vectors WHERE (text, space) IN (SELECT text, space FROM vectors ORDER BY used LIMIT ?)"

_ROW_OVERHEAD = 100
_STALE_AFTER = 64
_EVICTED_AT_ONCE = 0.1


def _digest(*parts: str) -> bytes:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()


class CachedEmbedder:
    """Vectors are kept as float32, so a remembered vector is the computed one bit for bit.

    `purpose_matters=False` is for embedders that treat questions and documents alike. The cache may be lost at any
    time: its writes are not synced, and a file that cannot be read is begun anew.
    """

    def __init__(
        self,
        inner: Embedder,
        path: Path | str = ":memory:",
        *,
        max_bytes: int = 512 * 1024 * 1024,
        purpose_matters: bool = True,
    ) -> None:
        self._inner = inner
        self._max_bytes = max_bytes
        self._purpose_matters = purpose_matters
        self._guard = threading.Lock()
        self._bytes = 0
        self.hits = 0
        self.misses = 0
        self._db: sqlite3.Connection | None = self._open(path)

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def dimension(self) -> int:
        return self._inner.dimension

    @property
    def semantic(self) -> bool:
        return self._inner.semantic

    async def embed_texts(self, texts: Sequence[str], purpose: Purpose = "document") -> list[EmbeddingVector]:
        if not texts:
            return []
        space = _digest(self._inner.model, purpose if self._purpose_matters else "")
        keys = [_digest(text) for text in texts]
        known = await asyncio.to_thread(self._get, space, keys)
        unknown = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        missed = sum(key in unknown for key in keys)
        self.hits += len(keys) - missed
        self.misses += missed
        answers = {key: EmbeddingVector(dense_vector=vector, model=self._inner.model) for key, vector in known.items()}
        if unknown:
            fresh = await self._inner.embed_texts(list(unknown.values()), purpose)
            if len(fresh) != len(unknown):
                raise EmbedderFailed(f"{len(unknown)} texts were sent and {len(fresh)} embeddings came back")
            answers.update(zip(unknown, fresh, strict=True))
            # What has a sparse part does not fit in here and is passed on.
            dense = {key: answers[key].dense_vector for key in unknown if answers[key].sparse_vector is None}
            await asyncio.to_thread(self._put, space, dense)
        return [answers[key] for key in keys]

    async def forget(self, texts: Sequence[str]) -> int:
        """Erase what was made from these texts, with any model and for any purpose."""
        return await asyncio.to_thread(self._forget, [_digest(text) for text in texts])

    async def close(self) -> None:
        await asyncio.to_thread(self._close)
        await self._inner.close()

    def _open(self, path: Path | str) -> sqlite3.Connection:
        if str(path) == ":memory:":
            return self._connect(path)
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            return self._connect(file)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            for left in (file, file.with_name(f"{file.name}-wal"), file.with_name(f"{file.name}-shm")):
                left.unlink(missing_ok=True)
            return self._connect(file)

    def _connect(self, path: Path | str) -> sqlite3.Connection:
        db = open_file(path, synchronous="NORMAL")
        try:
            db.executescript(SCHEMA)
            self._bytes = self._size(db)[1]
        except sqlite3.DatabaseError:
            db.close()
            raise
        return db

    @staticmethod
    def _size(db: sqlite3.Connection) -> tuple[int, int]:
        rows, size = db.execute(SIZE).fetchone()
        return rows, size + rows * _ROW_OVERHEAD

    def _get(self, space: bytes, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        with self._guard:
            if self._db is None:
                return {}
            found: dict[bytes, Vector] = {}
            stale: list[bytes] = []
            (now,) = self._db.execute(NOW).fetchone()
            for key in dict.fromkeys(keys):
                row = self._db.execute(GET, (key, space)).fetchone()
                if row is not None:
                    found[key] = np.frombuffer(row[0], "<f4").astype(np.float32)
                    if now - row[1] > _STALE_AFTER:
                        stale.append(key)
            if stale:  # not at every hit: reading should not have to write
                with self._writing(self._db):
                    self._db.executemany(TOUCH, [(now, key, space) for key in stale])
            return found

    def _put(self, space: bytes, vectors: dict[bytes, Vector]) -> None:
        with self._guard:
            if self._db is None:
                return
            with self._writing(self._db):
                (now,) = self._db.execute(NOW).fetchone()
                rows = [(key, space, now, vector.astype("<f4").tobytes()) for key, vector in vectors.items()]
                self._db.executemany(PUT, rows)
                self._bytes += sum(len(row[3]) + _ROW_OVERHEAD for row in rows)
                if self._bytes > self._max_bytes:
                    self._evict(self._db)

    def _evict(self, db: sqlite3.Connection) -> None:
        """Down to below the limit, with some room, so that it does not happen at every call."""
        rows, size = self._size(db)
        if size > self._max_bytes:
            goal = self._max_bytes * (1 - _EVICTED_AT_ONCE)
            db.execute(EVICT, (max(int(rows * (1 - goal / size)), 1),))
        self._bytes = self._size(db)[1]

    def _forget(self, keys: Sequence[bytes]) -> int:
        with self._guard:
            if self._db is None:
                return 0
            with self._writing(self._db):
                gone = sum(self._db.execute(FORGET, (key,)).rowcount for key in keys)
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return gone

    def _close(self) -> None:
        with self._guard:
            db, self._db = self._db, None
            if db is not None:
                db.close()

    @staticmethod
    @contextmanager
    def _writing(db: sqlite3.Connection) -> Iterator[None]:
        db.execute("BEGIN IMMEDIATE")
        try:
            yield
            db.execute("COMMIT")
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")
