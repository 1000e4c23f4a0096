"""The benchmark that asks an engine for the load of a scenario: what would test the prediction."""

from __future__ import annotations

import math

from costmodel.exchange.exporters.engines.serving_job import ServingJob, lines_of
from costmodel.exchange.exporters.job import Remarks, comment_lines

_REQUESTS = 2000  # of an open load
_WIDTH = 74  # of a commented line
MEASURED = "to measure the prediction:"
_ROUNDS = 10  # of a closed one


def benchmark(job: ServingJob, remarks: Remarks, *program: str, of_sglang: bool = False) -> list[str]:
    """The words of the benchmark of one replica."""
    workload = job.workload
    words = [*program, "--dataset-name random"]
    prefix = round(workload.shared_prefix)
    prompt = job.prompt - (0 if of_sglang else prefix)
    if workload.turns > 1:
        remarks.note("turns are no load of this benchmark: its prompts have their mean length, and are computed anew")
    if prefix and of_sglang:
        remarks.note(f"{prefix:,} tokens that all prompts begin with are no option of this benchmark")
    elif prefix:
        words.append(f"--random-prefix-len {prefix}")
    ratio = _range(job, remarks, of_sglang=of_sglang)
    longer = 2 / (1 + ratio) if of_sglang else 1.0
    words += [
        f"--random-input-len {round(prompt * longer)}",
        f"--random-output-len {round(workload.mean('output') * longer)}",
    ]
    if of_sglang or ratio:
        words.append(f"--random-range-ratio {ratio:.3g}")
    return [*words, *_load(job, remarks)]


def _range(job: ServingJob, remarks: Remarks, *, of_sglang: bool) -> float:
    """The option for lengths that spread uniformly; of SGLang 1 is one length."""
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


def _load(job: ServingJob, remarks: Remarks) -> list[str]:
    """Requests of one replica, whose share of the load is as large as that of the others."""
    workload, replicas = job.workload, job.count("replicas")
    if workload.rate is not None:
        return [f"--request-rate {workload.rate / replicas:.4g}", f"--num-prompts {_REQUESTS}"]
    if workload.concurrency is not None:
        each = max(1, round(workload.concurrency / replicas))
        return [f"--max-concurrency {each}", f"--num-prompts {each * _ROUNDS}"]
    if workload.requests is not None:
        return ["--request-rate inf", f"--num-prompts {max(1, round(workload.requests / replicas))}"]
    remarks.note("users who think between requests are no load of this benchmark")
    return [f"--num-prompts {_REQUESTS}"]


def pool_words(job: ServingJob) -> str:
    """How near the pool of a real engine comes, of the runs that its document was fitted on."""
    return f"(± {100 * job.engine.spread.pool:.2g} %)"


def commented(job: ServingJob, expected: list[str], asked: list[str]) -> str:
    """What to expect and the benchmark, as comments behind the command."""
    longest = [f"requests over {job.context:,} tokens would be refused:", job.bound]
    words = [part for line in (*expected, *longest, MEASURED) for part in comment_lines("#", line)]
    return "".join(f"{line}\n" for line in (*words, *(f"# {line}" for line in lines_of(asked, _WIDTH).splitlines())))
