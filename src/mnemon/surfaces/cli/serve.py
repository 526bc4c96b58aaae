"""`mnemon serve`: the memory as a service."""

from __future__ import annotations

import click

from mnemon.contracts.errors import InvalidArgument
from mnemon.engine.memory import AsyncMemory
from mnemon.engine.registry import loaded
from mnemon.engine.tokens import Tokens
from mnemon.surfaces.cli.options import Place, shared
from mnemon.surfaces.cli.output import errors, print_json


@click.command()
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Where to listen. Beyond this machine: needs a token."
)
@click.option("--port", default=8700, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option(
    "--workers",
    default=1,
    show_default=True,
    type=int,
    help="Processes; one, since the memory of a home is in one place.",
)
@shared
def serve(host: str, port: int, workers: int, place: Place) -> None:
    """Serve this memory over HTTP until stopped; what was begun is finished first.

    Without a token the service listens to this machine only. The log is JSON on standard error, a line a request.
    """
    if workers != 1:
        raise InvalidArgument("one process serves a home; start another service for another home", field="workers")
    listen = loaded("mnemon serve", "mnemon.surfaces.http.server", "listen", "serve")
    run = loaded("mnemon serve", "mnemon.surfaces.http.server", "run", "serve")
    tokens = Tokens(place.home)
    listening = listen(host, port, tokens)
    memory = AsyncMemory(place.home, config=place.read_config(), embedder=place.embedder, llm=place.llm)
    url = _url(*listening.getsockname()[:2])
    guarded = bool(tokens.listed())

    def ready() -> None:
        if place.as_json:
            print_json({"url": url, "docs": f"{url}/docs", "tokens": guarded})
            return
        errors.print(f"listening on {url}  (what it can do: {url}/docs)", markup=False, highlight=False, soft_wrap=True)
        if not guarded:
            errors.print(
                "no token yet: this machine only; X-Tenant-ID and X-User-ID say who asks (`mnemon token create`)",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )

    run(memory, tokens, listening, ready)


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
