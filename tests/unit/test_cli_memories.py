"""The command line over memories: what was remembered, who decides about it, how it is forgotten."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mnemon.surfaces.cli import cli, main

WHO = ("--tenant", "t", "--user", "u")
SAID = [
    {"role": "user", "content": "我对花生过敏。", "timestamp": "2026-03-09T11:03:10Z"},
    {"role": "user", "content": "I love spicy food.", "timestamp": "2026-03-09T11:03:40Z"},
    {"role": "assistant", "content": "You must be from Sichuan!", "timestamp": "2026-03-09T11:04:00Z"},
]
LATER = [{"role": "user", "content": "I don't like spicy food any more.", "timestamp": "2026-05-09T11:03:10Z"}]


def run(home: Path, *arguments: str, **given: Any) -> Result:
    options = ["--home", str(home), "--embedder", "hash", "--llm", "rules"]
    return CliRunner().invoke(cli, [*arguments, *options], **given)


def run_json(home: Path, *arguments: str) -> Any:
    result = run(home, *arguments, "--json")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return json.loads(result.stdout)


def ingest(home: Path, session: str, messages: list[dict[str, str]], *options: str) -> Result:
    path = home.parent / f"{session}.json"
    path.write_text(json.dumps(messages, ensure_ascii=False), encoding="utf-8")
    return run(home, "ingest", str(path), "--input-format", "openai_messages_v1", *WHO, *options)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    first = ingest(home, "first", SAID)
    assert first.exit_code == 0, first.output
    assert "facts written 2" in first.output
    assert "“我对花生过敏”" in first.output
    return home


def claims(home: Path, *options: str) -> dict[str, dict[str, Any]]:
    return {c["statement"]: c for c in run_json(home, "claims", "list", *WHO, *options)["items"]}


def test_a_change_is_shown_and_the_old_claim_stays_readable(home: Path) -> None:
    later = ingest(home, "later", LATER)
    assert "superseded: User loves spicy food" in later.output
    assert "User loves spicy food" not in claims(home)
    old = claims(home, "--state", "all")["User loves spicy food"]
    assert (old["state"], old["valid_to"]) == ("superseded", "2026-05-09T11:03:10Z")
    table = run(home, "claims", "list", *WHO, "--state", "superseded")
    first_column = " ".join(re.findall(r"^│ ([^│]*?) *│", table.output, flags=re.MULTILINE))
    assert "held from 2026-03-09 to 2026-05-09" in first_column


def test_memories_are_listed_read_renamed_and_their_history_told(home: Path) -> None:
    ingest(home, "later", LATER)
    (food,) = run_json(home, "nodes", "list", "--shelf", "preferences", *WHO)
    assert "I love spicy food" in run(home, "nodes", "show", food["uri"], *WHO).output
    assert "version 1" in run(home, "nodes", "history", food["uri"], *WHO).output
    (peanuts,) = [n["uri"] for n in run_json(home, "nodes", "list", *WHO) if n["uri"] != food["uri"]]
    assert "part_of" in run(home, "nodes", "relate", peanuts, food["uri"], "--type", "part_of", *WHO).output
    moved = run_json(home, "nodes", "move", food["uri"], "taste", *WHO)["uri"]
    (edge,) = run_json(home, "nodes", "relations", moved, "--hops", "2", *WHO)
    assert (edge["from_uri"], edge["relation_type"], edge["to_uri"]) == (peanuts, "part_of", moved)
    assert run_json(home, "nodes", "unrelate", peanuts, *WHO) == {"removed": 1}
    assert "no relations" in run(home, "nodes", "relations", peanuts, *WHO).output
    assert moved.endswith("/taste")
    assert run(home, "nodes", "show", food["uri"], *WHO).exit_code != 0
    assert run_json(home, "verify")["ok"]
    assert run_json(home, "verify")["report"]["notes"] == []
    assert {c["node_uri"] for c in claims(home, "--shelf", "preferences").values()} == {moved}


def test_a_claim_is_corrected_rejected_and_shown(home: Path) -> None:
    spicy = claims(home)["User loves spicy food"]["claim_id"]
    better = run_json(home, "claims", "correct", spicy, "User loves Sichuan food", "--reason", "told us", *WHO)
    assert (better["statement"], better["corrected_from"]) == ("User loves Sichuan food", "User loves spicy food")
    assert run_json(home, "claims", "show", spicy, *WHO)["statement"] == "User loves Sichuan food"
    assert "rejected: User loves Sichuan food" in run(home, "claims", "reject", spicy, *WHO).output
    assert set(claims(home, "--state", "all")) == {"用户对花生过敏"}
    assert run_json(home, "pending", *WHO)["items"] == []
    assert run(home, "claims", "confirm", spicy, *WHO).exit_code != 0


def test_forgetting_asks_first_and_gives_a_receipt(home: Path) -> None:
    asked = run(home, "forget", "--tenant", "t", "--user", "u", "--session", "first", input="n\n")
    assert asked.exit_code != 0
    assert claims(home)
    done = run(home, "forget", "--tenant", "t", "--user", "u", "--session", "first", "--yes")
    assert done.exit_code == 0
    assert "forgotten: session first" in done.output
    assert "3 turns" in done.output
    assert claims(home, "--state", "all") == {}
    assert run_json(home, "verify")["ok"]
    assert "out of sight: 0 claims" in run(home, "sweep").output


def test_a_commit_can_be_rehearsed(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "later.json"
    path.write_text(json.dumps(LATER), encoding="utf-8")
    before = {p: p.read_bytes() for p in home.rglob("tenants/**/*") if p.is_file()}
    arguments = ("commit", str(path), "--input-format", "openai_messages_v1", *WHO)
    dry = run(home, *arguments, "--dry-run")
    assert "nothing was written" in dry.output
    assert "1 superseded" in dry.output.replace("\n", " ")
    assert {p: p.read_bytes() for p in home.rglob("tenants/**/*") if p.is_file()} == before
    real = run_json(home, *arguments)
    assert (real["status"], real["stats"]["nodes_merged"]) == ("success", 1)
    assert run(home, *arguments, "--shelf", "attic").exit_code != 0


def test_words_only_and_a_missing_model(tmp_path: Path) -> None:
    home = tmp_path / "bare"
    assert "facts written 0" in ingest(home, "w", SAID, "--words-only").output
    path = home.parent / "w.json"
    plain = ["ingest", str(path), "--input-format", "openai_messages_v1", *WHO, "--home", str(home), "--session", "x"]
    told = CliRunner().invoke(cli, [*plain, "--embedder", "hash"])
    assert told.exit_code == 0
    assert "no language model is configured" in told.output.replace("\n", " ")
    refused = CliRunner().invoke(cli, [*plain, "--embedder", "hash", "--require-llm"])
    assert refused.exit_code != 0


def test_used_tools_are_counted_and_a_disk_that_refuses_says_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home, said, used = tmp_path / "home", tmp_path / "said.json", tmp_path / "used.json"
    said.write_text(json.dumps(SAID, ensure_ascii=False), encoding="utf-8")
    used.write_text('[{"name": "pytest", "call_count": 3, "success_count": 2}]', encoding="utf-8")
    asked = ["commit", str(said), "--input-format", "openai_messages_v1", *WHO, "--used-tools", str(used)]
    made = run_json(home, *asked, "--trace-id", "cli-7")
    assert [c["tool"]["success_count"] for c in made["claims"] if c["tool"]] == [2]
    assert made["debug"]["trace_id"] == "cli-7"
    used.write_text("{}", encoding="utf-8")
    assert "--used-tools must hold a list" in str(run(home, *asked).exception)
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(
        "sys.argv", ["mnemon", "status", "--home", str(tmp_path / "file" / "home"), "--embedder", "hash"]
    )
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 7
    told = " ".join(capsys.readouterr().err.split())
    assert "not a directory" in told
    assert "move it away" in told
