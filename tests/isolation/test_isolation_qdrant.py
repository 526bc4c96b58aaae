"""The same questions to Qdrant, in memory: fewer, because its local mode looks at every point."""

from __future__ import annotations

import uuid

from asking_index import DIMENSION, Examination, filled
from tally import Tally
from world import SEED, SHARES, TIMES, World

from mnemon.drivers.index.qdrant import QdrantIndex


async def test_no_question_reaches_beyond_its_scope() -> None:
    world, tally = World(SEED + 3, rows_per_tenant=20), Tally(SEED)
    index = QdrantIndex(f"qdrant://:memory:/{uuid.uuid4().hex}", "m", DIMENSION)
    await filled(index, world.rows, SEED)
    await Examination(index, world, tally, askers=100).ask(SHARES["qdrant"] * TIMES)
    await index.close()
    tally.close("qdrant")
