"""Weights that fully_shard has whole in 16 bits while a layer runs forward, counted in groups that move nothing."""

from __future__ import annotations

import gc
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

WIDTH, MATRICES, LAYERS = 64, 2, 4
WORLDS = (1, 8)


def counted() -> dict[str, float]:
    """Bytes for a parameter of a layer, in a layer that has one ahead of it and one behind."""
    return {str(ranks): _held(ranks) for ranks in WORLDS}


def _held(ranks: int) -> float:
    dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    try:
        model, seen = _sharded(init_device_mesh("cpu", (ranks,))), list[int]()
        model[LAYERS // 2][0].register_forward_hook(lambda *_: seen.append(_alive()))
        model(torch.zeros(1, WIDTH))
    finally:
        dist.destroy_process_group()
    return seen[0] / (MATRICES * WIDTH * WIDTH)


def _sharded(mesh: Any) -> nn.Sequential:
    precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    layer = [nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(MATRICES))) for _ in range(LAYERS)]
    model = nn.Sequential(*(fully_shard(each, mesh=mesh, mp_policy=precision) for each in layer))
    return fully_shard(model, mesh=mesh, mp_policy=precision)


def _alive() -> int:
    """Bytes of all storages in 16 bits that are large enough for a weight; those of activations are not."""
    gc.collect()
    tensors = [found for found in gc.get_objects() if type(found) in (Tensor, nn.Parameter)]
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in tensors
        if tensor.dtype == torch.bfloat16
    }
    return sum(nbytes for nbytes in storages.values() if nbytes >= 2 * WIDTH * WIDTH)
