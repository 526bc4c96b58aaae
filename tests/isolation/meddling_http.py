"""What people try over HTTP that is not theirs to do, and questions that would tell whether somebody else's thing is
there at all."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from asking_http import CLOCK, Knocking
from tally import Tally
from town import Told, Town, Visitor, batch, in_json
from world import Row, marks

from mnemon import AsyncMemory
from mnemon.contracts.filters import EVERYTHING
from mnemon.contracts.graph import GraphAsk, ItemKind
from mnemon.contracts.nodes import Edge, NodeKey
from mnemon.contracts.ports import Archive, Holds, Replicator
from mnemon.contracts.scope import Owner, Scope, SessionKey
from mnemon.logic.shelves import key_at
from mnemon.pipelines.jobs import digest_job
from mnemon.testing.archive_suite import claim, commit, node, placed, record, tagging, turn

_EQUIVS = "/graph/v0/pending_equivs"
NOWHERE = "00000000-0000-5000-8000-000000000000"
_KINDS: tuple[ItemKind, ...] = ("entity", "event", "state", "pending_equiv", "utterance", "knowledge")

T = TypeVar("T", Told, Row)
Answer = Coroutine[Any, Any, httpx.Response]
Attempts = dict[str, Answer]
Ask = Callable[[str], Answer]


async def fingerprint(memory: AsyncMemory, tenants: Iterable[str]) -> str:
    """Everything there is, in one number."""
    seen = hashlib.sha256()
    parts = memory.parts
    for tenant in tenants:
        scope = Scope.steward_of(tenant)
        for path, data in sorted([file async for file in parts.archive.dump(scope)]):
            seen.update(f"{path} {hashlib.sha256(data).hexdigest()}\n".encode())
        page = await parts.index.scroll(scope, EVERYTHING, limit=100_000)
        rows = sorted(f"{e.id} {e.principals} {e.text} {e.fields} {e.metadata}" for e in page.entries)
        found = [await parts.graph.find(scope, GraphAsk(kind, limit=100_000)) for kind in _KINDS]
        seen.update(repr((rows, [sorted(map(repr, items.items)) for items in found])).encode())
    seen.update(repr(await parts.queue.list(limit=100_000)).encode())
    return seen.hexdigest()


class Meddling:
    def __init__(self, town: Town, visitors: Sequence[Visitor], tally: Tally) -> None:
        self._knock = Knocking(town.client)
        self._town = town
        self._people = [visitor for visitor in visitors if not visitor.service]
        self._tally = tally
        self._rng = random.Random(town.world.seed + 4)

    def _pair(self) -> tuple[Visitor, Told, Row, Row]:
        """Somebody, and what they may neither see nor call their own, of their own tenant where there is any."""
        visitor = self._rng.choice(self._people)
        told = [told for told in self._town.told if told.claims]
        return (
            visitor,
            self._foreign(visitor, told),
            self._foreign(visitor, self._town.entries),
            self._foreign(visitor, self._town.items),
        )

    def _foreign(self, visitor: Visitor, all_: Sequence[T]) -> T:
        """Two tenants may use one id: what is called like something of one's own is left out."""
        own = {_id(one) for one in all_ if one.tenant == visitor.tenant and _principals(one) & visitor.holds}
        others = [one for one in all_ if one.tenant != visitor.tenant or not _principals(one) & visitor.holds]
        others = [one for one in others if _id(one) not in own]
        near = [one for one in others if one.tenant == visitor.tenant]
        return self._rng.choice(near if near and self._rng.random() < 0.8 else others)

    async def try_to_change(self, rounds: int) -> None:
        for _ in range(rounds):
            visitor, told, entry, item = self._pair()
            attempts = {
                **self._with_words(visitor, told),
                **self._with_chats(visitor, told),
                **self._with_entries(visitor, entry),
                **self._with_graph(visitor, item),
                **self._at_ports(visitor, told),
                **self._for_services(visitor, told),
            }
            for what, attempt in attempts.items():
                answer = await attempt
                refused = answer.status_code in (403, 404) and not marks(answer.text)
                self._tally.refused(visitor, f"{what} of {told.key} or {entry.id!r}: {answer.text}", refused)

    def _with_words(self, visitor: Visitor, told: Told) -> Attempts:
        post, whose = self._knock.post, told.written.caller
        session = {
            "session_id": "planted",
            "turns": [{"role": "user", "text": "mine now"}],
            "llm_policy": "best_effort",
        }
        at = f"/v1/claims/{told.claims[0]}"
        other = {"group" if told.written.owner.startswith("g:") else "user": told.key.owner.id.encode()}
        tries = {
            "tell": post(visitor, "/v1/sessions", session, **other),
            "forget": post(visitor, "/v1/forget", {"what": "user"}, **other),
            "forget everybody": post(visitor, "/v1/forget", {"what": "tenant"}),
            "forget a group": post(visitor, "/v1/forget", {"what": "group"}),
            "confirm": post(visitor, f"{at}/confirm"),
            "reject": post(visitor, f"{at}/reject"),
            "correct": post(visitor, f"{at}/correct", {"statement": "mine now"}),
            "forget a claim": post(visitor, "/v1/forget", {"what": "claim", "claim_id": told.claims[0]}),
        }
        if whose.tenant != visitor.tenant:
            tries["tell another tenant"] = post(
                visitor, "/v1/sessions", session, **{"X-Tenant-ID": whose.tenant.encode()}
            )
        return tries

    def _with_chats(self, visitor: Visitor, told: Told) -> Attempts:
        """Telling of somebody else's turn, by headers or in the body, and taking their profile back."""
        post, owner = self._knock.post, told.key.owner
        kind = "group" if told.written.owner.startswith("g:") else "user"
        turn = {"request_id": "planted", "end_seq": 1, "new_info": "mine now"}
        tries = {
            "end a turn": post(visitor, "/v1/end", turn, **{kind: owner.id.encode()}),
            "end a turn of": post(visitor, "/v1/end", {**turn, f"{kind}_id": owner.id}),
            "end a turn in another tenant": post(visitor, "/v1/end", turn, **{"X-Tenant-ID": b"another tenant"}),
            "roll a profile back": post(
                visitor, f"/v1/cognitive/profiles/{kind}/{quote(owner.id, safe='')}/rollback", {"version": 1}
            ),
        }
        if kind == "user":
            tries["speak as"] = post(visitor, "/v1/end", {**turn, "sender_id": owner.id})
        return tries

    def _with_entries(self, visitor: Visitor, row: Row) -> Attempts:
        post = self._knock.post
        planted = {"kind": "episodic", "contents": ["mine now"], "metadata": {"user_id": sorted(row.principals)}}
        if row.tenant != visitor.tenant:
            planted["metadata"] = {"tenant_id": row.tenant}
        tries = {
            "write": post(visitor, "/write", {"entries": [planted]}),
            "write among one's own": post(visitor, "/write", {"entries": [{**planted, "metadata": {}}, planted]}),
            "update": post(visitor, "/update", {"id": row.id, "patch": {"contents": ["mine now"]}}),
            "delete": post(visitor, "/delete", {"id": row.id}),
            "erase": post(visitor, "/delete", {"id": row.id, "soft": False}),
        }
        if row.tenant == visitor.tenant:
            tries["roll back"] = post(visitor, "/rollback", {"version": self._town.versions[row.mark]})
        return tries

    def _with_graph(self, visitor: Visitor, row: Row) -> Attempts:
        told = batch([row])
        at = f"{_EQUIVS}/{quote(f'q {row.id}', safe='')}"
        tries = {
            "approve": self._knock.post(visitor, f"{at}/approve"),
            "keep apart": self._knock.post(visitor, f"{at}/reject"),
        }
        if row.tenant == visitor.tenant:
            tries["chart"] = self._knock.post(visitor, "/graph/v0/upsert", told)
        else:
            there = {"tenant_id": row.tenant, "user_id": [f"u:{visitor.caller.user}"]}
            events = [{**event, **there} for event in told["events"]]
            tries["chart another tenant"] = self._knock.post(visitor, "/graph/v0/upsert", {"events": events})
        return tries

    def _at_ports(self, visitor: Visitor, told: Told) -> Attempts:
        """In one's own scope, and in that of whom it belongs to."""
        tries: Attempts = {}
        mine = Scope(visitor.tenant, visitor.holds)
        for scope in (mine, Scope(told.tenant, told.principals), Scope(told.tenant, told.principals, steward=True)):
            for what, attempt in self._with_papers(visitor, scope, told).items():
                tries[f"{what} in {scope}"] = attempt
        page = record(CLOCK, told.key, tuple(sorted(visitor.holds)))
        job = digest_job(told.key, {})
        call = self._knock.call
        tries |= {
            "hold": call(visitor, Holds, "take", job, "me"),
            "let go": call(visitor, Holds, "release", job.job_id),
            "call done": call(visitor, Holds, "done", job.job_id),
            "publish": call(visitor, Replicator, "index_session", told.key),
            "project": call(visitor, Replicator, "project", told.key),
            "stage": call(visitor, Replicator, "stage", page),
        }
        return tries

    def _with_papers(self, visitor: Visitor, scope: Scope, told: Told) -> Attempts:
        key, place = told.key, _place(told)
        principals = tuple(sorted(visitor.holds))
        stored = placed(turn("t1"))

        def call(name: str, *args: Any) -> Answer:
            return self._knock.call(visitor, Archive, name, scope, *args)

        return {
            "append": call("append_turns", key, [turn("new", "mine now")]),
            "rewrite": call("write_session", record(CLOCK, key, principals), 0),
            "drop": call("drop_session", key),
            "tag": call("write_tags", key, [tagging(stored)]),
            "claim": call("put_claims", key, [claim(turn("t1"), key, principals=principals)]),
            "commit": call("write_commit", key, commit(1, stored)),
            "rewrite a node": call("write_node", node(place, "mine now", principals=principals)),
            "delete a node": call("delete_node", place),
            "relate": call("upsert_edges", place, [Edge(place.uri, "ctx://x", "related_to")]),
            "relate again": call("append_edges", place, []),
            "part": call("remove_edges", place),
        }

    def _for_services(self, visitor: Visitor, told: Told) -> Attempts:
        key, place, scope = told.key, _place(told), Scope(visitor.tenant, visitor.holds)

        def call(name: str, *args: Any) -> Answer:
            return self._knock.call(visitor, Archive, name, scope, *args)

        return {
            "forget turns": call("forget_turns", key, None, "no reason"),
            "mask turns": call("mask_turns", key, {"t1": [(0, 3)]}),
            "erase the session": call("erase_session", key, "no reason"),
            "erase the owner": call("erase_owner", key.owner),
            "erase the tenant": call("erase_tenant"),
            "erase versions": call("erase_revisions", place),
            "write a level": call("write_level", place, "abstract", "mine now"),
            "write metadata": call("write_metadata", place, {}),
            "move": call("move_node", place, place),
            "roll a node back": call("rollback_node", place, 1),
            "log": call("append_log", "ledger", [{"op": "mine"}]),
            "forget the log": call("forget_log", "ledger", [1], "no reason"),
            "repair": call("repair"),
        }

    # --- is it there at all?

    async def try_to_find_out(self, rounds: int) -> None:
        """What is somebody else's and what is nowhere are answered in the same words."""
        for _ in range(rounds):
            visitor, told, entry, item = self._pair()
            for what, there, nowhere, ask in self._questions(visitor, told, entry, item):
                one, other = [but_for(await ask(id_), id_) for id_ in (there, nowhere)]
                self._tally.refused(visitor, f"tell {there!r} from {nowhere!r} by {what}: {one} {other}", one == other)

    def _questions(self, visitor: Visitor, told: Told, entry: Row, item: Row) -> Sequence[tuple[str, str, str, Ask]]:
        get, post, call = self._knock.get, self._knock.post, self._knock.call
        job = digest_job(told.key, {}).job_id
        claims, messages = (told.claims[0], NOWHERE), (told.messages[0], NOWHERE)
        entries, items = (entry.id, f"{entry.id}?"), (item.id, f"{item.id}?")
        sha256 = (told.attachments or ("0" * 64,))[0]
        scope, own = Scope(visitor.tenant, visitor.holds), Owner.user(str(visitor.caller.user))
        tail = told.nodes[0].rpartition("/memories/")[2]
        questions: list[tuple[str, tuple[str, str], Ask]] = [
            ("a claim", claims, lambda i: get(visitor, f"/v1/claims/{i}")),
            ("confirming", claims, lambda i: post(visitor, f"/v1/claims/{i}/confirm")),
            ("rejecting", claims, lambda i: post(visitor, f"/v1/claims/{i}/reject")),
            ("correcting", claims, lambda i: post(visitor, f"/v1/claims/{i}/correct", {"statement": "mine"})),
            ("forgetting", claims, lambda i: post(visitor, "/v1/forget", {"what": "claim", "claim_id": i})),
            ("explaining", claims, lambda i: get(visitor, f"/graph/v0/explain/knowledge/{i}")),
            ("neighbours", messages, lambda i: get(visitor, f"/v1/messages/{i}/neighbors")),
            ("attachments", messages, lambda i: get(visitor, f"/v1/messages/{i}/attachments/{sha256}")),
            ("history", entries, lambda i: get(visitor, f"/v1/entries/{quote(i, safe='')}/history")),
            ("updating", entries, lambda i: post(visitor, "/update", {"id": i, "patch": {"published": False}})),
            ("deleting", entries, lambda i: post(visitor, "/delete", {"id": i})),
            ("erasing", entries, lambda i: post(visitor, "/delete", {"id": i, "soft": False})),
            ("an event", items, lambda i: get(visitor, f"/graph/v0/events/{quote(i, safe='')}")),
            ("why", items, lambda i: get(visitor, f"/graph/v0/explain/event/{quote(i, safe='')}")),
            ("a timeline", items, lambda i: get(visitor, f"/graph/v0/entities/{quote(f'e {i}', safe='')}/timeline")),
            ("evidence", items, lambda i: get(visitor, f"/graph/v0/entities/{quote(f'e {i}', safe='')}/evidences")),
            ("states", items, lambda i: get(visitor, "/graph/v0/states/current", subject=f"e {i}")),
            (
                "deciding",
                items,
                lambda i: post(visitor, f"/graph/v0/pending_equivs/{quote(f'q {i}', safe='')}/approve"),
            ),
            ("citing", items, lambda i: post(visitor, "/graph/v0/upsert", _citing(visitor, f"w {i}"))),
            ("done", (job, f"digest-{NOWHERE}"), lambda i: call(visitor, Holds, "done", i)),
            ("releasing", (job, f"digest-{NOWHERE}"), lambda i: call(visitor, Holds, "release", i)),
            (
                "a session",
                (told.key.session_id, "nowhere"),
                lambda i: call(visitor, Archive, "read_turns", scope, SessionKey(told.tenant, told.key.owner, i)),
            ),
            (
                "a session as one's own",
                (told.key.session_id, "nowhere"),
                lambda i: call(visitor, Archive, "read_session", scope, SessionKey(told.tenant, own, f"{i}?")),
            ),
        ]
        if not any(
            uri.endswith(f"/memories/{tail}")
            for t in self._town.told
            for uri in t.nodes
            if t.key.owner == visitor.owner
        ):
            at = told.nodes[0].removesuffix(tail)
            questions.append(("a node", (tail, f"{tail}-nowhere"), lambda i: get(visitor, "/v1/nodes/one", uri=at + i)))
        if entry.tenant == visitor.tenant:
            version = str(self._town.versions[entry.mark])
            rollback: Ask = lambda i: post(visitor, "/rollback", {"version": int(i)})  # noqa: E731
            questions.append(("rolling back", (version, "99999999"), rollback))
        return [(what, *ids, ask) for what, ids, ask in questions]


def _principals(one: Told | Row) -> frozenset[str]:
    """Who sees it, and whose it is."""
    return one.principals | {one.written.owner} if isinstance(one, Told) else one.principals


def _id(one: Told | Row) -> str:
    return one.claims[0] if isinstance(one, Told) else one.id


def _place(told: Told) -> NodeKey:
    return key_at(told.tenant, told.key.owner, told.nodes[0])


def but_for(answer: httpx.Response, id_: str) -> tuple[object, ...]:
    """All of an answer but the id that was asked for, and what is different each time."""
    headers = {k: v for k, v in answer.headers.items() if k not in ("x-request-id", "content-length")}
    return answer.status_code, headers, answer.text.replace(in_json(id_), "…")


def _citing(visitor: Visitor, utterance: str) -> dict[str, Any]:
    """Something of one's own that rests on somebody else's words."""
    whose = {"user_id": [f"u:{visitor.caller.user}"], "memory_domain": "dialog"}
    words = {"utterance_id": utterance, "span_start": 0, "span_end": 1}
    edge = {"src_id": "mine", "dst_id": "theirs", "rel_type": "SUPPORTED_BY", "evidence": [words]}
    return {"events": [{"id": "mine", "summary": "mine", **whose}], "edges": [{**edge, **whose}]}
