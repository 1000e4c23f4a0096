"""The few constants that real steps add to isolated kernels: where they stand, and what is believed before any run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from costmodel.documents.case import Case
from costmodel.documents.efficiency import Efficiency
from costmodel.documents.folders import places
from costmodel.documents.shelf import Shelf
from costmodel.documents.stack import Stack

D = TypeVar("D", Stack, Efficiency)
OWN_SOURCE = "calibrate"  # of what runs of one's own told


@dataclass(frozen=True)
class Constant:
    """One number that leaves of several documents share.

    The belief is a value and a spread: one standard deviation of the logarithm, of a share that of its log-odds.
    """

    name: str
    kind: str
    documents: tuple[str, ...]
    group: str
    leaf: str
    believed: float
    spread: float
    share: bool = False
    like: str = ""  # believed so many times another constant, instead of by itself

    def scale(self, value: float) -> float:
        """The value on the scale on which it is fitted."""
        return math.log(value / (1 - value)) if self.share else math.log(value)

    def value(self, scaled: float) -> float:
        """Back from that scale."""
        return 1 / (1 + math.exp(-scaled)) if self.share else math.exp(scaled)


LEGACY = ("megatron-2021", "deepspeed", "megatron-deepspeed", "gpt-neox")
FUSED = ("megatron-core", "megatron-lm", "internevo", "fsdp2")
EAGER = ("gpt-neox", "fsdp1", "ddp")
OVERLAPPING = ("megatron-core", "internevo", "fsdp2", "fsdp1", "llm-foundry", "maxtext", "ddp")
LOOPING = (*LEGACY[1:], *FUSED, "fsdp1", "llm-foundry", "ddp")  # an expert after the other
NARROW = ("h100-sxm", "h200-sxm", "b200-sxm", "gb200")
PARTS = ("a100-sxm-80", *NARROW)
NETWORKS = ("ib-hdr", "ib-ndr", "unmeasured")

# What would be said of each before looking at any training run.
CONSTANTS = (
    Constant("sustained, ampere", "efficiency", ("a100-sxm-80",), "sustained", "factor", 1.15, 0.15),
    Constant("sustained, hopper", "efficiency", ("h100-sxm", "h200-sxm"), "sustained", "factor", 1.25, 0.15),
    Constant(
        "sustained, blackwell",
        "efficiency",
        ("b200-sxm", "gb200"),
        "sustained",
        "factor",
        1.05,
        0.1,
        like="sustained, hopper",
    ),
    Constant("sustained, fp8 over bf16", "efficiency", NARROW, "sustained", "narrow", 0.9, 0.15),
    Constant("variation of parts", "efficiency", PARTS, "sustained", "variation", 0.02, 0.5),
    Constant("network share", "efficiency", NETWORKS, "network", "share", 0.81, 0.7, True),
    Constant("overlap, dp", "stack", OVERLAPPING, "overlap", "dp", 0.8, 1.0, True),
    Constant("overlap, tp", "stack", ("megatron-core",), "overlap", "tp", 0.8, 1.0, True),
    Constant("launch, eager Megatron", "stack", LEGACY, "launch", "operation", 35e-6, 0.5),
    Constant("launch, modern", "stack", (*FUSED, "fsdp1", "llm-foundry", "ddp"), "launch", "operation", 16e-6, 0.5),
    Constant("traffic, fused kernels", "stack", (*LEGACY[:3], *FUSED), "kernels", "traffic_factor", 1.1, 0.2),
    Constant("traffic, eager kernels", "stack", EAGER, "kernels", "traffic_factor", 1.8, 0.3),
    Constant("host, an operation of an expert", "stack", LOOPING, "experts", "host", 30e-6, 1.0),
)


def shipped(constant: Constant, shelf: Shelf) -> float:
    """The value its first document has now."""
    return _leaf(shelf.document(constant.kind, constant.documents[0]), constant)


def _leaf(document: Any, constant: Constant) -> float:
    return float(getattr(getattr(document, constant.group), constant.leaf))


def with_values(case: Case, constants: Sequence[Constant], values: Sequence[float], shelf: Shelf) -> Case:
    """The case with the constants it uses at these values; what its row switched stays switched."""
    for constant, value in zip(constants, values, strict=True):
        if constant.group == "experts":
            case = _of_experts(case, constant, value, shelf)
        elif constant.kind == "stack":
            case = replace(case, stack=_changed(case.stack, case.stack.name, constant, value, shelf))
        elif constant.group == "network":
            case = replace(case, network=_changed(case.network, case.network.of, constant, value, shelf))
        else:
            case = replace(case, efficiency=_changed(case.efficiency, case.efficiency.of, constant, value, shelf))
    return case


def _of_experts(case: Case, constant: Constant, value: float, shelf: Shelf) -> Case:
    """A model with experts, on another constant of its stack; what its row says stays."""
    said = getattr(case.scenario.assume.experts, constant.leaf)
    if case.stack.name not in constant.documents or not case.model.has_experts or said is not None:
        return case
    return replace(case, stack=_changed(case.stack, case.stack.name, constant, value, shelf))


def _changed(document: D, name: str, constant: Constant, value: float, shelf: Shelf) -> D:
    if name not in constant.documents:
        return document
    if _leaf(document, constant) != _leaf(shelf.document(constant.kind, name), constant):
        return document
    part = getattr(document, constant.group).model_copy(update={constant.leaf: value})
    return document.model_copy(update={constant.group: part})


def uses(case: Case, constant: Constant, shelf: Shelf) -> bool:
    """Whether a case has a leaf of the constant."""
    other = with_values(case, [constant], [constant.believed * 0.999], shelf)
    return (other.stack, other.efficiency, other.network) != (case.stack, case.efficiency, case.network)


def own(cases: Sequence[Case], shelf: Shelf) -> tuple[Constant, ...]:
    """What a few runs of one's own can sharpen: sustained, network and launch, held close to what is shipped."""
    made: dict[tuple[str, str], Constant] = {}
    for case in cases:
        named = (
            ("efficiency", case.efficiency.of, "sustained", "factor", 0.08, False),
            ("efficiency", case.network.of, "network", "share", 0.4, True),
            ("stack", case.stack.name, "launch", "operation", 0.3, False),
        )
        for kind, document, group, leaf, spread, share in named:
            constant = Constant(f"{group}, {document}", kind, (document,), group, leaf, 1.0, spread, share)
            made[document, group] = replace(constant, believed=_leaf(before(constant, shelf), constant))
    return tuple(made.values())


def before(constant: Constant, shelf: Shelf) -> Any:
    """The first document of a constant as it was before runs of one's own changed it."""
    name = constant.documents[0]
    document = shelf.document(constant.kind, name)
    for path in places(constant.kind, name):
        if getattr(document, constant.group).source != OWN_SOURCE:
            break
        document = shelf.document(constant.kind, str(path)) if path.is_file() else document
    return document
