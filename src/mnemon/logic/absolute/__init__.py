"""Sentences that stand for ever: no pronoun, no relative time, no relative place.

`findings` is the gate: it names what is not absolute. `absolute` rewrites a text from its setting, by rules, and says
what it could only name as unknown. `canonical` is the one sentence an event is stored as.
"""

from __future__ import annotations

from mnemon.logic.absolute.gate import Finding, findings
from mnemon.logic.absolute.rewriting import Rewritten, absolute
from mnemon.logic.absolute.setting import Setting, Speaker
from mnemon.logic.absolute.telling import canonical

__all__ = ["Finding", "Rewritten", "Setting", "Speaker", "absolute", "canonical", "findings"]
