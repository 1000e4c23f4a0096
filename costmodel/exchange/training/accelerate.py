"""Reads and writes Accelerate: its configuration, its launcher, and training arguments in scripts and programs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any, NamedTuple

from costmodel.documents.text.yaml_tree import Mapping, key_at, put_at
from costmodel.exchange.foreign_keys import ForeignKeys, because
from costmodel.exchange.import_result import OriginValue
from costmodel.exchange.launcher_options import environment_facts, launched_accelerators, launcher_verdicts
from costmodel.exchange.option_rows import (
    Table,
    choice,
    lost,
    nested_sections,
    one_of,
    option,
    option_table,
    part,
    quiet,
    renamed_before_2023,
    switch,
    written,
)
from costmodel.exchange.serving.command_options import Spelling, option_words
from costmodel.exchange.shell import ShellCommand, Word, read_script
from costmodel.exchange.training.config_text import call_tree
from costmodel.exchange.training.file_facts import Layer, fill_rows, finished_layer
from costmodel.exchange.training.job import (
    NOWHERE,
    Job,
    TrainingFormat,
    TrainingRemarks,
    check_offload,
    check_whole_layers,
)
from costmodel.exchange.write_yaml import document_text
from costmodel.ground.errors import Fault, Place, fail

TITLE, VERSION = "YAML of accelerate 1.15", "accelerate 1.15.0"

_F, _P, _D, _M = "fsdp_config", "parallelism_config", "deepspeed_config", "megatron_lm_config"
STRATEGIES = {
    "FULL_SHARD": (3, False), "SHARD_GRAD_OP": (2, False), "NO_SHARD": (0, False),
    "HYBRID_SHARD": (3, True), "HYBRID_SHARD_ZERO2": (2, True),
    "1": (3, False), "2": (2, False), "3": (0, False), "4": (3, True), "5": (2, True),
}  # fmt: skip
_ENGINES = ("NO", "MULTI_GPU", "FSDP", "DEEPSPEED", "MEGATRON_LM")
_SHARD = ["optimizer", "parameters"]
_PLACES = one_of("none", "cpu", "nvme")
_NARROW = ("bf16", "fp16", "fp8")

TABLE = option_table(
    quiet("compute_environment"),
    part("distributed_type", "stack", "word", "NO"),
    option("num_machines", "nodes", "count", 1),
    part("num_processes", "accelerators", "whole"),
    quiet("machine_rank"),
    part("mixed_precision", "workload.precision", one_of("no", "fp16", "bf16", "fp8"), "no"),
    part(f"{_F}.fsdp_version", "stack", "count", 1),
    part(f"{_F}.fsdp_sharding_strategy", "plan.zero plan.dp_replicate", "word", "FULL_SHARD"),
    part(f"{_F}.fsdp_reshard_after_forward", "plan.zero", "text", True),
    quiet("auto_wrap_policy state_dict_type", f"{_F}.fsdp_"),
    renamed_before_2023({f"{_F}.{name}": f"{_F}.fsdp_{name}" for name in ("sharding_strategy", "offload_params")}),
    part(f"{_F}.fsdp_offload_params", "plan.offload", switch(_SHARD), False),
    part(f"{_F}.fsdp_activation_checkpointing", "plan.recompute", switch("full", "none"), False),
    option(f"{_P}.parallelism_config_dp_replicate_size", "plan.dp_replicate", "count", 1),
    option(f"{_P}.parallelism_config_dp_shard_size", "shards", "count", 1),
    option(f"{_P}.parallelism_config_tp_size", "plan.tp", "count", 1),
    option(f"{_P}.parallelism_config_cp_size", "plan.cp", "count", 1),
    option(f"{_P}.parallelism_config_cp_comm_strategy", "plan.cp_type",
        choice({"allgather": "all-gather", "alltoall": "p2p"}), "allgather",  # the second is a ring of shards
        cannot="ring attention of PyTorch has all-gather and p2p", when="where it counts"),
    part(f"{_P}.parallelism_config_sp_size", "plan.cp plan.cp_type", "count", 1),
    part(f"{_D}.zero_stage", "plan.zero", "count", 2),
    part(f"{_D}.gradient_accumulation_steps", "accumulation", "count"),
    part(f"{_D}.offload_optimizer_device", "plan.offload", _PLACES, "none"),
    part(f"{_D}.offload_param_device", "plan.offload", _PLACES, "none"),
    part(f"{_D}.deepspeed_config_file", "plan.zero", "word"),
    option(f"{_M}.megatron_lm_tp_degree", "plan.tp", "count", 1, when="never"),
    option(f"{_M}.megatron_lm_pp_degree", "plan.pp", "count", 1, when="never"),
    option(f"{_M}.megatron_lm_num_micro_batches", "accumulation", "count", 1, when="never"),
    option(f"{_M}.megatron_lm_sequence_parallelism", "plan.sequence_parallel", "flag", False, when="never"),
    option(f"{_M}.megatron_lm_recompute_activations", "plan.recompute", switch("selective", "none"), False,
           when="never"),
    option(f"{_M}.megatron_lm_use_distributed_optimizer", "plan.zero", switch(1, 0), False, when="never"),
    renamed_before_2023({"fp16": "mixed_precision: fp16"}),
    option("fp8_config", loss=("approximated", "fp8 by the engine named there: here scales of one step ago")),
    lost("not expressible", "runs on another machine than your own nodes", "sagemaker_inputs_file"),
    lost("not expressible", "no accelerator is used", "use_cpu"),
    lost("approximated", "kernels are compiled", "dynamo_config", {}),
    lost("not expressible", "saved activations live on the host", f"{_F}.fsdp_activation_checkpointing_offload "
           f"{_F}.fsdp_activation_cpu_offload"),
    quiet("debug main_training_function rdzv_backend same_network downcast_bf16 "
          "tpu_env tpu_use_cluster tpu_use_sudo tpu_name tpu_zone command_file commands tpu_vm gpu_ids "
          "main_process_ip main_process_port enable_cpu_affinity ipex_config mpirun_config tp_config "
            f"{_M}.megatron_lm_gradient_clipping"),
    quiet("transformer_layer_cls_to_wrap cpu_ram_efficient_loading "
          "sync_module_states use_orig_params min_num_params backward_prefetch backward_prefetch_policy "
          "forward_prefetch cpu_offload_ram", f"{_F}.fsdp_"),
    quiet(f"{_F}.min_num_params {_F}.transformer_layer_cls_to_wrap {_F}.backward_prefetch_policy"),
    quiet("cp_backend sp_backend sp_seq_length sp_seq_length_is_variable sp_attn_implementation",
          f"{_P}.parallelism_config_"),
    quiet("zero3_init_flag zero3_save_16bit_model gradient_clipping deepspeed_multinode_launcher deepspeed_hostfile "
          "offload_optimizer_nvme_path offload_param_nvme_path deepspeed_moe_layer_cls_names "
          "deepspeed_exclusion_filter deepspeed_inclusion_filter", f"{_D}."),
)  # fmt: skip


def read_accelerate(tree: Any, file: str) -> Layer:
    """The facts that a configuration of accelerate states."""
    keys = ForeignKeys(tree, TABLE, file, VERSION)
    layer = Layer(TITLE)
    engine = keys["distributed_type"].value
    processes = keys["num_processes"]
    if processes.value and processes.value > 0:
        layer.fill("accelerators", processes)
    layer.fill("nodes", keys["num_machines"])
    _read_precision(keys, layer)
    if engine == "FSDP":
        _read_sharding(keys, layer)
    elif engine in ("NO", "MULTI_GPU"):
        layer.facts["stack"] = keys["distributed_type"]._replace(value="ddp")
        layer.facts["plan.zero"] = keys.derived(0, "nothing is sharded", "distributed_type")
    elif engine == "DEEPSPEED":
        _read_deepspeed(keys, layer)
    elif engine == "MEGATRON_LM":
        layer.facts["stack"] = keys["distributed_type"]._replace(value="megatron-lm")
        fill_rows(keys, layer, _M)
    else:
        keys.refuse("X003", f"distributed_type {engine}: read are {', '.join(_ENGINES)}", "distributed_type")
    _read_degrees(keys, layer)
    return finished_layer(keys, layer)


# --- options of accelerate launch

_FLAGS = {"use_fsdp": "FSDP", "use_deepspeed": "DEEPSPEED", "use_megatron_lm": "MEGATRON_LM", "multi_gpu": "MULTI_GPU"}
_LEAVES = {name.rpartition(".")[2]: name for name in TABLE}
_LAUNCHED = option_table(
    (replace(row, option=leaf) for leaf, name in _LEAVES.items() if not (row := TABLE[name]).gone),
    (option(name, "stack", "flag") for name in _FLAGS),
    lost("not expressible", "no accelerator is used", "cpu"),
    lost("approximated", "kernels are compiled",
         "dynamo_backend dynamo_mode dynamo_use_fullgraph dynamo_use_dynamic dynamo_use_regional_compilation",
         "no", "NO"),
    quiet("config_file quiet num_cpu_threads_per_process module no_python max_restarts monitor_interval tee role "
          "log_dir rdzv_conf mpirun_hostfile mpirun_ccl aws_access_key_id "
          "main_training_script tpu"),
)  # fmt: skip


def read_launcher(words: Sequence[Word], file: str) -> Layer:
    """The facts that the options of `accelerate launch` state, read like its configuration."""
    found = option_words(words, _LAUNCHED, Spelling(between="_"))
    tree = Mapping()
    tree.place = found.tree.place
    engines = [key for name in _FLAGS for key in found.tree if key == name and found.tree[key]]
    flag = next(iter(engines), None)
    for key, value in found.tree.items():
        name = _LEAVES.get(str(key), "")
        if name:
            put_at(tree, name, value, key.place, key.at)
    if flag is not None:
        tree[key_at("distributed_type", flag.place, flag.at)] = _FLAGS[str(flag)]
    layer = read_accelerate(tree, file)
    layer.format = ""
    if flag is None:
        for path in ("stack", "plan.zero"):
            layer.facts.pop(path, None)
    if "mixed_precision" not in found.tree:
        layer.weak.pop("workload.precision", None)
    own = ForeignKeys(found.tree, _LAUNCHED, file, VERSION)
    inner = {key.name.rpartition(".")[2]: key.verdict for key in layer.keys}
    layer.keys = [
        key._replace(name=f"--{key.name}", verdict=inner.get(key.name, "read" if key.name in _FLAGS else key.verdict))
        for key in own.verdicts()
    ]
    layer.losses += [loss for loss in own.losses if loss.sentence.partition(":")[0] not in inner]
    layer.warnings += own.unknown_keys()
    for other in (other for other in engines[1:] if other != "multi_gpu"):
        first = f"--{engines[0]} stands on line {engines[0].place.line}"
        sentence = f"--{engines[0]} and --{other} exclude each other"
        layer.faults.append(Fault("X004", sentence, other.place, f"keep one of the two; {first}"))
    layer.faults += found.faults
    layer.unless += found.unless
    return layer


def _read_precision(keys: ForeignKeys, layer: Layer) -> None:
    kind = keys["mixed_precision"]
    if kind.value != "no":
        layer.fill("workload.precision", kind)
    elif keys["distributed_type"].value != "DEEPSPEED":  # whose own file states it
        layer.weak["workload.precision"] = kind._replace(value="fp32")


def _read_sharding(keys: ForeignKeys, layer: Layer) -> None:
    """Adds FSDP version and ZeRO stage to `layer`, the facts of the file."""
    version, reshard = keys[f"{_F}.fsdp_version"], keys[f"{_F}.fsdp_reshard_after_forward"]
    if version.value not in (1, 2):
        keys.refuse("X005", f"fsdp_version is {version.value}, not 1 or 2", f"{_F}.fsdp_version")
    at = keys["distributed_type"] if version.place is None else version
    layer.facts["stack"] = at._replace(value="fsdp2" if version.value == 2 else "fsdp1")
    if version.value == 2:
        layer.fill("plan.zero", reshard._replace(value=2 if str(reshard.value).lower() == "false" else 3))
        reason = "fsdp_version 1 alone has it: fsdp_reshard_after_forward counts"
        keys.without_effect(f"{_F}.fsdp_sharding_strategy", reason)
    else:
        _sharded_by_strategy(keys, layer, str(reshard.value).upper())
    layer.fill("plan.offload", keys[f"{_F}.fsdp_offload_params"])
    again = keys[f"{_F}.fsdp_activation_checkpointing"]
    (layer.facts if again.value == "full" else layer.weak)["plan.recompute"] = again


def _sharded_by_strategy(keys: ForeignKeys, layer: Layer, reshard: str) -> None:
    """Fills sharding from the strategy of FSDP 1, even if a key of FSDP 2 states another one."""
    name = f"{_F}.fsdp_sharding_strategy"
    strategy = keys[name]
    if str(strategy.value).upper() not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        keys.refuse("X005", f"fsdp_sharding_strategy {str(strategy.value)[:60]} is none of {known}", name)
    stage, hybrid = STRATEGIES.get(str(strategy.value).upper(), (3, False))
    layer.fill("plan.zero", strategy._replace(value=stage))
    if stage != STRATEGIES.get(reshard, (stage,))[0]:
        taken = f"in fsdp_version 1 fsdp_sharding_strategy counts, here {strategy.value}"
        keys.without_effect(f"{_F}.fsdp_reshard_after_forward", taken)
    if hybrid and not keys.given("num_machines"):
        sentence = f"{strategy.value} has as many replicas as machines, which num_machines does not state"
        keys.refuse("X002", sentence, name, "write num_machines into the file")
    elif hybrid:
        layer.facts["plan.dp_replicate"] = keys["num_machines"]._replace(origin=strategy.origin)


def _read_deepspeed(keys: ForeignKeys, layer: Layer) -> None:
    """Adds the settings of a DeepSpeed plugin to `layer`, the facts of the file, or the name of its file."""
    named = keys[f"{_D}.deepspeed_config_file"]
    layer.facts["stack"] = keys["distributed_type"]._replace(value="deepspeed")
    layer.weak["plan.recompute"] = keys.assumed("none", "a call in the model decides it, not this file")
    if named.value and named.place is not None:
        layer.named.append((named.value, named.place))
        return
    layer.fill("plan.zero", keys[f"{_D}.zero_stage"])
    layer.fill("accumulation", keys[f"{_D}.gradient_accumulation_steps"])
    parts = {"optimizer": keys[f"{_D}.offload_optimizer_device"], "parameters": keys[f"{_D}.offload_param_device"]}
    on = {name: value for name, value in parts.items() if value.value != "none"}
    if on:
        first = next(iter(on.values()))
        layer.facts["plan.offload"] = first._replace(value=list(on))
        if any(value.value == "nvme" for value in on.values()):
            layer.facts["plan.offload_to"] = first._replace(value="nvme")


def _read_degrees(keys: ForeignKeys, layer: Layer) -> None:
    """Adds the degrees of parallelism to `layer`, the facts of the file."""
    if not keys.under(_P):
        return
    fill_rows(keys, layer, _P)
    name = f"{_P}.parallelism_config_"
    context, ulysses = keys[f"{name}cp_size"], keys[f"{name}sp_size"]
    if (ulysses.value or 1) > 1:
        if (context.value or 1) > 1:
            keys.refuse("X005", "cp_size and sp_size exclude each other", f"{name}sp_size")
        layer.facts["plan.cp"] = ulysses
        layer.facts["plan.cp_type"] = ulysses._replace(value="a2a")
    if keys["distributed_type"].value == "FSDP" and keys[f"{_F}.fsdp_version"].value != 2:
        keys.refuse("X005", "parallelism_config needs fsdp_version 2", f"{name}dp_shard_size")


def write_accelerate(job: Job, remarks: TrainingRemarks) -> str:
    """The YAML configuration; TrainingArguments state the batch, and other inexpressible keys are faults."""
    check_whole_layers(remarks)
    plan, precision = job.plan, job.workload.precision
    if precision not in _NARROW:
        remarks.refuse("workload.precision", f"{precision}: of accelerate's types bf16, fp16 and fp8 are written")
    beside: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "MULTI_GPU" if job.stack == "ddp" else "FSDP",
        "num_processes": job.accelerators,
        "machine_rank": 0,
        "mixed_precision": precision if precision in _NARROW else "bf16",
    }
    if job.stack == "ddp" and plan.dp_replicate > 1:
        remarks.refuse("plan.dp_replicate", "nothing is sharded: every rank is a replica")
    if job.stack != "ddp":
        beside |= _fsdp_settings(job, remarks)
    table = TABLE
    if job.stack != "fsdp2":
        table = {name: row for name, row in TABLE.items() if not name.startswith(_P)}
        if plan.tp > 1 or plan.cp > 1:
            remarks.refuse("plan.tp", "parallelism_config needs version 2 of FSDP", "--set stack=fsdp2")
    remarks.note(
        f"in the TrainingArguments beside it (--to hf): per_device_train_batch_size {job.count('micro_batch')}, "
        f"gradient_accumulation_steps {job.accumulation}"
    )
    return document_text(nested_sections(written(table, job, remarks.refuse, beside)), {})


def _fsdp_settings(job: Job, remarks: TrainingRemarks) -> dict[str, Any]:
    """Settings of FSDP for a job; a refusal for what it cannot express."""
    plan = job.plan
    if plan.recompute == "selective":
        remarks.refuse("plan.recompute", "selective: whole layers are recomputed, or nothing")
    offloaded = check_offload(remarks, "--set 'plan.offload=[optimizer, parameters]'")
    found: dict[str, Any] = {"fsdp_version": 2 if job.stack == "fsdp2" else 1}
    if job.stack == "fsdp2":
        if plan.zero not in (2, 3):
            remarks.refuse("plan.zero", f"{plan.zero}: FSDP 2 has 3, or 2")
        found["fsdp_reshard_after_forward"] = plan.zero == 3
    else:
        hybrid = plan.dp_replicate > 1
        if hybrid and plan.dp_replicate != job.nodes:
            sentence = f"{plan.dp_replicate:g}: FSDP 1 has a replica for each node, {job.nodes}"
            remarks.refuse("plan.dp_replicate", sentence)
        strategy = next((name for name, meant in STRATEGIES.items() if meant == (plan.zero, hybrid)), None)
        if strategy is None:
            remarks.refuse("plan.zero", f"{plan.zero}: FSDP 1 has 3, 2 and 0")
        found["fsdp_sharding_strategy"] = strategy or "FULL_SHARD"
    found |= {
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        "fsdp_offload_params": offloaded,
        "fsdp_activation_checkpointing": plan.recompute == "full",
    }
    return {f"{_F}.{name}": value for name, value in found.items()}


_ARGUMENTS = "TrainingArguments, which --to hf writes"
_PROGRAM = "the program, or max_length of an SFTConfig"
CANNOT = {
    **NOWHERE,
    **because("neither has a pipeline", "pp vpp schedule split first_stage_layers last_stage_layers"),
    **because("the model decides it", "ep etp"),
    "plan.recompute_modules": "whole layers are recomputed",
    "plan.offload_layers": "activations are not offloaded",
    "plan.order": "its mesh is tp, cp and dp, innermost first",
    "plan.sequence_parallel": "the model's plan of tensor parallelism decides it",
    "workload.tuning": "adapters are a matter of the program: PEFT",
}
WHOLE_LAYERS = because("uniform, one layer at a time", "recompute_method recompute_layers")

FORMAT = TrainingFormat(
    name="accelerate",
    title=TITLE,
    version=VERSION,
    table=TABLE,
    elsewhere={
        "model": "the program",
        "plan.micro_batch": _ARGUMENTS,
        "workload.kind": "a training program",
        "workload.sequence": _PROGRAM,
        **because(_ARGUMENTS, "global_batch tokens optimizer", "workload"),
        "workload.gradients": "the engine: as of the stack",
    },
    fixed={**WHOLE_LAYERS, "plan.offload_to": "the host's memory, always"},
    cannot=CANNOT,
    kind="YAML",
    stacks=("fsdp2", "fsdp1", "transformers-fsdp", "ddp"),
    write=write_accelerate,
)


_FEWEST = 2  # arguments that make a command one of a training
CALLED = r"\w*TrainingArguments|SFTConfig|DPOConfig|RewardConfig|GRPOConfig|RLOOConfig"
_CALL = re.compile(rf"\b(?:{CALLED})\(")
_ACCELERATE = ("accelerate", "accelerate.commands.accelerate_cli")
_LAUNCH = "launch"
_CONFIGURED = "--config_file"  # of accelerate launch


class ArgumentText(NamedTuple):
    """The training arguments as a tree, the facts of the launcher, and the configuration files that they name."""

    tree: Mapping
    launched: dict[str, OriginValue]
    named: list[tuple[str, Place]]
    faults: list[Fault]
    ahead: tuple[Layer, ...] = ()


def is_call(text: str) -> bool:
    """Whether a text contains a call with training arguments.

    >>> is_call("args = TrainingArguments(bf16=True)"), is_call("bf16: true")
    (True, False)
    """
    return _CALL.search(text) is not None


def is_command(text: str, table: Table) -> bool:
    """Whether a text contains training options as words of a command."""
    names = {match.group(1) for match in re.finditer(r"(?:^|\s)--([a-z_0-9]+)(?=[=\s]|$)", text)}
    return len(names & table.keys()) >= _FEWEST


def arguments_of(text: str, file: str, table: Table) -> ArgumentText:
    """The training arguments in a shell script or a Python program."""
    return _arguments_of_call(text, file, table) if is_call(text) else _arguments_of_command(text, file, table)


def _arguments_of_call(text: str, file: str, table: Table) -> ArgumentText:
    """The arguments of a call in Python, with the model loaded and the rank of its adapters."""
    costly = frozenset(["", *(name for name, key in table.items() if key.fills)])
    tree, others = call_tree(text, file, CALLED, costly)
    for name, words in others:
        if name.endswith("Trainer") and isinstance(words.get("model"), str):
            _put_value(tree, "model_name_or_path", words["model"], words.place)
        if name == "LoraConfig":
            _put_value(tree, "use_peft", True, words.place)
            _put_value(tree, "lora_r", words.get("r", 8), words.place)
        if name == "BitsAndBytesConfig" and words.get("load_in_4bit"):
            _put_value(tree, "load_in_4bit", True, words.place)
    return ArgumentText(tree, {}, [], [])


def _put_value(tree: Mapping, name: str, value: Any, place: Place) -> None:
    tree.setdefault(key_at(name, place, place), value)


def _arguments_of_command(text: str, file: str, table: Table) -> ArgumentText:
    """The arguments of the one training command in a shell script."""
    script = read_script(text, file)
    scored = [(_count_known_options(command, table), command) for command in script.commands]
    chosen = [command for score, command in scored if score >= _FEWEST]
    if not chosen:
        raise fail("X001", "the file has no command with arguments of a training", Place(file))
    if len(chosen) > 1:
        hint = f"the first is on line {chosen[0].words[0].place.line}; keep one of the two"
        raise fail("X004", "the script starts more than one training", chosen[1].words[0].place, hint)
    words = chosen[0].words
    begin = next((index + 1 for index, word in enumerate(words) if _is_program(word)), 0)
    found = option_words(words[begin:], table, Spelling(between="_", negated=True))
    launcher = (*script.directives, *words[:begin])
    pairs = itertools.pairwise(launcher)
    named = [(behind.text, behind.place) for word, behind in pairs if word.text == _CONFIGURED and behind.doubt is None]
    unknown = (replace(fault, hint="write its value into the text") for _, fault in found.unless)
    environment = environment_facts(chosen[0].environment, file)
    start = next((index + 1 for index, word in enumerate(words[:begin]) if word.text == _LAUNCH), 0)
    ahead = (
        (environment, read_launcher(_before_program(words[start:begin]), file), launcher_verdicts(script.directives))
        if start and PurePath(words[start - 2].text).name in _ACCELERATE
        else (environment, launcher_verdicts(launcher))
    )
    return ArgumentText(found.tree, launched_accelerators(launcher), named, [*found.faults, *unknown], ahead)


def _before_program(words: Sequence[Word]) -> Sequence[Word]:
    """The options of a launcher, without the program or module after them."""
    return words[:-1] if words and not words[-1].text.startswith("-") else words


def _count_known_options(command: ShellCommand, table: Table) -> int:
    names = {word.text.lstrip("-").split("=", 1)[0] for word in command.words if word.text.startswith("--")}
    return len(names & table.keys())


def _is_program(word: Word) -> bool:
    return PurePath(word.text).suffix == ".py" or word.text in ("llamafactory-cli", "trl")
