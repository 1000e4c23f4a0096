"""Work that backward of a layer repeats, from the recompute mode, named modules and the stack."""

from __future__ import annotations

from typing import Literal

from costmodel.documents.schemas.model import Layers
from costmodel.equations.kernels.memory_traffic import mlp_traffic, rotary_traffic
from costmodel.equations.parallelism.recompute import norm_again_traffic
from costmodel.equations.run.economics import share
from costmodel.estimate.model.mixers.table import narrow_width
from costmodel.estimate.model.routed_experts import LATENT
from costmodel.estimate.model.shards import Shard, additions, exchanges, matmuls, shard
from costmodel.estimate.shared.plan_batch import Structure
from costmodel.estimate.training.lora import ROUTED, adapters, issued, packed_matrices
from costmodel.estimate.training.training_inputs import Dropped, TrainingInputs
from costmodel.ground.choices import Module
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
    """Recomputed work of a layer of one kind.

    Weight matrices, also those of routed experts, are named with the number of repetitions: policies by operation save
    every second matrix product, and attention where that is one operation. With the core, context-parallel exchanges
    are repeated. Gathers and scatters are those of tensor parallelism; latents are its gathers of narrowed inputs.
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
        """Number of layer halves where named modules repeat both products and collectives."""
        return float(sum(not self.matrices.isdisjoint(half) for half in ((OUT, *UP_PROJECTIONS), FEEDS[:1])))

    @property
    def routed(self) -> float:
        """Number of times that the routed experts are recomputed."""
        return self.times if self.matrices.issuperset(ROUTED) else 0.0


def dropped(inputs: TrainingInputs, structure: Structure) -> Way:
    """What a plan recomputes of a layer in this stack: modules, the layer, operations, the core, or nothing."""
    return "modules" if structure.recompute_modules is not None else inputs.dropped(structure.recompute)


def again_of(inputs: TrainingInputs, structure: Structure, kind: Layers) -> RecomputedWork:
    """The recomputed work of a layer of this kind."""
    what = dropped(inputs, structure)
    if what == "modules":
        return _of_modules(inputs, structure, kind)
    if what in ("nothing", "core"):
        return RecomputedWork(what, core=what == "core")
    spared, exchanged = _spared(inputs, kind), exchanges(kind)
    matrices = _matrices(inputs, kind) - spared
    if what == "operations":
        return RecomputedWork(what, matrices, 0.5, core=inputs.rates.attention is None)
    latents = 0.0 if narrow_width(inputs.model.hidden, kind) is None else 1.0
    return RecomputedWork(
        what,
        matrices,
        core=True,
        dispatched=True,
        gathers=exchanged - latents,
        scatters=exchanged - 1.0 if spared and exchanged else exchanged,
        latents=latents,
    )


def _of_modules(inputs: TrainingInputs, structure: Structure, kind: Layers) -> RecomputedWork:
    modules = set(structure.recompute_modules or ())
    found: set[str] = set()
    if "mlp" in modules if kind.experts is None else modules & {"moe", "shared-experts"}:
        found.update(FEEDS)
    if "moe" in modules:
        found.update(("router", *LATENT, *ROUTED))
    if "mla-up-projection" in modules and kind.latent is not None:
        found.update(UP_PROJECTIONS)
    if "attention-output" in modules:
        found.add(OUT)
    matrices = _matrices(inputs, kind).intersection(found) - _spared(inputs, kind)
    return RecomputedWork(
        "modules",
        matrices,
        core="attention" in modules,
        dispatched="moe" in modules,
        gathers=1.0 if FEEDS[0] in matrices else 0.0,
        scatters=float(len(matrices & {FEEDS[1], OUT})),
        latents=0.0 if matrices.isdisjoint(UP_PROJECTIONS) else 1.0,
    )


def _matrices(inputs: TrainingInputs, kind: Layers) -> frozenset[str]:
    """Names of all weight matrices in a layer."""
    names = (matrix.name for matrix in matmuls(inputs.model, shard(inputs.model, kind, 1.0)))
    return frozenset(names).union(() if kind.experts is None else ROUTED)


def _spared(inputs: TrainingInputs, kind: Layers) -> frozenset[str]:
    """The last matrix of a layer, whose output backward does not need if recompute stops early.

    Routed experts have none: their outputs are multiplied by routing weights. Nor has a matrix beside which an adapter
    reads its input.
    """
    if inputs.stack.kernels.full != "early-stop" or kind.experts is not None:
        return frozenset()
    part = shard(inputs.model, kind, 1.0)
    *_, last = matmuls(inputs.model, part)
    return frozenset({last.name} - {adapter.beside for adapter in adapters(inputs, part)})


def again_bytes(
    inputs: TrainingInputs, structure: Structure, again: RecomputedWork, part: Shard, tokens: Number, split: Number
) -> Number:
    """Memory traffic of recomputed modules, without the attention core."""
    modules = structure.recompute_modules or ()
    nbytes: Number = 0.0
    with term("modules again"):
        if "norms" in modules:
            halves = additions(part.kind)
            nbytes = nbytes + norm_again_traffic(tokens, inputs.model.hidden, halves, inputs.widths.element, split)
        if "mla-up-projection" in modules and part.mixer is not None and part.kind.latent is not None:
            rotated = (part.mixer.heads, part.mixer.kv_heads, part.kind.latent.rope_dim)
            nbytes = nbytes + rotary_traffic(tokens, *rotated, inputs.widths.element)
        dense, whole = part.kind.dense, FEEDS[0] in again.matrices
        if dense is not None and (whole or (part.kind.mlp is not None and "mlp-activation" in modules)):
            nbytes = nbytes + mlp_traffic(
                tokens, part.ffn_hidden, inputs.widths.element, gated=dense.gated, backward=False
            )
    return nbytes


def issued_again(inputs: TrainingInputs, structure: Structure, kind: Layers, again: RecomputedWork) -> Number:
    """Operations issued again by recompute, also of adapters, relative to those of the layer."""
    beside = issued(inputs, kind, again.matrices) if inputs.tuning is not None else 0.0
    if again.dropped == "modules":
        return share(_operations(structure, kind), inputs.stack.launch.operations) + beside
    return again.times * (1.0 + beside) if again.matrices else 0.0


def _operations(structure: Structure, kind: Layers) -> float:
    """Number of operations of the named modules in a layer."""
    has = {
        "attention-output": kind.attention or kind.latent or kind.compressed,
        "mla-up-projection": kind.latent,
        "mlp-activation": kind.mlp,
        "mlp": kind.mlp,
        "moe-activation": kind.experts,
        "moe": kind.experts,
        "shared-experts": kind.experts and kind.experts.shared,
    }
    whole = set(structure.recompute_modules or ())
    named = whole - {part for module in whole for part in PARTS.get(module, ())}
    return sum(OPERATIONS[module] for module in named if has.get(module, kind) is not None)


def unpacked_again(inputs: TrainingInputs, kind: Layers, again: RecomputedWork) -> Number:
    """Number of 4-bit matrices that recompute unpacks again."""
    return again.times * sum(1.0 for name in packed_matrices(inputs, kind) if name in again.matrices)
