"""A row of a table of measured runs becomes a case, or is skipped for a named reason."""

from __future__ import annotations

import re
from typing import Any

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.proxy_node import proxy_node
from costmodel.documents.reader.resolved_scenario import case_of
from costmodel.documents.reader.validation_errors import validate
from costmodel.documents.schemas.hardware import Accelerator, DefaultNode
from costmodel.documents.schemas.precision import RECIPES
from costmodel.documents.schemas.scenario import Scenario
from costmodel.documents.schemas.stack import Stack
from costmodel.estimate.training.parallelism.pipeline.schedule_rules import FOLDED, LOOPED
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.evidence.validate.expert_cells import expert_assumptions, expert_degrees, expert_layers, has_experts
from costmodel.evidence.validate.imputation import USUAL_TOKENS, Filling
from costmodel.evidence.validate.known_models import completed, known_dense
from costmodel.evidence.validate.layouts import (
    RowLayout,
    chunks,
    layout_of,
    micro_batch,
    replicas,
    split,
    usual_micro_batch,
    usual_schedule,
)
from costmodel.evidence.validate.machines import SOURCE, cluster_of
from costmodel.evidence.validate.recompute_cells import choices_of, offloads_more
from costmodel.evidence.validate.row_settings import put_settings
from costmodel.evidence.validate.skip_reasons import CannotModel, needed
from costmodel.evidence.validate.software import stack_of
from costmodel.evidence.validate.spelling import OPEN, positions_of, precision_of, recompute_of, schedule_of, ulysses
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.ground.errors import CostModelError
from costmodel.ground.record import record

_ADAPTERS = re.compile(r"(?<!no )(?<!not )(?<!without )\b(?:q?lora|peft)\b", re.IGNORECASE)
_CELLS = {"zero": "zero_stage", "bandwidth": "nic_gbps_per_gpu"}  # by keys of a scenario, where they differ
_OTHER_MIXERS = ("hybrid", "mamba", "ssm", "rwkv")


@record
class RowScenario:
    """The tree of the scenario that a row states, and its imputed cells."""

    row: CsvRow
    tree: dict[str, Any]
    filled: dict[str, str]


def row_scenario(row: CsvRow, shelf: CachedReader) -> RowScenario:
    """The scenario of a row, or the reason why it has none."""
    row, known = completed(row, shelf)
    filling = Filling(row, shelf)
    filling.filled |= known
    accelerator, stand = _machine(filling, shelf)
    filling.planned()
    row = filling.row
    _features(row)
    layout = layout_of(filling)
    stack = stack_of(filling, shelf)
    if has_experts(row) and stack.experts is None:
        raise CannotModel("V002", f"the stack {stack.name} does not describe experts")
    workload = _workload(filling, accelerator, stack, layout)
    tree = {
        "schema": "costmodel/scenario/v1",
        "title": row.id,
        "model": _model(filling, shelf),
        "cluster": cluster_of(filling, shelf, accelerator.name, stand, layout.ranks),
        "workload": workload,
        "stack": stack.model_dump(by_alias=True, exclude_none=True),
        "assume": expert_assumptions(filling, stack),
    }
    tree["plan"] = _plan(filling, stack, layout, tree)
    put_settings(tree, filling)
    return RowScenario(row, tree, filling.filled)


def row_inputs(asked: RowScenario, shelf: CachedReader) -> TrainingInputs:
    """The inputs of a row's scenario, with the same checks as of any scenario."""
    tree = asked.tree
    try:
        case = case_of(validate(Scenario, tree, str(asked.row.place)), shelf, tree)
    except CostModelError as error:
        fault = error.faults[0]
        key = fault.place.path.rpartition(".")[2] if fault.place else ""
        raise CannotModel("V006", f"{_CELLS.get(key, key)}: {fault.sentence}") from None
    try:
        return training_inputs(case)
    except CostModelError as error:
        fault = error.faults[0]
        raise CannotModel("V004" if fault.code == "D016" else "V001", fault.sentence) from None


def _machine(filling: Filling, shelf: CachedReader) -> tuple[Accelerator, DefaultNode]:
    """The accelerator of the run and its proxy node, or why the run cannot be modelled."""
    row = filling.row
    name = filling.accelerator()
    found = proxy_node(shelf, name) if shelf.has("accelerator", name) else None
    if found is None:
        stated, memory = row.text("accelerator") or row.text("gpu") or "(not named)", row.number("gpu_mem_gb")
        sized = "" if memory is None else f" with {memory:g} GB"
        raise CannotModel("V001", f"no document of the accelerator {stated}{sized} and its node")
    return shelf.document("accelerator", name), found


def _features(row: CsvRow) -> None:
    """Refuse features that costmodel does not model."""
    precision_of(row)
    if written := row.text("recompute"):
        recompute_of(written)
    if offloads_more(row):
        raise CannotModel("V009", "something other than activations is offloaded")
    if _ADAPTERS.search(f"{row.text('model_name')} {row.text('features')} {row.text('notes')}"):
        raise CannotModel("V009", "adapters of unstated rank are trained")


def _model(filling: Filling, shelf: CachedReader) -> dict[str, Any]:
    row = filling.row
    _, hidden, _, sequence = needed(row, "layers", "hidden", "heads", "seq_len")
    gated = filling.flag("glu", False)
    only_experts = None if row.number("n_dense_layers") else row.number("moe_ffn")
    if gated and only_experts is None:
        next(needed(row, "ffn"))
    ffn = filling.number("ffn", only_experts or 4 * hidden)
    vocab = filling.number("vocab", 32000.0 if gated else 50257.0)
    tied = row.flag("tied_embeddings")
    if tied is None:
        tied = filling.put("tied_embeddings", not gated and filling.year() <= 2022)
    return {
        "schema": "costmodel/model/v1",
        "name": "row",
        "title": row.text("model_name") or row.id,
        "vocab": vocab,
        "hidden": hidden,
        "positions": positions_of(row, gated=gated),
        "max_sequence": sequence,
        "tied": tied,
        "norm": "rmsnorm" if gated else "layernorm",
        **_layers(filling, shelf, ffn=ffn, gated=gated),
        "source": SOURCE,
    }


def _layers(filling: Filling, shelf: CachedReader, *, ffn: float, gated: bool) -> dict[str, Any]:
    """The layers of a row: all alike, or with experts in most of them."""
    row = filling.row
    layers, hidden, heads = needed(row, "layers", "hidden", "heads")
    dense = {
        "count": layers,
        "parallel": any(f"parallel {half}" in row.text("notes") for half in ("residual", "transformer block")),
        "attention": {
            "heads": heads,
            "kv_heads": filling.number("kv_heads", 1.0 if row.text("attention").lower() == "mqa" else heads),
            "head_dim": filling.number("head_dim", hidden / heads),
            "biases": not gated,
            "output_bias": not gated,
        },
        "mlp": {"ffn_hidden": ffn, "gated": gated, "biases": not gated},
    }
    if has_experts(row):
        next(needed(row, "n_experts", "topk"))
        found = expert_layers(filling, shelf, dense)
    else:
        found = {"layers": [dense]} | known_dense(filling, shelf, dense)
    plain = all("attention" in kind for kind in found["layers"] if kind.keys() & {"mlp", "experts"})
    if plain and (other := _other_mixer(row)):
        raise CannotModel("V006", f"{other} of unstated widths")
    return found


def _other_mixer(row: CsvRow) -> str:
    """The mixer that a row names in place of standard attention."""
    if row.text("attention").lower() == "mla":
        return "latent attention"
    return f"layers of arch {row.text('arch')}" if row.text("arch").lower() in _OTHER_MIXERS else ""


def _workload(filling: Filling, accelerator: Accelerator, stack: Stack, layout: RowLayout) -> dict[str, Any]:
    row = filling.row
    batch = row.number("global_batch")
    if batch is None:
        share, steps = row.number("micro_batch"), row.number("grad_accum")
        if share is None or steps is None:
            raise CannotModel("V006", "global_batch empty")
        batch = filling.put("global_batch", share * layout.dp * steps)
    precision = filling.precision(stack)
    if precision in ("", OPEN):
        precision = "bf16" if accelerator.peak.bf16 is not None else "fp16"
    if row.text("precision") != precision:
        filling.put("precision", precision)
    if getattr(accelerator.peak, RECIPES[precision].type) is None:
        raise CannotModel("V004", f"{accelerator.name} has no {precision}")
    return {
        "kind": "training",
        "sequence": next(needed(row, "seq_len")),
        "global_batch": batch,
        "precision": precision,
        "gradients": filling.gradients(stack, precision),
    }


def _plan(filling: Filling, stack: Stack, layout: RowLayout, tree: dict[str, Any]) -> dict[str, Any]:
    row = filling.row
    batch, sequence = tree["workload"]["global_batch"], tree["workload"]["sequence"]
    tokens = USUAL_TOKENS if has_experts(row) else layout.tp * USUAL_TOKENS
    usual = usual_micro_batch(filling, batch / layout.dp, layout.pp, float(tokens / sequence))
    size = micro_batch(filling, batch, layout.dp, usual)
    layers = sum(kind["count"] for kind in tree["model"]["layers"])
    named = schedule_of(row)
    count = batch / (layout.dp * size)
    schedule = named or usual_schedule(filling, stack, layers, layout.pp, count)
    if schedule in ("1f1b", *LOOPED):
        vpp = chunks(filling, stack, layers, layout.pp, count, schedule=named)
    else:
        vpp = 2.0 if schedule in FOLDED else 1.0
    recompute = recompute_of(filling.recompute(stack))
    parallel = row.flag("seq_parallel")
    if parallel is None and layout.tp > 1:
        parallel = filling.put("seq_parallel", stack.sequence_parallel)
    return {
        "dp": layout.dp,
        "tp": layout.tp,
        "pp": layout.pp,
        "vpp": vpp,
        "micro_batch": size,
        "cp": layout.cp,
        "cp_type": "a2a" if ulysses(row) else None,
        "dp_replicate": replicas(filling, layout.dp),
        **expert_degrees(filling, layout),
        "zero": int(filling.zero(stack)),
        "recompute": recompute.mode,
        "schedule": "interleaved" if vpp > 1 and schedule == "1f1b" else schedule,
        "sequence_parallel": (bool(parallel) or has_experts(row)) and layout.tp > 1,
        "split": split(filling, layers, layout.pp * vpp),
        **choices_of(row, stack, recompute),
    }
