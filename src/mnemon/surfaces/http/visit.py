"""What every handler has at hand: the memory, who asks, and a way to answer."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from starlette.responses import Response

from mnemon.contracts.scope import Scope
from mnemon.engine.bound import AsyncBoundMemory
from mnemon.engine.cognitive import AsyncCognitive
from mnemon.engine.entries import AsyncEntries
from mnemon.engine.graph import AsyncGraphView
from mnemon.engine.memory import AsyncMemory
from mnemon.surfaces.http.identity import Caller
from mnemon.surfaces.http.writes import Writes
from mnemon.surfaces.wire import as_json

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Visit:
    memory: AsyncMemory
    caller: Caller
    writes: Writes

    @property
    def messages(self) -> AsyncBoundMemory:
        return self.memory.bind(**self.caller.named())

    def person(self) -> dict[str, Any]:
        """Who asks, and which agent they speak to."""
        return {**self.caller.named(), "agent_id": self.caller.agent_id}

    def entries(self, *named: object) -> AsyncEntries:
        """The entries of the caller, and of whom the body of the request names (`user_id`)."""
        return self.memory.doors(self._scope(named)).entries

    def graph(self, *named: object) -> AsyncGraphView:
        return self.memory.doors(self._scope(named)).graph

    def chat(self, include_private: bool = False) -> AsyncCognitive:
        """The chat tools for the person, or for the group where one is named; there a service may leave the person
        out."""
        caller = self.caller
        user = caller.user_id if caller.group_id is not None else caller.named()["user_id"]
        return self.memory.cognitive(caller.tenant_id, user, caller.group_id, include_private=include_private)

    def _scope(self, named: Sequence[object]) -> Scope:
        """What is no list of texts is no name; that it is wrong will be told by whoever reads it next."""
        lists = [names for names in named if isinstance(names, list | tuple)]
        return self.caller.scope_with(name for names in lists for name in names if isinstance(name, str))

    async def write(self, work: Coroutine[Any, Any, T]) -> T:
        return await self.writes.carry_out(work)


async def _visit(request: Request) -> Visit:
    service = request.app.state
    return Visit(service.memory, request.state.caller, service.writes)


Here = Annotated[Visit, Depends(_visit)]


def answer(result: Any) -> Response:
    return Response(as_json(result), media_type="application/json")
