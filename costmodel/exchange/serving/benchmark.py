"""Commands of benchmark clients of engines: the load that one states, and the command for a load."""

from __future__ import annotations

import math
from typing import Any

from costmodel.exchange.foreign_keys import ForeignKeys
from costmodel.exchange.option_rows import Remarks, comment_lines, lost, option_table, part
from costmodel.exchange.serving.command_options import Spelling
from costmodel.exchange.serving.engine_options import ServingJob, wrapped_command
from costmodel.exchange.training.file_facts import Layer, finished_layer

VERSION = "benchmarks of vLLM 0.33 and SGLang 0.5.23"
TITLE = "benchmark"
SPELLING = Spelling(
    {
        "--random-input": "random-input-len", "--random-output": "random-output-len",
        "--num-prompt": "num-prompts", "--input-len": "random-input-len", "--output-len": "random-output-len",
    },
)  # fmt: skip
_LENGTHS = ("random", "random-ids", "generated-shared-prefix")  # data sets whose lengths are options

_PREFIXES = "prefix_repetition"
_USUAL = {"prefix-len": 256, "suffix-len": 256, "num-prefixes": 10, "output-len": 128}
_REQUESTS = 2000  # of an open load
_WIDTH = 74  # of a commented line
MEASURED = "to measure the prediction:"
_ROUNDS = 10  # of a closed one

TABLE = option_table(
    part("random-input-len", "workload.prompt", "count"),
    part("random-output-len", "workload.output", "count"),
    part("random-range-ratio", "workload.prompt workload.output", "text"),
    part("random-prefix-len", "workload.shared_prefix workload.prompt", "count"),
    part("prefix-repetition-prefix-len", "workload.beginnings workload.prompt", "count", 256),
    part("prefix-repetition-suffix-len", "workload.prompt", "count", 256),
    part("prefix-repetition-num-prefixes", "workload.beginnings", "count", 10),
    part("prefix-repetition-output-len", "workload.output", "count", 128),
    part("request-rate", "workload.rate workload.traffic", "word", "inf"),
    part("max-concurrency", "workload.concurrency", "count"),
    part("num-prompts", "workload.concurrency", "count"),
    part("dataset-name", "workload.prompt", "word"),
    part("model", "model", "word"),
    part("burstiness", "workload.burstiness", "figure", 1.0),
    part("n", "workload.samples", "count", 1),
    part("best-of", "workload.samples", "count", 1),
    lost("approximated", "the rate changes during the run", "ramp-up-strategy"),
)


def read_benchmark(tree: Any, file: str, *, of_sglang: bool) -> Layer:
    """The load that a benchmark command states; its other options are ignored."""
    keys = ForeignKeys({key: value for key, value in tree.items() if key in TABLE}, TABLE, file, VERSION)
    layer = Layer(TITLE)
    data = keys["dataset-name"]
    if data.value == _PREFIXES:
        _several_prefixes(keys, layer)
    elif data.value not in (None, *_LENGTHS):
        keys.lose("not expressible", f"lengths of the data set {str(data.value)[:60]}: state them", "dataset-name")
    else:
        _read_lengths(keys, layer, of_sglang=of_sglang)
    _read_load(keys, layer)
    several = max((keys[name] for name in ("n", "best-of")), key=lambda stated: stated.value or 1)
    if (several.value or 1) > 1:
        layer.facts["workload.samples"] = several
    return finished_layer(keys, layer)


def _several_prefixes(keys: ForeignKeys, layer: Layer) -> None:
    """Fills several shared prefixes, each used by equally many prompts: vLLM's prefix-repetition data set."""
    names = ("prefix-len", "suffix-len", "num-prefixes", "output-len")
    stated = [keys[f"prefix-repetition-{name}"].value for name in names]
    prefix, suffix, count, output = (
        _USUAL[name] if value is None else value for name, value in zip(names, stated, strict=True)
    )
    layer.facts["workload.prompt"] = keys.derived(prefix + suffix, "prefix and suffix", "dataset-name")
    layer.facts["workload.output"] = keys.derived(output, "prefix-repetition-output-len", "dataset-name")
    shared = [{"tokens": prefix, "count": count}]
    layer.facts["workload.beginnings"] = keys.derived(shared, f"{count} prefixes", "dataset-name")


def _read_lengths(keys: ForeignKeys, layer: Layer, *, of_sglang: bool) -> None:
    """Fills lengths that are uniform over a range: for SGLang from ratio × length to length, else ± ratio × length."""
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


def _read_load(keys: ForeignKeys, layer: Layer) -> None:
    """Adds the load of a benchmark (rate, concurrency, number of requests) to `layer`, the facts of the file."""
    rate, most, count = keys["request-rate"], keys["max-concurrency"], keys["num-prompts"]
    try:
        figure = float(rate.value)
    except (TypeError, ValueError):
        keys.refuse("X005", f"request-rate {str(rate.value)[:60]} is no number", "request-rate")
        return
    if math.isfinite(figure) and figure > 0:
        layer.facts["workload.rate"] = rate._replace(value=f"{figure:g} /s")
        if keys.given("burstiness"):
            layer.facts["workload.burstiness"] = keys["burstiness"]
        if most.value:
            layer.facts["workload.concurrency"] = most
        return
    at_once = most if most.value else count
    if at_once.value:
        layer.facts["workload.concurrency"] = at_once
        layer.facts["workload.traffic"] = keys.derived(
            "burst", "all requests start at once", "request-rate" if keys.given("request-rate") else "num-prompts"
        )


def benchmark_words(job: ServingJob, remarks: Remarks, *program: str, of_sglang: bool = False) -> list[str]:
    """The command words of a benchmark of one replica."""
    workload = job.workload
    words = [*program, "--dataset-name random"]
    prefix = round(workload.shared_prefix)
    prompt = job.prompt - (0 if of_sglang else prefix)
    if workload.samples > 1:
        remarks.note(f"{workload.samples:g} answers to each prompt are no option of this benchmark: it asks for one")
    if workload.turns > 1:
        remarks.note("turns are no load of this benchmark: its prompts have their mean length, and are computed anew")
    if prefix and of_sglang:
        remarks.note(f"{prefix:,} tokens that all prompts begin with are no option of this benchmark")
    elif prefix:
        words.append(f"--random-prefix-len {prefix}")
    ratio = _range_option(job, remarks, of_sglang=of_sglang)
    longer = 2 / (1 + ratio) if of_sglang else 1.0
    words += [
        f"--random-input-len {round(prompt * longer)}",
        f"--random-output-len {round(workload.mean('output') * longer)}",
    ]
    if of_sglang or ratio:
        words.append(f"--random-range-ratio {ratio:.3g}")
    return [*words, *_load_options(job, remarks, of_sglang=of_sglang)]


def _range_option(job: ServingJob, remarks: Remarks, *, of_sglang: bool) -> float:
    """The value of the range option for uniformly spread lengths; 0 (for SGLang 1) means equal lengths."""
    spread = job.workload.spread("prompt")
    if spread != job.workload.spread("output"):
        remarks.note("prompts and answers spread differently: this benchmark has one range for both")
    wide = spread * math.sqrt(3)
    if wide >= 1:
        remarks.note(
            f"lengths with a spread of {100 * spread:.3g} % need a data set: this benchmark's uniform ones reach 57.7 %"
        )
        wide = 0.0
    return (1 - wide) / (1 + wide) if of_sglang else float(wide)


def _burst_option(job: ServingJob, remarks: Remarks, *, of_sglang: bool) -> list[str]:
    """The option for bursty arrivals, as one of several replicas receives them; empty for random arrivals."""
    workload = job.workload
    square = 1.0 / workload.burstiness if workload.burstiness else (workload.arrival_spread or 1.0) ** 2
    shape = 1.0 / max(1.0 + (square - 1.0) / job.count("replicas"), 0.01)
    if shape == 1:
        return []
    if of_sglang:
        remarks.note("this benchmark has no option for bursts of arrivals: its requests come at random")
        return []
    return [f"--burstiness {shape:.4g}"]


def _load_options(job: ServingJob, remarks: Remarks, *, of_sglang: bool) -> list[str]:
    """The load options of one replica, which receives an equal share of the load."""
    workload, replicas = job.workload, job.count("replicas")
    if workload.rate is not None:
        most = workload.concurrency
        capped = [] if most is None else [f"--max-concurrency {max(1, round(most / replicas))}"]
        rate = [f"--request-rate {workload.rate / replicas:.4g}"]
        return [*rate, *_burst_option(job, remarks, of_sglang=of_sglang), *capped, f"--num-prompts {_REQUESTS}"]
    if workload.concurrency is not None:
        each = max(1, round(workload.concurrency / replicas))
        return [f"--max-concurrency {each}", f"--num-prompts {each * _ROUNDS}"]
    if workload.requests is not None:
        return ["--request-rate inf", f"--num-prompts {max(1, round(workload.requests / replicas))}"]
    remarks.note("users who think between requests are no load of this benchmark")
    return [f"--num-prompts {_REQUESTS}"]


def pool_error_words(job: ServingJob) -> str:
    """The expected error of the predicted KV-cache pool, as text, from the runs that the engine was fitted on."""
    return f"(± {100 * job.engine.spread.pool:.2g} %)"


def benchmark_comments(job: ServingJob, expected: list[str], asked: list[str]) -> str:
    """The expected figures and the benchmark command, as comments after the command."""
    longest = [f"requests over {job.context:,} tokens would be refused:", job.bound]
    printed = (job.printed,) if job.printed else ()
    words = [part for line in (*expected, *longest, *printed, MEASURED) for part in comment_lines("#", line)]
    return "".join(
        f"{line}\n" for line in (*words, *(f"# {line}" for line in wrapped_command(asked, _WIDTH).splitlines()))
    )
