"""The library's face: the questions of the command line, with answers that notebooks can show and pandas can read.

Each function takes a scenario by name or path, with settings as `--set` writes them, or a case that `load` returned.
Nothing prints. A fault is a `CostModelError` with code, sentence, place and remedy.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from costmodel.documents.reader.resolved_scenario import LoadedScenario, training
from costmodel.documents.reader.resolved_scenario import load_any as load
from costmodel.documents.schemas.default_values import SAFE
from costmodel.explore.safety import preferring
from costmodel.ground.errors import CostModelError as CostModelError
from costmodel.ground.record import record
from costmodel.report.terminal.style.answer import Reply

if TYPE_CHECKING:
    from pandas import DataFrame

    from costmodel.explore.page.plan_facts import PlanFacts
    from costmodel.explore.page.rl_facts import RlFacts
    from costmodel.explore.page.serving_facts import ServingFacts
    from costmodel.explore.search.ranges import Axis
    from costmodel.report.page.notebook import Drawn

__all__ = ["CostModelError", "Result", "compare", "estimate", "explain", "figure", "load", "memory", "search", "sweep"]

_WIDTH = 110  # columns of an answer in a notebook
_HTML = "<pre style='line-height:1.25'>{code}</pre>"


Scenario = str | LoadedScenario


@record
class Result:
    """One answer.

    `found` is what the engine returned, typed by the function that asked; `figures` is the same as plain values, with
    units in the names, as `--json` writes it.
    """

    found: Any
    reply: Reply

    @property
    def works(self) -> bool:
        """Whether the answer is yes: valid, fits, keeps its limits; exit code 0 of the command."""
        return self.reply.yes

    @property
    def figures(self) -> dict[str, Any]:
        """The answer as plain values; an unknown number is None."""
        from costmodel.report.machine.formats import machine

        figures: dict[str, Any] = machine(self.reply.result())
        return figures

    def frame(self) -> DataFrame:
        """The table of the answer: a row for each plan, point, transfer or figure."""
        import pandas

        from costmodel.report.machine.formats import machine, rows_of

        return pandas.json_normalize(machine(rows_of(self.reply)) if self.reply.rows else [self.figures])

    def __repr__(self) -> str:
        from costmodel.report.terminal.style.layout import laid

        return "\n".join(line.plain for line in laid(self.reply.lines(), _WIDTH))

    def _repr_html_(self) -> str:
        from rich.console import Console

        from costmodel.report.terminal.style.layout import laid

        console = Console(
            record=True,
            width=_WIDTH,
            file=io.StringIO(),
            force_terminal=True,
            force_jupyter=False,  # in Jupyter a console shows each line at once, and the answer would stand there twice
            color_system="truecolor",
        )
        for line in laid(self.reply.lines(), _WIDTH):
            console.print(line, soft_wrap=True)
        return console.export_html(inline_styles=True, code_format=_HTML)


def _case(scenario: Scenario, settings: Iterable[str], safe: float | None = SAFE) -> LoadedScenario:
    if not isinstance(scenario, str) and tuple(settings):
        raise TypeError("settings go with the name of a scenario; give them to load")
    return preferring(load(scenario, settings) if isinstance(scenario, str) else scenario, safe)


def _served(case: LoadedScenario, reply: Callable[..., Reply], *args: Any, **options: Any) -> Result:
    """A question about a scenario that serves; `found` is the answer about its own plan."""
    from costmodel.documents.reader.serving_scenario import serving
    from costmodel.estimate.serving.predict_serving import predict

    return Result(predict(serving(case)), reply(case, *args, **options))


def _reinforced(case: LoadedScenario, reply: Callable[..., Reply], *args: Any, **options: Any) -> Result:
    """A question about reinforcement learning; `found` is the answer about its own plan."""
    from costmodel.documents.reader.rl_scenario import reinforced
    from costmodel.estimate.rl.predict_rl import predict

    return Result(predict(reinforced(case)), reply(case, *args, **options))


def estimate(scenario: Scenario, settings: Iterable[str] = ()) -> Result:
    """How long a step takes, or how fast a model is served, what memory it needs, and what it costs.

    `found` is an `Answer` or a `ServingAnswer`.

    Example:
        >>> estimate("quickstart").works
        True
    """
    case = _case(scenario, settings)
    if case.kind == "serving":
        from costmodel.commands import serving

        return _served(case, serving.estimate, verbose=False)
    if case.kind == "rl":
        from costmodel.commands import rl

        return _reinforced(case, rl.estimate, verbose=False)
    from costmodel.explore.explain.explained_answer import explained_plan
    from costmodel.report.machine import json_answer
    from costmodel.report.terminal.plan import estimate as report

    asked = explained_plan(training(case))
    yes = not (asked.refused or asked.broken)
    return Result(asked, Reply(lambda: report.estimate(asked), lambda: json_answer.estimate(asked), "plans", yes=yes))


def memory(scenario: Scenario, settings: Iterable[str] = ()) -> Result:
    """Where the bytes of the most loaded accelerator go, and whether they fit.

    Example:
        >>> list(memory("quickstart").frame()["stage"])
        ['first']
    """
    case = _case(scenario, settings)
    if case.kind == "serving":
        from costmodel.commands import serving

        return _served(case, serving.memory, verbose=False)
    if case.kind == "rl":
        from costmodel.commands import rl

        return _reinforced(case, rl.memory, verbose=False)
    from costmodel.explore.explain.explained_answer import explained_plan
    from costmodel.report.machine import json_answer
    from costmodel.report.terminal.plan import memory_breakdown as report

    asked = explained_plan(training(case))
    yes = not (asked.refused or asked.broken)
    return Result(asked, Reply(lambda: report.memory(asked), lambda: json_answer.memory(asked), "ledger", yes=yes))


def search(
    scenario: Scenario,
    top: int = 10,
    settings: Iterable[str] = (),
    *,
    over: Iterable[str] = (),
    pareto: str = "",
    workers: int | None = None,
    safe: float | None = SAFE,
) -> Result:
    """The best plans of the scenario's space, ranked by its objective.

    `found` is a `SearchResult`; of a scenario that serves `FoundPlans`, with `pareto` a `ServingFront`.
    over: leaves that vary too, as `--over` writes them. pareto: two results, for the front between them. safe: the
    chance to fit, or to meet all limits, that plans should have; None ranks them by their expected figures alone.

    Example:
        >>> search("quickstart", 3).frame()["rank"].tolist()
        [1, 2, 3]
    """
    from costmodel.explore.search.ranges import axes

    case, varied = _case(scenario, settings, safe), axes(over)
    if case.kind == "serving":
        return _served_search(case, top, varied, pareto, workers=workers is not None)
    if case.kind == "rl":
        refused = [("over", bool(varied)), ("pareto", bool(pareto)), ("workers", workers is not None)]
        return _reinforced_search(case, top, refused)
    from costmodel.explore.search.search import search as search_space
    from costmodel.explore.search.search import with_remedies
    from costmodel.report.machine import json_answer
    from costmodel.report.terminal.search import ranking as report

    found = with_remedies(search_space(training(case), top, workers=workers, pareto=pareto, over=varied))
    rows = "pareto.plans" if pareto else "plans"
    yes = bool(found.best)
    return Result(found, Reply(lambda: report.search(found, top), lambda: json_answer.search(found), rows, yes=yes))


def _reinforced_search(case: LoadedScenario, top: int, refused: Sequence[tuple[str, bool]]) -> Result:
    from costmodel.commands import rl
    from costmodel.documents.reader.rl_scenario import reinforced
    from costmodel.explore.rl.search_splits import search as search_splits
    from costmodel.report.terminal.rl import rl_search as report

    rl.without("search", refused)
    found = search_splits(reinforced(case), top)
    lines, result = lambda: report.search(found), lambda: report.search_json(found)
    return Result(found, Reply(lines, result, "plans", yes=found.works))


def _served_search(case: LoadedScenario, top: int, over: Sequence[Axis], pareto: str, *, workers: bool) -> Result:
    from costmodel.commands import serving as answers
    from costmodel.documents.reader.serving_scenario import serving
    from costmodel.estimate.serving.serving_inputs import inputs_of
    from costmodel.explore.serving.pareto import front
    from costmodel.explore.serving.search_layouts import search as search_layouts
    from costmodel.explore.serving.search_remedies import with_search_remedies

    answers.without("search", [("workers", workers)])
    inputs = inputs_of(serving(case))
    found: Any = front(inputs, pareto, over) if pareto else with_search_remedies(search_layouts(inputs, top, over))
    return Result(found, answers.front_reply(found, top) if pareto else answers.found_reply(found))


def sweep(scenario: Scenario, over: Iterable[str], show: str = "", settings: Iterable[str] = ()) -> Result:
    """Results at every combination of values of some leaves: `over=["plan.tp=1,2,4"]`, `show="mfu,memory_peak"`.

    Example:
        >>> len(sweep("quickstart", ["plan.micro_batch=1,2"], "mfu").frame())
        2
    """
    from costmodel.explore.search.ranges import axes
    from costmodel.explore.vary.sweep import sweep as sweep_scenario
    from costmodel.explore.workloads import workload_of
    from costmodel.report.answers import sweep as report
    from costmodel.report.terminal.style.document_lines import document_lines

    found = sweep_scenario(workload_of(_case(scenario, settings)), axes(over), show)
    yes = any(point.works for point in found.points)
    lines, result = lambda: document_lines(report.sweep(found)), lambda: report.sweep_json(found)
    return Result(found, Reply(lines, result, "points", yes=yes))


def compare(before: Scenario, after: Scenario) -> Result:
    """What differs between two scenarios: inputs, and every figure that moved; `found` is a `Difference`.

    Example:
        >>> compare("quickstart", load("quickstart", ["plan.recompute=full"])).found.same
        False
    """
    from costmodel.explore.compare.compare import compare as compare_sides
    from costmodel.explore.sides import fail_if_unlike, side_of
    from costmodel.report.answers import compare as report
    from costmodel.report.terminal.style.document_lines import document_lines

    cases = _case(before, ()), _case(after, ())
    fail_if_unlike(cases)
    names = [case.name if not case.assignments else f"{case.name} changed" for case in cases]
    found = compare_sides(*(side_of(name, case, None, changed=True) for name, case in zip(names, cases, strict=True)))
    document = report.diff(found, " → ".join(names))
    result = functools.partial(report.diff_json, found)
    return Result(found, Reply(lambda: document_lines(document), result, "figures", yes=found.same))


def explain(scenario: Scenario, quantity: str = "", settings: Iterable[str] = (), *, depth: int = 3) -> Result:
    """How a figure of the scenario's plan was computed, down to the documents; or, alone, what a word means.

    Example:
        >>> explain("mfu").figures["word"], explain("quickstart", "step_time").found.unit
        ('mfu', 's')
    """
    from costmodel.report.terminal.documents import tree as report

    if not quantity:
        from costmodel.explore.explain.pages import page

        if not isinstance(scenario, str):
            raise TypeError("name the figure to explain, for example 'step_time'")
        about = page(scenario)
        return Result(about, Reply(lambda: report.page(about), lambda: report.page_json(about)))
    loaded = _case(scenario, settings)
    if loaded.kind == "serving":
        from costmodel.commands import serving

        return _served(loaded, serving.explain, quantity, depth)
    from costmodel.estimate.evaluate.predict import own_plan
    from costmodel.estimate.training.training_inputs import training_inputs
    from costmodel.explore.explain.explain import explain as explain_figure

    case = training(loaded)
    inputs = training_inputs(case)
    node = explain_figure(inputs, own_plan(inputs), quantity)
    return Result(node, Reply(lambda: report.tree(case, node, depth), lambda: report.tree_json(case, node)))


def figure(case: LoadedScenario, name: str = "time") -> Drawn:
    """A figure of the scenario's own plan: time, memory, network, roofline or pipeline.

    A scenario that serves, or of reinforcement learning, has the first two.

    Raises:
        CostModelError: there is no such figure, or nothing to draw
    """
    from costmodel.report.page.notebook import drawn_figure

    return drawn_figure(_page_facts(case), name)


def _page_facts(case: LoadedScenario) -> PlanFacts | ServingFacts | RlFacts:
    """What a page shows of a scenario of any kind."""
    if case.kind == "serving":
        from costmodel.documents.reader.serving_scenario import serving
        from costmodel.explore.page.serving_facts import serving_facts

        return serving_facts(serving(case))
    if case.kind == "rl":
        from costmodel.documents.reader.rl_scenario import reinforced
        from costmodel.estimate.rl.predict_rl import predict as predict_rl
        from costmodel.explore.page.rl_facts import RlFacts

        return RlFacts(predict_rl(reinforced(case)))
    from costmodel.explore.page.plan_facts import plan_facts

    return plan_facts(training(case))
