"""Public conversation datasets as sessions to write and questions to ask; each is read from its own folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from mnemon.contracts.errors import InvalidArgument, NotFound

Row = dict[str, Any]
Unit = Literal["turn", "session"]

_SPOKEN = re.compile(r"(?:^|\n)(User|Assistant): ")


@dataclass(frozen=True, slots=True)
class Conversation:
    owner: str
    session_id: str
    turns: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """`before` is the moment it is asked at, where what comes later must not count; `answer` is for a judge only."""

    id: str
    owner: str
    text: str
    category: str
    evidence: frozenset[str]
    before: str | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """`unit` says what evidence names: a turn by its id, or a session."""

    name: str
    unit: Unit
    conversations: tuple[Conversation, ...]
    questions: tuple[Question, ...]

    @property
    def owners(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c.owner for c in self.conversations))

    def first(self, limit: int) -> Dataset:
        """The same with fewer questions."""
        return replace(self, questions=self.questions[:limit])


def load(name: str, folder: Path) -> Dataset:
    """`folder` holds `docs.jsonl` and `queries.jsonl`; see docs/retrieval.md for their fields."""
    try:
        read = _READERS[name]
    except KeyError:
        raise InvalidArgument(f"dataset must be one of {', '.join(_READERS)}", field="dataset") from None
    docs, queries = (list(_rows(folder / file)) for file in ("docs.jsonl", "queries.jsonl"))
    try:
        return read(docs, queries)
    except KeyError as error:
        raise InvalidArgument(f"{folder}: a row has no field {error}", field="data") from None


def _rows(path: Path) -> Iterator[Row]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}", field="data") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield json.loads(line)
            except json.JSONDecodeError as error:
                raise InvalidArgument(f"{path.name}, line {number}: {error.msg}", field="data") from None


def _locomo(docs: list[Row], queries: list[Row]) -> Dataset:
    """Two people, many sessions; evidence names turns."""
    sessions = [
        Conversation(
            owner,
            str(session),
            tuple(
                {
                    "turn_id": row["doc_id"],
                    "role": "user",
                    "speaker": row["speaker"],
                    "text": row["text"],
                    "timestamp_iso": datetime.strptime(row["date"], "%I:%M %p on %d %B, %Y").isoformat(),
                }
                for row in rows
            ),
        )
        for (owner, session), rows in groupby(docs, key=lambda row: (row["group"], row["session"]))
    ]
    asked = tuple(_question(row, row["question"]) for row in queries)
    return Dataset("locomo", "turn", tuple(sessions), asked)


def _realmem(docs: list[Row], queries: list[Row]) -> Dataset:
    """A person and an assistant over months; evidence names sessions, and only those before the question count."""
    begun = {(row["group"], row["order"]): _on_its_day(row) for row in docs}
    sessions = []
    for row in docs:
        spoken = _SPOKEN.split(row["text"])[1:]
        at = begun[row["group"], row["order"]].isoformat()
        turns = (
            {"turn_id": str(n), "role": role.lower(), "text": text.strip(), "timestamp_iso": at}
            for n, (role, text) in enumerate(zip(spoken[::2], spoken[1::2], strict=True))
        )
        sessions.append(Conversation(row["group"], row["doc_id"], tuple(turns)))
    asked = []
    for row in queries:
        known = [at for (group, order), at in begun.items() if group == row["group"] and order < row["before"]]
        before = (max(known) + timedelta(seconds=1)).isoformat() if known else None
        asked.append(replace(_question(row, row["question"]), before=before))
    return Dataset("realmem", "session", tuple(sessions), tuple(asked))


def _on_its_day(row: Row) -> datetime:
    """Sessions of one day keep their order."""
    return datetime.fromisoformat(row["date"][:10]).replace(tzinfo=UTC) + timedelta(minutes=row["order"])


def _madial(docs: list[Row], queries: list[Row]) -> Dataset:
    """Chinese memories of one person, each a sentence; the question is what the person says in a later dialogue."""
    sessions = tuple(
        Conversation(
            row["group"],
            row["doc_id"],
            ({"turn_id": row["doc_id"], "role": "user", "text": row["text"], "timestamp_iso": row["date"]},),
        )
        for row in docs
    )
    return Dataset("madial", "turn", sessions, tuple(_question(row, row["userq"]) for row in queries))


def _question(row: Row, text: str) -> Question:
    answer = None if row.get("answer") is None else str(row["answer"])
    evidence = frozenset(row["evidence"])
    return Question(row["query_id"], row["group"], text, str(row["category"]), evidence, answer=answer)


_READERS: dict[str, Callable[[list[Row], list[Row]], Dataset]] = {
    "locomo": _locomo,
    "realmem": _realmem,
    "madial": _madial,
}
NAMES = tuple(_READERS)
