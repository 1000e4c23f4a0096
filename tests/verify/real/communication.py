"""Collectives that PyTorch really issues for a training step, counted on a process group that moves nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

from .llama import Llama, Shape

SHAPE = Shape()
SEQUENCES, TOKENS = 2, 64
NAMED = {
    "_c10d_functional.all_reduce.default": "all_reduce",
    "_c10d_functional.all_gather_into_tensor.default": "all_gather",
    "_c10d_functional.reduce_scatter_tensor.default": "reduce_scatter",
    "_c10d_functional.all_to_all_single.default": "all_to_all",
    "_c10d_functional_autograd.all_to_all_single.default": "all_to_all",
    "c10d._allgather_base_.default": "all_gather",
    "c10d._reduce_scatter_base_.default": "reduce_scatter",
    "c10d.allreduce_.default": "all_reduce",
}


class Recorder(TorchDispatchMode):
    """Notes every collective with the bytes of the whole, unsharded buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[tuple[str, int]] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        operation = NAMED.get(str(function))
        if operation is not None:
            buffers = [_nbytes(value) for value in (*args, result) if isinstance(value, Tensor | list | tuple)]
            self.seen[operation, max(buffers)] += 1
        return result


def _nbytes(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    return sum(_nbytes(inner) for inner in value if isinstance(inner, Tensor | list | tuple))


def counted() -> dict[str, Any]:
    """Every case: how often which collective ran, with how many bytes, in two micro-batches; DDP accumulates."""
    found: dict[str, Any] = {"shape": asdict(SHAPE), "sequences": SEQUENCES, "tokens": TOKENS, "cases": {}}
    for name, (degrees, build) in CASES.items():
        ranks = math.prod(degrees.values())
        found["cases"][name] = {"ranks": ranks, "collectives": _step(ranks, degrees, build)}
    return found


def _step(ranks: int, degrees: dict[str, int], build: Callable[[Any], nn.Module]) -> list[dict[str, Any]]:
    dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    try:
        model = build(init_device_mesh("cpu", tuple(degrees.values()), mesh_dim_names=tuple(degrees)))
        with Recorder() as recorder:
            with getattr(model, "no_sync", nullcontext)():
                _pass(model)
            _pass(model)
    finally:
        dist.destroy_process_group()
    return collectives(recorder)


def collectives(recorder: Recorder) -> list[dict[str, Any]]:
    """What was seen, in order of name and size."""
    return [
        {"operation": operation, "message_bytes": nbytes, "times": times}
        for (operation, nbytes), times in sorted(recorder.seen.items())
    ]


def _pass(model: nn.Module) -> None:
    logits = model(torch.zeros(SEQUENCES, TOKENS, dtype=torch.long))
    getattr(logits, "to_local", lambda: logits)().float().sum().backward()


def _tensor(mesh: Any) -> nn.Module:
    model = Llama(SHAPE)
    whole = PrepareModuleInput(input_layouts=(Replicate(),), desired_input_layouts=(Replicate(),))
    for layer in model.layers:
        parallelize_module(layer, mesh, {"attention": whole, "mlp": whole, **_matrices(Replicate())})
    ends = {
        "embedding": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
    }
    return parallelize_module(model, mesh, ends)


def _sequence(mesh: Any) -> nn.Module:
    model = Llama(SHAPE)
    gathered = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    for layer in model.layers:
        norms = {"attention_norm": SequenceParallel(), "mlp_norm": SequenceParallel()}
        parallelize_module(layer, mesh, {**norms, "attention": gathered, "mlp": gathered, **_matrices(Shard(1))})
    ends = {
        "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False),
    }
    return parallelize_module(model, mesh, ends)


def _matrices(output: Any) -> dict[str, Any]:
    cut = {name: ColwiseParallel() for name in ("attention.q", "attention.k", "attention.v", "mlp.up", "mlp.gate")}
    return cut | {name: RowwiseParallel(output_layouts=output) for name in ("attention.out", "mlp.down")}


def _sharded(model: nn.Module, mesh: Any) -> nn.Module:
    precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=precision)
    return fully_shard(model, mesh=mesh, mp_policy=precision)


def _fsdp(mesh: Any) -> nn.Module:
    """Over the whole mesh: with two dimensions, replicas of shards."""
    return _sharded(Llama(SHAPE), mesh)


def _ddp(_: Any) -> nn.Module:
    model = DistributedDataParallel(Llama(SHAPE))
    model.register_comm_hook(None, _summed)
    return model


def _summed(_, bucket):  # DDP reads the annotations of a hook and knows none of them as text
    """What DDP does with a bucket, without the answer a group that moves nothing cannot give."""
    dist.all_reduce(bucket.buffer())
    done: torch.futures.Future[Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


CASES: dict[str, tuple[dict[str, int], Callable[[Any], nn.Module]]] = {
    "tensor parallel, 4": ({"tp": 4}, _tensor),
    "tensor and sequence parallel, 4": ({"tp": 4}, _sequence),
    "fully sharded, 8": ({"dp": 8}, _fsdp),
    "fully sharded, 512": ({"dp": 512}, _fsdp),
    "hybrid sharded, 2 replicas of 256": ({"replicate": 2, "dp": 256}, _fsdp),
    "data parallel, 512": ({"dp": 512}, _ddp),
    "fully sharded, 64 of tensor parallel, 8": (
        {"dp": 64, "tp": 8},
        lambda mesh: _sharded(_tensor(mesh["tp"]), mesh["dp"]),
    ),
    "fully sharded, 64 of tensor and sequence parallel, 8": (
        {"dp": 64, "tp": 8},
        lambda mesh: _sharded(_sequence(mesh["tp"]), mesh["dp"]),
    ),
}
