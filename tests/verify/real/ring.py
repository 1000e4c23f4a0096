"""A ring all-reduce between real processes over sockets, counting the bytes each one sends."""

from __future__ import annotations

import multiprocessing
import socket
from typing import Any

import numpy as np

CASES = ((2, 8_192), (4, 8_192), (4, 65_536), (8, 65_536))


def counted() -> list[dict[str, int]]:
    """Ranks, bytes of the buffer, and bytes that each rank sent; every rank ends with the sum."""
    return [{"ranks": ranks, "message_bytes": nbytes, "sent_bytes": _sent(ranks, nbytes)} for ranks, nbytes in CASES]


def _sent(ranks: int, nbytes: int) -> int:
    context = multiprocessing.get_context("fork")
    wires = [socket.socketpair() for _ in range(ranks)]
    answers: Any = context.SimpleQueue()
    workers = [context.Process(target=_rank, args=(rank, ranks, nbytes, wires, answers)) for rank in range(ranks)]
    for worker in workers:
        worker.start()
    found = [answers.get() for _ in range(ranks)]
    for worker in workers:
        worker.join()
    for near, far in wires:
        near.close()
        far.close()
    (sent,) = {sent for sent, right in found if right}
    return int(sent)


def _rank(rank: int, ranks: int, nbytes: int, wires: Any, answers: Any) -> None:
    """Reduce-scatter around the ring, then all-gather around it."""
    pieces = np.split(np.full(nbytes // 8, float(rank + 1)), ranks)
    right, left = wires[rank][0], wires[rank - 1][1]
    sent = 0
    for step in range(2 * (ranks - 1)):
        out, into = (rank - step) % ranks, (rank - step - 1) % ranks
        block = pieces[out].tobytes()
        received = _exchange(right, left, block, len(pieces[into]) * 8)
        arrived = np.frombuffer(received)
        pieces[into] = pieces[into] + arrived if step < ranks - 1 else arrived
        sent += len(block)
    answers.put((sent, bool(np.all(np.concatenate(pieces) == ranks * (ranks + 1) / 2))))


def _exchange(right: socket.socket, left: socket.socket, block: bytes, size: int) -> bytes:
    """Send a block to the right in parts small enough for the wire's buffer while reading one from the left."""
    received = b""
    part = 4096
    for start in range(0, len(block), part):
        right.sendall(block[start : start + part])
        received += _read(left, min(part, size - len(received)))
    return received


def _read(wire: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += wire.recv(size - len(found))
    return found
