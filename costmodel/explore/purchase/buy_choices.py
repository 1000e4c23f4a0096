"""What a buyer has to decide: fewer GPUs or more, smaller numbers, a limit on each token, and offers on other terms."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from costmodel.documents.reader.override_case import vary_any
from costmodel.estimate.shared.result_limits import stated_limits
from costmodel.explore.flags.workload_flags import keys_of
from costmodel.explore.purchase.buy import Bought, Choice, Purchase
from costmodel.explore.purchase.smallest_size import tried
from costmodel.explore.search.required_chance import stated_chance
from costmodel.explore.workload_interface import SmallestPlan, SmallestPlans
from costmodel.ground.errors import CostModelError

TOKEN_LIMIT = "50ms"  # an example of a limit on each token: 20 tokens a second, faster than people read; judged
_AS_DEAR = 0.995  # judged: of a rent, from which another one is no choice
_BELOW = 0.99  # of the chance of a plan, that it is asked to have


def with_choices(found: Bought) -> Bought:
    """The result with what the reader has to decide: other deals first, then by change of cost."""
    best = found.best
    if best is None or best.plans.safe is None:
        return found
    choices = [*_sizes(found, best), *_smaller_type(found, best), *_limited_tokens(found, best)]
    nodes = [row.machine.node for row in found.working]  # a flag leads to an offer where it is the only one of a node
    choices += [Choice("offer", row, ("--node", row.machine.node) if nodes.count(row.machine.node) == 1 else ())
                for row in found.to_judge]  # fmt: skip
    known = [(choice.key != "offer", -abs(found.dearer(choice.row)), choice) for choice in choices]
    known.sort(key=lambda each: (each[0], each[1] if math.isfinite(each[1]) else 0.0))
    return replace(found, choices=tuple(choice for *_, choice in known))


def _sizes(found: Bought, best: Purchase) -> Iterator[Choice]:
    """The size by expected figures, and one that is surer than the chance that is asked for."""
    expected, surer = best.plans.expected, best.plans.surer
    if expected is not None and expected.gpus < best.gpus:
        row = _at_size(found, best, expected)
        if row.works and found.rent(row).billed < _AS_DEAR * found.billed:
            yield Choice("fewer", row, ("--safe", "off"))
    if surer is not None and surer.gpus > best.gpus:
        row = _at_size(found, best, surer)
        if row.works:
            yield Choice("surer", row, ("--safe", f"{math.floor(surer.chance * 100)}%"))


def _at_size(found: Bought, best: Purchase, plan: SmallestPlan) -> Purchase:
    """The best machine with another plan, which need not have the chance that is asked for."""
    chance = keys_of(found.asked.case.kind)["safe"]
    allowed = [] if stated_chance(found.asked.case) is None else [f"{chance}={_BELOW * plan.chance:g}"]
    plan = replace(plan, settings=(*plan.settings, *allowed))
    settings = (*best.machine.settings, *best.machine.price, *plan.settings)
    trial = tried(found.asked, settings, results=(found.asked.usual,))
    return replace(best, plans=SmallestPlans(safe=plan), trial=trial)


def _smaller_type(found: Bought, best: Purchase) -> Iterator[Choice]:
    """The best machine with numbers of fewer bytes, where none are stated and fewer accelerators do then."""
    asked, path = found.asked, keys_of(found.asked.case.kind)["dtype"]
    row = _with(found, best, f"{path}={asked.smaller_type}") if asked.smaller_type else None
    if row is not None and found.rent(row).billed < _AS_DEAR * found.billed:
        yield Choice("type", row, ("--dtype", asked.smaller_type))


def _limited_tokens(found: Bought, best: Purchase) -> Iterator[Choice]:
    """The best machine with a limit on the time of each token, where none is stated."""
    path = keys_of(found.asked.case.kind).get("tpot")
    stated = any("tpot" in limit.column for limit in stated_limits(found.asked.case.scenario.limits))
    row = None if path is None or stated or found.asked.usual != "tpot" else _with(found, best, f"{path}={TOKEN_LIMIT}")
    if row is not None:
        yield Choice("tokens", row, ("--tpot", TOKEN_LIMIT))


def _with(found: Bought, best: Purchase, setting: str) -> Purchase | None:
    """The smallest plan on the best machine with one more setting; None where no plan meets every limit."""
    asked, machine = found.asked, replace(best.machine, settings=(*best.machine.settings, setting))
    wanted = (*machine.settings, *machine.price)
    try:
        plans = asked.of(vary_any(asked.case, wanted)).smallest(found.safe, found.most)
    except CostModelError:
        return None
    if plans.safe is None:
        return None
    trial = tried(asked, (*wanted, *plans.safe.settings), results=(asked.usual,))
    return Purchase(machine, SmallestPlans(safe=plans.safe), trial, best.runs, best.each)
