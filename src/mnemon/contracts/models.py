"""What is said to a language model and what comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class ChatMessage:
    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Completion:
    """`data` is a JSON object, parsed and nothing more: whether it is right is for gates to say."""

    data: dict[str, Any]
    input_tokens: int = 0
    output_tokens: int = 0
    model: str = ""


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing wrong with an answer: `where` names the tag, claim or field; both texts are told back to the model."""

    rule: str
    where: str
    expected: str = ""
    actual: str = ""
    item: int | None = None

    def __str__(self) -> str:
        told = f"{self.where}: {self.rule}"
        if self.expected:
            told += f"; expected {self.expected}"
        if self.actual:
            told += f"; found {self.actual}"
        return told


@dataclass(frozen=True, slots=True)
class CallTrace:
    """One use of a model task. Never holds a prompt, an answer or a key."""

    task: str
    prompt_version: str
    provider: str
    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    ms: float = 0.0
    retries: int = 0
    violations: tuple[str, ...] = ()
    error: str = ""
