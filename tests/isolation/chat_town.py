"""A town of chats: the same ids in every tenant, people in several groups, private chats, and who may see what of it.

Who may see what is worked out from plain ids and never asks the code under test. Everything said has a mark of its
own (`q7q`); `MNEMON_ISOLATION_SEED` makes the same town again."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Literal

from world import SEED

from mnemon import AsyncMemory

NOW = datetime(2026, 1, 1, tzinfo=UTC)
# Ids that one is the beginning of another, that hold what paths, patterns and lists are made of, or that name both a
# person and a group.
TENANTS = ("acme", "acme:b", "Acme", "acme/users")
USERS = (
    "ann", "ann2", "ann:b", "ann/b", "ann--b", "ann#sender", "ann%2Fb", '"ann"', "g1", "user-ann", "安", "*", "u:ann",
)  # fmt: skip
GROUPS = ("g1", "g10", "g1:ann", "g1/ann", "ann", "%", "g1' OR '1'='1", "开发群", "group:g1")
STRANGERS = ("nobody", "an", "ann ", "g", "ANN", "_")

About = Literal["user", "group", ""]
Kind = Literal["end", "session"]


@dataclass(frozen=True)
class Spoken:
    """One thing said in one chat: a bot's turn, or a turn of a session written beside the bot."""

    tenant: str
    sender: str
    group: str | None
    mark: str
    about: About
    number: int
    chinese: bool
    kind: Kind = "end"

    @property
    def principal(self) -> str:
        """Whose it is: the group's where it was said in one, else the person's."""
        return f"u:{self.sender}" if self.group is None else f"g:{self.group}"

    @property
    def entity(self) -> tuple[str, str] | None:
        """Whom it describes."""
        if self.about == "group":
            return "group", str(self.group)
        return ("user", self.sender) if self.about else None

    @property
    def words(self) -> tuple[str, str, str]:
        """What the bot did, what it learnt, what was said to it."""
        forms = {
            ("user", True): ("记下了", "收藏了{0}号唱片", "我收藏了{0}号唱片"),
            ("user", False): ("Took a note", "keeps a bee hive called {0}", "I keep a bee hive called {0}"),
            ("group", True): ("记下了", "本群的暗号是{0}", "本群的暗号是{0}"),
            ("group", False): ("Took a note", "This group meets in room {0}", "This group meets in room {0}"),
            ("", True): ("查了{0}次列车", "", "{0}次列车几点开？"),
            ("", False): ("Looked up the train {0}", "", "When does {0} leave?"),
        }
        did, learnt, said = (form.format(self.mark) for form in forms[self.about, self.chinese])
        return did, f"{self.sender} {learnt}" if self.about == "user" else learnt, said


@dataclass(frozen=True)
class Asker:
    """Somebody in a chat of theirs, or in a group; `private` asks for their own beside the group's."""

    tenant: str
    user: str
    group: str | None = None
    private: bool = False

    @property
    def everything(self) -> frozenset[str]:
        """Theirs, and the group's."""
        return frozenset({f"u:{self.user}", f"g:{self.group}"} if self.group is not None else {f"u:{self.user}"})

    @property
    def in_chat(self) -> frozenset[str]:
        """In a group the group's alone, unless they want their own as well."""
        return frozenset({f"g:{self.group}"}) if self.group is not None and not self.private else self.everything

    @property
    def options(self) -> dict[str, Any]:
        return {"tenant_id": self.tenant, "user_id": self.user, "group_id": self.group}


@dataclass
class ChatTown:
    seed: int = SEED
    tenants: int = 3
    users: int = 7
    groups: int = 5
    members: int = 3
    rng: random.Random = field(init=False)
    members_of: dict[str, tuple[str, ...]] = field(init=False)
    people: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.people = ("ann", "g1", *self.rng.sample([u for u in USERS if u not in ("ann", "g1")], self.users - 2))
        groups = ("g1", "ann", *self.rng.sample([g for g in GROUPS if g not in ("g1", "ann")], self.groups - 2))
        self.members_of = {group: tuple(self.rng.sample(self.people, self.members)) for group in groups}

    @cached_property
    def spoken(self) -> tuple[Spoken, ...]:
        """The same people and groups in every tenant; the turns of a chat are numbered alike in each of them."""
        found: list[Spoken] = []
        count: Counter[tuple[str, str | None, str]] = Counter()

        def say(tenant: str, sender: str, group: str | None, about: About, kind: Kind = "end") -> None:
            chat = (tenant, group, sender if group is None else "")
            count[chat] += 1
            chinese = self.rng.random() < 0.5
            found.append(Spoken(tenant, sender, group, f"q{len(found)}q", about, count[chat], chinese, kind))

        for tenant in TENANTS[: self.tenants]:
            for person in self.people:
                say(tenant, person, None, "user")
                say(tenant, person, None, self.rng.choice(("user", "")))
            for group, members in self.members_of.items():
                say(tenant, members[0], group, "group")
                say(tenant, members[-1], group, "")
                for member in members:
                    say(tenant, member, group, "user")
            for group in (None, *self.members_of):
                say(tenant, self.people[0], group, "", "session")
        return tuple(found)

    async def fill(self, memory: AsyncMemory) -> None:
        """Everything said, told to the memory and digested."""
        for said in self.spoken:
            await (memory.end(**told(said)) if said.kind == "end" else memory.session_write(**written(said)))
        report = await memory.run_jobs()
        assert not report.failed, [job.error for job in await memory.jobs()]
        assert report.succeeded == sum(said.kind == "end" for said in self.spoken)

    def askers(self) -> Iterator[Asker]:
        """Everybody everywhere they are, people in groups that are not theirs, and strangers, without end."""
        while True:
            tenant = self.rng.choice(TENANTS) if self.rng.random() < 0.1 else self.rng.choice(TENANTS[: self.tenants])
            group = self.rng.choice((None, *self.members_of)) if self.rng.random() < 0.8 else self.rng.choice(GROUPS)
            drawn = self.rng.random()
            of_group = self.members_of.get(str(group), self.people)
            user = self.rng.choice(of_group if drawn < 0.7 else self.people if drawn < 0.85 else STRANGERS)
            yield Asker(tenant, user, group, private=group is not None and self.rng.random() < 0.4)

    def said_to(
        self, asker: Asker, principals: Collection[str], also: Callable[[Spoken], bool] = lambda _: True
    ) -> set[str]:
        """The marks of what these principals of the asker's tenant may see."""
        return {
            said.mark
            for said in self.spoken
            if said.tenant == asker.tenant and said.principal in principals and also(said)
        }


def told(said: Spoken) -> dict[str, Any]:
    """A bot's turn, in the words of `end`. Requests and messages are numbered alike in every chat."""
    did, learnt, words = said.words
    message = {"message_id": f"m{said.number}", "sender_id": said.sender, "text": words}
    return {
        "tenant_id": said.tenant,
        "request_id": f"r{said.number}",
        "end_seq": 1,
        "action_summary": did,
        "new_info": learnt,
        "user_id": said.sender,
        "group_id": said.group,
        "messages": [message],
        "timestamp": NOW - timedelta(hours=said.number % 3),
        "timezone": "Asia/Shanghai",
    }


def written(said: Spoken) -> dict[str, Any]:
    """A session beside the bot, by the person or to the group."""
    text = said.words[2]
    return {
        "tenant_id": said.tenant,
        "user_id": said.sender,
        "group_id": said.group,
        "session_id": "beside",
        "visibility": "private" if said.group is None else "group",
        "turns": [{"role": "user", "text": text}],
        "extract": False,
        "stages": "off",
    }
