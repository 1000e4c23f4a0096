"""Constraints of compressed gradients: what can be scattered, and where compression has no effect."""

from __future__ import annotations

import numpy as np

from costmodel.documents.schemas.compression import codec_of
from costmodel.estimate.shared.masks import Mask, all_if, none
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.parallelism.data.codecs import SCATTERED, compressed_bytes
from costmodel.estimate.training.training_inputs import TrainingInputs


def not_scattered(inputs: TrainingInputs, block: Block) -> Mask:
    """Compression that needs whole gradients where they are sharded."""
    structure = block.structure
    if structure.compression == "none" or codec_of(structure.compression).method in SCATTERED:
        return none(block)
    sharded = structure.zero >= 2 or (structure.zero >= 1 and inputs.stack.states.sharded_master)
    return np.asarray(block.dp_replicate > 1) | sharded


def nothing_to_compress(inputs: TrainingInputs, block: Block) -> Mask:
    """Compression of what is not sent, or no smaller than what is."""
    if block.structure.compression == "none":
        return none(block)
    return np.asarray((block.shards == 1) & (block.dp_replicate == 1)) | (compressed_bytes(inputs, block) >= 1)


def compression_not_offered(inputs: TrainingInputs, block: Block) -> Mask:
    """Compression that the stack does not come with."""
    method = codec_of(block.structure.compression).method
    return all_if(block, method != "none" and method not in inputs.stack.compression)
