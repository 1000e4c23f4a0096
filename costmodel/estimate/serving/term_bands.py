"""The bands of the terms of a token's time: each by the residual of its own kernels, where the evidence has one.

The band of a token is that of engines as they run; it has other errors too, and bands of terms do not add up to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from costmodel.documents.schemas.efficiency import CollectiveFit, Fitted, OwnReduceFit
from costmodel.documents.schemas.model import Layers
from costmodel.documents.schemas.results import SERVING_RESULTS, banded_results
from costmodel.equations.run.uncertainty import (
    combined_error,
    ninetieth_percentile,
    residual_spread,
    tenth_percentile,
    term_error,
)
from costmodel.estimate.serving.engine_placement import engine_group
from costmodel.estimate.serving.engine_step import prompt_time
from costmodel.estimate.serving.expert_step import dispatches
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.shared.fit_ranges import OutsideFit, outside, widened
from costmodel.estimate.shared.results import number
from costmodel.ground.equation import Number, term, untraced


class _Fit(Protocol):
    """A fit of kernels."""

    @property
    def fitted(self) -> Fitted | None:
        """The range and the residual of the fit."""


def beyond_fits(
    inputs: ServingInputs, columns: Sequence[PlanColumns], costs: Mapping[str, float]
) -> tuple[OutsideFit, ...]:
    """Sizes of one plan outside the range of a fit, if they take a noticeable share of a token or of the first token.

    columns: of its replicas, or of its two halves, those for prompts first
    """
    every = (*_exchanges_outside(inputs, columns[-1], costs), *_prompts_outside(inputs, columns[0], costs))
    return tuple(found for found, _ in every)


def outside_any_fit(inputs: ServingInputs, layout: PlanColumns) -> bool:
    """Whether a collective's ranks or the prompt length lie outside the range of their fits."""
    everything = dict.fromkeys(("tpot", "tp_exposed", "ep_exposed"), 1.0)
    return _are_short(inputs) or any(True for _ in _exchanges_outside(inputs, layout, everything))


def spreads_beyond(
    inputs: ServingInputs, columns: Sequence[PlanColumns], costs: Mapping[str, float]
) -> tuple[float, float]:
    """Extra spreads of time per token and time to first token from sizes outside fits."""
    with untraced():
        steps = _combined(_exchanges_outside(inputs, columns[-1], costs))
        return steps, _combined(_prompts_outside(inputs, columns[0], costs))


def _combined(found: Iterable[tuple[OutsideFit, Number]]) -> float:
    error: Number = 0.0
    for outside_fit, spread in found:
        error = combined_error(error, term_error(spread, outside_fit.share))
    return number(error)


def _are_short(inputs: ServingInputs) -> bool:
    """Whether prompts are shorter than those on which prompt attention was fitted."""
    return any(True for _ in outside(inputs.kernels.prompt.fitted, "", 1.0, tokens=number(inputs.load.computed)))


def _prompts_outside(
    inputs: ServingInputs, layout: PlanColumns, costs: Mapping[str, float]
) -> Iterator[tuple[OutsideFit, Number]]:
    """Prompt attention outside the lengths of its fit, as a share of time to first token, with its spread."""
    spread = _widest(inputs.kernels.prompt)
    if spread is None or not _are_short(inputs) or not math.isfinite(costs.get("ttft", math.nan)):
        return
    fitted, tokens = inputs.kernels.prompt.fitted, number(inputs.load.computed)
    with untraced(), np.errstate(all="ignore"):
        part = number(prompt_time(inputs, layout, tokens * np.ones(1)).attention) / costs["ttft"]
    for found in outside(fitted, "attention to prompts", part, tokens=tokens):
        yield found, widened(spread, fitted, tokens=tokens)


def _exchanges_outside(
    inputs: ServingInputs, layout: PlanColumns, costs: Mapping[str, float]
) -> Iterator[tuple[OutsideFit, Number]]:
    """Collectives over numbers of ranks outside their fits, with their spreads."""
    for name, fit, ranks in _exchanges(inputs, layout):
        part, fitted = costs[name] / costs["tpot"], fit.fitted
        spread = _widest(fit)
        if spread is None:
            spread = _widest(inputs.case.common.collectives["all_gather"])
        what = "all-reduce" if name == "tp_exposed" else "exchange of experts"
        for found in outside(fitted, what, part, ranks=ranks):
            yield found, widened(0.0 if spread is None else spread, fitted, ranks=ranks)


def _exchanges(inputs: ServingInputs, layout: PlanColumns) -> Iterator[tuple[str, OwnReduceFit | CollectiveFit, float]]:
    """Collectives of a step inside a domain: the term of the step, the fit, and the ranks."""
    tp, experts = (engine_group(inputs, layout, *each) for each in (("tp", layout.tp), ("ep", layout.stage_ranks)))
    if np.all(tp.domains == 1):
        own = inputs.kernels.all_reduce if inputs.engine.kernels.own_all_reduce else None
        yield "tp_exposed", own or inputs.collectives["all_reduce"], number(tp.ranks)
    if np.all(experts.domains == 1) and layout.grouped and not np.all(dispatches(inputs, layout)):
        yield "ep_exposed", inputs.collectives["all_gather"], number(experts.ranks)


def term_bands(inputs: ServingInputs, layout: PlanColumns, columns: Mapping[str, Number]) -> dict[str, Number]:
    """P10 and P90 of every term; NaN for a term whose kernels were not measured."""
    spreads = dict(term_spreads(inputs, layout))
    found: dict[str, Number] = {}
    for name in banded_results(SERVING_RESULTS, "term"):
        with term(f"band of {name}"):
            spread = spreads.get(name)
            for end, percentile in (("low", tenth_percentile), ("high", ninetieth_percentile)):
                found[f"{name}_{end}"] = np.nan if spread is None else percentile(columns[name], spread)
    return found


def term_spreads(inputs: ServingInputs, layout: PlanColumns) -> Iterator[tuple[str, Number | None]]:
    """Spread of each term with measured kernels; latent attention, state space and host time were not measured."""
    efficiency, types, network = inputs.case.efficiency, inputs.types, inputs.case.network.network
    products = [types.fit, types.fit_wide, *((inputs.experts,) if inputs.model.has_experts else ())]
    yield "matmul", _widest(*products) if types.measured and inputs.host_experts is None else None
    plain = all(kind.heads is None or _plain(kind) for kind in inputs.model.layers)
    yield "attention", _widest(inputs.kernels.decode) if plain else None
    yield "memory_bound", _widest(efficiency.memory)
    own = inputs.kernels.all_reduce if inputs.engine.kernels.own_all_reduce else None
    reduced = _widest(*(() if own is None else (own,)), inputs.collectives["all_reduce"])
    inside = np.asarray(layout.tp) <= inputs.domain
    if reduced is not None:
        reduced = widened(reduced, (own or inputs.collectives["all_reduce"]).fitted, ranks=layout.tp)
    yield "tp_exposed", None if reduced is None else np.where(inside, reduced, np.nan)
    for name in ("transfer_time", "transfer_exposed"):
        yield name, _widest(network)


def _plain(kind: Layers) -> bool:
    """Whether a layer's mixer is plain attention, without latents, compression or a scan."""
    return kind.attention is not None and kind.latent is None and kind.compressed is None and not kind.scan_heads


def _widest(*fits: _Fit | None) -> Number | None:
    """The largest spread of a term's kernels; None if one of them was not measured."""
    spreads: list[Number] = []
    for fit in fits:
        fitted = None if fit is None else fit.fitted
        if fitted is None or fitted.median is None or fitted.p90 is None:
            return None
        spreads.append(residual_spread(fitted.median, fitted.p90))
    return max(spreads, key=float)
