"""Tokens to their experts and back, as transformers sends them over a process group that moves nothing."""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import MixtralConfig
from transformers.distributed import expert_parallel
from transformers.models.mixtral.modeling_mixtral import MixtralExperts

from .communication import Recorder, collectives

SHAPE = {"hidden": 256, "ffn_hidden": 512, "count": 64, "top_k": 4}
TOKENS, PASSES = 256, 2
RANKS = (8, 64, 512)
PER_GROUP = 64


def counted() -> dict[str, Any]:
    """The exchanges of one layer in two micro-batches, forward and backward, in groups of at most 64."""
    found: dict[str, Any] = {"shape": SHAPE, "tokens": TOKENS, "cases": []}
    for ranks in RANKS:
        ep = min(ranks, PER_GROUP)
        found["cases"].append({"ranks": ranks, "ep": ep, "collectives": _exchanges(ranks, ep)})
    return found


def _exchanges(ranks: int, ep: int) -> list[dict[str, Any]]:
    dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    try:
        mesh = init_device_mesh("cpu", (ranks // ep, ep, 1), mesh_dim_names=("edp", "ep", "tp"))
        experts = _local(SHAPE["count"] // ep)
        layer = expert_parallel.AllToAllEP(experts, mesh["ep"], mesh["tp"])
        with mock.patch.object(expert_parallel, "all_to_all_single", _announced_counts), Recorder() as recorder:
            for _ in range(PASSES):
                x = torch.randn(TOKENS, SHAPE["hidden"], dtype=torch.bfloat16, requires_grad=True)
                layer(x, *_balanced()).square().sum().backward()
    finally:
        dist.destroy_process_group()
    return collectives(recorder)


def _local(count: int) -> MixtralExperts:
    """The experts of one rank."""
    sizes = {"hidden_size": SHAPE["hidden"], "intermediate_size": SHAPE["ffn_hidden"], "num_local_experts": count}
    return MixtralExperts(MixtralConfig(**sizes, experts_implementation="grouped_mm")).to(torch.bfloat16)


def _announced_counts(received: Tensor, sent: Tensor, group: Any) -> None:
    """How many tokens will come, which a group that moves nothing cannot tell: with balance, as many as go."""
    received.copy_(sent)


def _balanced() -> tuple[Tensor, Tensor]:
    """Every expert gets the same number of tokens."""
    pairs = torch.arange(TOKENS * SHAPE["top_k"]) % SHAPE["count"]
    weights = torch.full((TOKENS, SHAPE["top_k"]), 1.0 / SHAPE["top_k"], dtype=torch.bfloat16)
    return pairs.view(TOKENS, -1), weights
