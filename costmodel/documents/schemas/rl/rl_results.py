"""The phases of an iteration of reinforcement learning, and which results of a run it has."""

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
