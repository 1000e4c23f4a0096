"""The error band of memory, and the chance that a plan fits which follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.schemas.efficiency import MeasuredLayers
from costmodel.equations.run.economics import share
from costmodel.equations.run.uncertainty import (
    combined_error,
    ninetieth_percentile,
    normal_share,
    spreads_away,
    tenth_percentile,
    term_error,
)
from costmodel.estimate.model.mixers.table import layer_words
from costmodel.estimate.shared.per_stage import STAGES
from costmodel.estimate.shared.time_breakdown import added
from costmodel.estimate.training.memory.breakdown import LINES, Ledger
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term

MEMORY_KINDS = {
    "states": ("weights", "gradients", "optimizer", "gathered", "buckets", "update", "pages"),
    "activations": ("activations", "recompute", "logits", "context"),
    "allocator": ("fragmentation", "runtime"),
}


def memory_band(inputs: TrainingInputs, lines: Mapping[str, Number], names: Sequence[str]) -> tuple[Number, Number]:
    """P10 and P90 of the sum of some lines of a stage's memory breakdown."""
    total = added(lines, names)
    spread = memory_spread(inputs, total, lines, names)
    return tenth_percentile(total, spread), ninetieth_percentile(total, spread)


def absorbed(high: Number, usable: Number, pageable: Number) -> Number:
    """P90 of a stage's peak, if paged optimizer states move to the host before memory runs out.

    >>> [float(absorbed(high, 24.0, 2.0)) for high in (20.0, 25.0, 30.0)]
    [20.0, 24.0, 28.0]
    """
    return np.maximum(np.minimum(high, usable), high - pageable)


def memory_spread(inputs: TrainingInputs, total: Number, lines: Mapping[str, Number], names: Sequence[str]) -> Number:
    """Relative spread of the sum of some lines: lines of one kind have a common error, kinds are independent."""
    error: Number = term_error(inputs.stack.spread.memory, total)
    with term("spread of the memory"):
        for kind, members in MEMORY_KINDS.items():
            counted = [name for name in members if name in names]
            if counted:
                with term(kind):
                    spread = getattr(inputs.stack.spread, kind)
                    if kind == "activations" and (new := unmeasured_layers(inputs)) is not None:
                        spread = combined_error(spread, new.spread)
                    error = combined_error(error, term_error(spread, added(lines, counted)))
        return share(error, np.maximum(total, 1.0))


def unmeasured_layers(inputs: TrainingInputs) -> MeasuredLayers | None:
    """The spread of the memory of kinds of layers that no run measured; None if a run did."""
    known = inputs.case.common.layers
    return None if known is None or layer_words(inputs.model) in known.runs else known


def unmeasured_memory(inputs: TrainingInputs) -> Iterator[Assumption]:
    """An assumption for layers whose memory no run measured."""
    if unmeasured_layers(inputs) is not None:
        yield Assumption(f"memory of {layer_words(inputs.model)}", "never measured", "wider band")


def fit_chance(inputs: TrainingInputs, ledger: Ledger) -> Number:
    """Chance that the peak of every stage fits in usable memory, and offloaded bytes in the host's.

    Stages and the host are wrong together, so the least counts.
    """
    away: list[Number] = []
    for position, stage in enumerate(STAGES):
        with term(f"{stage} stage"):
            lines = {name: ledger.line(name, position) for name in LINES}
            peak = ledger.peaks[position]
            spread = memory_spread(inputs, peak, lines, LINES)
            usable = inputs.usable + ledger.pageable[position]
            away.append(spreads_away(np.maximum(peak, 1.0), usable, spread))
    first, middle, last = away
    least = np.minimum(np.minimum(first, middle), last)
    held, taken = ledger.host
    if np.any(held):
        with term("host"):
            least = np.minimum(least, spreads_away(np.maximum(taken, LEAST), 1.0, host_spread(inputs)))
    return normal_share(least)


LEAST = 1e-9  # a share of the host that is nothing


def host_spread(inputs: TrainingInputs) -> Number:
    """Relative spread of offloaded bytes on a host: that of all memory, and that of states."""
    spread = inputs.stack.spread
    return combined_error(term_error(spread.memory, 1.0), term_error(spread.states, 1.0))


def host_band(inputs: TrainingInputs, held: Number) -> tuple[Number, Number]:
    """P10 and P90 of the offloaded bytes on a host."""
    spread = host_spread(inputs)
    return tenth_percentile(held, spread), ninetieth_percentile(held, spread)
