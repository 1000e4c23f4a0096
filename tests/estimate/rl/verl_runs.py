"""The published table of verl's asynchronous trainer: DAPO of Qwen2.5-Math-7B on H20, 512 prompts × 16 answers.

verl, recipe/fully_async_policy/README.md and recipe/one_step_off_policy/README.md; the plans are those of its launch
scripts. Lengths of answers are not published: one row, the update on 32 accelerators, sets their mean for all others.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.rl_scenario import reinforced
from costmodel.estimate.rl.predict_rl import RlAnswer, predict

COLOCATED = {  # ranks: iteration, generation, old log-probabilities, update [s]
    32: (790.1, 357.41, 107.71, 269.8),
    64: (365.28, 150.72, 70.26, 133.41),
    128: (356.3, 177.85, 53.92, 113.81),
}
ASYNCHRONOUS = {  # ranks of each part: iteration, waiting for answers, update; staleness 0.5, partial rollouts [s]
    16: (294.77, None, 313.81),
    32: (189.26, 28.46, 156.98),
    64: (150.63, 33.14, 113.16),
}
ONE_COLOCATED = (749.0, 321.0, 88.0, 286.0)  # 32 ranks, 20 k tokens: iteration, generation, log-probabilities, update
ONE_STEP_OFF = (520.0, 45.0, 108.0, 337.0)  # iteration, waiting, log-probabilities, update
MEAN = 1340  # tokens of an answer, with which the update on 32 accelerators takes what was measured
COLUMNS = ("iteration_time", "generation", "old_log_probabilities", "update_time")


@dataclass(frozen=True)
class Row:
    """A measured time and the prediction."""

    ranks: str
    phase: str
    measured: float
    answer: RlAnswer

    @property
    def predicted(self) -> float:
        return self.answer.costs[self.phase]

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


def predicted(ranks: int, mean: float, *settings: str) -> RlAnswer:
    common = [
        "cluster.node.accelerator=h20",
        f"cluster.nodes={ranks // 8}",
        f"workload.response={{mean: {mean:.0f}, limit: 28672}}",
        "workload.prompt=200",
        "workload.reference=false",
        "plan={cp: 4, cp_type: a2a, zero: 3, recompute: full, micro_batch: 61440 tokens, "
        "rollout: {tp: 4, memory: 80 %, offload: true}}",
    ]
    return predict(reinforced(load_any("grpo-qwen-2.5-7b-64", [*common, *settings])))


@functools.cache
def rows(mean: float = MEAN) -> list[Row]:
    """Every row of the table."""
    found = []
    for ranks, measured in COLOCATED.items():
        answer = predicted(ranks, mean)
        found += [Row(f"{ranks}", name, value, answer) for name, value in zip(COLUMNS, measured, strict=True)]
    for ranks, (iteration, _, update) in ASYNCHRONOUS.items():
        rollout = f"plan.rollout={{tp: 4, memory: 80 %, colocated: false, ranks: {ranks}}}"
        answer = predicted(2 * ranks, mean, rollout, "workload.staleness=0.5", "workload.rollouts=partial")
        found.append(Row(f"{ranks}:{ranks}", "iteration_time", iteration, answer))
        found.append(Row(f"{ranks}:{ranks}", "update_time", update, answer))
    return found
