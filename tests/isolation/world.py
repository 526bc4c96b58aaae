"""A world of people whose ids are easily taken for each other, and who may see what in it.

Everything here is worked out from plain ids and never asks the code under test, so it can judge any door: the ports,
the strategies, HTTP. One number (`MNEMON_ISOLATION_SEED`) makes the same world again."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

SEED = int(os.environ.get("MNEMON_ISOLATION_SEED", "20260301"))
TIMES = int(os.environ.get("MNEMON_ISOLATION_TIMES", "1"))

# How many questions each part asks at least; together they are what is promised.
SHARES = {
    "index": 140_000,
    "qdrant": 1_000,
    "archive": 45_000,
    "graph": 12_000,
    "strategies": 6_000,
    "entries": 4_000,
    "http": 3_000,
}
PROMISED = 200_000

# Ids that a careless comparison, pattern, path or query takes for another, or for everybody; each family by itself.
FAMILIES = (
    ("alice", "Alice", "ALICE", "alice ", " alice", "alic", "alice2", "alice:b", "alice/b", "alice,bob"),
    ("alice", "\u0430lice", "alic\u0435", "ａｌｉｃｅ", "alice\u200b", "ali\u200dce", "\ufeffalice", "\\u0061lice"),
    ("alice", "*", "%", "_lice", "al%", "a*", ".*", "^alice$", "[a-z]*", "?lice", "u:*"),
    ("alice", "'", '"', "' OR '1'='1", "alice'--", '"alice"', '["u:alice"]', "\\", "alice\\", "_"),
    ("caf\u00e9", "cafe\u0301", "cafe", "e\u0323\u0301", "e\u0301\u0323", "\u1eb9\u0301", "\u200b"),
    ("stra\u00dfe", "STRASSE", "strasse", "\ufb01n", "fin", "\u212a", "K", "k", "\u0131", "I", "i"),
    ("爱丽丝", "愛麗絲", "爱丽", "１", "1", "①", "一"),
    ("a/b", "a%2Fb", "a~2fb", "a//b", "%2F", "a", "a:b", "b", "../a", "..", ".", "~", "users/a", "ctx://a"),
    ("bob", "u:bob", "u:u:bob", "g:bob", "u:", ":", "u"),
    ("pub", "u:pub", "default", "a:default", "app", "p:app", "team", "g:team", "null", "None", "0"),
    ("x" * 512, "x" * 511 + "y", "x" * 511, "x"),
)
AWKWARD = tuple(dict.fromkeys(id for family in FAMILIES for id in family))

TENANTS = len(FAMILIES)
AUDIENCES = 24  # sets of principals that a tenant's rows are for
WORDS = ("kettle", "绿茶", "lantern", "harbour", "自行车")
KINDS = ("turn", "claim", "chunk")
PUBLIC = frozenset({"pub"})
Visibility = Literal["private", "product", "public", "group"]

_MARK = re.compile(r"q\d+q")


def marks(told: object) -> set[str]:
    """Every mark in whatever was answered, wherever in it it stands."""
    return set(_MARK.findall(told if isinstance(told, str) else repr(told)))


@dataclass(frozen=True)
class Row:
    """Something remembered: its mark is in its text and nowhere else in the world."""

    tenant: str
    id: str
    principals: frozenset[str]
    mark: str
    words: tuple[str, ...]
    kind: str
    session: str

    @property
    def text(self) -> str:
        return " ".join((*self.words, self.mark))


@dataclass(frozen=True)
class Caller:
    """Somebody by plain ids, as they come through any door."""

    tenant: str
    user: str | None = None
    product: str | None = None
    group: str | None = None
    agent: str | None = None

    @cached_property
    def principals(self) -> frozenset[str]:
        named = {"u": self.user, "p": self.product, "g": self.group, "a": self.agent}
        return frozenset({f"{letter}:{id}" for letter, id in named.items() if id is not None} | {"pub"})


@dataclass(frozen=True)
class Asker:
    """A caller and how they narrow what they see; `bare` holds no principal at all."""

    caller: Caller
    match: Literal["within", "any", "all"] = "within"
    narrow: frozenset[str] = frozenset()
    bare: bool = False

    @property
    def tenant(self) -> str:
        return self.caller.tenant

    @cached_property
    def principals(self) -> frozenset[str]:
        return frozenset() if self.bare else self.caller.principals

    def may_see(self, tenant: str, principals: Iterable[str]) -> bool:
        """The rule, said independently: the same tenant, something to be seen by, nothing that is not the caller's."""
        row = set(principals)
        if tenant != self.tenant or not row or row - self.principals:
            return False
        if self.match == "any":
            return any(p in row for p in self.narrow)
        if self.match == "all":
            return len(self.narrow) > 0 and all(p in row for p in self.narrow)
        return True


@dataclass(frozen=True)
class Written:
    """A session as it is handed in: who writes it, for whom, and one mark in every turn."""

    caller: Caller
    session: str
    visibility: Visibility
    turns: tuple[str, ...]
    marks: tuple[str, ...]

    @property
    def owner(self) -> str:
        return f"g:{self.caller.group}" if self.visibility == "group" else f"u:{self.caller.user}"

    @property
    def principals(self) -> frozenset[str]:
        caller = self.caller
        match self.visibility:
            case "private":
                return frozenset({f"u:{caller.user}"} | ({f"p:{caller.product}"} if caller.product else set()))
            case "product":
                return frozenset({f"p:{caller.product}"})
            case "group":
                return frozenset({f"g:{caller.group}"})
            case _:
                return frozenset({"pub"})


@dataclass
class World:
    seed: int = SEED
    rows_per_tenant: int = 220
    rng: random.Random = field(init=False)
    tenants: tuple[str, ...] = field(init=False)
    casts: dict[str, tuple[str, ...]] = field(init=False)  # whom users, groups, products and agents are drawn from

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        drawn = (*self.rng.choice(FAMILIES), *self.rng.sample(AWKWARD, 2 * TENANTS))
        self.tenants = tuple(dict.fromkeys(drawn))[:TENANTS]  # one family that looks alike, and others
        shared = self.rng.choice(FAMILIES)
        # A tenant's people are two families: one has namesakes in every other tenant.
        self.casts = {
            tenant: tuple(dict.fromkeys((*shared, *family)))
            for tenant, family in zip(self.tenants, FAMILIES, strict=True)
        }

    def caller(self, tenant: str | None = None) -> Caller:
        """Somebody of the cast; now and then a stranger, or one from a tenant that is not there."""
        home = tenant or (self.rng.choice(AWKWARD) if self.rng.random() < 0.05 else self.rng.choice(self.tenants))
        cast = self.casts.get(home, AWKWARD)
        pool = AWKWARD if self.rng.random() < 0.15 else cast

        def some(chance: float) -> str | None:
            return self.rng.choice(pool) if self.rng.random() < chance else None

        return Caller(home, self.rng.choice(pool), some(0.5), some(0.5), some(0.4))

    def asker(self) -> Asker:
        caller, drawn = self.caller(), self.rng.random()
        if drawn < 0.7:
            return Asker(caller)
        if drawn < 0.73:
            return Asker(caller, bare=True)
        count = self.rng.choice((0, 1, 1, 2))
        known = sorted(caller.principals | {f"u:{self.rng.choice(AWKWARD)}", "u:*", "*", "%"})
        match = self.rng.choice(("any", "all"))
        return Asker(caller, match, frozenset(self.rng.sample(known, count)))  # type: ignore[arg-type]

    def askers(self, count: int) -> list[Asker]:
        """In every tenant those whose id is a pattern; and so many others."""
        patterns = [Asker(Caller(tenant, user)) for tenant in self.tenants for user in ("*", "%", "_", ".*")]
        return patterns + [self.asker() for _ in range(count)]

    @cached_property
    def audiences(self) -> dict[str, list[frozenset[str]]]:
        """Whom rows are for: one person, a product, a group, everybody, or several together."""
        shapes = ("", "u", "u", "u", "up", "p", "g", "g", "ua", "ug", "gp", "upa")
        return {
            tenant: [
                frozenset(f"{letter}:{self.rng.choice(cast)}" for letter in shapes[n % len(shapes)] or ()) or PUBLIC
                for n in range(AUDIENCES)
            ]
            for tenant, cast in self.casts.items()
        }

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        rows = []
        for n in range(self.rows_per_tenant * len(self.tenants)):
            tenant = self.tenants[n % len(self.tenants)]
            # An id of one tenant is now and then an id of another as well.
            number = n // len(self.tenants) if self.rng.random() < 0.5 else n + 1_000_000
            rows.append(
                Row(
                    tenant,
                    f"{number}:{AWKWARD[number % len(AWKWARD)]}"[:500],
                    self.rng.choice(self.audiences[tenant]),
                    f"q{n}q",
                    tuple(self.rng.sample(WORDS, 2)),
                    self.rng.choice(KINDS),
                    self.rng.choice(self.casts[tenant]),
                )
            )
        return tuple(rows)

    def visible(self, asker: Asker) -> list[Row]:
        return [row for row in self.rows if asker.may_see(row.tenant, row.principals)]

    def sessions(self, count: int, turns: int = 2) -> Iterator[Written]:
        """Sessions to write, several people's under the same session id."""
        for n in range(count):
            caller = self.caller(self.tenants[n % len(self.tenants)])
            visible: list[Visibility] = ["private", "private", "public"]
            if caller.product is not None:
                visible.append("product")
            if caller.group is not None:
                visible.append("group")
            numbers = [n * turns + at for at in range(turns)]
            yield Written(
                caller,
                f"{n // len(self.tenants) % 5}{self.rng.choice(AWKWARD)}"[:500],
                self.rng.choice(visible),
                tuple(self._said(number) for number in numbers),
                tuple(f"q{number}q" for number in numbers),
            )

    def _said(self, number: int) -> str:
        """Something the rules draw a claim from, in either language."""
        mark = f"q{number}q"
        return self.rng.choice(
            (
                f"My dog is called Momo{mark}.",
                f"I don't eat spicy food {mark} any more.",
                f"My name is Ann{mark}.",
                f"我喜欢绿茶{mark}。",
                f"我住在上海{mark}。",
            )
        )


def without_user(caller: Caller) -> Caller:
    """As automatic retrieval in a group sees: what is private stays out."""
    return replace(caller, user=None)


def as_options(caller: Caller) -> dict[str, Any]:
    """A caller in the words of the front door and of the wire."""
    return {
        "tenant_id": caller.tenant,
        "user_id": caller.user,
        "product_id": caller.product,
        "group_id": caller.group,
    }


def chosen(rng: random.Random, wanted: Sequence[str], others: Sequence[str], count: int) -> list[str]:
    """Some of what somebody may see and some of what they may not, mixed."""
    mixed = [rng.choice(pool) for pool in (wanted, others) for _ in range(count) if pool]
    rng.shuffle(mixed)
    return mixed
