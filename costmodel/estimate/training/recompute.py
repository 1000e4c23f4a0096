"""Work that backward of a layer repeats, from the recompute mode, named modules and the stack."""

from __future__ import annotations

from typing import Any, Literal

from costmodel.documents.schemas.model import Layers, Model
from costmodel.equations.kernels.memory_traffic import rotary_traffic
from costmodel.equations.memory.activations import checkpoint_activations, score_activations
from costmodel.equations.parallelism.recompute import (
    activation_output_bytes,
    attention_output_bytes,
    norm_again_traffic,
    norm_output_bytes,
    recomputed_share,
    up_projection_bytes,
)
from costmodel.equations.run.economics import share
from costmodel.estimate.model.feed_forward_kinds import LATENT, ROUTED, Feed
from costmodel.estimate.model.mixers.mixer import Mixer
from costmodel.estimate.model.mixers.mixing_half import narrow_width, score_heads
from costmodel.estimate.model.shards import (
    Shard,
    layer_matmuls,
    residual_additions,
    shard,
    stream_width,
    tensor_parallel_exchanges,
)
from costmodel.estimate.shared.plan_batch import Block, Structure, summed
from costmodel.estimate.training.parallelism.pipeline import stage_layers
from costmodel.estimate.training.stage_parameters import (
    adapter_launches,
    adapters,
    packed_matrices,
    unneeded_input_bytes,
)
from costmodel.estimate.training.training_inputs import Dropped, TrainingInputs
from costmodel.ground.counts import Module
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record

# operations issued again; the core counts none, as in selective recompute without names
OPERATIONS: dict[Module, float] = {
    "norms": 2.0,
    "attention": 0.0,
    "attention-output": 1.0,
    "mla-up-projection": 4.0,
    "mlp-activation": 1.0,
    "mlp": 4.0,
    "moe-activation": 1.0,
    "moe": 12.0,
    "shared-experts": 4.0,
}
# computed again with the whole of a half
PARTS = {"mlp": ("mlp-activation",), "moe": ("moe-activation", "shared-experts")}
FEEDS = ("mlp up", "mlp down")
OUT = "attention out"
UP_PROJECTIONS = ("q", "q up", "kv up")


Way = Dropped | Literal["modules"]


@record
class RecomputedWork:
    """What backward repeats in a layer of one kind.

    matrices: names of repeated weight matrices, also those of routed experts
    times: how often they are repeated; policies by operation save every second matrix product
    core: share of the attention core, with its context-parallel exchanges
    gathers, scatters: tensor-parallel collectives; latents: gathers of narrow inputs
    """

    dropped: Way
    matrices: frozenset[str] = frozenset()
    times: float = 1.0
    core: bool = False
    dispatched: bool = False
    gathers: float = 0.0
    scatters: float = 0.0
    latents: float = 0.0

    @property
    def halves(self) -> float:
        """Number of layer halves (mixer, feed-forward) whose products and collectives are repeated."""
        return float(sum(not self.matrices.isdisjoint(half) for half in ((OUT, *UP_PROJECTIONS), FEEDS[:1])))

    @property
    def gathered(self) -> float:
        """1 if collectives inside the layer are repeated, else 0."""
        return 1.0 if self.gathers else 0.0

    @property
    def routed(self) -> float:
        """Number of times that the routed experts are recomputed."""
        return self.times if self.matrices.issuperset(ROUTED) else 0.0


def recompute_way(inputs: TrainingInputs, structure: Structure) -> Way:
    """What a plan recomputes in a layer with this stack: modules, the layer, operations, attention, or nothing."""
    return "modules" if structure.recompute_modules is not None else inputs.dropped(structure.recompute)


def recomputed_work(inputs: TrainingInputs, structure: Structure, kind: Layers) -> RecomputedWork:
    """The recomputed work of a layer of this kind."""
    what = recompute_way(inputs, structure)
    if what == "modules":
        return _work_of_modules(inputs, structure, kind)
    if what in ("nothing", "core"):
        return RecomputedWork(what, core=what == "core")
    spared, exchanged = _unrepeated_matrices(inputs, kind), tensor_parallel_exchanges(kind)
    matrices = _matrix_names(inputs, kind) - spared
    latents = 0.0 if narrow_width(inputs.model.hidden, kind) is None else 1.0
    if what == "operations":
        gathers = exchanged - latents  # of all collectives, policies save reduce-scatters alone
        core = inputs.rates.attention is None
        return RecomputedWork(what, matrices, 0.5, core=core, gathers=gathers, latents=latents)
    return RecomputedWork(
        what,
        matrices,
        core=True,
        dispatched=True,
        gathers=exchanged - latents,
        scatters=exchanged - 1.0 if spared and exchanged else exchanged,
        latents=latents,
    )


def _work_of_modules(inputs: TrainingInputs, structure: Structure, kind: Layers) -> RecomputedWork:
    """The work that a layer repeats in backward if the plan names modules to recompute."""
    modules = set(structure.recompute_modules or ())
    names: set[str] = set()
    if "mlp" in modules if kind.experts is None else modules & {"moe", "shared-experts"}:
        names.update(FEEDS)
    if "moe" in modules:
        names.update(("router", *LATENT, *ROUTED))
    if "mla-up-projection" in modules and kind.latent is not None:
        names.update(UP_PROJECTIONS)
    if "attention-output" in modules:
        names.add(OUT)
    matrices = _matrix_names(inputs, kind).intersection(names) - _unrepeated_matrices(inputs, kind)
    return RecomputedWork(
        "modules",
        matrices,
        core="attention" in modules,
        dispatched="moe" in modules,
        gathers=1.0 if FEEDS[0] in matrices else 0.0,
        scatters=float(len(matrices & {FEEDS[1], OUT})),
        latents=0.0 if matrices.isdisjoint(UP_PROJECTIONS) else 1.0,
    )


def _matrix_names(inputs: TrainingInputs, kind: Layers) -> frozenset[str]:
    """Names of all weight matrices in a layer."""
    names = (matrix.name for matrix in layer_matmuls(inputs.model, shard(inputs.model, kind, 1.0)))
    return frozenset(names).union(() if kind.experts is None else ROUTED)


def _unrepeated_matrices(inputs: TrainingInputs, kind: Layers) -> frozenset[str]:
    """The last matrix of a layer, whose output backward does not need if recompute stops early.

    Routed experts have none: their outputs are multiplied by routing weights. Nor has a matrix beside which an adapter
    reads its input.
    """
    if inputs.stack.kernels.full != "early-stop" or kind.experts is not None:
        return frozenset()
    part = shard(inputs.model, kind, 1.0)
    *_, last = layer_matmuls(inputs.model, part)
    return frozenset({last.name} - {adapter.beside for adapter in adapters(inputs, part)})


def recomputed_traffic(
    inputs: TrainingInputs, structure: Structure, again: RecomputedWork, part: Shard, tokens: Number, split: Number
) -> Number:
    """Memory traffic of recomputed modules, without the attention core."""
    modules = structure.recompute_modules or ()
    nbytes: Number = 0.0
    with term("modules again"):
        if "norms" in modules:
            halves = residual_additions(part.kind)
            nbytes = nbytes + norm_again_traffic(tokens, inputs.model.hidden, halves, inputs.widths.element, split)
        if "mla-up-projection" in modules and part.mixer is not None and part.kind.latent is not None:
            rotated = (part.mixer.heads, part.mixer.kv_heads, part.kind.latent.rope_dim)
            nbytes = nbytes + rotary_traffic(tokens, *rotated, inputs.widths.element)
        whole = FEEDS[0] in again.matrices
        if part.dense is not None and (whole or (part.routed is None and "mlp-activation" in modules)):
            nbytes = nbytes + part.dense.traffic(tokens, inputs.widths.element, backward=False)
    return nbytes


def recomputed_launches(inputs: TrainingInputs, structure: Structure, kind: Layers, again: RecomputedWork) -> Number:
    """Kernels that recompute launches again, relative to the kernels of a layer."""
    beside = adapter_launches(inputs, kind, again.matrices) if inputs.tuning is not None else 0.0
    if again.dropped == "modules":
        return share(_kernels_in_modules(structure, kind), inputs.stack.launch.operations) + beside
    return again.times * (1.0 + beside) if again.matrices else 0.0


def _kernels_in_modules(structure: Structure, kind: Layers) -> float:
    """Number of kernels in the named modules of a layer."""
    has = {
        "attention-output": kind.attention or kind.latent or kind.compressed,
        "mla-up-projection": kind.latent,
        "mlp-activation": None if kind.experts is not None else kind.feed,
        "mlp": None if kind.experts is not None else kind.feed,
        "moe-activation": kind.experts,
        "moe": kind.experts,
        "shared-experts": kind.experts and kind.experts.shared,
    }
    whole = set(structure.recompute_modules or ())
    named = whole - {part for module in whole for part in PARTS.get(module, ())}
    return sum(OPERATIONS[module] for module in named if has.get(module, kind) is not None)


def recomputed_unpacks(inputs: TrainingInputs, kind: Layers, again: RecomputedWork) -> Number:
    """Number of 4-bit matrices that recompute unpacks again."""
    return again.times * sum(1.0 for name in packed_matrices(inputs, kind) if name in again.matrices)


# Memory savings of recompute: the layers it covers, the inputs it saves, and the bytes that named modules drop.
#
# Named modules belong to selective recompute, a number of layers to full recompute.


def is_partial_recompute(structure: Structure) -> bool:
    """Whether full recompute covers only some of the layers."""
    return (
        structure.recompute == "full"
        and structure.recompute_method == "block"
        and structure.recompute_layers is not None
    )


def recomputed_share_of_rank(block: Block, layers: Number) -> Number:
    """Share of a rank's layers that recompute covers."""
    count = block.structure.recompute_layers
    if not is_partial_recompute(block.structure) or count is None:
        return 1.0
    return recomputed_share(count, block.vpp, layers)


def recomputed_share_of_model(model: Model, block: Block) -> Number:
    """Share of all layers that recompute covers, averaged over ranks with different numbers of layers."""
    if not is_partial_recompute(block.structure):
        return 1.0
    held = stage_layers(model, block)
    if held.equal:
        return recomputed_share_of_rank(block, held.middle)
    ends = [recomputed_share_of_rank(block, layers) * layers for layers in (held.first, held.last)]
    between = recomputed_share_of_rank(block, held.middle) * (held.total - held.first - held.last)
    return share(summed(*ends, between), held.total)


def checkpoint_bytes_per_layer(inputs: TrainingInputs, structure: Structure, tokens: Number, split: Number) -> Number:
    """Saved bytes per layer with full recompute: one input per group of layers that are recomputed together."""
    kept = checkpoint_activations(tokens, stream_width(inputs.model), inputs.widths.element, split)
    return kept / layers_per_checkpoint(structure)


def layers_per_checkpoint(structure: Structure) -> float:
    """Layers that are recomputed together."""
    return max(structure.recompute_layers or 1.0, 1.0) if structure.recompute_method == "uniform" else 1.0


def narrow_input_width(inputs: TrainingInputs, feed: Feed[Any]) -> Number:
    """Total inner width of a feed-forward part that is saved in the narrow type."""
    narrow = inputs.narrow
    return feed.narrow_width if narrow is not None and narrow.gates else feed.inner


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
            spared = spared + norm_output_bytes(
                tokens, inputs.model.hidden, residual_additions(part.kind), width, split
            )
        if "attention" in modules and part.mixer is not None and not part.kind.recurrent:
            heads = score_heads(part.kind, part.mixer, fused=kernels.attention != "unfused")
            rows = (micro_batch, inputs.layer_sequence, heads, inputs.widths.element)
            spared = spared + score_activations(
                *rows, kernel=kernels.runs(inputs.case.accelerator.family), dropout=kernels.dropout, recompute="none"
            )
            if kernels.selective == "op-level":
                spared = spared + _core_output_bytes(inputs, part, part.mixer, tokens)
        if OUT in recomputed_work(inputs, structure, part.kind).matrices:
            with term("stream between the halves"):
                spared = spared + checkpoint_activations(
                    tokens, stream_width(inputs.model), inputs.widths.element, split
                )
        if "mla-up-projection" in modules and part.mixer is not None and (latent := part.kind.latent) is not None:
            query = latent.nope_dim + latent.rope_dim
            heads = part.mixer.heads
            spared = spared + up_projection_bytes(tokens, heads, query, latent.value_dim, inputs.widths.element)
        if part.dense is not None and FEEDS[0] in recomputed_work(inputs, structure, part.kind).matrices:
            whole = part.dense.activations(tokens, inputs.widths.element)
            inner = narrow_input_width(inputs, part.dense)
            spared = spared + whole + activation_output_bytes(tokens, inner, width)
            spared = spared - activation_output_bytes(tokens, inner, inputs.widths.element)
        elif "mlp-activation" in modules and part.feed is not None and part.routed is None:
            spared = spared + activation_output_bytes(tokens, part.ffn_hidden, width)
    if inputs.tuning is not None:
        spared = spared + unneeded_input_bytes(inputs, part, modules, (tokens, width, split))
    return spared


def fused_output_bytes(inputs: TrainingInputs, part: Shard, tokens: Number, split: Number) -> Number:
    """Bytes of norm and activation outputs of a layer, which a compiled graph recomputes in backward."""
    element = inputs.widths.element
    with term("made again by compiled kernels"):
        spared = norm_output_bytes(tokens, inputs.model.hidden, residual_additions(part.kind), element, split)
        if part.dense is None:
            return spared
        return spared + activation_output_bytes(tokens, part.ffn_hidden, element)


def _core_output_bytes(inputs: TrainingInputs, part: Shard, core: Mixer, tokens: Number) -> Number:
    """Bytes of the attention core's output, which remat policies drop with the core, with its narrow copy if saved."""
    latent, own = part.kind.latent, part.kind.attention
    width = core.head_dim if own is None else own.value_width
    width = width if latent is None else latent.value_dim
    kept = attention_output_bytes(tokens, core.heads, width, inputs.widths.element)
    if not inputs.keeps_narrow:
        return kept
    with term("kept narrow"):
        return kept + attention_output_bytes(tokens, core.heads, core.head_dim, inputs.recipe.operand)
