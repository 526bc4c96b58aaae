"""`mnemon serve` at work: a socket, a memory behind it, and a stop that finishes what was begun."""

from __future__ import annotations

import logging
import math
import signal
import socket
import sys
from collections.abc import Callable

import uvicorn

from mnemon.contracts.errors import InvalidArgument, Unavailable
from mnemon.engine.memory import AsyncMemory
from mnemon.engine.tokens import Tokens
from mnemon.surfaces.http.app import create_app
from mnemon.surfaces.http.identity import Gatekeeper, is_loopback
from mnemon.surfaces.http.notes import log

_BACKLOG = 2048


def listen(host: str, port: int, tokens: Tokens) -> socket.socket:
    """A socket where the service may listen: without a token, on this machine only."""
    if not tokens.listed() and not is_loopback(host):
        raise InvalidArgument(
            f"without a token the service listens to this machine only, not on {host}: make one first "
            "(`mnemon token create --tenant … --user …`), or leave --host out",
            field="host",
        )
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        raise Unavailable(f"cannot listen on {host}:{port}: {error.strerror}", field="port") from error
    return listening


def run(memory: AsyncMemory, tokens: Tokens, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT; then accept nothing new, answer what was asked, close the memory."""
    settings = memory.parts.config.service
    _log_to_stderr()
    app = create_app(memory, Gatekeeper(tokens, is_loopback(listening.getsockname()[0])), settings)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            lifespan="on",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=math.ceil(settings.timeout_s) + 1,
        )
    )

    def stop(*_: object) -> None:
        server.should_exit = True

    # The server has handlers of its own while it runs, and afterwards sends itself what it caught: a stop that was
    # asked for is no failure.
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, stop)
    ready()
    server.run(sockets=[listening])


def _log_to_stderr() -> None:
    """One JSON object a line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
