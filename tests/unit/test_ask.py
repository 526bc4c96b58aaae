"""The gate loop: propose, check, tell what was wrong, try again, give back what remains, and leave a trace."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from mnemon.contracts.claims import Language
from mnemon.contracts.errors import BadAnswer, ModelFailed, ResourceExhausted
from mnemon.contracts.models import ChatMessage, Violation
from mnemon.contracts.scope import Scope
from mnemon.contracts.turns import Role, Span, Turn
from mnemon.drivers.llm.providers.openai import OpenAILLM
from mnemon.pipelines.ask import Answer, Asker, Budget, Rules, Spent, Task
from mnemon.testing.llm_server import llm_server
from mnemon.testing.scripted import ScriptedLLM, asking

KEY = "sk-very-secret-0123456789"
SCOPE = Scope.of("t", "lin")
TURN = Turn(turn_id="t1", role=Role.USER, text="我对花生过敏 and I like tea")


class Quotes(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    spans: tuple[Span, ...]


def quote(text: str, start: int | None = None) -> dict[str, Any]:
    begin = TURN.text.find(text) if start is None else start
    return {"spans": [{"turn_id": "t1", "start": begin, "end": begin + len(text), "text_exact": text}]}


def check(turn: Turn, output: Quotes) -> list[Violation]:
    found = []
    for n, span in enumerate(output.spans):
        actual = turn.text[span.start : span.end]
        if actual != span.text_exact:
            found.append(Violation("not verbatim", f"tag m{n + 1}", span.text_exact, actual, n))
    return found


def task(language: Language = "en", **changes: Any) -> Task[Turn, Quotes]:
    settings: dict[str, Any] = {
        "prompt": "policy.dedup_decision",
        "answer": Quotes,
        "variables": lambda turn: {
            "candidate_abstract": turn.text,
            "candidate_content": "",
            "existing_abstract": "",
        },
        "language": lambda turn: language,
        "rules": lambda turn: Quotes.model_validate(quote("花生")),
        "check": check,
    }
    return Task(**(settings | changes))


async def test_a_right_answer_is_taken_as_it_is() -> None:
    model = ScriptedLLM(quote("花生过敏"))
    asker = Asker(model)
    answer = await asker.ask(task(), TURN, SCOPE)
    assert answer.output == Quotes.model_validate(quote("花生过敏"))
    assert answer.violations == ()
    trace = answer.trace
    assert asker.traces == [trace]
    assert (trace.task, trace.prompt_version) == ("policy.dedup_decision", "policy.dedup_decision@1")
    assert (trace.provider, trace.model) == ("scripted", "scripted-1")
    assert (trace.input_tokens, trace.output_tokens, trace.retries, trace.error) == (10, 5, 0, "")
    assert trace.ms > 0
    assert TURN.text in model.asked[0][-1].text


@pytest.mark.parametrize(
    ("language", "told"), [("zh", "没有通过程序检查"), ("en", "did not pass the program's checks")]
)
async def test_a_violation_is_told_back_with_the_tag_and_both_texts(language: Language, told: str) -> None:
    model = ScriptedLLM(quote("花生油", 2), quote("花生过敏"))
    answer = await Asker(model).ask(task(language), TURN, SCOPE)
    assert answer.output == Quotes.model_validate(quote("花生过敏"))
    assert answer.violations == ()
    first, second = model.asked
    assert second[: len(first)] == first
    assert json.loads(second[-2].text) == quote("花生油", 2)
    assert (second[-2].role, second[-1].role) == ("assistant", "user")
    assert told in second[-1].text
    line = {"rule": "not verbatim", "where": "tag m1", "expected": "花生油", "actual": "花生过"}
    assert json.dumps(line, ensure_ascii=False) in second[-1].text
    assert answer.trace.retries == 1
    assert answer.trace.violations == ("not verbatim",)
    assert (answer.trace.input_tokens, answer.trace.output_tokens) == (20, 10)


@pytest.mark.parametrize("retries", [0, 1, 2])
async def test_what_is_still_wrong_after_the_last_try_is_given_back(retries: int) -> None:
    model = ScriptedLLM(*[quote("花生油", 2)] * 5)
    answer = await Asker(model).ask(task(retries=retries), TURN, SCOPE)
    assert len(model.asked) == retries + 1
    assert answer.output is not None
    assert [v.rule for v in answer.violations] == ["not verbatim"]
    assert answer.trace.retries == retries


async def test_an_answer_of_the_wrong_shape_is_a_violation_that_names_the_field() -> None:
    wrong = {"spans": [{"turn_id": "t1", "start": -4, "end": 3, "text_exact": "x"}], "more": 1}
    model = ScriptedLLM(wrong, quote("tea"))
    answer = await Asker(model).ask(task(), TURN, SCOPE)
    told = model.asked[1][-1].text
    assert '"where": "spans.0.start"' in told
    assert '"actual": "-4"' in told
    assert '"where": "more"' in told
    assert answer.output == Quotes.model_validate(quote("tea"))
    assert answer.trace.violations == ("schema", "schema")


async def test_no_answer_of_the_right_shape_at_all() -> None:
    answer: Answer[Quotes] = await Asker(ScriptedLLM({}, {"spans": 3})).ask(task(), TURN, SCOPE)
    assert answer.output is None
    assert [(v.rule, v.where) for v in answer.violations] == [("schema", "spans")]


async def test_what_is_no_object_is_told_back_too_and_its_tokens_count() -> None:
    model = ScriptedLLM(BadAnswer("no object", input_tokens=7, output_tokens=3), quote("tea"))
    answer = await Asker(model).ask(task(), TURN, SCOPE)
    assert answer.output is not None
    assert "one JSON object" in model.asked[1][-1].text
    assert [m.role for m in model.asked[1]] == ["system", "user", "user"]
    assert (answer.trace.input_tokens, answer.trace.violations) == (17, ("not one JSON object",))


async def test_a_misshapen_correction_does_not_spoil_what_was_there() -> None:
    answer = await Asker(ScriptedLLM(quote("花生油", 2), {"oops": 1})).ask(task(), TURN, SCOPE)
    assert answer.output == Quotes.model_validate(quote("花生油", 2))
    assert [v.rule for v in answer.violations] == ["not verbatim"]


async def test_what_can_be_mended_is_not_asked_again() -> None:
    def mend(turn: Turn, output: Quotes) -> Quotes:
        return Quotes.model_validate(quote(output.spans[0].text_exact))

    model = ScriptedLLM(quote("花生过敏", 0))
    answer = await Asker(model).ask(task(mend=mend), TURN, SCOPE)
    assert answer.output == Quotes.model_validate(quote("花生过敏"))
    assert answer.trace.retries == 0


async def test_rules_answer_through_the_same_checks_and_are_not_asked_twice() -> None:
    asker = Asker(Rules())
    right = await asker.ask(task(), TURN, SCOPE)
    wrong = await asker.ask(task(rules=lambda turn: Quotes.model_validate(quote("花生油", 2))), TURN, SCOPE)
    assert right.output == Quotes.model_validate(quote("花生"))
    assert [v.rule for v in wrong.violations] == ["not verbatim"]
    assert (wrong.trace.provider, wrong.trace.model, wrong.trace.retries) == ("rules", "rules-1", 0)
    assert asker.by_rules
    assert asker.llm_used == {"provider": "rules", "model": "rules-1", "byok": False}
    assert asker.spent == Spent()


async def test_a_model_that_fails_leaves_a_trace_and_its_error() -> None:
    asker = Asker(ScriptedLLM(quote("花生油", 2), ModelFailed("openai:m did not answer: HTTP 500")), byok=True)
    with pytest.raises(ModelFailed, match="HTTP 500"):
        await asker.ask(task(), TURN, SCOPE)
    (trace,) = asker.traces
    assert trace.error == "openai:m did not answer: HTTP 500"
    assert (trace.retries, trace.input_tokens, trace.violations) == (1, 10, ("not verbatim",))
    assert asker.llm_used == {"provider": "scripted", "model": "scripted-1", "byok": True}


@pytest.mark.parametrize(
    ("budget", "setting"),
    [
        (Budget(max_tokens=25), "llm.max_tokens_per_write"),
        (Budget(max_cost=0.00035, input_price=10.0, output_price=20.0), "llm.max_cost_per_write"),
    ],
)
async def test_a_budget_that_is_used_up_names_its_setting(budget: Budget, setting: str) -> None:
    model = ScriptedLLM(*[quote("tea")] * 5)
    asker = Asker(model, budget)
    await asker.ask(task(), TURN, SCOPE)
    await asker.ask(task(), TURN, SCOPE)
    with pytest.raises(ResourceExhausted, match=setting) as caught:
        await asker.ask(task(), TURN, SCOPE)
    assert caught.value.field == setting
    assert len(model.asked) == 2
    assert setting in asker.traces[-1].error


async def test_the_budget_holds_for_a_second_try_as_well() -> None:
    model = ScriptedLLM(*[quote("花生油", 2)] * 5)
    with pytest.raises(ResourceExhausted):
        await Asker(model, Budget(max_tokens=15)).ask(task(), TURN, SCOPE)
    assert len(model.asked) == 1


async def test_cost_is_counted_by_the_million() -> None:
    asker = Asker(ScriptedLLM(quote("tea")), Budget(input_price=3.0, output_price=15.0))
    await asker.ask(task(), TURN, SCOPE)
    assert (asker.spent.input_tokens, asker.spent.output_tokens, asker.spent.tokens) == (10, 5, 15)
    assert asker.spent.cost == pytest.approx((10 * 3 + 5 * 15) / 1_000_000)


async def test_no_more_at_once_than_allowed() -> None:
    running: list[int] = []
    most = 0

    class Busy(ScriptedLLM):
        async def complete(self, *given: Any, **more: Any) -> Any:
            nonlocal most
            running.append(1)
            most = max(most, len(running))
            await asyncio.sleep(0)
            running.pop()
            return await super().complete(*given, **more)

    asker = Asker(Busy(*[quote("tea")] * 12), concurrency=3)
    await asyncio.gather(*(asker.ask(task(), TURN, SCOPE) for _ in range(12)))
    assert most == 3
    assert len(asker.traces) == 12


class OwnModel:
    """The least somebody can bring along."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.prompts: list[str] = []

    async def complete_json(self, prompt: str, schema: dict[str, Any], scope: Scope | None = None) -> dict[str, Any]:
        self.prompts.append(prompt)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def test_a_model_of_ones_own_with_one_method() -> None:
    own = OwnModel(quote("花生过敏"))
    asker = Asker(own)
    answer = await asker.ask(task("zh"), TURN, SCOPE)
    assert answer.output == Quotes.model_validate(quote("花生过敏"))
    assert own.prompts[0].startswith("# policy.dedup_decision@1")
    assert TURN.text in own.prompts[0]
    assert asker.llm_used == {"provider": "custom", "model": "OwnModel", "byok": False}
    assert asker.spent.tokens == 0


async def test_what_a_model_of_ones_own_raises_is_told_by_its_type() -> None:
    asker = Asker(OwnModel(RuntimeError(f"401 for {KEY}")))
    with pytest.raises(ModelFailed, match="custom:OwnModel failed: RuntimeError") as caught:
        await asker.ask(task(), TURN, SCOPE)
    assert KEY not in str(caught.value) + str(asker.traces)
    none: Any = ["not", "an", "object"]
    assert (await Asker(OwnModel(none)).ask(task(), TURN, SCOPE)).output is None


@pytest.mark.parametrize(
    ("script", "retries", "violations"),
    [
        (["hallucinated"], 1, ("not verbatim",)),
        (["wrong_schema"], 1, ("schema", "schema")),
        (["bad_json"], 1, ("not one JSON object",)),
        (["two_objects"], 1, ("not one JSON object",)),
        (["500", "429:0"], 0, ()),
    ],
)
async def test_over_the_wire_a_misbehaving_model_is_put_right(
    script: list[str], retries: int, violations: tuple[str, ...]
) -> None:
    with llm_server(lambda said: quote("花生过敏")) as server:
        server.script = list(script)
        model = OpenAILLM("gpt-4o-mini", KEY, f"{server.url}/v1", backoff_s=0.0)
        asker = Asker(model, byok=True)
        answer = await asker.ask(task("zh"), TURN, SCOPE)
        await model.close()
    assert answer.output == Quotes.model_validate(quote("花生过敏"))
    assert answer.violations == ()
    assert (answer.trace.retries, answer.trace.violations) == (retries, violations)
    assert KEY not in str(asker.traces) + str(asker.llm_used) + repr(vars(asker))


async def test_over_the_wire_a_model_that_goes_on_hallucinating_is_not_believed() -> None:
    with llm_server(lambda said: quote("花生过敏")) as server:
        server.script = ["hallucinated"] * 2
        model = OpenAILLM("gpt-4o-mini", KEY, f"{server.url}/v1", backoff_s=0.0)
        answer = await Asker(model).ask(task(), TURN, SCOPE)
        await model.close()
        assert "words that nobody said" in server.asked[1].text
    assert [v.rule for v in answer.violations] == ["not verbatim"]


async def test_a_script_that_is_at_its_end_fails_the_test() -> None:
    model = ScriptedLLM({"a": 1}, lambda messages, schema: {"said": messages[-1].text, "title": schema["title"]})
    assert await model.complete_json("x", {}) == {"a": 1}
    assert model.complete_json_sync("y", {"title": "T"}) == {"said": "y", "title": "T"}
    with pytest.raises(AssertionError, match=r"at its end, but the model is asked once more \(call 3\)"):
        await model.complete_json("z", {})
    asker = Asker(ScriptedLLM())
    with pytest.raises(AssertionError, match=r"asked by policy\.dedup_decision"):
        await asker.ask(task(), TURN, SCOPE)
    assert asker.traces[0].error == "AssertionError"


async def test_a_script_by_prompt_does_not_mind_the_order() -> None:
    model = ScriptedLLM({"rest": 1}, by_prompt={"policy.dedup_decision": [quote("tea")], "tagging.value_tags": [{}]})
    assert (await Asker(model).ask(task(), TURN, SCOPE)).output == Quotes.model_validate(quote("tea"))
    assert await model.complete_json("no prompt of ours", {}) == {"rest": 1}
    assert model.left == 1
    assert asking(model.asked[0]) == "policy.dedup_decision"
    assert asking([ChatMessage("user", "# a heading")]) == ""
