"""A row of a table of measured runs becomes a case with its layout, or is skipped for a named reason."""

from __future__ import annotations

import math
import re
from typing import Any

from costmodel.documents.keys.overrides import assign
from costmodel.documents.keys.paths import at
from costmodel.documents.reader.library import CachedReader, DocumentReader
from costmodel.documents.reader.resolved_scenario import case_of, own_keys, proxy_node
from costmodel.documents.reader.validation_errors import validate
from costmodel.documents.schemas.hardware import Accelerator, DefaultNode, Fabric, Node
from costmodel.documents.schemas.model import Layers, Model
from costmodel.documents.schemas.precision import RECIPES
from costmodel.documents.schemas.scenario import Scenario
from costmodel.documents.schemas.stack import ExpertKernels, Stack
from costmodel.equations.run.economics import share
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.training.parallelism.pipeline import FOLDED, LOOPED, fewest_micro_batches, is_later_schedule
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.evidence.validate.imputation import (
    LAST_OF_2021,
    USUAL_TOKENS,
    Filling,
    completed,
    known_dense,
    known_model,
    known_whole,
    stack_of,
    with_experts,
)
from costmodel.evidence.validate.spelling import (
    OPEN,
    CannotModel,
    choices_of,
    invalid,
    needed,
    offloads_more,
    positions_of,
    precision_of,
    recompute_of,
    schedule_of,
    ulysses,
)
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.exchange.tables.run_table import BETWEEN, SETTABLE, SETTINGS
from costmodel.ground.errors import CostModelError
from costmodel.ground.parsing import parse
from costmodel.ground.record import record

# --- the degrees, layers and sequences of a measured run: as stated, else by fixed rules


LAST_BY_STAGE = 2024
DEGREES = ("tp", "pp", "cp", "dp")
_GROUP = re.compile(r"(?:FSDP group|zero1_group)=([1-9]\d*)")
_SLICES = re.compile(r"\bslices=([1-9]\d*)")


@record
class RowLayout:
    """The degrees of a row."""

    ranks: float
    tp: float
    pp: float
    dp: float
    cp: float

    @property
    def in_stage(self) -> float:
        """Ranks of a pipeline stage."""
        return float(self.ranks / self.pp)


def layout_of(filling: Filling) -> RowLayout:
    """The parallel degrees of a row; a missing degree follows from the ranks and the others, dp first."""
    row = filling.row
    ranks, dp = row.number("gpus"), row.number("dp")
    unstated = [name for name in DEGREES if row.number(name) is None]
    left = "" if ranks is None else "dp" if dp is None else next(iter(unstated), "")
    unknown = [name for name in unstated if name in ("tp", "pp")]
    alone = filling.sharded() or (dp is not None and dp == ranks)
    if not alone and set(unknown) - {left}:
        raise CannotModel("V006", f"{', '.join(unknown)} empty")
    if ranks is None:
        next(needed(row, "dp"))
    degrees = {name: filling.number(name, 1.0) for name in DEGREES if name != left}
    whole = math.prod(degrees.values())
    if ranks is None:
        ranks = filling.infer("gpus", whole)
    if left:
        if not (ranks / whole).is_integer():
            raise invalid("L001")
        degrees[left] = filling.infer(left, ranks / whole) if left != "dp" else ranks / whole
    return RowLayout(ranks, **degrees)


def micro_batch(filling: Filling, global_batch: float, dp: float, usual: float) -> float:
    """The micro-batch of a row: stated, else by gradient accumulation, else by rule so that it divides the batch."""
    row = filling.row
    stated, accumulated = row.number("micro_batch"), row.number("grad_accum")
    if stated is not None:
        return stated
    share = global_batch / dp
    if accumulated is not None and (share / accumulated).is_integer():
        return filling.put("micro_batch", share / accumulated)
    wanted = max(1.0, float(round(usual)))
    while wanted > 1 and not (share / wanted).is_integer():
        wanted -= 1
    return filling.put("micro_batch", wanted)


def usual_micro_batch(filling: Filling, share: float, pp: float, tokens: float) -> float:
    """Sequences of a micro-batch that is not stated: torchtitan's defaults, else one in a pipeline, else by tokens.

    torchtitan does not accumulate; in a pipeline it made a micro-batch for each stage, since 2025 of one sequence.
    """
    if "torchtitan" not in filling.row.text("framework").lower():
        return 1.0 if pp > 1 else tokens
    if pp == 1:
        return share
    return share / pp if filling.year() <= LAST_BY_STAGE else 1.0


def replicas(filling: Filling, dp: float) -> float:
    """Number of shard replicas, from the group that FSDP or ZeRO 1 names, or from slices of the cluster; else 1."""
    features = filling.features()
    named = _GROUP.search(f"{features} {filling.row.text('notes')}")
    if named is None and (slices := _SLICES.search(features)):
        return filling.put("dp_replicate", 1.0 if dp % float(slices[1]) else float(slices[1]))
    group = float(named[1]) if named else (_hsdp_shard_ranks(filling) or dp) if "HSDP" in features else dp
    if group >= dp:
        return 1.0
    return filling.put("dp_replicate", 1.0 if dp % group else dp / group)


def _hsdp_shard_ranks(filling: Filling) -> float | None:
    """Ranks over which HSDP shards: those of a node, or of a domain of links that is larger than a node."""
    stand = proxy_node(filling.shelf, filling.accelerator())
    if stand is None:
        return filling.row.number("gpus_per_node")
    node: Node = filling.shelf.document("node", stand.node)
    linked = node.scale_up.domain > node.accelerators
    return node.scale_up.domain if linked else filling.row.number("gpus_per_node")


def chunks(filling: Filling, stack: Stack, layers: float, pp: float, count: float, *, schedule: str) -> float:
    """Model chunks per pipeline rank: as stated, else the most that divide a stage's layers."""
    stated = filling.row.number("vp")
    if pp == 1:
        return 1.0 if stated in (None, 1.0) else filling.put("vp", 1.0)
    if stated is not None:
        return stated
    most = 2 if filling.year() <= LAST_OF_2021 else 8
    fullest = math.ceil(layers / pp)
    shown = schedule in LOOPED or (not schedule and "vp" in filling.row.written)
    fit = shown and "interleaved" in stack.schedules and math.fmod(count, pp) == 0
    filled = [v for v in range(2, most + 1) if fit and fullest % v == 0 and float(pp * v) <= layers + 2]
    return filling.put("vp", float(max(filled, default=2 if schedule in LOOPED else 1)))


def usual_schedule(filling: Filling, stack: Stack, layers: float, pp: float, count: float) -> str:
    """The schedule of a pipeline where none is named: the stack's first, DualPipe of HAI-LLM, where it can run."""
    usual = stack.schedules[0]
    enough = bool(count >= fewest_micro_batches(usual, pp))
    can = pp % 2 == 0 and layers % pp == 0 and enough and filling.row.number("vp") is None
    return filling.put("schedule", usual) if is_later_schedule(usual) and can else "1f1b"


def split(filling: Filling, layers: float, chunks: float) -> str:
    """How layers are split over pipeline stages: the even or uneven split that the numbers allow."""
    if layers % chunks == 0:
        return "even"
    if (layers + 2) % chunks == 0:
        return filling.put("stages", "lighter-ends")
    if (layers + 1) % chunks == 0:
        return filling.put("stages", "lighter-last")
    missing = -layers % chunks
    full = filling.by_nvidia() and missing < 2 * math.ceil(layers / chunks)
    return filling.put("stages", "full-chunks" if full else "spread")


# --- A row of a table of measured runs becomes a case, or is skipped for a named reason


# Scenario keys that a row states in addition to its columns: `assume.overlap.tp=0;plan.order=tp-cp-dp-pp`.

_NAMED_OTHERWISE = {"node": "nic_gbps_per_gpu"}  # keys, and the imputed cell that they state


def settings_of(filling: Filling) -> list[str]:
    """The settings of a row, each as --set takes it."""
    settings = [text.strip() for text in filling.row.text(SETTINGS).split(BETWEEN)]
    assignments = [text for text in settings if text]
    for text in assignments:
        path, _, value = text.partition("=")
        if path.split(".")[0].strip() not in SETTABLE or not value:
            raise CannotModel("V006", f"{SETTINGS}: '{text[:80]}' is no key=value of {', '.join(SETTABLE)}")
    return assignments


def put_settings(tree: dict[str, Any], filling: Filling) -> None:
    """Put the settings of a row into its scenario; what they state is no longer imputed."""
    reader = DocumentReader()
    settings = settings_of(filling)
    try:
        assign(tree, settings, lambda kind, name, place: reader.tree(kind, name, place)[0])
    except CostModelError as error:
        raise CannotModel("V006", f"{SETTINGS}: {error.faults[0].sentence}") from None
    for text in settings:
        leaf = text.partition("=")[0].strip().rpartition(".")[2]
        filling.filled.pop(_NAMED_OTHERWISE.get(leaf, leaf), None)


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
    _check_features(row)
    layout = layout_of(filling)
    stack = stack_of(filling, shelf)
    if has_experts(row) and stack.experts is None:
        raise CannotModel("V002", f"the stack {stack.name} does not describe experts")
    workload = _workload_section(filling, shelf, accelerator, stack, layout)
    tree = {
        "schema": "costmodel/scenario/v1",
        "title": row.id,
        "model": _model_document(filling, shelf),
        "cluster": cluster_of(filling, shelf, accelerator.name, stand, layout.ranks),
        "workload": workload,
        "stack": stack.model_dump(by_alias=True, exclude_none=True),
        "assume": expert_assumptions(filling, stack),
    }
    tree["plan"] = _plan_section(filling, stack, layout, tree)
    put_settings(tree, filling)
    offloaded = list(at(tree, "plan.offload") or ())
    if "optimizer" in offloaded and stack.offload is not None and stack.offload.together:
        plan: Any = tree["plan"]
        plan["offload"] = [*dict.fromkeys([*offloaded, "parameters"])]
        filling.put("offload", " ".join(plan["offload"]))
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
    proxy = proxy_node(shelf, name) if shelf.has("accelerator", name) else None
    if proxy is None:
        stated, memory = row.text("accelerator") or row.text("gpu") or "(not named)", row.number("gpu_mem_gb")
        sized = "" if memory is None else f" with {memory:g} GB"
        raise CannotModel("V001", f"no document of the accelerator {stated}{sized} and its node")
    return shelf.document("accelerator", name), _wide_enough(proxy, name, row.number("gpus_per_node"), shelf)


def _wide_enough(stand: DefaultNode, accelerator: str, per_node: float | None, shelf: CachedReader) -> DefaultNode:
    """A proxy node with at least as many accelerators as the row has in a node."""
    if per_node is None or shelf.document("node", stand.node).accelerators >= per_node:
        return stand
    nodes = ((name, shelf.document("node", name)) for name in sorted(shelf.names("node")))
    alike = (name for name, node in nodes if (node.accelerator, node.accelerators) == (accelerator, per_node))
    return next((DefaultNode(node=name) for name in alike), stand)


def _check_features(row: CsvRow) -> None:
    """Skips a row with features that costmodel does not model."""
    precision_of(row)
    if written := row.text("recompute"):
        recompute_of(written)
    if offloads_more(row):
        raise CannotModel("V009", "something other than activations is offloaded")
    if adapters_of(row) and not _usual_rank(row):
        raise CannotModel("V009", "adapters of unstated rank are trained")


# Ranks of adapters by default: torchtune's recipes/configs, TRL's ModelConfig, peft's LoraConfig for the others.
_RANKS = {"torchtune": 8, "transformers": 8, "trl": 16, "llama-factory": 8, "peft": 8, "swift": 8}


def adapters_of(row: CsvRow) -> str:
    """lora or qlora, as the texts of a row have it; empty where all weights are trained."""
    match = _ADAPTERS.search(f"{row.text('model_name')} {row.text('features')} {row.text('notes')}")
    return "" if match is None else "qlora" if "q" in match[0].lower() else "lora"


def _usual_rank(row: CsvRow) -> int:
    framework = row.text("framework").lower()
    return next((rank for name, rank in _RANKS.items() if name in framework), 0)


_OPTIMIZER = re.compile(r"\boptimizer=([\w-]+)")
_LEAN = re.compile(r"low-memory optimizer", re.IGNORECASE)


def _tuning_of_row(filling: Filling, shelf: CachedReader) -> dict[str, Any]:
    """LoRA adapters of the usual rank, with the optimizer that torchtune's recipes use."""
    row, kind = filling.row, adapters_of(filling.row)
    if kind:
        return {"tuning": {"method": kind, "rank": filling.put("rank", _usual_rank(row))}}
    if named := _OPTIMIZER.search(filling.said):
        return {"optimizer": filling.put("optimizer", named[1])}
    if not (_LEAN.search(row.text("notes")) and "torchtune" in row.text("framework").lower()):
        return {}
    lean = shelf.document("optimizer", filling.put("optimizer", "paged-adam-8bit"))
    return {"optimizer": lean.model_copy(update={"in_backward": True}).model_dump(exclude_none=True, by_alias=True)}


def _model_document(filling: Filling, shelf: CachedReader) -> dict[str, Any]:
    """The model of a row: the shipped one that its name stands for, or one from its sizes."""
    row = filling.row
    _, hidden, _, sequence = needed(row, "layers", "hidden", "heads", "seq_len")
    if "layers" in filling.filled:  # the name alone is the model
        whole: Model = shelf.document("model", filling.filled["shape"])
        return whole.model_dump(by_alias=True, exclude_none=True)
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
        layers_tree = expert_layers(filling, shelf, dense)
    else:
        layers_tree = {"layers": [dense]} | known_dense(filling, shelf, dense)
    plain = all("attention" in kind for kind in layers_tree["layers"] if kind.keys() & {"mlp", "experts"})
    if plain and (other := _other_mixer(row)):
        whole = known_whole(filling, shelf)
        if whole is None:
            raise CannotModel("V006", f"{other} of unstated widths")
        return whole
    return layers_tree


def _other_mixer(row: CsvRow) -> str:
    """The mixer that a row names in place of standard attention."""
    if row.text("attention").lower() == "mla":
        return "latent attention"
    return f"layers of arch {row.text('arch')}" if row.text("arch").lower() in _OTHER_MIXERS else ""


def _workload_section(
    filling: Filling, shelf: CachedReader, accelerator: Accelerator, stack: Stack, layout: RowLayout
) -> dict[str, Any]:
    """The workload of a row: batch, sequence, precision and optimizer, as stated or imputed."""
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
        **_tuning_of_row(filling, shelf),
    }


def _plan_section(filling: Filling, stack: Stack, layout: RowLayout, tree: dict[str, Any]) -> dict[str, Any]:
    """The plan of a row: micro-batch, schedule, split and recompute, as stated or imputed."""
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


_CAPACITY = re.compile(r"capacity factor (\d+(\.\d+)?)")
_NO_PREDICTION = re.compile(r"\b(?:w/o|without|no) MTP\b", re.IGNORECASE)
_DROPPED = re.compile(r"(?<!\bno )token[-_ ]?drop(?!\w*=(?:false|off|no|0))")
_CUTS_APART = "Megatron-Bridge"
MOST_APART = 64  # ranks that share the experts, the most in published runs


def has_experts(row: CsvRow) -> bool:
    """Whether the model of a row has experts."""
    return row.text("arch").lower() == "moe" or (row.number("n_experts") or 0) > 0


def expert_layers(filling: Filling, shelf: CachedReader, dense: dict[str, Any]) -> dict[str, Any]:
    """The layers of a row with experts, dense layers first; the shipped model fills missing columns."""
    row, known = filling.row, known_model(filling, shelf)
    layers, plain = row.number("layers") or 0.0, row.number("n_dense_layers") or 0.0
    layers_tree: dict[str, Any] = {}
    if known is not None and layers == layer_count(known):
        if known.prediction is not None and not _NO_PREDICTION.search(row.text("notes")):
            filling.put("mtp", known.prediction.depth)
            layers_tree["prediction"] = known.prediction.model_dump(exclude_none=True)
        return layers_tree | {"layers": [kind.model_dump(exclude_none=True) for kind in known.layers]}
    kind, shape = with_experts(known) if known else None, dict(dense)
    mixer = {"attention": shape.pop("attention")}
    if kind is not None and kind.latent is not None:
        mixer = {"latent": kind.latent.model_dump(exclude_none=True)}
    if kind is not None and kind.compressed is not None:
        mixer = {"compressed": kind.compressed.model_dump(exclude_none=True)}
    feeding = shape.pop("mlp")
    experts: dict[str, Any] = {
        "count": row.number("n_experts"),
        "top_k": row.number("topk"),
        "ffn_hidden": filling.number("moe_ffn", feeding["ffn_hidden"]),
        "gated": feeding["gated"],
    }
    experts |= _shared_experts(filling, kind, experts)
    layers_tree["layers"] = [{**shape, **mixer, "count": layers - plain, "experts": experts}]
    if plain:
        layers_tree["layers"].insert(0, {**shape, **mixer, "count": plain, "leading": True, "mlp": feeding})
    return layers_tree


def _shared_experts(filling: Filling, kind: Layers | None, experts: dict[str, Any]) -> dict[str, Any]:
    """The shared experts and the routing limits: from the shipped model, else as many experts of the routed width."""
    shared = filling.row.number("n_shared_experts") or 0.0
    if kind is not None and kind.experts is not None:
        stated = kind.experts.model_dump(exclude_none=True)
        names = ("shared", "shared_gate", "router_bias", "groups", "group_limit")
        return {name: stated[name] for name in names if name in stated}
    if not shared:
        return {}
    width = float(shared * experts["ffn_hidden"])
    return {"shared": {"ffn_hidden": width, "gated": experts["gated"]}}


def expert_degrees(filling: Filling, layout: RowLayout) -> dict[str, float]:
    """The sharding of experts: as stated, else Megatron's default, spread over as many ranks as possible."""
    row = filling.row
    if not has_experts(row):
        return {}
    ep, etp = row.number("ep"), row.number("etp")
    if etp is None:
        divides = layout.in_stage % (layout.tp * (ep or 1.0)) == 0
        etp = filling.put("etp", layout.tp if divides and _CUTS_APART not in row.text("framework") else 1.0)
    if ep is None:
        count, ranks = row.number("n_experts") or 1.0, layout.in_stage / etp
        fitting = [many for many in range(1, MOST_APART + 1) if count % many == 0 and ranks % many == 0]
        ep = filling.put("ep", 1.0 if filling.sharded() else float(max(fitting, default=1)))
    return {"ep": ep, "etp": etp}


def expert_assumptions(filling: Filling, stack: Stack) -> dict[str, Any]:
    """Assumptions about dropped tokens and dispatch."""
    row, notes = filling.row, filling.row.text("notes")
    if not has_experts(row) or stack.experts is None:
        return {}
    capacity = _CAPACITY.search(notes)
    dropped = capacity is not None or _DROPPED.search(filling.said) is not None
    stated: dict[str, Any] = {}
    if dropped:
        stated["capacity"] = float(capacity[1]) if capacity else 1.0
    else:
        filling.put("imbalance", 1.0)
    stated["deduplicated"] = _sends_token_once(filling, stack.experts, dropped=dropped)
    if "moe_a2a_overlap" not in filling.features():
        return {"experts": stated}
    return {"experts": stated, "overlap": {"ep": filling.put("overlap.ep", stack.overlap.dp)}}


def _sends_token_once(filling: Filling, kernels: ExpertKernels, *, dropped: bool) -> bool:
    """Whether a token is sent once to a rank with several of its experts; only the plain all-to-all can drop tokens."""
    features = filling.features().lower()
    if any(name in features for name in ("deepep", "hybridep")):
        return True
    plain = dropped or "alltoall" in features or filling.by_recipe
    return filling.put("deduplicated", kernels.deduplicated and not plain)


SOURCE = "a row of a table"


def cluster_of(
    filling: Filling, shelf: CachedReader, accelerator: str, stand: DefaultNode, ranks: float
) -> dict[str, Any]:
    """Nodes of that accelerator with the row's number per node, and the row's network."""
    node: Node = shelf.document("node", stand.node)
    per_node = filling.row.number("gpus_per_node")
    if per_node is None and ranks > node.accelerators:
        per_node = filling.put("gpus_per_node", float(node.accelerators))
    per_node = min(per_node or node.accelerators, ranks)
    if ranks % per_node:
        per_node = float(math.gcd(int(per_node), int(ranks)))
    rack = node.scale_up.domain > node.accelerators
    own, of_links = own_keys(shelf, accelerator, stand), "scale_up."
    links = node.scale_up.model_dump(exclude_none=True)
    links |= {key.removeprefix(of_links): value for key, value in own.items() if key.startswith(of_links)}
    return {
        "node": {
            "schema": "costmodel/node/v1",
            "name": "row",
            "title": f"{node.title}, as the row has it",
            "provider": node.provider,
            "accelerator": accelerator,
            "accelerators": per_node,
            "scale_up": links | {"domain": node.scale_up.domain if rack else per_node},
            "scale_out": _network(filling, shelf, node, per_node, alone=ranks <= per_node),
            "host": own.get("host", node.host),
            **_host_memory(node, per_node),
        },
        "nodes": ranks / per_node,
    }


def _host_memory(node: Node, each: float) -> dict[str, Any]:
    """The host memory per accelerator, where the node's is known."""
    if node.memory is None:
        return {}
    part = each / node.accelerators
    capacity, bandwidth = node.memory.capacity * part, node.memory.bandwidth * part
    return {"memory": {"capacity": f"{capacity:g} B", "bandwidth": f"{bandwidth:g} B/s", "source": SOURCE}}


def _network(filling: Filling, shelf: CachedReader, node: Node, each: float, *, alone: bool) -> dict[str, Any]:
    """One port per accelerator, with the rate of the row or of the node."""
    fabric: Fabric = shelf.document("fabric", node.scale_out.fabric)
    stated = filling.row.number("nic_gbps_per_gpu")
    if stated is None:
        port = node.scale_out.nics * fabric.bandwidth / node.accelerators
        stated = float(share(port, parse("1 Gb/s", "B/s")))
        if not alone:
            filling.put("nic_gbps_per_gpu", stated)
    return {"fabric": _fabric(fabric, f"{stated:g} Gb/s"), "nics": each, "source": SOURCE}


def _fabric(fabric: Fabric, bandwidth: str) -> dict[str, Any]:
    """A copy of the fabric with another rate."""
    return fabric.model_dump(by_alias=True, exclude_none=True) | {"bandwidth": bandwidth, "sources": {}}
