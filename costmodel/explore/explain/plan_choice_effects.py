"""What each choice of a training plan, such as gradient compression, changes in its step time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from costmodel.documents.schemas.base import InTokens, StragglerAssumption
from costmodel.documents.schemas.sync import USUAL, sync_of
from costmodel.equations.data_parallel import (
    best_batch,
    break_even_bandwidth,
    carried_learning_rate,
    largest_gathered_group,
    local_traffic_share,
    mean_staleness,
    samples_for_batch,
    staleness_break_even,
    steps_for_batch,
)
from costmodel.equations.parallelism.counts import remainder
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.shared.critical_batch import FITS_APART, critical_batch, is_fitted, other_meaning
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.parallelism.data import (
    codec_time,
    compressed_bytes,
    compression_method,
    factor_shares,
    warm_up,
)
from costmodel.estimate.training.plan_constraints import replicas_on_nodes
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.estimate.training.training_step import exchange, to_use_well
from costmodel.estimate.training_answer.predict_training import Answer, predict
from costmodel.estimate.training_answer.predict_training import answer as answered
from costmodel.ground.record import record
from costmodel.ground.units import counted, show, show_time, significant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from costmodel.documents.reader.resolved_scenario import ResolvedScenario
    from costmodel.documents.schemas.base import Sites
    from costmodel.estimate.machine.process_groups import Transfer
    from costmodel.explore.explain.plan_remedies import RunOutlook
    from costmodel.explore.search.cheapest_changes import Remedy


FREE = 1e18  # bytes a second of a link that nothing waits for


@record
class Effect:
    """One choice: its key and value, the step time with it and without it, and sentences about it."""

    key: str
    value: str
    step_time: float
    without: float
    words: tuple[str, ...] = ()
    always: bool = False  # whether the words belong to every answer

    @property
    def saved(self) -> float:
        """Step time [s] that the choice saves; negative if it costs time."""
        return self.without - self.step_time


def effects(answer: Answer) -> list[Effect]:
    """The effect of each choice of the plan that could be left out; none for a rejected plan."""
    return [] if answer.refused else list(_all_effects(answer))


def _all_effects(answer: Answer) -> Iterator[Effect]:
    """The effect of each choice of a plan that could be left out, such as compression or stragglers."""
    step = _step_time(answer)
    block = answer.evaluation.block
    compression = block.structure.compression
    if compression != "none":
        plain = answered(answer.inputs, answer.plan.model_copy(update={"compression": "none"}))
        yield Effect("plan.compression", compression, step, _step_time(plain), tuple(_compression_lines(answer, plain)))

    if block.structure.sync != USUAL:
        plain = answered(answer.inputs, answer.plan.model_copy(update={"sync": USUAL}))
        yield Effect("plan.sync", block.structure.sync, step, _step_time(plain), tuple(_sync_lines(answer, plain)))
    if (critical := critical_batch(answer.inputs.case.scenario.workload)) is not None:
        yield _batch_effect(answer, float(critical))
    if answer.inputs.case.scenario.workload.learning_rate is not None:
        yield _learning_rate_effect(answer)
    if answer.inputs.sites is not None:
        yield _sites_effect(answer, answer.inputs.sites)
    if answer.inputs.groups and block.structure.shares == "proportional":
        plain = answered(answer.inputs, answer.plan.model_copy(update={"shares": "equal"}))
        yield Effect(
            "plan.shares", "proportional", step, _step_time(plain), tuple(_batch_share_lines(answer)), always=True
        )
    if answer.inputs.groups and block.structure.shares == "stages":
        yield Effect(
            "plan.shares",
            "stages",
            step,
            _step_time_with_equal_layers(answer),
            tuple(_stage_layer_lines(answer)),
            always=True,
        )
    if stated := _straggler_text(answer):
        plain = _answer_without_stragglers(answer)
        yield Effect("assume.stragglers", stated, step, _step_time(plain))


def _batch_effect(answer: Answer, critical: float) -> Effect:
    """The effect of the global batch: steps and samples to reach a loss, and the fastest batch."""
    case, step = answer.inputs.case, _step_time(answer)
    workload = case.scenario.workload
    batch = float(workload.global_batch * workload.sequence)
    doubled = workload.model_copy(update={"global_batch": workload.global_batch * 2})
    twice = replace(case, scenario=case.scenario.model_copy(update={"workload": doubled}))
    growing = _step_time(answered(training_inputs(twice), answer.plan)) - step
    ranks = number(answer.inputs.all_ranks)
    fixed, each = max(step - growing, 0.0), growing * ranks / batch
    steps, samples = (float(law(1.0, critical, batch)) for law in (steps_for_batch, samples_for_batch))
    best = float(best_batch(critical, fixed, ranks, each))
    words: tuple[str, ...] = (
        f"{significant(steps, 3)} times the least steps to a loss, {significant(samples, 3)} times the least samples",
        f"training to a loss is fastest with {significant(best / 1e6, 3)} M tokens a step on these GPUs",
    )
    value = f"{significant(critical / 1e6, 3)} M tokens"
    if is_fitted(workload):
        value = f"{value}, by {workload.critical_batch}"
        words += (_critical_batch_range_text(critical, batch, lambda end: float(best_batch(end, fixed, ranks, each))),)
        words += other_meaning(workload)
    return Effect("workload.critical_batch", value, step, math.nan, words, always=True)


def _learning_rate_effect(answer: Answer) -> Effect:
    """The learning rate for the global batch, scaled from one that is good at another batch."""
    case = answer.inputs.case
    workload, stated = case.scenario.workload, case.scenario.workload.learning_rate
    assert stated is not None
    batch = float(workload.global_batch * workload.sequence)
    known = float(stated.batch if isinstance(stated.batch, InTokens) else stated.batch * workload.sequence)
    linear = stated.rule == "linear" or (stated.rule is None and case.optimizer.name.startswith("sgd"))
    rule: Literal["linear", "square root"] = "linear" if linear else "square root"
    rate = float(carried_learning_rate(stated.base, batch, known, rule=rule))
    origin = "stated" if stated.rule is not None else f"the rule for {case.optimizer.name}"
    words = [
        f"{stated.base:.3g} is good for {significant(known / 1e6, 3)} M tokens; a step has "
        f"{significant(batch / 1e6, 3)} M, {significant(batch / known, 3)} times as many"
    ]
    critical = critical_batch(workload)
    if critical is not None and batch > float(critical):
        words.append("the batch is over the critical one, up to which the rule holds")
    value = f"{rate:.3g} for this batch, by the {rule} rule ({origin})"
    return Effect("workload.learning_rate", value, _step_time(answer), math.nan, tuple(words), always=True)


def _critical_batch_range_text(critical: float, batch: float, best: Callable[[float], float]) -> str:
    """A sentence with ranges of steps and batches, since fits of the critical batch differ by a factor."""
    ends = critical / FITS_APART, critical * FITS_APART
    steps = (significant(float(steps_for_batch(1.0, end, batch)), 3) for end in ends)
    batches = (significant(best(end) / 1e6, 3) for end in ends)
    return f"fits differ by up to three times: {' – '.join(steps)} times the steps, {' – '.join(batches)} M tokens"


def _sites_effect(answer: Answer, sites: Sites) -> Effect:
    """The cost of exchanges between sites, and the link or interval with which they would cost little."""
    case = answer.inputs.case
    plan = answer.plan.model_copy(update={"sites": sites.model_copy(update={"link": FREE, "latency": 0.0})})
    free = replace(case, scenario=case.scenario.model_copy(update={"plan": plan}))
    alone = _step_time(answered(training_inputs(free), plan))
    exchanged = exchange(answer.inputs, sites, np.float64(alone))
    link, every = map(number, to_use_well(sites, exchanged, np.float64(alone)))
    used = significant(100 * number(exchanged.utilisation), 3)
    less = number(local_traffic_share(number(exchanged.message) / number(exchanged.raw), sites.every))
    words = (
        f"{show_time(number(exchanged.time))} each {sites.every:.0f} steps; sites compute {used} % of the time",
        f"to compute 95 % of it: {significant(8 * link / 1e9, 3)} Gbit/s, or every {math.ceil(max(every, 1.0))} steps",
        f"{significant(1 / less, 3)} times fewer bytes than fp32 gradients in each step",
    )
    value = f"{sites.count:.0f} of {significant(8 * float(sites.link) / 1e9, 3)} Gbit/s"
    return Effect("plan.sites", value, _step_time(answer), alone, words, always=True)


def _batch_share_lines(answer: Answer) -> Iterator[str]:
    """For each kind of nodes, a line with its share of the batch."""
    from costmodel.estimate.training.unequal_nodes import micro_batches_of_groups

    inputs, block = answer.inputs, answer.evaluation.block
    taken = [
        (nodes, kind.case.node.name, number(replicas_on_nodes(inputs, block, nodes)), number(count))
        for (nodes, kind), count in zip(inputs.groups, micro_batches_of_groups(inputs, block), strict=True)
    ]
    whole = sum(replicas * count for *_, replicas, count in taken)
    for nodes, name, replicas, count in taken:
        share = significant(100 * replicas * count / whole, 3)
        each = f"{count:.0f} micro-batches on each of {replicas:.0f} replicas"
        yield f"{name} × {nodes:.0f}: {share} % of the batch, {each}"


def _step_time_with_equal_layers(answer: Answer) -> float:
    """The step time if all stages had equally many layers; NaN if the layers do not divide."""
    from costmodel.estimate.training.unequal_nodes import CROSSED_BY_STAGES

    inputs, block = answer.inputs, answer.evaluation.block
    if number(remainder(layer_count(inputs.model), block.pp)):
        return math.nan
    alone = (replace(kind, crossing=CROSSED_BY_STAGES) for _, kind in inputs.groups)
    return max(_step_time(answered(kind, answer.plan.model_copy(update={"shares": "equal"}))) for kind in alone)


def _stage_layer_lines(answer: Answer) -> Iterator[str]:
    """For each kind of nodes, a line with the layers of its stages."""
    from costmodel.estimate.training.unequal_nodes import stages_of_groups

    inputs, block = answer.inputs, answer.evaluation.block
    for (nodes, kind), found in zip(inputs.groups, stages_of_groups(inputs, block), strict=True):
        layers = ", ".join(f"{count}" for count in found.stages[0])
        yield f"{kind.case.node.name} × {nodes:.0f}: stages of {layers} layers"


def _straggler_text(answer: Answer) -> str:
    """The straggler assumptions of the scenario as text; empty without any."""
    stated = answer.inputs.case.scenario.assume.stragglers
    shares = {
        "jitter": stated.jitter,
        "spread": stated.spread,
        "slow_part": stated.slow_part,
        "slow_link": stated.slow_link,
    }
    words = [f"{name} {significant(100 * value, 3)} %" for name, value in shares.items() if value is not None]
    return ", ".join(words)


def _answer_without_stragglers(answer: Answer) -> Answer:
    case = answer.inputs.case
    assume = case.scenario.assume.model_copy(update={"stragglers": StragglerAssumption()})
    scenario = case.scenario.model_copy(update={"assume": assume})
    return answered(training_inputs(replace(case, scenario=scenario)), answer.plan)


def _sync_lines(answer: Answer, plain: Answer) -> Iterator[str]:
    """Lines about gradient synchronisation: throughput with and without it, and stale gradients."""
    block, sync = answer.evaluation.block, sync_of(answer.evaluation.block.structure.sync)
    rate, usual = (float(side.evaluation.costs.column("tokens_per_s")[0]) for side in (answer, plain))
    yield f"{show(rate, 'token/s')} used, {show(usual, 'token/s')} with an all-reduce"
    if sync.way == "async":
        stale = number(mean_staleness(block.dp))
        gain = number(staleness_break_even(rate / usual, stale))
        most = f"{significant(100 * gain, 3)} % more steps"
        yield f"gradients are {stale:.0f} updates old; it pays if each of them costs under {most}"


def _step_time(answer: Answer) -> float:
    return number(answer.evaluation.step.total)


def _compression_lines(answer: Answer, plain: Answer) -> Iterator[str]:
    """Lines about gradient compression: bytes, codec time, and the network on which it pays."""
    inputs, block = answer.inputs, answer.evaluation.block
    share, (method, practice) = number(compressed_bytes(inputs, block)), compression_method(block)
    sums = [transfer for transfer in plain.evaluation.step.transfers if _sums_gradients(transfer)]
    if not sums:
        return
    raw = sum(number(sum_sent.message) * number(sum_sent.count) for sum_sent in sums)
    codec = number(codec_time(inputs, block, np.float64(raw / number(inputs.widths.reduced)), 1.0))
    before = warm_up(inputs, block)
    later = f", after {significant(100 * before, 3)} % of the steps" if before else ""
    yield f"{significant(100 * share, 3)} % of the bytes of gradients{later}; {show_time(codec)} to make and restore"
    ranks = number(sums[0].group.ranks)
    if practice.sent == "gathered":
        most = number(largest_gathered_group(share))
        yield f"gathered by every rank: more bytes than without from {significant(most, 3)} ranks on; here {ranks:.0f}"
    elif codec > 0 and share < 1:
        even = number(break_even_bandwidth(raw, ranks, share, codec))
        yield f"if nothing of it hides, it pays on networks under {show(even, 'B/s')} of each rank"
    if method.method == "powersgd":
        yield from _low_rank_lines(answer, method.rank)


def _low_rank_lines(answer: Answer, rank: float) -> Iterator[str]:
    """For each matrix, a line with the share of it that low-rank compression sends; equal matrices once."""
    shares = {
        (matrix.name, number(matrix.n), number(matrix.k)): number(part)
        for _, matrix, part in factor_shares(answer.inputs, answer.evaluation.block, rank)
    }
    for (name, rows, columns), part in sorted(shares.items(), key=lambda item: item[1]):
        sent = f"{significant(100 * part, 3)} %" if part < 1 else "uncompressed (smaller than its factors)"
        yield f"{name}, {counted(rows)} × {counted(columns)}: {sent}"
    yield "vectors, as of norms: whole"


def _sums_gradients(transfer: Transfer) -> bool:
    """Whether a transfer sums gradients over data-parallel ranks."""
    return transfer.group.name in ("dp", "edp") and transfer.operation in ("all_reduce", "reduce_scatter")


@record
class ExplainedAnswer(Answer):
    """An evaluated plan with fixes for each reason against it, the effects of its choices, and a run outlook.

    Example: `explained(answer).fixes["M001"]` are the changes after which a plan that needs too much memory fits.
    """

    fixes: dict[str, tuple[Remedy, ...]]
    effects: tuple[Effect, ...]
    outlook: RunOutlook | None


def with_explanations(answer: Answer) -> ExplainedAnswer:
    """The answer with fixes, effects and run outlook; imports the search for fixes only if the plan needs some."""
    against, fixes_by_code, of_run = answer.refused or answer.broken, {}, None
    if against:
        from costmodel.explore.explain.plan_remedies import remedies

        fixes_by_code = {code: tuple(remedies(answer, code)) for code in against}
    if answer.inputs.run is not None:
        from costmodel.explore.explain.plan_remedies import run_outlook

        of_run = run_outlook(answer)
    return ExplainedAnswer(**vars(answer), fixes=fixes_by_code, effects=tuple(effects(answer)), outlook=of_run)


def explained_plan(case: ResolvedScenario) -> ExplainedAnswer:
    """The scenario's own plan, evaluated and explained."""
    return with_explanations(predict(case))
