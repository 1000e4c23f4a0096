"""Constants of serving engines: where they stand in documents, and how far real ones lie from what is shipped."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.folders import is_shipped, places
from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.base import OWN
from costmodel.evidence.calibrate.default_efficiency import beginning
from costmodel.ground.record import record

EXPERTS = ("serving", "experts")  # where an efficiency document has the fused experts of engines, by type
UNLIMITED = math.inf


@record
class LeafPath:
    """The place of one number in one document."""

    kind: str
    document: str
    path: tuple[str, ...]
    key: str

    def __str__(self) -> str:
        return f"{self.document} {'.'.join((*self.path, self.key))}"


@record
class EngineConstant:
    """A number to fit, shared by one or more document leaves; `spread` is the prior spread of its logarithm."""

    name: str
    leaves: tuple[LeafPath, ...]
    spread: float = 0.5
    most: float = UNLIMITED

    @property
    def key(self) -> str:
        """The key under which each document has the number."""
        return self.leaves[0].key

    @property
    def documents(self) -> list[str]:
        """The documents that contain the number."""
        return list(dict.fromkeys(leaf.document for leaf in self.leaves))


def _engine(
    name: str, path: str, stacks: Sequence[str], spread: float = 0.5, most: float = UNLIMITED
) -> EngineConstant:
    group, key = path.split(".")
    return EngineConstant(name, tuple(LeafPath("stack", stack, (group,), key) for stack in stacks), spread, most)


def _experts(name: str, key: str, *entries: tuple[Sequence[str], Sequence[str]]) -> EngineConstant:
    """A constant of fused experts, in entries of some types in some efficiency documents."""
    leaves = tuple(
        LeafPath("efficiency", document, (*EXPERTS, kind), key)
        for documents, kinds in entries
        for document in documents
        for kind in kinds
    )
    return EngineConstant(name, leaves, most=UNLIMITED if key == "start" else 1.0)


VLLM = ("vllm", "vllm-0.16", "vllm-0.20", "vllm-0.24", "vllm-0.28")
SGLANG, TRT_LLM = ("sglang",), ("trt-llm",)
WIDE, BLOCKS, FOUR_BITS = ("bf16", "fp8"), ("fp8-block",), ("nvfp4",)
HOPPER, BLACKWELL = ("h100-sxm", "h200-sxm"), ("b200-sxm", "gb200")
SHARED = (
    _engine("vllm host.step", "host.step", VLLM),
    _engine("sglang host.step", "host.step", SGLANG),
    _engine("trt-llm host.step", "host.step", TRT_LLM),
    _engine("engines kernels.operation", "kernels.operation", (*VLLM, *SGLANG, *TRT_LLM)),
    _experts(
        "experts start, 8 and 16 bits",
        "start",
        (HOPPER, WIDE),
        ((*BLACKWELL, "unmeasured"), (*WIDE, *BLOCKS)),
    ),
    _experts("experts start, nvfp4", "start", ((*BLACKWELL, "unmeasured"), FOUR_BITS)),
    _experts("experts compute_share, Hopper", "compute_share", (HOPPER, WIDE)),
    _experts("experts compute_share, Blackwell", "compute_share", (BLACKWELL, (*WIDE, *BLOCKS))),
    _experts("experts compute_share, nvfp4", "compute_share", ((*BLACKWELL, "unmeasured"), FOUR_BITS)),
    _experts(
        "experts memory_share, Blackwell",
        "memory_share",
        (BLACKWELL, (*WIDE, *BLOCKS, *FOUR_BITS)),
        (("unmeasured",), FOUR_BITS),
    ),
)


def own_constants(engine: str) -> tuple[EngineConstant, ...]:
    """The constants of one engine that your own benchmarks can improve: time per step, and the start of a burst."""
    return (
        _engine(f"{engine} host.step", "host.step", (engine,)),
        _engine(f"{engine} burst.front", "burst.front", (engine,), 0.7),
        _engine(f"{engine} burst.share", "burst.share", (engine,), 0.5, 1.0),
    )


def accelerator_constants(name: str, fit: str) -> tuple[EngineConstant, ...]:
    """The shares of peak and bandwidth that matmuls reach, as constants of an accelerator without its own fit.

    fit: of the products, by the entry of efficiency documents
    """
    keys = {"memory_share": 0.2, "compute_share": 0.3}
    return tuple(
        EngineConstant(f"{name} {fit} {key}", (LeafPath("efficiency", name, ("matmul", fit), key),), spread, 1.0)
        for key, spread in keys.items()
    )


def shipped_value(constant: EngineConstant, shelf: CachedReader) -> float:
    """The value in the first document that has the number, before your own benchmarks changed it."""
    leaf = constant.leaves[0]
    return float(getattr(shipped_entry(leaf, shelf), leaf.key))


def shipped_entry(leaf: LeafPath, shelf: CachedReader) -> Any:
    """The document section that contains a number, before your own benchmarks changed it."""
    entries = [entry for document in _versions(leaf, shelf) if (entry := _entry(document, leaf.path)) is not None]
    return next((entry for entry in entries if not entry.source.startswith(OWN)), entries[-1])


def _versions(leaf: LeafPath, shelf: CachedReader) -> Iterator[Any]:
    """All versions of a document, the working folder's first; the default document comes last if none is shipped."""
    found = [path for path in places(leaf.kind, leaf.document) if path.is_file()]
    yield from (shelf.document(leaf.kind, str(path)) for path in found)
    if not any(map(is_shipped, found)):
        yield beginning("accelerator", leaf.document)


def _entry(document: Any, path: Sequence[str]) -> Any:
    """The value at a path of a document; None where there is none."""
    for name in path:
        document = document.get(name) if isinstance(document, Mapping) else getattr(document, name, None)
    return document


def with_values(case: ServingCase, constants: Sequence[EngineConstant], values: Sequence[float]) -> ServingCase:
    """The scenario with its constants at these values; documents that it does not use stay."""
    for constant, value in zip(constants, values, strict=True):
        for leaf in constant.leaves:
            if leaf.kind == "stack" and leaf.document == case.stack.name:
                case = replace(case, stack=_changed(case.stack, leaf, value))
            if leaf.kind == "efficiency" and leaf.document == case.efficiency.of:
                case = replace(case, efficiency=_changed(case.efficiency, leaf, value))
            if leaf.kind == "efficiency" and leaf.document == case.common.of:
                case = replace(case, common=_changed(case.common, leaf, value))
    return case


def _changed(document: Any, leaf: LeafPath, value: float) -> Any:
    return _updated(document, (*leaf.path, leaf.key), value)


def _updated(part: Any, path: Sequence[str], value: float) -> Any:
    """A copy of a document section with the number at a path changed; unchanged if it lacks the path."""
    name, *rest = path
    held = part.get(name) if isinstance(part, Mapping) else getattr(part, name, None)
    if held is None:
        return part
    new = _updated(held, rest, value) if rest else value
    return {**part, name: new} if isinstance(part, Mapping) else part.model_copy(update={name: new})


def written(constant: EngineConstant, value: float) -> str:
    """A value as documents write it."""
    if constant.key.endswith("share"):
        return f"{100 * value:.3g} %"
    return f"{value * 1e6:.3g} us" if value < 1e-3 else f"{value * 1e3:.3g} ms"
