"""Constraints on recompute and offload: what the stack offers and what the node provides."""

from __future__ import annotations

import math

import numpy as np

from costmodel.equations.parallelism.counts import micro_batches_per_step
from costmodel.estimate.shared.masks import Mask, all_if
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.parallelism.pipeline.layer_split import stage_layers
from costmodel.estimate.training.training_inputs import TrainingInputs


def choices_offered(inputs: TrainingInputs, block: Block) -> bool:
    """Whether the stack supports the choices of a structure."""
    structure, stack = block.structure, inputs.stack
    modules = set(structure.recompute_modules or ()) <= set(stack.recompute_modules)
    methods = structure.recompute_layers is None or structure.recompute_method in stack.recompute_methods
    if not structure.offload:
        return modules and methods
    offloading = stack.offload
    kept = offloading is not None and set(structure.offload) <= set(offloading.of)
    return modules and methods and kept and offloading is not None and structure.offload_to in offloading.to


def wrong_keys(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with recompute modules without selective recompute, or with recompute layers without full recompute."""
    structure = block.structure
    modules = structure.recompute_modules is not None and structure.recompute != "selective"
    return all_if(block, modules or (structure.recompute_layers is not None and structure.recompute != "full"))


def wrong_layers(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with more recomputed layers than a model chunk has, or with too few."""
    structure = block.structure
    if structure.recompute_layers is None:
        return all_if(block, False)
    fullest = np.ceil(stage_layers(inputs.model, block).fullest / block.vpp)
    least = 1 if structure.recompute_method == "uniform" else 0
    return np.asarray((structure.recompute_layers > fullest) | (structure.recompute_layers < least))


def wrong_offload(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with contradictory offload keys."""
    structure, kept = block.structure, set(block.structure.offload)
    alone = inputs.stack.offload is not None and inputs.stack.offload.parameters_alone
    optimizer = "optimizer" in kept and structure.zero == 0
    parameters = "parameters" in kept and (structure.zero != 3 or ("optimizer" not in kept and not alone))
    drives = structure.offload_to == "nvme" and not kept & {"optimizer", "parameters"}
    layers = structure.offload_layers is not None and "activations" not in kept
    return all_if(block, optimizer or parameters or drives or layers)


def several_in_backward(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with several micro-batches although the optimizer updates in backward."""
    batches = micro_batches_per_step(inputs.global_batch, block.dp, block.micro_batch)
    return np.asarray(batches > 1) & all_if(block, inputs.optimizer.in_backward)


def wrong_step(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with updates in backward that the stack does not support, or with options that exclude them."""
    structure = block.structure
    able = inputs.stack.states.in_backward and structure.zero in (0, 3) and "optimizer" not in structure.offload
    return all_if(block, inputs.optimizer.in_backward and not able)


def cut_matrices(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with sharded or offloaded matrices although the optimizer projects whole gradients."""
    structure = block.structure
    cut = (block.tp > 1) | (block.shards > 1 if structure.zero >= 1 else False)
    kept = inputs.optimizer.projection is not None
    return np.asarray(cut | ("optimizer" in structure.offload)) & all_if(block, kept)


def assumed_host(inputs: TrainingInputs, block: Block) -> bool:
    """Whether the size of the host memory for offload is an assumption."""
    unstated = inputs.case.node.memory is None and not math.isnan(inputs.host.capacity)
    return unstated and (bool(block.structure.offload) or inputs.optimizer.paged)


def unknown_host(inputs: TrainingInputs, block: Block) -> Mask:
    """Rows with offload to a host whose memory or link no document states."""
    host, structure = inputs.host, block.structure
    if not structure.offload and not inputs.optimizer.paged:
        return all_if(block, False)
    wanted = [host.link, host.capacity, host.bandwidth]
    wanted += [host.drives, host.read, host.write] if structure.offload_to == "nvme" else []
    return all_if(block, any(map(math.isnan, wanted)))
