"""Whoever knocks at the service: whatever their token, their headers and their bodies say, they get their own, all of
it, and nobody else's, change nothing of others', and do not even find out that it is there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asking_http import CLOCK, STRATEGIES, Examination, Knocking
from meddling_http import Meddling, fingerprint
from tally import Tally
from town import Town, Visitor, on_the_wire, opened
from world import SEED, SHARES, TIMES, Caller, World

from mnemon.contracts.commits import CommitRecord, NodeChange, NodeImage, PlanAction
from mnemon.contracts.nodes import NodeKey, Shelf
from mnemon.contracts.ports import Archive, Holds, Replicator
from mnemon.contracts.scope import Owner, Scope, SessionKey
from mnemon.engine.addressing import DEFAULT_AGENT
from mnemon.engine.tokens import Token
from mnemon.pipelines.jobs import digest_job
from mnemon.pipelines.write.extracting import claim_id
from mnemon.surfaces.http import guard, identity
from mnemon.testing.archive_suite import claim, node, placed, record, turn

ON_THE_WIRE = 300
# Doors at which a visitor is only ever refused.
SHUT = {"_in_another_name", "_replicas"}


async def test_no_request_reaches_beyond_its_scope(tmp_path: Path) -> None:
    world, tally = World(SEED + 9, rows_per_tenant=12), Tally(SEED)
    async with opened(tmp_path, world) as town:
        await town.fill(sessions=88)
        visitors = town.visitors(90)
        examination = Examination(town.client, town, visitors, tally)
        await examination.ask(SHARES["http"] * TIMES - ON_THE_WIRE)
        async with on_the_wire(town.app) as client:
            sendable = [visitor for visitor in visitors if visitor.sendable]
            await Examination(client, town, sendable, tally).ask(ON_THE_WIRE)
        tally.close("http")
        for door in {door.__name__ for door in examination.doors} - SHUT | set(STRATEGIES):
            assert examination.found[door] > 0, f"nothing was ever found at {door}"


async def test_nobody_changes_what_is_not_theirs_or_finds_out_that_it_is_there(tmp_path: Path) -> None:
    world, tally = World(SEED + 10, rows_per_tenant=6), Tally(SEED)
    async with opened(tmp_path, world) as town:
        await town.fill(sessions=55)
        meddling = Meddling(town, town.visitors(45), tally)
        queue = town.memory.parts.queue
        await queue.put([digest_job(told.key, {}) for told in town.told])  # something to take away
        before = await fingerprint(town.memory, world.tenants)
        await meddling.try_to_change(12 * TIMES)
        await meddling.try_to_find_out(25 * TIMES)
        assert not tally.leaks, "\n".join(tally.leaks)
        assert await fingerprint(town.memory, world.tenants) == before
    assert tally.checks > 1_200 * TIMES
    print(f"meddling: {tally.checks} attempts, seed {SEED}")


async def test_nobody_puts_anything_before_somebody_else_by_way_of_their_own(tmp_path: Path) -> None:
    """At the ports people write papers that the service itself reads and carries out; what these say of others is
    refused as well."""
    async with opened(tmp_path, World(SEED + 11, rows_per_tenant=1)) as town:
        ann, bob = (town.person(Caller("acme", user), [], entered=False) for user in ("ann", "bob"))
        knock = Knocking(town.client)
        turns = [{"turn_id": "t1", "role": "user", "text": "My dog is called Momo."}]
        for who in (ann, bob):
            wrote = await knock.post(who, "/v1/sessions", {"session_id": "s", "turns": turns})
        bobs_id = wrote.json()["claims"][0]["claim_id"]
        scope, mine, his = Scope.of("acme", "ann"), *(SessionKey("acme", Owner.user(u), "s") for u in ("ann", "bob"))
        page, place = record(CLOCK, mine, ("u:bob",)), NodeKey("acme", mine.owner, Shelf.PREFERENCES, "tea")
        said = claim(turn("t1"), mine, principals=("u:ann",))
        said = said.model_copy(update={"claim_id": claim_id(mine, said.kind, said.statement)})
        his_claim = claim(turn("t1"), his, claim_id=bobs_id, principals=("u:bob",)).model_dump(mode="json")
        image = NodeImage(version=1, principals=("u:ann",), abstract="tea")
        job = digest_job(his, {})

        def committed(after: NodeImage, **more: Any) -> CommitRecord:
            change = NodeChange(uri=place.uri, action=PlanAction.CREATE, after=after)
            stored = placed(turn("t1"))[0]
            return CommitRecord(
                number=9, first_seq=1, last_seq=1, head=stored.chain, at=CLOCK.now(), changes=(change,), **more
            )

        holding_his = image.model_copy(update={"metadata": {"claims": [his_claim]}})
        attempts = {
            "a session": knock.call(ann, Archive, "write_session", scope, page, 1),
            "a claim": knock.call(
                ann, Archive, "put_claims", scope, mine, [said.model_copy(update={"principals": ("u:bob",)})]
            ),
            "a claim in the place of his": knock.call(
                ann, Archive, "put_claims", scope, mine, [said.model_copy(update={"claim_id": bobs_id})]
            ),
            "a node": knock.call(ann, Archive, "write_node", scope, node(place, principals=("u:bob",))),
            "a node with a claim of his": knock.call(
                ann, Archive, "write_node", scope, node(place, principals=("u:ann",), metadata=holding_his.metadata)
            ),
            "a commit": knock.call(
                ann,
                Archive,
                "write_commit",
                scope,
                mine,
                committed(image.model_copy(update={"principals": ("u:bob",)})),
            ),
            "a commit with a claim of his": knock.call(
                ann, Archive, "write_commit", scope, mine, committed(holding_his)
            ),
            "a commit that changes his": knock.call(
                ann, Archive, "write_commit", scope, mine, committed(image, others=(his_claim,))
            ),
            "a page of the graph": knock.call(ann, Replicator, "stage", page),
            "a page for everybody": knock.call(ann, Replicator, "stage", record(CLOCK, mine, ("pub",))),
            "his job as one's own": knock.call(
                ann, Holds, "take", replace(job, payload=digest_job(mine, {}).payload), "me"
            ),
            "a job in his lane": knock.call(ann, Holds, "take", replace(digest_job(mine, {}), lane="his"), "me"),
        }
        before = await fingerprint(town.memory, ["acme"])
        for what, attempt in attempts.items():
            answer = await attempt
            assert answer.status_code in (403, 404, 422), f"{what}: {answer.text}"
        assert await fingerprint(town.memory, ["acme"]) == before
        for good in (
            knock.call(ann, Archive, "put_claims", scope, mine, [said]),
            knock.call(ann, Archive, "write_commit", scope, mine, committed(image)),
            knock.call(ann, Replicator, "stage", record(CLOCK, mine, ("u:ann",))),
            knock.call(ann, Holds, "take", digest_job(mine, {}), "me"),
        ):
            answer = await good
            assert answer.status_code == 200, answer.text


async def test_forgetting_a_session_of_somebody_else_is_like_forgetting_one_that_is_nowhere(tmp_path: Path) -> None:
    async with opened(tmp_path, World(SEED + 13, rows_per_tenant=1)) as town:
        ann, bob = (town.person(Caller("acme", user), [], entered=False) for user in ("ann", "bob"))
        knock = Knocking(town.client)
        turns = [{"turn_id": "t1", "role": "user", "text": "My dog is called Momo."}]
        await knock.post(bob, "/v1/sessions", {"session_id": "his", "turns": turns})
        answers = [
            (await knock.post(ann, "/v1/forget", {"what": "session", "session_id": id_})).text.replace(f'"{id_}"', "")
            for id_ in ("his", "nowhere")
        ]
        assert answers[0] == answers[1]
        assert "Momo" in (await knock.get(bob, "/v1/messages")).text


def _all_of_the_tenant(caller: identity.Caller) -> Scope:
    return Scope.steward_of(caller.tenant_id)


def _every_group_at_once(caller: identity.Caller) -> Scope:
    """Also those that were not entered."""
    groups = [f"g:{group}" for group in caller.token.groups] if caller.token else []
    named = Scope.of(caller.tenant_id, caller.user_id, caller.product_id, caller.group_id, DEFAULT_AGENT)
    return replace(named, principals=named.principals | set(groups))


def _whomever_the_body_names(caller: identity.Caller, principals: Iterable[str]) -> Scope:
    return replace(caller.scope(), principals=caller.scope().principals | set(principals))


def _whomever_the_headers_name(token: Token, headers: dict[str, str]) -> identity.Caller:
    named = (headers.get(f"X-{name}-ID") for name in ("Product", "Group", "Agent"))
    return identity.Caller(token, token.tenant_id, headers.get("X-User-ID", token.user_id), *named)


def _nothing_is_checked(*_: object) -> None:
    return None


MUTANTS: dict[str, tuple[object, str, Callable[..., Any]]] = {
    "a caller sees the whole tenant": (identity.Caller, "scope", _all_of_the_tenant),
    "a caller is in every group": (identity.Caller, "scope", _every_group_at_once),
    "a body names anybody": (identity.Caller, "scope_with", _whomever_the_body_names),
    "headers add to a token": (identity, "_of_user", _whomever_the_headers_name),
    "a user token does as a service": (identity.Caller, "needs_service", _nothing_is_checked),
    "any scope will do": (guard, "check_scope", _nothing_is_checked),
    "any place will do": (guard, "check_place", _nothing_is_checked),
}


async def test_a_service_that_grants_too_much_is_caught(tmp_path: Path) -> None:
    world = World(SEED + 12, rows_per_tenant=8)
    async with opened(tmp_path, world) as town:
        await town.fill(sessions=33)
        groups = [(row.tenant, p[2:]) for row in town.entries for p in row.principals if p[:2] == "g:"]
        members = [Caller(tenant, "a member", group=group) for tenant, group in dict.fromkeys(groups)]
        visitors = [*town.visitors(20), *(town.person(member, [], entered=False) for member in members[:10])]
        assert (await _examined(town, visitors)).leaks == []
        for name, (where, what, broken) in MUTANTS.items():
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(where, what, broken)
                assert (await _examined(town, visitors)).leaks, name


async def _examined(town: Town, visitors: list[Visitor]) -> Tally:
    """As many questions as it takes to find something, and not very many."""
    tally = Tally(SEED)
    examination = Examination(town.client, town, visitors, tally)
    while not tally.leaks and tally.checks < 1_000:
        await examination.ask(100)
    return tally
