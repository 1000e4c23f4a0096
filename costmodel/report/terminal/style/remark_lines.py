"""What an answer assumed, and what there is to remark on its plans."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.text import Text

from costmodel.estimate.shared.remarks import REMARKS
from costmodel.ground.counts import number_of
from costmodel.report.terminal.style.layout import Abridged, CellTable, Line, as_many, shorter
from costmodel.report.terminal.style.theme import DIM, WARN, styled

if TYPE_CHECKING:
    from costmodel.documents.schemas.default_values import Assumption


def assumed_lines(assumed: Sequence[Assumption], *, shown: bool = True) -> list[Line]:
    """Values that the user did not state, and where each came from; in a short answer the first ones in a line.

    shown: whether a short answer has this line
    """
    if not assumed:
        return []
    rows = [("" if index else "assumed", item.path, item.value, item.origin) for index, item in enumerate(assumed)]
    whole = CellTable(("", "path", "value", "from"), rows, "llll", headed=False, style=DIM)
    line = as_many("  assumed  ", [f"{item.path} {item.value}" for item in assumed], " · ")
    words = number_of(len(assumed), "assumption")
    return [Text(), *shorter([styled(line, DIM)] if shown else [], [whole], words)]


def assumed_of_all(answers: Iterable[Sequence[Assumption]]) -> list[Line]:
    """The assumptions of answers at several sizes: each key once, with its values."""
    found: dict[str, list[Assumption]] = {}
    for item in itertools.chain.from_iterable(answers):
        found.setdefault(item.path, []).append(item)
    values = {path: _of_sizes([item.value for item in items]) for path, items in found.items()}
    whole = [replace(items[0], value=values[path]) for path, items in found.items()]
    return assumed_lines(whole, shown=False)


def _of_sizes(values: Sequence[str]) -> str:
    """Values from size to size; of more than three the first and the last."""
    distinct = list(dict.fromkeys(values))
    return ", ".join(distinct) if len(distinct) <= 3 else f"{distinct[0]} … {distinct[-1]}"


def remarks(
    plans: Sequence[Sequence[str]], costs: Sequence[Mapping[str, float]] = (), nodes: Sequence[str] = ()
) -> list[Line]:
    """Every remark on the plans once, with the number of plans if not all have it; with `costs`, also whether the
    order of calibrated and uncalibrated accelerators is certain.

    nodes: the node of each plan, for remarks on accelerators
    """
    counted = remark_counts(plans, nodes)
    few = [f"{code} {REMARKS[code].title}{_counted(some)}" for code, some in counted.items()]
    short = [as_many("  ▲ ", few, " · ") if few else "", *[""] * len(few)]
    lines: list[Line] = [
        Abridged(
            f"  ▲ {code} {REMARKS[code].title}{some}: {REMARKS[code].meaning}",
            WARN,
            short=words,
            added="what ▲ means",
        )
        for (code, some), words in zip(counted.items(), short, strict=False)
    ]
    if 0 < sum("N005" in codes for codes in plans) < len(plans):
        lines.append(Abridged(f"  ▲ N005 ranking: {_order(plans, costs)}", WARN, short="", added="what ▲ means"))
    return lines


def _counted(some: str) -> str:
    """On how many plans a remark is, without their machines."""
    return f" ({some.strip(' ()').partition(':')[0]})" if " of " in some else ""


def remark_counts(plans: Sequence[Sequence[str]], nodes: Sequence[str] = ()) -> dict[str, str]:
    """For each remark, how many plans it applies to if not all, and on which machines.

    nodes: the node of each plan
    """
    found = dict[str, str]()
    for code, count in Counter(code for codes in plans for code in codes).items():
        words = [f"{count:,} of {len(plans):,}"] if count < len(plans) else []
        if nodes and (code == "N005" or (words and code in _OF_MACHINES)):
            named = (node for codes, node in zip(plans, nodes, strict=True) if code in codes)
            words.append(", ".join(dict.fromkeys(named)))
        found[code] = f" ({': '.join(words)})" if words else ""
    return found


_OF_MACHINES = ("N002", "N005", "N040", "N056")  # remarks on an accelerator, or on its software


def _order(plans: Sequence[Sequence[str]], costs: Sequence[Mapping[str, float]]) -> str:
    """A sentence on whether the order of calibrated and uncalibrated accelerators is certain."""
    who = "one GPU or more is not calibrated"
    bands = [(found.get("step_time_low"), found.get("step_time_high")) for found in costs]
    if len(bands) != len(plans) or any(None in band for band in bands):
        return f"this order is sure only where ranges do not overlap: {who}"
    sides: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for codes, (low, high) in zip(plans, bands, strict=True):
        sides["N005" in codes].append((low or 0.0, high or 0.0))
    overlap = sum(low <= top and bottom <= high for low, high in sides[True] for bottom, top in sides[False])
    pairs = len(sides[True]) * len(sides[False])
    if not overlap:
        return f"this order is certain: no ranges of step time overlap, though {who}"
    some = "all" if overlap == pairs else f"{overlap:,} of {pairs:,}"
    return f"this order is uncertain: {some} pairs of step times overlap, because {who}"
