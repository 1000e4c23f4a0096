"""torchtitan in its three generations: TOML, flags, and a recipe in Python, which is read as text."""

from __future__ import annotations

import re
from typing import Any

from costmodel.documents.reader.library import read
from costmodel.documents.text.yaml_tree import Mapping
from costmodel.exchange.imported import OriginValue
from costmodel.exchange.importers.launch.layer import Layer, layer_of
from costmodel.exchange.importers.launch.torchtitan_keys import (
    EVERY_MODEL,
    EXCHANGES,
    GENERATIONS,
    OF_TOML,
    SCHEDULES,
    SEVERAL_STAGES,
    TABLE,
    VERSION,
    VERSION_OF_TOML,
)
from costmodel.exchange.values.foreign_keys import ForeignKeys

_P, _T = "parallelism", "training"
_IN_TOKENS = (
    f"{_T}.num_tokens_per_microbatch_per_dp_rank", f"{_T}.num_tokens_per_train_step", f"{_T}.max_context_length",
    f"{_P}.num_pp_microbatches",
)  # fmt: skip
_IN_SEQUENCES = (
    f"{_T}.local_batch_size", f"{_T}.global_batch_size", f"{_T}.seq_len", f"{_T}.batch_size",
    f"{_P}.pipeline_parallel_microbatch_size",
)  # fmt: skip
_MODES = {"none": "none", "full": "full", "selective": "selective", "fullac": "full", "selectiveac": "selective"}
_FLAG = re.compile(r"--((?:[a-z_-]+(?:\.[a-z_0-9-]+)+)|config)(?:[ =]+(-?[^\s\\-][^\s\\]*))?(?=\s|\\|$)")
_NARROW = {"": "fp8-cs", "tensorwise": "fp8-cs", "rowwise": "fp8-row", "rowwise_with_gw_hp": "fp8-row"}


def read_torchtitan(tree: Mapping, file: str, generation: str) -> Layer:
    """What a configuration of torchtitan states."""
    named = generation == "recipe" and not isinstance(tree.get("activation_checkpoint"), dict)
    table = {key: rule for key, rule in TABLE.items() if named or key != "activation_checkpoint"}
    if generation == "toml":
        table |= OF_TOML
    keys = ForeignKeys(tree, table, file, VERSION_OF_TOML if generation == "toml" else VERSION)
    if generation == "recipe" and not any(keys.given(name) for name in _IN_SEQUENCES):
        generation = "tokens"
    if generation != "tokens" and any(keys.given(name) for name in _IN_TOKENS):
        _two_generations(keys)
    layer = Layer(GENERATIONS[generation])
    anchor = next((name for name in keys.stated if name.startswith((_P, _T))), "")
    layer.facts["stack"] = keys.derived("fsdp2", "torchtitan", anchor)
    _model(keys, layer)
    _degrees(keys, layer)
    _pipeline(keys, layer)
    _batch(keys, layer, recipe=generation == "tokens")
    _recompute(keys, layer)
    _types(keys, layer)
    _compiled(keys, layer)
    if generation == "flags":
        _of_recipe(keys, layer)
    return layer_of(keys, GENERATIONS[generation], layer)


def _compiled(keys: ForeignKeys, layer: Layer) -> None:
    """Blocks that are not compiled move as many bytes as eager PyTorch; left out, they are as the stack has them."""
    compiled = keys["compile.enable"]
    if compiled.value is None:
        keys.lose(
            "approximated", "blocks are compiled here, as in fsdp2; compile.enable is left out, and its default is off"
        )
    if compiled.value is False and layer.facts["stack"].value == "fsdp2":
        eager = read("stack", "fsdp1").kernels.traffic_factor
        layer.facts["stack.kernels.traffic_factor"] = compiled._replace(value=float(eager))


def _two_generations(keys: ForeignKeys) -> None:
    """A fault where the batch is counted in tokens, as today, and in sequences, as before."""
    new = next(name for name in _IN_TOKENS if keys.given(name))
    old = next((name for name in _IN_SEQUENCES if keys.given(name)), "")
    beside = f" beside {old}" if old else ""
    keys.refuse("X005", f"{new}{beside} is a key of another generation of torchtitan", new, "keep one of the two")


def _of_recipe(keys: ForeignKeys, layer: Layer) -> None:
    """Flags change a recipe that stands in no file here: no default is taken for the sizes that it sets."""
    recipe = keys["config"].value
    if not recipe:
        return
    for path in ("workload.sequence", "plan.micro_batch", "accumulation", "steps"):
        layer.weak.pop(path, None)
    sentence = f"what the recipe {str(recipe)[:60]} states and no flag repeats: print its configuration"
    keys.lose("not expressible", sentence, "config")


def _model(keys: ForeignKeys, layer: Layer) -> None:
    name, flavor = keys["model.name"], keys["model.flavor"]
    recipe = str(keys["config"].value or "")
    if recipe:
        sizes = {re.sub("[.-]", "_", "_".join(pair).lower()): pair for pair in EVERY_MODEL}
        meant = max((prefix for prefix in sizes if recipe.startswith(prefix)), key=len, default="")
        name, flavor = (keys["config"]._replace(value=part) for part in sizes.get(meant, (recipe, "")))
    found = EVERY_MODEL.get((str(name.value), str(flavor.value)))
    if found is not None:
        at = "model.flavor" if keys.given("model.flavor") else "config"
        layer.facts["model"] = keys.derived(found, f"{name.value} {flavor.value}", at)
    elif flavor.value:
        keys.lose(
            "not expressible", f"{name.value} {str(flavor.value)[:80]} is no model of the library", "model.flavor"
        )


def _degrees(keys: ForeignKeys, layer: Layer) -> None:
    shard, copies = keys[f"{_P}.data_parallel_shard_degree"], keys[f"{_P}.data_parallel_replicate_degree"]
    if shard.value != -1:
        layer.facts["shards"] = shard
    layer.fill("plan.dp_replicate", copies)
    whole = keys[f"{_P}.context_parallel_degree"].value == 1  # cp shards too
    replicated = whole and shard.value == 1 and (copies.value or 1) > 1
    pipelined = (keys[f"{_P}.pipeline_parallel_degree"].value or 1) > 1
    reshard = keys[f"{_P}.fsdp_reshard_after_forward"]
    stage = 2 if reshard.value == "never" or (reshard.value == "default" and pipelined) else 3
    old = keys[f"{_T}.data_parallel_type"]
    if old.value == "ddp" or replicated:
        layer.facts["plan.zero"] = (old if old.value == "ddp" else shard)._replace(value=0)
        layer.facts["stack"] = layer.facts["plan.zero"]._replace(value="ddp")
    else:
        layer.fill("plan.zero", reshard._replace(value=stage))
    tp = keys[f"{_P}.tensor_parallel_degree"]
    layer.fill("plan.tp", tp)
    if tp.value > 1 or not keys.given(f"{_P}.tensor_parallel_degree"):
        sharded = keys[f"{_P}.enable_sequence_parallel"]
        layer.fill("plan.sequence_parallel", sharded if tp.value > 1 else sharded._replace(value=False))
    else:
        layer.fill("plan.sequence_parallel", keys.derived(False, "tp is 1", f"{_P}.tensor_parallel_degree"))
    layer.fill("plan.cp", keys[f"{_P}.context_parallel_degree"])
    if keys[f"{_P}.context_parallel_degree"].value > 1:
        exchange = keys[f"{_P}.context_parallel_rotate_method"]
        layer.fill("plan.cp_type", exchange._replace(value=EXCHANGES[exchange.value]))
    if keys[f"{_P}.expert_parallel_degree"].value > 1:
        layer.fill("plan.ep", keys[f"{_P}.expert_parallel_degree"])
        layer.fill("plan.etp", keys[f"{_P}.expert_tensor_parallel_degree"])
    if keys[f"{_T}.enable_cpu_offload"].value:
        layer.fill("plan.offload", keys[f"{_T}.enable_cpu_offload"]._replace(value=["optimizer", "parameters"]))


def _pipeline(keys: ForeignKeys, layer: Layer) -> None:
    degree = keys[f"{_P}.pipeline_parallel_degree"]
    layer.fill("plan.pp", degree)
    if degree.value < 2:
        return
    name = keys[f"{_P}.pipeline_parallel_schedule"]
    schedule = SCHEDULES.get(str(name.value).lower())
    if schedule is None:
        keys.refuse("X003", f"schedule {str(name.value)[:80]}: no plan has it", f"{_P}.pipeline_parallel_schedule")
        return
    layer.fill("plan.schedule", name._replace(value=schedule))
    each = keys[f"{_P}.pipeline_parallel_layers_per_stage"]
    if each.value:
        layer.facts["layers_per_stage"] = each
    elif schedule in SEVERAL_STAGES:
        layer.facts["plan.vpp"] = keys.derived(2, f"two stages a rank under {name.value}", name.origin.text)
    less = [keys[f"{_P}.pipeline_parallel_{end}_stage_less_layers"] for end in ("first", "last")]
    splits = {(1, 1): "lighter-ends", (0, 0): "even", (1, 0): "lighter-first", (0, 1): "lighter-last"}
    split = splits.get((less[0].value, less[1].value))
    if split is None:
        sentence = f"{less[0].value} and {less[1].value} fewer layers at the ends: here as many everywhere"
        keys.lose("not expressible", sentence, f"{_P}.pipeline_parallel_first_stage_less_layers")
    else:
        layer.fill("plan.split", less[0]._replace(value=split))


def _batch(keys: ForeignKeys, layer: Layer, *, recipe: bool) -> None:
    sequence = keys[f"{_T}.max_context_length" if recipe else f"{_T}.seq_len"]
    layer.fill("workload.sequence", sequence)
    layer.fill("steps", keys[f"{_T}.steps"])
    local, total = _recipe_batch(keys, sequence) if recipe else _plain_batch(keys)
    if total.value != -1:
        layer.facts["workload.global_batch"] = total
    piped = (keys[f"{_P}.pipeline_parallel_degree"].value or 1) > 1
    if not piped:
        layer.fill("plan.micro_batch", local)
        return
    old = keys[f"{_P}.pipeline_parallel_microbatches"]
    if recipe or old.value:
        often = old if old.value else keys[f"{_P}.num_pp_microbatches"]
        micro = often._replace(value=max(1, local.value // max(1, often.value)))
    else:
        micro = keys[f"{_P}.pipeline_parallel_microbatch_size"]
    if not micro.value or local.value % micro.value:
        sentence = f"the local batch {local.value} is no multiple of the pipeline's micro-batch {micro.value}"
        keys.refuse("X005", sentence, f"{_P}.pipeline_parallel_microbatch_size")
        return
    layer.fill("plan.micro_batch", micro)
    if total.value == -1:
        layer.fill("accumulation", local._replace(value=local.value // micro.value))


def _plain_batch(keys: ForeignKeys) -> tuple[OriginValue, OriginValue]:
    return keys[f"{_T}.local_batch_size"], keys[f"{_T}.global_batch_size"]


def _recipe_batch(keys: ForeignKeys, sequence: OriginValue) -> tuple[OriginValue, OriginValue]:
    """Sequences of what the newest generation counts in tokens."""
    found = []
    for name in ("num_tokens_per_microbatch_per_dp_rank", "num_tokens_per_train_step"):
        tokens = keys[f"{_T}.{name}"]
        if tokens.value > 0:
            if not sequence.value or tokens.value % sequence.value:
                sentence = f"{name} {tokens.value} is no multiple of {sequence.value} tokens of a sequence"
                keys.refuse("X005", sentence, f"{_T}.{name}")
            tokens = tokens._replace(value=max(1, tokens.value // max(1, sequence.value)))
        found.append(tokens)
    return found[0], found[1]


def _recompute(keys: ForeignKeys, layer: Layer) -> None:
    if "activation_checkpoint" in keys.table:
        mode = keys["activation_checkpoint"]
        word = re.sub(r"(\.Config)?(\(.*)?$", "", str(mode.value or "none")).lower()
        mode = mode._replace(value=word)
    else:
        mode = keys["activation_checkpoint.mode"]
    found = _MODES.get(str(mode.value).lower())
    if found is None:
        sentence = f"activation checkpointing {str(mode.value)[:80]}: no plan has it"
        keys.refuse("X003", sentence, "activation_checkpoint.mode")
        return
    layer.fill("plan.recompute", mode._replace(value=found))
    if "activation_checkpoint" not in keys.table and found == "selective":
        option = keys["activation_checkpoint.selective_ac_option"]
        if option.value != "op":
            sentence = f"one in {str(option.value)[:20]} layers is recomputed: here single operations of all"
            keys.lose("approximated", sentence, "activation_checkpoint.selective_ac_option")


def _types(keys: ForeignKeys, layer: Layer) -> None:
    if keys[f"{_T}.dtype"].value == "bfloat16":
        sentence = "weights, gradients and moments in bf16: here fp32 states"
        keys.lose("not expressible", sentence, f"{_T}.dtype")
    wide = keys[f"{_T}.mixed_precision_param"]
    layer.fill("workload.precision", wide._replace(value="fp32" if wide.value == "float32" else "bf16"))
    summed = keys[f"{_T}.mixed_precision_reduce"]
    layer.fill("workload.gradients", summed._replace(value="fp32"))
    layer.fill("workload.optimizer", keys["optimizer.name"]._replace(value="adamw"))
    converters = str(keys["model.converters"].value or "").lower()
    converters = "float8" if converters in ("true", "dynamic", "delayed") else converters
    if "lora" in converters:
        keys.lose("not expressible", "adapters, by a converter: set workload.tuning", "model.converters")
    if "nvfp4" in converters:
        layer.facts["workload.precision"] = keys.derived("nvfp4", "a converter to NVFP4", "model.converters")
    elif "mx" in converters:
        layer.facts["workload.precision"] = keys.derived("mxfp8", "a converter to MX", "model.converters")
    elif "float8" in converters:
        recipe = str(keys["quantize.linear.float8.recipe_name"].value or "")
        if recipe not in _NARROW:
            keys.refuse("X003", f"recipe {recipe[:80]} of float8", "quantize.linear.float8.recipe_name")
        found = keys.derived(_NARROW.get(recipe, "fp8-cs"), f"float8, {recipe or 'tensorwise'}", "model.converters")
        layer.facts["workload.precision"] = found


def flags_tree(text: str) -> dict[str, Any]:
    """The flags of torchtitan in a command, as the tree that they stand for."""
    tree: dict[str, Any] = {}
    for found in _FLAG.finditer(text):
        *above, last = found.group(1).replace("-", "_").split(".")
        off = last.startswith("no_")
        here = tree
        for part in above:
            inner = here.setdefault(part, {})
            here = inner if isinstance(inner, dict) else {}
        here[last.removeprefix("no_") if off else last] = found.group(2) if found.group(2) is not None else not off
    return tree
