"""The plan of a text of Megatron-LM options, and the rules that Megatron-LM itself holds it to."""

from __future__ import annotations

import math
from typing import Any

from costmodel.exchange.imported import OriginValue
from costmodel.exchange.importers.megatron.flags import MegatronFlags
from costmodel.exchange.importers.megatron.pipeline import pipeline
from costmodel.exchange.importers.megatron.words import DEGREES, EXCHANGES, MODULES, SHARDED
from costmodel.ground.errors import Place


def plan(flags: MegatronFlags, accelerators: OriginValue | None) -> dict[str, Any]:
    """The plan as a mapping whose leaves are values with origins."""
    degrees = _degrees(flags)
    tree: dict[str, Any] = {}
    dp = _data_parallel(flags, degrees, accelerators)
    if dp is not None:
        tree["dp"] = dp
    tree |= degrees
    tree |= pipeline(flags)
    tree["micro_batch"] = _micro_batch(flags)
    tree |= _sharding(flags)
    tree |= _recompute(flags)
    tree |= _offload(flags)
    tree["sequence_parallel"] = _sequence_parallel(flags)
    mapping = flags["use-tp-pp-dp-mapping"]
    tree["order"] = mapping._replace(value="tp-cp-pp-dp" if mapping.value else "tp-cp-dp-pp")
    return tree


# --- degrees


def _degrees(flags: MegatronFlags) -> dict[str, OriginValue]:
    found = {key: flags[name] for key, name in DEGREES.items()}
    if flags.given("model-parallel-size"):
        found["tp"] = flags["model-parallel-size"]
    for key, value in found.items():
        if not value.value:
            flags.need_option((DEGREES[key],))
            found[key] = value._replace(value=1)
    if flags["num-experts"].value:
        etp = flags["expert-tensor-parallel-size"]
        found["etp"] = (
            etp if etp.value else flags.derived(found["tp"].value, "as tp, where it is left out", "num-experts")
        )
        if flags["num-experts"].value % found["ep"].value:
            sentence = f"ep {found['ep'].value} does not divide {flags['num-experts'].value} experts"
            flags.refuse("X005", sentence, found["ep"].place)
    elif found["ep"].value > 1:
        flags.refuse("X005", "--expert-model-parallel-size needs --num-experts", found["ep"].place)
    if found["cp"].value > 1:
        found |= _context(flags, found["cp"])
    return found


def _context(flags: MegatronFlags, cp: OriginValue) -> dict[str, OriginValue]:
    sequence = flags.first("seq-length", "encoder-seq-length")
    if sequence.value and sequence.value % (2 * cp.value):
        flags.refuse("X005", f"--seq-length {sequence.value} is no multiple of 2 × cp {cp.value}", sequence.place)
    kinds = flags["cp-comm-type"]
    if not kinds.value:
        return {}
    if len(set(kinds.value)) > 1 or kinds.value[0] not in EXCHANGES:
        sentence = f"--cp-comm-type {' '.join(kinds.value[:8])}: one way for all layers can be stated, p2p here"
        flags.lose("not expressible", sentence, "cp-comm-type")
        return {}
    return {"cp_type": kinds._replace(value=EXCHANGES[kinds.value[0]])}


def _data_parallel(
    flags: MegatronFlags, degrees: dict[str, OriginValue], accelerators: OriginValue | None
) -> OriginValue | None:
    """What the accelerators leave for data parallelism, checked as Megatron-LM checks it."""
    if accelerators is None:
        hint = "give the accelerators: nodes, and how many each has"
        flags.need("the number of accelerators is not stated", hint)
        return None
    world, size = int(accelerators.value), {key: value.value for key, value in degrees.items() if key != "cp_type"}
    inner = size["tp"] * size["pp"] * size["cp"]
    outer = size["etp"] * size["ep"] * size["pp"] if "etp" in size else 1  # experts are cut a second way
    at = next((value.place for value in (*degrees.values(), accelerators) if value.place is not None), None)
    if world % inner:
        sentence = f"tp {size['tp']} × pp {size['pp']} × cp {size['cp']} do not divide {world:,} accelerators"
        flags.refuse(
            "X005", sentence, at, f"at least {math.lcm(inner, outer):,} accelerators, and a multiple of {inner:,}"
        )
        return None
    if world % outer:
        sentence = f"etp {size['etp']} × ep {size['ep']} × pp {size['pp']} do not divide {world:,} accelerators"
        hint = f"dp {world // inner} cannot hold ep; at least {math.lcm(inner, outer):,} accelerators"
        flags.refuse("X005", sentence, at, hint)
        return None
    found = flags.derived(world // inner, "accelerators over tp, pp and cp")
    _check_batch(flags, world // inner)
    return found


def _check_batch(flags: MegatronFlags, dp: int) -> None:
    batch, micro = flags["global-batch-size"], flags.number("micro-batch-size")
    if batch.value and micro and batch.value % (micro * dp):
        sentence = f"--global-batch-size {batch.value} is no multiple of micro-batch {micro} × dp {dp}"
        flags.refuse("X005", sentence, batch.place)


def _micro_batch(flags: MegatronFlags) -> OriginValue:
    value = flags.first("micro-batch-size", "batch-size")
    if not value.value:
        flags.need_option(("micro-batch-size", "batch-size"))
        return value._replace(value=1)
    return value


def _sequence_parallel(flags: MegatronFlags) -> OriginValue:
    value = flags["sequence-parallel"]
    if value.value and flags.number("tensor-model-parallel-size", 1) <= 1:
        text = "--sequence-parallel is switched off at tp 1"
        flags.lose("ignored", text, "sequence-parallel")
        return flags.derived(False, text, "sequence-parallel")
    return value


# --- sharding, recompute, offload


def _sharding(flags: MegatronFlags) -> dict[str, OriginValue]:
    copies = flags["num-distributed-optimizer-instances"]
    found = {"dp_replicate": copies} if (copies.value or 1) > 1 else {}
    if flags.on("use-torch-fsdp2"):
        _check_fsdp2(flags)
        kept = flags["torch-fsdp2-no-reshard-after-forward"]
        return found | {"zero": OriginValue(2 if kept.value else 3, flags["use-torch-fsdp2"].origin)}
    strategy = flags["data-parallel-sharding-strategy"]
    if flags.on("use-megatron-fsdp"):
        value = SHARDED.get(strategy.value or "", 3)
        return found | {"zero": flags.derived(value, f"Megatron-FSDP, {strategy.value}", "use-megatron-fsdp")}
    if flags.given("data-parallel-sharding-strategy"):
        sentence = "--data-parallel-sharding-strategy means nothing without --use-megatron-fsdp"
        flags.lose("ignored", sentence, "data-parallel-sharding-strategy")
    sharded = flags["use-distributed-optimizer"]
    if flags.on("overlap-param-gather") and not (sharded.value or flags["optimizer"].value == "dist_muon"):
        sentence = "--overlap-param-gather needs --use-distributed-optimizer or --use-megatron-fsdp"
        flags.refuse("X005", sentence, flags["overlap-param-gather"].place)
    return found | {"zero": sharded._replace(value=int(bool(sharded.value)))}


def _check_fsdp2(flags: MegatronFlags) -> None:
    at = flags["use-torch-fsdp2"].place
    for name, key in (("pipeline-model-parallel-size", "pp"), ("expert-model-parallel-size", "ep")):
        if flags.number(name, 1) > 1:
            flags.refuse("X005", f"--use-torch-fsdp2 works with {key} 1 alone", at)
    if flags.on("use-distributed-optimizer"):
        flags.refuse("X005", "--use-torch-fsdp2 and --use-distributed-optimizer exclude each other", at)
    if not flags.on("untie-embeddings-and-output-weights"):
        flags.refuse("X005", "--use-torch-fsdp2 needs --untie-embeddings-and-output-weights", at)


def _recompute(flags: MegatronFlags) -> dict[str, OriginValue]:
    mode = _granularity(flags)
    found = {"recompute": mode}
    method = flags.first("recompute-method", "activations-checkpoint-method")
    layers = flags.first("recompute-num-layers", "activations-checkpoint-num-layers")
    if mode.value == "full":
        found |= {"recompute_method": method} if method.value else {}
        found |= {"recompute_layers": layers} if layers.value else {}
        if flags["recompute-granularity"].value and not (method.value and layers.value):
            sentence = "full recompute needs --recompute-method and --recompute-num-layers"
            flags.refuse("X005", sentence, mode.place)
    if mode.value == "selective":
        if method.value:
            flags.refuse("X005", "selective recompute takes no --recompute-method", method.place)
        found |= _modules(flags)
    return found


def _granularity(flags: MegatronFlags) -> OriginValue:
    if flags.on("recompute-activations"):
        return flags["recompute-activations"]._replace(value="selective")
    mode = flags["recompute-granularity"]
    if mode.value:
        return mode
    if flags.on("moe-layer-recompute"):
        return flags["moe-layer-recompute"]._replace(value="selective")
    for name in ("checkpoint-activations", "activations-checkpoint-method"):
        if flags[name].value:
            return flags[name]._replace(value="full")
    return mode._replace(value="none")


def _modules(flags: MegatronFlags) -> dict[str, OriginValue]:
    names = flags["recompute-modules"]
    chosen = list(names.value or ())
    if flags.on("moe-layer-recompute"):
        chosen = [*(chosen or ["core_attn"]), *(["moe"] if "moe" not in chosen else [])]
    lost = [name for name in chosen if name not in MODULES]
    if lost:
        flags.lose("not expressible", f"--recompute-modules {' '.join(lost)}", "recompute-modules")
    kept = [MODULES[name] for name in dict.fromkeys(chosen) if name in MODULES]
    return {"recompute_modules": names._replace(value=kept)} if kept else {}


def _offload(flags: MegatronFlags) -> dict[str, OriginValue]:
    what: list[str] = []
    places: list[Place | None] = []
    found: dict[str, OriginValue] = {}
    if flags.on("optimizer-cpu-offload"):
        what.append("optimizer")
        places.append(flags["optimizer-cpu-offload"].place)
    layers = flags["cpu-offloading-num-layers"]
    if layers.value or flags.on("fine-grained-activation-offloading"):
        what.append("activations")
        places.append(layers.place or flags["fine-grained-activation-offloading"].place)
        if layers.value:
            found["offload_layers"] = layers
        else:
            sentence = "activations of single modules are offloaded, here those of whole layers"
            flags.lose("approximated", sentence, "fine-grained-activation-offloading")
    if not what:
        return {}
    name = "optimizer-cpu-offload" if "optimizer" in what else "cpu-offloading-num-layers"
    return {"offload": flags.derived(what, "what lives on the host", name), **found}
