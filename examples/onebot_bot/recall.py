"""A brain that needs no model: it learns what it is told, and answers with a memory and the words that prove it."""

from __future__ import annotations

import re

from mnemon.contracts.chats import EventHit

from .brains import Heard, Thought

_HAN, _LATIN = re.compile(r"[\u4e00-\u9fff]"), re.compile(r"[a-z]+")
_QUESTION = re.compile(r"[?？]\s*$|[吗么呢]\s*$|什么|哪|谁|^(?:what|where|when|who|which|how|do|does|is|are)\b", re.I)
_OF_MYSELF = re.compile(r"我|\b(?:I|my|me)\b")
_IDLE = set("我你您他她的了吗么呢是在有什哪谁里个不") | set(
    re.findall(r"\w+", "a am an are at do did does have how i in is it me my of on the to what when where which who")
)


class RecallBrain:
    async def think(self, heard: Heard) -> Thought:
        zh, name = heard.language == "zh", heard.turn.sender_name
        if not _QUESTION.search(heard.text):
            return Thought("记住了。" if zh else "Noted.", new_info=heard.text)
        done = f"回答了{name}的提问" if zh else f"Answered a question of {name}"
        known = _known(heard)
        if known is None:
            return Thought("这里没有人告诉过我。" if zh else "Nobody told me that here.", done)
        fact, words = known.metadata["new_info"], _words(known)
        said = f"我记得：{fact}\n原话：“{words}”" if zh else f"I remember: {fact}\nWhat was said: “{words}”"
        return Thought(said, done)


def _known(heard: Heard) -> EventHit | None:
    """The best event something was learnt in that bears on the question; whoever asks about themselves is told nothing
    of others."""
    own = _OF_MYSELF.search(heard.text) is not None
    for event in heard.context.events:
        mine = event.metadata["sender_id"] == heard.turn.sender_id
        if event.metadata["has_new_info"] and (mine or not own) and _bears_on(heard.text, event.metadata["new_info"]):
            return event
    return None


def _bears_on(question: str, fact: str) -> bool:
    """There is always a best event, and it may be a bad one. In another language it shares no word: it is believed."""
    return _is_chinese(question) != _is_chinese(fact) or bool(_terms(question) & _terms(fact))


def _is_chinese(text: str) -> bool:
    return len(_HAN.findall(text)) > len(_LATIN.findall(text.lower()))


def _terms(text: str) -> set[str]:
    return {*_HAN.findall(text), *(word[:4] for word in _LATIN.findall(text.lower()) if word not in _IDLE)} - _IDLE


def _words(event: EventHit) -> str:
    """What was said to the bot then; the rest of the batch is what others said before."""
    asked = event.metadata["message_ids"][-1]
    return next((quote.text for quote in event.evidence if quote.turn_id == asked), "")
