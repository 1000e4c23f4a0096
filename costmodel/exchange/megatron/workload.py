"""The workload of a text of Megatron-LM options, its stack, and the assumptions that come with them."""

from __future__ import annotations

import re
from typing import Any

from costmodel.exchange.foreign_keys import UNKNOWN_STATES
from costmodel.exchange.imported import OriginValue
from costmodel.exchange.launcher_options import launched_accelerators
from costmodel.exchange.megatron.flags import MegatronFlags
from costmodel.exchange.megatron.options import OPTIMIZERS, OVERLAPS, RECIPES


def workload(flags: MegatronFlags, dp: OriginValue | None) -> dict[str, Any]:
    """The workload as a mapping of values with origins."""
    sequence = flags.first("seq-length", "encoder-seq-length")
    if not sequence.value:
        flags.need_option(("seq-length", "encoder-seq-length"))
        sequence = sequence._replace(value=1)
    longest = flags.number("max-position-embeddings")
    if longest and sequence.value > longest:
        sentence = f"--seq-length {sequence.value} is over --max-position-embeddings {longest}"
        flags.refuse("X005", sentence, sequence.place)
    tree: dict[str, Any] = {"kind": flags.fixed("training", "a training script"), "sequence": sequence}
    batch = _global_batch(flags, dp)
    if batch is not None:
        tree["global_batch"] = batch
    tokens = _tokens(flags, sequence, batch)
    tree |= {"tokens": tokens} if tokens is not None else {}
    return tree | {"precision": _precision(flags), "gradients": _gradients(flags), "optimizer": _optimizer(flags)}


def _global_batch(flags: MegatronFlags, dp: OriginValue | None) -> OriginValue | None:
    batch = flags["global-batch-size"]
    if flags["step-batch-size-schedule"].value:
        return _scheduled(flags, batch)
    if flags["rampup-batch-size"].value is not None:
        flags.lose("approximated", "the batch grows to its size: here it has it from the start", "rampup-batch-size")
    if batch.value:
        return batch
    if dp is None:
        return None
    micro = flags.number("micro-batch-size", 1)
    return flags.derived(micro * dp.value, "micro-batch × dp, where it is left out", "micro-batch-size")


def _scheduled(flags: MegatronFlags, batch: OriginValue) -> OriginValue | None:
    """The last batch size of a schedule such as 0:512 1000:1024."""
    schedule = flags["step-batch-size-schedule"]
    if batch.value and not flags.statement.resolved:
        sentence = "--step-batch-size-schedule and --global-batch-size exclude each other"
        flags.refuse("X005", sentence, schedule.place)
        return batch
    sizes = re.findall(r":(\d{1,9})\b", " ".join(schedule.value))
    if not sizes:
        flags.refuse("X005", "--step-batch-size-schedule has no sizes", schedule.place)
        return None
    flags.lose("approximated", "the batch grows by a schedule: here it has its last size", "step-batch-size-schedule")
    return schedule._replace(value=int(sizes[-1]))


def _tokens(flags: MegatronFlags, sequence: OriginValue, batch: OriginValue | None) -> OriginValue | None:
    iterations, samples = flags["train-iters"], flags["train-samples"]
    if iterations.value and samples.value:
        flags.refuse("X005", "--train-iters and --train-samples exclude each other", samples.place)
    if samples.value:
        return flags.derived(samples.value * sequence.value, "samples × sequence", "train-samples")
    if iterations.value and batch is not None:
        found = iterations.value * batch.value * sequence.value
        return flags.derived(found, "iterations × global batch × sequence", "train-iters")
    return None


# --- types


def _precision(flags: MegatronFlags) -> OriginValue:
    wide = [name for name in ("bf16", "fp16") if flags.on(name)]
    eight, four = flags["fp8-format"], flags["fp4-format"]
    if len(wide) > 1 or (eight.value and four.value):
        flags.refuse("X005", "of two types to train in one can stand", flags["fp16"].place or four.place)
    if not wide:
        if not flags.sound("bf16", "fp16"):
            return flags["bf16"]._replace(value="bf16")
        sentence = "neither --bf16 nor --fp16: training in fp32, which is not read from a script"
        flags.refuse(
            "X003",
            sentence,
            eight.place,
            "write --bf16 into the text if it is meant",
        )
        return flags["bf16"]._replace(value="bf16")
    for format_, recipe, names in ((four, "fp4-recipe", {"nvfp4": "nvfp4"}), (eight, "fp8-recipe", RECIPES)):
        if format_.value:
            chosen = flags[recipe]
            if chosen.value not in names:
                flags.refuse("X003", f"--{recipe} {chosen.value}: a recipe in code", chosen.place)
            if wide == ["fp16"]:
                flags.refuse("X003", "narrow types beside fp16: no workload expresses both", format_.place)
            text = f"{format_.value}, recipe {chosen.value}"
            return flags.derived(names.get(chosen.value, "fp8"), text, recipe, "fp4-format", "fp8-format")
    return flags[wide[0]]._replace(value=wide[0])


def _gradients(flags: MegatronFlags) -> OriginValue:
    """The gradient type: by default fp32 with bf16 weights, and fp16 with fp16 weights."""
    narrow, wide = flags["grad-reduce-in-bf16"], flags["accumulate-allreduce-grads-in-fp32"]
    if flags.on("fp16"):
        return wide._replace(value="fp32") if wide.value else flags.derived("fp16", "the type of the weights", "fp16")
    if narrow.value or (flags.statement.resolved and not wide.value):
        return narrow._replace(value="bf16")
    if flags["main-grads-dtype"].value == "bf16" and not wide.value:
        return flags["main-grads-dtype"]
    return wide._replace(value="fp32") if wide.value else flags.derived("fp32", "fp32 beside bf16", "bf16")


def _optimizer(flags: MegatronFlags) -> OriginValue:
    kind = flags["optimizer"]
    name = OPTIMIZERS.get(kind.value)
    if name is None:
        hint = "write --optimizer adam into a copy, then --set workload.optimizer=NAME where it is estimated"
        flags.refuse("X003", f"--optimizer {kind.value}: {UNKNOWN_STATES}", kind.place, hint)
        return kind._replace(value="adamw")
    moments = {flags["exp-avg-dtype"].value, flags["exp-avg-sq-dtype"].value}
    if name != "adamw" or moments == {"fp32"}:
        return kind._replace(value=name)
    if not flags.on("use-precision-aware-optimizer"):
        flags.lose("ignored", "types of moments count with --use-precision-aware-optimizer alone", "exp-avg-dtype")
        return kind._replace(value=name)
    if moments == {"bf16"}:
        return flags.derived("adamw-bf16", "moments in bf16", "exp-avg-dtype", "exp-avg-sq-dtype")
    flags.lose(
        "not expressible", f"moments in {' and '.join(sorted(map(str, moments)))}: here in fp32", "exp-avg-dtype"
    )
    return kind._replace(value=name)


# --- stack and assumptions


def stack(flags: MegatronFlags) -> tuple[OriginValue, dict[str, Any]]:
    """The name of the stack, and the assumptions that make it behave as the text states."""
    assume: dict[str, Any] = {}
    experts = _expert_assumptions(flags) if flags["num-experts"].value else {}
    if flags.on("use-torch-fsdp2"):
        return flags["use-torch-fsdp2"]._replace(value="fsdp2"), {"experts": experts} if experts else {}
    counted = [
        name for name in OVERLAPS if name != "tp-comm-overlap" or flags.number("tensor-model-parallel-size", 1) > 1
    ]
    overlapped = [name for name in counted if flags.on(name)]
    if not overlapped:
        name = flags.derived("megatron-lm", "nothing overlaps", *counted)
    else:
        name = flags.derived("megatron-core", "communication overlaps", *overlapped)
        missing = {OVERLAPS[other]: other for other in counted if other not in overlapped}
        if "dp" in missing and "weights" not in missing:
            flags.refuse(
                "X005", "--overlap-param-gather needs --overlap-grad-reduce", flags["overlap-param-gather"].place
            )
        if missing:
            assume["overlap"] = {key: flags[other]._replace(value=0) for key, other in missing.items()}
    return name, assume | ({"experts": experts} if experts else {})


def _expert_assumptions(flags: MegatronFlags) -> dict[str, OriginValue]:
    dispatcher = flags["moe-token-dispatcher-type"]
    if dispatcher.value == "allgather":
        sentence = "tokens are gathered on all ranks of ep (allgather), here sent to their experts alone"
        flags.lose("not expressible", sentence, "moe-token-dispatcher-type")
    found = {"deduplicated": dispatcher._replace(value=dispatcher.value == "flex")}
    capacity = flags["moe-expert-capacity-factor"]
    return found | ({"capacity": capacity} if capacity.value and capacity.value > 0 else {})


def dropped(flags: MegatronFlags) -> None:
    """A loss if the text trains with dropout, which is on by default."""
    for name in ("hidden-dropout", "attention-dropout"):
        value = flags[name].value
        if value is not None and float(value) > 0:
            sentence = f"--{name} {float(value):g}: masks are stored; set kernels.dropout of a stack"
            flags.lose("approximated", sentence, name)


# --- accelerators


def accelerators(flags: MegatronFlags) -> dict[str, OriginValue]:
    """The number of accelerators: the world size in a log, else the counts of the launcher, with its nodes."""
    if flags["world-size"].value:
        return {"accelerators": flags["world-size"]}
    return launched_accelerators(flags.statement.launch)
