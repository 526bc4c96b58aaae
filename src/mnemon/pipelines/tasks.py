"""Every question a model is asked here: the prompt, the shape of the answer, its gates, and the rules' own answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mnemon.contracts.chats import Absolute, EndCall
from mnemon.contracts.claims import Claim, Language
from mnemon.contracts.drafts import DedupDecision, Extraction, Merged, Summary
from mnemon.contracts.models import Violation
from mnemon.contracts.nodes import Node, Shelf
from mnemon.contracts.tags import ValueTaggingOutput
from mnemon.contracts.turns import Turn
from mnemon.logic import chats, drafting, rules, tagging
from mnemon.logic.drafting import DraftInput
from mnemon.logic.governance import table_text
from mnemon.logic.language import language_of
from mnemon.logic.rendering import render
from mnemon.logic.shelves import EXTRACTORS
from mnemon.logic.support import Cited, invented, is_mostly_new, twisted, unsupported
from mnemon.logic.tagging import TagInput
from mnemon.pipelines.ask import Task
from mnemon.pipelines.prompts.lines import tag_lines, turn_lines

# --- stage 2

TAGGING: Task[TagInput, ValueTaggingOutput] = Task(
    prompt="tagging.value_tags",
    answer=ValueTaggingOutput,
    variables=lambda given: {
        "session_id": given.session_id,
        "messages": turn_lines(given.turns),
        "ttl_table": table_text(given.language),
    },
    language=lambda given: given.language,
    rules=lambda given: rules.tag(given.turns, given.session_id),
    check=tagging.check,
    mend=tagging.mend,
    retries=1,
)

# --- stage 3


def _extractor(name: str) -> Task[DraftInput, Extraction]:
    return Task(
        prompt=name,
        answer=Extraction,
        variables=lambda given: {
            "summary": given.summary,
            "messages": turn_lines(given.turns, given.said_at),
            "tags": tag_lines(given.tags),
            "tools": given.tools,
        },
        language=lambda given: given.language,
        rules=lambda given: rules.extract(given.shelves, given.turns, given.tags, given.said_at),
        check=drafting.check,
        mend=drafting.mend,
        retries=1,
    )


EXTRACTION: dict[str, Task[DraftInput, Extraction]] = {name: _extractor(name) for name in EXTRACTORS}


def shelves_of(name: str) -> frozenset[Shelf]:
    return EXTRACTORS[name]


# --- the session in short


@dataclass(frozen=True, slots=True)
class SummaryInput:
    turns: tuple[Turn, ...]
    tools: str
    max_tokens: int

    @property
    def language(self) -> Language:
        return language_of("\n".join(turn.text for turn in self.turns))


def _check_summary(given: SummaryInput, output: Summary) -> list[Violation]:
    """A summary may put things in its own words, but numbers, names and dates must have been said, and so must
    most of the rest."""
    source = [Cited(turn.text, turn.speaker) for turn in given.turns]
    texts = {"summary": output.summary}
    for name in ("key_topics", "key_decisions", "unresolved"):
        texts |= {f"{name}[{n}]": text for n, text in enumerate(getattr(output, name))}
    odd = invented("\n".join(texts.values()), source)
    found = []
    for where, text in texts.items():
        if names := [word for word in odd if word in text]:
            found.append(Violation("names what nobody said", where, "what the messages say", ", ".join(names[:8])))
        if is_mostly_new(text, source):
            found.append(Violation("is mostly what nobody said", where, "what the messages say", text[:80]))
    return found


SUMMARY: Task[SummaryInput, Summary] = Task(
    prompt="compression.archive_summary",
    answer=Summary,
    variables=lambda given: {
        "messages": turn_lines(given.turns),
        "tools": given.tools,
        "max_tokens": str(given.max_tokens),
    },
    language=lambda given: given.language,
    rules=lambda given: rules.summarise(given.turns),
    check=_check_summary,
    retries=1,
)

# --- what is there already


@dataclass(frozen=True, slots=True)
class DedupInput:
    candidate: Claim
    existing: Node


DEDUP: Task[DedupInput, DedupDecision] = Task(
    prompt="policy.dedup_decision",
    answer=DedupDecision,
    variables=lambda given: {
        "candidate_abstract": given.candidate.statement,
        "candidate_content": given.candidate.content or "\n".join(s.text_exact for s in given.candidate.spans),
        "existing_abstract": given.existing.abstract,
    },
    language=lambda given: given.candidate.language,
    rules=lambda given: rules.decide(given.candidate.statement, given.existing.abstract),
    check=lambda given, output: [],
    retries=1,
)


@dataclass(frozen=True, slots=True)
class MergeInput:
    """Claims that hold now and shall be told as one, beside what the node said before."""

    existing: Node
    title: str
    claims: tuple[Claim, ...]
    fresh: tuple[Claim, ...]
    now: datetime

    @property
    def language(self) -> Language:
        return language_of("\n".join(c.statement for c in self.claims))


def _merge_variables(given: MergeInput) -> dict[str, str]:
    new = render(given.title, given.fresh, given.now)
    return {
        "existing_abstract": given.existing.abstract,
        "existing_overview": given.existing.overview,
        "existing_content": given.existing.content,
        "new_abstract": new.abstract,
        "new_overview": new.overview,
        "new_content": new.content,
        "category": given.existing.key.shelf.value,
    }


def _check_merge(given: MergeInput, output: Merged) -> list[Violation]:
    """The wording may differ; what it says must stand in the claims it merges or in the words they cite."""
    source = [Cited(c.statement, said_at=c.valid_from) for c in given.claims]
    source += [Cited(span.text_exact, said_at=c.valid_from) for c in given.claims for span in c.spans]
    found = []
    for where in ("abstract", "overview", "content"):
        if odd := unsupported(getattr(output, where), source):
            found.append(Violation("says what no claim says", where, "only what the claims say", ", ".join(odd[:8])))
        if why := twisted(getattr(output, where), source):
            found.append(Violation(why, where, "what the claims say", getattr(output, where)[:80]))
    return found


MERGE: Task[MergeInput, Merged] = Task(
    prompt="policy.merge_bundle",
    answer=Merged,
    variables=_merge_variables,
    language=lambda given: given.language,
    rules=lambda given: Merged(**render(given.title, given.claims, given.now)._asdict(), reason="rendered"),
    check=_check_merge,
    retries=1,
)

# --- a bot's turn


def _situation(call: EndCall) -> str:
    told = {
        "time": f"{chats.moment_of(call):%Y-%m-%d %H:%M} ({call.timezone})",
        "chat": f"group {chats.name_of_group(call)}" if call.request_type == "group" else "private",
        "sender": chats.name_of_sender(call),
        "bot": call.bot_name or "bot",
        "location": call.location or "unknown",
    }
    return "\n".join(f"{name}: {value}" for name, value in told.items())


ABSOLUTISE: Task[EndCall, Absolute] = Task(
    prompt="historian.absolutise",
    answer=Absolute,
    variables=lambda call: {
        "situation": _situation(call),
        "messages": turn_lines([turn for turn in chats.turns_of(call) if not chats.is_call(turn)]),
        "action_summary": call.action_summary,
        "new_info": call.new_info,
    },
    language=lambda call: language_of(f"{call.action_summary}\n{call.new_info}"),
    rules=chats.by_rules,
    check=lambda call, made: [*chats.not_absolute(made), *chats.unfounded(call, made)],
    retries=2,
)
