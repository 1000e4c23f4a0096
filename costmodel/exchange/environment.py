"""Variables of the environment in front of a program, as options: what changes the job is read or listed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from costmodel.documents.text.yaml_tree import Mapping, Text, key_at
from costmodel.exchange.foreign_keys import ForeignKeys
from costmodel.exchange.format import Format
from costmodel.exchange.given_size import counted_by_node
from costmodel.exchange.rows import known, lost, part, quiet
from costmodel.exchange.shell import Word
from costmodel.exchange.training.layer import Layer, with_remarks

# Programs that read variables with these words ahead; another one of them is not known, and may change the job.
_PROGRAMS = re.compile(r"(?:VLLM|SGLANG|SGL|TRTLLM|TLLM|ACCELERATE|FSDP|DS|DEEPSPEED|NVTE|MEGATRON|TORCHTITAN)_\w+")
_DEVICES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
_NO_LINK = "links of the machine are not used"
_ALL = "all"  # of NVIDIA_VISIBLE_DEVICES

TABLE = known(
    *(part(name, "accelerators", "text") for name in _DEVICES),
    part("NPROC_PER_NODE", "accelerators", "whole"),
    part("GPUS_PER_NODE", "accelerators", "whole"),
    part("NNODES", "nodes", "whole"),
    lost("not expressible", "stages hold other numbers of layers", "VLLM_PP_LAYER_PARTITION SGLANG_PP_LAYER_PARTITION"),
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


def of_environment(variables: Variables, file: str) -> Layer:
    """The facts that environment variables before a command state; variables of other programs are left out."""
    tree = Mapping()
    for name, word in variables:
        if (name in TABLE or _PROGRAMS.fullmatch(name)) and word.doubt is None:
            tree.pop(name, None)
            tree[key_at(name, word.place, word.place)] = Text(word.text)
    keys = ForeignKeys(tree, TABLE, file, "the environment")
    layer = Layer("")
    for name in (name for name in _DEVICES if keys.given(name)):
        count = _devices(str(keys[name].value))
        if count:
            layer.weak["visible"] = keys.derived(count, name, name)
    each, nodes = keys["NPROC_PER_NODE"], keys["NNODES"]
    each = each if each.value else keys["GPUS_PER_NODE"]
    if each.value and 0 < each.value < 10**6 and 0 <= (nodes.value or 0) < 10**6:
        layer.weak |= counted_by_node(each, nodes, "environment")
    return with_remarks(keys, layer)


def _devices(text: str) -> int:
    """The number of devices in a list such as CUDA_VISIBLE_DEVICES; 0 if the text names all devices or is no list."""
    listed = [part for part in text.replace(" ", "").split(",") if part]
    return len(set(listed)) if listed and _ALL not in listed and all(part.lstrip("-") for part in listed) else 0
