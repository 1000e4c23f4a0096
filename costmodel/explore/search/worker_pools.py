"""Worker pools of a search: local processes or Dask workers.

Both are executors of `concurrent.futures`. Results arrive in the order of the pieces, so an answer does not depend on
the speed of workers. A piece is evaluated again if its worker is lost.
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
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from costmodel.ground.errors import CostModelError, fail, install_command
from costmodel.ground.record import record

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

ANSWER_WITHIN = 10.0  # seconds for a scheduler
AT_LEAST = 1.0  # of them, however short --wait is
COUNT_EVERY = 1.0  # seconds between two counts of the workers
SAY_AFTER = 3.0  # seconds without any worker

T = TypeVar("T")


@contextmanager
def dask_workers(
    address: str, workers: int, patience: float, notify: Callable[[str], None]
) -> Iterator[tuple[Executor, Callable[[], None]]]:
    """An executor of Dask, and a check that raises a fault if there are no workers for too long.

    Args:
        address: of a scheduler; if empty, one is started on this machine
        workers: processes of this machine
        patience: seconds without a worker
        notify: receives a sentence while it waits
    """
    from concurrent.futures import BrokenExecutor, CancelledError

    try:
        from distributed import Client, KilledWorker, LocalCluster
    except ImportError:
        hint = install_command("distributed>=2024.8")
        raise fail("C020", "--engine dask needs the package distributed", None, hint) from None
    with _silence_dask(), ExitStack() as opened:
        try:
            if not address:
                local = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50)
                address = opened.enter_context(local).scheduler_address
            seconds = max(AT_LEAST, min(ANSWER_WITHIN, patience))
            client = opened.enter_context(_result_within(seconds, lambda: Client(address, timeout=seconds)))
        except Exception as error:  # whatever Dask, its settings and its network make of an address
            raise _no_answer(address, error) from None
        try:
            yield client.get_executor(pure=False), _Look(client, address, patience, notify)
        except KilledWorker as error:
            raise BrokenExecutor(str(error)) from None
        except CancelledError:
            raise fail("C020", f"the Dask scheduler at {address} was lost", None, "start it again") from None


@contextmanager
def _silence_dask() -> Iterator[None]:
    """Silences Dask's log of a lost connection; costmodel reports it in one sentence instead."""
    import logging

    named = [logging.getLogger(name) for name in logging.root.manager.loggerDict if name.startswith("distributed")]
    levels = [logger.level for logger in named]
    for logger in named:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(named, levels, strict=True):
            logger.setLevel(level)


def _result_within(seconds: float, call: Callable[[], T]) -> T:
    """The result of a call; raises an error after some seconds, as Dask waits forever for a foreign port."""
    from queue import Empty, SimpleQueue

    results: SimpleQueue[tuple[T, None] | tuple[None, Exception]] = SimpleQueue()

    def run() -> None:
        """Puts the result of the call, or its exception, into the queue."""
        try:
            results.put((call(), None))
        except Exception as error:  # whatever the call raises is raised below
            results.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        result, error = results.get(timeout=seconds + 0.5)  # Dask's own limit comes first where it has one
    except Empty:
        sentence = f"nothing there answered as a Dask scheduler within {seconds:g} s; schedulers listen at port 8786"
        raise TimeoutError(sentence) from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def _no_answer(address: str, error: Exception) -> CostModelError:
    where = f"at {address}" if address else "on this machine"
    return fail("C020", f"no Dask scheduler answers {where}", None, str(error).partition("\n")[0])


class _Look:
    """Checks that a scheduler has workers, at most once a second."""

    def __init__(self, client: Any, address: str, patience: float, notify: Callable[[str], None]) -> None:
        self.client, self.address, self.patience, self.notify = client, address, patience, notify
        self.seen = self.counted = time.monotonic()
        self.stated = False

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self.counted < COUNT_EVERY:
            return
        self.counted = now
        try:
            workers = len(_result_within(ANSWER_WITHIN, self.client.nthreads))
        except Exception as error:  # of a scheduler that ended, or of the network
            raise _no_answer(self.address, error) from None
        if workers:
            self.seen, self.stated = now, False
            return
        if now - self.seen > self.patience:
            hint = f"dask worker {self.address} starts one; --wait sets how long to wait for it"
            raise fail("C020", f"no Dask worker came to {self.address} within {self.patience:g} s", None, hint)
        if now - self.seen > SAY_AFTER and not self.stated:
            self.notify(f"{self.address} has no Dask workers; waiting {self.patience:g} s for one (--wait)")
            self.stated = True


LOOK_EVERY = 0.2  # seconds between looks at whether to stop
LOSSES_IN_A_ROW = 3
WAIT = 60.0  # seconds for a first worker, and for another one where all are lost

P = TypeVar("P")
R = TypeVar("R")
Submit = Callable[["Executor", P], "Future[R]"]
_ADDRESS = re.compile(r"(?:(?:tcp|tls|ucx|wss?)://)?(?:[\w.-]+|\[[\da-fA-F:.%]+\]):(\d{1,5})", re.ASCII)


class SearchStopped(Exception):
    """Raised when the user stops a search."""


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
        """Starts the executor, and stops it with everything that was started for it."""
        from concurrent.futures import ProcessPoolExecutor  # most searches run in this process

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
    """Sets up a worker process: it ignores Ctrl-C and ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def shared_out(by: SearchEngine, pieces: Iterator[P], submit: Submit[P, R], stop: Callable[[], bool]) -> Iterator[R]:
    """The result of every piece in order; only a few pieces run ahead, to bound memory."""
    from concurrent.futures import BrokenExecutor

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
    from concurrent.futures import wait

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
