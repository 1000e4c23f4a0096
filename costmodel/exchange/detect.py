"""Detects the foreign format of a text, such as vLLM or DeepSpeed, by the keys that occur in it."""

from __future__ import annotations

import re
from typing import NamedTuple

from costmodel.documents.keys.suggestions import nearest
from costmodel.exchange.huggingface.families import FAMILIES
from costmodel.exchange.huggingface.family import ForeignOption
from costmodel.exchange.logs.benchmark_result import RESULTS
from costmodel.exchange.megatron.options import READ
from costmodel.exchange.megatron.options import TITLE as MEGATRON
from costmodel.exchange.rl import areal, nemo_rl, openrlhf, slime, trl, verl
from costmodel.exchange.training import (
    accelerate,
    axolotl,
    bridge,
    deepspeed,
    llama_factory,
    maxtext,
    nanotron,
    torchtitan,
    torchtune,
    transformers,
)  # fmt: skip
from costmodel.exchange.training.accelerate import is_call
from costmodel.exchange.values import Lines
from costmodel.ground.errors import Place, fail

_TRAINERS = (
    bridge, deepspeed, accelerate, transformers, torchtitan, axolotl, llama_factory, torchtune, nanotron, maxtext,
)  # fmt: skip
RL_FORMATS = {module.FORMAT.title: module.FORMAT for module in (verl, nemo_rl, openrlhf, slime, areal, trl)}
OWN = 10  # what a key counts that no other format has
_FEWEST = 15  # score of a text that is of a format
_LONGEST = 200_000  # letters that are looked at
_KEY = re.compile(r"""(?:^|[\s{,('"\[;=])(-{0,2}[A-Za-z_][\w.-]{1,80})(?=["']?\s*[:=]|\s|$|["'])""")


_TOP = re.compile(r"""(?m)^\{?[ ]{0,4}["']?([A-Za-z_][\w.-]{0,80})["']?[ \t]*[:=]""")
CONFIG = "config.json of transformers"
SERVING, TRT_OPTIONS = "command of a serving engine", "YAML of TensorRT-LLM"

# What starts a serving engine; such a command may have no options at all.
_STARTS = re.compile(
    r"\bvllm[ \t]+serve\b|\bvllm\.entrypoints\.|\bsglang\.launch_server\b|\bsglang[ \t]+serve\b|\btrtllm-serve\b"
    r"|\bdynamo\.(?:vllm|sglang|trtllm)\b|\bkind:[ \t]*(?:LLM)?InferenceService\b"
    r"|(?m:^(?:servingEngineSpec|modelArtifacts):)"
    r"|\bvllm/vllm-openai\b|\bvllm[ \t]+bench[ \t]+serve\b|\bbench(?:mark)?_serving\b"
)


class OtherProgram(NamedTuple):
    """A program whose files are not read: a pattern of its commands, its name, the reason, and a replacement."""

    pattern: str
    name: str
    why: str
    instead: str


_NO_ENGINE = "no document describes this engine"
_AS_ENGINE = (
    "write the same model and degrees as a command of vLLM, SGLang or TensorRT-LLM, "
    "or costmodel estimate --model NAME --gpu h100 --stack vllm --concurrency 8"
)
_NO_SHAPE = "the shape of its model is in a checkpoint"
_OF_SWIFT = (
    "write its options as keys: costmodel estimate --model NAME --gpu a100 --gpus 16 --set stack=megatron-core --set "
    "plan.tp=… --set plan.ep=… --set plan.micro_batch=… --set workload.global_batch=… --set workload.sequence=… for "
    "--tensor_model_parallel_size, --expert_model_parallel_size, --micro_batch_size, --global_batch_size, --max_length"
)
_AS_RUNS = "add --as runs, and --config with the launch file beside it"
_ENGINES = {
    "LMDeploy": r"\blmdeploy[ \t]+(?:serve|chat)\b|\bopenmmlab/lmdeploy\b",
    "Text Generation Inference": r"\btext-generation-(?:launcher|inference)\b",
    "llama.cpp": r"\bllama-(?:server|cli|bench)\b|\bllama\.cpp\b|\bllama_cpp\.server\b",
    "Ollama": r"\bollama[ \t]+(?:run|serve|pull)\b|\bollama/ollama\b",
    "MLC LLM": r"\bmlc_llm[ \t]+serve\b",
    "MLX": r"\bmlx_lm(?:\.server|\.generate)?\b",
    "Triton Inference Server": r"\btritonserver\b",
    "KTransformers": r"\bktransformers\b",
    "Aphrodite Engine": r"\baphrodite[ \t]+run\b",
    "ExLlama": r"\bexllamav[23]\b|\btabbyAPI\b",
}
OTHER_PROGRAMS = (
    *(OtherProgram(pattern, name, _NO_ENGINE, _AS_ENGINE) for name, pattern in _ENGINES.items()),
    OtherProgram(r"\bmegatron[ \t]+(?:sft|pt|rlhf)\b", "megatron sft of ms-swift", _NO_SHAPE, _OF_SWIFT),
    OtherProgram(r'"log_history":', "trainer_state.json as a scenario", "it is a measured run", _AS_RUNS),
    OtherProgram(RESULTS.pattern, "a benchmark's result as a scenario", "it has measured runs", _AS_RUNS),
    OtherProgram(r"\bswift[ \t]+(?:sft|pt|rlhf)\b", "swift sft of ms-swift", _NO_SHAPE, _OF_SWIFT),
)
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#(?!!|SBATCH).*$")


def _without_comments(text: str) -> str:
    """The start of a text, with its comments replaced by blanks."""
    return _COMMENT.sub(lambda found: " " * len(found.group()), text[:_LONGEST])


def _refuse_unread_programs(text: str, file: str) -> None:
    """Raises a fault if the text names a program that is not read."""
    for other in OTHER_PROGRAMS:
        found = re.search(other.pattern, text)
        if found is not None:
            place = Lines(text, file).place(found.start(), width=len(found.group()))
            raise fail("X003", f"{other.name} is not read: {other.why}", place, other.instead)


class ForeignFormat(NamedTuple):
    """A format: its name, the keys that identify it, and other keys that it uses."""

    name: str
    own: frozenset[str]
    others: frozenset[str] = frozenset()


def _words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OF_FAMILIES = frozenset(
    name.split(".")[0]
    for family in FAMILIES
    for option in family.options.values()
    if isinstance(option, ForeignOption)
    for name in option.names
)

# Keys of the formats that are recognised here; those that are not read are of the versions in their names.
FORMATS = (
    ForeignFormat(CONFIG, _words_of("architectures model_type transformers_version"), _OF_FAMILIES),
    ForeignFormat(
        MEGATRON,
        frozenset(f"--{name}" for name in READ) | _words_of("MODEL_ARGS"),
        frozenset(name.replace("-", "_") for name in READ),
    ),
    ForeignFormat(
        deepspeed.TITLE,
        _words_of(
            "zero_optimization train_micro_batch_size_per_gpu zero_allow_untested_optimizer wall_clock_breakdown"
        ),
        _words_of("train_batch_size gradient_accumulation_steps bf16 fp16 stage overlap_comm reduce_bucket_size"),
    ),
    ForeignFormat(
        accelerate.TITLE,
        _words_of("distributed_type fsdp_sharding_strategy fsdp_auto_wrap_policy num_processes deepspeed_config_file"),
        _words_of("num_machines mixed_precision fsdp_config fsdp_version machine_rank parallelism_config"),
    ),
    ForeignFormat(
        torchtitan.TITLE,
        _words_of(
            "data_parallel_shard_degree data_parallel_replicate_degree activation_checkpoint local_batch_size "
            "data_parallel_degree tensor_parallel_degree pipeline_parallel_degree context_parallel_degree flavor"
        )
        | {f"--{key}" for key in torchtitan.TABLE if "." in key},
        _words_of("parallelism training seq_len experimental model optimizer"),
    ),
    ForeignFormat(
        bridge.TITLE,
        frozenset(
            name for name in bridge.TABLE if name.startswith(("model.", "train.", "trainer.", "data.", "ddp.", "dist."))
        ),
        _words_of("mixed_precision optimizer.lr"),
    ),
    ForeignFormat(
        transformers.TITLE,
        _words_of(
            "per_device_train_batch_size activation_checkpointing gradient_checkpointing per_gpu_train_batch_size "
            "--per_device_train_batch_size --gradient_checkpointing"
        ),
        _words_of(
            "output_dir gradient_accumulation_steps bf16 fp16 optim max_steps learning_rate lr_scheduler_type "
            "model_name_or_path max_length use_peft fsdp fsdp_config --bf16 --fp16 --gradient_accumulation_steps "
            "--learning_rate --output_dir --model_name_or_path --deepspeed --fsdp --max_steps"
        ),
    ),
    ForeignFormat(
        axolotl.TITLE,
        _words_of("base_model sequence_len dp_shard_size sample_packing val_set_size"),
        _words_of("micro_batch_size gradient_accumulation_steps adapter lora_r datasets fsdp_config bf16"),
    ),
    ForeignFormat(
        llama_factory.TITLE,
        _words_of(
            "finetuning_type cutoff_len lora_target template --finetuning_type --cutoff_len --lora_target --template"
        ),
        _words_of(
            "per_device_train_batch_size gradient_accumulation_steps deepspeed stage bf16 lora_rank "
            "model_name_or_path --per_device_train_batch_size --gradient_accumulation_steps --deepspeed --stage --bf16 "
            "--model_name_or_path"
        ),
    ),
    ForeignFormat(
        SERVING,
        _words_of("--max-model-len --gpu-memory-utilization --mem-fraction-static --max-num-seqs --tp_size"),
        _words_of("--tensor-parallel-size --tp-size --kv-cache-dtype --dtype --quantization"),
    ),
    ForeignFormat(
        TRT_OPTIONS,
        _words_of("kv_cache_config enable_attention_dp cuda_graph_config moe_expert_parallel_size"),
        _words_of("tensor_parallel_size max_num_tokens max_batch_size free_gpu_memory_fraction enable_block_reuse"),
    ),
    ForeignFormat(
        torchtune.TITLE,
        _words_of("_component_ optimizer_in_bwd enable_activation_checkpointing custom_sharded_layers"),
        _words_of("batch_size gradient_accumulation_steps tokenizer dtype checkpointer max_seq_len"),
    ),
    ForeignFormat(
        nanotron.TITLE,
        _words_of("batch_accumulation_per_replica pp_engine tp_linear_async_communication model_config"),
        _words_of("parallelism tokens micro_batch_size sequence_length zero_stage dp tp pp"),
    ),
    ForeignFormat(
        maxtext.TITLE,
        _words_of(
            "ici_fsdp_parallelism dcn_data_parallelism base_emb_dim remat_policy dcn_fsdp_parallelism base_config"
        ),
        _words_of("per_device_batch_size max_target_length model_name attention weight_dtype quantization"),
    ),
)


# Options of Megatron-LM that other programs have too, such as --bf16.
_SHARED = {key for entry in FORMATS if entry.name != MEGATRON for key in entry.own | entry.others}
_OWN = {entry.name: entry.own - (_SHARED if entry.name == MEGATRON else set()) for entry in FORMATS}


# What --from takes: formats by their short names, and engines, whose commands and option files are of one name.
ENGINE_OPTIONS = {"vllm": "options of vLLM", "sglang": "options of SGLang", "trt-llm": TRT_OPTIONS}
STATED = {
    "config": CONFIG,
    "megatron": MEGATRON,
    **{module.FORMAT.name: module.TITLE for module in _TRAINERS},
    **ENGINE_OPTIONS,
}


def stated_format(name: str, text: str) -> str:
    """The format that `--from` names; for an engine, whether the text is a command or an option file."""
    if name.lower() not in STATED:
        close = nearest(name.lower(), list(STATED), 0.6)
        hint = f"did you mean '{close}'? " if close else ""
        raise fail("C001", f"--from {name} is no format that is read", None, f"{hint}one of {', '.join(STATED)}")
    title = STATED[name.lower()]
    plain = _without_comments(text)
    command = title in ENGINE_OPTIONS.values() and (_STARTS.search(plain) or not _TOP.search(plain))
    return SERVING if command else title


def scores(text: str) -> list[tuple[ForeignFormat, int]]:
    """Every format with its score, the highest first; keys that only this format has count most."""
    keys = _keys(text)
    found = [
        (entry, OWN * len(keys & _OWN[entry.name]) + len(keys & (entry.own | entry.others) - _OWN[entry.name]))
        for entry in FORMATS
    ]
    return sorted(found, key=lambda pair: -pair[1])


def _keys(text: str) -> set[str]:
    """Words at places of the text where keys and options are written."""
    keys = {match.group(1).split("=", 1)[0] for match in _KEY.finditer(text)}
    return keys | {f"--{key[2:].replace('-', '_')}" for key in keys if key.startswith("--") and "." in key}


def _top_level_keys(text: str, format: ForeignFormat) -> set[str]:
    """Keys of a format that the text has at its top level."""
    return {match.group(1) for match in _TOP.finditer(text)} & (format.own | format.others)


def _fits_best_format(text: str, ranked: list[tuple[ForeignFormat, int]]) -> bool:
    """Whether the best-ranked format fits a text: by the number of its keys, or by a key that only this format has."""
    (best, score), (_, second) = ranked[:2]
    if score >= _FEWEST or score < OWN or second >= OWN:
        return score >= max(_FEWEST, second)
    if any(key.startswith("--") for key in _keys(text) & _OWN[best.name]):
        return True
    known = _top_level_keys(text, best)
    return bool(known) and (bool(known & _OWN[best.name]) or 2 * len(known) >= len(set(_TOP.findall(text))))


def detected(text: str, file: str) -> ForeignFormat:
    """The detected format of a text; a fault if the format is unknown (it names the three nearest) or not supported."""
    plain = _without_comments(text)
    ranked = scores(plain)
    best = ranked[0][0]
    for title, entry in RL_FORMATS.items():
        if entry.marks.search(plain):
            return ForeignFormat(title, frozenset())
    if _STARTS.search(plain):
        return next(entry for entry in FORMATS if entry.name == SERVING)
    known = _fits_best_format(plain, ranked)
    if not (known and _top_level_keys(plain, best)):  # a command, whose options several programs have
        _refuse_unread_programs(plain, file)
    if is_call(plain):
        return next(entry for entry in FORMATS if entry.name == transformers.TITLE)
    if not known:
        nearest = ", ".join(f"{entry.name} ({points})" for entry, points in ranked[:3] if points)
        hint = f"the nearest, by the keys in it: {nearest}" if nearest else "it has no key of any known format"
        hint += "; --from states the format"
        raise fail("X001", "the format of this text is not known", Place(file), hint)
    return best
