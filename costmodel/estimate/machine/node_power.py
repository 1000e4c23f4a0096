"""Power of an accelerator with its share of the node, where no scenario states it."""

from __future__ import annotations

import math

import numpy as np

from costmodel.documents.schemas.hardware import Accelerator, Node
from costmodel.documents.schemas.practice import NodeDraw
from costmodel.equations.run.economics import capped_rating, drawn_power, share
from costmodel.ground.equation import Number, term


def rated_power(node: Node, part: Accelerator, draw: NodeDraw) -> Number:
    """Rated power of a whole node; if none is stated, its usual draw over the usual share of the rating."""
    if node.power is not None:
        return node.power.max
    with term("whole node"):
        drawn = usual_power(node, part, draw.rated, draw.part, None) * node.built
    return share(drawn, draw.rated)


def usual_power(node: Node, part: Accelerator, rated_share: Number, over_part: Number, cap: Number | None) -> Number:
    """Usual power of an accelerator: a share of the node's rating, or a multiple of its own; NaN without both."""
    if part.power is None:
        return math.nan if node.power is None else drawn_power(node.power.max, rated_share, node.built)
    limit = part.power.max if cap is None else np.minimum(cap, part.power.max)
    if node.power is None:
        return over_part * limit
    if cap is None:
        return drawn_power(node.power.max, rated_share, node.built)
    with term("capped"):
        rated = capped_rating(node.power.max, part.power.max, limit, node.built)
    return drawn_power(rated, rated_share, node.built)
