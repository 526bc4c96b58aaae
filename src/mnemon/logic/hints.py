"""What somebody may have meant by a name nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def hint(name: str, known: Iterable[str], prefix: str = "") -> str:
    """The nearest of the known names, else all there are."""
    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    return f"; did you mean {prefix}{near[0]}?" if near else f"; known: {', '.join(names)}"
