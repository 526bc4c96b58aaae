"""Seed 000: canonical turns, stage 1, value tags, extraction and what is written, from the front door."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from mnemon import Config, Memory, Turn
from mnemon.contracts.entries import Entry
from mnemon.contracts.errors import InvalidArgument, MalformedInput, NoUsableContent, UnknownInputFormat
from mnemon.contracts.filters import Eq, every
from mnemon.contracts.scope import Scope
from mnemon.logic.denoise import TRUNCATED_MARK, DenoiseRules
from mnemon.pipelines.index.projection import claim_of
from mnemon.testing.answers import EXTRACTORS, PREFERENCES, PROFILE, SUMMARY, TAGGING, fact, model, script, tag, tagging
from mnemon.testing.clock import FixedClock
from mnemon.testing.scripted import asking

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


# --- stage 2 and 3, with a model that says what a test wrote down for it

ALLERGY = {"turn_id": "t1", "role": "user", "text": "顺便说一下，我对花生过敏。"}
ADVICE = {"turn_id": "t2", "role": "assistant", "text": "好的。花生含有丰富的蛋白质，你应该常吃核桃。"}
EDITOR = {"turn_id": "t3", "role": "user", "text": "I prefer dark mode in every editor. 🙂 e\u0301clair"}
WEATHER = {"turn_id": "t4", "role": "tool", "speaker": "tool:weather", "text": "Shanghai: 21 degrees, light rain"}
TALK = [ALLERGY, ADVICE, EDITOR, WEATHER]
HAS_ALLERGY = fact(ALLERGY, "我对花生过敏", "用户对花生过敏", routing_key="健康", dedup_key="allergy:花生")
LIKES_DARK = fact(
    EDITOR, "I prefer dark mode in every editor", "User prefers dark mode in every editor", "preferences",
    routing_key="editor",
)  # fmt: skip
DAY = 86_400


def remember(memory: Memory, llm: Any, *turns: dict[str, Any], user: str = "lin", **given: Any) -> Any:
    return memory.session_write("acme", user, "s", turns=list(turns or TALK), llm=llm, **given)


def tags_file(home: Path, session: str = "s") -> dict[str, Any]:
    path = home / "tenants/acme/users/lin/sessions" / session / "tags.json"
    (tagged,) = json.loads(path.read_text(encoding="utf-8"))["taggings"]
    return dict(tagged)


def entries(memory: Memory, kind: str) -> list[Entry]:
    async def found() -> list[Entry]:
        page = await memory.parts.index.scroll(Scope.steward_of("acme"), every(Eq("kind", kind)), "oldest", 200)
        return list(page.entries)

    return asyncio.run(found())


def asked_for(llm: Any) -> list[str]:
    return [asking(messages) for messages in llm.asked]


def test_2_2_a_value_tag_has_exactly_these_fields(memory: Memory, home: Path) -> None:
    hints = {"entity_names": ["花生"], "time_hint": "", "dedup_key": "allergy:花生"}
    said = tag(ALLERGY, "我对花生过敏", subtype="constraint", subject="u:lin", importance=0.9, hints=hints)
    remember(memory, model(script(tagging(said, kept=("t3",)))))
    assert tags_file(home)["output"]["tags"] == [
        {
            "tag_id": "m0001",
            "turn_id": "t1",
            "span": {"start": 6, "end": 12, "text_exact": "我对花生过敏"},
            "category": "fact",
            "subtype": "constraint",
            "subject": "u:lin",
            "evidence_level": "S0_user_claim",
            "requires_confirmation": False,
            "importance": 0.9,
            "ttl_seconds": 180 * DAY,
            "forget_policy": "temporary",
            "write_action": "write_fact",
            "reason": "said by the user",
            "hints": hints,
        }
    ]


def test_2_3_the_output_has_exactly_these_fields(memory: Memory, home: Path) -> None:
    remember(memory, model(script(tagging(tag(ALLERGY, "我对花生过敏"), kept=("t3",), dropped=("t2",)))))
    output = tags_file(home)["output"]
    assert {name: output[name] for name in output if name != "tags"} == {
        "version": "value_tagging_v1",
        "session_id": "s",
        "kept_turn_ids": ["t1", "t3"],
        "dropped_turn_ids": ["t2", "t4"],
        "stats": {"input_turns": 4, "kept_turns": 2, "dropped_turns": 2, "tag_count": 1},
    }


@pytest.mark.parametrize(("label", "number"), [("low", 0.3), ("medium", 0.6), ("high", 0.9), (0.42, 0.42)])
def test_2_2_importance_is_a_number_and_labels_are_understood(
    memory: Memory, home: Path, label: Any, number: float
) -> None:
    remember(memory, model(script(tagging(tag(ALLERGY, "我对花生过敏", importance=label)))))
    assert tags_file(home)["output"]["tags"][0]["importance"] == number


@pytest.mark.parametrize("words", ["🙂", "e\u0301clair", "I prefer", "editor. 🙂 e\u0301"])
def test_4_1_kept_words_are_the_words_of_the_turn_code_point_by_code_point(
    memory: Memory, home: Path, words: str
) -> None:
    remember(memory, model(script(tagging(tag(EDITOR, words, "preference")))))
    span = tags_file(home)["output"]["tags"][0]["span"]
    assert EDITOR["text"][span["start"] : span["end"]] == span["text_exact"] == words


def test_4_1_half_a_letter_is_not_a_quote(memory: Memory) -> None:
    half = tagging(tag(EDITOR, "🙂 e", "preference"))
    result = remember(memory, model(script(half), {TAGGING: [half, half]}))
    assert "tagging" in {d.what for d in result.degraded}
    assert result.tags == ()


def test_4_1_a_quote_that_stands_once_gets_its_place_and_keeps_its_words(memory: Memory, home: Path) -> None:
    lost = tag(ALLERGY, "我对花生过敏", span={"start": 0, "end": 6, "text_exact": "我对花生过敏"})
    llm = model(script(tagging(lost)))
    remember(memory, llm)
    assert tags_file(home)["output"]["tags"][0]["span"] == {"start": 6, "end": 12, "text_exact": "我对花生过敏"}
    assert asked_for(llm).count(TAGGING) == 1


def test_4_2_what_only_the_assistant_says_is_never_written(memory: Memory, home: Path) -> None:
    guess = tag(ADVICE, "你应该常吃核桃", evidence_level="S3_user_confirmed", write_action="write_fact")
    proposal = fact(ADVICE, "你应该常吃核桃", "用户应该常吃核桃")
    twice: list[Any] = [{"facts": [proposal, HAS_ALLERGY]}] * 2
    llm = model(script(tagging(guess, tag(ALLERGY, "我对花生过敏")), more={PROFILE: twice}))
    result = remember(memory, llm)
    (kept,) = [t for t in tags_file(home)["output"]["tags"] if t["turn_id"] == "t2"]
    assert (kept["evidence_level"], kept["write_action"], kept["ttl_seconds"]) == (
        "S1_ai_inference", "archive_only", DAY,
    )  # fmt: skip
    assert [c.statement for c in result.claims] == ["用户对花生过敏"]
    assert {r.what for r in result.rejected if "核桃" in r.text} == {"tag", "claim"}
    assert "核桃" not in json.dumps([e.text for e in entries(memory, "claim")], ensure_ascii=False)


@pytest.mark.parametrize(
    ("turn", "words", "category", "extra", "policy", "seconds"),
    [
        (EDITOR, "I prefer dark mode", "preference", {}, "until_changed", 0),
        (ALLERGY, "我对花生过敏", "rule", {}, "permanent", 0),
        (ALLERGY, "我对花生过敏", "task", {}, "temporary", 30 * DAY),
        (ALLERGY, "我对花生过敏", "task", {"subtype": "done"}, "temporary", 7 * DAY),
        (ALLERGY, "我对花生过敏", "fact", {}, "temporary", 180 * DAY),
        (WEATHER, "21 degrees", "fact", {"evidence_level": "S2_tool_grounded"}, "permanent", 0),
        (ADVICE, "花生含有丰富的蛋白质", "fact", {"evidence_level": "S1_ai_inference"}, "temporary", DAY),
    ],
)
def test_4_3_the_table_decides_how_long_whatever_the_model_says(
    memory: Memory,
    home: Path,
    turn: dict[str, Any],
    words: str,
    category: str,
    extra: dict[str, Any],
    policy: str,
    seconds: int,
) -> None:
    said = tag(turn, words, category, ttl_seconds=0, forget_policy="permanent", **extra)
    remember(memory, model(script(tagging(said))))
    stored = tags_file(home)["output"]["tags"][0]
    assert (stored["forget_policy"], stored["ttl_seconds"]) == (policy, seconds)


def test_4_3_a_model_may_shorten_a_life_and_never_lengthen_it(memory: Memory, home: Path) -> None:
    short = tag(ALLERGY, "我对花生过敏", ttl_seconds=60)
    long = tag(ALLERGY, "顺便说一下", ttl_seconds=999 * DAY)
    remember(memory, model(script(tagging(short, long))))
    assert [t["ttl_seconds"] for t in tags_file(home)["output"]["tags"]] == [60, 180 * DAY]


WRONG: dict[str, dict[str, Any]] = {
    "other words": {"span": {"start": 6, "end": 12, "text_exact": "我对腰果过敏"}},
    "words of another turn": {"span": {"start": 0, "end": 9, "text_exact": "dark mode"}},
    "beyond the end": {"span": {"start": 6, "end": 999, "text_exact": "我对花生过敏。然后"}},
    "no words": {"span": {"start": 3, "end": 3, "text_exact": ""}},
    "a turn that is not there": {"turn_id": "t9"},
    "a negative life": {"ttl_seconds": -1},
    "importance above one": {"importance": 1.5},
    "a tag that drops": {"write_action": "drop"},
    "an unknown category": {"category": "gossip"},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_4_4_a_wrong_tag_is_told_back_and_mended(memory: Memory, wrong: str) -> None:
    bad = {**tag(ALLERGY, "我对花生过敏"), **WRONG[wrong]}
    good = script(tagging(tag(ALLERGY, "我对花生过敏")), HAS_ALLERGY)
    llm = model({TAGGING: [tagging(bad, kept=("t1",))]}, good)
    result = remember(memory, llm)
    assert [c.statement for c in result.claims] == ["用户对花生过敏"]
    (trace,) = [call for call in result.debug["calls"] if call["task"] == TAGGING]
    assert trace["retries"] == 1
    assert trace["violations"]


def test_4_4_the_model_is_told_which_tag_what_was_expected_and_what_is_there(memory: Memory) -> None:
    bad = tag(ALLERGY, "我对花生过敏", **WRONG["other words"])
    llm = model({TAGGING: [tagging(bad)]}, script(tagging(tag(ALLERGY, "我对花生过敏"))))
    remember(memory, llm)
    correction = [messages for messages in llm.asked if asking(messages) == TAGGING][1]
    told = correction[-1].text
    assert bad["tag_id"] in told
    assert "我对腰果过敏" in told
    assert "我对花生过敏" in told


def test_4_4_kept_turns_must_cover_every_tagged_turn(memory: Memory) -> None:
    uncovered = {**tagging(tag(ALLERGY, "我对花生过敏")), "kept_turn_ids": ["t3"]}
    llm = model({TAGGING: [uncovered]}, script(tagging(tag(ALLERGY, "我对花生过敏"))))
    (trace,) = [c for c in remember(memory, llm).debug["calls"] if c["task"] == TAGGING]
    assert any("kept_turn_ids" in rule for rule in trace["violations"])


def test_4_4_after_one_retry_bad_tags_go_good_ones_stay_and_no_word_lapses(
    memory: Memory, home: Path, clock: FixedClock
) -> None:
    bad = tagging(tag(ALLERGY, "我对花生过敏", **WRONG["other words"]), tag(EDITOR, "dark mode", "preference"))
    llm = model(script(bad), {TAGGING: [bad, bad]})
    result = remember(memory, llm)
    assert result.status == "ok"
    assert "tagging" in {d.what for d in result.degraded}
    assert [t.turn_id for t in result.tags] == [EDITOR["turn_id"]]
    assert [r.what for r in result.rejected] == ["tag"]
    assert tags_file(home)["degraded"]
    clock.tick(days=400)
    memory.sweep()
    assert len(stored(memory, "s")) == 4
    assert memory.bind("acme", "lin").lexical_search("花生").items
    assert memory.verify().ok


def test_4_4_a_model_that_never_gives_an_object_costs_the_memories_only(memory: Memory) -> None:
    llm = model({TAGGING: [{"tags": "none"}, {"tags": 5}], SUMMARY: [{"summary": ""}]})
    result = remember(memory, llm)
    assert "tagging" in {d.what for d in result.degraded}
    assert not set(asked_for(llm)) & set(EXTRACTORS)
    assert result.claims == ()
    assert [e.fields["kept"] for e in entries(memory, "turn")] == [True] * 4, "what nobody judged is kept"


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("请记住：我对青霉素过敏。", "用户对青霉素过敏"),
        ("Please remember that I am allergic to penicillin.", "User is allergic to penicillin"),
    ],
)
def test_4_2_remember_this_is_honoured_although_the_model_refuses(
    memory: Memory, home: Path, text: str, statement: str
) -> None:
    wish = {"turn_id": "t1", "role": "user", "text": text}
    llm = model({TAGGING: [tagging(dropped=("t1",))]}, script(tagging(dropped=("t1",))))
    result = remember(memory, llm, wish)
    assert tags_file(home)["output"]["kept_turn_ids"] == ["t1"]
    assert {t["evidence_level"] for t in tags_file(home)["output"]["tags"]} == {"S3_user_confirmed"}
    assert statement in {c.statement for c in result.claims}
    assert {c.provider for c in result.claims} == {"rules"}
    assert "remember" in {d.what for d in result.degraded}


def test_5_1_stage_3_is_given_the_kept_turns_and_no_others(memory: Memory) -> None:
    llm = model(script(tagging(tag(ALLERGY, "我对花生过敏"), dropped=("t2", "t3", "t4")), HAS_ALLERGY))
    remember(memory, llm)
    asked = [messages for messages in llm.asked if asking(messages) in EXTRACTORS]
    assert len(asked) == 4
    for messages in asked:
        shown = "\n".join(m.text for m in messages)
        assert "我对花生过敏" in shown
        assert "核桃" not in shown
        assert "dark mode" not in shown


def test_5_1_a_claim_that_cites_a_dropped_turn_is_refused(memory: Memory) -> None:
    twice: list[Any] = [{"facts": [LIKES_DARK]}] * 2
    result = remember(memory, model(script(tagging(tag(ALLERGY, "我对花生过敏")), more={PREFERENCES: twice})))
    assert result.claims == ()
    assert ["not kept" in r.reason for r in result.rejected] == [True]


def test_5_2_the_utterance_index_knows_where_each_turn_stands(memory: Memory) -> None:
    remember(memory, model(script(tagging(tag(ALLERGY, "我对花生过敏"), tag(WEATHER, "21 degrees")), HAS_ALLERGY)))
    rows = {e.fields["turn_id"]: e.fields for e in entries(memory, "turn")}
    assert {turn_id for turn_id, row in rows.items() if row["kept"]} == {"t1", "t4"}
    assert (rows["t4"]["role"], rows["t4"]["speaker"], rows["t4"]["session_id"]) == ("tool", "tool:weather", "s")


def test_5_2_5_3_a_fact_carries_its_governance_to_claim_node_and_index(memory: Memory) -> None:
    said = tag(ALLERGY, "我对花生过敏", importance=0.83, ttl_seconds=5000)
    result = remember(memory, model(script(tagging(said), HAS_ALLERGY)))
    (claim,) = result.claims
    life = {
        "importance": 0.83,
        "ttl_seconds": 5000,
        "forget_policy": "temporary",
        "evidence_level": "S0_user_claim",
        "requires_confirmation": False,
        "ttl_policy": "fact_user_claim:shortened",
    }
    assert claim.governance.model_dump(mode="json") == life
    (entry,) = entries(memory, "claim")
    assert entry.metadata["claim"]["governance"] == life
    assert claim_of(entry) == claim
    node = memory.node("acme", "lin", claim.node_uri)
    assert node.metadata["governance"] == life
    assert claim.source_turn_ids == ("t1",)
    assert [s.text_exact for s in claim.spans] == ["我对花生过敏"]


def test_5_3_several_tags_behind_one_claim_join_by_one_rule(memory: Memory) -> None:
    tags = [
        tag(ALLERGY, "我对花生", importance=0.2, ttl_seconds=7000, requires_confirmation=True),
        tag(ALLERGY, "花生过敏", importance=0.9, ttl_seconds=9000),
    ]
    for user, order in (("lin", tags), ("wang", tags[::-1])):
        result = remember(memory, model(script(tagging(*order), HAS_ALLERGY)), user=user)
        life = result.claims[0].governance
        assert (life.importance, life.ttl_seconds, life.requires_confirmation) == (0.9, 7000, False)
        assert life.ttl_policy == "fact_user_claim:shortened"


def test_6_what_needs_confirmation_waits_and_is_not_knowledge(memory: Memory) -> None:
    doubt = tag(ALLERGY, "我对花生过敏", requires_confirmation=True)
    result = remember(memory, model(script(tagging(doubt), HAS_ALLERGY)))
    assert (result.counts["facts_written"], result.counts["facts_pending"]) == (0, 1)
    assert memory.claims("acme", "lin").items == ()
    assert memory.nodes("acme", "lin") == []
    (waiting,) = memory.pending("acme", "lin").items
    memory.confirm("acme", "lin", waiting.claim_id)
    (known,) = memory.claims("acme", "lin").items
    assert known.governance.evidence_level == "S3_user_confirmed"
    assert [n.category for n in memory.nodes("acme", "lin")] == ["profile"]
    assert memory.pending("acme", "lin").items == ()


def test_7_with_the_stages_off_every_turn_is_kept_and_may_be_cited(memory: Memory, home: Path) -> None:
    llm = model(script({}, HAS_ALLERGY, LIKES_DARK, more={TAGGING: []}))
    result = remember(memory, llm, stages="off")
    assert TAGGING not in asked_for(llm)
    assert tags_file(home)["output"]["kept_turn_ids"] == ["t1", "t2", "t3", "t4"]
    assert {c.statement: c.governance.ttl_seconds for c in result.claims} == {
        "用户对花生过敏": 180 * DAY,
        "User prefers dark mode in every editor": 0,
    }
    assert all(e.fields["kept"] for e in entries(memory, "turn"))
