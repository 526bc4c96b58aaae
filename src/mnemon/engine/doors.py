"""Everything one scope may do, as a surface with credentials of its own needs it."""

from __future__ import annotations

from dataclasses import dataclass

from mnemon.engine.bound import AsyncBoundMemory
from mnemon.engine.entries import AsyncEntries
from mnemon.engine.graph import AsyncGraphView


@dataclass(frozen=True, slots=True)
class Doors:
    """The bound doors of one scope: nothing they are asked can reach beyond it."""

    messages: AsyncBoundMemory
    entries: AsyncEntries
    graph: AsyncGraphView
