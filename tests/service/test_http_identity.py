"""Who asks: tokens, headers, signatures, and a service without any token."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from typing import Any

import pytest

from conftest import TURNS, Service, Start, refused

HERE = {"X-Tenant-ID": "acme", "X-User-ID": "ann"}


async def wrote(service: Service, headers: dict[str, str], session: str = "s1", **more: Any) -> None:
    answer = await service.post("/v1/sessions", {"session_id": session, "turns": TURNS, **more}, headers)
    assert answer.json()["status"] == "ok", answer.text


async def counted(service: Service, headers: dict[str, str]) -> int:
    answer = await service.get("/v1/messages", headers)
    assert answer.status_code == 200, answer.text
    return len(answer.json()["items"])


async def test_a_user_token_is_one_person_and_sees_nobody_else(service: Service) -> None:
    ann, bob = service.token("acme", "ann"), service.token("acme", "bob")
    await wrote(service, ann)
    assert await counted(service, ann) == 3
    assert await counted(service, bob) == 0
    assert await counted(service, {"X-API-Token": ann["Authorization"].removeprefix("Bearer ")}) == 3


async def test_the_same_name_in_another_tenant_is_somebody_else(service: Service) -> None:
    await wrote(service, service.token("acme", "ann"))
    assert await counted(service, service.token("umbrella", "ann")) == 0


async def test_a_wrong_token_is_nobody(service: Service) -> None:
    good = service.token("acme", "ann")
    for wrong in (
        {},
        {"Authorization": "Bearer mnm_wrong"},
        {"Authorization": "Basic abc"},
        {"Authorization": ""},
        {"X-API-Token": "wrong"},
        {"Authorization": good["Authorization"] + "x"},
        {"Authorization": "Basic abc", "X-API-Token": good["Authorization"].removeprefix("Bearer ")},
        HERE,
    ):
        answer = await service.get("/v1/messages", wrong)
        refused(answer, 401, "UNAUTHENTICATED")
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_revoked_token_is_refused_by_the_service_that_runs(service: Service) -> None:
    ann = service.token("acme", "ann")
    assert await counted(service, ann) == 0
    service.tokens.revoke(service.tokens.listed()[0].id)
    refused(await service.get("/v1/messages", ann), 401, "UNAUTHENTICATED")
    refused(await service.get("/v1/messages", HERE), 401, "UNAUTHENTICATED")


async def test_a_tenant_that_is_not_the_tokens_is_refused(service: Service) -> None:
    for headers in (service.token("acme", "ann"), service.token("acme")):
        answer = await service.get("/v1/messages", {**headers, "X-Tenant-ID": "umbrella", "X-User-ID": "ann"})
        refused(answer, 403, "PERMISSION_DENIED", "X-Tenant-ID")
    assert await counted(service, {**service.token("acme", "ann"), "X-Tenant-ID": "acme"}) == 0


@pytest.mark.parametrize("header", ["X-User-ID", "X-Product-ID", "X-Group-ID", "X-Agent-ID"])
async def test_a_user_token_cannot_name_what_it_does_not_hold(service: Service, header: str) -> None:
    ann = service.token("acme", "ann", product_id="app", groups=["g1"], agents=["bot"])
    refused(await service.get("/v1/messages", {**ann, header: "other"}), 403, "PERMISSION_DENIED", header)
    own = {"X-User-ID": "ann", "X-Product-ID": "app", "X-Group-ID": "g1", "X-Agent-ID": "bot"}
    assert (await service.get("/v1/messages", {**ann, header: own[header]})).status_code == 200


async def test_a_service_token_speaks_for_whom_it_names(service: Service) -> None:
    backend = service.token("acme")
    await wrote(service, {**backend, "X-User-ID": "ann"})
    assert await counted(service, {**backend, "X-User-ID": "ann"}) == 3
    assert await counted(service, {**backend, "X-User-ID": "bob"}) == 0
    refused(await service.get("/v1/messages", backend), 422, "INVALID_ARGUMENT", "X-User-ID")


async def test_what_a_product_shares_needs_the_product(service: Service) -> None:
    backend = service.token("acme")
    await wrote(service, {**backend, "X-User-ID": "ann", "X-Product-ID": "app"}, visibility="product")
    assert await counted(service, service.token("acme", "bob", product_id="app")) == 3
    assert await counted(service, service.token("acme", "bob")) == 0
    assert await counted(service, service.token("acme", "bob", product_id="other")) == 0


async def test_a_group_is_entered_by_name_and_only_by_its_members(service: Service) -> None:
    member = service.token("acme", "ann", groups=["g1", "g2"])
    await wrote(service, {**member, "X-Group-ID": "g1"}, visibility="group")
    assert await counted(service, {**member, "X-Group-ID": "g1"}) == 3
    assert await counted(service, {**member, "X-Group-ID": "g2"}) == 0
    assert await counted(service, member) == 0
    stranger = service.token("acme", "bob")
    refused(await service.get("/v1/messages", {**stranger, "X-Group-ID": "g1"}), 403, "PERMISSION_DENIED", "X-Group-ID")


async def test_a_name_may_be_written_in_any_script(service: Service) -> None:
    backend = service.token("acme")
    named: Any = {**{k: v.encode() for k, v in backend.items()}, "X-User-ID": "小林".encode()}
    await wrote(service, named)
    assert await counted(service, named) == 3
    assert await counted(service, service.token("acme", "小林")) == 3
    broken: Any = {**named, "X-User-ID": b"\xff\xfe"}
    refused(await service.get("/v1/messages", broken), 422, "INVALID_ARGUMENT", "X-User-ID")


async def test_a_header_given_twice_names_nobody(service: Service) -> None:
    token = service.token("acme")["Authorization"]
    twice = [("Authorization", token), ("X-User-ID", "ann"), ("X-User-ID", "bob")]
    answer = await service.client.get("/v1/messages", headers=twice)
    refused(answer, 422, "INVALID_ARGUMENT", "X-User-ID")


async def test_without_a_token_this_machine_names_whom_it_likes(service: Service) -> None:
    await wrote(service, HERE)
    assert await counted(service, HERE) == 3
    assert await counted(service, {"X-Tenant-ID": "acme", "X-User-ID": "bob"}) == 0
    refused(await service.get("/v1/messages", {"X-User-ID": "ann"}), 422, "INVALID_ARGUMENT", "X-Tenant-ID")
    refused(await service.get("/v1/messages", {"X-Tenant-ID": "acme"}), 422, "INVALID_ARGUMENT", "X-User-ID")


async def test_without_a_token_no_other_name_of_this_machine_will_do(service: Service) -> None:
    answer = await service.get("/v1/messages", {**HERE, "Host": "evil.example"})
    refused(answer, 403, "PERMISSION_DENIED", "Host")
    for host in ("localhost:8700", "127.0.0.1", "[::1]:8700"):
        assert (await service.get("/v1/messages", {**HERE, "Host": host})).status_code == 200


async def test_the_first_token_ends_the_time_without_tokens_for_good(service: Service) -> None:
    assert await counted(service, HERE) == 0
    service.token("acme", "ann")
    refused(await service.get("/v1/messages", HERE), 401, "UNAUTHENTICATED")
    (service.memory.parts.home / "tokens.json").unlink()
    refused(await service.get("/v1/messages", HERE), 401, "UNAUTHENTICATED")


async def test_a_service_that_others_can_reach_never_does_without_tokens(start: Start) -> None:
    service = await start(local=False)
    refused(await service.get("/v1/messages", HERE), 401, "UNAUTHENTICATED")


async def test_a_user_id_smuggled_into_a_message_tool_is_ignored_and_noted(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    ann, bob = service.token("acme", "ann"), service.token("acme", "bob")
    await wrote(service, ann)
    body = {"query_text": "spicy", "user_id": "ann"}
    for answer in (
        await service.get("/v1/messages", bob, user_id="ann"),
        await service.post("/v1/messages/lexical_search", body, bob),
        await service.post("/v1/messages/semantic_search", body, bob),
    ):
        assert answer.status_code == 200
        assert answer.json()["items"] == []
    notes = [json.loads(r.message) for r in caplog.records if r.name == "mnemon.service"]
    assert len([n for n in notes if n["event"] == "user_id_ignored"]) == 3


async def test_no_token_is_ever_written_to_the_log(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    headers = service.token("acme", "ann")
    await wrote(service, headers)
    await service.get("/v1/messages", {"Authorization": "Bearer mnm_not_a_token_but_secret"})
    assert headers["Authorization"].removeprefix("Bearer ") not in caplog.text
    assert "mnm_not_a_token_but_secret" not in caplog.text
    ids = {json.loads(r.message).get("token") for r in caplog.records if r.name == "mnemon.service"}
    assert service.tokens.listed()[0].id in ids


SECRET = "a shared secret"


def signed(path: str, body: bytes, moment: float | None = None, secret: str = SECRET) -> dict[str, str]:
    stamp = f"{time.time() if moment is None else moment:.6f}"
    text = f"{stamp}.{path}.".encode() + body
    signature = hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()
    return {"X-Signature-Ts": stamp, "X-Signature": signature, "Content-Type": "application/json"}


async def test_a_service_with_a_secret_takes_signed_requests_only(start: Start) -> None:
    service = await start(signing_secret=SECRET)
    who = service.token("acme", "ann")
    path, body = "/v1/retrieval", b'{"query": "spicy food"}'

    async def send(headers: dict[str, str], content: bytes = body) -> Any:
        return await service.client.post(path, content=content, headers={**who, **headers})

    good = signed(path, body)
    assert (await send(good)).status_code == 200
    unsigned = {"Content-Type": "application/json"}
    for wrong in (
        unsigned,
        good,  # a second time
        signed(path, body, secret="another"),
        signed(path, body, time.time() - 301),
        signed(path, body, time.time() + 302),
        signed("/v1/messages", body),
        {**signed(path, body), "X-Signature-Ts": "yesterday"},
        {**signed(path, body), "X-Signature-Ts": "nan"},
        {**signed(path, body), "X-Signature": "ÿ"},
    ):
        raw: Any = {name: value.encode("latin-1") for name, value in {**who, **wrong}.items()}
        answer = await service.client.post(path, content=body, headers=raw)
        assert refused(answer, 401, "UNAUTHENTICATED")["details"]["reason"] == "signature"
    refused(await send(signed(path, body), b'{"query": "something else"}'), 401, "UNAUTHENTICATED")
    assert (await send(signed(path, body, time.time() - 290))).status_code == 200
    assert (await service.client.get("/v1/messages", headers={**who, **signed("/v1/messages", b"")})).status_code == 200
    assert (await service.get("/health")).status_code == 200
