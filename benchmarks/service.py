"""What the service costs on top of the memory: `python benchmarks/service.py [--embedder local] [--json]`

In one run, on the same home: the memory called in process, the service at one client, the service at 32 clients with
the load generator on the same machine. The rate in process is that of one core."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mnemon import AsyncMemory, Config
from report import alternate, milliseconds, p50, table
from write import session

TENANT, USER = "bench", "ann"
HEADERS = f"Host: localhost\r\nX-Tenant-ID: {TENANT}\r\nX-User-ID: {USER}\r\nContent-Type: application/json\r\n"
QUIET = Config(background_worker=False)
OVERHEAD_MS, SHARE = 3.0, 0.60
_BLOCK = 10_000_000

Call = Callable[[AsyncMemory, int], Awaitable[Any]]


@dataclass(frozen=True)
class Operation:
    """The same thing asked of the service and of the memory. Questions of one `block` are the same; no other two are
    alike, so that each has to be embedded."""

    path: str
    make: Callable[[int], dict[str, Any]]
    ask: Call
    block: int

    def body(self, i: int) -> dict[str, Any]:
        return self.make(i + self.block * _BLOCK)

    async def call(self, memory: AsyncMemory, i: int) -> None:
        await self.ask(memory, i + self.block * _BLOCK)


def _question(i: int) -> str:
    return f"what did {('Wei', '小林', 'Ana')[i % 3]} say about {('Chengdu', '火锅', 'the build')[i % 3]} number {i}?"


def _entry(i: int) -> dict[str, Any]:
    place = {"user_id": [f"u:{USER}"], "memory_domain": "dialog", "run_id": f"r{i % 50}", "source": "bench"}
    return {"id": f"e{time.time_ns()}-{i}", "kind": "semantic", "contents": [_question(i)], "metadata": place}


OPERATIONS = {
    "retrieval dialog_v1": Operation(
        "/v1/retrieval",
        lambda i: {"query": _question(i), "topk": 10},
        lambda memory, i: memory.retrieval(_question(i), TENANT, USER, topk=10),
        0,
    ),
    "retrieval dialog_v2": Operation(
        "/v1/retrieval",
        lambda i: {"query": _question(i), "topk": 10, "strategy": "dialog_v2"},
        lambda memory, i: memory.retrieval(_question(i), TENANT, USER, topk=10, strategy="dialog_v2"),
        1,
    ),
    "search": Operation(
        "/search",
        lambda i: {"query": _question(i)},
        lambda memory, i: memory.search(_question(i), TENANT, USER),
        2,
    ),
    "search, embedded before, no graph": Operation(
        "/search",
        lambda i: {"query": _question(i), "expand_graph": False},
        lambda memory, i: memory.search(_question(i), TENANT, USER, expand_graph=False),
        2,
    ),
    "write": Operation(
        "/write",
        lambda i: {"entries": [_entry(i)]},
        lambda memory, i: memory.write([_entry(i)], tenant_id=TENANT, user_id=USER),
        3,
    ),
}


@dataclass(frozen=True)
class Figures:
    operation: str
    in_process_p50_ms: float
    one_client_p50_ms: float
    overhead_p50_ms: float
    in_process_per_s: float
    in_process_cpu_ms: float
    clients: int
    service_per_s: float
    service_cpu_ms: float
    share: float
    p50_ms: float
    p99_ms: float
    errors: int


@dataclass(frozen=True)
class Server:
    process: subprocess.Popen[str]
    port: int


class Client(asyncio.Protocol):
    """One connection that stays open, and as little work for each request as can be."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        at = self._buffer.lower().find(b"content-length:", 0, head) + 15
        end = head + 4 + int(self._buffer[at : self._buffer.find(b"\r\n", at)])
        if len(self._buffer) >= end and self._answer is not None:
            self._answer.set_result((int(self._buffer[9:12]), bytes(self._buffer[head + 4 : end])))
            del self._buffer[:end]

    async def post(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\n{HEADERS}Content-Length: {len(data)}\r\n\r\n"
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(head.encode() + data)
        return await self._answer

    def close(self) -> None:
        self._transport.close()


async def connect(port: int) -> Client:
    _, client = await asyncio.get_running_loop().create_connection(Client, "127.0.0.1", port)
    return client


async def fill(home: Path, embedder: str, turns: int) -> None:
    async with AsyncMemory(home, llm="rules", embedder=embedder, config=QUIET) as memory:
        for n in range(0, turns, 100):
            await memory.session_write(TENANT, USER, f"s{n}", turns=session(n, 100), extract=False, stages="off")


async def rate_in_process(home: Path, embedder: str, name: str, rounds: int) -> tuple[float, float]:
    """Calls a second, one after another, and what each costs of a processor, in seconds."""
    async with AsyncMemory(home, llm="rules", embedder=embedder, config=QUIET) as memory:
        call = OPERATIONS[name].call
        for i in range(20):
            await call(memory, 1_000_000 + i)
        begun, used = time.perf_counter(), time.process_time()
        for i in range(rounds):
            await call(memory, 2_000_000 + i)
        return rounds / (time.perf_counter() - begun), (time.process_time() - used) / rounds


def processor_time(pid: int) -> float:
    """Seconds a process has used, in all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def on_one_core(home: Path, embedder: str, name: str, rounds: int) -> tuple[float, float]:
    """The same in a process that has one core to itself."""
    core = {min(os.sched_getaffinity(0))}
    done = subprocess.run(
        [
            sys.executable,
            __file__,
            "--rate-of",
            name,
            "--home",
            str(home),
            "--embedder",
            embedder,
            "--rounds",
            str(rounds),
        ],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, core),
    )
    rate, used = map(float, done.stdout.split())
    return rate, used


async def crowd(port: int, operation: Operation, clients: int, rounds: int) -> tuple[float, list[float], int]:
    """Requests a second, how long each took, and how many went wrong."""
    connections = [await connect(port) for _ in range(clients)]
    times: list[float] = []
    errors = 0
    numbers = iter(range(3_000_000, 3_000_000 + rounds))

    async def one(client: Client) -> None:
        nonlocal errors
        for i in numbers:
            begun = time.perf_counter()
            status, _ = await client.post(operation.path, operation.body(i))
            times.append(time.perf_counter() - begun)
            errors += status != 200

    begun = time.perf_counter()
    await asyncio.gather(*(one(c) for c in connections))
    seconds = time.perf_counter() - begun
    for client in connections:
        client.close()
    return rounds / seconds, times, errors


async def measure(home: Path, server: Server, embedder: str, name: str, rounds: int, clients: int) -> Figures:
    operation = OPERATIONS[name]
    client = await connect(server.port)
    async with AsyncMemory(home, llm="rules", embedder=embedder, config=QUIET) as memory:

        async def here(i: int) -> None:
            await operation.call(memory, 4_000_000 + i)

        async def there(i: int) -> None:
            status, body = await client.post(operation.path, operation.body(5_000_000 + i))
            assert status == 200, body

        await alternate(20, lambda i: here(-1 - i), lambda i: there(-1 - i))
        inside, outside = await alternate(rounds, here, there)
    client.close()
    alone, alone_used = await asyncio.to_thread(on_one_core, home, embedder, name, rounds)
    await crowd(server.port, operation, clients, clients * 2)
    many = max(rounds * 3, clients * 20)
    before = processor_time(server.process.pid)
    rate, times, errors = await crowd(server.port, operation, clients, many)
    used = (processor_time(server.process.pid) - before) / many
    return Figures(
        operation=name,
        in_process_p50_ms=p50(inside) * 1000,
        one_client_p50_ms=p50(outside) * 1000,
        overhead_p50_ms=(p50(outside) - p50(inside)) * 1000,
        in_process_per_s=alone,
        in_process_cpu_ms=alone_used * 1000,
        clients=clients,
        service_per_s=rate,
        service_cpu_ms=used * 1000,
        share=rate / alone,
        p50_ms=p50(times) * 1000,
        p99_ms=statistics.quantiles(times, n=100)[98] * 1000,
        errors=errors,
    )


def serve(home: Path, embedder: str) -> Server:
    command = [sys.executable, "-c", "from mnemon.surfaces.cli import main; main()", "serve", "--port", "0", "--json"]
    process = subprocess.Popen(
        [*command, "--home", str(home), "--embedder", embedder, "--llm", "rules"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    told = ""
    while not told.endswith("}\n"):
        told += process.stdout.readline()
    return Server(process, int(json.loads(told)["url"].rpartition(":")[2]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--embedder", default="local", help="local or hash")
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--only", choices=tuple(OPERATIONS), action="append")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rate-of", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.rate_of:
        print(*asyncio.run(rate_in_process(asked.home, asked.embedder, asked.rate_of, asked.rounds)))
        return
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        asyncio.run(fill(home, asked.embedder, asked.turns))
        server = serve(home, asked.embedder)
        try:
            found = [
                asyncio.run(measure(home, server, asked.embedder, name, asked.rounds, asked.clients))
                for name in asked.only or OPERATIONS
            ]
        finally:
            server.process.send_signal(signal.SIGTERM)
            server.process.wait()
    if asked.json:
        print(json.dumps([asdict(f) for f in found], indent=2))
        return
    _print(found, asked.embedder)


def _print(found: list[Figures], embedder: str) -> None:
    rows = [
        [
            f.operation,
            milliseconds(f.in_process_p50_ms / 1000),
            milliseconds(f.one_client_p50_ms / 1000),
            f"{f.overhead_p50_ms:.2f} ms (≤ {OVERHEAD_MS:g}) {'ok' if f.overhead_p50_ms <= OVERHEAD_MS else 'MISSED'}",
            f"{f.in_process_per_s:,.0f}",
            f"{f.service_per_s:,.0f}",
            f"{f.share:.0%} (≥ {SHARE:.0%}) {'ok' if f.share >= SHARE else 'MISSED'}",
            f"{f.in_process_cpu_ms:.2f} / {f.service_cpu_ms:.2f}",
            f"{f.p50_ms:.1f} / {f.p99_ms:.1f}",
            str(f.errors),
        ]
        for f in found
    ]
    table(
        f"The service over the memory, embedder {embedder}, {found[0].clients} clients on the same machine",
        [
            "operation",
            "in process, p50 ms",
            "one client, p50 ms",
            "overhead",
            "one core in process /s",
            "service /s",
            "share",
            "processor ms a request",
            "p50 / p99 ms",
            "errors",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
