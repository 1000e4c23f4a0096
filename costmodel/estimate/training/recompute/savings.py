"""Memory savings of recompute: the layers it covers, the inputs it saves, and the bytes that named modules drop.

Named modules belong to selective recompute, a number of layers to full recompute.
"""

from __future__ import annotations

from costmodel.documents.schemas.model import Model
from costmodel.equations.memory.activations import checkpoint_activations, mlp_activations, score_activations
from costmodel.equations.parallelism.recompute import (
    activation_output_bytes,
    attention_output_bytes,
    norm_output_bytes,
    recomputed_share,
    up_projection_bytes,
)
from costmodel.equations.run.economics import share
from costmodel.estimate.model.mixers.mixer import Mixer
from costmodel.estimate.model.mixers.table import score_heads
from costmodel.estimate.model.residual_streams import stream_width
from costmodel.estimate.model.shards import Shard, additions
from costmodel.estimate.shared.plan_batch import Block, Structure
from costmodel.estimate.shared.time_breakdown import summed
from costmodel.estimate.training.lora import unread_inputs
from costmodel.estimate.training.parallelism.pipeline.layer_split import stage_layers
from costmodel.estimate.training.recompute.recomputed_work import FEEDS, OUT, again_of
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term


def partial(structure: Structure) -> bool:
    """Whether full recompute covers only some of the layers."""
    return (
        structure.recompute == "full"
        and structure.recompute_method == "block"
        and structure.recompute_layers is not None
    )


def reached(block: Block, layers: Number) -> Number:
    """Share of a rank's layers that recompute covers."""
    count = block.structure.recompute_layers
    if not partial(block.structure) or count is None:
        return 1.0
    return recomputed_share(count, block.vpp, layers)


def reached_of_all(model: Model, block: Block) -> Number:
    """Share of all layers that recompute covers, averaged over ranks with different numbers of layers."""
    if not partial(block.structure):
        return 1.0
    held = stage_layers(model, block)
    if held.equal:
        return reached(block, held.middle)
    ends = [reached(block, layers) * layers for layers in (held.first, held.last)]
    between = reached(block, held.middle) * (held.total - held.first - held.last)
    return share(summed(*ends, between), held.total)


def checkpointed(inputs: TrainingInputs, structure: Structure, tokens: Number, split: Number) -> Number:
    """Saved bytes per layer with full recompute: one input per group of layers that are recomputed together."""
    kept = checkpoint_activations(tokens, stream_width(inputs.model), inputs.widths.element, split)
    return kept / together(structure)


def together(structure: Structure) -> float:
    """Layers that are recomputed together."""
    return max(structure.recompute_layers or 1.0, 1.0) if structure.recompute_method == "uniform" else 1.0


def narrow_widths(inputs: TrainingInputs, ffn_hidden: Number, *, gated: bool) -> Number:
    """Total inner width of an MLP that is saved in the narrow type: 1 or 3 tensors."""
    narrow = inputs.narrow
    return 3.0 * ffn_hidden if narrow is not None and narrow.gates and gated else ffn_hidden


def recompute_saving_bytes(
    inputs: TrainingInputs, structure: Structure, part: Shard, sizes: tuple[Number, Number, Number]
) -> Number:
    """Bytes of a layer that named modules and frozen weights drop.

    sizes: micro-batch, its tokens, ranks they are split over. The input of a linear map that is saved in a narrow type
    counts in that type.
    """
    micro_batch, tokens, split = sizes
    modules = structure.recompute_modules or ()
    kernels = inputs.stack.kernels
    width = inputs.recipe.operand if inputs.keeps_narrow else inputs.widths.element
    spared: Number = 0.0
    with term("dropped modules"):
        if "norms" in modules:
            spared = spared + norm_output_bytes(tokens, inputs.model.hidden, additions(part.kind), width, split)
        if "attention" in modules and part.mixer is not None and not part.kind.recurrent:
            heads = score_heads(part.kind, part.mixer, fused=kernels.attention != "unfused")
            rows = (micro_batch, inputs.layer_sequence, heads, inputs.widths.element)
            spared = spared + score_activations(
                *rows, kernel=kernels.runs(inputs.case.accelerator.family), dropout=kernels.dropout, recompute="none"
            )
            if kernels.selective == "op-level":
                spared = spared + _core_output(inputs, part, part.mixer, tokens)
        if OUT in again_of(inputs, structure, part.kind).matrices:
            with term("stream between the halves"):
                spared = spared + checkpoint_activations(
                    tokens, stream_width(inputs.model), inputs.widths.element, split
                )
        if "mla-up-projection" in modules and part.mixer is not None and (latent := part.kind.latent) is not None:
            query = latent.nope_dim + latent.rope_dim
            heads = part.mixer.heads
            spared = spared + up_projection_bytes(tokens, heads, query, latent.value_dim, inputs.widths.element)
        dense = part.kind.dense
        if dense is not None and FEEDS[0] in again_of(inputs, structure, part.kind).matrices:
            whole = mlp_activations(tokens, part.ffn_hidden, inputs.widths.element, gated=dense.gated)
            inner = narrow_widths(inputs, part.ffn_hidden, gated=dense.gated)
            spared = spared + whole + activation_output_bytes(tokens, inner, width)
            spared = spared - activation_output_bytes(tokens, inner, inputs.widths.element)
        elif "mlp-activation" in modules and part.kind.mlp is not None:
            spared = spared + activation_output_bytes(tokens, part.ffn_hidden, width)
    if inputs.tuning is not None:
        spared = spared + unread_inputs(inputs, part, modules, (tokens, width, split))
    return spared


def fused_outputs(inputs: TrainingInputs, part: Shard, tokens: Number, split: Number) -> Number:
    """Bytes of norm and activation outputs of a layer, which a compiled graph recomputes in backward."""
    element = inputs.widths.element
    with term("made again by compiled kernels"):
        spared = norm_output_bytes(tokens, inputs.model.hidden, additions(part.kind), element, split)
        if part.kind.dense is None:
            return spared
        return spared + activation_output_bytes(tokens, part.ffn_hidden, element)


def _core_output(inputs: TrainingInputs, part: Shard, core: Mixer, tokens: Number) -> Number:
    """Bytes of the attention core's output, which remat policies drop with the core, with its narrow copy if saved."""
    latent, own = part.kind.latent, part.kind.attention
    width = core.head_dim if own is None else own.value_width
    width = width if latent is None else latent.value_dim
    kept = attention_output_bytes(tokens, core.heads, width, inputs.widths.element)
    if not inputs.keeps_narrow:
        return kept
    with term("kept narrow"):
        return kept + attention_output_bytes(tokens, core.heads, core.head_dim, inputs.recipe.operand)
