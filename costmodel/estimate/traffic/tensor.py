"""What tensor parallelism exchanges in a layer, and what of it compute does not hide."""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.documents.model import Layers
from costmodel.equation import Number, term
from costmodel.equations.collectives import Operation, activation_message
from costmodel.equations.counting import divided, repeated
from costmodel.equations.overlap import exposed_time
from costmodel.estimate.passes import Both
from costmodel.estimate.setting import Setting
from costmodel.estimate.shapes.again import Again
from costmodel.estimate.shapes.work import exchanges
from costmodel.estimate.traffic.collectives import collective_time
from costmodel.estimate.traffic.groups import Exchange, Group


@dataclass(frozen=True)
class AtEnds:
    """One kind of collective of the ends and a micro-batch: how often the head makes it, how often the embedding."""

    operation: Operation
    time: Number
    head: float
    embedding: float


@dataclass(frozen=True)
class TensorTraffic:
    """Exposed tensor-parallel time of a layer and of the ends, for one micro-batch, and the exchanges behind it.

    Times of embedding and head are forward and backward; what all exchange is of one size. Backward is with what of
    forward it exchanges again.
    """

    forward: Number
    backward: Number
    embedding: tuple[Number, Number]
    head: tuple[Number, Number]
    message: Number
    exchanges: tuple[Exchange, ...]
    ends: tuple[AtEnds, ...]


def tensor_traffic(
    setting: Setting, tp: Group, tokens: Number, layer: Both, kind: Layers, again: Again, *, sequence_parallel: bool
) -> TensorTraffic:
    """Two exchanges a layer and direction, one where its halves are parallel; sequence parallelism halves each."""
    message, count = activation_message(tokens, setting.model.hidden, setting.element), exchanges(kind)
    if sequence_parallel:
        return _scattered(setting, tp, message, layer, count, again)
    with term("tp all-reduce"):
        time = collective_time(setting, message, tp, "all_reduce")
    exposed = _shown(setting, layer, repeated(count, time))
    anew = _anew(setting, layer, repeated(again.scatters, time), again, count)
    reduce = Exchange(tp, "all_reduce", message, time, count, count, again.scatters)
    ends = (AtEnds("all_reduce", time, head=1.0, embedding=1.0),)
    return TensorTraffic(exposed, exposed + anew, (time, 0.0), (0.0, time), message, (reduce,), ends)


def _scattered(setting: Setting, tp: Group, message: Number, layer: Both, count: float, again: Again) -> TensorTraffic:
    """Inputs gathered and outputs scattered; gathered again in backward where the stack has let them go."""
    with term("tp all-gather"):
        gather = collective_time(setting, message, tp, "all_gather")
    with term("tp reduce-scatter"):
        scatter = collective_time(setting, message, tp, "reduce_scatter")
    exposed = _shown(setting, layer, repeated(count, gather) + repeated(count, scatter))
    twice = repeated(again.gathers, gather) + repeated(again.scatters, scatter)
    backward = exposed + _anew(setting, layer, twice, again, count)
    dropped = setting.stack.kernels.inputs == "dropped"
    if dropped:
        with term("tp all-gather again for weight gradients"):
            backward = backward + exposed_time(repeated(count, gather), layer.deferred, 1.0, 0.0)
    made = (
        Exchange(tp, "all_gather", message, gather, count, count + count if dropped else count, again.gathers),
        Exchange(tp, "reduce_scatter", message, scatter, count, count, again.scatters),
    )
    ends = (
        AtEnds("all_gather", gather, head=2.0 if dropped else 1.0, embedding=1.0),
        AtEnds("reduce_scatter", scatter, head=1.0, embedding=1.0),
    )
    return TensorTraffic(exposed, backward, (scatter, gather), (gather, scatter), message, made, ends)


def _shown(setting: Setting, layer: Both, time: Number) -> Number:
    return exposed_time(time, layer.forward.matmul, setting.overlap_tp, 0.0)


def _anew(setting: Setting, layer: Both, time: Number, again: Again, count: float) -> Number:
    """What shows of exchanges made again: of all of a layer, or of one of its halves beside the compute of that."""
    if not again.gathers:
        return 0.0
    if again.dropped == "layer":
        return _shown(setting, layer, time)
    return exposed_time(time, divided(layer.forward.matmul, count), setting.overlap_tp, 0.0)
