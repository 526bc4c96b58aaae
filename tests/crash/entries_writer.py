"""A process that writes, changes, erases and rolls back entries and tells the graph, until it is killed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forkserver import Say, killer, serve
from memory_writer import instrument

from mnemon import AsyncMemory, Config

Op = dict[str, Any]
# Which words an entry has; None where it is out of sight.
Words = int | None
REL = "NEXT"
WHOSE = {"user_id": ["u:u"], "memory_domain": "dialog"}


def secret(id: str) -> str:
    """What stands in all words an entry ever had, and nowhere else."""
    return "s" + hashlib.sha256(id.encode()).hexdigest()[:16]


def said(id: str, words: int) -> str:
    return f"写下的话 {secret(id)} in the words number {words}"


@dataclass
class Book:
    """What there must be after everything that was done: the same account in the writer and in whoever checks."""

    entries: dict[str, list[tuple[int, Words]]] = field(default_factory=dict)
    erased: set[str] = field(default_factory=set)
    links: set[tuple[str, str]] = field(default_factory=set)
    told: dict[str, str] = field(default_factory=dict)

    def enter(self, op: Op, version: int) -> None:
        match op["do"]:
            case "write":
                self.entries |= {id: [(version, 0)] for id in op["ids"]}
                self.links |= {(src, dst) for src, dst in op["links"]}
            case "unwrite":
                for id in op["ids"]:
                    self.entries[id].append((version, None))
                self.links -= {(src, dst) for src, dst in op["links"]}
            case "update":
                self.entries[op["id"]].append((version, op["words"]))
            case "hide":
                self.entries[op["id"]].append((version, None))
            case "undo":
                self.entries[op["id"]].append((version, self.entries[op["id"]][-2][1]))
            case "erase":
                del self.entries[op["id"]]
                self.erased.add(op["id"])
                self.links = {link for link in self.links if op["id"] not in link}
            case "tell":
                self.told[op["who"]] = "pending"
            case decided:
                self.told[op["who"]] = decided

    def sight(self) -> list[str]:
        """The entries that are not out of sight."""
        return [id for id, versions in self.entries.items() if versions[-1][1] is not None]

    def next(self, rng: random.Random, name: str) -> Op:
        """Something that can be done now."""
        seen = self.sight()
        # What went out of sight right after it was written may have gone with others, and would come back with them.
        changed = [id for id, v in self.entries.items() if len(v) > 1 and (len(v) > 2 or v[-1][1] is not None)]
        undecided = [who for who, status in self.told.items() if status == "pending"]
        do = rng.choice(("write", "write", "write", "update", "update", "hide", "undo", "erase", "tell", "decide"))
        if do in ("update", "hide") and seen:
            return {"do": do, "id": rng.choice(seen), "words": rng.randrange(1, 1000)}
        if do == "undo" and changed:
            return {"do": do, "id": rng.choice(changed)}
        if do == "erase" and self.entries:
            return {"do": do, "id": rng.choice(list(self.entries))}
        if do == "tell":
            return {"do": do, "who": name}
        if do == "decide" and undecided:
            return {"do": rng.choice(("approved", "rejected")), "who": rng.choice(undecided)}
        ids = [f"{name}-{letter}" for letter in "ab"[: rng.choice((1, 2))]]
        return {"do": "write", "ids": ids, "links": [[ids[-1], end] for end in {ids[0], *seen[-1:]} - {ids[-1]}]}


async def do(memory: AsyncMemory, book: Book, op: Op) -> int:
    """The version it became; 0 where it has none."""
    whose = {"tenant_id": "t", "user_id": "u"}
    match op["do"]:
        case "write":
            entries = [_entry(id) for id in op["ids"]]
            links = [{"src_id": src, "dst_id": dst, "rel_type": REL} for src, dst in op["links"]]
            return (await memory.write(entries, links, **whose)).version
        case "unwrite" | "undo":
            version = book.entries[op["id"] if "id" in op else op["ids"][0]][-1][0]
            return (await memory.rollback(version, **whose, reason="undone")).version
        case "update":
            patch = {"contents": [said(op["id"], op["words"])]}
            return (await memory.update(op["id"], patch, **whose, reason="better")).version
        case "hide" | "erase":
            return (await memory.delete(op["id"], **whose, soft=op["do"] == "hide", reason="gone")).version
        case "tell":
            await memory.graph_upsert(_batch(op["who"]), "t", "u")
        case decided:
            view = memory.graph("t", "u")
            await (view.approve if decided == "approved" else view.reject)(f"q {op['who']}")
    return 0


def _entry(id: str) -> dict[str, Any]:
    metadata = {"memory_domain": "dialog", "run_id": id.partition("-")[0], "dedup_skip": True}
    return {"id": id, "kind": "semantic", "contents": [said(id, 0)], "metadata": metadata}


def _batch(who: str) -> dict[str, Any]:
    """Two that may be one."""
    ends = {"entity_id": f"one {who}", "candidate_id": f"two {who}"}
    named = [{"id": id, "name": hashlib.sha256(id.encode()).hexdigest(), **WHOSE} for id in ends.values()]
    return {"entities": named, "pending_equivs": [{"id": f"q {who}", **ends, **WHOSE}]}


async def live(home: Path, run: str, rounds: int, book: Book, say: Say) -> None:
    rng = random.Random(run)
    config = Config(background_worker=False)
    async with AsyncMemory(home, embedder={"provider": "hash", "cache": False}, config=config) as memory:
        say("ready")
        last: Op = {}
        for n in range(rounds):
            op = book.next(rng, f"{run}-{n}")
            if last.get("do") == "write" and n % 3 == 0:
                op = {**last, "do": "unwrite"}
            say("doing", json.dumps(op))
            version = await do(memory, book, op)
            say("done", str(version))
            book.enter(op, version)
            last = op


def run(task: dict[str, Any], say: Say) -> None:
    instrument(killer(task["kill_at"], say))
    book = Book(entries=task["entries"], told=task["told"])  # the links of earlier ones are for others to check
    asyncio.run(live(Path(task["home"]), task["run"], task["rounds"], book, say))
    say("finished")


if __name__ == "__main__":
    serve(run)
