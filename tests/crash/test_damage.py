"""Every kind of damage to a home: verify names it, nothing raises, nobody else is touched, and repair mends what can be
mended, salvages what somebody still remembers, and sets the rest aside."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from steady import graph_of, steady

from mnemon import AsyncMemory, Config, Scope
from mnemon.contracts.filters import EVERYTHING
from mnemon.contracts.nodes import Edge
from mnemon.contracts.scope import Owner, SessionKey
from mnemon.logic.shelves import key_at

pytestmark = pytest.mark.crash

LONG = bool(os.environ.get("MNEMON_LONG"))
LONG_ID = "很长的会话" * 60  # its folder's name is a hash
ANN = "tenants/acme/users/ann"
SESSION = f"{ANN}/sessions/s1"
OTHER = f"{ANN}/sessions/s2"
NODE = f"{ANN}/memories/profile/profile"


@asynccontextmanager
async def opened(home: Path) -> AsyncIterator[AsyncMemory]:
    config = Config(background_worker=False)
    embedder = {"provider": "hash", "cache": False}
    async with AsyncMemory(home, llm="rules", embedder=embedder, config=config) as memory:
        yield memory


def said(day: int, *texts: str) -> list[dict[str, Any]]:
    return [
        {"turn_id": f"t{n}", "role": "user", "text": text, "timestamp_iso": f"2026-0{day}-01T10:00:{n:02d}Z"}
        for n, text in enumerate(texts, 1)
    ]


FIRST = (
    "I live in Rome.",
    "我很喜欢吃辣。",
    "My sister Wei lives in Lisbon.",
    "I work at Siemens.",
    "I love basil soup.",
)
SECOND = ("I live in Oslo now.", "我现在不吃辣了。", "My sister Wei moved to Porto.")


async def _filled(home: Path) -> None:
    async with opened(home) as memory:
        await memory.session_write("acme", "ann", "s1", turns=said(1, *FIRST))
        await memory.session_write("acme", "ann", "s2", turns=said(2, *SECOND))
        await memory.session_write("acme", "ann", LONG_ID, turns=said(3, "I love black tea."), extract=False)
        tool = {"role": "tool", "text": "x" * 9_000, "turn_id": "big"}
        await memory.session_write("acme", "ann", "s4", turns=[*said(4, "我对花生过敏。"), tool])
        await memory.write(
            [{"kind": "semantic", "modality": "text", "contents": ["an entry"]}], tenant_id="acme", user_id="ann"
        )
        await memory.write(
            [{"kind": "semantic", "modality": "text", "contents": ["another"]}], tenant_id="acme", user_id="ann"
        )
        await _relate(memory)
        for tenant, user in (("acme", "bob"), ("globex", "ann")):
            await memory.session_write(tenant, user, "s1", turns=said(5, "I live in Bergen.", "我喜欢乌龙茶。"))


async def _relate(memory: AsyncMemory) -> None:
    """A relation that a commit made, as a model's would."""
    archive, scope, key = memory.parts.archive, Scope.steward_of("acme"), SessionKey("acme", Owner.user("ann"), "s1")
    (commit,) = await archive.read_commits(scope, key)
    change = next(c for c in commit.changes if "/profile/" in c.uri)
    edge = Edge(change.uri, change.uri.replace("/profile/profile", "/entities/wei"), "references", "Wei")
    row = {"to_uri": edge.to_uri, "relation_type": edge.relation_type, "reason": edge.reason, "weight": edge.weight}
    told = [c.model_copy(update={"relations": (row,)}) if c is change else c for c in commit.changes]
    await archive.write_commit(scope, key, commit.model_copy(update={"changes": tuple(told)}))
    await archive.upsert_edges(scope, key_at("acme", key.owner, edge.from_uri), [edge])


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("filled") / "home"
    asyncio.run(_filled(home))
    return home


Content = dict[str, Any]


async def content(memory: AsyncMemory, tenant: str, user: str = "") -> Content:
    """What archive, index and graph hold of a tenant, or of one person in it, without times, versions and salts."""
    scope, archive = Scope.steward_of(tenant), memory.parts.archive
    found: Content = {}
    async for owner in archive.owners(scope):
        if user and owner.id != user:
            continue
        async for record in archive.sessions(scope, owner):
            key = record.key
            turns = await archive.read_turns(scope, key)
            found[f"words {key.uri}"] = [(t.seq, t.turn.turn_id, t.turn.text) for t in turns]
            claims = await archive.read_claims(scope, key)
            found[f"claims {key.uri}"] = sorted((c.claim_id, c.statement, str(c.state)) for c in claims)
            found[f"page {key.uri}"] = (record.status, record.principals, sorted(record.claim_ids), record.commits)
        for summary in await archive.list_children(scope, owner, recursive=True):
            if not summary.is_dir:
                node = await archive.read_node(scope, key_at(tenant, owner, summary.uri))
                edges = await archive.get_edges(scope, node.key)
                found[summary.uri] = steady(node.content), sorted((e.to_uri, e.relation_type) for e in edges)
    rows, cursor = [], None
    while True:
        page = await memory.parts.index.scroll(scope, EVERYTHING, "oldest", 500, cursor)
        rows += [(e.kind, e.id, e.text) for e in page.entries if not user or user in str(e.fields.get("uri"))]
        if (cursor := page.next_cursor) is None:
            break
    found["index"] = sorted(rows)
    if not user:
        told = await graph_of(memory, scope)
        found["graph"] = sorted(
            (name, str(item.get("summary", item.get("raw_text", "")))) for name, item in told.items()
        )
    return found


# --- damage


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garbage(path: Path) -> None:
    path.write_bytes(b"\xff\xfe" + b"garbage\0" * 200)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def delete(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def folder(path: Path) -> None:
    delete(path)
    path.mkdir()


def replacing(old: bytes, new: bytes) -> Callable[[Path], None]:
    def replaced(path: Path) -> None:
        data = path.read_bytes()
        assert old in data
        path.write_bytes(data.replace(old, new, 1))

    return replaced


def lines(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path], None]:
    def changed(path: Path) -> None:
        path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))

    return changed


def header(name: bytes, at: int = 1) -> Callable[[list[bytes]], list[bytes]]:
    """One digit of a field of one line."""

    def change(there: list[bytes]) -> list[bytes]:
        line = bytearray(there[at])
        place = line.index(b'"' + name + b'":"') + len(name) + 5
        line[place] = ord("0") if line[place] != ord("0") else ord("1")
        return [*there[:at], bytes(line), *there[at + 1 :]]

    return change


def renamed(name: str) -> Callable[[Path], None]:
    def rename(path: Path) -> None:
        path.rename(path.with_name(name))

    return rename


def others_page(path: Path) -> None:
    shutil.copy(path.parents[1] / "s2" / path.name, path)


def page_and_claims(session: Path) -> None:
    delete(session / "session.json")
    delete(session / "claims.jsonl")


def with_versions(home: Path) -> None:
    for place in ("revisions/users/ann/preferences/food", "users/ann/memories/preferences/food"):
        shutil.rmtree(home / "tenants/acme" / place)


def newest_copy(home: Path) -> Path:
    return max((home / "tenants/acme/revisions/users/ann/profile/profile").glob("*.json"), key=lambda p: int(p.stem))


def blob(home: Path) -> Path:
    return next(p for p in (home / "tenants/acme/blobs").glob("*/*"))


def hashed(home: Path) -> Path:
    return next((home / ANN / "sessions").glob("*~~*"))


@dataclass(frozen=True)
class Kind:
    """`becomes` is what repair makes of it: `mended` is every byte of content as it was and nothing left to say;
    `salvaged` the same, marked; `set aside` says what is lost and has the damaged bytes beside."""

    name: str
    where: str | Callable[[Path], Path]
    damage: Callable[[Path], None]
    becomes: str = "mended"
    unlike: tuple[str, ...] = ()  # content that cannot be as it was

    def path(self, home: Path) -> Path:
        return home / self.where if isinstance(self.where, str) else self.where(home)


def k(name: str, where: Any, damage: Callable[[Path], None], becomes: str = "mended", *unlike: str) -> Kind:
    return Kind(name, where, damage, becomes, unlike)


PAGE, WORDS, CLAIMS, TAGS = (f"{SESSION}/{n}" for n in ("session.json", "turns.jsonl", "claims.jsonl", "tags.json"))
COMMIT = f"{SESSION}/archives/1/commit.json"
KINDS = [
    *(k(f"page {d.__name__}", PAGE, d) for d in (empty, cut, flip, garbage, delete, folder)),
    k("page of another session", PAGE, others_page),
    k("page and claims deleted", SESSION, page_and_claims, "salvaged"),
    k("words changed", WORDS, replacing("吃辣".encode(), "吃素".encode())),
    k("one byte of a word flipped", WORDS, replacing(b"Rome.", b"Rooe.")),
    k("a quote in a line broken", WORDS, replacing(b'"text":"I work', b'"text"x"I work')),
    k("chain of a line changed", WORDS, lines(header(b"chain"))),
    k("salt of a line changed", WORDS, lines(header(b"salt")), "salvaged"),
    k("time of a line changed", WORDS, lines(header(b"at")), "salvaged"),
    k("end of a line changed", WORDS, lambda p: p.write_bytes(p.read_bytes()[:-1] + b"x") and None),
    k("last line cut off", WORDS, lines(lambda there: there[:-1]), "salvaged"),
    k("cut in the middle", WORDS, cut, "salvaged"),
    k("words emptied", WORDS, empty, "salvaged"),
    k("words deleted", WORDS, delete, "salvaged"),
    k("words garbage", WORDS, garbage, "salvaged"),
    k("words a folder", WORDS, folder, "salvaged"),
    k("a line missing", WORDS, lines(lambda there: [*there[:2], *there[3:]]), "salvaged"),
    k("the first line missing", WORDS, lines(lambda there: there[1:]), "salvaged"),
    k("two lines swapped", WORDS, lines(lambda there: [there[1], there[0], *there[2:]])),
    k("a line twice", WORDS, lines(lambda there: [*there[:2], there[1], *there[2:]])),
    k("a line of garbage between", WORDS, lines(lambda there: [*there[:2], b"garbage\n", *there[2:]])),
    k("a line replaced by garbage", WORDS, lines(lambda there: [*there[:2], b"garbage\n", *there[3:]]), "salvaged"),
    *(k(f"claims {d.__name__}", CLAIMS, d, "salvaged") for d in (empty, cut, flip, garbage, delete)),
    *(k(f"tags {d.__name__}", TAGS, d, "set aside", "graph") for d in (cut, delete)),
    *(k(f"commit {d.__name__}", COMMIT, d, "salvaged") for d in (cut, flip, delete)),
    k("all commits deleted", f"{SESSION}/archives", delete, "salvaged"),
    *(k(f"node's page {d.__name__}", f"{NODE}/.meta.json", d) for d in (empty, cut, flip, delete)),
    k("node's text not UTF-8", f"{NODE}/content.md", garbage),
    k("node's text deleted", f"{NODE}/content.md", delete),
    k("node's abstract deleted", f"{NODE}/.abstract.md", delete),
    k("node deleted", NODE, delete, "salvaged"),
    k("newest version flipped", newest_copy, flip),
    k("newest version deleted", newest_copy, delete),
    k("first version flipped", "tenants/acme/revisions/users/ann/profile/profile/1.json", flip, "set aside"),
    k("node deleted with its versions", ".", with_versions, "salvaged"),
    *(k(f"relations {d.__name__}", f"{NODE}/.relations.json", d, "salvaged") for d in (cut, delete)),
    k("full name of a folder deleted", lambda home: hashed(home) / ".name", delete),
    k("full name of a folder flipped", lambda home: hashed(home) / ".name", flip),
    k("session's folder renamed", SESSION, renamed("s1 copy")),
    k("person's folder renamed", ANN, renamed("someone")),
    k("line of the entries broken", "tenants/acme/entries/1.jsonl", lines(header(b"chain", 0))),
    k("index.db deleted", "index.db", delete),
    k("index.db garbage", "index.db", garbage),
    k("index.db cut", "index.db", cut),
    k("graph.db deleted", "graph.db", delete),
    k("graph.db garbage", "graph.db", garbage),
    k("a job's file garbage", "queue/pending/20260101-garbage.json", garbage, "set aside"),
    k("queue deleted", "queue", delete),
    k("blob flipped", blob, flip, "set aside"),
]


def test_there_are_fifty_kinds_and_most_are_mended() -> None:
    assert len(KINDS) >= 50
    assert sum(kind.becomes != "set aside" for kind in KINDS) >= 40
    assert len({kind.name for kind in KINDS}) == len(KINDS)


@pytest.fixture(scope="module")
def whole(filled: Path) -> tuple[Content, Content, Content]:
    return asyncio.run(_contents(filled))


async def _contents(home: Path) -> tuple[Content, Content, Content]:
    async with opened(home) as memory:
        return await content(memory, "acme"), await content(memory, "acme", "bob"), await content(memory, "globex")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_damage(kind: Kind, filled: Path, whole: tuple[Content, Content, Content], tmp_path: Path) -> None:
    home = shutil.copytree(filled, tmp_path / "home", symlinks=True)
    kind.damage(kind.path(home))
    asyncio.run(_mended(kind, home, whole))


async def _mended(kind: Kind, home: Path, whole: tuple[Content, Content, Content]) -> None:
    before, bob, globex = whole
    async with opened(home) as memory:
        proof = await memory.verify()
        status = await memory.status()
        named = bool(proof.defects or proof.notes or status.warnings)
        assert named or kind.name == "queue deleted", "an empty queue is made again, and nothing was in it"
        assert status.sessions == 6 - (kind.name == "session's folder renamed"), "of no id until it is put back"
        assert await content(memory, "acme", "bob") == bob or "index.db" in kind.name
        result = await memory.repair()
        assert [r for r in result.repairs if r.how == "left"] == []
    async with opened(home) as memory:
        proof = await memory.verify()
        after = await content(memory, "acme")
        kinds = {r.how for r in result.repairs}
        if kind.becomes == "set aside":
            assert "set aside" in kinds or "salvaged" in kinds
            assert [d.kind for d in proof.defects] in ([], ["pointer"]), "a blob nobody else has stays lost"
        else:
            assert (proof.defects, [n for n in proof.notes if n.kind != "set_aside"]) == ([], [])
            assert ("salvaged" in kinds) == (kind.becomes == "salvaged"), result.repairs
        differs = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        assert differs <= set(kind.unlike), {n: (before.get(n), after.get(n)) for n in sorted(differs)}
        assert await content(memory, "globex") == globex
        assert (await memory.repair()).repairs == (), "repair is done after one run"


@pytest.mark.parametrize("kind", KINDS if LONG else KINDS[::8], ids=lambda kind: kind.name)
def test_rebuild_and_forget_go_on_beside_damage(
    kind: Kind, filled: Path, whole: tuple[Content, Content, Content], tmp_path: Path
) -> None:
    home = shutil.copytree(filled, tmp_path / "home", symlinks=True)
    kind.damage(kind.path(home))
    asyncio.run(_used(kind, home, whole))


async def _used(kind: Kind, home: Path, whole: tuple[Content, Content, Content]) -> None:
    async with opened(home) as memory:
        await memory.rebuild()
        assert (await content(memory, "acme", "bob"))["index"] == whole[1]["index"]
        assert (await memory.forget("acme", "bob")).complete
        found = await memory.bind("globex", "ann").lexical_search("Bergen")
        assert len(found.items) == 1
        assert (await memory.nodes("acme", "ann")) is not None
    async with opened(home) as memory:
        await memory.repair()
        after = await content(memory, "acme", "ann")
        for name, value in whole[0].items():
            if name.startswith(("words", "claims")) and "/users/ann/" in name:
                assert after[name] == value, f"a rebuild over damage costs nothing: {name}"
        assert (await memory.forget("acme", "ann")).complete
