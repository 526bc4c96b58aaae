"""Who may use the service: tokens, of which only the hash is kept, in one small file of the home folder."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from mnemon.contracts.errors import InvalidArgument, NotFound, Unavailable
from mnemon.contracts.ports import Clock
from mnemon.contracts.scope import checked_id
from mnemon.drivers.archive.fs.durable import locked, make_dirs, replace_file
from mnemon.engine.clock import SystemClock

TokenKind = Literal["user", "service"]
FILE = "tokens.json"
_PREFIX = "mnm_"


@dataclass(frozen=True, slots=True)
class Token:
    """What is kept of a token. A `user` token is one person with their product and groups; with a `service` token the
    request names the person. `last4` are its last characters, so that people can tell two tokens apart."""

    id: str
    kind: TokenKind
    tenant_id: str
    sha256: str
    last4: str
    created_at: str
    user_id: str | None = None
    product_id: str | None = None
    groups: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    expires_at: str | None = None
    revoked_at: str | None = None

    def holds(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < datetime.fromisoformat(self.expires_at))


class Tokens:
    """The tokens of one home. The file is looked at again whenever it has changed, so a revocation counts at once."""

    def __init__(self, home: str | Path, clock: Clock | None = None) -> None:
        self._path = Path(home).expanduser() / FILE
        self._clock = clock or SystemClock()
        self._stamp: tuple[int, int, int] | None = None
        self._known: dict[str, Token] = {}

    def listed(self) -> list[Token]:
        return list(self._current().values())

    def find(self, secret: str) -> Token | None:
        """The token this is, if it is one that still holds."""
        digest = _digest(secret)
        token = self._current().get(digest)
        # The hash of a guess says nothing about a token, yet nothing here should depend on how far two of them agree.
        if token is None or not hmac.compare_digest(token.sha256, digest):
            return None
        return token if token.holds(self._clock.now()) else None

    def create(
        self,
        tenant_id: str,
        user_id: str | None = None,
        *,
        product_id: str | None = None,
        groups: Sequence[str] = (),
        agents: Sequence[str] = (),
        service: bool = False,
        days: int | None = None,
    ) -> tuple[Token, str]:
        """A new token and its secret, which is not kept and cannot be shown again."""
        _check_names(tenant_id, user_id, product_id, groups, agents, service)
        if days is not None and not 1 <= days <= 36_500:
            raise InvalidArgument("days must be between 1 and 36500", field="days")
        secret = _PREFIX + secrets.token_urlsafe(32)
        now = self._clock.now()
        token = Token(
            id=secrets.token_hex(6),
            kind="service" if service else "user",
            tenant_id=tenant_id,
            sha256=_digest(secret),
            last4=secret[-4:],
            created_at=now.isoformat(timespec="seconds"),
            user_id=user_id,
            product_id=product_id,
            groups=tuple(groups),
            agents=tuple(agents),
            expires_at=(now + timedelta(days=days)).isoformat(timespec="seconds") if days is not None else None,
        )
        make_dirs(self._path.parent)
        with locked(self._path.parent):
            self._write([*self._current().values(), token])
        return token, secret

    def revoke(self, token_id: str) -> Token:
        """From now on it is refused, also by a service that is running."""
        if not self._path.exists():
            raise _unknown(token_id)
        with locked(self._path.parent):
            tokens = self._current()
            found = next((t for t in tokens.values() if t.id == token_id), None)
            if found is None:
                raise _unknown(token_id)
            revoked = replace(found, revoked_at=found.revoked_at or self._clock.now().isoformat(timespec="seconds"))
            self._write([revoked if t.id == token_id else t for t in tokens.values()])
        return revoked

    def _write(self, tokens: Sequence[Token]) -> None:
        body = json.dumps({"version": 1, "tokens": [asdict(t) for t in tokens]}, ensure_ascii=False, indent=1)
        replace_file(self._path, body.encode(), what="tokens")

    def _current(self) -> dict[str, Token]:
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            self._stamp, self._known = None, {}
            return self._known
        stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if stamp != self._stamp:
            self._known = {token.sha256: token for token in _read(self._path)}
            self._stamp = stamp
        return self._known


def _read(path: Path) -> list[Token]:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        return [
            Token(**{**row, "groups": tuple(row["groups"]), "agents": tuple(row["agents"])}) for row in body["tokens"]
        ]
    except (OSError, ValueError, TypeError, KeyError) as error:
        # Who cannot be told from others is nobody: without its tokens a service lets no one in.
        raise Unavailable(f"{path} cannot be read: {type(error).__name__}") from error


def _check_names(
    tenant_id: str,
    user_id: str | None,
    product_id: str | None,
    groups: Sequence[str],
    agents: Sequence[str],
    service: bool,
) -> None:
    checked_id("tenant_id", tenant_id)
    if service and (user_id is not None or product_id is not None or groups or agents):
        raise InvalidArgument("a service token names nobody: each request does", field="user_id")
    if not service:
        checked_id("user_id", user_id)
    for name, value in (
        *((("product_id", product_id),) if product_id is not None else ()),
        *(("group_id", group) for group in groups),
        *(("agent_id", agent) for agent in agents),
    ):
        checked_id(name, value)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogateescape")).hexdigest()


def _unknown(token_id: str) -> NotFound:
    return NotFound(f"there is no token {token_id}; `mnemon token list` shows all", token_id=token_id)
