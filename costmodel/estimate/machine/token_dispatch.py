"""Time to dispatch tokens to the ranks of their experts, or to combine the results."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from costmodel.equations.kernels.roofline import stream_time
from costmodel.equations.layers.experts import dispatch_bytes
from costmodel.equations.network.topology import two_level_time
from costmodel.estimate.machine.process_groups import Group, Machine, link_of, network_rate
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


class DispatchKernels(Protocol):
    """Shares of the links that kernels of dispatch reach, and the fixed time of a call."""

    @property
    def inside_share(self) -> float:
        """Share of the link's bandwidth inside a domain."""

    @property
    def across_share(self) -> float:
        """Share of the network interface's bandwidth."""

    @property
    def start(self) -> float:
        """Fixed time of a call [s]."""


@record
class SentTokens:
    """Tokens of a rank, with the copies of each that are sent inside its domain and across domains."""

    tokens: Number
    hidden: Number
    element: Number
    inside: Number
    across: Number


def dispatch_time(inputs: Machine, kernels: DispatchKernels, sent: SentTokens, ep: Group) -> tuple[Number, Number]:
    """Time of a dispatch, and bytes over the slowest link; transfers inside and across domains overlap partly."""
    with term("inside the domain"):
        near = dispatch_bytes(sent.tokens, sent.hidden, sent.inside, ep.inside, sent.element)
        inside = stream_time(near, link_of(inputs, ep.inside), kernels.inside_share)
    start = np.where(ep.ranks > 1, kernels.start, 0.0)
    if np.all(ep.domains == 1):
        return inside + start, near
    with term("between domains"):
        far = dispatch_bytes(sent.tokens, sent.hidden, sent.across, ep.domains, sent.element)
        rate = network_rate(inputs, kernels.across_share, ep, "all_to_all")
        across = stream_time(far, rate, 1.0)
    return two_level_time(inside, across, inputs.network.serial_share) + start, far
