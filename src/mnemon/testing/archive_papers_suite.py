"""What every archive must do with what is derived from words, with relations, and with what is to go: subclass
`PapersContract`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from mnemon.contracts.claims import ClaimState, ToolStats
from mnemon.contracts.errors import Conflict, InvalidArgument, NotFound
from mnemon.contracts.nodes import Edge, Shelf
from mnemon.contracts.ports import Archive
from mnemon.contracts.reports import VerifyReport
from mnemon.contracts.scope import Owner, Scope, SessionKey
from mnemon.contracts.sessions import SessionStatus
from mnemon.contracts.turns import Attachment, Span, Turn
from mnemon.testing.archive_suite import (
    ANN,
    BOB,
    KEY,
    NODE,
    ODD_IDS,
    STEWARD,
    TENANT,
    ArchiveFactory,
    ArchiveOpened,
    claim,
    commit,
    complete,
    derive,
    dumped,
    listed,
    made_of,
    node,
    placed,
    record,
    rich_turns,
    tag,
    tagging,
    turn,
)
from mnemon.testing.clock import FixedClock

WORDS = turn("t1", "我喜欢喝乌龙茶，不要加糖。👩‍👩‍👧 and no milk")


def kinds(report: VerifyReport) -> set[str]:
    return {defect.kind for defect in report.defects}


class PapersContract(ArchiveOpened):
    async def _session(self, archive: Archive, key: SessionKey = KEY, *turns: Turn) -> Scope:
        """A session with words, for whoever it belongs to."""
        scope = Scope.of(key.tenant_id, key.owner.id)
        await archive.write_session(scope, record(FixedClock(), key), 0)
        await archive.append_turns(scope, key, turns or rich_turns())
        return scope

    # --- tags, claims, commits

    async def test_papers_come_back_as_they_were_written(
        self, archive: Archive, archive_factory: ArchiveFactory
    ) -> None:
        await self._session(archive)
        stored = await archive.read_turns(ANN, KEY)
        rich = claim(
            stored[1].turn,
            title="字\n\u2028\x00",
            content="# 乌龙\n\n喜欢。",
            entities=("安", "乌龙茶"),
            spans=(Span.cut(stored[1].turn, 2, 9), Span.whole(stored[0].turn)),
            state=ClaimState.SUPERSEDED,
            valid_to=FixedClock().tick(days=1, microseconds=7),
            expires_at=FixedClock().tick(days=3),
            tool=ToolStats(tool_name="ls", call_count=3),
        )
        taggings = [tagging(stored[:2], provider="rules"), tagging(stored[2:], degraded="model away", ttl_seconds=60)]
        commits = [commit(1, stored[:2], used_tools=({"name": "搜索", "n": 1.5},)), commit(2, stored, total_tokens=7)]
        await archive.write_tags(ANN, KEY, taggings)
        await archive.put_claims(ANN, KEY, [rich, claim(stored[0].turn)])
        for one in commits:
            await archive.write_commit(ANN, KEY, one)
        other = archive_factory("one")
        for opened in (archive, other):
            assert await opened.read_tags(ANN, KEY) == taggings
            assert await opened.read_claims(ANN, KEY) == [rich, claim(stored[0].turn)]
            assert await opened.read_commits(ANN, KEY) == commits
        report = await archive.verify(STEWARD)
        assert (report.defects, report.tags, report.claims, report.commits) == ([], 3, 2, 2)
        await other.close()

    async def test_a_session_without_papers_has_none(self, archive: Archive) -> None:
        await self._session(archive)
        assert await archive.read_tags(ANN, KEY) == []
        assert await archive.read_claims(ANN, KEY) == []
        assert await archive.read_commits(ANN, KEY) == []
        await archive.put_claims(ANN, KEY, [], ["nothing"])
        await archive.write_tags(ANN, KEY, [])
        report = await archive.verify(STEWARD)
        assert (report.defects, report.notes) == ([], [])
        for refused in (archive.read_tags, archive.read_claims, archive.read_commits):
            with pytest.raises(NotFound):
                await refused(ANN, replace(KEY, session_id="nothing"))

    async def test_tags_take_the_place_of_those_before(self, archive: Archive) -> None:
        await self._session(archive)
        stored = await archive.read_turns(ANN, KEY)
        for taggings in ([tagging(stored)], [tagging(stored[:1]), tagging(stored[1:])], []):
            await archive.write_tags(ANN, KEY, taggings)
            assert await archive.read_tags(ANN, KEY) == taggings
        assert not any("tags" in path for path in await dumped(archive))

    async def test_claims_are_added_replaced_and_taken_away_in_place(self, archive: Archive) -> None:
        await self._session(archive, KEY, WORDS)
        a, b, c, d = (claim(WORDS, claim_id=name) for name in "abcd")
        await archive.put_claims(ANN, KEY, [a, b, c])
        again = b.model_copy(update={"state": ClaimState.EXPIRED})
        await archive.put_claims(ANN, KEY, [d, again], ["a", "never there"])
        assert await archive.read_claims(ANN, KEY) == [again, c, d]
        await archive.put_claims(ANN, KEY, [c, d])
        await archive.put_claims(ANN, KEY, [a, a.model_copy(update={"title": "later"})])
        assert await archive.read_claims(ANN, KEY) == [again, c, d, a.model_copy(update={"title": "later"})]
        await archive.put_claims(ANN, KEY, [b], ["a", "b", "c", "d"])
        assert await archive.read_claims(ANN, KEY) == []
        assert not any("claims" in path for path in await dumped(archive))

    async def test_claims_of_many_writers_are_all_kept(self, archive: Archive, archive_factory: ArchiveFactory) -> None:
        await self._session(archive, KEY, WORDS)
        other = archive_factory("one")
        await archive.put_claims(ANN, KEY, [claim(WORDS, claim_id=f"old {n}") for n in range(12)])

        async def write(n: int) -> None:
            new = [claim(WORDS, claim_id=f"{n}-{i}") for i in range(3)]
            await (archive, other)[n % 2].put_claims(ANN, KEY, new, [f"old {n}"])

        await asyncio.gather(*(write(n) for n in range(12)))
        assert {c.claim_id for c in await other.read_claims(ANN, KEY)} == {
            f"{n}-{i}" for n in range(12) for i in range(3)
        }
        assert (await archive.verify(STEWARD)).defects == []
        await other.close()

    @pytest.mark.parametrize(
        "elsewhere",
        [
            replace(KEY, session_id="s2"),
            replace(KEY, owner=Owner.user("bob")),
            replace(KEY, owner=Owner.group("ann")),
            replace(KEY, tenant_id="other"),
        ],
    )
    async def test_claims_of_another_session_are_refused(self, archive: Archive, elsewhere: SessionKey) -> None:
        await self._session(archive, KEY, WORDS)
        with pytest.raises(InvalidArgument):
            await archive.put_claims(ANN, KEY, [claim(WORDS), claim(WORDS, elsewhere)])
        assert await archive.read_claims(ANN, KEY) == []

    async def test_commits_are_kept_by_number(self, archive: Archive) -> None:
        await self._session(archive)
        stored = await archive.read_turns(ANN, KEY)
        for number in (10, 2, 11, *range(3, 10)):
            await archive.write_commit(ANN, KEY, commit(number, stored))
        assert [c.number for c in await archive.read_commits(ANN, KEY)] == list(range(2, 12))
        assert [c.number for c in await archive.read_commits(ANN, KEY, after=9)] == [10, 11]
        scrubbed = commit(2, stored, summary="")
        await archive.write_commit(ANN, KEY, scrubbed)
        assert (await archive.read_commits(ANN, KEY))[0] == scrubbed
        for wrong in (0, -1):
            with pytest.raises(InvalidArgument):
                await archive.write_commit(ANN, KEY, commit(wrong, stored))
        assert (await archive.verify(STEWARD)).defects == []

    async def test_what_cannot_be_stored_is_refused(self, archive: Archive) -> None:
        await self._session(archive, KEY, WORDS)
        half = "\ud83d"
        stored = await archive.read_turns(ANN, KEY)
        wrong: list[Any] = [
            archive.write_tags(ANN, KEY, [tagging(stored).model_copy(update={"degraded": half})]),
            archive.put_claims(ANN, KEY, [claim(WORDS).model_copy(update={"statement": half})]),
            archive.write_commit(ANN, KEY, commit(1, stored, used_tools=({"object": object()},))),
        ]
        for refused in wrong:
            with pytest.raises(InvalidArgument):
                await refused
        assert await archive.read_claims(ANN, KEY) == []

    async def test_whoever_sees_a_session_reads_its_papers_and_its_owner_writes_them(
        self, archive: Archive, clock: FixedClock
    ) -> None:
        ann, bob = (Scope.of(TENANT, user, group_id="g") for user in ("ann", "bob"))
        await archive.write_session(ann, record(clock, principals=("g:g",)), 0)
        await archive.append_turns(ann, KEY, [WORDS])
        page = await derive(archive, ann, KEY)
        stored = await archive.read_turns(bob, KEY)
        assert len(await archive.read_tags(bob, KEY)) == 1
        assert [c.claim_id for c in await archive.read_claims(bob, KEY)] == list(page["claim_ids"])
        assert len(await archive.read_commits(bob, KEY)) == 2
        for refused in (
            archive.write_tags(bob, KEY, []),
            archive.put_claims(bob, KEY, [], page["claim_ids"]),
            archive.write_commit(bob, KEY, commit(1, stored, summary="not theirs")),
            archive.erase_session(bob, KEY, "not theirs"),
            archive.drop_session(bob, KEY),
        ):
            with pytest.raises(NotFound):
                await refused
        assert len(await archive.read_claims(STEWARD, KEY)) == 1
        await archive.put_claims(STEWARD, KEY, [], page["claim_ids"])
        assert await archive.read_claims(ann, KEY) == []

    async def test_papers_of_odd_ids_stay_apart(self, archive: Archive) -> None:
        keys = [SessionKey(TENANT, Owner.user(odd), odd) for odd in ODD_IDS]
        for key in keys:
            scope = await self._session(archive, key, WORDS)
            await archive.put_claims(scope, key, [claim(WORDS, key, f"c {key.session_id}")])
        for key in keys:
            (found,) = await archive.read_claims(Scope.of(TENANT, key.owner.id), key)
            assert (found.session, found.claim_id) == (key, f"c {key.session_id}")
        assert (await archive.verify(STEWARD)).defects == []

    # --- the proof of law 1

    @pytest.mark.parametrize(
        "span",
        [
            {"text_exact": "我喜欢喝红茶，"},
            {"start": 1, "end": 8},
            {"end": 4},
            {"start": 3, "end": 3, "text_exact": ""},
            {"start": 90, "end": 99},
            {"turn_id": "t9"},
        ],
    )
    async def test_a_quote_that_does_not_stand_in_its_turn_is_named(
        self, archive: Archive, span: dict[str, Any]
    ) -> None:
        await self._session(archive, KEY, WORDS)
        stored = await archive.read_turns(ANN, KEY)
        good = Span.cut(WORDS, 0, 7)
        bad = good.model_copy(update=span)
        assert (await self._proof(archive, good)) == set()
        assert (await self._proof(archive, bad)) == {("span", "claim c1")}
        await archive.put_claims(ANN, KEY, [], ["c1"])
        said = {k: v for k, v in span.items() if k != "turn_id"}
        wrong = tag(WORDS, "v1").model_copy(update={"span": tag(WORDS).span.model_copy(update=said)})
        wrong = wrong.model_copy(update={"turn_id": bad.turn_id})
        output = tagging(stored).output.model_copy(update={"tags": (tag(WORDS, "v0"), wrong)})
        await archive.write_tags(ANN, KEY, [tagging(stored, output=output)])
        (defect,) = (await archive.verify(STEWARD)).defects
        assert (defect.kind, "tag v1" in defect.detail) == ("span", True)

    async def _proof(self, archive: Archive, span: Span) -> set[tuple[str, str]]:
        await archive.put_claims(ANN, KEY, [claim(WORDS, claim_id="c0"), claim(WORDS, claim_id="c1", spans=(span,))])
        return {(d.kind, d.detail.partition(":")[0]) for d in (await archive.verify(STEWARD)).defects}

    async def test_what_cites_forgotten_words_is_named(self, archive: Archive) -> None:
        """Whoever forgets words takes away what cites them."""
        await self._session(archive, KEY, WORDS, turn("t2"))
        await archive.put_claims(ANN, KEY, [claim(WORDS), claim(turn("t2"))])
        await archive.write_tags(ANN, KEY, [tagging(await archive.read_turns(ANN, KEY))])
        await archive.write_node(ANN, node(metadata=made_of(claim(WORDS), claim(turn("t2")))))
        assert (await archive.verify(STEWARD)).defects == []
        await archive.forget_turns(ANN, KEY, ["t2"], "asked to")
        report = await archive.verify(STEWARD)
        assert kinds(report) == {"span"}
        assert len(report.defects) == 3
        assert all("t2" in defect.detail and "forgotten" in defect.detail for defect in report.defects)

    @pytest.mark.parametrize("status", SessionStatus)
    async def test_the_page_of_a_completed_session_names_its_claims(
        self, archive: Archive, status: SessionStatus
    ) -> None:
        await self._session(archive, KEY, WORDS)
        await archive.put_claims(ANN, KEY, [claim(WORDS, claim_id="there")])
        await complete(archive, ANN, KEY, status=status, claim_ids=("not there",))
        defects = (await archive.verify(STEWARD)).defects
        assert [d.kind for d in defects] == (["claims"] * 2 if status is SessionStatus.COMPLETED else [])
        await complete(archive, ANN, KEY, claim_ids=("there",))
        assert (await archive.verify(STEWARD)).defects == []

    async def test_papers_about_other_words_are_named(self, archive: Archive) -> None:
        await self._session(archive, KEY, WORDS)
        await archive.write_tags(ANN, KEY, [tagging(placed(WORDS))])
        await archive.write_commit(ANN, KEY, commit(1, placed(WORDS, turn("t2"))))
        report = await archive.verify(STEWARD)
        assert [d.kind for d in report.defects] == ["chain", "chain"]

    async def test_the_claims_of_a_node_are_proven_in_their_own_sessions(self, archive: Archive) -> None:
        sessions = [replace(KEY, session_id=f"s{n}") for n in range(12)]
        for n, key in enumerate(sessions):
            await self._session(archive, key, turn("t1", f"words {n}"))
        claims = [claim(turn("t1", f"words {n}"), key, f"c{n}") for n, key in enumerate(sessions)]
        agents = replace(NODE, owner=Owner.agent("default"), shelf=Shelf.CASES)
        await archive.write_node(STEWARD, node(agents, metadata=made_of(*claims)))
        await archive.write_node(ANN, node(metadata=made_of(*claims)))
        assert (await archive.verify(STEWARD)).defects == []
        elsewhere = claim(turn("t1", "words 3"), replace(KEY, session_id="nothing"), "c x")
        foreign = claim(turn("t1", "words 3"), replace(KEY, tenant_id="other"), "c y")
        await archive.write_node(ANN, node(metadata=made_of(claims[3], elsewhere, foreign)))
        defects = (await archive.verify(STEWARD)).defects
        assert [d.kind for d in defects] == ["span", "span"]
        assert "nothing" in defects[0].detail
        assert "another tenant" in defects[1].detail

    async def test_an_earlier_version_that_cites_forgotten_words_is_named(self, archive: Archive) -> None:
        await self._session(archive, KEY, WORDS)
        for metadata in (made_of(claim(WORDS)), {}):
            await archive.write_node(ANN, node(metadata=metadata))
        assert (await archive.verify(STEWARD)).defects == []
        await archive.forget_turns(ANN, KEY, None, "asked to")
        assert kinds(await archive.verify(STEWARD)) == {"span"}
        assert await archive.erase_revisions(ANN, NODE) == 1
        assert (await archive.verify(STEWARD)).defects == []

    # --- erasing

    async def test_an_erased_session_keeps_its_page_and_its_chain_and_nothing_else(
        self, archive: Archive, archive_factory: ArchiveFactory, clock: FixedClock
    ) -> None:
        blob = await archive.put_blob(ANN, b"the whole output")
        cut = Attachment(type="tool_result", truncated=True, sha256=blob, ref=f"blob://{blob}")
        await self._session(archive, KEY, WORDS, turn("t2", "芝麻开门", attachments=(cut,)), turn("t3"))
        await archive.forget_turns(ANN, KEY, ["t3"], "earlier")
        before = await complete(archive, ANN, KEY, counts={"facts": 2}, **await derive(archive, ANN, KEY))
        later = clock.tick(days=1)
        told = await archive.erase_session(ANN, KEY, "用户要求")
        assert told == {"turns": 2, "tags": 2, "claims": 2, "commits": 2, "blobs": 1}
        page = await archive.read_session(ANN, KEY)
        kept = {"claim_ids": (), "counts": {}, "version": before.version + 1, "updated_at": later}
        assert page == before.model_copy(update=kept)
        other = archive_factory("one")
        for opened in (archive, other):
            assert await opened.read_turns(ANN, KEY) == []
            assert [g.reason for g in await opened.read_tombstones(ANN, KEY)] == ["用户要求", "用户要求", "earlier"]
            assert await opened.read_tags(ANN, KEY) == []
            assert await opened.read_claims(ANN, KEY) == []
            assert await opened.read_commits(ANN, KEY) == []
            back = await opened.append_turns(ANN, KEY, [WORDS, turn("t2", "芝麻开门")])
            assert (back.appended, back.already_there) == ((), 2), "what is erased does not come back"
        with pytest.raises(NotFound):
            await archive.get_blob(ANN, blob)
        for data in (await dumped(archive)).values():
            assert not any(word.encode() in data for word in ("芝麻", "乌龙", "whole"))
        report = await archive.verify(STEWARD)
        assert (report.defects, report.notes, report.tombstones) == ([], [], 3)
        assert set((await archive.erase_session(ANN, KEY, "again")).values()) == {0}
        assert await archive.read_session(ANN, KEY) == page
        assert await archive.repair(STEWARD) == []
        await other.close()

    async def test_an_erased_session_that_was_never_finished_is_completed_and_proves_its_chain(
        self, archive: Archive
    ) -> None:
        await self._session(archive, KEY, WORDS, turn("t2"))
        await derive(archive, ANN, KEY)
        await archive.erase_session(ANN, KEY, "asked to")
        page = await archive.read_session(ANN, KEY)
        graves = await archive.read_tombstones(ANN, KEY)
        assert page is not None
        assert (page.status, page.turn_count, page.chain_head) == (SessionStatus.COMPLETED, 2, graves[-1].chain)
        assert [s.seq for s in (await archive.append_turns(ANN, KEY, [turn("t3")])).appended] == [3]
        assert (await archive.verify(STEWARD)).defects == []

    async def test_a_session_that_was_never_completed_is_dropped_as_if_it_had_never_been(
        self, archive: Archive, clock: FixedClock
    ) -> None:
        blob = await archive.put_blob(ANN, b"the whole output")
        cut = Attachment(type="tool_result", sha256=blob, ref=f"blob://{blob}")
        await self._session(archive, KEY, turn("t1", attachments=(cut,)), turn("t2"))
        await self._session(archive, replace(KEY, session_id="s2"))
        await archive.put_claims(ANN, KEY, [claim(turn("t2"))])
        assert await archive.drop_session(ANN, KEY)
        assert not await archive.drop_session(ANN, KEY)
        assert await archive.read_session(ANN, KEY) is None
        assert [r.session_id for r in [r async for r in archive.sessions(STEWARD)]] == ["s2"]
        with pytest.raises(NotFound):
            await archive.append_turns(ANN, KEY, [turn("t3")])
        with pytest.raises(NotFound):
            await archive.get_blob(ANN, blob)
        report = await archive.verify(STEWARD)
        assert (report.defects, report.notes) == ([], [])
        await self._anew(archive, KEY, clock)

    @pytest.mark.parametrize("facts", [{}, {"status": SessionStatus.FAILED, "commits": 1}])
    async def test_a_session_that_was_completed_is_not_dropped(self, archive: Archive, facts: dict[str, Any]) -> None:
        await self._session(archive, KEY, WORDS)
        await complete(archive, ANN, KEY, **facts)
        with pytest.raises(Conflict):
            await archive.drop_session(ANN, KEY)
        assert len(await archive.read_turns(ANN, KEY)) == 1

    async def test_earlier_versions_are_erased_and_the_node_stays(self, archive: Archive) -> None:
        for text in ("芝麻", "开门", "green"):
            last = await archive.write_node(ANN, node(text=text))
        assert await archive.erase_revisions(ANN, NODE) == 2
        assert await archive.erase_revisions(ANN, NODE) == 0
        assert await archive.revisions(ANN, NODE) == []
        assert await archive.read_node(ANN, NODE) == last
        assert not any("芝麻".encode() in data for data in (await dumped(archive)).values())
        report = await archive.verify(STEWARD)
        assert (report.defects, report.notes, report.revisions) == ([], [], 1)
        assert (await archive.write_node(ANN, node(text="black"), expect=3)).version == 4
        assert [r.node.version for r in await archive.revisions(ANN, NODE)] == [3]
        with pytest.raises(NotFound):
            await archive.erase_revisions(ANN, replace(NODE, slug="nothing"))

    async def _two_owners(self, archive: Archive) -> tuple[str, str]:
        """Ann and Bob with words, papers, nodes; a blob of both and one of Ann's."""
        both, own = await archive.put_blob(ANN, b"of both"), await archive.put_blob(ANN, "安的".encode())

        def pointing(*named: str) -> tuple[Attachment, ...]:
            return tuple(Attachment(type="tool_result", sha256=b, ref=f"blob://{b}") for b in named)

        for name, attachments in (("ann", pointing(both, own)), ("bob", pointing(both))):
            key = SessionKey(TENANT, Owner.user(name), "s1")
            scope = await self._session(archive, key, turn("t1", f"{name} 的话", attachments=attachments), turn("t2"))
            await complete(archive, scope, key, **await derive(archive, scope, key))
            place = replace(NODE, owner=key.owner)
            for text in ("green", "black"):
                made = made_of(*await archive.read_claims(scope, key))
                await archive.write_node(scope, node(place, f"{name} {text}", metadata=made))
            await archive.upsert_edges(scope, place, [Edge(place.uri, "x", "part_of")])
        return both, own

    async def test_an_erased_owner_leaves_nothing_and_others_keep_everything(
        self, archive: Archive, archive_factory: ArchiveFactory, clock: FixedClock
    ) -> None:
        both, own = await self._two_owners(archive)
        await archive.append_log(ANN, "ledger", [{"n": 1}])
        bobs = await dumped(archive, owner=Owner.user("bob"))
        other = archive_factory("one")
        await other.append_turns(ANN, KEY, [])
        told = await archive.erase_owner(STEWARD, Owner.user("ann"))
        papers = {"turns": 2, "tags": 2, "claims": 2, "commits": 2}
        assert told == {"sessions": 1, "nodes": 1, "revisions": 2, "blobs": 1, **papers}
        assert set((await archive.erase_owner(STEWARD, Owner.user("ann"))).values()) == {0}
        assert set((await archive.erase_owner(STEWARD, Owner.user("nobody"))).values()) == {0}
        assert await listed(archive.owners(STEWARD)) == [Owner.user("bob")]
        assert await dumped(archive, owner=Owner.user("bob")) == bobs
        left = await dumped(archive)
        assert not any("users/ann" in path or "ann 的话" in data.decode() for path, data in left.items())
        assert await archive.get_blob(BOB, both) == b"of both"
        with pytest.raises(NotFound):
            await archive.get_blob(BOB, own)
        report = await archive.verify(STEWARD)
        assert (report.defects, report.notes, report.sessions, report.nodes) == ([], [], 1, 1)
        for opened in (archive, other):
            with pytest.raises(NotFound):
                await opened.append_turns(ANN, KEY, [turn("t3")])
        for n, opened in enumerate((archive, other)):
            await self._anew(opened, replace(KEY, session_id=f"s{n + 1}"), clock)

    async def _anew(self, archive: Archive, key: SessionKey, clock: FixedClock) -> None:
        """The same names begin from nothing, whoever had known them before."""
        scope = Scope.of(key.tenant_id, key.owner.id, "p")
        opened = await archive.write_session(scope, record(clock, key, principals=("u:ann", "p:p")), 0)
        assert opened.version == 1
        with pytest.raises(NotFound):
            await archive.append_turns(ANN, key, [turn("t1")])
        again = await archive.append_turns(scope, key, [turn("t1", "new words"), turn("t2")])
        assert [s.seq for s in again.appended] == [1, 2]
        assert await archive.read_claims(scope, key) == []
        assert (await archive.write_node(ANN, node(replace(NODE, slug=key.session_id)), expect=0)).version == 1
        assert (await archive.verify(Scope.steward_of(key.tenant_id))).defects == []

    async def test_an_erased_tenant_leaves_nothing_and_others_keep_everything(
        self, archive: Archive, archive_factory: ArchiveFactory, clock: FixedClock
    ) -> None:
        await self._two_owners(archive)
        for log in ("entries", "ledger"):
            name: Any = log
            await archive.append_log(ANN, name, [{"n": 1}, {"n": 2}])
        elsewhere = replace(KEY, tenant_id="other")
        await self._session(archive, elsewhere, WORDS)
        kept = await dumped(archive, Scope.steward_of("other"))
        other = archive_factory("one")
        await other.append_turns(ANN, KEY, [])
        told = await archive.erase_tenant(STEWARD)
        papers = {"turns": 4, "tags": 4, "claims": 4, "commits": 4}
        assert told == {"sessions": 2, "nodes": 2, "revisions": 4, "blobs": 2, "log_lines": 4, **papers}
        assert set((await archive.erase_tenant(STEWARD)).values()) == {0}
        assert await listed(archive.tenants()) == ["other"]
        assert await listed(archive.owners(STEWARD)) == []
        assert await dumped(archive) == {}
        assert await dumped(archive, Scope.steward_of("other")) == kept
        assert await archive.read_log(STEWARD, "ledger") == []
        report = await archive.verify(STEWARD)
        assert (report.defects, report.notes, report.bytes) == ([], [], 0)
        for n, opened in enumerate((archive, other)):
            assert [line.seq for line in await opened.append_log(ANN, "ledger", [{"n": 1}])] == [n + 1]
            await self._anew(opened, replace(KEY, session_id=f"s{n + 1}"), clock)
        assert (await archive.verify(STEWARD)).defects == []
        await other.close()

    async def test_writing_and_erasing_at_once_leaves_what_came_after(
        self, archive: Archive, archive_factory: ArchiveFactory, clock: FixedClock
    ) -> None:
        """Whoever writes while an owner is erased is heard before it, heard after it, or told that it is gone."""
        other = archive_factory("one")

        async def write() -> None:
            for n in range(12):
                try:
                    if await other.read_session(ANN, KEY) is None:
                        await other.write_session(ANN, record(clock), 0)
                    await other.append_turns(ANN, KEY, [turn(f"t{n}")])
                    await other.put_claims(ANN, KEY, [claim(turn(f"t{n}"))])
                    await other.write_node(ANN, node(text=f"{n}"))
                except (NotFound, FileNotFoundError):
                    continue

        async def erase() -> None:
            for _ in range(6):
                await archive.erase_owner(STEWARD, Owner.user("ann"))

        await asyncio.gather(write(), erase())
        assert {d.kind for d in (await archive.verify(STEWARD)).defects} <= {"span"}
        await archive.erase_owner(STEWARD, Owner.user("ann"))
        report = await archive.verify(STEWARD)
        assert (report.defects, report.sessions, report.nodes, report.revisions) == ([], 0, 0, 0)
        await other.close()

    # --- relations

    async def test_edges_are_upserted_appended_and_removed(self, archive: Archive, clock: FixedClock) -> None:
        await archive.write_node(ANN, node())
        assert await archive.get_edges(ANN, NODE) == []

        def edge(to: str, kind: str = "related_to", **values: Any) -> Edge:
            return Edge(NODE.uri, to, kind, **values)

        await archive.upsert_edges(ANN, NODE, [edge("a", reason="old"), edge("b"), edge("a", "part_of")])
        born = clock.now()
        clock.tick(hours=1)
        await archive.upsert_edges(ANN, NODE, [edge("a", reason="新的", weight=0.5)])
        found = {(e.to_uri, e.relation_type): e for e in await archive.get_edges(ANN, NODE)}
        assert len(found) == 3
        assert (found["a", "related_to"].reason, found["a", "related_to"].weight) == ("新的", 0.5)
        assert found["b", "related_to"].created_at == born
        await archive.append_edges(ANN, NODE, [edge("c", "references"), edge("c", "derived_from")])
        assert len(await archive.get_edges(ANN, NODE)) == 5
        assert await archive.remove_edges(ANN, NODE, ["c"], ["references"]) == 1
        assert await archive.remove_edges(ANN, NODE, ["zzz"]) == 0
        assert await archive.remove_edges(ANN, NODE, relation_types=["related_to"]) == 2
        assert {(e.to_uri, e.relation_type) for e in await archive.get_edges(ANN, NODE)} == {
            ("a", "part_of"),
            ("c", "derived_from"),
        }
        assert await archive.remove_edges(ANN, NODE) == 2
        assert await archive.get_edges(ANN, NODE) == []
        assert (await archive.verify(STEWARD)).defects == []

    async def test_edges_lead_to_where_a_node_is_and_nowhere_when_it_is_gone(self, archive: Archive) -> None:
        tea, hall, cup = node(), node(replace(NODE, slug="hall")), node(replace(NODE, slug="cup"))
        for made in (tea, hall, cup):
            await archive.write_node(ANN, made)
        for source in (hall, cup):
            edge = Edge(source.key.uri, tea.key.uri, "part_of", "leaves")
            await archive.upsert_edges(ANN, source.key, [edge, Edge(source.key.uri, "x", "references")])
        found = await archive.incoming_edges(ANN, tea.key)
        assert {(e.from_uri, e.to_uri, e.reason) for e in found} == {
            (source.key.uri, tea.key.uri, "leaves") for source in (hall, cup)
        }
        assert await archive.incoming_edges(Scope.of("acme", "bob"), tea.key) == []
        there = replace(NODE, slug="oolong")
        await archive.move_node(STEWARD, tea.key, there)
        assert await archive.incoming_edges(ANN, tea.key) == []
        assert {e.from_uri for e in await archive.incoming_edges(ANN, there)} == {hall.key.uri, cup.key.uri}
        await archive.delete_node(ANN, there)
        assert await archive.incoming_edges(ANN, there) == []
        assert [e.to_uri for e in await archive.get_edges(ANN, hall.key)] == ["x"]
        assert (await archive.verify(STEWARD)).defects == []

    async def test_an_edge_has_a_known_type_and_starts_at_its_node(self, archive: Archive) -> None:
        await archive.write_node(ANN, node())
        for wrong in (Edge(NODE.uri, "a", "likes"), Edge("ctx://elsewhere", "a", "part_of")):
            for refused in (archive.upsert_edges(ANN, NODE, [wrong]), archive.append_edges(ANN, NODE, [wrong])):
                with pytest.raises(InvalidArgument):
                    await refused
        assert await archive.get_edges(ANN, NODE) == []
        with pytest.raises(NotFound):
            await archive.get_edges(ANN, replace(NODE, slug="nothing"))

    async def test_edges_outlive_a_new_version(self, archive: Archive) -> None:
        await archive.write_node(ANN, node())
        await archive.upsert_edges(ANN, NODE, [Edge(NODE.uri, "a", "part_of")])
        await archive.write_node(ANN, node(text="green"))
        assert [e.to_uri for e in await archive.get_edges(ANN, NODE)] == ["a"]

    async def test_edges_of_many_writers_are_all_kept(self, archive: Archive, archive_factory: ArchiveFactory) -> None:
        other = archive_factory("one")
        await archive.write_node(ANN, node())
        await asyncio.gather(
            *((archive, other)[n % 2].upsert_edges(ANN, NODE, [Edge(NODE.uri, f"{n}", "part_of")]) for n in range(10))
        )
        assert {e.to_uri for e in await archive.get_edges(ANN, NODE)} == {f"{n}" for n in range(10)}
        await other.close()
