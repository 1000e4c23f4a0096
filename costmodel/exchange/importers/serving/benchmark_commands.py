"""Benchmark clients of engines: the lengths of prompts and answers, and the load, that they ask for."""

from __future__ import annotations

import math
from typing import Any

from costmodel.exchange.importers.launch.layer import Layer, layer_of
from costmodel.exchange.importers.serving.option_words import Spelling
from costmodel.exchange.values.foreign_keys import ForeignKey, ForeignKeys, lost

VERSION = "benchmarks of vLLM 0.33 and SGLang 0.5.23"
TITLE = "benchmark"
SPELLING = Spelling(
    {
        "--random-input": "random-input-len", "--random-output": "random-output-len",
        "--num-prompt": "num-prompts", "--input-len": "random-input-len", "--output-len": "random-output-len",
    },
)  # fmt: skip
_LENGTHS = ("random", "random-ids", "generated-shared-prefix")  # data sets whose lengths are options

TABLE: dict[str, ForeignKey] = {
    "random-input-len": ForeignKey("count", "workload.prompt"),
    "random-output-len": ForeignKey("count", "workload.output"),
    "random-range-ratio": ForeignKey("text", "workload.prompt workload.output"),
    "random-prefix-len": ForeignKey("count", "workload.shared_prefix workload.prompt"),
    "request-rate": ForeignKey("word", "workload.rate workload.traffic", "inf"),
    "max-concurrency": ForeignKey("count", "workload.concurrency"),
    "num-prompts": ForeignKey("count", "workload.concurrency"),
    "dataset-name": ForeignKey("word", "workload.prompt"),
    "model": ForeignKey("word", "model"),
    **lost("approximated", "requests do not arrive at random", "burstiness ramp-up-strategy", "1.0", 1.0),
}


def read_benchmark(tree: Any, file: str, *, of_sglang: bool) -> Layer:
    """What a benchmark asks of an engine: its options that state no load have no part in a scenario."""
    keys = ForeignKeys({key: value for key, value in tree.items() if key in TABLE}, TABLE, file, VERSION)
    layer = Layer(TITLE)
    data = keys["dataset-name"]
    if data.value not in (None, *_LENGTHS):
        keys.lose("not expressible", f"lengths of the data set {str(data.value)[:60]}: state them", "dataset-name")
    else:
        _lengths(keys, layer, of_sglang=of_sglang)
    _load(keys, layer)
    return layer_of(keys, TITLE, layer)


def _lengths(keys: ForeignKeys, layer: Layer, *, of_sglang: bool) -> None:
    """Lengths, uniform over a range: of SGLang from a share of the length to it, else as far on both sides of it."""
    stated = keys["random-range-ratio"]
    try:
        ratio = float(stated.value) if stated.value is not None else 0.0
    except (TypeError, ValueError):
        ratio = math.nan
    if not 0.0 <= ratio <= 1.0:
        keys.refuse("X005", "random-range-ratio is no number from 0 to 1", "random-range-ratio")
        ratio = 0.0
    for name, path in (("random-input-len", "workload.prompt"), ("random-output-len", "workload.output")):
        length = keys[name]
        if length.value is None:
            continue
        low, high = (ratio, 1.0) if of_sglang else (1.0 - ratio, 1.0 + ratio)
        mean = round(length.value * (low + high) / 2) or 1
        if low == high:
            layer.facts[path] = length
        else:
            text = f"{name}, uniform from {low:g} to {high:g} of it"
            spread = (high - low) / (high + low) / math.sqrt(3)
            layer.facts[f"{path}.mean"] = keys.derived(mean, text, name)
            layer.facts[f"{path}.spread"] = keys.derived(f"{100 * spread:.3g} %", text, name)
    prefix = keys["random-prefix-len"]
    plain = layer.facts.get("workload.prompt")
    if prefix.value and plain is not None:
        layer.facts["workload.shared_prefix"] = prefix
        total = plain.value + prefix.value
        layer.facts["workload.prompt"] = keys.derived(total, "prefix and random tokens", "random-input-len")


def _load(keys: ForeignKeys, layer: Layer) -> None:
    rate, most, count = keys["request-rate"], keys["max-concurrency"], keys["num-prompts"]
    try:
        figure = float(rate.value)
    except (TypeError, ValueError):
        keys.refuse("X005", f"request-rate {str(rate.value)[:60]} is no number", "request-rate")
        return
    if math.isfinite(figure) and figure > 0:
        layer.facts["workload.rate"] = rate._replace(value=f"{figure:g} /s")
        if most.value:
            keys.lose("approximated", "at most so many requests in flight at that rate", "max-concurrency")
        return
    at_once = most if most.value else count
    if at_once.value:
        layer.facts["workload.concurrency"] = at_once
        layer.facts["workload.traffic"] = keys.derived(
            "burst", "all requests start at once", "request-rate" if keys.given("request-rate") else "num-prompts"
        )
