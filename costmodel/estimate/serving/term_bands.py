"""The bands of the terms of a token's time: each by the residual of its own kernels, where the evidence has one.

The band of a token is that of engines as they run; it has other errors too, and bands of terms do not add up to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np

from costmodel.documents.schemas.efficiency import Fitted
from costmodel.documents.schemas.model import Layers
from costmodel.documents.schemas.serving.serving_results import BANDED_TERMS
from costmodel.equations.run.uncertainty import ninetieth_percentile, residual_spread, tenth_percentile
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, term


class _Fit(Protocol):
    """Constants of kernels."""

    @property
    def fitted(self) -> Fitted | None:
        """Their residual."""


def term_bands(inputs: ServingInputs, layout: PlanColumns, columns: Mapping[str, Number]) -> dict[str, Number]:
    """Both ends of every term; unknown where nothing measured how far its kernels are off."""
    spreads = dict(_spreads(inputs, layout))
    found: dict[str, Number] = {}
    for name in BANDED_TERMS:
        with term(f"band of {name}"):
            spread = spreads.get(name)
            for end, percentile in (("low", tenth_percentile), ("high", ninetieth_percentile)):
                found[f"{name}_{end}"] = np.nan if spread is None else percentile(columns[name], spread)
    return found


def _spreads(inputs: ServingInputs, layout: PlanColumns) -> Iterator[tuple[str, Number | None]]:
    """Spread of each term whose kernels were measured; latent attention, state space and host never were."""
    efficiency, types, network = inputs.case.efficiency, inputs.types, inputs.case.network.network
    products = [types.fit, types.fit_wide, *((inputs.experts,) if inputs.model.has_experts else ())]
    yield "matmul", _widest(*products) if types.measured else None
    plain = all(kind.heads is None or _plain(kind) for kind in inputs.model.layers)
    yield "attention", _widest(inputs.kernels.decode) if plain else None
    yield "memory_bound", _widest(efficiency.memory)
    own = inputs.kernels.all_reduce if inputs.engine.kernels.own_all_reduce else None
    reduced = _widest(*(() if own is None else (own,)), inputs.collectives["all_reduce"])
    inside = np.asarray(layout.tp) <= inputs.domain
    yield "tp_exposed", None if reduced is None else np.where(inside, reduced, np.nan)
    for name in ("transfer_time", "transfer_exposed"):
        yield name, _widest(network)


def _plain(kind: Layers) -> bool:
    """Whether the mixer of a layer is attention to keys and values as they are."""
    return kind.attention is not None and kind.latent is None and kind.compressed is None and not kind.scan_heads


def _widest(*fits: _Fit | None) -> Number | None:
    """The widest spread of kernels that a term has; None where one of them was not measured."""
    spreads: list[Number] = []
    for fit in fits:
        fitted = None if fit is None else fit.fitted
        if fitted is None or fitted.median is None or fitted.p90 is None:
            return None
        spreads.append(residual_spread(fitted.median, fitted.p90))
    return max(spreads, key=float)
