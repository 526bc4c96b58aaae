"""What a message carries beside its words: a reference is kept, inline bytes only as their sha256."""

from __future__ import annotations

import base64
import binascii
import hashlib
from urllib.parse import unquote_to_bytes

from mnemon.contracts.turns import Attachment
from mnemon.logic.adapters.place import Place
from mnemon.logic.adapters.turns import make_attachment

_ANY_BYTES = "application/octet-stream"


def from_url(url: str, place: Place, kind: str, name: str) -> Attachment:
    """A `data:` URL is bytes in disguise; any other URL is kept as it is."""
    if url[:5].lower() != "data:":
        return make_attachment(place, type=kind, name=name, ref=url)
    header, comma, payload = url[5:].partition(",")
    if not comma:
        raise place.error("found a data URL without a comma", "data:{mime};base64,{data}")
    mime, *options = header.split(";")
    if "base64" in (option.strip().lower() for option in options):
        return from_base64(payload, place, kind, name, mime)
    return _from_bytes(unquote_to_bytes(payload), place, kind, name, mime)


def from_base64(payload: str, place: Place, kind: str, name: str, mime: str) -> Attachment:
    """Standard or URL-safe alphabet, with or without padding and line breaks."""
    letters = "".join(payload.split()).replace("-", "+").replace("_", "/").rstrip("=")
    try:
        content = base64.b64decode(letters + "=" * (-len(letters) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise place.error("found data that is not base64", "base64") from None
    return _from_bytes(content, place, kind, name, mime)


def _from_bytes(content: bytes, place: Place, kind: str, name: str, mime: str) -> Attachment:
    """The payload is not kept: memory needs the words, and the sha256 proves which bytes they were about."""
    digest = hashlib.sha256(content).hexdigest()
    return make_attachment(place, type=kind, name=name, sha256=digest, ref=f"data:{mime.strip() or _ANY_BYTES}")
