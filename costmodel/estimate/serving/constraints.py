"""Which serving plans are invalid, by code of the reason, and which stated keys change no figure of an answer."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.schemas.engine import Engine
from costmodel.documents.schemas.model import Layers
from costmodel.documents.schemas.serving import BETWEEN_TOKENS
from costmodel.equations.parallelism.counts import padded_vocab
from costmodel.estimate.model.feed_forward_kinds import dense_inner_widths
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.serving.engine_memory import FEW_RANKS, host_expert_memory, memory_use
from costmodel.estimate.serving.evaluate_disaggregated import evaluate_pairs
from costmodel.estimate.serving.evaluate_layouts import evaluate
from costmodel.estimate.serving.expert_step import is_dispatched, placed_experts_per_layer, wrong_redundant_experts
from costmodel.estimate.serving.host_loading import host_bytes
from costmodel.estimate.serving.kv_cache import has_entries
from costmodel.estimate.serving.load import OF_CAP, loads_under_cap
from costmodel.estimate.serving.operating_point import INVALID, longer_than_a_step
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.shared.assumptions import WITHOUT_EFFECT, stated_leaves, unused_keys
from costmodel.estimate.shared.plan_batch import leaves_rest
from costmodel.ground.equation import term, untraced
from costmodel.ground.units import Figure, significant

# --- which rows of serving plans are invalid, by code of the reason


Mask = NDArray[np.bool_]


def invalid_halves(inputs: ServingInputs, prefill: PlanColumns, decode: PlanColumns) -> Iterator[tuple[str, Mask]]:
    """Masks of invalid pairs of prefill and decode layouts, by reason code."""
    if inputs.prompts is not None:
        yield from invalid(inputs.prompts, prefill)
        yield from invalid(inputs, decode)
        return
    gpus = prefill.replicas * prefill.ranks + decode.replicas * decode.ranks
    yield "L050", np.asarray(gpus > inputs.ranks)
    for half in (prefill, decode):
        yield from ((code, mask) for code, mask in invalid(inputs, half) if code not in ("L050", "L060"))
    yield from wrong_redundant_experts(inputs, prefill, decode)


def invalid(inputs: ServingInputs, layout: PlanColumns) -> Iterator[tuple[str, Mask]]:
    """Masks of invalid rows, by reason code."""
    model, tp = inputs.model, layout.tp
    yield "L050", np.asarray(layout.replicas * layout.ranks > inputs.ranks)
    layers = [*model.cut_kinds, *(inputs.draft.model.layers if inputs.draft is not None else ())]
    yield "L051", _any_mask(layout, (leaves_rest(count, tp) for kind in layers for count in kind.head_counts))
    heads = [kind.attention.kv_heads for kind in layers if kind.attention is not None]
    yield "L052", _any_mask(layout, (leaves_rest(each, tp) & leaves_rest(tp, each) for each in heads))
    vocab = padded_vocab(model.vocab, inputs.engine.vocab_multiple, 1.0)
    yield "L053", leaves_rest(vocab, tp)
    yield "L054", _any_mask(layout, (leaves_rest(width, tp) for width in dense_inner_widths(model.cut_kinds)))
    yield "L055", np.asarray(layout.pp > layer_count(model))
    if model.on_one_stage:
        yield "L059", np.asarray(layout.pp > 1)
    if inputs.host_pool is not None or inputs.host_experts is not None:
        yield "L061", _past_host_memory(inputs, layout)
    if inputs.load.whole:
        yield "L062", np.broadcast_to(longer_than_a_step(inputs.load, layout.budget) > INVALID, len(layout))
    if inputs.load.verified > 1:
        yield "L058", np.asarray(layout.pp > 1)
    yield from wrong_dcp(inputs, layout, layers)
    yield from _undivided_experts(inputs, layout)


def _past_host_memory(inputs: ServingInputs, layout: PlanColumns) -> Mask:
    """Rows whose ranks need more host memory for cache and experts, or more drive capacity for cache, than there is."""
    host, pool = inputs.case.node, inputs.host_pool
    memory = np.inf if host.memory is None else host.memory.capacity
    with term("on a host"):
        ranks = np.minimum(layout.replicas * layout.ranks, host.built)
        experts = ranks * host_expert_memory(inputs, layout)
        if pool is None:
            return np.asarray(experts > memory)
        cache = ranks * host_bytes(inputs, memory_use(inputs, layout))
    if pool.stated.on == "memory":
        return np.asarray(experts + cache > memory)
    return np.asarray((experts > memory) | (cache > pool.capacity))


def _undivided_experts(inputs: ServingInputs, layout: PlanColumns) -> Iterator[tuple[str, Mask]]:
    """Masks of plans whose ranks do not divide the experts, or that shard experts of a model without any."""
    found = [kind.experts for kind in inputs.model.layers if kind.experts is not None]
    if not found:
        yield "L057", np.asarray((layout.ep > 1) | (layout.dp_attention > 1) | (layout.redundant_experts > 0))
        return
    ranks = layout.stage_ranks
    wrong = leaves_rest(ranks, layout.ep)
    for experts in found:
        parts = layout.ep * experts.ffn_hidden
        held = placed_experts_per_layer(inputs, layout, experts)
        wrong = wrong | leaves_rest(held, layout.ep) | leaves_rest(parts, ranks)
    yield "L056", wrong
    if inputs.engine.expert_ranks == "all":
        yield "L067", np.asarray((layout.ep > 1) & (layout.ep != ranks))
    yield from wrong_redundant_experts(inputs, layout)


def _any_mask(layout: PlanColumns, masks: Iterator[Mask]) -> Mask:
    """A mask that is true where any of several masks is."""
    found: Mask = np.zeros(len(layout), dtype=bool)
    for mask in masks:
        found = found | mask
    return found


def wrong_dcp(
    inputs: ServingInputs, layout: PlanColumns, layers: Sequence[Layers]
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Masks of rows with invalid dcp, by reason code; `layers` are those of the model and of its draft."""
    if not layout.shares_context:
        return
    shared = np.asarray(layout.dcp > 1)
    yield "L063", leaves_rest(layout.tp, layout.dcp)
    few = np.zeros(len(layout), dtype=bool)
    for kind in layers:
        if kind.attention is not None:
            heads, kv_heads = kind.attention.heads, kind.attention.kv_heads
            with term("copies of key-value heads"):
                alike = layout.dcp * kv_heads
                queries = heads / kv_heads
            few = few | np.asarray(alike > layout.tp) | leaves_rest(queries, layout.dcp)
    yield "L064", shared & few
    if not all(divides_cache(inputs.engine, kind) for kind in layers):
        yield "L065", shared


def divides_cache(engine: Engine, kind: Layers) -> bool:
    """Whether an engine divides a layer's cache by tokens under dcp, and costmodel can predict it.

    A window, states, the keys of an indexer, and keys of another layer are not divided.
    """
    own = engine.decode_context
    if kind.heads is None:
        return True
    if own is None or kind.scan_heads or kind.compressed is not None:
        return False
    if kind.latent is not None:
        return "latent" in own.caches and kind.latent.indexer is None
    whole = kind.attention is not None and kind.attention.window is None and not kind.attention.shared_kv
    return "attention" in own.caches and whole


# --- keys that a scenario states and that change no figure of its answer, each with the reason


_SECTIONS = ("workload", "plan", "stack", "assume", "limits")
_OF_FREE = "share-of-free-before"
_OF_EXPERTS = ("saturation_per_s", "rate_within_slo_per_s", "tpot", "ttft_p99", "memory_peak")
_CAPTURED = ("captured", "captured_of_few")
_SAME = 1e-9  # of a figure, by which it may differ


def unused_keys_of_plan(
    inputs: ServingInputs, columns: Sequence[PlanColumns], costs: Mapping[str, float]
) -> Iterator[Assumption]:
    """Keys of the scenario or command line without effect on a plan, or on its prefill and decode, as assumptions."""
    yield from unused_keys(inputs.case)
    stated = set(stated_leaves(inputs.case, _SECTIONS))
    known = {item.path for item in inputs.assumed if item.value == WITHOUT_EFFECT}
    rules = [*unused_serving_keys(inputs, columns), *_unused_cache_keys(inputs, stated)]
    rules += [*_unused_ep(inputs, columns, costs), *_unused_concurrency_cap(inputs, columns, costs)]
    rules += _unused_largest_graph(inputs, columns, costs, stated)
    workload = inputs.case.scenario.workload
    if costs.get("host_hit") == 0 and workload.turns > 1:
        alone = "the pools of the devices hold all turns that come back"
        keys = ("loads",) if workload.rate is not None else ("loads", "size")
        rules += [(f"stack.host_cache.{key}", alone) for key in keys]
    for path, reason in rules:
        for leaf in sorted(stated - known):
            if f"{leaf}.".startswith(f"{path}."):
                known.add(leaf)
                yield Assumption(leaf, WITHOUT_EFFECT, reason)


def unused_serving_keys(inputs: ServingInputs, columns: Sequence[PlanColumns]) -> Iterator[tuple[str, str]]:
    """Keys that other keys, the load or the layout switch off, with the reason for each."""
    yield from _unused_engine_keys(inputs, columns)
    yield from _unused_memory_keys(inputs)
    yield from _unused_default_keys(inputs, columns)
    yield from _unused_load_keys(inputs, columns)
    yield from _unused_prefix_keys(inputs)
    yield from _unused_collective_keys(inputs, columns)


def _unused_engine_keys(inputs: ServingInputs, columns: Sequence[PlanColumns]) -> Iterator[tuple[str, str]]:
    """Keys of the engine that other engine keys switch off."""
    engine = inputs.engine
    yield "stack.kernels.attention", "fits of engines have their own attention"
    if engine.executor != "ray":
        yield "stack.executors", "stack.executor is not ray"
    if engine.graphs:
        yield from ((f"stack.launch.{name}", "stack.graphs is true") for name in ("operation", "operations"))
    if not inputs.model.has_experts:
        yield "stack.launch.prompts.experts", "the model has no experts"
    if not any(kind.latent for kind in inputs.model.layers):
        yield "stack.launch.prompts.latent", "the model has no latent attention"
    if inputs.host_experts is None:
        yield "stack.host_experts", "plan.host_experts is not stated"
    if engine.host_cache is not None and not engine.host_cache.kept:
        yield "stack.host_cache", "neither size nor ratio is stated"
    alone = all(np.all(layout.ranks == 1) for layout in columns)
    if alone:
        yield "stack.memory.group_context", "one accelerator takes stack.memory.context"
    elif all(np.all(layout.ranks > 1) for layout in columns):
        yield "stack.memory.context", "several accelerators take stack.memory.group_context"


def _unused_cache_keys(inputs: ServingInputs, stated: Collection[str]) -> Iterator[tuple[str, str]]:
    """Keys of the default cache types, if other keys decide the cache type."""
    precision = inputs.case.scenario.workload.precision
    if "workload.cache" in stated:
        yield "stack.checkpoint_caches", "workload.cache is stated"
    elif inputs.model.stored_cache is not None:
        yield "stack.checkpoint_caches", "model.stored_cache is stated"
    for other in inputs.engine.checkpoint_caches:
        if other != precision:
            yield f"stack.checkpoint_caches.{other}", f"workload.precision is {precision}"


def _unused_memory_keys(inputs: ServingInputs) -> Iterator[tuple[str, str]]:
    """Keys of step memory and of the rule for the memory share, if the engine's memory definition does not use them."""
    memory, rule = inputs.engine.memory, inputs.engine.thumb_rule
    if memory.definition == _OF_FREE:
        left = "a step has what stack.memory.share leaves"
        yield from ((f"stack.memory.{name}", left) for name in ("logit", "layer"))
    yield from _unused_graph_keys(inputs)
    if memory.share is not None:
        yield "stack.thumb_rule", "stack.memory.share is stated"
    elif memory.definition != _OF_FREE:
        yield "stack.thumb_rule", f"stack.memory.definition is not {_OF_FREE}"
    elif rule is not None:
        for name, other in (("graph_size", "graph_sizes"), ("graph_sizes", "graph_size")):
            if getattr(rule, other) == 0:
                yield f"stack.thumb_rule.{name}", f"stack.thumb_rule.{other} is 0"
        if inputs.usable_memory <= rule.large:
            yield "stack.thumb_rule.least", "the device has no more memory than stack.thumb_rule.large"


def _unused_graph_keys(inputs: ServingInputs) -> Iterator[tuple[str, str]]:
    """Keys of graph memory, for graphs that are not captured and for other kinds of models."""
    if not inputs.engine.graphs:
        yield from ((f"stack.memory.{name}", "stack.graphs is false") for name in ("graph", "graphs"))
        return
    kinds = inputs.model.layers
    experts = "experts" if any(kind.experts is not None for kind in kinds) else "dense"
    own = "compressed" if any(map(has_entries, kinds)) else experts
    for name in ("dense", "experts", "compressed"):
        if name != own and inputs.engine.memory.graph is not None:
            yield f"stack.memory.graph.{name}", f"the model takes stack.memory.graph.{own}"


def _unused_default_keys(inputs: ServingInputs, columns: Sequence[PlanColumns]) -> Iterator[tuple[str, str]]:
    """Keys of defaults for other devices, and of this device's defaults that stated keys replace."""
    engine, part = inputs.engine, inputs.case.accelerator
    picked = engine.picked(part.memory.capacity, part.family)
    row = next(index for index, each in enumerate(engine.defaults) if each is picked)
    for index in range(len(engine.defaults)):
        for name in ("budget", "sequences", *_CAPTURED) if index != row else ():
            yield f"stack.defaults.{index}.{name}", f"{part.name} takes stack.defaults.{row}"
    for name in ("budget", "sequences"):
        if getattr(engine, name) is not None:
            yield f"stack.defaults.{row}.{name}", f"stack.{name} is stated"
    if engine.captured is not None:
        yield from ((f"stack.defaults.{row}.{name}", "stack.captured is stated") for name in _CAPTURED)
    elif picked.captured_of_few is not None:
        few = np.concatenate([np.asarray(layout.tp < FEW_RANKS) for layout in columns])
        if not np.any(few):
            yield f"stack.defaults.{row}.captured_of_few", f"plan.tp is not under {FEW_RANKS:g}"
        elif np.all(few) and (engine.memory.graph is None or not engine.graphs):
            yield f"stack.defaults.{row}.captured", f"plan.tp under {FEW_RANKS:g} takes captured_of_few"
    if not _sized_by_graphs(inputs) and (not engine.graphs or engine.launch is None or engine.launch.prompts is None):
        reason = "no share follows from stack.thumb_rule, nor memory of graphs"
        yield from (
            (path, reason) for path in ("stack.captured", *(f"stack.defaults.{row}.{name}" for name in _CAPTURED))
        )


def _sized_by_graphs(inputs: ServingInputs) -> bool:
    """Whether memory depends on how many graphs are captured."""
    engine = inputs.engine
    shared = engine.memory.definition == _OF_FREE and engine.memory.share is None and engine.thumb_rule is not None
    return shared or (engine.memory.graph is not None and engine.graphs)


def _unused_largest_graph(
    inputs: ServingInputs, columns: Sequence[PlanColumns], costs: Mapping[str, float], stated: Collection[str]
) -> Iterator[tuple[str, str]]:
    """The largest captured batch, if no step that counts is larger and would wait for launches."""
    paths = [path for path in sorted(stated) if path.startswith("stack.") and path.rpartition(".")[2] in _CAPTURED]
    if not paths or _sized_by_graphs(inputs) or len(columns) > 1:
        return
    whole = replace(inputs, engine=inputs.engine.model_copy(update={"captured": Figure(math.inf)}))
    with untraced():
        other = evaluate(whole, columns[0]).results.row()
    if all(np.isclose(costs[name], other[name], rtol=_SAME, atol=0.0, equal_nan=True) for name in _OF_EXPERTS):
        yield from ((path, "no step waits longer for launches without a graph") for path in paths)


def _unused_load_keys(inputs: ServingInputs, columns: Sequence[PlanColumns]) -> Iterator[tuple[str, str]]:
    """Keys that have an effect only under another kind of load."""
    workload, engine = inputs.case.scenario.workload, inputs.engine
    if workload.traffic != "burst":
        yield "stack.burst", "workload.traffic is not burst"
    if workload.requests is None:
        yield "workload.output.law", "no batch is stated (requests)"
    if workload.turns == 1:
        yield "stack.host_cache", "workload.turns is 1, so no turn comes back"
    if workload.turns == 1 and not (workload.shared_prefix or workload.beginnings or engine.prefix_cache):
        yield "stack.prefix_cache", "no prompts share a prefix, and workload.turns is 1"
    if workload.single_token:
        yield from ((f"limits.{name}", "an answer is one token, and none follows it") for name in BETWEEN_TOKENS)
    sized = workload.turns > 1 and workload.rate is not None  # by what turns find on several replicas
    if all(np.all(layout.replicas == 1) for layout in columns) and not sized:
        yield "assume.routing", "one replica gets all requests"
    elif workload.turns == 1 and (len(columns) > 1 or workload.at_once is not None):
        yield "assume.routing", "workload.turns is 1, and each replica gets as many requests as the others"
    elif workload.turns == 1 and inputs.case.scenario.assume.routing == "cache-aware" and not workload.beginnings:
        yield "assume.routing", "workload.turns is 1, so requests go at random"
    if len(columns) == 1:
        yield "assume.cache_transfer", "no instances for prompts are apart"


def _unused_prefix_keys(inputs: ServingInputs) -> Iterator[tuple[str, str]]:
    """Keys of cached prompts, if the engine has no prefix cache or all replicas cache the same."""
    workload, routing = inputs.case.scenario.workload, inputs.case.scenario.assume.routing
    if not inputs.engine.prefix_cache:
        off = "stack.prefix_cache is false"
        if workload.turns == 1:
            yield from ((f"workload.{name}", off) for name in ("shared_prefix", "beginnings"))
        elif workload.users is None:
            yield "workload.think_time", off
        if routing == "cache-aware":
            yield "assume.routing", off
    if workload.turns > 1 and workload.at_once is not None and routing == "least-loaded":
        yield "assume.routing", "each replica has as many requests as the others"


def _unused_collective_keys(inputs: ServingInputs, columns: Sequence[PlanColumns]) -> Iterator[tuple[str, str]]:
    """Keys of collectives that the layout or the model does not use."""
    sent = [bool(np.all(is_dispatched(inputs, layout))) for layout in columns]
    if inputs.experts is None:
        of_experts = ("stack.expert_ranks", "stack.dispatch", "stack.spread.experts")
        yield from ((path, "the model has no experts") for path in of_experts)
    else:
        yield "stack.spread.tpot", "that of models with experts is stack.spread.experts"
        if not any(sent):
            yield "stack.dispatch", "tokens are gathered, as their experts lie on one node or are cut by tp"
        if all(np.all(layout.ep == 1) for layout in columns):
            yield "assume.experts.imbalance", "plan.ep is 1"
    if all(np.all(layout.dp_attention == 1) for layout in columns):
        yield "stack.prompt_wait", "plan.dp_attention is 1"
    if all(np.all((layout.tp == 1) | (layout.tp > inputs.domain)) for layout in columns):
        yield "stack.kernels.own_all_reduce", "plan.tp is 1, or more than a domain has"
    if not any(layout.shares_context for layout in columns):
        yield "stack.decode_context", "plan.dcp is 1"
    if all(_stays_in_one_domain(inputs, layout, each) for layout, each in zip(columns, sent, strict=True)):
        yield "assume.network_share", "no collective leaves its domain"


def _unused_ep(
    inputs: ServingInputs, columns: Sequence[PlanColumns], costs: Mapping[str, float]
) -> Iterator[tuple[str, str]]:
    """The key plan.ep, if experts sharded by tp give identical results."""
    if len(columns) > 1 or np.all(columns[0].ep == 1) or np.any(columns[0].redundant_experts):
        return
    with untraced():
        other = evaluate(inputs, replace(columns[0], ep=np.ones_like(columns[0].ep))).results.row()
    if all(np.isclose(costs[name], other[name], rtol=_SAME, atol=0.0, equal_nan=True) for name in _OF_EXPERTS):
        yield (
            "plan.ep",
            "figures are those of plan.ep 1; unequal load of experts (assume.experts.imbalance) makes them differ",
        )


def _unused_concurrency_cap(
    inputs: ServingInputs, columns: Sequence[PlanColumns], costs: Mapping[str, float]
) -> Iterator[tuple[str, str]]:
    """The key for the concurrency cap, if the rate alone keeps fewer requests in flight."""
    loads = loads_under_cap(inputs)
    if loads is None or costs["requests_per_s"] < float(inputs.case.scenario.workload.rate or 0.0):
        return
    with untraced():
        if len(columns) == 1:
            alone = evaluate(loads[0], columns[0]).results.row()
        else:
            alone = evaluate_pairs(loads[0], *columns, compared=False).results.row()
    if all(np.isclose(costs[name], alone[name], rtol=_SAME, atol=0.0, equal_nan=True) for name in OF_CAP):
        yield "workload.concurrency", f"{significant(alone['concurrency'])} are in flight of a replica at that rate"


def _stays_in_one_domain(inputs: ServingInputs, layout: PlanColumns, sent: bool) -> bool:
    """Whether all collectives stay in a domain; dispatch to experts and pipeline sends do not count."""
    ranks = layout.tp if sent else layout.stage_ranks
    return bool(np.all(ranks <= inputs.domain))
