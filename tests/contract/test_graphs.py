"""Every graph driver under the one contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnemon.drivers.graph.sqlite import SqliteGraph
from mnemon.testing.graph_suite import GraphContract, Opener


class TestSqlite(GraphContract):
    @pytest.fixture
    def opener(self, tmp_path: Path) -> Opener:
        return lambda: SqliteGraph(tmp_path / "graph.db")
