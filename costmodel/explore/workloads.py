"""Training, serving and reinforcement learning as questions see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from costmodel.documents.reader.resolved_scenario import LoadedScenario, ResolvedScenario, training
from costmodel.documents.schemas.results import COLUMNS, RL_RESULTS, RUN_RESULTS, ResultColumn, is_money
from costmodel.estimate.machine.price import price_of
from costmodel.explore.vary.knob import TENTH
from costmodel.explore.workload import ChosenFigure, Workload
from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.documents.reader.rl_scenario import RlCase
    from costmodel.documents.reader.serving_scenario import ServingCase
    from costmodel.estimate.evaluate.predict import Answer
    from costmodel.estimate.rl.predict_rl import RlAnswer
    from costmodel.estimate.rl.trainer_steps import TrainerSteps
    from costmodel.estimate.serving.predict_serving import ServingAnswer

_LENGTHS = ("workload.prompt", "workload.output")
_FRACTIONAL = "workload.rate"  # other loads are whole numbers


@record
class TrainingWorkload:
    """A scenario that trains; where it has no plan the best of a search is meant."""

    case: ResolvedScenario
    columns: ClassVar[Mapping[str, ResultColumn]] = COLUMNS["training"]
    usual: ClassVar[str] = "step_time"

    def of(self, case: LoadedScenario) -> TrainingWorkload:
        """Another scenario that trains."""
        return replace(self, case=training(case))

    def planned(self) -> TrainingWorkload:
        """With its best plan, where it has none."""
        from costmodel.explore.compare.select_plan import planned

        held = self.case.scenario.model_copy(update={"plan": planned(self.case)})
        return replace(self, case=replace(self.case, scenario=held))

    def answer(self, result: str = "") -> Answer:
        """One plan, or the nearest to one that works."""
        from costmodel.explore.compare.select_plan import answered

        return answered(self.case)

    def missing(self, result: str) -> str:
        """The input to set for an unknown result."""
        from costmodel.estimate.evaluate.evaluate_plans import missing_input
        from costmodel.estimate.training.training_inputs import training_inputs

        return missing_input(training_inputs(self.case), result)

    def choices(self) -> tuple[ChosenFigure, ...]:
        """None: a batch and its lengths decide what the model learns."""
        return ()


@record
class ServingWorkload:
    """A scenario that serves."""

    case: ServingCase
    columns: ClassVar[Mapping[str, ResultColumn]] = COLUMNS["serving"]

    @property
    def usual(self) -> str:
        """The time per token, which an answer of one token does not have."""
        return "ttft" if self.case.scenario.workload.single_token else "tpot"

    def of(self, case: LoadedScenario) -> ServingWorkload:
        """Another scenario that serves."""
        from costmodel.documents.reader.serving_scenario import serving

        return replace(self, case=serving(case))

    def planned(self) -> ServingWorkload:
        """With its best plan, where it has none."""
        from costmodel.explore.serving.best_layout import with_best_layout

        return self if self.case.scenario.plan is not None else self.of(with_best_layout(self.case))

    def answer(self, result: str = "") -> ServingAnswer:
        """One plan under its load; its bands are left out where they are not looked at."""
        from costmodel.estimate.serving.figure_bands import is_of_bands
        from costmodel.estimate.serving.predict_serving import predict

        return predict(self.case, bands=not result or is_of_bands(result))

    def missing(self, result: str) -> str:
        """The price, of a cost; nothing else is left open."""
        return _missing_price(self.case, result)

    def choices(self) -> tuple[ChosenFigure, ...]:
        """The load, the lengths of requests, and the most tokens and sequences of a step, each turned by a tenth."""
        import numpy as np

        from costmodel.documents.schemas.serving.serving_workload import LOADS
        from costmodel.estimate.serving.serving_inputs import inputs_of
        from costmodel.explore.compare.input_paths import leaves

        inputs, written = inputs_of(self.case), leaves(self.case)
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
class RlWorkload:
    """A scenario of reinforcement learning; its variants share steps of the trainer that are known."""

    case: RlCase
    steps: TrainerSteps
    columns: ClassVar[Mapping[str, ResultColumn]] = COLUMNS["rl"]
    usual: ClassVar[str] = "iteration_time"

    def of(self, case: LoadedScenario) -> RlWorkload:
        """Another scenario of reinforcement learning."""
        from costmodel.documents.reader.rl_scenario import reinforced

        return replace(self, case=reinforced(case))

    def planned(self) -> RlWorkload:
        """With its best plan, where it has none."""
        from costmodel.explore.rl.search_splits import planned

        return replace(self, case=planned(self.case))

    def answer(self, result: str = "") -> RlAnswer:
        """One plan of an iteration."""
        from costmodel.estimate.rl.predict_rl import predict

        return predict(self.case, self.steps)

    def missing(self, result: str) -> str:
        """The section about the whole run, of its results, and the price, of a cost."""
        if self.case.scenario.run is None and result in RUN_RESULTS and result not in RL_RESULTS:
            return "set run, e.g. {} for all that is usual"
        return _missing_price(self.case, result)

    def choices(self) -> tuple[ChosenFigure, ...]:
        """None: prompts, samples and lengths decide what the model learns."""
        return ()


def _missing_price(case: LoadedScenario, result: str) -> str:
    return "set assume.price, e.g. 2.50 USD/GPU/h" if is_money(result) and not price_of(case).known else ""


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
    """A scenario as questions see it; only the modules of its own workload are imported."""
    return _OF[case.kind](case)
