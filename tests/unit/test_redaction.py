"""Redaction: what is masked, what is left alone, and that nothing leaks beside the text."""

from __future__ import annotations

from typing import Any

import pytest

from mnemon.contracts.errors import InvalidArgument
from mnemon.contracts.turns import Attachment, Role, Turn
from mnemon.logic.denoise import DenoiseRules, denoise
from mnemon.logic.redaction import Masked, Redactor, default_patterns, passes_luhn

REDACT = Redactor(default_patterns())
CARD = "4111 1111 1111 1111"


def turn(text: str = "", **fields: Any) -> Turn:
    return Turn(turn_id="t0001", role=Role.USER, text=text, **fields)


def masked(text: str) -> str:
    return REDACT(turn(text))[0].text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("key sk-" + "a1B2" * 8 + " end", "key [REDACTED:api_key] end"),
        ("sk-proj-" + "a1_-" * 10, "[REDACTED:api_key]"),
        ("密钥用ghp_" + "x" * 36 + "。", "密钥用[REDACTED:api_key]。"),
        ("github_pat_" + "x" * 30, "[REDACTED:api_key]"),
        ("AKIAIOSFODNN7EXAMPLE", "[REDACTED:api_key]"),
        ("xoxb-123456789012-abcdef", "[REDACTED:api_key]"),
        ("AIza" + "x" * 35, "[REDACTED:api_key]"),
        ("Authorization: Bearer " + "abc.DEF_" * 4, "Authorization: Bearer [REDACTED:bearer]"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJ-_", "[REDACTED:jwt]"),
        (
            "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb",
            "a\n[REDACTED:private_key]\nb",
        ),
        ("-----BEGIN PRIVATE KEY-----\nMIIE cut off", "[REDACTED:private_key]"),
        ("postgres://ann:s3cret@db/x", "postgres://ann:[REDACTED:url_password]@db/x"),
        ("password=hunter2 ok", "password=[REDACTED:password] ok"),
        ("Password: hunter2, thanks", "Password: [REDACTED:password], thanks"),
        ('{"password": "hunter2"}', '{"password": "[REDACTED:password]"}'),
        ('{\\"api_key\\": \\"abcd1234\\"}', '{\\"api_key\\": \\"[REDACTED:password]\\"}'),
        ("密码：Abc12345。", "密码：[REDACTED:password]。"),
        ("我的密码是Abc12345，别忘了", "我的密码是[REDACTED:password]，别忘了"),
        (f"卡号{CARD}。", "卡号[REDACTED:card]。"),
        ("5500-0000-0000-0004", "[REDACTED:card]"),
        ("378282246310005", "[REDACTED:card]"),
        ("４１１１１１１１１１１１１１１１", "[REDACTED:card]"),
        ("手机13812345678", "手机[REDACTED:phone]"),
        ("+86 138-1234-5678", "[REDACTED:phone]"),
        ("电话010-62345678转3", "电话[REDACTED:phone]转3"),
        ("call +44 20 7946 0958 now", "call [REDACTED:phone] now"),
        ("(415) 555-2671", "[REDACTED:phone]"),
        ("1-415-555-2671", "[REDACTED:phone]"),
        ("+1 (415) 555-2671", "[REDACTED:phone]"),
    ],
)
def test_masks(text: str, expected: str) -> None:
    assert masked(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1112",
        "order 1735689600000 at 1735689600",
        "2025-12-21 10:00:00",
        "20251221100000",
        "π is 3.14159265358979323846",
        "ask-me-anything-about-this-topic",
        "the password is not known to me",
        "密码是什么来着？",
        "密码忘了怎么办",
        "version 138.1234.5678",
        "550e8400-e29b-41d4-a716-446655440000",
        "room 415-2671",
        "2+2 = 4 and 3+12345678",
        "http://localhost:8080/a@b",
        "",
    ],
)
def test_leaves_alone(text: str) -> None:
    before = turn(text)
    after, found = REDACT(before)
    assert after is before
    assert found == []


def test_it_says_what_it_masked_and_how_often_but_not_the_secret() -> None:
    after, found = REDACT(turn(f"{CARD} and {CARD}, 13812345678"))
    assert found == [Masked("t0001", "card", 2), Masked("t0001", "phone_cn", 1)]
    assert after.meta["redacted"] == {"card": 2, "phone_cn": 1}
    assert "4111" not in after.model_dump_json()


def test_nothing_leaks_beside_the_text() -> None:
    secret = "sk-" + "a1B2" * 8
    before = turn(
        "fine",
        speaker="13812345678",
        attachments=(Attachment(type="file", name=f"{secret}.txt", ref=f"https://x/?key={secret}"),),
        meta={
            "tool_calls": [{"name": "f", "arguments": f'{{"k": "{secret}"}}'}, {"arguments": {"password": "hunter2"}}],
            "extra": {"密码": "abc", "pwd": 123456, "phone": 13812345678, secret: 1, "n": 5, "ok": True},
        },
    )
    after, found = REDACT(before)
    dumped = after.model_dump_json()
    for leak in (secret, "hunter2", "13812345678", "123456", '"abc"'):
        assert leak not in dumped
    assert after.text == "fine"
    assert (after.meta["extra"]["n"], after.meta["extra"]["ok"]) == (5, True)
    assert {entry.pattern: entry.count for entry in found} == {"api_key": 4, "password": 3, "phone_cn": 2}


def test_masking_twice_changes_nothing() -> None:
    text = f"password=hunter2 密码：Abc12345 {CARD} postgres://a:bcde@x/ Bearer {'x' * 30} api_key: {'y' * 9}"
    once, _ = REDACT(turn(text, meta={"password": "hunter2"}))
    twice, found = REDACT(once)
    assert (twice, found) == (once, [])


def test_redacting_before_denoising_keeps_secrets_out_of_the_blob() -> None:
    long = Turn(turn_id="t0001", role=Role.TOOL, text="x" * 50 + " password=hunter2 " + "y" * 50)
    (result,) = denoise([REDACT(long)[0]], DenoiseRules(tool_text_limit=10))
    assert b"hunter2" not in result.blobs[0]
    assert b"[REDACTED:password]" in result.blobs[0]


def test_luhn() -> None:
    assert passes_luhn("4111-1111-1111-1111")
    assert not passes_luhn("4111-1111-1111-1112")
    assert not passes_luhn("0000 0000 0000 0000")
    assert not passes_luhn("18")


def test_own_patterns() -> None:
    own = Redactor({"pattern": [{"name": "badge", "regex": r"工号(?P<secret>\d+)", "replacement": "***"}]})
    after, found = own(turn("工号12345号"))
    assert after.text == "工号***号"
    assert found == [Masked("t0001", "badge", 1)]


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({}, "pattern"),
        ({"pattern": []}, "pattern"),
        ({"pattern": ["x"]}, "pattern[0]"),
        ({"pattern": [{"name": "a", "regex": "b"}]}, "pattern[0].replacement"),
        ({"pattern": [{"name": "a", "regex": "(", "replacement": "c"}]}, "pattern[0].regex"),
        ({"pattern": [{"name": "a", "regex": "b", "replacement": "c", "check": "mod97"}]}, "pattern[0].check"),
        ({"pattern": [{"name": "a", "regex": "b", "replacement": "c", "chek": "luhn"}]}, "pattern[0].chek"),
    ],
)
def test_a_wrong_pattern_file_names_the_field(data: Any, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Redactor(data)
    assert caught.value.field == field
