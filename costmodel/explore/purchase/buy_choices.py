"""What a buyer has to decide: fewer GPUs or more, smaller numbers, a limit on each token, and offers on other terms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from costmodel.documents.reader.override_case import vary_any
from costmodel.estimate.shared.result_limits import stated_limits
from costmodel.explore.flags.workload_flags import keys_of
from costmodel.explore.purchase.buy import Bought, Choice, Purchase
from costmodel.explore.purchase.smallest_size import tried
from costmodel.explore.search.required_chance import stated_chance
from costmodel.explore.workload_interface import KnownPlans, SmallestPlans
from costmodel.ground.errors import CostModelError

TOKEN_LIMIT = "50ms"  # an example of a limit on each token: 20 tokens a second, faster than people read; judged
_AS_DEAR = 0.995  # judged: of a rent, from which another one is no choice
SURER = 0.95  # a chance above the usual one, of a plan that is offered beside it: judged


def with_choices(found: Bought) -> Bought:
    """The result with what the reader has to decide: other deals first, then by change of cost."""
    best = found.best
    if best is None or best.plans.safe is None:
        return found
    nodes = [row.machine.node for row in found.working]  # a flag leads to an offer where it is the only one of a node
    here = ("--node", best.machine.node) if len({row.machine.node for row in found.rows}) > 1 else ()
    plans = (*_sizes(found, best), *_smaller_type(found, best), *_limited_tokens(found, best))
    choices = [replace(each, flags=(*each.flags, *here)) for each in plans]
    choices += [Choice("offer", row, ("--node", row.machine.node) if nodes.count(row.machine.node) == 1 else ())
                for row in found.to_judge]  # fmt: skip
    known = [(choice.key != "offer", -abs(found.dearer(choice.row)), choice) for choice in choices]
    known.sort(key=lambda each: (each[0], each[1] if math.isfinite(each[1]) else 0.0))
    return replace(found, choices=tuple(choice for *_, choice in known))


def _sizes(found: Bought, best: Purchase) -> Iterator[Choice]:
    """The size by expected figures where it costs less, and for a service one that is surer than is asked for."""
    expected, stated = best.plans.expected, stated_chance(found.asked.case) is not None
    chance = keys_of(found.asked.case.kind)["safe"]
    if expected is not None and best.rent(best.paid_time, expected.gpus).billed < _AS_DEAR * found.billed:
        known = None if stated else found.known.get(best.machine.settings)
        row = _with(found, best, [f"{chance}=null"] if stated else [], 0.0, known)
        if row is not None and found.rent(row).billed < _AS_DEAR * found.billed:
            yield Choice("fewer", row, ("--safe", "off"))
    if found.asked.request_tokens is not None and 0 < found.safe < SURER:
        row = _with(found, best, [f"{chance}={SURER:g}"], SURER)
        if row is not None and row.gpus > best.gpus:
            yield Choice("surer", row, ("--safe", f"{SURER:.0%}"))


def _smaller_type(found: Bought, best: Purchase) -> Iterator[Choice]:
    """The best machine with numbers of fewer bytes, where none are stated and fewer accelerators do then."""
    asked, path = found.asked, keys_of(found.asked.case.kind)["dtype"]
    row = _with(found, best, [f"{path}={asked.smaller_type}"], found.safe) if asked.smaller_type else None
    if row is not None and found.rent(row).billed < _AS_DEAR * found.billed:
        yield Choice("type", row, ("--dtype", asked.smaller_type))


def _limited_tokens(found: Bought, best: Purchase) -> Iterator[Choice]:
    """The best machine with a limit on the time of each token, where none is stated."""
    path = keys_of(found.asked.case.kind).get("tpot")
    if path is None or found.asked.usual != "tpot":
        return
    if any("tpot" in limit.column for limit in stated_limits(found.asked.case.scenario.limits)):
        return
    row = _with(found, best, [f"{path}={TOKEN_LIMIT}"], found.safe)
    if row is not None:
        yield Choice("tokens", row, ("--tpot", TOKEN_LIMIT))


def _with(
    found: Bought, best: Purchase, settings: Sequence[str], safe: float, known: KnownPlans | None = None
) -> Purchase | None:
    """The smallest plan on the best machine with some settings, as the command that states them finds it.

    None where no plan meets every limit with the chance `safe`. known: plans of a job that stay the best with them
    """
    asked, machine = found.asked, replace(best.machine, settings=(*best.machine.settings, *settings))
    wanted = (*machine.settings, *machine.price)
    try:
        plans = asked.of(vary_any(asked.case, wanted)).smallest(safe, found.most, known=known)
    except CostModelError:
        return None
    if plans.safe is None:
        return None
    trial = tried(asked, (*wanted, *plans.safe.settings), results=(asked.usual,))
    return Purchase(machine, SmallestPlans(safe=plans.safe), trial, best.runs, best.each)
