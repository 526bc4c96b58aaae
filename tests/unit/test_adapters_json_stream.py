"""The scanner: places in errors, borders anywhere, and a bounded window."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator

import pytest

from mnemon.contracts.errors import MalformedInput
from mnemon.logic.adapters import text_buffer
from mnemon.logic.adapters.json_stream import Layout, read

LAYOUT = Layout(arrays=(("messages",),), expected="messages")
NESTED = Layout(arrays=(("a", "b"), ("c",)), expected="a.b or c", lines=False)


def values(text: str, layout: Layout = LAYOUT) -> list[tuple[str, object]]:
    return [(item.place.path, item.value) for item in read([text], layout)]


def fails(text: str, layout: Layout = LAYOUT) -> MalformedInput:
    with pytest.raises(MalformedInput) as caught:
        list(read([text], layout))
    return caught.value


def test_the_three_outer_forms_are_told_apart_by_their_first_bracket() -> None:
    assert values("[1, {}]") == [("[0]", 1), ("[1]", {})]
    assert values('{"m": 1, "messages": [2], "z": null}') == [("m", 1), ("messages[0]", 2), ("z", None)]
    assert values('{"m": 1}\n{"m": 2}\r\n\n{"m": 3}\n') == [("[0]", {"m": 1}), ("[1]", {"m": 2}), ("[2]", {"m": 3})]


def test_an_empty_array_holds_nothing() -> None:
    assert values("[]") == []
    assert values('{"messages": [ ]}') == []
    assert list(read([], LAYOUT)) == []


def test_a_nested_array_streams_in_the_order_of_the_document() -> None:
    text = '{"x": 1, "a": {"y": 2, "b": [3, 4], "w": 5}, "c": [6]}'
    expected = [("x", 1), ("a.y", 2), ("a.b[0]", 3), ("a.b[1]", 4), ("a.w", 5), ("c[0]", 6)]
    assert values(text, NESTED) == expected
    assert [(i.place.path, i.value) for i in read(json.loads(text), NESTED)] == expected


def test_a_byte_order_mark_is_not_content() -> None:
    assert values("\ufeff[1]") == [("[0]", 1)]
    assert fails("\ufeff[x]").column == 2


def test_line_and_column_are_those_of_the_stream() -> None:
    items = list(read(["[\n  1,\r\n", "\n   {}", ", 3]"], LAYOUT))
    assert [(i.place.line, i.place.column) for i in items] == [(2, 3), (4, 4), (4, 8)]


def test_places_stay_right_behind_many_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_buffer, "BLOCK", 16)
    lines = [json.dumps({"n": n, "pad": "长" * (n % 40)}, ensure_ascii=False) for n in range(300)]
    text = "[" + ",\n".join(lines) + "]"
    items = list(read((text[i : i + 7] for i in range(0, len(text), 7)), LAYOUT))
    assert [item.value["n"] for item in items] == list(range(300))
    assert [item.place.line for item in items] == list(range(1, 301))
    assert {item.place.column for item in items[1:]} == {1}


@pytest.mark.parametrize("block", [1, 2, 3, 5, 8, 13])
def test_a_border_may_cut_escapes_numbers_and_words(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_buffer, "BLOCK", block)
    data = [{"a": 'q"\\/\n\u00e9', "b": [-1.5e-3, 1000, True, False, None], "c": "\ud83d\ude00"}, -12.25, "x\\", [], {}]
    data[0]["c"] = "😀"  # type: ignore[index]
    for text in (json.dumps(data), json.dumps(data, ensure_ascii=False, indent=1)):
        assert [item.value for item in read(iter(text), LAYOUT)] == data


@pytest.mark.parametrize(
    ("text", "path", "line", "says"),
    [
        ('{"messages": [\n{"a": 1},\n{"b": "cut', "messages[1]", 3, "ends inside messages[1]"),
        ('{"messages": [\n{"a": 1},\n{"b": 2}', "messages[1]", 3, "expected `,` or `]`"),
        ('{"messages": [1,\n', "messages[1]", 2, "ends inside messages[1]"),
        ('{"messages": [1]', "", 1, "expected `,` or `}`"),
        ('{"messages"', "messages", 1, "expected `:`"),
        ('{"messages": [1, {"a": 1, b}]}', "messages[1]", 1, "property name"),
        ('{"messages": [1, {"a" 1}]}', "messages[1]", 1, "':' delimiter"),
        ('{"messages": [1 2]}', "messages[0]", 1, "expected `,` or `]`"),
        ("[1,]", "[1]", 1, "found ']'"),
        ("[nul]", "[0]", 1, "found 'nul'"),
        ("[01]", "[0]", 1, "found '01'"),
        ('["a\nb"]', "[0]", 1, "Invalid control character"),
        ('["\\x"]', "[0]", 1, "escape"),
        ("[{'a': 1}]", "[0]", 1, "property name"),
        ('{"messages": 5}', "messages", 1, "an array"),
        ('{"messages": [], "messages": []}', "", 1, "stands twice"),
        ('[{"k": 1, "k": 2}]', "[0]", 1, "`k` stands twice"),
        ("[NaN]", "[0]", 1, "NaN is not JSON"),
        ('[{"n": -Infinity}]', "[0]", 1, "-Infinity is not JSON"),
        ("[1e999]", "[0]", 1, "too large"),
        ('[{"n": 1' + "0" * 5000 + "}]", "[0]", 1, "too many digits"),
        ("[]\n]", "", 2, "behind the end"),
        ('{"messages": []}\n{"messages": []}', "", 2, "one conversation a call"),
        ('{"a": 1} {"a": 2}', "[1]", 1, "one object a line"),
        ("", "", 1, "the input is empty"),
        (" \n ", "", 2, "the input is empty"),
        ("{}", "", 1, "the object is empty"),
        ("12", "", 1, "found '12'"),
        ('"text"', "", 1, "expected messages"),
        ("hello", "", 1, "found 'hello'"),
    ],
)
def test_what_is_wrong_and_where(text: str, path: str, line: int, says: str) -> None:
    error = fails(text)
    assert (error.path, error.line) == (path, line)
    assert says in error.message
    assert f"line {line}" in error.message
    assert error.expected


def test_a_truncated_file_names_the_element_and_the_last_line() -> None:
    rows = "".join(f'{{"n": {n}}},\n' for n in range(812))
    error = fails('{"messages": [\n' + rows + '{"n": "the file st')
    assert error.path == "messages[812]"
    assert error.line == 814
    assert "the input ends inside messages[812], line 814" in error.message


@pytest.mark.parametrize("brackets", ["[", '{"a":', '{"a":[{"b":'])
@pytest.mark.parametrize("depth", [150, 100_000])
def test_an_abyss_is_an_error_and_not_a_recursion(brackets: str, depth: int) -> None:
    assert fails("[" + brackets * depth).path == "[0]"
    closed = brackets * depth + "1" + "".join("]" if c == "[" else "}" for c in reversed(brackets * depth) if c in "[{")
    error = fails("[" + closed + "]")
    assert "deeper than 100 levels" in error.message
    assert error.path == "[0]"


def test_a_hundred_levels_are_still_fine() -> None:
    assert len(values("[" + "[" * 100 + "]" * 100 + "]")) == 1


def test_deep_parsed_data_and_a_circle_are_errors_too() -> None:
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    circle: list[object] = []
    circle.append(circle)
    for data in (deep, circle):
        with pytest.raises(MalformedInput, match="deeper than 100 levels"):
            list(read([data], LAYOUT))


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ([{"a": {1, 2}}], "[0].a"),
        ([{"a": [0, b"x"]}], "[0].a[1]"),
        ([{1: "x"}], "[0]"),
        ([float("nan")], "[0]"),
        ([{"a": "\ud800"}], "[0].a"),
        ([{"\udfff": 1}], "[0]"),
        ([10**9000], "[0]"),
        ({"messages": [], "z": {"y": "\ud800"}}, "z.y"),
    ],
)
def test_parsed_data_that_is_not_json_names_its_path(data: object, path: str) -> None:
    with pytest.raises(MalformedInput) as caught:
        list(read(data, LAYOUT))  # type: ignore[arg-type]
    assert caught.value.path == path


def test_half_a_surrogate_pair_names_the_path_when_escaped_and_the_line_when_raw() -> None:
    escaped = fails('{"messages": [1, {"a": ["ok", "\\ud83d!"]}]}')
    assert escaped.path == "messages[1].a[1]"
    assert "\\ud83d" in escaped.message
    raw = fails('[1,\n "a\udcffb"]')
    assert (raw.line, raw.column) == (2, 4)
    assert "UTF-8" in raw.message
    for error in (escaped, raw):
        json.dumps(error.envelope()).encode()


def test_an_escaped_pair_is_one_character() -> None:
    assert values('["\\ud83d\\ude00"]') == [("[0]", "😀")]


def test_one_value_may_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_buffer, "MAX_VALUE", 1_000)
    monkeypatch.setattr(text_buffer, "BLOCK", 64)
    endless = ("x" * 50 for _ in range(10**9))

    def chunks() -> Iterator[str]:
        yield '[{"a": "'
        yield from endless

    with pytest.raises(MalformedInput, match="too long"):
        list(read(chunks(), LAYOUT))
    assert "too long" in fails('["' + "x" * 2_000 + '"]').message


def test_a_word_without_end_is_not_read_to_its_end() -> None:
    taken = 0

    def chunks() -> Iterator[str]:
        nonlocal taken
        yield "["
        while True:
            taken += 1
            yield "x" * 100_000

    with pytest.raises(MalformedInput, match="found 'xxx"):
        list(read(chunks(), LAYOUT))
    assert taken < 10


def test_the_window_stays_small_over_a_long_stream() -> None:
    row = json.dumps({"role": "user", "content": "长长的话 " * 50}, ensure_ascii=False)

    def chunks() -> Iterator[str]:
        yield "["
        for n in range(20_000):
            yield ("," if n else "") + row
        yield "]"

    def drain() -> int:
        assert sum(1 for _ in read(chunks(), LAYOUT)) == 20_000
        return tracemalloc.get_traced_memory()[1]

    tracemalloc.start()
    try:
        peak = drain()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000, f"{peak:,} bytes for a stream of {len(row) * 20_000:,} characters"


def test_a_large_element_over_many_small_chunks_is_scanned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_buffer, "BLOCK", 256)
    body = json.dumps([{"k": 'v"\\' * 5, "n": n} for n in range(20_000)])
    looked = 0
    real = text_buffer._OUTSIDE

    class Counting:
        def search(self, text: str, at: int) -> object:
            nonlocal looked
            match = real.search(text, at)
            looked += (match.end() if match else len(text)) - at
            return match

    monkeypatch.setattr(text_buffer, "_OUTSIDE", Counting())
    assert len(next(read((f"[{body}]"[i : i + 100] for i in range(0, len(body) + 2, 100)), LAYOUT)).value) == 20_000
    assert looked < 2 * len(body)
