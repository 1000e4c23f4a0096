"""Closed forms with fitted constants, over columns of measured shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import numpy as np

from costmodel.documents.reader.resolved_scenario import load
from costmodel.equations.kernels.roofline import attention_kernel_time, attention_rate, matmul_time, stream_time
from costmodel.equations.kernels.tiles import page_writing_time, tail_slowdown
from costmodel.equations.network.collectives import Operation, blended_time, group_latency, handled_bytes, wire_bytes
from costmodel.estimate.machine.collective_time import collective_time
from costmodel.estimate.machine.process_groups import group
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.evidence.calibrate.regression import Array, Columns, Constant, FittedForm

_SHARE = Constant("compute_share", "1", 0.7, 0.02, 1.0)
_MATMUL = (
    _SHARE,
    Constant("memory_share", "1", 0.8, 0.02, 1.0),
    Constant("start", "s", 5e-6, 1e-8, 1e-3),
    Constant("exponent", "1", 2.0, 0.6, 12.0),
)

_ANY_HEADS = (128.0, 1.0, 1.0)  # a fit is of heads of one width


def _matmul_time(constants: Mapping[str, float], columns: Columns) -> Array:
    return np.asarray(
        matmul_time(
            columns["flop"],
            columns["nbytes"],
            columns["peak"],
            columns["bandwidth"],
            constants["compute_share"],
            constants["memory_share"],
            constants["start"],
            constants["exponent"],
            1.0,
        )
    )


def _quantised_time(constants: Mapping[str, float], columns: Columns) -> Array:
    nbytes = columns["inputs"] * constants["quantise"]
    return np.asarray(_matmul_time(constants, columns) + stream_time(nbytes, columns["bandwidth"], 1.0))


def _backward_time(constants: Mapping[str, float], columns: Columns) -> Array:
    """Both products of a linear layer's backward pass; only the compute share is fitted."""
    others = {name: float(np.min(columns[name])) for name in ("memory_share", "start", "exponent")}
    one = _matmul_time({**others, "compute_share": constants["backward_share"]}, columns)
    return np.asarray(2.0 * one)


def _collective_time(constants: Mapping[str, float], columns: Columns) -> Array:
    latency = group_latency(columns["ranks"], constants["start"], constants["hop"])
    handled = handled_bytes(columns["wire"], columns["ranks"], constants["own"])
    bandwidth = constants["share"] * columns["link"]
    return np.asarray(blended_time(latency, handled, bandwidth, constants["blend"]))


def _attention_time(constants: Mapping[str, float], columns: Columns) -> Array:
    """Attention as one isolated call: with start, memory part, idle multiprocessors and page writes."""
    rate = attention_rate(columns["peak"], constants["forward_share"], columns["sequence"], 0.0, *_ANY_HEADS)
    batch, heads, sequence, units = (columns[name] for name in ("batch", "heads", "sequence", "units"))
    slowdown = tail_slowdown(batch, heads, sequence, constants["tile"], units)
    bandwidth, share, start = columns["bandwidth"], constants["memory_share"], constants["start"]
    flop, nbytes, cached = columns["flop"], columns["nbytes"], columns["cached"]
    pages = page_writing_time(batch, sequence, columns["kv_heads"], columns["head_dim"], constants["write"], units)
    return np.asarray(attention_kernel_time(flop, rate, slowdown, nbytes, cached, bandwidth, share, start) + pages)


def _attention_rate_time(constants: Mapping[str, float], columns: Columns) -> Array:
    """Attention as a step counts it: a rate that grows with the sequence, without start."""
    share, half = constants["forward_share"], constants["half_sequence"]
    rate = attention_rate(columns["peak"], share, columns["sequence"], half, *_ANY_HEADS)
    return np.asarray(columns["flop"] / rate)


def _stream_time(constants: Mapping[str, float], columns: Columns) -> Array:
    return np.asarray(constants["start"] + stream_time(columns["nbytes"], columns["bandwidth"], constants["share"]))


MATMUL = FittedForm("rounded roofline", _MATMUL, _matmul_time)
QUANTISED = FittedForm(
    "rounded roofline, inputs quantised first",
    (*_MATMUL, Constant("quantise", "B", 8.0, 0.01, 200.0)),
    _quantised_time,
)
BACKWARD = FittedForm("both products of backward", (Constant("backward_share", "1", 0.8, 0.02, 1.0),), _backward_time)
# Usual is what five accelerators with NVLink have in common. Links differ; the corner and what is kept are NCCL's,
# and stray no further than those five do.
COLLECTIVE = FittedForm(
    "latency and wire time, blended",
    (
        Constant("start", "s", 7e-6, 1e-8, 1e-2, 0.5),
        Constant("hop", "s", 1.3e-6, 1e-9, 1e-3, 0.5),
        Constant("share", "1", 0.92, 1e-4, 1.0, 0.3),
        Constant("blend", "1", 1.1, 0.01, 6.0, 0.15),
        Constant("own", "1", 0.5, 0.01, 3.0, 0.3),
    ),
    _collective_time,
)
# What the five have in common in an all-reduce, which goes round twice and adds up what it keeps: means and spreads of
# their fits, links apart. Taken from the other four, they lower what is held out of A100 and GB200 and raise nothing.
ALL_REDUCE = replace(
    COLLECTIVE,
    constants=(
        Constant("start", "s", 6.3e-6, 1e-8, 1e-2, 0.3),
        Constant("hop", "s", 2.0e-6, 1e-9, 1e-3, 0.25),
        Constant("share", "1", 0.93, 1e-4, 1.0, 0.3),
        Constant("blend", "1", 1.0, 0.01, 6.0, 0.17),
        Constant("own", "1", 0.5, 0.01, 3.0, 0.18),
    ),
)
ATTENTION = FittedForm(
    "start, work, tail, memory and pages",
    (
        Constant("forward_share", "1", 0.55, 0.02, 1.0),
        Constant("memory_share", "1", 0.5, 0.02, 1.0),
        Constant("start", "s", 1e-5, 1e-8, 1e-3),
        Constant("tile", "1", 128.0, 8.0, 512.0, 0.35),
        Constant("write", "s", 3e-7, 1e-10, 1e-4),
    ),
    _attention_time,
)
ATTENTION_RATE = FittedForm(
    "rate by sequence",
    (Constant("forward_share", "1", 0.55, 0.02, 1.0), Constant("half_sequence", "1", 256.0, 1.0, 1e5)),
    _attention_rate_time,
)
STREAM = FittedForm(
    "start and bytes",
    (Constant("share", "1", 0.8, 0.02, 1.0), Constant("start", "s", 3e-6, 1e-8, 1e-3)),
    _stream_time,
)


def network_form(node: str, operation: Operation) -> tuple[FittedForm, str, dict[str, float]]:
    """The time of a collective between nodes of this kind, its fabric, and the current constants."""
    inputs = training_inputs(load("quickstart", [f"cluster.node={node}", "cluster.nodes=2"]))
    network = inputs.network

    def time(constants: Mapping[str, float], columns: Columns) -> Array:
        hop = constants["ring_hop"]
        changed = network.model_copy(update={"start": constants["start"], "ring_hop": hop, "tree_hop": hop})
        here = replace(inputs, network=changed, network_share=constants["share"])
        ranks = cast(Array, columns["ranks"])
        return np.asarray(collective_time(here, columns["message"], group(here, "dp", ranks, 1.0), operation))

    constants = (
        Constant("share", "1", network.share, 0.02, 1.0),
        Constant("start", "s", network.start, 1e-7, 1e-2),
        Constant("ring_hop", "s", network.ring_hop, 1e-7, 1e-2),
    )
    now = {constant.name: float(constant.start) for constant in constants}
    return FittedForm("two levels", constants, time), inputs.case.scale_out.name, now


def wire_of(message: Array, ranks: Array, operation: Operation) -> Array:
    """Bytes that a rank sends."""
    return np.asarray(wire_bytes(message, ranks, operation=operation))
