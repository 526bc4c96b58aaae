"""A node's three levels from its claims: what holds, what held, and the words that prove each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from mnemon.contracts.claims import Claim, ClaimState, Language, ToolStats
from mnemon.contracts.governance import EvidenceLevel, Status

_WORDS: dict[Language, dict[str, str]] = {
    "zh": {"earlier": "曾经", "stop": "；", "from": "自 {0} 起", "between": "{0} 至 {1}", "where": "会话 {0}，{1}，{2}",
           "open": "未完成", "done": "已完成", "cancelled": "已取消", "own": "（机器人自己的话，未经确认）",
           "calls": "调用 {0} 次，成功 {1} 次（{2:.0%}）", "average": "平均 {0:.0f} 毫秒", "tokens": "共 {0} 个词元",
           "best_for": "适合：{0}", "common_failures": "常见失败：{0}"},
    "en": {"earlier": "Earlier", "stop": "; ", "from": "since {0}", "between": "{0} to {1}",
           "where": "session {0}, {1}, {2}", "open": "open", "done": "done", "cancelled": "cancelled",
           "own": " (the bot's own words, unconfirmed)",
           "calls": "{0} calls, {1} went well ({2:.0%})", "average": "{0:.0f} ms on average", "tokens": "{0} tokens",
           "best_for": "best for: {0}", "common_failures": "common failures: {0}"},
}  # fmt: skip
_ABSTRACT = 3


class Levels(NamedTuple):
    abstract: str
    overview: str
    content: str


def language_of_claims(claims: Iterable[Claim]) -> Language:
    counts = Counter(claim.language for claim in claims)
    return "zh" if counts["zh"] >= counts["en"] and counts["zh"] else "en"


def render(title: str, claims: Sequence[Claim], now: datetime, merged: Levels | None = None) -> Levels:
    """`merged` is a model's wording of exactly these claims; the proof below it is always ours."""
    shown = [c for c in claims if c.alive(now) and c.state is not ClaimState.PENDING]
    language = language_of_claims(shown)
    words = _WORDS[language]
    groups = _grouped(shown)
    holding = [g for g in groups if g[0].holds(now)]
    over = [g for g in groups if not g[0].holds(now)]
    abstract = words["stop"].join(_plain(g[0].statement) for g in _best(holding)[:_ABSTRACT])
    if not holding:
        abstract = words["stop"].join(f"{_plain(g[0].statement)} ({_interval(g, words)})" for g in over[-_ABSTRACT:])
    overview = "\n".join(_line(g, words) for g in holding)
    content = [f"# {title}", ""]
    if merged:
        abstract, overview = merged.abstract, merged.overview or overview
        content += [merged.content, ""] if merged.content else []
    content += [line for group in holding for line in _proven(group, words)]
    if over:
        overview = "\n".join([overview, f"{words['earlier']}:", *(_line(g, words) for g in over)]).strip()
        content += ["", f"## {words['earlier']}", "", *(line for group in over for line in _proven(group, words))]
    return Levels(abstract, overview, "\n".join(content).rstrip() + "\n")


def with_statistics(levels: Levels, stats: ToolStats, language: Language) -> Levels:
    """What a tool's uses add up to stands above what is said of it."""
    words = _WORDS[language]
    told = []
    if stats.success_rate is not None:
        told.append(words["calls"].format(stats.call_count, stats.success_count, stats.success_rate))
    if stats.avg_duration_ms is not None:
        told.append(words["average"].format(stats.avg_duration_ms))
    if stats.total_tokens:
        told.append(words["tokens"].format(stats.total_tokens))
    lines = [f"- {words['stop'].join(told)}"] if told else []
    lines += [f"- {words[n].format(text)}" for n in ("best_for", "common_failures") if (text := getattr(stats, n))]
    head, _, rest = levels.content.partition("\n\n")
    content = "\n".join([head, "", *lines, "", rest]) if lines else levels.content
    return levels._replace(overview="\n".join([*lines, levels.overview]).strip(), content=content)


def known(claims: Sequence[Claim], now: datetime) -> list[str]:
    """What holds, a line each and without its proof: what weighs most first, of equals what was said last."""
    words = _WORDS[language_of_claims(claims)]
    return [_line(group, words) for group in _best([g for g in _grouped(claims) if g[0].holds(now)])]


def _best(groups: Iterable[list[Claim]]) -> list[list[Claim]]:
    return sorted(groups, key=lambda g: (-g[0].governance.importance, -g[-1].valid_from.timestamp()))


def own_words(evidence_level: str, language: Language) -> str:
    """What is put behind a sentence that nobody but the bot stands for."""
    return _own(evidence_level, _WORDS[language])


def _own(evidence_level: str, words: dict[str, str]) -> str:
    return words["own"] if evidence_level == EvidenceLevel.AI_INFERENCE else ""


def _grouped(claims: Iterable[Claim]) -> list[list[Claim]]:
    """A claim and those that repeat it stand on one line, with the words of each."""
    groups: dict[str, list[Claim]] = {}
    for claim in sorted(claims, key=lambda c: (c.valid_from, c.recorded_at, c.claim_id)):
        groups.setdefault(claim.repeats or claim.claim_id, []).append(claim)
    return list(groups.values())


def _plain(statement: str) -> str:
    return statement.rstrip("。.;； ")


def _interval(group: Sequence[Claim], words: dict[str, str]) -> str:
    begins = f"{group[0].valid_from:%Y-%m-%d}"
    end = group[0].valid_to
    return words["between"].format(begins, f"{end:%Y-%m-%d}") if end else words["from"].format(begins)


def _line(group: Sequence[Claim], words: dict[str, str]) -> str:
    claim = group[0]
    status = "" if claim.status is Status.NONE else f"[{words[claim.status.value]}] "
    own = _own(claim.governance.evidence_level, words)
    return f"- {status}{one_line(claim.statement)}{own} ({_interval(group, words)})"


def _proven(group: Sequence[Claim], words: dict[str, str]) -> list[str]:
    claim = group[0]
    lines = [_line(group, words)]
    lines += [f"  {line}" for text in (claim.overview, claim.content) if text for line in text.splitlines()]
    for said in group:
        for span in said.spans:
            where = words["where"].format(said.session_id, span.turn_id, f"{said.valid_from:%Y-%m-%d}")
            lines.append(f"  > {one_line(span.text_exact)} — {where}")
    return lines


def one_line(text: str) -> str:
    return " ".join(text.split())
