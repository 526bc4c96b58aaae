"""Mnemon: long-term memory for chat agents that can always prove itself."""

from mnemon import errors
from mnemon.contracts.scope import Scope
from mnemon.contracts.turns import Span, Turn
from mnemon.engine.config import Config
from mnemon.engine.memory import AsyncMemory
from mnemon.engine.sync import Memory
from mnemon.surfaces import tools

__all__ = ["AsyncMemory", "Config", "Memory", "Scope", "Span", "Turn", "errors", "tools"]
__version__ = "0.1.0"
