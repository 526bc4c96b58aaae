"""A small graph in two languages, as somebody outside would send it."""

from __future__ import annotations

from typing import Any

SAID = {
    "u1": "我搬到杭州了，和王小明一起住。",
    "u2": "Tom Smith visited me in Rome.",
    "u3": "Tom likes tea.",
}


def span(utterance: str, words: str) -> dict[str, Any]:
    start = SAID[utterance].index(words)
    return {"utterance_id": utterance, "span_start": start, "span_end": start + len(words)}


def quote(utterance: str, words: str) -> dict[str, Any]:
    return {"id": f"ev {utterance} {words}", "text": words, **span(utterance, words)}


def edge(src: str, rel: str, dst: str, *evidence: dict[str, Any]) -> dict[str, Any]:
    return {"src_id": src, "rel_type": rel, "dst_id": dst, "evidence": list(evidence)}


def state(id_: str, value: str, valid_from: str, **rest: Any) -> dict[str, Any]:
    return {"id": id_, "subject_id": "me", "property": "home", "value": value, "valid_from": valid_from, **rest}


def payload(*who: str, domain: str = "dialog") -> dict[str, Any]:
    """Everything for the same people."""
    lists: dict[str, list[dict[str, Any]]] = {
        "utterances": [
            {"id": id_, "raw_text": text, "speaker": "Ann", "t_abs_start": f"2026-03-0{n}T08:00:00Z"}
            for n, (id_, text) in enumerate(SAID.items(), 1)
        ],
        "evidences": [quote("u1", "搬到杭州"), quote("u2", "Tom Smith")],
        "entities": [
            {"id": "me", "name": "Ann", "type": "person"},
            {"id": "tom", "name": "Tom", "type": "person"},
            {"id": "tom-smith", "name": "Tom Smith", "type": "person"},
            {"id": "wang", "name": "王小明", "type": "person"},
            {"id": "xiaowang", "name": "小王", "type": "person"},
        ],
        "events": [
            {
                "id": "moved",
                "summary": "Ann moved to Hangzhou",
                "t_abs_start": "2026-03-01T08:00:00Z",
                "actor_id": "me",
            },
            {"id": "visit", "summary": "Tom Smith visited", "t_abs_start": "2026-03-02T08:00:00Z"},
            {"id": "tea", "summary": "Tom likes tea", "t_abs_start": "2026-03-03T08:00:00Z"},
        ],
        "knowledge": [{"id": "lives", "summary": "Ann lives in Hangzhou"}],
        "states": [
            state("s1", "Rome", "2025-01-01T00:00:00Z", created_at="2025-01-02T00:00:00Z"),
            state("s2", "杭州", "2026-03-01T08:00:00Z", created_at="2026-03-01T08:00:00Z"),
        ],
        "time_slices": [
            {"id": "m", "kind": "month", "t_abs_start": "2026-03-01T00:00:00Z", "t_abs_end": "2026-04-01T00:00:00Z"},
            {"id": "d", "kind": "day", "t_abs_start": "2026-03-01T00:00:00Z", "t_abs_end": "2026-03-02T00:00:00Z"},
        ],
        "edges": [
            edge("lives", "DERIVED_FROM", "moved", span("u1", "搬到杭州")),
            edge("lives", "SUPPORTED_BY", "u1", span("u1", "杭州"), span("u1", "搬到杭州")),
            edge("moved", "SUPPORTED_BY", "u1", span("u1", "我搬到杭州了")),
            edge("visit", "SUPPORTED_BY", "u2"),
            edge("visit", "INVOLVES", "tom-smith", span("u2", "Tom Smith")),
            edge("tea", "MENTIONS", "tom", span("u3", "Tom")),
            edge("moved", "MENTIONS", "wang", span("u1", "王小明")),
        ],
    }
    whose = {"user_id": list(who or ("u:ann",)), "memory_domain": domain}
    return {name: [{**row, **whose} for row in rows] for name, rows in lists.items()}
