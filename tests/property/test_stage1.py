"""Stage 1 as laws: chunking does not matter, garbage raises only our errors, ids sort, words are never rewritten."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mnemon.contracts.errors import MnemonError
from mnemon.contracts.turns import InputFormat, Role, Turn
from mnemon.logic.adapters import decoded, normalise, text_buffer
from mnemon.logic.adapters.otel import convert
from mnemon.logic.adapters.relaxed_json import relaxed
from mnemon.logic.adapters.turns import position_id, position_of
from mnemon.logic.denoise import TRUNCATED_MARK, DenoiseRules, denoise, verbatim_length
from mnemon.logic.redaction import Redactor, default_patterns

FORMS = [form.value for form in InputFormat]
REDACT = Redactor(default_patterns())
words = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
# Names that occur in the formats, so that garbage gets past the first check.
NAMES = """
role content text turns messages steps schema type tool name parts chunkedPrompt chunks contents meta turn_id
attachments source_ref timestamp created_at tool_calls function arguments thought isThought inlineData data spans
resourceSpans scopeSpans attributes events key value stringValue gen_ai.input.messages usage output ok
"""
names = st.sampled_from(NAMES.split())
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(
        ["user", "assistant", "tool", "model", "agent_trace_v1", "user_message", "tool_call", "text", "{}"]
    )
)
garbage = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names | words, inner, max_size=5), max_leaves=25
)
quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(autouse=True)
def small_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a window of three characters every border is met."""
    monkeypatch.setattr(text_buffer, "BLOCK", 3)


fixture_ok = settings(quick, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


def message(text: str, number: int) -> dict[str, Any]:
    kind = number % 3
    if kind == 0:
        return {"role": "user", "content": text, "name": "安"}
    if kind == 1:
        call = {"id": f"c{number}", "function": {"name": "f", "arguments": json.dumps({"q": text})}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"role": "tool", "tool_call_id": f"c{number - 1}", "content": [{"type": "text", "text": text}]}


def export(form: str, texts: list[str]) -> Any:
    if form == InputFormat.CANONICAL_TURNS:
        return {"turns": [{"role": "user", "text": text, "meta": {"n": [1.5, None]}} for text in texts]}
    if form == InputFormat.OPENAI_MESSAGES:
        return {"model": "m", "messages": [message(text, n) for n, text in enumerate(texts)], "n": 1}
    if form == InputFormat.AI_STUDIO_EXPORT:
        chunks = [{"role": "model", "parts": [{"text": text}, {"text": "!"}]} for text in texts]
        return {"runSettings": {"a": [1]}, "chunkedPrompt": {"chunks": chunks}}
    return {"schema": form, "steps": [{"type": "user_message", "text": text, "step_id": 1} for text in texts]}


def cut(text: str, borders: list[int]) -> Iterator[str]:
    edges = sorted({border % (len(text) + 1) for border in borders})
    for start, end in zip([0, *edges], [*edges, len(text)], strict=True):
        yield text[start:end]


@pytest.mark.parametrize("form", FORMS)
@given(
    texts=st.lists(words, max_size=6),
    borders=st.lists(st.integers(0, 10_000), max_size=12),
    escape=st.booleans(),
    indent=st.sampled_from([None, 1]),
)
@fixture_ok
def test_chunking_does_not_change_a_byte(
    form: str, texts: list[str], borders: list[int], escape: bool, indent: int | None
) -> None:
    data = export(form, texts)
    text = json.dumps(data, ensure_ascii=escape, indent=indent)
    whole = [turn.model_dump_json() for turn in normalise([text], form)]
    assert [turn.model_dump_json() for turn in normalise(cut(text, borders), form)] == whole
    assert [turn.model_dump_json() for turn in normalise(iter(text), form)] == whole
    assert [turn.model_dump_json() for turn in normalise(data, form)] == whole
    assert len(whole) == len(texts)


@given(texts=st.lists(words, max_size=6), borders=st.lists(st.integers(0, 10_000), max_size=12))
@fixture_ok
def test_bytes_cut_anywhere_decode_to_the_same_turns(texts: list[str], borders: list[int]) -> None:
    raw = json.dumps(export("openai_messages_v1", texts), ensure_ascii=False).encode()
    edges = sorted({border % (len(raw) + 1) for border in borders})
    blocks = [raw[a:b] for a, b in zip([0, *edges], [*edges, len(raw)], strict=True)]
    found = list(normalise(decoded(blocks), "openai_messages_v1"))
    assert found == list(normalise([raw.decode()], "openai_messages_v1"))


@pytest.mark.parametrize("form", FORMS)
@given(data=garbage)
@example(data={"messages": [{"role": "user", "content": "\ud800"}]})
@example(data={"contents": [{"parts": [{"text": "x", "thought": 1}]}]})
@fixture_ok
def test_parsed_garbage_raises_nothing_but_our_errors(form: str, data: Any) -> None:
    try:
        for turn in normalise(data, form):
            turn.model_dump_json()
    except MnemonError as error:
        json.dumps(error.envelope()).encode()


@pytest.mark.parametrize("form", FORMS)
@given(data=garbage, harm=st.lists(st.tuples(st.integers(0, 500), st.text(max_size=3)), max_size=3))
@fixture_ok
def test_damaged_text_raises_nothing_but_our_errors_wherever_it_is_cut(
    form: str, data: Any, harm: list[tuple[int, str]]
) -> None:
    text = json.dumps(data)
    for at, piece in harm:
        text = text[: at % (len(text) + 1)] + piece + text[at % (len(text) + 1) + 1 :]
    outcomes = []
    for chunks in ([text], list(text)):
        try:
            outcomes.append([turn.model_dump_json() for turn in normalise(iter(chunks), form)])
        except MnemonError as error:
            json.dumps(error.envelope()).encode()
            outcomes.append([type(error).__name__, error.details.get("path")])
    assert outcomes[0] == outcomes[1]


@given(text=st.text('{}[]",:/*\\ \n`ab1', max_size=60))
@settings(max_examples=400, deadline=None)
def test_relaxing_is_a_function_of_the_text_alone_and_keeps_lines(text: str) -> None:
    whole = "".join(relaxed([text]))
    assert "".join(relaxed(text)) == whole
    assert len(whole) == len(text)
    assert [i for i, c in enumerate(whole) if c == "\n"] == [i for i, c in enumerate(text) if c == "\n"]


@given(data=garbage)
@quick
def test_strict_json_is_not_changed_by_relaxing(data: Any) -> None:
    text = json.dumps(data)
    assert "".join(relaxed([text])) == text


@given(data=garbage)
@example(data=[{"attributes": {"gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text"}]}]'}}])
@quick
def test_converting_garbage_spans_raises_nothing_but_our_errors(data: Any) -> None:
    try:
        trace = convert(data)
        list(normalise(trace, "agent_trace_v1"))
    except MnemonError as error:
        json.dumps(error.envelope()).encode()


@given(positions=st.lists(st.integers(1, 10**16 - 1), min_size=2, max_size=30))
@quick
def test_ids_sort_in_the_order_of_speaking(positions: list[int]) -> None:
    ordered = sorted(positions)
    ids = [position_id(position) for position in ordered]
    assert sorted(ids) == ids
    assert [position_of(turn_id) for turn_id in ids] == ordered


@given(text=st.text(st.sampled_from("ab你\u0301\u200d👩🏽\r\n "), max_size=60), limit=st.integers(1, 20))
@settings(max_examples=300, deadline=None)
def test_what_is_kept_is_the_beginning_of_what_was_said_and_the_blob_is_all_of_it(text: str, limit: int) -> None:
    rules = DenoiseRules(drop_empty=False, tool_text_limit=limit)
    (result,) = denoise([Turn(turn_id="t0001", role=Role.TOOL, text=text)], rules)
    assert result.turn is not None
    length = verbatim_length(result.turn)
    assert length <= limit
    assert text.startswith(result.turn.text[:length])
    if len(text) > limit:
        assert result.blobs == (text.encode(),)
        assert result.turn.text[length:] == TRUNCATED_MARK
    else:
        assert (result.turn.text, result.blobs) == (text, ())
    (again,) = denoise([result.turn], rules)
    assert (again.turn, again.blobs) == (result.turn, ())


@given(texts=st.lists(words | st.just('{"tokenCount": 1}'), max_size=8))
@quick
def test_every_turn_is_kept_word_for_word_or_reported(texts: list[str]) -> None:
    turns = list(normalise({"turns": [{"role": "user", "text": text} for text in texts]}, "canonical_turns_v1"))
    results = list(denoise(turns))
    assert len(results) == len(turns)
    for turn, result in zip(turns, results, strict=True):
        assert (result.turn is None) != (result.dropped is None)
        assert result.turn in (None, turn)


@given(text=st.text(st.sampled_from("0123456789 -+()sk_.ab密码：=@/:[]RED"), max_size=60))
@settings(max_examples=300, deadline=None)
def test_redaction_settles_at_once_and_leaves_other_turns_alone(text: str) -> None:
    turn = Turn(turn_id="t0001", role=Role.USER, text=text)
    once, masked = REDACT(turn)
    assert (once == turn) == (not masked)
    twice, more = REDACT(once)
    assert (twice, more) == (once, [])
