"""Before a bot's turn: who it talks with, where, and what happened that bears on it, as one piece of prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from mnemon.contracts.chats import ChatContext, EntityType, EventHit, Profile
from mnemon.contracts.claims import Language
from mnemon.contracts.errors import MnemonError, NotFound
from mnemon.contracts.ports import Clock
from mnemon.contracts.reports import Degraded
from mnemon.contracts.scope import Scope
from mnemon.logic.chunking import tokens_in
from mnemon.logic.language import language_of
from mnemon.logic.portraits import best_lines
from mnemon.logic.rendering import one_line, own_words
from mnemon.logic.retrieval.prompting import Section, block
from mnemon.pipelines.historian.events import EventFinder, Events
from mnemon.pipelines.historian.profiles import ProfileKeeper

T = TypeVar("T")

_HEADS: dict[Language, dict[str, str]] = {
    "zh": {"user": "关于 {0}：", "group": "关于群聊 {0}：", "events": "相关事件："},
    "en": {"user": "About {0}:", "group": "About the group {0}:", "events": "Relevant events:"},
}
# How much of the room each may take before the others have had theirs.
_SHARES = {"user": 0.4, "group": 0.2, "events": 0.4}
_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class ContextMaker:
    events: EventFinder
    profiles: ProfileKeeper
    clock: Clock

    async def make(
        self, scope: Scope, query: str, user_id: str, group_id: str, top_k: int, max_tokens: int
    ) -> ChatContext:
        """Each part by itself: what fails is named, and the others are there."""
        degraded: list[Degraded] = []
        person, group, found = await asyncio.gather(
            _or_none("profile", self._profile(scope, "user", user_id), degraded),
            _or_none("group_profile", self._profile(scope, "group", group_id), degraded),
            _or_none("events", self.events.find(scope, query, None, None, top_k, None, None), degraded),
        )
        found = found or Events(())
        language, now = language_of(query), self.clock.now()
        text, (_, _, used) = block(
            language,
            [
                self._section("user", person, language, now),
                self._section("group", group, language, now),
                Section(_HEADS[language]["events"], [_line(hit, language) for hit in found.hits], _SHARES["events"]),
            ],
            max_tokens,
        )
        events = tuple(found.hits[n] for n in used)
        return ChatContext(text, tokens_in(text), person, group, events, (*degraded, *found.degraded))

    async def _profile(self, scope: Scope, entity_type: EntityType, entity_id: str) -> Profile | None:
        if not entity_id:
            return None
        try:
            return await self.profiles.get(scope, entity_type, entity_id)
        except NotFound:
            return None

    def _section(self, kind: str, profile: Profile | None, language: Language, now: datetime) -> Section:
        name = one_line(profile.name)[:_LONGEST_NAME] if profile else ""
        lines = dict.fromkeys(line for node in profile.nodes for line in best_lines(node, now)) if profile else ()
        return Section(_HEADS[language][kind].format(name), list(lines), _SHARES[kind])


async def _or_none(what: str, work: Awaitable[T], degraded: list[Degraded]) -> T | None:
    try:
        return await work
    except (MnemonError, OSError) as error:
        degraded.append(Degraded(what, str(error)))
        return None


def _line(hit: EventHit, language: Language) -> str:
    """With its day by the chat's own clock, on one line whatever is in it."""
    day, text = hit.ts[:10], one_line(hit.text)
    return f"- {text if day in text else f'{day} {text}'}{own_words(hit.evidence_level, language)}"
