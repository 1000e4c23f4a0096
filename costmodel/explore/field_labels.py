"""Words of the field that no command prints, and what stands for them here; as in `labels`."""

from __future__ import annotations

FIELD_LABELS: dict[str, tuple[str, str]] = {
    "gqa": (
        "grouped-query attention: several query heads share one key-value head, which makes the cache and the "
        "projections smaller: in model.layers, attention.kv_heads is less than attention.heads",
        "cache_pool",
    ),
    "grouped-query attention": (
        "several query heads share one key-value head: attention.kv_heads of model.layers",
        "cache_pool",
    ),
    "mha": (
        "multi-head attention: as many key-value heads as query heads: attention.kv_heads of model.layers",
        "cache_pool",
    ),
    "arithmetic intensity": (
        "FLOP of a kernel over the bytes it moves; above the ridge the kernel is compute-bound",
        "ridge",
    ),
    "gradient accumulation": (
        "micro-batches of a rank before an optimizer step: workload.global_batch over plan.micro_batch and dp",
        "micro_batches",
    ),
    "mixed precision": (
        "matrix products in 16 or 8 bits, with master weights and optimizer states in fp32: workload.precision",
        "precision",
    ),
    "loss scaling": (
        "a factor on the loss that keeps small fp16 gradients from underflowing; bf16 needs none. costmodel ignores "
        "the multiplication and the overflow check that it adds to a step",
        "",
    ),
    "infiniband": (
        "a network between nodes with RDMA, for example NDR with 400 Gb/s a port; costmodel list fabrics lists its "
        "generations, and costmodel explain hop-or-collective states how long a hop takes",
        "",
    ),
    "roce": (
        "RDMA over Ethernet, for example 400GbE. Without congestion it is as fast as InfiniBand; costmodel list "
        "fabrics lists these fabrics",
        "",
    ),
    "numa": (
        "host memory is attached to sockets, and an accelerator reaches the memory of its own socket faster. "
        "costmodel uses the node's stated host link and assumes that processes are bound to their socket",
        "",
    ),
    "critical batch size": ("", "critical_batch"),
}
