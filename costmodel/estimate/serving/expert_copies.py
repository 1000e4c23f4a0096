"""Redundant copies of routed experts: their placement and their bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.feed_forward import Experts
from costmodel.equations.layers.experts import placed_experts, placed_weights
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, term


def placed(inputs: ServingInputs, layout: PlanColumns, experts: Experts) -> Number:
    """Experts of a layer on the ep ranks, with redundant copies; without ep there are no copies."""
    if not np.any(np.asarray(layout.redundant_experts)):
        return experts.count
    with term("copies"):
        return placed_experts(experts.count, np.where(layout.ep > 1, layout.redundant_experts, 0.0))


def with_copies(inputs: ServingInputs, layout: PlanColumns, experts: Experts, weights: Number) -> Number:
    """Bytes of a rank's routed experts, with redundant copies."""
    if not np.any(np.asarray(layout.redundant_experts)):
        return weights
    with term("copies"):
        return placed_weights(weights, experts.count, placed(inputs, layout, experts))


def unplaced(inputs: ServingInputs, *layouts: PlanColumns) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Masks of the rows with redundant experts but without ep, by reason code."""
    if inputs.model.has_experts:
        copied = np.any([np.asarray(layout.redundant_experts > 0) for layout in layouts], axis=0)
        yield "L060", copied & np.all([np.asarray(layout.ep == 1) for layout in layouts], axis=0)
