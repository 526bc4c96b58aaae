"""Writers who meet: one session is one writer's at a time, and what two sessions say of the same thing is all kept."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mnemon import AsyncMemory, Config, Memory
from mnemon.contracts.errors import Busy, ModelFailed, Unavailable
from mnemon.contracts.filters import Eq
from mnemon.contracts.jobs import JobStatus
from mnemon.contracts.scope import Owner, Scope, SessionKey
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.pipelines.index.projection import claim_of
from mnemon.pipelines.jobs import digest_job
from mnemon.pipelines.write.order import WriteOrder
from mnemon.testing.answers import EXTRACTORS, PROFILE, SUMMARY, TAGGING, fact, model, script, tag, tagging
from mnemon.testing.clock import FixedClock
from mnemon.testing.scripted import Said, ScriptedLLM

QUIET = Config(background_worker=False)
STEWARD = Scope.steward_of("acme")
KEY = SessionKey("acme", Owner.user("lin"), "s")
CITIES = ["上海", "杭州", "北京", "广州", "成都", "西安", "南京", "苏州"]
TALK = [
    {"turn_id": "1", "role": "user", "text": "我对花生过敏。"},
    {"turn_id": "2", "role": "assistant", "text": "记下了。"},
    {"turn_id": "3", "role": "user", "text": "I live in Paris."},
    {"turn_id": "4", "role": "user", "text": "我喜欢爬山，也喜欢喝绿茶。"},
]


PLENTY = [*"abcdefghijklmnopqrstuvwxy"]


def opened(home: Path, llm: Any = "rules", clock: FixedClock | None = None) -> AsyncMemory:
    return AsyncMemory(home, embedder=HashEmbedder(), config=QUIET, clock=clock or FixedClock(), llm=llm)


def endless(answer: Callable[[str], dict[str, Any]]) -> ScriptedLLM:
    """A model that gives the same answers as often as it is asked."""
    by_prompt: dict[str, list[Said]] = {
        name: [answer(name)] * 500 for name in (TAGGING, SUMMARY, *EXTRACTORS, "policy.merge_bundle")
    }
    return ScriptedLLM(by_prompt=by_prompt)


def allergy(name: str) -> dict[str, Any]:
    if name == TAGGING:
        return tagging(tag(TALK[0], "我对花生过敏"))
    if name == SUMMARY:
        return {"summary": ""}
    return {"facts": [fact(TALK[0], "我对花生过敏", "用户对花生过敏")] if name == PROFILE else []}


async def state(memory: AsyncMemory) -> dict[str, Any]:
    """Everything an archive and its index say, but for times, versions, salts and the order of equals."""
    archive, found = memory.parts.archive, {}
    async for record in archive.sessions(STEWARD):
        key = record.key
        claims = await archive.read_claims(STEWARD, key)
        assert sorted(record.claim_ids) == sorted(c.claim_id for c in claims)
        page = await memory.parts.index.scroll(STEWARD, Eq("uri", key.uri), "position", 500)
        indexed = [claim_of(e) for e in page.entries if e.kind == "claim"]
        assert sorted(indexed, key=lambda c: c.claim_id) == sorted(claims, key=lambda c: c.claim_id)
        found[key.uri] = {
            "status": record.status,
            "commits": record.commits,
            "turns": [t.turn.text for t in await archive.read_turns(STEWARD, key)],
            "tags": [t.output.model_dump() for t in await archive.read_tags(STEWARD, key)],
            "claims": {c.claim_id: (c.statement, c.state, c.superseded_by, c.repeats) for c in claims},
            "shown": [e.text for e in page.entries if e.kind == "turn" and e.fields["kept"]],
        }
    for summary in await archive.list_children(STEWARD, Owner.user("lin"), recursive=True):
        if not summary.is_dir:
            node = await memory.node("acme", "lin", summary.uri)
            rows = {row["claim_id"]: row.get("state", "active") for row in node.metadata["claims"]}
            found[summary.uri] = (rows, sorted(node.overview.splitlines()))
    assert (await memory.verify()).ok
    assert (await memory.verify()).notes == []
    assert await memory.jobs() == []
    return found


async def alone(home: Path, *sessions: tuple[str, list[dict[str, Any]]], llm: Any = "rules") -> dict[str, Any]:
    async with opened(home, llm) as memory:
        for name, turns in sessions:
            await memory.session_write("acme", "lin", name, turns=turns)
        return await state(memory)


# --- one session, many writers


@pytest.mark.parametrize("llm", ["rules", "scripted"])
async def test_two_memories_write_one_session_at_once_and_one_of_them_wins(tmp_path: Path, llm: str) -> None:
    def chosen() -> Any:
        return endless(allergy) if llm == "scripted" else "rules"

    expected = await alone(tmp_path / "alone", ("s", TALK), llm=chosen())
    for attempt in range(8):
        home = tmp_path / str(attempt)
        async with opened(home, chosen()) as one, opened(home, chosen()) as two:
            results = await asyncio.gather(
                *(m.session_write("acme", "lin", "s", turns=TALK) for m in (one, two, one, two))
            )
            assert sorted(r.status for r in results) == ["ok", *["skipped_existing"] * 3]
            assert await state(two) == expected


async def test_overwriters_at_once_end_in_the_same_state(tmp_path: Path) -> None:
    expected = await alone(tmp_path / "alone", ("s", TALK))
    async with opened(tmp_path / "many") as one, opened(tmp_path / "many") as two:
        results = await asyncio.gather(
            *(m.session_write("acme", "lin", "s", turns=TALK, overwrite_existing=True) for m in (one, two) * 4)
        )
        assert {r.status for r in results} == {"ok"}
        found = await state(one)
        assert found["ctx://acme/users/lin/sessions/s"].pop("commits") == 8
        expected["ctx://acme/users/lin/sessions/s"].pop("commits")
        assert found == expected


def test_threads_append_to_one_session_and_every_turn_is_judged_once(tmp_path: Path) -> None:
    with Memory(tmp_path, embedder=HashEmbedder(), config=QUIET, llm="rules") as memory:

        def write(n: int) -> None:
            turn = {"turn_id": f"{n}", "role": "user", "text": f"我住在{CITIES[n]}。"}
            memory.session_write("acme", "lin", "s", turns=[turn], mode="append")

        threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        claims = memory.claims("acme", "lin", state=None).items
        assert {c.statement for c in claims} == {f"用户住在{city}" for city in CITIES}
        assert len(memory.claims("acme", "lin").items) == 1
        found = asyncio.run(state(memory._memory))
        assert found["ctx://acme/users/lin/sessions/s"]["commits"] == 8


_WRITER = """
import json, sys, time
from pathlib import Path
from mnemon import Config, Memory
from mnemon.drivers.embed.hash import HashEmbedder
home, name, turns = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
with Memory(home, embedder=HashEmbedder(), config=Config(background_worker=False), llm="rules") as memory:
    Path(home, f"ready-{name}-{turns[0]['turn_id']}").touch()
    while not Path(home, "go").exists():
        time.sleep(0.001)
    print(memory.session_write("acme", "lin", name, turns=turns).status)
"""


def processes(home: Path, *jobs: tuple[str, list[dict[str, Any]]]) -> list[str]:
    """A process for each, all let go at the same moment."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(home), name, json.dumps(turns)], stdout=subprocess.PIPE, text=True
        )
        for name, turns in jobs
    ]
    while len(list(home.glob("ready-*"))) < len({(name, turns[0]["turn_id"]) for name, turns in jobs}):
        assert all(process.poll() is None for process in running)
    (home / "go").touch()
    return [process.communicate(timeout=60)[0].strip() for process in running]


async def test_two_processes_write_one_session_and_the_other_session_at_once(tmp_path: Path) -> None:
    here = [{"turn_id": "a", "role": "user", "text": "我住在上海。", "timestamp_iso": "2026-01-01T00:00:00Z"}]
    there = [{"turn_id": "b", "role": "user", "text": "我住在杭州。", "timestamp_iso": "2026-02-01T00:00:00Z"}]
    expected = await alone(tmp_path / "alone", ("one", here), ("two", there))
    home = tmp_path / "many"
    home.mkdir()
    said = await asyncio.to_thread(processes, home, ("one", here), ("two", there), ("one", here))
    assert sorted(said) == ["ok", "ok", "skipped_existing"]
    async with opened(home) as memory:
        assert await state(memory) == expected


async def test_a_writer_that_waits_too_long_is_told_who_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemon.pipelines.write.session.HOLD_S", 0.0)
    async with opened(tmp_path) as memory:
        job = digest_job(KEY, WriteOrder().to_payload())
        assert await memory.parts.queue.take(job, memory.parts.worker)
        with pytest.raises(Busy) as caught:
            await memory.session_write("acme", "lin", "s", turns=TALK)
        assert caught.value.session_id == "s"
        assert (await memory.status()).sessions == 0
        await memory.parts.queue.done(job.job_id)
        assert (await memory.session_write("acme", "lin", "s", turns=TALK)).status == "ok"


async def test_whoever_finds_the_session_done_does_not_take_the_others_job_away(tmp_path: Path) -> None:
    """One completes the words and leaves the index to the worker, while another waits for the session."""
    async with opened(tmp_path) as memory:
        queue, held = memory.parts.queue, asyncio.Event()
        take = queue.take

        async def late(job: Any, *rest: Any) -> bool:
            await held.wait()
            return await take(job, *rest)

        waiting = asyncio.create_task(_write_with(memory, late))
        await asyncio.sleep(0)
        async with opened(tmp_path) as other:
            await other.session_write("acme", "lin", "s", turns=TALK, extract=False, wait="archived")
        held.set()
        assert (await waiting).status == "skipped_existing"
        assert len((await memory.bind("acme", "lin").messages_list()).items) == 4
        assert await memory.jobs() == []


async def _write_with(memory: AsyncMemory, take: Any) -> Any:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory.parts.queue, "take", take)
        # Words alone that are waited for need no hold; these leave their index to the worker, and do.
        return await memory.session_write("acme", "lin", "s", turns=TALK, extract=False, wait="archived")


# --- many sessions, the same nodes


def moves() -> list[tuple[str, list[dict[str, Any]]]]:
    """Every session says where its user lives since when, and that they like tea."""
    return [
        (
            f"s{n}",
            [
                {"turn_id": "a", "role": "user", "text": f"我住在{city}。", "timestamp_iso": f"2026-0{n}-01T00:00:00Z"},
                {"turn_id": "b", "role": "user", "text": "I like tea.", "timestamp_iso": f"2026-0{n}-02T00:00:00Z"},
            ],
        )
        for n, city in enumerate(CITIES, 1)
    ]


async def test_sessions_written_at_once_lose_no_claim_and_agree_what_holds(tmp_path: Path) -> None:
    expected = await alone(tmp_path / "alone", *moves())
    for attempt in range(5):
        home = tmp_path / str(attempt)
        async with opened(home) as one, opened(home) as two:
            order = moves()[attempt:] + moves()[:attempt]
            results = await asyncio.gather(
                *(
                    (one, two)[n % 2].session_write("acme", "lin", name, turns=turns)
                    for n, (name, turns) in enumerate(order)
                )
            )
            assert [(r.status, r.error_reason) for r in results] == [("ok", None)] * 8
            assert await state(one) == expected


# --- the worker takes up what its writer left


async def test_a_digest_whose_process_died_is_finished_by_the_worker(tmp_path: Path) -> None:
    expected = await alone(tmp_path / "alone", ("s", TALK))
    async with opened(tmp_path / "here") as memory:
        await memory.session_write("acme", "lin", "s", turns=TALK, wait="archived")
        (job,) = await memory.jobs()
        assert await memory.parts.queue.take(job, f"{memory.parts.worker.rsplit(':', 2)[0]}:999999:gone")
        assert (await memory.run_jobs()).succeeded == 1, "those of dead workers are taken over"
        assert await state(memory) == expected


async def test_a_writer_takes_over_from_a_dead_one_at_once(tmp_path: Path) -> None:
    expected = await alone(tmp_path / "alone", ("s", TALK))
    async with opened(tmp_path / "here") as memory:
        dead = f"{memory.parts.worker.rsplit(':', 2)[0]}:999999:gone"
        assert await memory.parts.queue.take(digest_job(KEY, WriteOrder().to_payload()), dead, timedelta(hours=1))
        assert (await memory.session_write("acme", "lin", "s", turns=TALK)).status == "ok"
        assert await state(memory) == expected


async def test_sessions_another_one_changed_are_indexed_by_the_job_where_the_index_was_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = moves()[:2]
    expected = await alone(tmp_path / "alone", first, second)
    clock = FixedClock()
    async with opened(tmp_path / "here", clock=clock) as memory:
        await memory.session_write("acme", "lin", first[0], turns=first[1])

        async def away(*args: Any) -> None:
            raise Unavailable("the index is away")

        with monkeypatch.context() as patched:
            patched.setattr(memory.parts.index, "upsert", away)
            result = await memory.session_write("acme", "lin", second[0], turns=second[1])
        assert (result.status, result.counts["facts_written"]) == ("ok", 2)
        assert any(d.what == "index_pending" and "away" in d.why for d in result.degraded)
        clock.tick(hours=1)
        assert (await memory.run_jobs()).succeeded == 1
        assert await state(memory) == expected


async def test_without_a_model_the_words_are_found_and_the_rest_waits_until_there_is_one(tmp_path: Path) -> None:
    async with opened(tmp_path, "rules") as memory:
        told = await memory.session_write("acme", "lin", "s", turns=TALK, wait="archived")
        assert told.status == "ok"
        bound = memory.bind("acme", "lin")
        assert (await bound.lexical_search("花生")).items, "found by word before anybody did a job"
        assert len((await bound.messages_list()).items) == 4
        assert await bound.semantic_search("花生") == (), "and by meaning after it"
    clock = FixedClock()
    async with AsyncMemory(tmp_path, embedder=HashEmbedder(), config=QUIET, clock=clock) as memory:
        for _ in range(4):
            clock.tick(hours=2)
            assert (await memory.run_jobs()).failed == 0
        (job,) = await memory.jobs()
        assert (job.status, job.attempts, job.awaits) == (JobStatus.PENDING, 0, "model")
        bound = memory.bind("acme", "lin")
        (first, *_) = await bound.semantic_search("我对花生过敏。")
        assert (first.message.content, len(await bound.neighbors(first.message.message_id, 0, 3))) == (
            TALK[0]["text"],
            4,
        )
        status = await memory.status()
        assert status.queue.awaiting_model == 1
        assert any("language model" in warning for warning in status.warnings)
    async with opened(tmp_path, "rules") as memory:
        await memory.run_jobs()
        assert await memory.jobs() == []
        assert (await memory.claims("acme", "lin")).items
        assert (await memory.verify()).notes == []


async def test_a_model_that_was_lent_does_only_what_it_was_lent_for(tmp_path: Path) -> None:
    clock = FixedClock()
    async with opened(tmp_path, "rules", clock) as memory:
        await memory.session_write("acme", "lin", "other", turns=TALK, wait="archived")
    async with opened(tmp_path, None, clock) as memory:
        await memory.session_write("acme", "lin", "s", turns=TALK, llm="rules", wait="archived")
        await memory.run_jobs()
        (waits,) = await memory.jobs()
        assert (waits.payload["session_id"], waits.awaits) == ("other", "model")


# --- turns without ids


def said(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "user", "text": text} for text in texts]


async def texts(memory: AsyncMemory) -> list[str]:
    return [t.turn.text for t in await memory.parts.archive.read_turns(STEWARD, KEY)]


async def add(memory: AsyncMemory, *words: str, **given: Any) -> Any:
    return await memory.session_write("acme", "lin", "s", turns=said(*words), **{"mode": "append", **given})


async def test_an_increment_without_ids_follows_and_a_grown_transcript_is_recognised(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        await add(memory, "你好", "ok")
        await add(memory, "ok")
        assert await texts(memory) == ["你好", "ok", "ok"], "not the beginning of what is there: it follows"
        grown = await add(memory, "你好", "ok", "ok", "I live in Oslo.")
        assert (grown.counts["events_written"], grown.counts["turns_already_there"]) == (1, 3)
        again = await add(memory, "你好", "ok", "ok", "I live in Oslo.")
        assert again.counts["events_written"] == 0
        await add(memory, "你好", "bye")
        assert await texts(memory) == ["你好", "ok", "ok", "I live in Oslo.", "你好", "bye"]
        kept = await memory.parts.archive.read_turns(STEWARD, KEY)
        assert [t.turn.turn_id for t in kept] == [f"t{n:04d}" for n in range(1, 7)]
        once = await add(memory, *await texts(memory), "还有", mode="once")
        assert (once.status, once.counts["turns_unseen"]) == ("skipped_existing", 1)
        assert [d.what for d in once.degraded if d.what == "unseen_turns"]
        other = await add(memory, "another conversation", "ok", mode="once")
        assert other.counts["turns_unseen"] == 1, "what the session does not hold is named, whatever its number"
        assert (await memory.verify()).ok


async def test_an_increment_whose_call_failed_is_not_said_twice(tmp_path: Path) -> None:
    async with opened(tmp_path, endless(allergy)) as memory:
        await add(memory, "你好", extract=False)
        dead = ScriptedLLM(by_prompt={TAGGING: [ModelFailed("away")], SUMMARY: [ModelFailed("away")]})
        failed = await add(memory, "ok", llm=dead)
        assert failed.status == "failed"
        assert (await memory.bind("acme", "lin").lexical_search("ok")).items, "failed, and found at once"
        assert (await add(memory, "ok", llm="rules")).status == "ok"
        assert await texts(memory) == ["你好", "ok"]
        await add(memory, "ok", llm="rules")
        assert await texts(memory) == ["你好", "ok", "ok"], "answered before: this one was said once more"


async def test_numbers_go_round_ids_that_somebody_gave(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        named = [{"turn_id": "t0003", "role": "user", "text": "one"}, {"turn_id": "x", "role": "user", "text": "two"}]
        await memory.session_write("acme", "lin", "s", turns=named, extract=False)
        await add(memory, "three", "four", extract=False)
        kept = await memory.parts.archive.read_turns(STEWARD, KEY)
        assert [t.turn.turn_id for t in kept] == ["t0003", "x", "t0004", "t0005"]


# --- taken away, and sent again


async def test_what_expired_comes_back_and_what_was_forgotten_does_not(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        await add(memory, "I live in Oslo.", "我对花生过敏。", "ok", extract=False)
        await memory.parts.archive.forget_turns(STEWARD, KEY, ["t0001"], "expired")
        await memory.parts.archive.forget_turns(STEWARD, KEY, ["t0002"], "forgotten")
        for _ in range(2):
            again = await add(memory, "I live in Oslo.", "我对花生过敏。", "ok", "bye")
            assert sorted(await texts(memory)) == ["I live in Oslo.", "bye", "ok"]
        assert [d for d in again.degraded if d.what == "forgotten"]
        assert (await memory.bind("acme", "lin").lexical_search("Oslo")).items
        assert (await memory.verify(check_index=False)).ok
        by_id = [{"turn_id": "t0002", "role": "user", "text": "我对花生过敏。"}]
        told = await memory.session_write("acme", "lin", "s", turns=by_id, mode="append")
        assert [d for d in told.degraded if d.what == "forgotten"]


# --- a second call heals


@pytest.mark.parametrize("first", ["missing", "dead", "wrong", "one extractor"])
async def test_the_same_call_with_a_working_model_makes_up_for_what_is_owed(tmp_path: Path, first: str) -> None:
    broken = tagging(tag(TALK[0], "我对花生过敏", turn_id="9"))
    llm = {
        "missing": None,
        "dead": ScriptedLLM(by_prompt={TAGGING: [ModelFailed("away")], SUMMARY: [ModelFailed("away")]}),
        "wrong": model(script(broken), {TAGGING: [broken]}),
        "one extractor": model(script(tagging(tag(TALK[0], "我对花生过敏")), more={PROFILE: [ModelFailed("away")]})),
    }[first]
    async with opened(tmp_path, llm) as memory:
        told = await memory.session_write("acme", "lin", "s", turns=TALK, llm_policy="best_effort")
        assert told.status == "ok"
        assert [d for d in told.degraded if d.what != "embedder"]
        assert told.claims == ()
        clock = memory.parts.clock
        assert isinstance(clock, FixedClock)
        clock.tick(days=400)
        await memory.sweep()
        assert len((await memory.bind("acme", "lin").messages_list()).items) == 4, "words do not lapse"
    async with opened(tmp_path, endless(allergy)) as memory:
        healed = await memory.session_write("acme", "lin", "s", turns=TALK, llm_policy="best_effort")
        assert healed.status == "ok"
        assert [c.statement for c in healed.claims] == ["用户对花生过敏"]
        assert len((await memory.claims("acme", "lin")).items) == 1
        again = await memory.session_write("acme", "lin", "s", turns=TALK)
        assert (again.status, again.counts["turns_unseen"]) == ("skipped_existing", 0)
        assert (await memory.verify()).notes == []


async def test_a_session_has_no_cap_and_a_commit_has(tmp_path: Path) -> None:
    many = [{"turn_id": f"{n}", "role": "user", "text": f"I like {word}{word}ne."} for n, word in enumerate(PLENTY)]
    async with opened(tmp_path) as memory:
        written = await memory.session_write("acme", "lin", "s", turns=many)
        assert len(written.claims) == len(PLENTY) > 20
        committed = await memory.commit_session("acme", "wu", "s", turns=many)
        assert len(committed.claims) == 20


async def test_what_was_lent_is_given_back_when_somebody_else_finishes(tmp_path: Path) -> None:
    async with opened(tmp_path, None) as memory:
        await memory.session_write("acme", "lin", "s", turns=TALK, llm=model(script(tagging())), wait="archived")
        assert len(memory.parts.writer.lent) == 1
        await memory.session_write("acme", "lin", "s", turns=TALK, llm="rules")
        assert memory.parts.writer.lent == {}
