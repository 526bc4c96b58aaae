"""A port that is somewhere else: each of its methods is one request to a Memory Service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from mnemon.drivers.service import ServiceClient
from mnemon.logic.operations import Operation, operations


class RemotePort:
    """What stands behind it is told by whoever subclasses it, with `served`."""

    path: str

    def __init__(self, client: ServiceClient) -> None:
        self.client = client
        self._tenant = "" if client.has_token else "any"

    def tenant_of(self, first: Any) -> str:
        """Which tenant a call is about, by its first argument; one that names nobody is about who was asked for
        last."""
        self._tenant = getattr(first, "tenant_id", self._tenant)
        return self._tenant

    async def close(self) -> None:
        """The client is shared; whoever made it closes it."""


def served(port: type, without: frozenset[str] = frozenset()) -> Callable[[type[RemotePort]], type[RemotePort]]:
    """Give a class every method of a port but those it has of its own."""

    def fill(remote: type[RemotePort]) -> type[RemotePort]:
        for name, operation in operations(port, without | {"close"}).items():
            if name not in vars(remote):
                setattr(remote, name, _streaming(operation) if operation.streams else _asking(operation))
        return remote

    return fill


def _asking(operation: Operation) -> Any:
    async def ask(self: RemotePort, *args: Any, **kwargs: Any) -> Any:
        path, body = self.path + operation.name, operation.request(*args, **kwargs)
        return operation.result(await self.client.ask("POST", path, body, None, _headers(self, args)))

    ask.__name__ = operation.name
    return ask


def _streaming(operation: Operation) -> Any:
    async def each(self: RemotePort, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        body = operation.request(*args, **kwargs)
        async for line in self.client.lines(self.path + operation.name, body, _headers(self, args)):
            yield operation.result(line)

    each.__name__ = operation.name
    return each


def _headers(port: RemotePort, args: tuple[Any, ...]) -> dict[str, str]:
    """The tenant once more, for a service that has no token to know it by."""
    tenant = port.tenant_of(args[0] if args else None)
    return {"X-Tenant-ID": tenant} if tenant else {}
