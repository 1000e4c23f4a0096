"""Causes of a slow step: each one figure of the scenario, with what is expected of it and how to measure it alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from costmodel.documents.reader.library import read
from costmodel.equations.run.uncertainty import combined_error, end_spread
from costmodel.estimate.evaluate.error_band import residual
from costmodel.estimate.evaluate.predict import Answer
from costmodel.estimate.shared.results import number
from costmodel.explore.diagnose.measured import PredictedTerms
from costmodel.ground.record import record

# How a figure makes a step longer: as it grows, as it falls, as a share that falls to nothing, or as time beside.
Way = Literal["grows", "falls", "share", "added"]

LEAST_SPREAD = 0.01  # nothing is known better than to a hundredth


@record
class Cause:
    """A possible cause: one figure that may differ from what the documents state.

    path: where it stands in a scenario; nothing for what a scenario does not hold
    expected, spread: its value in the documents, and the standard deviation of its logarithm, of a share itself
    term: where a rank that is not to blame sees time that is added
    part: time that grows where the figure is a slowdown of a part of the step; of fixed time that of a slow step, P90
    """

    name: str
    words: str
    way: Way
    unit: str
    expected: float
    spread: float
    measure: str
    path: str = ""
    term: str = ""
    part: float = 0.0


def causes(answer: Answer, base: PredictedTerms) -> Iterator[Cause]:
    """The causes that this plan can have."""
    yield _clocks(answer)
    yield from _of_kernels(answer, base)
    yield from _of_overlap(answer, base)
    yield from _of_links(answer, base)
    yield from _beside(answer, base)


def _clocks(answer: Answer) -> Cause:
    """Slowdown of matrix products in a real step."""
    inputs, common = answer.inputs, answer.inputs.case.common
    sustained = residual(inputs.case.efficiency.sustained, common.sustained)
    fits = (common.matmul[name] for name in (inputs.recipe.fit, "bf16") if name in common.matmul)
    spread = float(combined_error(sustained, residual(inputs.rates.linear.fit, *fits)))
    return Cause(
        "clocks",
        "clocks (power cap, heat): matrix products over kernels alone",
        "grows",
        "×",
        float(inputs.of_a_part),
        max(spread, LEAST_SPREAD),
        "nvidia-smi -q -d CLOCK,PERFORMANCE while it trains",
        path="assume.sustained",
    )


def _of_kernels(answer: Answer, base: PredictedTerms) -> Iterator[Cause]:
    inputs, terms = answer.inputs, base.terms
    efficiency, common, stack = inputs.case.efficiency, inputs.case.common, inputs.stack
    if terms["attention"] and inputs.rates.attention is not None:
        kernel = stack.kernels.attention
        yield Cause(
            "attention",
            "attention kernel",
            "falls",
            "1",
            inputs.rates.attention.forward_share,
            max(float(residual(inputs.rates.attention, common.attention[kernel])), LEAST_SPREAD),
            "costmodel measure -o mine.csv",
            path=f"cluster.node.accelerator.efficiency.attention.{kernel}.forward_share",
        )
    yield Cause(
        "memory",
        "memory-bound operations (fusion, memory)",
        "falls",
        "1",
        inputs.rates.memory_share,
        max(float(residual(efficiency.memory, common.memory)), LEAST_SPREAD),
        "costmodel measure -o mine.csv",
        path="cluster.node.accelerator.efficiency.memory.share",
    )
    yield Cause(
        "host",
        "host time to issue an operation",
        "grows",
        "s",
        stack.launch.operation,
        max(float(stack.spread.launch), LEAST_SPREAD),
        "a profile of one step: gaps between kernels; CUDA graphs, or half the layers",
        path="stack.launch.operation",
    )


_OVERLAPPING = ("tp", "cp", "pp", "dp")


def _of_overlap(answer: Answer, base: PredictedTerms) -> Iterator[Cause]:
    inputs = answer.inputs
    shares = {axis: float(getattr(inputs.overlap, axis)) for axis in _OVERLAPPING}
    shares["ep"] = 0.0 if inputs.experts is None else inputs.experts.overlap
    for axis, share in shares.items():
        if share > 0 and base.terms[f"{axis}_time"] > base.terms[f"{axis}_exposed"]:
            yield Cause(
                f"{axis} overlap",
                f"{axis} communication that hides behind compute",
                "share",
                "1",
                share,
                max(float(inputs.stack.spread.overlap), LEAST_SPREAD),
                f"a profile: kernels beside the {axis} collectives",
                path=f"assume.overlap.{axis}",
            )


def _of_links(answer: Answer, base: PredictedTerms) -> Iterator[Cause]:
    inputs, case, common = answer.inputs, answer.inputs.case, answer.inputs.case.common
    taking = [item for item in answer.evaluation.step.transfers if number(item.total_time) > 0]
    inside = any(number(item.group.domains) <= 1 for item in taking)
    outside = any(number(item.group.domains) > 1 for item in taking)
    if inside:
        fit = inputs.collectives["all_gather"]
        yield Cause(
            "links",
            f"links inside the node ({case.scale_up.name})",
            "falls",
            "B/s",
            case.scale_up.bandwidth,
            max(float(residual(fit, common.collectives["all_gather"])), LEAST_SPREAD),
            "all_gather_perf of nccl-tests on one node",
            path="cluster.node.scale_up.fabric.bandwidth",
        )
    if outside:
        yield Cause(
            "network",
            f"network between nodes ({case.scale_out.name})",
            "falls",
            "1",
            inputs.network_share,
            max(float(residual(inputs.network, common.network)), LEAST_SPREAD),
            "all_reduce_perf of nccl-tests on all nodes; costmodel comm states the sizes",
            path="assume.network_share",
        )
    if inputs.experts is not None and base.terms["ep_time"] + base.terms["matmul"] > 0:
        yield Cause(
            "experts",
            "busiest expert over the mean",
            "grows",
            "×",
            inputs.experts.load,
            max(float(inputs.stack.spread.experts), LEAST_SPREAD),
            "log the tokens of each expert",
            path="assume.experts.imbalance",
        )


def _beside(answer: Answer, base: PredictedTerms) -> Iterator[Cause]:
    """Causes for which a scenario has no figure, such as a slow stage: each slows the whole step down."""
    steps = (answer.inputs.case.practice or read("practice", "usual")).steps
    spread, terms = float(end_spread(1.0, steps.tail)), base.terms
    block = answer.evaluation.block
    busy = base.step - terms["bubble"] - terms["optimizer"] - terms["dp_exposed"]
    if float(block.pp[0]) > 1:
        yield Cause(
            "stage",
            f"one stage of {float(block.pp[0]):.0f} (layers, head, sequences)",
            "added",
            "×",
            1.0,
            spread,
            "step time of each stage on one replica: costmodel pipeline",
            term="bubble",
            part=busy,
        )
    yield from _one_part(answer, base, spread)
    yield Cause(
        "fixed",
        "fixed time a step: data loader, logging, host synchronisation",
        "added",
        "s",
        0.0,
        spread,
        "a step of twice the global batch, or with synthetic data",
        part=base.step * (steps.tail - 1),
    )


def _one_part(answer: Answer, base: PredictedTerms, spread: float) -> Iterator[Cause]:
    """The cause that one slow accelerator makes all others wait."""
    block, terms = answer.evaluation.block, base.terms
    work = terms["matmul"] + terms["attention"] + terms["memory_bound"] + terms["launch"]
    waiting = "dp_exposed" if float(block.dp[0]) > 1 else "bubble" if float(block.pp[0]) > 1 else "tp_exposed"
    if float(block.dp[0]) * float(block.pp[0]) * float(block.tp[0]) > 1:
        yield Cause(
            "one part",
            "one accelerator beside all others",
            "added",
            "×",
            1.0,
            spread,
            "the same matmul on each accelerator; costmodel measure there",
            term=waiting,
            part=work,
        )
