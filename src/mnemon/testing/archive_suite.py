"""What every archive must do, as tests: subclass `ArchiveContract` and give it an `archive_factory`."""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from mnemon.contracts.claims import Claim
from mnemon.contracts.commits import CommitRecord, NodeChange, NodeImage, PlanAction
from mnemon.contracts.errors import Conflict, InvalidArgument, NotFound, PermissionDenied, VersionConflict
from mnemon.contracts.governance import EvidenceLevel, ForgetPolicy, Governance, Kind
from mnemon.contracts.nodes import Edge, Node, NodeKey, Shelf
from mnemon.contracts.ports import Archive
from mnemon.contracts.scope import PUBLIC, Owner, Scope, SessionKey
from mnemon.contracts.sessions import SessionRecord, SessionStatus, StoredTurn
from mnemon.contracts.tags import Hints, Tagging, TaggingStats, TagSpan, ValueTag, ValueTaggingOutput, WriteAction
from mnemon.contracts.turns import Attachment, InputFormat, Role, SourceRef, Span, Turn
from mnemon.testing.clock import FixedClock

# The same name opens the same archive again, another name another archive.
ArchiveFactory = Callable[[str], Archive]
T = TypeVar("T")

TENANT = "acme"
ANN, BOB, STEWARD = Scope.of(TENANT, "ann"), Scope.of(TENANT, "bob"), Scope.steward_of(TENANT)
KEY = SessionKey(TENANT, Owner.user("ann"), "s1")
NODE = NodeKey(TENANT, Owner.user("ann"), Shelf.PREFERENCES, "tea")

ODD_IDS = (
    "a",
    "A",
    "a/b",
    "a/../b",
    "..",
    "../..",
    ".",
    ".hidden",
    ".tmp-1-ab",
    ".name",
    "a:b",
    "a\\b",
    "a ",
    " a",
    "a.",
    "a~2fb",
    "~2e~2e",
    "a%2fb",
    "~~",
    "con",
    "CON",
    "nul",
    "com1",
    "con.txt",
    "café",
    "cafe\u0301",
    "Å",
    "A\u030a",
    "\u212b",
    "ﬁ",
    "fi",
    "ß",
    "ss",
    "İ",
    "ı",
    "张三",
    "張三",
    "\u8c48",
    "\uf900",
    "emoji-😀",
    "👩‍👩‍👧",
    "x" * 512,
    "x" * 511 + "y",
    "x" * 511 + "Y",
    "线" * 512,
    "线" * 511 + "程",
    "😀" * 512,
    "users",
    "sessions",
    "memories",
)


def turn(turn_id: str, text: str = "", **values: Any) -> Turn:
    return Turn(turn_id=turn_id, role=values.pop("role", Role.USER), text=text or f"words of {turn_id}", **values)


def rich_turns() -> list[Turn]:
    """Everything a turn can carry, in two languages."""
    whole = Attachment(type="file", name="说明.pdf", ref="https://example.org/a?b=c")
    return [
        turn("t1", "我喜欢喝乌龙茶，不要加糖。", speaker="安", timestamp_iso="2025-12-21T10:00:00+08:00"),
        turn("t2", 'said "so"\n\ttwice\\ \u2028 \x00 \x7f 👩‍👩‍👧 e\u0301', role=Role.ASSISTANT, attachments=(whole,)),
        turn(
            "t3",
            "  kept as it is \r\n",
            role=Role.TOOL,
            source_ref=SourceRef(input_format=InputFormat.OPENAI_MESSAGES, raw_index=3, raw_path="$.messages[3]"),
            drop_candidate="tool_output",
            meta={"深": [1, 2.5, None, {"是": True}], "n": 10**20},
        ),
    ]


def record(clock: FixedClock, key: SessionKey = KEY, principals: tuple[str, ...] = (), **values: Any) -> SessionRecord:
    return SessionRecord(
        tenant_id=key.tenant_id,
        owner_kind=key.owner.kind,
        owner_id=key.owner.id,
        session_id=key.session_id,
        principals=principals or (key.owner.principal,),
        created_at=clock.now(),
        updated_at=clock.now(),
        **values,
    )


def node(key: NodeKey = NODE, text: str = "oolong", **values: Any) -> Node:
    words = {"abstract": f"{text}!", "overview": f"likes {text}", "content": f"# {text}\n\n喜欢{text}。\n"}
    return Node(key=key, principals=values.pop("principals", (key.owner.principal,)), **{**words, **values})


def placed(*turns: Turn) -> list[StoredTurn]:
    """Turns as if they were archived."""
    return [StoredTurn(t, n, FixedClock().now(), f"{n:064x}") for n, t in enumerate(turns, 1)]


def tag(turn: Turn, tag_id: str = "", **values: Any) -> ValueTag:
    """Worth keeping, all of it."""
    return ValueTag(
        tag_id=tag_id or f"tag of {turn.turn_id}",
        turn_id=turn.turn_id,
        span=TagSpan(start=0, end=len(turn.text), text_exact=turn.text),
        category=Kind.PREFERENCE,
        evidence_level=EvidenceLevel.USER_CLAIM,
        importance=0.6,
        ttl_seconds=86_400,
        forget_policy=ForgetPolicy.UNTIL_CHANGED,
        write_action=WriteAction.PREFERENCE,
        hints=Hints(entity_names=("乌龙茶",), dedup_key="tea"),
        **values,
    )


def tagging(stored: Sequence[StoredTurn], **values: Any) -> Tagging:
    """Stage 2 over all of some turns."""
    output = ValueTaggingOutput(
        kept_turn_ids=tuple(s.turn.turn_id for s in stored),
        tags=tuple(tag(s.turn) for s in stored),
        stats=TaggingStats(input_turns=len(stored), kept_turns=len(stored), tag_count=len(stored)),
    )
    facts = {"first_seq": stored[0].seq, "last_seq": stored[-1].seq, "head": stored[-1].chain, "output": output}
    return Tagging(**{**facts, **values})


def claim(turn: Turn, key: SessionKey = KEY, claim_id: str = "", **values: Any) -> Claim:
    """A sentence that cites all of a turn."""
    facts: dict[str, Any] = {
        "claim_id": claim_id or f"claim of {turn.turn_id}",
        "tenant_id": key.tenant_id,
        "owner_kind": key.owner.kind,
        "owner_id": key.owner.id,
        "session_id": key.session_id,
        "principals": (key.owner.principal,),
        "kind": Kind.PREFERENCE,
        "shelf": Shelf.PREFERENCES,
        "routing_key": "tea",
        "statement": "安喜欢乌龙茶。",
        "confidence": 0.9,
        "language": "zh",
        "spans": (Span.whole(turn),),
        "governance": Governance(importance=0.6, evidence_level=EvidenceLevel.USER_CLAIM),
        "valid_from": FixedClock().now(),
        "recorded_at": FixedClock().now(),
    }
    return Claim(**{**facts, **values})


def commit(number: int, stored: Sequence[StoredTurn], **values: Any) -> CommitRecord:
    after = NodeImage(version=1, principals=("u:ann",), abstract="喜欢乌龙茶", metadata={"n": [1, None]})
    return CommitRecord(
        number=number,
        first_seq=stored[0].seq,
        last_seq=stored[-1].seq,
        head=stored[-1].chain,
        at=FixedClock().now(),
        changes=(NodeChange(uri=NODE.uri, action=PlanAction.CREATE, claim_ids=("c1",), after=after),),
        **{"summary": f"第 {number} 次", **values},
    )


async def derive(archive: Archive, scope: Scope, key: SessionKey) -> dict[str, Any]:
    """Write tags, claims and commits for the words of a session; what its page is to say of them."""
    stored = await archive.read_turns(scope, key)
    claims = [claim(s.turn, key) for s in stored]
    await archive.write_tags(scope, key, [tagging(stored)])
    await archive.put_claims(scope, key, claims)
    for number in (1, 2):
        await archive.write_commit(scope, key, commit(number, stored))
    return {"kept": "tagged", "commits": 2, "claim_ids": tuple(c.claim_id for c in claims)}


async def complete(archive: Archive, scope: Scope, key: SessionKey, **values: Any) -> SessionRecord:
    """The session's page says that all is done, and how far its words go."""
    page = await archive.read_session(scope, key)
    assert page is not None
    done = await archive.append_turns(scope, key, [])
    said = {"status": SessionStatus.COMPLETED, "turn_count": done.turn_count, "chain_head": done.chain_head}
    return await archive.write_session(scope, page.model_copy(update={**said, **values}), page.version)


def made_of(*claims: Claim) -> dict[str, Any]:
    """The metadata of a node made of claims."""
    return {"claims": [c.model_dump(mode="json", exclude_defaults=True) for c in claims]}


async def listed(items: AsyncIterator[T]) -> list[T]:
    return [item async for item in items]


async def dumped(archive: Archive, scope: Scope = STEWARD, owner: Owner | None = None) -> dict[str, bytes]:
    """A dump as files; the chunks of a file come in a row."""
    files: dict[str, bytes] = {}
    last = ""
    async for path, chunk in archive.dump(scope, owner):
        assert path == last or path not in files, "the chunks of one file come in a row"
        files[path] = files.get(path, b"") + chunk
        last = path
    return files


def as_files(files: dict[str, bytes]) -> list[tuple[str, io.BytesIO]]:
    return [(path, io.BytesIO(data)) for path, data in files.items()]


class ArchiveOpened:
    """`archive_factory(name)` opens the archive of that name, again and again."""

    @pytest.fixture
    def clock(self) -> FixedClock:
        return FixedClock()

    @pytest.fixture
    def archive_factory(self, clock: FixedClock) -> ArchiveFactory:
        raise NotImplementedError("a contract test says how its archive is opened")

    @pytest.fixture
    async def archive(self, archive_factory: ArchiveFactory) -> AsyncIterator[Archive]:
        archive = archive_factory("one")
        yield archive
        await archive.close()


class ArchiveContract(ArchiveOpened):
    """Words, nodes, blobs, logs, proof and moving house; see `archive_papers_suite` for what is derived from words."""

    async def _filled(self, archive: Archive, clock: FixedClock) -> None:
        """One archive with a little of everything."""
        blob = await archive.put_blob(ANN, b"the whole output")
        cut = Attachment(type="tool_result", truncated=True, sha256=blob, ref=f"blob://{blob}")
        for key in (KEY, replace(KEY, session_id="长" * 300), SessionKey(TENANT, Owner.group("g/1"), "s1")):
            scope = Scope.of(TENANT, "ann", group_id="g/1")
            await archive.write_session(scope, record(clock, key), 0)
            await archive.append_turns(scope, key, [*rich_turns(), turn("t4", attachments=(cut,)), turn("t5")])
            await archive.forget_turns(scope, key, ["t5"], "asked to")
            await archive.append_turns(scope, key, [turn("t6")])
            await complete(archive, scope, key, **await derive(archive, scope, key))
        made = made_of(claim(rich_turns()[0]))
        for text in ("green", "black", "oolong"):
            await archive.write_node(ANN, node(text=text, metadata=made), reason=f"now {text}")
        await archive.upsert_edges(ANN, NODE, [Edge(NODE.uri, "ctx://acme/x", "related_to", "both tea", 0.5)])
        await archive.append_log(ANN, "entries", [{"text": "字"}, {"n": 1}])
        await archive.append_log(ANN, "ledger", [{"confirm": "c1"}])

    # --- words

    async def test_turns_come_back_verbatim_and_in_order(self, archive: Archive, clock: FixedClock) -> None:
        await archive.write_session(ANN, record(clock), 0)
        turns = rich_turns()
        first = await archive.append_turns(ANN, KEY, turns[:2])
        later = clock.tick(seconds=1)
        second = await archive.append_turns(ANN, KEY, turns[2:])
        assert [s.turn for s in first.appended + second.appended] == turns
        assert [s.seq for s in first.appended + second.appended] == [1, 2, 3]
        assert second.turn_count == 3
        assert second.chain_head == second.appended[-1].chain
        assert second.appended[0].archived_at == later
        assert await archive.read_turns(ANN, KEY) == [*first.appended, *second.appended]
        assert len({s.chain for s in await archive.read_turns(ANN, KEY)}) == 3

    async def test_words_and_their_page_in_one_step(self, archive: Archive, clock: FixedClock) -> None:
        done = record(clock, status=SessionStatus.COMPLETED, counts={"events": 0, "claims": 0})
        with pytest.raises(NotFound):
            await archive.keep_turns(BOB, done, 0, rich_turns())
        first = await archive.keep_turns(ANN, done, 0, rich_turns())
        assert first.record == await archive.read_session(ANN, KEY)
        assert (first.record.version, first.record.turn_count, first.record.counts["events"]) == (1, 3, 3)
        assert list(first.words.appended) == await archive.read_turns(ANN, KEY)
        with pytest.raises(VersionConflict):
            await archive.keep_turns(ANN, done, 0, [turn("t9")])
        again = await archive.keep_turns(ANN, first.record, 1, [rich_turns()[0], turn("t9")])
        assert (again.record.version, again.words.already_there, again.record.turn_count) == (2, 1, 4)
        numbered = await archive.keep_turns(ANN, again.record, 2, [turn("t9", "other words")], numbered=True)
        assert [s.turn.turn_id for s in numbered.words.appended] == ["t0005"]
        assert (await archive.verify(STEWARD)).ok
        # Words a page does not know of: whoever keeps a page without having seen them must look first.
        await archive.append_turns(ANN, KEY, [turn("t10")])
        with pytest.raises(VersionConflict):
            await archive.keep_turns(ANN, numbered.record, 3, [turn("t11")])

    async def test_turns_are_read_in_pages(self, archive: Archive, clock: FixedClock) -> None:
        await archive.write_session(ANN, record(clock), 0)
        await archive.append_turns(ANN, KEY, [turn(f"t{n}") for n in range(10)])

        async def page(after: int, limit: int | None) -> list[int]:
            return [s.seq for s in await archive.read_turns(ANN, KEY, after, limit)]

        assert await page(0, 3) == [1, 2, 3]
        assert await page(3, 3) == [4, 5, 6]
        assert await page(8, 100) == [9, 10]
        assert await page(9, None) == [10]
        assert await page(10, None) == []
        assert await page(0, 0) == []

    async def test_pages_hold_while_words_are_forgotten_and_added(
        self, archive: Archive, archive_factory: ArchiveFactory, clock: FixedClock
    ) -> None:
        """Somebody reads page by page while others make the file behind it shorter and longer."""
        await archive.write_session(ANN, record(clock), 0)
        await archive.append_turns(ANN, KEY, [turn(f"t{n}", f"{n} " * 200) for n in range(1, 41)])
        other = archive_factory("one")
        seen: list[int] = []
        for n in range(1, 12):
            page = await archive.read_turns(ANN, KEY, seen[-1] if seen else 0, 3)
            seen += [s.seq for s in page]
            await other.forget_turns(ANN, KEY, [f"t{seen[-1]}"], "asked to")
            await other.forget_turns(ANN, KEY, [f"t{seen[-2]}"], "asked to")
            await other.append_turns(ANN, KEY, [turn(f"more {n}")])
        assert seen == list(range(1, 34))
        await other.close()

    async def test_a_turn_is_written_once(self, archive: Archive, clock: FixedClock) -> None:
        await archive.write_session(ANN, record(clock), 0)
        turns = rich_turns()
        await archive.append_turns(ANN, KEY, turns[:2])
        again = await archive.append_turns(ANN, KEY, [*turns, turns[2], turns[0]])
        assert [s.turn for s in again.appended] == turns[2:]
        assert again.already_there == 4
        nothing = await archive.append_turns(ANN, KEY, turns)
        assert (nothing.appended, nothing.already_there) == ((), 3)
        assert (nothing.turn_count, nothing.chain_head) == (3, again.chain_head)
        assert [s.turn for s in await archive.read_turns(ANN, KEY)] == turns

    async def test_an_empty_append_says_where_the_session_stands(self, archive: Archive, clock: FixedClock) -> None:
        await archive.write_session(ANN, record(clock), 0)
        assert (await archive.append_turns(ANN, KEY, [])).turn_count == 0
        one = await archive.append_turns(ANN, KEY, [turn("t1")])
        none = await archive.append_turns(ANN, KEY, [])
        assert (none.turn_count, none.chain_head) == (1, one.chain_head)

    @pytest.mark.parametrize("change", [{"text": "other"}, {"speaker": "bob"}, {"meta": {"n": 1}}, {"role": "system"}])
    async def test_words_are_never_rewritten(self, archive: Archive, clock: FixedClock, change: dict[str, Any]) -> None:
        await archive.write_session(ANN, record(clock), 0)
        await archive.append_turns(ANN, KEY, [turn("t1")])
        other = Turn.model_validate({**turn("t1").model_dump(), **change})
        with pytest.raises(Conflict) as caught:
            await archive.append_turns(ANN, KEY, [turn("t0"), other])
        assert caught.value.details["turn_id"] == "t1"
        assert [s.turn for s in await archive.read_turns(ANN, KEY)] == [turn("t1")], "all of a batch or nothing"

    async def test_a_batch_that_contradicts_itself_is_refused(self, archive: Archive, clock: FixedClock) -> None:
        await archive.write_session(ANN, record(clock), 0)
        with pytest.raises(Conflict):
            await archive.append_turns(ANN, KEY, [turn("t1", "one"), turn("t1", "two")])
        assert await archive.read_turns(ANN, KEY) == []

    async def test_words_need_a_session(self, archive: Archive) -> None:
        with pytest.raises(NotFound):
            await archive.append_turns(ANN, KEY, [turn("t1")])
        with pytest.raises(NotFound):
            await archive.read_turns(ANN, KEY)

    async def test_another_opening_sees_and_continues_the_same_words(
        self, archive: Archive, archive_factory: ArchiveFactory, clock: FixedClock
    ) -> None:
        await archive.write_session(ANN, record(clock), 0)
        other = archive_factory("one")
        for n in range(6):
            await (archive, other)[n % 2].append_turns(ANN, KEY, [turn(f"t{n}")])
        assert (await other.append_turns(ANN, KEY, [turn("t0")])).already_there == 1
        assert await archive.read_turns(ANN, KEY) == await other.read_turns(ANN, KEY)
        assert [s.turn.turn_id for s in await archive.read_turns(ANN, KEY)] == [f"t{n}" for n in range(6)]
        assert (await archive.verify(STEWARD)).defects == []
        await other.close()

    async def test_many_writers_keep_one_chain(
        self, archive: Archive, archive_factory: ArchiveFactory, clock: FixedClock
    ) -> None:
        await archive.write_session(ANN, record(clock), 0)
        writers = [archive, archive_factory("one"), archive_factory("one")]

        async def write(who: int) -> list[tuple[int, str, tuple[str, ...]]]:
            said = []
            for n in range(12):
                turns = [turn(f"w{who}-{n}-{i}") for i in range(1 + n % 3)]
                result = await writers[who % 3].append_turns(ANN, KEY, turns)
                assert result.turn_count == result.appended[-1].seq
                assert result.chain_head == result.appended[-1].chain
                said.append((result.turn_count, result.chain_head, tuple(s.turn.turn_id for s in result.appended)))
            return said

        said = [told for one in await asyncio.gather(*(write(who) for who in range(6))) for told in one]
        stored = await archive.read_turns(ANN, KEY)
        assert [s.seq for s in stored] == list(range(1, 6 * 24 + 1))
        chains = {s.seq: s.chain for s in stored}
        for count, head, ids in said:
            assert chains[count] == head
            assert tuple(s.turn.turn_id for s in stored[count - len(ids) : count]) == ids
        report = await archive.verify(STEWARD)
        assert (report.defects, report.turns) == ([], 144)
        for other in writers[1:]:
            await other.close()

    async def test_a_turn_that_points_at_a_blob_needs_the_blob(self, archive: Archive, clock: FixedClock) -> None:
        await archive.write_session(ANN, record(clock), 0)
        sha256 = hashlib.sha256(b"whole").hexdigest()
        cut = turn("t1", attachments=(Attachment(type="tool_result", sha256=sha256, ref=f"blob://{sha256}"),))
        with pytest.raises(NotFound):
            await archive.append_turns(ANN, KEY, [cut])
        assert await archive.put_blob(ANN, b"whole") == sha256
        await archive.append_turns(ANN, KEY, [cut])
        assert (await archive.verify(STEWARD)).defects == []

    async def test_spans_hold_in_what_is_read_back(self, archive: Archive, clock: FixedClock) -> None:
        await archive.write_session(ANN, record(clock), 0)
        turns = rich_turns()
        spans = [Span.cut(t, 1, len(t.text) - 1) for t in turns]
        await archive.append_turns(ANN, KEY, turns)
        for span, stored in zip(spans, await archive.read_turns(ANN, KEY), strict=True):
            span.check(stored.turn)

    # --- the session's page

    async def test_a_session_page_compares_and_sets(self, archive: Archive, clock: FixedClock) -> None:
        assert await archive.read_session(ANN, KEY) is None
        first = await archive.write_session(ANN, record(clock), 0)
        assert (first.version, first.created_at, first.updated_at) == (1, clock.now(), clock.now())
        assert await archive.read_session(ANN, KEY) == first
        for stale in (0, 2, 7):
            with pytest.raises(VersionConflict) as caught:
                await archive.write_session(ANN, first, stale)
            assert caught.value.details["version"] == 1
        start = clock.now()
        later = clock.tick(minutes=1)
        values = {"status": SessionStatus.COMPLETED, "claim_ids": ("c1",), "counts": {"turns": 2}}
        second = await archive.write_session(ANN, first.model_copy(update=values), 1)
        assert (second.version, second.created_at, second.updated_at) == (2, start, later)
        assert (second.status, second.claim_ids, second.counts) == (SessionStatus.COMPLETED, ("c1",), {"turns": 2})
        assert await archive.read_session(ANN, KEY) == second

    async def test_one_of_many_writers_of_a_page_wins(
        self, archive: Archive, archive_factory: ArchiveFactory, clock: FixedClock
    ) -> None:
        opened = await archive.write_session(ANN, record(clock), 0)
        other = archive_factory("one")
        results = await asyncio.gather(
            *((archive, other)[n % 2].write_session(ANN, opened, 1) for n in range(8)), return_exceptions=True
        )
        assert sum(isinstance(r, SessionRecord) for r in results) == 1
        assert sum(isinstance(r, VersionConflict) for r in results) == 7
        await other.close()

    async def test_who_sees_a_session_never_changes(self, archive: Archive, clock: FixedClock) -> None:
        wide = Scope.of(TENANT, "ann", product_id="p")
        opened = await archive.write_session(wide, record(clock, principals=("u:ann", "p:p")), 0)
        with pytest.raises(Conflict):
            await archive.write_session(wide, opened.model_copy(update={"principals": ("u:ann",)}), 1)
        with pytest.raises(Conflict):
            await archive.write_session(wide, opened.model_copy(update={"principals": (PUBLIC,)}), 1)
        same = opened.model_copy(update={"principals": ("p:p", "u:ann")})
        assert (await archive.write_session(wide, same, 1)).version == 2

    async def test_sessions_owners_and_tenants_are_listed(self, archive: Archive, clock: FixedClock) -> None:
        assert await listed(archive.tenants()) == []
        assert await listed(archive.owners(STEWARD)) == []
        keys = [KEY, replace(KEY, session_id="s2"), SessionKey(TENANT, Owner.user("bob"), "s1")]
        for key in keys:
            await archive.write_session(STEWARD, record(clock, key), 0)
        elsewhere = SessionKey("other", Owner.user("ann"), "s9")
        await archive.write_session(Scope.of("other", "ann"), record(clock, elsewhere), 0)
        assert sorted(await listed(archive.tenants())) == [TENANT, "other"]
        assert sorted(await listed(archive.owners(STEWARD))) == [Owner.user("ann"), Owner.user("bob")]
        assert await listed(archive.owners(ANN)) == [Owner.user("ann")]
        assert sorted(r.key for r in [r async for r in archive.sessions(STEWARD)]) == sorted(keys)
        assert sorted(r.key for r in [r async for r in archive.sessions(ANN)]) == keys[:2]
        assert [r.key for r in [r async for r in archive.sessions(STEWARD, Owner.user("bob"))]] == keys[2:]
        assert [r.key for r in [r async for r in archive.sessions(ANN, Owner.user("bob"))]] == []

    # --- scope

    @pytest.mark.parametrize(
        ("principals", "seen_by", "hidden_from"),
        [
            (("u:ann",), [ANN, Scope.of(TENANT, "ann", "p"), STEWARD], [BOB, Scope.of(TENANT), Scope.of("x", "ann")]),
            (("u:ann", "p:p"), [Scope.of(TENANT, "ann", "p")], [ANN, Scope.of(TENANT, "bob", "p")]),
            (("g:g",), [Scope.of(TENANT, "bob", group_id="g")], [BOB, ANN, Scope.of(TENANT, "bob", group_id="h")]),
            ((PUBLIC,), [ANN, BOB, Scope.of(TENANT)], [Scope.of("x", "ann"), Scope.steward_of("x")]),
        ],
    )
    async def test_scope_decides_who_sees_words_and_nodes(
        self,
        archive: Archive,
        clock: FixedClock,
        principals: tuple[str, ...],
        seen_by: list[Scope],
        hidden_from: list[Scope],
    ) -> None:
        await archive.write_session(STEWARD, record(clock, principals=principals), 0)
        await archive.append_turns(STEWARD, KEY, [turn("t1")])
        await archive.write_node(STEWARD, node(principals=principals))
        for scope in seen_by:
            assert len(await archive.read_turns(scope, KEY)) == 1
            assert await archive.read_session(scope, KEY) is not None
            assert (await archive.read_node(scope, NODE)).abstract == "oolong!"
            assert (await archive.append_turns(scope, KEY, [turn("t1")])).already_there == 1
            assert len(await archive.list_children(scope, NODE.owner, NODE.shelf)) == 1
        for scope in hidden_from:
            await self._sees_nothing(archive, scope, clock, principals)
        assert len(await archive.read_turns(STEWARD, KEY)) == 1

    async def _sees_nothing(
        self, archive: Archive, scope: Scope, clock: FixedClock, principals: tuple[str, ...]
    ) -> None:
        assert await archive.read_session(scope, KEY) is None
        assert [r async for r in archive.sessions(scope)] == []
        assert not await archive.exists(scope, NODE)
        assert not (await archive.stat_node(scope, NODE)).exists
        assert not await archive.delete_node(scope, NODE)
        assert not await archive.drop_session(scope, KEY)
        assert await archive.list_children(scope, NODE.owner, recursive=True) == []
        for refused in (
            archive.read_turns(scope, KEY),
            archive.read_tombstones(scope, KEY),
            archive.append_turns(scope, KEY, [turn("t2")]),
            archive.append_turns(scope, KEY, [turn("t1", "guess")]),
            archive.forget_turns(scope, KEY, None, "not theirs"),
            archive.mask_turns(scope, KEY, {"t1": [(0, 3)]}),
            archive.read_tags(scope, KEY),
            archive.write_tags(scope, KEY, []),
            archive.read_claims(scope, KEY),
            archive.put_claims(scope, KEY, [claim(turn("t1"))]),
            archive.read_commits(scope, KEY),
            archive.write_commit(scope, KEY, commit(1, placed(turn("t1")))),
            archive.erase_session(scope, KEY, "not theirs"),
            archive.write_session(scope, record(clock, principals=principals), 1),
            archive.read_node(scope, NODE),
            archive.resolve_path(scope, NODE),
            archive.write_node(scope, node(principals=principals), reason="not theirs"),
            archive.write_level(scope, NODE, "content", "not theirs"),
            archive.write_metadata(scope, NODE, {"not": "theirs"}),
            archive.move_node(scope, NODE, replace(NODE, slug="elsewhere")),
            archive.revisions(scope, NODE),
            archive.erase_revisions(scope, NODE),
            archive.rollback_node(scope, NODE, 1),
            archive.get_edges(scope, NODE),
            archive.upsert_edges(scope, NODE, [Edge(NODE.uri, "x", "part_of")]),
            archive.append_edges(scope, NODE, [Edge(NODE.uri, "x", "part_of")]),
            archive.remove_edges(scope, NODE),
        ):
            with pytest.raises(NotFound):
                await refused

    @pytest.mark.parametrize("expect", [0, 1, 2])
    async def test_an_error_does_not_tell_what_others_have(
        self, archive: Archive, clock: FixedClock, expect: int
    ) -> None:
        """Bob claims Ann's session and node for himself: he learns no version, no principal, no existence."""
        await archive.write_session(ANN, record(clock), 0)
        await archive.write_node(ANN, node())
        with pytest.raises(NotFound):
            await archive.write_session(BOB, record(clock, principals=("u:bob",)), expect)
        with pytest.raises(NotFound):
            await archive.write_node(BOB, node(principals=("u:bob",)), expect)
        assert (await archive.read_node(ANN, NODE)).version == 1

    async def test_a_row_without_principals_is_for_stewards_only(self, archive: Archive, clock: FixedClock) -> None:
        """Also after a steward has written to it, and this opening of the archive knows the session well."""
        empty = record(clock).model_copy(update={"principals": ()})
        await archive.write_session(STEWARD, empty, 0)
        await archive.append_turns(STEWARD, KEY, [turn("t1")])
        with pytest.raises(NotFound):
            await archive.append_turns(ANN, KEY, [turn("t2")])
        with pytest.raises(NotFound):
            await archive.read_turns(ANN, KEY)

    async def test_one_session_id_of_two_owners_is_two_sessions(self, archive: Archive, clock: FixedClock) -> None:
        scopes = {
            SessionKey(TENANT, Owner.user("ann"), "s"): ANN,
            SessionKey(TENANT, Owner.user("bob"), "s"): BOB,
            SessionKey(TENANT, Owner.group("ann"), "s"): Scope.of(TENANT, group_id="ann"),
            SessionKey(TENANT, Owner.agent("ann"), "s"): Scope.of(TENANT, agent_id="ann"),
            SessionKey("other", Owner.user("ann"), "s"): Scope.of("other", "ann"),
        }
        for n, (key, scope) in enumerate(scopes.items()):
            await archive.write_session(scope, record(clock, key), 0)
            await archive.append_turns(scope, key, [turn("t1", f"words {n}")])
        for n, (key, scope) in enumerate(scopes.items()):
            assert [s.turn.text for s in await archive.read_turns(scope, key)] == [f"words {n}"]
            assert [r.key for r in [r async for r in archive.sessions(scope)]] == [key]

    async def test_upkeep_is_for_stewards(self, archive: Archive, clock: FixedClock) -> None:
        await self._filled(archive, clock)
        with pytest.raises(PermissionDenied):
            await listed(archive.dump(ANN, Owner.user("ann")))
        for refused in (
            archive.verify(ANN),
            archive.repair(ANN),
            archive.load(ANN, []),
            archive.erase_owner(ANN, Owner.user("ann")),
            archive.erase_tenant(ANN),
        ):
            with pytest.raises(PermissionDenied):
                await refused

    # --- forgetting

    async def test_forgotten_words_are_gone_and_the_chain_holds(self, archive: Archive, clock: FixedClock) -> None:
        await archive.write_session(ANN, record(clock), 0)
        told = "the words are 芝麻开门"
        turns = [turn("t1"), turn("t2", told), turn("t3"), turn("t4", told + "!")]
        before = await archive.append_turns(ANN, KEY, turns)
        later = clock.tick(hours=1)
        assert await archive.forget_turns(ANN, KEY, ["t2", "t4", "t9"], "asked to") == 2
        assert await archive.forget_turns(ANN, KEY, ["t2"], "again") == 0
        assert [s.turn.turn_id for s in await archive.read_turns(ANN, KEY)] == ["t1", "t3"]
        assert [s.seq for s in await archive.read_turns(ANN, KEY)] == [1, 3]
        graves = await archive.read_tombstones(ANN, KEY)
        assert [(g.turn_id, g.seq, g.reason, g.forgotten_at) for g in graves] == [
            ("t2", 2, "asked to", later),
            ("t4", 4, "asked to", later),
        ]
        assert graves[1].chain == before.chain_head, "the chain is the same as before"
        report = await archive.verify(STEWARD)
        assert (report.defects, report.turns, report.tombstones) == ([], 2, 2)
        for data in (await dumped(archive)).values():
            assert "芝麻".encode() not in data

    async def test_a_session_goes_on_after_forgetting(
        self, archive: Archive, archive_factory: ArchiveFactory, clock: FixedClock
    ) -> None:
        await archive.write_session(ANN, record(clock), 0)
        await archive.append_turns(ANN, KEY, [turn("t1"), turn("t2")])
        other = archive_factory("one")
        await other.append_turns(ANN, KEY, [turn("t3")])
        assert await archive.forget_turns(ANN, KEY, None, "all of it") == 3
        assert await archive.read_turns(ANN, KEY) == []
        for opened in (archive, other):
            back = await opened.append_turns(ANN, KEY, [turn("t1"), turn("t2", "other words")])
            assert (back.appended, back.already_there) == ((), 2), "what is forgotten does not come back"
        assert [s.seq for s in (await other.append_turns(ANN, KEY, [turn("t4")])).appended] == [4]
        assert [s.turn.turn_id for s in await archive.read_turns(ANN, KEY)] == ["t4"]
        assert (await archive.verify(STEWARD)).defects == []
        await other.close()

    async def test_forgetting_takes_the_blob_along_unless_others_need_it(
        self, archive: Archive, clock: FixedClock
    ) -> None:
        shared, own = await archive.put_blob(ANN, b"shared output"), await archive.put_blob(ANN, b"own output")
        second = replace(KEY, session_id="s2")

        def pointing(turn_id: str, sha256: str) -> Turn:
            return turn(turn_id, attachments=(Attachment(type="tool_result", sha256=sha256, ref=f"blob://{sha256}"),))

        for key in (KEY, second):
            await archive.write_session(ANN, record(clock, key), 0)
        await archive.append_turns(ANN, KEY, [pointing("t1", shared), pointing("t2", own)])
        await archive.append_turns(ANN, second, [pointing("t1", shared)])
        await archive.forget_turns(ANN, KEY, None, "asked to")
        with pytest.raises(NotFound):
            await archive.get_blob(ANN, own)
        assert await archive.get_blob(ANN, shared) == b"shared output"
        await archive.forget_turns(ANN, second, None, "asked to")
        with pytest.raises(NotFound):
            await archive.get_blob(ANN, shared)
        assert (await archive.verify(STEWARD)).defects == []

    async def test_masked_words_are_gone_and_every_other_place_holds(self, archive: Archive, clock: FixedClock) -> None:
        telling, other = [await archive.put_blob(ANN, text.encode()) for text in ("all of it: 我爱喝茶", "else")]
        files = tuple(Attachment(type="file", sha256=s, ref=f"blob://{s}") for s in (telling, other))
        said = turn("t2", text="我爱喝茶，住在上海 🙂", attachments=files, meta={"raw": ["我爱喝茶！"], "n": 1})
        await archive.write_session(ANN, record(clock), 0)
        before = (await archive.append_turns(ANN, KEY, [turn("t1"), said, turn("t3")])).appended
        assert await archive.mask_turns(ANN, KEY, {"t2": [(0, 4)], "t9": [(0, 1)]}) == 1
        assert await archive.mask_turns(ANN, KEY, {"t2": [(0, 4)]}) == 0, "once is enough"
        after = await archive.read_turns(ANN, KEY)
        assert after[1].turn == said.model_copy(
            update={"text": "████，住在上海 🙂", "attachments": files[1:], "meta": {"raw": ["████！"], "n": 1}}
        )
        assert [(t.seq, t.archived_at, t.chain) for t in after] == [(t.seq, t.archived_at, t.chain) for t in before]
        with pytest.raises(NotFound):
            await archive.get_blob(ANN, telling)
        assert await archive.mask_turns(ANN, KEY, {"t2": [(5, 9)]}) == 1, "more of the same turn"
        sent_again = await archive.append_turns(ANN, KEY, [turn("t1"), said, turn("t4")])
        assert ([t.turn.turn_id for t in sent_again.appended], sent_again.already_there) == (["t4"], 2)
        text = (await archive.read_turns(ANN, KEY))[1].turn.text
        assert text == "████，████ 🙂", "what was masked does not come back"
        assert await archive.forget_turns(ANN, KEY, ["t2"], "the rest too") == 1
        assert (await archive.verify(STEWARD)).defects == []
        with pytest.raises(NotFound):
            await archive.get_blob(ANN, other)

    # --- nodes

    async def test_a_node_comes_back_as_it_was_written(self, archive: Archive, clock: FixedClock) -> None:
        assert not await archive.exists(ANN, NODE)
        absent = await archive.stat_node(ANN, NODE)
        assert (absent.uri, absent.exists, absent.version, absent.size) == (NODE.uri, False, 0, 0)
        written = await archive.write_node(ANN, node(metadata={"深": [1, {"a": None}]}))
        assert (written.version, written.created_at, written.updated_at) == (1, clock.now(), clock.now())
        assert await archive.read_node(ANN, NODE) == written
        assert await archive.read_node(ANN, NODE, include_content=False) == replace(written, content="")
        assert await archive.exists(ANN, NODE)
        stat = await archive.stat_node(ANN, NODE)
        assert (stat.uri, stat.exists, stat.version, stat.updated_at) == (NODE.uri, True, 1, clock.now())
        assert stat.size >= len((written.abstract + written.overview + written.content).encode())
        assert await archive.resolve_path(ANN, NODE)

    async def test_levels_and_metadata_are_rewritten_one_by_one(self, archive: Archive, clock: FixedClock) -> None:
        first = await archive.write_node(ANN, node(metadata={"a": 1}))
        start = clock.now()
        later = clock.tick(minutes=5)
        second = await archive.write_level(ANN, NODE, "overview", "新的概览")
        assert second == replace(first, overview="新的概览", version=2, updated_at=later)
        assert second.created_at == start
        third = await archive.write_metadata(ANN, NODE, {"b": 2})
        assert third == replace(second, metadata={"b": 2}, version=3)
        for level in ("abstract", "content"):
            await archive.write_level(ANN, NODE, level, f"new {level}")
        last = await archive.read_node(ANN, NODE)
        assert (last.abstract, last.overview, last.content) == ("new abstract", "新的概览", "new content")
        with pytest.raises(InvalidArgument):
            await archive.write_level(ANN, NODE, "summary", "x")  # type: ignore[arg-type]
        missing = replace(NODE, slug="nothing")
        for refused in (archive.write_level(ANN, missing, "content", "x"), archive.write_metadata(ANN, missing, {})):
            with pytest.raises(NotFound):
                await refused

    async def test_a_node_compares_and_sets(self, archive: Archive) -> None:
        with pytest.raises(VersionConflict):
            await archive.write_node(ANN, node(), expect=1)
        assert not await archive.exists(ANN, NODE)
        await archive.write_node(ANN, node(), expect=0)
        with pytest.raises(VersionConflict) as caught:
            await archive.write_node(ANN, node(text="late"), expect=0)
        assert caught.value.details["version"] == 1
        assert (await archive.write_node(ANN, node(text="green"), expect=1)).version == 2
        assert (await archive.write_node(ANN, node(text="black"))).version == 3

    async def test_one_of_many_writers_of_a_version_wins(
        self, archive: Archive, archive_factory: ArchiveFactory
    ) -> None:
        other = archive_factory("one")
        for version in range(3):
            results = await asyncio.gather(
                *((archive, other)[n % 2].write_node(ANN, node(text=f"{n}"), version) for n in range(6)),
                return_exceptions=True,
            )
            winners = [r for r in results if isinstance(r, Node)]
            assert len(winners) == 1
            assert sum(isinstance(r, VersionConflict) for r in results) == 5
            assert await other.read_node(ANN, NODE) == winners[0]
        assert (await archive.verify(STEWARD)).defects == []
        await other.close()

    async def test_readers_never_see_half_a_node(self, archive: Archive, archive_factory: ArchiveFactory) -> None:
        other = archive_factory("one")
        await archive.write_node(ANN, node(text="0"))
        writing = asyncio.gather(*(other.write_node(ANN, node(text=f"{n}")) for n in range(1, 25)))
        while not writing.done():
            seen = await archive.read_node(ANN, NODE)
            text = seen.abstract.removesuffix("!")
            assert (seen.overview, seen.content) == (node(text=text).overview, node(text=text).content)
        await writing
        await other.close()

    async def test_the_newest_five_versions_are_kept(self, archive: Archive, clock: FixedClock) -> None:
        for n in range(1, 9):
            clock.tick(seconds=1)
            await archive.write_node(ANN, node(text=f"tea {n}"), reason=f"because {n}")
        kept = await archive.revisions(ANN, NODE)
        assert [r.node.version for r in kept] == [7, 6, 5, 4, 3]
        assert [r.node.abstract for r in kept] == [f"tea {n}!" for n in (7, 6, 5, 4, 3)]
        assert [r.reason for r in kept] == [f"because {n}" for n in (7, 6, 5, 4, 3)]
        assert kept[0].saved_at > kept[1].saved_at
        with pytest.raises(NotFound):
            await archive.rollback_node(ANN, NODE, 1)
        assert (await archive.verify(STEWARD)).defects == []

    async def test_rolling_back_loses_nothing(self, archive: Archive) -> None:
        for text in ("green", "black", "oolong"):
            last = await archive.write_node(ANN, node(text=text, metadata={"text": text}))
        back = await archive.rollback_node(ANN, NODE, 1)
        assert (back.version, back.abstract, back.metadata) == (4, "green!", {"text": "green"})
        assert await archive.read_node(ANN, NODE) == back
        assert [r.node.abstract for r in await archive.revisions(ANN, NODE)] == ["oolong!", "black!", "green!"]
        again = await archive.rollback_node(ANN, NODE, 3)
        assert (again.content, again.created_at) == (last.content, last.created_at)
        with pytest.raises(NotFound):
            await archive.rollback_node(ANN, NODE, 17)

    async def test_children_are_listed_by_shelf(self, archive: Archive, clock: FixedClock) -> None:
        keys = [NODE, replace(NODE, slug="咖啡"), replace(NODE, shelf=Shelf.EVENTS, slug="trip")]
        for key in keys:
            await archive.write_node(ANN, node(key))
        await archive.write_node(BOB, node(replace(NODE, owner=Owner.user("bob"))))
        found = await archive.list_children(ANN, NODE.owner, Shelf.PREFERENCES)
        assert {(s.uri, s.name, s.is_dir, s.category) for s in found} == {
            (k.uri, k.slug, False, "preferences") for k in keys[:2]
        }
        assert {s.updated_at for s in found} == {clock.now()}
        shelves = await archive.list_children(ANN, NODE.owner)
        assert {(s.name, s.is_dir, s.has_children) for s in shelves} == {
            ("preferences", True, True),
            ("events", True, True),
        }
        everything = await archive.list_children(ANN, NODE.owner, recursive=True)
        assert {s.uri for s in everything if not s.is_dir} == {k.uri for k in keys}
        assert await archive.list_children(ANN, Owner.user("bob"), recursive=True) == []
        assert await archive.list_children(ANN, Owner.user("nobody")) == []

    async def test_a_deleted_node_is_gone_with_its_past(self, archive: Archive) -> None:
        for text in ("芝麻", "开门"):
            await archive.write_node(ANN, node(text=text))
        await archive.upsert_edges(ANN, NODE, [Edge(NODE.uri, "x", "part_of", "芝麻")])
        with pytest.raises(VersionConflict):
            await archive.delete_node(ANN, NODE, expect=99)
        assert await archive.delete_node(ANN, NODE)
        assert not await archive.delete_node(ANN, NODE)
        assert not await archive.exists(ANN, NODE)
        assert await archive.list_children(ANN, NODE.owner, recursive=True) == []
        assert not any("芝麻".encode() in data for data in (await dumped(archive)).values())
        again = await archive.write_node(ANN, node(text="new"), expect=0)
        assert again.version == 1
        assert await archive.revisions(ANN, NODE) == []
        assert await archive.get_edges(ANN, NODE) == []
        assert (await archive.verify(STEWARD)).defects == []

    async def test_writing_and_deleting_at_once_leaves_a_whole_node_or_none(
        self, archive: Archive, archive_factory: ArchiveFactory
    ) -> None:
        other = archive_factory("one")

        async def write(opened: Archive) -> None:
            for n in range(15):
                written = await opened.write_node(ANN, node(text=f"{n}"))
                assert written.version >= 1

        async def delete() -> None:
            for _ in range(15):
                await other.delete_node(ANN, NODE)

        await asyncio.gather(write(archive), write(other), delete())
        assert (await archive.verify(STEWARD)).defects == []
        await archive.delete_node(ANN, NODE)
        assert (await archive.verify(STEWARD)).nodes == 0
        await other.close()

    async def test_a_moved_node_keeps_its_words_and_relations(self, archive: Archive) -> None:
        there = replace(NODE, shelf=Shelf.ENTITIES, slug="乌龙茶")
        before = await archive.write_node(ANN, node(metadata={"a": 1}))
        await archive.upsert_edges(ANN, NODE, [Edge(NODE.uri, "ctx://x", "part_of", "why", 0.25)])
        moved = await archive.move_node(ANN, NODE, there)
        assert moved.key == there
        assert replace(moved, key=NODE, version=before.version) == before
        assert await archive.read_node(ANN, there) == moved
        assert not await archive.exists(ANN, NODE)
        (edge,) = await archive.get_edges(ANN, there)
        assert (edge.from_uri, edge.to_uri, edge.reason, edge.weight) == (there.uri, "ctx://x", "why", 0.25)
        with pytest.raises(NotFound):
            await archive.move_node(ANN, NODE, there)
        await archive.write_node(ANN, node(text="green"))
        with pytest.raises(VersionConflict):
            await archive.move_node(ANN, NODE, there)
        with pytest.raises(InvalidArgument):
            await archive.move_node(ANN, NODE, NODE)
        assert (await archive.read_node(ANN, there)).abstract == "oolong!"
        assert (await archive.verify(STEWARD)).defects == []

    # --- blobs and logs

    async def test_a_blob_is_kept_once_under_its_hash(self, archive: Archive) -> None:
        data = bytes(range(256)) * 20
        sha256 = await archive.put_blob(ANN, data)
        assert sha256 == hashlib.sha256(data).hexdigest()
        assert await archive.put_blob(BOB, data) == sha256
        assert await archive.get_blob(ANN, sha256) == data
        assert await archive.get_blob(ANN, await archive.put_blob(ANN, b"")) == b""
        assert (await archive.verify(STEWARD)).blobs == 2
        with pytest.raises(NotFound):
            await archive.get_blob(Scope.of("other", "ann"), sha256)
        for wrong in ("", "..", "../" * 20, sha256.upper(), sha256 + "/", sha256[:-1]):
            with pytest.raises(InvalidArgument):
                await archive.get_blob(ANN, wrong)

    async def test_logs_are_appended_and_read_by_stewards(self, archive: Archive, clock: FixedClock) -> None:
        assert await archive.read_log(STEWARD, "entries") == []
        bodies: list[dict[str, Any]] = [{"n": n, "text": "字\n", "deep": {"list": [None, 1.5]}} for n in range(5)]
        first = await archive.append_log(ANN, "entries", bodies[:3])
        clock.tick(seconds=1)
        second = await archive.append_log(BOB, "entries", bodies[3:])
        assert [line.seq for line in first + second] == [1, 2, 3, 4, 5]
        assert await archive.read_log(STEWARD, "entries") == first + second
        assert [line.body for line in first + second] == bodies
        assert await archive.read_log(STEWARD, "entries", 1, 2) == first[1:3]
        assert await archive.read_log(STEWARD, "entries", 5) == []
        assert await archive.read_log(STEWARD, "entries", 0, 0) == []
        assert await archive.read_log(STEWARD, "ledger") == []
        assert await archive.read_log(Scope.steward_of("other"), "entries") == []
        assert await archive.append_log(ANN, "ledger", []) == []
        assert (await archive.append_log(ANN, "ledger", [{}]))[0].seq == 1
        for log in ("entries", "ledger"):
            with pytest.raises(PermissionDenied):
                await archive.read_log(ANN, log)
        report = await archive.verify(STEWARD)
        assert (report.defects, report.log_lines) == ([], 6)

    async def test_a_log_is_written_on_only_from_where_its_writer_knows_it(self, archive: Archive) -> None:
        await archive.append_log(ANN, "entries", [{"n": 1}], expect=0)
        with pytest.raises(VersionConflict) as late:
            await archive.append_log(BOB, "entries", [{"n": 2}], expect=0)
        assert late.value.last == 1
        await archive.append_log(BOB, "entries", [{"n": 2}], expect=late.value.last)
        assert [line.body for line in await archive.read_log(STEWARD, "entries")] == [{"n": 1}, {"n": 2}]

    async def test_one_line_of_many_is_read_alone(self, archive: Archive, archive_factory: ArchiveFactory) -> None:
        await archive.append_log(ANN, "entries", [{"n": n} for n in range(1, 301)])
        for seq in (300, 1, 64, 65, 66, 128, 129):
            (line,) = await archive.read_log(STEWARD, "entries", seq - 1, 1)
            assert (line.seq, line.body) == (seq, {"n": seq})
        other = archive_factory("one")
        await other.append_log(ANN, "entries", [{"n": 301}])
        assert [line.seq for line in await archive.read_log(STEWARD, "entries", 299)] == [300, 301]
        await other.close()

    async def test_a_forgotten_line_leaves_nothing_but_its_place(
        self, archive: Archive, archive_factory: ArchiveFactory
    ) -> None:
        words = "青花瓷 the blue vase"
        await archive.append_log(ANN, "entries", [{"n": n, "text": words if n % 2 else "plain"} for n in range(1, 6)])
        assert await archive.forget_log(STEWARD, "entries", [1, 3, 5, 99], "forgotten") == 3
        assert await archive.forget_log(STEWARD, "entries", [1, 3, 5], "forgotten") == 0, "once is enough"
        assert await archive.forget_log(STEWARD, "entries", [], "forgotten") == 0
        assert await archive.forget_log(Scope.steward_of("other"), "entries", [1], "forgotten") == 0
        assert [line.seq for line in await archive.read_log(STEWARD, "entries")] == [2, 4]
        assert [line.seq for line in await archive.read_log(STEWARD, "entries", 2, 1)] == [4]
        kept = [chunk async for _, chunk in archive.dump(STEWARD)]
        assert words.encode() not in b"".join(kept)
        other = archive_factory("one")
        assert [line.seq for line in await other.append_log(ANN, "entries", [{"n": 6}], expect=5)] == [6]
        assert [line.seq for line in await archive.read_log(STEWARD, "entries", 4)] == [6]
        with pytest.raises(PermissionDenied):
            await archive.forget_log(ANN, "entries", [2], "forgotten")
        report = await archive.verify(STEWARD)
        assert (report.defects, report.log_lines) == ([], 6)
        await other.close()

    async def test_many_writers_keep_one_log(self, archive: Archive, archive_factory: ArchiveFactory) -> None:
        other = archive_factory("one")
        await asyncio.gather(
            *((archive, other)[n % 2].append_log(ANN, "ledger", [{"n": n}, {"n": n}]) for n in range(15))
        )
        lines = await archive.read_log(STEWARD, "ledger")
        assert [line.seq for line in lines] == list(range(1, 31))
        assert all(a.body == b.body for a, b in zip(lines[::2], lines[1::2], strict=True))
        assert (await archive.verify(STEWARD)).defects == []
        await other.close()

    # --- proof, moving house

    async def test_an_archive_proves_itself(self, archive: Archive, clock: FixedClock) -> None:
        assert (await archive.verify(STEWARD)).ok
        await self._filled(archive, clock)
        report = await archive.verify(STEWARD)
        assert (report.defects, report.notes) == ([], [])
        assert (report.sessions, report.turns, report.tombstones) == (3, 15, 3)
        assert (report.tags, report.claims, report.commits) == (15, 15, 6)
        assert (report.nodes, report.revisions, report.blobs, report.log_lines) == (1, 3, 1, 3)
        assert report.bytes > 0
        assert await archive.repair(STEWARD) == []
        assert (await archive.verify(Scope.steward_of("nobody"))).ok

    async def test_a_dump_loads_into_an_equal_archive(
        self, archive: Archive, archive_factory: ArchiveFactory, clock: FixedClock
    ) -> None:
        await self._filled(archive, clock)
        files = await dumped(archive)
        other = archive_factory("two")
        report = await other.load(STEWARD, as_files(files))
        assert (report.added, report.sessions, report.conflicts) == (len(files), 3, [])
        assert await dumped(other) == files
        proof, original = await other.verify(STEWARD), await archive.verify(STEWARD)
        assert proof.ok
        assert proof == original
        scope = Scope.of(TENANT, "ann", group_id="g/1")
        records = [r async for r in archive.sessions(scope)]
        assert [r async for r in other.sessions(scope)] == records
        assert len(records) == 3
        for key in (r.key for r in records):
            assert await other.read_turns(scope, key) == await archive.read_turns(scope, key)
            assert await other.read_tombstones(scope, key) == await archive.read_tombstones(scope, key)
            assert await other.read_tags(scope, key) == await archive.read_tags(scope, key)
            assert await other.read_claims(scope, key) == await archive.read_claims(scope, key)
            assert await other.read_commits(scope, key) == await archive.read_commits(scope, key)
        assert await other.read_node(ANN, NODE) == await archive.read_node(ANN, NODE)
        assert await other.revisions(ANN, NODE) == await archive.revisions(ANN, NODE)
        assert await other.get_edges(ANN, NODE) == await archive.get_edges(ANN, NODE)
        for log in ("entries", "ledger"):
            name: Any = log
            assert await other.read_log(STEWARD, name) == await archive.read_log(STEWARD, name)
        more = await other.append_turns(ANN, KEY, [turn("t7")])
        assert [s.seq for s in more.appended] == [7]
        await other.close()

    async def test_a_dump_of_one_owner_holds_nothing_of_others(
        self, archive: Archive, archive_factory: ArchiveFactory, clock: FixedClock
    ) -> None:
        await self._filled(archive, clock)
        bob = SessionKey(TENANT, Owner.user("bob"), "s1")
        await archive.write_session(BOB, record(clock, bob), 0)
        await archive.append_turns(BOB, bob, [turn("t1", "bob alone")])
        await archive.write_node(BOB, node(replace(NODE, owner=Owner.user("bob"))))
        files = await dumped(archive, owner=Owner.user("ann"))
        assert not any(b"bob" in data for data in files.values())
        other = archive_factory("two")
        await other.load(STEWARD, as_files(files))
        assert await listed(other.owners(STEWARD)) == [Owner.user("ann")]
        assert await other.read_turns(ANN, KEY) == await archive.read_turns(ANN, KEY)
        assert await other.revisions(ANN, NODE) == await archive.revisions(ANN, NODE)
        assert (await other.verify(STEWARD)).defects == []
        await other.close()

    async def test_loading_again_changes_nothing_and_more_words_are_added(
        self, archive: Archive, archive_factory: ArchiveFactory, clock: FixedClock
    ) -> None:
        await archive.write_session(ANN, record(clock), 0)
        await archive.append_turns(ANN, KEY, [turn("t1")])
        early = await dumped(archive)
        other = archive_factory("two")
        await other.load(STEWARD, as_files(early))
        again = await other.load(STEWARD, as_files(early))
        assert (again.added, again.already_there, again.conflicts) == (0, len(early), [])
        await archive.append_turns(ANN, KEY, [turn("t2")])
        late = await dumped(archive)
        more = await other.load(STEWARD, as_files(late))
        assert (more.added, more.conflicts) == (1, [])
        assert len(await other.read_turns(ANN, KEY)) == 2
        older = await other.load(STEWARD, as_files(early))
        assert (older.added, older.conflicts) == (0, [])
        assert len(await other.read_turns(ANN, KEY)) == 2
        assert [s.seq for s in (await other.append_turns(ANN, KEY, [turn("t3")])).appended] == [3]
        assert (await other.verify(STEWARD)).defects == []
        await other.close()

    async def test_what_differs_is_a_conflict_and_nothing_of_it_is_taken(
        self, archive: Archive, archive_factory: ArchiveFactory, clock: FixedClock
    ) -> None:
        other = archive_factory("two")
        for opened, text in ((archive, "here"), (other, "there")):
            await opened.write_session(ANN, record(clock), 0)
            await opened.append_turns(ANN, KEY, [turn("t1", text)])
            await opened.write_node(ANN, node(text=text))
        await archive.write_node(ANN, node(text="here again"))
        report = await other.load(STEWARD, as_files(await dumped(archive)))
        assert any("turns" in path for path in report.conflicts)
        assert any("preferences" in path for path in report.conflicts)
        assert [s.turn.text for s in await other.read_turns(ANN, KEY)] == ["there"]
        assert await other.repair(STEWARD) == []
        kept = await other.read_node(ANN, NODE)
        assert (kept.abstract, kept.version) == ("there!", 1)
        assert (await other.verify(STEWARD)).defects == []
        assert (await other.write_node(ANN, node(text="on"), expect=1)).version == 2
        await other.close()

    @pytest.mark.parametrize(
        "path",
        [
            "../evil",
            "acme/../../evil",
            "acme/../other/users/x",
            "/etc/evil",
            "//acme/x",
            "other/users/ann/sessions/s1/session.json",
            "acme",
            "acme/",
            "",
            ".",
            "acme/users\\..\\..\\evil",
            "acme/users/\0",
        ],
    )
    async def test_an_export_cannot_leave_the_tenant(
        self, archive: Archive, clock: FixedClock, archive_factory: ArchiveFactory, path: str
    ) -> None:
        await self._filled(archive, clock)
        files = await dumped(archive)
        other = archive_factory("two")
        with pytest.raises(InvalidArgument):
            await other.load(STEWARD, [*as_files(files), (path, io.BytesIO(b"x"))])
        assert await listed(other.tenants()) in ([], [TENANT])
        assert [r async for r in other.sessions(STEWARD)] == [], "a refused import shows no session"
        assert (await other.load(STEWARD, as_files(files))).conflicts == []
        assert await dumped(other) == files
        await other.close()

    async def test_a_dump_is_whole_while_others_write(
        self, archive: Archive, archive_factory: ArchiveFactory, clock: FixedClock
    ) -> None:
        """The one who reads the dump writes to the archive between two chunks, and is not locked out."""
        await self._filled(archive, clock)
        files: dict[str, bytes] = {}
        n = 0
        async for path, chunk in archive.dump(STEWARD):
            files[path] = files.get(path, b"") + chunk
            n += 1
            async with asyncio.timeout(10):
                await archive.append_turns(ANN, KEY, [turn(f"during {n}")])
                if n % 5 == 0:
                    await archive.write_node(ANN, node(text=f"during {n}"))
                    await archive.forget_turns(ANN, KEY, [f"during {n - 1}"], "asked to")
        other = archive_factory("two")
        assert (await other.load(STEWARD, as_files(files))).conflicts == []
        assert (await other.verify(STEWARD)).defects == []
        seen = [s.seq for s in await other.read_turns(ANN, KEY)]
        assert len(seen) >= 5
        await other.close()

    # --- odd ids

    async def test_no_id_meets_another_or_leaves_its_folder(self, archive: Archive, clock: FixedClock) -> None:
        """As user, as session and as slug: each finds its own words and nobody else's."""
        keys: dict[str, tuple[Scope, SessionKey, NodeKey]] = {}
        for odd in ODD_IDS:
            owner = Owner.user(odd)
            scope = Scope.of(TENANT, odd)
            keys[odd] = scope, SessionKey(TENANT, owner, odd), NodeKey(TENANT, owner, Shelf.ENTITIES, odd)
        for odd, (scope, session, place) in keys.items():
            await archive.write_session(scope, record(clock, session), 0)
            await archive.append_turns(scope, session, [turn("t1", odd)])
            await archive.write_node(scope, node(place, odd))
        for odd, (scope, session, place) in keys.items():
            assert [s.turn.text for s in await archive.read_turns(scope, session)] == [odd]
            assert (await archive.read_node(scope, place)).abstract == f"{odd}!"
            assert [r.key for r in [r async for r in archive.sessions(scope)]] == [session]
            assert [s.name for s in await archive.list_children(scope, place.owner, place.shelf)] == [odd]
        assert {o.id for o in await listed(archive.owners(STEWARD))} == set(ODD_IDS)
        report = await archive.verify(STEWARD)
        assert (report.defects, report.notes) == ([], [])
        assert (report.sessions, report.nodes) == (len(ODD_IDS), len(ODD_IDS))

    async def test_odd_ids_in_one_folder_stay_apart(self, archive: Archive, clock: FixedClock) -> None:
        for odd in ODD_IDS:
            key = replace(KEY, session_id=odd)
            await archive.write_session(ANN, record(clock, key), 0)
            await archive.append_turns(ANN, key, [turn(odd[:256], odd)])
        assert {r.session_id for r in [r async for r in archive.sessions(ANN)]} == set(ODD_IDS)
        for odd in ODD_IDS:
            assert [s.turn.text for s in await archive.read_turns(ANN, replace(KEY, session_id=odd))] == [odd]

    async def test_odd_tenants_stay_apart(
        self, archive: Archive, archive_factory: ArchiveFactory, clock: FixedClock
    ) -> None:
        for odd in ODD_IDS:
            key = replace(KEY, tenant_id=odd)
            await archive.write_session(Scope.of(odd, "ann"), record(clock, key), 0)
            await archive.append_turns(Scope.of(odd, "ann"), key, [turn("t1", odd)])
        assert sorted(await listed(archive.tenants())) == sorted(ODD_IDS)
        other = archive_factory("two")
        for odd in ODD_IDS:
            steward = Scope.steward_of(odd)
            assert [r.tenant_id for r in [r async for r in archive.sessions(steward)]] == [odd]
            await other.load(steward, as_files(await dumped(archive, steward)))
            assert (await other.verify(steward)).defects == []
            (stored,) = await other.read_turns(steward, replace(KEY, tenant_id=odd))
            assert stored.turn.text == odd
        assert sorted(await listed(other.tenants())) == sorted(ODD_IDS)
        await other.close()
