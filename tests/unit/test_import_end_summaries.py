"""An older bot's `end_summaries.json` becomes memories: every record, in its own chat, once."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mnemon import Config, Memory, errors
from mnemon.contracts.cognitive import CognitiveConfig
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.surfaces.cli import cli

GROUP = {"type": "group", "id": "10001", "name": "开发群"}
NAMED = {"type": "group", "name": "读书会"}
RECORDS: list[Any] = [
    {"summary": "帮小林排查了登录报错", "timestamp": "2026-02-20T10:00:00+08:00", "location": GROUP},
    {"summary": "Answered Ann about Munich", "timestamp": "2026-02-20T11:00:00+08:00"},
    {"summary": "推荐了三本书", "timestamp": "2026-02-20T12:00:00+08:00", "location": NAMED},
    "Said good night",
    {"timestamp": "2026-02-20T12:00:00+08:00"},
    {"summary": "  "},
    {"summary": "x", "timestamp": "the day before"},
    {"summary": "x", "location": {"type": "channel", "name": "y"}},
    {"summary": "x", "location": {"type": "group"}},
    7,
]
WRONG = {
    5: "it has no summary",
    6: "its summary is empty",
    7: "timestamp must be an ISO 8601 time",
    8: "its location.type should be group or private",
    9: "its location names no chat",
    10: "it should be a text or an object, not int",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "end_summaries.json"
    path.write_text(json.dumps(RECORDS, ensure_ascii=False), encoding="utf-8")
    os.utime(path, (1_771_000_000, 1_771_000_000))
    return path


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    config = Config(background_worker=False)
    with Memory(tmp_path / "home", llm="rules", embedder=HashEmbedder(), config=config) as memory:
        yield memory


def texts(memory: Memory, user: str | None, group: str | None = None) -> str:
    hits = memory.cognitive("acme", user, group).search_events("what was done 做了什么", top_k=50)
    return "\n".join(hit.text for hit in hits)


def test_every_record_goes_to_its_own_chat_and_the_others_are_named(memory: Memory, file: Path) -> None:
    result = memory.import_end_summaries(file, "acme", "ann", chats={"读书会": "20002"})
    assert (result.records, result.queued, result.already_there) == (10, 4, 0)
    assert {skipped.number for skipped in result.skipped} == WRONG.keys()
    for skipped in result.skipped:
        assert WRONG[skipped.number] in skipped.why
    assert result.chats == {"group 开发群": 1, "private ann": 2, "group 读书会": 1}
    assert memory.run_jobs().succeeded == 4
    assert "登录报错" in texts(memory, None, "10001")
    assert "三本书" in texts(memory, None, "20002")
    assert "三本书" not in texts(memory, None, "10001")
    mine = texts(memory, "ann")
    assert "Munich" in mine
    assert "good night" in mine
    assert "三本书" not in mine


def test_running_it_again_changes_nothing(memory: Memory, file: Path, tmp_path: Path) -> None:
    first = memory.import_end_summaries(file, "acme", "ann")
    waiting = memory.import_end_summaries(file, "acme", "ann")
    memory.run_jobs()
    known = memory.status()
    again = memory.import_end_summaries(file, "acme", "ann")
    assert (first.queued, waiting.queued, again.queued) == (3, 0, 0)
    assert (first.already_there, waiting.already_there, again.already_there) == (0, 3, 3)
    assert memory.run_jobs().claimed == 0
    assert memory.status() == known


def test_a_file_that_went_on_is_taken_over_where_it_went_on(memory: Memory, file: Path) -> None:
    """Old records fall out of the file, new ones come, and its time changes; what is known stays as it is."""
    memory.import_end_summaries(file, "acme", "ann")
    moved = [*RECORDS[1:4], {"summary": "Made tea", "timestamp": "2026-02-22T09:00:00Z"}]
    file.write_text(json.dumps(moved), encoding="utf-8")
    assert memory.import_end_summaries(file, "acme", "ann").queued == 1
    memory.run_jobs()
    os.utime(file, (1_772_000_000, 1_772_000_000))
    result = memory.import_end_summaries(file, "acme", "ann")
    assert (result.queued, result.already_there) == (0, 3)


def test_records_that_are_all_the_same_are_each_one(memory: Memory) -> None:
    result = memory.import_end_summaries(["Made tea", "Made tea"], "acme", "ann", at="2026-02-22T09:00:00Z")
    assert result.queued == 2
    assert memory.import_end_summaries(["Made tea", "Made tea"], "acme", "ann", at="2026-02-22T09:00:00Z").queued == 0


def test_two_chats_known_by_name_are_never_thrown_together(memory: Memory) -> None:
    at = "2026-02-22T09:00:00Z"
    one = {"summary": "Read a book", "timestamp": at, "location": {"type": "group", "name": "Readers"}}
    other = {"summary": "Fixed a bug", "timestamp": at, "location": {"type": "group", "name": "Coders"}}
    private = {"summary": "Listened", "timestamp": at, "location": {"type": "private", "name": "Ann"}}
    assert memory.import_end_summaries([one], "acme", group_id="g1", dry_run=True).queued == 1
    both = memory.import_end_summaries([one, other], "acme", group_id="g1", dry_run=True)
    assert both.queued == 0
    assert [s.why for s in both.skipped] == [
        f"which group {n!r} is, is not said: give its id" for n in ("Readers", "Coders")
    ]
    told = memory.import_end_summaries([one, other], "acme", group_id="g1", chats={"Coders": "g2"}, dry_run=True)
    assert told.queued == 2
    assert "private 'Ann'" in memory.import_end_summaries([private], "acme", group_id="g1", dry_run=True).skipped[0].why


def test_what_has_no_chat_or_no_time_is_left_out(memory: Memory) -> None:
    (skipped,) = memory.import_end_summaries(["Made tea"], "acme", at="2026-02-22T09:00:00Z").skipped
    assert skipped.why == "it names no chat, and no user or group was given for those"
    assert (skipped.number, skipped.text) == (1, "Made tea")
    (skipped,) = memory.import_end_summaries(["Made tea"], "acme", "ann").skipped
    assert skipped.why == "it has no timestamp, and no time was given for those"


@pytest.mark.parametrize("text", ["{", '{"a": 1}', '"x"', ""])
def test_what_is_no_list_is_refused(memory: Memory, tmp_path: Path, text: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text)
    with pytest.raises(errors.MalformedInput):
        memory.import_end_summaries(path, "acme", "ann")
    path.write_bytes(b'["\xff"]')
    with pytest.raises(errors.MalformedInput, match="not UTF-8"):
        memory.import_end_summaries(path, "acme", "ann")
    with pytest.raises(errors.NotFound):
        memory.import_end_summaries(tmp_path / "nowhere.json", "acme", "ann")
    with pytest.raises(errors.InvalidArgument, match="user_id or group_id"):
        memory.import_end_summaries([], "acme", "ann", "g1")


def test_half_a_character_is_named_and_the_rest_is_taken(memory: Memory) -> None:
    result = memory.import_end_summaries(["\ud83d", "Made tea"], "acme", "ann", at=1_771_000_000)
    assert result.queued == 1
    assert "half of a surrogate pair" in result.skipped[0].why


def test_nothing_is_taken_over_while_it_is_switched_off(tmp_path: Path) -> None:
    config = Config(background_worker=False, cognitive=CognitiveConfig(enabled=False))
    with Memory(tmp_path, llm="rules", embedder=HashEmbedder(), config=config) as memory:
        with pytest.raises(errors.InvalidArgument, match="enabled is false"):
            memory.import_end_summaries(["x"], "acme", "ann", at=1_771_000_000)
        assert memory.jobs() == []


# --- the command


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words), catch_exceptions=False)


def test_a_dry_run_says_what_would_be_done_and_touches_nothing(file: Path, tmp_path: Path) -> None:
    home = tmp_path / "nowhere"
    done = run(
        "import", "end-summaries", str(file), "--tenant", "acme", "--user", "ann", "--dry-run", "--home", str(home)
    )
    assert done.exit_code == 0
    assert "10 records: 3 would be taken over, 7 left out" in done.output
    assert "2 of private ann" in done.output
    assert "2026-02-20T10:00:00+08:00 帮小林排查了登录报错" in done.output
    assert "record 5 left out: it has no summary" in done.output
    assert "which group '读书会' is" in done.output
    assert not home.exists()


def test_the_command_takes_over_and_says_what_remains_to_be_done(file: Path, tmp_path: Path) -> None:
    place = ["--home", str(tmp_path / "home"), "--embedder", "hash", "--llm", "rules"]
    words = [
        "import",
        "end-summaries",
        str(file),
        "--tenant",
        "acme",
        "--user",
        "ann",
        "--chat",
        "读书会=20002",
        *place,
    ]
    assert "4 taken over, 0 were here, 6 left out" in run(*words).output
    told = json.loads(run(*words, "--json").output)
    assert (told["queued"], told["already_there"], len(told["skipped"])) == (0, 4, 6)
    assert run(*words[:-7], "--chat", "x=", *place).exit_code == 2


def test_an_archive_is_still_imported_by_its_file_alone(tmp_path: Path) -> None:
    place = ["--home", str(tmp_path / "home"), "--embedder", "hash"]
    archive = tmp_path / "all.zip"
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"kind": "semantic", "contents": ["Ann drinks tea"]}')
    assert run("write", str(rows), "--tenant", "acme", "--user", "ann", *place).exit_code == 0
    assert run("export", str(archive), *place).exit_code == 0
    for words in (
        ["import", str(archive), *place],
        ["import", *place, str(archive)],
        ["import", "archive", *place, str(archive)],
    ):
        done = run(*words, "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.output)["added"] == 0
    with pytest.raises(errors.NotFound):
        run("import", str(tmp_path / "nowhere.zip"), *place)
    assert "end-summaries" in run("import", "--help").output
