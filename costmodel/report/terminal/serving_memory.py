"""The memory of an engine in a terminal: its breakdown, the KV-cache pool, and what each change would gain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from costmodel.estimate.model.mixers.mixing_half import CacheKind
from costmodel.estimate.serving.cache_breakdown import cache_by_kind, first_token_cache, host_cache, logged_tokens
from costmodel.estimate.serving.engine_memory import graph_memory, host_expert_memory, start_rate
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.explore.answer_summaries import scalar
from costmodel.explore.serving.remedy_trials import CacheLever
from costmodel.ground.units import gib, percent, show, show_memory, show_time, significant
from costmodel.report.answers.memory import room_words
from costmodel.report.answers.plan_parts import LedgerLine, LedgerSum, MemoryLedger
from costmodel.report.data_formats.answer_fields import finite
from costmodel.report.terminal.formatting import or_list
from costmodel.report.terminal.layout import BAD, GOOD, CellTable, Line, short_or_full, styled
from costmodel.report.terminal.training_memory import cache_rows

_PLACES = {"memory": "host memory", "drives": "the host's drives", "store": "a store"}


def serving_ledger(answer: ServingAnswer, levers: Sequence[CacheLever]) -> MemoryLedger:
    """The memory breakdown of a replica's most loaded accelerator; levers: changes of the KV cache that were tried."""
    use, costs = answer.evaluation.memory, answer.costs
    tokens = f"{significant(costs['cache_pool_tokens'] / 1e3, 4)} k tokens per replica, {_block_words(answer)}"
    libraries = "context and libraries" + (", NCCL" if scalar(costs["gpus"]) > 1 else "")
    if scalar(graphs := graph_memory(answer.inputs)):
        libraries += f", CUDA graphs {gib(scalar(graphs))}"
    lines = [
        LedgerLine("weights", [scalar(use.weights)], _width_note(answer), "weights"),
        LedgerLine("activations", [scalar(use.activations)], _largest_step_note(answer), "activations"),
        LedgerLine("runtime", [scalar(use.runtime)], libraries, "runtime"),
        LedgerLine("cache", [max(scalar(use.pool), 0.0)], tokens, "third"),
    ]
    fits, note = "M001" not in answer.broken, _memory_share_note(answer)
    note = note if fits else f"of {gib(scalar(use.allowed))} GiB that the engine may use: {note}"
    short = f"  {room_words(scalar(use.with_pool), scalar(use.allowed))}   does not fit"
    return MemoryLedger(
        _usable_memory_head(answer),
        ["fullest"],
        lines,
        [LedgerSum("requested" if fits else "needed", len(lines), note)],
        scalar(use.total),
        "of the GPU",
        styled("  fits", GOOD) if fits else styled(short, BAD),
        [Text(), *_capacity_rows(answer, levers)],
        cache_table(answer),
        _host_cache_fields(answer),
        fits,
    )


def _host_cache_fields(answer: ServingAnswer) -> dict[str, Any]:
    """The host's KV cache as plain values."""
    kept = host_cache(answer)
    if kept is None:
        return {}
    return {
        "host_cache": {
            "memory_bytes": kept.memory,
            "rank_bytes": kept.each,
            "tokens": kept.tokens,
            "prompt_tokens": kept.prompt,
            "load_s": kept.load,
            "recompute_s": finite(kept.recompute),
        }
    }


def _usable_memory_head(answer: ServingAnswer) -> str:
    """The head of the memory table: which memory the engine may use."""
    engine, use = answer.inputs.engine, answer.evaluation.memory
    share = f"{scalar(use.fraction) * 100:.3g} %"
    of = {
        "share-of-total": f"{share} of {gib(scalar(use.total))} GiB that the driver reports",
        "share-of-free-before": f"{share} of what is free before loading, weights and cache together",
        "share-of-free-after": f"{share} of what is free after loading",
    }[engine.memory.definition]
    return f"Per GPU, {engine.title}: {of}"


def _width_note(answer: ServingAnswer) -> str:
    """Bytes per parameter, and of routed experts if these differ."""
    types = answer.inputs.types
    weight, expert = scalar(types.weight), scalar(types.expert_weight)
    experts = f", {expert:.4g} of experts" if expert != weight and answer.inputs.model.has_experts else ""
    count = answer.plan.redundant_experts
    copies = f", {count:.0f} copies of experts" if count else ""
    return f"{weight:.4g} B a parameter of the layers{experts}{copies}"


def _largest_step_note(answer: ServingAnswer) -> str:
    """A note on the tokens of the largest step, for the line of activations."""
    inputs = answer.inputs
    if not inputs.engine.memory.logit:
        return "activations and graphs: what the engine's rule leaves"
    return f"logits of {inputs.sequences:,.0f} sequences, or a layer at the full budget"


def _block_words(answer: ServingAnswer) -> str:
    """The KV-cache pool in blocks, as the engine's log prints it."""
    layout, block = answer.evaluation.layout, answer.inputs.engine.block
    dcp, groups = float(layout.dcp[0]), float(layout.dp_attention[0])
    held = answer.costs["cache_pool_tokens"] / groups / dcp
    where = [f" in each of {groups:.0f} groups"] * (groups > 1) + [f" on each of {dcp:.0f} ranks"] * (dcp > 1)
    return f"{held / block:,.0f} blocks of {block:.0f}" + "".join(where)


def _memory_share_note(answer: ServingAnswer) -> str:
    """The engine's option for its memory share, with its value."""
    words = {
        "share-of-total": "gpu_memory_utilization",
        "share-of-free-before": "mem_fraction_static",
        "share-of-free-after": "free_gpu_memory_fraction",
    }[answer.inputs.engine.memory.definition]
    return f"{words} {scalar(answer.evaluation.memory.fraction):.3g}"


def _capacity_rows(answer: ServingAnswer, levers: Sequence[CacheLever]) -> list[Line]:
    """Rows on cache bytes per token, and on how many requests fit in the pool."""
    costs, load = answer.costs, answer.inputs.load
    held = _mib_text(scalar(answer.evaluation.memory.one_request))
    longest = f"{float(load.longest):,.0f}"
    own = answer.inputs.engine.memory.definition == "share-of-total"
    logged = f" (vLLM logs: Maximum concurrency for {longest} tokens per request)" if own else ""
    worst, steady = significant(costs["concurrency_worst"], 4), significant(costs["concurrency_steady"])
    flying = "" if "M001" in answer.broken else f"; {significant(costs['concurrency'])} are in flight at this load"
    token = _window_cache_words(answer) or f"{show_memory(costs['kv_bytes_per_token'])} per token"
    aside = _reserved_cache_rows(answer)
    blocks = f", {significant(scalar(answer.evaluation.memory.logged) / 1e3, 4)} k in whole blocks" if aside else ""
    rows = [
        ("cache", f"{token}; {held} per GPU for {longest} tokens"),
        *aside,
        ("requests", f"at least {worst} at once, {longest} tokens each{blocks}{logged}"),
        ("", f"{steady} mean requests at a time{flying}"),
        ("context", _longest_request_rows(answer)),
        *_start_row(answer),
        *_host_rows(answer),
        *_lever_rows(answer, levers),
    ]
    main = [(words, text.replace(logged, "")) for words, text in rows if words in ("cache", "requests", "context")]
    short, whole = (CellTable(("", ""), each, "ll", headed=False) for each in (main, rows))
    return short_or_full([short], [whole], "mean requests, host memory and what if")


def _reserved_cache_rows(answer: ServingAnswer) -> list[tuple[str, str]]:
    """Rows on cache that is reserved for windows and states, and on the pool that vLLM then logs."""
    kinds = cache_by_kind(answer.inputs, answer.evaluation.layout)
    fixed = _fixed_cache_layers(kinds)
    if not fixed:
        return []
    growing = sum(kind.layers for kind in kinds if kind.held[0])
    aside = " and ".join(f"{_mib_text(kind.held[1])} for {kind.layers:.0f} layers ({kind.name})" for kind in fixed)
    rest = "a token beyond adds nothing" if _window_cache_words(answer) else "a token adds nothing"
    rest = f"a token adds to the other {growing:.0f}" if growing else rest
    rows = [("", f"of that {aside}; {rest}")]
    engine = answer.inputs.engine
    found = logged_tokens(answer.inputs, answer.evaluation.layout)
    if found is None:
        return rows
    counted = "as if every layer kept all" if engine.memory.logged == "layers" else f"in requests of {found[1]:,.0f}"
    logs = f"{engine.title.partition(',')[0]} logs: GPU KV cache size {significant(found[0] / 1e3)} k tokens, {counted}"
    return [*rows, ("", logs)]


def _window_cache_words(answer: ServingAnswer) -> str:
    """Cache per token inside the windows, if all layers have windows; else empty."""
    if any(kind.held[0] for kind in cache_by_kind(answer.inputs, answer.evaluation.layout)):
        return ""
    added = [kind for kind in first_token_cache(answer.inputs) if kind.held[0]]
    return " and ".join(f"{show_memory(kind.held[0])} per token within the {kind.name}" for kind in added)


def _fixed_cache_layers(kinds: Sequence[CacheKind]) -> list[CacheKind]:
    """Kinds of layers with a window or a state, whose cache does not grow with further tokens."""
    return [kind for kind in kinds if not kind.held[0] and kind.held[1]]


def _mib_text(nbytes: float) -> str:
    """Bytes in MiB as text."""
    return f"{significant(nbytes / 2**20)} MiB"


def _longest_request_rows(answer: ServingAnswer) -> str:
    """The longest request that the model allows, and the longest that fits in the KV-cache pool."""
    longest = f"limit {answer.inputs.model.max_sequence:,.0f} tokens (model)"
    if _fixed_cache_layers(cache_by_kind(answer.inputs, answer.evaluation.layout)):
        return longest
    most = scalar(answer.costs["cache_pool_tokens"]) / float(answer.evaluation.layout.dp_attention[0])
    return f"{longest}, {most:,.0f} (cache)"


def _host_rows(answer: ServingAnswer) -> list[tuple[str, str]]:
    """Experts and KV cache in host memory, and whether loading from there is faster than computing."""
    kept, own = host_cache(answer), answer.inputs.host_experts
    experts = list[tuple[str, str]]()
    if own is not None:
        layout, memory = answer.evaluation.layout, answer.inputs.case.node.memory
        held = scalar(host_expert_memory(answer.inputs, layout)) * min(
            scalar(layout.ranks) * scalar(layout.replicas), answer.inputs.case.node.built
        )
        of = f" of {show_memory(memory.capacity)}" if memory is not None else ""
        experts = [
            ("experts", f"{show_memory(held)}{of} of a node's host memory: {percent(own.share)} of those routed")
        ]
    if kept is None:
        return experts
    pays = f"loading is {significant(kept.gain)} × as fast" if kept.gain > 1 else "loading is slower"
    times = f"loaded in {show_time(kept.load)} or computed again in {show_time(kept.recompute)}"
    tokens = f"{significant(kept.tokens / 1e3, 4)} k tokens of a replica"
    would = f"{show_memory(kept.memory)} of a node's host memory would keep {tokens}"
    pool = answer.inputs.host_pool
    place = _PLACES["memory" if pool is None else pool.stated.on]
    stated = f"{show_memory(kept.each)} of {place} for each GPU keeps {tokens}"
    return [
        *experts,
        ("host", stated if pool is not None else would),
        ("", f"a prompt of {kept.prompt:,.0f} tokens is {times}: {pays}"),
    ]


def _start_row(answer: ServingAnswer) -> list[tuple[str, str]]:
    """The time until a replica answers, and the part that reads weights; empty if it is not known."""
    start, whole = answer.inputs.engine.start, answer.costs["start_time"]
    if start is None or "M001" in answer.broken:
        return []
    rate, weights = start_rate(answer.inputs), scalar(answer.evaluation.memory.weights)
    words = f"{show_time(weights / scalar(rate))} to read weights at {show(scalar(rate), 'B/s')} a GPU"
    return [("start", f"{show_time(whole)} until a replica answers, of that {words}")]


def _lever_rows(answer: ServingAnswer, levers: Sequence[CacheLever]) -> list[tuple[str, str]]:
    """The KV-cache pool after each change that was tried; if the plan does not fit, only changes that make it fit."""
    helping = [each for each in levers if each.tokens or "M001" not in answer.broken]
    words = [f"--set {each.assignment}: {_pool_text(each.tokens)}" for each in helping]
    if levers and not helping:
        tried = [each.assignment for each in levers]
        words = [f"it does not fit with {or_list(tried)} either"]
    return [("" if place else "what if", each) for place, each in enumerate(words)]


def _pool_text(tokens: float) -> str:
    """A number of tokens in the KV-cache pool as text; for none, that no request fits."""
    return f"{significant(tokens / 1e3, 4)} k tokens of a replica" if tokens else "does not fit"


def cache_table(answer: ServingAnswer) -> list[Line]:
    """The KV cache by kind of layer, and the sum."""
    kinds = cache_by_kind(answer.inputs, answer.evaluation.layout)
    if not kinds:
        return []
    titles = ("a token", f"set aside for {answer.inputs.load.longest:,.0f}", "mean request")
    return [Text(), cache_rows(kinds, titles)]
