"""Finds single causes that would explain why a measured training step is slower than predicted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from costmodel.documents.reader.library import read
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.scenario import Plan
from costmodel.equations.run.economics import flop_utilisation
from costmodel.equations.run.uncertainty import (
    cause_distance,
    combined_error,
    end_spread,
    implied_slowdown,
    ninetieth_percentile,
    tenth_percentile,
)
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.flop_count import flop_of_step
from costmodel.estimate.training_answer.predict_training import Answer
from costmodel.estimate.training_answer.training_error_band import residual
from costmodel.explore.diagnose.measured_step import (
    IDLE,
    WITHOUT_KERNELS,
    MeasuredStep,
    PredictedTerms,
    predicted_with_value,
    step_time_of_text,
    terms_of_evaluation,
)
from costmodel.explore.explain.plan_choice_effects import ExplainedAnswer, explained_plan
from costmodel.ground.counts import EXCHANGING
from costmodel.ground.errors import CostModelError, fail
from costmodel.ground.record import record
from costmodel.ground.units import chance_words, percent, show_time

# How a figure makes a step longer: as it grows, as it falls, as a share that falls to nothing, or as time beside.
Way = Literal["grows", "falls", "share", "added"]

LEAST_SPREAD = 0.01  # nothing is known better than to a hundredth


@record
class Cause:
    """One figure that may differ from its documents, such as a link rate, and so explain a slow step.

    path: where it stands in a scenario; nothing for what a scenario does not hold
    expected, spread: its value in the documents, and the standard deviation of its logarithm, of a share itself
    term: where a rank that is not to blame sees time that is added
    part: time that grows where the figure is a slowdown of a part of the step; of fixed time that of a slow step, P90
    base: what a share or a multiple is of, such as "of the link rate"
    """

    name: str
    words: str
    way: Way
    unit: str
    base: str
    expected: float
    spread: float
    measure: str
    path: str = ""
    term: str = ""
    part: float = 0.0


def possible_causes(answer: Answer, base: PredictedTerms) -> Iterator[Cause]:
    """The causes that this plan can have."""
    yield _clock_cause(answer)
    yield from _kernel_causes(answer, base)
    yield from _overlap_causes(answer, base)
    yield from _link_causes(answer, base)
    yield from _causes_without_figure(answer, base)


def _clock_cause(answer: Answer) -> Cause:
    """The cause that matrix products run slower in a real step than alone."""
    inputs, common = answer.inputs, answer.inputs.case.common
    sustained = residual(inputs.case.efficiency.sustained, common.sustained)
    fits = (common.matmul[name] for name in (inputs.recipe.fit, "bf16") if name in common.matmul)
    spread = float(combined_error(sustained, residual(inputs.rates.linear.fit, *fits)))
    return Cause(
        "clocks",
        "clocks (power cap, heat): slower matrix products",
        "grows",
        "×",
        "the time alone",
        float(inputs.device_slowdown),
        max(spread, LEAST_SPREAD),
        "nvidia-smi -q -d CLOCK,PERFORMANCE while it trains",
        path="assume.sustained",
    )


def _kernel_causes(answer: Answer, base: PredictedTerms) -> Iterator[Cause]:
    """One cause for each kernel constant that could lengthen the step, with its spread."""
    inputs, terms = answer.inputs, base.terms
    efficiency, common, stack = inputs.case.efficiency, inputs.case.common, inputs.stack
    if terms["attention"] and inputs.rates.attention is not None:
        kernel = stack.kernels.attention
        yield Cause(
            "attention",
            "attention kernel",
            "falls",
            "1",
            "of the peak",
            inputs.rates.attention.forward_share,
            max(float(residual(inputs.rates.attention, common.attention[kernel])), LEAST_SPREAD),
            "costmodel measure -o mine.csv",
            path=f"cluster.node.accelerator.efficiency.attention.{kernel}.forward_share",
        )
    yield Cause(
        "memory",
        "memory-bound operations (fusion, memory)",
        "falls",
        "1",
        "of the memory bandwidth",
        inputs.rates.memory_share,
        max(float(residual(efficiency.memory, common.memory)), LEAST_SPREAD),
        "costmodel measure -o mine.csv",
        path="cluster.node.accelerator.efficiency.memory.share",
    )
    yield Cause(
        "host",
        "launch overhead",
        "grows",
        "s",
        "an operation",
        stack.launch.operation,
        max(float(stack.spread.launch), LEAST_SPREAD),
        "a profile of one step: gaps between kernels; CUDA graphs, or half the layers",
        path="stack.launch.operation",
    )


_OVERLAPPING = ("tp", "cp", "pp", "dp")


def _overlap_causes(answer: Answer, base: PredictedTerms) -> Iterator[Cause]:
    """One cause for each share of communication that is hidden, with its spread."""
    inputs = answer.inputs
    shares = {axis: float(getattr(inputs.overlap, axis)) for axis in _OVERLAPPING}
    shares["ep"] = 0.0 if inputs.experts is None else inputs.experts.overlap
    for axis, share in shares.items():
        if share > 0 and base.terms[f"{axis}_time"] > base.terms[f"{axis}_exposed"]:
            yield Cause(
                f"{axis} overlap",
                f"{axis} communication that hides behind compute",
                "share",
                "1",
                "hidden",
                share,
                max(float(inputs.stack.spread.overlap), LEAST_SPREAD),
                f"a profile: kernels beside the {axis} collectives",
                path=f"assume.overlap.{axis}",
            )


def _link_causes(answer: Answer, base: PredictedTerms) -> Iterator[Cause]:
    """One cause for each link rate that could lengthen the step, with its spread."""
    inputs, case, common = answer.inputs, answer.inputs.case, answer.inputs.case.common
    taking = [item for item in answer.evaluation.step.transfers if number(item.total_time) > 0]
    inside = any(number(item.group.domains) <= 1 for item in taking)
    outside = any(number(item.group.domains) > 1 for item in taking)
    if inside:
        fit = inputs.collectives["all_gather"]
        yield Cause(
            "links",
            f"links inside the node ({case.scale_up.name})",
            "falls",
            "B/s",
            "one way",
            case.scale_up.bandwidth,
            max(float(residual(fit, common.collectives["all_gather"])), LEAST_SPREAD),
            "all_gather_perf of nccl-tests on one node",
            path="cluster.node.scale_up.fabric.bandwidth",
        )
    if outside:
        yield Cause(
            "network",
            f"network between nodes ({case.scale_out.name})",
            "falls",
            "1",
            "of the link rate",
            inputs.network_share,
            max(float(residual(inputs.network, common.network)), LEAST_SPREAD),
            "all_reduce_perf of nccl-tests on all nodes; costmodel comm states the sizes",
            path="assume.network_share",
        )
    if inputs.experts is not None and base.terms["ep_time"] + base.terms["matmul"] > 0:
        yield Cause(
            "experts",
            "busiest expert over the mean",
            "grows",
            "×",
            "the mean",
            inputs.experts.load,
            max(float(inputs.stack.spread.experts), LEAST_SPREAD),
            "log the tokens of each expert",
            path="assume.experts.imbalance",
        )


def _causes_without_figure(answer: Answer, base: PredictedTerms) -> Iterator[Cause]:
    """Causes that no scenario key states, such as a slow stage: each slows the whole step down."""
    steps = (answer.inputs.case.practice or read("practice", "usual")).steps
    spread, terms = float(end_spread(1.0, steps.tail)), base.terms
    block = answer.evaluation.block
    busy = base.step - terms["bubble"] - terms["optimizer"] - terms["dp_exposed"]
    if float(block.pp[0]) > 1:
        yield Cause(
            "stage",
            f"one slow stage of {float(block.pp[0]):.0f} (layers, head, sequences)",
            "added",
            "×",
            "the other stages",
            1.0,
            spread,
            "step time of each stage on one replica: costmodel pipeline",
            term="bubble",
            part=busy,
        )
    yield from _slow_accelerator_cause(answer, base, spread)
    yield Cause(
        "fixed",
        "fixed time a step: data loader, logging, host synchronisation",
        "added",
        "s",
        "a step",
        0.0,
        spread,
        "a step of twice the global batch, or with synthetic data",
        part=base.step * (steps.tail - 1),
    )


def _slow_accelerator_cause(answer: Answer, base: PredictedTerms, spread: float) -> Iterator[Cause]:
    """The cause that all ranks wait for one slow accelerator."""
    block, terms = answer.evaluation.block, base.terms
    work = terms["matmul"] + terms["attention"] + terms["memory_bound"] + terms["launch"]
    waiting = "dp_exposed" if float(block.dp[0]) > 1 else "bubble" if float(block.pp[0]) > 1 else "tp_exposed"
    if float(block.dp[0]) * float(block.pp[0]) * float(block.tp[0]) > 1:
        yield Cause(
            "one part",
            "one slow accelerator",
            "added",
            "×",
            "the others",
            1.0,
            spread,
            "the same matmul on each accelerator; costmodel measure there",
            term=waiting,
            part=work,
        )


RATIO_SPREAD = 0.02  # of two steps of one job, mean over many: what is wrong with both predictions cancels
_DOCUMENTS = (
    "scenario", "model", "node", "accelerator", "scale_up", "scale_out", "host", "efficiency", "network", "stack",
    "optimizer", "groups",
)  # fmt: skip
SHORT = {
    "nodes": "cluster.nodes",
    "micro_batch": "plan.micro_batch",
    "global_batch": "workload.global_batch",
    "sequence": "workload.sequence",
}


@record
class SecondRun:
    """A measured run with one setting changed, and its prediction."""

    setting: str
    measured: float
    answer: Answer
    base: PredictedTerms
    causes: Mapping[str, Cause]

    def with_cause(self, one: Explanation) -> float:
        """The predicted step time [s] of this run if the cause that explains the first run applies here too."""
        cause, value = one.cause, one.value or 0.0
        own = self.causes.get(cause.name)
        if own is None:
            return self.base.step
        if cause.way != "added":
            found = predicted_with_value(self.answer.inputs.case, self.answer.plan, cause.path, value)
            return math.nan if found is None else found.step
        added = value if cause.unit == "s" else (value - 1) * own.part
        return self.base.step + added


def second_runs(
    first: ResolvedScenario, with_setting: Callable[[str], ResolvedScenario], stated: Sequence[str]
) -> tuple[SecondRun, ...]:
    """The further runs in texts such as "plan.tp=4: 9.1 s"; the figure is a time or an MFU."""
    return tuple(_second_run(first, with_setting, text) for text in stated)


def _second_run(first: ResolvedScenario, with_setting: Callable[[str], ResolvedScenario], text: str) -> SecondRun:
    """The second run in a text such as "plan.tp=4: 9.1 s", with the setting that it changes."""
    setting, _, figure = text.rpartition(":")
    path, separator, value = (part.strip() for part in setting.partition("="))
    if not figure.strip() or not separator or not value:
        raise fail("C023", f"'{text[:80]}' is not setting=value:time", None, "for example --also global_batch=2048:35s")
    full = f"{SHORT.get(path, path)}={value}"
    changed = with_setting(full)
    if all(getattr(changed, name) == getattr(first, name) for name in _DOCUMENTS):
        raise fail("C023", f"{setting} is what the first run has", None, "state a run with another value")
    answer = explained_plan(changed)
    if answer.refused:
        hint = f"costmodel estimate with --set {full} states the reason"
        raise fail("C023", f"with {setting} the plan is invalid: {answer.refused[0]}", None, hint)
    base = terms_of_evaluation(answer.evaluation)
    measured = step_time_of_text(answer.inputs, base, figure.strip(), "--also")
    return SecondRun(setting, measured, answer, base, {cause.name: cause for cause in possible_causes(answer, base)})


def ranked_by_second_runs(found: Diagnosis, runs: tuple[SecondRun, ...]) -> Diagnosis:
    """The diagnosis with its causes ranked again, by how well each explains the other runs too."""
    if not runs or not found.explained:
        return replace(found, runs=runs)
    ranked = sorted((_with_contradiction(one, runs) for one in found.explained), key=lambda one: one.order)
    return replace(found, explained=tuple(ranked), runs=runs)


def _with_contradiction(one: Explanation, runs: tuple[SecondRun, ...]) -> Explanation:
    """A cause with the run that contradicts it most."""
    misfit, worst, against = one.misfit, 0.0, one.against
    for run in runs:
        should = run.with_cause(one)
        off = math.inf if math.isnan(should) else float(cause_distance(run.measured, should, RATIO_SPREAD))
        misfit = math.hypot(misfit, off)
        if off > max(worst, 1.0):
            worst, against = off, (run.setting, run.measured, should)
    return replace(one, misfit=misfit, against=against, confirmed=one.confirmed or worst == 0)


MOST = 99.0  # a figure is not taken to be off by more than a hundred times
NEAR = 1e-3  # share of the gap that may be left
ROUNDS = 14
TERM_SPREAD = 0.05  # of a term of a profile about its prediction, beside what is known of the step
SAME_JOB = 2.0  # times from which a step and its prediction may be of two jobs
SAME_PRODUCTS = 1.5  # times within which measured matrix products are of this job
DUST = 0.004  # share of a step below which a term of a profile is ignored
AGAINST = 3.0  # standard deviations from which a term, or a better figure, speaks against a cause
SMALL_PART = 0.1  # of the gap: a term that is off by less neither explains the step nor contradicts a cause
MOST_OF_IT = 0.5  # of the gap: terms that hold as much are the answer, and contradict causes that leave them alone
UNFIT = "M001"


@record
class Explanation:
    """A cause with the value that closes the gap; none where no value does, and then how much of it the last explains.

    distance: of the value from what is expected, in standard deviations; misfit: of the measured terms from those that
    the cause would give; against: the measured term that contradicts the cause most, its time and the one that it
    should have. usual: seconds that it explains at the end of its usual range; moved: the measured terms that it
    changes; confirmed: whether it moves them to where they are.
    """

    cause: Cause
    value: float | None
    explains: float
    distance: float = math.inf
    misfit: float = 0.0
    against: tuple[str, float, float] | None = None
    usual: float = 0.0
    moved: tuple[str, ...] = ()
    confirmed: bool = False

    @property
    def order(self) -> tuple[int, float, str]:
        """Sort key of causes: confirmed ones first, then those that usually explain most, then contradicted ones."""
        if self.against is not None:
            return 2, self.score, self.cause.name
        return (0, self.score, self.cause.name) if self.confirmed else (1, -abs(self.usual), self.cause.name)

    @property
    def score(self) -> float:
        """How badly a cause explains the step: the deviations of its value and of the measured terms together."""
        return math.hypot(self.distance, self.misfit)

    @property
    def range(self) -> tuple[float, float]:
        """The usual range of the value, P10 to P90."""
        cause = self.cause
        if cause.way == "share":
            return max(cause.expected - 1.28 * cause.spread, 0.0), min(cause.expected + 1.28 * cause.spread, 1.0)
        if cause.unit == "s" and cause.way == "added":
            return 0.0, cause.part
        most = max(cause.expected, 1.0) if cause.unit == "1" else math.inf
        ends = tenth_percentile(cause.expected, cause.spread), ninetieth_percentile(cause.expected, cause.spread)
        return float(ends[0]), min(float(ends[1]), most)


@record
class OtherJob:
    """A setting with which the predicted band contains the measured step, and that prediction."""

    setting: str
    micro_batches: float
    step: float
    low: float
    high: float


@record
class Diagnosis:
    """A measured step, its prediction with band, and the causes that would explain the gap, likeliest first."""

    answer: ExplainedAnswer
    measured: MeasuredStep
    base: PredictedTerms
    low: float
    high: float
    explained: tuple[Explanation, ...] = ()
    impossible: tuple[Explanation, ...] = ()
    runs: tuple[SecondRun, ...] = ()
    doubts: tuple[str, ...] = ()  # why it is hardly the step of this job, in words
    others: tuple[OtherJob, ...] = ()

    @property
    def inside(self) -> bool:
        """Whether the measured step lies within the predicted band."""
        return self.low <= self.measured.step <= self.high

    @property
    def of_another_job(self) -> bool:
        """Whether the step is probably of another job: too far from its prediction, or faster than possible.

        A cause that measured terms confirm, or matrix products as predicted, show that a slow step is of this job.
        """
        is_near = self.base.step / SAME_JOB <= self.measured.step <= self.base.step * SAME_JOB
        is_faster = self.measured.step < self.low and not self.explained
        products = self.measured.terms.get("matmul", 0.0) / self.base.terms["matmul"]
        is_this = 1 / SAME_PRODUCTS < products < SAME_PRODUCTS or any(one.confirmed for one in self.explained[:1])
        return bool(self.doubts) or is_faster or not (is_near or is_this)

    @property
    def over(self) -> dict[str, float]:
        """The measured terms that differ noticeably from the prediction, and by how many seconds."""
        apart = {name: time - self.base.terms[name] for name, time in self.measured.terms.items()}
        return {name: time for name, time in apart.items() if abs(time) > DUST * self.base.step}

    @property
    def longest(self) -> list[tuple[str, float]]:
        """The measured terms that hold the gap, and their seconds of it, from the longest; no part counts twice."""
        whole = {f"{axis}_time" for axis in EXCHANGING if f"{axis}_exposed" in self.measured.terms}
        whole |= {IDLE} if set(WITHOUT_KERNELS) & self.measured.terms.keys() else set()
        parts = [(name, time) for name, time in self.over.items() if name not in whole]
        return sorted(
            ((name, time) for name, time in parts if time / self.gap > SMALL_PART), key=lambda one: -abs(one[1])
        )

    @property
    def terms_hold_it(self) -> bool:
        """Whether the measured terms hold most of the gap."""
        return sum(time for _, time in self.longest) / self.gap >= MOST_OF_IT

    @property
    def gap(self) -> float:
        """Measured minus predicted step time [s]."""
        return self.measured.step - self.base.step


def diagnose(answer: ExplainedAnswer, base: PredictedTerms, measured: MeasuredStep) -> Diagnosis:
    """Finds causes of a measured step outside its predicted band; none if it is inside, or of another job."""
    row = answer.evaluation.costs.row()
    doubts = tuple(_wrong_job_reasons(answer, base, measured))
    found = Diagnosis(answer, measured, base, row["step_time_low"], row["step_time_high"], doubts=doubts)
    if found.inside or doubts:
        return found
    tried = [_explain_cause(answer, base, measured, cause) for cause in possible_causes(answer, base)]
    able = sorted((one for one in tried if one.value is not None), key=lambda one: one.order)
    unable = tuple(one for one in tried if one.value is None)
    return Diagnosis(answer, measured, base, found.low, found.high, tuple(able), unable)


def jobs_that_fit(found: Diagnosis, with_setting: Callable[[str], ResolvedScenario]) -> Diagnosis:
    """The diagnosis with other sizes of the job that would take the measured step, where it may be of another job.

    Tried are the number of micro-batches (batch), a sequence of so many times 2, and a part of the nodes. An MFU states
    no batch: none is named for it.
    """
    ratio = found.measured.step / found.base.step
    if not found.of_another_job or "step_time" not in found.measured.stated or 1 / SAME_JOB < ratio < SAME_JOB:
        return found
    inputs, count = found.answer.inputs, _micro_batches(found.answer)
    unit = float(inputs.global_batch) / count
    twice = math.floor(math.log2(ratio) + 0.5)
    tried = (
        ("global_batch", (unit * each for each in _near(count * ratio))),
        ("sequence", (float(inputs.sequence) * 2.0**power for power in (twice, twice - 1))),
        ("nodes", _near(inputs.case.scenario.cluster.nodes / ratio)),
    )
    others = []
    for name, values in tried:
        settings = (f"{SHORT[name]}={value:.0f}" for value in values if value >= 1)
        fitting = (_job_with(found.measured.step, with_setting, setting) for setting in settings)
        others += [one for one in fitting if one is not None][:1]
    return replace(found, others=tuple(others))


def _near(value: float) -> Iterator[float]:
    """Whole numbers near a value: the nearest power of two, then the nearest, then those beside it."""
    if value > 0:
        yield 2.0 ** max(math.floor(math.log2(value) + 0.5), 0)
        yield from (float(round(value)) + apart for apart in (0, -1, 1))


def _job_with(measured: float, with_setting: Callable[[str], ResolvedScenario], setting: str) -> OtherJob | None:
    """The job with a setting if its band contains the measured step; None if it does not, or cannot run."""
    try:
        answer = explained_plan(with_setting(setting))
    except CostModelError:
        return None
    if answer.refused or answer.broken:
        return None
    row = answer.evaluation.costs.row()
    low, high = row["step_time_low"], row["step_time_high"]
    fits = low <= measured <= high
    return OtherJob(setting, _micro_batches(answer), row["step_time"], low, high) if fits else None


def _micro_batches(answer: Answer) -> float:
    """The micro-batches of a replica in a step: its gradient accumulation."""
    block = answer.evaluation.block
    return float(answer.inputs.global_batch) / float(block.dp[0] * block.micro_batch[0])


def _wrong_job_reasons(answer: Answer, base: PredictedTerms, measured: MeasuredStep) -> Iterator[str]:
    """Reasons to doubt that the step is of this job: it beats the peak, a log differs, or the plan does not fit."""
    row = answer.evaluation.costs.row()
    inputs = answer.inputs
    work = flop_of_step(inputs, base.block).model
    mfu = number(flop_utilisation(work, measured.step, inputs.ranks, inputs.rates.mfu_peak))
    if mfu > 1:
        yield f"in {show_time(measured.step)} it would compute at {percent(mfu)} of the peak"
    yield from (f"log: {words}" for words in measured.contradictions)
    if UNFIT in answer.broken:
        chance = row["fit_chance"]
        fits = "" if math.isnan(chance) else f", and fits with a chance of {chance_words(chance)}"
        yield f"the plan needs {percent(row['memory_share'])} of the memory{fits}: state the plan that ran"


def _explain_cause(answer: Answer, base: PredictedTerms, measured: MeasuredStep, cause: Cause) -> Explanation:
    """The value of a cause that closes the gap, and how much the cause explains within its usual range."""
    gap = measured.step - base.step
    if cause.way == "added":
        found = _explain_by_added_time(base, measured, cause, gap)
    else:
        value, last = _solve_value(answer.inputs.case, answer.plan, base, cause, gap)
        if value is None:
            return Explanation(cause, None, last.step - base.step, moved=_moved_terms(base, measured, last))
        found = _with_deviations(base, measured, cause, value, last)
    return replace(found, usual=_time_in_usual_range(answer, base, found, worse=gap > 0))


def _time_in_usual_range(answer: Answer, base: PredictedTerms, one: Explanation, *, worse: bool) -> float:
    """Seconds that a cause adds to the step at the end of its usual range."""
    cause, (low, high) = one.cause, one.range
    if cause.way == "added":
        return high if cause.unit == "s" else (high - 1) * cause.part
    end = high if worse == (cause.way == "grows") else low
    found = predicted_with_value(answer.inputs.case, answer.plan, cause.path, end)
    return 0.0 if found is None else found.step - base.step


def _explain_by_added_time(base: PredictedTerms, measured: MeasuredStep, cause: Cause, gap: float) -> Explanation:
    """An explanation by time added to the step: the slowdown of a part, or seconds."""
    if gap < 0:
        return Explanation(cause, None, 0.0)
    last = base.with_added(cause.term, gap)
    if cause.unit == "s":
        distance = float(cause_distance(measured.step, base.step, cause.spread))
        return _with_deviations(base, measured, cause, gap, last, distance)
    return _with_deviations(base, measured, cause, float(implied_slowdown(cause.part, gap)), last)


def _solve_value(
    case: ResolvedScenario, plan: Plan, base: PredictedTerms, cause: Cause, gap: float
) -> tuple[float | None, PredictedTerms]:
    """The value that gives the measured step (None if none does), and the last prediction tried."""
    worse = gap > 0
    end = _largest_change(cause, worse=worse)
    seen: dict[float, PredictedTerms] = {0.0: base}

    def left(turned: float) -> float:
        if turned not in seen:
            found = predicted_with_value(case, plan, cause.path, _value_after_change(cause, turned))
            if found is None:
                return math.nan
            seen[turned] = found
        return seen[turned].step - base.step - gap

    low, over = _bracket(left, end, gap)
    if over is None:
        return None, seen[low]
    turned = _false_position(left, low, over, gap)
    return _value_after_change(cause, turned), seen[turned]


def _bracket(left: Callable[[float], float], end: float, gap: float) -> tuple[float, float | None]:
    """Two changes of a figure between which the gap closes; the second is None if it never closes."""
    low, turned = 0.0, math.copysign(min(abs(end), 0.25), end)
    while True:
        still = left(turned)
        if math.isnan(still):
            return low, None
        if still * gap >= 0:
            return low, turned
        low = turned
        if turned == end:
            return low, None
        turned = math.copysign(min(abs(turned) * 4, abs(end)), end)


def _false_position(left: Callable[[float], float], low: float, high: float, gap: float) -> float:
    """The change between `low` and `high` at which `left` is zero, by the Illinois variant of false position."""
    at_low, at_high = left(low), left(high)
    turned = high
    for _ in range(ROUNDS):
        if abs(left(turned)) <= NEAR * abs(gap) or at_high == at_low:
            break
        turned = high - at_high * (high - low) / (at_high - at_low)
        now = left(turned)
        if now * at_high < 0:
            low, at_low = high, at_high
        else:
            at_low /= 2
        high, at_high = turned, now
    return turned


def _largest_change(cause: Cause, *, worse: bool) -> float:
    """The largest change of a figure to try: a share to 0 or 1, others up to the limit.

    A figure that is better than expected is no more so than its spread allows, and no part is over the whole.
    """
    if cause.way == "share":
        return 1.0 if worse else 1 - 1 / cause.expected
    least = math.expm1(-AGAINST * cause.spread)
    is_part = cause.way == "falls" and cause.unit == "1"
    return MOST if worse else max(least, min(cause.expected - 1, 0.0)) if is_part else least


def _value_after_change(cause: Cause, turned: float) -> float:
    """The value of a figure that is worse than expected by a relative change."""
    if cause.way == "share":
        return min(max(cause.expected * (1 - turned), 0.0), 1.0)
    return cause.expected * (1 + turned) if cause.way == "grows" else cause.expected / (1 + turned)


def _with_deviations(
    base: PredictedTerms,
    measured: MeasuredStep,
    cause: Cause,
    value: float,
    last: PredictedTerms,
    distance: float | None = None,
) -> Explanation:
    """An explanation with its deviations: of the value from the expected one, and of the measured terms."""
    if distance is None and cause.way == "share":
        distance = abs(value - cause.expected) / cause.spread
    elif distance is None:
        distance = float(cause_distance(value, cause.expected, cause.spread))
    off = {name: _term_deviation(measured, last, name) for name in measured.terms}
    moved, gap = _moved_terms(base, measured, last), abs(measured.step - base.step)
    parts = {name: abs(measured.terms[name] - last.terms[name]) / gap for name in off}
    large = (name for name, part in parts.items() if part > (SMALL_PART if name in moved else MOST_OF_IT))
    worst = max(large, key=off.__getitem__, default="")
    against = (worst, measured.terms[worst], last.terms[worst]) if worst and off[worst] > AGAINST else None
    return Explanation(
        cause,
        value,
        last.step - base.step,
        distance,
        math.hypot(*off.values()),
        against,
        moved=moved,
        confirmed=bool(moved) and against is None,
    )


def _moved_terms(base: PredictedTerms, measured: MeasuredStep, last: PredictedTerms) -> tuple[str, ...]:
    """The measured terms that a cause changes noticeably."""
    return tuple(name for name in measured.terms if abs(last.terms[name] - base.terms[name]) > DUST * base.step)


def _term_deviation(measured: MeasuredStep, last: PredictedTerms, name: str) -> float:
    """How far a measured term is from the value that a cause predicts, in standard deviations."""
    spread = math.hypot(TERM_SPREAD * last.terms[name], DUST * last.step)
    return abs(measured.terms[name] - last.terms[name]) / spread
