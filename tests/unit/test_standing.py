"""A replica that is missing, stale or broken is said in every answer and brought up meanwhile; writes go on; a home
that nobody can write to is read all the same."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mnemon import Config, Memory
from mnemon.engine import standing
from mnemon.surfaces.cli import cli

QUIET = Config(background_worker=False)
WORDS = {"a": "I live in Rome.", "b": "我喜欢乌龙茶。", "c": "My sister Wei lives in Lisbon."}


def opened(home: Path, config: Config | None = None) -> Memory:
    return Memory(home, llm="rules", embedder="hash", config=config or Config())


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("standing") / "home"
    with opened(home, QUIET) as memory:
        for session, text in WORDS.items():
            memory.session_write("t", "u", session, turns=[{"role": "user", "text": text}])
    return home


@pytest.fixture
def home(filled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(filled, tmp_path / "home", symlinks=True)


def delete(path: Path) -> None:
    path.unlink()


def garbage(path: Path) -> None:
    path.write_bytes(os.urandom(20_000))


def broken_pages(path: Path) -> None:
    """The head is whole, so it opens; what is asked for is not."""
    data = bytearray(path.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    path.write_bytes(bytes(data))


def said(memory: Memory) -> dict[str, Any]:
    """What every door says of the replica."""
    bound = memory.bind("t", "u")
    return {
        "retrieval": memory.retrieval("Where do I live?", "t", "u", strategy="dialog_v2").debug.degraded,
        "recall": memory.recall("Where do I live?", "t", "u").degraded,
        "search": memory.search("Rome", tenant_id="t", user_id="u").trace.get("degraded", ()),
        "messages": bound.messages_list().degraded,
        "words": bound.lexical_search("Rome").degraded,
        "meaning": bound.semantic_search("Rome").degraded,
        "claims": memory.claims("t", "u").degraded,
        "status": memory.status().degraded,
    }


@pytest.mark.parametrize("damage", [delete, garbage, broken_pages])
def test_a_missing_or_broken_index_is_said_at_every_door(home: Path, damage: Any) -> None:
    damage(home / "index.db")
    with opened(home, QUIET) as memory:
        answers = said(memory)
        assert {name for name, found in answers.items() if [d.what for d in found] != ["index_behind"]} == set()
        assert "mnemon repair" in answers["recall"][0].why
        assert any("index.db" in warning for warning in memory.status().warnings)
        assert memory.session_write("t", "u", "d", turns=[{"role": "user", "text": "I love figs."}]).status == "ok"
        memory.repair()
        assert [n for n in memory.verify().notes if "broken" not in n.where] == []
        assert len(memory.bind("t", "u").lexical_search("Rome OR figs").items) == 2


@pytest.mark.parametrize("damage", [delete, garbage, broken_pages])
@pytest.mark.parametrize("name", ["index.db", "graph.db"])
def test_it_is_brought_up_while_it_answers(home: Path, name: str, damage: Any) -> None:
    damage(home / name)
    with opened(home) as memory:
        assert [h.message.content for h in memory.bind("t", "u").lexical_search("Rome").items] == [WORDS["a"]]
        assert "Rome" in memory.recall("Where do I live?", "t", "u").answer
        assert memory.graph("t", "u").events().items
        assert dict.fromkeys(said(memory).values()) == {(): None}
        assert memory.verify().notes == []
    assert not list(home.glob("*.broken-*")), "it held everybody's words, and nothing that is not here"


def test_what_takes_longer_is_said_meanwhile(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    delete(home / "index.db")
    monkeypatch.setattr(standing, "PATIENCE_S", 0.0)
    with opened(home) as memory:
        (first,) = memory.bind("t", "u").lexical_search("Rome").degraded
        assert (first.what, "being brought up" in first.why) == ("index_behind", True)
        for _ in range(500):
            if not memory.status().degraded:
                break
        assert memory.bind("t", "u").lexical_search("Rome").degraded == ()


def test_an_index_of_yesterday_is_noticed(home: Path) -> None:
    shutil.copy(home / "index.db", home / "yesterday")
    with opened(home, QUIET) as memory:
        memory.session_write("t", "u", "d", turns=[{"role": "user", "text": "I love figs."}])
    shutil.copy(home / "yesterday", home / "index.db")
    with opened(home, QUIET) as memory:
        (told,) = memory.bind("t", "u").lexical_search("figs").degraded
        assert "1 of the newest sessions" in told.why
        assert memory.bind("t", "somebody else").lexical_search("figs").degraded == ()
    with opened(home) as memory:
        assert len(memory.bind("t", "u").lexical_search("figs").items) == 1


def test_two_who_have_it_open_do_not_take_it_from_each_other(home: Path) -> None:
    with opened(home, QUIET) as one:
        assert one.bind("t", "u").lexical_search("Rome").items
        garbage(home / "graph.db")
        with opened(home) as other:
            assert "another process" in other.status().warnings[-1]
            assert other.graph("t", "u").events().items
        assert not list(home.glob("*.broken-*"))
    with opened(home) as memory:
        assert memory.graph("t", "u").events().items


def test_the_command_line_says_it(home: Path) -> None:
    delete(home / "index.db")
    shutil.rmtree(home / "tenants/t/users/u/sessions/a/archives")  # so that bringing it up is not all there is to do
    run = CliRunner().invoke(cli, ["status", "--home", str(home), "--embedder", "hash", "--json"])
    assert any("index.db was not there" in warning for warning in json.loads(run.stdout)["warnings"])
    run = CliRunner().invoke(cli, ["verify", "--home", str(home), "--embedder", "hash", "--json"])
    assert run.exit_code == 1
    assert "commit 1 is not here" in run.stdout
    run = CliRunner().invoke(cli, ["repair", "--home", str(home), "--embedder", "hash", "--json"])
    assert {r["how"] for r in json.loads(run.stdout)["repairs"]} == {"salvaged"}


READER = """
import json, os, sys
from mnemon import Memory
home, out = sys.argv[1:]


def looked(memory, out):
    found = [h.message.content for h in memory.bind("t", "u").lexical_search("Rome").items]
    answer = memory.recall("Where do I live?", "t", "u").answer
    proof = memory.verify()
    exported = memory.export(out)
    return found, answer, proof.ok, [n.kind for n in proof.notes], exported.files, memory.status().warnings


with Memory(":memory:", llm="rules", embedder="hash") as memory:  # what is imported late is imported while it can be
    memory.session_write("t", "u", "s", turns=[{"role": "user", "text": "I live in Rome."}])
    looked(memory, out + "-before.zip")
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    open(os.path.join(home, "probe"), "w")
except OSError:
    pass
else:
    raise SystemExit("the home can be written to: this shows nothing")
with Memory(home, llm="rules", embedder="hash") as memory:
    print(json.dumps(looked(memory, out)))
"""


@pytest.mark.skipif(
    os.getuid() != 0 or sys.platform == "win32", reason="drops its rights to another user's, which needs root"
)
@pytest.mark.parametrize("without", ["", "index.db", "graph.db"])
def test_a_home_nobody_can_write_to_is_read_proven_and_exported(filled: Path, without: str) -> None:
    """By a process without rights: for root nothing is read-only."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        home = shutil.copytree(filled, Path(place) / "home", symlinks=True)
        if without:
            (home / without).unlink()
        for path in [home, *home.rglob("*")]:
            if not path.is_symlink():
                path.chmod(0o555 if path.is_dir() else 0o444)
        _read_by_nobody(home, Path(place) / "out")


def _read_by_nobody(home: Path, out: Path) -> None:
    out.mkdir()
    out.chmod(0o777)
    before = {p: p.stat().st_mtime_ns for p in home.rglob("*") if p.is_file()}
    done = subprocess.run(
        [sys.executable, "-c", READER, str(home), str(out / "export.zip")],
        capture_output=True, text=True, env={**os.environ, "HOME": str(out), "TMPDIR": str(out)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found, answer, ok, notes, files, warnings = json.loads(done.stdout.splitlines()[-1])
    assert (found, ok, notes) == ([WORDS["a"]], True, [])
    assert "Rome" in answer
    assert files > 10
    assert any("cannot be written to" in warning for warning in warnings)
    assert {p: p.stat().st_mtime_ns for p in home.rglob("*") if p.is_file()} == before
    with opened(out / "taken", QUIET) as memory:
        assert memory.import_archive(out / "export.zip").conflicts == ()
