"""Dask workers as an executor: those of a scheduler, or local processes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor
from contextlib import ExitStack, contextmanager
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from costmodel.ground.errors import CostModelError, fail, install_command

ANSWER_WITHIN = 10.0  # seconds for a scheduler
AT_LEAST = 1.0  # of them, however short --wait is
COUNT_EVERY = 1.0  # seconds between two counts of the workers
SAY_AFTER = 3.0  # seconds without any worker

T = TypeVar("T")


@contextmanager
def dask_workers(
    address: str, workers: int, patience: float, notify: Callable[[str], None]
) -> Iterator[tuple[Executor, Callable[[], None]]]:
    """An executor of Dask, and a look at whether there are workers: a fault where there are none for too long.

    Args:
        address: of a scheduler; of none, this machine gets one for as long as this lasts
        workers: processes of this machine
        patience: seconds without a worker
        notify: receives a sentence while it waits
    """
    try:
        from distributed import Client, KilledWorker, LocalCluster
    except ImportError:
        hint = install_command("distributed>=2024.8")
        raise fail("C020", "--engine dask needs the package distributed", None, hint) from None
    with _quiet(), ExitStack() as opened:
        try:
            if not address:
                local = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50)
                address = opened.enter_context(local).scheduler_address
            seconds = max(AT_LEAST, min(ANSWER_WITHIN, patience))
            client = opened.enter_context(_within(seconds, lambda: Client(address, timeout=seconds)))
        except Exception as error:  # whatever Dask, its settings and its network make of an address
            raise _no_answer(address, error) from None
        try:
            yield client.get_executor(pure=False), _Look(client, address, patience, notify)
        except KilledWorker as error:
            raise BrokenExecutor(str(error)) from None
        except CancelledError:
            raise fail("C020", f"the Dask scheduler at {address} was lost", None, "start it again") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences Dask's log of a lost connection; costmodel reports it in one sentence instead."""
    named = [logging.getLogger(name) for name in logging.root.manager.loggerDict if name.startswith("distributed")]
    levels = [logger.level for logger in named]
    for logger in named:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(named, levels, strict=True):
            logger.setLevel(level)


def _within(seconds: float, call: Callable[[], T]) -> T:
    """The result of a call that may never end: Dask waits without limit for a port that is not Dask's."""
    results: SimpleQueue[tuple[T, None] | tuple[None, Exception]] = SimpleQueue()

    def run() -> None:
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
    """Counts the workers of a scheduler, once a second at most."""

    def __init__(self, client: Any, address: str, patience: float, notify: Callable[[str], None]) -> None:
        self.client, self.address, self.patience, self.notify = client, address, patience, notify
        self.seen = self.counted = time.monotonic()
        self.told = False

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self.counted < COUNT_EVERY:
            return
        self.counted = now
        try:
            workers = len(_within(ANSWER_WITHIN, self.client.nthreads))
        except Exception as error:  # of a scheduler that ended, or of the network
            raise _no_answer(self.address, error) from None
        if workers:
            self.seen, self.told = now, False
            return
        if now - self.seen > self.patience:
            hint = f"dask worker {self.address} starts one; --wait sets how long to wait for it"
            raise fail("C020", f"no Dask worker came to {self.address} within {self.patience:g} s", None, hint)
        if now - self.seen > SAY_AFTER and not self.told:
            self.notify(f"{self.address} has no Dask workers; waiting {self.patience:g} s for one (--wait)")
            self.told = True
