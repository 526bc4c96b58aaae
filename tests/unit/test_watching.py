"""How the historian stands, worked out from what is stored; and the rounds a worker makes between jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from mnemon import AsyncMemory, Config, errors
from mnemon.contracts.chats import Absolute, HistorianStatus
from mnemon.contracts.models import Violation
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.engine.config import GovernanceConfig
from mnemon.engine.rounds import Rounds
from mnemon.logic import chats
from mnemon.testing.clock import FixedClock


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[AsyncMemory]:
    config = Config(background_worker=False)
    async with AsyncMemory(tmp_path, llm="rules", embedder=HashEmbedder(), config=config, clock=FixedClock()) as memory:
        yield memory


def clock_of(memory: AsyncMemory) -> FixedClock:
    clock = memory.parts.clock
    assert isinstance(clock, FixedClock)
    return clock


async def ended(memory: AsyncMemory, *numbers: int, tenant: str = "acme") -> None:
    for number in numbers:
        await memory.end(tenant, f"r{number}", 1, "", f"Ann has {number} cats", user_id="ann", group_id=f"g{number}")


async def state(memory: AsyncMemory, tenant: str | None = None) -> HistorianStatus:
    found = (await memory.status(tenant)).historian
    assert found is not None
    return found


async def test_of_nothing_there_is_nothing_to_say(memory: AsyncMemory) -> None:
    assert await state(memory) == HistorianStatus(enabled=True, provider="rules")


async def test_what_waits_is_counted_before_anything_is_stored(memory: AsyncMemory) -> None:
    await ended(memory, 1, 2)
    clock_of(memory).tick(seconds=90)
    found = await state(memory)
    assert (found.waiting, found.oldest_waiting_s, found.events) == (2, 90.0, 0)
    assert (await state(memory, "other")).waiting == 0


async def test_the_latest_turns_tell_how_long_it_took(memory: AsyncMemory) -> None:
    for number, wait in ((1, 1), (2, 2), (3, 30)):
        await ended(memory, number)
        clock_of(memory).tick(seconds=wait)
        await memory.run_jobs()
    found = await state(memory)
    assert found.events == 6, "each turn of a group as the group and as the sender saw it"
    assert (found.latency_p50_s, found.latency_p95_s) == (2.0, 30.0)
    assert (found.failure_rate, found.not_absolute, found.rewrites) == (0.0, 0, 0)


async def test_failures_and_retries_are_told_apart(memory: AsyncMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    await ended(memory, 1)
    await memory.run_jobs()

    failures = iter((errors.Unavailable("not now"), errors.PermissionDenied("never")))

    async def fails(*_: object) -> None:
        raise next(failures)

    monkeypatch.setattr(memory.parts.archive, "append_turns", fails)
    for number in (2, 3):
        await ended(memory, number)
        await memory.run_jobs()
    found = await state(memory)
    assert (found.waiting, found.retrying, found.failed) == (1, 1, 1)
    assert found.failure_rate == 0.5


async def test_what_could_not_be_made_absolute_is_counted_once(
    memory: AsyncMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(made: Absolute) -> list[Violation]:
        return [Violation("relative time", "canonical_text", "a date", "soon")]

    told: list[str] = []
    memory.on_alert(lambda alert: told.append(alert.kind))
    monkeypatch.setattr(chats, "not_absolute", never)
    await ended(memory, 1)
    await memory.run_jobs()
    assert (await state(memory)).not_absolute == 1
    assert told == ["not_absolute"]


async def test_rounds_look_every_time_and_sweep_when_it_is_time(
    memory: AsyncMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    parts = memory.parts

    async def looked(*_: object) -> None:
        done.append("looked")

    async def swept(*_: object) -> None:
        done.append("swept")

    monkeypatch.setattr(type(parts.watch), "look", looked)
    monkeypatch.setattr(type(parts.sweeper), "sweep_all", swept)
    await Rounds(parts).go()
    assert done == ["looked"]
    often = GovernanceConfig(sweep_interval_seconds=0.0)
    await Rounds(replace(parts, config=replace(parts.config, governance=often))).go()
    assert done == ["looked", "looked", "swept"]
