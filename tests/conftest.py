"""What every test shares: no settings from outside, and no test that reaches beyond this machine."""

from __future__ import annotations

import ipaddress
import os
import socket
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


# Folders whose files take longest come first, so that two workers end at the same time.
_LONG = ("crash", "docs", "isolation", "service", "hallucinations", "contract", "acceptance")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: (*_LONG, item.path.parent.name).index(item.path.parent.name))


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    outside = ("MNEMON_", "OPENAI_", "ANTHROPIC_", "GEMINI_", "GOOGLE_API_KEY")
    for name in [n for n in os.environ if n.startswith(outside) and n != "MNEMON_CRASH_KILLS"]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _only_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that dials out fails at once instead of passing by luck."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if isinstance(address, tuple) and not _is_local(str(address[0])):
            raise AssertionError(f"a test tried to reach {address[0]}")
        connect(self, address)

    if "TEST_QDRANT_URL" not in os.environ:
        monkeypatch.setattr(socket.socket, "connect", guarded)


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@pytest.fixture
def root() -> Path:
    return ROOT
