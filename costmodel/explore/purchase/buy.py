"""Finds for every machine on offer the smallest plan that meets all limits, and compares what they cost."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from costmodel.documents.reader.library import read
from costmodel.documents.reader.load_scenario import vary_any
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.results import is_money
from costmodel.equations.kernels.flop import optimal_parameters, optimal_tokens, six_n_flop
from costmodel.equations.run.economics import (
    affordable_flop,
    break_even_rate,
    cost_difference,
    hosted_cost,
    payback_time,
    run_cost,
    share,
    site_power,
)
from costmodel.equations.run.uncertainty import missed_chance
from costmodel.equations.serving.serving_economics import MONTH
from costmodel.estimate.machine.price import AcceleratorPrice, hourly_price, rated_power
from costmodel.estimate.model.shards import model_parameters
from costmodel.estimate.shared.results import stated_limits
from costmodel.explore.flag_defaults import TOKENS_PER_PARAMETER
from costmodel.explore.purchase.offers import (
    ON_DEMAND,
    STATED_API,
    HostedOffer,
    Machine,
    Offers,
    dearest_on_demand,
    site_terms,
)
from costmodel.explore.purchase.purchase import (
    Purchase,
    Rent,
    gpus_used,
    money_figures,
    rent_of_gpus_and_nodes,
    traced_price,
)
from costmodel.explore.purchase.smallest_size import CHANCE, chance_tree, evaluate_trial, trees_at_prices
from costmodel.explore.search.rank import UNWATCHED, Watcher
from costmodel.explore.search.required_chance import preferred_chance, stated_chance
from costmodel.explore.workload_interface import KnownPlans, MissedLimit, SmallestPlans, Workload
from costmodel.ground.equation import Number, leaf
from costmodel.ground.errors import CostModelError, Fault, fail
from costmodel.ground.record import record
from costmodel.ground.units import show

if TYPE_CHECKING:
    from costmodel.explore.explain.equation_trees import ExplainedFigure

MOST = 65_536.0  # accelerators of a machine that are looked at
_CHEAP = ("purchase", "spot", "reserved", "capacity block")  # then list prices on demand
_RISEN = 1.005  # times a price, from which on another one is dearer: judged
WHOLE_JOB = ("run_time", "run_cost")  # results of a job with an end
RENT = "rent_per_month"  # of a service
SIZE = ("plan.replicas=", "cluster.nodes=")  # settings of a plan that make it that large


MISS = "miss"  # of a chance: that a limit is not kept


def _chance_to_miss_tree(tree: ExplainedFigure) -> ExplainedFigure:
    """The equation tree of the chance to miss a limit, from the tree of the chance to meet it."""
    from costmodel.explore.explain.equation_trees import ExplainedFigure

    beneath = [ExplainedFigure("certain", 1.0, "1"), tree]
    return ExplainedFigure(
        "chance to miss a limit", float(missed_chance(tree.value)), "1", operation="difference", beneath=beneath
    )


_TURNS = {"turn": "1/s", "payback": "s"}
# Of figures that are no money.
UNITS = {
    "GPUs": "1",
    "nodes": "1",
    "idle": "1",
    "price": "USD/s",
    "site power": "J/s",
    "pays after": "s",
    "billed": "1",
}


def _averaged_over_day(tree: ExplainedFigure, traffic: float) -> ExplainedFigure:
    """The tree of a cost in the busiest hour divided by the day's average load relative to that hour."""
    from costmodel.explore.explain.equation_trees import ExplainedFigure

    part = ExplainedFigure("load of all hours over the fullest", traffic, "1")
    return ExplainedFigure(tree.name, tree.value / traffic, tree.unit, operation="divide", beneath=[tree, part])


def _name_of_billed_rent(row: Purchase) -> str:
    """The name of the rent that is billed: "rent" of parts, or "whole nodes"."""
    return "rent" if row.rents_each else "whole nodes"


@record
class Choice:
    """Another possible answer, for the reader to decide.

    key: what is decided. row: the machine with that answer's plan. flags: command options that lead there
    """

    key: str
    row: Purchase
    flags: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name under which its figures are traced: the offer, or the choice of another plan on the best machine."""
        return self.row.machine.name if self.key == "offer" else f"the choice {self.key}"


@record
class PurchaseComparison:
    """All machines: those that work, cheapest first, then the others; and hosted APIs of the model.

    safe: the required chance to meet every limit. count: number of offers to evaluate. choices: what the reader has to
    decide, largest effect on cost first. traffic: average load of a day relative to its busiest hour. late: the budget
    determines the model, and no larger one ends in time
    """

    asked: Workload
    rows: tuple[Purchase, ...]
    safe: float
    count: int
    plans: PlansByMachine  # which finds those of further machines and settings
    hosted: tuple[HostedOffer, ...] = ()
    power: float = math.inf  # that the site has, W
    choices: tuple[Choice, ...] = ()
    traffic: float = 1.0
    most: float = MOST  # accelerators of a machine
    late: bool = False

    @functools.cached_property
    def working(self) -> tuple[Purchase, ...]:
        """The machines with a plan that meets every limit."""
        return tuple(row for row in self.rows if row.works)

    @functools.cached_property
    def best(self) -> Purchase | None:
        """The cheapest rent on demand; if there is none, the cheapest on other terms that fit the job.

        On other terms, rents that bind for less than a year come first and spot last.
        """
        fitting = [*filter(self._terms_fit, self.working)]
        return next(iter([*sorted(fitting, key=terms_order), *self.working]), None)

    @property
    def least_missed(self) -> tuple[Purchase, MissedLimit] | None:
        """The rent on demand that exceeds only the budget, and by the least; None if there is none."""
        alone = [(row, row.plans.missed[0]) for row in self.rows if not row.works and len(row.plans.missed) == 1]
        dear = [
            each for each in alone if each[1].column in (RENT, "run_cost") and each[0].machine.sold in ("", ON_DEMAND)
        ]
        return min(dear, key=lambda each: each[1].likely, default=None)

    @property
    def next_best(self) -> Purchase | None:
        """The cheapest rent on another accelerator, else in another node; on the same terms if possible.

        Never one that is cheaper than the answer: those are on other terms, and are choices.
        """
        best = self.best
        least = -math.inf if best is None else self.weighed_cost(best)
        others = [row for row in self.working if row is not best and row.is_lasting_rent and self._terms_fit(row)]
        others = [row for row in others if self.weighed_cost(row) >= least]
        others.sort(key=lambda row: best is None or row.machine.accelerator == best.machine.accelerator)
        alike = (row for row in others if best is not None and terms_order(row) == terms_order(best))
        return next(alike, next(iter(others), None))

    @property
    def alike(self) -> tuple[Purchase, ...]:
        """The answer and the machines on the same kind of terms that fit the job, cheapest first."""
        best = self.best
        return tuple(
            row for row in filter(self._terms_fit, self.working) if best and terms_order(row) == terms_order(best)
        )

    @property
    def stopped(self) -> bool:
        """Whether the user stopped before all machines were evaluated."""
        return len(self.rows) < self.count

    @property
    def nodes_at_most(self) -> float:
        """The number of nodes if the job uses all stated power or accelerators.

        0 if its time or cost decides; infinite if nothing does, so that it takes the fewest nodes that fit
        """
        best, limits = self.best, stated_limits(self.asked.case.scenario.limits)
        decided = any(limit.column in WHOLE_JOB and limit.kind == "at_most" for limit in limits)
        if best is None or decided or self.asked.request_tokens is not None:
            return 0.0
        by_count = self.most * best.nodes / (best.gpus + best.idle) if self.most < MOST else math.inf
        most = min(by_count, self.power / best.each if math.isfinite(self.power) else math.inf)
        return most // 1.0 if math.isfinite(most) else most

    def trees(self, names: Sequence[str], further: Sequence[str] = ()) -> dict[str, ExplainedFigure]:
        """The equation trees of all figures of machines, choices and APIs, by figure name and offer.

        names: results of every plan. further: additional results of the best plan
        """
        from costmodel.explore.explain.equation_trees import traced_figures

        best, alike = self.best, dict[tuple[str, ...], list[Purchase]]()
        chosen = [(row.machine.name, row) for row in sorted(self.working, key=lambda row: row is not best)]
        for _, row in chosen:  # the plan of several offers, of which only money differs
            assert row.plans.safe is not None
            alike.setdefault((*row.machine.settings, *row.plans.safe.settings), []).append(row)
        of_best = (*names, *further)
        made = [(rows, self._plan_trees(rows, of_best, whole=True) if best in rows else self._plan_trees(rows, names))
                for rows in alike.values()]  # fmt: skip
        of_plans = {id(row): trees for rows, each in made for row, trees in zip(rows, each, strict=True)}
        chosen += [(each.name, each.row) for each in self.choices if each.key != "offer"]
        found = [(name, (of_plans.get(id(row)) or self._chance_tree(row)) | self._money_trees(row))
                 for name, row in chosen]  # fmt: skip
        if best is not None:
            compared = [*((each.name, each.row) for each in self.choices), *self._named_next]
            found += [(name, traced_figures(partial(self._difference, row, best), _TURNS)) for name, row in compared]
            found += [
                (
                    best.machine.name,
                    traced_figures(partial(self._beside, best), {"least GPUs": "1", "dear price": "USD/s"}),
                )
            ]
            found += [(each.name, traced_figures(partial(self._hosted_figures, each, best), _TURNS))
                      for each in self.hosted]  # fmt: skip
        roots = {f"{name} of {owner}": tree for owner, trees in found for name, tree in trees.items()}
        sure = [name for name in roots if name.startswith(f"{CHANCE} of ")]
        return roots | {f"{MISS}{name.removeprefix(CHANCE)}": _chance_to_miss_tree(roots[name]) for name in sure}

    @property
    def _named_next(self) -> list[tuple[str, Purchase]]:
        return [] if self.next_best is None else [(self.next_best.machine.name, self.next_best)]

    def _difference(self, row: Purchase, best: Purchase) -> dict[str, Number]:
        """How much more a machine costs than the best one, and when a purchase has paid back its capital."""
        (own, ours), found = (money_figures(each, each.paid_time) for each in (row, best)), dict[str, Number]()
        if "rent" in own and "rent" in ours:
            found["difference"] = cost_difference(own[_name_of_billed_rent(row)], ours[_name_of_billed_rent(best)])
        if "capital" in own:
            saved = cost_difference(ours[_name_of_billed_rent(best)], own["power"])
            found["payback"] = payback_time(own["capital"], best.paid_time, saved)
        return found

    def _beside(self, best: Purchase) -> dict[str, Number]:
        """The best machine's size and rent by expected figures, its highest list price, and the rest of a budget."""
        ours, expected, found = money_figures(best, best.paid_time), best.plans.expected, dict[str, Number]()
        if expected is not None and math.isfinite(self.smaller.in_use) and best.price is not None:
            found["least GPUs"] = leaf(expected.gpus, "GPUs by expected figures")
            time = leaf(best.paid_time, "time")
            rents = rent_of_gpus_and_nodes(
                best.price, time, found["least GPUs"], leaf(best.built, "GPUs of a node"), ours["price"]
            )
            found["least rent"], found["least whole rent"] = rents
        if (dear := self.dearest) is not None:
            used, built = gpus_used(best), leaf(best.built, "GPUs of a node")
            each = found["dear price"] = traced_price(dear, best.machine.accelerator)
            found["dear rent"] = rent_of_gpus_and_nodes(dear, leaf(best.paid_time, "time"), used, built, each)[
                not best.rents_each
            ]
        if math.isfinite(self.budget) and "rent" in ours:
            found["left"] = cost_difference(leaf(self.budget, "budget"), ours["rent"])
        return found

    def _hosted_figures(self, offer: HostedOffer, best: Purchase) -> dict[str, Number]:
        """The cost of an API compared with the best machine, and the rate below which the API is cheaper."""
        cost, ours = self._hosted_cost(offer), money_figures(best, best.paid_time)
        found = {"rent": cost}
        if "rent" in ours:
            paid = ours[_name_of_billed_rent(best)]
            found["difference"] = cost_difference(cost, paid)
            least = share(paid, leaf(best.parts, "parts that are rented"))
            found["turn"] = break_even_rate(self.answered, least, cost)
        return found

    def _plan_trees(
        self, rows: Sequence[Purchase], names: Sequence[str], *, whole: bool = False
    ) -> list[dict[str, ExplainedFigure]]:
        """The equation trees of one plan at the prices of several offers.

        whole: evaluate each end of a service's band for its tree
        """
        answers = [row.trial.answer for row in rows if row.trial is not None and row.trial.answer is not None]
        asked, plans, settings = self.asked, rows[0].plans, rows[0].settings
        whole = whole or asked.request_tokens is None
        ends = [] if whole else [name for name in names if name.endswith("_high")]
        found = trees_at_prices(asked, answers, [name for name in names if name not in ends], ends)
        if plans.expected is not None and plans.safe is not None and plans.expected.gpus < plans.safe.gpus:
            tree = chance_tree(asked, (*settings, *plans.expected.settings))
            found = [each | {"expected": tree} for each in found]
        if self.traffic == 1:
            return found
        return [
            {name: _averaged_over_day(tree, self.traffic) if is_money(name) else tree for name, tree in trees.items()}
            for trees in found
        ]

    def _chance_tree(self, row: Purchase) -> dict[str, ExplainedFigure]:
        """The equation tree of the chance of a choice."""
        assert row.plans.safe is not None
        return {CHANCE: chance_tree(self.asked, (*row.settings, *row.plans.safe.settings))}

    def _money_trees(self, row: Purchase) -> dict[str, ExplainedFigure]:
        """The equation trees of a machine's costs, and of its site power if that is limited."""
        from costmodel.explore.explain.equation_trees import traced_figures

        def figures() -> dict[str, Number]:
            """The money, and the power where it is limited."""
            found = money_figures(row, row.paid_time)
            if "capital" in found:
                found |= self._figures_of_use(row)
            if math.isfinite(self.power):
                found["site power"] = node_site_power(vary_any(self.asked.case, row.settings), row.nodes)
            return found

        return traced_figures(figures, UNITS)

    def rent(self, row: Purchase) -> Rent:
        """The rent of the whole job, or of a month for a job without an end."""
        return row.rent(row.paid_time)

    @property
    def billed(self) -> float:
        """The billed cost of the best machine [USD]; NaN without one."""
        return math.nan if self.best is None else self.rent(self.best).billed

    def dearer(self, row: Purchase) -> float:
        """How much more a machine costs than the best one [USD]."""
        return float(cost_difference(self.rent(row).billed, self.billed))

    def hosted_dearer(self, offer: HostedOffer) -> float:
        """How much more an API costs than the best machine [USD a month]."""
        return float(cost_difference(self.hosted_cost(offer), self.billed))

    def payback(self, row: Purchase) -> float:
        """The time [s] after which a purchase has saved its capital: the best machine's rent less its own power."""
        best = self.best
        if best is None:
            return math.nan
        saved = cost_difference(self.billed, money_figures(row, best.paid_time)["power"])
        return float(payback_time(row.capital, best.paid_time, saved)) if saved > 0 else math.inf

    def _figures_of_use(self, row: Purchase) -> dict[str, Number]:
        """The monthly rent on demand of as many accelerators as are bought, and the time of use that pays the capital:
        at the price of the answer, if that is a rent of them, else of their usual offer.
        """
        best, part, used = self.best, row.machine.accelerator, leaf(row.gpus + row.idle, "GPUs of its nodes")
        if best is not None and best.price is not None and best.machine.accelerator == part and not best.capital > 0:
            each = traced_price(best.price, part)
        elif (usual := read("accelerator", part).offer) is not None:
            each = leaf(hourly_price(read("node", usual.node)) / 3600, f"price of {usual.node}")
        else:
            return {}
        own, rent = money_figures(row, MONTH), run_cost(leaf(MONTH, "a month"), used, each)
        saved = cost_difference(rent, own["power"])
        return {"rent alike": rent, "pays after": payback_time(own["capital"], MONTH, saved)}

    def rent_alike(self, row: Purchase) -> tuple[float, float]:
        """The monthly rent on demand of as many accelerators as are bought [USD], and the time of use that pays the
        capital [s]; NaN if no such rent is known.
        """
        found = self._figures_of_use(row)
        rent, time = (float(found.get(name, math.nan)) for name in ("rent alike", "pays after"))
        return rent, time if time > 0 else math.nan

    @property
    def smaller(self) -> Rent:
        """The rent of the best machine for a service sized by expected figures only; NaN for other jobs.

        It is of the same time, which that of another job on fewer accelerators is not.
        """
        best = self.best
        expected = None if best is None or self.asked.request_tokens is None else best.plans.expected
        is_less = best is not None and expected is not None and expected.gpus < best.gpus
        if best is None or expected is None or not is_less:
            return Rent(math.nan, math.nan)
        return best.rent(best.paid_time, expected.gpus)

    def weighed_cost(self, row: Purchase) -> float:
        """The cost that ranks machines; for an endless job without a load, the cost of equal work."""
        rent, time = self.rent(row).billed, 1.0
        if self.asked.request_tokens is None and math.isinf(row.time) and row.trial is not None:
            time = row.trial.costs.get(self.asked.usual_result, math.nan)
        return math.inf if math.isnan(rent * time) else rent * time

    @functools.cached_property
    def dearest(self) -> AcceleratorPrice | None:
        """The highest list price on demand of the best machine's accelerator, if it exceeds the best price.

        None if the user stated the price.
        """
        best = self.best
        price = None if best is None or best.machine.sold != ON_DEMAND or best.machine.own else best.price
        node = None if best is None or price is None else dearest_on_demand(best.machine.accelerator)
        if price is None or price.listed is None or node is None:
            return None
        each, used, built = hourly_price(node) / 3600, float(node.accelerators), float(node.built)
        dear = replace(price, each=each, node=node.name, accelerators=used, built=built, listed=node.list_price)
        return dear if each > _RISEN * price.each else None

    @property
    def dear_rent(self) -> float:
        """The billed cost of the best plan at that highest price [USD]; NaN without one."""
        best, dear = self.best, self.dearest
        if best is None or dear is None:
            return math.nan
        return float(rent_of_gpus_and_nodes(dear, best.paid_time, best.gpus, best.built)[not best.rents_each])

    @property
    def budget(self) -> float:
        """The most that the job may cost [USD]; infinite if the scenario states no limit."""
        limits = stated_limits(self.asked.case.scenario.limits)
        return min(
            (limit.value for limit in limits if limit.column == "run_cost" and limit.kind == "at_most"),
            default=math.inf,
        )

    @property
    def to_judge(self) -> tuple[Purchase, ...]:
        """Cheaper offers on other terms that fit the job, such as spot: the cheapest of each kind of terms.

        Without purchases above the budget.
        """
        best = self.best
        if best is None:
            return ()
        ahead = self.working[: self.working.index(best)]
        others = (row for row in reversed(ahead) if row.machine.sold and row.machine.terms != best.machine.terms)
        cheapest = {row.machine.terms: row for row in filter(self._terms_fit, others)}
        return tuple(cheapest.values())[::-1]

    def _terms_fit(self, row: Purchase) -> bool:
        return row.terms_fit and not row.capital > self.budget

    @property
    def optimal(self) -> tuple[float, float] | None:
        """Parameters and tokens of the compute-optimal model for the budget, at the cost per FLOP found here.

        None without a budget, for models with experts and for other jobs than training, since the law is of dense
        models.
        """
        best, model, tokens = self.best, self.asked.case.model, self.asked.tokens
        if best is None or best.trial is None or not tokens or model.has_experts:
            return None
        if math.isinf(self.budget):
            return None
        work = six_n_flop(float(model_parameters(model)), tokens)
        costs = best.trial.costs
        likely = costs.get("run_cost_high", costs["run_cost"])  # as the budget is kept with a chance
        affordable = affordable_flop(work, likely, self.budget)
        parameters = float(optimal_parameters(affordable, TOKENS_PER_PARAMETER))
        return parameters, float(optimal_tokens(parameters, TOKENS_PER_PARAMETER))

    @property
    def api(self) -> HostedOffer | None:
        """The API to compare with: the one that the user states, else the cheapest."""
        return min(self.hosted, key=lambda offer: (offer.source != STATED_API, self.hosted_cost(offer)), default=None)

    def hosted_cost(self, offer: HostedOffer) -> float:
        """The monthly cost of an API for the load [USD]; NaN if no rate is known."""
        return float(self._hosted_cost(offer))

    def turn(self, offer: HostedOffer, rent: float) -> float:
        """The request rate [1/s] at which an API costs as much as a monthly rent."""
        return float(break_even_rate(self.answered, rent, self.hosted_cost(offer)))

    @property
    def answered(self) -> float:
        """The requests per second that the best machine answers."""
        return math.nan if self.best is None or self.best.trial is None else self.best.trial.costs["requests_per_s"]

    def _hosted_cost(self, offer: HostedOffer) -> Number:
        """The monthly cost of an API for the load [USD]; NaN if no rate is known."""
        tokens, best = self.asked.request_tokens, self.best
        if tokens is None or best is None or best.trial is None:
            return math.nan
        load = best.trial.costs["requests_per_s"], self.traffic, MONTH
        prices = offer.prompt, offer.cached, offer.output
        return hosted_cost(*load, tokens.prompt, tokens.cached, tokens.output, *prices)


def buy(
    asked: Workload, offers: Offers, most: float = MOST, pace: Watcher = UNWATCHED, power: float = math.inf
) -> PurchaseComparison:
    """For every machine the smallest plans that meet every limit with the required chance, cheapest machine first.

    most: the most accelerators. power: the most site power [W]

    Raises:
        CostModelError: every machine has the same fault
    """
    asked = asked.as_whole_job()
    for limit in stated_limits(asked.case.scenario.limits):
        if limit.column in WHOLE_JOB and (missing := asked.missing_input("run_time")):
            raise _unknown_length_fault(asked, limit.column, missing)
    safe = stated_chance(asked.case) or preferred_chance(asked.case) or 0.0
    machines, plans = sorted(offers.machines, key=_expected_price_order), PlansByMachine(asked, safe, most, power)
    rows = [plans.bought(machine) for machine in pace.taken(machines, len(machines))]
    hosted = offers.hosted if asked.request_tokens is not None else ()
    found = PurchaseComparison(asked, tuple(rows), safe, len(machines), plans, hosted, power, most=most)
    faults = [row.plans.fault for row in rows if row.plans.fault is not None]
    if rows and len(faults) == len(machines) and len({fault.code for fault in faults}) == 1:
        raise CostModelError(faults[0])

    def order(row: Purchase) -> tuple[bool, float, float, str]:
        """Sort key of a machine: those that work first, then by cost."""
        return not row.works, found.weighed_cost(row), row.gpus, row.machine.node

    return replace(found, rows=tuple(sorted(rows, key=order)))


def _unknown_length_fault(asked: Workload, column: str, missing: str) -> CostModelError:
    """The fault for a limit on a whole job of unknown length, with the flag or key that states the length."""
    flag = {"run_cost": "--budget", "run_time": "--deadline"}[column]
    if flag not in asked.case.asked.words:
        return fail("C004", f"a limit on {column} is of the whole job, and its length is not stated", None, missing)
    length = next((example for key, example in _LENGTHS.items() if key in missing), "")
    alone = "; --budget without --model is for the model that it trains best" if flag == "--budget" else ""
    hint = f"add {length}{alone}" if length else missing
    return fail("C004", f"{flag} is for the whole job, and how long that is is not stated", None, hint)


_LENGTHS = {"workload.tokens": "--tokens 15T, what is trained in all", "workload.iterations": "--iterations 200"}


def terms_order(row: Purchase) -> tuple[bool, bool, bool, bool]:
    """Sort key of offers: on demand, other rents, assumed prices after stated ones, spot last.

    An assumed price comes after those of offers.
    """
    assumed = row.price is not None and row.price.assumed
    return row.machine.sold not in ("", ON_DEMAND), assumed, not row.is_lasting_rent, row.machine.sold == "spot"


def _expected_price_order(machine: Machine) -> int:
    """Sort key that puts usually cheap kinds of sale first, so that their plans can serve dearer offers too."""
    return _CHEAP.index(machine.sold) if machine.sold in _CHEAP else len(_CHEAP)


class PlansByMachine:
    """The smallest plans on each machine, found once for all of its prices unless a limit bounds the cost of a job."""

    def __init__(self, asked: Workload, safe: float, most: float, power: float) -> None:
        self.asked, self.safe, self.most, self.power = asked, safe, most, power
        limits = stated_limits(asked.case.scenario.limits)
        rents = (limit.value for limit in limits if limit.column == RENT and limit.kind == "at_most")
        self.budget = min(rents, default=math.inf)  # of a month: kept by what is billed, which the search does not know
        if math.isfinite(self.budget):
            self.asked = asked.for_case(vary_any(asked.case, (f"limits.{RENT}.at_most=null",)))
        self.by_price = any(is_money(limit.column) for limit in stated_limits(self.asked.case.scenario.limits))
        self.found = dict[tuple[object, ...], tuple[SmallestPlans, float, float]]()
        self.known = dict[tuple[str, ...], KnownPlans]()  # of a machine, where its prices are looked at one by one

    def bought(self, machine: Machine, safe: float | None = None, *, whole: bool = True) -> Purchase:
        """The purchase of a machine at one of its prices; safe: the required chance, if it is another one.

        whole: with ranges of its results, and the answer that explains them
        """
        settings, wanted = (*machine.settings, *machine.price), self.safe if safe is None else safe
        try:
            plans, runs, each = self._plans(machine, wanted)
        except CostModelError as error:
            return Purchase(machine, SmallestPlans(fault=error.faults[0]))
        if plans.safe is None:
            return Purchase(machine, plans, runs=runs, each=each)
        asked = self.asked
        ranges = (f"{asked.usual_result}_high", asked.chance) if whole else ()
        results, every = (asked.usual_result, *ranges), (*settings, *plans.safe.settings)
        trial = evaluate_trial(asked, every, results=results, whole=whole)
        return self._within_budget(Purchase(machine, plans, trial, runs, each))

    def _plans(self, machine: Machine, safe: float) -> tuple[SmallestPlans, float, float]:
        """The smallest plans, the measured runs of the machine, and the site power of a node [W]."""
        settings = (*machine.settings, *machine.price) if self.by_price else machine.settings
        if (settings, safe) not in self.found:
            varied = self.asked.for_case(vary_any(self.asked.case, settings))
            each = float(node_site_power(varied.case))
            most, full = self.most, math.isfinite(self.power) or self.most < MOST
            if math.isfinite(self.power):
                most = min(most, (0.0 if math.isnan(each) else self.power // each) * float(varied.case.node.built))
                if most < 1:
                    words = "no power of a node is known" if math.isnan(each) else f"a node takes {show(each, 'J/s')}"
                    raise fail("D016", f"{words}, and the site has {show(self.power, 'J/s')}")
            known = self.known.setdefault(machine.settings, {})
            plans = varied.smallest_plans(safe, most, full=full, known=known)
            self.found[settings, safe] = plans, varied.measured_runs, each
        return self.found[settings, safe]

    def _within_budget(self, row: Purchase) -> Purchase:
        """The purchase; without a plan if a month of it is billed above the budget, or if its price is not known."""
        billed = row.rent(MONTH).billed
        if not row.works or math.isinf(self.budget) or billed <= self.budget:
            return row
        if math.isnan(billed):
            fault = Fault("D016", f"{row.machine.node} has no known price to compare with the budget")
            return replace(row, plans=SmallestPlans(fault=fault), trial=None)
        over = MissedLimit(RENT, self.budget, billed, row.gpus, billed)
        return replace(row, plans=SmallestPlans(missed=(over,), count=row.plans.count), trial=None)


def node_site_power(case: LoadedScenario, nodes: float = 1.0) -> Number:
    """The site power [W], with cooling, for nodes of a case."""
    draw = read("practice", "usual").draw
    return site_power(nodes, rated_power(case.node, case.accelerator, draw), site_terms(case)[1])
