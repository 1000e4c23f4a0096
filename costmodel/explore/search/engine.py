"""Where the pieces of a search are worked on: in processes here, on Dask workers, on MPI ranks.

All of them are executors of `concurrent.futures`. Results come back in the order of the pieces, so that an answer does
not depend on who was fastest, and a piece whose worker was lost is worked on again.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TypeVar

from costmodel.errors import fail

LOOK_EVERY = 0.2  # seconds between looks at whether to stop
LOSSES_IN_A_ROW = 3
ANSWER_WITHIN = 10  # seconds for a Dask scheduler

P = TypeVar("P")
R = TypeVar("R")
Submit = Callable[[Executor, P], "Future[R]"]


class Stopped(Exception):
    """Somebody asked to end before the last piece."""


@dataclass(frozen=True)
class Engine:
    """What works on a search: local, dask, dask=ADDRESS or mpi, and with how many workers."""

    kind: str
    address: str
    workers: int

    @contextmanager
    def opened(self) -> Iterator[Executor]:
        """Its executor, ended with all that was started for it."""
        if self.kind == "dask":
            with _dask(self.address, self.workers) as pool:
                yield pool
        elif self.kind == "mpi":
            with _mpi() as pool:
                yield pool
        else:
            with ProcessPoolExecutor(self.workers, initializer=_as_worker, initargs=(os.getpid(),)) as pool:
                yield pool


def engine(text: str, workers: int | None) -> Engine:
    """The engine that `--engine` names."""
    kind, separator, address = text.partition("=")
    if kind not in ("local", "dask", "mpi") or bool(separator) != bool(address) or (address and kind != "dask"):
        hint = "local, dask, dask=tcp://HOST:8786, or mpi"
        raise fail("C020", f"there is no engine '{text}'", None, hint)
    return Engine(kind, address, workers or os.cpu_count() or 1)


def _as_worker(parent: int) -> None:
    """A process of a pool: Ctrl-C is its parent's affair, and it does not outlive its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


@contextmanager
def _dask(address: str, workers: int) -> Iterator[Executor]:
    try:
        from distributed import Client, KilledWorker, LocalCluster
    except ImportError:
        raise _missing("dask", "distributed") from None
    with ExitStack() as opened:
        if not address:
            local = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50)
            cluster = opened.enter_context(local)
        try:
            client = opened.enter_context(Client(address or cluster, timeout=ANSWER_WITHIN))
        except OSError as error:
            raise fail("C020", f"no Dask scheduler answers at {address}", None, str(error)) from None
        try:
            yield client.get_executor(pure=False)
        except KilledWorker as error:
            raise BrokenExecutor(str(error)) from None


@contextmanager
def _mpi() -> Iterator[Executor]:
    try:
        from mpi4py import MPI
        from mpi4py.futures import MPIPoolExecutor
    except (ImportError, RuntimeError):
        raise _missing("mpi", "mpi4py") from None
    if MPI.COMM_WORLD.Get_size() < 2:
        hint = "mpiexec -n 3 python -m mpi4py.futures -m costmodel search … --engine mpi"
        raise fail("C020", "the search runs on a single MPI rank, which leaves none to work", None, hint)
    with MPIPoolExecutor() as pool:
        yield pool


def _missing(extra: str, package: str) -> Exception:
    hint = f"pip install 'llm-costmodel[{extra}]'"
    return fail("C020", f"--engine {extra} needs the package {package}", None, hint)


def shared_out(by: Engine, pieces: Iterator[P], submit: Submit[P, R], stop: Callable[[], bool]) -> Iterator[R]:
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
    pool: Executor,
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
        futures.extend(submit(pool, piece) for piece in itertools.islice(waiting, len(futures), None))
        if not waiting:
            return
        while not stop() and not wait([futures[0]], timeout=LOOK_EVERY).done:
            pass
        if stop():
            for future in futures:
                future.cancel()
            raise Stopped
        result = futures.popleft().result()
        waiting.popleft()
        yield result
