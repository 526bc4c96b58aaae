"""`canonical_turns_v1`: the caller's own turns, the most stable form there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mnemon.contracts.turns import Attachment, InputFormat, Role, SourceRef, Turn, parse_time
from mnemon.logic.adapters import fields
from mnemon.logic.adapters.fields import Data
from mnemon.logic.adapters.json_stream import Item, Layout, Source, read
from mnemon.logic.adapters.place import Place
from mnemon.logic.adapters.turns import TurnMaker, make_attachment, make_source_ref

LAYOUT = Layout(
    arrays=(("turns",),), expected="an array of turns, an object with `turns`, or JSON Lines with one turn a line"
)
ROLES = tuple(role.value for role in Role)
WRAPPER = ("turns", "input_format")
TURN = (
    "turn_id",
    "role",
    "speaker",
    "timestamp_iso",
    "text",
    "source_ref",
    "attachments",
    "drop_candidate",
    "meta",
)
ATTACHMENT = ("type", "name", "truncated", "sha256", "ref")
SOURCE_REF = ("input_format", "raw_index", "raw_path")
KINDS = ("tool_result", "file", "image_ref")


def adapt(source: Source, named: Callable[[], None] | None = None) -> Iterator[Turn]:
    """`named` hears of every turn that brings an id of its own."""
    maker = TurnMaker(InputFormat.CANONICAL_TURNS)
    for item in read(source, LAYOUT):
        if item.index is None:
            _check_wrapper(item)
        else:
            if named is not None and isinstance(item.value, dict) and item.value.get("turn_id") is not None:
                named()
            yield _turn(maker, item.value, item.index, item.place)


def _check_wrapper(item: Item) -> None:
    if item.place.path not in WRAPPER:
        raise Place("", item.place.line, item.place.column).unknown(item.place.path, WRAPPER)
    if item.value != InputFormat.CANONICAL_TURNS:
        raise item.place.wrong(item.value, f"the text '{InputFormat.CANONICAL_TURNS}'")


def _turn(maker: TurnMaker, value: object, index: int, place: Place) -> Turn:
    data = fields.as_object(value, place)
    fields.only(data, TURN, place)
    stamp = fields.optional_text(data, "timestamp_iso", place)
    if stamp is not None:
        try:
            parse_time(stamp)
        except ValueError:
            raise place.key("timestamp_iso").wrong(stamp, "an ISO 8601 time such as 2025-12-21T10:00:00Z") from None
    return maker.make(
        place,
        index,
        Role(fields.one_of(data, "role", ROLES, place)),
        fields.text(data, "text", place),
        speaker=fields.optional_text(data, "speaker", place) or None,
        timestamp_iso=stamp,
        attachments=read_attachments(data, place),
        meta=fields.optional_object(data, "meta", place),
        turn_id=fields.optional_id(data, "turn_id", place),
        source_ref=_source_ref(data, index, place),
        drop_candidate=fields.optional_text(data, "drop_candidate", place),
    )


def read_attachments(data: Data, place: Place) -> tuple[Attachment, ...]:
    listed = fields.optional_list(data, "attachments", place)
    if not listed:
        return ()
    found = []
    for number, entry in enumerate(listed):
        here = place.key("attachments").item(number)
        attachment = fields.as_object(entry, here)
        fields.only(attachment, ATTACHMENT, here)
        found.append(
            make_attachment(
                here,
                type=fields.one_of(attachment, "type", KINDS, here),
                name=fields.optional_text(attachment, "name", here) or "",
                truncated=fields.optional_bool(attachment, "truncated", here) or False,
                sha256=fields.optional_text(attachment, "sha256", here),
                ref=fields.optional_text(attachment, "ref", here) or "",
            )
        )
    return tuple(found)


def _source_ref(data: Data, index: int, place: Place) -> SourceRef | None:
    """A turn that stage 1 made before keeps pointing at the export it first came from."""
    ref = fields.optional_object(data, "source_ref", place)
    if ref is None:
        return None
    here = place.key("source_ref")
    fields.only(ref, SOURCE_REF, here)
    number = ref.get("raw_index", index)
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise here.key("raw_index").wrong(number, "a whole number, not negative")
    return make_source_ref(
        here,
        input_format=InputFormat(fields.one_of(ref, "input_format", [f.value for f in InputFormat], here)),
        raw_index=number,
        raw_path=fields.optional_text(ref, "raw_path", here) or place.path,
    )
