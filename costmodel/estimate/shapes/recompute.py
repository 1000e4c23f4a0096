"""What backward computes again, module by module or in some layers only: bytes spared, work done and exchanged again.

Named modules belong to selective recompute, a number of layers to full recompute.
"""

from __future__ import annotations

from costmodel.documents.model import Layers
from costmodel.documents.stack import Module
from costmodel.equation import Number, term
from costmodel.equations.activations import checkpoint_activations, mlp_activations, score_activations
from costmodel.equations.counting import divided
from costmodel.equations.economics import share
from costmodel.equations.recompute import (
    activation_output_bytes,
    norm_again_traffic,
    norm_output_bytes,
    recomputed_share,
)
from costmodel.equations.traffic import mlp_traffic
from costmodel.estimate.block import Block, Structure
from costmodel.estimate.setting import Setting
from costmodel.estimate.shapes.adapters import unread_inputs
from costmodel.estimate.shapes.work import Shard, additions, exchanges

# operations issued again; the core counts none, as in selective recompute without names
OPERATIONS: dict[Module, float] = {"norms": 2.0, "attention": 0.0, "mlp-activation": 1.0, "mlp": 4.0}
MLP = ("mlp up", "mlp down")


def partial(structure: Structure) -> bool:
    """Whether full recompute reaches only some of the layers."""
    return (
        structure.recompute == "full"
        and structure.recompute_method == "block"
        and structure.recompute_layers is not None
    )


def reached(block: Block, layers: Number) -> Number:
    """Share of the layers of a rank, which holds so many, that recompute reaches."""
    count = block.structure.recompute_layers
    if not partial(block.structure) or count is None:
        return 1.0
    return recomputed_share(count, block.vpp, layers)


def checkpointed(setting: Setting, structure: Structure, tokens: Number, split: Number) -> Number:
    """Input of a layer that full recompute keeps, of so many layers one where they run again together."""
    kept = checkpoint_activations(tokens, setting.model.hidden, setting.element, split)
    return divided(kept, together(structure))


def together(structure: Structure) -> float:
    """Layers that run again at once."""
    return max(structure.recompute_layers or 1.0, 1.0) if structure.recompute_method == "uniform" else 1.0


def spared_bytes(setting: Setting, structure: Structure, part: Shard, sizes: tuple[Number, Number, Number]) -> Number:
    """What named modules and frozen weights drop of a layer; sizes: micro-batch, its tokens, ranks they are split over.

    The input of a linear map that is kept in a narrow type counts as that.
    """
    micro_batch, tokens, split = sizes
    modules = structure.recompute_modules or ()
    kernels, narrow = setting.stack.kernels, setting.narrow
    width = setting.recipe.operand if narrow is not None and narrow.saved else setting.element
    spared: Number = 0.0
    with term("dropped modules"):
        if "norms" in modules:
            spared = spared + norm_output_bytes(tokens, setting.model.hidden, additions(part.kind), width, split)
        if "attention" in modules and part.mixer is not None and part.kind.state_space is None:
            rows = (micro_batch, setting.sequence, part.mixer.heads, setting.element)
            spared = spared + score_activations(
                *rows, kernel=kernels.attention, dropout=kernels.dropout, recompute="none"
            )
        output = activation_output_bytes(tokens, part.ffn_hidden, width)
        dense = part.kind.mlp
        if "mlp" in modules and dense is not None:
            whole = mlp_activations(tokens, part.ffn_hidden, setting.element, gated=dense.gated)
            spared = spared + whole + output - activation_output_bytes(tokens, part.ffn_hidden, setting.element)
        elif "mlp-activation" in modules and dense is not None:
            spared = spared + output
    if setting.tuning is not None:
        spared = spared + unread_inputs(setting, part, modules, (tokens, width, split))
    return spared


def again_bytes(setting: Setting, structure: Structure, part: Shard, tokens: Number, split: Number) -> Number:
    """Memory traffic of the named modules done once more, without the attention core."""
    modules = structure.recompute_modules or ()
    nbytes: Number = 0.0
    with term("modules again"):
        if "norms" in modules:
            halves = additions(part.kind)
            nbytes = nbytes + norm_again_traffic(tokens, setting.model.hidden, halves, setting.element, split)
        dense = part.kind.mlp
        if dense is not None and {"mlp", "mlp-activation"} & set(modules):
            nbytes = nbytes + mlp_traffic(tokens, part.ffn_hidden, setting.element, gated=dense.gated, backward=False)
    return nbytes


def issued_again(setting: Setting, structure: Structure) -> Number:
    """Operations of the named modules over those of a layer."""
    count = sum(OPERATIONS[module] for module in set(structure.recompute_modules or ()))
    return share(count, setting.stack.launch.operations)


def exchanged_again(structure: Structure, kind: Layers) -> float:
    """Share of a layer's forward exchanges that backward repeats: all of full recompute, one half's of the MLP's."""
    if structure.recompute == "full":
        return 1.0
    again = kind.mlp is not None and "mlp" in (structure.recompute_modules or ())
    return float(share(1.0, exchanges(kind))) if again else 0.0
