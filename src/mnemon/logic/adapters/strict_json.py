"""What every JSON value must obey before an adapter sees it: no doubled key, no NaN, no half character, no abyss."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from mnemon.contracts.errors import MalformedInput
from mnemon.logic.adapters.place import Place, printable

MAX_DEPTH = 100
# Python refuses to print an integer of more than 4,300 digits; such a number could be read but never stored.
MAX_NUMBER_BITS = 14_000


class RefusedJson(ValueError):
    """Valid for Python's decoder, but not something we take."""

    def __init__(self, what: str, expected: str) -> None:
        super().__init__(what)
        self.what = what
        self.expected = expected


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise RefusedJson(f"the key `{printable(key)}` stands twice in one object", "each key once")
            seen.add(key)
    return data


def _no_constant(name: str) -> NoReturn:
    raise RefusedJson(f"{name} is not JSON", "a number, or null")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise RefusedJson(f"the number {digits[:20]} is too large", "a number that fits 64 bits")
    return number


def decoder(strict: bool) -> json.JSONDecoder:
    """`strict=False` also takes raw line breaks and tabs inside strings, as AI Studio's text may hold."""
    return json.JSONDecoder(
        object_pairs_hook=_no_doubles, parse_constant=_no_constant, parse_float=_finite, strict=strict
    )


def check_tree(value: object, place: Place) -> None:
    """Raises `MalformedInput` with the exact path of what is wrong; almost always nothing is, and no path is built."""
    if not _is_sound(value, 1):
        _find_fault(value, place)


def _is_sound(node: Any, depth: int) -> bool:
    kind = type(node)
    if kind is str:
        return node.isascii() or _is_unicode(node)
    if kind is dict and depth <= MAX_DEPTH:
        for key, child in node.items():
            if type(key) is not str or not _is_unicode(key) or not _is_sound(child, depth + 1):
                return False
        return True
    if kind is list and depth <= MAX_DEPTH:
        return all(_is_sound(child, depth + 1) for child in node)
    return node is None or kind is bool


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _find_fault(value: object, place: Place) -> None:
    """Walk without recursion, so that depth itself can be judged."""
    stack: list[tuple[object, Place, int]] = [(value, place, 1)]
    while stack:
        node, here, depth = stack.pop()
        if isinstance(node, str):
            _check_text(node, here)
        elif isinstance(node, dict | list):
            if depth > MAX_DEPTH:
                raise too_deep(place)
            if isinstance(node, list):
                stack.extend((child, here.item(i), depth + 1) for i, child in enumerate(node))
            else:
                for key, child in node.items():
                    if not isinstance(key, str):
                        raise here.error(f"found the key {key!r:.60}", "text as a key")
                    _check_text(key, here)
                    stack.append((child, here.key(key), depth + 1))
        elif isinstance(node, float) and not math.isfinite(node):
            raise here.wrong(node, "a finite number, or null")
        elif isinstance(node, int) and node.bit_length() > MAX_NUMBER_BITS:
            raise here.wrong(node, "a number that can be written in JSON")
        elif node is not None and not isinstance(node, int | float):
            raise here.wrong(node, "JSON data: text, number, true, false, null, array or object")


def too_deep(place: Place) -> MalformedInput:
    return place.error(f"nested deeper than {MAX_DEPTH} levels", f"at most {MAX_DEPTH} levels")


def _check_text(text: str, place: Place) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        safe = Place(printable(place.path), place.line, place.column)
        raise safe.error(
            f"half of a surrogate pair at character {error.start} (\\u{ord(text[error.start]):04x})",
            "whole Unicode characters",
        ) from None
