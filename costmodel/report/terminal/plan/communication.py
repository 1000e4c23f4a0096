"""What a plan's groups send: over which link, how often, how long, and what of it is exposed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from costmodel.equations.network.collectives import algorithm_bandwidth
from costmodel.estimate.shared.results import number
from costmodel.explore.communication import SentTransfer, sent_transfers
from costmodel.ground.counts import number_of
from costmodel.ground.plan_sizes import EXCHANGING
from costmodel.ground.units import show, show_time, significant
from costmodel.report.terminal.plan.effect_lines import blank, effect_lines
from costmodel.report.terminal.plan.plan_lines import following, problems, refusal, titled
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.theme import DIM, HEAD, styled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from costmodel.estimate.evaluate.predict import Answer
    from costmodel.estimate.machine.process_groups import Transfer
    from costmodel.explore.explain.explained_answer import ExplainedAnswer


def communication(answer: ExplainedAnswer) -> list[Line]:
    """Who talks over what, in nccl-tests' columns; where the terminal is narrow, algbw goes first, then the link."""
    if answer.refused:
        return refusal(answer)
    sent = [*sent_transfers(answer)]
    rows = [_transfer(answer, item) for item in sent]
    if not rows:
        silent = styled("Nothing is sent: one rank in every group.")
        return [*titled(answer), Text(), silent, *problems(answer), Text(), following(answer, "memory")]
    names = ("group", "ranks", "link", "op", "size", "count", "time", "algbw", "busbw")
    lines: list[Line] = [
        *titled(answer),
        Text(),
        styled("Per GPU and step                                  columns as nccl-tests", HEAD),
        CellTable(names, rows, "lrllrrrrr", drop=("algbw", "link")),
        styled("  algbw, busbw in GB/s, as the step counts them", DIM),
        *_alone(sent),
        *_totals(answer),
        *_rack(answer),
        *blank(effect_lines(answer, fully=True)),
    ]
    costs = answer.evaluation.costs.row()
    most = max(("tp_exposed", "dp_exposed", "cp_exposed", "ep_exposed", "pp_exposed"), key=lambda name: costs[name])
    return [*lines, *problems(answer), Text(), following(answer, "explain", most)]


def _transfer(answer: ExplainedAnswer, sent: SentTransfer) -> tuple[str, ...]:
    transfer = sent.transfer
    ranks, time, size = number(transfer.group.ranks), number(transfer.time), number(transfer.message)
    return (
        transfer.group.name,
        f"{ranks:.0f}",
        link_name(answer, transfer),
        transfer.operation.replace("_", "-"),
        show(size, "B"),
        _count(number(transfer.count)),
        show_time(time),
        significant(number(algorithm_bandwidth(size, time)) / 1e9),
        significant(sent.busbw / 1e9),
    )


def _alone(sent: Sequence[SentTransfer]) -> Iterator[Text]:
    """What each collective reaches outside a step, as nccl-tests measures it, with the algorithm that is counted."""
    for item in sent:
        if item.alone_busbw is not None:
            operation = item.transfer.operation.replace("_", "-")
            reached = f"{significant(item.alone_busbw / 1e9)} GB/s alone, {' + '.join(item.algorithms)}"
            yield styled(f"  {item.transfer.group.name}  {operation}: {reached}", DIM)


def _count(count: float) -> str:
    """How often a step; what comes once in several steps as a part of them."""
    return f"1/{1 / count:,.0f}" if 0 < count < 0.5 else f"{count:,.0f}"


def _rack(answer: ExplainedAnswer) -> Iterator[Text]:
    """How far the links of a node reach, where they join several nodes."""
    case, joined = answer.inputs.case, number(answer.inputs.domain)
    if joined > case.node.accelerators:
        nodes = joined / case.node.accelerators
        yield styled(
            f"  {case.scale_up.name} joins {number_of(joined, 'accelerator')} of {number_of(nodes, 'node')}", DIM
        )


def _totals(answer: ExplainedAnswer) -> Iterator[Text]:
    """What each axis sends in all, and what of it is exposed."""
    costs = answer.evaluation.costs.row()
    for name in EXCHANGING:
        total = sum(number(item.total_time) for item in answer.evaluation.step.transfers if item.axis == name)
        volume = costs[f"{name}_volume"]
        if volume:
            exposed = costs[f"{name}_exposed"]
            compressed = name == "dp" and answer.evaluation.block.structure.compression != "none"
            waited = ", including waits for other ranks' sends" if exposed > total and not compressed else ""
            waited = ", including compression" if compressed else waited
            sent = f"{show(volume, 'B')} sent, {show_time(total)} in all"
            yield styled(f"  {name}  {sent}, {show_time(exposed)} exposed{waited}")


def link_name(answer: Answer, transfer: Transfer) -> str:
    """The technology that a transfer goes over: inside a domain or between nodes."""
    case = answer.inputs.case
    if transfer.group.name == "sites":
        return "sites"
    return case.scale_up.name if number(transfer.group.domains) == 1 else case.scale_out.name
