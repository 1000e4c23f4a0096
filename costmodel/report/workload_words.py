"""How answers word each workload: results as text, plans in a line, heads, and sentences about the job."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from costmodel.estimate.answer_facts import Subject, subject_of
from costmodel.estimate.shared.reasons import REMARKS
from costmodel.estimate.shared.results import stated_limits
from costmodel.explore.workload_interface import PlanAnswer, Workload
from costmodel.ground.errors import value_text
from costmodel.ground.record import record
from costmodel.ground.units import percent, rounded_dollars, show_time, significant
from costmodel.report.document import Cell, Sentence, Value, plain
from costmodel.report.terminal.head import case_title, fact_fields, origin_lines, price_lines, price_varies
from costmodel.report.terminal.layout import HEAD, WARN, Line, styled

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario
    from costmodel.estimate.rl.predict_rl import RlAnswer
    from costmodel.estimate.serving.predict_serving import ServingAnswer
    from costmodel.estimate.shared.results import Limit
    from costmodel.explore.vary.scale import ScaledSize, ScalingResult


MONTHLY = "a month of 730 h"  # what the cost of a job without an end is of


@record
class ComparisonColumns:
    """How scenarios of one workload are compared: columns with their heads, and the result that ranks them.

    money: columns for who decides, ahead of the others: the cost, the time and the chance, of those that are known
    """

    heads: tuple[tuple[str, str], ...]
    by: str
    words: str  # of the best of several
    of: str  # of the only one
    money: tuple[tuple[str, str], ...] = (("cost of the job", "run_cost"), ("time of the job", "run_time"),
                                          ("chance to fit", "fit_chance"))  # fmt: skip


@record
class WorkloadWords:
    """Functions that put answers of one workload into words."""

    result: Callable[[str, float], str]
    subject: Callable[[LoadedScenario, Sequence[str]], list[Line]]  # without what varies, ahead of prices and origins
    plan: Callable[[PlanAnswer], str]
    reason: Callable[[PlanAnswer, str], str]  # what speaks against a plan, in its own figures
    result_to: Callable[[str, float, int], str]  # a result with so many digits
    titled: Callable[[PlanAnswer, bool], list[Line]]  # what is asked about, and its plan; with prices where asked for
    problems: Callable[[PlanAnswer], list[Line]]  # what speaks against a plan, what to set instead, and remarks
    conclusion: Callable[[PlanAnswer], str]  # of a page, in a sentence or two
    compared: ComparisonColumns
    band: Callable[[Mapping[str, float], str], str] = lambda costs, name: ""
    warnings: Callable[[PlanAnswer], list[Line]] = lambda answer: []
    chance: str = "fit_chance"  # the result that is the chance of a plan to work
    beside_limit: Callable[[PlanAnswer, Limit], str] = lambda answer, limit: ""  # what else a limit depends on
    heads: Mapping[str, str] = field(default_factory=dict)  # of columns, where they are not those of all workloads
    terms: Mapping[str, str] = field(default_factory=dict)  # the parts of its time
    adds_up: bool = False  # whether results of a comparison follow from the terms under them
    bought: tuple[str, ...] = ()  # results of a machine beside its rent
    traded: tuple[str, str] = ("run_time", "run_cost")  # results that its figure sets against each other
    trade: tuple[str, str] = ("time", "cost")  # these in words
    job: str = "the whole job"  # what that rent is of
    speed: Callable[[LoadedScenario, Mapping[str, float]], Sentence] = lambda case, costs: []  # that a buyer gets
    load: Callable[[LoadedScenario], str] = lambda case: ""  # what is asked of a service
    unsized: Callable[[ScalingResult], list[Line]] = lambda found: []  # what of its plan cannot stay from size to size
    sized: Callable[[ScalingResult], list[Line]] = lambda found: []  # what there is to state of all sizes
    cautions: Callable[[ScalingResult], list[str]] = lambda found: []
    more: Callable[[ScaledSize], dict[str, Any]] = lambda row: {}  # of a size, as plain values


def words_of(kind: str) -> WorkloadWords:
    """The words of a workload; only the modules of this workload are imported."""
    return _OF[kind]()


def money_words(costs: Mapping[str, float]) -> str:
    """What a job costs and how long it takes, with bands where known, or the rent of a service; empty without any."""
    say: dict[str, Callable[[float], str]] = {
        "run_cost": rounded_dollars,
        "run_time": show_time,
        "rent_per_month": lambda value: f"{rounded_dollars(value)} a month",
    }
    known = {name: words for name, words in say.items() if math.isfinite(costs.get(name, math.nan))}
    return ", ".join(f"{words(costs[name])}{band_words(costs, name, words)}" for name, words in known.items())


def band_words(costs: Mapping[str, float], name: str, words: Callable[[float], str]) -> str:
    """The ends of the band of a result in brackets, after a space; empty without a band.

    >>> band_words({"run_time": 2.0, "run_time_low": 1.0, "run_time_high": 3.0}, "run_time", str)
    ' (1.0 to 3.0)'
    """
    return plain(band_cells(costs, name, words))


def band_cells(costs: Mapping[str, float], name: str, words: Callable[[float], str]) -> list[Cell]:
    """The ends of the band of a result in brackets as figures, each by its result; empty without a band."""
    ends = _band_ends(costs, name, words)
    return [" (", *ends, ")"] if ends else []


def _band_ends(costs: Mapping[str, float], name: str, words: Callable[[float], str]) -> list[Cell]:
    """The two ends of a result's band; None without a band."""
    low, high = (Value(words(value), value, each) for each in (f"{name}_low", f"{name}_high")
                 for value in [costs.get(each, math.nan)])  # fmt: skip
    return [low, " to ", high] if math.isfinite((low.value or 0.0) + (high.value or 0.0)) else []


def plan_head(workload: Workload, answer: PlanAnswer, *, priced: bool = False) -> list[Line]:
    """The head of an answer about one plan: the scenario's own, or the best if it has none."""
    words, case = words_of(workload.case.kind), workload.case
    best = "" if case.scenario.plan else "of the best plan, "
    prices = price_lines(subject_of(case).price) if priced else []
    about = [*words.subject(case, ()), styled(f"{best}{words.plan(answer)}"), *prices, *origin_lines(case)]
    return [*about, *words.warnings(answer)]


def plan_fields(workload: Workload, answer: PlanAnswer) -> dict[str, Any]:
    """The fields that identify the scenario and the plan of an answer."""
    return {**subject_fields(workload), "plan": dict(workload.summary(answer).keys)}


def varied_head(workload: Workload, varied: Sequence[str], *, priced: bool = False) -> list[Line]:
    """The head of an answer about several plans, without what varies from one to the next."""
    case = workload.case
    prices = price_lines(workload.facts.price) if priced and not price_varies(varied) else []
    return [*words_of(case.kind).subject(case, varied), *prices, *origin_lines(case)]


def subject_fields(workload: Workload, varied: Sequence[str] = ()) -> dict[str, Any]:
    """The fields that identify the scenario of an answer; varied values are null."""
    case = workload.case
    return {"workload": case.kind, "title": case_title(case), "facts": fact_fields(workload.facts, varied)}


def fixed_key_lines(workload: Workload, varied: Sequence[str]) -> list[Line]:
    """Lines on keys that a search fixes because of --set, and on conflicts of the plan with the search."""
    keys, conflicts = workload.fixed_plan_keys(varied)
    words = " · ".join(f"{key} {value_text(value)}" for key, value in keys.items())
    held = [styled(f"fixed by --set: {words}", HEAD)] if keys else []
    return [*held, *(styled(f"▲ N024 {REMARKS['N024'].title}: {words}", WARN) for words in conflicts)]


_OF_TRAINING = ComparisonColumns(
    (("step time", "step_time"), ("MFU", "mfu"), ("tok/s/GPU", "tokens_per_s_per_gpu"), ("memory", "memory_peak"),
     ("cost per Mtoken", "cost_per_mtoken")),
    "mfu", "has the highest MFU", "MFU",
)  # fmt: skip


def _training_words() -> WorkloadWords:
    """How answers word a training: its results, its plans, and reasons against them."""
    from costmodel.documents.reader.resolved_scenario import training
    from costmodel.estimate.answer_facts import facts_of
    from costmodel.estimate.training_answer.predict_training import Answer
    from costmodel.explore.answer_summaries import brief_plan_text
    from costmodel.explore.explain.plan_choice_effects import ExplainedAnswer
    from costmodel.report.terminal import plan_lines
    from costmodel.report.terminal.formatting import TIME_TERMS, result
    from costmodel.report.terminal.head import head_lines, job_lines, rounded_batch_warning

    def subject(case: LoadedScenario, varied: Sequence[str]) -> list[Line]:
        held = training(case)
        return [
            *job_lines(held.asked.assumed),
            *head_lines(facts_of(held), varied),
            *rounded_batch_warning(held, varied),
        ]

    def of(answer: PlanAnswer) -> Answer:
        assert isinstance(answer, Answer)
        return answer

    def problems(answer: PlanAnswer) -> list[Line]:
        assert isinstance(answer, ExplainedAnswer)
        return plan_lines.problem_lines(answer)

    terms = {name: words for words, name in TIME_TERMS}
    return WorkloadWords(
        result,
        subject,
        lambda answer: brief_plan_text(of(answer).evaluation.block),
        lambda answer, code: plan_lines.reason_against(of(answer), code),
        lambda name, value, digits: result(name, value, digits=digits),
        lambda answer, priced: plan_lines.plan_head_lines(of(answer)),
        problems,
        lambda answer: plan_lines.plan_conclusion(of(answer)),
        _OF_TRAINING,
        terms=terms,
        adds_up=True,
        bought=("run_time", "cost_per_mtoken", "energy"),
        speed=_tokens_a_day,
        unsized=_ignored_dp_warning,
        sized=lambda found: [styled(words) for words in (*_diminishing_sentence(found), *_loss_cautions(found))],
        cautions=_loss_cautions,
    )


def _tokens_a_day(case: LoadedScenario, costs: Mapping[str, float]) -> Sentence:
    """The tokens of a day, of a training without an end."""
    if math.isfinite(costs.get("run_time", math.nan)):
        return []
    rate = Value(f"{_per_day(costs['tokens_per_s'])} G", costs["tokens_per_s"], "tokens_per_s")
    return [rate, " tokens a day", *band_cells(costs, "tokens_per_s", _per_day)]


def _per_day(rate: float) -> str:
    return significant(rate * 86400 / 1e9)


def _ignored_dp_warning(sizes_found: ScalingResult) -> list[Line]:
    """A warning that the plan's dp is ignored, since it follows from the ranks."""
    from costmodel.documents.reader.resolved_scenario import training

    plan = training(sizes_found.asked.case).scenario.plan
    if plan is None or plan.dp is None:
        return []
    return [styled(f"dp follows from the ranks; the {plan.dp:.0f} of the plan is left out", WARN)]


def _loss_cautions(sizes_found: ScalingResult) -> list[str]:
    """Cautions about a time to a loss, if a published fit gives the critical batch."""
    from costmodel.documents.reader.resolved_scenario import training
    from costmodel.estimate.shared.critical_batch import FITS_APART, is_fitted, other_meaning

    workload = training(sizes_found.asked.case).scenario.workload
    if not is_fitted(workload):
        return []
    spread = f"Critical batches of different fits lie up to {FITS_APART:g} times apart."
    return [spread, *(f"{words[0].upper()}{words[1:]}." for words in other_meaning(workload))]


def _diminishing_sentence(sizes_found: ScalingResult) -> list[str]:
    """A sentence on the size from which a doubling saves less than a quarter of the time to a loss."""
    known = [row for row in sizes_found.rows if not math.isnan(row.to_loss)]
    if len(known) < 2:
        return []
    if sizes_found.pays is None:
        most = known[-1].found.text
        return [f"More GPUs pay up to {most}: a doubling saves a quarter of the time to the loss or more."]
    before, after = sizes_found.pays
    time, more = after.to_loss / before.to_loss, after.found.size / before.found.size
    as_many = f"{significant(more)} times as many take {percent(time)} of the time to the loss"
    hours = f"{significant(time * more)} times the GPU hours"
    return [f"More GPUs stop paying after {before.found.text}: {as_many}, and {hours}."]


_OF_SERVING = ComparisonColumns(
    (("within limits", "rate_within_slo_per_s"), ("first token, p99", "ttft_p99"), ("per token", "tpot"),
     ("tok/s/GPU", "tokens_per_s_per_gpu"), ("memory", "memory_peak"), ("cost per M generated", "cost_per_moutput")),
    "tokens_per_gpu_within_limits", "generates most for each accelerator within limits",
    "for each accelerator within limits", (("rent a month", "rent_per_month"), ("chance", "limits_chance")),
)  # fmt: skip


def _lines_below_sizes(sizes: ScalingResult) -> list[Line]:
    from costmodel.report.terminal.serving_scale import lines_below_sizes

    return lines_below_sizes(sizes)


def _serving_words() -> WorkloadWords:
    """How answers word a service: its results, its plans, reasons against them, and its load."""
    from costmodel.documents.reader.serving_scenario import serving
    from costmodel.estimate.serving.predict_serving import ServingAnswer
    from costmodel.estimate.serving.service_limits import OWN
    from costmodel.report.terminal import serving_estimate
    from costmodel.report.terminal.serving_formatting import (
        TERMS,
        band_text,
        overload_lines,
        plan_words,
        reason,
        result,
    )

    def load(case: LoadedScenario) -> str:
        from costmodel.report.terminal.serving_formatting import lengths_with_note, load_words, number_type_words

        held, workload = serving(case), serving(case).scenario.workload
        types = number_type_words(workload) or [workload.precision]
        return " · ".join([held.stack.name, *types, lengths_with_note(workload), load_words(workload)])

    def more(row: ScaledSize) -> dict[str, Any]:
        from costmodel.report.terminal import serving_scale

        return serving_scale.size_fields(row)

    def of(answer: PlanAnswer) -> ServingAnswer:
        assert isinstance(answer, ServingAnswer)
        return answer

    return WorkloadWords(
        result,
        lambda case, varied: _subject_lines(subject_of(case), varied),
        lambda answer: plan_words(of(answer)),
        lambda answer, code: reason(of(answer), code),
        result,
        lambda answer, priced: serving_estimate.serving_head_lines(of(answer), price=priced),
        lambda answer: serving_estimate.problem_lines(of(answer)),
        lambda answer: serving_estimate.serving_conclusion(of(answer)),
        _OF_SERVING,
        band_text,
        lambda answer: [*overload_lines(of(answer))],
        OWN,
        lambda answer, limit: _beside_limit(of(answer), limit),
        {"cost_per_mtoken": "rent/M out"},
        {name: words for words, name in TERMS},
        bought=("cost_per_minput", "cost_per_mcached", "cost_per_moutput", "energy_per_token"),
        traded=("tokens_per_s_per_user", "tokens_per_s_per_gpu"),
        trade=("speed for a user", "work of a GPU"),
        job=MONTHLY,
        speed=_user_speed_sentence,
        load=load,
        sized=_lines_below_sizes,
        more=more,
    )


def _user_speed_sentence(case: LoadedScenario, costs: Mapping[str, float]) -> Sentence:
    """The tokens a second of a user and the time to the first token, with bands and flags of limits not stated."""
    stated = {limit.column.partition("_")[0] for limit in stated_limits(case.scenario.limits)}
    speed, first = costs["tokens_per_s_per_user"], costs["ttft_p99"]
    unlimited = {name: [] if name in stated else [f"no limit: --{name}"] for name in ("tpot", "ttft")}
    of_user: list[Cell] = [Value(significant(speed), speed, "tokens_per_s_per_user"), " tokens/s a user"]
    of_user += _in_brackets([_band_ends(costs, "tokens_per_s_per_user", significant), unlimited["tpot"]])
    of_first: list[Cell] = ["first token p99 ", Value(show_time(first), first, "ttft_p99")]
    of_first += _in_brackets([_band_ends(costs, "ttft_p99", show_time), unlimited["ttft"]])
    return [*of_user, ", ", *of_first] if math.isfinite(speed) else of_first


def _in_brackets(notes: Iterable[Sentence]) -> list[Cell]:
    """Notes in brackets; empty without any."""
    known = [note for note in notes if note]
    found = [cell for place, note in enumerate(known) for cell in (*(["; "] if place else []), *note)]
    return [" (", *found, ")"] if found else []


def _beside_limit(answer: ServingAnswer, limit: Limit) -> str:
    """A note after a missed limit: more arrives than is answered, or no engine can meet the limit."""
    from costmodel.report.terminal.serving_formatting import faster_than_memory

    more = " of what is answered; more arrives" if answer.overload and limit.holds(answer.costs[limit.column]) else ""
    return f"{more}{faster_than_memory(limit, answer.costs['bandwidth_bound'])}"


_OF_RL = ComparisonColumns(
    (("iteration", "iteration_time"), ("answers", "answers_per_s"), ("tok/s/GPU", "tokens_per_s_per_gpu"),
     ("memory", "memory_peak"), ("cost of an iteration", "iteration_cost")),
    "tokens_per_s_per_gpu", "handles most tokens for each accelerator", "for each accelerator",
)  # fmt: skip


def _rl_words() -> WorkloadWords:
    """How answers word reinforcement learning: its results, its plans, and reasons against them."""
    from costmodel.documents.reader.rl_scenario import reinforced
    from costmodel.estimate.rl.predict_rl import RlAnswer
    from costmodel.explore.answer_summaries import rl_plan_text
    from costmodel.report.terminal.head import job_lines
    from costmodel.report.terminal.rl_estimate import (
        NAMES,
        band_text,
        iteration_words,
        problem_lines,
        reason,
        result,
        rl_conclusion,
        rl_head_lines,
    )

    def subject(case: LoadedScenario, varied: Sequence[str]) -> list[Line]:
        own = not any(path.startswith(("workload", "stack")) for path in varied)
        job, iteration = job_lines(case.asked.assumed), [styled(iteration_words(reinforced(case)))] if own else []
        return [*job, *_subject_lines(subject_of(case), varied), *iteration]

    def of(answer: PlanAnswer) -> RlAnswer:
        assert isinstance(answer, RlAnswer)
        return answer

    return WorkloadWords(
        result,
        subject,
        lambda answer: rl_plan_text(of(answer)),
        lambda answer, code: reason(of(answer), code),
        result,
        lambda answer, priced: rl_head_lines(of(answer).inputs.case, of(answer), price=priced),
        lambda answer: problem_lines(of(answer)),
        lambda answer: rl_conclusion(of(answer)),
        _OF_RL,
        band_text,
        terms=NAMES,
        bought=("iteration_time", "run_time", "iteration_cost"),
    )


def _subject_lines(facts: Subject, varied: Sequence[str]) -> list[Line]:
    from costmodel.report.terminal.head import subject_words

    words = subject_words(facts, varied)
    return [styled(words, HEAD)] if words else []


_OF: dict[str, Callable[[], WorkloadWords]] = {"training": _training_words, "serving": _serving_words, "rl": _rl_words}
