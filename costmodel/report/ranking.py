"""Answers of a search: the ranking, where one's own plan stands, why others were refused."""

from __future__ import annotations

from rich.text import Text

from costmodel.estimate.evaluate import verdict
from costmodel.estimate.legality import REFUSALS
from costmodel.explore.rank import Ranked
from costmodel.explore.search import Found
from costmodel.report.plan import head, percent, plan_words
from costmodel.report.theme import BAD, DIM, HEAD, columns, styled
from costmodel.units import gib, show_time, significant


def search(found: Found, shown: int) -> list[Text]:
    """The best plans, where one's own stands, and why others were refused."""
    tally, setting = found.tally, found.setting
    ranks = setting.case.scenario.cluster.nodes * setting.case.node.accelerators
    lines = [
        styled(head(setting), HEAD),
        styled(
            f"{ranks:,.0f} GPUs · {tally.candidates:,} plans · {tally.evaluated:,} legal · {tally.fit:,} fit"
            f" · {found.elapsed:.2f} s"
        ),
        Text(),
    ]
    if not found.best:
        return [*lines, *_nothing_fits(found)]
    lines += map(
        styled, columns(search_rows(found.best[:shown]), right=[True] * 8 + [False] + [True] * 4 + [False], gap=" ")
    )
    lines += [Text(), *_yours(found), *_refused(found)]
    best = found.best[0]
    lines += [Text(), styled(f"Best: {_set_words(best)}")]
    return lines


def search_rows(best: list[Ranked]) -> list[tuple[str, ...]]:
    """The table of a search."""
    rows: list[tuple[str, ...]] = [
        ("#", "tp", "pp", "dp", "vpp", "mb", "zero", "sp", "recompute", "step", "tok/s/GPU", "MFU", "GiB", "")
    ]
    for place, plan in enumerate(best, 1):
        sizes, costs, structure = plan.sizes, plan.costs, plan.structure
        rows.append(
            (
                str(place),
                *(f"{sizes[name]:.0f}" for name in ("tp", "pp", "dp", "vpp", "micro_batch")),
                str(structure.zero),
                "✓" if structure.sequence_parallel and sizes["tp"] > 1 else "·",
                structure.recompute,
                show_time(costs["step_time"]),
                significant(costs["tokens_per_s_per_gpu"], 4),
                percent(costs["mfu"]),
                gib(costs["memory_peak"]),
                "tight" if verdict(costs["memory_share"]) == "tight" else "",
            )
        )
    return rows


def _set_words(plan: Ranked) -> str:
    sizes, structure = plan.sizes, plan.structure
    words = [f"plan.{name}={sizes[name]:.0f}" for name in ("tp", "pp", "vpp", "micro_batch")]
    words += [f"plan.zero={structure.zero}", f"plan.recompute={structure.recompute}"]
    return "costmodel estimate SCENARIO " + " ".join(f"--set {word}" for word in words)


def _yours(found: Found) -> list[Text]:
    if found.yours is None:
        return []
    words = plan_words(found.yours)
    if found.your_rank is None:
        code = found.yours.refused[0] if found.yours.refused else "M001"
        return [styled(f"  yours ({words}) is refused: {code} {REFUSALS[code].title}", BAD)]
    costs = found.yours.evaluation.costs.row()
    gain = costs["step_time"] / found.best[0].costs["step_time"]
    rest = f"; the best is {gain:.2f} × faster" if gain > 1.0005 else ""
    return [styled(f"  yours ({words}) ranks {_ordinal(found.your_rank)}{rest}")]


def _ordinal(number: int) -> str:
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{suffix}"


def _refused(found: Found) -> list[Text]:
    total = found.tally.candidates
    parts = [
        f"{code} {REFUSALS[code].title} {percent(count / total, 2)}"
        for code, count in found.tally.refused.most_common()
        if count
    ]
    if not parts:
        return []
    lines = [styled("  why not", DIM)]
    return lines + [styled(f"    {' · '.join(parts[start : start + 3])}", DIM) for start in range(0, len(parts), 3)]


def _nothing_fits(found: Found) -> list[Text]:
    nearest = found.tally.nearest.rows
    if not nearest:
        return [styled("No plan is legal.", BAD), *_refused(found)]
    plan, setting = nearest[0], found.setting
    sizes, structure = plan.sizes, plan.structure
    words = " ".join(f"{name} {sizes[name]:.0f}" for name in ("tp", "pp", "dp", "micro_batch"))
    words += f" zero {structure.zero} recompute {structure.recompute}"
    need = f"{gib(plan.costs['memory_peak'])} of {gib(setting.usable)} GiB"
    what = "fits" if plan.costs["memory_share"] > 1 else "keeps the limits"
    lines = [styled(f"No plan {what}.", BAD), styled(f"  nearest   {words} needs {need}")]
    lines += [styled(f"  try       {remedy}") for remedy in found.remedies]
    return [*lines, *_refused(found)]
