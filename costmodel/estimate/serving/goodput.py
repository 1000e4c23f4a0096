"""Requests that stay within the limits on their own times: their share, their rate (goodput); and those in line.

A limit on a mean or on a p99 is taken as what each request may take. The chance to meet the limits is another thing:
how sure the prediction is that the mean and the p99 keep them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from costmodel.documents.schemas.serving.serving_schema import Serving
from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share
from costmodel.equations.serving.service_level import goodput_rate, share_within
from costmodel.estimate.shared.result_limits import Limit
from costmodel.ground.equation import Number, term, untraced
from costmodel.ground.record import record
from costmodel.ground.solvers import last_within

SHARE, RATE = "in_time_share", "in_time_per_s"
IN_TIME = (SHARE, RATE)
FIRST = ("ttft", "ttft_p99")
TIMES = (*FIRST, "tpot", "tpot_p99", "prompts_between")
FARTHEST = 5.0  # logarithm of the largest factor on all times that is searched
TAIL = 0.01  # share of requests beyond the P99
A_LITTLE = 1.01  # factor on times, for its effect
Result = Callable[[str], Number]


@record
class RequestLimits:
    """Limits on one request's time to first token and time per token; None without a limit."""

    first: float | None = None
    token: float | None = None

    @property
    def any(self) -> bool:
        """Whether a limit on time to first token or on time per token is set."""
        return self.first is not None or self.token is not None


def request_limits(limits: Iterable[Limit]) -> RequestLimits:
    """The strictest limits on time to first token and on time per token."""
    first, token = list[float](), list[float]()
    for limit in limits:
        if limit.kind == "at_most" and limit.column in ("ttft", "ttft_p99"):
            first.append(limit.value)
        elif limit.kind == "at_most" and limit.column in ("tpot", "tpot_p99"):
            token.append(limit.value)
        elif limit.kind == "at_least" and limit.column == "tokens_per_s_per_user" and limit.value:
            token.append(float(rate_of(1.0, limit.value)))
    return RequestLimits(min(first, default=None), min(token, default=None))


def in_time(limits: RequestLimits, result: Result) -> dict[str, Number]:
    """Share and rate of requests that meet both time limits, from mean and P99 of each; NaN without limits."""
    if not limits.any:
        return dict.fromkeys(IN_TIME, np.nan)
    fastest = _fastest(result)
    first = _share_in_time(limits.first, fastest, result, "ttft")
    token = _share_in_time(limits.token, fastest, result, "tpot")
    with term("both in time"):
        both = first * token
    return {SHARE: both, RATE: goodput_rate(result("requests_per_s"), first, token)}


def _fastest(result: Result) -> Number:
    """The shortest possible time: that of a step without prompts; 0 if unknown."""
    with term("a step alone"):
        between = result("prompts_between")
        return np.where(np.asarray(between) > 0, result("tpot") - between, 0.0)


def percentile_of_kinds(kinds: Sequence[Mapping[str, float]], name: str) -> float:
    """The P99 of a time of all requests of several kinds of nodes, by what each answers; `name` may be that of a band.

    The time T at which Σ w F(T) is 99 %: F of each kind is the log-normal share that its mean and its P99 state.
    """
    base = name.removesuffix("_low").removesuffix("_high")
    mean = base.removesuffix("_p99")
    kinds = [kind for kind in kinds if kind["requests_per_s"] > 0]
    far = [kind[name] for kind in kinds]
    if len(kinds) < 2 or not all(map(math.isfinite, far)):
        return max(far, default=math.nan)
    whole = sum(kind["requests_per_s"] for kind in kinds)

    def kept(kind: Mapping[str, float], time: Number) -> Number:
        """The share of all requests that are of this kind and within a time."""
        with term("of the requests"):
            return share(kind["requests_per_s"], whole) * share_within(
                share(time, share(kind[name], kind[base])), _fastest(kind.__getitem__), kind[mean], kind[base]
            )

    with untraced(), np.errstate(all="ignore"):
        return float(last_within(lambda time: sum(kept(kind, time) for kind in kinds) - (1 - TAIL), min(far), max(far)))


def _share_in_time(limit: float | None, fastest: Number, result: Result, name: str) -> Number:
    """Share of requests that meet one of the time limits."""
    if limit is None:
        return 1.0
    with term(f"{name} in time"):
        return share_within(limit, fastest, result(name), result(f"{name}_p99"))


def with_longer_times(result: Result, factor: Number) -> Result:
    """Results of a closed-loop load if all times are longer by a factor."""

    def found(name: str) -> Number:
        """The result of this name with its times longer by the factor."""
        value = result(name)
        return value * factor if name in TIMES else share(value, factor)

    return found


def factor_in_time(limits: RequestLimits, result: Result, column: str, bound: float) -> Number:
    """Factor on all times of a closed-loop load at which requests in time fall to a bound."""
    rows = np.shape(np.atleast_1d(np.asarray(result("tpot"))))

    def over(log: Number) -> Number:
        """How far requests in time exceed the bound if all times are longer by exp(log)."""
        return np.log(share(bound, np.maximum(in_time(limits, with_longer_times(result, np.exp(log)))[column], 1e-12)))

    with untraced(), np.errstate(all="ignore"):
        return np.exp(last_within(over, np.full(rows, -FARTHEST), np.full(rows, FARTHEST)))


def weight_of_first(limits: RequestLimits, result: Result, column: str, bound: float) -> Number:
    """Effect of a longer time to first token on requests in time, over the effect of all times; from 0 to 1.

    It is taken where the bound is reached.
    """
    at_bound = with_longer_times(result, factor_in_time(limits, result, column, bound))

    def lost(names: tuple[str, ...]) -> Number:
        """The share of requests in time that is lost if these times become longer."""
        longer = in_time(limits, lambda name: at_bound(name) * A_LITTLE if name in names else at_bound(name))
        return in_time(limits, at_bound)[column] - longer[column]

    with untraced(), np.errstate(all="ignore"):
        part = np.asarray(share(lost(FIRST), lost(TIMES)))
    return np.where(np.isfinite(part), np.clip(part, 0.0, 1.0), 1.0)


_MOST_OF = 0.5  # of the time of an answer, which a line takes that is worth a word
_FULL = 0.99  # of saturation


def waiting_requests(workload: Serving, costs: Mapping[str, float]) -> float:
    """Requests that wait for their first token, by Little's law; 0 if engines are not full, or if few wait.

    Of a rate and of a batch none: the one has a line without end or a short one, the other a line by its nature.
    """
    if workload.users is None and workload.concurrency is None:
        return 0.0
    full = costs["saturation_share"] >= _FULL and costs["ttft"] > _MOST_OF * costs["latency"]
    waiting = costs["requests_per_s"] * costs["ttft"]
    return waiting if full and math.isfinite(waiting) and waiting > costs["replicas"] else 0.0
