"""A recall skill: instructions for an agent and a few settings, in the form agent skills have (`SKILL.md` with a head).

Whatever a skill says, it sets how one person's messages are looked through; whose they are, and how much looking may
cost, it cannot say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from mnemon.contracts.claims import Language
from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.recall import RecallSettings
from mnemon.contracts.turns import Role
from mnemon.logic.front_matter import split, with_head

ANY_ROLE = "any"
ROLES = (*(role.value for role in Role), ANY_ROLE)
LONGEST_WINDOW = 36_500
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_NAME_LENGTH = 64
_DESCRIPTION_LENGTH = 1024
# They are told to the model with every step.
_INSTRUCTIONS_LENGTH = 12_000
_NUMBERS = {
    "window_days": LONGEST_WINDOW,
    "max_calls": 200,
    "max_rounds": 200,
    "max_tokens": 10_000_000,
    "evidence_length": 10_000,
}
_BUDGETS = ("max_calls", "max_rounds", "max_tokens")
_CHOICES = {"role": ROLES, "language": get_args(Language)}
_OWN = ("name", "description", "metadata")


@dataclass(frozen=True, slots=True)
class Skill:
    """`chosen` holds what it sets, `notes` what it says besides and what is not listened to."""

    name: str
    description: str
    instructions: str
    chosen: Mapping[str, int | str]
    notes: tuple[str, ...] = ()

    def settings(self, configured: RecallSettings) -> RecallSettings:
        """What is configured, as this skill wants it; a budget can be made smaller and never larger."""
        wanted: dict[str, Any] = dict(self.chosen)
        for name in _BUDGETS:
            if name in wanted:
                wanted[name] = min(wanted[name], getattr(configured, name))
        if "role" in wanted:
            wanted["role"] = role_of(str(wanted["role"]))
        return replace(configured, **wanted)


def role_of(name: str) -> Role | None:
    """`any` is no role in particular."""
    return None if name == ANY_ROLE else Role(name)


def read_skill(text: str) -> Skill:
    head, body = split(text)
    name, description = str(head.get("name", "")), str(head.get("description", "")).strip()
    if len(name) > _NAME_LENGTH or not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"a skill has a name of lower-case letters, digits and single hyphens, {_NAME_LENGTH} characters at most",
            field="name",
        )
    for field, value, most in (
        ("description", description, _DESCRIPTION_LENGTH),
        ("instructions", body.strip(), _INSTRUCTIONS_LENGTH),
    ):
        if not 0 < len(value) <= most:
            raise InvalidArgument(f"a skill has {field} of 1 to {most} characters", field=field)
    metadata = head.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise InvalidArgument("metadata must be names and values", field="metadata")
    chosen = {key: _setting(key, value) for key, value in metadata.items() if key in _NUMBERS or key in _CHOICES}
    unknown = [*(key for key in head if key not in _OWN), *(f"metadata.{key}" for key in metadata if key not in chosen)]
    return Skill(name, description, body.strip(), chosen, tuple(f"{key} means nothing here" for key in unknown))


def written(skill: Skill) -> str:
    """As a file; metadata are texts, as the form wants it."""
    metadata = {key: str(value) for key, value in skill.chosen.items()}
    head = {"name": skill.name, "description": skill.description, **({"metadata": metadata} if metadata else {})}
    return with_head(head, f"\n{skill.instructions}\n")


def _setting(name: str, value: object) -> int | str:
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            raise InvalidArgument(
                f"metadata.{name} must be one of {', '.join(_CHOICES[name])}, not {value!r}", field=f"metadata.{name}"
            )
        return str(value)
    most = _NUMBERS[name]
    if not re.fullmatch(r"[0-9]{1,9}", str(value)) or not 1 <= int(str(value)) <= most:
        raise InvalidArgument(
            f"metadata.{name} must be a whole number between 1 and {most}, not {value!r}", field=f"metadata.{name}"
        )
    return int(str(value))
