"""Reasons to refuse a plan of reinforcement learning, by code."""

from __future__ import annotations

from costmodel.estimate.serving.reason_codes import REFUSALS as SERVING
from costmodel.estimate.shared.reasons import REFUSALS as TRAINING
from costmodel.estimate.shared.reasons import Reason

OWN = {
    "R010": Reason("split of ranks", "Trainer and engines take whole nodes each, or parts of the only node."),
    "R011": Reason("algorithm not offered", "The software does not train by this algorithm."),
    "R012": Reason("rollouts not offered", "The software does not generate in this way, or only in batches."),
    "R013": Reason("engines only beside", "The software has no engines on accelerators of their own."),
    "R014": Reason("nothing to generate", "Pairs of dpo are given, so that nothing of the plan may generate."),
    "R015": Reason(
        "engines without room", "What an engine claims beside the states that stay leaves no memory for one answer."
    ),
    "R016": Reason(
        "staleness without effect",
        "Engines that take turns with the trainer and wait for their longest answer are never ahead; set "
        "workload.rollouts, or give them accelerators of their own.",
    ),
    "R017": Reason("sites of a trainer", "Engines need every new set of weights, which sites do not have together."),
    "R018": Reason("micro-batch over the batch", "A rank has fewer answers in an optimizer step than its micro-batch."),
}
REFUSALS: dict[str, Reason] = {
    **TRAINING,
    **SERVING,
    **OWN,
    "M001": Reason("does not fit", "Training and generation together need more than an accelerator may use."),
}
