"""Limits that a higher rate can break, and how close the results are to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.serving.serving_limits import LEVEL_OF_USERS, SERVICE_LEVEL
from costmodel.equations.run.economics import share
from costmodel.estimate.serving.limits_chance import is_asked
from costmodel.estimate.serving.plan_columns import Rows
from costmodel.estimate.serving.requests_in_time import IN_TIME, in_time, request_limits
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.shared.limits import Limit, stated_limits
from costmodel.ground.equation import Number

_FROM_ARRIVAL = ("ttft", "ttft_p99", "latency")
LEAST_RESULT = 1e-9  # stands for a time, a chance, or a rate of tokens, that is nothing


def service_limits(inputs: ServingInputs) -> list[Limit]:
    """The limits of a scenario that a higher request rate can break."""
    return [
        limit
        for limit in stated_limits(inputs.case.scenario.limits)
        if limit.column in {"at_most": SERVICE_LEVEL, "at_least": LEVEL_OF_USERS}.get(limit.kind, ())
    ]


def waits_in_batch(case: ServingCase) -> list[str]:
    """Keys of limits on latencies from arrival in an offline batch, where they are no useful target."""
    if case.scenario.workload.requests is None:
        return []
    return [limit.key for limit in stated_limits(case.scenario.limits) if limit.column in _FROM_ARRIVAL]


def columns_in_time(inputs: ServingInputs, columns: Mapping[str, Number]) -> dict[str, Number]:
    """Requests in time, if they or the chance are requested; else NaN, because a search would take too long."""
    if not is_asked(inputs, *IN_TIME):
        return dict.fromkeys(IN_TIME, np.nan)
    return in_time(request_limits(stated_limits(inputs.case.scenario.limits)), columns.__getitem__)


def over_limits(limits: list[Limit], result: Callable[[str], Number], rows: int) -> Rows:
    """The largest ratio of a result to its limit; above 1 if a limit is broken."""
    found = np.zeros(rows)
    for limit in limits:
        value, bound = result(limit.column), limit.value
        if limit.kind == "at_most":
            over = share(value, np.maximum(bound, LEAST_RESULT))
        else:
            over = share(bound, np.maximum(value, LEAST_RESULT))
        found = np.maximum(found, np.asarray(over))
    return found
