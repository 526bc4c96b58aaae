"""Bytes to text for whoever reads the file or the request: an invalid byte is an error that says where it stands."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

from mnemon.contracts.errors import MalformedInput


def decoded(blocks: Iterable[bytes]) -> Iterator[str]:
    """UTF-8 in blocks of any size; characters cut by a block's border are joined."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line, before = 1, 0
    for block in blocks:
        waiting = len(decoder.getstate()[0])
        try:
            text = decoder.decode(block)
        except UnicodeDecodeError as error:
            raise _invalid(line, block, before - waiting + error.start, error.start - waiting) from None
        line += text.count("\n")
        before += len(block)
        yield text
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise _invalid(line, b"", before - len(error.object), 0) from None


def _invalid(line: int, block: bytes, at: int, inside: int) -> MalformedInput:
    line += block.count(b"\n", 0, max(inside, 0))
    expected = "UTF-8 text"
    message = f"line {line}: the byte at offset {at} is not UTF-8; expected {expected}"
    return MalformedInput(message, line=line, offset=at, expected=expected)
