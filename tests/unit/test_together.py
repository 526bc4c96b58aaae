"""Writers at once share one go, and whoever dies at writing is looked after."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mnemon import Config, Memory
from mnemon.contracts.filters import Eq
from mnemon.contracts.scope import Scope
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.drivers.liveness import worker_id
from mnemon.drivers.together import Together

QUIET = Config(background_worker=False)


async def test_who_comes_while_others_are_served_is_served_with_them_and_fails_alone() -> None:
    served: list[list[int]] = []

    def do(works: list[int]) -> None:
        served.append(works)
        if 7 in works:
            raise ValueError("seven")

    together = Together(do, lambda _: False)
    results = await asyncio.gather(*(together(n, little=True) for n in (1, 7, 3)), return_exceptions=True)
    assert [type(result) for result in results] == [type(None), ValueError, type(None)]
    assert served[0] == [1, 7, 3], "in one go"
    assert served[1:] == [[1], [7], [3]], "then each by itself"


def test_words_of_a_process_that_died_are_brought_to_the_replicas(tmp_path: Path) -> None:
    host, pid, _ = worker_id().rsplit(":", 2)
    with Memory(tmp_path, embedder=HashEmbedder(), config=QUIET) as memory:
        memory.session_write("t", "u", "s", turns=[{"role": "user", "text": "I like quince."}], extract=False)
        assert len(list((tmp_path / "present").iterdir())) == 1
        parts, loop = memory.parts, memory._loop
        loop.run(parts.index.delete(Scope.steward_of("t"), Eq("session_id", "s")))
        assert not memory.bind("t", "u").lexical_search("quince").items
        (tmp_path / "present" / "gone").write_text(f"{host}:{pid}:another-boot-1", encoding="utf-8")
        assert memory.run_jobs().failed == 0
        assert memory.bind("t", "u").lexical_search("quince").items
        assert "gone" not in {note.name for note in (tmp_path / "present").iterdir()}
    assert not list((tmp_path / "present").iterdir()), "who leaves takes its name along"
