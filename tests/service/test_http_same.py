"""The same memory at both doors: what the service answers is what the memory answers."""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest

from conftest import TURNS, Service, refused
from mnemon.contracts.errors import StorageFailed
from mnemon.surfaces.wire import as_json

NAMED = {"tenant_id": "acme", "user_id": "ann"}
LATENCIES = {"latency_ms", "retrieval_latency_ms", "total_latency_ms", "qa_latency_ms", "timings_ms"}


@pytest.fixture
async def ann(service: Service) -> dict[str, str]:
    """Somebody with a conversation, an entry and a token."""
    headers = service.token("acme", "ann")
    written = await service.post("/v1/sessions", {"session_id": "s1", "turns": TURNS}, headers)
    assert written.json()["counts"]["facts_written"] == 2
    entry = {"id": "note/1", "kind": "semantic", "contents": ["Ann drinks tea, 不喝咖啡"]}
    assert (await service.post("/write", {"entries": [entry]}, headers)).json()["version"] == 1
    return headers


def timeless(value: Any) -> Any:
    """Without how long it took, which is never the same twice."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k not in LATENCIES}
    return [timeless(v) for v in value] if isinstance(value, list) else value


def plain(result: Any) -> Any:
    return timeless(json.loads(as_json(result)))


@pytest.mark.parametrize("strategy", ["dialog_v1", "dialog_v2", "auto_v1", "video_v1"])
@pytest.mark.parametrize("query", ["spicy food", "妹妹住在哪里"])
async def test_retrieval(service: Service, ann: dict[str, str], strategy: str, query: str) -> None:
    asked = {"query": query, "strategy": strategy, "topk": 5, "time_range": {"gte": "2020-01-01T00:00:00Z"}}
    answer = await service.post("/v1/retrieval", asked, ann)
    assert answer.status_code == 200, answer.text
    assert timeless(answer.json()) == plain(await service.memory.retrieval(**asked, **NAMED))


async def test_an_answer_without_a_model_is_the_same_too(service: Service, ann: dict[str, str]) -> None:
    asked = {"query": "spicy food", "with_answer": True}
    assert (await service.post("/v1/retrieval", asked, ann)).json()["answer"] == "Unable to answer in dummy mode."
    asked["llm_policy"] = "require"
    refused(await service.post("/v1/retrieval", asked, ann), 422, "MODEL_NOT_CONFIGURED", "llm")


async def test_search(service: Service, ann: dict[str, str]) -> None:
    filters = {"memory_type": ["semantic"], "user_id": ["u:ann"], "user_match": "all", "tenant_id": "acme"}
    asked = {"query": "tea", "filters": filters, "topk": 3, "graph_params": {"max_hops": 2}}
    answer = await service.post("/search", asked, ann)
    assert answer.json()["hits"][0]["id"] == "note/1"
    assert timeless(answer.json()) == plain(await service.memory.search(**asked, **NAMED))
    refused(
        await service.post("/search", {"query": "x", "filters": {"usr": 1}}, ann),
        422,
        "INVALID_ARGUMENT",
        "filters.usr",
    )
    other = {"query": "x", "filters": {"tenant_id": "umbrella"}}
    refused(await service.post("/search", other, ann), 403, "PERMISSION_DENIED", "filters.tenant_id")


async def test_messages(service: Service, ann: dict[str, str]) -> None:
    bound = service.memory.bind(**NAMED)
    first = (await service.get("/v1/messages", ann, page_size=2)).json()
    assert first == plain(await bound.messages_list(page_size=2))
    rest = (await service.get("/v1/messages", ann, page_size=2, cursor=first["next_cursor"])).json()
    assert [len(first["items"]), len(rest["items"]), rest["next_cursor"]] == [2, 1, None]
    only = {"role": "user", "time_range": {"since": "2026-01-31T08:00:30Z"}}
    found = (await service.post("/v1/messages/lexical_search", {"query_text": "成都", "filter": only}, ann)).json()
    assert found == plain(await bound.lexical_search("成都", only))
    message = found["items"][0]["message"]
    meant = (await service.post("/v1/messages/semantic_search", {"query_text": "spicy", "top_k": 2}, ann)).json()
    assert meant["items"] == plain(await bound.semantic_search("spicy", top_k=2))
    around = (await service.get(f"/v1/messages/{message['message_id']}/neighbors", ann, before=1)).json()
    assert around["items"] == plain(await bound.neighbors(message["message_id"], 1))
    assert [m["content"] for m in around["items"]] == [TURNS[1]["text"], TURNS[2]["text"]]
    refused(await service.get("/v1/messages/nobody/neighbors", ann), 404, "NOT_FOUND")


async def test_attachments(service: Service, ann: dict[str, str]) -> None:
    output = "输出 " * 5000
    turns = [{"turn_id": "a", "role": "tool", "text": output}, {"turn_id": "b", "role": "user", "text": "thanks"}]
    await service.post("/v1/sessions", {"session_id": "tool", "turns": turns, "extract": False}, ann)
    (message,) = (await service.get("/v1/messages", ann, role="tool")).json()["items"]
    (attachment,) = message["meta"]["attachments"]
    path = f"/v1/messages/{message['message_id']}/attachments/"
    answer = await service.get(path + attachment["sha256"], ann)
    assert answer.content.decode() == output
    assert answer.headers["x-content-type-options"] == "nosniff"
    refused(await service.get(path + "0" * 64, ann), 404, "NOT_FOUND")
    other = service.token("acme", "bob")
    refused(await service.get(path + attachment["sha256"], other), 404, "NOT_FOUND")


async def test_entries_and_their_history(service: Service, ann: dict[str, str]) -> None:
    changed = await service.post("/update", {"id": "note/1", "patch": {"contents": ["Ann drinks water"]}}, ann)
    assert changed.json()["version"] == 2
    gone = await service.post("/delete", {"id": "note/1", "reason": "asked"}, ann)
    assert (await service.post("/search", {"query": "water"}, ann)).json()["hits"][0]["id"] != "note/1"
    back = await service.post("/rollback", {"version": gone.json()["version"]}, ann)
    assert back.status_code == 200
    history = (await service.get("/v1/entries/note%2F1/history", ann)).json()["items"]
    assert [v["op"] for v in history] == ["rollback", "delete", "update", "write"]
    assert history == plain(await service.memory.history("note/1", **NAMED))
    refused(await service.post("/rollback", {"version": 2}, ann), 409, "CONFLICT")
    refused(await service.post("/delete", {"id": "nothing"}, ann), 404, "NOT_FOUND")
    bob = service.token("acme", "bob")
    refused(await service.get("/v1/entries/note%2F1/history", bob), 404, "NOT_FOUND")


async def test_a_service_token_may_leave_the_person_to_the_body(service: Service) -> None:
    backend = {**service.token("acme"), "X-Tenant-ID": "acme"}
    entry = {"kind": "semantic", "contents": ["likes tea"], "metadata": {"user_id": ["u:ann", "p:app"]}}
    assert (await service.post("/write", {"entries": [entry]}, backend)).status_code == 200

    async def hits(*principals: str) -> int:
        asked = {"query": "tea", "filters": {"user_id": list(principals)}}
        return len((await service.post("/search", asked, backend)).json()["hits"])

    assert await hits("u:ann", "p:app") == 1
    assert await hits("u:bob", "p:app") == 0
    assert await hits("u:ann") == 0
    for body in ({"query": "tea"}, {"query": "tea", "filters": {}}, {"query": "tea", "filters": {"user_id": []}}):
        refused(await service.post("/search", body, backend), 422, "INVALID_ARGUMENT", "X-User-ID")
    wild = {"query": "tea", "filters": {"user_id": ["*"]}}
    refused(await service.post("/search", wild, backend), 422, "INVALID_ARGUMENT", "user_id")
    item = {"id": "e1", "name": "Wei", "user_id": ["u:ann"], "memory_domain": "dialog"}
    assert (await service.post("/graph/v0/upsert", {"entities": [item]}, backend)).json()["counts"] == {"entities": 1}


async def test_a_user_token_cannot_write_for_others(service: Service, ann: dict[str, str]) -> None:
    entry = {"kind": "semantic", "contents": ["planted"], "metadata": {"user_id": ["u:bob"]}}
    refused(await service.post("/write", {"entries": [entry]}, ann), 403, "PERMISSION_DENIED")
    entry["metadata"] = {"tenant_id": "umbrella"}
    refused(await service.post("/write", {"entries": [entry]}, ann), 403, "PERMISSION_DENIED")
    item = {"id": "e1", "name": "Wei", "user_id": ["u:bob"], "memory_domain": "dialog"}
    answer = await service.post("/graph/v0/upsert", {"entities": [item]}, ann)
    assert answer.status_code in (403, 422)
    narrowed = {"query": "planted", "filters": {"user_id": ["u:bob"]}}
    assert (await service.post("/search", narrowed, ann)).json()["hits"] == []


async def test_claims(service: Service, ann: dict[str, str]) -> None:
    listed = (await service.get("/v1/claims", ann)).json()
    assert listed == plain(await service.memory.claims(**NAMED))
    claim = listed["items"][0]
    assert (await service.get(f"/v1/claims/{claim['claim_id']}", ann)).json() == claim
    assert (await service.get("/v1/pending", ann)).json()["items"] == []
    asked = {"statement": "Ann's sister lives in Chengdu now", "reason": "in her words"}
    corrected = (await service.post(f"/v1/claims/{claim['claim_id']}/correct", asked, ann)).json()
    assert corrected["statement"] == asked["statement"]
    assert corrected["spans"] == claim["spans"]
    rejected = await service.post(f"/v1/claims/{corrected['claim_id']}/reject", None, ann)
    assert rejected.status_code == 200
    left = (await service.get("/v1/claims", ann)).json()["items"]
    assert corrected["claim_id"] not in [c["claim_id"] for c in left]
    refused(await service.post("/v1/claims/nothing/confirm", None, ann), 404, "NOT_FOUND")
    bob = service.token("acme", "bob")
    refused(await service.get(f"/v1/claims/{claim['claim_id']}", bob), 404, "NOT_FOUND")


async def test_nodes(service: Service, ann: dict[str, str]) -> None:
    listed = (await service.get("/v1/nodes", ann, shelf="preferences")).json()["items"]
    assert listed == plain(await service.memory.nodes(**NAMED, shelf="preferences"))
    uri = listed[0]["uri"]
    assert (await service.get("/v1/nodes/one", ann, uri=uri)).json() == plain(
        await service.memory.node(**NAMED, uri=uri)
    )
    history = (await service.get("/v1/nodes/history", ann, uri=uri)).json()["items"]
    assert history == plain(await service.memory.node_history(**NAMED, uri=uri))
    refused(await service.get("/v1/nodes/one", ann, uri="ctx://nothing"), 422, "INVALID_ARGUMENT", "uri")
    refused(await service.get("/v1/nodes/one", service.token("acme", "bob"), uri=uri), 404, "NOT_FOUND")


async def test_relations(service: Service, ann: dict[str, str]) -> None:
    uri, to, *_ = [item["uri"] for item in (await service.get("/v1/nodes", ann)).json()["items"]]
    bob = service.token("acme", "bob")
    asked = {"uri": uri, "to_uri": to, "relation_type": "part_of", "reason": "一处"}
    made = (await service.post("/v1/nodes/relate", asked, ann)).json()
    assert {name: made[name] for name in asked if name != "uri"} | {"uri": made["from_uri"]} == asked
    shown = (await service.get("/v1/nodes/relations", ann, uri=to, relation_type="part_of", hops=2)).json()["items"]
    assert shown == plain(await service.memory.relations(**NAMED, uri=to, relation_type="part_of", hops=2))
    assert made in shown
    refused(await service.get("/v1/nodes/relations", ann, uri=uri, relation_type="likes"), 422, "INVALID_ARGUMENT")
    for path in ("relate", "unrelate"):
        refused(await service.post(f"/v1/nodes/{path}", {"uri": uri, "to_uri": to}, bob), 404, "NOT_FOUND")
    refused(await service.get("/v1/nodes/relations", bob, uri=uri), 404, "NOT_FOUND")
    gone = await service.post("/v1/nodes/unrelate", {"uri": uri, "relation_type": "part_of"}, ann)
    assert gone.json() == {"removed": 1}


async def test_a_commit(service: Service, ann: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    body = {
        "session_id": "round",
        "messages": [
            {"role": "user", "content": text} for text in ("I like quince.", "Run the tests.", "Thanks a lot.")
        ],
        "used_tools": [{"name": "pytest", "call_count": 3, "success_count": 2}],
    }
    planned = (await service.post("/v1/sessions/commit", {**body, "options": {"dry_run": True}}, ann)).json()
    assert (planned["status"], planned["write_results"], len(planned["plans"])) == ("success", [], 2)
    answer = await service.post("/v1/sessions/commit", body, {**ann, "X-Request-ID": "round-7"})
    made = answer.json()
    assert (made["status"], made["debug"]["trace_id"], answer.headers["x-request-id"]) == ("success", *["round-7"] * 2)
    assert [c["tool"]["call_count"] for c in made["claims"] if c["tool"]] == [3]
    assert made["archive"]["stats"]["compression_count"] == 1
    refused(await service.post("/v1/sessions/commit", {**body, "used_tools": [{}]}, ann), 422, "INVALID_ARGUMENT")

    async def full(*args: Any, **given: Any) -> Any:
        raise StorageFailed.of(OSError(errno.ENOSPC, "No space left on device", "/srv/home/turns.jsonl"))

    monkeypatch.setattr(service.memory.parts.archive, "append_turns", full)
    for path in ("/v1/sessions", "/v1/sessions/commit"):
        answer = await service.post(
            path, {"session_id": "full", "turns": [{"role": "user", "text": "Hello there"}]}, ann
        )
        refused(answer, 503, "UNAVAILABLE")
        assert "make room and call again" in answer.json()["error"]["message"]
        assert "/srv" not in answer.text


async def test_the_graph(service: Service, ann: dict[str, str]) -> None:
    view = service.memory.graph(**NAMED)
    at = "/graph/v0"
    events = (await service.get(f"{at}/events", ann, since="2026-01-01T00:00:00Z", limit=2)).json()
    assert events == plain(await view.events(since="2026-01-01T00:00:00Z", limit=2))
    event = events["items"][0]["id"]
    assert (await service.get(f"{at}/events/{event}", ann)).json()["id"] == event
    assert (await service.get(f"{at}/entities", ann)).json() == plain(await view.entities())
    sister = (await service.get(f"{at}/entities/resolve", ann, name="妹妹")).json()
    assert sister == plain(await view.resolve("妹妹"))
    who = sister["entity"]["id"]
    assert (await service.get(f"{at}/entities/{who}/timeline", ann)).json() == plain(await view.timeline(who))
    assert (await service.get(f"{at}/entities/{who}/evidences", ann)).json() == plain(await view.evidences(who))
    during = {"start_iso": "2026-01-01T00:00:00Z", "end_iso": "2026-03-01T00:00:00Z", "kind": "day"}
    days = (await service.get(f"{at}/timeslices/range", ann, **during)).json()
    assert days == plain(await view.timeslices("2026-01-01T00:00:00Z", "2026-03-01T00:00:00Z", "day"))
    assert days["items"][0]["kind"] == "day"
    claim = (await service.get("/v1/claims", ann)).json()["items"][0]["claim_id"]
    why = (await service.get(f"{at}/explain/knowledge/{claim}", ann)).json()
    assert why == plain(await view.explain_knowledge(claim))
    assert "我妹妹住在成都" in json.dumps(why, ensure_ascii=False)
    assert (await service.get(f"{at}/explain/event/{event}", ann)).json() == plain(await view.explain_event(event))
    now = (await service.get(f"{at}/states/current", ann, subject=who)).json()["items"]
    assert now == plain(await view.states_current(who))
    moment = "2026-02-01T00:00:00Z"
    then = (await service.get(f"{at}/states/at_time", ann, subject=who, when=moment)).json()["items"]
    assert then == plain(await view.states_at(who, moment))
    changes = (await service.get(f"{at}/states/changes", ann, subject=who)).json()["items"]
    assert changes == plain(await view.states_changes(who))
    refused(await service.get(f"{at}/events/nothing", ann), 404, "NOT_FOUND")
    refused(await service.get(f"{at}/events", ann, since="soon"), 422, "INVALID_ARGUMENT")
    refused(await service.get(f"{at}/states/at_time", ann, subject=who), 422, "INVALID_ARGUMENT", "when")


async def test_who_may_be_one_is_decided_by_somebody(service: Service, ann: dict[str, str]) -> None:
    place = {"user_id": ["u:ann"], "memory_domain": "dialog"}
    people = [{"id": f"e{n}", "name": name, "type": "person", **place} for n, name in enumerate(("Wei", "Wei Chen"))]
    equiv = {"id": "eq/1", "entity_id": "e0", "candidate_id": "e1", **place}
    told = await service.post("/graph/v0/upsert", {"entities": people, "pending_equivs": [equiv]}, ann)
    assert told.json() == {"ok": True, "counts": {"entities": 2, "pending_equivs": 1}}
    waiting = (await service.get("/graph/v0/pending_equivs", ann)).json()["items"]
    assert "eq/1" in [w["id"] for w in waiting]
    approved = await service.post("/graph/v0/pending_equivs/eq%2F1/approve", None, ann)
    assert approved.json()["status"] == "approved"
    rejected = await service.post(f"/graph/v0/pending_equivs/{approved.json()['id']}/reject", None, ann)
    assert rejected.json()["status"] == "rejected"
    refused(await service.post("/graph/v0/pending_equivs/nothing/approve", None, ann), 404, "NOT_FOUND")


async def test_the_graph_says_why_it_does_not_take_a_batch(service: Service, ann: dict[str, str]) -> None:
    bare = {"entities": [{"id": "e1", "name": "Wei"}]}
    error = refused(await service.post("/graph/v0/upsert", bare, ann), 422, "INVALID_ARGUMENT")
    assert error["details"]["reason"] == "graph_scope_missing"
    odd = {"entities": [{"id": "e1", "name": ""}]}
    refused(await service.post("/graph/v0/upsert", odd, ann), 422, "INVALID_ARGUMENT", "entities[0].name")


async def test_forgetting_says_what_it_is_about(service: Service, ann: dict[str, str]) -> None:
    refused(await service.post("/v1/forget", {}, ann), 422, "INVALID_ARGUMENT", "what")
    refused(await service.post("/v1/forget", {"what": "session"}, ann), 422, "INVALID_ARGUMENT", "session_id")
    contradiction = {"what": "user", "session_id": "s1"}
    refused(await service.post("/v1/forget", contradiction, ann), 422, "INVALID_ARGUMENT", "session_id")
    for what in ("tenant", "group"):
        refused(await service.post("/v1/forget", {"what": what}, ann), 403, "PERMISSION_DENIED")
    receipt = (await service.post("/v1/forget", {"what": "session", "session_id": "s1"}, ann)).json()
    assert receipt["what"] == "session"
    assert receipt["left"] == []
    assert (await service.get("/v1/messages", ann)).json()["items"] == []
    assert (await service.post("/v1/forget", {"what": "user"}, ann)).json()["what"] == "user"


async def test_a_member_cannot_forget_for_the_group(service: Service) -> None:
    member = {**service.token("acme", "ann", groups=["g1"]), "X-Group-ID": "g1"}
    body = {"session_id": "s1", "turns": TURNS, "visibility": "group"}
    assert (await service.post("/v1/sessions", body, member)).status_code == 200
    gone = {"what": "session", "session_id": "s1"}
    refused(await service.post("/v1/forget", gone, member), 403, "PERMISSION_DENIED")
    backend = {**service.token("acme"), "X-Group-ID": "g1"}
    assert (await service.post("/v1/forget", gone, backend)).json()["left"] == []
    assert (await service.post("/v1/forget", {"what": "group"}, backend)).status_code == 200
    refused(await service.post("/v1/forget", {"what": "user"}, backend), 422, "INVALID_ARGUMENT", "X-Group-ID")
    assert (await service.post("/v1/forget", {"what": "tenant"}, service.token("acme"))).json()["what"] == "tenant"


async def test_sessions_come_in_any_form(service: Service, ann: dict[str, str]) -> None:
    raw = [{"role": "user", "content": "I moved to Lisbon."}]
    body = {"session_id": "s2", "raw": raw, "input_format": "openai_messages_v1"}
    assert (await service.post("/v1/sessions", body, ann)).json()["status"] == "ok"
    text = {**body, "session_id": "s3", "raw": json.dumps(raw)}
    assert (await service.post("/v1/sessions", text, ann)).json()["status"] == "ok"
    assert (await service.post("/v1/sessions", body, ann)).json()["status"] == "skipped_existing"
    for wrong in (
        {"session_id": "s4"},
        {"session_id": "s4", "raw": raw},
        {"session_id": "s4", "turns": [{"role": "user"}]},
        {"session_id": "s4", "turns": TURNS, "mode": "twice"},
        {"session_id": "", "turns": TURNS},
        {"session_id": "s4", "turns": TURNS, "visibility": "group"},
    ):
        refused(await service.post("/v1/sessions", wrong, ann), 422, "INVALID_ARGUMENT")


async def test_the_status_of_a_tenant_is_for_services_and_tells_of_nobody_else(
    service: Service, ann: dict[str, str]
) -> None:
    refused(await service.get("/v1/status", ann), 403, "PERMISSION_DENIED")
    ours = (await service.get("/v1/status", service.token("acme"))).json()
    assert [ours["sessions"], ours["turns"], ours["claims"]] == [1, 3, 2]
    theirs = (await service.get("/v1/status", service.token("umbrella"))).json()
    assert [theirs["sessions"], theirs["turns"], theirs["entries"]] == [0, 0, 0]
    assert "home" not in ours


async def test_the_figures_name_routes_and_nobody(service: Service, ann: dict[str, str]) -> None:
    await service.get("/v1/messages/nobody/neighbors", ann)
    figures = (await service.get("/metrics")).text
    assert 'mnemon_requests_total{method="POST",route="/v1/sessions",status="200"} 1.0' in figures
    assert 'route="/v1/messages/{message_id}/neighbors",status="404"} 1.0' in figures
    assert "mnemon_jobs_waiting 0.0" in figures
    assert "mnemon_jobs_failed 0.0" in figures
    assert "mnemon_index_lag_seconds 0.0" in figures
    assert "ann" not in figures
    assert "acme" not in figures


async def test_ready_says_what_is_wrong(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await service.get("/ready")).json() == {"ready": True, "archive": "ok", "index": "ok", "embedder": "ok"}
    monkeypatch.setattr("tempfile.TemporaryFile", _read_only)
    answer = await service.get("/ready")
    assert answer.status_code == 503
    assert answer.json()["archive"] == "the home folder cannot be written to: read-only"
    assert (await service.get("/health")).json() == {"status": "ok"}


def _read_only(**_: Any) -> None:
    raise OSError(30, "read-only")
