"""Processes that answer questions, one at a time each, within limits; one that breaks a limit is ended and replaced."""

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
from costmodel.server.request import Job, answered

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
    """Limits of a request, and of the number of requests that wait."""

    body: int = 1_000_000  # bytes of a request
    plans: int = 1_000_000  # of one search
    seconds: float = 30.0  # of one answer
    memory: int = 4 << 30  # bytes of address space of a process
    workers: int = 2
    waiting: int = 32  # requests, beside those that are answered
    patience: float = 30.0  # seconds that a request waits
    answers: int = 2_000  # of a process before another takes its place: what it keeps must not grow


class Busy(Exception):
    """The largest number of requests already waits."""


class Overrun(Exception):
    """A process broke a limit and was ended: it took too long, or ended by itself."""


@functools.cache
def warmed() -> Any:
    """A multiprocessing context: where possible, new processes are copies of one that is already warm."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    from multiprocessing.forkserver import ensure_running

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["costmodel.server.workers"])
    ensure_running()
    return context


class Worker:
    """A process, and the connection to it."""

    def __init__(self, context: Any, folder: Path | None, limits: Limits) -> None:
        self._context, self._folder, self._limits = context, folder, limits
        self._process: Any = None
        self._changes = threading.Lock()  # one thread ends a process while another starts it
        self._closed = False

    def begin(self) -> None:
        """Start a process, unless no more are to start."""
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
            Overrun: it took longer than it may, or the process ended, as it does without memory
        """
        if self._process is None or not self._left:
            self.end()
            self.begin()
        if self._process is None:
            raise Overrun
        self._left -= 1
        with contextlib.suppress(EOFError, OSError):
            self._connection.send(job)
            if self._connection.poll(self._limits.seconds):
                return self._connection.recv()
        self.end()
        raise Overrun

    def end(self) -> None:
        """End the process now."""
        with self._changes:
            if self._process is not None:
                self._process.kill()
                self._process.join()
                self._connection.close()
                self._process = None

    def close(self) -> None:
        """End the process now, and start no other."""
        self._closed = True
        self.end()

    @property
    def number(self) -> int | None:
        """The id of the process, if there is one."""
        return None if self._process is None else int(self._process.pid)


class Workers:
    """Processes that share the requests of one event loop."""

    def __init__(self, folder: Path | None, limits: Limits) -> None:
        context = warmed()
        self.limits = limits
        self.all = [Worker(context, folder, limits) for _ in range(limits.workers)]
        self._idle: asyncio.Queue[Worker] = asyncio.Queue()
        self._threads = ThreadPoolExecutor(limits.workers)
        self.waiting = 0

    def begin(self) -> None:
        """Start the processes in the current event loop; each answers as soon as it is ready."""
        self.loop = asyncio.get_running_loop()
        for worker in self.all:
            self._when_done(worker, self.loop.run_in_executor(self._threads, worker.begin))

    def _when_done(self, worker: Worker, future: asyncio.Future[Any]) -> None:
        future.add_done_callback(lambda _: self._idle.put_nowait(worker))

    async def ask(self, job: Job) -> Any:
        """The outcome of a job, as soon as a process is idle.

        Raises:
            Busy: too many wait, or this one waited too long
            Overrun: as of a worker
        """
        if self._idle.empty() and self.waiting >= self.limits.waiting:
            raise Busy
        self.waiting += 1
        try:
            worker = await asyncio.wait_for(self._idle.get(), self.limits.patience)
        except TimeoutError:
            raise Busy from None
        finally:
            self.waiting -= 1
        asked = self.loop.run_in_executor(self._threads, worker.ask, job)
        self._when_done(worker, asked)  # also if the client left
        return await asyncio.shield(asked)

    def end(self) -> None:
        """End all processes."""
        for worker in self.all:
            worker.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _work(connection: Connection[Any, Any], folder: Path | None, limits: Limits) -> None:
    """The work of a process: one job after the other, with restricted access."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from costmodel.explore.search.stream import limit_searches

    limit_searches(limits.plans)
    build_wall(folder, limits.memory)
    with contextlib.suppress(EOFError, OSError):  # the other end is gone
        while True:
            job = connection.recv()
            connection.send(job.done())


def build_wall(folder: Path | None, memory: int) -> None:
    """Restrict this process: it reads only documents and its own program, and changes or starts nothing.

    Documents of your own are those in the folder and in those of COSTMODEL_PATH; the working folder has none.
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
    sys.addaudithook(functools.partial(_refuse, within))


def _refuse(within: tuple[str, ...], event: str, values: tuple[Any, ...]) -> None:
    """Raise a fault for an operation that the restrictions do not allow."""
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
answered("estimate", b'{"scenario": "quickstart"}')
gc.freeze()  # processes that are forked from here share it
