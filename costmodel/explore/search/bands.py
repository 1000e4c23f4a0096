"""Bands of ranked plans: a search ranks all by value, and looks at the bands of the few it shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from costmodel.estimate.band import banded
from costmodel.estimate.block import SIZES, Block
from costmodel.estimate.costs import BAND_ENDS, COLUMNS
from costmodel.estimate.evaluate import evaluate
from costmodel.estimate.setting import Setting
from costmodel.explore.search.rank import Ranked


def with_bands(setting: Setting, plans: Sequence[Ranked]) -> list[Ranked]:
    """The same plans with both ends of every band among their costs; plans of one structure are evaluated together."""
    found = list(plans)
    for structure in dict.fromkeys(plan.structure for plan in plans):
        places = [place for place, plan in enumerate(plans) if plan.structure == structure]
        sizes = (np.array([plans[place].sizes[name] for place in places], dtype=np.float64) for name in SIZES)
        costs = banded(setting, evaluate(setting, Block(structure, *sizes))).costs
        for row, place in enumerate(places):
            ends = {name: float(costs.column(name)[row]) for name in BAND_ENDS}
            whole = plans[place].costs | ends
            found[place] = replace(plans[place], costs={name: whole[name] for name in COLUMNS})
    return found
