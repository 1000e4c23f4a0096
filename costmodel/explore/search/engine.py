"""Where the pieces of a search are worked on: in processes here, on Dask workers, on MPI ranks.

All of them are executors of `concurrent.futures`. Results come back in the order of the pieces, so that an answer does
not depend on who was fastest, and a piece whose worker was lost is worked on again.
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
from dataclasses import dataclass
from typing import TypeVar

from costmodel.explore.search.dask_workers import dask_workers
from costmodel.ground.errors import fail

LOOK_EVERY = 0.2  # seconds between looks at whether to stop
LOSSES_IN_A_ROW = 3
WAIT = 60.0  # seconds for a first worker, and for another one where all are lost

P = TypeVar("P")
R = TypeVar("R")
Submit = Callable[[Executor, P], "Future[R]"]
_ADDRESS = re.compile(r"(?:(?:tcp|tls|ucx|wss?)://)?(?:[\w.-]+|\[[\da-fA-F:.%]+\]):(\d{1,5})", re.ASCII)


class SearchStopped(Exception):
    """Somebody asked to end before the last piece."""


@dataclass(frozen=True)
class Pool:
    """What works: an executor, and a look at whether anybody is there to work."""

    executor: Executor
    look: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class SearchEngine:
    """What works on a search: local, dask, dask=ADDRESS or mpi, with how many workers.

    wait: seconds for workers that are not there; say: takes a sentence about what is waited for
    """

    kind: str
    address: str
    workers: int
    wait: float = WAIT
    say: Callable[[str], None] = lambda sentence: None

    @contextmanager
    def opened(self) -> Iterator[Pool]:
        """Its executor, ended with all that was started for it."""
        if self.kind == "dask":
            with dask_workers(self.address, self.workers, self.wait, self.say) as (executor, look):
                yield Pool(executor, look)
        elif self.kind == "mpi":
            with _mpi() as executor:
                yield Pool(executor)
        else:
            with ProcessPoolExecutor(self.workers, initializer=_as_worker, initargs=(os.getpid(),)) as executor:
                yield Pool(executor)


def engine(
    text: str, workers: int | None, wait: float = WAIT, say: Callable[[str], None] = lambda sentence: None
) -> SearchEngine:
    """The engine that `--engine` names."""
    kind, separator, address = text.partition("=")
    if kind not in ("local", "dask", "mpi") or bool(separator) != bool(address) or (address and kind != "dask"):
        hint = "local, dask, dask=tcp://HOST:8786, or mpi"
        raise fail("C020", f"there is no engine '{text}'", None, hint)
    port = _ADDRESS.fullmatch(address)
    if address and not (port and 0 < int(port[1]) < 1 << 16):
        raise fail("C020", f"'{address}' is no address of a Dask scheduler", None, "for example dask=tcp://HOST:8786")
    return SearchEngine(kind, address, workers or os.cpu_count() or 1, wait, say)


def _as_worker(parent: int) -> None:
    """A process of a pool: Ctrl-C is its parent's affair, and it does not outlive its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


@contextmanager
def _mpi() -> Iterator[Executor]:
    try:
        from mpi4py import MPI
        from mpi4py.futures import MPIPoolExecutor, _core
    except ImportError:
        hint = "pip install 'llm-costmodel[mpi]'"
        raise fail("C020", "--engine mpi needs the package mpi4py", None, hint) from None
    except RuntimeError as error:
        hint = "install MPI, or load its module"
        raise fail("C020", f"mpi4py: {str(error).splitlines()[0]}", None, hint) from None
    hint = "mpiexec -n 3 python -m mpi4py.futures -m costmodel search … --engine mpi"
    if MPI.COMM_WORLD.Get_size() < 2:
        raise fail("C020", "the search runs on a single MPI rank, which leaves none to work", None, hint)
    if getattr(_core, "SharedPool", True) is None:
        raise fail("C020", "every MPI rank runs a search of its own, which leaves none to work", None, hint)
    with MPIPoolExecutor() as executor:
        yield executor


def shared_out(by: SearchEngine, pieces: Iterator[P], submit: Submit[P, R], stop: Callable[[], bool]) -> Iterator[R]:
    """The result of every piece, in order; a few pieces ahead, so that memory does not grow with their number."""
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
    """Results in order; a piece leaves those that wait only when its result is there."""
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
