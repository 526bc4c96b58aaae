"""Who is asking: a token (or, on this machine only, nothing) and the headers of a request become a caller."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Request

from mnemon.contracts.errors import InvalidArgument, MnemonError, PermissionDenied, Unauthenticated
from mnemon.contracts.scope import PUBLIC, Scope, checked_id
from mnemon.engine.addressing import DEFAULT_AGENT
from mnemon.engine.tokens import Token, Tokens
from mnemon.surfaces.http.errors import refusal
from mnemon.surfaces.http.notes import request_id

_HEADERS = {
    b"authorization": "Authorization",
    b"x-api-token": "X-API-Token",
    b"x-tenant-id": "X-Tenant-ID",
    b"x-user-id": "X-User-ID",
    b"x-product-id": "X-Product-ID",
    b"x-group-id": "X-Group-ID",
    b"x-agent-id": "X-Agent-ID",
    b"host": "Host",
}
_NAMES = {"u": "user_id", "p": "product_id", "g": "group_id", "a": "agent_id"}
_LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Caller:
    """One tenant, and the person and place a request names in it. `token` is None where the service has no tokens and
    listens to this machine only; such a caller is trusted like one with a service token."""

    token: Token | None
    tenant_id: str
    user_id: str | None = None
    product_id: str | None = None
    group_id: str | None = None
    agent_id: str | None = None

    @property
    def is_service(self) -> bool:
        return self.token is None or self.token.kind == "service"

    def needs_service(self, what: str) -> None:
        if not self.is_service:
            raise PermissionDenied(f"{what} needs a service token")

    def named(self) -> dict[str, Any]:
        """As the engine's methods take it."""
        return {
            "tenant_id": self.tenant_id,
            "user_id": self._user(),
            "product_id": self.product_id,
            "group_id": self.group_id,
        }

    def scope(self) -> Scope:
        """Everything this request may see."""
        agent = self.agent_id or DEFAULT_AGENT
        return Scope.of(self.tenant_id, self._user(), self.product_id, self.group_id, agent, request_id.get())

    def scope_with(self, principals: Iterable[str]) -> Scope:
        """The same where the body of a request names principals: to a service they may name the person, and to a
        person they are further places of theirs. Whom a token may not name is not in it, whatever the body says."""
        listed = set(principals)
        if self.user_id is None:
            wanted = {_checked(p) for p in listed}
            if not wanted:
                self._user()
        elif self.token is not None and self.token.kind == "user":
            wanted = listed & {f"g:{group}" for group in self.token.groups}
        else:
            return self.scope()
        base = self.scope().principals if self.user_id is not None else {PUBLIC, f"a:{self.agent_id or DEFAULT_AGENT}"}
        return Scope(self.tenant_id, frozenset(base | wanted), trace_id=request_id.get())

    def chat_of(self, user_id: str | None, group_id: str | None, sender_id: str | None) -> dict[str, Any]:
        """Whose turn the body of a request tells of. A person tells of their own, in groups the token holds; a service
        names whom it likes, in the headers or the body, but not two."""
        if self.token is not None and self.token.kind == "user":
            held: dict[str, tuple[str | None, tuple[str | None, ...]]] = {
                "user_id": (user_id, (self.user_id,)),
                "sender_id": (sender_id, (self.user_id,)),
                "group_id": (group_id, tuple(self.token.groups)),
            }
            for name, (value, own) in held.items():
                if value is not None and value not in own:
                    raise PermissionDenied(
                        f"this token does not hold what {name} names", field=name, reason="principal"
                    )
        return {
            "tenant_id": self.tenant_id,
            "user_id": _agreed("X-User-ID", self.user_id, "user_id", user_id),
            "group_id": _agreed("X-Group-ID", self.group_id, "group_id", group_id),
            "sender_id": sender_id,
        }

    def _user(self) -> str:
        if self.user_id is None:
            raise InvalidArgument("name the user by the header X-User-ID", field="X-User-ID", reason="missing")
        return self.user_id


def _agreed(header: str, said: str | None, name: str, given: str | None) -> str | None:
    if said is not None and given is not None and said != given:
        raise InvalidArgument(f"{header} and {name} name two", field=name, reason="contradiction")
    return said if given is None else given


def _checked(principal: str) -> str:
    kind, separator, name = principal.partition(":")
    if principal == PUBLIC:
        return principal
    if not separator or kind not in _NAMES:
        raise InvalidArgument(
            f"user_id holds principals: u:…, p:…, g:…, a:… or {PUBLIC}", field="user_id", reason="principal"
        )
    checked_id(_NAMES[kind], name)
    return principal


class Gatekeeper:
    """`local`: the service listens to this machine only, and may do without tokens as long as it has never seen one."""

    def __init__(self, tokens: Tokens, local: bool) -> None:
        self._tokens = tokens
        self._open = local

    @property
    def open(self) -> bool:
        """May anybody on this machine name whom they like? A token made while the service runs ends that for good."""
        self._open = self._open and not self._tokens.listed()
        return self._open

    def caller(self, raw: Iterable[tuple[bytes, bytes]]) -> Caller:
        headers = _read(raw)
        secret = _secret(headers)
        if secret is None and self.open:
            return _from_this_machine(headers)
        token = self._tokens.find(secret) if secret else None
        if token is None:
            raise Unauthenticated(
                "send a valid token: Authorization: Bearer … or X-API-Token: … (`mnemon token create` makes one)",
                reason="token",
            )
        if headers.get("X-Tenant-ID", token.tenant_id) != token.tenant_id:
            raise PermissionDenied("X-Tenant-ID is not the tenant of this token", field="X-Tenant-ID", reason="tenant")
        return _of_service(token, headers) if token.kind == "service" else _of_user(token, headers)


def _of_service(token: Token, headers: dict[str, str]) -> Caller:
    return Caller(
        token,
        token.tenant_id,
        headers.get("X-User-ID"),
        headers.get("X-Product-ID"),
        headers.get("X-Group-ID"),
        headers.get("X-Agent-ID"),
    )


def _of_user(token: Token, headers: dict[str, str]) -> Caller:
    """Headers may choose among what the token holds, never add to it."""
    held: dict[str, set[str | None]] = {
        "X-User-ID": {token.user_id},
        "X-Product-ID": {token.product_id},
        "X-Group-ID": set(token.groups),
        "X-Agent-ID": {*token.agents, DEFAULT_AGENT},
    }
    for name, values in held.items():
        if name in headers and headers[name] not in values:
            raise PermissionDenied(f"this token does not hold what {name} names", field=name, reason="principal")
    return Caller(
        token, token.tenant_id, token.user_id, token.product_id, headers.get("X-Group-ID"), headers.get("X-Agent-ID")
    )


def _from_this_machine(headers: dict[str, str]) -> Caller:
    # A web page whose name has been made to point here would otherwise speak for this machine.
    if not is_loopback(_host(headers.get("Host", ""))):
        raise PermissionDenied("without tokens the service answers to localhost only", field="Host", reason="host")
    if "X-Tenant-ID" not in headers:
        raise InvalidArgument("name the tenant by the header X-Tenant-ID", field="X-Tenant-ID", reason="missing")
    named = (headers.get(f"X-{name}-ID") for name in ("User", "Product", "Group", "Agent"))
    return Caller(None, headers["X-Tenant-ID"], *named)


def _read(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for key, value in raw:
        name = _HEADERS.get(key)
        if name is None:
            continue
        if name in headers:
            _refuse(name, "is given twice")
        try:
            headers[name] = value.decode()
        except UnicodeDecodeError:
            _refuse(name, "is not UTF-8")
        if name.endswith("-ID"):
            checked_id(name, headers[name])
    return headers


def _refuse(name: str, why: str) -> NoReturn:
    raise InvalidArgument(f"the header {name} {why}", field=name, reason="header")


def _secret(headers: dict[str, str]) -> str | None:
    given = headers.get("Authorization")
    if given is None:
        return headers.get("X-API-Token")
    kind, _, secret = given.partition(" ")
    return secret.strip() if kind.lower() == "bearer" else ""


def _host(header: str) -> str:
    """A Host header without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Authentication:
    """Nobody gets past without being somebody; `state.caller` says who."""

    def __init__(self, app: ASGIApp, gatekeeper: Gatekeeper) -> None:
        self._app = app
        self._gatekeeper = gatekeeper

    async def __call__(self, scope: Request, receive: Receive, send: Send) -> None:
        try:
            caller = self._gatekeeper.caller(scope["headers"])
        except MnemonError as error:
            await refusal(error)(scope, receive, send)
            return
        scope["state"]["caller"] = caller
        scope["state"]["token"] = caller.token.id if caller.token else _LOCAL
        await self._app(scope, receive, send)
