"""A real server in a process of its own: it says where it is, stops when asked, and loses nothing acknowledged."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
from pathlib import Path

import httpx
import pytest
from server import MNEMON, mnemon, running

from mnemon import Memory
from mnemon.surfaces.cli import serve

HERE = {"X-Tenant-ID": "acme", "X-User-ID": "ann"}


def refused(*arguments: str, home: Path) -> str:
    done = subprocess.run(
        [*MNEMON, "serve", *arguments, "--home", str(home)], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    return done.stderr


def test_without_a_token_it_listens_to_this_machine_only(tmp_path: Path) -> None:
    told = " ".join(refused("--host", "0.0.0.0", home=tmp_path).split())
    assert "without a token the service listens to this machine only" in told
    assert "mnemon token create" in told
    assert "one process" in refused("--workers", "2", home=tmp_path)


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "cannot listen" in refused("--port", str(taken.getsockname()[1]), home=tmp_path)


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['fastapi'] = None; sys.modules['uvicorn'] = None\n"
        "from mnemon.surfaces.cli import main; main()"
    )
    done = subprocess.run(
        [MNEMON[0], "-c", code, "serve", "--home", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 7
    assert "pip install 'mnemon[serve]'" in done.stderr


def test_it_says_where_it_listens_and_that_it_has_no_token(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*MNEMON, "serve", "--port", "0", "--home", str(tmp_path), "--embedder", "hash"],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    told = process.stderr.readline() + process.stderr.readline()
    process.terminate()
    process.communicate(timeout=30)
    assert "listening on http://127.0.0.1:" in told
    assert "no token yet: this machine only" in told


def test_with_a_token_it_lets_in_who_has_it(tmp_path: Path) -> None:
    token = mnemon("token", "create", "--tenant", "acme", "--user", "ann", home=tmp_path)
    with running(tmp_path) as service, httpx.Client(base_url=service.url) as client:
        assert client.get("/v1/messages").status_code == 401
        assert client.get("/v1/messages", headers={"Authorization": f"Bearer {token}"}).status_code == 200
        code, log = service.stop()
    assert code == 0
    assert token not in log
    assert '"event":"request"' in log


def test_it_may_listen_to_others_once_there_is_a_token(tmp_path: Path) -> None:
    mnemon("token", "create", "--tenant", "acme", "--service", home=tmp_path)
    with running(tmp_path, "--host", "0.0.0.0") as service:
        assert httpx.get(f"{service.url}/v1/messages", headers=HERE).status_code == 401


class Writers(threading.Thread):
    """Somebody who writes without end and remembers what was acknowledged."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__()
        self._url, self._name = url, name
        self.acknowledged: list[str] = []
        self.some = threading.Event()

    def run(self) -> None:
        with httpx.Client(base_url=self._url, headers=HERE, timeout=30) as client:
            for n in range(10_000):
                id = f"{self._name}-{n}"
                place = {"user_id": ["u:ann"], "dedup_skip": True}
                entry = {"id": id, "kind": "semantic", "contents": [f"说过的话 {id}"], "metadata": place}
                session = {"session_id": id, "turns": [{"role": "user", "text": f"words {id}"}], "extract": False}
                try:
                    answers = (
                        client.post("/write", json={"entries": [entry]}),
                        client.post("/v1/sessions", json=session),
                    )
                except httpx.TransportError:
                    return
                assert [a.status_code for a in answers] == [200, 200], answers
                self.acknowledged.append(id)
                if n == 5:
                    self.some.set()


def written_until(sign: signal.Signals, home: Path) -> tuple[list[str], int]:
    with running(home) as service:
        writers = [Writers(service.url, name) for name in ("a", "b")]
        for writer in writers:
            writer.start()
        for writer in writers:
            assert writer.some.wait(60)
        code, _ = service.stop(sign)
        for writer in writers:
            writer.join(60)
    return [id for writer in writers for id in writer.acknowledged], code


@pytest.mark.crash
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_acknowledged_is_lost(sign: signal.Signals, tmp_path: Path) -> None:
    acknowledged, code = written_until(sign, tmp_path)
    assert len(acknowledged) > 10
    assert code == (0 if sign is signal.SIGTERM else -signal.SIGKILL)
    with running(tmp_path) as service, httpx.Client(base_url=service.url, headers=HERE) as client:
        for id in acknowledged:
            history = client.get(f"/v1/entries/{id}/history")
            assert history.status_code == 200, history.text
            said = client.get("/v1/messages", params={"session_id": id}).json()["items"]
            assert [m["content"] for m in said] == [f"words {id}"]
        assert service.stop()[0] == 0
    with Memory(tmp_path, embedder="hash") as memory:
        assert memory.verify().ok


def test_the_address_of_the_service_can_be_opened() -> None:
    assert serve._url("127.0.0.1", 8700) == "http://127.0.0.1:8700"
    assert serve._url("::1", 8700) == "http://[::1]:8700"
