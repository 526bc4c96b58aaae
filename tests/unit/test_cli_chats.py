"""`mnemon end`, `context`, `events`, `profile`, `tools`: what a person sees, and what a program gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mnemon import errors, tools
from mnemon.surfaces.cli import cli, output, profiles

HOME = ["--embedder", "hash", "--llm", "rules"]
WHEN = ["--timestamp", "2026-02-21T14:30:00+08:00", "--timezone", "Asia/Shanghai"]


@pytest.fixture
def home(tmp_path: Path) -> list[str]:
    """Where nothing is done but by `mnemon worker`."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "mnemon.toml").write_text("background_worker = false\n")
    return ["--home", str(tmp_path / "home"), *HOME]


def run(*words: str, given: str | None = None) -> Result:
    return CliRunner().invoke(cli, list(words), input=given, catch_exceptions=False)


def ok(*words: str, given: str | None = None) -> str:
    done = run(*words, given=given)
    assert done.exit_code == 0, done.output
    return done.stdout


def told(*words: str, given: str | None = None) -> Any:
    return json.loads(ok(*words, "--json", given=given))


def ended(home: list[str], number: int, *words: str) -> str:
    who = ["--tenant", "acme", "--user", "ann", "--sender-name", "Ann", "--bot-name", "Bot"]
    return ok("end", *who, "--request-id", f"r{number}", "--end-seq", "1", *words, *WHEN, *home)


@pytest.fixture
def known(home: list[str]) -> list[str]:
    """Two things are known of Ann."""
    for number, learnt in ((1, "Ann lives in Berlin"), (2, "Ann likes green tea")):
        assert ended(home, number, "--new-info", learnt) == f"queued: r{number}:1\n"
        ok("worker", "--once", *home)
    return ["--tenant", "acme", "--user", "ann", *home]


def test_a_turn_is_told_by_options_or_as_a_whole(home: list[str]) -> None:
    assert ended(home, 1, "--action-summary", "Answered Ann") == "queued: r1:1\n"
    assert ended(home, 1, "--action-summary", "Answered Ann") == "duplicate: r1:1\n"
    assert ended(home, 2) == "empty: r2:1\n"
    message = {"message_id": "m1", "sender_id": "ann", "text": "I move to Munich"}
    whole = {
        "request_id": "r3",
        "end_seq": 2,
        "new_info": "Ann moves to Munich",
        "messages": [message],
        "group_id": "g",
    }
    given = json.dumps(whole)
    result = told("end", "--tenant", "acme", "--user", "ann", "--json-file", "-", *home, given=given)
    assert (result["status"], result["event_id"]) == ("queued", "r3:2")


def test_an_old_summary_is_taken_with_a_notice(home: list[str]) -> None:
    given = json.dumps({"request_id": "r1", "end_seq": 1, "summary": "Answered Ann", "user_id": "ann"})
    done = run("end", "--tenant", "acme", "--json-file", "-", *home, given=given)
    assert done.stdout == "queued: r1:1\n"
    assert "deprecated" in done.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "not JSON"),
        ("[1]", "expected an object"),
        ('{"new_inf": "x"}', "did you mean new_info"),
        ('{"tenant_id": "other"}', "end takes no 'tenant_id'"),
        ('{"end_seq": 1}', "say --request-id"),
        ('{"request_id": "r1"}', "say --end-seq"),
        ('{"request_id": "r1", "end_seq": -1}', "from 0 on"),
    ],
)
def test_a_turn_that_makes_no_sense_is_told_what_is_wrong(home: list[str], given: str, said: str) -> None:
    with pytest.raises(errors.InvalidArgument) as refused:
        run("end", "--tenant", "acme", "--user", "ann", "--json-file", "-", *home, given=given)
    assert said in refused.value.message


def test_events_are_shown_with_the_words_they_rest_on(known: list[str]) -> None:
    shown = ok("events", "Berlin", *known)
    assert "Berlin" in shown
    assert "“Ann lives" in shown
    (hit, *_) = told("events", "Berlin", "--top-k", "1", *known)["items"]
    assert hit["metadata"]["request_id"] == "r1"
    assert "nothing found" in ok("events", "Berlin", "--to", "2026-01-01T00:00:00Z", *known)
    assert "nothing found" in ok("events", "Berlin", "--target-user", "bob", "--group", "g", *known)
    assert run("events", "Berlin", "--tenant", "acme").exit_code == 2


def test_the_context_is_a_piece_of_prompt(known: list[str]) -> None:
    shown = ok("context", "Where does Ann live?", *known)
    assert "Berlin" in shown
    made = told("context", "Where does Ann live?", "--top-k", "1", "--max-tokens", "300", *known)
    assert made["tokens"] <= 300
    assert len(made["events"]) <= 1
    nobody = [*known[:2], "--user", "bob", *known[4:]]
    assert ok("context", "tea", *nobody) == "nothing is known\n"


def test_a_profile_is_read_compared_and_taken_back(known: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    whose = ["user", "ann"]
    shown = ok("profile", "show", *whose, *known)
    assert shown.startswith("---\nentity_type: user\n")
    assert "green tea" in shown
    assert told("profile", "show", *whose, *known)["id"] == "user:ann"
    monkeypatch.setattr(profiles, "console", output.Console(force_terminal=True, width=100))
    on_screen = ok("profile", "show", *whose, *known)
    assert "Ann · user:ann" in on_screen
    assert "entity_type" not in on_screen
    monkeypatch.undo()
    assert "2 (in force)" in ok("profile", "history", *whose, *known)
    versions = [row["version"] for row in told("profile", "history", *whose, *known)["items"]]
    assert versions == [2, 1]
    assert "green tea" in ok("profile", "diff", *whose, "--from", "1", *known)
    assert told("profile", "diff", *whose, "--from", "1", "--to", "2", *known)["to_version"] == 2
    assert "no difference" in ok("profile", "diff", *whose, "--from", "2", *known)
    assert "green tea" not in ok("profile", "rollback", *whose, "1", *known)
    assert told("profile", "history", *whose, *known)["items"][0]["version"] == 3
    with pytest.raises(errors.NotFound):
        run("profile", "rollback", *whose, "9", *known)
    with pytest.raises(errors.NotFound):
        run("profile", "show", "user", "bob", *known)


def test_profiles_are_found_by_what_they_say(known: list[str]) -> None:
    assert "user:ann" in ok("profile", "search", "green tea", *known)
    (hit,) = told("profile", "search", "green tea", "--type", "user", "--id", "ann", *known)["items"]
    assert hit["entity_id"] == "ann"
    assert "nothing found" in ok("profile", "search", "green tea", "--type", "group", *known)


def test_the_tools_are_printed_for_a_request(home: list[str]) -> None:
    assert json.loads(ok("tools", *home)) == tools.tool_definitions("openai", "zh")
    printed = told("tools", "--form", "anthropic", "--language", "en", *home)
    assert printed == tools.tool_definitions("anthropic", "en")
    assert ok("tools", "--prompt", "--language", "en", *home) == tools.prompt_text("en")
    assert told("tools", "--prompt", *home) == {"prompt": tools.prompt_text("zh")}
    assert run("tools", "--form", "gemini").exit_code == 2


def test_the_status_says_how_the_historian_does(known: list[str]) -> None:
    home = known[4:]
    ended(home, 3, "--action-summary", "Answered Ann")
    shown = ok("status", *home)
    assert "2 events, by rules" in shown
    assert "1 waiting (0 tried before)" in shown
    assert "0 rewrites" in shown
    state = told("status", *home)["historian"]
    assert (state["enabled"], state["waiting"], state["events"], state["failed"]) == (True, 1, 2, 0)
    assert state["failure_rate"] == 0.0
    assert state["latency_p95_s"] >= state["latency_p50_s"] > 0
    assert state["oldest_waiting_s"] > 0


def test_a_historian_that_is_switched_off_says_so(home: list[str], tmp_path: Path) -> None:
    config = tmp_path / "off.toml"
    config.write_text("[cognitive]\nenabled = false\n")
    off = [*home, "--config", str(config)]
    assert ended(off, 1, "--new-info", "Ann lives in Berlin") == "disabled: r1:1\n"
    assert "switched off" in ok("status", *off)
