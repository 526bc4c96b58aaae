"""Chats: whoever asks, wherever they are, at whatever door, gets what was said in that chat, all of it, and nothing of
any other; and nobody changes another's chat, or finds out that it is there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from asking_chats import Examination, HttpExamination, Verdicts, all_marks
from asking_http import Knocking
from chat_town import ChatTown, told
from meddling_http import but_for, fingerprint
from tally import Tally
from town import Town, Visitor, opened
from world import SEED, TIMES, Caller, World, marks

from mnemon import AsyncMemory, Config, Scope, errors
from mnemon.contracts.chats import EndCall
from mnemon.contracts.scope import Owner
from mnemon.drivers.embed.hash import HashEmbedder
from mnemon.engine import cognitive, recollection
from mnemon.pipelines.historian.context import ContextMaker
from mnemon.pipelines.historian.events import EventFinder
from mnemon.pipelines.historian.profiles import ProfileKeeper
from mnemon.surfaces.http import identity, visit

QUIET = Config(background_worker=False)
CHECKS = 250_000
# Where nothing that was said stands, however much one sees.
WORDLESS = {
    "nodes",
    "graph.entities",
    "graph.timeslices",
    "graph.pending_equivs",
    "graph.resolve",
    "graph.states",
    "video_v1",
}
_PROFILES = "/v1/cognitive/profiles"


async def test_nothing_said_in_one_chat_is_ever_found_in_another(tmp_path: Path) -> None:
    town = ChatTown(SEED)
    tally = Verdicts(SEED, town=all_marks(town))
    async with opened(tmp_path, World(SEED, rows_per_tenant=1)) as service:
        await town.fill(service.memory)
        for examination, share in (
            (Examination(service.memory, town, tally), 0.85),
            (HttpExamination(service, town, tally), 1.0),
        ):
            await examination.look_around()
            while tally.checks < share * CHECKS * TIMES:
                await examination.ask(5)
    assert not tally.leaks, f"{len(tally.leaks)} leaks, seed {SEED}: {tally.leaks[:5]}"
    assert not tally.missing, f"{len(tally.missing)} incomplete, seed {SEED}: {tally.missing[:5]}"
    in_vain = {door for door, found in tally.found_at.items() if not found}
    assert in_vain == WORDLESS, in_vain ^ WORDLESS
    print(f"chats: {tally.checks} checks of {tally.answers} answers, seed {SEED}")


# --- somebody else's chat


@asynccontextmanager
async def small_town(home: Path) -> AsyncIterator[tuple[Town, ChatTown]]:
    """Two people with a private chat each, two groups of which each is in one, and a tenant with the same."""
    town = ChatTown(SEED, tenants=2, users=2, groups=2, members=1)
    town.members_of = {"g1": ("ann",), "ann": ("g1",)}
    async with opened(home, World(SEED, rows_per_tenant=1)) as service:
        await town.fill(service.memory)
        yield service, town


Answer = Coroutine[Any, Any, httpx.Response]


class Meddling:
    """ann, who is in the group g1, against g1, who is a person in the group ann."""

    def __init__(self, service: Town, tally: Tally) -> None:
        self._tally = tally
        self._knock = Knocking(service.client)
        self._memory = service.memory
        self.ann = service.person(Caller("acme", "ann", group="g1"), [], entered=False)
        self.ann_in_group = service.person(Caller("acme", "ann", group="g1"), [], entered=True)

    async def try_to_change(self) -> None:
        for who in (self.ann, self.ann_in_group):
            for what, attempt in {**self._ends(who), **self._changes(who)}.items():
                answer = await attempt
                refused = answer.status_code in (403, 404, 422) and not marks(answer.text)
                self._tally.refused(who, f"{what}: {answer.text}", refused)

    def _ends(self, who: Visitor) -> dict[str, Answer]:
        """Into another's chat, in another's name, and with headers that say otherwise."""
        turn = {"request_id": "planted", "end_seq": 1, "new_info": "planted by ann"}

        def end(body: dict[str, Any], **headers: bytes) -> Answer:
            return self._knock.post(who, "/v1/end", {**turn, **body}, **headers)

        return {
            "end for another": end({"user_id": "g1"}),
            "end in the name of another": end({"sender_id": "g1"}),
            "end into a group": end({"group_id": "ann"}),
            "end into a group as another": end({"group_id": "ann", "user_id": "g1", "sender_id": "g1"}),
            "end into a group by its header": end({}, group=b"ann"),
            "end for another by the header": end({}, user=b"g1"),
            "end in another tenant": end({}, **{"X-Tenant-ID": b"acme:b"}),
            "end with a tenant in the body": end({"tenant_id": "acme:b"}),
        }

    def _changes(self, who: Visitor) -> dict[str, Answer]:
        post = self._knock.post
        tries = {
            f"roll back {kind} {name} {more}": post(who, f"{_PROFILES}/{kind}/{name}/rollback", {"version": 1, **more})
            for kind, name in (("user", "g1"), ("group", "ann"))
            for more in ({}, {"include_private": True})
        }
        for what in ("user", "group"):
            tries[f"forget {what}"] = post(
                who, "/v1/forget", {"what": what}, **{what: b"ann" if what == "group" else b"g1"}
            )
        tries["roll back in the group"] = post(who, f"{_PROFILES}/user/g1/rollback", {"version": 1}, group=b"ann")
        return tries

    async def try_to_find_out(self) -> None:
        """Somebody else's and nobody's are told in the same words."""
        for who in (self.ann, self.ann_in_group):
            for what, there, nowhere, ask in self._questions(who):
                one, other = [but_for(await ask(name), name) for name in (there, nowhere)]
                self._tally.refused(who, f"tell {there!r} from {nowhere!r} by {what}: {one} {other}", one == other)

    def _questions(self, who: Visitor) -> list[tuple[str, str, str, Callable[[str], Answer]]]:
        get, post = self._knock.get, self._knock.post
        turn = {"request_id": "r1", "end_seq": 1, "new_info": "planted by ann"}
        person, group = ("g1", "zz"), ("ann", "zzz")
        asks: list[tuple[str, tuple[str, str], Callable[[str], Answer]]] = [
            ("a profile", person, lambda n: get(who, f"{_PROFILES}/user/{n}")),
            ("a history", person, lambda n: get(who, f"{_PROFILES}/user/{n}/history")),
            ("a diff", person, lambda n: get(who, f"{_PROFILES}/user/{n}/diff", from_version=1)),
            ("rolling back", person, lambda n: post(who, f"{_PROFILES}/user/{n}/rollback", {"version": 1})),
            ("a group's profile", group, lambda n: get(who, f"{_PROFILES}/group/{n}")),
            ("a group's history", group, lambda n: get(who, f"{_PROFILES}/group/{n}/history")),
            ("rolling a group back", group, lambda n: post(who, f"{_PROFILES}/group/{n}/rollback", {"version": 1})),
            ("events of a person", person, lambda n: self._search("events", who, target_user_id=n)),
            ("events of a group", group, lambda n: self._search("events", who, target_group_id=n)),
            ("profiles of a person", person, lambda n: self._search("profiles", who, entity_type="user", entity_id=n)),
            ("entering a group", group, lambda n: post(who, "/v1/cognitive/context", {"query": "q"}, group=n.encode())),
            ("ending for a person", person, lambda n: post(who, "/v1/end", {**turn, "user_id": n})),
            ("ending as a person", person, lambda n: post(who, "/v1/end", {**turn, "sender_id": n})),
            ("ending in a group", group, lambda n: post(who, "/v1/end", {**turn, "group_id": n})),
            ("a tenant", ("acme:b", "nowhere"), lambda n: post(who, "/v1/end", turn, **{"X-Tenant-ID": n.encode()})),
        ]
        return [(what, *names, ask) for what, names, ask in asks]

    def _search(self, what: str, who: Visitor, **narrow: str) -> Answer:
        return self._knock.post(who, f"/v1/cognitive/search_{what}", {"query": "bee hive 唱片", **narrow})


async def test_nobody_changes_another_s_chat_or_finds_out_that_it_is_there(tmp_path: Path) -> None:
    tally = Tally(SEED)
    async with small_town(tmp_path) as (service, _):
        before = await fingerprint(service.memory, ["acme", "acme:b"])
        meddling = Meddling(service, tally)
        await meddling.try_to_change()
        await meddling.try_to_find_out()
        assert not tally.leaks, "\n".join(tally.leaks)
        assert await fingerprint(service.memory, ["acme", "acme:b"]) == before
    assert tally.checks >= 56


async def test_in_process_too_another_s_is_told_like_nobody_s(tmp_path: Path) -> None:
    async with small_town(tmp_path) as (service, _):
        before = await fingerprint(service.memory, ["acme", "acme:b"])
        for group in (None, "g1"):
            door = service.memory.cognitive("acme", "ann", group)
            for kind, there, nowhere in (("user", "g1", "zz"), ("group", "ann", "zzz")):
                for ask in (
                    lambda name, k=kind, d=door: d.get_profile(k, name),
                    lambda name, k=kind, d=door: d.profile_history(k, name),
                    lambda name, k=kind, d=door: d.profile_diff(k, name, 1),
                    lambda name, k=kind, d=door: d.rollback_profile(k, name, 1),
                ):
                    words = []
                    for name in (there, nowhere):
                        with pytest.raises(errors.NotFound) as caught:
                            await ask(name)
                        words.append(str(caught.value.envelope()).replace(name, "…"))
                    assert words[0] == words[1]
        assert await fingerprint(service.memory, ["acme", "acme:b"]) == before


@pytest.mark.parametrize("name", ["ann\n", "ann\x00", "a\tnn", "", " ", "ann\x7f", "\ud800"])
async def test_an_id_that_could_pass_for_another_is_refused_at_every_door(tmp_path: Path, name: str) -> None:
    async with AsyncMemory(tmp_path, llm="rules", embedder=HashEmbedder(), config=QUIET) as memory:
        door = memory.cognitive("acme", "ann")
        turn = {"tenant_id": "acme", "request_id": "r", "end_seq": 1, "new_info": "x", "user_id": "ann"}
        for field in ("tenant_id", "user_id", "group_id", "sender_id", "request_id"):
            with pytest.raises(errors.InvalidArgument):
                await memory.end(**{**turn, field: name})
        for attempt in (
            door.get_profile("user", name),
            door.profile_history("group", name),
            door.search_profiles("tea", "user", name),
            door.search_events("tea", target_user_id=name),
            door.search_events("tea", target_group_id=name),
        ):
            with pytest.raises(errors.InvalidArgument):
                await attempt
        for who in ({"user_id": name}, {"user_id": "ann", "group_id": name}):
            with pytest.raises(errors.InvalidArgument):
                memory.cognitive("acme", **who)
        assert not await memory.jobs()


# --- and if the rule were broken?


def _as_it_is(scope: Scope) -> Scope:
    return scope


def _wider(method: Callable[..., Any], more: Callable[..., set[str]]) -> Callable[..., Any]:
    """The same in a scope that holds more; what, is worked out from what was asked."""

    async def asked(self: Any, scope: Scope, *args: Any) -> Any:
        return await method(self, replace(scope, principals=scope.principals | more(scope, *args)), *args)

    return asked


def _targets(_: Scope, query: str, user: str | None, group: str | None, *__: object) -> set[str]:
    return {f"u:{user}"} | {f"g:{group}"}


def _the_entity(_: Scope, kind: str, name: str) -> set[str]:
    return {f"{kind[0]}:{name}"}


def _every_group(*_: object) -> set[str]:
    return {"g:g1", "g:ann"}


def _everybody(*_: object) -> set[str]:
    return {"u:ann", "u:g1", "g:g1", "g:ann"}


def _the_person(_: Scope, query: str, user: str, *__: object) -> set[str]:
    return {f"u:{user}"}


def _with_what_is_private(*named: Any) -> Scope:
    return Scope.of(*named[:5])


def _whom_the_body_names(caller: identity.Caller, *named: str | None) -> dict[str, Any]:
    return {"tenant_id": caller.tenant_id, **dict(zip(("user_id", "group_id", "sender_id"), named, strict=True))}


def _always_private(here: visit.Visit, include_private: bool = False) -> cognitive.AsyncCognitive:
    caller = here.caller
    return here.memory.cognitive(caller.tenant_id, caller.user_id, caller.group_id, include_private=True)


Mutant = tuple[object, str, Callable[..., Any]]
READING: dict[str, Mutant] = {
    "the door does not narrow": (cognitive, "in_chat", _as_it_is),
    "targets widen": (EventFinder, "find", _wider(EventFinder.find, _targets)),
    "tags stand in for the scope": (ProfileKeeper, "search", _wider(ProfileKeeper.search, _everybody)),
    "a profile is composed of every group's": (ProfileKeeper, "get", _wider(ProfileKeeper.get, _every_group)),
    "a profile is anybody's who names it": (ProfileKeeper, "_nodes", _wider(ProfileKeeper._nodes, _the_entity)),
    "the prompt holds what is private": (ContextMaker, "make", _wider(ContextMaker.make, _the_person)),
    "retrieval in a group holds what is private": (recollection, "_asking", _with_what_is_private),
}
OVER_HTTP: dict[str, Mutant] = {
    "a route forgets the chat": (visit.Visit, "chat", _always_private),
    "end takes the user of the body": (identity.Caller, "chat_of", _whom_the_body_names),
}


async def test_doors_that_show_too_much_are_caught(tmp_path: Path) -> None:
    async with small_town(tmp_path) as (service, town):
        assert not (await _examined(service, town)).leaks
        for name, mutant in (READING | OVER_HTTP).items():
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(*mutant)
                assert (await _examined(service, town)).leaks, name


@pytest.mark.parametrize(
    "wrong",
    [
        lambda call: Owner.user(call.user_id),  # what is said in a group is the person's
        lambda call: Owner.group(call.group_id or call.user_id),  # a private chat is a group of that name
    ],
)
async def test_turns_kept_in_the_wrong_folder_are_caught(tmp_path: Path, wrong: Callable[[EndCall], Owner]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(EndCall, "owner", property(wrong))
        patched.setattr(ChatTown, "fill", _as_far_as_it_goes)
        async with small_town(tmp_path) as (service, town):
            assert (await _examined(service, town)).leaks


async def _as_far_as_it_goes(town: ChatTown, memory: AsyncMemory) -> None:
    """Chats that fall into one have turns of the same name."""
    for said in town.spoken:
        with suppress(errors.Conflict):
            await memory.end(**told(said))
    await memory.run_jobs()


async def _examined(service: Town, town: ChatTown) -> Verdicts:
    """As many questions as it takes to find something, and not very many."""
    tally = Verdicts(SEED, town=all_marks(town))
    examinations = Examination(service.memory, town, tally), HttpExamination(service, town, tally)
    for examination in examinations:
        await examination.look_around()
    for _ in range(12):
        for examination in examinations:
            if not tally.leaks:
                await examination.ask(1)
    if not tally.leaks:
        await Meddling(service, tally).try_to_change()
    return tally
