"""A row of a table of measured runs becomes a case, or says by a named reason why it cannot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

from costmodel.documents.cells import Row
from costmodel.documents.faults import validate
from costmodel.documents.hardware import Accelerator
from costmodel.documents.library import Case, case_of
from costmodel.documents.precision import RECIPES
from costmodel.documents.scenario import Scenario
from costmodel.documents.shelf import Shelf
from costmodel.documents.stack import Schedule, Stack
from costmodel.equations.counting import divided, repeated
from costmodel.errors import CostModelError
from costmodel.estimate.legality.rules import REFUSALS, Rule
from costmodel.estimate.plan import Answer, answer, own_plan
from costmodel.estimate.setting import setting_of
from costmodel.estimate.shapes.schedules import FOLDED, LOOPED
from costmodel.explore.validate.chosen_rows import OFFLOAD, choices_of
from costmodel.explore.validate.expert_rows import expert_assumptions, expert_degrees, expert_layers, has_experts
from costmodel.explore.validate.fills import USUAL_TOKENS, Filling, chunks, micro_batch, replicas, split
from costmodel.explore.validate.known_models import known_layers
from costmodel.explore.validate.machines import SOURCE, Stand, cluster_of, stand_of
from costmodel.explore.validate.software import stack_of

REASONS = {
    "V001": Rule("accelerator unknown", "No document describes the row's accelerator, or no node that holds it."),
    "V002": Rule("experts", "The model has experts, and the training software's document says nothing of them."),
    "V004": Rule("precision without a fit", "Accelerator or stack lack it, or no matmuls of it were fitted."),
    "V005": Rule("nothing measured", "The row has no measured cell of the quantity asked for."),
    "V006": Rule(
        "shape incomplete", "A cell that no rule fills is empty: of the model, the batch or the layout. The rules:"
    ),
    "V007": Rule("plan illegal", "The layout breaks a rule of legality; the row names its code, L001 and following."),
    "V008": Rule("schedule unknown", "The pipeline schedule is not one of those modelled."),
    "V009": Rule("feature unknown", "The run recomputes or offloads in a way that is not modelled."),
}

PRECISIONS = {"fp16/bf16": "bf16", **{name: name for name in RECIPES}}
SCHEDULES = {
    **{name: name for name in get_args(Schedule)},
    "1f1b-i": "interleaved",
    "zb-1p": "zb-h1",  # found by search within the memory of zb-h1, or of zb-h2
    "zb-2p": "zb-h2",
    "zbv": "zb-v",
}
RECOMPUTE = ("none", "selective", "full")
_SCHEDULE = re.compile(r"(?:schedule=|\+ (?=ZB-))([\w-]+)")
_ULYSSES = re.compile(r"\bCP=Ulysses")


class Refused(Exception):
    """A row that cannot be modelled: the code of the reason, and what exactly."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(f"{code}: {why}")
        self.code, self.why = code, why


@dataclass(frozen=True)
class Modelled:
    """The answer for a row's plan, and which cells were filled on the way."""

    answer: Answer
    filled: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    """The degrees of a row."""

    ranks: float
    tp: float
    pp: float
    dp: float
    cp: float = 1.0


def modelled(row: Row, shelf: Shelf) -> Modelled:
    """Our prediction of a row, or the reason why there is none."""
    filling = Filling(row)
    accelerator, stand = _machine(filling, shelf)
    _features(row)
    layout = _layout(filling)
    stack = stack_of(filling, shelf)
    if has_experts(row) and stack.experts is None:
        raise Refused("V002", f"the stack {stack.name} says nothing of experts")
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
    case = _case({**tree, "plan": _plan(filling, stack, layout, tree)}, shelf, row)
    try:
        setting = setting_of(case)
    except CostModelError as error:
        raise Refused("V004", error.faults[0].sentence) from None
    found = answer(setting, own_plan(setting))
    if found.refused:
        raise Refused("V007", f"{found.refused[0]}: {REFUSALS[found.refused[0]].title}")
    return Modelled(found, filling.filled)


def _case(tree: dict[str, Any], shelf: Shelf, row: Row) -> Case:
    """The documents of a tree, through the door every scenario goes through."""
    try:
        return case_of(validate(Scenario, tree, str(row.place)), shelf, tree)
    except CostModelError as error:
        fault = error.faults[0]
        raise Refused("V006", f"{fault.place.path}: {fault.sentence}" if fault.place else fault.sentence) from None


def _machine(filling: Filling, shelf: Shelf) -> tuple[Accelerator, Stand]:
    """What the run ran on and the node that stands for its, or why nothing can be said about it."""
    row = filling.row
    name = filling.accelerator()
    found = stand_of(shelf, name) if shelf.has("accelerator", name) else None
    if found is None:
        said = row.text("accelerator") or row.text("gpu") or "nobody named"
        raise Refused("V001", f"no document of the accelerator {said} and its node")
    return shelf.document("accelerator", name), found


def _features(row: Row) -> None:
    """Refuse what the run did that nothing here knows."""
    features, precision = row.text("features"), row.text("precision")
    if precision and precision not in PRECISIONS:
        raise Refused("V004", f"precision {precision}")
    schedule = _SCHEDULE.search(f"{features} {row.text('framework')}")
    named = schedule[1] if schedule else "1F1B"
    if named.lower() not in SCHEDULES:
        raise Refused("V008", f"schedule {named}")
    mode = row.text("recompute").partition(":")[0]
    if mode and mode not in RECOMPUTE:
        raise Refused("V009", f"recompute {mode}")
    if "offload" in OFFLOAD.sub("", features):
        raise Refused("V009", "something other than activations is offloaded")


def _needed(row: Row, *names: str) -> Iterator[float]:
    """Cells that no rule fills."""
    empty = [name for name in names if row.number(name) is None]
    if empty:
        raise Refused("V006", f"{', '.join(empty)} empty")
    yield from (row.number(name) or 0.0 for name in names)


def _layout(filling: Filling) -> Layout:
    row = filling.row
    if not row.flag("fsdp"):
        tp, pp = _needed(row, "tp", "pp")
    else:
        tp, pp = filling.number("tp", 1.0), filling.number("pp", 1.0)
    ranks, dp, cp = row.number("gpus"), row.number("dp"), row.number("cp") or 1.0
    if ranks is None:
        (dp,) = _needed(row, "dp")
        ranks = filling.put("gpus", tp * cp * pp * dp)
    if dp is None:
        dp = ranks / (tp * cp * pp)
    if not dp.is_integer():
        raise Refused("V007", f"L001: {REFUSALS['L001'].title}")
    return Layout(ranks, tp, pp, dp, cp)


def _model(filling: Filling, shelf: Shelf) -> dict[str, Any]:
    row = filling.row
    _, hidden, _, sequence = _needed(row, "layers", "hidden", "heads", "seq_len")
    gated = filling.flag("glu", False)
    if gated:
        (ffn,) = _needed(row, "ffn")
    else:
        ffn = filling.number("ffn", 4 * hidden)
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
        "positions": "rotary" if gated else "learned",
        "max_sequence": sequence,
        "tied": tied,
        "norm": "rmsnorm" if gated else "layernorm",
        **_layers(filling, shelf, ffn=ffn, gated=gated),
        "source": SOURCE,
    }


def _layers(filling: Filling, shelf: Shelf, *, ffn: float, gated: bool) -> dict[str, Any]:
    """The layers of a row: all alike, or with experts in most of them."""
    row = filling.row
    layers, hidden, heads = _needed(row, "layers", "hidden", "heads")
    dense = {
        "count": layers,
        "parallel": any(f"parallel {half}" in row.text("notes") for half in ("residual", "transformer block")),
        "attention": {
            "heads": heads,
            "kv_heads": filling.number("kv_heads", heads),
            "head_dim": filling.number("head_dim", hidden / heads),
            "biases": not gated,
            "output_bias": not gated,
        },
        "mlp": {"ffn_hidden": ffn, "gated": gated, "biases": not gated},
    }
    if not has_experts(row):
        return {"layers": known_layers(filling, shelf) or [dense]}
    next(_needed(row, "n_experts", "topk"))
    return expert_layers(filling, shelf, dense)


def _workload(filling: Filling, accelerator: Accelerator, stack: Stack, layout: Layout) -> dict[str, Any]:
    row = filling.row
    batch = row.number("global_batch")
    if batch is None:
        share, steps = row.number("micro_batch"), row.number("grad_accum")
        if share is None or steps is None:
            raise Refused("V006", "global_batch empty")
        batch = filling.put("global_batch", share * layout.dp * steps)
    precision = PRECISIONS.get(filling.precision(stack), "bf16")
    if row.text("precision") != precision:
        filling.put("precision", precision)
    if getattr(accelerator.peak, RECIPES[precision].type) is None:
        raise Refused("V004", f"{accelerator.name} has no {precision}")
    return {
        "kind": "training",
        "sequence": next(_needed(row, "seq_len")),
        "global_batch": batch,
        "precision": precision,
        "gradients": filling.gradients(stack),
    }


def _plan(filling: Filling, stack: Stack, layout: Layout, tree: dict[str, Any]) -> dict[str, Any]:
    row = filling.row
    batch, sequence = tree["workload"]["global_batch"], tree["workload"]["sequence"]
    tokens = USUAL_TOKENS if has_experts(row) else repeated(layout.tp, USUAL_TOKENS)
    size = micro_batch(filling, batch, layout.dp, 1.0 if layout.pp > 1 else float(divided(tokens, sequence)))
    layers = sum(kind["count"] for kind in tree["model"]["layers"])
    said = f"{row.text('features')} {row.text('notes')}"
    named = _SCHEDULE.search(f"{row.text('features')} {row.text('framework')}")
    schedule = SCHEDULES[named[1].lower()] if named else "1f1b"
    if schedule in ("1f1b", *LOOPED):
        count = batch / (layout.dp * size)
        vpp = chunks(filling, stack.name, layers, layout.pp, count, looped=schedule in LOOPED)
    else:
        vpp = 2.0 if schedule in FOLDED else 1.0
    recompute = filling.recompute(stack)
    zero, parallel = row.number("zero_stage"), row.flag("seq_parallel")
    if zero is None:
        zero = filling.put("zero_stage", float(stack.zero[0]))
    if parallel is None and layout.tp > 1:
        parallel = filling.put("seq_parallel", stack.sequence_parallel)
    return {
        "dp": layout.dp,
        "tp": layout.tp,
        "pp": layout.pp,
        "vpp": vpp,
        "micro_batch": size,
        "cp": layout.cp,
        "cp_type": "a2a" if _ULYSSES.search(said) else None,
        "dp_replicate": replicas(filling, layout.dp),
        **expert_degrees(filling, layout.tp),
        "zero": int(zero),
        "recompute": recompute.partition(":")[0],
        "schedule": "interleaved" if vpp > 1 and schedule == "1f1b" else schedule,
        "sequence_parallel": (bool(parallel) or has_experts(row)) and layout.tp > 1,
        "split": split(filling, layers, layout.pp * vpp),
        **choices_of(row, stack, recompute),
    }
