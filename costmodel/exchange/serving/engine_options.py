"""What the formats of engines share: the job that is written, number types, drafts, and host caches."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from costmodel.documents.schemas.engine import Engine
from costmodel.documents.schemas.model import Model
from costmodel.documents.schemas.precision import RECIPES, STORED, STORED_EXPERTS
from costmodel.documents.schemas.serving import ACCEPTED, BURSTS, Serving, ServingPlan
from costmodel.exchange.foreign_keys import ForeignKeys, Format
from costmodel.exchange.option_rows import Remarks, When, choice
from costmodel.exchange.training.file_facts import Layer
from costmodel.ground.record import record

SHARE_DIGITS = 4  # of a share of memory, rounded down


@record
class ServingJob:
    """A completed serving plan, to be written as a command.

    checkpoint: the model's name on the hub. shipped: its name in the library. share: the engine's memory share. prompt:
    mean tokens of a prompt. context: tokens of the longest request. pool: tokens in the KV-cache pool of one attention
    group. bound: what limits the context. dispatched: whether tokens are sent only to the ranks of their experts.
    narrow_experts: the type of experts in the checkpoint, if it differs from the other weights. widens: whether the
    accelerator cannot multiply in the type of the checkpoint, so that engines convert weights to 16 bits. printed: the
    benchmark output to expect, if known.
    """

    file: str
    plan: ServingPlan
    model: Model
    checkpoint: str
    shipped: str
    workload: Serving
    engine: Engine
    budget: int
    sequences: int
    share: float
    prompt: float
    context: int
    accelerators: int
    pool: float
    requests: float
    bound: str
    dispatched: bool
    narrow_experts: str | None
    widens: bool
    per_node: int
    vendor: str
    printed: str = ""

    def count(self, key: str) -> int:
        """A count of the plan."""
        size: float = getattr(self.plan, key) or 1.0
        return round(size)

    def value(self, key: str) -> Any:
        """The value of a key, as a command writes it."""
        place, _, name = key.rpartition(".")
        if place == "plan":
            return self.count(name)
        own = {
            "workload.context": self.context,
            "stack.budget": self.budget,
            "stack.sequences": self.sequences,
            "stack.memory.share": f"{100 * self.share:.6g} %",
            "stack.kernels.own_all_reduce": "" if self.engine.kernels.own_all_reduce else "0 B",
            "stack.dispatch.two_batches": self.halved,
        }
        return own[key] if key in own else getattr(self.engine, name)

    def counts(self, key: str, when: When) -> bool:
        """Whether a row is written that is only written then."""
        return when == "always" or (when == "where it counts" and self.value(key) > 1)

    @property
    def copies(self) -> int:
        """The number of redundant experts."""
        return round(self.plan.redundant_experts or 0.0)

    @property
    def halved(self) -> bool:
        """Whether a step is split into two batches: one computes while the tokens of the other are exchanged."""
        return self.dispatched and self.engine.dispatch is not None and self.engine.dispatch.two_batches

    @property
    def ranks(self) -> int:
        """The number of accelerators of one replica."""
        return self.count("tp") * self.count("pp") * self.count("dp_attention")

    @property
    def half(self) -> str:
        """The 16-bit type of everything that is not quantised."""
        return "fp16" if self.workload.precision == "fp16" else "bf16"


def rounded_share(share: float) -> float:
    """A memory share rounded down for the command, so that it never exceeds the intended memory.

    >>> rounded_share(0.92), rounded_share(0.87349)
    (0.92, 0.8734)
    """
    scale = float(10**SHARE_DIGITS)
    return math.floor(share * scale + 1e-6) / scale


def wrapped_command(words: list[str], width: int = 78) -> str:
    """Command words wrapped into lines with a backslash at the end."""
    lines, line = list[str](), words[0]
    for word in words[1:]:
        if len(line) + len(word) + 3 > width:
            lines.append(f"{line} \\\n")
            line = f"  {word}"
        else:
            line = f"{line} {word}"
    return "".join([*lines, line, "\n"])


# Keys that no command of an engine states.
BESIDE = {
    "plan.replicas": "the same command once for each replica",
    "plan.groups": "each kind of nodes has a command of its own",
    "workload.kind": "a serving program",
    "workload.trace": "the requests, of which the benchmark sends the mean lengths",
    **dict.fromkeys(
        (f"workload.{key}" for key in ("prompt", "output", "shared_prefix", "rate", "concurrency", "traffic", *BURSTS)),
        "the requests, which the command of a benchmark beside it states",
    ),
    **dict.fromkeys(
        (f"workload.{key}" for key in ("users", "think_time", "turns")),
        "the requests; a benchmark asks at a rate, or so many at once",
    ),
    "workload.samples": "the requests, each of which states its n",
    "workload.beginnings": "the requests; the benchmark sends other prompts",
    "workload.requests": "those of a benchmark are read as so many at once",
    "workload.images": "the data; the benchmark at the end sends text alone",
    "workload.expert_precision": "the checkpoint",
    "workload.expert_weights": "the checkpoint",
    **dict.fromkeys(
        (f"plan.speculation.{key}" for key in ACCEPTED), "how many drafted tokens are accepted: of draft and text"
    ),
}
HOSTED = {"plan.host_experts": "experts on the host: SGLang alone computes them there"}
UNWRITTEN = {
    "plan.prefill": "the connector that sends caches from these instances is not written",
    "plan.decode": "the connector that brings caches to these instances is not written",
}


@record
class EngineFormat(Format):
    """The format of an engine's command.

    stack: the name of the engine's document. step_holds_request: whether the engine, without chunked prefill, starts
    only if a step can contain its longest request. replicated: whether the text starts all replicas.
    """

    replicated: bool = False
    stack: str = ""
    write: Callable[[ServingJob, Remarks], str] = lambda job, remarks: ""
    step_holds_request: bool = False


# --- drafts: how many tokens they propose, and what proposes them; no command states how many are accepted

_MTP = ("mtp", "nextn", "deepseek_mtp", "glm4_moe_mtp", "qwen3_next_mtp", "ernie_mtp", "mimo_mtp", "mtpeagle")
_NGRAM = ("ngram", "lookahead")


def draft_kind(method: str) -> str:
    """The kind of draft that a speculation method uses; empty if it is unknown.

    >>> draft_kind("EAGLE3"), draft_kind("NEXTN"), draft_kind("ngram_gpu"), draft_kind("medusa")
    ('eagle', 'mtp', 'ngram', '')
    """
    name = method.lower().replace("-", "_")
    if name.startswith(_NGRAM):
        return "ngram"
    if name in _MTP:
        return "mtp"
    return "eagle" if name.startswith("eagle") else ""


def fill_draft(keys: ForeignKeys, layer: Layer, name: str, method: str, tokens: Any, kind: str = "") -> None:
    """Fills draft and tokens of speculative decoding from an option; an unknown draft is a loss."""
    kind, count = kind or draft_kind(method), _count_or_none(tokens)
    if not kind or count is None:
        stated = f"{method[:40]} with {str(tokens)[:20]} tokens" if method else "a draft without a method"
        keys.lose("not expressible", f"{name}: {stated}", name)
        return
    layer.facts["plan.speculation.tokens"] = keys.derived(count, name, name)
    layer.facts["plan.speculation.draft"] = keys.derived(kind, f"{name}: {method[:40]}", name)


def _count_or_none(value: Any, least: int = 1) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 6 and int(text) >= least else None


def json_option(keys: ForeignKeys, name: str, *known: str) -> dict[str, Any] | None:
    """The mapping in a JSON option; None if absent or invalid. Keys that are not `known` become losses."""
    stated = keys[name].value
    if stated is None:
        return None
    try:
        found = dict(stated) if isinstance(stated, Mapping) else json.loads(str(stated)[:100_000])
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        for key in (key for key in found if key not in known):
            keys.unknown(str(key), name)
        return found
    keys.refuse("X005", f"{name} is no JSON of keys to values", name)
    return None


def fill_copies(keys: ForeignKeys, layer: Layer, name: str, copies: Any) -> None:
    """Fills the number of redundant experts; engines place the copies to balance the load."""
    count = 0 if copies is None else _count_or_none(copies, least=0)
    if count is None:
        keys.refuse("X005", f"{name}: {str(copies)[:20]} is no number of experts", name)
    elif count and not keys["enable-eplb"].value:
        keys.lose("approximated", f"{count} copies of experts, placed without regard to their load", name)
    if count:
        layer.facts["plan.redundant_experts"] = keys.derived(count, name, name)


def named_draft(
    job: ServingJob, remarks: Remarks, names: dict[str, str], *, trees: bool = False
) -> tuple[str, int] | None:
    """The engine's name for the speculative draft, and its tokens; a fault if the engine lacks its kind."""
    draft = job.plan.speculation
    if draft is None:
        return None
    if draft.draft not in names:
        hint = "--set plan.speculation.draft=eagle, mtp or ngram"
        remarks.refuse("plan.speculation.draft", f"{draft.draft}: a model of its own is not written", hint)
        return None
    if draft.levels != draft.tokens and not trees:
        path = "plan.speculation.width" if draft.width > 1 else "plan.speculation.depth"
        remarks.refuse(path, "a tree of drafts is not written", "--to sglang, or leave depth and width out")
    if draft.draft == "eagle":
        remarks.note(f"yours to name: the head that drafts for {job.checkpoint}")
    remarks.note(f"no option states how many drafted tokens are accepted: {draft.accepted_words}")
    return names[draft.draft], round(draft.tokens)


# --- cache on the host, as memory of the host for each rank

GIB, GB = 2.0**30, 1e9
SIZE, RATIO = "stack.host_cache.size", "stack.host_cache.ratio"
_HOST = "stack.host_cache"


def count_value(value: Any) -> float | None:
    """A whole number written in digits; None for any other value."""
    text = str(value)
    return float(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def fill_size(keys: ForeignKeys, layer: Layer, name: str, cache_bytes: float, origin: str) -> None:
    """Fills the size of the host cache for each rank."""
    if not (math.isfinite(cache_bytes) and 0 < cache_bytes <= 2.0**60):
        keys.refuse("X005", f"{name} is no size of memory", name)
        return
    layer.facts[SIZE] = keys.derived(size_text(cache_bytes), origin, name)


def size_text(nbytes: float) -> str:
    """Bytes as a scenario writes them.

    >>> size_text(64 * 2.0**30), size_text(30e9)
    ('64 GiB', '30 GB')
    """
    return f"{nbytes / GB:.0f} GB" if nbytes % GB == 0 else f"{nbytes / GIB:.10g} GiB"


def host_cache_bytes(job: ServingJob, remarks: Remarks, option: str) -> float:
    """Bytes of the host cache for each rank; 0 if the engine uses none."""
    stated = job.engine.host_cache
    if stated is None or not stated.kept:
        return 0.0
    if stated.size is None:
        remarks.refuse(
            _HOST, f"a ratio of {stated.ratio:g}: {option} is a size", f"state {_HOST}.size instead of ratio"
        )
        return 0.0
    return stated.size


# --- LoRA adapters beside the model: how many there are and how wide the largest is

ADAPTERS, RANK = "workload.adapters.count", "workload.adapters.rank"


def fill_adapters(keys: ForeignKeys, layer: Layer, slots: str, *, on: bool) -> None:
    """Fills the LoRA adapter slots on the device and their rank; adapters in host memory cost nothing there."""
    for name, path in ((slots, ADAPTERS), ("max-lora-rank", RANK)):
        value = keys[name]
        if not on:
            if keys.given(name):
                keys.lose("ignored", f"{name}: without --enable-lora there are no adapters", name)
        elif value.value is None:
            continue
        elif value.value < 1:
            keys.refuse("X005", f"{name} is 0, and adapters are switched on", name)
        else:
            layer.facts[path] = value


def command_words(options: Mapping[str, Any], spelling: Mapping[str, str] | None = None) -> list[str]:
    """Options as words of a command; flags as --name and --no-name, mappings as JSON in quotes.

    >>> command_words({"tp-size": 8, "enable-lora": True, "eplb-config": {"n": 2}, "graphs": False})
    ['--tp-size 8', '--enable-lora', '--eplb-config \'{"n": 2}\'', '--no-graphs']
    """
    found = []
    for name, value in options.items():
        option = (spelling or {}).get(name, f"--{name}")
        if isinstance(value, bool):
            found.append(option if value else option.replace("--", "--no-", 1))
        else:
            text = (
                f"'{json.dumps(value)}'"
                if isinstance(value, dict)
                else f"{value:g}"
                if isinstance(value, float)
                else value
            )
            found.append(f"{option} {text}")
    return found


class Quantised(NamedTuple):
    """The types that a quantisation method implies; None means as the rest of the model."""

    precision: str | None = None
    weights: str | None = None


PRODUCTS = choice({"bfloat16": "bf16", "bf16": "bf16", "float16": "fp16", "half": "fp16", "fp16": "fp16"})
CACHES = {
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float16": "fp16",
    "half": "fp16",
}
QUANTISED = {
    "fp8": Quantised("fp8"),
    "w8a8_fp8": Quantised("fp8"),
    "fbgemm_fp8": Quantised("fp8"),
    "modelopt": Quantised("fp8"),
    "modelopt_fp8": Quantised("fp8"),
    "deepspeedfp": Quantised(None, "fp8"),
    "modelopt_fp4": Quantised("nvfp4"),
    "nvfp4": Quantised("nvfp4"),
    "awq": Quantised(None, "int4-g128"),
    "awq_marlin": Quantised(None, "int4-g128"),
    "gptq": Quantised(None, "int4-g128"),
    "gptq_marlin": Quantised(None, "int4-g128"),
    "auto-round": Quantised(None, "int4-g128"),
    "blockwise_int8": Quantised(None, "int8"),
    "experts_int8": Quantised(None, "int8"),
    "w8a8_int8": Quantised("int8"),
    "mxfp4": Quantised(None, "mxfp4"),
}


def fill_types(keys: ForeignKeys, layer: Layer, products: str, method: str, cache: str) -> None:
    """Fills the types that the options with these names state."""
    kind = keys[products] if products else None
    if kind is not None and kind.value in PRODUCTS.words:
        layer.facts["workload.precision"] = kind._replace(value=PRODUCTS.read(kind.value))
    elif kind is not None and kind.value not in (None, "auto"):
        keys.refuse("X003", f"{products} {str(kind.value)[:60]}: no engine document multiplies in it", products)
    fill_method(keys, layer, method)
    kept = keys[cache]
    if kept.value in CACHES:
        layer.facts["workload.cache"] = kept._replace(value=CACHES[kept.value])
    elif kept.value is not None:
        keys.refuse("X003", f"{cache} {str(kept.value)[:60]}: no workload has a cache of that type", cache)


def fill_method(keys: ForeignKeys, layer: Layer, method: str) -> None:
    """Fills the types that a quantisation method implies."""
    stated = keys[method] if method else None
    if stated is None or stated.value is None:
        return
    found = QUANTISED.get(str(stated.value).lower())
    if found is None:
        keys.lose("not expressible", f"{method} {str(stated.value)[:60]}: weights as the rest of the model", method)
        return
    if found.precision is not None:
        layer.facts["workload.precision"] = stated._replace(value=found.precision)
    if found.weights is not None:
        layer.facts["workload.weights"] = stated._replace(value=found.weights)


def types_of_checkpoint(model: Model | None, shipped: str) -> Quantised:
    """The types of a checkpoint: as its model document states, else as the shipped model states.

    >>> types_of_checkpoint(None, "deepseek-v3").precision
    'fp8-block'
    """
    kept = (model.stored if model is not None else None) or STORED.get(shipped)
    if kept is None or kept == "bf16":
        return Quantised()
    return Quantised(kept) if kept in RECIPES else Quantised(None, kept)


def cache_of_checkpoint(model: Model | None, precision: str) -> tuple[str, str]:
    """The KV-cache type that an engine chooses by default, and the reason."""
    if model is not None and model.stored_cache is not None:
        return model.stored_cache, "auto: as the checkpoint has scales for"
    return "fp16" if precision == "fp16" else "bf16", "auto: as the rest, in 16 bits"


def experts_of_checkpoint(model: Model | None, shipped: str) -> str | None:
    """The type of routed experts in a checkpoint, if it differs from that of the other weights.

    >>> experts_of_checkpoint(None, "gpt-oss-120b")
    'mxfp4'
    """
    return (model.stored_experts if model is not None else None) or STORED_EXPERTS.get(shipped)


# --- types that a command cannot give a checkpoint: those in its files, by its name

MADE = Quantised("fp8")  # what engines make of a checkpoint in 16 bits while they load it
METHODS = {
    MADE: "fp8",
    Quantised("nvfp4"): "modelopt_fp4",
    Quantised(None, "int4-g128"): "awq",
    Quantised(None, "mxfp4"): "mxfp4",
}


def check_types(job: ServingJob, remarks: Remarks, methods: Mapping[Quantised, str]) -> str:
    """The quantisation method for the command, or an empty text; a fault for types that neither the command nor the
    checkpoint provides. `methods` are those for which the engine has a name.
    """
    workload, held = job.workload, types_of_checkpoint(job.model, job.shipped)
    precision = workload.precision
    weights = None if workload.weights == precision else workload.weights
    _check_experts(job, remarks)
    if (held.precision or job.half, held.weights) == (precision, weights) or _multiplies_in_16_bits(job, held):
        return ""
    asked = Quantised(None if precision == job.half else precision, weights)
    if held == Quantised() and not job.narrow_experts and asked in methods:
        if asked != MADE:
            remarks.note(f"yours to name: a checkpoint of {job.checkpoint} in {weights or precision}, in its place")
        return methods[asked]
    _refuse_types(job, remarks, held)
    return ""


def _multiplies_in_16_bits(job: ServingJob, held: Quantised) -> bool:
    """Whether quantised weights are multiplied in 16 bits, because the device lacks their type."""
    return job.widens and held.precision is not None and job.workload.weights == held.precision


def _refuse_types(job: ServingJob, remarks: Remarks, held: Quantised) -> None:
    """Records a fault for layer types that neither the checkpoint nor an option provides."""
    workload = job.workload
    key, stated = "workload.precision", f"products in {workload.precision}"
    if workload.weights not in (None, workload.precision, held.precision):
        key, stated = "workload.weights", f"weights in {workload.weights}"
    theirs = held.precision or held.weights or "16 bits"
    own = held.weights if key == "workload.weights" else held.precision
    hint = f"--set {key}={own} is what it has" if own else "name a checkpoint of those types as model"
    if held == Quantised() and job.narrow_experts:
        hint = f"--set {key}={job.half} is what it has beside its experts"
    remarks.refuse(key, f"{stated} need another checkpoint: {job.checkpoint} is in {theirs}", hint)


def _check_experts(job: ServingJob, remarks: Remarks) -> None:
    """Records faults for types of routed experts that differ from the checkpoint; no option changes them."""
    workload, held = job.workload, job.narrow_experts
    others = workload.weights or workload.precision
    if workload.expert_precision not in (None, workload.precision):
        sentence = f"no option makes products of experts alone in {workload.expert_precision}"
        remarks.refuse("workload.expert_precision", sentence, "leave it out")
    stated = workload.expert_weights or others
    if not job.model.has_experts or stated == (held or others):
        return
    theirs = held or "the type of its other weights"
    hint = f"--set workload.expert_weights={held} is what it has" if held else "leave it out"
    sentence = f"experts in {stated} need another checkpoint: {job.checkpoint} has them in {theirs}"
    remarks.refuse("workload.expert_weights", sentence, hint)


def check_cache(job: ServingJob, remarks: Remarks) -> str:
    """The KV-cache type if it is fp8; empty for 16 bits; a fault for any other type."""
    cache = job.workload.cache
    if cache not in ("fp8", job.half):
        remarks.refuse("workload.cache", f"{cache}: a cache in 16 bits is in {job.half}, as the rest")
    return "fp8" if cache == "fp8" else ""
