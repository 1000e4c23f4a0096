"""Runs a ring all-reduce between processes of this machine, over sockets, step by step.

Each rank is a process with a TCP socket to the next one. In each step a rank sends one chunk and receives one; first
the chunks are added up, then the sums are passed on. Processes share the machine's clock, so a step ends with its last
rank.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record

ELEMENT = 8  # bytes of a number
MOST_BYTES = 4 << 30  # of all buffers together, with the copy that each rank receives into
REPEATS = 5  # of every exchange; the first run of all warms the sockets
PROBES = (1 << 14, 1 << 22)  # bytes of a step that show the latency and the rate of a link
PATIENCE = 120.0  # seconds until a rank that does not answer counts as failed
STARTS = len(PROBES) + 1  # moments of a repeat at which all ranks start together
_HERE = ("127.0.0.1", 0)
Pieces = list[NDArray[np.float64]]


@record
class RingRun:
    """The result of a ring run: seconds of each step, bytes that a rank sent, and whether all ranks have the sums.

    The latency and the rate are those of one step of two other sizes between the same processes.
    """

    steps: tuple[float, ...]
    sent: int
    summed: bool
    latency: float
    bandwidth: float
    processors: int

    @property
    def total(self) -> float:
        """Seconds of the whole all-reduce."""
        return sum(self.steps)


def run_ring(ranks: int, nbytes: float) -> RingRun:
    """Runs an all-reduce of `nbytes` bytes between processes several times, and returns the fastest run."""
    if not ELEMENT * ranks <= nbytes <= MOST_BYTES / (2 * ranks):
        sentence = f"{ranks} processes of this machine run a ring of {ELEMENT * ranks:,} B to "
        sentence += f"{MOST_BYTES // (2 * ranks):,} B"
        raise fail("C003", sentence, None, '--message "16 MB"')
    with socket.create_server(_HERE) as door:
        door.settimeout(PATIENCE)
        words = [sys.executable, "-c", f"from {__name__} import rank; rank({door.getsockname()[1]})"]
        paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        workers = [subprocess.Popen(words, env=paths, stdin=subprocess.DEVNULL) for _ in range(ranks)]
        try:
            return _summary(_conduct_ranks([door.accept()[0] for _ in workers], int(nbytes)))
        except (OSError, ValueError) as error:
            raise fail("C009", f"a process of the ring failed: {error}", Place("command line")) from None
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()


def _conduct_ranks(wires: Sequence[socket.socket], nbytes: int) -> list[Any]:
    """Leads the ranks through the run, over a socket to each; returns what each of them reports."""
    with contextlib.ExitStack() as stack:
        lines = []
        for wire in wires:
            wire.settimeout(PATIENCE)
            lines.append(stack.enter_context(wire.makefile("rw", encoding="ascii")))
            stack.enter_context(wire)
        for place, line in enumerate(lines):
            print(json.dumps([place, len(lines), nbytes]), file=line, flush=True)
        ports = [line.readline() for line in lines]
        for place, line in enumerate(lines):
            print(ports[(place + 1) % len(ports)], end="", file=line, flush=True)
        for _ in range(STARTS * (REPEATS + 1)):
            ready = [line.readline() for line in lines]  # all are ready before any goes
            for line, word in zip(lines, ready, strict=True):
                print(word, end="", file=line, flush=True)
        return [json.loads(line.readline()) for line in lines]


def _summary(reports: Sequence[tuple[int, bool, Any]]) -> RingRun:
    """Combines the reports of all ranks; a step ends when the last rank has finished it."""
    moments = np.max([own for _, _, own in reports], axis=0)  # repeats × (probes and steps), each with its start
    small, large = (float(np.min(moments[:, at + 1] - moments[:, at])) for at in (0, 2))
    steps = np.diff(moments[:, 4:], axis=1)
    fastest = steps[int(np.argmin(steps.sum(axis=1)))]
    rate = (PROBES[1] - PROBES[0]) / max(large - small, 1e-9)
    latency = max(small - PROBES[0] / rate, 0.0)
    sent, summed = max(sent for sent, _, _ in reports), all(right for _, right, _ in reports)
    return RingRun(tuple(fastest.tolist()), sent, summed, latency, rate, os.cpu_count() or 1)


def rank(port: int) -> None:
    """One process: joins the ring, and runs the probes and the all-reduce as often as they are repeated."""
    with socket.create_connection((_HERE[0], port)) as wire, socket.create_server(_HERE) as door:
        line = wire.makefile("rw", encoding="ascii")
        place, ranks, nbytes = json.loads(line.readline())
        print(door.getsockname()[1], file=line, flush=True)
        right = socket.create_connection((_HERE[0], int(line.readline())))
        left, _ = door.accept()
        for neighbour in (right, left):
            neighbour.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            neighbour.setblocking(False)

        def start() -> float:
            print("ready", file=line, flush=True)
            line.readline()
            return time.perf_counter()

        rows, sent, summed = [], 0, True
        for repeat in range(REPEATS + 1):
            row = []
            for size in PROBES:
                block, into = memoryview(bytes(size)), memoryview(bytearray(size))
                row.append(start())
                _exchange(right, left, block, into)
                row.append(time.perf_counter())
            pieces: Pieces = np.array_split(np.full(nbytes // ELEMENT, float(place + 1)), ranks)
            row.append(start())
            sent = _all_reduce(place, pieces, right, left, row)
            summed &= all(bool(np.all(piece == ranks * (ranks + 1) / 2)) for piece in pieces)
            rows += [row] if repeat else []
        print(json.dumps([sent, summed, rows]), file=line, flush=True)


def _all_reduce(place: int, pieces: Pieces, right: socket.socket, left: socket.socket, moments: list[float]) -> int:
    """Runs a ring all-reduce on these chunks and appends the end time of each step; returns the bytes sent."""
    ranks, sent = len(pieces), 0
    for step in range(2 * (ranks - 1)):
        out, into = pieces[(place - step) % ranks], pieces[(place - step - 1) % ranks]
        arrived = np.empty_like(into)
        _exchange(right, left, out.data.cast("B"), arrived.data.cast("B"))
        if step < ranks - 1:
            into += arrived
        else:
            into[:] = arrived
        sent += out.nbytes
        moments.append(time.perf_counter())
    return sent


def _exchange(right: socket.socket, left: socket.socket, block: memoryview, into: memoryview) -> None:
    """Send a block to the right while one arrives from the left."""
    sent = received = 0
    while sent < len(block) or received < len(into):
        readable, writable, _ = select.select([left] * (received < len(into)), [right] * (sent < len(block)), [])
        if readable:
            received += left.recv_into(into[received:])
        if writable:
            sent += right.send(block[sent:])
