"""The one sentence an event is stored as: who, when, where, and what was done and learnt."""

from __future__ import annotations

from mnemon.contracts.claims import Language
from mnemon.logic.absolute.mentions import bare, safe
from mnemon.logic.absolute.setting import FORMS, WORDS, Setting
from mnemon.logic.language import language_of


def canonical(did_what: str, new_info: str, setting: Setting) -> str:
    """In the language of its parts, which are told as they are; nothing where both are empty."""
    done, told = did_what.strip(), new_info.strip()
    if not done and not told:
        return ""
    language: Language = language_of(f"{done} {told}")
    words: dict[str, str] = WORDS["canonical"][language]
    done, told = done.rstrip(words["stops"]), told.rstrip(words["stops"])
    parts = [done, words["told"].format(told)] if done and told and done != told else [done or told]
    return words["sentence"].format(
        when=setting.minute,
        where=words["where"].format(bare(setting.group)) if setting.group else "",
        bot=safe(setting.bot, language) or FORMS[language]["bot"],
        sender=safe(setting.sender, language) or FORMS[language]["sender"],
        location=words["location"].format(safe(setting.location, language)) if setting.location else "",
        said=words["join"].join(parts),
    )
