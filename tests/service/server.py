"""A real service in a process of its own, started and stopped as people do it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

MNEMON = [sys.executable, "-c", "from mnemon.surfaces.cli import main; main()"]


@dataclass(frozen=True, slots=True)
class Running:
    process: subprocess.Popen[str]
    url: str

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Its exit code and its log."""
        self.process.send_signal(sign)
        _, log = self.process.communicate(timeout=60)
        return self.process.returncode, log


def mnemon(*arguments: str, home: Path) -> str:
    done = subprocess.run([*MNEMON, *arguments, "--home", str(home)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def running(home: Path, *arguments: str) -> Iterator[Running]:
    command = [*MNEMON, "serve", "--port", "0", "--json", "--home", str(home), "--embedder", "hash", "--llm", "rules"]
    process = subprocess.Popen(
        [*command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    try:
        assert process.stdout is not None
        told = ""
        while not told.endswith("}\n"):
            line = process.stdout.readline()
            assert line, process.communicate()[1]
            told += line
        url = json.loads(told)["url"].replace("0.0.0.0", "127.0.0.1")
        with httpx.Client() as client:
            assert client.get(f"{url}/health").status_code == 200
        yield Running(process, url)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
