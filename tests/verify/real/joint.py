"""FLOP of a layer of Falcon-H1 in transformers, and bytes it saves around a kernel that saves what mamba_ssm's does."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import AttentionInterface, FalconH1Config
from transformers.models.falcon_h1 import modeling_falcon_h1 as real

from .latent import _view
from .saved import compiled, saved

SEQUENCES, TOKENS, HIDDEN, FFN_HIDDEN = 2, 128, 512, 1024
ATTENTION = {"heads": 8, "kv_heads": 8, "head_dim": 64}
STATE = {"heads": 12, "head_dim": 64, "groups": 2, "state": 128, "conv": 4, "chunk": 64}


def counted() -> dict[str, Any]:
    """FLOP and bytes a token of a whole layer."""
    AttentionInterface.register("contiguous", _view)
    found: dict[str, Any] = {"hidden": HIDDEN, "sequences": SEQUENCES, "tokens": TOKENS, "ffn_hidden": FFN_HIDDEN}
    return found | {"attention": ATTENTION, "state_space": STATE, "flop": _flop(), "compiled": _saved()}


def _layer(core: str) -> tuple[Any, Any]:
    config = FalconH1Config(
        vocab_size=64,
        hidden_size=HIDDEN,
        num_hidden_layers=1,
        intermediate_size=FFN_HIDDEN,
        num_attention_heads=ATTENTION["heads"],
        num_key_value_heads=ATTENTION["kv_heads"],
        head_dim=ATTENTION["head_dim"],
        mamba_d_ssm=STATE["heads"] * STATE["head_dim"],
        mamba_n_heads=STATE["heads"],
        mamba_d_head=STATE["head_dim"],
        mamba_n_groups=STATE["groups"],
        mamba_d_state=STATE["state"],
        mamba_d_conv=STATE["conv"],
        mamba_chunk_size=STATE["chunk"],
        attn_implementation=core,
    )
    return config, real.FalconH1Model(config).layers[0]


def _positions(config: Any, x: Tensor) -> Any:
    return real.FalconH1RotaryEmbedding(config)(x, torch.arange(TOKENS)[None])


def _flop() -> float:
    config, layer = _layer("eager")
    x = torch.randn(1, TOKENS, HIDDEN)
    with FlopCounterMode(display=False) as counter:
        layer.eval()(x, position_embeddings=_positions(config, x))
    return counter.get_total_flops() / TOKENS


class _Scan(torch.autograd.Function):
    """Saves what MambaSplitConv1dScanCombinedFn does where the last matrix is its own: not that matrix's input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, out: Tensor, *given: Tensor) -> Tensor:
        ctx.save_for_backward(x, out, *given, x.new_empty(*x.shape[:2], out.shape[1]))
        return x.new_empty(*x.shape[:2], out.shape[0])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return ctx.saved_tensors[:-1]


@torch._dynamo.disable
def _scanned(x: Tensor, weight: Tensor, bias: Tensor, steps: Tensor, decay: Tensor, **given: Any) -> Tensor:
    return _Scan.apply(x, given["outproj_weight"], weight, bias, steps, decay, given["D"])


def _saved() -> float:
    kernel = real.mamba2_split_conv1d_scan_combined
    real.mamba2_split_conv1d_scan_combined = _scanned
    try:
        config, layer = _layer("contiguous")
        layer = layer.to(torch.bfloat16).train()
        for weight in layer.parameters():
            nn.init.normal_(weight, std=0.02)
        x = torch.randn(SEQUENCES, TOKENS, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
        return saved(compiled(layer), layer, x, position_embeddings=_positions(config, x))
    finally:
        real.mamba2_split_conv1d_scan_combined = kernel
