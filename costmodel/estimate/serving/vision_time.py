"""Time of an engine for the images of prompts: the vision tower and its projector."""

from __future__ import annotations

from costmodel.equations.kernels.memory_traffic import mlp_traffic, norm_traffic
from costmodel.equations.kernels.roofline import attention_forward_time, stream_time
from costmodel.estimate.model.mixers.table import core_flop, mixer_traffic
from costmodel.estimate.model.shards import additions, matmuls, shard
from costmodel.estimate.model.vision_tower import patch_matmul, projector_matmuls, tower_model
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.quantised_products import product
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


@record
class VisionTime:
    """Seconds of products, of attention, and of what is bound by memory."""

    matmul: Number = 0.0
    attention: Number = 0.0
    memory_bound: Number = 0.0


def vision_time(inputs: ServingInputs, layout: PlanColumns, tokens: Number) -> VisionTime:
    """Time of the tower for the images of so many tokens of prompts of one group; it is in 16 bits, and not cached."""
    tower, images = inputs.model.vision, inputs.case.scenario.workload.images
    if tower is None or images is None:
        return VisionTime()
    with term("vision tower"):
        model, element = tower_model(inputs.model, tower), inputs.types.wide
        seen = tokens / inputs.load.computed * images.count
        patches = images.tokens * tower.merge
        rows = seen * patches
        maps = product(inputs, rows, patch_matmul(tower), narrow=False)
        cores: Number = 0.0
        moved: Number = 0.0
        for kind in tower.layers:
            part = shard(model, kind, layout.tp)
            for matrix in matmuls(model, part):
                maps = maps + kind.count * product(inputs, rows, matrix, narrow=False)
            nbytes = norm_traffic(
                rows, tower.hidden, kind.norms, additions(kind), element, dropout=False, fused=True, backward=False
            )
            if kind.dense is not None:
                nbytes = nbytes + mlp_traffic(rows, part.ffn_hidden, element, gated=kind.dense.gated, backward=False)
            if part.mixer is not None:
                nbytes = nbytes + mixer_traffic(model, kind, part.mixer, rows, element, backward=False)
                flop = core_flop(kind, part.mixer, seen, patches, part.mixer.heads, causal=False)
                rate = inputs.kernels.prompt.forward_share * inputs.types.peak_wide
                cores = cores + kind.count * attention_forward_time(flop, rate, 1.0)
            moved = moved + kind.count * stream_time(nbytes, inputs.memory_bandwidth, inputs.memory_share)
        for own in tower.projectors:
            for matrix in projector_matmuls(inputs.model, own, layout.tp):
                maps = maps + own.count * product(inputs, rows / tower.merge, matrix, narrow=False)
    return VisionTime(maps, cores, moved)
