"""Worker processes that answer one request at a time, within limits; one that breaks a limit is replaced."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import multiprocessing
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from costmodel.ground.errors import fail
from costmodel.ground.record import record
from costmodel.server.request import Job, answer_request

_EVENTS = (
    "subprocess.",
    "socket.",
    "shutil.",
    "os.exec",
    "os.fork",
    "os.spawn",
    "os.posix_spawn",
    "os.system",
    "ftplib",
)
_CHANGES = {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate"}
_LISTS = ("os.listdir", "os.scandir")
_DEVICES = {os.devnull, "/dev/urandom"}


@record
class Limits:
    """Limits of a request, and of the number of waiting requests."""

    body: int = 1_000_000  # bytes of a request
    plans: int = 1_000_000  # of one search
    seconds: float = 30.0  # of one answer
    memory: int = 4 << 30  # bytes of address space of a process
    workers: int = 2
    waiting: int = 32  # requests, beside those that are answered
    patience: float = 30.0  # seconds that a request waits
    answers: int = 2_000  # of a process before another takes its place: what it keeps must not grow


class TooManyRequests(Exception):
    """As many requests wait as are allowed."""


class LimitExceeded(Exception):
    """A worker was ended because it took too long, or it ended by itself."""


@functools.cache
def warm_context() -> Any:
    """A multiprocessing context; if possible its processes are copies of one with everything imported."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    from multiprocessing.forkserver import ensure_running

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["costmodel.server.workers"])
    ensure_running()
    return context


class Worker:
    """A worker process and the connection to it."""

    def __init__(self, context: Any, folder: Path | None, limits: Limits) -> None:
        self._context, self._folder, self._limits = context, folder, limits
        self._process: Any = None
        self._changes = threading.Lock()  # one thread ends a process while another starts it
        self._closed = False

    def begin(self) -> None:
        """Starts the process, unless the worker is closed."""
        with self._changes:
            if self._closed:
                return
            here, there = self._context.Pipe()
            self._connection: Connection[Any, Any] = here
            self._left = self._limits.answers
            self._process = self._context.Process(target=_work, args=(there, self._folder, self._limits), daemon=True)
            self._process.start()
            there.close()

    def ask(self, job: Job) -> Any:
        """The outcome of a job.

        Raises:
            LimitExceeded: it took too long, or the process ended, for example without memory
        """
        if self._process is None or not self._left:
            self.end()
            self.begin()
        if self._process is None:
            raise LimitExceeded
        self._left -= 1
        with contextlib.suppress(EOFError, OSError):
            self._connection.send(job)
            if self._connection.poll(self._limits.seconds):
                return self._connection.recv()
        self.end()
        raise LimitExceeded

    def end(self) -> None:
        """Ends the process."""
        with self._changes:
            if self._process is not None:
                self._process.kill()
                self._process.join()
                self._connection.close()
                self._process = None

    def close(self) -> None:
        """Ends the process and starts no other."""
        self._closed = True
        self.end()

    @property
    def number(self) -> int | None:
        """The process id, if there is a process."""
        return None if self._process is None else int(self._process.pid)


class Workers:
    """The worker processes of one event loop."""

    def __init__(self, folder: Path | None, limits: Limits) -> None:
        context = warm_context()
        self.limits = limits
        self.all = [Worker(context, folder, limits) for _ in range(limits.workers)]
        self._idle: asyncio.Queue[Worker] = asyncio.Queue()
        self._threads = ThreadPoolExecutor(limits.workers)
        self.waiting = 0

    def begin(self) -> None:
        """Starts the processes in the current event loop; each answers as soon as it is ready."""
        self.loop = asyncio.get_running_loop()
        for worker in self.all:
            self._when_done(worker, self.loop.run_in_executor(self._threads, worker.begin))

    def _when_done(self, worker: Worker, future: asyncio.Future[Any]) -> None:
        future.add_done_callback(lambda _: self._idle.put_nowait(worker))

    async def ask(self, job: Job) -> Any:
        """The outcome of a job, as soon as a process is idle.

        Raises:
            TooManyRequests: too many wait, or this one waited too long
            LimitExceeded: see `Worker.ask`
        """
        if self._idle.empty() and self.waiting >= self.limits.waiting:
            raise TooManyRequests
        self.waiting += 1
        try:
            worker = await asyncio.wait_for(self._idle.get(), self.limits.patience)
        except TimeoutError:
            raise TooManyRequests from None
        finally:
            self.waiting -= 1
        asked = self.loop.run_in_executor(self._threads, worker.ask, job)
        self._when_done(worker, asked)  # also if the client left
        return await asyncio.shield(asked)

    def end(self) -> None:
        """Ends all processes."""
        for worker in self.all:
            worker.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _work(connection: Connection[Any, Any], folder: Path | None, limits: Limits) -> None:
    """The loop of a worker process: one job after the other, with restricted access."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from costmodel.explore.search.stream import limit_searches

    limit_searches(limits.plans)
    restrict_process(folder, limits.memory)
    with contextlib.suppress(EOFError, OSError):  # the other end is gone
        while True:
            job = connection.recv()
            connection.send(job.done())


def restrict_process(folder: Path | None, memory: int) -> None:
    """Restricts this process: it may read documents and its own program, but change or start nothing.

    User documents are those in the folder and in COSTMODEL_PATH; the working folder has none.
    """
    from costmodel.documents.reader.folders import roots, shipped

    left = Path.cwd()
    os.chdir(folder or shipped(""))
    sys.stdin = None
    sys.dont_write_bytecode = True
    with contextlib.suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    places = (*sys.path, sys.prefix, sys.base_prefix, sys.pycache_prefix)
    program = [Path(entry) for entry in places if entry and Path(entry) != left]
    within = tuple({f"{path.resolve()}{os.sep}" for path in (*roots(), *program) if path.is_dir()})
    sys.addaudithook(functools.partial(_refuse_operation, within))


def _refuse_operation(within: tuple[str, ...], event: str, values: tuple[Any, ...]) -> None:
    """Raises a fault for an operation that the restrictions do not allow."""
    if event == "open":
        path, mode, flags = values
        if isinstance(path, int) or (_is_within(path, within) and not _opens_for_writing(mode, flags)):
            return
    elif event in _LISTS:
        if values[0] is None or isinstance(values[0], int) or _is_within(values[0], within):
            return
    elif not event.startswith(_EVENTS) and event not in _CHANGES:
        return
    raise fail("H002", "a question opens no file, starts no program and changes nothing")


def _is_within(path: Any, within: tuple[str, ...]) -> bool:
    named = os.fsdecode(path)
    return named in _DEVICES or f"{os.path.realpath(named)}{os.sep}".startswith(within)


def _opens_for_writing(mode: str | None, flags: int) -> bool:
    return bool(mode and set(mode) & set("wax+")) or bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


# What a process has loaded before its first question: importing this asks one.

gc.set_threshold(200_000)
answer_request("estimate", b'{"scenario": "quickstart"}')
gc.freeze()  # processes that are forked from here share it
