"""A real HTTP server that speaks `/embeddings` and misbehaves when it is told to."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIMENSION = 16


def numbers(text: str) -> list[float]:
    """Bag of words, so that equal words are close; deterministic."""
    vector = [0.01] * DIMENSION
    for word in text.lower().replace("!", "").split() or [text]:
        digest = hashlib.sha256(word.encode("utf-8", "replace")).digest()
        for place in range(DIMENSION):
            vector[place] += digest[place] - 127.5
    return vector


class EmbeddingServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is what the test wanted."""


class _Handler(BaseHTTPRequestHandler):
    server: EmbeddingServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        return None

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests.append(body)
            self.server.keys.append(self.headers["Authorization"])
            mode = self.server.script.pop(0) if self.server.script else "ok"
        data: list[dict[str, Any]] = [
            {"object": "embedding", "index": place, "embedding": numbers(text)}
            for place, text in enumerate(body["input"])
        ]
        if self.path != "/v1/embeddings":
            return self._send(404, "no such path")
        match mode.partition(":")[0]:
            case "429":
                return self._send(429, "slow down", {"Retry-After": mode.partition(":")[2]})
            case "500":
                return self._send(500, f"oops, you are {self.headers['Authorization']}")
            case "401":
                return self._send(401, f"wrong key {self.headers['Authorization']}")
            case "slow":
                time.sleep(float(mode.partition(":")[2]))
            case "badjson":
                return self._send(200, '{"data": [')
            case "nolist":
                return self._send(200, '{"oops": 1}')
            case "short":
                data = data[:-1]
            case "double":
                data[0]["index"] = 1
            case "shuffled":
                data = data[::-1]
            case "dimension":
                data[-1]["embedding"].append(1.0)
            case "nan":
                data[0]["embedding"][0] = float("nan")
            case "words":
                data[0]["embedding"] = ["a"] * DIMENSION
            case "cut":
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b'{"data": [')
                self.close_connection = True
                return None
        return self._send(200, json.dumps({"object": "list", "data": data, "model": body["model"]}))

    def _send(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        payload = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload)


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    server = EmbeddingServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
