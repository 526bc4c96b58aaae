"""`dialog_v1` is fixed for ever: the same memory and the same question give the same hits with the same scores.

`python tests/golden/test_dialog_v1.py` writes the expected file; a strategy that differs from it gets another name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mnemon import Config, Memory
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.testing.answers import fact, model, script, tag, tagging
from mnemon.testing.clock import FixedClock

EXPECTED = Path(__file__).with_name("dialog_v1.json")
DIGITS = 4


def said(id: str, text: str, role: str = "user") -> dict[str, Any]:
    return {"turn_id": id, "role": role, "text": text, "timestamp_iso": f"2026-01-0{id[1]}T08:00:00Z"}


PEANUTS = said("t1", "我对花生过敏，吃了会起疹子。")
TEA = said("t2", "I drink green tea every morning, never coffee.")
TRIP = said("t3", "We fly to Lisbon on 3 May with my sister Wei.")
REPLY = said("t4", "Lisbon is lovely in May.", "assistant")
CAT = said("t5", "我的猫叫团子，今年三岁。")
TALKS = {
    "food": (
        [PEANUTS, TEA],
        script(
            tagging(tag(PEANUTS, "我对花生过敏"), tag(TEA, "I drink green tea every morning", "preference")),
            fact(PEANUTS, "我对花生过敏", "用户对花生过敏"),
            fact(TEA, "I drink green tea every morning", "User drinks green tea every morning", "preferences"),
        ),
    ),
    "plans": (
        [TRIP, REPLY, CAT],
        script(
            tagging(tag(TRIP, "We fly to Lisbon on 3 May"), tag(CAT, "我的猫叫团子"), dropped=("t4",)),
            fact(TRIP, "We fly to Lisbon on 3 May", "User flies to Lisbon on 3 May", "events"),
            fact(CAT, "我的猫叫团子", "用户的猫叫团子", "entities"),
        ),
    ),
}
QUESTIONS = (
    "User drinks green tea every morning",
    "花生过敏",
    "When do we fly to Lisbon?",
    "我的猫叫什么",
    "Lisbon is lovely in May.",
)


def answers() -> dict[str, list[dict[str, Any]]]:
    with Memory(
        ":memory:", embedder=HashEmbedder(), config=Config(background_worker=False), clock=FixedClock()
    ) as memory:
        for session, (turns, answered) in TALKS.items():
            memory.session_write("acme", "lin", session, turns=turns, llm=model(answered))
        return {question: _hits(memory, question) for question in QUESTIONS}


def _hits(memory: Memory, question: str) -> list[dict[str, Any]]:
    result = memory.retrieval(question, "acme", "lin", topk=6)
    return [
        {
            "text": hit.entry.contents[0],
            "source": hit.source,
            "score": round(hit.score, DIGITS),
            "final_score": round(hit.final_score, DIGITS),
            "evidence": [quote.text for quote in hit.evidence],
        }
        for hit in result.hits
    ]


def test_the_first_strategy_has_not_changed() -> None:
    assert answers() == json.loads(EXPECTED.read_text(encoding="utf-8"))


def test_all_three_routes_are_in_the_golden_answers() -> None:
    kept = json.loads(EXPECTED.read_text(encoding="utf-8"))
    assert {hit["source"] for hits in kept.values() for hit in hits} == {
        "fact_search",
        "reference_trace",
        "event_search",
    }
    assert REPLY["text"] not in {hit["text"] for hits in kept.values() for hit in hits}


if __name__ == "__main__":
    EXPECTED.write_text(json.dumps(answers(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
