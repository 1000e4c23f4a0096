"""The transfers of a training plan: algorithms and bus bandwidth, in the step and run alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costmodel.equations.network.collectives import algorithm_bandwidth, bus_bandwidth
from costmodel.estimate.machine.collective_time import best_bus_bandwidth, fastest_algorithms
from costmodel.estimate.shared.results import number
from costmodel.ground.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from costmodel.estimate.machine.process_groups import Transfer
    from costmodel.estimate.training_answer.predict_training import Answer


@record
class SentTransfer:
    """A transfer, its algorithms inside and between domains, and its bus bandwidth in the step and on its own.

    A dispatch that sends a token once for a node counts the bytes that cross the link, and has no figure alone.
    """

    transfer: Transfer
    algorithms: tuple[str, ...]
    busbw: float
    alone_busbw: float | None


def sent_transfers(answer: Answer) -> Iterator[SentTransfer]:
    """Every transfer of a plan between several ranks."""
    for item in () if answer.refused else answer.evaluation.step.transfers:
        if is_sent(item):
            yield _sent_transfer(answer, item)


def is_sent(transfer: Transfer) -> bool:
    """Whether a transfer involves several ranks and takes time."""
    return all((number(transfer.count) > 0, number(transfer.group.ranks) >= 2, number(transfer.time) > 0))


def transfer_trace_name(place: int, name: str) -> str:
    """The name under which the equation tree of a transfer's figure is found, by its place in the table."""
    return f"transfers.{place}.{name}"


def _sent_transfer(answer: Answer, item: Transfer) -> SentTransfer:
    """A transfer with its algorithms and its bus bandwidth in the step and run alone."""
    size, ranks, time = (number(value) for value in (item.message, item.group.ranks, item.time))
    if item.carried is not None:
        rate = float(algorithm_bandwidth(number(item.carried), time))
        return SentTransfer(item, ("deduplicated",), rate, None)
    busbw = float(bus_bandwidth(size, ranks, time, operation=item.operation))
    if item.operation == "send":
        return SentTransfer(item, (), busbw, None)
    if item.group.name == "sites":  # over a link of plan.sites, of which nothing is fitted
        return SentTransfer(item, ("ring",), busbw, None)
    taken = fastest_algorithms(answer.inputs, item.message, item.group, item.operation)
    alone = best_bus_bandwidth(answer.inputs, item.message, item.group, item.operation)
    return SentTransfer(item, taken, busbw, alone)
