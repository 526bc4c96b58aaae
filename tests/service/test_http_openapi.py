"""The description is complete, and the service does what it says: checked by machine, request by request."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from conftest import TURNS, Service
from mnemon import AsyncMemory, Config
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.engine.config import ServiceConfig
from mnemon.engine.tokens import Tokens
from mnemon.surfaces.http.app import create_app
from mnemon.surfaces.http.errors import ErrorEnvelope
from mnemon.surfaces.http.identity import Gatekeeper
from mnemon.surfaces.http.openapi import OPEN_PATHS

EXAMPLES = 400 if os.environ.get("MNEMON_LONG") else 2


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(path, method, told) for path, of in document["paths"].items() for method, told in of.items()]


async def test_every_operation_is_described_with_examples_and_errors(service: Service) -> None:
    document = (await service.get("/openapi.json")).json()
    assert len(operations(document)) > 40
    for path, method, told in operations(document):
        name = f"{method} {path}"
        assert told["summary"], name
        assert told["description"], name
        for content in told["responses"]["200"]["content"].values():
            assert "example" in content or "Nothing" in told["responses"]["200"]["description"], name
        if path in OPEN_PATHS:
            continue
        assert told["security"] == [{"bearer": []}, {"apiToken": []}], name
        assert {"401", "403", "413", "422", "429", "500", "503", "504"} <= told["responses"].keys(), name
        for status, answer in told["responses"].items():
            if status != "200":
                assert answer["content"]["application/json"]["schema"]["$ref"].endswith("/ErrorEnvelope"), name
                ErrorEnvelope.model_validate(answer["content"]["application/json"]["example"])
        if "{" in path:
            assert "404" in told["responses"], name
        if "requestBody" in told:
            assert examples_of(document, told), name


def examples_of(document: dict[str, Any], told: dict[str, Any]) -> Any:
    content = told["requestBody"]["content"]["application/json"]
    schema = content["schema"]
    named = document["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], {})
    return content.get("example") or content.get("examples") or schema.get("examples") or named.get("examples")


async def test_the_examples_are_taken(service: Service) -> None:
    """What the description shows as a request is one: none of them is refused for its form."""
    document = (await service.get("/openapi.json")).json()
    headers = {"X-Tenant-ID": "acme", "X-User-ID": "ann"}
    for path, method, told in operations(document):
        if "requestBody" in told and "{" not in path:
            (body, *_) = examples_of(document, told)
            answer = await service.client.request(method, path, json=body, headers=headers)
            # At the ports an example need not fit what is there: a version may be another, a steward's scope be needed.
            fine = (200, 404, 403, 409) if "archive" in told["tags"] else (200, 404)
            assert answer.status_code in fine, f"{path}: {answer.text}"


async def test_the_documentation_can_be_read_without_a_token(service: Service) -> None:
    service.token("acme", "ann")
    page = await service.get("/docs")
    assert page.status_code == 200
    assert "swagger" in page.text.lower()


# --- machine-made requests against a real server


class _Thread(threading.Thread):
    def __init__(self, server: uvicorn.Server) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.up = threading.Event()

    def run(self) -> None:
        self.server.run()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """A server with something in it, and the headers of somebody who may ask it."""
    home: Path = tmp_path_factory.mktemp("service")
    memory = AsyncMemory(home, llm="rules", embedder=HashEmbedder(), config=Config())
    tokens = Tokens(home)
    _, secret = tokens.create("acme", service=True)
    app = create_app(memory, Gatekeeper(tokens, True), ServiceConfig())
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="on", ws="none"))
    thread = _Thread(server)
    thread.start()
    while not server.started:
        thread.join(0.01)
        assert thread.is_alive()
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    headers = {"Authorization": f"Bearer {secret}", "X-User-ID": "ann"}
    written = httpx.post(f"{url}/v1/sessions", json={"session_id": "s1", "turns": TURNS}, headers=headers)
    assert written.status_code == 200
    yield url, headers
    server.should_exit = True
    thread.join(60)
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def api(address: tuple[str, dict[str, str]]) -> Any:
    return schemathesis.openapi.from_url(f"{address[0]}/openapi.json")


def in_the_documented_form(context: Any, response: Any, case: Case) -> None:
    assert response.headers["x-request-id"]
    if response.status_code >= 400 and case.path not in OPEN_PATHS:
        ErrorEnvelope.model_validate_json(response.content)


CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    in_the_documented_form,
]


class Known:
    """Somebody who has been here: a conversation and an entry, and by which names they go."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self._client = httpx.Client(base_url=url, headers=headers, timeout=60)
        self._names: dict[str, str] = {}

    def names(self, session: str) -> dict[str, str]:
        """As long as nothing asked before has taken any of it away, those of before."""
        if not self._names or not self._still_there():
            self._names = self._made(session)
        return self._names

    def _still_there(self) -> bool:
        names = self._names
        paths = (f"/v1/claims/{names['claim_id']}", f"/graph/v0/explain/knowledge/{names['claim_id']}")
        paths += (f"/v1/entries/{names['entry_id']}/history", f"/v1/messages/{names['message_id']}/neighbors")
        return all(self._client.get(path).status_code == 200 for path in paths)

    def _made(self, session: str) -> dict[str, str]:
        entry = {"id": f"e/{session}", "kind": "semantic", "contents": [f"Ann drinks tea in {session}"]}
        self._post("/write", {"entries": [entry]})
        self._post("/v1/sessions", {"session_id": session, "turns": TURNS, "overwrite_existing": True})
        claim = self._first("/v1/claims")
        entity = self._first("/graph/v0/entities")["id"]
        return {
            "entry_id": f"e/{session}",
            "claim_id": claim["claim_id"],
            "knowledge_id": claim["claim_id"],
            "message_id": self._first("/v1/messages")["message_id"],
            "event_id": self._first("/graph/v0/events")["id"],
            "entity_id": entity,
            "subject": entity,
            "uri": self._first("/v1/nodes")["uri"],
        }

    def _post(self, path: str, body: Any) -> None:
        answer = self._client.post(path, json=body)
        assert answer.status_code == 200, answer.text

    def _first(self, path: str) -> dict[str, Any]:
        first: dict[str, Any] = self._client.get(path).json()["items"][0]
        return first

    def close(self) -> None:
        self._client.close()


def asked_at_random(operation: Any, mode: GenerationMode, headers: dict[str, str], names: dict[str, str]) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(case=operation.as_strategy(generation_mode=mode), known=st.booleans())
    def ask(case: Case, known: bool) -> None:
        for name in ("X-Product-ID", "X-Group-ID", "X-Agent-ID", "X-Signature", "X-Signature-Ts", "X-Request-ID"):
            case.headers.pop(name, None)
        for given_names in (case.path_parameters, case.query) if known else ():
            given_names.update({name: names[name] for name in given_names if name in names})
        case.call_and_validate(headers=headers, checks=CHECKS, timeout=60)

    ask()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fitting", "unfitting"])
def test_no_request_breaks_the_service(mode: GenerationMode, api: Any, address: tuple[str, dict[str, str]]) -> None:
    headers = {**address[1], "X-Tenant-ID": "acme"}
    somebody = Known(address[0], headers)
    asked = 0
    for n, found in enumerate(api.get_all_operations()):
        operation = found.ok()
        try:
            asked_at_random(operation, mode, headers, somebody.names(f"{mode.value}-{n}"))
        except Unsatisfiable:
            continue  # an operation without parameters has no unfitting request
        asked += 1
    somebody.close()
    assert asked > 30
