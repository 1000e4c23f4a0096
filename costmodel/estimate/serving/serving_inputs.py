"""A serving scenario as numbers: all inputs of the equations, where cache and experts lie, and the assumptions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from costmodel.documents.keys.paths import at
from costmodel.documents.reader.find_documents import stack_meant
from costmodel.documents.reader.hub_names import name_words
from costmodel.documents.reader.library import UNMEASURED, names, read
from costmodel.documents.reader.resolved_scenario import ACCELERATOR, LoadedScenario
from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.schemas.efficiency import FusedExpertsFit, ServingFit
from costmodel.documents.schemas.engine import Engine, EngineDefaults, EngineHostCache
from costmodel.documents.schemas.model import Layers, Model
from costmodel.documents.schemas.precision import Recipe
from costmodel.documents.schemas.serving import Lengths, ServingPlan, Speculation
from costmodel.equations.run.economics import share
from costmodel.equations.serving.cache_pool import hit_tokens, shared_host_rate
from costmodel.equations.serving.engine_step import accepted_tokens, level_chance, tokens_of_acceptance
from costmodel.equations.serving.offline_batch import longest_of_several
from costmodel.equations.serving.queues import gap_variation
from costmodel.estimate.machine.price import usual_power
from costmodel.estimate.machine.process_groups import Machine, domain_of, interface_rate
from costmodel.estimate.serving.element_types import ServingTypes, element_types, with_cache_type, with_matmul_type
from costmodel.estimate.shared.assumptions import AssumptionLog, note_borrowed_fit, note_unseen, seen
from costmodel.estimate.shared.results import number
from costmodel.ground.equation import Number, term
from costmodel.ground.errors import fail
from costmodel.ground.record import record
from costmodel.ground.units import Figure, gib, percent, show

# --- where an engine keeps cache and experts beside its accelerators


@record
class HostPool:
    """The KV cache on the host: the engine's settings, the rates of each accelerator, and capacity per node."""

    stated: EngineHostCache
    rate: Number  # of loading
    write: Number
    capacity: float
    accelerators: float  # of a node


def host_rate(case: LoadedScenario) -> Number | None:
    """Rate at which an accelerator loads from its host; None if no document states it."""
    link, node, common = case.host, case.node, case.common.host
    if link is None or (link.copies is None and common is None):
        return None
    reached = 1.0 if common is None else common.share
    with term("link to the host"):
        if link.copies is not None:
            reached = link.copies / link.bandwidth
        memory = math.inf if node.memory is None else node.memory.bandwidth
        return shared_host_rate(link.bandwidth, reached, memory, node.built)


def host_pool(case: ServingCase, log: AssumptionLog) -> HostPool | None:
    """The KV cache on the host; None if the engine has none."""
    stated = case.stack.host_cache
    if stated is None or not stated.kept:
        return None
    place = case.place("stack.host_cache")
    rate, write, capacity = _host_cache_rates(case, stated)
    if stated.rate is not None:
        rate, write = stated.rate, stated.rate
    plan, workload = case.scenario.plan, case.scenario.workload
    if plan is not None and plan.prefill is not None:
        hint = "leave stack.host_cache out, or let replicas do both"
        raise fail("D016", "a cache on the host is not modelled with prefill and decode apart", place, hint)
    if not case.stack.prefix_cache:
        raise fail("D016", "the engine reuses no cache: stack.prefix_cache is off", place, "leave stack.host_cache out")
    if workload.turns == 1:
        log.note("stack.host_cache", "finds nothing", "no turn comes back: workload.turns is 1")
    else:
        origin = "stack.host_cache.rate" if stated.rate is not None else f"{case.node.name}, each accelerator"
        log.note("host cache, rate", show(float(np.asarray(rate)), "B/s"), origin)
    return HostPool(stated, rate, write, capacity, case.node.built)


def _host_cache_rates(case: ServingCase, stated: EngineHostCache) -> tuple[Number, Number, float]:
    """Load and store rate of an accelerator, and capacity per node, for a cache in memory, on drives or in a store."""
    node, place = case.node, case.place("stack.host_cache.on", "stack.host_cache")
    if stated.on == "store":
        network = case.network.network
        reached = interface_rate(case, 1.0 if network is None else network.share)
        return reached, reached, math.inf
    link = host_rate(case)
    if link is None:
        raise fail("D017", f"{node.name} states no link to its host", place, "write host, e.g. pcie5x16")
    if stated.on == "memory":
        return link, link, math.inf if node.memory is None else node.memory.capacity
    if node.drives is None:
        hint = "write drives with capacity, read and write in its document, or on: store with a rate"
        raise fail("D017", f"{node.name} states no drives", place, hint)
    with term("share of the drives"):
        read, write = (share(each, node.built) for each in (node.drives.read, node.drives.write))
    return np.minimum(link, read), np.minimum(link, write), node.drives.capacity


@record
class HostExperts:
    """Share of routed experts in host memory, and the rates of a node's processors and of their memory."""

    share: float
    rate: float
    bandwidth: float

    @property
    def kept(self) -> float:
        """Share of experts on the devices, never exactly 0, so that their time stays a number."""
        return max(1.0 - self.share, 1e-9)


def host_experts(case: ServingCase, log: AssumptionLog) -> HostExperts | None:
    """The experts that a plan computes on the host; None if it has none there."""
    plan, engine, memory = case.scenario.plan, case.stack, case.node.memory
    if plan is None or not plan.host_experts:
        return None
    place = case.place("plan.host_experts")
    if not case.model.has_experts:
        raise fail("D016", f"{case.model.title} has no experts for host_experts", place, "leave host_experts out")
    if engine.host_experts is None:
        raise fail("D016", f"{engine.name} computes no experts on the host", place, "--set stack=sglang does")
    if plan.prefill is not None or plan.redundant_experts:
        beside = "prefill and decode apart" if plan.prefill is not None else "copies of experts"
        raise fail("D016", f"experts on the host are not modelled with {beside}", place, "leave one of them out")
    if memory is None:
        raise fail("D017", f"{case.node.name} states no memory of its processors", place, "write cluster.node.memory")
    log.note("experts on the host", "at the full rate of its memory", "an upper bound of speed, never measured")
    return HostExperts(plan.host_experts, engine.host_experts.rate, memory.bandwidth)


# --- A serving scenario as numbers: all inputs of the equations, and the assumptions


# Whether an engine runs on the accelerators of a scenario at all.


def check_hardware(case: ServingCase, engine: Engine) -> None:
    """An error for an accelerator whose maker the engine does not support."""
    chip = case.accelerator
    if not engine.runs_on or chip.vendor in engine.runs_on:
        return
    sentence = f"{engine.name} runs on accelerators of {', '.join(engine.runs_on)} alone, not on {chip.vendor}'s"
    documents = (read("stack", name) for name in names("stack") if stack_meant(name) != name)  # the newest releases
    others = [each.name for each in documents if isinstance(each, Engine) and chip.vendor in each.runs_on]
    hint = (
        f"engines that do: {', '.join(others)}"
        if others
        else f"--set 'stack.runs_on=[{chip.vendor}]' states that it does"
    )
    raise fail("D016", sentence, case.place("stack", *ACCELERATOR), hint)


@record
class ServicePower:
    """Power of an accelerator with its share of the serving node, and the share of it drawn when idle."""

    drawn: Number
    idle_share: Number


def service_power(case: ServingCase, log: AssumptionLog) -> ServicePower:
    """The stated power, or the default, which is recorded as an assumption; NaN without a rated power."""
    practice, stated = case.practice, case.scenario.assume.power
    if practice is None:
        return ServicePower(math.nan, 1.0)
    with term("beside accelerators"):
        over_part = practice.draw.part * practice.serving.rated / practice.draw.rated
    drawn = usual_power(case.node, case.accelerator, practice.serving.rated, over_part, None)
    with term("without requests"):
        idle = share(practice.idle.share * practice.draw.rated, practice.serving.rated)
    if stated is not None:
        return ServicePower(stated, idle)
    if not math.isnan(number(drawn)):
        rating = f"{percent(practice.serving.rated)} of the node's rating"
        known = rating if case.node.power is not None else "of the accelerator's, for the node has no rating"
        log.note("assume.power", show(number(drawn), "J/s"), f"{known}, practices/{practice.name}")
    return ServicePower(drawn, idle)


@record
class SharedBeginning:
    """A kind of shared prefix: its cached tokens, its share of requests, and requests between two uses."""

    tokens: Number
    share: float
    spacing: float


@record
class Load:
    """Lengths of requests, and how many tokens of a prompt are cached: one value, or one value for each plan."""

    prompt: Number
    output: Number
    prompt_spread: float
    output_spread: float
    hit: Number
    longest: Number
    verified: float = 1.0  # queries of a sequence in a step: the last token, and what is drafted behind it
    accepted: Number = 1.0  # tokens of a sequence that a step adds
    samples: float = 1.0  # answers of a request, each a sequence of its own behind one prompt
    again: Number = 0.0  # tokens of a prompt that its later answers compute again: the end of a block
    shared: float = 0.0  # tokens that all prompts begin with
    common: Number = 0.0  # of these what the cache holds once for all
    history: Number = 0.0  # tokens of a prompt that repeat earlier turns of the conversation, on average
    loaded: Number = 0.0  # of hit what comes back from the host
    passes: float = 0.0  # of a draft in a step, each with as many queries as are verified of it
    returning: Number = 0.0  # share of later turns that find their conversation there
    whole: bool = False  # whether each prompt is computed in one step
    preempted: Number = 0.0  # tokens of a request that are computed again, as the cache is full

    @property
    def private(self) -> Number:
        """Prompt tokens that a request caches for itself alone."""
        return self.prompt - self.common

    @property
    def queries(self) -> float:
        """Number of query rows of a request in a decode step."""
        return self.verified * self.samples

    @property
    def generated(self) -> Number:
        """Tokens of all answers of a request."""
        return self.output if self.samples == 1 else self.samples * self.output

    @property
    def longest_answer(self) -> Number:
        """Mean tokens of a request's longest answer."""
        return self.output if self.samples == 1 else longest_of_several(self.output, self.output_spread, self.samples)

    @property
    def steps(self) -> Number:
        """Number of decode steps that an answer takes."""
        return self.output if self.verified == 1 else self.output / self.accepted

    def per_token(self, step: Number) -> Number:
        """The time of each token, from the time of a step."""
        return step if self.verified == 1 else step / self.accepted

    @property
    def computed(self) -> Number:
        """Prompt tokens of a request that are computed, not read from the cache."""
        return self.prompt - self.hit + self.again

    @property
    def worked(self) -> Number:
        """Tokens of a request that steps compute in addition to those they decode."""
        return self.computed + self.preempted


ENOUGH_UP = 0.999  # share of time in which enough replicas are up, where a scenario states how long each of them is


@dataclass(frozen=True, eq=False)
class ServingInputs(Machine):
    """The inputs of a serving scenario in SI base units; each number remembers where it was stated."""

    case: ServingCase
    model: Model
    engine: Engine
    types: ServingTypes
    load: Load
    kernels: ServingFit
    experts: FusedExpertsFit | None
    imbalance: float
    memory_bandwidth: float
    memory_share: float
    sequences: float
    budget: float
    power: ServicePower
    assumed: tuple[Assumption, ...]
    draft: ServingInputs | None = None  # of speculative decoding
    host_pool: HostPool | None = None  # where the engine keeps cache on the host
    host_experts: HostExperts | None = None  # where a plan has experts there
    is_limited: bool = True  # whether it is looked at how much a plan answers within the limits, which takes longest
    beyond: Number = 0.0  # spread of a plan's steps by terms outside the range of their fits
    beyond_first: Number = 0.0  # of its first tokens, by prompts outside it
    beginnings: tuple[SharedBeginning, ...] = ()  # of which prompts find what the cache keeps
    gaps: float = 1.0  # between arrivals at the service: standard deviation over mean
    prompts: ServingInputs | None = None  # of instances for prompts, where these run on another kind of nodes
    crosses: bool = False  # whether tensor parallelism of a plan crosses domains, which no fitted benchmark's does

    @property
    def domain(self) -> Number:
        """Accelerators of a scale-up domain; engines fill domains one after another."""
        return domain_of(self.case, self.ranks, even=False)

    @property
    def depends_on_count(self) -> bool:
        """Whether a replica's capacity depends on the number of replicas, which share conversations or bursts."""
        shared = bool(self.beginnings) and self.case.scenario.assume.routing == "cache-aware"
        return bool(np.any(self.load.history)) or self.gaps != 1 or shared

    @property
    def gathered_within(self) -> Number:
        """Accelerators within which experts get tokens by all-gather: a node, or a domain without a switch."""
        switched = self.case.node.scale_up.topology == "switch"
        return min(self.case.node.accelerators, self.domain) if switched else self.domain


def check_one_kind(case: ServingCase) -> None:
    """An error for a question about one kind of node if the cluster has several."""
    if case.groups:
        kinds = ", ".join(each.node.name for _, each in case.groups)
        sentence = f"this question takes nodes of one kind, and cluster.groups has {kinds}"
        one = f"--set 'cluster={{node: {case.node.name}, nodes: {case.groups[0][0]:g}}}'"
        raise fail("D010", sentence, case.place("cluster.groups", "cluster"), f"{one}; estimate and search take groups")


def engine_defaults(case: ServingCase) -> EngineDefaults:
    """The engine's defaults for the accelerator; of a column of memories those of all rows, else a ValueError."""
    part, sizes = case.accelerator, np.ravel(case.accelerator.memory.capacity)
    least, most = (case.stack.picked(float(size), part.family) for size in (sizes.min(), sizes.max()))
    if least is not most:
        raise ValueError("rows have several defaults")
    return least


def inputs_of(case: ServingCase) -> ServingInputs:
    """The inputs of a serving scenario with one kind of node."""
    check_one_kind(case)
    log = AssumptionLog()
    case = with_cache_type(with_matmul_type(case, log), log)
    fits, engine = case.efficiency, case.stack
    types = element_types(case, log)
    if fits.memory is None or case.network.network is None or not {"all_gather", "all_reduce"} <= set(fits.collectives):
        sentence = f"the efficiencies of {case.accelerator.name} and its network lack a fit that every answer needs"
        raise fail("D017", sentence, case.place(*ACCELERATOR), "memory, all_gather, all_reduce, and network")
    assume, network = case.scenario.assume, case.network.network
    _check_model(case, log)
    picked = engine_defaults(case)
    by_size = f"stacks/{engine.name}, {gib(number(case.accelerator.memory.capacity))} GiB"
    share = log.choose("assume.network_share", assume.network_share, network.share, f"efficiencies/{case.network.of}")
    kernels = fits.serving or case.common.serving
    assert kernels is not None  # of unmeasured.yaml
    if fits.serving is None:
        log.note("kernels of serving", "middle of fitted parts", f"efficiencies/{UNMEASURED}")
    else:
        note_borrowed_fit(log, case)
    inputs = ServingInputs(
        case=case,
        collectives=fits.collectives,
        network=network,
        network_share=share,
        algorithms=("tree",),
        model=case.model,
        engine=engine,
        types=types,
        load=_load(case, log),
        kernels=kernels,
        experts=_experts(case, kernels, types.expert_recipe),
        imbalance=_expert_imbalance(case, log),
        memory_bandwidth=case.accelerator.memory.bandwidth,
        memory_share=fits.memory.share,
        sequences=log.choose("stack.sequences", engine.sequences, picked.sequences, by_size),
        budget=log.choose("stack.budget", engine.budget, picked.budget, by_size),
        assumed=(),
        host_pool=host_pool(case, log),
        host_experts=host_experts(case, log),
        power=service_power(case, log),
        gaps=_arrival_gap_variation(case),
        beginnings=_shared_beginnings(case),
        prompts=None if case.prompts is None else inputs_of(case.prompts),
    )
    _check_samples(inputs)
    return _with_plan_inputs(inputs, log)


def _check_samples(inputs: ServingInputs) -> None:
    """An error if a request has more answers than the engine computes at a time."""
    most, samples = inputs.sequences, inputs.load.samples
    if samples > most:
        sentence = f"an engine computes at most {most:g} sequences at a time, and a request has {samples:g} answers"
        place = inputs.case.place("workload.samples")
        raise fail("D016", sentence, place, f"take workload.samples up to {most:g}, or a larger stack.sequences")


def _arrival_gap_variation(case: ServingCase) -> float:
    """Variation of the gaps between arrivals, from either key for it."""
    workload = case.scenario.workload
    if workload.burstiness is not None:
        return number(gap_variation(workload.burstiness))
    return 1.0 if workload.arrival_spread is None else workload.arrival_spread


def _shared_beginnings(case: ServingCase) -> tuple[SharedBeginning, ...]:
    """The shared prefixes of prompts; none if the engine has no prefix cache."""
    found = []
    for kind in case.scenario.workload.beginnings if case.stack.prefix_cache else ():
        with term("prefix"):
            tokens = hit_tokens(kind.tokens, kind.tokens + 1.0, case.stack.block)
        found.append(SharedBeginning(tokens, kind.share, kind.requests_apart))
    return tuple(found)


def inputs_without_limits(case: ServingCase) -> ServingInputs:
    """Inputs whose evaluations skip the rate within limits."""
    return replace(inputs_of(case), is_limited=False)


def _expert_imbalance(case: ServingCase, log: AssumptionLog) -> float:
    """Load of the busiest expert rank over the mean; 1 for a model without experts."""
    if not case.model.has_experts:
        return 1.0
    plan = case.scenario.plan
    why = "as if copies evened all" if plan is not None and plan.redundant_experts else "routed evenly"
    return log.choose("assume.experts.imbalance", case.scenario.assume.experts.imbalance, 1.0, why)


def _check_model(case: ServingCase, log: AssumptionLog) -> None:
    """Raises an error for a model or a prompt that the engine cannot serve, and for unsupported hardware."""
    check_hardware(case, case.stack)
    workload, prompt = case.scenario.workload, case.scenario.workload.prompt
    seen(case, case.model, workload.images, prompt.mean if isinstance(prompt, Lengths) else prompt)
    note_unseen(log, case.model, workload.images)
    if case.model.is_encoder:
        sentence = f"{case.model.name} is an encoder, which generates no tokens"
        raise fail("D016", sentence, case.place("model"), "take a model whose attention is causal")
    if case.model.meta_tokens is not None:
        sentence = f"{case.model.name} has learned tokens ahead of every sequence, which no engine of the stacks serves"
        raise fail("D016", sentence, case.place("model"), "take a model without meta_tokens")
    tokens, most = workload.mean("prompt") + workload.mean("output"), case.model.max_sequence
    if case.model.positions == "learned" and tokens > most:
        sentence = f"{case.model.name} has learned positions for {most:,.0f} tokens, and a request has {tokens:,.0f}"
        raise fail("D016", sentence, case.place("workload.prompt"), "take shorter prompts and answers")


def never_fitted(inputs: ServingInputs) -> bool:
    """Whether no kernel of serving was measured on the accelerator, so that fits of others are used."""
    return inputs.case.efficiency.serving is None


def _with_plan_inputs(inputs: ServingInputs, log: AssumptionLog) -> ServingInputs:
    """The inputs with speculation and with assumptions that the plan needs."""
    case = inputs.case
    wanted, plan = _speculation_of(case), case.scenario.plan
    if plan is not None and plan.prefill is not None and case.scenario.assume.cache_transfer is None:
        log.note("assume.cache_transfer", "whole", "behind the prompt; layer hides most of it")
    if plan is not None and _sends_by_all_to_all(inputs, plan):
        beside = "; inside a node they are gathered" if not has_own_exchange(inputs) else ""
        log.note("stack.dispatch", "to their experts", f"stacks/{inputs.engine.name}{beside}")
    elif (
        plan is not None
        and inputs.experts is not None
        and inputs.engine.dispatch
        and inputs.engine.dispatch.two_batches
    ):
        log.note("stack.dispatch.two_batches", "without effect", "tokens for experts on one node are gathered")
    if case.scenario.assume.availability is not None and case.scenario.assume.enough_up is None:
        log.note("assume.enough_up", show(ENOUGH_UP, "1"), "of the time")
    if wanted is not None:
        inputs = replace(inputs, draft=_draft_inputs(inputs, wanted, log), load=_load_with_drafts(inputs.load, wanted))
    return replace(inputs, assumed=(*_conversion_assumptions(case), *log.assumed))


def _load_with_drafts(load: Load, wanted: Speculation) -> Load:
    """The load if every step verifies speculative draft tokens."""
    with term("speculation"):
        accepted: Number = wanted.length or 1.0
        if wanted.chance is not None:
            chance: Number = wanted.chance
            if wanted.width > 1:
                chance = level_chance(wanted.chance, wanted.width, wanted.tokens, wanted.levels)
            accepted = accepted_tokens(chance, wanted.levels)
        elif wanted.acceptance is not None:
            accepted = tokens_of_acceptance(wanted.acceptance, wanted.tokens)
    return replace(load, verified=1.0 + wanted.tokens, accepted=accepted)


def _draft_inputs(inputs: ServingInputs, wanted: Speculation, log: AssumptionLog) -> ServingInputs | None:
    """Inputs of the draft model; None for n-gram drafts, which copy repeated text."""
    if wanted.draft == "ngram":
        log.note("plan.speculation.draft", "ngram", "looking up repeated text takes no time of the accelerator")
        return None
    model = _draft_model(inputs.case, wanted)
    launched = "its launches take no host time of their own" if inputs.engine.graphs else "launched without graphs"
    log.note("draft", model.title, f"in the types of the model; {launched}")
    host = inputs.engine.host.model_copy(update={"step": 0.0, "sequence": 0.0})
    engine = inputs.engine.model_copy(update={"host": host})
    load = replace(inputs.load, verified=wanted.width, accepted=1.0, passes=wanted.levels, samples=1.0)
    return replace(inputs, model=model, engine=engine, load=load, draft=None)


def _speculation_of(case: ServingCase) -> Speculation | None:
    """The speculation of the scenario's plan; None without."""
    plan = case.scenario.plan
    return None if plan is None else plan.speculation


def _draft_model(case: ServingCase, wanted: Speculation) -> Model:
    """The draft as a model: one layer for mtp and eagle, or the named model."""
    model, place = case.model, case.place("plan.speculation.draft")
    if wanted.draft == "mtp":
        if model.prediction is None:
            sentence = f"{model.title} predicts one token: it has no layer for mtp"
            raise fail("D016", sentence, place, "draft: eagle, a layer trained for that, or a small model")
        return _one_layer_model(model, model.prediction.layer, "its layer of multi-token prediction")
    if wanted.draft == "eagle":
        return _one_layer_model(model, model.layers[-1], "one layer as the last, and the head")
    found = case.draft
    assert found is not None  # read with the scenario
    if found.vocab > model.vocab or found.has_experts:
        fault = (
            "has experts" if found.has_experts else f"has {found.vocab:,.0f} tokens, {model.title} {model.vocab:,.0f}"
        )
        hint = "a dense model of the same family and vocabulary"
        raise fail("D016", f"{found.title} cannot draft: it {fault}", place, hint)
    return found


def _one_layer_model(model: Model, kind: Layers, title: str) -> Model:
    layer = kind.model_copy(update={"count": 1.0, "leading": False})
    return model.model_copy(update={"title": title, "layers": [layer], "prediction": None})


def without_speculation(inputs: ServingInputs) -> ServingInputs:
    """The inputs of the same scenario without speculative decoding."""
    return replace(inputs, draft=None, load=replace(inputs.load, verified=1.0, accepted=1.0))


def _load(case: ServingCase, log: AssumptionLog) -> Load:
    """Lengths of prompts and outputs; every default is recorded as an assumption."""
    workload, engine = case.scenario.workload, case.stack
    added, output = workload.mean("prompt"), workload.mean("output")
    prompt, history, longest = added, 0.0, workload.context
    if workload.turns > 1:
        with term("conversation"):
            history = (workload.turns - 1.0) / 2.0 * (added + output)
            prompt = workload.opening + added + history
    for name in ("prompt", "output"):
        if isinstance(getattr(workload, name), float):
            log.note(f"workload.{name}.spread", "0", "all lengths equal")
    hit: Number = 0.0
    if workload.shared_prefix and engine.prefix_cache:
        with term("prefix"):
            hit = hit_tokens(workload.shared_prefix, prompt, engine.block)
    elif not workload.shared_prefix and not workload.beginnings and workload.turns == 1:
        log.note("workload.shared_prefix", "0", "no prompts share a prefix")
    if longest is None:
        longest = Figure(float(workload.opening + workload.turns * (added + output)))
        origin = "mean prompt and answer" if workload.turns == 1 else "a whole conversation"
        log.note("workload.context", show(longest, "1"), origin)
    if workload.concurrency is not None and at(case.tree, "workload.users") is not None:
        log.note("workload.think_time", "0 s", "each user sends the next request at once: all are in flight")
    if workload.turns > 1 and case.scenario.assume.routing is None:
        log.note("assume.routing", "random", "only one replica has a turn's conversation in its cache")
    spreads = workload.spread("prompt"), workload.spread("output")
    kept = history if engine.prefix_cache else 0.0
    found = Load(prompt, output, *spreads, hit, longest, shared=workload.shared_prefix, common=hit, history=kept)
    return replace(found, whole=not engine.chunked, samples=workload.samples, again=_again(case, prompt))


def _again(case: ServingCase, prompt: Number) -> Number:
    """Prompt tokens that each further answer to the same prompt computes again."""
    samples = case.scenario.workload.samples
    if samples == 1:
        return 0.0
    if not case.stack.prefix_cache:
        sentence = "without stack.prefix_cache each answer computes its prompt again, as a request of its own"
        raise fail(
            "D016", sentence, case.place("workload.samples"), "state so many times the rate, and leave samples out"
        )
    with term("later answers"):
        return (samples - 1.0) * (prompt - hit_tokens(prompt, prompt, case.stack.block))


_STANDING_IN = {"fp16": ("bf16",), "int8": ("fp8", "bf16")}  # types whose fused experts were not measured


def _experts(case: ServingCase, kernels: ServingFit, recipe: Recipe) -> FusedExpertsFit | None:
    """The fit of fused experts for a type of products; None for a model without experts."""
    if not case.model.has_experts:
        return None
    able: tuple[Any, ...] = (recipe.name, recipe.fit, *_STANDING_IN.get(recipe.name, ()))
    found = next((kernels.experts[key] for key in able if key in kernels.experts), None)
    if found is None:
        place = case.place("workload.precision", "model")
        raise fail("D016", f"{case.accelerator.name} has no fit of experts in {recipe.name}", place)
    return found


def _conversion_assumptions(case: ServingCase) -> tuple[Assumption, ...]:
    """Assumptions for a model stated by its hub name, and for an engine stated by a release name."""
    models = tuple(Assumption("model", shape, name_words(name, shape)) for name, shape in case.hub.items())
    stacks = (Assumption("stack", stack, f"what {name} is taken for") for name, stack in case.stacks.items())
    return (*models, *stacks)


def has_own_exchange(inputs: ServingInputs) -> bool:
    """Whether the engine has an all-to-all of its own inside a domain with a switch."""
    dispatch = inputs.engine.dispatch
    return dispatch is not None and dispatch.one_sided is not None and inputs.case.node.scale_up.topology == "switch"


def _sends_by_all_to_all(inputs: ServingInputs, plan: ServingPlan) -> bool:
    """Whether a plan with attention groups sends tokens by all-to-all: over enough nodes, or inside a domain."""
    dispatch = inputs.engine.dispatch
    parts = [each for each in (plan, plan.prefill, plan.decode) if each is not None]
    most = max(each.tp * each.dp_attention if each.dp_attention > 1 else 0 for each in parts)
    if has_own_exchange(inputs) and any(1 < each.dp_attention * each.tp == each.ep for each in parts):
        return True
    with term("nodes of experts"):
        return dispatch is not None and bool(most > inputs.gathered_within * (dispatch.from_domains - 1))


def arrive_at_random(inputs: ServingInputs) -> bool:
    """Whether requests arrive at random, so that the number in flight varies."""
    workload = inputs.case.scenario.workload
    return workload.rate is not None or workload.users is not None
