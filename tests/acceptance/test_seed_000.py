"""Seed 000, §2.1 and §3: canonical turns and stage 1, from the front door."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from mnemon import Config, Memory, Turn
from mnemon.contracts.errors import InvalidArgument, MalformedInput, NoUsableContent, UnknownInputFormat
from mnemon.logic.denoise import TRUNCATED_MARK, DenoiseRules

FORMATS = ["canonical_turns_v1", "openai_messages_v1", "ai_studio_export_text_v1", "agent_trace_v1"]
EXPORTS: dict[str, str] = {
    "canonical_turns_v1": json.dumps([{"role": "user", "text": "我不吃辣"}, {"role": "assistant", "text": "Noted"}]),
    "openai_messages_v1": json.dumps(
        [{"role": "user", "content": "我不吃辣"}, {"role": "assistant", "content": "Noted"}]
    ),
    "ai_studio_export_text_v1": """{ // comment
        "chunkedPrompt": {"chunks": [{"role": "user", "text": "我不吃辣", "tokenCount": 4,},
                                     {"role": "model", "parts": [{"text": "No"}, {"text": "ted"},],},],},}""",
    "agent_trace_v1": json.dumps(
        {
            "schema": "agent_trace_v1",
            "steps": [
                {"type": "user_message", "text": "我不吃辣"},
                {"type": "assistant_message", "text": "Noted"},
            ],
        }
    ),
}


def write(memory: Memory, session: str, **given: Any) -> Any:
    return memory.session_write("acme", "lin", session, extract=False, **given)


def stored(memory: Memory, session: str) -> list[Any]:
    page = memory.bind("acme", "lin").messages_list(page_size=200, session_id=session)
    return sorted(page.items, key=lambda m: m.meta["seq"])


def lines(home: Path, session: str) -> list[dict[str, Any]]:
    path = home / "tenants/acme/users/lin/sessions" / session / "turns.jsonl"
    return [json.loads(line)["body"] for line in path.read_text(encoding="utf-8").splitlines()]


def test_2_1_a_canonical_turn_keeps_every_field(memory: Memory, home: Path) -> None:
    turn = {
        "turn_id": "t0001",
        "role": "tool",
        "speaker": "tool:web_search",
        "timestamp_iso": "2025-12-21T10:00:00Z",
        "text": "原文文本（UTF-8）  with  spaces\n",
        "source_ref": {"input_format": "ai_studio_export_text_v1", "raw_index": 12, "raw_path": "chunks[12].parts[3]"},
        "attachments": [{"type": "file", "name": "a.pdf", "truncated": False, "ref": "file:a.pdf"}],
    }
    write(memory, "s", turns=[turn])
    assert Turn.model_validate(lines(home, "s")[0]) == Turn.model_validate(turn)


def test_2_1_turn_ids_are_stable_and_sort_in_order(memory: Memory, home: Path) -> None:
    raw = json.dumps([{"role": "user", "content": str(n)} for n in range(12)])
    write(memory, "a", raw=raw, input_format="openai_messages_v1")
    write(memory, "b", raw=raw, input_format="openai_messages_v1")
    ids = [b["turn_id"] for b in lines(home, "a")]
    assert ids == sorted(ids) == [b["turn_id"] for b in lines(home, "b")]
    assert ids[0] == "t0001"


@pytest.mark.parametrize("role", ["user", "assistant", "tool", "system"])
def test_2_1_role_is_one_of_four(memory: Memory, role: str) -> None:
    write(memory, "s", turns=[{"role": role, "text": "x"}])
    assert stored(memory, "s")[0].role == role


def test_2_1_another_role_is_an_error_that_names_the_field(memory: Memory) -> None:
    with pytest.raises(MalformedInput) as caught:
        write(memory, "s", turns=[{"role": "user", "text": "x"}, {"role": "narrator", "text": "y"}])
    assert "role" in caught.value.path
    assert "assistant" in caught.value.message
    assert stored(memory, "s") == []


@pytest.mark.parametrize("input_format", FORMATS)
def test_3_2_four_formats_give_the_same_words(memory: Memory, input_format: str) -> None:
    result = write(memory, "s", raw=EXPORTS[input_format], input_format=input_format)
    assert result.status == "ok"
    assert [m.content for m in stored(memory, "s")] == ["我不吃辣", "Noted"]
    assert [m.role for m in stored(memory, "s")] == ["user", "assistant"]


@pytest.mark.parametrize("input_format", [None, "", "openai", "auto"])
def test_3_2_a_format_is_never_guessed(memory: Memory, input_format: str | None) -> None:
    with pytest.raises(UnknownInputFormat) as caught:
        write(memory, "s", raw=EXPORTS["openai_messages_v1"], input_format=input_format)
    assert all(name in caught.value.message for name in FORMATS)
    assert memory.status().sessions == 0


@pytest.mark.parametrize("input_format", FORMATS)
def test_3_2_a_wrong_format_is_an_error_not_a_guess(memory: Memory, input_format: str) -> None:
    other = FORMATS[(FORMATS.index(input_format) + 1) % 4]
    with pytest.raises(InvalidArgument):
        write(memory, "s", raw=EXPORTS[input_format], input_format=other)


def test_3_3_rule_1_empty_text_is_dropped_and_listed(memory: Memory) -> None:
    result = write(memory, "s", turns=[{"role": "user", "text": " \n\t"}, {"role": "user", "text": "words"}])
    assert [(d.turn_id, d.reason) for d in result.dropped] == [("t0001", "empty")]
    assert [m.content for m in stored(memory, "s")] == ["words"]


def test_3_3_rule_2_statistics_are_dropped_and_prose_is_not(memory: Memory) -> None:
    stats = '{"tokenCount": 12, "finishReason": "STOP"}'
    prose = "My tokenCount question: why does finishReason say STOP?"
    result = write(memory, "s", turns=[{"role": "assistant", "text": stats}, {"role": "user", "text": prose}])
    assert [d.reason for d in result.dropped] == ["stats_only"]
    assert [m.content for m in stored(memory, "s")] == [prose]


def test_3_3_rule_3_long_tool_output_is_cut_and_the_whole_is_kept(memory: Memory) -> None:
    whole = "结果 result " * 2000
    write(memory, "s", turns=[{"role": "tool", "speaker": "tool:web_search", "text": whole}])
    message = stored(memory, "s")[0]
    assert message.content == whole[:8000] + TRUNCATED_MARK
    attachment = message.meta["attachments"][0]
    assert attachment["truncated"] is True
    assert attachment["sha256"] == hashlib.sha256(whole.encode()).hexdigest()
    assert attachment["ref"] == f"blob://{attachment['sha256']}"
    lin = memory.bind("acme", "lin")
    assert lin.attachment(message.message_id, attachment["sha256"]).decode() == whole


def test_3_3_rule_3_leaves_people_alone_and_its_threshold_is_configuration(home: Path) -> None:
    config = Config(denoise=DenoiseRules(tool_text_limit=10))
    with Memory(home, embedder="hash", config=config) as memory:
        turns = [{"role": "user", "text": "u" * 50}, {"role": "tool", "text": "t" * 50}]
        write(memory, "s", turns=turns)
        assert [m.content for m in stored(memory, "s")] == ["u" * 50, "t" * 10 + TRUNCATED_MARK]


def test_3_3_keeping_marks_what_a_rule_would_drop(home: Path) -> None:
    with Memory(home, embedder="hash", config=Config(denoise=DenoiseRules(keep_dropped=True))) as memory:
        write(memory, "s", turns=[{"role": "user", "text": "  "}, {"role": "user", "text": "x"}])
        assert [b.get("drop_candidate") for b in lines(home, "s")] == ["empty", None]


def test_3_4_duplicate_turn_ids_are_refused(memory: Memory) -> None:
    with pytest.raises(MalformedInput, match="7"):
        write(
            memory,
            "s",
            turns=[{"turn_id": "7", "role": "user", "text": "a"}, {"turn_id": "7", "role": "user", "text": "b"}],
        )
    assert stored(memory, "s") == []


@pytest.mark.parametrize("turns", [[], [{"role": "user", "text": "  "}]])
def test_3_4_an_input_without_text_is_refused(memory: Memory, turns: list[Any]) -> None:
    with pytest.raises(NoUsableContent):
        write(memory, "s", turns=turns)


def test_7_benchmarks_switch_the_stages_off(memory: Memory) -> None:
    turns = [{"role": "user", "text": " "}, {"role": "tool", "text": "x" * 9000}]
    result = write(memory, "s", turns=turns, stages="off")
    assert result.dropped == ()
    assert [m.content for m in stored(memory, "s")] == [" ", "x" * 9000]
