"""Spellings in rows, and reasons to skip a row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple, get_args

from costmodel.documents.schemas.precision import RECIPES
from costmodel.documents.schemas.stack import Stack
from costmodel.estimate.rl.rl_reason_codes import REFUSALS  # of all workloads
from costmodel.estimate.shared.reasons import Reason
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.ground.counts import Schedule
from costmodel.ground.record import record

REASONS = {
    "V001": Reason(
        "accelerator unknown",
        "No document describes the accelerator or a node that holds it, or the documents lack a figure that is needed.",
    ),
    "V002": Reason(
        "experts not described",
        "The model has experts, but the training software's document does not describe how it runs them.",
    ),
    "V004": Reason(
        "precision without a fit",
        "The accelerator or the stack does not support the precision, or no matmuls of it were fitted.",
    ),
    "V005": Reason("nothing measured", "The row has no measured cell for the requested quantity."),
    "V006": Reason(
        "shape incomplete", "A cell of the model, the batch or the layout is empty, and no rule fills it. The rules:"
    ),
    "V007": Reason("plan invalid", "The layout breaks a constraint; the row names its code (L001 and following)."),
    "V009": Reason("feature unknown", "The run uses a kind of recompute, offload or tuning that is not modelled."),
    "V011": Reason("model unknown", "No document has the shape of the row's model."),
    "V012": Reason("layout unclear", "The degrees in the row contradict its number of accelerators."),
    "V013": Reason("engine unknown", "No stack describes the serving engine of the row."),
    "V014": Reason(
        "faster than the bandwidth", "The row is faster than the memory bandwidth of its accelerators allows."
    ),
    "V015": Reason(
        "contradicts Little's law", "The row's requests in flight, rate and latency contradict Little's law."
    ),
    "V010": Reason(
        "cell unreadable",
        "A cell does not have the type of its column, or the row has more or fewer cells than the header.",
    ),
}


class CannotModel(Exception):
    """A row that cannot be modelled: the code of the reason, and the detail."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(f"{code}: {why}")
        self.code, self.why = code, why


@record
class SkippedRow:
    """A skipped run: the code of the reason, and the detail."""

    run: str
    refused: str
    why: str


def invalid(code: str) -> CannotModel:
    """The reason to skip a row whose layout breaks a constraint of the software."""
    return CannotModel("V007", f"{code}: {REFUSALS[code].title}")


def needed(row: CsvRow, *names: str) -> Iterator[float]:
    """The numbers in required cells; skips a row in which one is empty."""
    empty = [name for name in names if row.number(name) is None]
    if empty:
        raise CannotModel("V006", f"{', '.join(empty)} empty")
    yield from (row.number(name) or 0.0 for name in names)


OPEN = "fp16/bf16"  # 16 bits, where the source does not state which format
DELAYED = "fp8-delayed"  # fp8 of that recipe; fp8 alone is of any
PRECISIONS = {
    **{name: name for name in (*RECIPES, OPEN)},
    "bf16/fp16": OPEN,
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "16-mixed": "fp16",  # as Lightning names it
    "16-true": "fp16",
    "fp8-delayed": DELAYED,
    "fp8-ds": DELAYED,
    "fp8-current": "fp8-cs",
    "fp8-blockwise": "fp8-block",
    "fp8-sc": "fp8-block",  # Megatron-Bridge's blocks, its subchannels
    "fp8-subchannel": "fp8-block",
    "fp8-tensorwise": "fp8-cs",  # so called by Megatron and torchao
    "fp8-rowwise": "fp8-row",
    "fp8-mx": "mxfp8",
}
SCHEDULES = {
    **{name: name for name in get_args(Schedule)},
    "1f1b-i": "interleaved",
    "interleaved1f1b": "interleaved",
    "1f1b interleaved": "interleaved",
    "interleaved-1f1b": "interleaved",
    "loopedbfs": "looped-bfs",
    "zb-1p": "zb-h1",  # found by search within the memory of zb-h1, or of zb-h2
    "zb-2p": "zb-h2",
    "zbv": "zb-v",
    "zbvzerobubble": "zb-v",
    "1f1b-interleaved": "interleaved",
    "zero-bubble": "zb-h1",
    "zbv-formatted": "zb-v",  # as Primus names it
}
MODES = {"none": "none", "selective": "selective", "full": "full", "uniform": "full", "block": "full"}
_SCHEDULE = re.compile(r"(?:schedule=|\+ (?=ZB-|1F1B))([\w-]+(?: interleaved)?)", re.IGNORECASE)
_ULYSSES = re.compile(r"\bCP=Ulysses", re.IGNORECASE)
_MIXED = re.compile(r"^torch-|^bf16-with-|-(?:mixed|true|scaling|precision)|(?<=fp8)-(?:hybrid|e4m3(?:fn)?|e5m2)")
_POSITIONS = re.compile(r"\b(?:rotary|alibi)\b", re.IGNORECASE)
_COUNT = re.compile(r"(\d+)(?: layers?)?")


class Recompute(NamedTuple):
    """Recompute in a row: the mode, the module names, and the number of layers; None where it covers all."""

    mode: str
    names: tuple[str, ...] = ()
    layers: float | None = None


def precision_of(row: CsvRow) -> str:
    """The precision of a row, as named in `PRECISIONS`; empty where there is none."""
    written = row.text("precision")
    words = re.sub(r"[^a-z0-9/+]+", "-", written.lower()).strip("-").replace("float8", "fp8")
    named = PRECISIONS.get(words) or PRECISIONS.get(_MIXED.sub("", words))
    if written and named is None:
        raise CannotModel("V004", f"precision {written}")
    return named or ""


def schedule_of(row: CsvRow) -> str:
    """The pipeline schedule a row names; empty where none, or none that is known."""
    known: dict[str, str] = SCHEDULES
    return known.get(schedule_written(row).lower(), "")


def schedule_written(row: CsvRow) -> str:
    """The pipeline schedule as the row spells it; empty where it names none."""
    match = _SCHEDULE.search(f"{row.text('features')} {row.text('framework')}")
    return match[1] if match else ""


def with_schedule(row: CsvRow, schedule: str) -> CsvRow:
    """The row with its pipeline schedule replaced."""
    texts = {name: _SCHEDULE.sub("", row.text(name)) for name in ("features", "framework")}
    texts["features"] = f"{texts['features']};schedule={schedule}"
    return replace(row, written={**row.written, **texts})


def ulysses(row: CsvRow) -> bool:
    """Whether the row's context parallelism is the all-to-all of heads (Ulysses)."""
    return _ULYSSES.search(f"{row.text('features')} {row.text('notes')}") is not None


def positions_of(row: CsvRow, *, gated: bool) -> str:
    """The position embedding of a row; by default rotary with a gated MLP, as in Llama, and learned otherwise."""
    match = _POSITIONS.search(f"{row.text('features')} {row.text('notes')}")
    return match[0].lower() if match else "rotary" if gated else "learned"


def recompute_of(written: str) -> Recompute:
    """Parses a recompute cell: a mode, then after a colon names joined by plus signs, or a count of layers."""
    stated, _, rest = re.split(r"[;,]", written.lower())[0].partition(":")
    mode = MODES.get(stated.strip())
    if mode is None:
        raise CannotModel("V009", f"recompute {written}")
    count = _COUNT.fullmatch(rest.strip()) if stated.strip() != "uniform" else None  # there it is how many at once
    return Recompute(mode, (), float(count[1])) if count else Recompute(mode, tuple(rest.strip().split("+")))


# Reads the recompute and offload cells of a measured run, and whether they are filled at all.

OFFLOAD = re.compile(r"cpu_activation_offload_layers=(\d+)")
_NO_OFFLOAD = re.compile(
    r"\b(?:no|without)[\s_-]+(?:\w+[\s_-]+)?offload\w*|\w*offload\w*=(?:false|no|none|off|0)(?![\w.])"
)
MODULES = {  # names of Megatron, MaxText and costmodel
    "core_attn": "attention",
    "out_proj": "attention-output",
    "layernorm": "norms",
    "mla_up_proj": "mla-up-projection",
    "mlp": "mlp",
    "mlp_act": "mlp-activation",
    "moe_act": "moe-activation",
    "moe": "moe",
    "shared_experts": "shared-experts",
}
# Rematerialisation policies of MaxText, and what backward computes again under them.
POLICIES = {
    "save_dot_with_context_except_mlp": ["norms", "mlp"],
    "save_dot_except_mlp": ["attention", "norms", "mlp"],
    "save_dot_except_mlpwi": ["attention", "norms", "mlp"],
    "save_qkv_proj": ["attention", "attention-output", "norms", "mlp"],
}
_POLICY = re.compile(r"\bremat (\w+)")


def offloads_more(row: CsvRow) -> bool:
    """Whether a row offloads more than the activations of some layers."""
    return "offload" in _NO_OFFLOAD.sub("", OFFLOAD.sub("", row.text("features").lower()))


def states_recompute(row: CsvRow) -> bool:
    """Whether a row states the micro-batch and the recompute of its run.

    A selection of which no size is stated is not known; what stands in parentheses beside another run has that one's
    micro-batch.
    """
    notes = row.text("notes")
    unsized = row.text("recompute") == "selective" and "fraction not stated" in notes
    beside = "value in parentheses" in notes
    return row.number("micro_batch") is not None and bool(row.text("recompute")) and not (unsized or beside)


def choices_of(row: CsvRow, stack: Stack, recompute: Recompute) -> dict[str, Any]:
    """Recomputed modules or layers, and layers with offloaded activations, as far as the row states them."""
    chosen: dict[str, Any] = {} if recompute.layers is None else {"recompute_layers": recompute.layers}
    policy = _POLICY.search(row.text("notes"))
    modules = [MODULES[name] for name in recompute.names if name in MODULES]
    modules = modules or POLICIES.get(policy[1] if policy else "", [])
    if recompute.mode == "selective" and modules and set(modules) <= set(stack.recompute_modules):
        chosen["recompute_modules"] = modules
    if offloaded := OFFLOAD.search(row.text("features")):
        chosen |= {"offload": ["activations"], "offload_layers": float(offloaded[1])}
    return chosen
