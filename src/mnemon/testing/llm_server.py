"""A real HTTP server that speaks three vendors' chat, and misbehaves when it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKENS = {"input": 11, "output": 7}
_HALLUCINATION = "words that nobody said 没人说过的话"
_STATUSES = {"401": "wrong key", "403": "not yours", "404": "no such model", "400": "bad request", "500": "oops"}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it arrived: everything said, how JSON was asked for, and all headers."""

    path: str
    text: str
    form: str
    headers: dict[str, str]
    body: dict[str, Any]


class LLMServer(ThreadingHTTPServer):
    """`answer` makes the object to say from everything that was said. `script` is used up one request at a time:

    ok, fenced, prose, two_objects, bad_json, empty, wrong_schema, hallucinated, refusal: what the model says;
    400 to 500, 429:seconds, quota, redirect:url, not_a_completion, text_plain, html: what the service says;
    cut, cut_stream, reset, hang: what becomes of the connection.

    Ways of asking for JSON named in `refuses` get a 400."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, answer: Callable[[str], dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.script: list[str] = []
        self.refuses: set[str] = set()
        self.asked: list[Asked] = []
        self.lock = threading.Lock()
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is what the test wanted."""


class _Handler(BaseHTTPRequestHandler):
    server: LLMServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        return None

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.path, "\n".join(_texts(body)), _form(body), headers, body)
        with self.server.lock:
            self.server.asked.append(asked)
            mode = self.server.script.pop(0) if self.server.script else "ok"
        if asked.form in self.server.refuses:
            return self._error(400, "this service does not know that", {"param": "response_format"})
        return self._misbehave(mode, asked)

    def _misbehave(self, mode: str, asked: Asked) -> None:
        kind, _, value = mode.partition(":")
        told = " ".join(f"{name}={value}" for name, value in asked.headers.items()) + asked.text
        match kind:
            case "429":
                self._error(429, f"slow down {told}", headers={"Retry-After": value} if value else {})
            case "quota":
                self._error(429, "no money", {"code": "insufficient_quota"})
            case _ if kind in _STATUSES:
                # A service that quotes back everything it was sent, the key included.
                self._error(int(kind), f"{_STATUSES[kind]} {told}", {"code": asked.headers.get("authorization", "")})
            case "redirect":
                self._send(307, "", {"Location": value})
            case "not_a_completion":
                self._send(200, '{"hello": "world"}')
            case "text_plain":
                self._send(200, "this is not JSON " + told, content_type="text/plain")
            case "html":
                self._send(200, "<html>gateway</html>", content_type="text/html")
            case "cut":
                self._cut({"Content-Length": "1000"}, b'{"id": "x", "choices": [')
            case "cut_stream":
                self._cut({"Transfer-Encoding": "chunked"}, b'18\r\n{"id": "x", "choices": [\r\n')
            case "reset":
                self.close_connection = True
            case "hang":
                self.server.closing.wait(60)
                self.close_connection = True
            case _:
                self._say(_said(kind, self.server.answer(asked.text)), asked)

    def _say(self, text: str, asked: Asked) -> None:
        if asked.path.endswith("/chat/completions"):
            self._send(200, json.dumps(_chat_completion(text, asked.body["model"])))
        elif asked.path.startswith("/v1/messages"):
            message = _message(text, asked.body["model"])
            if asked.body.get("stream"):
                self._send(200, _message_stream(message), content_type="text/event-stream")
            else:
                self._send(200, json.dumps(message))
        elif ":generateContent" in asked.path:
            self._send(200, json.dumps(_candidates(text)))
        else:
            self._error(404, f"no such path {asked.path}")

    def _error(
        self, status: int, message: str, facts: dict[str, Any] | None = None, headers: dict[str, str] | None = None
    ) -> None:
        error = {"code": status, "message": message, "type": "error", **(facts or {})}
        self._send(status, json.dumps({"type": "error", "error": error}), headers)

    def _send(
        self,
        status: int,
        text: str,
        headers: dict[str, str] | None = None,
        content_type: str = "application/json",
    ) -> None:
        payload = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(payload)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload)

    def _cut(self, headers: dict[str, str], begun: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(begun)
        self.close_connection = True


def _said(mode: str, answer: dict[str, Any]) -> str:
    """What the model says in place of its answer."""
    plain = json.dumps(answer, ensure_ascii=False)
    return {
        "ok": plain,
        "fenced": f"```json\n{plain}\n```",
        "prose": f"Of course! 好的：\n{plain}\nAnything else?",
        "two_objects": f"{plain}\n{plain}",
        "bad_json": plain[:-1],
        "empty": "",
        "refusal": "I cannot help with that.",
        "wrong_schema": '{"forty": 2}',
        "hallucinated": json.dumps(_hallucinated(answer), ensure_ascii=False),
    }[mode]


def _hallucinated(value: Any) -> Any:
    """The same answer with every quote changed."""
    if isinstance(value, dict):
        return {k: _HALLUCINATION if k == "text_exact" else _hallucinated(v) for k, v in value.items()}
    return [_hallucinated(v) for v in value] if isinstance(value, list) else value


def _texts(value: Any) -> Iterator[str]:
    """Every text of a request, whatever the vendor: what stands under `content`, `text` or `system`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("content", "text", "system") and isinstance(inner, str):
                yield inner
            else:
                yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _form(body: dict[str, Any]) -> str:
    """How JSON was asked for: `json_schema`, `json_object` or `words`."""
    if "response_format" in body:
        return str(body["response_format"]["type"])
    gemini = body.get("generationConfig", {})
    if "output_config" in body or "output_format" in body or {"responseJsonSchema", "responseSchema"} & gemini.keys():
        return "json_schema"
    return "json_object" if "responseMimeType" in gemini else "words"


def _chat_completion(text: str, model: str) -> dict[str, Any]:
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {
            "prompt_tokens": TOKENS["input"],
            "completion_tokens": TOKENS["output"],
            "total_tokens": sum(TOKENS.values()),
        },
    }


def _message(text: str, model: str) -> dict[str, Any]:
    return {
        "id": "1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": TOKENS["input"], "output_tokens": TOKENS["output"]},
    }


def _message_stream(message: dict[str, Any]) -> str:
    """The same message as the events it is streamed in."""
    block = message["content"][0]
    begun = {**message, "content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": block["text"]}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
            "usage": message["usage"],
        },
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def _candidates(text: str) -> dict[str, Any]:
    return {
        "candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [{"text": text}]}}],
        "usageMetadata": {
            "promptTokenCount": TOKENS["input"],
            "candidatesTokenCount": TOKENS["output"],
            "totalTokenCount": sum(TOKENS.values()),
        },
    }


@contextmanager
def llm_server(answer: Callable[[str], dict[str, Any]] | None = None) -> Iterator[LLMServer]:
    server = LLMServer(answer or (lambda said: {"ok": True}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
