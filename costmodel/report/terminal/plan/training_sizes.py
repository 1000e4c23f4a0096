"""What scale states of a training job beside its table: the time to a loss, and what of its plan cannot stay."""

from __future__ import annotations

import math

from costmodel.documents.reader.resolved_scenario import training
from costmodel.estimate.shared.critical_batch import FITS_APART, is_fitted, other_meaning
from costmodel.explore.vary.scale import Scaled
from costmodel.ground.units import percent, significant
from costmodel.report.terminal.style.layout import Line
from costmodel.report.terminal.style.theme import WARN, styled


def unsized(found: Scaled) -> list[Line]:
    """What is written of the plan and cannot stay."""
    plan = training(found.asked.case).scenario.plan
    if plan is None or plan.dp is None:
        return []
    return [styled(f"dp follows from the ranks; the {plan.dp:.0f} of the plan is left out", WARN)]


def lines(found: Scaled) -> list[Line]:
    """Where more accelerators stop paying, and what to know of it."""
    return [styled(words) for words in (*_paying(found), *cautions(found))]


def cautions(found: Scaled) -> list[str]:
    """What to know of a time to a loss that follows from a published fit."""
    workload = training(found.asked.case).scenario.workload
    if not is_fitted(workload):
        return []
    spread = f"Critical batches of different fits lie up to {FITS_APART:g} times apart."
    return [spread, *(f"{words[0].upper()}{words[1:]}." for words in other_meaning(workload))]


def _paying(found: Scaled) -> list[str]:
    """Where twice as many accelerators leave over three quarters of the time to a loss."""
    known = [row for row in found.rows if not math.isnan(row.to_loss)]
    if len(known) < 2:
        return []
    if found.pays is None:
        most = known[-1].found.text
        return [f"More GPUs pay up to {most}: a doubling saves a quarter of the time to the loss or more."]
    before, after = found.pays
    time, more = after.to_loss / before.to_loss, after.found.size / before.found.size
    as_many = f"{significant(more)} times as many take {percent(time)} of the time to the loss"
    hours = f"{significant(time * more)} times the GPU hours"
    return [f"More GPUs stop paying after {before.found.text}: {as_many}, and {hours}."]
