"""How the answer of `search` shows plans that train."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.schemas.results import OF_RUN, OF_STEP, ResultColumn, is_money, machine_name
from costmodel.estimate.answer_facts import facts_of, row_facts
from costmodel.estimate.shared.assumptions import relevant_assumptions
from costmodel.estimate.shared.plan_batch import Structure, one_row
from costmodel.estimate.shared.reasons import REFUSALS, REMARKS
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training_answer.evaluate_training import verdict
from costmodel.estimate.training_answer.predict_training import usual_etp
from costmodel.explore.answer_summaries import brief_plan_text
from costmodel.explore.compare.compare import name_without_unit
from costmodel.explore.compare.input_paths import input_values
from costmodel.explore.compare.select_plan import gain_over_own_plan
from costmodel.explore.explain.equation_trees import ExplainedFigure
from costmodel.explore.plan_choice_text import (
    CHOICES,
    recompute_and_offload_texts,
    short_recompute_and_offload,
    split_texts,
)
from costmodel.explore.search.cheapest_changes import Remedy
from costmodel.explore.search.search import NO_PRECISION, SCORED, TrainingSearch, lacking_precisions
from costmodel.explore.search.training_candidates import context_degrees
from costmodel.explore.search.training_remedies import lost_to_batch, plan_settings
from costmodel.explore.search.training_space import Ranked, unsure
from costmodel.ground.counts import ALWAYS, HEADS, OF_ITSELF_ONE, SIZES, WAYS, number_of, ordinal
from costmodel.ground.record import record
from costmodel.ground.units import chance_words, counted, gib, percent, show_time, significant
from costmodel.report.answers.diff import change_row, signed_difference
from costmodel.report.answers.search import SAME_AS_BEST, PlanColumn, SearchWords
from costmodel.report.data_formats import training_json
from costmodel.report.data_formats.answer_fields import conflict_fields, remark_fields
from costmodel.report.document import Cell, Column, Headline, TraceWriter, Value
from costmodel.report.terminal.formatting import TIME_TERMS, fit_words, readable, result
from costmodel.report.terminal.head import command, price_fields, remarks_of_plans, setting_options
from costmodel.report.terminal.layout import BAD, DIM, WARN, Abridged, CellTable, Detail, Line, shell_line, styled
from costmodel.report.terminal.plan_lines import plan_words
from costmodel.report.terminal.refusals import largest_line_words, reason, reason_of, remedies_json, remedy_lines
from costmodel.report.trials import short_heads

_BEHIND = ALWAYS[1:]  # of tp and the sizes over one
_COLUMN_OF = {"step_time": "step", "tokens_per_s_per_gpu": "tok/s/GPU"}  # of objectives that every table has
_DROPPED = ("sp", "days", "P90", "MFU", "tok/s/GPU")  # in this order, where the terminal is narrow; never the objective
_NOTABLE_TERM = 0.005  # share of a step, from which a term that moved is shown
_DAY = 86_400.0  # seconds
_EQUAL_TIME = 0.01  # share below which two plans count as equal


@record
class TrainingWords(SearchWords[TrainingInputs, Ranked]):
    """The words and columns of a search of training plans."""

    found: TrainingSearch
    drawn = ("memory_peak", "step_time")
    gap = " "
    face_of_ends = "page"
    speeds = frozenset(SCORED)
    shown_anyway = frozenset(f"plan.{key}" for key in (*ALWAYS, "zero"))

    def plan_columns(self, plans: Sequence[Ranked]) -> list[PlanColumn[Ranked]]:
        """Columns for sizes above 1, schedules that vpp does not determine, and other choices that differ."""
        words = {name: {stated(plan.structure) for plan in plans} for name, stated in CHOICES.items()}
        differ = [name for name, stated in words.items() if len(stated) > 1 or (name == "schedule" and stated != {""})]
        sizes = [name for name in OF_ITSELF_ONE if any(self._shows(plan, name) for plan in plans)]
        return [
            *(_size_column(name) for name in ("tp", *sizes, *_BEHIND)),
            (Column("zero"), lambda plan: str(plan.structure.zero)),
            (Column("sp", drop=_drop_order("sp")), _sequence_parallel_cell),
            *((Column(name, "k"), _choice_of(name)) for name in differ),
            (Column("recompute", "l"), lambda plan: short_recompute_and_offload(plan.structure)),
        ]

    def figures(self, plans: Sequence[Ranked]) -> list[PlanColumn[Ranked]]:
        """Columns for times, rates, memory, whether a plan fits, and the objective if it is another result."""
        kept = _COLUMN_OF.get(self.objective, "")

        def column(name: str, head: str, text: Callable[[float], str]) -> PlanColumn[Ranked]:
            drop = 0 if head == kept else _drop_order(head)
            return self.cell(name, text, of_units=text is show_time, head=head, drop=drop)

        timed = any(math.isfinite(plan.costs.get("run_time", math.nan)) for plan in plans)
        of_run = timed and self.objective != "run_time"
        days = [column("run_time", "days", lambda value: significant(value / _DAY, 3))] if of_run else []
        own = [] if kept else [self.cell(self.objective, head="cost" if self.priced else self.objective)]
        return [
            column("step_time", "step", show_time),
            column("step_time_high", "P90", show_time),
            *days,
            column("tokens_per_s_per_gpu", "tok/s/GPU", lambda value: significant(value, 4)),
            column("mfu", "MFU", percent),
            *own,
            column("memory_peak", "GiB", gib),
            (Column("fits", "l"), _fit_chance_words),
        ]

    def line(self, plan: Ranked) -> str:
        """A plan in one line of words."""
        return brief_plan_text(one_row(plan.structure, **plan.sizes))

    def settings(self, plan: Ranked) -> dict[str, str]:
        """The settings of a plan: varied keys, sizes and choices."""
        return {**self.found.values(plan.variant), **plan_settings(self.found.inputs_of(plan.variant), plan)}

    def fields(self, plan: Ranked) -> dict[str, Any]:
        """A plan as plain values, with the facts that identify its scenario."""
        facts = facts_of(self.found.inputs_of(plan.variant).case)
        chances = {id(row): chance for row, chance in zip(self.found.best, self.found.chances, strict=False)}
        return {
            **row_facts(facts),
            **self.found.variants.cells(plan.variant),
            **training_json.training_plan_fields(plan.structure, plan.sizes, plan.costs),
            "first_faster": chances.get(id(plan)),
            **price_fields(facts.price),
        }

    @property
    def drawn_results(self) -> tuple[str, ...]:
        """The main results, and the terms of the step."""
        return (*_RESULTS, *(name for name in _TERMS if name not in _RESULTS))

    @property
    def json_columns(self) -> Mapping[str, ResultColumn]:
        """The columns of results of a step, or of the whole run."""
        return OF_STEP if self.found.inputs.run is None else OF_RUN

    def keys(self, plan: Ranked) -> dict[str, Any]:
        """The sizes and choices that identify a plan."""
        return training_json.plan_key_fields(plan.structure, plan.sizes)

    def convention(self) -> str:
        """How FLOP are counted."""
        return self.found.inputs.convention

    def assumed(self) -> Sequence[Assumption]:
        """The assumptions common to all plans; with one accelerator, only those that matter there."""
        inputs = self.found.inputs
        if inputs.ranks != 1:
            return inputs.assumed
        alone = one_row(Structure(), **dict.fromkeys(SIZES, 1.0))
        return list(relevant_assumptions(inputs.assumed, alone, leaves_domain=False))

    def missed_by_least(self) -> list[Ranked]:
        """The best plan that only breaks a limit; if there is none, the plan least over its memory."""
        return self.found.tally.missed_by_least

    def note_fields(self) -> list[dict[str, str]]:
        """Conflicts between --set and the search, and remarks on the best plans, as plain values."""
        return [
            *conflict_fields(self.found.inputs.case.held.conflicts),
            *remark_fields(plan.remarked for plan in self.found.best),
        ]

    def row_facts(self) -> dict[str, Any]:
        """Model, machine and job, without what varies."""
        return row_facts(facts_of(self.found.inputs.case), self.paths)

    def own_fields(self) -> dict[str, Any] | None:
        """The scenario's own plan and its rank as plain values."""
        yours = self.found.yours
        return None if yours is None else {"rank": self.found.your_rank, **training_json.answer_fields_of(yours)}

    def beneath(self, plans: Sequence[Ranked]) -> list[Line]:
        """Remarks; for the ranking also a plan that fits more safely, and the certainty of the order."""
        nodes = [self.found.inputs_of(plan.variant).case.node.name for plan in plans]
        stated = remarks_of_plans([plan.remarked for plan in plans], [plan.costs for plan in plans], nodes)
        if list(plans) != self.found.best:
            return stated
        return [*self._roomier(), *self._unsure(), *self._unsearched(plans), *stated]

    def _unsearched(self, plans: Sequence[Ranked]) -> Iterator[Line]:
        """Lines on host offload in the table, and on larger cp or offload that the search did not try."""
        if any(plan.structure.offload for plan in plans):
            yield styled("  ↑act, ↑opt, ↑par: activations, optimizer states, parameters on the host", DIM)
        if not plans:
            return
        inputs = self.found.inputs_of(plans[0].variant)
        stack, space, cp = inputs.case.stack, inputs.case.space, plans[0].sizes["cp"]
        again, tried = plans[0].structure.recompute != "none", context_degrees(inputs)
        divides = bool(stack.context_parallel) and stack.has("cp") and float(inputs.ranks) % (2 * cp) == 0
        if divides and space.cp is None and cp == max(tried) and (again or cp > 1):
            more = f"search.cp=[{','.join(f'{degree:.0f}' for degree in (*tried, 2 * cp))}]"
            yield _not_searched(f"{2 * cp:.0f} ranks of context parallelism", more)
        offers = stack.offload is not None and "activations" in stack.offload.of
        if again and offers and space.offload is None:
            yield _not_searched("offload instead of recompute", "search.offload=[[],[activations]]")

    def yours(self) -> list[Line]:
        """Lines on the rank of your own plan, and on the time that the best plan saves."""
        found, own = self.found, self.found.yours
        if own is None:
            return []
        words = " · ".join([*_stated_values(self), plan_words(own)])
        if found.your_rank is None and not (own.refused or own.broken):
            chance = chance_words(own.costs["fit_chance"])
            return [styled(f"  yours ({words}) fits with a chance of {chance}", WARN)]
        if found.your_rank is None:
            code = (*own.refused, *own.broken)[0]
            stated = f"{code} {REFUSALS[code].title}: {reason(own, code)}"
            return [styled(f"  yours ({words}) is {'invalid' if own.refused else 'rejected'}: {stated}", BAD)]
        if not found.best:
            return [styled(f"  yours ({words}) works, but is not in the search space")]
        ratio = own.costs["step_time"] / found.best[0].costs["step_time"]
        faster = ratio > SAME_AS_BEST
        rest = f"; the best is {ratio:.2f} × as fast" if faster else "; none is better" if found.your_rank == 1 else ""
        lines: list[Line] = [styled(f"  yours ({words}) ranks {ordinal(found.your_rank)}{rest}")]
        return [*lines, Detail([self._gain(own.costs["step_time"])], "what the best plan gains")] if faster else lines

    def nearest(self) -> list[Line]:
        """Lines on the nearest plan: it only breaks a limit, or is the least over its memory."""
        found = self.found
        if not found.tally.missed_by_least:
            return []
        plan = found.tally.missed_by_least[0]
        inputs, costs, closest = found.inputs_of(plan.variant), plan.costs, plan.costs["memory_share"] <= 1
        need = f"needs {gib(costs['memory_peak'])} of {gib(inputs.usable_memory)} GiB"
        if closest:
            need = f"{need}, takes {show_time(costs['step_time'])} at {percent(costs['mfu'])} MFU"
        block = one_row(plan.structure, **plan.sizes)
        need = need if closest else f"{need}{largest_line_words(inputs, block)}"
        lines: list[Line] = [
            styled(f"No plan {'meets the limits' if closest else 'fits'}.", BAD),
            styled(f"  nearest   {self._whole(plan)}"),
            styled(f"            {need}"),
        ]
        missed = (reason_of(inputs, block, costs, code) for code in ("M002", "T001"))
        return [*lines, *(styled(f"  misses    {stated}") for stated in missed if stated and closest)]

    def remedies(self) -> list[Line]:
        """Lines on settings under which a plan works, or on a batch that more plans divide."""
        if self.found.best:
            return [self._batch_words(remedy) for remedy in self.found.remedies]
        none = [] if self.found.tally.missed_by_least else ["no change of a single key makes a plan valid"]
        return remedy_lines(self.found.remedies, indent="  ") or [styled(f"  {words}") for words in none]

    def _batch_words(self, remedy: Remedy) -> Line:
        """A line on a batch that rejects nearly all plans, and what another one near it gains."""
        batch, lost = f"{float(self.found.inputs.global_batch):,.0f}", percent(lost_to_batch(self.found.tally), 2)
        valid = "" if remedy.valid is None else f"{number_of(remedy.valid, 'valid plan')}, "
        gained = f"{setting_options(self.case, remedy.settings)}: {valid}{remedy.note}"
        return styled(f"  A batch of {batch} makes {lost} of the otherwise valid plans invalid. {gained}", WARN)

    def remedy_fields(self) -> list[dict[str, Any]]:
        """The remedies as plain values."""
        return remedies_json(self.found.remedies)

    def example(self, plan: Ranked, code: str) -> tuple[str, str]:
        """A rejected plan with all its sizes and choices, and the reason with its numbers."""
        block = one_row(plan.structure, **plan.sizes)
        return self._whole(plan), reason_of(self.found.inputs_of(plan.variant), block, plan.costs, code)

    def conclusion(self) -> str:
        """A sentence on the best plan, its time, and whether it fits."""
        best, named = self.found.best[0], "Best" if self.found.is_safe else "Surest"
        stated = f"{named} of {self.found.tally.candidates:,} plans: {self.line(best)}, "
        stated += f"{show_time(best.costs['step_time'])} a step at {percent(best.costs['mfu'])} MFU in "
        stated += f"{gib(best.costs['memory_peak'])} GiB"
        return f"{stated}{', though at P90 its memory does not fit.' if 'N023' in best.remarked else '.'}"

    def closing(self) -> list[Line]:
        """The command for the best plan of the search, or for the surest."""
        own = self.found.yours
        beaten = self.found.your_rank == 1 and own is not None and own.costs != self.found.best[0].costs
        which = ", the surest plan" if not self.found.is_safe else ", the best of the search" if beaten else ""
        return [shell_line(f"Next{which}:", command(self.case, "estimate", settings=self.settings(self.found.best[0])))]

    front_closing = closing

    def after_none(self) -> list[Line]:
        """The next search to run, with the settings of the first remedy."""
        if self.found.best or not self.found.remedies:
            return []
        settings = dict(setting.split("=", 1) for setting in self.found.remedies[0].settings)
        return [shell_line("Next:", command(self.case, "search", settings=settings))]

    def headlines(self) -> list[Headline]:
        """Time, efficiency, memory and cost of the best plan, each with its trace."""
        best = self.found.best[0]
        usable = gib(self.found.inputs_of(best.variant).usable_memory)
        named = (("Step time", "step_time", ""), ("MFU", "mfu", ""), ("Memory", "memory_peak", f"of {usable} GiB"),
                 ("Cost per Mtoken", "cost_per_mtoken", ""))  # fmt: skip
        return [Headline(label, _best_plan_cell(best.costs, name), note) for label, name, note in named]

    def nodes(self) -> Mapping[str, ExplainedFigure]:
        """Explained figures of the first plans."""
        from costmodel.explore.page.report_facts import RankedFacts

        return RankedFacts(self.found).nodes

    def row_traces(self, traces: TraceWriter) -> dict[str, Any]:
        """The places of the first plans' traces on a page."""
        from costmodel.explore.page.report_facts import MOST, TRACED, trace_name

        rows = range(min(MOST, len(self.found.best)))
        places = {name: [traces.of(trace_name(place, name)) for place in rows] for name in TRACED}
        return {"traces": {name: [at for at in held if at is not None] for name, held in places.items()}}

    def notes(self, plan: Ranked) -> list[str]:
        """Sentences on a plan's loss against the best, and remarks on it."""
        from costmodel.report.page.plots import lost_words

        stated = [f"{code} {REMARKS[code].title}: {REMARKS[code].meaning}" for code in plan.remarked]
        best = self.found.best[0]
        lost = "" if plan is best else lost_words(plan.costs, best.costs, "step_time", _TERMS, "a step")
        return [lost, *stated] if lost else stated

    def value_figures(self, parts: Sequence[Any]) -> list[PlanColumn[Ranked]]:
        """Columns with the objective, step time and memory of the best plan at each value."""
        named = dict.fromkeys((self.objective, "step_time", "memory_peak"))
        return [self.cell(name) for name in named]

    def aside(self, code: str) -> str:
        """The number types that no hardware of the scenario supports, for the reason about them; else empty."""
        return ", ".join(lacking_precisions(self.found.inputs.case)) if code == NO_PRECISION else ""

    @property
    def priced(self) -> bool:
        """Whether plans are ranked by a cost, or the front has one."""
        front = self.found.front
        return any(map(is_money, (self.objective, *(() if front is None else (front.axes.x, front.axes.y)))))

    def _shows(self, plan: Ranked, name: str) -> bool:
        """Whether the table shows a size of a plan: it is above 1, or its default in the software is."""
        usual = usual_etp(self.found.inputs_of(plan.variant), plan.sizes["tp"]) if name == "etp" else 1.0
        return plan.sizes[name] > 1 or usual > 1

    def _whole(self, plan: Ranked) -> str:
        """A plan in words with every degree, size and choice."""
        values = self.found.values(plan.variant)
        varied = [
            f"{name} {readable(value)}" for name, value in zip(short_heads(list(values)), values.values(), strict=True)
        ]
        sizes = [f"{name} {counted(plan.sizes[name])}" for name in ALWAYS]
        sizes += [f"{name} {counted(plan.sizes[name])}" for name in OF_ITSELF_ONE if self._shows(plan, name)]
        structure = plan.structure
        way = [f"{way} {getattr(structure, way)}" for name, way in WAYS.items() if plan.sizes[name] > 1]
        choices = [*way, *split_texts(structure), f"zero {structure.zero}", *recompute_and_offload_texts(structure)]
        return " · ".join([*varied, *sizes, *choices, structure.schedule])

    def _gain(self, step_time: float) -> Line:
        """A table of the time that the best plan saves over yours: terms that moved by over 0.5 %, and memory."""
        named = {name_without_unit(move.name): move for move in gain_over_own_plan(self.found)}
        terms = [(named[key], f"  {words}") for words, key in TIME_TERMS if key in named]
        telling = [(move, words) for move, words in terms if abs(signed_difference(move)) > _NOTABLE_TERM * step_time]
        telling.sort(key=lambda item: signed_difference(item[0]))
        shown = [(named["step_time"], "step time"), *telling]
        shown += [(named["memory_peak"], "memory")] if "memory_peak" in named else []
        rows = [change_row(move, words, share=not words.startswith(" "))[:4] for move, words in shown]
        return CellTable(("", "yours", "best", "change"), rows, "lrrr", indent="    ")

    def _unsure(self) -> list[Line]:
        """A line on how many plans may be the fastest, with the chances that plan 1 is faster."""
        chances = self.found.chances
        count = unsure(chances)
        if count < 2:
            return []
        stated = f"these {count}" if count == len(chances) else f"the first {count}"
        last = f", plan {count} with {chance_words(chances[count - 1])}" if count > 2 else ""
        first = f"Any of {stated} may be fastest: plan 1 beats plan 2 with a chance of {chance_words(chances[1])}"
        return [Abridged(f"  {first}{last}", short=f"  {first}", added="")]

    def _roomier(self) -> Iterator[Line]:
        """A line on the first plan that surely fits, if plan 1 is at risk, or tight and hardly faster."""
        winner, *others = self.found.best
        alike = [plan for plan in others if plan.variant == winner.variant]
        if "N023" in winner.remarked:
            yield self._behind_risk(winner, [plan for plan in alike if "N023" not in plan.remarked])
            return
        free = [plan for plan in alike if verdict(plan.costs["memory_share"]) == "fits"]
        if verdict(winner.costs["memory_share"]) != "tight" or not free:
            return
        slower = free[0].costs["step_time"] / winner.costs["step_time"] - 1
        if 0 <= slower < _EQUAL_TIME:
            room, place = (
                gib(winner.costs["memory_peak"] - free[0].costs["memory_peak"]),
                self.found.best.index(free[0]),
            )
            yield styled(f"  Plan 1 is tight: plan {place + 1} takes {percent(slower)} longer and {room} GiB less", DIM)

    def _behind_risk(self, winner: Ranked, safe: Sequence[Ranked]) -> Text:
        """How much slower the first plan that surely fits is than plan 1, which is at risk."""
        risk = f"  Plan 1 fits with a chance of {chance_words(winner.costs['fit_chance'])}"
        if not safe:
            return styled(f"{risk}; --safe 90% ranks only plans with at least 90 %", DIM)
        slower = safe[0].costs["step_time"] / winner.costs["step_time"] - 1
        more = f"takes {percent(slower)} longer" if slower >= 0 else f"is {percent(-slower)} faster"
        return styled(f"{risk}; plan {self.found.best.index(safe[0]) + 1} fits at P90 and {more} (--safe 90%)", DIM)


_RESULTS = ("step_time", "step_time_low", "step_time_high", "tokens_per_s_per_gpu", "mfu", "hfu", "cost_per_mtoken",
            "memory_peak", "memory_share")  # fmt: skip
_TERMS = {key: words for words, key in TIME_TERMS}


def _not_searched(what: str, setting: str) -> Line:
    """A line on an option that the search did not try, with the setting that adds it."""
    return styled(f"  Not searched: {what}; add it with {shlex.join(['--set', setting])}")


def _drop_order(head: str) -> int:
    """The order in which a narrow terminal drops a column; 0 for a column that it never drops."""
    return _DROPPED.index(head) + 1 if head in _DROPPED else 0


def _size_column(name: str) -> PlanColumn[Ranked]:
    """The column of a size such as tp, and the function that makes its cell."""
    return Column(HEADS.get(name, name)), lambda plan: f"{plan.sizes[name]:.0f}"


def _choice_of(name: str) -> Callable[[Ranked], Cell]:
    """A function that returns the cell of a plan's choice, such as its schedule."""
    return lambda plan: CHOICES[name](plan.structure)


def _sequence_parallel_cell(plan: Ranked) -> Cell:
    return "✓" if plan.structure.sequence_parallel and plan.sizes["tp"] > 1 else "·"


def _fit_chance_words(plan: Ranked) -> Cell:
    """The chance that a plan fits, in words."""
    return fit_words(plan.costs["fit_chance"])


def _best_plan_cell(costs: Mapping[str, float], name: str) -> Value:
    """A cell with a result of the best plan, which opens its trace on a page."""
    value = costs.get(name, math.nan)
    known = value if math.isfinite(value) else None
    return Value(result(name, value), known, machine_name(name), opens=lambda traces: traces.of(f"plans.0.{name}"))


def _stated_values(words: TrainingWords) -> list[str]:
    """The values of varied keys in the scenario as written."""
    written = input_values(words.case)
    named = zip(words.own_paths, short_heads(words.own_paths), strict=True)
    return [f"{name} {readable(written[path].text)}" for path, name in named if path in written]
