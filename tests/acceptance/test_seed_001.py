"""Seed 001, §4, §7, §8 and the reading items of §10: who sees what, and what `retrieval` answers."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest

from mnemon import Memory
from mnemon.contracts.errors import Conflict, InvalidArgument, ModelNotConfigured
from mnemon.contracts.models import ChatMessage
from mnemon.contracts.retrieval import RetrievalResult
from mnemon.logic.retrieval.fusing import WEIGHTS
from mnemon.pipelines.prompts import prompt
from mnemon.testing.answers import fact, model, script, tag, tagging
from mnemon.testing.scripted import ScriptedLLM


def write(memory: Memory, tenant: str, user: str, text: str, **given: Any) -> Any:
    given.setdefault("session_id", "s")
    return memory.session_write(tenant, user, turns=[{"role": "user", "text": text}], extract=False, **given)


def seen(memory: Memory, tenant: str, user: str, **given: Any) -> set[str]:
    bound = memory.bind(tenant, user, **given)
    by_list = {m.content for m in bound.messages_list(page_size=200).items}
    by_words = {h.message.content for h in bound.lexical_search("secret 秘密", page_size=200).items}
    by_meaning = {h.message.content for h in bound.semantic_search("secret 秘密", top_k=200)}
    assert by_list == by_words == by_meaning
    return by_list


def test_4_2_users_do_not_see_each_other(memory: Memory) -> None:
    write(memory, "t", "a", "secret of a")
    write(memory, "t", "b", "秘密 of b")
    assert seen(memory, "t", "a") == {"secret of a"}
    assert seen(memory, "t", "b") == {"秘密 of b"}


def test_4_2_a_product_shares_what_was_written_for_it(memory: Memory) -> None:
    write(memory, "t", "a", "secret for the product", product_id="app", visibility="product")
    write(memory, "t", "a", "secret of a in the product", product_id="app", session_id="own")
    assert seen(memory, "t", "b", product_id="app") == {"secret for the product"}
    assert seen(memory, "t", "b") == set()
    assert seen(memory, "t", "a", product_id="app") == {"secret for the product", "secret of a in the product"}
    assert seen(memory, "t", "a") == set()


def test_4_2_public_is_for_everybody_in_the_tenant(memory: Memory) -> None:
    write(memory, "t", "a", "public secret", visibility="public")
    assert seen(memory, "t", "anybody") == {"public secret"}
    assert seen(memory, "other", "anybody") == set()


def test_4_2_a_group_is_seen_in_the_group_only(memory: Memory) -> None:
    write(memory, "t", "a", "group secret", group_id="g1", visibility="group")
    assert seen(memory, "t", "b", group_id="g1") == {"group secret"}
    assert seen(memory, "t", "b", group_id="g2") == set()
    assert seen(memory, "t", "a") == set()


def test_4_3_tenants_never_meet(memory: Memory) -> None:
    write(memory, "t1", "a", "secret in t1")
    write(memory, "t2", "a", "secret in t2")
    assert seen(memory, "t1", "a") == {"secret in t1"}
    assert seen(memory, "t2", "a") == {"secret in t2"}


@pytest.mark.parametrize("odd", ["*", "%", "_", "u:a", "A", "a ", "a\u0301", "á", "ａ", "../a", "a/b", "pub", "用户"])
def test_4_an_odd_id_is_just_another_id(memory: Memory, odd: str) -> None:
    write(memory, "t", "a", "secret of a")
    write(memory, "t", odd, "secret of the odd one")
    assert seen(memory, "t", odd) == {"secret of the odd one"}
    assert seen(memory, "t", "a") == {"secret of a"}
    assert memory.verify().ok


@pytest.mark.parametrize("bad", ["", "  ", "a\nb", "a\0b", "x" * 600])
@pytest.mark.parametrize("field", ["tenant_id", "user_id", "session_id"])
def test_4_a_bad_id_is_an_error_that_names_the_field(memory: Memory, field: str, bad: str) -> None:
    given = {"tenant_id": "t", "user_id": "u", "session_id": "s", field: bad}
    with pytest.raises(InvalidArgument) as caught:
        memory.session_write(**given, turns=[{"role": "user", "text": "x"}], extract=False)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("visibility", "field"), [("product", "product_id"), ("group", "group_id"), ("secret", "visibility")]
)
def test_4_visibility_says_what_it_needs(memory: Memory, visibility: Any, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        write(memory, "t", "a", "x", visibility=visibility)
    assert caught.value.field == field


def test_4_the_visibility_of_a_session_is_fixed(memory: Memory) -> None:
    write(memory, "t", "a", "secret")
    with pytest.raises(Conflict):
        write(memory, "t", "a", "for all", visibility="public", mode="append")
    assert seen(memory, "t", "b") == set()


def test_4_same_session_id_of_two_people_never_meets(memory: Memory) -> None:
    for user in ("a", "b"):
        for text in ("secret one", "secret two"):
            write(memory, "t", user, f"{text} of {user}", visibility="public", session_id="same", mode="append")
            break
    bound = memory.bind("t", "c")
    for message in bound.messages_list().items:
        around = bound.neighbors(message.message_id, before=10, after=10)
        assert {m.meta["uri"] for m in around} == {message.meta["uri"]}


# --- §7: retrieval

COFFEE = {"turn_id": "t1", "role": "user", "text": "I drink black coffee before every meeting."}
TOWN = {"turn_id": "t2", "role": "user", "text": "我在杭州工作。"}
FACTS = script(
    tagging(tag(COFFEE, "I drink black coffee", "preference"), tag(TOWN, "我在杭州工作")),
    fact(COFFEE, "I drink black coffee", "User drinks black coffee", "preferences", routing_key="drinks"),
    fact(TOWN, "我在杭州工作", "用户在杭州工作"),
)
STRATEGIES = ("dialog_v1", "dialog_v2", "video_v1", "auto_v1")


@pytest.fixture
def told(memory: Memory) -> Memory:
    memory.session_write("t", "a", "s", turns=[COFFEE, TOWN], llm=model(FACTS))
    return memory


def found(result: RetrievalResult) -> list[str]:
    return [hit.entry.contents[0] for hit in result.hits]


def test_7_2_the_signature_and_its_defaults() -> None:
    given = inspect.signature(Memory.retrieval).parameters
    defaults = {name: given[name].default for name in ("strategy", "topk", "with_answer", "task", "llm_policy")}
    assert defaults == {
        "strategy": "dialog_v1",
        "topk": 30,
        "with_answer": False,
        "task": "GENERAL",
        "llm_policy": "best_effort",
    }


def test_7_3_1_three_routes_and_the_reference_is_the_fact_s_turn(told: Memory) -> None:
    result = told.retrieval("User drinks black coffee", "t", "a")
    by_source = {hit.source: hit for hit in reversed(result.hits)}
    fact_, reference = by_source["fact_search"], by_source["reference_trace"]
    assert fact_.entry.contents == ("User drinks black coffee",)
    assert reference.entry.contents == (COFFEE["text"],)
    assert reference.id == fact_.evidence[0].id
    turns_only = told.retrieval("User drinks black coffee", "t", "a", topk=4)
    assert len(turns_only.hits) == 4


def test_7_3_2_only_the_dialog_s_own_and_only_active_facts(told: Memory) -> None:
    for hit in told.retrieval("coffee 杭州", "t", "a").hits:
        assert hit.entry.metadata["memory_domain"] == "dialog"
        assert hit.entry.modality == "text"
        assert hit.entry.metadata["user_id"] == ["u:a"]
    claim = told.claims("t", "a", kind="preference").items[0]
    told.reject("t", "a", claim.claim_id)
    assert claim.statement not in found(told.retrieval("User drinks black coffee", "t", "a"))


def test_7_3_3_fixed_weights_no_normalisation(told: Memory) -> None:
    assert WEIGHTS == {"fact_search": 2.0, "reference_trace": 1.8, "event_search": 1.0}
    result = told.retrieval("black coffee", "t", "a")
    for hit in result.hits:
        assert hit.final_score == pytest.approx(hit.score * WEIGHTS[hit.source])
    finals = [hit.final_score for hit in result.hits]
    assert finals == sorted(finals, reverse=True)
    assert len({hit.id for hit in result.hits}) == len(result.hits)
    assert told.retrieval("black coffee", "t", "a", topk=2).hits == result.hits[:2]


def test_7_3_4_debug_has_the_plan_and_every_call(told: Memory) -> None:
    debug = told.retrieval("coffee", "t", "a", with_answer=True).debug
    assert debug.plan.qa_latency_ms is not None
    assert debug.plan.total_latency_ms >= debug.plan.retrieval_latency_ms
    calls = {call.api: call for call in debug.executed_calls}
    assert {"fact_search", "event_search", "trace_references"} <= calls.keys()
    assert calls["fact_search"].count == 2
    assert debug.evidence_count == 4
    assert debug.strategy == "dialog_v1"


def test_7_3_5_the_question_the_task_and_the_evidence_are_put_together_so() -> None:
    system, user = prompt("retrieval.qa_general").render("en", question="Q?", task="GENERAL", evidence="1. [Fact] x")
    assert system.text.startswith("# retrieval.qa_general@1\n")
    assert user == ChatMessage(
        "user",
        "## Question\n<question>\nQ?\n</question>\n\n## Task type\n<task>\nGENERAL\n</task>\n\n"
        "## Evidence\n<evidence>\n1. [Fact] x\n</evidence>",
    )


def test_7_3_5_the_model_sees_kinds_and_words(told: Memory) -> None:
    llm = ScriptedLLM({"answer": "Black coffee."})
    result = told.retrieval("User drinks black coffee", "t", "a", with_answer=True, llm=llm)
    assert result.answer == "Black coffee."
    lines = [line for line in llm.asked[0][-1].text.splitlines() if line.startswith(("1. ", "2. "))]
    assert lines[0].startswith("1. [Fact] ")
    assert lines[1].startswith("2. [Reference] ")
    assert lines[1].endswith(json.dumps(COFFEE["text"]))


def test_7_4_video_finds_nothing_of_the_dialog(told: Memory) -> None:
    result = told.retrieval("coffee", "t", "a", strategy="video_v1")
    assert result.hits == ()
    assert [call.api for call in result.debug.executed_calls] == ["embed", "event_search"]
    assert result.debug.strategy == "video_v1"


# --- §8: whose model


def test_8_3_require_is_an_error_and_best_effort_is_predictable(told: Memory) -> None:
    for wish in ({"with_answer": True}, {"rerank": {"enabled": True}}):
        with pytest.raises(ModelNotConfigured):
            told.retrieval("coffee", "t", "a", llm_policy="require", **wish)
    assert told.retrieval("coffee", "t", "a", with_answer=True).answer == "Unable to answer in dummy mode."
    assert told.retrieval("coffee", "t", "b", with_answer=True).answer == "insufficient information"
    plain = told.retrieval("coffee", "t", "a", llm_policy="require")
    assert plain.answer is None
    reranked = told.retrieval("coffee", "t", "a", rerank={"enabled": True})
    assert reranked.hits == plain.hits
    assert [(d.what, d.why) for d in reranked.debug.degraded] == [("rerank", "llm_missing")]


def test_8_2_the_key_of_a_caller_is_nowhere_in_the_result(told: Memory) -> None:
    key = "sk-very-secret"
    own = {"provider": "openai", "model": "m", "api_key": key, "base_url": "http://127.0.0.1:9/v1", "timeout_s": 0.2}
    result = told.retrieval("coffee", "t", "a", with_answer=True, llm=own)
    assert result.debug.llm_used == {"provider": "openai", "model": "m", "byok": True}
    assert result.answer == "Unable to answer in dummy mode."
    assert key not in repr(result)


# --- §10.2


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_10_2_people_and_tenants_never_meet_in_retrieval(told: Memory, strategy: str) -> None:
    write(told, "t", "b", "coffee of b", product_id="app")
    write(told, "t", "b", "coffee for the product", product_id="app", visibility="product", session_id="shared")
    for tenant, user, product in (("t", "c", None), ("t2", "a", None), ("t", "*", None), ("t", "%", "app2")):
        assert told.retrieval("coffee", tenant, user, product, strategy=strategy).hits == ()


@pytest.mark.parametrize("strategy", ["dialog_v1", "dialog_v2"])
def test_10_2_a_product_is_shared_in_retrieval(memory: Memory, strategy: str) -> None:
    write(memory, "t", "b", "coffee of b", product_id="app")
    write(memory, "t", "b", "coffee for the product", product_id="app", visibility="product", session_id="shared")
    assert found(memory.retrieval("coffee", "t", "a", "app", strategy=strategy)) == ["coffee for the product"]
    assert set(found(memory.retrieval("coffee", "t", "b", "app", strategy=strategy))) == {
        "coffee of b",
        "coffee for the product",
    }


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_10_2_the_same_question_gives_the_same_order(told: Memory, strategy: str) -> None:
    one, two = (told.retrieval("coffee 杭州 meeting", "t", "a", strategy=strategy).hits for _ in range(2))
    assert one == two
