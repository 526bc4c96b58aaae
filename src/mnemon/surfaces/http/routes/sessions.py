"""Conversations into memory, with the service's own model."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter
from pydantic import ConfigDict, Field, JsonValue
from starlette.responses import Response

from mnemon.contracts.commits import CommitOptions, CommitResult
from mnemon.contracts.nodes import Shelf
from mnemon.contracts.results import SessionWriteResult
from mnemon.surfaces.http.forms import Form, KeylessForm
from mnemon.surfaces.http.notes import request_id
from mnemon.surfaces.http.openapi import documented
from mnemon.surfaces.http.reading import StrictRoute
from mnemon.surfaces.http.visit import Here, answer

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], route_class=StrictRoute)

_TURNS: list[JsonValue] = [
    {
        "turn_id": "t1",
        "role": "user",
        "timestamp_iso": "2026-01-31T08:00:00Z",
        "text": "I don't eat spicy food any more.",
    },
    {"turn_id": "t2", "role": "assistant", "text": "好的，我记下了。"},
]
_WRITTEN = {
    "status": "ok",
    "session_id": "s1",
    "uri": "ctx://acme/users/ann/sessions/s1",
    "version": 2,
    "counts": {"turns": 2, "events_written": 1, "facts_written": 1},
}
_COMMITTED = {
    "archive": None,
    "write_results": [
        {
            "uri": "ctx://acme/users/ann/memories/preferences/food",
            "action": "create",
            "node_version": 1,
            "created": True,
            "updated": False,
        }
    ],
    "outbox_events": [],
    "stats": {"candidates_extracted": 1, "nodes_created": 1},
    "status": "success",
}


class SessionForm(KeylessForm):
    model_config = ConfigDict(json_schema_extra={"examples": [{"session_id": "s1", "turns": _TURNS}]})

    session_id: str = Field(min_length=1, max_length=512)
    turns: list[dict[str, Any]] | None = Field(
        default=None, description="Canonical turns: `role` and `text`; also `turn_id`, `timestamp_iso`, `speaker` …"
    )
    raw: str | list[Any] | dict[str, Any] | None = Field(
        default=None, description="Instead of turns: an export as text or as JSON, with its `input_format`."
    )
    input_format: str | None = Field(default=None, description="The form of `raw`; never guessed.")
    visibility: Literal["private", "product", "public", "group"] = "private"
    extract: bool = True
    write_events: bool = True
    write_facts: bool = True
    graph_upsert: bool = True
    graph_policy: Literal["require", "best_effort"] = "best_effort"
    overwrite_existing: bool = False
    mode: Literal["once", "append"] = "once"
    cleanup_on_failure: bool = False
    llm_policy: Literal["require", "best_effort"] = "require"
    stages: Literal["full", "off"] = "full"
    redact: bool | None = None
    wait: Literal["indexed", "archived"] = "indexed"


@router.post(
    "",
    summary="Keep a conversation and remember what is worth it",
    response_model=SessionWriteResult,
    responses=documented(_WRITTEN, 409),
)
async def write(here: Here, form: SessionForm) -> Response:
    """Word for word, then what follows from it, each memory with the words that prove it.

    The service asks its own model. A client that has a key of its own runs the pipeline itself, and no key is ever sent
    here. A session that is complete is not written again (`skipped_existing`); one that failed is completed by sending
    it again.
    """
    work = here.memory.session_write(**here.person(), **dict(form), trace_id=request_id.get() or None)
    return answer(await here.write(work))


class OptionsForm(Form):
    dry_run: bool = Field(default=False, description="Plan everything and write nothing.")
    skip_archive: bool = False
    skip_dedup: bool = False
    skip_relations: bool = False
    categories_filter: list[Shelf] | None = None
    max_candidates: int | None = Field(default=None, ge=1)


class CommitForm(KeylessForm):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "session_id": "s1",
                    "turns": _TURNS,
                    "used_tools": [{"name": "pytest", "call_count": 3, "success_count": 2, "duration_ms": 120}],
                    "options": {"dry_run": True},
                }
            ]
        }
    )

    session_id: str = Field(min_length=1, max_length=512)
    messages: list[dict[str, Any]] | None = Field(default=None, description="`{role, content}`, as far as it goes.")
    turns: list[dict[str, Any]] | None = Field(default=None, description="Instead: canonical turns.")
    raw: str | list[Any] | dict[str, Any] | None = Field(default=None, description="Instead: with its `input_format`.")
    input_format: str | None = None
    visibility: Literal["private", "product", "public", "group"] = "private"
    used_contexts: list[str] = Field(default=[], description="Addresses of the memories this round made use of.")
    used_tools: list[dict[str, Any]] = Field(default=[], description="The tool calls of this round, or their sums.")
    options: OptionsForm = OptionsForm()
    redact: bool | None = None


@router.post(
    "/commit",
    summary="Commit a session: its archive, its plans and what was written",
    response_model=CommitResult,
    responses=documented(_COMMITTED, 409, 503),
)
async def commit(here: Here, form: CommitForm) -> Response:
    """The same write in the words of a commit. A memory that cannot be written is passed over and named (`partial`);
    sending the same again completes it. Where the archive, the extraction or the plan fails, nothing of it is kept as
    a memory and the answer is an error that names the phase."""
    given = {name: value for name, value in dict(form).items() if name != "options"}
    wanted = form.options.categories_filter
    options = {**dict(form.options), "categories_filter": None if wanted is None else tuple(wanted)}
    work = here.memory.commit_session(
        **here.person(), **given, options=CommitOptions(**options), trace_id=request_id.get() or None
    )
    return answer(await here.write(work))
