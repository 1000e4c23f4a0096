"""FLOP of Kimi Linear's delta attention in transformers, and bytes it saves around a core that saves as fla does."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import KimiLinearConfig
from transformers.models.kimi_linear import modeling_kimi_linear as real

from .saved import compiled, saved

SEQUENCES, TOKENS, HIDDEN, CHUNK = 2, 64, 512, 64
HEADS, WIDTH, CONV = 4, 64, 4


def counted() -> dict[str, Any]:
    """FLOP and bytes a token of the mixer alone; its squares are sums of products that the counter leaves out."""
    found: dict[str, Any] = {"hidden": HIDDEN, "sequences": SEQUENCES, "tokens": TOKENS, "chunk": CHUNK}
    return found | {"heads": HEADS, "width": WIDTH, "conv": CONV, "flop": _flop(), "compiled": _saved()}


def _mixer() -> Any:
    config = KimiLinearConfig(
        hidden_size=HIDDEN,
        num_hidden_layers=1,
        layer_types=["linear_attention"],
        linear_num_heads=HEADS,
        linear_head_dim=WIDTH,
        linear_conv_kernel_dim=CONV,
    )
    mixer = real.KimiLinearDeltaAttention(config, 0)
    for weight in mixer.parameters():
        nn.init.normal_(weight, std=0.02)
    return mixer


def _flop() -> float:
    with FlopCounterMode(display=False) as counter:
        _mixer()(torch.randn(1, TOKENS, HIDDEN))
    return counter.get_total_flops() / TOKENS


class _Core(torch.autograd.Function):
    """Saves what ChunkKDAFunction saves of decays it is given: their sums in fp32, and two squares of each chunk."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
        squares = (q.new_empty(*v.shape[:3], CHUNK) for _ in range(2))
        ctx.save_for_backward(q, k, v, g, beta, torch.empty_like(g, dtype=torch.float32), *squares)
        return v.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return ctx.saved_tensors[:5]


@torch._dynamo.disable
def _kernel(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, **_: Any) -> tuple[Tensor, None]:
    return _Core.apply(q, k, v, g, beta), None


def _saved() -> float:
    kernel = real.chunk_kimi_delta_attention
    real.chunk_kimi_delta_attention = _kernel
    try:
        mixer = _mixer().to(torch.bfloat16)
        x = torch.randn(SEQUENCES, TOKENS, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
        return saved(compiled(mixer), mixer, x)
    finally:
        real.chunk_kimi_delta_attention = kernel
