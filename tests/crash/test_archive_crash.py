"""The archive under `kill -9`: nothing acknowledged is lost or twice, nothing is half, and it always goes on."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from archive_writer import TREASURE, ZED, SystemClock, words
from forkserver import Forks

from mnemon.contracts.errors import NotFound
from mnemon.contracts.nodes import NodeKey
from mnemon.drivers.archive.fs import FsArchive
from mnemon.testing.archive_suite import ANN, KEY, NODE, STEWARD, node

WRITER = Path(__file__).with_name("archive_writer.py")
KILLS = int(os.environ.get("MNEMON_CRASH_KILLS", "40"))
RUNS_A_HOME = 8
ROUNDS = 30
pytestmark = pytest.mark.crash


class Server(Forks):
    """The warm process that forks writers."""

    def run(
        self,
        home: Path,
        run: str,
        kill_at: str = "",
        lines: int | None = None,
        moment_s: float = 0.0,
        rounds: int = ROUNDS,
    ) -> tuple[int, str]:
        """How a writer ended, and what it said."""
        said = home.with_name(f"{home.name}.{run}.said")
        task = {"home": str(home), "run": run, "rounds": rounds, "kill_at": kill_at, "said": str(said)}
        pid = self.start(task)
        if lines is not None:
            self.kill(pid, said, lines, moment_s)
        status = self.wait()
        return status, said.read_text() if said.exists() else ""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server(WRITER)
    yield server
    server.close()


@dataclass
class Said:
    """What the writers of one home announced and acknowledged before they died."""

    announced: dict[str, list[str]] = field(default_factory=dict)
    acknowledged: dict[str, list[str]] = field(default_factory=dict)
    opened: set[str] = field(default_factory=set)
    forgetting: set[str] = field(default_factory=set)
    forgot: set[str] = field(default_factory=set)
    logging: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    claiming: dict[str, set[str]] = field(default_factory=dict)
    claimed: dict[str, set[str]] = field(default_factory=dict)
    committing: Counter[str] = field(default_factory=Counter)
    committed: Counter[str] = field(default_factory=Counter)
    erased: set[str] = field(default_factory=set)
    note: str = "-"
    notes_since: set[str] = field(default_factory=set)
    hidden: bool = False
    acknowledgements: int = 0

    def hear(self, output: str) -> None:
        for line in output.splitlines():
            verb, *rest = line.split(" ")
            self.acknowledgements += verb in ("said", "wrote", "logged", "forgot", "promised", "claimed", "erased")
            match verb:
                case "saying":
                    self.announced.setdefault(rest[0], []).extend(rest[1:])
                case "said":
                    self.acknowledged.setdefault(rest[0], []).extend(rest[1:])
                case "opened":
                    self.opened.add(rest[0])
                case "forgetting":
                    self.forgetting.add(rest[1])
                case "forgot":
                    self.forgot.add(rest[1])
                case "logging":
                    self.logging += [rest[0], rest[0] + "+"]
                case "logged":
                    self.logged += rest
                case "writing":
                    self.notes_since.add(rest[0])
                case "wrote":
                    self.note, self.notes_since = rest[0], set()
                case "claiming":
                    self.claiming.setdefault(rest[0], set()).update(rest[1:])
                case "claimed":
                    self.claimed.setdefault(rest[0], set()).update(rest[1:])
                case "committing":
                    self.committing[rest[0]] += 1
                case "committed":
                    self.committed[rest[0]] += 1
                case "erased":
                    self.erased.add(rest[0])
                case "hidden":
                    self.hidden = True


async def check(home: Path, said: Said) -> None:
    """As found, and again once repaired."""
    archive = FsArchive(home, SystemClock())
    for mended in (False, True):
        if mended:
            await archive.repair(STEWARD)
        report = await archive.verify(STEWARD)
        half_gone = ("users/zed/",) if mended else ("users/zed/", "sessions/gone-")
        assert [d for d in report.defects if not any(s in d.where for s in half_gone)] == [], f"mended: {mended}"
        await check_words(archive, said)
        await check_papers(archive, said)
        await check_log(archive, said)
        await check_nodes(archive, said)
    # A blob whose turn never came, and an empty folder of a long name that somebody may be about to write.
    assert {n.kind for n in report.notes} <= {"unreferenced", "unfinished"}
    assert await archive.repair(STEWARD) == []
    await check_erased(archive, home, said)


async def check_words(archive: FsArchive, said: Said) -> None:
    for session in said.opened:
        key = replace(KEY, session_id=session)
        stored = await archive.read_turns(ANN, key)
        assert all(s.turn == words(s.turn.turn_id) for s in stored), "verbatim"
        turns = {s.seq: s.turn.turn_id for s in stored}
        graves = {g.seq: g.turn_id for g in await archive.read_tombstones(ANN, key)}
        there = [turn_id for _, turn_id in sorted((turns | graves).items())]
        assert sorted(turns | graves) == list(range(1, len(there) + 1))
        assert len(there) == len(set(there)), "a turn is there twice"
        announced = said.announced.get(session, [])
        assert there == [t for t in announced if t in set(there)], "a turn out of order, or one nobody said"
        assert set(said.acknowledged.get(session, [])) <= set(there), "an acknowledged turn is lost"
        assert said.forgot & set(turns.values()) == set(), "a forgotten turn is back"
        assert set(graves.values()) <= said.forgetting, "a turn nobody wanted forgotten"


async def check_papers(archive: FsArchive, said: Said) -> None:
    for session in said.opened:
        key = replace(KEY, session_id=session)
        claims = {c.claim_id for c in await archive.read_claims(ANN, key)}
        assert said.claimed.get(session, set()) - said.forgetting <= claims, "an acknowledged claim is lost"
        assert claims <= said.claiming.get(session, set()), "a claim nobody made"
        assert claims & said.forgot == set(), "a claim about forgotten words"
        tags = {t.turn_id for tagging in await archive.read_tags(ANN, key) for t in tagging.output.tags}
        assert tags & said.forgot == set(), "a tag on forgotten words"
        numbers = [c.number for c in await archive.read_commits(ANN, key)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert said.committed[session] <= len(numbers) <= said.committing[session]


async def check_erased(archive: FsArchive, home: Path, said: Said) -> None:
    """What is said to be gone is gone, and whatever else was cut off goes when it is done again."""
    for session in said.erased - {"zed"}:
        key = replace(KEY, session_id=session)
        if await archive.read_session(ANN, key) is not None:
            assert await archive.read_turns(ANN, key) == []
            assert await archive.read_claims(ANN, key) == []
    await archive.erase_owner(STEWARD, ZED.owner)
    assert [path for path in home.rglob("*") if "zed" in path.parts or ".erased" in path.parts] == []
    assert (await archive.verify(STEWARD)).defects == []


async def check_log(archive: FsArchive, said: Said) -> None:
    names = [line.body["name"] for line in await archive.read_log(STEWARD, "ledger")]
    assert names == [name for name in said.logging if name in set(names)]
    assert len(names) == len(set(names))
    assert set(said.logged) <= set(names), "an acknowledged log line is lost"


async def read_text(archive: FsArchive, key: NodeKey) -> str:
    """The text of a node, checked to be whole; "-" where there is none."""
    try:
        found = await archive.read_node(ANN, key)
    except NotFound:
        return "-"
    text = found.abstract.removesuffix("!")
    expected = node(key, text)
    assert (found.overview, found.content) == (expected.overview, expected.content), "half a node"
    await archive.get_edges(ANN, key)
    assert len(await archive.revisions(ANN, key)) <= 5
    return text


async def check_nodes(archive: FsArchive, said: Said) -> None:
    text = await read_text(archive, NODE)
    assert text == said.note or text in said.notes_since, "neither the acknowledged version nor one on its way"
    if said.hidden:
        assert {await read_text(archive, key) for key in TREASURE} - {"-"} == {"treasure"}, "lost on the way"


@pytest.fixture(scope="module")
def steps(server: Server, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Every step a writer passes."""
    status, output = server.run(tmp_path_factory.mktemp("rehearsal") / "home", "r")
    assert status == 0
    assert output.endswith("finished\n")
    return [line.removeprefix("step ") for line in output.splitlines() if line.startswith("step ")]


async def test_killed_at_every_step(server: Server, steps: list[str], tmp_path: Path) -> None:
    assert len(steps) >= 20
    assert {name.split(".")[0] for name in steps} >= {
        "folder",
        "session",
        "turns",
        "forget",
        "revision",
        "node",
        "node_meta",
        "node_delete",
        "node_move",
        "relations",
        "tags",
        "claims",
        "commit",
        "papers",
        "unneeded",
        "erase",
        "blob",
        "ledger",
    }
    plan = [f"{name}:{hit}" for name in steps for hit in (1, 3)]
    random.Random(11).shuffle(plan)
    reached: set[str] = set()
    for start in range(0, len(plan), RUNS_A_HOME):
        said = Said()
        for n, kill_at in enumerate(plan[start : start + RUNS_A_HOME]):
            reached |= {kill_at} if await killed_there(server, tmp_path / f"{start}", f"r{n}", kill_at, said) else set()
    for name in steps:  # some steps are only passed in a new home
        if f"{name}:1" not in reached:
            assert await killed_there(server, tmp_path / f"new {name}", "r", f"{name}:1", Said()), name
    assert len(reached) >= 1.5 * len(steps)


async def killed_there(server: Server, home: Path, run: str, kill_at: str, said: Said) -> bool:
    status, output = server.run(home, run, kill_at)
    assert status in (-9, 0), output[-300:]
    said.hear(output)
    try:
        await check(home, said)
    except AssertionError as error:
        error.add_note(f"after {kill_at}")
        raise
    return status == -9


async def test_killed_at_random_times(server: Server, tmp_path: Path) -> None:
    chance = random.Random(20260101)
    killed = heard = 0
    for start in range(0, KILLS, RUNS_A_HOME):
        said = Said()
        home = tmp_path / f"{start}"
        for n in range(min(RUNS_A_HOME, KILLS - start)):
            status, output = server.run(home, f"r{n}", lines=chance.randint(0, 40), moment_s=chance.uniform(0, 0.02))
            said.hear(output)
            assert status in (-9, 0)
            killed += status == -9
            await check(home, said)
        heard += said.acknowledgements
        status, output = server.run(home, "last", rounds=6)
        said.hear(output)
        assert status == 0, "after all that, a writer still goes on"
        await check(home, said)
    assert killed >= KILLS * 0.6
    assert heard >= KILLS
