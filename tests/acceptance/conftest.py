"""A memory to walk through, with the embedder that needs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemon import Config, Memory
from mnemon.testing.clock import FixedClock


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def memory(home: Path, clock: FixedClock) -> Iterator[Memory]:
    with Memory(home, embedder="hash", config=Config(), clock=clock) as opened:
        yield opened
