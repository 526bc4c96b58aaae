"""`mnemon jobs`: what waits and failed is listed, shown whole, and put back; errors name the job."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mnemon import AsyncMemory, Config, Memory
from mnemon.contracts.errors import InvalidArgument, MnemonError, NotFound
from mnemon.contracts.jobs import Job, JobKind, JobStatus
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.drivers.queue.fs import FsQueue
from mnemon.surfaces.cli import cli
from mnemon.surfaces.cli.output import console
from mnemon.testing.clock import FixedClock

CHAT = {"owner_kind": "group", "owner_id": "爬山群", "call": {"new_info": "周六去青城山"}}


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["jobs", *arguments, "--home", str(home), "--embedder", "hash"])


def run_json(home: Path, *arguments: str) -> Any:
    result = run(home, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


async def fill(home: Path) -> None:
    """One that waits, one that failed, one under way, and one of another kind that failed."""
    queue = FsQueue(home / "queue", FixedClock(datetime.now(UTC)), failed_kept=2)
    jobs = [Job(f"end-{n}", JobKind.END, "acme", CHAT, lane="acme\ngroup") for n in range(2)]
    odd = [Job(f"index-{n}", JobKind.INDEX, "acme", {"session_id": "s"}) for n in range(4)]
    await queue.put([*jobs, *odd])
    await queue.claim("w", limit=4)
    await queue.fail("index-0", "EmbedderFailed: away", retryable=False)
    await queue.fail("index-1", "EmbedderFailed: away", retryable=False)
    await queue.fail("end-0", "InvalidArgument: no chat", retryable=False)  # the oldest of three goes aside
    await queue.fail("index-2", "NotFound: session", retryable=False)
    await queue.close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(console, "width", 200)  # whatever the terminal, no word of the table is cut
    asyncio.run(fill(tmp_path))
    return tmp_path


def names(found: Any) -> list[str]:
    return [item["job_id"] for item in found["items"]]


def test_jobs_are_listed_by_status_and_kind(home: Path) -> None:
    everything = run_json(home, "list")
    assert names(everything) == ["end-1", "index-1", "index-2", "index-3"]
    assert everything["set_aside"] == 2
    assert names(run_json(home, "list", "--status", "failed")) == ["index-1", "index-2"]
    assert names(run_json(home, "list", "--kind", "end")) == ["end-1"]
    assert names(run_json(home, "list", "--kind", "index", "--limit", "1")) == ["index-1"]
    shown = run(home, "list").output
    assert "爬山群" in shown
    assert "EmbedderFailed: away" in shown
    assert "0:00:0" in shown, "its age"
    assert "2 older failed jobs are set aside" in run(home, "list", "--status", "failed").output
    assert "set aside" not in run(home, "list", "--status", "pending").output
    assert "no jobs" in run(home, "list", "--kind", "move").output


def test_a_job_is_shown_whole(home: Path) -> None:
    job = run_json(home, "show", "end-1")
    assert (job["kind"], job["payload"], job["lane"]) == ("end", CHAT, "acme\ngroup")
    shown = run(home, "show", "end-1").output
    assert '"new_info": "周六去青城山"' in shown
    assert "max_retries" in shown


def test_failed_jobs_are_put_back(home: Path) -> None:
    assert run_json(home, "retry", "index-1", "index-2") == {"retried": 2}
    again = run_json(home, "show", "index-1")
    assert (again["status"], again["attempts"], again["error"]) == ("pending", 0, None)
    assert run_json(home, "list", "--status", "failed")["items"] == []


def test_all_failed_jobs_of_a_kind_are_put_back(home: Path) -> None:
    assert run_json(home, "retry", "--all", "--kind", "end") == {"retried": 0}
    assert "2 jobs wait again" in run(home, "retry", "--all").output


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("show", "nobody"), 4, "nobody"),
        (("retry", "index-1", "nobody"), 4, "nobody"),
        (("retry",), 2, "--all"),
        (("retry", "index-1", "--all"), 2, "--all"),
        (("retry", "index-1", "--kind", "end"), 2, "--all"),
        (("retry", "--all", "--kind", "ending"), 2, "digest"),
        (("list", "--kind", "ending"), 2, "digest"),
        (("list", "--status", "lost"), 2, "pending"),
    ],
)
def test_errors_name_what_is_wrong(home: Path, arguments: tuple[str, ...], code: int, word: str) -> None:
    error = run(home, *arguments).exception
    assert isinstance(error, MnemonError)
    assert error.exit_code == code
    assert word in error.message


def test_the_engine_says_the_same(home: Path) -> None:
    with Memory(home, embedder=HashEmbedder(), config=Config(background_worker=False)) as memory:
        assert [job.job_id for job in memory.jobs("failed", kind="index")] == ["index-1", "index-2"]
        assert memory.job("end-1").status is JobStatus.PENDING
        stats = memory.job_stats()
        assert (stats.pending, stats.claimed, stats.failed, stats.set_aside) == (2, 0, 2, 2)
        with pytest.raises(NotFound, match="nobody"):
            memory.job("nobody")
        with pytest.raises(NotFound, match="nobody"):
            memory.retry_job("nobody")
        with pytest.raises(InvalidArgument, match="digest"):
            memory.retry_jobs("ending")
        assert memory.retry_jobs(JobKind.INDEX) == 2
        assert memory.job_stats().pending == 4


def test_reading_destroys_no_work_and_a_worker_uses_the_model_it_is_given(tmp_path: Path) -> None:
    place = ["--home", str(tmp_path), "--embedder", "hash"]
    with Memory(tmp_path, llm="rules", embedder="hash", config=Config(background_worker=False)) as memory:
        memory.session_write("t", "u", "s", turns=[{"role": "user", "text": "I like quince."}], wait="archived")

    def command(*arguments: str) -> Any:
        result = CliRunner().invoke(cli, [*arguments, *place, "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    who = ("--tenant", "t", "--user", "u")
    for _ in range(4):
        assert command("messages", "lexical", "quince", *who)["items"]
        (job,) = command("jobs", "list")["items"]
        assert (job["status"], job["awaits"], job["attempts"]) == ("pending", "", 0), "nobody has touched it"
    for _ in range(5):
        assert command("worker", "--once") == {"succeeded": 0, "failed": 0}
    (job,) = command("jobs", "list")["items"]
    assert (job["status"], job["awaits"], job["attempts"]) == ("pending", "model", 0)
    assert "1 of them for a model" in CliRunner().invoke(cli, ["status", *place]).output
    assert command("worker", "--once", "--llm", "rules")["succeeded"] == 1
    assert command("claims", "list", *who)["items"]
    assert command("jobs", "list")["items"] == []


async def test_a_memory_that_only_reads_does_no_work(tmp_path: Path) -> None:
    with Memory(tmp_path, llm="rules", embedder="hash", config=Config(background_worker=False)) as memory:
        memory.session_write("t", "u", "s", turns=[{"role": "user", "text": "I like quince."}], wait="archived")
    async with AsyncMemory(tmp_path, llm="rules", embedder="hash", config=Config(poll_interval_seconds=0.02)) as memory:
        await memory.bind("t", "u").messages_list()
        await memory.retrieval("what do I like?", "t", "u")
        await memory.status()
        await asyncio.sleep(0.2)
        assert len(await memory.jobs()) == 1
        await memory.start_worker()
        for _ in range(500):
            if not await memory.jobs():
                return
            await asyncio.sleep(0.02)
        raise AssertionError("nobody took the job up")
