"""People with long histories: what they said that matters, in the noise it stood in, and what was asked of it."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from recall_noise import exchanges

from mnemon import Memory
from mnemon.contracts.results import Message

Part = Literal["dev", "practice", "loose_1", "loose_2", "loose_3", "test", "loose_test"]

FOLDER = Path(__file__).parent
DEVELOPMENT: tuple[Part, ...] = ("dev", "practice", "loose_1", "loose_2", "loose_3")
MEASURED: tuple[Part, ...] = ("test", "loose_test")
PARTS = DEVELOPMENT + MEASURED
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
TENANT = "recall"
_SAID = re.compile(r"(?P<key>\w+)? ?(?P<who>[<>]) (?P<text>.+)")
_ROLES = {">": "user", "<": "assistant"}


@dataclass(frozen=True, slots=True)
class Label:
    """An item the answer must hold. `words` must stand in its statement or its evidence, at least one of them in the
    statement; `evidence` are the messages it may rest on, `against` those that speak against it."""

    shelves: frozenset[str]
    statuses: frozenset[str]
    words: tuple[tuple[str, ...], ...]
    evidence: frozenset[str]
    against: frozenset[str]
    optional: bool

    def __str__(self) -> str:
        return f"{' '.join('|'.join(either) for either in self.words)} ({'|'.join(sorted(self.statuses))})"

    @property
    def conflict(self) -> bool:
        return not self.optional and (bool(self.against) or "settled" not in self.statuses)

    @property
    def sides(self) -> frozenset[str]:
        """What stands against what where nobody can tell: each may be cited for and against."""
        return self.evidence | self.against if "uncertain" in self.statuses else frozenset()


@dataclass(frozen=True, slots=True)
class Question:
    """`expect` is empty where nothing can be known; nothing may rest on a message of `never`."""

    ask: str
    kind: str
    expect: tuple[Label, ...]
    never: frozenset[str]


@dataclass(frozen=True, slots=True)
class Said:
    key: str
    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Talk:
    begins: datetime
    said: tuple[Said, ...]


@dataclass(frozen=True, slots=True)
class Person:
    id: str
    language: str
    talks: tuple[Talk, ...]
    questions: tuple[Question, ...]
    keys: frozenset[str]


@cache
def people(part: Part) -> tuple[Person, ...]:
    rows = tomllib.loads((FOLDER / f"{part}_people.toml").read_text(encoding="utf-8"))["people"]
    return tuple(_person(row) for row in rows)


def write(memory: Memory, person: Person) -> None:
    """The person's whole history; a message with a key has it for its turn id."""
    for number, talk in enumerate(person.talks):
        turns = [
            {
                "turn_id": said.key or f"n{place}",
                "role": said.role,
                "text": said.text,
                "timestamp_iso": (talk.begins + timedelta(seconds=20 * place)).isoformat(),
            }
            for place, said in enumerate(talk.said)
        ]
        memory.session_write(TENANT, person.id, f"s{number:03}", turns=turns, extract=False, stages="off")


def messages(memory: Memory, person: Person) -> Iterator[Message]:
    bound, cursor = memory.bind(TENANT, person.id), None
    while True:
        page = bound.messages_list(page_size=200, cursor=cursor)
        yield from page.items
        if (cursor := page.next_cursor) is None:
            return


def _person(row: dict[str, Any]) -> Person:
    planted = list(_talks(row["talks"]))
    begins = datetime.fromisoformat(row["begins"]).replace(tzinfo=UTC)
    talks = sorted(_in_noise(row["id"], row["language"], planted, begins, row["noise"]), key=lambda talk: talk.begins)
    keys = [said.key for talk in planted for said in talk.said if said.key]
    if len(known := set(keys)) < len(keys):
        raise ValueError(f"{row['id']} has two messages of one key")
    questions = tuple(_question(question, known) for question in row["questions"])
    return Person(row["id"], row["language"], tuple(talks), questions, frozenset(known))


def _talks(text: str) -> Iterator[Talk]:
    for block in text.split("@ ")[1:]:
        when, *lines = block.strip().splitlines()
        matches = [_SAID.fullmatch(line) for line in lines]
        said = tuple(Said(m["key"] or "", _ROLES[m["who"]], m["text"]) for m in matches if m)
        if len(said) != len(lines):
            raise ValueError(f"a line of the talk of {when} is not `key > text` or `key < text`")
        yield Talk(datetime.fromisoformat(when).replace(tzinfo=UTC), said)


def _in_noise(id_: str, language: str, planted: list[Talk], begins: datetime, count: int) -> Iterator[Talk]:
    """Small talk before and after every talk that matters, and whole sessions of it in between: `count` messages."""
    rng, noise = random.Random(id_), exchanges(language, id_)
    left = count

    def some(most: int) -> tuple[Said, ...]:
        nonlocal left
        taken = min(rng.randint(0, most), left // 2)
        left -= 2 * taken
        pairs = ((Said("", "user", asked), Said("", "assistant", answered)) for asked, answered in islice(noise, taken))
        return tuple(chain.from_iterable(pairs))

    for talk in planted:
        yield Talk(talk.begins, (*some(2), *talk.said, *some(2)))
    while left > 1:
        if said := some(6):
            yield Talk(begins + rng.random() * (NOW - timedelta(hours=2) - begins), said)


def _question(row: dict[str, Any], known: set[str]) -> Question:
    labels, never = tuple(_label(label) for label in row.get("expect", ())), frozenset(row.get("never", ()))
    named = never.union(*(label.evidence | label.against for label in labels))
    if unknown := named - known:
        raise ValueError(f"{row['ask']}: nobody said {', '.join(sorted(unknown))}")
    if bool(row.get("unanswerable")) == bool(labels):
        raise ValueError(f"{row['ask']}: either something is expected or it is unanswerable")
    return Question(row["ask"], row["kind"], labels, never)


def _label(row: dict[str, Any]) -> Label:
    return Label(
        shelves=frozenset(row["shelf"].split("|")),
        statuses=frozenset(row.get("status", "settled").split("|")),
        words=tuple(tuple(word.split("|")) for word in row["words"]),
        evidence=frozenset(row["evidence"]),
        against=frozenset(row.get("against", ())),
        optional=row.get("optional", False),
    )
