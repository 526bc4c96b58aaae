"""Cheap processes to kill: a warm one forks a writer for every line of JSON it reads, and tells how each one died."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

Say = Callable[..., None]

STUCK_S = 120
"""Only a writer that does nothing at all for so long has failed: a machine may be as slow as it likes."""


def serve(run: Callable[[dict[str, Any], Say], None]) -> None:
    """In the warm process, before any thread has started. `run` gets the task and a way to say what it has done."""
    for line in sys.stdin:
        task = json.loads(line)
        pid = os.fork()
        if pid == 0:
            fd = os.open(task["said"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

            def say(*words: str, fd: int = fd) -> None:
                # One write a line: a kill cannot leave half of one.
                os.write(fd, (" ".join(words) + "\n").encode())

            try:
                run(task, say)
            except BaseException as error:  # the parent must learn of it, and a forked copy of it must not live on
                say("error", repr(error))
                os._exit(3)
            os._exit(0)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(status, flush=True)


def killer(kill_at: str, say: Say) -> Callable[[str], None]:
    """A step hook that kills its own process at the n-th occurrence of `name:n` (of any step: `:n`), and says each step
    it sees first."""
    name, _, hits = kill_at.rpartition(":")
    left = int(hits or 0)
    seen: set[str] = set()

    def on_step(step: str) -> None:
        nonlocal left
        if step not in seen:
            seen.add(step)
            say("step", step)
        if name in (step, ""):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return on_step


class Forks:
    """The other side: start writers, kill them, read what they said."""

    def __init__(self, script: Path, preload: Path | None = None) -> None:
        """`preload` is a library that comes before all others in the warm process and its forks."""
        env = {**os.environ, "LD_PRELOAD": str(preload)} if preload else None
        self._process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )

    def start(self, task: dict[str, Any]) -> int:
        print(json.dumps(task), file=self._in, flush=True)
        return int(self._out.readline())

    def kill(self, pid: int, said: Path, lines: int, moment_s: float = 0.0) -> None:
        """Once the writer has said so many lines, and a moment later: how far it gets does not hang on how fast it is.
        One that has finished by then is left in peace."""
        there, patience = -1, 0.0
        while there < lines:
            now = said.read_bytes().count(b"\n") if said.exists() else 0
            patience = time.monotonic() + STUCK_S if now > there else patience
            there = max(there, now)
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return
            assert time.monotonic() < patience, f"stuck after {there} lines"
            time.sleep(0.001)
        time.sleep(moment_s)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def wait(self) -> int:
        """How the writer ended: a negative signal, or its exit code."""
        return os.waitstatus_to_exitcode(int(self._out.readline()))

    def close(self) -> None:
        self._in.close()
        self._process.wait(timeout=10)
        self._out.close()

    @property
    def _in(self) -> IO[str]:
        assert self._process.stdin
        return self._process.stdin

    @property
    def _out(self) -> IO[str]:
        assert self._process.stdout
        return self._process.stdout
