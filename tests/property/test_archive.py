"""What is said to the archive is what it says, whatever the words, the batches and the reopenings."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mnemon.contracts.nodes import LEVELS, Node
from mnemon.contracts.turns import Attachment, InputFormat, Role, SourceRef, Span, Turn
from mnemon.drivers.archive.fs import FsArchive
from mnemon.drivers.archive.fs.turns import turn_body
from mnemon.testing.archive_suite import ANN, KEY, NODE, STEWARD, record
from mnemon.testing.clock import FixedClock

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
TIMES = st.datetimes(timezones=st.timezones() | st.none()).map(lambda moment: moment.isoformat())
TURNS = st.builds(
    Turn,
    turn_id=IDS,
    role=st.sampled_from(Role),
    speaker=TEXT,
    timestamp_iso=st.none() | TIMES,
    text=TEXT,
    source_ref=st.none()
    | st.builds(SourceRef, input_format=st.sampled_from(InputFormat), raw_index=st.integers(0, 2**70), raw_path=TEXT),
    attachments=st.lists(
        st.builds(
            Attachment,
            type=st.sampled_from(["tool_result", "file", "image_ref"]),
            name=TEXT,
            truncated=st.booleans(),
            sha256=st.none() | st.just("0" * 64),
            ref=TEXT.map(lambda ref: ref.removeprefix("blob://")),
        ),
        max_size=2,
    ).map(tuple),
    drop_candidate=st.none() | TEXT,
    meta=st.dictionaries(TEXT, JSON, max_size=3),
)
# What happens to a session: words are appended in batches (numbers name the turns), the archive is opened again.
STORIES = st.lists(st.none() | st.lists(st.integers(0, 12), max_size=5), max_size=12)
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@contextmanager
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@given(TURNS)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_turn_survives_its_line_exactly(turn: Turn) -> None:
    body = turn_body(turn)
    assert b"\n" not in body
    again = Turn.model_validate_json(body)
    assert again == turn
    assert turn_body(again) == body, "the same words give the same bytes"


@given(st.lists(TURNS, max_size=8, unique_by=lambda turn: turn.turn_id), st.data())
@QUICK
def test_words_read_back_verbatim_and_spans_hold(turns: list[Turn], data: st.DataObject) -> None:
    async def story(path: Path) -> None:
        clock = FixedClock()
        await FsArchive(path, clock).write_session(ANN, record(clock), 0)
        await FsArchive(path, clock).append_turns(ANN, KEY, turns)
        stored = await FsArchive(path, clock).read_turns(ANN, KEY)
        assert [s.turn for s in stored] == turns
        for s, original in zip(stored, turns, strict=True):
            if original.text:
                start = data.draw(st.integers(0, len(original.text) - 1))
                end = data.draw(st.integers(start + 1, len(original.text)))
                Span.cut(original, start, end).check(s.turn)
        assert (await FsArchive(path, clock).verify(STEWARD)).defects == []

    with home() as path:
        asyncio.run(story(path))


@given(STORIES, st.lists(TURNS, min_size=13, max_size=13, unique_by=lambda turn: turn.turn_id))
@QUICK
def test_any_sequence_of_appends_keeps_every_turn_once_and_in_order(
    batches: list[list[int] | None], turns: list[Turn]
) -> None:
    async def story(path: Path) -> None:
        clock = FixedClock()
        archive = FsArchive(path, clock)
        await archive.write_session(ANN, record(clock), 0)
        expected: list[int] = []
        for batch in batches:
            if batch is None:
                archive = FsArchive(path, clock)
                continue
            new = [n for n in dict.fromkeys(batch) if n not in expected]
            result = await archive.append_turns(ANN, KEY, [turns[n] for n in batch])
            assert [s.turn for s in result.appended] == [turns[n] for n in new]
            assert result.already_there == len(batch) - len(new)
            expected += new
            assert result.turn_count == len(expected)
        stored = await archive.read_turns(ANN, KEY)
        assert [s.turn for s in stored] == [turns[n] for n in expected]
        assert [s.seq for s in stored] == list(range(1, len(expected) + 1))
        report = await archive.verify(STEWARD)
        assert (report.defects, report.notes, report.turns) == ([], [], len(expected))

    with home() as path:
        asyncio.run(story(path))


@given(TEXT, TEXT, TEXT, st.dictionaries(TEXT, JSON, max_size=3))
@QUICK
def test_a_node_reads_back_exactly(abstract: str, overview: str, content: str, metadata: dict[str, object]) -> None:
    async def story(path: Path) -> None:
        written = Node(NODE, ("u:ann",), abstract, overview, content, metadata)
        await FsArchive(path, FixedClock()).write_node(ANN, written)
        found = await FsArchive(path, FixedClock()).read_node(ANN, NODE)
        assert [getattr(found, level) for level in LEVELS] == [abstract, overview, content]
        assert found.metadata == metadata
        assert (await FsArchive(path, FixedClock()).verify(STEWARD)).defects == []

    with home() as path:
        asyncio.run(story(path))
