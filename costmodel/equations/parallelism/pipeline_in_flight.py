"""Live micro-batches of the schedules that split backward, fold the pipeline or run it both ways."""

from __future__ import annotations

import numpy as np

from costmodel.ground.choices import LaterSchedule
from costmodel.ground.equation import Number, equation


@equation
def live_micro_batches(pp: Number, micro_batches: Number, *, schedule: LaterSchedule) -> Number:
    """Live micro-batches of a rank at its peak, in whole stages' worth of activations, until their W is done.

    zb-h1, zb-v, chimera: p;  zb-h2: 2 p − 1;  v-half: ⌈p/2⌉ + 1;  v-min: ⌊(p + 4)/3⌋
    dualpipe: p + 1;  dualpipev: p + ½;  looped-bfs: m; never more than m

    pp p · micro_batches m: forwards per step and rank · schedule: its name → forwards whose activations are still held
    Source: qi-2023 §2.3; qi-2024 §4; deepseek-dualpipe README; li-2021 §3.1; lamy-poirier-2023 §3
    Holds: an upper bound on every rank; by simulation the peak of the most loaded
    Monotone: increasing in pp, micro_batches
    >>> float(live_micro_batches(8.0, 32.0, schedule="v-min"))
    4.0
    """
    held = {
        "zb-h1": pp,
        "zb-v": pp,
        "chimera": pp,
        "zb-h2": 2 * pp - 1,
        "v-half": np.ceil(pp / 2) + 1,
        "v-min": np.floor((pp + 4) / 3),
        "dualpipe": pp + 1,
        "dualpipev": pp + 0.5,
        "looped-bfs": micro_batches,
    }
    live: Number = np.minimum(micro_batches, held[schedule])
    return live
