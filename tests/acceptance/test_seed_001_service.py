"""Seed 001, §2, §4.3, §6.2.3, §6.4, §7.3.2 and §7.4 at the service: the requests a client of the seed makes, as it
makes them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mnemon import AsyncMemory, Config
from mnemon.contracts.errors import Unavailable
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.drivers.graph.sqlite import SqliteGraph
from mnemon.engine.tokens import Tokens
from mnemon.surfaces.http.app import create_app
from mnemon.surfaces.http.identity import Gatekeeper

PRINCIPALS = ["u:ann", "p:app"]


class Service:
    def __init__(self, memory: AsyncMemory, client: httpx.AsyncClient, secret: str) -> None:
        self.memory, self.client = memory, client
        self.headers = {"X-Tenant-ID": "acme", "X-API-Token": secret}

    async def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        return await self.client.post(path, json=body, headers={**self.headers, **headers})


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """With a service token, as the backend of a product has one."""
    memory = AsyncMemory(tmp_path, llm="rules", embedder=HashEmbedder(), config=Config(background_worker=False))
    tokens = Tokens(tmp_path)
    app = create_app(memory, Gatekeeper(tokens, local=False))
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        yield Service(memory, client, tokens.create("acme", service=True)[1])


def event(text: str, turn: int, run: str = "session-1", **metadata: Any) -> dict[str, Any]:
    """§5.1"""
    return {
        "kind": "episodic",
        "modality": "text",
        "contents": [text],
        "metadata": {
            "user_id": PRINCIPALS, "memory_domain": "dialog", "run_id": run, "source": "conversation",
            "turn_id": turn, "role": "user", "timestamp": "2025-03-01T10:00:00Z", "dedup_skip": True, **metadata,
        },
    }  # fmt: skip


def fact(statement: str, turns: list[int], **metadata: Any) -> dict[str, Any]:
    """§5.2"""
    return {
        "kind": "semantic",
        "modality": "text",
        "contents": [statement],
        "metadata": {
            "user_id": PRINCIPALS, "memory_domain": "dialog", "source": "mem0", "fact_type": "preference",
            "status": "n/a", "scope": "until_changed", "importance": "high", "run_id": "session-1",
            "source_session_id": "session-1", "source_turn_ids": turns, **metadata,
        },
    }  # fmt: skip


async def written(service: Service) -> dict[str, Any]:
    entries = [event("I drink green tea every morning.", 1), event("明天去杭州。", 2), fact("Ann likes green tea", [1])]
    answer = await service.post("/write", {"entries": entries, "links": [], "upsert": True, "return_id_map": True})
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def searching(kind: str, **more: Any) -> dict[str, Any]:
    """§7.3.2, as it is written there."""
    filters = {
        "tenant_id": "acme", "user_id": PRINCIPALS, "user_match": "all", "memory_domain": "dialog",
        "memory_type": [kind], "modality": ["text"],
    }  # fmt: skip
    return {"query": "green tea", "topk": 5, "expand_graph": kind == "episodic", "filters": {**filters, **more}}


async def test_6_4_a_write_has_its_version_and_the_map_of_ids(service: Service) -> None:
    told = await written(service)
    assert told["version"] >= 1
    assert told["value"]
    assert told["created_at"]
    assert len(told["id_map"]) == 3


async def test_6_2_1_dedup_skip_keeps_equal_turns_apart_and_is_not_stored(service: Service) -> None:
    entries = [event("好的", 1), event("好的", 2)]
    await service.post("/write", {"entries": entries})
    again = await service.post("/write", {"entries": entries})
    assert again.status_code == 200
    found = (await service.post("/search", {**searching("episodic"), "query": "好的"})).json()["hits"]
    assert sorted(hit["entry"]["metadata"]["turn_id"] for hit in found) == [1, 2]
    assert all("dedup_skip" not in hit["entry"]["metadata"] for hit in found)


async def test_7_3_2_facts_and_events_are_searched_apart(service: Service) -> None:
    await written(service)
    facts = (await service.post("/search", searching("semantic", source=["locomo_text_pipeline", "mem0"]))).json()
    assert [hit["entry"]["contents"] for hit in facts["hits"]] == [["Ann likes green tea"]]
    events = (await service.post("/search", searching("episodic"))).json()
    assert events["hits"][0]["entry"]["contents"] == ["I drink green tea every morning."]
    assert {hit["entry"]["kind"] for hit in events["hits"]} == {"episodic"}
    assert {"hits", "neighbors", "hints", "trace"} <= events.keys()


async def test_7_3_retrieval_finds_what_came_in_through_write(service: Service) -> None:
    await written(service)
    result = await service.memory.retrieval("green tea", "acme", "ann", "app", strategy="dialog_v1")
    by_source = {hit.source: hit.entry.contents[0] for hit in result.hits}
    assert by_source["fact_search"] == "Ann likes green tea"
    assert by_source["reference_trace"] == "I drink green tea every morning."
    better = await service.memory.retrieval("green tea", "acme", "ann", "app", strategy="dialog_v2")
    assert "I drink green tea every morning." in {hit.entry.contents[0] for hit in better.hits}


async def test_4_3_the_tenant_is_the_token_s_whatever_the_request_says(service: Service) -> None:
    await written(service)
    other = await service.post("/search", searching("semantic"), **{"X-Tenant-ID": "other"})
    assert (other.status_code, other.json()["error"]["code"]) == (403, "PERMISSION_DENIED")
    smuggled = await service.post("/search", searching("semantic", tenant_id="other"))
    assert (smuggled.status_code, smuggled.json()["error"]["code"]) == (403, "PERMISSION_DENIED")
    foreign = event("x", 1, tenant_id="other")
    refused = await service.post("/write", {"entries": [foreign]})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "PERMISSION_DENIED")
    without = {**searching("semantic"), "filters": {"user_id": PRINCIPALS}}
    assert len((await service.post("/search", without)).json()["hits"]) == 3


@pytest.mark.parametrize("match", ["within", "any", "all"])
async def test_4_2_matching_can_only_narrow(service: Service, match: str) -> None:
    await written(service)
    await service.post("/write", {"entries": [event("green tea is Bob's", 1, user_id=["u:bob"])]})
    found = await service.post("/search", searching("episodic", user_match=match))
    assert found.status_code == 200
    assert {tuple(hit["entry"]["metadata"]["user_id"]) for hit in found.json()["hits"]} == {("p:app", "u:ann")}
    alone = await service.post("/search", searching("episodic", user_match=match, user_id=["u:ann"]))
    assert alone.json()["hits"] == [], "what was said in the product is seen in the product"


async def test_7_4_video_v1_finds_clips_of_the_lifelog(service: Service) -> None:
    clips = [
        {
            "kind": "episodic",
            "modality": modality,
            "contents": [text],
            "metadata": {"user_id": ["u:ann"], "memory_domain": "lifelog", "source": "camera"},
        }
        for modality, text in (("clip_image", "a cup of green tea"), ("text", "green tea"), ("audio", "green tea song"))
    ]
    assert (await service.post("/write", {"entries": clips})).status_code == 200
    usual = await service.memory.retrieval("green tea", "acme", "ann", strategy="video_v1")
    assert {hit.entry.modality for hit in usual.hits} == {"text", "clip_image"}
    assert usual.debug.strategy == "video_v1"
    heard = await service.memory.retrieval("green tea", "acme", "ann", strategy="video_v1", modality=["audio"])
    assert [hit.entry.contents[0] for hit in heard.hits] == ["green tea song"]


@pytest.mark.parametrize(("policy", "status"), [("best_effort", "ok"), ("require", "failed")])
async def test_6_2_3_graph_policy_over_http(
    service: Service, monkeypatch: pytest.MonkeyPatch, policy: str, status: str
) -> None:
    async def away(*_: Any) -> Any:
        raise Unavailable("the graph is away")

    form = {
        "session_id": "s1", "graph_policy": policy,
        "turns": [{"turn_id": "t1", "role": "user", "text": "I live in Berlin."}],
    }  # fmt: skip
    with monkeypatch.context() as broken:
        broken.setattr(SqliteGraph, "put", away)
        told = (await service.post("/v1/sessions", form, **{"X-User-ID": "ann"})).json()
    assert (told["status"], told["debug"]["graph_upsert_status"]) == (status, "failed")
    again = (await service.post("/v1/sessions", form, **{"X-User-ID": "ann"})).json()
    assert again["status"] == ("skipped_existing" if status == "ok" else "ok")
    assert again["debug"]["graph_upsert_status"] == "ok"
    events = await service.client.get("/graph/v0/events", headers={**service.headers, "X-User-ID": "ann"})
    assert [e["summary"] for e in events.json()["items"]] == ["I live in Berlin."]


async def test_2_2_the_service_takes_no_model_key(service: Service) -> None:
    form = {"session_id": "s", "turns": [{"role": "user", "text": "hi"}], "llm": {"api_key": "sk-secret"}}
    refused = await service.post("/v1/sessions", form, **{"X-User-ID": "ann"})
    assert refused.status_code == 422
    assert refused.json()["error"]["details"]["field"] == "llm"
    assert "sk-secret" not in refused.text
