"""Codecs of compressed gradients: method, compressed size, and error feedback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from costmodel.documents.schemas.compression import Codec, Method, codec_of
from costmodel.equations.data_parallel.gradient_compression import (
    feedback_bytes,
    low_rank_share,
    quantised_share,
    sparse_share,
)
from costmodel.estimate.model.mixers.mixer import Matmul
from costmodel.estimate.model.routed_experts import expert_matmuls
from costmodel.estimate.model.shards import matmuls, shard
from costmodel.estimate.shared.memoize import memoized
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.stage_parameters import vocab_per_rank
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.errors import Place
from costmodel.ground.record import record
from costmodel.ground.units import Figure


@record
class CodecPractice:
    """A compression method: bytes of an element and of a scale, elements per scale, and passes over the gradients.

    sent: summed on the way; by parts: each rank gets a part from all, sums it, and all gather the sums; gathered: each
    rank gets those of all others. feedback: bytes of a gradient that a rank remembers of what it left out, and that the
    rank of a part remembers of the sum.
    """

    sent: Literal["summed", "by parts", "gathered"]
    passes: float
    element: float = 4.0
    scale: float = 0.0
    group: float = 1.0
    feedback: float = 0.0
    shared_feedback: float = 0.0
    warm_up: float = 0.0


def _taken(value: float, what: str) -> Figure:
    return Figure(value, Place("compression", path=what))


FP32 = _taken(4.0, "fp32")
INDEX = _taken(4.0, "32-bit index")
# fp16: read and write. int8: read once more for the scales. one-bit: what was left out is added and kept, and signs
# have one scale for a part. top-k: read once more to select. powersgd: two products, and what they leave out.
PRACTICES: dict[Method, CodecPractice] = {
    "fp16": CodecPractice("summed", _taken(2.0, "fp16, passes"), _taken(2.0, "fp16")),
    "int8": CodecPractice(
        "summed", _taken(3.0, "int8, passes"), _taken(1.0, "int8"), FP32, _taken(256.0, "int8, a scale")
    ),
    "one-bit": CodecPractice(
        "by parts",
        _taken(3.0, "one-bit, passes"),
        _taken(0.125, "one bit"),
        feedback=FP32,
        shared_feedback=FP32,
        warm_up=_taken(0.2, "1-bit Adam: 15 to 25 % of the steps"),
    ),
    "top-k": CodecPractice("gathered", _taken(3.0, "top-k, passes"), FP32, feedback=FP32),
    "powersgd": CodecPractice("summed", _taken(6.0, "powersgd, passes"), feedback=FP32),
}
SCATTERED = frozenset({"fp16", "int8"})  # what sharded gradients can be summed in, the latter by an all-to-all


def practice_of(block: Block) -> tuple[Codec, CodecPractice]:
    """The codec of a structure, and its method."""
    codec = codec_of(block.structure.compression)
    return codec, PRACTICES[codec.method]


@memoized("compression")
def compressed_bytes(inputs: TrainingInputs, block: Block) -> Number:
    """Compressed over uncompressed bytes of the gradients, in the type that the stack reduces."""
    codec, practice = practice_of(block)
    with term("compression"):
        if codec.method == "top-k":
            return sparse_share(codec.kept, practice.element, INDEX, inputs.widths.reduced)
        if codec.method == "powersgd":
            return _factors(inputs, block, codec.rank)
        return quantised_share(practice.element, practice.scale, practice.group, inputs.widths.reduced)


def _factors(inputs: TrainingInputs, block: Block, rank: float) -> Number:
    """Elements of low-rank factors over those of the matrices, as tp shards them; small matrices are sent whole."""
    sent: Number = 0.0
    whole: Number = 0.0
    for count, matrix, part in factor_shares(inputs, block, rank):
        size = count * (matrix.n * matrix.k)
        sent = sent + size * part
        whole = whole + size
    return sent / whole


def factor_shares(inputs: TrainingInputs, block: Block, rank: float) -> Iterator[tuple[Number, Matmul, Number]]:
    """Each matrix with its count and the share of it that is sent: its factors, or 1 if these are larger."""
    for count, matrix in _matrices(inputs, block):
        yield count, matrix, np.minimum(low_rank_share(rank, matrix.n, matrix.k), 1.0)


def _matrices(inputs: TrainingInputs, block: Block) -> Iterator[tuple[Number, Matmul]]:
    """The matrices of a rank, and the count of each."""
    model = inputs.model
    for kind in model.layers:
        part = shard(model, kind, block.tp, block.ep, block.etp)
        for matrix in matmuls(model, part):
            yield kind.count, matrix
        if part.routed is not None:
            for matrix in expert_matmuls(model.hidden, part.routed.of, part.routed.ffn_hidden):
                yield kind.count * part.routed.local, matrix
    yield 1.0 if model.tied else 2.0, Matmul("table", vocab_per_rank(inputs, block.tp), model.hidden)


def warm_up(inputs: TrainingInputs, block: Block) -> float:
    """Share of the steps before compression starts."""
    stated = inputs.case.scenario.assume.compression.warm_up
    return practice_of(block)[1].warm_up if stated is None else stated


def remembered(inputs: TrainingInputs, block: Block, held: Number, routed: Number, copies: Number) -> Number:
    """Bytes of a rank's error feedback: the compression error of its gradients, kept for the next step."""
    _, practice = practice_of(block)
    if not practice.feedback:
        return 0.0
    with term("error feedback"):
        rest = feedback_bytes(held, practice.feedback, practice.shared_feedback, block.shards)
        if inputs.experts is None:
            return rest
        return rest + feedback_bytes(routed, practice.feedback, practice.shared_feedback, copies)
