"""The results of an iteration of reinforcement learning: each with its unit, its meaning and which way is better."""

from costmodel.documents.schemas.results import ResultColumn

RESULTS: dict[str, ResultColumn] = {
    "iteration_time": ResultColumn("s", "time from one set of generation weights to the next", "lower"),
    "generation": ResultColumn("s", "prompts and answers of an iteration, until the longest ends", "lower"),
    "tail": ResultColumn("s", "part of generation in which fewer than one in eight answers still run", "lower"),
    "old_log_probabilities": ResultColumn("s", "forward pass of the policy over all answers, before updates", "lower"),
    "reference_time": ResultColumn("s", "forward pass of the frozen reference over all answers", "lower"),
    "reward_time": ResultColumn("s", "forward pass of a reward model over all answers", "lower"),
    "critic_time": ResultColumn("s", "values of the critic, and its updates", "lower"),
    "update_time": ResultColumn("s", "optimizer steps of the policy over all answers and epochs", "lower"),
    "switch": ResultColumn("s", "copying training states to the host and back", "lower"),
    "weight_sync": ResultColumn("s", "sending new weights to the engines", "lower"),
    "overlapped": ResultColumn(
        "s", "of generation or training: beside the other, on accelerators of its own", "higher"
    ),
    "generation_share": ResultColumn("1", "generation over the sum of all phases", "neither"),
    "longest": ResultColumn("1", "tokens of the longest answer, expected", "neither"),
    "answers_per_s": ResultColumn("1/s", "answers generated and trained on per second", "higher", "answer/s"),
    "tokens_per_s_per_gpu": ResultColumn(
        "1/s", "tokens of prompts and answers a second and accelerator, of generation and training", "higher", "token/s"
    ),
    "rollout_ranks": ResultColumn("1", "accelerators that generate", "neither"),
    "training_ranks": ResultColumn("1", "accelerators that train", "neither"),
    "memory_peak": ResultColumn("B", "memory of the most loaded accelerator in its largest phase", "lower"),
    "memory_share": ResultColumn("1", "memory_peak as a share of the usable memory", "lower"),
    "fit_chance": ResultColumn("1", "chance that memory_peak is within usable memory, by its band", "higher"),
    "iteration_cost": ResultColumn("USD", "rent of all accelerators for an iteration", "lower"),
    "run_time": ResultColumn("s", "time of all iterations", "lower"),
    "run_cost": ResultColumn("USD", "rent of all accelerators for all iterations", "lower"),
}

PHASES = (
    "generation",
    "old_log_probabilities",
    "reference_time",
    "reward_time",
    "critic_time",
    "update_time",
    "switch",
    "weight_sync",
)
TRAINER = ("old_log_probabilities", "reference_time", "reward_time", "critic_time", "update_time")
BANDED = ("iteration_time", "run_time", "run_cost")
OF_RUN = ("goodput", "mtbf", "checkpoint_size", "checkpoint_interval", "restart_time")
