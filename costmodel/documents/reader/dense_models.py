"""Dense models that are named by layers and width, in the proportions of Llama 3, and those of about a size."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from costmodel.ground.parsing import late_pattern

_WIDTH, _WIDEST, _DEPTH, _LAYERS = 1024, 32_768, 128, 4  # widths, width over layers of Llama 3, and layers at a time
_SHAPED = late_pattern(r"dense-(\d{1,3})x(\d{3,6})")
_HEAD_DIM, _KV_HEADS, _VOCAB = 128, 8, 128_256
_OF_SHAPE = """schema: costmodel/model/v1
name: dense-{layers}x{hidden}
title: Dense model of {layers} layers and width {hidden:,}
vocab: {vocab}
hidden: {hidden}
positions: rotary
max_sequence: 131072
tied: false
norm: rmsnorm
layers:
  - count: {layers}
    attention: {{heads: {heads}, kv_heads: {kv_heads}, head_dim: {head_dim}, biases: false, output_bias: false}}
    mlp: {{ffn_hidden: {ffn_hidden}, gated: true, biases: false}}
"""


def dense_of_shape(name: str) -> str:
    """The document of a dense model named by layers and width, in the proportions of Llama 3; empty for other names.

    >>> dense_of_shape("dense-32x4096").splitlines()[1], dense_of_shape("llama-3.1-8b")
    ('name: dense-32x4096', '')
    """
    stated = _SHAPED.fullmatch(name)
    if stated is None or int(stated[2]) % (8 * _HEAD_DIM) or not int(stated[1]):
        return ""
    hidden = int(stated[2])
    sizes = {"heads": hidden // _HEAD_DIM, "kv_heads": _KV_HEADS, "head_dim": _HEAD_DIM, "ffn_hidden": _inner(hidden)}
    return _OF_SHAPE.format(layers=int(stated[1]), hidden=hidden, vocab=_VOCAB, **sizes)


def _inner(hidden: int) -> int:
    """The inner width of the MLP."""
    return hidden // 2 * 7


class DenseModel(NamedTuple):
    """The name and parameters of a dense model with the proportions of Llama 3."""

    name: str
    parameters: float


def dense_model(parameters: float) -> DenseModel:
    """The dense model with about this number of parameters.

    >>> dense_model(70e9)
    DenseModel(name='dense-80x8192', parameters=70553706496.0)
    """
    near = [_dense_model_of_shape(_WIDTH // _DEPTH, _WIDTH)]
    for width in range(_WIDTH, _WIDEST + 1, _WIDTH):
        widest = _dense_model_of_shape(width // _DEPTH, width)
        if widest.parameters > parameters:
            near.append(widest)
            break
        near, layers = [], width // _DEPTH
        while not near or (near[-1].parameters < parameters and layers < 2 * width // _DEPTH):
            near.append(_dense_model_of_shape(layers, width))
            layers += _LAYERS
    return min(near, key=lambda model: abs(math.log(model.parameters / parameters)))


@functools.cache
def _dense_model_of_shape(layers: int, width: int) -> DenseModel:
    """The model of a shape, with all its parameters: of attention, the MLP, norms, embedding and head.

    They only choose a name: predictions count those of the document, and tests hold the two equal.
    """
    attention = 2 * width * width + 2 * width * _KV_HEADS * _HEAD_DIM
    layer = attention + 3 * width * _inner(width) + 2 * width
    return DenseModel(f"dense-{layers}x{width}", float(layers * layer + 2 * _VOCAB * width + width))
