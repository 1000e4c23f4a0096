"""Compares whole layers with the sum of their parts, to check the fits of calibrate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from costmodel.documents.reader.cached_reader import accelerator_named
from costmodel.documents.reader.library import names, read
from costmodel.documents.reader.load_scenario import load
from costmodel.documents.schemas.hardware import Node
from costmodel.estimate.model.shards import shard
from costmodel.estimate.shared.plan_batch import ForwardBackward
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.time.layer_kernels import layer_pass
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.estimate.training_answer.predict_training import own_plan, plan_block
from costmodel.ground.errors import CostModelError

STACK = "ddp"  # kernels of PyTorch one by one


def with_predictions(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, with predictions for layers where a node with the accelerator is known."""
    nodes = {name: _node_of(name) for name in {row["gpu"] for row in rows if row["op"] == "block"}}
    return [
        row | _predicted_time(row, node)
        if row["op"] == "block" and row["kind"] == "gpu" and (node := nodes[row["gpu"]])
        else row
        for row in rows
    ]


def _node_of(gpu: str) -> str:
    """A node with the accelerator of that name; empty when there is none."""
    accelerator = gpu if gpu in names("accelerator") else accelerator_named(gpu)
    nodes: dict[str, Node] = {name: read("node", name) for name in names("node")}
    return next((name for name, node in nodes.items() if node.accelerator == accelerator), "")


def _predicted_time(row: dict[str, Any], node: str) -> dict[str, float]:
    """Microseconds in both directions; None for an accelerator without a rate for this type."""
    try:
        both = _layer(node, row["dim"], row["h"], row["l"])
    except CostModelError:
        return {}
    times = {"predicted_fwd_us": both.forward.device, "predicted_bwd_us": both.backward.device}
    return {name: number(1e6 * seconds) for name, seconds in times.items()}


def _layer(node: str, hidden: int, heads: int, tokens: int) -> ForwardBackward:
    """A layer as measured: alone, without rotary embedding, gradients written once in the weight type."""
    layer = "model.layers.0"
    changes = {
        "cluster.node": node,
        "cluster.nodes": 1,
        "stack": STACK,
        "plan.tp": 1,
        "workload.sequence": tokens,
        "model.positions": "alibi",
        "model.hidden": hidden,
        f"{layer}.attention.heads": heads,
        f"{layer}.attention.kv_heads": heads,
        f"{layer}.mlp.ffn_hidden": 7 * hidden // 2,
        "assume.sustained": 1,
        "assume.variation": 0,
    }
    adding = training_inputs(load("quickstart", [f"{path}={value}" for path, value in changes.items()]))
    widths = adding.widths
    inputs = replace(
        adding, widths=replace(widths, gradient=float(widths.element / 2.0))
    )  # half of what is read and written
    block, _ = plan_block(inputs, own_plan(inputs))
    return layer_pass(inputs, shard(inputs.model, inputs.model.layers[0], block.tp, block.ep, block.etp), block)
