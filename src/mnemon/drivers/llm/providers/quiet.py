"""Keeps the vendors' libraries quiet: what is said to a model is not logged, and their warnings stay with them."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# These print whole requests at DEBUG.
_TALKATIVE = ("anthropic._base_client", "openai._base_client", "google_genai._api_client", "google_genai.models")
_VENDORS = r"(anthropic|openai|google\.genai|pydantic_ai|mnemon\.drivers\.llm)\b"
_asking: ContextVar[bool] = ContextVar("asking", default=False)


def _not_ours(record: logging.LogRecord) -> bool:
    return not _asking.get()


for _name in _TALKATIVE:
    logging.getLogger(_name).addFilter(_not_ours)


@contextmanager
def quietly() -> Iterator[None]:
    """What is asked in here is not logged by them; what the rest of the program asks is, as ever.

    The filter of warnings stays: to take it away again would undo what other tasks and threads set meanwhile."""
    warnings.filterwarnings("ignore", module=_VENDORS)
    token = _asking.set(True)
    try:
        yield
    finally:
        _asking.reset(token)
