"""What each line of the memory ledger holds, in words that give its figure when they are multiplied out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from costmodel.estimate.shared.results import number
from costmodel.estimate.training.memory.rank_states import kept_gradient
from costmodel.estimate.training.parallelism.pipeline.schedule_rules import summed_once, weight_replication
from costmodel.estimate.training.training_inputs import ELEMENT_BYTES
from costmodel.explore.structure_words import choice_words, tuning_notes

if TYPE_CHECKING:
    from costmodel.estimate.evaluate.predict import Answer

_NOTES = {
    "gathered": "unsharded units in flight",
    "buckets": "reduce buckets",
    "context": "keys and values of other ranks",
    "recompute": "what one layer holds while it is recomputed",
    "logits": "logits, loss, last norm",
    "update": "temporary memory of the optimizer step beyond backward",
    "fragmentation": "held back by the caching allocator (assumed)",
    "runtime": "context and communicators (assumed)",
}


def ledger_label(answer: Answer, name: str) -> str:
    """A line of the ledger; what is called gathered are copies where no rank gathers from another."""
    gathers = answer.evaluation.block.structure.zero == 3 and _shards(answer)
    return "copies" if name == "gathered" and not gathers else name


def _shards(answer: Answer) -> bool:
    """Whether several ranks hold the states of each other."""
    return number(answer.evaluation.block.shards) > 1


def ledger_note(answer: Answer, name: str) -> str:
    """What a line holds."""
    inputs, structure = answer.inputs, answer.evaluation.block.structure
    states, optimizer = inputs.stack.states, f"{float(inputs.optimizer_state):.3g} B a parameter"
    notes = {
        "weights": _weights(answer),
        "gradients": _gradients(answer),
        "optimizer": f"{optimizer}, {_sharded(answer)}" if _zero(answer) >= 1 else optimizer,
        "activations": choice_words(structure)[0],
    }
    if ledger_label(answer, "gathered") == "copies":
        unpacked = "4-bit weights, unpacked for use"
        notes["gathered"] = unpacked if inputs.packed else "16-bit copies of what is used, and their gradients"
    if inputs.ranks == 1:
        notes["runtime"] = "context (assumed)"
    if states.cast and inputs.tuning is None:
        notes["gathered"] = f"{states.compute:.0f} B a parameter that matmuls read, autocast's copies"
    notes |= tuning_notes(inputs)
    if structure.recompute_modules is not None:
        notes["recompute"] = "recomputed modules of one layer"
    return notes.get(name, _NOTES.get(name, ""))


def _zero(answer: Answer) -> int:
    """The ZeRO stage that shards something; one rank alone shards nothing."""
    return answer.evaluation.block.structure.zero if _shards(answer) else 0


def _sharded(answer: Answer) -> str:
    replicas = float(answer.evaluation.block.dp_replicate[0])
    return "sharded over dp" if replicas == 1 else "sharded over dp / dp_replicate"


def _weights(answer: Answer) -> str:
    inputs, structure = answer.inputs, answer.evaluation.block.structure
    states, narrow, zero = inputs.stack.states, inputs.narrow, _zero(answer)
    kept = 0.0 if narrow and narrow.primary else states.weights
    copies = f" + {inputs.recipe.copies:.3g} {inputs.recipe.name}" if narrow and narrow.cached else ""
    words = f"{kept:.0f}{copies} B a parameter"
    words += ", once for each direction" if weight_replication(structure.schedule) > 1 else ""
    if zero == 3:
        return f"{words}, {_sharded(answer)}"
    whole = states.sharded_master and zero > 0
    return f"{words}, {_sharded(answer)}, and {states.compute:.0f} B whole" if whole else words


def _gradients(answer: Answer) -> str:
    inputs, block = answer.inputs, answer.evaluation.block
    zero, offload, width = _zero(answer), block.structure.offload, inputs.widths.gradient
    late = bool(np.any(summed_once(inputs, block)))
    words = f"{width:.0f} B a parameter"
    if "optimizer" in offload and zero >= 2 and not late and inputs.stack.offload and inputs.stack.offload.gradients:
        return f"{words}, in pieces on their way to the host"
    if inputs.stack.states.gradient_copies and zero <= 1 and "optimizer" not in offload:
        wide = width == ELEMENT_BYTES["fp32"]
        return f"{words}, and {width / 2:.0f} B of backward" if wide else f"{words}, and {2 * width:.0f} B of the shard"
    if zero < 2:
        return words
    kept = kept_gradient(inputs.stack.states, width, zero=zero)
    return f"{words}, whole until the last micro-batch" if late else f"{kept:.0f} B a parameter, {_sharded(answer)}"
