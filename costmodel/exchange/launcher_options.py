"""Options of launchers (torchrun, deepspeed, mpirun, Slurm): how many accelerators they start."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from costmodel.documents.text.yaml_tree import Mapping, Text, key_at
from costmodel.exchange.foreign_keys import ForeignKeys, Format
from costmodel.exchange.import_result import (
    Loss,
    Origin,
    OriginKind,
    OriginValue,
    StatedKey,
    Verdict,
    accelerators_of_nodes,
)
from costmodel.exchange.option_rows import lost, option_table, part, quiet
from costmodel.exchange.shell import Word
from costmodel.exchange.training.file_facts import Layer, finished_layer
from costmodel.exchange.values import printable, unknown_names
from costmodel.ground.errors import Place

# Variables of the environment in front of a program, as options: what changes the job is read or listed.

# Programs that read variables with these words ahead; another one of them is not known, and may change the job.
_PROGRAMS = re.compile(r"(?:VLLM|SGLANG|SGL|TRTLLM|TLLM|ACCELERATE|FSDP|DS|DEEPSPEED|NVTE|MEGATRON|TORCHTITAN)_\w+")
_DEVICES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
_NO_LINK = "links of the machine are not used"
_ALL = "all"  # of NVIDIA_VISIBLE_DEVICES

TABLE = option_table(
    *(part(name, "accelerators", "text") for name in _DEVICES),
    part("NPROC_PER_NODE", "accelerators", "whole"),
    part("GPUS_PER_NODE", "accelerators", "whole"),
    part("NNODES", "nodes", "whole"),
    lost("not expressible", "unequal numbers of layers", "VLLM_PP_LAYER_PARTITION SGLANG_PP_LAYER_PARTITION"),
    lost("not expressible", _NO_LINK, "NCCL_P2P_DISABLE NCCL_SHM_DISABLE NCCL_IB_DISABLE NCCL_NET_DISABLE", "0", 0),
    lost("approximated", "collectives of another kind",
         "NCCL_ALGO NCCL_PROTO NCCL_P2P_LEVEL NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS NCCL_MIN_CTAS NCCL_MAX_CTAS "
         "NCCL_NVLS_ENABLE NCCL_COLLNET_ENABLE NCCL_CROSS_NIC NCCL_IB_HCA VLLM_ALL2ALL_BACKEND "
         "VLLM_ALLREDUCE_USE_SYMM_MEM VLLM_USE_NCCL_SYMM_MEM"),
    lost("approximated", "kernels of another kind",
         "VLLM_ATTENTION_BACKEND VLLM_USE_DEEP_GEMM VLLM_USE_FLASHINFER_MOE_FP4 VLLM_USE_FLASHINFER_MOE_FP8 "
         "VLLM_USE_FLASHINFER_MOE_FP16 VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8 VLLM_USE_FLASHINFER_MOE_MXFP4_BF16 "
         "VLLM_FLASHINFER_MOE_BACKEND VLLM_USE_TRTLLM_ATTENTION VLLM_ROCM_USE_AITER VLLM_USE_TRITON_FLASH_ATTN "
         "VLLM_MXFP4_USE_MARLIN VLLM_TEST_FORCE_FP8_MARLIN VLLM_MARLIN_USE_ATOMIC_ADD VLLM_DISABLE_COMPILE_CACHE "
         "NVTE_FLASH_ATTN NVTE_FUSED_ATTN NVTE_UNFUSED_ATTN SGLANG_USE_AITER SGL_ENABLE_JIT_DEEPGEMM "
         "SGLANG_ENABLE_JIT_DEEPGEMM SGLANG_TORCH_PROFILER_DIR"),
    lost("not expressible", "an engine of another generation", "VLLM_USE_V1", "1", 1),
    lost("not expressible", "the cache lies on the host", "VLLM_CPU_KVCACHE_SPACE"),
    lost("not expressible", "the launcher's options stand in the environment",
         "ACCELERATE_USE_FSDP ACCELERATE_USE_DEEPSPEED ACCELERATE_DEEPSPEED_ZERO_STAGE ACCELERATE_CONFIG_FILE "
         "FSDP_SHARDING_STRATEGY FSDP_OFFLOAD_PARAMS FSDP_VERSION FSDP_RESHARD_AFTER_FORWARD "
         "FSDP_ACTIVATION_CHECKPOINTING ACCELERATE_MIXED_PRECISION ACCELERATE_USE_MEGATRON_LM"),
    quiet("VLLM_ALLOW_LONG_MAX_MODEL_LEN VLLM_WORKER_MULTIPROC_METHOD VLLM_LOGGING_LEVEL VLLM_USE_MODELSCOPE "
          "VLLM_API_KEY VLLM_HOST_IP VLLM_PORT VLLM_CACHE_ROOT VLLM_NO_USAGE_STATS VLLM_DO_NOT_TRACK "
          "VLLM_CONFIGURE_LOGGING VLLM_RPC_TIMEOUT VLLM_ENGINE_ITERATION_TIMEOUT_S VLLM_SKIP_P2P_CHECK "
          "VLLM_TORCH_PROFILER_DIR VLLM_ALLOW_RUNTIME_LORA_UPDATING VLLM_PLUGINS VLLM_TRACE_FUNCTION "
          "VLLM_SERVER_DEV_MODE VLLM_NIXL_SIDE_CHANNEL_HOST VLLM_NIXL_SIDE_CHANNEL_PORT VLLM_IMAGE_FETCH_TIMEOUT "
          "VLLM_RANDOMIZE_DP_DUMMY_INPUTS VLLM_MOE_DP_CHUNK_SIZE VLLM_ENABLE_V1_MULTIPROCESSING"
          " VLLM_LOG_STATS_INTERVAL "
          "SGLANG_HOST_IP SGLANG_PORT SGLANG_LOGGING_LEVEL SGLANG_USE_MODELSCOPE SGLANG_HEALTH_CHECK_TIMEOUT "
          "SGL_DISABLE_TP_MEMORY_INBALANCE_CHECK SGLANG_DISABLE_TP_MEMORY_INBALANCE_CHECK "
          "ACCELERATE_LOG_LEVEL ACCELERATE_DEBUG_MODE DS_SKIP_CUDA_CHECK DS_BUILD_OPS DS_ACCELERATOR "
          "NVTE_TORCH_COMPILE NVTE_DEBUG NVTE_DEBUG_LEVEL NVTE_BWD_LAYERNORM_SM_MARGIN NVTE_FWD_LAYERNORM_SM_MARGIN "
          "NVTE_APPLY_QK_LAYER_SCALING NVTE_ALLOW_NONDETERMINISTIC_ALGO"),
)  # fmt: skip
FORMAT = Format("environment", "variables of the environment", "of the programs that read them", TABLE)

Variables = Iterable[tuple[str, Word]]


def environment_facts(variables: Variables, file: str) -> Layer:
    """The facts that environment variables before a command state; variables of other programs are left out."""
    tree = Mapping()
    for name, word in variables:
        if (name in TABLE or _PROGRAMS.fullmatch(name)) and word.doubt is None:
            tree.pop(name, None)
            tree[key_at(name, word.place, word.place)] = Text(word.text)
    keys = ForeignKeys(tree, TABLE, file, "the environment")
    layer = Layer("")
    for name in (name for name in _DEVICES if keys.given(name)):
        count = _device_count(str(keys[name].value))
        if count:
            layer.weak["visible"] = keys.derived(count, name, name)
    each, nodes = keys["NPROC_PER_NODE"], keys["NNODES"]
    each = each if each.value else keys["GPUS_PER_NODE"]
    if each.value and 0 < each.value < 10**6 and 0 <= (nodes.value or 0) < 10**6:
        layer.weak |= accelerators_of_nodes(each, nodes, "environment")
    return finished_layer(keys, layer)


def _device_count(text: str) -> int:
    """The number of devices in a list such as CUDA_VISIBLE_DEVICES; 0 if the text names all devices or is no list."""
    listed = [part for part in text.replace(" ", "").split(",") if part]
    return len(set(listed)) if listed and _ALL not in listed and all(part.lstrip("-") for part in listed) else 0


_PER_NODE = ("nproc_per_node", "nproc-per-node", "ntasks-per-node", "gpus-per-node", "num_gpus")
_NODES = ("nnodes", "nodes", "num_nodes", "N")
_TASKS = ("np", "ntasks", "n", "num_processes")
_MOST = 10**7  # accelerators
_INCLUDED = "include"  # of deepspeed: devices of each machine
_LAUNCHERS = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "deepspeed", "torchx")
_QUIET_OPTIONS = """
rdzv_id rdzv_backend rdzv_endpoint rdzv_conf master_addr master_port node_rank standalone max_restarts
monitor_interval log_dir log-dir tee redirects local_ranks_filter start_method role hostfile launcher launcher_args
module no_python no_local_rank bind_cores_to_rank bind_core_list save_pid enable_each_rank_log
autotuning elastic_training
ssh_port force_multi venv_script local_addr logs_specs run_path use_env numa-binding m rdzv-id rdzv-backend
rdzv-endpoint rdzv-conf master-addr master-port node-rank max-restarts monitor-interval local-addr
local-ranks-filter start-method run-path duplicate-stdout-filters duplicate-stderr-filters signals-to-handle
virtual-local-rank event-log-handler no-python u
job-name J output o error e time t mail-user mail-type comment partition p account A qos q exclusive mem mem-per-gpu
mem-per-cpu cpus-per-task c cpus-per-gpu constraint C reservation signal requeue no-requeue chdir D export dependency
d array a begin nodelist w exclude x gpu-bind cpu-bind gpus-per-task distribution hint kill-on-bad-exit wait
wait-all-nodes licenses open-mode overcommit segment switches container-image container-mounts container-name
container-workdir no-container-mount-home verbose parsable priority nice label l input i
"""
_QUIET = frozenset(_QUIET_OPTIONS.split())


def launched_accelerators(words: Sequence[Word]) -> dict[str, OriginValue]:
    """The numbers of accelerators, nodes and accelerators per node that launcher options state."""
    per_node = _number(words, _PER_NODE) or _gres_count(words)
    nodes = _number(words, _NODES)
    tasks = _number(words, _TASKS)
    if per_node is not None and _has_option(words, _NODES) == (nodes is not None):
        return accelerators_of_nodes(per_node, nodes, "launcher")
    return {"accelerators": tasks} if tasks is not None else _included_devices(words)


def _has_option(words: Sequence[Word], names: tuple[str, ...]) -> bool:
    return any(_option_spelling(word)[0] in names for word in words)


def _option_spelling(word: Word) -> tuple[str, str]:
    name, _, value = word.text.partition("=")
    return (name.lstrip("-"), value) if name.startswith("-") else ("", "")


def _number(words: Sequence[Word], names: tuple[str, ...]) -> OriginValue | None:
    """The number after the last of several options of a launcher."""
    found = None
    for index, word in enumerate(words):
        name, value = _option_spelling(word)
        if name not in names:
            continue
        at = word if value else words[min(index + 1, len(words) - 1)]
        text = value or at.text
        if at.doubt is None and text.isascii() and text.isdigit() and 0 < int(text[:9]) <= _MOST and len(text) < 9:
            kind: OriginKind = "default" if at.usual else "file"
            found = OriginValue(int(text), Origin(kind, f"{name} of the launcher", word.place))
    return found


def _gres_count(words: Sequence[Word]) -> OriginValue | None:
    """The number of accelerators in Slurm's option gres=gpu:h100:8."""
    for word in words:
        match = re.fullmatch(r"--(?:gres|gpus-per-node)=(?:gpu:)?(?:[\w-]+:)?(\d{1,4})", word.text)
        if match and int(match.group(1)):
            return OriginValue(int(match.group(1)), Origin("file", "gres of Slurm", word.place))
    return None


def launcher_verdicts(words: Sequence[Word]) -> Layer:
    """The verdict for each launcher option; an unknown option of torchrun or deepspeed may change the job."""
    known = any(PurePath(word.text).name in _LAUNCHERS for word in words)
    layer, unknown = Layer(""), list[tuple[str, Place]]()
    for word in words:
        name, _ = _option_spelling(word)
        if not name or name[0].isdigit():
            continue
        verdict: Verdict = "read" if name in (*_PER_NODE, *_NODES, *_TASKS, "gres", _INCLUDED) else "no effect"
        if verdict == "no effect" and known and name not in _QUIET:
            verdict = "not expressible"
        if name == _INCLUDED and "nodes" not in (counted := _included_devices(words)):
            verdict = "approximated" if counted else "not expressible"
            layer.losses.append(Loss(verdict, "include: machines of which different numbers are used", word.place))
        layer.keys.append(StatedKey(printable(word.text.partition("=")[0]), verdict, word.place))
        if verdict == "not expressible" and name != _INCLUDED:
            unknown.append((layer.keys[-1].name, word.place))
    layer.warnings += unknown_names("options of the launcher that are not known", unknown)
    return layer


def _included_devices(words: Sequence[Word]) -> dict[str, OriginValue]:
    """The nodes and devices in deepspeed's option --include, such as localhost:0,1,2,3@other:0,1."""
    for index, word in enumerate(words):
        name, value = _option_spelling(word)
        text = value or words[min(index + 1, len(words) - 1)].text
        if name == _INCLUDED and re.fullmatch(r"[\w.@:,-]{1,2000}", text):
            counts = [len({*filter(None, part.partition(":")[2].split(","))}) for part in text.split("@") if part]
            each, nodes = (
                OriginValue(number, Origin("file", "include of the launcher", word.place))
                for number in (counts[0] if counts else 0, len(counts))
            )
            if counts and len(set(counts)) == 1:
                return accelerators_of_nodes(each, nodes, "launcher") if each.value else {"nodes": nodes}
            return {} if 0 in counts else {"accelerators": each._replace(value=sum(counts))}
    return {}
