"""A chat bot's door: `end` at the end of a turn, a piece of prompt before the next, and the tools in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from mnemon.contracts.chats import (
    ChatContext,
    EndResult,
    EntityType,
    EventHit,
    Profile,
    ProfileDiff,
    ProfileHit,
    ProfileVersion,
    Said,
)
from mnemon.contracts.errors import InvalidArgument, NotFound
from mnemon.contracts.scope import Scope, checked_id
from mnemon.engine.addressing import one_of
from mnemon.engine.ending import Moment, ended
from mnemon.engine.opened import OpenMemory
from mnemon.engine.parts import Parts
from mnemon.logic.moments import moment_ms

MAX_TOP_K = 200
DEPRECATED = (
    "summary is deprecated and will be removed: say action_summary (what was done) and new_info (what was learnt)"
)


class AsyncCognitive:
    """The chat tools of one person or one group: nothing they are asked can reach beyond it. In a group only what
    belongs to the group is seen, unless `include_private` was asked for."""

    def __init__(self, open_parts: Callable[[], Parts], scope: Scope, include_private: bool = False) -> None:
        self._open = open_parts
        self.scope = scope if include_private else in_chat(scope)
        self._user = next((p[2:] for p in sorted(scope.principals) if p.startswith("u:")), "")
        self._group = next((p[2:] for p in sorted(scope.principals) if p.startswith("g:")), "")

    async def context(self, query: str, top_k: int | None = None, max_tokens: int | None = None) -> ChatContext:
        """Before a turn: the person's profile, the group's, and the events nearest to the query, as one piece of
        prompt within `max_tokens`."""
        parts = self._open()
        settings = parts.config.cognitive.query
        if not parts.config.cognitive.enabled:
            return ChatContext("", 0)
        room = settings.max_tokens if max_tokens is None else _number("max_tokens", max_tokens, 1_000_000)
        wanted = settings.auto_top_k if top_k is None else _number("top_k", top_k, MAX_TOP_K)
        return await parts.chats.context(self.scope, _query(query), self._user, self._group, wanted, room)

    async def search_events(
        self,
        query: str,
        target_user_id: str | None = None,
        target_group_id: str | None = None,
        top_k: int | None = None,
        time_from: Moment | None = None,
        time_to: Moment | None = None,
    ) -> tuple[EventHit, ...]:
        """What happened, best first, each with the words it rests on. The targets narrow what this chat may see, and
        never widen it; `time_from` counts, `time_to` does not."""
        parts = self._open()
        if not parts.config.cognitive.enabled:
            return ()
        default = parts.config.cognitive.query.tool_default_top_k
        wanted = default if top_k is None else _number("top_k", top_k, MAX_TOP_K)
        since, until = moment_ms("time_from", time_from), moment_ms("time_to", time_to)
        for name, target in (("target_user_id", target_user_id), ("target_group_id", target_group_id)):
            if target is not None:
                checked_id(name, target)
        return await parts.chats.search_events(
            self.scope, _query(query), target_user_id, target_group_id, wanted, since, until
        )

    async def get_profile(self, entity_type: EntityType, entity_id: str) -> Profile:
        """What is known of somebody or of a group, as far as it may be shown in this chat; `NotFound` where that is
        nothing."""
        return await self._switched_on().chats.get_profile(self.scope, *_entity(entity_type, entity_id))

    async def search_profiles(
        self, query: str, entity_type: EntityType | None = None, entity_id: str | None = None, top_k: int | None = None
    ) -> tuple[ProfileHit, ...]:
        """Whose profile fits, best first."""
        parts = self._open()
        if not parts.config.cognitive.enabled:
            return ()
        if entity_type is not None:
            one_of("entity_type", entity_type, get_args(EntityType))
        if entity_id is not None:
            checked_id("entity_id", entity_id)
        default = parts.config.cognitive.query.profile_top_k
        wanted = default if top_k is None else _number("top_k", top_k, MAX_TOP_K)
        return await parts.chats.search_profiles(self.scope, _query(query), entity_type, entity_id, wanted)

    async def profile_history(self, entity_type: EntityType, entity_id: str) -> tuple[ProfileVersion, ...]:
        """The versions of a profile, newest first."""
        return await self._switched_on().chats.profile_history(self.scope, *_entity(entity_type, entity_id))

    async def profile_diff(
        self, entity_type: EntityType, entity_id: str, from_version: int, to_version: int | None = None
    ) -> ProfileDiff:
        """What changed between two versions; `to_version` is the newest where it is left out."""
        before = _number("from_version", from_version, 1 << 31)
        after = None if to_version is None else _number("to_version", to_version, 1 << 31)
        return await self._switched_on().chats.profile_diff(self.scope, *_entity(entity_type, entity_id), before, after)

    async def rollback_profile(self, entity_type: EntityType, entity_id: str, version: int) -> Profile:
        """The profile as it was in an earlier version, as a new one. What was learnt since is no longer known; the
        words it was learnt from stay, and rolling forward again brings it back."""
        wanted = _number("version", version, 1 << 31)
        return await self._switched_on().chats.rollback_profile(self.scope, *_entity(entity_type, entity_id), wanted)

    def _switched_on(self) -> Parts:
        """For what has no empty answer: switched off, nothing is known of anybody."""
        parts = self._open()
        if not parts.config.cognitive.enabled:
            raise NotFound("nothing is known of anybody: cognitive.enabled is false", field="cognitive.enabled")
        return parts


class Cognition(OpenMemory):
    async def end(
        self,
        tenant_id: str,
        request_id: str,
        end_seq: int,
        action_summary: str = "",
        new_info: str = "",
        force: bool = False,
        *,
        user_id: str | None = None,
        group_id: str | None = None,
        sender_id: str | None = None,
        sender_name: str = "",
        group_name: str = "",
        bot_name: str = "",
        message_ids: Sequence[str] = (),
        messages: Sequence[Said | Mapping[str, Any]] = (),
        message_sent: bool | None = None,
        timestamp: Moment | None = None,
        timezone: str | None = None,
        location: str = "",
        request_type: str | None = None,
        summary: str | None = None,
    ) -> EndResult:
        """The end of a bot's turn: what it did, and at most one thing it learnt from the message. It is durable when
        this returns, and nothing else has happened: the historian makes memories of it in the background.

        Empty words end the turn and leave no trace. With `messages` (`{message_id, sender_id, sender_name, text,
        time}`) what is remembered can be proven by them; with `force` they are kept even where the bot has nothing to
        say of them, and a turn that claims to have done something is kept though `message_sent` is False. The same
        `request_id` and `end_seq` are the same turn, however often it is told."""
        checked_id("tenant_id", tenant_id)
        parts = self._at_work()
        deprecated: tuple[str, ...] = ()
        if summary is not None:
            deprecated = (DEPRECATED,)
            if not (action_summary or new_info):
                action_summary = summary
        settings = parts.config.cognitive
        call = ended(
            request_id,
            end_seq,
            action_summary,
            new_info,
            user_id,
            group_id,
            sender_id,
            sender_name,
            group_name,
            bot_name,
            message_ids,
            messages,
            timestamp,
            timezone,
            location,
            request_type,
            parts.clock.now(),
            settings.historian.timezone,
        )
        if not settings.enabled:
            return EndResult("disabled", call.event_id, deprecated=deprecated)
        if not (call.action_summary or call.new_info or (force and call.messages)):
            return EndResult("empty", call.event_id, deprecated=deprecated)
        if message_sent is False and call.action_summary and not force:
            raise InvalidArgument(
                "action_summary says that something was done, but no message was sent in this turn; send one first, "
                "or say force=True if that is meant",
                field="force",
            )
        result = await parts.chats.end(tenant_id, parts.masked(call))
        if self._worker is not None:
            self._worker.wake()
        return EndResult(result.status, result.event_id, result.job_id, deprecated, result.degraded)

    def cognitive(
        self, tenant_id: str, user_id: str | None, group_id: str | None = None, *, include_private: bool = False
    ) -> AsyncCognitive:
        """The chat tools for one chat: a person's, or, with `group_id`, a group's."""
        return AsyncCognitive(self._open, Scope.of(tenant_id, user_id, None, group_id), include_private)

    async def chat_context(
        self,
        query: str,
        tenant_id: str,
        user_id: str,
        group_id: str | None = None,
        *,
        include_private: bool = False,
        top_k: int | None = None,
        max_tokens: int | None = None,
    ) -> ChatContext:
        """Before a bot's turn: profile, group profile and the nearest events, as one piece of prompt."""
        door = self.cognitive(tenant_id, user_id, group_id, include_private=include_private)
        return await door.context(query, top_k, max_tokens)

    async def search_events(
        self,
        query: str,
        tenant_id: str,
        user_id: str,
        group_id: str | None = None,
        *,
        target_user_id: str | None = None,
        target_group_id: str | None = None,
        top_k: int | None = None,
        time_from: Moment | None = None,
        time_to: Moment | None = None,
        include_private: bool = False,
    ) -> tuple[EventHit, ...]:
        """What happened in this chat, best first, each with the words it rests on."""
        door = self.cognitive(tenant_id, user_id, group_id, include_private=include_private)
        return await door.search_events(query, target_user_id, target_group_id, top_k, time_from, time_to)

    async def get_profile(
        self,
        entity_type: EntityType,
        entity_id: str,
        tenant_id: str,
        user_id: str,
        group_id: str | None = None,
        *,
        include_private: bool = False,
    ) -> Profile:
        """What is known of somebody or of a group, as far as it may be shown in this chat."""
        door = self.cognitive(tenant_id, user_id, group_id, include_private=include_private)
        return await door.get_profile(entity_type, entity_id)

    async def search_profiles(
        self,
        query: str,
        tenant_id: str,
        user_id: str,
        group_id: str | None = None,
        *,
        entity_type: EntityType | None = None,
        entity_id: str | None = None,
        top_k: int | None = None,
        include_private: bool = False,
    ) -> tuple[ProfileHit, ...]:
        """Whose profile fits, best first."""
        door = self.cognitive(tenant_id, user_id, group_id, include_private=include_private)
        return await door.search_profiles(query, entity_type, entity_id, top_k)

    async def profile_history(
        self, entity_type: EntityType, entity_id: str, tenant_id: str, user_id: str, group_id: str | None = None
    ) -> tuple[ProfileVersion, ...]:
        """The versions of a profile, newest first."""
        return await self.cognitive(tenant_id, user_id, group_id).profile_history(entity_type, entity_id)

    async def profile_diff(
        self,
        entity_type: EntityType,
        entity_id: str,
        tenant_id: str,
        user_id: str,
        group_id: str | None = None,
        *,
        from_version: int,
        to_version: int | None = None,
    ) -> ProfileDiff:
        """What changed between two versions of a profile."""
        door = self.cognitive(tenant_id, user_id, group_id)
        return await door.profile_diff(entity_type, entity_id, from_version, to_version)

    async def rollback_profile(
        self,
        entity_type: EntityType,
        entity_id: str,
        tenant_id: str,
        user_id: str,
        group_id: str | None = None,
        *,
        version: int,
    ) -> Profile:
        """A profile as it was in an earlier version, as a new one."""
        return await self.cognitive(tenant_id, user_id, group_id).rollback_profile(entity_type, entity_id, version)


def in_chat(scope: Scope) -> Scope:
    """In a group, what belongs to the group; in a private chat, what belongs to the person. Nothing else: what is
    public in the tenant was not said in this chat."""
    groups = [p for p in scope.principals if p.startswith("g:")]
    if len(groups) > 1:
        raise InvalidArgument("a chat is one group; name it (group_id)", field="group_id")
    return scope.narrowed("within", groups or [p for p in scope.principals if p.startswith("u:")])


def _query(query: object) -> str:
    if not isinstance(query, str) or not query.strip():
        raise InvalidArgument("query must be a non-empty text", field="query")
    return query


def _number(name: str, value: object, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InvalidArgument(f"{name} must be a whole number between 1 and {most}", field=name)
    return value


def _entity(entity_type: object, entity_id: object) -> tuple[Any, str]:
    one_of("entity_type", entity_type, get_args(EntityType))
    return entity_type, checked_id("entity_id", entity_id)
