"""Converts documents to numbers: all inputs of the equations, and the assumptions made."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from costmodel.documents.reader.resolved_scenario import ACCELERATOR, ResolvedScenario
from costmodel.documents.schemas.base import Sites, TrainingImages
from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.schemas.efficiency import AttentionFit, MatmulFit
from costmodel.documents.schemas.model import Layers, Model
from costmodel.documents.schemas.precision import RECIPES, Recipe
from costmodel.documents.schemas.scenario import Adapted, FlopConvention, Optimizer, Tuning, adaptable
from costmodel.documents.schemas.stack import ExpertKernels, LowPrecision, Stack
from costmodel.equations.kernels.roofline import slowest_part
from costmodel.equations.layers.parameters import packed_bytes
from costmodel.equations.network.overlap import bucket_bytes
from costmodel.equations.parallelism.counts import world_size
from costmodel.estimate.machine.host import Host, host_of
from costmodel.estimate.machine.number_formats import (
    LinearTypes,
    check_precision_supported,
    linear_types_of,
    matmul_fit,
    slowdown_of,
    vector_rate,
)
from costmodel.estimate.machine.price import price_of, price_of_rented_unit
from costmodel.estimate.machine.process_groups import (
    Machine,
    has_nvls_fit,
    interface_rate,
    site_batch,
    slowest_link,
    with_interface_rate,
)
from costmodel.estimate.model.projected_states import state_bytes
from costmodel.estimate.model.shards import tower_model
from costmodel.estimate.shared.assumptions import AssumptionLog, converted, note_unseen, seen
from costmodel.estimate.training.stack_in_use import (
    attention_fit,
    attention_in_use,
    dispatched_bytes,
    gradient_types,
    mfu_peak,
    model_in_use,
    note_assumed_rates,
    optimizer_in_use,
    stack_in_use,
)
from costmodel.ground.counts import Recompute
from costmodel.ground.equation import Number, term
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record
from costmodel.ground.units import Figure, show

if TYPE_CHECKING:
    from costmodel.estimate.shared.run_inputs import RunInputs


# What the documents of a case must state before anything can be computed, and the price that is assumed.


def check_documents(case: ResolvedScenario, recipe: Recipe) -> None:
    """Raises an error if the documents lack something that every prediction needs."""
    check_precision_supported(case, recipe)
    check_adapters(case)
    workload = case.scenario.workload
    seen(case, case.model, workload.images, workload.sequence)
    efficiency, kernel = case.efficiency, attention_in_use(case)
    name = case.accelerator.name
    for key in (recipe.wide, recipe.fit):
        if key not in (case.common.matmul if recipe.full else efficiency.matmul):
            place = case.place("workload.precision", *ACCELERATOR)
            raise fail("D016", f"{name} has no {key} rate with a fit", place, "take another precision")
    if efficiency.memory is None or efficiency.sustained is None:
        place = case.place(*ACCELERATOR)
        raise fail("D017", f"the efficiency of {name} lacks memory or sustained", place, "write both into it")
    check_links(case)
    if kernel != "unfused" and attention_fit(case) is None:
        raise fail("D017", f"the efficiency of {name} has no attention class {kernel}")


def check_links(case: ResolvedScenario) -> None:
    """Raises an error if the documents lack a fit that every collective needs, or an algorithm that the stack uses."""
    if case.network.network is None:
        raise fail("D017", f"the efficiency of {case.scale_out.name} has no network part")
    if not {"all_gather", "all_reduce"} <= set(case.efficiency.collectives):
        raise fail("D017", f"the efficiency of {case.accelerator.name} lacks fits of all_reduce and all_gather")
    for chosen, present in (("nvls", has_nvls_fit(case)), ("sharp", case.scale_out.reduces)):
        if chosen in case.stack.collectives and not present:
            sentence = f"{case.node.name} with {case.scale_out.name} has no measured {chosen}"
            raise fail("D016", sentence, case.place("stack.collectives"), f"leave {chosen} out of stack.collectives")


def assumed_price(case: ResolvedScenario) -> tuple[Assumption, ...]:
    """The list price used for costs, as an assumption if the scenario states none: the node's, or that of an offer."""
    price = price_of(case)
    listed = price.listed
    if listed is None:
        return ()
    where = f" in {listed.region}" if listed.region else ""
    origin = f"nodes/{price.node}, {listed.sold}{where}, {listed.date}"
    if price.assumed:
        return (Assumption("assume.price", f"{price.each * 3600:.4g} USD/GPU/h", origin),)
    each = "a node" if listed.per == "node" else "an accelerator"
    unit = price_of_rented_unit(listed, case.node, case.accelerator)
    return (Assumption("assume.price", f"{show(float(unit), 'USD/s')} {each}", origin),)


# --- adapters: whether the model has the matrices that they adapt


def check_adapters(case: ResolvedScenario) -> None:
    """Raises an error for adapters that are not modelled, or on matrices that the model does not have."""
    workload, model = case.scenario.workload, case.model
    tuning = workload.tuning
    if tuning == "full":
        return
    kinds = model.kinds
    if any(kind.scan_heads for kind in kinds):
        sentence = "adapters are modelled for attention, MLPs and experts, not for mixers that scan"
        hint = "take workload.tuning: full, or a model without state_space and linear"
        raise fail("D016", sentence, case.place("workload.tuning"), hint)
    if any(kind.compressed is not None for kind in kinds):
        sentence = "adapters are not modelled beside the matrices of compressed attention"
        hint = "take workload.tuning: full, or a model without compressed"
        raise fail("D016", sentence, case.place("workload.tuning"), hint)
    if tuning.method == "qlora" and RECIPES[workload.precision].narrow:
        sentence = f"weights of qlora are unpacked into 16 bits, which products in {workload.precision} do not read"
        hint = "take workload.precision: bf16, or workload.tuning.method: lora"
        raise fail("D016", sentence, case.place("workload.precision"), hint)
    _check_modules(case, tuning, kinds)


def _check_modules(case: ResolvedScenario, tuning: Tuning, kinds: list[Layers]) -> None:
    """Raises an error for modules that the model does not have, or has only in experts, which the tuning leaves out."""
    there, everywhere = _adaptable_matrices(kinds, experts=tuning.experts), _adaptable_matrices(kinds, experts=True)
    remedy = f"workload.tuning.modules of it: {', '.join(there)}"
    modules = tuning.modules or there
    left = [name for name in modules if name in everywhere and name not in there]
    if left:
        sentence = (
            f"{case.model.name} has {', '.join(left)} only in its routed experts, which experts: false leaves out"
        )
        hint = f"take workload.tuning.experts: true, or {remedy}"
        raise fail("D016", sentence, _module_place(case, modules.index(left[0])), hint)
    absent = [name for name in modules if name not in there and (name != "gate" or not {*modules} & {*there})]
    if absent:
        sentence = f"{case.model.name} has no {', '.join(absent)} to adapt"
        raise fail("D016", sentence, _module_place(case, modules.index(absent[0])), remedy)


def _module_place(case: ResolvedScenario, index: int) -> Place | None:
    """The place where a module was stated; the place of the tuning if none was."""
    return case.place(f"workload.tuning.modules.{index}") or case.place("workload.tuning")


def _adaptable_matrices(kinds: list[Layers], *, experts: bool) -> list[Adapted]:
    """Names of the matrices that can have an adapter in any of these layers."""
    return list(dict.fromkeys(name for kind in kinds for name in adaptable(kind, experts=experts)))


# Inputs about experts, from the stack and the assumptions of a scenario.


@record
class ExpertInputs:
    """Inputs about experts: load of a rank over the mean, overlap, host time, and types of dispatched tokens."""

    kernels: ExpertKernels
    load: float
    balance_known: bool
    dropless: bool
    overlap: float
    host: float
    dispatch: float
    deduplicated: bool
    shared_overlap: float


def expert_inputs(case: ResolvedScenario, log: AssumptionLog) -> ExpertInputs | None:
    """Inputs about experts; None for a model without experts."""
    if not case.model.has_experts:
        return None
    kernels, said, named = case.stack.experts, case.scenario.assume.experts, f"stacks/{case.stack.name}"
    if kernels is None:
        sentence = f"the stack {case.stack.name} does not describe experts, which {case.model.name} has"
        raise fail("D016", sentence, case.place("stack", "model"), "take another stack")
    choose = log.choose
    if said.dispatch is None:
        log.note("assume.experts.dispatch", kernels.dispatch, named)
    if said.deduplicated is None:
        once = "a token goes once to each rank of its experts (flex dispatcher, DeepEP)" if kernels.deduplicated else ""
        origin = f"{named}: flex dispatcher (DeepEP); false is all-to-all" if once else named
        log.note("assume.experts.deduplicated", str(kernels.deduplicated).lower(), origin, short=once)
    load = said.capacity or choose(
        "assume.experts.imbalance", said.imbalance, 1.0, "routed evenly; P90 is of uneven routing"
    )
    issuing = case.stack.launch.each if kernels.looped else 0.0
    return ExpertInputs(
        kernels=kernels,
        load=load,
        balance_known=said.capacity is not None or said.imbalance is not None,
        dropless=said.capacity is None,
        overlap=log.choose("assume.overlap.ep", case.scenario.assume.overlap.ep, kernels.overlap, named),
        host=log.choose("assume.experts.host", said.host, issuing, named, "s"),
        dispatch=dispatched_bytes(case, said.dispatch or kernels.dispatch),
        deduplicated=kernels.deduplicated if said.deduplicated is None else said.deduplicated,
        shared_overlap=kernels.shared_overlap if said.shared_overlap is None else said.shared_overlap,
    )


@record
class OverlapShares:
    """Share of each axis' communication that compute can hide, and of ZeRO 3's weight all-gathers."""

    tp: float
    dp: float
    weights: float
    pp: float
    cp: float


def overlap_shares(case: ResolvedScenario, log: AssumptionLog) -> OverlapShares:
    """The overlap shares of a case; defaults of the stack are recorded as assumptions."""
    stated, stack, choose = case.scenario.assume.overlap, case.stack, log.choose
    origin = f"stacks/{stack.name}"
    return OverlapShares(
        tp=choose("assume.overlap.tp", stated.tp, _tensor_overlap(case), origin),
        dp=choose("assume.overlap.dp", stated.dp, stack.overlap.dp, origin),
        weights=_weight_gather_overlap(case, log, origin),
        pp=choose("assume.overlap.pp", stated.pp, stack.overlap.pp, origin),
        cp=choose("assume.overlap.cp", stated.cp, stack.overlap.cp, origin),
    )


def _tensor_overlap(case: ResolvedScenario) -> float:
    """Share of tensor-parallel communication that the stack overlaps with compute."""
    experts = case.stack.experts
    return case.stack.overlap.tp if experts is None or not case.model.has_experts else experts.tp_overlap


def _weight_gather_overlap(case: ResolvedScenario, log: AssumptionLog, origin: str) -> float:
    """Share of the weight all-gather that compute hides, if stated; else the share for gradients."""
    asked, stack = case.scenario.assume.overlap, case.stack.overlap
    if asked.weights is None and stack.weights is None:
        return stack.dp if asked.dp is None else asked.dp
    return log.choose("assume.overlap.weights", asked.weights, stack.weights or 0.0, origin)


REPLICAS = frozenset({"dp", "edp", "replicas"})  # groups that reach from one kind of nodes to another
Dropped = Literal["nothing", "core", "operations", "layer"]

# bytes of a weight in 4 bits, of its 8-bit scale, weights of a scale, and scales of an fp32 scale
NF4 = (0.5, 1.0, 64.0, 256.0)
ELEMENT_BYTES = {
    "fp32": Figure(4.0, Place("IEEE 754", path="binary32")),
    "fp16": Figure(2.0, Place("IEEE 754", path="binary16")),
    "bf16": Figure(2.0, Place("bfloat16", path="16 bits")),
    "tf32": Figure(4.0, Place("IEEE 754", path="binary32, as tf32 is kept")),
}


@record
class ElementWidths:
    """Bytes per element: of activations and 16-bit weights, of accumulated gradients, and of reduced gradients."""

    element: float
    gradient: float
    reduced: float


@record
class KernelRates:
    """Peaks of one accelerator and the fits of its kernels; `variation` is the relative device-to-device spread."""

    peak: float
    mfu_peak: float
    memory_bandwidth: float
    memory_share: float
    matmul: MatmulFit
    linear: LinearTypes
    attention: AttentionFit | None
    variation: float


@dataclass(frozen=True, eq=False)
class TrainingInputs(Machine):
    """The inputs of a scenario, in SI base units; each number remembers its place.

    Nodes, sequence and batch may be columns with one row per plan: plans of several scenarios are then one block.
    """

    case: ResolvedScenario
    model: Model
    optimizer: Optimizer
    moments: Number
    stack: Stack
    nodes: Number
    sequence: Number
    global_batch: Number
    widths: ElementWidths
    rates: KernelRates
    overlap: OverlapShares
    fragmentation: float
    host: Host
    convention: FlopConvention
    experts: ExpertInputs | None
    run: RunInputs | None
    assumed: tuple[Assumption, ...]
    groups: tuple[tuple[float, TrainingInputs], ...] = ()  # nodes of each kind, and all as if of it; none for one kind
    front: TrainingInputs | None = None  # of the vision tower, whose sequence is the patches of an image
    between: float = math.inf  # of an accelerator towards nodes of another kind
    crossing: frozenset[str] = REPLICAS  # what reaches them

    def bound_between(self, axis: str) -> float:
        """Bound on an accelerator's rate between unequal groups: gradient sums and stage sends use the slowest link."""
        return self.between if axis in self.crossing else math.inf

    @property
    def layer_sequence(self) -> Number:
        """Tokens of a sequence in the layers, with learned ones in front; head and loss do not see those."""
        ahead = self.model.meta_tokens
        return self.sequence if ahead is None else self.sequence + ahead

    @property
    def images(self) -> TrainingImages | None:
        """Images among the tokens of a sequence."""
        return self.case.scenario.workload.images

    @property
    def tower_frozen(self) -> bool:
        """Whether the vision tower is frozen while the text model is trained."""
        return self.model.vision is not None and self.images is not None and self.images.tower == "frozen"

    @property
    def sites(self) -> Sites | None:
        """The sites that train together; a plan is for one of them. None for a single site."""
        plan = self.case.scenario.plan
        return None if plan is None else plan.sites

    @property
    def ranks(self) -> Number:
        """Accelerators that a plan uses: of the cluster, or of one site."""
        if self.sites is None:
            return self.all_ranks
        with term("of a site"):
            return self.all_ranks / self.sites.count

    @property
    def all_ranks(self) -> Number:
        """Accelerators of all sites."""
        return world_size(self.nodes, self.case.node.accelerators)

    @property
    def optimizer_state(self) -> Number:
        """Bytes of master copy and moments per parameter."""
        return self.stack.states.master + self.moments

    @property
    def recipe(self) -> Recipe:
        """The precision of the layers' linear maps."""
        return self.rates.linear.recipe

    @property
    def tuning(self) -> Tuning | None:
        """The adapters that are trained instead of the weights."""
        written = self.case.scenario.workload.tuning
        return None if written == "full" else written

    @property
    def has_packed_weights(self) -> bool:
        """Whether frozen weights of the layers are stored in 4 bits and unpacked before every use."""
        return self.tuning is not None and self.tuning.method == "qlora"

    @property
    def gathered_width(self) -> float:
        """Bytes per layer weight in an all-gather."""
        if self.has_packed_weights:
            return float(packed_bytes(1.0, *NF4))
        return self.recipe.operand if self.gathers_narrow else self.stack.states.compute

    @property
    def gathers_narrow(self) -> bool:
        """Whether layer weights are gathered in the narrow type."""
        return self.narrow is not None and self.recipe.name in self.narrow.gather

    @property
    def exchanges_narrow(self) -> bool:
        """Whether inputs and gradients that sequence parallelism gathers are converted first."""
        return self.narrow is not None and self.recipe.name in self.narrow.exchanged and self.tuning is None

    def bucket(self, ranks: Number, element: float) -> Number:
        """Bytes of a bucket, for elements of this width sent to so many ranks."""
        buckets = self.stack.buckets
        with term("bucket"):
            size = bucket_bytes(buckets.size, buckets.per_rank, ranks)
            return element * size / ELEMENT_BYTES["fp32"] if buckets.counted else size

    @property
    def narrow(self) -> LowPrecision | None:
        """The stack's treatment of narrow types; None if the recipe has none."""
        return self.stack.low_precision if self.recipe.narrow else None

    @property
    def keeps_narrow(self) -> bool:
        """Whether inputs are saved in the narrow type; frozen weights need none, and adapters read 16 bits."""
        return self.narrow is not None and self.narrow.saved and self.tuning is None

    @property
    def vector_peak(self) -> float:
        """Rate of the vector units, which NVIDIA's libraries use for odd rows.

        Other vendors' libraries are assumed to pad.
        """
        accelerator = self.case.accelerator
        vector = accelerator.peak.fp32 if accelerator.vendor == "NVIDIA" else None
        return self.rates.peak if vector is None else vector

    @property
    def vector_rate(self) -> float:
        """Rate of the vector units; if the accelerator states none, the rate of its matrix units."""
        return vector_rate(self.case.accelerator, self.rates.peak)

    @property
    def device_slowdown(self) -> Number:
        """Slowdown of the tensor cores of one device in real steps, by power and clock throttling."""
        with term("by power and clocks"):
            return slowdown_of(self.case)

    @property
    def slowest_device_slowdown(self) -> Number:
        """Slowdown of the slowest of all ranks, relative to one device."""
        with term("slowest of all ranks"):
            return slowest_part(self.ranks, self.rates.variation)

    @property
    def sustained(self) -> Number:
        """Slowdown of the tensor cores in a real step: by power and clocks, on the slowest of all ranks."""
        return self.slowest_device_slowdown * self.device_slowdown

    @property
    def sustained_narrow(self) -> Number:
        """Slowdown of products in the narrow type: by power and clocks, on the slowest of all ranks."""
        with term("by power and clocks"):
            slowdown = slowdown_of(self.case, self.rates.linear.sustained)
        return self.slowest_device_slowdown * slowdown

    def dropped(self, recompute: Recompute) -> Dropped:
        """What a recompute mode repeats in this stack; with fused attention there are no scores to recompute."""
        if recompute != "selective":
            return "layer" if recompute == "full" else "nothing"
        kernels = self.stack.kernels
        if kernels.selective == "op-level":
            return "operations"
        return "core" if kernels.attention == "unfused" else "nothing"


def training_inputs(case: ResolvedScenario) -> TrainingInputs:
    """The inputs of a case, and of each kind of node if it has several."""
    inputs = _with_vision_tower(_with_slow_link(_of_one_kind(case)))
    if not case.groups:
        return inputs
    kinds = [(nodes, _with_vision_tower(_with_slow_link(_of_one_kind(group)))) for nodes, group in case.groups]
    slowest = min(float(interface_rate(group.case, group.network_share)) for _, group in kinds)
    if (stated := case.scenario.cluster.between) is not None:
        rates = (interface_rate(with_interface_rate(group.case, stated), group.network_share) for _, group in kinds)
        slowest = min(slowest, *map(float, rates))
    groups = tuple((nodes, replace(group, between=slowest)) for nodes, group in kinds)
    return replace(inputs, groups=groups, between=slowest)


def _with_vision_tower(inputs: TrainingInputs) -> TrainingInputs:
    """The inputs, with those of the vision tower if the workload has images."""
    tower, images = inputs.model.vision, inputs.images
    if tower is None or images is None:
        return inputs
    inside = tower_model(inputs.model, tower)
    return replace(inputs, front=replace(inputs, model=inside, sequence=images.tokens * tower.merge, experts=None))


def _with_slow_link(inputs: TrainingInputs) -> TrainingInputs:
    """Inputs with the network rate of the slowest interface."""
    if inputs.case.scenario.assume.stragglers.slow_link is None:
        return inputs
    return replace(inputs, network_share=slowest_link(inputs.case, inputs.network_share))


def _run_inputs(case: ResolvedScenario, log: AssumptionLog) -> RunInputs | None:
    """Inputs of the whole run; None if the scenario has none."""
    if case.scenario.run is None:
        return None
    from costmodel.estimate.shared.run_inputs import run_inputs

    return run_inputs(case, case.scenario.run, log)


def _of_one_kind(case: ResolvedScenario) -> TrainingInputs:
    """The inputs of a case with one kind of node; of its first kind if it has several."""
    check_documents(case, RECIPES[case.scenario.workload.precision])
    stack, efficiency, network = stack_in_use(case), case.efficiency, case.network.network
    workload, assume = case.scenario.workload, case.scenario.assume
    linear, log = linear_types_of(case), AssumptionLog()
    assert network is not None
    crossed, named = f"efficiencies/{case.network.of}", f"stacks/{stack.name}"
    gradients, reduced = gradient_types(log, case)
    optimizer = optimizer_in_use(case, log)
    note_unseen(log, case.model, workload.images)
    return TrainingInputs(
        case=case,
        model=model_in_use(case, log),
        optimizer=optimizer,
        moments=state_bytes(case.model, optimizer, stack.states.weights),
        stack=stack,
        nodes=case.cluster.nodes,
        sequence=workload.sequence,
        global_batch=site_batch(case),
        widths=ElementWidths(ELEMENT_BYTES[linear.recipe.wide], ELEMENT_BYTES[gradients], ELEMENT_BYTES[reduced]),
        rates=_kernel_rates(case, linear, log),
        collectives=efficiency.collectives,
        network=network,
        algorithms=tuple(stack.collectives),
        network_share=log.choose("assume.network_share", assume.network_share, network.share, crossed),
        overlap=overlap_shares(case, log),
        fragmentation=log.choose("assume.fragmentation", assume.fragmentation, stack.runtime.fragmentation, named),
        host=host_of(case, log.choose),
        convention=assume.flop_convention,
        experts=expert_inputs(case, log),
        run=_run_inputs(case, log),
        assumed=(*converted(case), *log.assumed, *assumed_price(case)),
    )


def _kernel_rates(case: ResolvedScenario, linear: LinearTypes, log: AssumptionLog) -> KernelRates:
    """Peak rates of one accelerator and the fits of its kernels."""
    efficiency, wide = case.efficiency, linear.recipe.wide
    sustained, streams, origin = efficiency.sustained, efficiency.memory, f"efficiencies/{efficiency.of}"
    assert sustained and streams  # noqa: PT018 (narrowing two at once)
    note_assumed_rates(log, case, linear, origin)
    return KernelRates(
        peak=getattr(case.accelerator.peak, wide),
        mfu_peak=mfu_peak(log, case, linear.recipe),
        memory_bandwidth=case.accelerator.memory.bandwidth,
        memory_share=streams.share,
        matmul=matmul_fit(case, wide, wide),
        linear=linear,
        attention=attention_fit(case),
        variation=log.choose("assume.variation", case.scenario.assume.variation, sustained.variation, origin),
    )


def mean_of_groups(inputs: TrainingInputs, figure: Callable[[TrainingInputs], Number]) -> Number:
    """A value per accelerator, averaged over kinds of nodes by their number."""
    if not inputs.groups:
        return figure(inputs)
    with term("mean of the groups"):
        total: Number = 0.0
        for nodes, kind in inputs.groups:
            total = total + nodes / inputs.case.cluster.nodes * figure(kind)
    return total
