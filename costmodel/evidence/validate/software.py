"""The training software of a measured run: its stack document, and the settings that the row overrides."""

from __future__ import annotations

import re
from typing import Any, get_args

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.schemas.precision import Narrow
from costmodel.documents.schemas.stack import AXES, Compile, Stack
from costmodel.evidence.validate.imputation import LAST_UNFUSED, Filling
from costmodel.evidence.validate.spelling import recompute_of, schedule_of, ulysses
from costmodel.ground.units import Figure

# Words of a framework's name, and the stack they mean.
NAMED = (
    ("neuronx", "neuronx-distributed"),
    ("optimum-habana", "optimum-habana"),
    ("megatron-deepspeed", "megatron-deepspeed"),
    ("bigscience", "megatron-deepspeed"),
    ("gpt-neox", "gpt-neox"),
    ("internevo", "internevo"),
    ("hai-llm", "hai-llm"),
    ("pytorch ddp", "ddp"),
    ("deepspeed", "deepspeed"),
    ("llm-foundry", "llm-foundry"),
    ("maxtext", "maxtext"),
    ("jax", "maxtext"),
    ("pax", "maxtext"),
    ("levanter", "maxtext"),
    ("axlearn", "maxtext"),
    ("t5x", "maxtext"),
)
# Makers whose compiler runs some of them otherwise, and the stack that has it.
BY_MAKER = {
    ("maxtext", "Google"): "maxtext-tpu",
    ("maxtext", "AMD"): "maxtext-rocm",
    ("deepspeed", "Intel"): "megatron-deepspeed-gaudi",
    ("megatron-deepspeed", "Intel"): "megatron-deepspeed-gaudi",
}
# What rows that state torch.compile compile of each stack: the whole model, or each block within what shards it.
COMPILED: dict[str, Compile] = {
    "ddp": "model",
    "fsdp1": "blocks",
    "fsdp2": "blocks",
    "torchtune": "blocks",
}
# Words of features and notes, and the leaf of the stack they set.
SWITCHES: tuple[tuple[str, str, str, Any], ...] = (
    ("no flash attention", "kernels", "attention", "unfused"),
    ("overlap off", "overlap", "dp", 0.0),
    ("async tp", "overlap", "tp", 0.4),  # seven pairs of torchtitan runs that differ in it alone: 23 to 62 %
)
# Words of a cell that names the attention kernel: of those that fuse it, and of those that write its scores out.
FUSED = ("flash", "sdpa", "cudnn", "xformers", "dotproduct", "compile")
UNFUSED = ("softmax", "torch", "megatron", "unfused", "eager")
_FLASH = re.compile(r"(?:flash[\s_-]*(?:attn|attention)?|\bfa)[\s_=(-]*v?([123])(?!\d)")
_UNCOMPILED = re.compile(r"\b(?:no|not|without) (?:torch\.)?compile")
_NOT = re.compile(r"\b(?:no|not|without)\b")
LAST_FLAT = 2023
CHUNKED_SINCE = 2026  # ChunkedCELoss in the configurations of torchtitan, since pull request 2937 of April 2026
IN_PLACE = Figure(2.0)  # bytes a logit: Transformer Engine's loss writes the gradient over the 16-bit logits
PARAM_GATHER = ("fp8", "fp8-cs", "mxfp8")  # all their fp8 recipes but that of weights in blocks


def stack_name(filling: Filling) -> str:
    """The stack of a run: the one that its framework names, or its proxy."""
    stated = filling.row.text("framework")
    return stated if filling.shelf.has("stack", stated) else filling.put("stack", _standing_for(filling))


def _standing_for(filling: Filling) -> str:
    """The proxy stack for the words of a framework; fully sharded data parallel by year; else Megatron's, by year."""
    row, year = filling.row, filling.year()
    framework = (row.text("framework") or row.text("source")).lower()
    if "primus" in framework:
        return "primus"
    if "zero bubble" in row.text("source").lower() or "+ zb-" in framework or "schedule=zb" in filling.said:
        return "zero-bubble"  # its 1F1B too: its memory grows with the micro-batch as unfused attention's
    named = next((stack for words, stack in NAMED if words in framework), None)
    if named:
        return BY_MAKER.get((named, filling.maker()), named)
    if filling.sharded() and not any(name in framework for name in ("megatron", "nemo")):
        return "fsdp1" if year <= LAST_FLAT or "pytorch fsdp" in framework else "fsdp2"
    if year <= LAST_UNFUSED:
        return "megatron-2021"
    return "megatron-lm" if framework.startswith("megatron-lm") and not _overlapped(filling) else "megatron-core"


def _compiled(filling: Filling, stack: Stack) -> bool:
    """Whether kernels are compiled: as a row states, else as in the stack; in torchtitan only where a row states it."""
    said = filling.said
    if "compile" in said:
        return not _UNCOMPILED.search(said)
    usual = stack.compile not in (None, "none")
    if filling.row.text("framework") == stack.name:
        return usual
    if filling.row.text("features"):
        return False
    if "torchtitan" in filling.row.text("framework").lower():
        return filling.put("compile", False)
    return usual


def _overlapped(filling: Filling) -> bool:
    return "overlap enabled" in filling.said


def stack_of(filling: Filling, shelf: CachedReader) -> Stack:
    """The stack of a run, with the settings that its row states."""
    stack: Stack = shelf.document("stack", stack_name(filling))
    said = filling.said
    for words, group, leaf, value in SWITCHES:
        if words in said:
            stack = _set(stack, group, leaf, value)
    if filling.graphed:
        stack = _set(stack, "launch", "graphs", True)
    if stack.name in COMPILED:
        stack = stack.chosen("compile", COMPILED[stack.name] if _compiled(filling, stack) else "none")
    if "torchtitan" in filling.told.lower() and filling.year() >= CHUNKED_SINCE:
        stack = stack.chosen("loss", filling.put("loss", "chunked"))
    attention = _attention(filling, stack)
    if attention != stack.kernels.attention:
        stack = _set(stack, "kernels", "attention", attention)
    if stack.low_precision and filling.by_nvidia() and filling.precision(stack) in PARAM_GATHER:
        on = filling.put("fp8_param_gather", True)
        for leaf, value in (("primary", on), ("gather", [filling.precision(stack)])):
            stack = _set(stack, "low_precision", leaf, value)
    if "Megatron-Bridge" in filling.told:
        stack = _set(stack, "buckets", "loss", filling.put("loss", IN_PLACE))
    return _offering(stack, filling, shelf)


def _attention(filling: Filling, stack: Stack) -> str:
    """The attention kernel: from the cell, flash attention without a version by year; else the stack's."""
    named, usual = filling.row.text("kernel").lower(), stack.kernels.attention
    version, fused = _FLASH.search(named), any(word in named for word in FUSED)
    if fused and _NOT.search(named):
        return "unfused"
    if version is not None:
        return f"flash-{version[1]}"
    if not fused and any(word in named for word in UNFUSED):
        return "unfused"
    fused = fused or "flashattention" in filling.said
    if not fused and _plain_pax(filling):
        return filling.put("kernel", "unfused")
    if usual == "unfused" and fused:
        usual = "flash-1" if filling.year() <= LAST_FLAT else "flash-2"
    return filling.put("kernel", usual) if named else usual


def _plain_pax(filling: Filling) -> bool:
    """Whether Pax ran on plain JAX, which has fused attention only with Transformer Engine."""
    framework = filling.row.text("framework").lower().replace(" ", "")
    return "pax/jax" in framework and "transformerengine" not in framework


def _offering(stack: Stack, filling: Filling, shelf: CachedReader) -> Stack:
    """A stack that also supports what the row states, since it ran."""
    row, written = filling.row, filling.row.text("recompute")
    precision, narrow = filling.precision(stack), stack.low_precision
    if precision in get_args(Narrow) and precision not in (narrow.recipes if narrow else ()):
        narrow = narrow or shelf.document("stack", filling.put("low_precision", "fsdp2")).low_precision
        assert narrow is not None
        stack = stack.model_copy(update={"low_precision": narrow})
        stack = _set(stack, "low_precision", "recipes", [precision, *narrow.recipes])
    cut = (row.number("cp") or 1.0) > 1
    stated = {
        "zero": filling.zero(stack),
        "recompute": recompute_of(written).mode if written else "",
        "schedules": schedule_of(row) or ("interleaved" if (row.number("vp") or 1.0) > 1 else ""),
        "context_parallel": "a2a" if ulysses(row) else "p2p" if cut and not stack.context_parallel else "",
    }
    if stack.pipelined_zero:
        stated["pipelined_zero"] = stated["zero"]
    offered = {name: getattr(stack, name) for name in stated}
    more: dict[str, Any] = {
        name: [*offered[name], one] for name, one in stated.items() if one not in ("", *offered[name])
    }
    if stack.layouts is not None:
        lacked: dict[str, str] = {
            axis: "a run had it" for axis in AXES if (row.number(axis) or 1.0) > 1 and not stack.has(axis)
        }
        more["layouts"] = stack.layouts.model_copy(update=lacked)
    return stack.model_copy(update=more)


def _set(stack: Stack, group: str, leaf: str, value: Any) -> Stack:
    return stack.model_copy(update={group: getattr(stack, group).model_copy(update={leaf: value})})
