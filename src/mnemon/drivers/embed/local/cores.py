"""One core for each text that is computed: left alone, linear algebra spreads a small product over all cores, which
wait for each other busily; on a machine that has anything else to do that takes many times as long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from mnemon.drivers.embed.local.weights import optional


class Cores:
    """The limit holds for the whole process; it is set by the first who computes and taken back by the last."""

    def __init__(self) -> None:
        self._libraries = optional("threadpoolctl").ThreadpoolController()
        self._lock = threading.Lock()
        self._busy = 0
        self._limit = ExitStack()

    @contextmanager
    def one_each(self) -> Iterator[None]:
        with self._lock:
            self._busy += 1
            if self._busy == 1:
                self._limit.enter_context(self._libraries.limit(limits=1, user_api="blas"))
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1
                if self._busy == 0:
                    self._limit.close()
