"""Words of the field that no command prints, and what stands for them here; as in `labels`."""

from __future__ import annotations

FIELD_LABELS: dict[str, tuple[str, str]] = {
    "gqa": (
        "grouped-query attention: several query heads share one head of keys and values, which makes the cache and the "
        "projections smaller: model.kv_heads under model.heads",
        "cache_pool",
    ),
    "grouped-query attention": ("several query heads share one head of keys and values: model.kv_heads", "cache_pool"),
    "mha": ("multi-head attention: as many heads of keys and values as of queries: model.kv_heads", "cache_pool"),
    "arithmetic intensity": (
        "FLOP of a kernel over the bytes it moves; over the ridge it is bound by compute",
        "ridge",
    ),
    "gradient accumulation": (
        "micro-batches of a rank before an optimizer step: workload.global_batch over plan.mb and dp",
        "micro_batches",
    ),
    "mixed precision": (
        "products in 16 or 8 bits, and the master weights and states of the optimizer in fp32: workload.precision",
        "precision",
    ),
    "loss scaling": (
        "a factor on the loss that keeps small fp16 gradients from vanishing; bf16 needs none. costmodel does not "
        "count the one multiplication and the check for overflow that it adds to a step",
        "",
    ),
    "roce": (
        "RDMA over Ethernet: a fabric of 400GbE and the like, which carries what InfiniBand does where congestion is "
        "kept away; costmodel list fabrics shows them",
        "",
    ),
    "numa": (
        "memory of a host lies at its sockets, and an accelerator reaches its own socket's faster. costmodel takes the "
        "host link of the node as it is written, with processes bound to their socket",
        "",
    ),
    "critical batch size": ("", "critical_batch"),
}
