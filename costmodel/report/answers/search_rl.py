"""How the answer of `search` shows plans of reinforcement learning."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.schemas.results import machine_name
from costmodel.documents.schemas.rl import PHASES
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.estimate.rl.rl_reason_codes import REFUSALS
from costmodel.estimate.shared.results import number
from costmodel.explore.answer_summaries import rl_degrees, rl_plan_text, rl_settings
from costmodel.explore.rl import RankedSplit, RlSearch, RlSearchInputs
from costmodel.ground.counts import ordinal
from costmodel.ground.record import record
from costmodel.ground.units import chance_words, gib, show_time
from costmodel.report.answers.search import SAME_AS_BEST, PlanColumn, SearchWords
from costmodel.report.data_formats.answer_fields import finite
from costmodel.report.document import Cell, Column
from costmodel.report.terminal.formatting import fit_words, readable
from costmodel.report.terminal.head import remarks_of_plans
from costmodel.report.terminal.layout import BAD, WARN, Line, styled
from costmodel.report.terminal.rl_estimate import NAMES, reason, result


def rl_plan_fields(answer: RlAnswer, costs: Mapping[str, float] | None = None) -> dict[str, Any]:
    """A plan as plain values: its degrees and results; costs: results to use instead of the plan's."""
    figures = {machine_name(name): finite(value) for name, value in (costs or answer.costs).items()}
    return {**rl_degrees(answer), **figures, "fits": answer.costs["memory_share"] <= 1}


@record
class RlWords(SearchWords[RlSearchInputs, RankedSplit]):
    """The words and columns of a search of reinforcement learning."""

    found: RlSearch
    drawn = ("update_time", "generation")
    shown_anyway = frozenset({"plan.tp", "plan.cp"})

    def plan_columns(self, plans: Sequence[RankedSplit]) -> list[PlanColumn[RankedSplit]]:
        """Columns for the GPUs that train and generate, and the degrees of trainer and engines."""
        written = [self._answer(row).inputs.plan for row in plans]
        cut = [name for name in ("pp", "ep") if any(getattr(plan, name) > 1 for plan in written)]
        own = self.case.scenario.plan
        cut += ["zero"] if any(plan.zero != (own and own.zero) for plan in written) else []
        return [
            (Column("train"), lambda row: f"{self._answer(row).inputs.split.trainer.ranks:.0f}"),
            (Column("generate"), self._generating),
            *((Column(name), partial(self._degree, name)) for name in ("tp", "cp", *cut)),
            (Column("engine", "l"), self._engine),
        ]

    def figures(self, plans: Sequence[RankedSplit]) -> list[PlanColumn[RankedSplit]]:
        """Columns for the times of an iteration, its cost if there is a price, its memory, and whether it fits."""
        own = [] if self.objective == "iteration_time" else [self.cell(self.objective)]
        paid = any(math.isfinite(plan.costs["iteration_cost"]) for plan in plans)
        return [
            self.cell("iteration_time", head="iteration"),
            self.cell("iteration_time_high", head="P90", drop=1),
            self.cell("generation", head="generation"),
            (Column("training", drop=2), lambda row: show_time(number(self._answer(row).iteration.training))),
            *([self._cost()] if paid else []),
            *own,
            self.cell("memory_peak", gib, head="GiB"),
            (Column("fits", "l"), self._state),
        ]

    def line(self, plan: RankedSplit) -> str:
        """The degrees of trainer and engines in words."""
        return rl_plan_text(self._answer(plan))

    def settings(self, plan: RankedSplit) -> dict[str, str]:
        """The settings of a plan: the varied keys, and its degrees."""
        return {**self.found.values(plan.variant), **rl_settings(self._answer(plan))}

    def fields(self, plan: RankedSplit) -> dict[str, Any]:
        """A plan as plain values, with the values of the varied keys."""
        costs = {name: value for name, value in plan.costs.items() if name in self.columns}
        return {
            **self.found.variants.cells(plan.variant),
            **rl_plan_fields(self._answer(plan), costs),
            "broken": list(plan.broken),
        }

    def keys(self, plan: RankedSplit) -> dict[str, Any]:
        """The degrees of trainer and engines as plain values."""
        return rl_degrees(self._answer(plan))

    def assumed(self) -> Sequence[Assumption]:
        """The assumptions of the best plan."""
        return self._answer(self.found.best[0]).assumed if self.found.best else ()

    def own_fields(self) -> dict[str, Any] | None:
        """The scenario's own plan and its rank as plain values."""
        yours = self.found.yours
        if yours is None or yours.refused:
            return None
        return {"rank": self.found.your_rank, **rl_plan_fields(yours)}

    def beneath(self, plans: Sequence[RankedSplit]) -> list[Line]:
        """Lines with remarks on the plans, and on options that the search did not try."""
        stated = remarks_of_plans([self._answer(plan).remarked for plan in plans])
        inputs = self._answer(plans[0]).inputs if plans else None
        if inputs is None or inputs.engines is None:
            return stated
        workload, stack = self.case.scenario.workload, inputs.case.stack
        added = {}
        if stack.apart and not workload.staleness and "workload.staleness" not in self.paths:
            added["stale weights"] = "--over workload.staleness=0,1"
        if "partial" in stack.rollouts and workload.rollouts == "batch" and "workload.rollouts" not in self.paths:
            added["partial rollouts"] = "--over workload.rollouts=batch,partial"
        if not added:
            return stated
        named = f"{' and '.join(added)}; add {'them' if len(added) > 1 else 'it'} with {' '.join(added.values())}"
        return [styled(f"  Not searched: {named}"), *stated]

    def yours(self) -> list[Line]:
        """A line on the scenario's own plan compared with the best."""
        ranking, own = self.found, self.found.yours
        if own is None:
            return []
        if own.refused:
            code = own.refused[0]
            return [styled(f"  yours is invalid: {code} {REFUSALS[code].title}: {reason(own, code)}", BAD)]
        words = f"  yours ({rl_plan_text(own)})"
        time = result("iteration_time", own.costs["iteration_time"])
        if own.broken:
            return [styled(f"{words} takes {time} and breaks {' '.join(own.broken)}", WARN)]
        if not ranking.best or ranking.your_rank is None:
            return [styled(f"{words} takes {time}")]
        ratio = own.costs["iteration_time"] / ranking.best[0].costs["iteration_time"]
        rest = f"; the best is {ratio:.2f} × as fast" if ratio > SAME_AS_BEST else ""
        rest = rest or ("; none is better" if ranking.your_rank == 1 else "")
        return [styled(f"{words} takes {time} and ranks {ordinal(ranking.your_rank)}{rest}")]

    def example(self, plan: RankedSplit, code: str) -> tuple[str, str]:
        """The name of a rejected split, and the reason in its own numbers."""
        answer = self._answer(plan)
        return rl_plan_text(answer), reason(answer, code)

    def conclusion(self) -> str:
        """A sentence on the best plan and its time."""
        ranking = self.found
        if not ranking.works:
            return "No plan meets all limits."
        best = ranking.best[0]
        at = "".join(f"{path} {readable(value)}, " for path, value in ranking.values(best.variant).items())
        time = result("iteration_time", best.costs["iteration_time"])
        return f"Best of {ranking.tally.candidates:,} plans: {at}{self.line(best)}, {time} an iteration."

    def notes(self, plan: RankedSplit) -> list[str]:
        """Sentences on the limits that a plan breaks, and on the phases in which it is slower than the first."""
        answer = self._answer(plan)
        stated = [f"{code} {REFUSALS[code].title}: {reason(answer, code)}" for code in plan.broken]
        if not self.found.best or plan is self.found.best[0]:
            return stated
        from costmodel.report.page.plots import lost_words

        terms = {name: NAMES[name] for name in PHASES} | {"overlapped": "hidden"}
        lost = lost_words(plan.costs, self.found.best[0].costs, "iteration_time", terms, "an iteration")
        return [lost, *stated] if lost else stated

    def value_figures(self, parts: Sequence[Any]) -> list[PlanColumn[RankedSplit]]:
        """The columns for the objective and the memory of the best plan at each value."""
        return [self.cell(name) for name in dict.fromkeys((self.objective, "iteration_time", "memory_peak"))]

    def remarked(self) -> list[str]:
        """The codes of remarks on the best plan."""
        return [*self._answer(self.found.best[0]).remarked] if self.found.best else []

    def _answer(self, row: RankedSplit) -> RlAnswer:
        return self.found.answer_of(row)

    def _cost(self) -> PlanColumn[RankedSplit]:
        """The column with the cost of an iteration in USD, for plans that work."""
        column, made = self.cell("iteration_cost", head="cost", drop=3)
        return column, lambda row: "—" if row.broken else made(row)

    def _degree(self, name: str, row: RankedSplit) -> Cell:
        return f"{rl_degrees(self._answer(row))[name]:.0f}"

    def _generating(self, row: RankedSplit) -> Cell:
        inputs = self._answer(row).inputs
        words = "same GPUs" if inputs.split.colocated else f"{inputs.split.rollout.ranks:.0f}"
        return words if inputs.engines is not None else "—"

    def _engine(self, row: RankedSplit) -> Cell:
        """The cell with the degrees of an engine."""
        inputs = self._answer(row).inputs
        return f"tp {float(inputs.plan.rollout.tp):.0f}" if inputs.engines is not None else "—"

    def _state(self, row: RankedSplit) -> Cell:
        """A cell on whether the plan fits: its chance, or the limits that it breaks."""
        if row.broken:
            return f"✗ {' '.join(row.broken)}"
        chance = row.costs["fit_chance"]
        if self.found.is_risky(row):
            return f"at risk: {chance_words(chance)}"
        return fit_words(chance)
