"""What tensor parallelism exchanges in a layer, and what of it compute does not hide."""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.equation import Number, term
from costmodel.equations.collectives import Operation, activation_message
from costmodel.equations.counting import repeated
from costmodel.equations.overlap import exposed_time
from costmodel.estimate.passes import Both
from costmodel.estimate.setting import Setting
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

    Times of embedding and head are forward and backward; what all exchange is of one size.
    """

    forward: Number
    backward: Number
    recomputed: Number
    embedding: tuple[Number, Number]
    head: tuple[Number, Number]
    message: Number
    exchanges: tuple[Exchange, ...]
    ends: tuple[AtEnds, ...]


def tensor_traffic(
    setting: Setting, tp: Group, tokens: Number, layer: Both, exchanges: float, *, sequence_parallel: bool
) -> TensorTraffic:
    """Two exchanges a layer and direction, one where its halves are parallel.

    Sequence parallelism halves each, and gathers inputs again in backward where the stack has let them go.
    """
    message = activation_message(tokens, setting.model.hidden, setting.element)
    hideable, twice = setting.overlap_tp, exchanges + exchanges
    repeats = exchanges - 1.0 if setting.stops_early else exchanges  # the last matmul's own is not made again
    if not sequence_parallel:
        with term("tp all-reduce"):
            time = collective_time(setting, message, tp, "all_reduce")
        both = repeated(exchanges, time)
        exposed = exposed_time(both, layer.forward.matmul, hideable, 0.0)
        anew = exposed_time(repeated(repeats, time), layer.forward.matmul, hideable, 0.0)
        reduce = Exchange(tp, "all_reduce", message, time, exchanges, exchanges, repeats)
        ends: tuple[AtEnds, ...] = (AtEnds("all_reduce", time, head=1.0, embedding=1.0),)
        return TensorTraffic(exposed, exposed, anew, (time, 0.0), (0.0, time), message, (reduce,), ends)
    with term("tp all-gather"):
        gather = collective_time(setting, message, tp, "all_gather")
    with term("tp reduce-scatter"):
        scatter = collective_time(setting, message, tp, "reduce_scatter")
    gathered, scattered = repeated(exchanges, gather), repeated(exchanges, scatter)
    exposed = exposed_time(gathered + scattered, layer.forward.matmul, hideable, 0.0)
    anew = exposed_time(gathered + repeated(repeats, scatter), layer.forward.matmul, hideable, 0.0)
    dropped = setting.stack.kernels.inputs == "dropped"
    with term("tp all-gather again for weight gradients"):
        again = exposed_time(gathered, layer.deferred, 1.0, 0.0) if dropped else 0.0
    made = (
        Exchange(tp, "all_gather", message, gather, exchanges, twice if dropped else exchanges, exchanges),
        Exchange(tp, "reduce_scatter", message, scatter, exchanges, exchanges, repeats),
    )
    ends = (
        AtEnds("all_gather", gather, head=2.0 if dropped else 1.0, embedding=1.0),
        AtEnds("reduce_scatter", scatter, head=1.0, embedding=1.0),
    )
    return TensorTraffic(exposed, exposed + again, anew, (scatter, gather), (gather, scatter), message, made, ends)
