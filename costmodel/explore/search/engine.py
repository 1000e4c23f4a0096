"""The engines of a search: local processes or Dask workers.

Both are executors of `concurrent.futures`. Results arrive in the order of the pieces, so that an answer does not
depend on the speed of workers. A piece is evaluated again if its worker is lost.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

from costmodel.explore.search.dask_workers import dask_workers
from costmodel.ground.errors import fail
from costmodel.ground.record import record

LOOK_EVERY = 0.2  # seconds between looks at whether to stop
LOSSES_IN_A_ROW = 3
WAIT = 60.0  # seconds for a first worker, and for another one where all are lost

P = TypeVar("P")
R = TypeVar("R")
Submit = Callable[[Executor, P], "Future[R]"]
_ADDRESS = re.compile(r"(?:(?:tcp|tls|ucx|wss?)://)?(?:[\w.-]+|\[[\da-fA-F:.%]+\]):(\d{1,5})", re.ASCII)


class SearchStopped(Exception):
    """The user asked to stop before the last piece."""


@record
class Pool:
    """An executor, and a check that it has workers."""

    executor: Executor
    look: Callable[[], None] = lambda: None


@record
class SearchEngine:
    """The engine of a search: local, dask or dask=ADDRESS, with its number of workers.

    wait: seconds to wait for missing workers; notify: receives a sentence while the search waits
    """

    kind: str
    address: str
    workers: int
    wait: float = WAIT
    notify: Callable[[str], None] = lambda sentence: None

    @contextmanager
    def opened(self) -> Iterator[Pool]:
        """Start the executor, and stop it with everything that was started for it."""
        if self.kind == "dask":
            with dask_workers(self.address, self.workers, self.wait, self.notify) as (executor, look):
                yield Pool(executor, look)
        else:
            with ProcessPoolExecutor(self.workers, initializer=_as_worker, initargs=(os.getpid(),)) as executor:
                yield Pool(executor)


def engine(
    text: str, workers: int | None, wait: float = WAIT, notify: Callable[[str], None] = lambda sentence: None
) -> SearchEngine:
    """The engine that `--engine` names."""
    kind, separator, address = text.partition("=")
    if kind not in ("local", "dask") or bool(separator) != bool(address) or (address and kind != "dask"):
        raise fail("C020", f"there is no engine '{text}'", None, "local, dask, or dask=tcp://HOST:8786")
    port = _ADDRESS.fullmatch(address)
    if address and not (port and 0 < int(port[1]) < 1 << 16):
        raise fail("C020", f"'{address}' is no address of a Dask scheduler", None, "for example dask=tcp://HOST:8786")
    return SearchEngine(kind, address, workers or os.cpu_count() or 1, wait, notify)


def _as_worker(parent: int) -> None:
    """Set up a worker process: it ignores Ctrl-C, which its parent handles, and ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def shared_out(by: SearchEngine, pieces: Iterator[P], submit: Submit[P, R], stop: Callable[[], bool]) -> Iterator[R]:
    """The result of every piece, in order; only a few pieces run ahead, to bound memory."""
    waiting: deque[P] = deque()
    losses = 0
    while True:
        try:
            with by.opened() as pool:
                for result in _results(pool, pieces, submit, waiting, 4 * by.workers, stop):
                    losses = 0
                    yield result
                return
        except BrokenExecutor:
            losses += 1
            if losses > LOSSES_IN_A_ROW:
                hint = "is there memory enough for each of them? fewer --workers need less"
                raise fail("C020", f"workers were lost {losses} times in a row on one piece", None, hint) from None


def _results(
    pool: Pool,
    pieces: Iterator[P],
    submit: Submit[P, R],
    waiting: deque[P],
    ahead: int,
    stop: Callable[[], bool],
) -> Iterator[R]:
    """Results in order; a piece stays queued until its result has arrived."""
    futures: deque[Future[R]] = deque()
    while True:
        waiting.extend(itertools.islice(pieces, max(0, ahead - len(waiting))))
        futures.extend(submit(pool.executor, piece) for piece in itertools.islice(waiting, len(futures), None))
        if not waiting:
            return
        while not stop() and not wait([futures[0]], timeout=LOOK_EVERY).done:
            pool.look()
        if stop():
            for future in futures:
                future.cancel()
            raise SearchStopped
        result = futures.popleft().result()
        waiting.popleft()
        yield result
