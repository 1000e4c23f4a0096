"""The results of a plan: each with its unit, its meaning and which direction is better."""

import math
from collections.abc import Mapping
from typing import Literal

from costmodel.ground.record import record


@record
class ResultColumn:
    """A figure of an answer, and a column of a table of answers."""

    unit: str
    meaning: str
    better: Literal["lower", "higher", "neither"]
    counted: str = ""  # the unit with what it counts

    @property
    def written(self) -> str:
        """The unit as people write it, with what it counts."""
        return self.counted or self.unit


RESULTS: dict[str, ResultColumn] = {
    "step_time": ResultColumn("s", "wall-clock time of an optimizer step", "lower"),
    "tokens_per_s": ResultColumn("1/s", "tokens trained per second by the whole job", "higher", "token/s"),
    "tokens_per_s_per_gpu": ResultColumn(
        "1/s", "tokens trained per second by each accelerator", "higher", "token/GPU/s"
    ),
    "flop_rate": ResultColumn("FLOP/s", "model FLOP a second of each accelerator", "higher", "FLOP/GPU/s"),
    "mfu": ResultColumn("1", "model FLOP as a share of the peak; hfu also counts recomputed FLOP", "higher"),
    "hfu": ResultColumn("1", "executed FLOP, including recomputed FLOP, as a share of the peak", "higher"),
    "matmul": ResultColumn("s", "matrix products of the busiest stage", "lower"),
    "attention": ResultColumn("s", "attention cores of the busiest stage", "lower"),
    "memory_bound": ResultColumn(
        "s", "norms, activation functions, loss: operations bound by memory bandwidth", "lower"
    ),
    "launch": ResultColumn("s", "time the device waits for the host to issue operations", "lower"),
    "tp_exposed": ResultColumn("s", "tensor-parallel communication that compute does not hide", "lower"),
    "cp_exposed": ResultColumn("s", "context-parallel communication that attention does not hide", "lower"),
    "pp_exposed": ResultColumn("s", "sends between stages that compute does not hide", "lower"),
    "ep_exposed": ResultColumn("s", "dispatch of tokens to experts and back that compute does not hide", "lower"),
    "dp_exposed": ResultColumn("s", "data-parallel communication that compute does not hide", "lower"),
    "bubble": ResultColumn("s", "time that the busiest stage waits for others", "lower"),
    "bubble_share": ResultColumn("1", "bubble as a share of the step", "lower"),
    "offload_exposed": ResultColumn(
        "s", "traffic over the host link that neither compute nor the network hides", "lower"
    ),
    "optimizer": ResultColumn("s", "optimizer step", "lower"),
    "memory_peak": ResultColumn("B", "memory of the worst stage, as the driver shows it", "lower"),
    "memory_share": ResultColumn("1", "memory_peak as a share of usable memory; limited with limits.memory", "lower"),
    "memory_free": ResultColumn("B", "usable memory minus memory_peak", "higher"),
    "fit_chance": ResultColumn("1", "chance that memory_peak is within usable memory, by its band", "higher"),
    "host_memory": ResultColumn("B", "host memory and drives that offload uses on a node", "lower"),
    "host_share": ResultColumn(
        "1", "host_memory as a share of the node's memory or drives, whichever is fuller", "lower"
    ),
    "tp_volume": ResultColumn("B", "bytes a rank sends a step for tensor parallelism", "lower"),
    "cp_volume": ResultColumn("B", "bytes a rank sends a step for context parallelism", "lower"),
    "ep_volume": ResultColumn("B", "bytes a rank sends a step for tokens to their experts and back", "lower"),
    "pp_volume": ResultColumn("B", "bytes a rank sends a step between stages", "lower"),
    "dp_volume": ResultColumn("B", "bytes a rank sends a step for data parallelism", "lower"),
    "communication_efficiency": ResultColumn("1", "compute over compute and exposed communication", "higher"),
    "scaling_efficiency": ResultColumn(
        "1", "speed relative to the same accelerators without exposed communication and bubble", "higher"
    ),
    "cost_per_mtoken": ResultColumn("USD", "rent for a million tokens", "lower", "USD/Mtoken"),
    "run_time": ResultColumn("s", "wall-clock time of the token budget, without failures", "lower"),
    "run_cost": ResultColumn("USD", "rent for the token budget", "lower"),
}

# Of a scenario that asks about the whole run; two of the above mean more there.
RUN_RESULTS: dict[str, ResultColumn] = {
    "goodput": ResultColumn("1", "useful share of the wall time of the run", "higher"),
    "run_time": ResultColumn("s", "wall-clock time of the run, including interruptions", "lower"),
    "run_cost": ResultColumn("USD", "rent of all nodes for the wall time of the run", "lower"),
    "energy": ResultColumn("J", "energy of the run at the meter of the data centre", "lower"),
    "emissions": ResultColumn(
        "kg", "carbon dioxide of that energy, by location, without manufacturing the hardware", "lower"
    ),
    "mtbf": ResultColumn("s", "mean time between interruptions of the job", "higher"),
    "restart_time": ResultColumn("s", "time from an interruption until training continues", "lower"),
    "checkpoint_size": ResultColumn("B", "bytes of a checkpoint of the whole job, as sent to storage", "lower"),
    "checkpoint_blocking": ResultColumn("s", "time that training stops for a checkpoint", "lower"),
    "checkpoint_write": ResultColumn("s", "time to write a checkpoint, after which it is usable", "lower"),
    "checkpoint_host": ResultColumn("B", "host memory of a node for copies of checkpoints", "lower"),
    "checkpoint_interval": ResultColumn("s", "useful time between two checkpoints, in whole steps", "higher"),
}


def results(*, of_run: bool) -> dict[str, ResultColumn]:
    """The results of a scenario, with or without those of the whole run."""
    return RESULTS | RUN_RESULTS if of_run else RESULTS


def is_money(name: str) -> bool:
    """Whether a result of any workload counts with the price.

    >>> is_money("rent_per_month"), is_money("cost_within_limits_low"), is_money("gpus_needed")
    (True, True, False)
    """
    return name.startswith(("cost_", "rent_", "run_cost", "iteration_cost"))


def without_money(costs: Mapping[str, float]) -> dict[str, float]:
    """Results of a plan that fails: without its rents, which compare with nothing that works.

    >>> without_money({"gpus": 8.0, "rent_per_month": 4.0})
    {'gpus': 8.0, 'rent_per_month': nan}
    """
    return {name: math.nan if is_money(name) else value for name, value in costs.items()}
