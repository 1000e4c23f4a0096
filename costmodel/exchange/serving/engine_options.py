"""Options that several engines have in forms of their own, read and written: drafts, copies of experts, cache on the
host, adapters.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from costmodel.documents.schemas.serving.serving_schema import ACCEPTED, BURSTS
from costmodel.exchange.foreign_keys import ForeignKeys, Format
from costmodel.exchange.remarks import Remarks
from costmodel.exchange.serving.serving_job import ServingJob
from costmodel.exchange.training.layer import Layer
from costmodel.ground.record import record

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


def draft_of(method: str) -> str:
    """The kind of draft that a speculation method uses; empty if it is unknown.

    >>> draft_of("EAGLE3"), draft_of("NEXTN"), draft_of("ngram_gpu"), draft_of("medusa")
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
    kind, count = kind or draft_of(method), _counted(tokens)
    if not kind or count is None:
        stated = f"{method[:40]} with {str(tokens)[:20]} tokens" if method else "a draft without a method"
        keys.lose("not expressible", f"{name}: {stated}", name)
        return
    layer.facts["plan.speculation.tokens"] = keys.derived(count, name, name)
    layer.facts["plan.speculation.draft"] = keys.derived(kind, f"{name}: {method[:40]}", name)


def _counted(value: Any, least: int = 1) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 6 and int(text) >= least else None


def json_option(keys: ForeignKeys, name: str, *known: str) -> dict[str, Any] | None:
    """The mapping in an option written as JSON; None if it is absent or invalid. Keys other than `known` are losses
    that no scenario states.
    """
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
    count = 0 if copies is None else _counted(copies, least=0)
    if count is None:
        keys.refuse("X005", f"{name}: {str(copies)[:20]} is no number of experts", name)
    elif count and not keys["enable-eplb"].value:
        keys.lose("approximated", f"{count} copies of experts, placed without regard to their load", name)
    if count:
        layer.facts["plan.redundant_experts"] = keys.derived(count, name, name)


def named_draft(
    job: ServingJob, remarks: Remarks, names: dict[str, str], *, trees: bool = False
) -> tuple[str, int] | None:
    """The engine's name for the draft, and its tokens; a fault for a separate draft model, or for a draft tree if
    the engine has no options for trees.
    """
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


def digits(value: Any) -> float | None:
    """A whole number written in digits; None for any other value."""
    text = str(value)
    return float(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def fill_size(keys: ForeignKeys, layer: Layer, name: str, nbytes: float, origin: str) -> None:
    """Fills the size of the host cache for each rank."""
    if not (math.isfinite(nbytes) and 0 < nbytes <= 2.0**60):
        keys.refuse("X005", f"{name} is no size of memory", name)
        return
    layer.facts[SIZE] = keys.derived(size_text(nbytes), origin, name)


def size_text(nbytes: float) -> str:
    """Bytes as a scenario writes them.

    >>> size_text(64 * 2.0**30), size_text(30e9)
    ('64 GiB', '30 GB')
    """
    return f"{nbytes / GB:.0f} GB" if nbytes % GB == 0 else f"{nbytes / GIB:.10g} GiB"


def host_bytes(job: ServingJob, remarks: Remarks, option: str) -> float:
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
