"""The steps of a log behind its warm-up as one measured run: the median, how far steps differ, and memory."""

from __future__ import annotations

import statistics

from costmodel.exchange.logs.step_lines import Log, RunSummary, StepLine
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record

WARM_UP = 5  # steps that are left out
FEWEST = 5  # steps that make a run


@record
class MeasuredRun:
    """Figures of a run under the names of the columns of a table of measured runs.

    steps: how many steps the lines after the warm-up cover. spread: the difference of the slowest and the fastest line
    over the median. remark: what the times include besides steps.
    """

    format: str
    figures: dict[str, float]
    lines: int
    steps: int
    spread: float
    first: int
    last: int
    remark: str = ""


def measured_run(log: Log, warm_up: int = WARM_UP) -> MeasuredRun:
    """The measured run in a log; a fault if too few steps remain after the warm-up."""
    if log.whole is not None:
        return _summed_up(log, log.whole, warm_up)
    kept = [step for step in log.steps if step.number > warm_up]
    covered = _covered(log.steps, warm_up)
    if covered < FEWEST:
        numbers = [step.number for step in log.steps]
        sentence = f"steps {numbers[0]} to {numbers[-1]} are too few: {covered} behind a warm-up of {warm_up}"
        place = Place(log.file, log.steps[0].place.line, 1)
        enough = numbers[-1] - FEWEST
        hint = f"--warmup {enough} would leave {FEWEST}" if 0 < enough < warm_up else f"at least {FEWEST} make a run"
        raise fail("X002", sentence, place, hint)
    found = {name: statistics.median(values) for name, values in _columns(kept).items() if values}
    figures = _row(found, kept, log)
    times = _columns(kept).get("seconds") or _columns(kept).get("rate") or [1.0]
    spread = (max(times) - min(times)) / statistics.median(times)
    return MeasuredRun(log.format, figures, len(kept), covered, spread, kept[0].number, kept[-1].number, log.remark)


def _summed_up(log: Log, whole: RunSummary, warm_up: int) -> MeasuredRun:
    """A run for which the log has only a summary."""
    if whole.steps < warm_up + FEWEST:
        sentence = f"the summary is of {whole.steps} steps: too few behind a warm-up of {warm_up}"
        raise fail("X002", sentence, whole.place, f"at least {FEWEST} make a run")
    row = {"step_time_s": whole.seconds} | ({"global_batch": whole.batch} if whole.batch else {})
    return MeasuredRun(log.format, row, 1, whole.steps, 0.0, 1, whole.steps, log.remark)


def _covered(steps: tuple[StepLine, ...], warm_up: int) -> int:
    """The number of steps that the lines after the warm-up cover: each line is a mean since the previous line."""
    numbers = [warm_up, *(step.number for step in steps if step.number > warm_up)]
    return numbers[-1] - numbers[0]


def _columns(steps: list[StepLine]) -> dict[str, list[float]]:
    names = dict.fromkeys(name for step in steps for name in step.figures)
    return {name: [step.figures[name] for step in steps if name in step.figures] for name in names}


def _row(found: dict[str, float], kept: list[StepLine], log: Log) -> dict[str, float]:
    """The figures as columns of a table."""
    row = {}
    seconds = found.get("seconds") or _by_wall(log, kept)
    if seconds is not None:
        row["step_time_s"] = seconds
    last = kept[-1]
    samples, tokens = last.figures.get("samples"), last.figures.get("tokens")
    if "batch" in found:
        row["global_batch"] = found["batch"]
    elif "samples_per_s" in found and "seconds" in found:
        row["global_batch"] = float(round(found["samples_per_s"] * found["seconds"]))
    elif samples is not None:
        row["global_batch"] = _batch_of(kept, samples / max(1, last.number))
    if samples and tokens:
        row["seq_len"] = float(round(tokens / samples))
    for name, column in (("rate", "tokens_per_s_per_gpu"), ("tflops", "tflops_per_gpu"), ("mfu", "mfu")):
        if name in found:
            row[column] = found[name]
    if found.get("mfu") and "tflops" in found:
        row["mfu_peak_tflops"] = float(round(found["tflops"] / found["mfu"] * 100))
    memory = max((step.figures["memory"] for step in kept if "memory" in step.figures), default=log.memory)
    if memory is not None:
        row["peak_mem_gb"] = round(memory, 2)
    shares = [(step.figures["memory"], step.figures["memory_share"]) for step in kept if "memory_share" in step.figures]
    if shares:
        row["gpu_mem_gb"] = round(max(shares)[0] / max(shares)[1] * 100, 1)
    if "samples_per_s" in found and seconds is None:
        row["samples_per_s"] = found["samples_per_s"]
    return row


def _batch_of(kept: list[StepLine], otherwise: float) -> float:
    """Sequences per step from the sample counts of two lines, because some programs count steps from 0."""
    marks = [(step.number, step.figures["samples"]) for step in kept if "samples" in step.figures]
    (first, before), (last, behind) = marks[0], marks[-1]
    return float(round((behind - before) / (last - first) if last > first else otherwise))


def _by_wall(log: Log, kept: list[StepLine]) -> float | None:
    """Seconds per step from the timestamps of lines, starting with the last line of the warm-up."""
    before = [step for step in log.steps if step.number < kept[0].number and step.wall is not None]
    marks = [*before[-1:], *(step for step in kept if step.wall is not None)]
    if len(marks) < 2 or marks[0].wall is None or marks[-1].wall is None:
        return None
    steps = marks[-1].number - marks[0].number
    return (marks[-1].wall - marks[0].wall) / steps if steps and marks[-1].wall > marks[0].wall else None
