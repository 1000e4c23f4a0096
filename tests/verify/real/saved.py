"""Bytes that autograd keeps of a layer, counted by its hooks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def compiled(block: nn.Module) -> Any:
    """The layer as torch.compile partitions it into forward and backward; no code is generated."""
    torch._dynamo.reset()
    return torch.compile(block, backend="aot_eager_decomp_partition")


def saved(run: Any, block: nn.Module, x: Tensor, **constants: Any) -> float:
    """Bytes a token of what a layer keeps for backward, each storage once, weights, buffers and tables not at all."""
    run(x, **constants)
    tables = [table for given in constants.values() for table in given or ()]
    held = (*block.parameters(), *block.buffers(), *tables)
    apart = {each.untyped_storage().data_ptr() for each in held}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in apart:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        alive = run(x, **constants)
    del alive
    return sum(kept.values()) / (x.shape[0] * x.shape[1])
