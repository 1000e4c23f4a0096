"""The part of a page about communication: groups, links, and what of it is exposed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from costmodel.estimate.machine.process_groups import Transfer
from costmodel.estimate.shared.results import number
from costmodel.explore.communication import is_sent
from costmodel.explore.page.plan_facts import PlanFacts
from costmodel.explore.page.transfer_nodes import UNITS, key_of
from costmodel.ground.plan_sizes import EXCHANGING
from costmodel.ground.units import counted, percent, show, show_time, time_unit
from costmodel.report.document import Cell, Value
from costmodel.report.page.content import PageTable, Part
from costmodel.report.page.figures import BarRow, Bars, Piece
from costmodel.report.page.values import Figures, seconds
from costmodel.report.terminal.plan.communication import link_name


def network_part(facts: PlanFacts, figures: Figures) -> Part | None:
    """Who sends how much over which link, and what of it is exposed."""
    transfers = list(filter(is_sent, facts.answer.evaluation.step.transfers))
    if not transfers:
        return None
    rows: list[Sequence[Cell]] = [
        (item.group.name, f"{number(item.group.ranks):,.0f}", link_name(facts.answer, item),
         item.operation.replace("_", "-"), *_figures_of(item, place, figures))
        for place, item in enumerate(transfers)
    ]  # fmt: skip
    heads = ("group", "ranks", "link", "operation", "size", "count", "time of one", "sent in a step")
    exposed = sum(facts.costs[f"{axis}_exposed"] for axis in EXCHANGING)
    return Part(
        "network",
        "Communication",
        f"{show_time(exposed)} of the step waits for the network, {percent(exposed / facts.costs['step_time'])}.",
        [network_figure(facts)],
        figures_as_table=PageTable(heads, rows, "lrllrrrr", "Transfers of one accelerator in a step"),
    )


def _figures_of(item: Transfer, place: int, figures: Figures) -> Iterator[Value]:
    """Size, count, time and volume of a transfer, each with its trace."""
    for name in ("message", "count", "time", "volume"):
        yield transfer_value(item, place, name, figures.other)


def transfer_value(item: Transfer, place: int, name: str, value_of: Callable[[str, float, str], Value]) -> Value:
    """A figure of a transfer as people read it."""
    value = number(getattr(item, name))
    text = {"1": lambda count: counted(round(count, 6)), "s": show_time}.get(
        UNITS[name], lambda amount: show(amount, "B")
    )(value)
    return value_of(key_of(place, name), value, text)


def network_figure(facts: PlanFacts) -> Bars:
    """Of every group all its time on a link, and what of it is exposed."""
    rows = list(_network_rows(facts))
    longest = max(rows, key=lambda row: row.pieces[0].end).label
    return Bars("network", "Time on the network by group", f"The group that sends longest is {longest}.", rows, "time",
                seconds, legend=(("raw", "hidden behind compute"), ("network", "exposed")),
                unit=time_unit(max(row.pieces[0].end for row in rows)))  # fmt: skip


def _network_rows(facts: PlanFacts) -> Iterator[BarRow]:
    transfers = list(filter(is_sent, facts.answer.evaluation.step.transfers))
    for axis in EXCHANGING:
        own = [item for item in transfers if item.axis == axis]
        if not own:
            continue
        total = sum(number(item.total_time) for item in own)
        exposed = facts.costs[f"{axis}_exposed"]
        links = " and ".join(dict.fromkeys(link_name(facts.answer, item) for item in own))
        shown = Piece(0.0, exposed, "network", f"{axis} exposed: {seconds(exposed)}", f"{axis}_exposed_s", exposed)
        behind = Piece(0.0, max(total, exposed), "raw", f"{axis} in all: {seconds(total)}", f"{axis}_total_s", total)
        yield BarRow(f"{axis} over {links}", [behind, shown], f"{seconds(exposed)} of {seconds(total)}")
