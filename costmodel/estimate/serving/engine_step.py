"""A step of a replica: what it carries, and its time through all stages, of decode only or with prompt tokens."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np

from costmodel.documents.schemas.model import Layers
from costmodel.equations.kernels.flop import matmul_flop
from costmodel.equations.kernels.memory_traffic import embedding_traffic, norm_traffic
from costmodel.equations.kernels.roofline import attention_forward_time, host_bound_time, matmul_time, stream_time
from costmodel.equations.network.collectives import activation_message
from costmodel.equations.network.overlap import exposed_time
from costmodel.equations.network.topology import carried_over
from costmodel.equations.serving.engine_step import (
    busiest_group_prompts,
    busiest_group_sequences,
    eager_launch_time,
    engine_all_reduce_time,
    gathering_steps,
    prompt_launch_time,
    prompts_gathered,
    prompts_of_a_step_with_any,
    weight_product_bytes,
)
from costmodel.estimate.machine.collective_time import collective_time, send_time
from costmodel.estimate.machine.process_groups import Group, link_of
from costmodel.estimate.model.mixers.mixer import Matmul
from costmodel.estimate.model.mixers.mixing_half import core_flop, inner_all_reduce_width, mixer_traffic
from costmodel.estimate.model.shards import (
    Shard,
    entry_traffic,
    layer_count,
    layer_matmuls,
    patch_matmul,
    projector_matmuls,
    residual_additions,
    shard,
    side_traffic,
    stream_additions,
    stream_head_matmuls,
    stream_traffic,
    stream_width,
    tower_model,
)
from costmodel.estimate.serving.element_types import WIDE
from costmodel.estimate.serving.engine_memory import adapter_time, largest_captured, vocab_rows
from costmodel.estimate.serving.expert_step import expert_exchange, expert_layer, runs_in_halves
from costmodel.estimate.serving.kv_cache import (
    dcp_latent_time,
    dcp_prompt_time,
    dcp_query_time,
    decode_attention,
    prompt_attention,
)
from costmodel.estimate.serving.plan_columns import PlanColumns, engine_group, shard_of
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, is_any, known_as, term
from costmodel.ground.record import record

# --- what a step carries, and the part of it that the busiest attention group computes, for which the others wait


@record
class Batch:
    """Contents of a step: decoding sequences, prompt tokens, and the number of prompts."""

    decodes: Number
    context: Number
    tokens: Number = 0.0
    prompts: Number = 0.0
    verified: float = 1.0  # rows of a sequence that decodes

    @property
    def queries(self) -> Number:
        """Number of query rows of the decoding sequences."""
        return self.decodes if self.verified == 1 else self.verified * self.decodes

    @property
    def has_prompts(self) -> bool:
        """Whether any of the steps carries prompts."""
        return is_any(self.tokens)

    @property
    def rows(self) -> Number:
        """Number of token rows in the step's matrix products."""
        return self.queries + self.tokens

    @property
    def sampled_rows(self) -> Number:
        """Number of rows that sample a token: one per query and per prompt."""
        return self.queries + self.prompts


def step_budget(layout: PlanColumns) -> Number:
    """Maximum tokens of a step over all attention groups."""
    if not layout.grouped:
        return layout.budget
    with term("budget of all groups"):
        return layout.budget * layout.dp_attention


def whole_budget(layout: PlanColumns) -> PlanColumns:
    """The plans, with the token budget of all attention groups together."""
    return replace(layout, budget=np.asarray(step_budget(layout))) if layout.grouped else layout


def prompt_chunk(inputs: ServingInputs, layout: PlanColumns) -> Number:
    """Tokens of one prompt in a step (its chunk)."""
    return np.minimum(inputs.load.computed, layout.budget)


@record
class AttentionGroups:
    """The attention groups of plans; each has its own requests."""

    count: Number
    piece: Number  # tokens that a step computes of one prompt
    budget: Number  # tokens of a step of one group
    wait: float | None = None  # steps that prompts wait at most for those of other groups

    def sequences(self, sequences: Number) -> Number:
        """Sequences of a step in the busiest group."""
        return busiest_group_sequences(sequences, self.count)

    def tokens(self, tokens: Number) -> Number:
        """Prompt tokens of a step in the busiest group, in whole chunks."""
        even = tokens / self.count
        with term("pieces of prompts"):
            if self.wait is None:
                busiest = self.piece * busiest_group_prompts(tokens / self.piece, self.count)
            else:
                busiest = np.minimum(self.piece, tokens)
        return np.where(self.count > 1, np.maximum(np.minimum(busiest, self.budget), even), tokens)

    def prompt_chunks(self, prompts: Number) -> Number:
        """Number of prompt chunks in a step that has any, from the mean over all steps."""
        if self.wait is None:
            return prompts_of_a_step_with_any(prompts)
        return prompts_gathered(prompts, self.count, self.wait)

    def steps_waited(self, prompts: Number, sequences: Number) -> Number:
        """Number of steps that a prompt waits for prompts of other groups."""
        if self.wait is None:
            return 0.0
        steps = gathering_steps(prompts, self.count, self.wait)
        return np.where((self.count > 1) & (sequences >= self.count), steps, 0.0)


def own_sequences(layout: PlanColumns, sequences: Number) -> Number:
    """Sequences of a step in the busiest attention group."""
    return busiest_group_sequences(sequences, layout.dp_attention) if layout.grouped else sequences


def groups_of(inputs: ServingInputs, layout: PlanColumns) -> AttentionGroups | None:
    """The attention groups of plans; None if no plan has several."""
    if not layout.grouped:
        return None
    return AttentionGroups(layout.dp_attention, prompt_chunk(inputs, layout), layout.budget, inputs.engine.prompt_wait)


def busiest_group(inputs: ServingInputs, layout: PlanColumns, batch: Batch) -> Batch:
    """The part of a batch that the busiest attention group computes."""
    groups = groups_of(inputs, layout)
    if groups is None:
        return batch
    with term("busiest group"):
        own = replace(batch, decodes=groups.sequences(batch.decodes))
        if not batch.has_prompts:
            return own
        tokens = groups.tokens(batch.tokens)
        return replace(own, tokens=tokens, prompts=tokens / inputs.load.computed)


# --- time of one step of a replica through all its stages: decode only, or decode with prompt tokens


# Time in which the device waits for launches: without captured graphs the host launches every kernel of a step.


@record
class Launches:
    """Host time to launch the kernels of a step; None if it replays a captured graph."""

    decode: Number | None = None  # of a step without prompts
    prompts: Number | None = None  # of one with
    captured: Number = np.inf  # sequences of a step up to which a graph is replayed

    def decode_launch_time(self, sequences: Number) -> Number | None:
        """Host time of a step with so many sequences of an attention group, without prompts."""
        if self.prompts is None or not self.is_beyond_graphs(sequences):
            return self.decode
        return np.where(np.asarray(sequences) > self.captured, self.prompts, 0.0)

    def is_beyond_graphs(self, sequences: Number) -> bool:
        """Whether graphs are replayed, but none was captured for so many sequences of an attention group."""
        graphs = self.decode is None and self.prompts is not None
        return graphs and bool(np.any(np.asarray(sequences) > self.captured))


def launches_of(inputs: ServingInputs, layout: PlanColumns) -> Launches:
    """Host time of launches in steps without and with prompts; twice for a batch in two halves."""
    engine, launch, kinds = inputs.engine, inputs.engine.launch, inputs.model.layers
    if launch is None or (engine.graphs and launch.prompts is None):
        return Launches()
    both = runs_in_halves(inputs, layout)
    with term("launches"):
        times = 1.0 if both is None else np.where(both, 2.0, 1.0)
        layers, each = layer_count(inputs.model), launch.prompts
        eager = times * eager_launch_time(layers, launch.operations, launch.operation)
        if each is None:
            return Launches(eager, eager)
        mixed = sum(kind.count for kind in kinds if kind.experts is not None)
        latent = sum(kind.count for kind in kinds if kind.latent is not None)
        python = times * prompt_launch_time(layers, each.layer, mixed, each.experts, latent, each.latent)
        if engine.graphs:
            return Launches(None, python, largest_captured(inputs, layout.tp))
        return Launches(*(np.maximum(python, eager),) * 2)


def launch_wait(device: Number, launches: Number) -> Number:
    """Time that launches add to a step with this device time."""
    with term("launches"):
        return host_bound_time(device, launches) - device


@record
class StepTime:
    """Seconds of an engine step, by category."""

    matmul: Number = 0.0
    attention: Number = 0.0
    memory_bound: Number = 0.0
    tp: Number = 0.0
    ep: Number = 0.0
    pp: Number = 0.0
    host: Number = 0.0
    draft: Number = 0.0
    dcp: Number = 0.0

    def __add__(self, other: StepTime) -> StepTime:
        return StepTime(*map(operator.add, _terms(self), _terms(other)))

    def times(self, count: Number) -> StepTime:
        """The times multiplied by a count."""
        return StepTime(*(count * time for time in _terms(self)))

    @property
    def compute(self) -> Number:
        """Seconds of compute on the device: matrix products, attention and memory-bound work."""
        return self.matmul + self.attention + self.memory_bound

    @property
    def total(self) -> Number:
        """Seconds of the whole step."""
        total: Number = 0.0
        for name in STEP_TERMS:
            spent = getattr(self, name)
            if isinstance(spent, float) and spent == 0:
                continue
            total = total + known_as(name, spent)
        return total


STEP_TERMS = tuple(field.name for field in fields(StepTime))
_terms = operator.attrgetter(*STEP_TERMS)


def step_time(inputs: ServingInputs, layout: PlanColumns, batch: Batch) -> StepTime:
    """Time of a step: all layers, head, sends between pipeline stages, and host.

    Attention groups wait for the busiest of them.
    """
    found = _batch_time(inputs, layout, batch)
    return found if layout.time_factor is None else found.times(layout.time_factor)


def _batch_time(inputs: ServingInputs, layout: PlanColumns, batch: Batch) -> StepTime:
    """Seconds of one step by term: rows, attention, head and host, for this batch."""
    if batch.has_prompts and not inputs.engine.mixed:
        alone = replace(batch, tokens=0.0, prompts=0.0)
        return _batch_time(inputs, layout, alone) + prompt_step_time(inputs, layout, batch.tokens)
    own = busiest_group(inputs, layout, batch)
    total = time_by_rows(inputs, layout, batch.rows, own.rows, prompts=batch.has_prompts)
    total = total + decode_time(inputs, layout, own.decodes, batch.context)
    if batch.has_prompts:
        total = total + prompt_time(inputs, layout, own.tokens)
    total = total + head_time(inputs, layout, own.sampled_rows)
    if layout.shares_context:
        total = total + context_time(inputs, layout, own.queries)
    host = host_time(inputs, batch.decodes)
    launches = launches_of(inputs, layout)
    waited = launches.prompts if batch.has_prompts else launches.decode_launch_time(own.decodes)
    total = with_host(with_overlapped_halves(inputs, layout, total), host, waited)
    return total if inputs.draft is None else total + _draft_time(inputs.draft, layout, batch)


def with_overlapped_halves(inputs: ServingInputs, layout: PlanColumns, step: StepTime) -> StepTime:
    """A step in which each half of the batch hides its all-to-all behind the other half's compute."""
    both = runs_in_halves(inputs, layout)
    if both is None:
        return step
    with term("other half"):
        shown = exposed_time(step.ep, step.compute, 1.0, 0.0)
    return replace(step, ep=np.where(both, shown, step.ep))


def with_host(device: StepTime, host: StepTime, launches: Number | None) -> StepTime:
    """A step with the host's time, and with the wait for kernel launches if no graph is replayed."""
    if launches is not None:
        device = device + StepTime(host=launch_wait(device.total, launches))
    return device + host


def _draft_time(draft: ServingInputs, layout: PlanColumns, batch: Batch) -> StepTime:
    """Seconds that the draft model adds to a step: one pass per token of a chain, or per level of a tree."""
    own = replace(batch, verified=draft.load.verified)
    with term("draft"):
        first = _batch_time(draft, layout, own).total
        later = _batch_time(draft, layout, Batch(batch.decodes, batch.context, verified=draft.load.verified)).total
    return StepTime(draft=first + (draft.load.passes - 1.0) * later)


def prompt_step_seconds(inputs: ServingInputs, layout: PlanColumns, tokens: Number) -> Number:
    """Seconds of a step with prefill only, for so many prompt tokens."""
    return layout.longer(prompt_step_time(inputs, layout, tokens).total)


def prompt_step_time(inputs: ServingInputs, layout: PlanColumns, tokens: Number) -> StepTime:
    """A step with prefill only, by category."""
    batch = Batch(0.0, 0.0, tokens, tokens / inputs.load.computed)
    own = busiest_group(inputs, layout, batch)
    beside = time_by_rows(inputs, layout, tokens, own.tokens, prompts=True) + prompt_time(inputs, layout, own.tokens)
    device = with_overlapped_halves(inputs, layout, beside + head_time(inputs, layout, own.prompts))
    with term("host"):
        spent = StepTime(host=inputs.engine.step_host)
    total = with_host(device, spent, launches_of(inputs, layout).prompts)
    if inputs.draft is None:
        return total
    with term("draft"):
        return total + StepTime(draft=prompt_step_time(inputs.draft, layout, tokens).total)


def time_by_rows(inputs: ServingInputs, layout: PlanColumns, rows: Number, own: Number, *, prompts: bool) -> StepTime:
    """Seconds of all parts of a step that depend on its rows: everything except attention and the head.

    own: rows of the busiest attention group
    prompts: whether the rows include prompt tokens, which decides how tokens reach experts over many domains
    """
    if (both := runs_in_halves(inputs, layout)) is not None:
        with term("halves of a batch"):
            halves = np.where(both, 2.0, 1.0)
            each, own = rows / halves, own / halves
        return _layers_time(inputs, layout, each, own, prompts=prompts).times(halves)
    return _layers_time(inputs, layout, rows, own, prompts=prompts)


def _layers_time(inputs: ServingInputs, layout: PlanColumns, rows: Number, own: Number, *, prompts: bool) -> StepTime:
    """Seconds of the weight matrices of all layers for this many token rows; `own` are those of one group."""
    tp = engine_group(inputs, layout, "tp", layout.tp)
    total = StepTime()
    for kind in inputs.model.layers:
        with term("layer"):
            layer = _layer_time(inputs, layout, kind, tp, (rows, own), prompts=prompts)
        total = total + layer.times(kind.count)
    return total + _lookup_and_sends(inputs, layout, own)


def _layer_time(
    inputs: ServingInputs, layout: PlanColumns, kind: Layers, tp: Group, both: tuple[Number, Number], *, prompts: bool
) -> StepTime:
    """Seconds of one layer without attention; `both`: token rows of all groups, and of the busiest."""
    part, (rows, own) = shard_of(inputs.model, layout, kind), both
    maps: Number = 0.0
    adapted = inputs.case.scenario.workload.adapters is not None
    for matrix in layer_matmuls(inputs.model, part):
        with term(matrix.name):
            maps = maps + matmul_seconds(inputs, own, matrix, narrow=matrix.name not in WIDE)
            maps = maps + adapter_time(inputs, own, matrix) if adapted else maps
    exchanged: Number = 0.0
    if kind.experts is not None:
        maps = maps + expert_layer(inputs, layout, kind.experts, rows)
        exchanged = expert_exchange(inputs, layout, kind.experts, rows, prompts=prompts)
    with term("tp all-reduce"):
        message = activation_message(own, inputs.model.hidden, inputs.types.wide)
        reduced = all_reduces_per_layer(layout, kind) * all_reduce(inputs, tp, message)
        if width := inner_all_reduce_width(kind):
            reduced = reduced + all_reduce(inputs, tp, activation_message(own, width, inputs.types.wide))
    step = StepTime(matmul=maps, memory_bound=_memory_bound_seconds(inputs, part, own), tp=reduced, ep=exchanged)
    if not layout.shares_context or kind.attention is None:
        return step
    with term("decode context"):
        shared = dcp_query_time(inputs, layout, part, own)
    return replace(step, memory_bound=step.memory_bound + shared.passes, dcp=shared.exchange)


def decode_time(inputs: ServingInputs, layout: PlanColumns, decodes: Number, context: Number) -> StepTime:
    """Decode attention over the KV cache, for the sequences of one attention group."""
    return StepTime(
        attention=_in_all_layers(inputs, layout, lambda part: decode_attention(inputs, layout, part, decodes, context))
    )


def host_time(inputs: ServingInputs, decodes: Number) -> StepTime:
    """Host time of a step with so many sequences."""
    engine = inputs.engine
    with term("host"):
        return StepTime(host=engine.step_host + engine.host.sequence * decodes)


def prompt_time(inputs: ServingInputs, layout: PlanColumns, tokens: Number) -> StepTime:
    """Prefill attention and vision tower, for the prompt tokens of one attention group."""
    with term("prompts"):
        attention = _in_all_layers(inputs, layout, lambda part: prompt_attention(inputs, layout, part, tokens))
    gathered = dcp_prompt_time(inputs, layout, tokens)
    if inputs.model.vision is None:
        return StepTime(attention=attention, dcp=gathered)
    seen = vision_time(inputs, layout, tokens)
    return StepTime(seen.matmul, attention + seen.attention, seen.memory_bound, dcp=gathered)


def _in_all_layers(inputs: ServingInputs, layout: PlanColumns, of_layer: Callable[[Shard], Number]) -> Number:
    """Seconds of attention in all layers, from the time of one layer of each kind."""
    total: Number = 0.0
    with term("attention"):
        for kind in inputs.model.layers:
            part = shard_of(inputs.model, layout, kind)
            if part.mixer is not None:
                total = total + kind.count * of_layer(part)
    return total


def context_time(inputs: ServingInputs, layout: PlanColumns, queries: Number) -> StepTime:
    """Time of dcp exchanges in latent attention, for the queries of one attention group."""
    found = dcp_latent_time(inputs, layout, queries)
    return StepTime(memory_bound=found.passes, dcp=found.exchange)


def head_time(inputs: ServingInputs, layout: PlanColumns, rows: Number) -> StepTime:
    """Time of the head for the rows of one attention group that sample a token: each sequence and each prompt."""
    with term("head"):
        table = Matmul("head", vocab_rows(inputs, layout.tp), inputs.model.hidden)
        times = matmul_seconds(inputs, rows, table, narrow=False, kept=inputs.types.head)
        for matrix in stream_head_matmuls(inputs.model, layout.tp):
            times = times + matmul_seconds(inputs, rows, matrix, narrow=False)
        return StepTime(matmul=times)


def all_reduces_per_layer(layout: PlanColumns, kind: Layers) -> Number:
    """All-reduces of one layer: after attention, and after the MLP.

    Experts that serve several attention groups exchange tokens instead.
    """
    halves = (kind.heads is not None) + (kind.feed is not None)
    count = 1.0 if kind.parallel else float(halves)
    if kind.experts is None or kind.parallel:
        return count
    return np.where(layout.dp_attention > 1, count - 1.0, count)


def all_reduce(inputs: ServingInputs, tp: Group, message: Number) -> Number:
    """All-reduce time: the engine's custom all-reduce for small messages inside a domain, else NCCL's."""
    alone = tp.ranks <= 1
    if np.all(alone):
        return 0.0
    with term("nccl"):
        nccl = collective_time(inputs, message, tp, "all_reduce")
    fit, most = inputs.kernels.all_reduce, inputs.engine.kernels.own_all_reduce
    if fit is None or most is None or not np.any(most):
        return np.where(alone, 0.0, nccl)
    rate = carried_over(fit.bandwidth, link_of(inputs, tp.inside), fit.link)
    own = engine_all_reduce_time(message, tp.ranks, fit.start, fit.hop, rate, fit.shot)
    return np.where((message <= most) & (tp.domains <= 1), own, np.where(alone, 0.0, nccl))


def own_all_reduce_rows(inputs: ServingInputs, layout: PlanColumns) -> Number | None:
    """Rows of a step up to which the custom all-reduce is used; None if the engine has none, or no plan reduces.

    For a step in two halves: the rows of both halves.
    """
    most = inputs.engine.kernels.own_all_reduce
    if (
        inputs.kernels.all_reduce is None
        or most is None
        or not np.any(most)
        or np.all((layout.tp == 1) | (layout.tp > inputs.domain))
    ):
        return None
    both, rows = runs_in_halves(inputs, layout), most / activation_message(1.0, inputs.model.hidden, inputs.types.wide)
    return rows if both is None else np.where(both, 2.0, 1.0) * rows


def _memory_bound_seconds(inputs: ServingInputs, part: Shard, rows: Number) -> Number:
    """Seconds of memory-bound kernels of a layer: norms, residual additions, activation, rotary embedding."""
    kind, model, element = part.kind, inputs.model, inputs.types.wide
    calls = kind.norms + (1.0 if part.mixer is not None else 0.0) + (1.0 if part.dense is not None else 0.0)
    with term("memory-bound"):
        added = stream_additions(model, residual_additions(kind))
        nbytes = norm_traffic(rows, model.hidden, kind.norms, added, element, dropout=False, fused=True, backward=False)
        if model.residual_streams is not None:
            nbytes = nbytes + stream_traffic(model, residual_additions(kind), rows, element, backward=False)
            calls = calls + 2.0 * residual_additions(kind)
        if kind.side_rank is not None:
            nbytes, calls = nbytes + side_traffic(model, kind, rows, element, backward=False), calls + 1.0
        if part.dense is not None:
            nbytes = nbytes + part.dense.traffic(rows, element, backward=False)
        if part.mixer is not None:
            nbytes = nbytes + mixer_traffic(model, kind, part.mixer, rows, element, backward=False)
        if model.layer_embedding is not None:
            nbytes = nbytes + entry_traffic(model, rows, element, backward=False)
        moved = stream_time(nbytes, inputs.memory_bandwidth, inputs.memory_share)
        return calls * inputs.engine.kernels.operation + moved


def _lookup_and_sends(inputs: ServingInputs, layout: PlanColumns, rows: Number) -> StepTime:
    """Seconds of the embedding lookup and of sends between pipeline stages for this many rows."""
    with term("embedding"):
        nbytes = embedding_traffic(rows, inputs.model.hidden, inputs.types.wide)
        lookup = stream_time(nbytes, inputs.memory_bandwidth, inputs.memory_share)
    if np.all(layout.pp == 1):
        return StepTime(memory_bound=lookup)
    with term("pp send"):
        stages = engine_group(inputs, layout, "pp", layout.pp, layout.stage_ranks)
        message = activation_message(rows, stream_width(inputs.model), inputs.types.wide)
        sent = (layout.pp - 1.0) * send_time(inputs, message, stages)
    return StepTime(memory_bound=lookup, pp=np.where(layout.pp > 1, sent, 0.0))


@record
class VisionTime:
    """Seconds of the vision tower: matrix products, attention and memory-bound work."""

    matmul: Number = 0.0
    attention: Number = 0.0
    memory_bound: Number = 0.0


def vision_time(inputs: ServingInputs, layout: PlanColumns, tokens: Number) -> VisionTime:
    """Time of the vision tower for the images in so many prompt tokens; it runs in 16 bits, without a cache."""
    tower, images = inputs.model.vision, inputs.case.scenario.workload.images
    if tower is None or images is None:
        return VisionTime()
    with term("vision tower"):
        model, element = tower_model(inputs.model, tower), inputs.types.wide
        seen = tokens / inputs.load.computed * images.count
        patches = images.tokens * tower.merge
        rows = seen * patches
        maps = matmul_seconds(inputs, rows, patch_matmul(tower), narrow=False)
        cores: Number = 0.0
        moved: Number = 0.0
        for kind in tower.layers:
            part = shard(model, kind, layout.tp)
            for matrix in layer_matmuls(model, part):
                maps = maps + kind.count * matmul_seconds(inputs, rows, matrix, narrow=False)
            nbytes = norm_traffic(
                rows,
                tower.hidden,
                kind.norms,
                residual_additions(kind),
                element,
                dropout=False,
                fused=True,
                backward=False,
            )
            if part.dense is not None:
                nbytes = nbytes + part.dense.traffic(rows, element, backward=False)
            if part.mixer is not None:
                nbytes = nbytes + mixer_traffic(model, kind, part.mixer, rows, element, backward=False)
                flop = core_flop(kind, part.mixer, seen, patches, part.mixer.heads, causal=False)
                rate = inputs.kernels.prompt.forward_share * inputs.types.peak_wide
                cores = cores + kind.count * attention_forward_time(flop, rate, 1.0)
            moved = moved + kind.count * stream_time(nbytes, inputs.memory_bandwidth, inputs.memory_share)
        for own in tower.projectors:
            for matrix in projector_matmuls(inputs.model, own, layout.tp):
                maps = maps + own.count * matmul_seconds(inputs, rows / tower.merge, matrix, narrow=False)
    return VisionTime(maps, cores, moved)


def matmul_seconds(
    inputs: ServingInputs, rows: Number, matrix: Matmul, *, narrow: bool, kept: Number | None = None
) -> Number:
    """Seconds to multiply `rows` rows by a weight matrix; `kept`: bytes per stored weight."""
    types = inputs.types
    fit, peak = (types.fit, types.peak) if narrow else (types.fit_wide, types.peak_wide)
    weight = kept if kept is not None else types.weight if narrow else types.wide
    operand = types.operand if narrow else types.wide
    columns = matrix.split * matrix.n
    return matmul_time(
        matmul_flop(rows, columns, matrix.k),
        weight_product_bytes(rows, columns, matrix.k, weight, operand, types.wide),
        peak,
        inputs.memory_bandwidth,
        fit.compute_share,
        fit.memory_share,
        fit.start,
        fit.exponent,
        1.0,  # kernels alone: what steps take beyond them is the engine's host time
    )
