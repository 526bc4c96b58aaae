"""What a bot says at the end of its turn, checked: each mistake names its field and the way out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from datetime import timezone as fixed_zone
from typing import Any, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mnemon.contracts.chats import EndCall, RequestType, Said
from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.scope import checked_id
from mnemon.engine.addressing import one_of
from mnemon.logic.adapters.times import from_epoch
from mnemon.logic.taking import taken

MAX_WORDS = 4_000
MAX_MESSAGES = 500
MAX_BATCH = 200_000
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?")

Moment = str | datetime | float


def ended(
    request_id: str,
    end_seq: int,
    action_summary: str,
    new_info: str,
    user_id: str | None,
    group_id: str | None,
    sender_id: str | None,
    sender_name: str,
    group_name: str,
    bot_name: str,
    message_ids: Sequence[str],
    messages: Sequence[Said | Mapping[str, Any]],
    timestamp: Moment | None,
    timezone: str | None,
    location: str,
    request_type: str | None,
    now: datetime,
    home_zone: str,
) -> EndCall:
    """`home_zone` counts where the call says nothing of a time zone; where that is empty, this machine's does."""
    checked_id("request_id", request_id)
    if isinstance(end_seq, bool) or not isinstance(end_seq, int) or end_seq < 0:
        raise InvalidArgument("end_seq must be a whole number from 0 on", field="end_seq")
    group, user, sender, kind = _who(user_id, group_id, sender_id, request_type)
    said = _messages(messages)
    at, zone = _when(timestamp, timezone, now, home_zone)
    ids = [message_ids] if isinstance(message_ids, str) else list(message_ids)
    for name, text in (("sender_name", sender_name), ("group_name", group_name), ("bot_name", bot_name)):
        _text(name, text, 200)
    return EndCall(
        request_id=request_id,
        end_seq=end_seq,
        action_summary=_text("action_summary", action_summary, MAX_WORDS).strip(),
        new_info=_text("new_info", new_info, MAX_WORDS).strip(),
        request_type=kind,
        user_id=user,
        group_id=group,
        group_name=group_name.strip(),
        sender_id=sender,
        sender_name=sender_name.strip() or next((m.sender_name for m in said if m.sender_id == sender), ""),
        bot_name=bot_name.strip(),
        message_ids=tuple(checked_id("message_ids", id) for id in ids) or tuple(m.message_id for m in said),
        messages=said,
        timestamp=at.isoformat(),
        timezone=zone,
        location=_text("location", location, 500).strip(),
        queued_at=now.astimezone(UTC).isoformat(),
    )


def _who(
    user_id: str | None, group_id: str | None, sender_id: str | None, request_type: str | None
) -> tuple[str, str, str, RequestType]:
    """Group, user, sender, and which of the two kinds of chat it is."""
    if request_type is not None:
        one_of("request_type", request_type, get_args(RequestType))
    for name, value in (("user_id", user_id), ("group_id", group_id), ("sender_id", sender_id)):
        if value is not None:
            checked_id(name, value)
    kind: RequestType = "group" if (request_type or ("group" if group_id else "private")) == "group" else "private"
    if kind == "group" and not group_id:
        raise InvalidArgument("request_type='group' needs group_id", field="group_id")
    if kind == "private" and group_id:
        raise InvalidArgument(
            "a private chat has no group_id; leave it out or say request_type='group'", field="group_id"
        )
    sender = sender_id or user_id
    user = user_id or sender_id
    if user is None or sender is None:
        raise InvalidArgument("name the person the bot talked with: user_id or sender_id", field="user_id")
    return group_id or "", user, sender, kind


def _text(name: str, value: object, longest: int) -> str:
    if not isinstance(value, str):
        several = isinstance(value, list | tuple)
        told = "one text; for several, call end once for each with the next end_seq" if several else "a text"
        raise InvalidArgument(f"{name} must be {told}", field=name)
    if len(value) > longest:
        raise InvalidArgument(f"{name} is longer than {longest} characters; keep it to a short sentence", field=name)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{name} holds half of a surrogate pair at {error.start}", field=name) from None
    return value


def _messages(given: Sequence[Said | Mapping[str, Any]]) -> tuple[Said, ...]:
    if isinstance(given, str | bytes | Mapping):
        raise InvalidArgument("messages must be a list of {message_id, sender_id, text, …}", field="messages")
    if len(given) > MAX_MESSAGES:
        raise InvalidArgument(f"at most {MAX_MESSAGES} messages belong to one turn", field="messages")
    said = tuple(taken(Said, message, f"messages[{n}]") for n, message in enumerate(given))
    for n, message in enumerate(said):
        checked_id(f"messages[{n}].message_id", message.message_id)
        _text(f"messages[{n}].text", message.text, MAX_BATCH)
    if sum(len(m.text) for m in said) > MAX_BATCH:
        raise InvalidArgument(f"the messages of one turn hold more than {MAX_BATCH} characters", field="messages")
    return said


def _when(timestamp: Moment | None, timezone: str | None, now: datetime, home_zone: str) -> tuple[datetime, str]:
    """When it was, by the chat's own clock, and the name of its zone."""
    at = now if timestamp is None else _moment(timestamp)
    if timezone:
        zone: tzinfo | None = _zone(timezone, "timezone")
    elif timestamp is not None and at.tzinfo is not None:
        zone = at.tzinfo
    else:
        zone = _zone(home_zone, "cognitive.historian.timezone") if home_zone else datetime.now().astimezone().tzinfo
    local = at.replace(tzinfo=zone) if at.tzinfo is None else at.astimezone(zone)
    return local, timezone or home_zone_name(local, home_zone if timestamp is None else "")


def home_zone_name(local: datetime, named: str) -> str:
    offset = local.strftime("%z")
    return named or f"{offset[:3]}:{offset[3:5]}"


def _moment(timestamp: Moment) -> datetime:
    try:
        if isinstance(timestamp, datetime):
            return timestamp
        if isinstance(timestamp, str):
            return datetime.fromisoformat(timestamp)
        if isinstance(timestamp, int | float) and not isinstance(timestamp, bool):
            return from_epoch(timestamp)
    except (ValueError, OverflowError):
        pass
    raise InvalidArgument(
        "timestamp must be an ISO 8601 time such as 2026-02-21T14:30:00+08:00, or seconds since 1970", field="timestamp"
    )


def _zone(name: str, field: str) -> tzinfo:
    if offset := _OFFSET.fullmatch(name.strip()):
        minutes = int(offset[2]) * 60 + int(offset[3] or 0)
        if minutes < 24 * 60:
            return fixed_zone(timedelta(minutes=minutes if offset[1] == "+" else -minutes))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidArgument(
            f"{field} {name!r} is not a time zone; write Asia/Shanghai or +08:00", field=field
        ) from None
