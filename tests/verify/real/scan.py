"""FLOP of Jamba's mixer, and bytes it saves around kernels that save what those of mamba_ssm and causal_conv1d do."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import JambaConfig
from transformers.models.jamba import modeling_jamba as real

from .saved import compiled, saved

SEQUENCES, TOKENS, HIDDEN = 2, 64, 512
SCAN = {"inner": 1024, "state": 16, "rank": 48, "conv": 4}
SPAN = 2048  # tokens of a sequence after which the kernel writes states down, and at its end


def counted() -> dict[str, Any]:
    """FLOP and bytes a token; the scan itself is made of operations that the counter leaves out."""
    found: dict[str, Any] = {"hidden": HIDDEN, "sequences": SEQUENCES, "tokens": TOKENS, "span": SPAN}
    return found | {"scan": SCAN, "flop": _flop(), "compiled": _saved()}


def _mixer() -> Any:
    config = JambaConfig(
        hidden_size=HIDDEN,
        mamba_expand=SCAN["inner"] // HIDDEN,
        mamba_d_state=SCAN["state"],
        mamba_d_conv=SCAN["conv"],
        mamba_dt_rank=SCAN["rank"],
    )
    return real.JambaMambaMixer(config, 0)


def _flop() -> float:
    with FlopCounterMode(display=False) as counter:
        _mixer()(torch.randn(1, TOKENS, HIDDEN))
    return counter.get_total_flops() / TOKENS


class _Convolution(torch.autograd.Function):
    """Saves its input and weights, as CausalConv1dFn does; its result lies in memory as the input, by token."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight, bias)
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return ctx.saved_tensors


class _Scan(torch.autograd.Function):
    """Saves what SelectiveScanFn does with a gate: all it is given, states in pairs, and its result ungated."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor, z: Tensor) -> Tensor:
        chunks = -(-u.shape[-1] // SPAN)
        states = torch.zeros(u.shape[0], u.shape[1], chunks, 2 * a.shape[1])
        given = (each.contiguous() for each in (u, dt, a, b, c, d, z))
        ctx.save_for_backward(*given, states, u.clone())
        return u.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return ctx.saved_tensors[:7]


@torch._dynamo.disable
def _convolved(x: Tensor, weight: Tensor, bias: Tensor, **_: Any) -> Tensor:
    return _Convolution.apply(x, weight, bias)


@torch._dynamo.disable
def _scanned(u: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, **given: Any) -> Tensor:
    return _Scan.apply(u, dt, a, b, c, given["D"], given["z"])


def _saved() -> float:
    kernels = real.causal_conv1d_fn, real.mamba_selective_scan
    real.causal_conv1d_fn, real.mamba_selective_scan = _convolved, _scanned
    try:
        mixer = _mixer().to(torch.bfloat16)
        for weight in mixer.parameters():
            nn.init.normal_(weight, std=0.02)
        x = torch.randn(SEQUENCES, TOKENS, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
        return saved(compiled(mixer), mixer, x)
    finally:
        real.causal_conv1d_fn, real.mamba_selective_scan = kernels
