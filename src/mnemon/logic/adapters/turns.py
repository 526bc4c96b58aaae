"""Building a turn: its id by position, its place in the export, and validation errors with a path."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from mnemon.contracts.turns import Attachment, InputFormat, Role, SourceRef, Turn
from mnemon.logic.adapters.fields import Data
from mnemon.logic.adapters.place import Place

_WIDTHS = ((10**4, "t", 4), (10**8, "ta", 8), (10**16, "tb", 16))


def position_id(position: int) -> str:
    """`t0001` … `t9999`, then `ta00010000` …, then `tb…`: plain text order is always the order of speaking."""
    for bound, prefix, width in _WIDTHS:
        if position < bound:
            return f"{prefix}{position:0{width}d}"
    raise ValueError(f"no id for position {position}")


def position_of(turn_id: str) -> int | None:
    """The position an id was made from, or None for an id of the caller's own."""
    for bound, prefix, width in _WIDTHS:
        digits = turn_id[len(prefix) :]
        if turn_id.startswith(prefix) and len(digits) == width and digits.isascii() and digits.isdigit():
            position = int(digits)
            if position < bound and position_id(position) == turn_id:
                return position
    return None


class TurnMaker:
    """Counts the turns of one export and gives each its id and source."""

    def __init__(self, input_format: InputFormat) -> None:
        self._format = input_format
        self._count = 0

    def make(
        self,
        place: Place,
        raw_index: int,
        role: Role,
        text: str,
        *,
        speaker: str | None = None,
        timestamp_iso: str | None = None,
        attachments: tuple[Attachment, ...] = (),
        meta: Data | None = None,
        turn_id: str | None = None,
        source_ref: SourceRef | None = None,
        drop_candidate: str | None = None,
    ) -> Turn:
        self._count += 1
        try:
            return Turn(
                turn_id=position_id(self._count) if turn_id is None else turn_id,
                role=role,
                speaker=role.value if speaker is None else speaker,
                timestamp_iso=timestamp_iso,
                text=text,
                source_ref=source_ref or SourceRef(input_format=self._format, raw_index=raw_index, raw_path=place.path),
                attachments=attachments,
                drop_candidate=drop_candidate,
                meta=meta or {},
            )
        except ValidationError as error:
            raise _explained(error, place) from None


def make_attachment(place: Place, **fields: Any) -> Attachment:
    try:
        return Attachment(**fields)
    except ValidationError as error:
        raise _explained(error, place) from None


def make_source_ref(place: Place, **fields: Any) -> SourceRef:
    try:
        return SourceRef(**fields)
    except ValidationError as error:
        raise _explained(error, place) from None


def _explained(error: ValidationError, place: Place) -> Exception:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    for part in first["loc"]:
        place = place.item(part) if isinstance(part, int) else place.key(str(part))
    return place.error(first["msg"].removeprefix("Value error, "), "a valid value")
