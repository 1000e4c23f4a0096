"""What backward computes again, module by module or in some layers only: bytes spared, work done and exchanged again.

Named modules belong to selective recompute, a number of layers to full recompute.
"""

from __future__ import annotations

from costmodel.choices import Module
from costmodel.documents.model import Layers
from costmodel.equation import Number, term
from costmodel.equations.activations import checkpoint_activations, mlp_activations, score_activations
from costmodel.equations.counting import divided, repeated
from costmodel.equations.economics import share
from costmodel.equations.recompute import (
    activation_output_bytes,
    norm_again_traffic,
    norm_output_bytes,
    recomputed_share,
    up_projection_bytes,
)
from costmodel.equations.traffic import mlp_traffic, rotary_traffic
from costmodel.estimate.block import Block, Structure
from costmodel.estimate.setting import Setting
from costmodel.estimate.shapes.adapters import ROUTED, issued, packed_matrices, unread_inputs
from costmodel.estimate.shapes.work import Shard, additions, exchanges

# operations issued again; the core counts none, as in selective recompute without names
OPERATIONS: dict[Module, float] = {
    "norms": 2.0,
    "attention": 0.0,
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
UP_PROJECTIONS = ("q", "q up", "kv up")


def multiplied_again(setting: Setting, structure: Structure, kind: Layers) -> frozenset[str]:
    """Weight matrices of a layer that named modules multiply once more, but for those of routed experts.

    The last of an MLP has an output that backward does not read: where recompute stops early it is left out.
    """
    modules = set(structure.recompute_modules or ())
    found: set[str] = set()
    if "mlp" in modules if kind.experts is None else modules & {"moe", "shared-experts"}:
        found.update(FEEDS[:1] if setting.stops_early else FEEDS)
    if "moe" in modules:
        found.add("router")
    if "mla-up-projection" in modules and kind.latent is not None:
        found.update(UP_PROJECTIONS)
    return frozenset(found)


def dispatched_again(structure: Structure) -> bool:
    """Whether backward sends tokens to their experts once more."""
    return structure.recompute == "full" or "moe" in (structure.recompute_modules or ())


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


def narrow_widths(setting: Setting, ffn_hidden: Number, *, gated: bool) -> Number:
    """Inner widths of an MLP kept narrow: the input of its last matrix, and both of the activation function."""
    narrow = setting.narrow
    return repeated(3.0, ffn_hidden) if narrow is not None and narrow.gates and gated else ffn_hidden


def spared_bytes(setting: Setting, structure: Structure, part: Shard, sizes: tuple[Number, Number, Number]) -> Number:
    """What named modules and frozen weights drop of a layer; sizes: micro-batch, its tokens, ranks they are split over.

    The input of a linear map that is kept in a narrow type counts as that.
    """
    micro_batch, tokens, split = sizes
    modules = structure.recompute_modules or ()
    kernels = setting.stack.kernels
    width = setting.recipe.operand if setting.keeps_narrow else setting.element
    spared: Number = 0.0
    with term("dropped modules"):
        if "norms" in modules:
            spared = spared + norm_output_bytes(tokens, setting.model.hidden, additions(part.kind), width, split)
        if "attention" in modules and part.mixer is not None and part.kind.state_space is None:
            rows = (micro_batch, setting.sequence, part.mixer.heads, setting.element)
            spared = spared + score_activations(
                *rows, kernel=kernels.attention, dropout=kernels.dropout, recompute="none"
            )
        if "mla-up-projection" in modules and part.mixer is not None and (latent := part.kind.latent) is not None:
            query = latent.nope_dim + latent.rope_dim
            heads = part.mixer.heads
            spared = spared + up_projection_bytes(tokens, heads, query, latent.value_dim, setting.element)
        dense = part.kind.dense
        if dense is not None and not multiplied_again(setting, structure, part.kind).isdisjoint(FEEDS):
            whole = mlp_activations(tokens, part.ffn_hidden, setting.element, gated=dense.gated)
            inner = narrow_widths(setting, part.ffn_hidden, gated=dense.gated)
            spared = spared + whole + activation_output_bytes(tokens, inner, width)
            spared = spared - activation_output_bytes(tokens, inner, setting.element)
        elif "mlp-activation" in modules and part.kind.mlp is not None:
            spared = spared + activation_output_bytes(tokens, part.ffn_hidden, width)
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
        if "mla-up-projection" in modules and part.mixer is not None and part.kind.latent is not None:
            rotated = (part.mixer.heads, part.mixer.kv_heads, part.kind.latent.rope_dim)
            nbytes = nbytes + rotary_traffic(tokens, *rotated, setting.element)
        dense, whole = part.kind.dense, not multiplied_again(setting, structure, part.kind).isdisjoint(FEEDS)
        if dense is not None and (whole or (part.kind.mlp is not None and "mlp-activation" in modules)):
            nbytes = nbytes + mlp_traffic(tokens, part.ffn_hidden, setting.element, gated=dense.gated, backward=False)
    return nbytes


def issued_again(setting: Setting, structure: Structure, kind: Layers) -> Number:
    """Operations of the named modules that a layer has, and of adapters in them, over those of the layer."""
    has = {
        "mla-up-projection": kind.latent,
        "mlp-activation": kind.mlp,
        "mlp": kind.mlp,
        "moe-activation": kind.experts,
        "moe": kind.experts,
        "shared-experts": kind.experts and kind.experts.shared,
    }
    whole = set(structure.recompute_modules or ())
    named = whole - {part for module in whole for part in PARTS.get(module, ())}
    count = sum(OPERATIONS[module] for module in named if has.get(module, kind) is not None)
    own = share(count, setting.stack.launch.operations)
    return own if setting.tuning is None else own + issued(setting, kind, _all_again(setting, structure, kind))


def unpacked_again(setting: Setting, structure: Structure, kind: Layers) -> float:
    """Matrices that the named modules multiply again, and unpack before."""
    named = _all_again(setting, structure, kind)
    return sum(1.0 for name in packed_matrices(setting, kind) if name in named)


def _all_again(setting: Setting, structure: Structure, kind: Layers) -> frozenset[str]:
    """Weight matrices that named modules multiply once more, those of routed experts too."""
    return multiplied_again(setting, structure, kind).union(ROUTED if dispatched_again(structure) else ())


def exchanged_again(setting: Setting, structure: Structure, kind: Layers) -> float:
    """Share of a layer's forward exchanges that backward repeats: all of full recompute, one half's of the MLP's."""
    if structure.recompute == "full":
        return 1.0
    again = kind.dense is not None and not multiplied_again(setting, structure, kind).isdisjoint(FEEDS)
    return float(share(1.0, exchanges(kind))) if again else 0.0
