"""Tells whether the process behind a worker id still runs, where that can be known at all."""

from __future__ import annotations

import os
import socket
from pathlib import Path

_UNKNOWN = "-"
_LARGEST_PID = (1 << 31) - 1


def _start_token(pid: int) -> str:
    """Boot id and start time of a process: the same pid after a reboot or a wrap-around has another token."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        return _UNKNOWN
    # The command name may hold spaces and brackets; the fields after the last ")" are plain.
    state, *fields = stat.rpartition(")")[2].split()
    if state in "ZX":
        return "dead"
    return f"{boot[:8]}-{fields[18]}"


def worker_id() -> str:
    """This process as `{host}:{pid}:{token}`."""
    pid = os.getpid()
    return f"{socket.gethostname()}:{pid}:{_start_token(pid)}"


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True  # it lives, as somebody else
    return True


def is_dead(worker: str) -> bool:
    """True only for a process of this host that is certainly gone; anything else is left to its lease."""
    host, _, rest = worker.rpartition(":")[0].rpartition(":")
    token = worker.rpartition(":")[2]
    if host != socket.gethostname() or not rest.isdecimal():
        return False
    pid = int(rest)
    if pid > _LARGEST_PID:
        return False
    if not is_running(pid):
        return True
    now = _start_token(pid)
    return _UNKNOWN not in (token, now) and now != token
