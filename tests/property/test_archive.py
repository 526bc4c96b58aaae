"""What is said to the archive is what it says, whatever the words, the batches and the reopenings."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, timedelta, timezone
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mnemon.contracts.claims import Claim, ClaimState, ToolStats
from mnemon.contracts.commits import CommitRecord, NodeChange, NodeImage, PlanAction
from mnemon.contracts.governance import EvidenceLevel, ForgetPolicy, Governance, Kind, Status
from mnemon.contracts.nodes import LEVELS, Node, Shelf
from mnemon.contracts.tags import Hints, Tagging, TaggingStats, TagSpan, ValueTag, ValueTaggingOutput, WriteAction
from mnemon.contracts.turns import Attachment, InputFormat, Role, SourceRef, Span, Turn
from mnemon.drivers.archive.fs import FsArchive
from mnemon.drivers.archive.fs.tail import turn_body
from mnemon.testing.archive_suite import ANN, KEY, NODE, STEWARD, claim, record
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
NAMES = st.lists(TEXT, max_size=3).map(tuple)
SHARES = st.floats(0, 1)
MOMENTS = st.datetimes(
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=8)), timezone(timedelta(minutes=-210))])
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=3)
GOVERNANCE = st.builds(
    Governance,
    importance=SHARES,
    ttl_seconds=st.integers(0, 10**9),
    forget_policy=st.sampled_from(ForgetPolicy),
    evidence_level=st.sampled_from(EvidenceLevel),
    requires_confirmation=st.booleans(),
    ttl_policy=TEXT,
)
SPANS = st.builds(Span, turn_id=IDS, start=st.integers(0, 2**40), end=st.integers(0, 2**40), text_exact=TEXT)
CLAIMS = st.builds(
    Claim,
    claim_id=st.sampled_from("abcdefg"),
    tenant_id=st.just(KEY.tenant_id),
    owner_kind=st.just(KEY.owner.kind),
    owner_id=st.just(KEY.owner.id),
    session_id=st.just(KEY.session_id),
    principals=NAMES,
    kind=st.sampled_from(Kind),
    shelf=st.sampled_from(Shelf),
    routing_key=TEXT,
    statement=IDS,
    title=TEXT,
    overview=TEXT,
    content=TEXT,
    confidence=SHARES,
    status=st.sampled_from(Status),
    language=st.sampled_from(["zh", "en"]),
    subject=TEXT,
    entities=NAMES,
    dedup_key=TEXT,
    rationale=TEXT,
    spans=st.lists(SPANS, min_size=1, max_size=3).map(tuple),
    governance=GOVERNANCE,
    state=st.sampled_from(ClaimState),
    valid_from=MOMENTS,
    valid_to=st.none() | MOMENTS,
    recorded_at=MOMENTS,
    expires_at=st.none() | MOMENTS,
    tool=st.none() | st.builds(ToolStats, tool_name=TEXT, call_count=st.integers(0, 2**70), best_for=TEXT),
    provider=TEXT,
)
TAGS = st.builds(
    ValueTag,
    tag_id=IDS,
    turn_id=TEXT,
    span=st.builds(TagSpan, start=st.integers(0, 2**40), end=st.integers(0, 2**40), text_exact=TEXT),
    category=st.sampled_from(Kind),
    subtype=TEXT,
    evidence_level=st.sampled_from(EvidenceLevel),
    requires_confirmation=st.booleans(),
    importance=SHARES,
    ttl_seconds=st.integers(0, 2**70),
    forget_policy=st.sampled_from(ForgetPolicy),
    write_action=st.sampled_from(WriteAction),
    reason=TEXT,
    hints=st.builds(Hints, entity_names=NAMES, time_hint=TEXT, dedup_key=TEXT),
)
TAGGINGS = st.builds(
    Tagging,
    first_seq=st.integers(),
    last_seq=st.integers(),
    head=TEXT,
    output=st.builds(
        ValueTaggingOutput,
        session_id=TEXT,
        kept_turn_ids=NAMES,
        dropped_turn_ids=NAMES,
        tags=st.lists(TAGS, max_size=3).map(tuple),
        stats=st.builds(TaggingStats, input_turns=st.integers()),
    ),
    degraded=TEXT,
    ttl_seconds=st.integers(0, 2**70),
)
IMAGES = st.builds(
    NodeImage, version=st.integers(), principals=NAMES, abstract=TEXT, overview=TEXT, content=TEXT, metadata=OBJECTS
)
CHANGES = st.builds(
    NodeChange,
    uri=TEXT,
    action=st.sampled_from(PlanAction),
    claim_ids=NAMES,
    before=st.none() | IMAGES,
    after=st.none() | IMAGES,
    relations=st.lists(OBJECTS, max_size=2).map(tuple),
)
COMMITS = st.builds(
    CommitRecord,
    number=st.integers(1, 4),
    first_seq=st.integers(),
    last_seq=st.integers(),
    head=TEXT,
    at=MOMENTS,
    summary=TEXT,
    key_topics=NAMES,
    used_tools=st.lists(OBJECTS, max_size=2).map(tuple),
    changes=st.lists(CHANGES, max_size=2).map(tuple),
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


@given(st.lists(st.lists(TAGGINGS, max_size=2), max_size=3), st.lists(COMMITS, max_size=4))
@QUICK
def test_tags_and_commits_read_back_exactly(tagged: list[list[Tagging]], commits: list[CommitRecord]) -> None:
    async def story(path: Path) -> None:
        archive = FsArchive(path, FixedClock())
        await archive.write_session(ANN, record(FixedClock()), 0)
        for taggings in tagged:
            await archive.write_tags(ANN, KEY, taggings)
            assert await FsArchive(path, FixedClock()).read_tags(ANN, KEY) == taggings
        for commit in commits:
            await archive.write_commit(ANN, KEY, commit)
        last = {commit.number: commit for commit in commits}
        assert await FsArchive(path, FixedClock()).read_commits(ANN, KEY) == [last[n] for n in sorted(last)]

    with home() as path:
        asyncio.run(story(path))


@given(st.lists(st.tuples(st.lists(CLAIMS, max_size=4), st.sets(st.sampled_from("abcdefg"), max_size=2)), max_size=4))
@QUICK
def test_any_sequence_of_claims_reads_back_exactly_and_in_order(steps: list[tuple[list[Claim], set[str]]]) -> None:
    async def story(path: Path) -> None:
        archive = FsArchive(path, FixedClock())
        await archive.write_session(ANN, record(FixedClock()), 0)
        expected: dict[str, Claim] = {}
        for claims, gone in steps:
            await archive.put_claims(ANN, KEY, claims, gone)
            expected.update((c.claim_id, c) for c in claims)
            expected = {claim_id: c for claim_id, c in expected.items() if claim_id not in gone}
            assert await FsArchive(path, FixedClock()).read_claims(ANN, KEY) == list(expected.values())
        assert list(path.rglob("claims.jsonl")) == [] or expected

    with home() as path:
        asyncio.run(story(path))


@given(st.lists(TURNS.filter(lambda turn: turn.text), min_size=1, max_size=5, unique_by=lambda t: t.turn_id), st.data())
@QUICK
def test_the_proof_holds_for_true_quotes_and_for_no_others(turns: list[Turn], data: st.DataObject) -> None:
    turn = data.draw(st.sampled_from(turns))
    start = data.draw(st.integers(0, len(turn.text) - 1))
    end = data.draw(st.integers(start + 1, len(turn.text)))
    true = Span.cut(turn, start, end)
    false = true.model_copy(update={"text_exact": data.draw(TEXT.filter(lambda text: text != true.text_exact))})

    async def story(path: Path) -> None:
        archive = FsArchive(path, FixedClock())
        await archive.write_session(ANN, record(FixedClock()), 0)
        await archive.append_turns(ANN, KEY, turns)
        await archive.put_claims(ANN, KEY, [claim(turn, spans=(true,))])
        assert (await archive.verify(STEWARD)).defects == []
        await archive.put_claims(ANN, KEY, [claim(turn, spans=(true, false))])
        assert [d.kind for d in (await archive.verify(STEWARD)).defects] == ["span"]

    with home() as path:
        asyncio.run(story(path))
