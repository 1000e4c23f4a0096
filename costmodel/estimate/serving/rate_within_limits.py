"""The rate up to which plans keep the limits on what users see, and the chance that they do at the scenario's load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from costmodel.equations.run.economics import share
from costmodel.estimate.serving.limits_chance import OWN, is_asked, limits_chance
from costmodel.estimate.serving.load import LEAST, Column, Engines, of_each
from costmodel.estimate.serving.service_limits import over_limits, service_limits
from costmodel.estimate.serving.step_factor import ARRIVING, NEAR_ENOUGH, PLAN, USERS, KnownLoads, reached, result_at
from costmodel.estimate.shared.limits import stated_limits
from costmodel.ground.equation import Number, term, untraced
from costmodel.ground.solvers import NEAR


def rate_within_limits(quick: Engines, engines: Engines) -> Number:
    """Requests per second of one replica within the service-level limits; 0 if even the lowest rate breaks one."""
    inputs, limits = quick.inputs, service_limits(quick.inputs)
    plans = len(quick.layout)
    known, quick = KnownLoads(plans), replace(quick, held={**quick.held, PLAN: np.arange(plans, dtype=np.float64)})

    def over(some: Engines, many: Column) -> Column:
        """The largest ratio of a result to its limit; above 1 if a limit is broken."""
        state = some.state(many)

        def named(name: str) -> Number:
            if name != OWN:
                return result_at(some, many, state, name)
            loaded = replace(some, held={**some.held, ARRIVING: state.rate})
            room = share(some.held["saturation_per_s"], state.rate)
            return limits_chance(inputs, limits, named, room, partial(reached, loaded, known=known))

        found = over_limits(limits, named, len(some.layout))
        known.settle(np.asarray(some.held[PLAN]).astype(np.intp), found > 1)
        return found

    if not limits:
        return engines.rate(engines.bounds.least)
    with untraced(), np.errstate(all="ignore"):
        many = quick.greatest(over, NEAR_ENOUGH if any(limit.column == OWN for limit in limits) else NEAR)
    return np.where(many > LEAST * (1.0 + NEAR_ENOUGH), engines.rate(many), 0.0)


def chance_of_limits(quick: Engines, columns: Mapping[str, Number]) -> Number:
    """Chance that plans meet every limit; NaN if the scenario does not ask for it."""
    scenario, layout = quick.inputs.case.scenario, quick.layout
    workload = scenario.workload
    if not is_asked(quick.inputs):
        return np.nan
    held, room = dict[str, Number](), None
    if workload.rate is not None:
        held[ARRIVING] = of_each(quick.inputs, layout, float(workload.rate))
        with term("room"):
            room = share(columns["saturation_per_s"], workload.rate)
    elif workload.users is not None and workload.think_time:
        held[USERS] = of_each(quick.inputs, layout, float(workload.users))
    reach = partial(reached, replace(quick, held=held))
    return limits_chance(quick.inputs, stated_limits(scenario.limits), columns.__getitem__, room, reach)
