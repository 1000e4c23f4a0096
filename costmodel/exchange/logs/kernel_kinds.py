"""What a kernel of a profile does, by its name, and whose communication it is, by its process group."""

from __future__ import annotations

import re
from collections.abc import Mapping

# In this order: the first pattern that a name holds decides. What none holds moves memory, as most other kernels do.
_KINDS = (
    ("communication", re.compile(r"nccl|rccl|deep_?ep|nvshmem", re.IGNORECASE)),
    ("optimizer", re.compile(r"multi_tensor_apply|adam|lamb_|muon|l2norm", re.IGNORECASE)),
    ("attention", re.compile(r"flash|fmha|sdpa|attention|\battn|_attn_", re.IGNORECASE)),
    (
        "matmul",
        re.compile(r"gemm|nvjet|cutlass|cublas|Cijk_|xmma|wgmma|matmul|_mm_|\bmma_|gemv", re.IGNORECASE),
    ),
)
# Names that torchtitan's meshes, Megatron's groups and DeepSpeed's give; what shares experts before what shares data,
# and what shares data before the axes whose names stand in its own (dp_shard_cp, DATA_PARALLEL_GROUP_WITH_CP).
_AXES = (
    ("dp", re.compile(r"expert_data|dp_shard|dp_replicate|efsdp|edp\b|data_parallel|fsdp|hsdp|mesh_dp|\bdp\b")),
    ("tp", re.compile(r"tensor|_e?tp\b|\be?tp\b")),
    ("ep", re.compile(r"expert|_ep\b|\bep\b")),
    ("cp", re.compile(r"context|sequence_parallel|_cp\b|\bcp\b|ulysses")),
    ("pp", re.compile(r"pipe|_pp\b|\bpp\b")),
)
_OPERATIONS = {"tp": "allreduce allgather reducescatter", "ep": "alltoall sendrecv", "pp": "sendrecv", "cp": "sendrecv"}


def kernel_kind(name: str) -> str:
    """The kind of a kernel: communication, optimizer, attention, matmul, or memory_bound.

    >>> kernel_kind("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
    'communication'
    >>> kernel_kind("void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64>>"), kernel_kind("nvjet_hsh_128x256")
    ('attention', 'matmul')
    >>> kernel_kind("triton_poi_fused_add_mul_silu_3")
    'memory_bound'
    """
    return next((kind for kind, pattern in _KINDS if pattern.search(name)), "memory_bound")


def axis_of(name: str, group: str, size: int, degrees: Mapping[str, float]) -> str:
    """Axis of a communication kernel: by the name of its group, else by its size and operation; or nothing.

    degrees: of the plan, by axis; an axis of one rank has no communication.

    >>> axis_of("ncclDevKernel_AllGather_RING_LL", "mesh_dp_shard_cp", 16, {"tp": 8, "dp": 16})
    'dp'
    >>> axis_of("ncclDevKernel_SendRecv", "", 0, {"tp": 8, "pp": 4, "dp": 2})
    'pp'
    >>> axis_of("ncclDevKernel_AllReduce", "default_pg", 8, {"tp": 8, "dp": 8})
    ''
    """
    words = group.lower()
    named = next((axis for axis, pattern in _AXES if pattern.search(words)), "")
    if named:
        return named
    able = [axis for axis, degree in degrees.items() if degree > 1]
    if len(able) > 1:
        able = [axis for axis in able if not size or degrees[axis] == size]
    if len(able) > 1 and "sendrecv" in name.lower():
        able = [axis for axis in able if "sendrecv" in _OPERATIONS.get(axis, "")]
    return able[0] if len(able) == 1 else ""
