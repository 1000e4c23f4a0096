"""Parts and pages about several serving plans: a search, a sweep, sizes by rate, limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from costmodel.documents.schemas.results import SERVING_COLUMNS, machine_name
from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.estimate.serving.limits_chance import OWN
from costmodel.estimate.serving.plan_columns import RARE, SIZES
from costmodel.estimate.serving.predict_serving import remarks
from costmodel.estimate.serving.reason_codes import REFUSALS
from costmodel.explore.page.serving_facts import ServingFacts
from costmodel.explore.serving.best_layout import plan_settings
from costmodel.explore.serving.found_plans import RankedPlan, ServiceSearch
from costmodel.ground.units import percent, show_time, significant, time_unit
from costmodel.report.document import Verdict, chance_verdict
from costmodel.report.page.content import HtmlPage, PageTable, Part
from costmodel.report.page.plots import Plot, PlotAxis, PlotPoint
from costmodel.report.page.row_commands import row_commands
from costmodel.report.page.shared_parts import remark_findings
from costmodel.report.page.values import seconds
from costmodel.report.terminal.search.ranking import ordinal
from costmodel.report.terminal.serving.serving_formatting import chance_of, result
from costmodel.report.terminal.serving.serving_search import degree_words, none_is_safe, other_rule
from costmodel.report.terminal.serving.serving_variants import value_table, varied_cells, varied_heads
from costmodel.report.terminal.style.head import subject_words

_SHOWN = ("rate_within_slo_per_s", "tpot", "ttft_p99", "tokens_per_gpu_within_limits")


def plans_part(found: ServiceSearch) -> Part:
    """The best plans of a search, to sort and to filter."""
    over = varied_heads(found.variants)
    heads = ("#", *over, "tp", "pp", "ep", "replicas", "budget", "req/s", "tpot ms", "ttft p99 s", "tok/s/GPU", "binds",
             "breaks")  # fmt: skip
    rows = []
    for place, ranked in enumerate(found.best, 1):
        costs = ranked.costs
        rows.append((
            str(place), *varied_cells(found.variants, ranked.variant),
            *(degree_words(ranked, name) for name in ("tp", "pp", "ep", "replicas", "budget")),
            significant(costs["rate_within_slo_per_s"], 4), _bare(costs["tpot"] * 1e3), _bare(costs["ttft_p99"]),
            _bare(costs["tokens_per_gpu_within_limits"]), ranked.binding, " ".join(ranked.broken),
        ))  # fmt: skip
    tally = found.tally
    kept = f"{tally.kept:,} {chance_of(found.inputs.case)}"
    kept += f", {tally.safe:,} with a chance of {percent(found.safe, 2)}" if found.safe is not None else ""
    counts = f"{tally.candidates:,} plans, {tally.evaluated:,} valid, {tally.fit:,} fit, {kept}."
    words = f"{counts} A plan's number opens all of it, and why it is not the best. Heads sort."
    return Part("plans", "The best plans", words, [plans_figure(found)] if found.best else [],
                [PageTable(heads, rows, f"r{'l' * len(over)}rrrrrrrrrll", sortable=True, rows_data="plans", whole=True,
                           figures=[*[""] * (6 + len(over)), *_SHOWN, "", ""])])  # fmt: skip


def plans_data(found: ServiceSearch) -> dict[str, Any]:
    """Ranked plans as columns, for each the command that shows it and why it is not the best."""
    names = [name for name in SERVING_COLUMNS if all(name in ranked.costs for ranked in found.best)]
    columns = [
        {"name": machine_name(name), "label": name, "unit": SERVING_COLUMNS[name].unit, "figure": name,
         "values": [_known(ranked.costs[name]) for ranked in found.best]}
        for name in names
    ]  # fmt: skip
    sizes = [
        {
            "name": name,
            "label": name,
            "unit": "",
            "values": [each.sizes.get(name, RARE.get(name, 1.0)) for each in found.best],
        }
        for name in SIZES
        if name not in names and any(name in ranked.sizes for ranked in found.best)
    ]
    return {
        "columns": [*sizes, *columns],
        **row_commands(found.inputs.case, [plan_settings(found, each) for each in found.best]),
        "notes": [_why_not(found, each) for each in found.best],
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _why_not(found: ServiceSearch, each: RankedPlan) -> list[str]:
    """What a plan breaks, and what it gives beside the best."""
    stated = [f"{code} {REFUSALS[code].title}: {REFUSALS[code].meaning}" for code in each.broken]
    best = found.best[0]
    names = ("rate_within_slo_per_s", "tpot", "ttft_p99")
    if each is not best:
        beside = (f"{name} {result(name, each.costs[name])}, of the best {result(name, best.costs[name])}"
                  for name in names if math.isfinite(each.costs[name]))  # fmt: skip
        stated.append("; ".join(beside))
    return [*stated, f"Its rate is bound by the {each.binding}."]


def best_words(facts: ServingFacts) -> str:
    """Where the plan stands among all, and what the best would gain."""
    found, name = facts.found, "rate_within_slo_per_s"
    if found is None or not found.best or not found.works or not found.your_rank:
        return ""
    own, best = facts.answer.costs[name], found.best[0]
    if found.your_rank == 1 or not own or best.costs[name] <= 1.0005 * own:
        return " No plan of the search answers more within the limits."
    plan = f"tp {best.sizes['tp']:.0f} · pp {best.sizes['pp']:.0f}"
    return (
        f" It ranks {ordinal(found.your_rank)} of {found.tally.fit:,} plans: the best answers "
        f"{best.costs[name] / own:.2f} × as much ({plan})."
    )


def _bare(value: float) -> str:
    return significant(value, 4) if math.isfinite(value) else "—"


def plans_figure(found: ServiceSearch) -> Plot:
    """Time per token against what each accelerator generates within limits."""
    points = []
    for place, ranked in enumerate(found.best, 1):
        x, y = ranked.costs["tpot"], ranked.costs["tokens_per_gpu_within_limits"]
        if math.isfinite(x) and math.isfinite(y):
            named = " · ".join((f"plan {place}", *varied_cells(found.variants, ranked.variant)))
            words = f"{named}: {show_time(x)}, {result('tokens_per_gpu_within_limits', y)}"
            role = "second" if ranked.broken else "first"
            points.append(PlotPoint(x, y, role, words, f"plan {place}", "best" if place == 1 else "", 5))
    legend = [("first", "keeps the limits"), ("second", "breaks a limit")]
    seen = {point.role for point in points}
    unit = time_unit(max((point.x for point in points), default=1.0))
    x_axis = PlotAxis("time per token", seconds, unit=unit)
    y_axis = PlotAxis("token/s for each accelerator within limits", lambda value: significant(value, 3))
    return Plot("plans", "Plans: latency and throughput", f"{len(points)} plans; up and left is better.",
                x_axis, y_axis, points,
                legend=[entry for entry in legend if entry[0] in seen])  # fmt: skip


def why_part(found: ServiceSearch) -> Part | None:
    """Reasons, and how many plans each refuses."""
    counts = found.tally.whole
    rows = [(code, REFUSALS[code].title, f"{count:,}", percent(counts.share(code)), REFUSALS[code].meaning)
            for code, count in counts.against()]  # fmt: skip
    heads = ("code", "why", "plans", "of all", "what it means")
    return Part("why-not", "Why not the others", tables=[PageTable(heads, rows, "llrrl")]) if rows else None


def values_part(found: ServiceSearch) -> Part | None:
    """What became of the plans at each value of the keys that vary."""
    if not found.variants.over:
        return None
    table = value_table(found)
    return Part("values", "At each value", tables=[PageTable(table.names, table.rows, table.align.replace("k", "l"))])


def search_page(found: ServiceSearch, commands: Sequence[str]) -> HtmlPage:
    """A search of a serving scenario."""
    case = found.inputs.case
    if found.works:
        best = found.best[0]
        named = (
            *varied_cells(found.variants, best.variant),
            *(f"{name} {best.sizes[name]:.0f}" for name in ("tp", "pp")),
        )
        words = f"The best plan, {' · '.join(named)}, answers "
        words += f"{result('rate_within_slo_per_s', best.costs['rate_within_slo_per_s'])} within all limits"
        words += "." if found.safe is None else f" with a chance of {percent(found.safe, 2)}."
        words = f"{none}. {words}" if (none := none_is_safe(found)) else words
        words += f" {other}." if (other := other_rule(found)) else ""
    else:
        words = "No plan keeps all limits." if found.best else "No plan fits."
    parts = [part for part in (plans_part(found), values_part(found), why_part(found)) if part is not None]
    about = [subject_words(subject_of(case), found.variants.paths)]
    best_chance = (found.fleet or found.best[0]).costs[OWN] if found.best else math.nan
    verdict: Verdict = "bad" if not found.works else chance_verdict(best_chance) if found.is_safe else "warn"
    return HtmlPage(case.title, about, words, verdict, [], parts,
                    list(remark_findings(remarks(found.inputs))), commands,
                    {"plans": plans_data(found)} if found.best else {})  # fmt: skip
