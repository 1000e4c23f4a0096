"""Reasons to refuse a plan of reinforcement learning, by code."""

from __future__ import annotations

from costmodel.estimate.serving.predict_serving import REFUSALS as SERVING
from costmodel.estimate.shared.reasons import REFUSALS as TRAINING
from costmodel.estimate.shared.reasons import Reason

OWN = {
    "R010": Reason(
        "split of ranks",
        "Trainer and engines must each use whole nodes, or parts of the only node; of two groups of nodes the first "
        "trains and the second generates, both whole.",
    ),
    "R011": Reason("algorithm not offered", "The software does not offer this algorithm."),
    "R012": Reason(
        "rollouts not offered", "The software does not offer this kind of rollouts, or generates only in batches."
    ),
    "R019": Reason("no separate engines", "The software cannot run its engines on separate accelerators."),
    "R014": Reason("nothing to generate", "dpo trains on given pairs of answers, so the plan must not generate any."),
    "R015": Reason(
        "no memory for an answer",
        "The engine's memory, together with the training states that stay, leaves no room for a single answer.",
    ),
    "R016": Reason(
        "staleness without effect",
        "Engines that alternate with the trainer and wait for their longest answer are never ahead of it, so "
        "staleness has no effect. Set workload.rollouts, or give the engines separate accelerators.",
    ),
    "R017": Reason(
        "sites with rollouts",
        "Engines need every new set of weights, but sites exchange their weights only now and then.",
    ),
    "R018": Reason(
        "micro-batch exceeds the batch", "The micro-batch has more answers than a rank has in an optimizer step."
    ),
}
REFUSALS: dict[str, Reason] = {
    **TRAINING,
    **SERVING,
    **OWN,
    "M001": Reason("does not fit", "Training and generation together need more memory than an accelerator may use."),
}
