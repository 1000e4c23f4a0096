"""The answer of `comm`: the collectives of a plan, their rates, and the time that each process group waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from costmodel.documents.schemas.results import machine_name
from costmodel.equations.network.collectives import algorithm_bandwidth
from costmodel.estimate.machine.process_groups import Transfer
from costmodel.estimate.shared.results import number
from costmodel.explore.transfer_bandwidth import transfer_trace_name
from costmodel.ground.units import percent, show, show_time, significant, time_unit
from costmodel.report.answers.plan_answer import PlanView, plan_document, plan_rows
from costmodel.report.answers.plan_parts import PlanTraffic, SentMessage
from costmodel.report.data_formats.answer_fields import finite
from costmodel.report.document import AnswerDocument, Cell, Column, Draw, Section, Table, computed, traced
from costmodel.report.terminal.layout import HEAD, styled


def communication_document(view: PlanView) -> AnswerDocument:
    """The communication of a plan: its collectives by group and link, and the time not hidden by compute."""
    return plan_document(view, "comm", lambda: traffic_sections(view.traffic()))


def traffic_sections(traffic: PlanTraffic) -> list[Section]:
    """Sections on collectives outside a step, inside it, and on the exposed time of each group."""
    sections = [*traffic.ahead, network_section(traffic), *_outside_step_section(traffic.sent), *wait_section(traffic)]
    return [*sections[:-1], replace(sections[-1], beneath=traffic.beneath)]


def network_section(traffic: PlanTraffic) -> Section:
    """The section with the table of collectives, in the columns of nccl-tests."""
    if not traffic.sent:
        words = "Nothing is sent: one rank in every group."
        return Section("network", "Communication", words, ahead=[styled(words)])
    waited = sum(group.exposed for group in traffic.waits)
    _, whole, of = traffic.whole
    words = f"{show_time(waited)} {of} waits for the network, {percent(waited / whole)}." if waited > 0 else ""
    shown = [partial(_draw_waits, traffic)] if traffic.waits else []
    ahead, table = [styled(traffic.where, HEAD)], _collectives_table(traffic.sent)
    longest = sorted(traffic.sent, key=lambda each: -number(each.transfer.total_time))
    firsts = {each.of: each for each in reversed(longest)}.values()  # the longest of each kind of step
    chosen = [*firsts, *(each for each in longest if each not in firsts)][:_BRIEF]
    few = [each for each in traffic.sent if each in chosen]
    short = _collectives_table(few) if len(few) < len(traffic.sent) else None
    return Section("network", "Communication", words, shown, ahead, table, folded=bool(shown), short=short)


def _collectives_table(sent: Sequence[SentMessage]) -> Table:
    """A table of collectives in the columns of nccl-tests; the first columns to be dropped follow from others."""
    several = len({each.of for each in sent}) > 1
    columns = [Column("in", "k")] if several else []
    columns += [Column("group", "k"), Column("ranks"), Column("link", "k", drop=2), Column("op", "k"), Column("size")]
    columns += [Column("count"), Column("time")]
    columns += [Column("sent", face="page"), Column("total time", face="page")]
    columns += [Column("algbw", drop=1, legend=_LEGEND), Column("busbw", drop=3, legend=_LEGEND)]
    rows = list[list[Cell]]()
    for place, each in enumerate(sent):
        of = each.transfer
        cells: list[Cell] = [*([each.of] if several else []), of.group.name, f"{number(each.ranks):,.0f}", each.link]
        cells += [of.operation.replace("_", "-"), *(transfer_cell(of, place, name) for name in _SHOWN)]
        cells += [
            _rate_cell(_algorithm_bandwidth_of(of), place, "size / time of one"),
            _rate_cell(each.busbw, place, _BUSBW),
        ]
        rows.append(cells)
    return Table(columns, rows, caption="Collectives of one accelerator", rest="shorter collectives")


_BRIEF = 7  # collectives of a short answer
_SHOWN = ("message", "count", "time", "volume", "total_time")
_APART = "rates outside a step"
_LEGEND = "GB/s inside the step"
_BUSBW = "bytes that cross the link of a rank / time of one"


def _outside_step_section(sent: Sequence[SentMessage]) -> list[Section]:
    """A section on the bus bandwidth of collectives outside a step, and on the algorithm; empty if none is known."""
    rows = [
        [each.transfer.group.name, each.transfer.operation.replace("_", "-"), significant(each.alone / 1e9),
         " + ".join(each.algorithms)]
        for each in sent
        if each.alone is not None
    ]  # fmt: skip
    columns = [Column("group", "k"), Column("op", "k"), Column("alone", legend="busbw outside a step, GB/s")]
    table = Table([*columns, Column("algorithm", "k")], list(map(list, dict.fromkeys(map(tuple, rows)))))
    lead = "As nccl-tests measures it."
    return [Section("alone", "Outside a step", lead, table=table, detail=_APART)] if rows else []


def transfer_cell(transfer: Transfer, place: int, name: str) -> Cell:
    """A cell with one figure of a transfer: bytes, seconds or a count, by the name of its field."""
    value = number(getattr(transfer, name))
    if name == "count":
        text = f"1/{1 / value:,.0f}" if 0 < value < 0.5 else f"{value:,.0f}"
    else:
        text = show_time(value) if name in ("time", "total_time") else show(value, "B")
    return traced(text, value, transfer_trace_name(place, name))


def _algorithm_bandwidth_of(transfer: Transfer) -> float:
    """The size of a collective over its time, in bytes per second."""
    return number(algorithm_bandwidth(number(transfer.message), number(transfer.time)))


def _rate_cell(value: float, place: int, how: str) -> Cell:
    """A cell with a rate in GB/s, which opens its size and time."""
    names = [transfer_trace_name(place, name) for name in ("message", "time")]
    return computed("GB/s", significant(value / 1e9), value, how, names)


def wait_section(traffic: PlanTraffic) -> list[Section]:
    """A section with the bytes that each group sends, the time of its collectives, and the exposed time."""
    result, whole, of = traffic.whole
    groups = traffic.waits
    if not groups:
        return []
    stated = any(group.volume > 0 for group in groups)
    columns = [Column("group", "k"), *([Column("sent"), Column("total time")] if stated else [])]
    columns += [
        Column("exposed"),
        Column("share", legend=of),
        *([Column("", "l")] if any(group.note for group in groups) else []),
    ]
    rows = list[list[Cell]]()
    for group in groups:
        names = [transfer_trace_name(place, "total_time") for place, _ in group.sent]
        sums: list[Cell] = [
            traced(show(group.volume, "B"), group.volume, f"{group.name}_volume_bytes", f"{group.name}_volume"),
            computed("total time", show_time(group.total), group.total, " + ", names),
        ]
        exposed, share = f"{group.name}_exposed", group.exposed / whole
        waits: list[Cell] = [
            traced(show_time(group.exposed), group.exposed, machine_name(exposed), exposed),
            computed("part", percent(share), share, " / ", [exposed, result]),
        ]
        rows.append([group.words or group.name, *(sums if stated else []), *waits, group.note][: len(columns)])
    lead = "What the groups send, and what of it is not hidden behind other work."
    table, named = Table(columns, rows), "waits of the groups"
    return [Section("waits", "Waits for the network", lead, table=table, detail=named, spare=1)]


def _draw_waits(traffic: PlanTraffic) -> Draw:
    """Bars with the total time of each group's collectives and the exposed part."""
    from costmodel.report.page.figures import BarRow, Bars, Piece

    rows = []
    for group in traffic.waits:
        exposed, total = group.exposed, group.total if group.sent else group.exposed
        words = group.words or group.name
        links = " and ".join(dict.fromkeys(item.link for _, item in group.sent))
        shown = Piece(
            0.0, exposed, "network", f"{words} exposed: {show_time(exposed)}", f"{group.name}_exposed_s", exposed
        )
        behind = Piece(
            0.0, max(total, exposed), "raw", f"{words} in all: {show_time(total)}", f"{group.name}_total_s", total
        )
        text = f"{show_time(exposed)} of {show_time(total)}" if group.sent else show_time(exposed)
        rows.append(BarRow(f"{words} over {links}" if links else words, [behind, shown], text))
    longest = max(rows, key=lambda row: row.pieces[0].end)
    legend = (("raw", "hidden behind compute"), ("network", "exposed"))
    stated = f"The group that sends longest is {longest.label}."
    unit = time_unit(longest.pieces[0].end)
    return Bars("network", "Time on the network by group", stated, rows, "time", show_time, legend=legend, unit=unit)


def communication_json(view: PlanView) -> dict[str, Any]:
    """A plan with its collectives and the waits of its groups, as plain values."""
    if view.answer.refused:
        return {**view.plain(), "transfers": [], "groups": []}
    traffic = view.traffic()
    groups = [
        {
            "group": group.words or group.name,
            "sent_bytes": finite(group.volume),
            "total_s": finite(group.total),
            "exposed_s": finite(group.exposed),
        }
        for group in traffic.groups
    ]
    sent = plan_rows(view.case, map(_collective_fields, traffic.sent))
    return {**view.plain(), "transfers": sent, "groups": plan_rows(view.case, groups), **traffic.plain}


def _collective_fields(each: SentMessage) -> dict[str, Any]:
    """One collective as plain values."""
    return {
        "of": each.of,
        "group": each.transfer.group.name,
        "ranks": number(each.ranks),
        "domains": number(each.transfer.group.domains),
        "link": each.link,
        "operation": each.transfer.operation,
        "message_bytes": number(each.transfer.message),
        "count": number(each.transfer.count),
        "time_s": number(each.transfer.time),
        "volume_bytes": number(each.transfer.volume),
        "busbw_bytes_per_s": each.busbw,
        "alone_busbw_bytes_per_s": each.alone,
        "algorithm": " + ".join(each.algorithms) or None,
    }
