"""What is known, what waits for a word, and what is to be forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter
from fastapi import Query as InQuery
from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from mnemon.contracts.claims import Claim, ClaimState
from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.governance import Kind
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.results import ClaimPage, ForgetReceipt
from mnemon.surfaces.http.forms import Form, Query
from mnemon.surfaces.http.openapi import documented
from mnemon.surfaces.http.reading import StrictRoute
from mnemon.surfaces.http.visit import Here, answer

router = APIRouter(prefix="/v1", tags=["claims"], route_class=StrictRoute)

_CLAIM = {
    "claim_id": "1c9d3a52-7e0b-5f5f-8a43-2f6f1f6f0a11",
    "tenant_id": "acme",
    "owner_kind": "users",
    "owner_id": "ann",
    "session_id": "s1",
    "principals": ["u:ann"],
    "kind": "preference",
    "shelf": "preferences",
    "routing_key": "food",
    "statement": "Ann does not eat spicy food any more.",
    "confidence": 0.9,
    "language": "en",
    "spans": [{"turn_id": "t1", "start": 0, "end": 32, "text_exact": "I don't eat spicy food any more."}],
    "governance": {"importance": 0.6, "evidence_level": "S0_user_claim", "forget_policy": "until_changed"},
    "state": "active",
    "valid_from": "2026-01-31T08:00:00Z",
    "recorded_at": "2026-01-31T08:00:05Z",
}
_FORGOTTEN = {
    "what": "session",
    "id": "s1",
    "at": "2026-02-01T00:00:00Z",
    "removed": {"turns": 2, "claims": 1},
    "scanned": {"files": 31, "bytes": 260112, "pieces": 12, "said_elsewhere": 0},
}


class Paged(Query):
    limit: int = Field(default=50, ge=1, le=500)
    cursor: str | None = Field(default=None, description="Where the page before ended (`next_cursor`).")


class Listing(Paged):
    state: ClaimState | Literal["any"] = Field(
        default=ClaimState.ACTIVE, description="`any` lists superseded ones too."
    )
    kind: Kind | None = None
    shelf: Shelf | None = None
    session_id: str | None = None


class Correction(Form):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"statement": "Ann eats mild food.", "reason": "she said"}]}
    )

    statement: str = Field(min_length=1)
    reason: str = ""


class Forgetting(Form):
    """What to erase is always said in a word, so that no request erases more than it meant to."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"what": "session", "session_id": "s1"}]})

    what: Literal["claim", "session", "user", "group", "tenant"]
    claim_id: str | None = None
    session_id: str | None = None
    words: bool = Field(default=True, description="Of a claim: mask the words it cites in their turns, too.")

    @model_validator(mode="after")
    def _names_it(self) -> Forgetting:
        for name, of in (("claim_id", "claim"), ("session_id", "session")):
            if (getattr(self, name) is not None) != (self.what == of):
                raise PydanticCustomError(
                    "contradiction", "{field} goes with what={of}, and only with it", {"field": name, "of": of}
                )
        return self


@router.get(
    "/claims",
    summary="What is known, newest first",
    response_model=ClaimPage,
    responses=documented({"items": [_CLAIM], "next_cursor": None}),
)
async def claims(here: Here, asked: Annotated[Listing, InQuery()]) -> Response:
    """Every sentence with the words that prove it."""
    given = {**asked.model_dump(), "state": None if asked.state == "any" else asked.state}
    return answer(await here.memory.claims(**here.person(), **given))


@router.get(
    "/pending",
    summary="Claims that wait to be confirmed or rejected",
    response_model=ClaimPage,
    responses=documented({"items": [{**_CLAIM, "state": "pending"}], "next_cursor": None}),
)
async def pending(here: Here, asked: Annotated[Paged, InQuery()]) -> Response:
    """Newest first."""
    return answer(await here.memory.pending(**here.caller.named(), **asked.model_dump()))


@router.get("/claims/{claim_id}", summary="One claim", response_model=Claim, responses=documented(_CLAIM, 404))
async def claim(here: Here, claim_id: str) -> Response:
    """From the archive."""
    return answer(await here.memory.claim(**here.person(), claim_id=claim_id))


@router.post(
    "/claims/{claim_id}/confirm",
    summary="Let a pending claim become knowledge",
    response_model=Claim,
    responses=documented(_CLAIM, 404, 409),
)
async def confirm(here: Here, claim_id: str) -> Response:
    """With the user's word for it."""
    return answer(await here.write(here.memory.confirm(**here.person(), claim_id=claim_id)))


@router.post(
    "/claims/{claim_id}/reject",
    summary="Take a claim away",
    response_model=Claim,
    responses=documented({**_CLAIM, "state": "expired"}, 404, 409),
)
async def reject(here: Here, claim_id: str) -> Response:
    """Wherever it stands."""
    return answer(await here.write(here.memory.reject(**here.person(), claim_id=claim_id)))


@router.post(
    "/claims/{claim_id}/correct",
    summary="Put a claim in a person's own words",
    response_model=Claim,
    responses=documented({**_CLAIM, "statement": "Ann eats mild food."}, 404, 409),
)
async def correct(here: Here, claim_id: str, form: Correction) -> Response:
    """The evidence stays."""
    work = here.memory.correct(**here.person(), claim_id=claim_id, statement=form.statement, reason=form.reason)
    return answer(await here.write(work))


@router.post(
    "/forget", summary="Erase for good", response_model=ForgetReceipt, responses=documented(_FORGOTTEN, 404, 409)
)
async def forget(here: Here, form: Forgetting) -> Response:
    """A claim with its words, a session, or a person; a service may also erase a group or the whole tenant.

    Of a claim only the words it cites go, and what else was said and known from the same turn stays. In a group
    (`X-Group-ID`) the claim or the session is the group's, which only a service may erase. The receipt comes from a
    look at every file (`scanned`; how many there were is told to a service) and says what went and what, if anything,
    is `left`; it is complete when nothing is. Asked again after it was cut off, it is finished.
    """
    caller = here.caller
    if form.what in ("group", "tenant") or caller.group_id is not None:
        caller.needs_service("forgetting what is not one's own")
    if form.what == "group" and caller.group_id is None:
        raise InvalidArgument("name the group by the header X-Group-ID", field="X-Group-ID", reason="missing")
    if form.what == "user" and caller.group_id is not None:
        raise InvalidArgument("a person is forgotten without X-Group-ID", field="X-Group-ID", reason="contradiction")
    whole = form.what == "tenant"
    work = here.memory.forget(
        caller.tenant_id,
        None if whole or caller.group_id is not None else caller.named()["user_id"],
        session_id=form.session_id,
        claim_id=form.claim_id,
        group_id=None if whole else caller.group_id,
        words=form.words,
        everything=whole,
    )
    receipt = await here.write(work)
    return answer(receipt if caller.is_service else _for_a_person(receipt))


def _for_a_person(receipt: ForgetReceipt) -> ForgetReceipt:
    """How much everybody in the tenant has kept is nobody's business but a service's."""
    own = {name: count for name, count in receipt.scanned.items() if name not in ("files", "bytes")}
    return replace(receipt, scanned=own)
