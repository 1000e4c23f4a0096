"""The keys that vary over a serving search: heads, columns of their values, and what became of the plans at each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from rich.text import Text

from costmodel.documents.schemas.serving.serving_workload import LOADS
from costmodel.estimate.evaluate.answer_facts import subject_of, varies
from costmodel.estimate.serving.deployment_rent import fleet_of
from costmodel.estimate.serving.predict_serving import remarks
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.explore.search.variants import Variants
from costmodel.explore.serving.found_plans import RankedPlan, ServiceCounts, ServiceSearch, compared
from costmodel.ground.units import counted, percent
from costmodel.report.terminal.search.varied_keys import few, headings
from costmodel.report.terminal.serving.serving_formatting import lengths_words, load_words, result
from costmodel.report.terminal.style.formatting import spaced
from costmodel.report.terminal.style.head import origin_lines, price_lines, price_varies, subject_words
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.remark_lines import remarks as remark_lines
from costmodel.report.terminal.style.theme import BAD, DIM, HEAD, styled

_SHOWN_ANYWAY = frozenset({"plan.tp", "plan.pp", "plan.replicas"})
PAID = "GPUs paid"
_HEADS = {
    "rate_within_slo_per_s": "req/s",
    "cost_within_limits": "rent/M out",
    "tokens_per_gpu_within_limits": "tok/s/GPU",
    "rent_per_month": "a month",
    "rent_needed": "rent/month",
    PAID: PAID,
    "gpus_needed": "GPUs needed",
}
OF_FLEETS = ("gpus_needed", "rent_per_month")  # objectives beside which the GPUs that a load needs have their rent
_MOST_VALUES = 24  # shown of keys that vary


def head_of(variants: Variants[ServingInputs]) -> list[Line]:
    """What is searched: the scenario without what varies, and the values of that."""
    case, paths = variants.inputs.case, variants.paths
    subject = subject_of(case)
    priced = price_lines(subject.price) if subject.price.known and not price_varies(paths) else []
    return [*title_lines(variants, load_words(case.scenario.workload)), *priced, *origin_lines(case)]


def title_lines(variants: Variants[ServingInputs], load: str) -> list[Line]:
    """Model and machine, engine, lengths and load, without what varies; and what does."""
    inputs, paths = variants.inputs, variants.paths
    subject = subject_words(subject_of(inputs.case), paths)
    words = [] if varies("stack", paths) else [inputs.engine.name]
    lengths = not _vary(paths, ["prompt", "output"])
    words += [lengths_words(inputs.case.scenario.workload)] if lengths else []
    words += [load] if load and not _vary(paths, LOADS) else []
    over = [f"over {axis.path}: {few(axis.values)}" for axis in variants.over]
    return [
        *([styled(subject, HEAD)] if subject else []),
        *([styled(" · ".join(words))] if words else []),
        *(styled(each, HEAD) for each in over),
    ]


def variant_remarks(variants: Variants[ServingInputs], shown: Sequence[int]) -> list[Line]:
    """What there is to remark on the scenarios of some plans."""
    each = [variants.of(number) for number in shown]
    return remark_lines([tuple(remarks(inputs)) for inputs in each], nodes=[inputs.case.node.name for inputs in each])


def stopped_lines(found: ServiceSearch) -> list[Line]:
    """How far a search got that was stopped."""
    return (
        [styled(f"Stopped after {percent(found.tally.work / found.total)} of the values.", BAD)]
        if found.stopped
        else []
    )


def _vary(paths: Sequence[str], keys: Sequence[str]) -> bool:
    """Whether one of these keys of the workload varies, or a part of it."""
    return any(varies(f"workload.{key}", paths) or f"{path}.".startswith(f"workload.{key}.")
               for key in keys for path in paths)  # fmt: skip


def varied_cells(variants: Variants[ServingInputs], number: int) -> tuple[str, ...]:
    """The values of the keys that vary and have no column of their own."""
    values = variants.values(number)
    return tuple(spaced(values[path]) for path in _own_columns(variants))


def varied_heads(variants: Variants[ServingInputs]) -> list[str]:
    """The headings of their columns."""
    return headings(_own_columns(variants))


def _own_columns(variants: Variants[ServingInputs]) -> list[str]:
    return [path for path in variants.paths if path not in _SHOWN_ANYWAY]


def value_lines(found: ServiceSearch) -> list[Line]:
    """What became of the plans at each value of the keys that vary, and the best plan there."""
    if not found.variants.over:
        return []
    more = len(found.service_parts) - _MOST_VALUES
    cut = [styled(f"  {more:,} more: --json has all", DIM)] if more > 0 else []
    return [Text(), value_table(found, _MOST_VALUES), *cut]


def value_table(found: ServiceSearch, most: int | None = None) -> CellTable:
    """The same as a table of at most so many values."""
    variants, objective = found.variants, found.inputs.case.scenario.objective
    bests = [part.best for part in found.service_parts if part.best is not None]
    needed = any(math.isfinite(best.costs["gpus_needed"]) for best in bests)
    rented = objective in OF_FLEETS and any(math.isfinite(best.costs["rent_needed"]) for best in bests)
    further = (*(("gpus_needed",) if needed else ()), *((*paid_apart(found, bests), "rent_needed") if rented else ()))
    first = () if rented else (compared(found.inputs),)
    figures = {name: result_head(name) for name in dict.fromkeys((*first, *further))}
    rows = [_value_row(found, part, list(figures)) for part in found.service_parts[:most]]
    names = (*headings(variants.paths), "plans", "fit", "keep", "best plan", *figures.values(), "why not the others")
    align = f"{'k' * len(variants.over)}rrrk{'r' * len(figures)}l"
    drop = ("plans", "fit", *(() if any(part.fault for part in found.service_parts) else ("why not the others",)))
    return CellTable(names, rows, align, drop=drop)


def _value_row(found: ServiceSearch, part: ServiceCounts, figures: Sequence[str]) -> tuple[str, ...]:
    values = (spaced(value) for value in found.variants.values(part.number).values())
    counts = (f"{count:,}" for count in (part.candidates, part.fit, part.safe))
    if part.fault is not None:
        nothing = ("—",) * (4 + len(figures))
        return (*values, *nothing, f"✗ {part.fault.code} {part.fault.sentence}")
    against = (f"{code} {percent(part.share(code), 2)}" for code, _ in part.against())
    best = part.best
    shown = ("—" if best is None else figure_cell(found, best, name) for name in figures)
    return (*values, *counts, best_words(best), *shown, " · ".join(itertools.islice(against, 4)))


def paid_apart(found: ServiceSearch, plans: Sequence[RankedPlan]) -> tuple[str, ...]:
    """The column of the accelerators that are paid for, where these are not those that the load needs."""
    known = [plan for plan in plans if not plan.broken and math.isfinite(plan.costs["gpus_needed"])]
    return (PAID,) if any(_paid(found, plan) != plan.costs["gpus_needed"] for plan in known) else ()


def _paid(found: ServiceSearch, plan: RankedPlan) -> float:
    """Accelerators that the rent of those pays for which the load needs."""
    return fleet_of(found.variants.of(plan.variant), plan.costs["gpus_needed"]).paid


def figure_cell(found: ServiceSearch, plan: RankedPlan, name: str) -> str:
    """A result of a plan; a dash where it is not known, as rents of a plan that breaks a limit."""
    if name == PAID:
        known = not plan.broken and math.isfinite(plan.costs["gpus_needed"])
        return f"{_paid(found, plan):,.0f}" if known else "—"
    return result(name, plan.costs[name]) if math.isfinite(plan.costs[name]) else "—"


def result_head(name: str) -> str:
    """The head of a result's column."""
    return _HEADS.get(name, name)


def best_words(best: RankedPlan | None) -> str:
    """The instances of a plan, and what it breaks."""
    if best is None:
        return "none fits"
    halves = [sizes for sizes in (best.prefill, best.sizes) if sizes is not None]
    words = " → ".join(f"{counted(sizes['replicas'])} × {replica_words(sizes)}" for sizes in halves)
    return f"{words} ✗ {' '.join(best.broken)}" if best.broken else words


def replica_words(sizes: Mapping[str, float]) -> str:
    """The degrees of one replica."""
    degrees = {name: sizes.get(name, 1.0) for name in ("tp", "pp", "ep", "dp_attention", "dcp")}
    return " · ".join(f"{name} {counted(size)}" for name, size in degrees.items() if size > 1 or name == "tp")
