"""The gain of speculation at a load, and the number of sequences in flight up to which it pays off."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from costmodel.equations.run.economics import share
from costmodel.equations.serving.speculation import speculation_speedup
from costmodel.estimate.serving.load import Bounds, Column
from costmodel.estimate.serving.operating_point import Steps, micro_batch
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs, without_speculation
from costmodel.estimate.serving.step_table import step_table
from costmodel.ground.equation import Number, untraced
from costmodel.ground.solvers import last_within


def speculation_columns(
    inputs: ServingInputs,
    layout: PlanColumns,
    steps: Steps,
    bounds: Bounds,
    tpot: Number,
    tpot_of: Callable[[ServingInputs, PlanColumns], Number],
) -> dict[str, Number]:
    """Tokens a step, the time per token without drafts over that with them, and the break-even; unknown without."""
    if inputs.draft is None and inputs.load.verified == 1:
        return {"accepted_tokens": 1.0, "speculation_gain": np.nan, "speculation_break_even": np.nan}
    plain = without_speculation(inputs)
    with untraced():
        before = np.asarray(tpot_of(plain, layout), dtype=np.float64)
        most = _break_even(inputs, layout, steps, bounds)
    return {
        "accepted_tokens": inputs.load.accepted,
        "speculation_gain": share(before, tpot),
        "speculation_break_even": most,
    }


def _break_even(inputs: ServingInputs, layout: PlanColumns, steps: Steps, bounds: Bounds) -> Column:
    """Sequences in flight from which a token takes longer than without drafts; 0 where it always does, without end
    where it never does within the bounds.
    """
    without = step_table(without_speculation(inputs), layout)

    def added_time(many: Column) -> Column:
        micro = micro_batch(layout, many)
        verified = share(steps.decode(micro), without.decode(micro))  # its drafts too
        speedup = speculation_speedup(inputs.load.accepted, verified, inputs.load.verified - 1.0, 0.0)
        return -np.log(np.asarray(speedup, dtype=np.float64))

    most = np.maximum(np.broadcast_to(bounds.sequences, (len(layout),)), 1.0)
    with np.errstate(all="ignore"):
        found = np.exp(last_within(lambda log: added_time(np.exp(log)), np.zeros(len(layout)), np.log(most)))
    ever = added_time(np.ones(len(layout))) <= 0
    always = added_time(most) <= 0
    return np.where(always, np.inf, np.where(ever, found, 0.0))
