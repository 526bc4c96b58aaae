"""The entry function: formats are named, never guessed, and any form of source gives the same turns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mnemon.contracts.errors import MalformedInput, UnknownInputFormat
from mnemon.contracts.turns import InputFormat
from mnemon.logic.adapters import ADAPTERS, decoded, normalise
from mnemon.logic.adapters.turns import position_id, position_of
from mnemon.logic.denoise import OutputCheck, denoise

FOUR = ["canonical_turns_v1", "openai_messages_v1", "ai_studio_export_text_v1", "agent_trace_v1"]


@pytest.mark.parametrize("wrong", [None, "", "auto", "openai", 5])
def test_a_missing_or_unknown_format_is_an_error_that_lists_the_four(wrong: object) -> None:
    with pytest.raises(UnknownInputFormat) as caught:
        normalise([], wrong)  # type: ignore[arg-type]
    assert caught.value.field == "input_format"
    assert caught.value.known == FOUR
    for name in FOUR:
        assert name in caught.value.message


def test_every_format_has_an_adapter() -> None:
    assert set(ADAPTERS) == set(InputFormat)


def test_text_chunks_a_whole_string_and_parsed_data_give_the_same_turns() -> None:
    text = '[{"role": "user", "content": "你好"}, {"role": "assistant", "content": "Hello"}]'
    parsed = [{"role": "user", "content": "你好"}, {"role": "assistant", "content": "Hello"}]
    expected = list(normalise(parsed, InputFormat.OPENAI_MESSAGES))
    assert [turn.text for turn in expected] == ["你好", "Hello"]
    assert list(normalise(text, "openai_messages_v1")) == expected
    assert list(normalise(list(text), "openai_messages_v1")) == expected
    assert list(normalise(iter([text[:9], "", text[9:]]), "openai_messages_v1")) == expected


@pytest.mark.parametrize("source", [b"[]", 5, None, object()])
def test_a_source_that_is_no_source_is_malformed_input(source: object) -> None:
    with pytest.raises(MalformedInput, match="decoded text"):
        list(normalise(source, "openai_messages_v1"))  # type: ignore[arg-type]


@pytest.mark.parametrize("form", FOUR)
def test_bytes_in_the_stream_are_refused_with_a_hint(form: str) -> None:
    with pytest.raises(MalformedInput, match="UTF-8"):
        list(normalise(iter([b"[]"]), form))  # type: ignore[list-item]


def test_position_ids_sort_in_order_far_beyond_four_digits() -> None:
    assert position_id(1) == "t0001"
    assert position_id(9_999) == "t9999"
    assert position_id(10_000) == "ta00010000"
    assert position_id(10**8) == "tb0000000100000000"
    borders = [1, 2, 9_998, 9_999, 10_000, 10_001, 99_999, 100_000, 10**8 - 1, 10**8, 10**12]
    ids = [position_id(n) for n in borders]
    assert sorted(ids) == ids
    assert [position_of(i) for i in ids] == borders


@pytest.mark.parametrize("own", ["", "t1", "t00001", "ta00000001", "x0001", "t００01", "m-7"])
def test_a_callers_own_id_is_not_taken_for_a_position(own: str) -> None:
    assert position_of(own) is None


def test_decoding_joins_characters_cut_by_a_block_border() -> None:
    raw = "你好🐦e\u0301".encode()
    assert "".join(decoded(raw[i : i + 1] for i in range(len(raw)))) == "你好🐦e\u0301"


@pytest.mark.parametrize(
    ("blocks", "line", "offset"),
    [
        ([b"ab\ncd\xff"], 2, 5),
        ([b"ab\n", b"cd", b"\xffzz"], 2, 5),
        ([b"ab\n\xe4\xbd"], 2, 3),
        ([b"ab\n\xe4\xbd", b"x"], 2, 3),
    ],
)
def test_an_invalid_byte_says_its_line_and_offset(blocks: list[bytes], line: int, offset: int) -> None:
    with pytest.raises(MalformedInput, match="not UTF-8") as caught:
        list(decoded(blocks))
    assert (caught.value.line, caught.value.offset) == (line, offset)


DOCS = Path(__file__).parents[2] / "docs" / "formats.md"
EXAMPLES = re.findall(r"<!-- input_format: (\w+) -->\n```json\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)


def test_the_docs_show_every_format() -> None:
    assert sorted(form for form, _ in EXAMPLES) == sorted(FOUR)


@pytest.mark.parametrize(("form", "text"), EXAMPLES)
def test_the_examples_of_the_docs_work(form: str, text: str) -> None:
    check = OutputCheck(min_text_ratio=1.0)
    kept = [result.turn for result in denoise(normalise(text, form)) if result.turn is not None]
    for turn in kept:
        check.add(turn)
    check.finish()
    assert len(kept) >= 2
