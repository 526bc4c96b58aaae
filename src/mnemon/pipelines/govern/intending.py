"""Before the first byte goes: what exactly is to be forgotten, and how to know it again when it is gone."""

from __future__ import annotations

import os
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from mnemon.contracts.claims import Claim
from mnemon.contracts.errors import NotFound
from mnemon.contracts.forgetting import Intent
from mnemon.contracts.nodes import NodeKey
from mnemon.contracts.ports import Archive
from mnemon.contracts.scope import Owner, OwnerKind, Scope, SessionKey
from mnemon.contracts.turns import Turn
from mnemon.logic.chats import is_call_id
from mnemon.logic.front_matter import split
from mnemon.logic.masking import Masks, is_silent, mask, still_rests, touches
from mnemon.logic.policies import claims_in
from mnemon.logic.shelves import key_at
from mnemon.logic.traces import PIECE, Prints
from mnemon.pipelines.entries.forgetting import entry_texts
from mnemon.pipelines.govern.claims import ClaimKeeper
from mnemon.pipelines.write.refiling import node_at

_PAGE = 1_000
# A name this long is no single word of everyday use, and is looked for by itself too.
_TELLING_NAME = 16


@dataclass(frozen=True, slots=True)
class Planner:
    archive: Archive
    keeper: ClaimKeeper

    async def planned(self, tenant_id: str, target: dict[str, Any]) -> Intent:
        scope = Scope.steward_of(tenant_id)
        survey = _Survey(self.archive, scope)
        fields: dict[str, Any] = {}
        owner = Owner(OwnerKind(target["owner_kind"]), target["owner_id"]) if "owner_id" in target else None
        if owner is None:
            await survey.tenant()
        elif target["what"] == "claim":
            fields = await self._claim(scope, owner, target, survey)
        elif target["what"] == "session":
            key = SessionKey(tenant_id, owner, target["session_id"])
            claims = await claims_of(self.archive, scope, key)
            fields["claims"] = {key.session_id: tuple(c.claim_id for c in claims)}
            await survey.session(key)
            await survey.nodes_of(owner, claims)
        else:
            await survey.owner(owner)
        return Intent(
            intent_id=uuid.uuid4().hex,
            tenant_id=tenant_id,
            what=target["what"],
            target=target,
            sessions=tuple(survey.sessions),
            nodes=tuple(dict.fromkeys(survey.nodes)),
            salt=survey.salt.hex(),
            words=tuple(survey.words.made()),
            names=tuple(survey.names.made()),
            **fields,
        )

    async def _claim(self, scope: Scope, owner: Owner, target: dict[str, Any], survey: _Survey) -> dict[str, Any]:
        """A claim, those that only repeat it, and with its words those neighbours that do not stand without them."""
        claim_id = target["claim_id"]
        claim = await self.keeper.get(scope, claim_id)
        if Owner(claim.owner_kind, claim.owner_id) != owner:
            # In the words for one that is nowhere: whether somebody else has it is nobody's business.
            raise NotFound(f"no claim {claim_id} in this scope", claim_id=claim_id)
        gone: dict[str, tuple[str, ...]] = {}
        masks: dict[str, Masks] = {}
        buried: dict[str, tuple[str, ...]] = {}
        for key in [record.key async for record in self.archive.sessions(scope, owner)]:
            claims = await claims_of(self.archive, scope, key)
            chosen = [c for c in claims if claim_id in (c.claim_id, c.repeats)]
            if not chosen:
                continue
            cut = _masks(chosen) if target["words"] else {}
            said = [span.text_exact for c in chosen for span in c.spans] if cut else []
            chosen += [c for c in claims if c not in chosen and not still_rests(c, cut, said)]
            touched = [c for c in claims if c in chosen or any(touches(span, cut) for span in c.spans)]
            silent = [t.turn_id for t in await self._turns(scope, key, cut) if is_silent(mask(t.text, cut[t.turn_id]))]
            gone[key.session_id] = tuple(c.claim_id for c in chosen)
            buried |= {key.session_id: tuple(silent)} if silent else {}
            masks |= {key.session_id: kept} if (kept := {t: c for t, c in cut.items() if t not in silent}) else {}
            survey.words.add([*said, *(text for c in chosen for text in _texts(c))])
            await survey.nodes_of(owner, touched, vanishing={c.claim_id for c in chosen})
        return {"claims": gone, "masks": masks, "turns": buried}

    async def _turns(self, scope: Scope, key: SessionKey, wanted: Collection[str]) -> list[Turn]:
        if not wanted:
            return []
        return [t.turn for t in await self.archive.read_turns(scope, key) if t.turn.turn_id in wanted]


class _Survey:
    """Everything that is to go, read once, of which prints are taken."""

    def __init__(self, archive: Archive, scope: Scope) -> None:
        self.salt = os.urandom(32)
        self.words = Prints(self.salt)
        self.names = Prints(self.salt)
        self.sessions: list[str] = []
        self.nodes: list[str] = []
        self._archive = archive
        self._scope = scope

    async def tenant(self) -> None:
        async for owner in self._archive.owners(self._scope):
            await self._things_of(owner)
        async for text in entry_texts(self._archive, self._scope.tenant_id, None):
            self.words.add([text])
        self.nodes.clear()  # nobody is left who could point at them
        self.sessions.clear()

    async def owner(self, owner: Owner) -> None:
        await self._things_of(owner)
        if owner.kind is OwnerKind.USERS:
            async for key, claims, turns in said_in_groups(self._archive, self._scope, owner.id):
                await self.session(key, turns, claims)
                await self.nodes_of(key.owner, claims)
        async for text in entry_texts(self._archive, self._scope.tenant_id, owner.principal):
            self.words.add([text])

    async def _things_of(self, owner: Owner) -> None:
        async for record in self._archive.sessions(self._scope, owner):
            await self.session(record.key)
        for summary in await self._archive.list_children(self._scope, owner, recursive=True):
            if not summary.is_dir:
                await self._node(key_at(self._scope.tenant_id, owner, summary.uri))

    async def session(
        self, key: SessionKey, turns: Collection[str] | None = None, claims: Iterable[Claim] | None = None
    ) -> None:
        """Its words, or those of some of its turns, and what was drawn from them."""
        self.sessions += [key.uri] if turns is None else []
        after = 0
        while stored := await self._page(key, after):
            after = stored[-1][0]
            self.words.add(turn.text for _, turn in stored if turns is None or turn.turn_id in turns)
        drawn = await claims_of(self._archive, self._scope, key) if claims is None else claims
        self.words.add(text for claim in drawn for text in _texts(claim))

    async def _page(self, key: SessionKey, after: int) -> list[tuple[int, Turn]]:
        try:
            return [(t.seq, t.turn) for t in await self._archive.read_turns(self._scope, key, after, _PAGE)]
        except NotFound:
            return []

    async def nodes_of(self, owner: Owner, claims: Collection[Claim], vanishing: Collection[str] | None = None) -> None:
        """The memories that these claims stand in; of those that hold nothing else, what they are called and hold."""
        gone = {c.claim_id for c in claims} if vanishing is None else vanishing
        for uri in dict.fromkeys(c.node_uri for c in claims if c.node_uri):
            key = key_at(self._scope.tenant_id, owner, uri)
            node = await node_at(self._archive, self._scope, key)
            if node is None or {c.claim_id for c in claims_in(node)} <= set(gone):
                await self._node(key)
            else:
                self.nodes.append(uri)

    async def _node(self, key: NodeKey) -> None:
        self.nodes.append(key.uri)
        self.names.add_whole([key.uri.encode()])
        name = key.uri.rpartition("/")[2]
        self.names.add_whole(form.encode() for form in {name, key.slug} if len(form.encode()) >= _TELLING_NAME)
        node = await node_at(self._archive, self._scope, key)
        if node is not None:
            # Not the head, and not where a quote comes from: ids and dates are nobody's words.
            lines = (line for line in split(node.content)[1].splitlines() if not line.startswith("  >"))
            self.names.add([node.abstract, node.overview, *lines], least=PIECE)


async def claims_of(archive: Archive, scope: Scope, key: SessionKey) -> list[Claim]:
    try:
        return await archive.read_claims(scope, key)
    except NotFound:
        return []


async def said_in_groups(
    archive: Archive, scope: Scope, user_id: str
) -> AsyncIterator[tuple[SessionKey, list[Claim], set[str]]]:
    """What somebody said in groups, what a bot noted of it, and what the groups know of them."""
    groups = [owner async for owner in archive.owners(scope) if owner.kind is OwnerKind.GROUPS]
    for group in groups:
        for record in [r async for r in archive.sessions(scope, group)]:
            claims = await claims_of(archive, scope, record.key)
            theirs = [c for c in claims if _is_of(c, user_id)]
            said = [t.turn for t in await archive.read_turns(scope, record.key)]
            turns = {t.turn_id for t in said if t.meta.get("sender_id") == user_id}
            turns |= {turn_id for c in theirs for turn_id in c.source_turn_ids if is_call_id(turn_id)}
            found = [c for c in claims if c in theirs or turns & set(c.source_turn_ids)]
            if found or turns:
                yield record.key, found, turns


def _is_of(claim: Claim, user_id: str) -> bool:
    at = claim.occasion
    return claim.about == f"user:{user_id}" or (at is not None and user_id in (at.sender_id, at.user_id))


def _masks(claims: Iterable[Claim]) -> dict[str, list[tuple[int, int]]]:
    cut: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for claim in claims:
        for span in claim.spans:
            cut[span.turn_id].append((span.start, span.end))
    return cut


def _texts(claim: Claim) -> tuple[str, ...]:
    """Every sentence a claim holds."""
    quotes = (span.text_exact for span in claim.spans)
    told = (claim.statement, claim.title, claim.overview, claim.content, claim.corrected_from, claim.rationale)
    return (*told, *quotes)
