"""A plan of reinforcement learning as answers show it: the phases of an iteration."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from costmodel.documents.reader.rl_scenario import RlCase
from costmodel.documents.schemas.results import RL_COLUMNS, ResultColumn, machine_name
from costmodel.documents.schemas.rl import PHASES
from costmodel.estimate.answer_facts import subject_of
from costmodel.estimate.machine.number_formats import cap_over_rating
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.estimate.run.whole_run import shares
from costmodel.estimate.shared.results import number
from costmodel.ground.record import record
from costmodel.ground.units import counted, gib, percent, show, show_time
from costmodel.report.answers.plan_answer import band_words, bands_section, parts_section, plan_json, result_cell
from costmodel.report.answers.plan_parts import PlanRun, RunFigure
from costmodel.report.data_formats.answer_fields import known
from costmodel.report.document import Draw, Headline, Section, chance_verdict
from costmodel.report.terminal import rl_estimate
from costmodel.report.terminal.formatting import ENDS, between
from costmodel.report.terminal.head import price_lines
from costmodel.report.terminal.layout import Abridged, Line, styled
from costmodel.report.terminal.rl_estimate import NAMES, result

if TYPE_CHECKING:
    from costmodel.explore.explain.explain import ExplainedFigure
    from costmodel.explore.page.rl_facts import RlFacts
    from costmodel.report.answers.plan_answer import PlanBeside
    from costmodel.report.answers.plan_parts import MemoryLedger, PlanRun, PlanTraffic

_ROLES = {
    "generation": "third",
    "update_time": "activations",
    "switch": "raw",
    "weight_sync": "network",
    "critic_time": "recomputed",
}


@record
class RlView:
    """A plan of reinforcement learning and the parts of answers about it."""

    answer: RlAnswer

    @property
    def case(self) -> RlCase:
        """The scenario with its documents."""
        return self.answer.inputs.case

    @property
    def columns(self) -> Mapping[str, ResultColumn]:
        """The columns of results of an iteration."""
        return RL_COLUMNS

    @functools.cached_property
    def facts(self) -> RlFacts:
        """Facts that a page computes about the plan."""
        from costmodel.explore.page.rl_facts import RlFacts

        return RlFacts(self.answer)

    @property
    def nodes(self) -> Mapping[str, ExplainedFigure]:
        """The traced equations behind the figures of the plan."""
        return self.facts.nodes

    @property
    def nexts(self) -> Mapping[str, Sequence[Sequence[str]]]:
        """The commands that follow each answer; `search` follows if the scenario has engines."""
        search = [("search",)] if self.answer.inputs.engines is not None else []
        return {
            "estimate": [("memory",), *search],
            "memory": [*(search if "M001" in self.answer.broken else []), ("explain", "memory_peak")],
            "comm": [("explain", "weight_sync")],
            "run": [("estimate",), ("explain", "goodput")],
        }

    def plain(self) -> dict[str, Any]:
        """The plan's results as plain values."""
        from costmodel.report.answers.search_rl import rl_plan_fields

        return plan_json(self, partial(rl_plan_fields, self.answer), lambda code: {})

    def lines(self) -> list[Line]:
        """Times, memory and cost of an iteration."""
        return rl_estimate.estimate_lines(self.answer)

    def bound(self) -> Line:
        """The longest part of the iteration."""
        return styled(f"Bound by {rl_estimate.bound_by(self.answer)}.")

    def headlines(self) -> list[Headline]:
        """The main figures, for the head of a page."""
        costs, cell = self.answer.costs, partial(result_cell, self)
        whole, share = costs["run_time"], result("generation_share", costs["generation_share"])
        run = f"{result('run_time', whole)} for all iterations" if math.isfinite(whole) else "of one iteration"
        fits = "bad" if "M001" in self.answer.broken else chance_verdict(costs["fit_chance"])
        return [
            Headline("Iteration", cell("iteration_time"), band_words(self, "iteration_time")),
            Headline("Answers", cell("answers_per_s"), f"{share} generating"),
            Headline("Memory", cell("memory_peak"), f"of {gib(self.answer.memory.usable)} GiB", fits),
            Headline("Cost of an iteration", cell("iteration_cost"), run),
        ]

    def time(self) -> list[Section]:
        """Sections on the phases of an iteration, and on the wait for the longest answers."""
        title = "Where the iteration goes", "where the iteration goes"
        lead, parts = f"Bound by {rl_estimate.bound_by(self.answer)}.", rl_estimate.phase_parts(self.answer)
        stated = [] if self.answer.inputs.engines is None else rl_estimate.of_generation(self.answer)
        beneath = [Abridged(f"    {words}", short="", added="waits of the generation") for words in stated]
        figures = [partial(_phases_figure, self.answer)]
        return [parts_section(title, lead, parts, "of all phases", figures, wide=28, beneath=beneath)]

    def ledger(self) -> MemoryLedger:
        """The memory breakdown while generating and while updating."""
        from costmodel.report.terminal.rl_tables import rl_ledger

        return rl_ledger(self.answer)

    def traffic(self) -> PlanTraffic:
        """The communication of the trainer and the engines."""
        from costmodel.report.terminal.rl_tables import rl_traffic

        return rl_traffic(self.answer)

    def further(self) -> list[Section]:
        """No further sections for reinforcement learning."""
        return []

    def whole_run(self) -> PlanRun | None:
        """The run, where one is asked about."""

        return None if self.answer.run is None else rl_run(self.answer)

    def beside(self, notify: Callable[[str], None]) -> PlanBeside:
        """Analyses next to the plan: splits of accelerators, sensitivity, and errors of published iterations."""
        from costmodel.report.answers.around_plan import around
        from costmodel.report.answers.search_rl import RlWords

        notify("search")
        found = self.facts.found
        notify("sensitivity")
        spread = self.case.stack.spread
        generation, update = percent(float(spread.generation)), percent(float(spread.update))
        lead = f"Errors of iterations: {generation} of the generation, {update} of the update, as standard deviations"
        named = self.case.stack.sources.get(spread.source or "")
        source = spread.source if named is None else named.title
        lead += f" (source: {source})." if source else "."
        lead += " The lengths of answers decide: state those of your own log."
        words = None if found is None else RlWords(found)
        return around(self, words, self.facts.sensitive, bands_section(self, lead))


def _phases_figure(answer: RlAnswer) -> Draw:
    """A waterfall of the phases of an iteration, and their total."""
    from costmodel.report.page.figures import FigureEntry, waterfall

    costs = answer.costs
    entries = [
        FigureEntry(NAMES[name], costs[name], _ROLES.get(name, "attention"), machine_name(name))
        for name in PHASES
        if costs[name]
    ]
    if costs["overlapped"]:
        entries.append(FigureEntry("hidden", -costs["overlapped"], "good", "hidden_s"))
    total = FigureEntry("iteration", costs["iteration_time"], "total", "iteration_time_s")
    words = f"An iteration takes {show_time(total.value)}, of which {show_time(costs['generation'])} is generation."
    return waterfall("time", "Where the iteration goes", words, entries, total, show_time)


# --- a whole run of training


def rl_run(answer: RlAnswer) -> PlanRun:
    """The run of a plan."""
    found, share, sync = answer.run, answer.costs["goodput"], answer.iteration.sync
    assert found is not None
    figures = [_figure(answer, *each) for each in (("run time", "run_time"), ("cost", "run_cost"))]
    figures.append(RunFigure("goodput", "goodput", "—" if math.isnan(share) else percent(share, 3), ""))
    plain = {
        "steps": known(number(found.steps)),
        "interruptions": known(number(found.interruptions)),
        "experience_bytes": None if sync is None else float(sync.experience),
    }
    price = price_lines(subject_of(answer.inputs.case).price, "  ", shown=False)
    return PlanRun(figures, run_shares(answer), "iterations", _facts(answer), price, plain=plain)


def _figure(answer: RlAnswer, words: str, name: str) -> RunFigure:
    """A result of the run with its band, or the setting that would make it known."""
    if math.isnan(answer.costs["goodput"]):
        return RunFigure(words, name, "—", "")
    if math.isnan(answer.costs[name]):
        wanted = "set workload.iterations" + ("" if name == "run_time" else ", and assume.price")
        return RunFigure(words, name, "unknown", wanted)
    low, high = (result(name, answer.costs[f"{name}_{end}"]) for end in ENDS)
    return RunFigure(words, name, result(name, answer.costs[name]), between(low, high))


def _facts(answer: RlAnswer) -> list[tuple[str, str]]:
    """Pairs of label and text on iterations, interruptions and checkpoints."""
    costs, found, workload = answer.costs, answer.run, answer.inputs.case.scenario.workload
    assert found is not None
    count = number(found.interruptions) if costs["goodput"] == costs["goodput"] else math.nan
    often = "" if math.isnan(count) else f", {counted(round(count))} in the run"
    steps = "unknown" if workload.iterations is None else counted(workload.iterations)
    models = "policy and critic" if answer.inputs.models["critic"] else "policy"
    rows = [
        (
            "iterations",
            f"{steps} of {show_time(costs['iteration_time'])}, as stated; no law gives how many a score takes",
        ),
        ("failures", f"one every {show_time(costs['mtbf'])}{often}"),
        ("checkpoint", f"{show(costs['checkpoint_size'], 'B')}: states of {models}"),
    ]
    if answer.iteration.sync is not None:
        held = show(float(answer.iteration.sync.experience), "B")
        rows.append(("", f"and up to {held} of answers with their version of the weights and place in it"))
    rows.append(("interval", f"{show_time(costs['checkpoint_interval'])}, in whole iterations"))
    rows.append(("restart", show_time(costs["restart_time"])))
    if answer.inputs.engines is not None and cap_over_rating(answer.inputs.trainer.inputs.case) < 1:
        rows.append(("power cap", "slows only training; rates of engines are without the cap"))
    return rows


def run_shares(answer: RlAnswer) -> dict[str, float]:
    """Shares of the wall time: iterations and every loss; empty if the scenario does not ask about failures."""
    asked, found = answer.inputs.trainer.inputs.run, answer.run
    if asked is None or found is None:
        return {}
    lost = {name: number(value) for name, value in shares(asked, found).items()}
    return {"iterations": number(found.goodput), **lost}
