"""A process that forgets a claim, a session, a person or a tenant of which there is something in every place, until it
is killed or a call fails; then one that comes next."""

from __future__ import annotations

import asyncio
import ctypes
import json
import tempfile
from pathlib import Path
from typing import Any

from forkserver import Say, killer, serve
from memory_writer import instrument

from mnemon import AsyncMemory, Config, errors
from mnemon.contracts.nodes import Edge
from mnemon.contracts.scope import Scope
from mnemon.logic.shelves import key_at

TENANT, WHO, OTHER, STRANGER = "ourtenant", "wallaby", "bea", "cara"
# What stands in the words of each, and nowhere else.
MARKS = {
    WHO: ("quokka", "貔貅", "numbat"), OTHER: ("pigeon", "麒麟", "heron"), STRANGER: ("badger", "凤凰", "otter"),
}  # fmt: skip
CLAIM = "zyzzyva"
SESSION = f"s1 {MARKS[WHO][0]}"
KILL = -1


def opened(home: Path) -> AsyncMemory:
    config = Config(background_worker=False)
    return AsyncMemory(home, llm="rules", embedder={"provider": "hash", "cache": False}, config=config)


async def fill(memory: AsyncMemory, user: str, tenant: str = TENANT) -> None:
    """A life in every place there is: two sessions, of which one supersedes the other, a corrected claim, a relation, a
    tool's whole output, entries with versions and links, a decision, and what others told the graph."""
    one, two, three = MARKS[user]
    first = [
        f"I love {one} stew.", f"我很喜欢吃{two}糕。", f"My sister Wei lives in {three.title()} Town.",
        f"I love {CLAIM} soup. I live in Oslo." if user == WHO else "I live in Rome.",
    ]  # fmt: skip
    whose: dict[str, Any] = {"tenant_id": tenant, "user_id": user}
    for number, texts in enumerate((first, [f"I hate {one} stew.", f"我现在不吃{two}糕了。"]), 1):
        turns = [
            {"role": "user", "text": text, "timestamp_iso": f"2026-0{number}-01T10:00:0{n}Z"}
            for n, text in enumerate(texts)
        ]
        turns.append({"role": "tool", "text": f"{three} " * 9_000, "timestamp_iso": f"2026-0{number}-01T11:00:00Z"})
        result = await memory.session_write(**whose, session_id=f"s{number} {one}", turns=turns)
        assert result.status == "ok"
        assert result.claims
    (told,) = [c for c in (await memory.claims(**whose)).items if "Wei" in c.statement]
    await memory.correct(**whose, claim_id=told.claim_id, statement=f"Wei has moved to {three}.", reason=f"{one} knows")
    await _relate(memory, tenant, user)
    made = [{"id": f"{letter} {one}", "kind": "semantic", "contents": [f"{two} {letter}"]} for letter in "ab"]
    links = [{"src_id": f"a {one}", "dst_id": f"b {one}", "rel_type": f"NEAR_{three}"}]
    await memory.write(made, links, **whose)
    await memory.update(f"a {one}", {"contents": [f"更好的 {two} {three}"]}, **whose, reason=f"a {one} is better")
    await memory.delete(f"b {one}", **whose, reason=three)
    known = {"user_id": [f"u:{user}"], "memory_domain": "dialog"}
    names = [{"id": id, "name": name, **known} for id, name in ((one, f"{three} Smith"), (three, f"{two} Wu"))]
    equiv = {"id": "q", "entity_id": one, "candidate_id": three, "reason": f"{one} says so", **known}
    await memory.graph_upsert({"entities": names, "pending_equivs": [equiv]}, tenant, user)
    await memory.graph(tenant, user).approve("q")


async def _relate(memory: AsyncMemory, tenant: str, user: str) -> None:
    """Every memory of somebody leads to the next one."""
    scope = Scope.steward_of(tenant)
    uris = [n.uri for n in await memory.nodes(tenant, user)]
    async for owner in memory.parts.archive.owners(scope):
        for uri, to in zip(uris, [*uris[1:], uris[0]], strict=True) if owner.id == user else ():
            edge = Edge(uri, to, "related_to", f"beside {to}")
            await memory.parts.archive.append_edges(scope, key_at(tenant, owner, uri), [edge])


async def forget(memory: AsyncMemory, what: str, claim_id: str) -> bool:
    """Is it complete? A claim that is nowhere was forgotten before."""
    target: dict[str, dict[str, Any]] = {
        "claim": {"user_id": WHO, "claim_id": claim_id},
        "session": {"user_id": WHO, "session_id": SESSION},
        "user": {"user_id": WHO},
        "tenant": {"everything": True},
    }
    try:
        return (await memory.forget(TENANT, **target[what])).complete
    except errors.NotFound:
        assert what == "claim"
        return True


def found(home: Path, words: list[str]) -> list[str]:
    """Where any of these words stands: in a file, or in the name of one."""
    forms = [form for word in words for form in (word.encode(), json.dumps(word)[1:-1].encode())]
    places = []
    for path in sorted(home.rglob("*")):
        held = str(path.relative_to(home)).encode() + (path.read_bytes() if path.is_file() else b"")
        places += [f"{path.relative_to(home)}: {form.decode()}" for form in forms if form in held.lower()]
    return places


async def first(task: dict[str, Any], say: Say) -> None:
    """Forget while one call fails or kills; where it only fails, this same process asks once more."""
    home, faults = Path(task["home"]), ctypes.CDLL(None) if task.get("how") else None
    reader = opened(home) if task["reader"] else None
    if reader is not None:
        await reader.retrieval("stew", TENANT, WHO)
    if faults:
        faults.faults_arm(str(home).encode(), 0, task["how"])  # from here on it knows which files are ours
    async with opened(home) as memory:
        if faults:
            faults.faults_arm(str(home).encode(), task["at"], task["how"])
        try:
            done = await forget(memory, task["what"], task["claim_id"])
        except (OSError, errors.MnemonError) as error:
            say("failed", type(error).__name__)
            done = False
        if faults:
            say("calls", str(faults.faults_calls()))
            faults.faults_arm(b"", 0, 0)
        if done or await forget(memory, task["what"], task["claim_id"]):
            say("found", json.dumps(found(home, task["words"])))
        else:
            # A replica that could not be read is begun anew, and elsewhere while others use it: its old file waits for
            # whoever comes next, and the receipt says so.
            say("unfinished")
    if reader is not None:
        await reader.close()


async def then(task: dict[str, Any], say: Say) -> None:
    """Whoever comes next: a worker, repair, or who asks again."""
    home = Path(task["home"])
    async with opened(home) as memory:
        premises = memory.parts.forgetter.premises
        begun = bool(await premises.promised())
        match task["next"]:
            case "worker":
                await memory.run_jobs()
            case "repair":
                await memory.repair()
            case _:
                assert await forget(memory, task["what"], task["claim_id"])
        assert await premises.promised() == [], "what was promised is not finished"
        if not begun:
            # Killed before the promise was written: who asked was never answered, and asks again.
            assert await forget(memory, task["what"], task["claim_id"])
        say("found", json.dumps(found(home, task["words"])))
        assert [job.kind for job in await memory.jobs()] == []


def run(task: dict[str, Any], say: Say) -> None:
    if "kill_at" in task:
        instrument(killer(task["kill_at"], say))
    asyncio.run(then(task, say) if "next" in task else first(task, say))


async def warm_up() -> None:
    """Load what every fork needs, once."""
    with tempfile.TemporaryDirectory() as home:
        async with opened(Path(home)) as memory:
            await fill(memory, WHO)
            await memory.forget(TENANT, WHO)


if __name__ == "__main__":
    asyncio.run(warm_up())  # its threads end with it
    serve(run)
