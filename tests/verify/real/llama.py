"""A small Llama-like model in PyTorch, written as training software writes it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """Sizes of the model."""

    hidden: int = 512
    heads: int = 8
    kv_heads: int = 8
    head_dim: int = 64
    ffn_hidden: int = 1024
    vocab: int = 1024
    layers: int = 2
    gated: bool = True


class Norm(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape.hidden))

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.weight.shape, self.weight)


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.head_dim = shape.head_dim
        self.q = nn.Linear(shape.hidden, shape.heads * shape.head_dim, bias=False)
        self.k = nn.Linear(shape.hidden, shape.kv_heads * shape.head_dim, bias=False)
        self.v = nn.Linear(shape.hidden, shape.kv_heads * shape.head_dim, bias=False)
        self.out = nn.Linear(shape.heads * shape.head_dim, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        sequences, tokens, _ = x.shape
        q, k, v = (
            each(x).view(sequences, tokens, -1, self.head_dim).transpose(1, 2) for each in (self.q, self.k, self.v)
        )
        core = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
        return self.out(core.transpose(1, 2).reshape(sequences, tokens, -1))


class Mlp(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.up = nn.Linear(shape.hidden, shape.ffn_hidden, bias=False)
        self.gate = nn.Linear(shape.hidden, shape.ffn_hidden, bias=False) if shape.gated else None
        self.down = nn.Linear(shape.ffn_hidden, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.gate is None:
            return self.down(functional.gelu(self.up(x)))
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention_norm, self.attention = Norm(shape), Attention(shape)
        self.mlp_norm, self.mlp = Norm(shape), Mlp(shape)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class Llama(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocab, shape.hidden)
        self.layers = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = Norm(shape)
        self.head = nn.Linear(shape.hidden, shape.vocab, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))
