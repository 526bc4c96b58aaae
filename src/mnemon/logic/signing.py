"""Signed requests: what a shared secret makes of a moment, a path and a body."""

from __future__ import annotations

import hashlib
import hmac


def sign(secret: str, moment: str, path: bytes, body: bytes) -> str:
    """Hex HMAC-SHA256 over `{ts}.{path}.{raw body}`; the path as it stands in the request line, without the query."""
    return hmac.new(secret.encode(), moment.encode() + b"." + path + b"." + body, hashlib.sha256).hexdigest()
