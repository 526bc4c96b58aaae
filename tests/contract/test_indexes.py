"""Every index driver under the one contract; a real Qdrant server where TEST_QDRANT_URL names one."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnemon.drivers.index.sqlite import SqliteIndex
from mnemon.testing.index_suite import IndexContract, Opener


class TestSqlite(IndexContract):
    @pytest.fixture
    def opener(self, tmp_path: Path) -> Opener:
        return lambda model, dimension, any_model: SqliteIndex(
            tmp_path / "index.db", model, dimension, any_model=any_model
        )


class TestSqliteWithoutCache(IndexContract):
    """The same with room for nothing in memory."""

    @pytest.fixture
    def opener(self, tmp_path: Path) -> Opener:
        return lambda model, dimension, any_model: SqliteIndex(
            tmp_path / "index.db", model, dimension, any_model=any_model, cache_bytes=1
        )
