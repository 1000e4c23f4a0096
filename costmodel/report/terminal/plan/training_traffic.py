"""What a plan's groups send: over which link, how often, how long, and what of it is exposed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from costmodel.estimate.shared.results import number
from costmodel.explore.communication import sent_transfers
from costmodel.ground.counts import number_of
from costmodel.ground.plan_sizes import EXCHANGING
from costmodel.report.answers.plan_parts import GroupWait, PlanTraffic, SentMessage
from costmodel.report.terminal.plan.effect_lines import blank
from costmodel.report.terminal.style.layout import Line
from costmodel.report.terminal.style.theme import DIM, styled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from costmodel.estimate.evaluate.predict import Answer
    from costmodel.estimate.machine.process_groups import Transfer


def training_traffic(answer: Answer, effects: Sequence[Line] = ()) -> PlanTraffic:
    """The collectives of a step, and what each axis waits for; effects of choices stand beneath."""
    sent = [
        SentMessage(
            "step", item.transfer, link_name(answer, item.transfer), item.algorithms, item.busbw, item.alone_busbw
        )
        for item in sent_transfers(answer)
    ]
    groups = [_group(answer, sent, name) for name in EXCHANGING]
    step = answer.evaluation.costs.row()["step_time"]
    beneath = [*_rack(answer), *blank(effects)]
    return PlanTraffic(
        "Per GPU and step, columns as nccl-tests", sent, groups, ("step_time", step, "of the step"), beneath=beneath
    )


def _group(answer: Answer, sent: Sequence[SentMessage], name: str) -> GroupWait:
    """What an axis sends in all, and what of it is exposed."""
    costs = answer.evaluation.costs.row()
    own = [(place, item) for place, item in enumerate(sent) if item.transfer.axis == name]
    exposed, total = costs[f"{name}_exposed"], sum(number(item.transfer.total_time) for _, item in own)
    compressed = name == "dp" and answer.evaluation.block.structure.compression != "none"
    note = "with waits for other ranks' sends" if exposed > total and not compressed else ""
    note = "with compression" if compressed else note
    return GroupWait(name, exposed, volume=costs[f"{name}_volume"], sent=own, note=note)


def _rack(answer: Answer) -> Iterator[Text]:
    """How far the links of a node reach, where they join several nodes."""
    case, joined = answer.inputs.case, number(answer.inputs.domain)
    if joined > case.node.accelerators:
        nodes = joined / case.node.accelerators
        yield styled(
            f"  {case.scale_up.name} joins {number_of(joined, 'accelerator')} of {number_of(nodes, 'node')}", DIM
        )


def link_name(answer: Answer, transfer: Transfer) -> str:
    """The technology that a transfer goes over: inside a domain or between nodes."""
    case = answer.inputs.case
    if transfer.group.name == "sites":
        return "sites"
    return case.scale_up.name if number(transfer.group.domains) == 1 else case.scale_out.name
