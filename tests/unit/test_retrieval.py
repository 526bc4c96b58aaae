"""Asking memory from the front door: what each strategy finds, proves and says of itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from made_claims import made

from mnemon import Config, Memory, Span, Turn
from mnemon.contracts.entries import EmbeddingVector
from mnemon.contracts.errors import EmbedderFailed, InvalidArgument, ModelFailed, ModelNotConfigured
from mnemon.contracts.retrieval import NO_EVIDENCE, NO_MODEL
from mnemon.contracts.scope import Scope
from mnemon.contracts.turns import Role
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.pipelines.index.projection import claim_entries
from mnemon.pipelines.retrieval.strategies import STRATEGIES
from mnemon.testing.answers import fact, model, script, tag, tagging
from mnemon.testing.clock import FixedClock
from mnemon.testing.scripted import ScriptedLLM

QUIET = Config(background_worker=False)
TEA = {"turn_id": "t1", "role": "user", "speaker": "Lin", "text": "I drink green tea every morning."}
HOME = {"turn_id": "t2", "role": "user", "speaker": "Lin", "text": "我住在上海。"}
DIALOG = ("dialog_v1", "dialog_v2", "auto_v1")
CHATTER = {"turn_id": "t3", "role": "assistant", "text": "Green tea is a fine thing."}
TALK = [TEA, HOME, CHATTER]
TOYS = [f"Momo likes toy {n}." for n in range(40)]
SCRIPT = script(
    tagging(tag(TEA, "I drink green tea", "preference"), tag(HOME, "我住在上海"), dropped=("t3",)),
    fact(TEA, "I drink green tea", "User drinks green tea", "preferences", routing_key="drinks"),
    fact(HOME, "我住在上海", "用户住在上海"),
)


class Broken(HashEmbedder):
    """Embeds what is written and fails on questions."""

    async def embed_texts(self, texts: Sequence[str], purpose: Any = "document") -> list[EmbeddingVector]:
        if purpose == "query":
            raise EmbedderFailed("the service is away")
        return await super().embed_texts(texts, purpose)


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(":memory:", embedder=HashEmbedder(), config=QUIET, clock=FixedClock()) as opened:
        yield opened


@pytest.fixture
def known(memory: Memory) -> Memory:
    """Two facts, the turns they rest on, and a turn that was not kept."""
    memory.session_write("t", "lin", "s", turns=TALK, llm=model(SCRIPT))
    return memory


def texts(result: Any) -> list[str]:
    return [hit.entry.contents[0] for hit in result.hits]


def test_a_fact_brings_its_words_and_its_turn(known: Memory) -> None:
    result = known.retrieval("User drinks green tea", "t", "lin")
    first, second = result.hits[:2]
    assert (first.source, first.entry.kind, first.entry.contents) == (
        "fact_search",
        "semantic",
        ("User drinks green tea",),
    )
    assert [quote.text for quote in first.evidence] == ["I drink green tea"]
    assert (second.source, second.id) == ("reference_trace", first.evidence[0].id)
    assert second.score == pytest.approx(0.9 * first.score)
    assert second.final_score == pytest.approx(1.8 * second.score)
    assert [quote.text for quote in second.evidence] == ["I drink green tea"]
    assert first.entry.metadata["source_turn_ids"] == ["t1"]


def test_what_a_model_dropped_is_passed_over_by_the_first_strategy_alone(known: Memory) -> None:
    first, *others = (known.retrieval("Green tea is a fine thing.", "t", "lin", strategy=s) for s in DIALOG)
    assert CHATTER["text"] not in texts(first)
    assert all(texts(found)[0] == CHATTER["text"] for found in others)
    everything = first.looked.turns + 1
    assert first.looked.left_out == {"dropped": 1}
    assert [(found.looked.turns, found.looked.left_out) for found in others] == [(everything, {})] * 2


def test_a_result_says_how_much_was_outside_the_time_asked_for(known: Memory) -> None:
    there = known.retrieval("green tea", "t", "lin", strategy="dialog_v2").looked.turns
    none = known.retrieval("green tea", "t", "lin", strategy="dialog_v2", time_range={"lt": "2001-01-01"})
    assert (none.hits, none.looked.turns, none.looked.left_out) == ((), 0, {"outside_time_range": there})


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nobody_else_finds_anything(known: Memory, strategy: str) -> None:
    for tenant, user in (("t", "other"), ("other", "lin"), ("t", "*"), ("t", "%")):
        assert known.retrieval("green tea 上海", tenant, user, strategy=strategy).hits == ()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_debug_says_what_was_done(known: Memory, strategy: str) -> None:
    debug = known.retrieval("green tea", "t", "lin", strategy=strategy).debug
    assert debug.strategy == strategy
    assert all(call.latency_ms >= 0 and call.error is None for call in debug.executed_calls)
    assert debug.plan.total_latency_ms >= debug.plan.retrieval_latency_ms == debug.plan.latency_ms
    assert debug.plan.qa_latency_ms is None


def test_the_calls_of_the_first_strategy_have_the_names_of_the_seed(known: Memory) -> None:
    calls = known.retrieval("green tea", "t", "lin").debug.executed_calls
    assert [c.api for c in calls] == ["embed", "fact_search", "event_search", "trace_references"]


def test_every_hit_of_the_second_strategy_says_how_it_was_found(known: Memory) -> None:
    result = known.retrieval("Does Lin drink green tea?", "t", "lin", strategy="dialog_v2")
    best = result.hits[0]
    assert best.entry.contents == (TEA["text"],)
    routes = {share.route: share.share for share in best.routes}
    assert {"words", "meaning", "facts", "speaker"} <= routes.keys()
    assert sum(share for share in routes.values() if share > 0) == pytest.approx(1, abs=0.05)
    assert result.debug.understood["names"] == ["Lin"]


def test_the_second_strategy_answers_the_same_every_time(known: Memory) -> None:
    one, two = (known.retrieval("上海 tea", "t", "lin", strategy="dialog_v2").hits for _ in range(2))
    assert one == two


def test_an_answer_without_a_word_of_the_question_is_found_beside_it(memory: Memory) -> None:
    talk = [{"role": "user", "text": f"filler {n} about nothing"} for n in range(300)]
    talk[150:152] = [
        {"role": "assistant", "text": "Which harbour do you prefer?"},
        {"role": "user", "text": "Lisbon."},
    ]
    memory.session_write("t", "lin", "s", turns=talk, extract=False)
    assert "Lisbon." in texts(memory.retrieval("preferred harbour", "t", "lin", strategy="dialog_v2", topk=3))


def test_time_narrows_everything(memory: Memory) -> None:
    for day in (1, 2, 3):
        turn = {"role": "user", "text": f"tea on day {day}", "timestamp_iso": f"2026-01-0{day}T12:00:00Z"}
        memory.session_write("t", "lin", f"s{day}", turns=[turn], extract=False)
    bounds = {"gte": "2026-01-02T00:00:00Z", "lt": "2026-01-03T00:00:00Z"}
    for strategy in ("dialog_v1", "dialog_v2", "auto_v1"):
        result = memory.retrieval("tea", "t", "lin", strategy=strategy, time_range=bounds)
        assert texts(result) == ["tea on day 2"]


def test_a_group_leaves_private_memories_out_unless_they_are_wanted(memory: Memory) -> None:
    private, shared = ({"role": "user", "text": text} for text in ("tea at home", "tea in the group"))
    memory.session_write("t", "lin", "own", turns=[private], extract=False)
    memory.session_write("t", "lin", "ours", turns=[shared], extract=False, group_id="g", visibility="group")
    for strategy in ("dialog_v1", "dialog_v2"):
        ask = {"query": "tea", "tenant_id": "t", "user_id": "lin", "strategy": strategy}
        assert texts(memory.retrieval(**ask, group_id="g")) == ["tea in the group"]
        assert set(texts(memory.retrieval(**ask, group_id="g", include_private=True))) == {
            "tea at home",
            "tea in the group",
        }
        assert texts(memory.retrieval(**ask)) == ["tea at home"]


def test_a_question_that_cannot_be_embedded_is_still_looked_for_by_words() -> None:
    with Memory(":memory:", embedder=Broken(), config=QUIET) as memory:
        memory.session_write("t", "lin", "s", turns=TALK, extract=False)
        result = memory.retrieval("green tea", "t", "lin", strategy="dialog_v2")
        assert TEA["text"] in texts(result)
        assert [d.what for d in result.debug.degraded] == ["embed"]
        assert next(c.error for c in result.debug.executed_calls if c.api == "embed") == "the service is away"
        with pytest.raises(EmbedderFailed):
            memory.retrieval("green tea", "t", "lin", strategy="dialog_v1")


async def forty_claims(memory: Memory) -> None:
    """About one cat, each resting on a turn of its own."""
    claims = [
        made(
            text,
            id=f"c{n}",
            session_id="s",
            entities=("Momo",),
            spans=(Span.whole(Turn(turn_id=f"t{n}", role=Role.USER, text=text)),),
        )
        for n, text in enumerate(TOYS)
    ]
    vectors = await memory.parts.embedder.embed_texts(TOYS)
    await memory.parts.index.upsert(Scope.of("t", "ann"), claim_entries(claims, vectors))


def test_claims_about_the_same_thing_lead_to_further_turns(memory: Memory) -> None:
    talk = [{"turn_id": f"t{n}", "role": "user", "text": text} for n, text in enumerate(TOYS)]
    memory.session_write("t", "ann", "s", turns=talk, extract=False)
    asyncio.run(forty_claims(memory))
    result = memory.retrieval("toy", "t", "ann", strategy="dialog_v2", topk=40)
    counts = {call.api: call.count for call in result.debug.executed_calls}
    assert counts["fact_search"] == counts["entity_hop"] == 20
    cited = [hit for hit in result.hits if "facts" in {share.route for share in hit.routes}]
    assert len(cited) > 20


def test_a_lifelog_is_asked_by_modality(memory: Memory) -> None:
    seen = [
        {"kind": "episodic", "modality": m, "contents": [f"beach {m}"], "metadata": {"memory_domain": "lifelog"}}
        for m in ("clip_image", "text", "audio")
    ]
    memory.write(seen, tenant_id="t", user_id="lin")
    memory.session_write("t", "lin", "s", turns=[{"role": "user", "text": "beach"}], extract=False)
    assert set(texts(memory.retrieval("beach", "t", "lin", strategy="video_v1"))) == {"beach clip_image", "beach text"}
    only = memory.retrieval("beach", "t", "lin", strategy="video_v1", modality=["audio"])
    assert texts(only) == ["beach audio"]


# --- a piece of prompt


def test_a_prompt_holds_the_profile_and_the_nearest_memories(known: Memory) -> None:
    result = known.retrieval("我住在哪里？", "t", "lin", strategy="auto_v1", budget={"top_k": 1})
    assert result.prompt is not None
    assert "关于用户：" in result.prompt
    assert "用户住在上海" in result.prompt
    assert len(result.hits) == 1
    assert result.hits[0].entry.contents[0] in result.prompt
    assert known.retrieval("anything", "t", "nobody", strategy="auto_v1").prompt == ""


# --- a model


def test_an_answer_rests_on_the_best_fifteen(memory: Memory) -> None:
    talk = [{"role": "user", "speaker": "Lin", "text": f"tea number {n}"} for n in range(20)]
    memory.session_write("t", "lin", "s", turns=talk, extract=False)
    llm = ScriptedLLM({"answer": " Twenty. "})
    result = memory.retrieval("how many teas?", "t", "lin", with_answer=True, task="COUNT", llm=llm)
    assert result.answer == "Twenty."
    asked = llm.asked[0][-1].text
    assert "how many teas?" in asked
    assert "COUNT" in asked
    lines = [line for line in asked.splitlines() if "[Event]" in line]
    assert len(lines) == 15
    assert lines[0].startswith("1. [Event] ")
    assert lines[0].endswith(json.dumps(result.hits[0].entry.contents[0]))
    assert result.debug.plan.qa_latency_ms is not None
    assert result.debug.llm_used == {"provider": "scripted", "model": "scripted-1", "byok": False}


def test_evidence_is_named_by_its_kind(known: Memory) -> None:
    llm = ScriptedLLM({"answer": "green tea"})
    known.retrieval("User drinks green tea", "t", "lin", with_answer=True, llm=llm)
    kinds = [line.split("] ")[0] for line in llm.asked[0][-1].text.splitlines() if ". [" in line]
    assert kinds[:2] == ["1. [Fact", "2. [Reference"]


@pytest.mark.parametrize("llm", [None, "rules"])
def test_without_a_model_the_answer_is_one_of_two_sentences(known: Memory, llm: str | None) -> None:
    assert known.retrieval("tea", "t", "lin", with_answer=True, llm=llm).answer == NO_MODEL
    assert known.retrieval("tea", "t", "nobody", with_answer=True, llm=llm).answer == NO_EVIDENCE
    with pytest.raises(ModelNotConfigured):
        known.retrieval("tea", "t", "lin", with_answer=True, llm=llm, llm_policy="require")


def test_a_failing_model_is_an_error_or_said_so(known: Memory) -> None:
    result = known.retrieval("tea", "t", "lin", with_answer=True, llm=ScriptedLLM(ModelFailed("away")))
    assert result.answer == NO_MODEL
    assert [(d.what, d.why) for d in result.debug.degraded] == [("answer", "llm_error: away")]
    with pytest.raises(ModelFailed):
        known.retrieval("tea", "t", "lin", with_answer=True, llm=ScriptedLLM(ModelFailed("away")), llm_policy="require")


def test_a_model_puts_hits_in_order_and_what_it_leaves_out_stays_behind(known: Memory) -> None:
    plain = known.retrieval("green tea", "t", "lin")
    llm = ScriptedLLM({"ranking": ["m3", "m1"]})
    result = known.retrieval("green tea", "t", "lin", rerank={"enabled": True}, llm=llm)
    expected = [plain.hits[2], plain.hits[0], plain.hits[1], *plain.hits[3:]]
    assert [h.id for h in result.hits] == [h.id for h in expected]
    assert result.debug.executed_calls[-1].api == "rerank"


def test_labels_made_up_or_given_twice_are_told_back_and_then_not_believed(known: Memory) -> None:
    plain = known.retrieval("green tea", "t", "lin")
    llm = ScriptedLLM({"ranking": ["m1", "m99"]}, {"ranking": ["m2", "m2"]})
    result = known.retrieval("green tea", "t", "lin", rerank={"enabled": True}, llm=llm)
    assert result.hits == plain.hits
    assert [d.what for d in result.debug.degraded] == ["rerank"]
    assert "is not one of the labels given" in llm.asked[1][-1].text


def test_only_the_first_few_are_put_in_order(known: Memory) -> None:
    llm = ScriptedLLM({"ranking": ["m2", "m1"]})
    result = known.retrieval("green tea", "t", "lin", rerank={"enabled": True, "top_n": 2}, llm=llm)
    assert "[m3]" not in llm.asked[0][-1].text
    assert len(result.hits) > 2


# --- what is refused


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"query": " "}, "query"),
        ({"strategy": "dialog_v9"}, "strategy"),
        ({"topk": 0}, "topk"),
        ({"topk": 1000}, "topk"),
        ({"time_range": {"from": "2026"}}, "time_range"),
        ({"time_range": {"gte": "soon"}}, "time_range.gte"),
        ({"modality": ["smell"]}, "modality"),
        ({"rerank": {"on": True}}, "rerank.on"),
        ({"rerank": {"top_n": 0}}, "rerank.top_n"),
        ({"budget": {"top_k": "3"}}, "budget.top_k"),
        ({"llm_policy": "maybe"}, "llm_policy"),
        ({"user_id": ""}, "user_id"),
    ],
)
def test_what_cannot_be_asked_is_named(memory: Memory, given: dict[str, Any], field: str) -> None:
    ask: dict[str, Any] = {"query": "tea", "tenant_id": "t", "user_id": "lin", "group_id": "g", **given}
    with pytest.raises(InvalidArgument) as caught:
        memory.retrieval(**ask)
    assert caught.value.field == field
