"""The archive and what a write needs beside it, for a pipeline that runs at the client with the client's own model."""

from __future__ import annotations

import base64
import binascii
import inspect
import io
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from types import NoneType
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, create_model
from starlette.responses import Response, StreamingResponse

from mnemon.contracts.claims import Claim
from mnemon.contracts.errors import InvalidArgument, NotFound, PermissionDenied, StorageFailed
from mnemon.contracts.ports import Archive, Holds, Likeness, Replicator
from mnemon.contracts.reports import LoadReport
from mnemon.contracts.scope import Scope, SessionKey
from mnemon.contracts.sessions import SessionRecord
from mnemon.logic.operations import Operation, operations
from mnemon.pipelines.govern import quotas
from mnemon.pipelines.write.extracting import claim_id
from mnemon.surfaces.http.forms import Form
from mnemon.surfaces.http.guard import FOR_PERSONS, check_call, check_job
from mnemon.surfaces.http.openapi import LINES, documented
from mnemon.surfaces.http.port_examples import answer_example, request_example
from mnemon.surfaces.http.visit import Here, Visit, answer

router = APIRouter(tags=["archive"])

_READS = (
    "read_",
    "get_",
    "list_",
    "stat_",
    "exists",
    "revisions",
    "sessions",
    "owners",
    "tenants",
    "is_behind",
    "nearest",
    "same_steps",
    "incoming_edges",
)
_Serve = Callable[[Visit, Operation, dict[str, Any]], Coroutine[Any, Any, Any]]


async def _archive(visit: Visit, operation: Operation, given: dict[str, Any]) -> Any:
    if operation.name in ("append_turns", "keep_turns"):
        parts = visit.memory.parts
        key = given["key"] if "key" in given else given["record"].key
        turns = len(given["turns"])
        await quotas.check(parts.index, parts.config.quotas, key.tenant_id, key.owner, turns)
    if operation.name == "put_claims" and not visit.caller.is_service:
        await _check_new_claims(visit, **given)
    try:
        return await getattr(visit.memory.parts.archive, operation.name)(**given)
    except StorageFailed as error:
        if error.details.get("errno") != "ENOENT":
            raise
        raise NotFound("this was erased meanwhile") from None


async def _check_new_claims(visit: Visit, scope: Scope, key: SessionKey, claims: Sequence[Claim], **_: Any) -> None:
    """The index finds a claim by its id alone; one that does not follow from its session may be somebody else's."""
    new = [claim for claim in claims if claim.claim_id not in _own_ids(key, claim)]
    there = {claim.claim_id for claim in await visit.memory.parts.archive.read_claims(scope, key)} if new else set()
    if any(claim.claim_id not in there for claim in new):
        raise InvalidArgument("claim_id does not follow from the claim", field="claims.claim_id", reason="claim_id")


def _own_ids(key: SessionKey, claim: Claim) -> tuple[str, str]:
    """By what it says, and, where calls are counted, by the turn they begin with."""
    plain = claim_id(key, claim.kind, claim.statement)
    return plain, claim_id(key, claim.kind, claim.statement, claim.spans[0].turn_id)


async def _holds(visit: Visit, operation: Operation, given: dict[str, Any]) -> Any:
    queue = visit.memory.parts.queue
    if "job_id" in given:
        job = await queue.get(given["job_id"])
        try:
            if job is not None:
                check_job(visit.caller, job)
        except (InvalidArgument, PermissionDenied):
            job = None  # that somebody else has it is nobody's business
        if job is None:
            raise NotFound("there is no such job", job_id=given["job_id"])
    return await getattr(queue, operation.name)(**given)


async def _replicas(visit: Visit, operation: Operation, given: dict[str, Any]) -> Any:
    for told in ("fresh", "page"):  # what is archived is read here
        given.pop(told, None)
    if "record" in given:
        await _check_page(visit, given["record"])
    return await getattr(visit.memory.parts.replicas, operation.name)(**given)


async def _check_page(visit: Visit, record: SessionRecord) -> None:
    """Whom a session is for is said by its page in the archive; nobody has it told to others."""
    there = await visit.memory.parts.archive.read_session(Scope.steward_of(record.tenant_id), record.key)
    if there is not None and set(there.principals) != set(record.principals):
        raise NotFound(f"session {record.session_id} is not within this scope", session_id=record.session_id)


async def _likeness(visit: Visit, operation: Operation, given: dict[str, Any]) -> Any:
    return await getattr(visit.memory.parts.likeness, operation.name)(**given)


def _route(prefix: str, port: type, operation: Operation, serve: _Serve) -> None:
    """One method as one path: its arguments are the body, what it gives is the answer."""
    form = _form(prefix, operation)

    async def handle(here: Here, body: Any) -> Response:
        given = {name: getattr(body, name) for name in body.model_fields_set}
        if serve is not _holds or "job" in given:
            check_call(here.caller, _right(serve, operation), given.values())
        if operation.streams:
            return StreamingResponse(await _begun(_lines(here, operation, given)), media_type=LINES)
        work = serve(here, operation, given)
        result = await (work if operation.name.startswith(_READS) else here.write(work))
        return Response(operation.answer(result), media_type="application/json")

    handle.__annotations__ = {"here": Here, "body": form, "return": Response}
    router.add_api_route(
        f"{prefix}{operation.name}",
        handle,
        methods=["POST"],
        name=f"{prefix.strip('/').replace('/', '_')}_{operation.name}",
        summary=f"{port.__name__}: {operation.name.replace('_', ' ')}",
        response_model=None,
        description=_description(port, operation),
        responses=_answers(operation),
    )


def _right(serve: _Serve, operation: Operation) -> str:
    """Holding, publishing and comparing are part of writing one's own session."""
    return operation.name if serve is _archive else "write_session"


def _form(prefix: str, operation: Operation) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for name, parameter in operation.signature.parameters.items():
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (operation.hints[name], default)
    title = "".join(part.title() for part in f"{prefix.strip('/')}/{operation.name}".replace("/", "_").split("_"))
    config = ConfigDict(
        extra="forbid",
        frozen=True,
        ser_json_bytes="base64",
        val_json_bytes="base64",
        json_schema_extra={"examples": [request_example(operation.name, list(fields))]},
    )
    made: type[BaseModel] = create_model(title, __config__=config, **fields)
    return made


async def _begun(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """What is refused is refused before the first line goes out."""
    first = await anext(lines, b"")

    async def all_of_them() -> AsyncIterator[bytes]:
        yield first
        async for line in lines:
            yield line

    return all_of_them()


async def _lines(visit: Visit, operation: Operation, given: dict[str, Any]) -> AsyncIterator[bytes]:
    async for item in getattr(visit.memory.parts.archive, operation.name)(**given):
        if operation.name == "tenants" and visit.caller.token is not None and item != visit.caller.tenant_id:
            continue  # who else is here is nobody's business
        yield operation.answer(item) + b"\n"


class DumpedFile(Form):
    path: str
    data: str = Field(description="Its bytes in base64.")


class Dump(Form):
    """Files as `dump` gave them."""

    model_config = ConfigDict(
        strict=False, json_schema_extra={"examples": [{**request_example("load", ["scope"]), "files": []}]}
    )

    scope: Scope
    files: list[DumpedFile]


@router.post("/v1/archive/load", summary="Take over files that were dumped", responses=documented({"added": 1}, 409))
async def load(here: Here, body: Dump) -> Response:
    """Every file is checked before the first one is taken over. For service tokens."""
    check_call(here.caller, "load", [body.scope])
    try:
        files = [(f.path, io.BytesIO(base64.b64decode(f.data, validate=True))) for f in body.files]
    except binascii.Error as error:
        raise InvalidArgument(f"data: {error}", field="files.data", reason="base64") from None
    report: LoadReport = await here.write(here.memory.parts.archive.load(body.scope, files))
    return answer(report)


def _answers(operation: Operation) -> dict[int | str, dict[str, Any]]:
    media_type = LINES if operation.streams else "application/json"
    said = documented(answer_example(operation.returns), 404, 409, media_type=media_type)
    if operation.returns is NoneType:
        said[200]["description"] = "Nothing: `null`."
    return said


def _description(port: type, operation: Operation) -> str:
    """What the port promises, and what it takes and gives where it promises nothing more."""
    said = inspect.cleandoc(getattr(port, operation.name).__doc__ or f"`{operation.name}{operation.signature}`")
    how = "One JSON value a line." if operation.streams else ""
    rights = "" if operation.name in FOR_PERSONS or port is not Archive else "For service tokens."
    return "\n\n".join(part for part in (said, how, rights) if part)


for _prefix, _port, _serve in (
    ("/v1/archive/", Archive, _archive),
    ("/v1/holds/", Holds, _holds),
    ("/v1/replicas/", Replicator, _replicas),
    ("/v1/likeness/", Likeness, _likeness),
):
    for _operation in operations(_port, frozenset({"load", "close"})).values():
        _route(_prefix, _port, _operation, _serve)
