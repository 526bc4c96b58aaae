"""How a body is read: strictly as JSON, quickly, and with nothing in it that could not be written down again."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

# A number this long can be more than a float holds; everything else the reader of JSON refuses by itself.
_HUGE = re.compile(rb"[eE]\+?0*[1-9][0-9]{2}|[0-9]{300}")


class _Strict(Request):
    async def json(self) -> Any:
        body = await self.body()
        try:
            data = from_json(body, allow_inf_nan=False)
        except ValueError as error:
            raise HTTPException(422, f"not JSON: {error}") from error
        if _HUGE.search(body) and not _finite(data):
            raise HTTPException(422, "holds a number that is too large")
        return data


class StrictRoute(APIRoute):
    """A route that reads bodies so."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def read(request: Request) -> Response:
            return await handle(_Strict(request.scope, request.receive))

        return read


def _finite(data: Any) -> bool:
    match data:
        case dict():
            return all(map(_finite, data.values()))
        case list():
            return all(map(_finite, data))
        case float():
            return math.isfinite(data)
    return True
