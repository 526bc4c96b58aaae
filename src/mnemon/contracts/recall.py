"""What `recall` answers: a view of somebody in which every point carries their own words, and how far it looked.

`logic/recall` decides what to ask next and never asks itself; whoever drives it holds the tools, and with them the
scope."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mnemon.contracts.claims import Language
from mnemon.contracts.reports import Degraded
from mnemon.contracts.results import Message
from mnemon.contracts.turns import Role

Shelf = Literal["preferences", "profile", "constraints"]
ItemStatus = Literal["settled", "changed", "uncertain"]
ToolName = Literal["messages_list", "lexical_search", "semantic_search", "neighbors"]
# Why a message that seems to speak against a point does not, or why nobody can tell (003 §4.6.2).
Reason = Literal["context", "changed", "source", "unclear", ""]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Evidence(_Frozen):
    """Words somebody said: `content` is the message's text from `start` to `end`, and `neighbors` are the messages
    around it that were read to understand it."""

    message_id: str = Field(min_length=1)
    session_id: str
    ts: str
    role: Role
    speaker: str = ""
    content: str = Field(min_length=1)
    start: int = Field(ge=0)
    end: int = Field(gt=0)
    why: str = ""
    neighbors: tuple[str, ...] = ()


class Item(_Frozen):
    """One point of the view. It cannot be made without evidence; `against` is what speaks against it, and `reason` why
    that does not count, or why it leaves the matter open."""

    statement: str = Field(min_length=1)
    status: ItemStatus
    confidence: float = Field(ge=0.0, le=1.0)
    evidence: tuple[str, ...] = Field(min_length=1, description="message ids, the strongest first")
    against: tuple[str, ...] = ()
    reason: Reason = ""
    note: str = ""
    since: str = ""
    topic: str = ""


class MemoryView(_Frozen):
    preferences: tuple[Item, ...] = ()
    profile: tuple[Item, ...] = ()
    constraints: tuple[Item, ...] = ()

    def items(self) -> tuple[Item, ...]:
        return (*self.preferences, *self.profile, *self.constraints)


class Window(_Frozen):
    """`since` counts, `until` does not; an empty one is open."""

    since: str = ""
    until: str = ""


class Limits(_Frozen):
    """How far it looked: what lies outside was not looked at. Of the `messages_in_scope` the `messages_considered` were
    read; the searches found no more that bear on the question, or it was `truncated`."""

    time_range: Window = Window()
    role: str = ""
    messages_considered: int = 0
    messages_in_scope: int | None = Field(default=None, description="None where nobody at hand can count them")
    routes: tuple[ToolName, ...] = ()
    rounds: int = 0
    calls: int = 0
    truncated: bool = False


class Hypothesis(_Frozen):
    """Something messages could prove, and what would count as proof."""

    statement: str
    proof: str
    shelf: Shelf


class Round(_Frozen):
    """One turn of the loop, for people to read: what was supposed, what was asked and why, what came, what that means,
    what follows."""

    number: int
    hypotheses: tuple[Hypothesis, ...] = ()
    tool: ToolName
    arguments: dict[str, Any] = Field(default_factory=dict)
    why: str = ""
    found: int = 0
    reflection: tuple[str, ...] = ()
    decision: str = ""


class RecallResult(_Frozen):
    """`answer` is in the language of the question; without an item it says that nothing was found, and where it
    looked."""

    question: str
    answer: str
    memory_view: MemoryView = MemoryView()
    evidence: tuple[Evidence, ...] = ()
    limits: Limits = Limits()
    trace: tuple[Round, ...] = ()
    degraded: tuple[Degraded, ...] = ()
    planner: Literal["rules", "model"] = "rules"
    llm_used: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RecallSettings:
    """What a skill may set, and how far: budgets can be made smaller, never larger, by a skill that was loaded."""

    window_days: int = 30
    role: Role | None = Role.USER
    language: Language | None = None
    max_calls: int = 8
    max_rounds: int = 6
    max_tokens: int = 20_000
    evidence_length: int = 280
    since: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool to be used now; there is no place in it for whose messages are asked for. `ended` is the round that led to
    it, for whoever is listening."""

    tool: ToolName
    arguments: dict[str, Any]
    why: str = ""
    ended: Round | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What a call brought: messages, how well each fits where that is known, whether there is more."""

    messages: tuple[Message, ...] = ()
    scores: tuple[float, ...] = ()
    more: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class Recollection:
    """What a flow came to; the driver adds what it cost."""

    view: MemoryView
    evidence: tuple[Evidence, ...]
    limits: Limits
    trace: tuple[Round, ...]
    answer: str
    read: dict[str, Message] = field(default_factory=dict)
