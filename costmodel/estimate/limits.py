"""What a plan must keep: usable memory, and the limits of the scenario."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from costmodel.estimate.costs import Costs
from costmodel.estimate.setting import Setting


def unacceptable(setting: Setting, costs: Costs) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Masks of the rows that break each bound, by its code."""
    limits = setting.case.scenario.limits
    share = costs.column("memory_share")
    yield "M001", share > 1
    if limits.memory.at_most is not None:
        yield "M002", share > limits.memory.at_most
    if limits.step_time.at_most is not None:
        yield "T001", costs.column("step_time") > limits.step_time.at_most
    if limits.mfu.at_least is not None:
        yield "T001", costs.column("mfu") < limits.mfu.at_least
