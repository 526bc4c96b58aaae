"""A process that fills an archive, saying each thing before and after it is done, until it is killed."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from forkserver import Say, killer, serve

from mnemon.contracts.nodes import Edge, Shelf
from mnemon.contracts.scope import Owner, Scope, SessionKey
from mnemon.contracts.turns import Attachment, Turn
from mnemon.drivers.archive.fs import FsArchive
from mnemon.testing.archive_suite import (
    ANN,
    KEY,
    NODE,
    STEWARD,
    TENANT,
    claim,
    commit,
    complete,
    derive,
    made_of,
    node,
    record,
    tagging,
    turn,
)
from mnemon.testing.clock import FixedClock

ZED = SessionKey(TENANT, Owner.user("zed"), "s1")
TREASURE = (replace(NODE, slug="treasure"), replace(NODE, slug="宝" * 200, shelf=Shelf.ENTITIES))


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


def words(turn_id: str) -> Turn:
    """The turn of an id: the same one in the writer and in whoever checks."""
    blob = hashlib.sha256(turn_id.encode()).hexdigest()
    cut = Attachment(type="tool_result", truncated=True, sha256=blob, ref=f"blob://{blob}")
    return turn(turn_id, f"说过的话 words of {turn_id} 😀" * 3, attachments=(cut,) if turn_id.endswith("b") else ())


def sessions(run: str) -> list[SessionKey]:
    """Two that every run goes on with, and one with a long name of its own."""
    return [KEY, replace(KEY, session_id="s2"), replace(KEY, session_id="很长" * 100 + run)]


class Writer:
    def __init__(self, home: Path, run: str, say: Say, kill_at: str) -> None:
        self._run = run
        self._say = say
        self._archive = FsArchive(home, SystemClock(), step=killer(kill_at, say))

    async def write(self, rounds: int) -> None:
        for key in sessions(self._run):
            if await self._archive.read_session(ANN, key) is None:
                self._say("opening", key.session_id)
                await self._archive.write_session(ANN, record(FixedClock(), key), 0)
            self._say("opened", key.session_id)
        if not await self._archive.exists(ANN, TREASURE[0]) and not await self._archive.exists(ANN, TREASURE[1]):
            await self._archive.write_node(ANN, node(TREASURE[0], "treasure"))
            self._say("hidden")
        for n in range(rounds):
            await self._round(n)

    async def _round(self, n: int) -> None:
        key = sessions(self._run)[n % 3]
        await self._talk(key, [f"{self._run}-{n}-{i}{'b' if n % 4 == 1 else ''}" for i in range((1, 1, 4)[n % 3])])
        await self._note(f"{self._run}-{n}")
        if n % 3 == 0:
            await self._log(f"{self._run}-{n}")
        if n % 4 == 2:
            await self._move_treasure()
        if n % 4 == 0:
            await self._judge(key)
        if n % 5 == 2:
            await self._forget(key, f"{self._run}-{n}-0")
        if n % 9 == 5:
            await self._erase(replace(KEY, session_id=f"gone-{self._run}-{n}"))
        if n % 9 == 7:
            await self._erase_zed()
        if n % 9 == 8:
            await self._drop(replace(KEY, session_id=f"gone-{self._run}-{n}"))
        if n % 6 == 3:
            await self._promise(key)
        if n % 7 == 6:
            self._say("writing", "-")
            await self._archive.delete_node(ANN, NODE)
            self._say("wrote", "-")

    async def _talk(self, key: SessionKey, ids: list[str]) -> None:
        for turn_id in ids:
            if turn_id.endswith("b"):
                await self._archive.put_blob(ANN, turn_id.encode())
        self._say("saying", key.session_id, *ids)
        await self._archive.append_turns(ANN, key, [words(turn_id) for turn_id in ids])
        self._say("said", key.session_id, *ids)
        await self._archive.append_turns(ANN, key, [words(turn_id) for turn_id in ids])

    async def _note(self, text: str) -> None:
        self._say("writing", text)
        await self._archive.write_node(ANN, node(text=text))
        self._say("wrote", text)
        await self._archive.upsert_edges(ANN, NODE, [Edge(NODE.uri, text, "part_of")])

    async def _log(self, name: str) -> None:
        self._say("logging", name)
        await self._archive.append_log(ANN, "ledger", [{"name": name}, {"name": name + "+"}])
        self._say("logged", name, name + "+")

    async def _judge(self, key: SessionKey) -> None:
        """Claims for the newest words, tags for all of them, and a record of it."""
        stored = await self._archive.read_turns(ANN, key)
        claims = [claim(s.turn, key, s.turn.turn_id) for s in stored[-3:]]
        self._say("claiming", key.session_id, *(c.claim_id for c in claims))
        await self._archive.write_tags(ANN, key, [tagging(stored)])
        await self._archive.put_claims(ANN, key, claims)
        self._say("claimed", key.session_id, *(c.claim_id for c in claims))
        there = await self._archive.read_commits(ANN, key)
        self._say("committing", key.session_id)
        await self._archive.write_commit(ANN, key, commit(len(there) + 1, stored))
        self._say("committed", key.session_id)

    async def _forget(self, key: SessionKey, turn_id: str) -> None:
        """What cites the words goes before they do."""
        turn_id += "b" if int(turn_id.split("-")[-2]) % 4 == 1 else ""
        self._say("forgetting", key.session_id, turn_id)
        await self._archive.put_claims(ANN, key, [], [turn_id])
        kept = [s for s in await self._archive.read_turns(ANN, key) if s.turn.turn_id != turn_id]
        await self._archive.write_tags(ANN, key, [tagging(kept)] if kept else [])
        await self._archive.forget_turns(ANN, key, [turn_id], "asked to")
        self._say("forgot", key.session_id, turn_id)

    async def _filled(self, key: SessionKey) -> Scope:
        scope = Scope.of(TENANT, key.owner.id)
        await self._archive.put_blob(scope, b"gone-b")
        await self._archive.write_session(scope, record(FixedClock(), key), 0)
        await self._archive.append_turns(scope, key, [words("gone"), words("gone-b")])
        return scope

    async def _erase(self, key: SessionKey) -> None:
        scope = await self._filled(key)
        await complete(self._archive, scope, key, **await derive(self._archive, scope, key))
        await self._archive.erase_session(scope, key, "asked to")
        self._say("erased", key.session_id)

    async def _drop(self, key: SessionKey) -> None:
        scope = await self._filled(key)
        await derive(self._archive, scope, key)
        await self._archive.drop_session(scope, key)
        self._say("erased", key.session_id)

    async def _erase_zed(self) -> None:
        """What an earlier run may have left of Zed goes first."""
        await self._archive.erase_owner(STEWARD, ZED.owner)
        scope = await self._filled(ZED)
        await derive(self._archive, scope, ZED)
        made = made_of(*await self._archive.read_claims(scope, ZED))
        await self._archive.write_node(scope, node(replace(NODE, owner=ZED.owner), metadata=made))
        await self._archive.erase_owner(STEWARD, ZED.owner)
        self._say("erased", "zed")

    async def _promise(self, key: SessionKey) -> None:
        """The session's page says how far the words go: from now on nothing of it may be missing."""
        page = await self._archive.read_session(ANN, key)
        assert page is not None
        now = await self._archive.append_turns(ANN, key, [])
        update = {"turn_count": now.turn_count, "chain_head": now.chain_head}
        await self._archive.write_session(ANN, page.model_copy(update=update), page.version)
        self._say("promised", key.session_id, str(now.turn_count))

    async def _move_treasure(self) -> None:
        here, there = TREASURE if await self._archive.exists(ANN, TREASURE[0]) else TREASURE[::-1]
        await self._archive.move_node(ANN, here, there)


def run(task: dict[str, Any], say: Say) -> None:
    asyncio.run(Writer(Path(task["home"]), task["run"], say, task["kill_at"]).write(task["rounds"]))
    say("finished")


if __name__ == "__main__":
    serve(run)
