"""The plan that Megatron-LM options state, checked as Megatron-LM does, and the options that express a plan."""

from __future__ import annotations

import math
import re
from typing import Any

from costmodel.exchange.import_result import OriginValue
from costmodel.exchange.megatron.options import ENDS, EXCHANGES, MODULES, NAME, OF_LAYOUT, SHARDED, SPLITS, spelling
from costmodel.exchange.megatron.stated_options import MegatronFlags
from costmodel.exchange.training.job import Job, TrainingRemarks
from costmodel.ground.errors import Place

_DEGREES = {OF_LAYOUT[name].key.removeprefix("plan."): name for name in (
    "tensor-model-parallel-size", "pipeline-model-parallel-size", "context-parallel-size", "expert-model-parallel-size",
)}  # fmt: skip


def plan_of_options(flags: MegatronFlags, accelerators: OriginValue | None) -> dict[str, Any]:
    """The plan as a mapping of values with origins."""
    degrees = _degree_keys(flags)
    tree: dict[str, Any] = {}
    dp = _data_parallel(flags, degrees, accelerators)
    if dp is not None:
        tree["dp"] = dp
    tree |= degrees
    tree |= pipeline_keys(flags)
    tree["micro_batch"] = _micro_batch(flags)
    tree |= _sharding_keys(flags)
    tree |= _recompute_keys(flags)
    tree |= _offload_keys(flags)
    tree["sequence_parallel"] = _sequence_parallel(flags)
    tree["order"] = flags["use-tp-pp-dp-mapping"]
    return tree


# --- degrees


def _degree_keys(flags: MegatronFlags) -> dict[str, OriginValue]:
    """The degrees tp, pp, cp, ep and etp of a plan."""
    found = {key: flags[name] for key, name in _DEGREES.items()}
    for key, value in found.items():
        if not value.value:
            flags.need_option((_DEGREES[key],))
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
        found |= _context_keys(flags, found["cp"])
    return found


def _context_keys(flags: MegatronFlags, cp: OriginValue) -> dict[str, OriginValue]:
    """The kind of context-parallel exchange; a fault if cp does not divide the sequence."""
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
    """The data-parallel degree that the accelerators leave, checked like Megatron-LM does."""
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
    value = flags["micro-batch-size"]
    if not value.value:
        flags.need_option(("micro-batch-size",))
        return value._replace(value=1)
    return value


def _sequence_parallel(flags: MegatronFlags) -> OriginValue:
    """Whether sequence parallelism is on; Megatron switches it off without tensor parallelism."""
    value = flags["sequence-parallel"]
    if value.value and flags.number("tensor-model-parallel-size", 1) <= 1:
        text = "--sequence-parallel is switched off at tp 1"
        flags.lose("ignored", text, "sequence-parallel")
        return flags.derived(False, text, "sequence-parallel")
    return value


# --- sharding, recompute, offload


def _sharding_keys(flags: MegatronFlags) -> dict[str, OriginValue]:
    """The ZeRO stage and the number of shard replicas."""
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
    """Records a fault for each option that torch FSDP 2 excludes."""
    at = flags["use-torch-fsdp2"].place
    for name, key in (("pipeline-model-parallel-size", "pp"), ("expert-model-parallel-size", "ep")):
        if flags.number(name, 1) > 1:
            flags.refuse("X005", f"--use-torch-fsdp2 works with {key} 1 alone", at)
    if flags.on("use-distributed-optimizer"):
        flags.refuse("X005", "--use-torch-fsdp2 and --use-distributed-optimizer exclude each other", at)
    if flags.on("untie-embeddings-and-output-weights"):  # whose row states tied ones
        flags.refuse("X005", "--use-torch-fsdp2 needs --untie-embeddings-and-output-weights", at)


def _recompute_keys(flags: MegatronFlags) -> dict[str, OriginValue]:
    """The recompute mode with its method, layers and modules."""
    mode = _recompute_granularity(flags)
    found = {"recompute": mode}
    method, layers = flags["recompute-method"], flags["recompute-num-layers"]
    if mode.value == "full":
        found |= {"recompute_method": method} if method.value else {}
        found |= {"recompute_layers": layers} if layers.value else {}
        if flags["recompute-granularity"].value and not (method.value and layers.value):
            sentence = "full recompute needs --recompute-method and --recompute-num-layers"
            flags.refuse("X005", sentence, mode.place)
    if mode.value == "selective":
        if method.value:
            flags.refuse("X005", "selective recompute takes no --recompute-method", method.place)
        found |= _recompute_modules(flags)
    return found


def _recompute_granularity(flags: MegatronFlags) -> OriginValue:
    """The recompute mode: full, selective or none."""
    if flags.on("recompute-activations"):
        return flags["recompute-activations"]._replace(value="selective")
    mode = flags["recompute-granularity"]
    if mode.value:
        return mode
    if flags.on("moe-layer-recompute"):
        return flags["moe-layer-recompute"]._replace(value="selective")
    return mode._replace(value="none")


def _recompute_modules(flags: MegatronFlags) -> dict[str, OriginValue]:
    """The modules that selective recompute names, and a loss for those that are not modelled."""
    names = flags["recompute-modules"]
    chosen = list(names.value or ())
    if flags.on("moe-layer-recompute"):
        chosen = [*(chosen or ["core_attn"]), *(["moe"] if "moe" not in chosen else [])]
    lost = [name for name in chosen if name not in MODULES]
    if lost:
        flags.lose("not expressible", f"--recompute-modules {' '.join(lost)}", "recompute-modules")
    kept = [MODULES[name] for name in dict.fromkeys(chosen) if name in MODULES]
    return {"recompute_modules": names._replace(value=kept)} if kept else {}


def _offload_keys(flags: MegatronFlags) -> dict[str, OriginValue]:
    """What is offloaded to the host: optimizer, activations, and of how many layers."""
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


_VIRTUAL = (
    "num-layers-per-virtual-pipeline-stage",
    "num-virtual-stages-per-pipeline-rank",
    "pipeline-model-parallel-layout",
)
_REPEATED = (re.compile(r"\(([^()]+)\)\*(\d{1,4})"), re.compile(r"(.)\*(\d{1,4})"))
_LONGEST_LAYOUT = 20_000


def pipeline_keys(flags: MegatronFlags) -> dict[str, OriginValue]:
    """Pipeline chunks, schedule and split of the stages."""
    stages = flags.number("pipeline-model-parallel-size", 1)
    given = [name for name in _VIRTUAL if flags[name].value is not None]
    if len(given) > 1:
        sentence = f"give at most one of --{', --'.join(_VIRTUAL)}"
        flags.refuse("X005", sentence, flags[given[1]].place)
    found = _split_keys(flags, stages) if stages > 1 else {}
    chunks = _chunks_per_rank(flags, stages)
    if chunks is not None and chunks.value > 1:
        if stages < 2:
            flags.refuse("X005", "chunks of a pipeline rank need --pipeline-model-parallel-size over 1", chunks.place)
        found["vpp"] = chunks
    if stages > 1:
        kind = "interleaved" if "vpp" in found else "1f1b"
        text = "the schedule of several chunks" if "vpp" in found else "the schedule of one chunk"
        found["schedule"] = flags.fixed(kind, text)
    return found


def _chunks_per_rank(flags: MegatronFlags, stages: int) -> OriginValue | None:
    """The number of model chunks per pipeline rank (vpp); None if the options contradict each other."""
    pattern = flags.first("hybrid-layer-pattern", "hybrid-override-pattern")
    if pattern.value and "|" in pattern.value:
        segments = pattern.value.split("/")[0].count("|") + 1
        if segments % stages == 0:
            return pattern._replace(value=segments // stages)
        flags.refuse("X005", f"{segments} segments of the pattern do not fill {stages} stages", pattern.place)
        return None
    each, chunks = flags[_VIRTUAL[0]], flags[_VIRTUAL[1]]
    if chunks.value:
        return chunks
    if each.value:
        return _chunks_of_layers(flags, stages, each)
    printed = flags["virtual-pipeline-model-parallel-size"]
    return printed if printed.value else None


def _chunks_of_layers(flags: MegatronFlags, stages: int, each: OriginValue) -> OriginValue | None:
    """The number of chunks, from the layers per chunk; embedding and loss may count as layers."""
    layers = flags.number("num-layers") + sum(map(flags.on, ENDS))
    for name in ("decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers"):
        if flags[name].value:
            flags.refuse("X005", f"--{name} goes with --{_VIRTUAL[1]} alone", each.place)
    if layers % (stages * each.value):
        sentence = f"{layers} layers do not go into {stages} stages of chunks of {each.value}"
        flags.refuse("X005", sentence, each.place, _ends_that_divide(layers, stages * each.value))
        return None
    return each._replace(value=layers // stages // each.value)


def _ends_that_divide(layers: int, over: int) -> str:
    """Which ends to count as layers so that all layers divide; empty if that does not do it.

    >>> _ends_that_divide(126, 16), _ends_that_divide(125, 16)
    ('--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split counts both ends as layers', '')
    """
    if (layers + 1) % over == 0:
        return f"--{ENDS[1]} counts the loss as a layer"
    return f"--{ENDS[0]} --{ENDS[1]} counts both ends as layers" if (layers + 2) % over == 0 else ""


def _split_keys(flags: MegatronFlags, stages: int) -> dict[str, OriginValue]:
    """How layers are split over pipeline stages."""
    layout = flags["pipeline-model-parallel-layout"]
    if layout.value:
        return _layout_keys(flags, stages, layout)
    found = {}
    for key, name in (("first_stage_layers", "first"), ("last_stage_layers", "last")):
        value = flags[f"decoder-{name}-pipeline-num-layers"]
        if value.value:
            found[key] = value
    if found:
        return found
    split = SPLITS.get((flags.on(ENDS[0]), flags.on(ENDS[1])))
    if split is not None:
        return {"split": flags.derived(split, "embedding and loss count as layers", *ENDS)}
    if not flags.first("hybrid-layer-pattern", "hybrid-override-pattern").value and flags.number("num-layers") % stages:
        sentence = f"{flags.number('num-layers')} layers do not go into {stages} stages"
        ends = _ends_that_divide(flags.number("num-layers"), stages)
        hint = f"{ends}{', or ' if ends else ''}--decoder-first-pipeline-num-layers makes them uneven"
        flags.refuse("X005", sentence, flags["num-layers"].place, hint)
    return {"split": flags.fixed("even", "as many layers in every stage")}


def _layout_keys(flags: MegatronFlags, stages: int, layout: OriginValue) -> dict[str, OriginValue]:
    """The chunks and the layers of each stage from a layout such as Et*3|(tt|)*29,m|L."""
    segments = _segments(layout.value)
    if segments is None or len(segments) % stages:
        sentence = f"--pipeline-model-parallel-layout has no stages for {stages} ranks"
        flags.refuse("X005", sentence, layout.place)
        return {}
    layers = [sum(segment.count("t") for segment in segments[rank::stages]) for rank in range(stages)]
    found: dict[str, OriginValue] = {}
    if len(segments) > stages:
        found["vpp"] = layout._replace(value=len(segments) // stages)
    middle = set(layers[1:-1])
    if len(set(layers)) == 1:
        return found | {"split": layout._replace(value="even")}
    if len(middle) > 1 or 0 in (layers[0], layers[-1]):
        counts = ", ".join(map(str, layers[:16]))
        sentence = f"stages of {counts} layers: only the first and the last stage can have layers of their own number"
        flags.lose("not expressible", sentence, "pipeline-model-parallel-layout")
        return found
    found["first_stage_layers"] = layout._replace(value=layers[0])
    return found | {"last_stage_layers": layout._replace(value=layers[-1])}


def _segments(text: str) -> list[str] | None:
    """The segments of a layout, with its repetitions expanded."""
    text = text.replace(",", "")
    for pattern in _REPEATED:
        for repeated in pattern.finditer(text):
            if len(repeated.group(1)) * int(repeated.group(2)) > _LONGEST_LAYOUT:
                return None
        text = pattern.sub(lambda found: found.group(1) * int(found.group(2)), text)
        if len(text) > _LONGEST_LAYOUT:
            return None
    return text.split("|") if re.fullmatch(r"[EtmL|]+", text) else None


# --- the options of a plan


def plan_options(job: Job, remarks: TrainingRemarks) -> dict[str, Any]:
    """The plan's options that code writes."""
    check_pipeline(job, remarks, NAME)
    return {**counted_end_options(job, ENDS), **_sharding_options(job), **_recompute_options(job, remarks)}


def check_pipeline(job: Job, remarks: TrainingRemarks, software: str) -> None:
    """Records faults for pipeline schedules and splits that software based on Megatron-LM does not support."""
    plan = job.plan
    if plan.pp > 1 and plan.schedule not in ("1f1b", "interleaved", None):
        remarks.refuse("plan.schedule", f"{plan.schedule} is no schedule of {software}", "1f1b, or interleaved")
    if plan.pp > 1 and plan.split in ("spread", "full-chunks"):
        hint = "plan.first_stage_layers and plan.last_stage_layers can be written"
        remarks.refuse("plan.split", f"{plan.split} needs a layout string, which is not written", hint)
    if plan.zero in (2, 3) and plan.order == "tp-cp-pp-dp" and plan.pp > 1:
        remarks.refuse("plan.order", "tp-cp-pp-dp does not go with Megatron-FSDP")


def counted_end_options(job: Job, ends: tuple[str, str]) -> dict[str, Any]:
    """Options that count the embedding or the loss as a layer of the first or last stage; ends: their names."""
    if job.plan.pp == 1:
        return {}
    counts_ends = next((counts for counts, split in SPLITS.items() if split == job.plan.split), ())
    return {option: True for option, counts in zip(ends, counts_ends, strict=False) if counts}


def recomputed_modules(job: Job, remarks: TrainingRemarks, software: str) -> list[str] | None:
    """The modules that are recomputed, if the plan states them."""
    plan = job.plan
    if plan.recompute != "selective" or plan.recompute_modules is None:
        return None
    lost = [name for name in plan.recompute_modules if name not in MODULES.values()]
    if lost:
        remarks.refuse("plan.recompute_modules", f"no module of {software} is {', '.join(lost)}")
    return [spelling(MODULES, name) for name in plan.recompute_modules if name in MODULES.values()]


def offloaded_layers(job: Job, remarks: TrainingRemarks, software: str) -> int | None:
    """The number of layers whose activations are offloaded to the host; faults for unsupported offloading."""
    plan = job.plan
    if "parameters" in plan.offload:
        remarks.refuse("plan.offload", f"{software} does not offload parameters")
    if plan.offload and plan.offload_to != "cpu":
        remarks.refuse("plan.offload_to", f"{software} offloads to the host's memory alone")
    if "activations" not in plan.offload:
        return None
    layers = sum(kind.count for kind in job.model.layers)
    wanted = layers if plan.offload_layers is None else plan.offload_layers
    if wanted >= layers:
        hint = f"--set plan.offload_layers={layers - 1:.0f}"
        remarks.refuse("plan.offload_layers", f"{software} offloads fewer than all layers", hint)
    return round(wanted)


def _sharding_options(job: Job) -> dict[str, Any]:
    zero = job.plan.zero
    if not zero:
        return {}
    if zero == 1:
        return {"use-distributed-optimizer": True}
    strategy = spelling(SHARDED, zero)
    return {"use-megatron-fsdp": True, "data-parallel-sharding-strategy": strategy, "ckpt-format": "fsdp_dtensor"}


def _recompute_options(job: Job, remarks: TrainingRemarks) -> dict[str, Any]:
    """Options for recomputed modules and for offloading to the host."""
    found: dict[str, Any] = {"optimizer-cpu-offload": True} if "optimizer" in job.plan.offload else {}
    modules, layers = recomputed_modules(job, remarks, NAME), offloaded_layers(job, remarks, NAME)
    if modules is not None:
        found["recompute-modules"] = " ".join(modules)
    return found | ({"cpu-offloading-num-layers": layers} if layers is not None else {})
