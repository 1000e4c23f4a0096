"""How the answer of `search` shows plans of a service, in words and as plain values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.text import Text

from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.schemas.results import machine_name
from costmodel.documents.schemas.serving import LOADS, usual_objective
from costmodel.estimate.answer_facts import subject_of, varies
from costmodel.estimate.machine.price import price_of
from costmodel.estimate.serving.plan_columns import RARE, SIZES, sizes_of
from costmodel.estimate.serving.predict_serving import OVERLOAD, REFUSALS, ServingAnswer, known_costs, remarks
from costmodel.estimate.serving.replicas_for_load import fleet_of
from costmodel.estimate.serving.service_limits import OWN, breaks_exact_limit, service_limits
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.shared.results import Limit
from costmodel.explore.answer_summaries import halves, serving_plan_text
from costmodel.explore.compare.input_paths import input_values
from costmodel.explore.search.rank import PlanCounts
from costmodel.explore.serving.best_layout import fleet_settings, plan_settings
from costmodel.explore.serving.serving_search_result import RankedPlan, ServiceSearch, compared
from costmodel.ground.counts import number_of, ordinal
from costmodel.ground.record import record
from costmodel.ground.units import chance_words, counted, percent, significant
from costmodel.report.answers.search import PlanColumn, SearchWords, plan_without_safety
from costmodel.report.data_formats.answer_fields import finite, remark_fields
from costmodel.report.document import Cell, Column
from costmodel.report.terminal.formatting import readable
from costmodel.report.terminal.head import (
    command,
    origin_lines,
    price_fields,
    price_varies,
    setting_options,
    subject_words,
)
from costmodel.report.terminal.head import price_lines as own_price
from costmodel.report.terminal.head import remarks_of_plans as remark_lines
from costmodel.report.terminal.layout import BAD, DIM, HEAD, Abridged, CellTable, Detail, Line, shell_line, styled
from costmodel.report.terminal.serving_formatting import (
    batch_limits_warning,
    bound_words,
    chance_meaning,
    faster_than_memory,
    gpus_words,
    headroom_line,
    lengths_with_note,
    load_words,
    never_kept_line,
    no_headroom_warning,
    no_limits_warning,
    number_type_words,
    rate_words,
    rent_words,
    replica_words,
    result,
    waiting_lines,
    whole_nodes_words,
)
from costmodel.report.trials import short_heads

# --- answers about serving as JSON


def plan_fields(sizes: Mapping[str, float], costs: Mapping[str, float]) -> dict[str, Any]:
    """A serving plan as plain values: its sizes, its known results, and whether it fits in memory."""
    degrees = {name: int(size) if float(size).is_integer() else size for name, size in sizes.items()}
    results = known_costs(dict(costs))
    figures = {machine_name(name): finite(value) for name, value in results.items() if name not in SIZES}
    return {**degrees, **figures, "fits": costs["memory_share"] <= 1}


def own_plan_fields(answer: ServingAnswer) -> dict[str, Any]:
    """The scenario's plan as plain values: its results, those of prefill and decode, and its bottleneck."""
    if answer.groups:
        groups = [
            {"node": group.inputs.case.node.name, "nodes": float(group.inputs.case.cluster.nodes), "share": group.share,
             **own_plan_fields(group)}
            for group in answer.groups
        ]  # fmt: skip
        return {**plan_fields({}, answer.costs), "groups": groups}
    held = plan_fields(sizes_of(answer.evaluation.layout), answer.costs)
    return {**held, **halves(answer.plan), "binds": None if "M001" in answer.broken else answer.binding}


def fix_fields(answer: ServingAnswer) -> dict[str, Any]:
    """Settings that each remove a reason against the plan, as plain values, with the chance that results."""
    offered = enumerate(zip(answer.remedies, answer.chances, strict=True))
    remedies = [
        {"set": list(first), "limits_chance": chance, "only_fits": place < answer.partial}
        for place, ((first, *_), chance) in offered
    ]
    return {"remedies": remedies}


# --- how answers of a search speak of plans that serve


PAID_HEAD = "GPUs paid"
OF_FLEETS = ("gpus_needed", "rent_per_month")  # objectives beside which the GPUs that a load needs have their rent
_HEADS = {
    "rate_within_slo_per_s": "req/s",
    "cost_within_limits": "rent/M out",
    "tokens_per_gpu_within_limits": "tok/s/GPU",
    "rent_per_month": "a month",
    "rent_needed": "rent/month",
    "gpus_needed": "GPUs needed",
}
_DEGREES = {"dp_attention": "dpa", "replicas": "repl", "redundant_experts": "copies"}
_DROPPED = {"budget": 9, "pp": 10, "replicas": 11, "tp": 12}  # the next command has them
_LOADS = {"rate": "req/s", "concurrency": "in flight", "users": "users", "requests": "requests"}
_SHOWN = ("tpot", "ttft_p99", OWN, "in_time_share")
_AT_MOST = ("rate_within_slo_per_s", "tokens_per_gpu_within_limits", "cost_within_limits")
_AT_LOAD = ("requests_per_s", "tokens_per_s_per_gpu", "cost_per_mtoken")
_MOST_HEADS = ("most req/s", "most tok/s/GPU", "least rent/M out")
_USUAL = {  # objectives of loads that wait for answers
    "makespan": "the time to finish the batch",
    "latency": "the time of a whole answer under that load",
}
_FASTER = 0.98  # of a time per token, under which another plan is named as faster
_SIGNS = {"at_most": "≤", "at_least": "≥", "target": "≈"}


@record
class ServiceWords(SearchWords[ServingInputs, RankedPlan]):
    """The words and columns of a search of a service."""

    found: ServiceSearch
    drawn = ("tpot", "tokens_per_gpu_within_limits")
    shown_anyway = frozenset({"plan.tp", "plan.pp", "plan.replicas"})
    brief = 3

    @property
    def works(self) -> str:
        """The verb for a plan that works."""
        return "meets all limits" if self.is_limited else "answers the load"

    @property
    def keeps(self) -> str:
        """Words for plans that meet the limits."""
        return "meet all limits" if self.is_limited else "answer the load"

    def sure(self, chance: float) -> str:
        """A chance as text for the table."""
        return _percent_or_dash(chance)

    @property
    def waits(self) -> bool:
        """Whether the load is a number of users or requests, which wait for answers, rather than a rate."""
        return self.found.inputs.case.scenario.workload.rate is None

    @property
    def rates(self) -> tuple[str, str, str]:
        """The results for rate, throughput and rent: at the highest rate within limits, or at the load."""
        return _AT_LOAD if self.waits else _AT_MOST

    def about(self) -> list[Line]:
        """The head: model, machine, engine, lengths, load, price, and remarks on the scenarios."""
        variants, found = self.found.variants, self.found
        case, paths = variants.inputs.case, variants.paths
        subject, workload = subject_of(case), case.scenario.workload
        words = [] if varies("stack", paths) else [variants.inputs.engine.name]
        words += [] if _workload_key_varies(paths, ["precision", "weights", "cache"]) else number_type_words(workload)
        words += [] if _workload_key_varies(paths, ["prompt", "output"]) else [lengths_with_note(workload)]
        if found.shares is not None:
            shares = ", ".join(f"{name} {_range_words(*ends)}" for name, ends in found.shares.items())
            words += [f"shares of the load: {shares}"]
        words += [] if found.shares is not None or _workload_key_varies(paths, LOADS) else [load_words(workload)]
        named = subject_words(subject, paths)
        lines: list[Line] = [styled(named, HEAD)] if named else []
        lines += [styled(" · ".join(words))] if words else []
        lines += own_price(subject.price) if subject.price.known and not price_varies(paths) else []
        shown = list(dict.fromkeys(plan.variant for plan in (*found.best, *(found.front.rows if found.front else ()))))
        each = [variants.of(number) for number in shown or [found.nearest]]
        nodes = [inputs.case.node.name for inputs in each]
        return [*lines, *origin_lines(case), *remark_lines([tuple(remarks(inputs)) for inputs in each], nodes=nodes)]

    def plan_columns(self, plans: Sequence[RankedPlan]) -> list[PlanColumn[RankedPlan]]:
        """Columns for the degrees of a replica, the replicas and the token budget; on a front also the load."""
        mixture = any(self.found.inputs_of(each.variant).model.has_experts for each in plans)
        copied = any("redundant_experts" in each.sizes for each in plans)
        of_experts = ("ep", *(("redundant_experts",) if copied else ()), "dp_attention") if mixture else ()
        budget = () if "stack.budget" in self.paths else ("budget",)
        shared = ("dcp",) if any("dcp" in each.sizes for each in plans) else ()
        names = ("tp", "pp", *of_experts, *shared, "replicas", *budget)
        columns = [(Column(_DEGREES.get(name, name), drop=_DROPPED.get(name, 0)), _degree_of(name)) for name in names]
        if all(math.isnan(each.load) for each in plans):
            return columns
        load = next(word for key, word in _LOADS.items() if getattr(self._workload, key) is not None)
        return [*columns, (Column(load), lambda plan: significant(plan.load))]

    def figures(self, plans: Sequence[RankedPlan]) -> list[PlanColumn[RankedPlan]]:
        """Columns for rates, times with P90, the chance, rents, the bottleneck, and broken limits."""
        rate, throughput, rent = self.rates
        own: tuple[str, ...] = () if self.objective in (*_SHOWN, *self.rates) else (compared(self.found.inputs),)
        if self.objective in OF_FLEETS and not self.waits:
            rented = any(math.isfinite(each.costs["rent_needed"]) for each in plans)
            own = ("gpus_needed", *((*self.paid_apart(plans), "rent_needed") if rented else ()))
        timed = not all(math.isnan(each.costs["in_time_share"]) for each in plans)
        money = not all(math.isnan(each.costs[rent]) for each in plans)
        later = 7 if self.paths or own else 0
        columns = [
            self.cell(rate, significant, head="req/s"),
            *(self._time(name, head, drop) for name, head, drop in (
                ("tpot", "tpot", 0), ("tpot_high", "tpot P90", 4), ("ttft_p99", "ttft p99", 0),
                ("ttft_p99_high", "ttft p99 P90", 3))),
        ]  # fmt: skip
        columns += [self.cell("in_time_share", _percent_or_dash, head="SLO met", drop=5)] if timed else []
        columns += [(Column("chance", result=OWN, drop=6), self._chance)]
        columns += [self.cell(throughput, significant, head="tok/s/GPU", drop=later)]
        columns += [self.cell(rent, significant, head="rent/M out", drop=8 if own else 0)] if money else []
        columns += [self.figure(name) for name in own]
        columns += [(Column("limited by", "l", drop=2), lambda plan: plan.binding.replace("_", " "))]
        return [*columns, (Column("", "l"), self._state)]

    def figure(self, name: str) -> PlanColumn[RankedPlan]:
        """A column of a result, or of the GPUs that are paid for."""
        if name == PAID_HEAD:
            return Column(PAID_HEAD), self._paid_words
        heads = dict(zip(_AT_MOST, _MOST_HEADS, strict=True)) if self.waits else {}
        return self.cell(name, head=heads.get(name, _HEADS.get(name, name)))

    def line(self, plan: RankedPlan) -> str:
        """A plan in words: its instances and degrees."""
        return instance_words(plan)

    def settings(self, plan: RankedPlan) -> dict[str, str]:
        """The settings of a plan: varied keys, its sizes, and on a front its load."""
        settings = plan_settings(self.found, plan)
        if math.isnan(plan.load):
            return settings
        key = next(key for key in _LOADS if getattr(self._workload, key) is not None)
        load = f"{significant(plan.load)}/s" if key == "rate" else f"{max(plan.load, 1.0):.0f}"
        return {**settings, f"workload.{key}": load}

    def fields(self, plan: RankedPlan) -> dict[str, Any]:
        """A plan with the values of the keys that vary, its load on a front, and its price where that varies too."""
        variants = self.found.variants
        priced = price_fields(price_of(variants.of(plan.variant).case)) if price_varies(variants.paths) else {}
        return {
            **variants.cells(plan.variant),
            **plan_fields(plan.sizes, plan.costs),
            **({} if plan.prefill is None else {"prefill": plan.prefill}),
            **({} if math.isnan(plan.load) else {"load": plan.load}),
            "binds": plan.binding,
            "broken": list(plan.broken),
            **priced,
        }

    def keys(self, plan: RankedPlan) -> dict[str, Any]:
        """The sizes that identify a plan."""
        return {**plan.sizes, **({} if plan.prefill is None else {"prefill": plan.prefill})}

    def assumed(self) -> Sequence[Assumption]:
        """The assumptions common to all plans."""
        return self.found.inputs.assumed

    def rule(self) -> tuple[float | None, RankedPlan | None]:
        """The chance to meet all limits, and the best plan by the other rule."""
        return (self.found.safe if self.found.unruled is None else self.found.unruled), self.found.other

    def note_fields(self) -> list[dict[str, str]]:
        """Remarks on the scenarios of the plans shown, as plain values."""
        numbers = dict.fromkeys(plan.variant for plan in self.found.best) or [self.found.nearest]
        return remark_fields([tuple(remarks(self.found.inputs_of(number))) for number in numbers])

    def own_fields(self) -> dict[str, Any] | None:
        """The rank of the scenario's own plan; None without a plan."""
        return {"rank": self.found.your_rank} if self.found.yours is not None else None

    def beneath(self, plans: Sequence[RankedPlan]) -> list[Line]:
        """Lines that explain the columns."""
        apart = any(each.prefill is not None for each in plans)
        lines: list[Line] = [styled("  →: from the instances for prompts to those that generate", DIM)] if apart else []
        return lines if self.found.front is not None else [*lines, *self._table_key(plans)]

    def yours(self) -> list[Line]:
        """A line on the rank of the scenario's own plan."""
        own, found = self.found.yours, self.found
        if own is None:
            return []
        written = input_values(found.inputs.case)
        named = zip(self.paths, short_heads(self.paths), strict=True)
        values = [f"{name} {readable(written[path].text)}" for path, name in named if path in written]
        words = " · ".join([*values, serving_plan_text(own), f"budget {own.evaluation.layout.budget[0]:,.0f}"])
        if found.your_rank is None:
            why = f"is not valid: {', '.join(own.refused)}" if own.refused else "is not ranked: it has no price"
            return [styled(f"  yours ({words}) {why}")]
        return [styled(f"  yours ({words}) ranks {ordinal(found.your_rank)} of {found.tally.evaluated:,}")]

    def needs(self) -> list[Line]:
        """Lines on the replicas that the load needs, and on requests that wait."""
        return [*self._needed(), *self._waiting()] if self.found.best else []

    def remedies(self) -> list[Line]:
        """Lines on settings under which a plan meets every limit, and the best plan with them."""
        if self.found.fleet is None:  # else a line names the replicas needed
            return self._remedy_lines()
        return [Detail(self._remedy_lines, "what to set")] if self._offers_others else []

    @property
    def _offers_others(self) -> bool:
        """Whether other settings are looked for, since no plan is safe."""
        return not (self.found.stopped or (self.found.works and self.found.is_safe))

    def _remedy_lines(self) -> list[Line]:
        """A row for each remedy: what to set, its plan and its GPUs."""
        found = self.found
        remedies = found.offers.remedies
        if not remedies:
            return self._never_kept()
        rows = [
            (
                "try" if not place else "",
                setting_options(found.inputs.case, (*remedy.settings, *remedy.plan)),
                f"{instances_and_limits(remedy.best)}, {number_of(remedy.best.costs['gpus'], 'GPU')}",
            )
            for place, remedy in enumerate(remedies)
        ]
        kept = "meets all limits" if self.is_limited else "answers the load"
        kept += f" with a chance of {percent(found.safe, 2)}" if found.safe is not None else ""
        then = "the best plan then" if any(remedy.best.broken for remedy in remedies) else kept
        sizes = None if self.other_rule() else found.offers.both_clusters
        both = [] if sizes is None else [styled(f"  {_two_sizes(*sizes)}")]
        return [CellTable(("", "what to set", then), rows, "lkl"), *both]

    def remedy_fields(self) -> list[dict[str, Any]]:
        """The remedies as plain values."""
        return [{"set": list(remedy.settings), "plan": list(remedy.plan)} for remedy in self.found.offers.remedies]

    def example(self, plan: RankedPlan, code: str) -> tuple[str, str]:
        """The name of a rejected plan: its degrees over 1, and the reason."""
        return " · ".join(f"{name} {counted(size)}" for name, size in plan.sizes.items() if size > 1), ""

    def closing(self) -> list[Line]:
        """The command for the best plan, for as many replicas as the rate needs, and for the search to ask next."""
        found, best = self.found, self.found.best[0]
        which = ", the nearest plan" if best.broken else "" if found.is_safe else ", the surest plan"
        fleet = found.offers.smaller or found.fleet
        of_best = command(self.case, "estimate", settings=self.settings(best))
        if fleet is None:
            return [shell_line(f"Next{which}:", of_best)]
        kind = "replica" if fleet.prefill is None else "instance"
        named = f"Next, with the {number_of(fleet.costs['replicas'], kind)} you need:"
        named = f"Next, the fewest GPUs, {fleet.costs['gpus']:,.0f}:" if found.offers.smaller is not None else named
        of_fleet = command(self.case, "estimate", settings=fleet_settings(found, fleet))
        return [shell_line(named, of_fleet), Detail([shell_line(f"Plan 1{which}:", of_best)], "another command")]

    def after_none(self) -> list[Line]:
        """The next search to run, with the settings of the first remedy."""
        if self.found.fleet is None:
            return self._next_search()
        return [Detail(self._next_search, "another command")] if self._offers_others else []

    def _next_search(self) -> list[Line]:
        """The command of a search with the settings of the first remedy; empty without remedies."""
        if not self.found.offers.remedies:
            return []
        settings = dict(setting.split("=", 1) for setting in self.found.offers.remedies[0].settings)
        label = "With the first change:" if self.found.best else "Next:"
        return [shell_line(label, command(self.case, "search", settings=settings))]

    def conclusion(self) -> str:
        """The best plan and the rate that it answers."""
        found, best = self.found, self.found.best[0]
        if not found.works:
            return "No plan meets all limits."
        values = found.values(best.variant)
        varied = [readable(values[path]) for path in self.own_paths]
        named = (*varied, *(f"{name} {best.sizes[name]:.0f}" for name in ("tp", "pp")))
        rate = result("rate_within_slo_per_s", best.costs["rate_within_slo_per_s"])
        sure = "" if found.safe is None else f" with a chance of {percent(found.safe, 2)}"
        return f"The best plan, {' · '.join(named)}, answers {rate} within all limits{sure}."

    def notes(self, plan: RankedPlan) -> list[str]:
        """Sentences on the limits that a plan breaks, on its results and those of the best, and on its bottleneck."""
        stated = [f"{code} {REFUSALS[code].title}: {REFUSALS[code].meaning}" for code in plan.broken]
        names = ("rate_within_slo_per_s", "tpot", "ttft_p99")
        best = self.found.best[0] if self.found.best else plan
        if plan is not best:
            beside = (
                f"{name} {result(name, plan.costs[name])}, of the best {result(name, best.costs[name])}"
                for name in names
                if math.isfinite(plan.costs[name])
            )
            stated.append("; ".join(beside))
        return [*stated, f"Its rate is limited by: {plan.binding}."]

    def value_figures(self, parts: Sequence[PlanCounts[RankedPlan]]) -> list[PlanColumn[RankedPlan]]:
        """Columns with the objective, the GPUs that the load needs, and their rent."""
        bests = [part.best for part in parts if part.best is not None]
        needed = any(math.isfinite(best.costs["gpus_needed"]) for best in bests)
        rented = self.objective in OF_FLEETS and any(math.isfinite(best.costs["rent_needed"]) for best in bests)
        further = (*(("gpus_needed",) if needed else ()), *((*self.paid_apart(bests), "rent_needed") if rented else ()))
        first = () if rented else (compared(self.found.inputs),)
        return [(replace(column, head=_HEADS.get(name, name)), cell) for name in dict.fromkeys((*first, *further))
                for column, cell in [self.figure(name)]]  # fmt: skip

    def remarked(self) -> list[str]:
        """The codes of remarks on the scenario."""
        return [*remarks(self.found.inputs)]

    def other_rule(self) -> str:
        """A sentence on the best plan without the --safe chance, or with it if the ranking ignores it."""
        found, other = self.found, self.found.other
        if other is None or other.broken or not found.best:
            return ""
        best, sized = found.best[0], found.fleet or found.best[0]
        is_counted = math.isfinite(best.costs["gpus_needed"])
        if found.unruled is not None:
            rule = "No kernels measured on this GPU, so the average prediction rules"
            more = number_of(other.costs["gpus"], "GPU")
            would = f"{_gpus_with_chance(sized)}; a chance of {percent(found.unruled, 2)} would take {more}"
            return f"{rule}: {would}" if is_counted else rule
        if (other.sizes, other.prefill) == (sized.sizes, sized.prefill):
            return ""
        if is_counted:
            words = "" if _sizes_of_instance(other) == _sizes_of_instance(best) else f" ({instances_and_limits(other)})"
            return _two_sizes(other, sized, words)
        return plan_without_safety(self, other)

    def price_rows(self, plans: Sequence[RankedPlan]) -> list[RankedPlan]:
        """The plans whose prices are shown: those of the table and, for objectives on rent, of each value."""
        bests = [part.best for part in self.found.parts if part.best is not None]
        return [*plans, *(bests if self.objective in OF_FLEETS else [])]

    def paid_apart(self, plans: Sequence[RankedPlan]) -> tuple[str, ...]:
        """The head of the column of paid GPUs, if they differ from the GPUs that the load needs; else empty."""
        known = [plan for plan in plans if not plan.broken and math.isfinite(plan.costs["gpus_needed"])]
        return (PAID_HEAD,) if any(self._paid(plan) != plan.costs["gpus_needed"] for plan in known) else ()

    @property
    def _workload(self) -> Any:
        return self.found.inputs.case.scenario.workload

    def _paid(self, plan: RankedPlan) -> float:
        """The number of accelerators that are paid for, if the load needs `gpus_needed` of them."""
        return fleet_of(self.found.inputs_of(plan.variant), plan.costs["gpus_needed"]).paid

    def _paid_words(self, plan: RankedPlan) -> Cell:
        """The number of GPUs that are paid for as text; a dash if it is not known."""
        known = not plan.broken and math.isfinite(plan.costs["gpus_needed"])
        return f"{self._paid(plan):,.0f}" if known else "—"

    def _time(self, name: str, head: str, drop: int) -> PlanColumn[RankedPlan]:
        """A column with a time; a dash for the time between tokens if answers have one token."""
        single = self._workload.single_token and name.startswith("tpot")

        def text(value: float) -> str:
            return "—" if single else result(name, value)

        column, cell = self.cell(name, text, head=head, drop=drop)
        return column, lambda plan: cell(plan) if math.isfinite(plan.costs[name]) else text(plan.costs[name])

    def _chance(self, plan: RankedPlan) -> Cell:
        """The chance of a plan to meet all limits; a dash if it breaks a limit that has no band, such as rent."""
        sure = "T001" in plan.broken and breaks_exact_limit(self.found.inputs_of(plan.variant), plan.costs)
        return "—" if sure else _percent_or_dash(plan.costs[OWN])

    def _state(self, plan: RankedPlan) -> Cell:
        """A cell with the limits that a plan breaks, or `at risk`."""
        return f"✗ {' '.join(plan.broken)}" if plan.broken else "at risk" if self.found.is_risky(plan) else ""

    # ── the key of the table ─────────────────────────────────────────────────────────────────────────────────────────

    def _table_key(self, plans: Sequence[RankedPlan]) -> Iterator[Text]:
        """Lines that explain the columns of the table, for -v."""
        heads = [column.head for column, _ in self.figures(plans)]
        yield from self._ranked_by()
        yield from batch_limits_warning(self.found.inputs.case)
        yield from self._rates_words(heads)
        there = [name for name in ("tok/s/GPU", "rent/M out") if name in heads]
        beside = f"times and chance: at the scenario's load, to {chance_meaning(self.found.inputs.case)}"
        yield _column_legend(f"{', '.join(there)}: at that rate; {beside}")
        if PAID_HEAD in heads:
            yield _column_legend("GPUs paid: those that the load needs; of a node with a price of its own, all of it")
            yield _column_legend("rent/month: these GPUs for 730 h; rent/M out: only the GPUs in use")
        elif _HEADS["rent_needed"] in heads:
            yield styled("  rent/month: of the GPUs that the load needs, for 730 h", DIM)
        if "SLO met" in heads:
            words = "share of requests at that load that meet both limits on time"
            yield _column_legend(f"SLO met: {words}")
        if alike := sum(part.alike for part in self.found.service_parts):
            yield styled(f"  ep: {number_of(alike, 'plan')} with more of it and the same results left out", DIM)
        if any(OVERLOAD & {*each.broken} for each in plans):
            yield styled("  ∞: requests arrive faster than they are answered", DIM)
        fastest = max((part.fastest for part in self.found.service_parts), default=math.inf)
        for limit in self._limits():
            if past := faster_than_memory(limit, fastest):
                yield styled(f"  {_limit_words(limit)}{past}", BAD)

    def _rates_words(self, heads: Sequence[str]) -> Iterator[Text]:
        """Lines that explain the columns of rates."""
        limits = [_limit_words(limit) for limit in self._limits()]
        kept = f"meets {' and '.join(limits)}" if limits else "is answered"
        brief = "the highest rate within all limits" if limits else "the highest rate that is answered"
        sure = "" if self.found.safe is None else f" with a chance of {percent(self.found.safe, 2)}"
        most = f"the highest rate that {kept}{' as expected' if self.found.expected_rates else sure}"
        if not self.waits:
            chance = "" if self.found.safe is None else f" with a chance of {percent(self.found.safe, 2)}"
            short = f"{brief}{' as expected' if self.found.expected_rates else chance}"
            yield Abridged(f"  req/s: {most}", DIM, short=f"  req/s: {short}", added="what columns mean")
            return
        yield styled("  req/s: the rate at which the scenario's load is answered", DIM)
        own = [head for head in _MOST_HEADS if head in heads]
        if own:
            yield styled(f"  {own[0]}: {'' if own[0] == _MOST_HEADS[0] else 'at '}{most}", DIM)

    def _ranked_by(self) -> list[Text]:
        """A line on the objective; of plans ranked by their rate, on a plan that is faster for each user."""
        usual = usual_objective(self._workload)
        if usual not in _USUAL:
            return self._faster_for_a_user() if self.objective == usual else []
        if self.objective == usual:
            return [styled(f"  ranked by {usual}, {_USUAL[usual]}", DIM)]
        more = f"--set objective={usual} ranks by {_USUAL[usual]}"
        return [styled(f"  ranked by {self.figure(self.objective)[0].head}; {more}", DIM)]

    def _faster_for_a_user(self) -> list[Text]:
        """A line on the least time per token of all plans, where the plan with the highest rate is slower."""
        least = min((part.least_tpot for part in self.found.service_parts), default=math.inf)
        own = self.found.best[0].costs["tpot"] if self.found.best else 0.0
        if self._workload.single_token or not least < _FASTER * own:
            return []
        words = f"the fastest for a user takes {result('tpot', least)} per token: --set objective=tpot"
        return [styled(f"  ranked by req/s; {words}", DIM)]

    def _limits(self) -> list[Limit]:
        """The limits that do not vary."""
        varied = {path.split(".")[1] for path in self.paths if path.startswith("limits.")}
        return [limit for limit in service_limits(self.found.inputs) if limit.column not in varied]

    # ── what the load needs ──────────────────────────────────────────────────────────────────────────────────────────

    def _needed(self) -> Iterator[Text]:
        """A line on the replicas that the load needs: of the best plan, or of a plan with fewer accelerators."""
        found, best = self.found, self.found.offers.smaller or self.found.best[0]
        inputs = found.inputs_of(best.variant)
        needed, rate = best.costs["replicas_needed"], inputs.case.scenario.workload.rate
        if rate is None or math.isnan(needed) or math.isinf(needed):
            return
        taken = f"{number_of(needed, 'replica')} of {replica_words(best.sizes)}"
        if best.prefill is not None:
            kinds = (f"{best.costs[f'{name}_needed']:,.0f} {name}" for name in ("prefill", "decode"))
            taken = f"{' and '.join(kinds)} instances"
        many = best.costs["gpus_needed"]
        gpus = f"{gpus_words(inputs, many)}{whole_nodes_words(inputs, many)}"
        named = zip(short_heads(self.paths), found.values(best.variant).values(), strict=True)
        values = " · ".join(f"{name} {readable(value)}" for name, value in named)
        taken += f" ({values})" if values else ""
        plan = "plan 1" if found.offers.smaller is None else "another plan"
        yield styled(f"{rate_words(rate, significant(rate))} need {gpus}: {taken}, as in {plan}", HEAD)
        yield styled(f"  {rent_words(inputs, many)}")
        yield from self._at_that_size()
        yield from self._with_fewer()
        yield from headroom_line(inputs.case)
        yield from no_limits_warning(inputs)
        if found.safe is None and found.unruled is None:
            yield from no_headroom_warning(inputs)

    def _at_that_size(self) -> Iterator[Text]:
        """A line on the times and the chance with the replicas that the load needs, if the table has another number."""
        fleet = self.found.offers.smaller or self.found.fleet
        if fleet is None:
            return
        costs = fleet.costs
        many = f"With {number_of(costs['replicas'], 'replica' if fleet.prefill is None else 'instance')}"
        times = f"first token {result('ttft_p99', costs['ttft_p99'])} (p99)"
        times = times if self._workload.single_token else f"{result('tpot', costs['tpot'])} per token, {times}"
        yield styled(
            f"  {many}: {times}, {_percent_or_dash(costs[OWN])} chance to {chance_meaning(self.found.inputs.case)}"
        )

    def _with_fewer(self) -> Iterator[Text]:
        """A line on how to find a plan with fewer GPUs than the best one, if one exists."""
        best = self.found.best[0]
        fewest = self.found.tally.part(best.variant).fewest
        if fewest < best.costs["gpus_needed"]:
            fewer = gpus_words(self.found.inputs_of(best.variant), fewest)
            yield styled(f"  Another plan needs {fewer}: --set objective=gpus_needed finds it")

    def _waiting(self) -> list[Text]:
        """Lines on requests that wait under the best plan, and on the answer that names the replicas needed."""
        best = self.found.best[0]
        workload = self.found.inputs_of(best.variant).case.scenario.workload
        lines = waiting_lines(workload, best.costs, "With plan 1, ")
        named = "  More replicas shorten the line: the estimate named below prints how many end it"
        return [*lines, styled(named)] if lines and not best.broken else lines

    def _never_kept(self) -> list[Line]:
        """A line on limits that no plan meets because even single requests break them, and the nearest plan."""
        found, alone = self.found, self.found.offers.alone
        if found.works or found.stopped:
            return []
        words = "" if alone is None else instance_words(alone)
        return [never_kept_line(found.inputs, None if alone is None else alone.costs, words)]


def _column_legend(words: str) -> Text:
    """A line that explains a column, for -v only."""
    return Abridged(f"  {words}", DIM, short="", added="what columns mean")


def instance_words(plan: RankedPlan) -> str:
    """The instances of a plan in words, such as `4 × tp 8`; with separate prefill `2 × tp 8 → 4 × tp 8`."""
    halves = [sizes for sizes in (plan.prefill, plan.sizes) if sizes is not None]
    return " → ".join(f"{counted(sizes['replicas'])} × {replica_words(sizes)}" for sizes in halves)


def instances_and_limits(best: RankedPlan) -> str:
    """The instances of a plan, and the limits that it breaks."""
    words = instance_words(best)
    return f"{words} ✗ {' '.join(best.broken)}" if best.broken else words


def _degree_of(name: str) -> Callable[[RankedPlan], Cell]:
    """A function that returns the cell of a plan's degree."""
    return lambda plan: degree_words(plan, name)


def degree_words(plan: RankedPlan, name: str) -> str:
    """A degree of a plan; with separate prefill and decode instances, both degrees."""
    none = RARE.get(name, 1.0)
    own = counted(plan.sizes.get(name, none))
    if plan.prefill is None or name in ("pp", "budget", "redundant_experts"):
        return own
    return f"{counted(plan.prefill.get(name, none))} → {own}"


def _range_words(least: float, most: float) -> str:
    """A share, or the least and the most where it differs between values."""
    low, high = percent(least), percent(most)
    return low if low == high else f"{low} to {high}"


def _percent_or_dash(value: float) -> str:
    """A share in percent; a dash if it is not known."""
    return "—" if math.isnan(value) else chance_words(value)


def _gpus_with_chance(plan: RankedPlan, words: str = "") -> str:
    """The number of GPUs of a plan and its chance, in words."""
    return f"{number_of(plan.costs['gpus'], 'GPU')}{words}: {_percent_or_dash(plan.costs[OWN])} chance"


def _two_sizes(expected: RankedPlan, safe: RankedPlan, words: str = "") -> str:
    """The numbers of GPUs by the average prediction and with the preferred chance, in words."""
    few = counted(expected.costs["gpus"])
    return f"{_gpus_with_chance(expected, words)}; {_gpus_with_chance(safe)} (--safe off shows {few})"


def _sizes_of_instance(ranked: RankedPlan) -> list[dict[str, float]]:
    """The sizes of a plan without its number of replicas."""
    halves = [ranked.sizes, *([] if ranked.prefill is None else [ranked.prefill])]
    return [{name: size for name, size in half.items() if name != "replicas"} for half in halves]


def _limit_words(limit: Limit) -> str:
    """A limit in words: its name, sign and bound."""
    bound = bound_words(limit.column, limit.value)
    return f"all with a chance of {bound}" if limit.column == OWN else f"{limit.key} {_SIGNS[limit.kind]} {bound}"


def _workload_key_varies(paths: Sequence[str], keys: Sequence[str]) -> bool:
    """Whether one of these workload keys, or a part of one, varies."""
    return any(
        varies(f"workload.{key}", paths) or f"{path}.".startswith(f"workload.{key}.") for key in keys for path in paths
    )
