"""Training, serving and reinforcement learning as implementations of `Workload`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

from costmodel.documents.reader.load_scenario import vary_any
from costmodel.documents.reader.resolved_scenario import LoadedScenario, ResolvedScenario, training
from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.schemas.results import COLUMNS, RL_RESULTS, RUN_RESULTS, ResultColumn, is_money
from costmodel.estimate.machine.price import price_of
from costmodel.estimate.shared.results import stated_limits
from costmodel.explore.answer_summaries import rl_degrees, rl_summary, serving_summary, training_summary
from costmodel.explore.search.required_chance import EXPECTED, Safety, safety_of
from costmodel.explore.workload_interface import (
    TENTH,
    AnswerSummary,
    ChosenFigure,
    KnownPlans,
    PlanAnswer,
    RequestTokens,
    Workload,
)
from costmodel.ground.errors import Declined, Fault, Place, fail
from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.documents.reader.rl_scenario import RlCase
    from costmodel.documents.reader.serving_scenario import ServingCase
    from costmodel.documents.schemas.baseline import EquationFingerprint
    from costmodel.estimate.answer_facts import Facts
    from costmodel.estimate.rl.predict_rl import RlAnswer
    from costmodel.estimate.rl.trainer_steps import TrainerSteps
    from costmodel.estimate.serving.predict_serving import ServingAnswer
    from costmodel.estimate.shared.reasons import Reason
    from costmodel.estimate.training_answer.predict_training import Answer
    from costmodel.explore.compare.compare import Side
    from costmodel.explore.compare.input_paths import Variant
    from costmodel.explore.explain.equation_trees import ExplainedFigure
    from costmodel.explore.workload_interface import Scaling, SmallestPlans

_LENGTHS = ("workload.prompt", "workload.output")
_FRACTIONAL = "workload.rate"  # other loads are whole numbers
_DEGREES = tuple(f"plan.{degree}" for degree in ("tp", "pp", "ep", "dp_attention", "dcp"))
_MANY = 64  # times the users of a scenario that are tried
_SIZES = {"stack.budget": "512..65536*2", "stack.sequences": "16..4096*2"}  # of a step
_BY_RATE = (
    "a service is scaled by its rate, with the GPUs that it needs: --rate '2..16 /s'; or sweep --over "
    "cluster.nodes=1,2,4"
)


@record
class TrainingWorkload(Workload):
    """A training scenario; without a plan, the best plan of a search is used."""

    case: ResolvedScenario
    columns: ClassVar[Mapping[str, ResultColumn]] = COLUMNS["training"]
    usual_result: ClassVar[str] = "step_time"
    watched_results: ClassVar[tuple[str, ...]] = ("step_time", "memory_peak", "cost_per_mtoken")
    shown_results: ClassVar[tuple[str, ...]] = ("step_time", "mfu", "memory_peak")
    chance: ClassVar[str] = "fit_chance"

    @property
    def reasons(self) -> Mapping[str, Reason]:
        """The possible reasons against a plan."""
        from costmodel.estimate.shared.reasons import REFUSALS

        return REFUSALS

    @property
    def facts(self) -> Facts:
        """Model, machine and job of the training scenario."""
        from costmodel.estimate.answer_facts import facts_of

        return facts_of(self.case)

    def for_case(self, case: LoadedScenario) -> TrainingWorkload:
        """The workload of another training scenario."""
        return replace(self, case=training(case))

    def with_plan(self) -> TrainingWorkload:
        """The workload with its best plan, where it has none."""
        from costmodel.explore.compare.select_plan import own_or_best_plan

        held = self.case.scenario.model_copy(update={"plan": own_or_best_plan(self.case)})
        return replace(self, case=replace(self.case, scenario=held))

    def by_search(self, paths: Sequence[str], *, best: bool, alone: bool = False) -> bool:
        """Whether variants have the best plan of a search: if asked for, or if no plan and no path states one."""
        from costmodel.explore.compare.select_plan import is_by_search

        return is_by_search(self.case, paths, best=best or alone)

    def fixed_plan_keys(self, varied: Sequence[str]) -> tuple[Mapping[str, object], tuple[str, ...]]:
        """The plan keys that --set fixed."""
        held = self.case.held
        return {key: value for key, value in held.values.items() if f"plan.{key}" not in varied}, held.conflicts

    @property
    def trains_few_parameters(self) -> bool:
        """Whether it trains adapters."""
        return self.case.scenario.workload.tuning != "full"

    @property
    def tokens(self) -> float | None:
        """The number of tokens of the whole run, if stated."""
        return self.case.scenario.workload.tokens

    def as_whole_job(self) -> TrainingWorkload:
        """The job with the usual failures and checkpoints, where the scenario states tokens and no run."""
        if self.case.scenario.run is not None or self.case.scenario.workload.tokens is None:
            return self
        held = self.for_case(vary_any(self.case, ["run={}"]))
        usual = Assumption("run", "{}", "usual failures and checkpoints; --set run=null leaves them out")
        asked = replace(held.case.asked, assumed=(*held.case.asked.assumed, usual))
        return replace(held, case=replace(held.case, asked=asked))

    def smallest_plans(
        self, safe: float, most: float, *, full: bool = False, known: KnownPlans | None = None
    ) -> SmallestPlans:
        """The smallest plans over numbers of nodes, with the machine's usual software where none is stated."""
        from costmodel.explore.flag_defaults import usual_stack
        from costmodel.explore.purchase.smallest_size import smallest_size

        software = () if "stack" in self.case.tree else (f"stack={usual_stack(self.case)}",)
        if f"stack={self.case.scenario.stack}" in software:
            return smallest_size(self, safe, most, full=full, known=known)
        varied = self.for_case(vary_any(self.case, software))
        return smallest_size(varied, safe, most, full=full, known=known).with_settings(software)

    def answer(self, results: Collection[str] = (), *, best: bool = False) -> Answer:
        """The answer for the plan, or for the best one; with bands and remarks only where `results` need them."""
        from costmodel.explore.compare.select_plan import answer_of_own_or_best

        return answer_of_own_or_best(self.case, best=best, bands=_with_bands(self, results))

    def results_of(self, variants: Sequence[Variant], result: str) -> Iterator[float | None]:
        """Evaluates all variants at once, unless bands are needed."""
        from costmodel.estimate.training.training_inputs import training_inputs
        from costmodel.explore.compare.input_paths import results_in_rows
        from costmodel.explore.compare.select_plan import results_in_variants

        rows: Sequence[float | None] = [None] * len(variants)
        if not _with_bands(self, [result]):
            rows = results_in_rows(self.case, variants, result, training_inputs, results_in_variants)
        return self._fill_results(variants, result, rows)

    def summary(self, answer: PlanAnswer) -> AnswerSummary:
        """The answer reduced to its results and its plan."""
        return training_summary(_training_answer(answer))

    def failure_kind(self, code: str) -> Literal["fits", "valid", "load"] | None:
        """The failure that a code means: the plan does not fit, or its run never ends."""
        from costmodel.estimate.training_answer.predict_training import ENDLESS

        return "fits" if code == "M001" else "valid" if code == ENDLESS else None

    def figures(self, answer: PlanAnswer) -> dict[str, float]:
        """All figures of a training answer by name: results, memory lines, transfers."""
        from costmodel.explore.compare.compare import training_figures

        return training_figures(_training_answer(answer))

    def plan_entry(self, answer: PlanAnswer) -> Mapping[str, str | float | bool]:
        """Every size and choice of the plan, as a baseline stores it."""
        from costmodel.explore.compare.compare import plan_choices

        return plan_choices(_training_answer(answer).evaluation.block)

    def equation_fingerprints(self, answer: PlanAnswer) -> Mapping[str, EquationFingerprint]:
        """The fingerprint of every equation; a serving engine has none, as it calls each one thousands of times."""
        from costmodel.explore.compare.compare import equation_fingerprints

        return equation_fingerprints(_training_answer(answer))

    def called_equations(self, answer: PlanAnswer) -> Mapping[str, set[str]]:
        """For each equation, the equations that it calls itself."""
        from costmodel.explore.compare.compare import called_equations

        return called_equations(_training_answer(answer))

    def side(self, name: str, rank: int | None, *, changed: bool) -> Side:
        """The answer about its plan, or the figures of a stored result."""
        from costmodel.explore.compare.select_plan import training_side

        return training_side(name, self.case, rank, changed=changed)

    def scaling(self, ranks: str, rate: str, *, weak: bool, best: bool) -> Scaling:
        """The sizes by number of accelerators."""
        from costmodel.explore.purchase.smallest_size import RankSizes, rank_counts
        from costmodel.explore.vary.scale import training_growth

        _refuse_options("training", {"--rate": bool(rate)}, "--ranks 64..4096")
        return RankSizes(self, tuple(rank_counts(ranks)), training_growth(self.case, weak=weak, best=best), weak, best)

    @property
    def quantities(self) -> Mapping[str, str]:
        """The results, and the memory lines of a rank."""
        from costmodel.estimate.training.memory_breakdown import LINES

        return {**super().quantities, **dict.fromkeys(LINES, "")}

    def explain(self, answer: PlanAnswer, *quantities: str) -> list[ExplainedFigure]:
        """The trees of figures of one evaluation."""
        from costmodel.explore.explain.equation_trees import explained_figure, traced_evaluation

        held = _training_answer(answer)
        evaluation = traced_evaluation(held.inputs, held.plan)
        return [explained_figure(held.inputs, evaluation, quantity) for quantity in quantities]

    def neighbours(self, answer: PlanAnswer) -> Iterator[tuple[str, Mapping[str, object]]]:
        """The neighbours of the training plan."""
        from costmodel.explore.vary.neighbours import training_neighbours

        held = _training_answer(answer)
        return training_neighbours(held.plan, held.evaluation.block, held.inputs)

    def missing_input(self, result: str) -> str:
        """The input to set for an unknown result."""
        from costmodel.estimate.training.training_inputs import training_inputs
        from costmodel.estimate.training_answer.evaluate_training import missing_input

        return missing_input(training_inputs(self.case), result)


@record
class ServingWorkload(Workload):
    """A serving scenario."""

    case: ServingCase
    columns: ClassVar[Mapping[str, ResultColumn]] = COLUMNS["serving"]
    watched_results: ClassVar[tuple[str, ...]] = (
        "ttft_p99",
        "tpot",
        "rate_within_slo_per_s",
        "memory_peak",
        "rent_per_month",
        "cost_per_mtoken",
    )
    shown_results: ClassVar[tuple[str, ...]] = ("rate_within_slo_per_s", "ttft", "ttft_p99", "tpot", "worst_gap")
    chance: ClassVar[str] = "limits_chance"

    @property
    def usual_result(self) -> str:
        """The time per token, which an answer of one token does not have."""
        return "ttft" if self.case.scenario.workload.single_token else "tpot"

    @property
    def within_limits(self) -> tuple[str, ...]:
        """The highest rate within limits, and what follows from it."""
        from costmodel.explore.serving.search_layouts import OF_RATE

        return ("rate_within_slo_per_s", *OF_RATE)

    @property
    def chance_event(self) -> str:
        """The event of the chance, in words: to meet limits, or else to answer what arrives."""
        return "to meet all limits" if [*stated_limits(self.case.scenario.limits)] else "to answer all that arrives"

    @property
    def reasons(self) -> Mapping[str, Reason]:
        """The possible reasons against a plan."""
        from costmodel.estimate.serving.predict_serving import REFUSALS

        return REFUSALS

    def for_case(self, case: LoadedScenario) -> ServingWorkload:
        """The workload of another serving scenario."""
        from costmodel.documents.reader.serving_scenario import serving

        return replace(self, case=serving(case))

    def smallest_plans(
        self, safe: float, most: float, *, full: bool = False, known: KnownPlans | None = None
    ) -> SmallestPlans:
        """The smallest plans over the replicas of every layout."""
        from costmodel.explore.serving.best_fleets import smallest_fleets

        return smallest_fleets(self.case, safe, most)

    @property
    def engine_share(self) -> float | None:
        """The share that the engine's document or the scenario states."""
        return self.case.stack.memory.share

    @property
    def request_tokens(self) -> RequestTokens:
        """The average tokens of a request; what repeats earlier tokens is in the cache."""
        from costmodel.estimate.serving.conversation_cache import shared_tokens
        from costmodel.estimate.serving.serving_inputs import inputs_of

        inputs = inputs_of(self.case)
        load = inputs.load
        cached = float(load.common + load.history)
        cached += float(shared_tokens(inputs))
        return RequestTokens(float(load.prompt) - cached, cached, float(load.generated))

    @property
    def measured_runs(self) -> float:
        """The number of published runs of the engines that were fitted."""
        engines = self.case.common.engines
        return 0.0 if engines is None else float(engines.parts.get(self.case.accelerator.name, 0.0))

    @property
    def smaller_type(self) -> str:
        """Fp8 where no number format is stated."""
        return "" if {"precision", "weights"} & self.case.scenario.workload.model_fields_set else "fp8"

    def with_plan(self) -> ServingWorkload:
        """The workload with its best plan, where it has none."""
        from costmodel.explore.serving.best_layout import with_best_layout

        return self if self.case.scenario.plan is not None else self.for_case(with_best_layout(self.case))

    def by_search(self, paths: Sequence[str], *, best: bool, alone: bool = False) -> bool:
        """Whether variants have the best plan of a search: if asked for, or if the scenario as written has no plan."""
        from costmodel.explore.serving.best_layout import by_search

        return by_search(self.case, best=best)

    def answer(self, results: Collection[str] = (), *, best: bool = False) -> ServingAnswer:
        """The answer for the plan under its load; with bands and rates within limits only where `results` need them."""
        from costmodel.documents.reader.serving_scenario import serving
        from costmodel.estimate.serving.predict_serving import predict
        from costmodel.explore.serving.best_layout import with_best_layout

        best = best or self.case.scenario.plan is None
        held = serving(with_best_layout(self.case)) if best else self.case
        return predict(held, bands=self._with_bands(results), limited=self._with_limited(results))

    def _with_bands(self, results: Collection[str]) -> bool:
        from costmodel.estimate.serving.serving_error_band import is_of_bands

        return not results or any(map(is_of_bands, results))

    def _with_limited(self, results: Collection[str]) -> bool:
        """Whether the results or limits asked for need the rate within limits."""
        from costmodel.estimate.serving.service_limits import OWN

        limits = (limit.column for limit in stated_limits(self.case.scenario.limits) if limit.column != OWN)
        names = (name.removesuffix("_low").removesuffix("_high") for name in (*results, *limits))
        return not results or any(name in self.within_limits for name in names)

    def results_of(self, variants: Sequence[Variant], result: str) -> Iterator[float | None]:
        """Evaluates all variants at once, unless bands or rates within limits are needed."""
        from costmodel.estimate.serving.predict_serving import row_results
        from costmodel.estimate.serving.serving_inputs import inputs_without_limits
        from costmodel.explore.compare.input_paths import results_in_rows

        rows: Sequence[float | None] = [None] * len(variants)
        if not (self._with_bands([result]) or self._with_limited([result])):
            rows = results_in_rows(self.case, variants, result, inputs_without_limits, row_results)
        return self._fill_results(variants, result, rows)

    def summary(self, answer: PlanAnswer) -> AnswerSummary:
        """The answer reduced to its results and its plan."""

        return serving_summary(_serving_answer(answer))

    def failure_kind(self, code: str) -> Literal["fits", "valid", "load"] | None:
        """The failure that a code means: the cache does not fit, or more arrives than is answered."""
        from costmodel.explore.serving.search_layouts import UNSTABLE

        return "load" if code in UNSTABLE else None

    def plan_entry(self, answer: PlanAnswer) -> Mapping[str, str | float | bool]:
        """The degrees, the replicas and the token budget of the plan."""
        from costmodel.estimate.serving.plan_columns import sizes_of

        return sizes_of(_serving_answer(answer).evaluation.layout)

    def varied_key(self, path: str) -> str:
        """The key, or the mean of lengths that are spread: other lengths with the same spread are tried."""
        from costmodel.documents.schemas.serving import Lengths

        spread = path in _LENGTHS and isinstance(getattr(self.case.scenario.workload, path.partition(".")[2]), Lengths)
        return f"{path}.mean" if spread else path

    def values_to_try(self, path: str) -> str:
        """Degrees and replicas that the accelerators allow, and sizes of a step."""
        from costmodel.estimate.serving.predict_serving import replica_ranks

        in_flight = self.case.scenario.workload.concurrency
        if path == "workload.users" and in_flight is not None:  # users who do not think
            return f"1..{_MANY * in_flight:.0f}"
        devices, plan = int(self.case.cluster.nodes * self.case.node.accelerators), self.case.scenario.plan
        if path in _DEGREES:
            return ",".join(f"{2**power}" for power in range(devices.bit_length()))
        if path == "plan.replicas":
            most_replicas = devices // int(1 if plan is None else replica_ranks(plan))
            return f"1..{most_replicas}" if most_replicas > 1 else "1"
        return _SIZES.get(path, "")

    def safety(self, path: str) -> Safety:
        """The chance to meet all limits; none where kernels were never measured, so that expected figures rule."""
        from costmodel.estimate.serving.measured_spreads import is_unmeasured
        from costmodel.estimate.serving.serving_inputs import inputs_of

        asked = safety_of(self.case, path)
        return EXPECTED if is_unmeasured(inputs_of(self.case)) and not asked.is_stated else asked

    def side(self, name: str, rank: int | None, *, changed: bool) -> Side:
        """The answer about its plan."""
        from costmodel.explore.serving import compare_serving

        return compare_serving.side(name, self.case if rank is None else compare_serving.ranked(self.case, rank))

    def scaling(self, ranks: str, rate: str, *, weak: bool, best: bool) -> Scaling:
        """The sizes by rate of requests, with as many replicas as the limits need."""
        from costmodel.explore.serving.scale_by_rate import rate_sizes

        _refuse_options("serving", {"--ranks": bool(ranks), "--weak": weak}, _BY_RATE)
        return rate_sizes(self, rate, best=best)

    @property
    def quantities(self) -> Mapping[str, str]:
        """The results, and the memory lines of an accelerator."""
        from costmodel.explore.serving.explain_serving import LINES

        return {**super().quantities, **LINES}

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """The labels of all answers about a service."""
        from costmodel.explore.label_lookup import OF_SERVICES

        return OF_SERVICES

    def explain(self, answer: PlanAnswer, *quantities: str) -> list[ExplainedFigure]:
        """The trees of figures of one evaluation."""
        return self.explain_prices([answer], *quantities)[0]

    def explain_prices(self, answers: Sequence[PlanAnswer], *names: str) -> list[list[ExplainedFigure]]:
        """The trees of one evaluation, of which money alone differs between prices."""
        from costmodel.explore.serving.explain_serving import explain_at_prices

        return explain_at_prices([_serving_answer(each).inputs for each in answers], *names)

    def explain_light(self, answer: PlanAnswer, *names: str) -> list[ExplainedFigure]:
        """The trees of the chance to meet limits and of ends of bands, of their last steps alone."""
        from costmodel.explore.serving.explain_serving import explain_light

        return explain_light(_serving_answer(answer), *names)

    def neighbours(self, answer: PlanAnswer) -> Iterator[tuple[str, Mapping[str, object]]]:
        """The neighbours of the plan of a replica and its engine."""
        from costmodel.explore.vary.neighbours import serving_neighbours

        return serving_neighbours(_serving_answer(answer))

    def missing_input(self, result: str) -> str:
        """What to set for an unknown result: a price, a limit on latency, or a longer answer."""
        from costmodel.documents.schemas.serving import BETWEEN_TOKENS
        from costmodel.estimate.serving.service_limits import IN_TIME

        if result in BETWEEN_TOKENS and self.case.scenario.workload.single_token:
            return "set a longer workload.output: an answer is one token, and none follows it"

        if result in IN_TIME:
            return "requests are in time by a limit, for example --set limits.ttft_p99.at_most=1s"
        return _missing_price(self.case, result)

    def choices(self) -> tuple[ChosenFigure, ...]:
        """The load, the lengths of requests, and the most tokens and sequences of a step, each turned by a tenth."""
        import numpy as np

        from costmodel.documents.schemas.serving import LOADS
        from costmodel.estimate.serving.serving_inputs import inputs_of
        from costmodel.explore.compare.input_paths import input_values

        inputs, written = inputs_of(self.case), input_values(self.case)
        named = [f"workload.{name}" for name in LOADS] + [f"{path}{end}" for path in _LENGTHS for end in ("", ".mean")]
        figures = {path: (float(written[path].value), written[path].text) for path in named if path in written}
        for path, size in (("stack.budget", inputs.budget), ("stack.sequences", inputs.sequences)):
            figures[path] = float(np.asarray(size).flat[0]), f"{float(np.asarray(size).flat[0]):.10g}"
        return tuple(
            ChosenFigure(
                path,
                text,
                figure,
                TENTH * figure if path == _FRACTIONAL else max(1.0, round(TENTH * figure)),
                "plan" if path.startswith("stack.") else "workload",
            )
            for path, (figure, text) in figures.items()
        )


@record
class RlWorkload(Workload):
    """An RL scenario; its variants share optimizer steps that are evaluated already."""

    case: RlCase
    steps: TrainerSteps
    columns: ClassVar[Mapping[str, ResultColumn]] = COLUMNS["rl"]
    usual_result: ClassVar[str] = "iteration_time"
    watched_results: ClassVar[tuple[str, ...]] = ("iteration_time", "memory_peak", "iteration_cost")
    shown_results: ClassVar[tuple[str, ...]] = ("iteration_time", "generation", "tail", "update_time", "memory_peak")
    chance: ClassVar[str] = "fit_chance"

    @property
    def reasons(self) -> Mapping[str, Reason]:
        """The possible reasons against a plan."""
        from costmodel.estimate.rl.rl_reason_codes import REFUSALS

        return REFUSALS

    def smallest_plans(
        self, safe: float, most: float, *, full: bool = False, known: KnownPlans | None = None
    ) -> SmallestPlans:
        """The smallest plans over numbers of nodes."""
        from costmodel.explore.purchase.smallest_size import smallest_size

        return smallest_size(self, safe, most, full=full, known=known)

    @property
    def measured_runs(self) -> float:
        """The number of published iterations on this accelerator."""
        from costmodel.explore.rl import published_iterations

        return float(published_iterations()[self.case.accelerator.name])

    def for_case(self, case: LoadedScenario) -> RlWorkload:
        """The workload of another RL scenario."""
        from costmodel.documents.reader.rl_scenario import reinforced

        return replace(self, case=reinforced(case))

    def with_plan(self) -> RlWorkload:
        """The workload with its best plan, where it has none."""
        from costmodel.explore.rl import with_own_or_best_plan

        return replace(self, case=with_own_or_best_plan(self.case))

    def by_search(self, paths: Sequence[str], *, best: bool, alone: bool = False) -> bool:
        """Whether variants have the best plan of a search: if asked for, or if no plan and no path states one."""
        is_open = self.case.scenario.plan is None and not any(path.startswith("plan.") for path in paths)
        return best or alone or is_open

    def answer(self, results: Collection[str] = (), *, best: bool = False) -> RlAnswer:
        """The answer for the plan, or for the best one; with bands and remarks only where `results` need them."""
        from costmodel.estimate.rl.predict_rl import predict
        from costmodel.explore.rl import best_answer

        best = best or self.case.scenario.plan is None
        if best:
            return best_answer(self.case)
        return predict(self.case, self.steps, bands=_with_bands(self, results))

    def results_of(self, variants: Sequence[Variant], result: str) -> Iterator[float | None]:
        """Evaluates all variants at once, unless bands are needed."""
        from costmodel.estimate.rl.predict_rl import row_results
        from costmodel.explore.compare.input_paths import results_in_rows

        rows: Sequence[float | None] = [None] * len(variants)
        if self.case.scenario.plan is not None and not _with_bands(self, [result]):
            rows = results_in_rows(self.case, variants, result, lambda case: case, row_results)
        return self._fill_results(variants, result, rows)

    def summary(self, answer: PlanAnswer) -> AnswerSummary:
        """The answer reduced to its results and both plans."""
        return rl_summary(_rl_answer(answer))

    def failure_kind(self, code: str) -> Literal["fits", "valid", "load"] | None:
        """The failure that a code means: the plan does not fit."""
        return "fits" if code == "M001" else None

    def plan_entry(self, answer: PlanAnswer) -> Mapping[str, str | float | bool]:
        """The degrees of both plans."""
        return rl_degrees(_rl_answer(answer))

    def side(self, name: str, rank: int | None, *, changed: bool) -> Side:
        """The answer about its plan, or about its best one."""
        from costmodel.explore.rl import rl_side

        return rl_side(name, self.case, rank)

    def scaling(self, ranks: str, rate: str, *, weak: bool, best: bool) -> Scaling:
        """The sizes by number of accelerators."""
        from costmodel.documents.schemas.rl import PHASES
        from costmodel.explore.purchase.smallest_size import RankGrowth, RankSizes, rank_counts
        from costmodel.explore.rl import settings_for_ranks

        _refuse_options("reinforcement learning", {"--rate": bool(rate)}, "--ranks 64..512")
        growth = RankGrowth(
            strong="the same iteration on all sizes",
            weak="prompts grow with the accelerators",
            grown="workload.prompts",
            shown=("iteration_time", "answers_per_s", "generation", "tail", "update_time"),
            figure="iteration_time",
            work="answers_per_s",
            time="iteration_time",
            terms=tuple(PHASES),
            each=lambda costs, size: costs["answers_per_s"] / size,
            settings=lambda ranks: settings_for_ranks(self.case, ranks, weak=weak),
        )
        return RankSizes(self, tuple(rank_counts(ranks)), growth, weak, best)

    def explain(self, answer: PlanAnswer, *quantities: str) -> list[ExplainedFigure]:
        """The trees of figures of one evaluation."""
        from costmodel.explore.rl import explain

        return explain(_rl_answer(answer), *quantities)

    def neighbours(self, answer: PlanAnswer) -> Iterator[tuple[str, Mapping[str, object]]]:
        """The neighbours of both plans, and of how they share the accelerators."""
        from costmodel.explore.vary.neighbours import rl_neighbours

        return rl_neighbours(_rl_answer(answer))

    def missing_input(self, result: str) -> str:
        """What to set for an unknown result: a run, a number of iterations, or a price."""
        if self.case.scenario.workload.iterations is None and result in RUN_RESULTS and result in RL_RESULTS:
            return "set workload.iterations, e.g. 1000"
        if self.case.scenario.run is None and result in RUN_RESULTS and result not in RL_RESULTS:
            return "set run, e.g. {} for all that is usual"
        return _missing_price(self.case, result)


def _with_bands(workload: Workload, results: Collection[str]) -> bool:
    """Whether bands are needed: for all results, or for one that is asked for or limited."""
    looked_at = (*results, *(limit.column for limit in stated_limits(workload.case.scenario.limits)))
    return not results or any(name == workload.chance or name.endswith(("_low", "_high")) for name in looked_at)


def _training_answer(answer: PlanAnswer) -> Answer:
    from costmodel.estimate.training_answer.predict_training import Answer

    assert isinstance(answer, Answer)
    return answer


def _serving_answer(answer: PlanAnswer) -> ServingAnswer:
    from costmodel.estimate.serving.predict_serving import ServingAnswer

    assert isinstance(answer, ServingAnswer)
    return answer


def _rl_answer(answer: PlanAnswer) -> RlAnswer:
    from costmodel.estimate.rl.predict_rl import RlAnswer

    assert isinstance(answer, RlAnswer)
    return answer


def _missing_price(case: LoadedScenario, result: str) -> str:
    return "set assume.price, e.g. 2.50 USD/GPU/h" if is_money(result) and not price_of(case).known else ""


def _refuse_options(kind: str, given: Mapping[str, bool], instead: str) -> None:
    """Raises a fault for options that scale a workload of another kind."""
    names = [name for name, value in given.items() if value]
    if names:
        raise fail("C030", f"scale of {kind} has no {', '.join(names)}", None, instead)


def _serving(case: LoadedScenario) -> Workload:
    from costmodel.documents.reader.serving_scenario import serving

    return ServingWorkload(serving(case))


def _rl(case: LoadedScenario) -> Workload:
    from costmodel.documents.reader.rl_scenario import reinforced
    from costmodel.estimate.rl.trainer_steps import TrainerSteps

    return RlWorkload(reinforced(case), TrainerSteps())


_OF: dict[str, Callable[[LoadedScenario], Workload]] = {
    "training": lambda case: TrainingWorkload(training(case)),
    "serving": _serving,
    "rl": _rl,
}


def workload_of(case: LoadedScenario) -> Workload:
    """The workload of a scenario; imports only the modules of that workload."""
    return _OF[case.kind](case)


def check_exportable(answer: PlanAnswer, case: LoadedScenario, *, fitting: bool = False) -> None:
    """Raises a fault for a plan that is invalid, does not fit, or misses the limits or the load of its scenario.

    fitting: whether it only has to fit
    """
    if answer.refused:
        hint = "costmodel estimate SCENARIO shows what to change"
        raise fail("C004", f"the plan is invalid: {answer.refused[0]}", Place(case.file), hint)
    missed = [code for code in answer.broken if code == "M001" or not fitting]
    if missed:
        known, words = workload_of(case).reasons, case.name or shlex.join(case.asked.words) or "SCENARIO"
        why = ", ".join(f"{code} {known[code].title}" for code in missed)
        hint = f"costmodel search {words} finds plans that do, and --rank 1 exports the best"
        hint += "; --gpus takes more" if case.asked.words and "--gpus" not in case.asked.words else ""
        raise Declined(Fault("C004", f"the plan is not exported: {why}", Place(case.file), hint))
