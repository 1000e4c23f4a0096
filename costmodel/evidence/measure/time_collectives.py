"""Times collectives between the GPUs of one machine, one process per rank, for the table that calibrate reads."""

from __future__ import annotations

import datetime
import os
import queue
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

from costmodel.evidence.measure.measure import MeasuredKernels
from costmodel.evidence.measure.stopwatch import Device, Stopwatch, torch_module
from costmodel.ground.errors import Place, fail

SMALLEST, LARGEST, FACTOR = 1 << 10, 1 << 29, 4
LARGEST_OF_A_PROCESSOR = 1 << 20
REPEATS, CALLS = 7, 20
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")
ELEMENT = 2
LOOKED_AFTER, LEAVE = 0.5, 20.0


def measured_collectives(device: Device, ranks: int | None, stopped: Callable[[], bool]) -> MeasuredKernels:
    """Time of every operation at every size and number of ranks; sizes in the convention of nccl-tests."""
    torch = torch_module()
    ranks = ranks or (torch.cuda.device_count() if not device.is_processor else 2)
    if ranks < 2 or (not device.is_processor and ranks > torch.cuda.device_count()):
        raise fail("C009", f"collectives between {ranks} ranks cannot be measured here", Place("command line"))
    context = torch.multiprocessing.get_context("spawn")
    answers = context.Queue()
    port = _free_port()
    workers = [context.Process(target=_rank, args=(rank, ranks, port, device.kind, answers)) for rank in range(ranks)]
    for worker in workers:
        worker.start()
    try:
        times = list(_answers(answers, workers, stopped))
    finally:
        _wait_for_ranks(workers, at_once=stopped())
    noted = {"torch": device.torch, "driver": device.driver}
    noted |= {"date": datetime.datetime.now(datetime.UTC).date().isoformat()}
    shape = {"gpu": device.name, "n_gpus": ranks, "dtype": "bf16"}
    rows = [shape | {"op": operation, "bytes": size, "time_us": time} | noted for operation, size, time in times]
    return MeasuredKernels(rows, stopped=stopped())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(answers: Any, workers: list[Any], stopped: Callable[[], bool]) -> Iterator[tuple[str, int, float]]:
    """The messages of the first rank until it ends or the user stops; a fault if a rank fails."""
    while not stopped():
        try:
            answer = answers.get(timeout=LOOKED_AFTER)
        except queue.Empty:
            if any(worker.exitcode for worker in workers):
                sentence = "a rank of the collectives failed; its output is above"
                raise fail("C009", sentence, Place("command line")) from None
            continue
        if answer is None:
            return
        yield answer


def _wait_for_ranks(workers: list[Any], *, at_once: bool) -> None:
    """Wait until every rank has ended; terminate ranks after a failure or a stop."""
    for worker in workers:
        if not at_once and not any(other.exitcode for other in workers):
            worker.join(LEAVE)
        worker.kill()
        worker.join()


def _rank(rank: int, ranks: int, port: int, kind: str, answers: Any) -> None:
    """One process: joins the group and runs every collective; the first rank reports the times."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch = torch_module()
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    if kind == "cuda":
        torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl" if kind == "cuda" else "gloo", rank=rank, world_size=ranks)
    for timed in _timed_messages(torch, kind, ranks):
        if rank == 0:
            answers.put(timed)
    if rank == 0:
        answers.put(None)
    torch.distributed.destroy_process_group()


def _timed_messages(torch: Any, kind: str, ranks: int) -> Iterator[tuple[str, int, float]]:
    """Operation, bytes and microseconds of each collective on this rank, with growing messages."""
    size, stopwatch = SMALLEST, Stopwatch(kind)
    while size <= (LARGEST if kind == "cuda" else LARGEST_OF_A_PROCESSOR):
        whole = torch.ones(size // ELEMENT // ranks * ranks, dtype=torch.bfloat16, device=kind)
        for operation in OPERATIONS:
            call = _call(torch.distributed, operation, whole, whole.chunk(ranks))
            yield operation, size, 1e6 * stopwatch.median_time([call] * CALLS, REPEATS)
        size *= FACTOR


def _call(distributed: Any, operation: str, whole: Any, parts: Any) -> Callable[[], object]:
    """A call that runs the collective on a buffer of the total size."""
    piece, back = parts[0].clone(), whole.clone()
    if operation == "all_reduce":
        return lambda: distributed.all_reduce(whole)
    if operation == "all_gather":
        return lambda: distributed.all_gather_into_tensor(back, piece)
    if operation == "reduce_scatter":
        return lambda: distributed.reduce_scatter_tensor(piece, whole)
    return lambda: distributed.all_to_all_single(back, whole)
