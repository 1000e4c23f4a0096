"""Logs of the transformers Trainer, measured runs from logs, and start-up logs of engines."""

from __future__ import annotations

import csv
import io
import json
import re
import statistics
from collections.abc import Mapping
from itertools import islice
from typing import Any

from costmodel.exchange.logs.step_lines import GIB_OVER_GB, MOST_LINES, Log, RunSummary, StepLine, unread_note
from costmodel.exchange.option_rows import number_value
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record

NAME = "Trainer of transformers"
_STATE = re.compile(r"""['"]train_runtime['"]:|['"]loss['"]:\s*['"]?[\d.]|"log_history":""")
# A progress bar without a name in front is that of steps, or of an evaluation, whose own is shorter.
_BAR = re.compile(r"(?m)^[ \t]*\d{1,3}%\|[^|\n]{0,200}\|[ \t]*(\d{1,9})/(\d{1,9})[ \t]*\[([\d:]{4,12})<")
_HISTORY = '"log_history":'
STATE = "trainer_state.json of transformers"
# Figures of an entry of log_history: of axolotl, of TRL, and of include_num_input_tokens_seen.
_FIGURES = {
    "rate": ("tokens/train_per_sec_per_gpu", 1.0),
    "seconds": ("step_time", 1.0),
    "memory": ("memory/max_allocated (GiB)", GIB_OVER_GB),
    "tokens": ("num_input_tokens_seen", 1.0),
}
_UNTIMED = (
    "import the file that the end of the run writes, or the printed log, whose progress bar has times; "
    "include_num_input_tokens_seen states train_runtime at each entry"
)
_SHORTEST = 20.0  # seconds that a clock of whole seconds may time
_LONGEST = 366 * 86_400.0
_MOST_STEPS = 1e9


def trainer_log(text: str, file: str) -> Log | None:
    """The run in a log of the transformers Trainer; None for any other text."""
    if not _STATE.search(text):
        return None
    whole = _whole_run_time(text, file)
    if is_trainer_state(text):
        return _trainer_state_log(text, file, whole)
    marks = list(islice(_BAR.finditer(text), MOST_LINES + 1))
    steps = _progress_bar_steps(text, file, marks[:MOST_LINES], whole)
    if not steps and whole is None:
        return None
    timed = [step.wall for step in steps if step.wall is not None]
    if whole is not None and (not timed or timed[-1] - timed[0] < _SHORTEST):
        return Log(NAME, file, (), None, whole, "mean of the whole run: start-up, evaluation and saving count too")
    remark = "timed by a progress bar in whole seconds; evaluation and saving between its steps count too"
    return Log(NAME, file, tuple(steps), None, None, remark, unread_note(marks))


def is_trainer_state(text: str) -> bool:
    """Whether a text is the state of the Trainer as JSON.

    >>> is_trainer_state('{"global_step": 2, "log_history": []}'), is_trainer_state("{'loss': 1.0}")
    (True, False)
    """
    return text.lstrip().startswith("{") and _HISTORY in text


def _trainer_state_log(text: str, file: str, whole: RunSummary | None) -> Log:
    """The steps or the summary of trainer_state.json; a fault if neither has times."""
    place = Place(file, text.count("\n", 0, text.index(_HISTORY)) + 1, 1)
    try:
        history = json.loads(text).get("log_history")
    except (ValueError, RecursionError):
        raise fail("X001", f"{STATE} is no whole JSON", place, "give the file as the Trainer wrote it") from None
    batch = None if whole is None else whole.batch
    entries = history if isinstance(history, list) else []
    found = {
        step.number: step
        for each in entries[:MOST_LINES]
        if (step := _log_history_step(each, place, batch)) is not None
    }
    steps = tuple(found[number] for number in sorted(found))
    if any("seconds" in step.figures or "rate" in step.figures for step in steps):
        own = tuple(step for step in steps if "seconds" in step.figures or "rate" in step.figures)
        remark = "step_time of TRL is without the update; the rate of axolotl counts tokens with a loss alone"
        return Log(STATE, file, own, None, None, remark)
    walls = [step for step in steps if step.wall is not None]
    if len(walls) > 1:
        remark = "timed between the entries of log_history; evaluation and saving between them count too"
        return Log(STATE, file, tuple(walls), None, None, remark)
    if whole is None:
        raise fail("X002", f"{STATE} states no time of its steps, only their losses", place, _UNTIMED)
    return Log(STATE, file, (), None, whole, "mean of the whole run: start-up, evaluation and saving count too")


def _log_history_step(entry: Any, place: Place, batch: float | None) -> StepLine | None:
    """One training entry of log_history; None for an evaluation or a summary."""
    stated = entry if isinstance(entry, Mapping) else {}
    number = number_value(stated.get("step"))
    if not number or not 0 < number < _MOST_STEPS or any(str(key).startswith("eval_") for key in stated):
        return None
    values = {name: (number_value(stated.get(key)), factor) for name, (key, factor) in _FIGURES.items()}
    figures = {name: value * factor for name, (value, factor) in values.items() if value is not None and value > 0}
    if batch is not None:
        figures |= {"batch": batch, "samples": batch * number}
    clock = None if "train_loss" in stated else number_value(stated.get("train_runtime"))
    return StepLine(int(number), figures, place, clock if clock is None or 0 < clock < _LONGEST else None)


def _number(text: str, name: str) -> tuple[float | None, int]:
    """The last value of a key, and its position in the text."""
    marks = list(re.finditer(rf"""['"]{name}['"]:\s*['"]?([\d.]+(?:[eE][+-]?\d+)?)""", text))
    try:
        value = float(marks[-1].group(1)) if marks else 0.0
    except ValueError:
        value = 0.0
    return (value if 0 < value < 1e15 else None), (marks[-1].start() if marks else 0)


def _whole_run_time(text: str, file: str) -> RunSummary | None:
    """Seconds per step and number of steps of the whole run, from its summary."""
    seconds, at = _number(text, "train_runtime")
    rate, _ = _number(text, "train_steps_per_second")
    samples, _ = _number(text, "train_samples_per_second")
    counted, _ = _number(text, "global_step")
    if seconds is None or (rate is None and counted is None):
        return None
    steps = counted or seconds * (rate or 0.0)
    each = seconds / steps
    batch = float(round(samples * each)) if samples is not None else None
    return RunSummary(each, round(steps), batch, Place(file, text.count("\n", 0, at) + 1, 1))


def _progress_bar_steps(text: str, file: str, marks: list[re.Match[str]], whole: RunSummary | None) -> list[StepLine]:
    """Steps with elapsed time, from the progress bar that runs longest."""
    found: dict[int, dict[int, StepLine]] = {}
    line, counted = 1, 0
    for mark in marks:
        line, counted = line + text.count("\n", counted, mark.start()), mark.start()
        number, total, elapsed = int(mark.group(1)), int(mark.group(2)), _parse_seconds(mark.group(3))
        if number and elapsed is not None:
            figures = {} if whole is None or whole.batch is None else {"batch": whole.batch}
            step = StepLine(number, figures, Place(file, line, 1), elapsed)
            found.setdefault(total, {})[number] = step
    if not found:
        return []
    longest = max(found.values(), key=lambda steps: max(step.wall or 0.0 for step in steps.values()))
    return [longest[number] for number in sorted(longest)]


def _parse_seconds(text: str) -> float | None:
    """The seconds of a text such as 1:02:03; None if it is no time.

    >>> _seconds("1:02:03"), _seconds("00:20"), _seconds("::")
    (3723.0, 20.0, None)
    """
    total = 0.0
    for part in text.split(":"):
        if not part:
            return None
        total = total * 60 + int(part)
    return total if total < _LONGEST else None


# The steps of a log behind its warm-up as one measured run: the median, how far steps differ, and memory.

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
        return _summary_run(log, log.whole, warm_up)
    kept = [step for step in log.steps if step.number > warm_up]
    covered = _steps_covered(log.steps, warm_up)
    if covered < FEWEST:
        numbers = [step.number for step in log.steps]
        sentence = f"steps {numbers[0]} to {numbers[-1]} are too few: {covered} behind a warm-up of {warm_up}"
        place = Place(log.file, log.steps[0].place.line, 1)
        enough = numbers[-1] - FEWEST
        hint = f"--warmup {enough} would leave {FEWEST}" if 0 < enough < warm_up else f"at least {FEWEST} make a run"
        raise fail("X002", sentence, place, hint)
    found = {name: statistics.median(values) for name, values in _figure_columns(kept).items() if values}
    figures = _run_columns(found, kept, log)
    times = _figure_columns(kept).get("seconds") or _figure_columns(kept).get("rate") or [1.0]
    spread = (max(times) - min(times)) / statistics.median(times)
    return MeasuredRun(log.format, figures, len(kept), covered, spread, kept[0].number, kept[-1].number, log.remark)


def _summary_run(log: Log, whole: RunSummary, warm_up: int) -> MeasuredRun:
    """A run for which the log has only a summary."""
    if whole.steps < warm_up + FEWEST:
        sentence = f"the summary is of {whole.steps} steps: too few behind a warm-up of {warm_up}"
        raise fail("X002", sentence, whole.place, f"at least {FEWEST} make a run")
    row = {"step_time_s": whole.seconds} | ({"global_batch": whole.batch} if whole.batch else {})
    return MeasuredRun(log.format, row, 1, whole.steps, 0.0, 1, whole.steps, log.remark)


def _steps_covered(steps: tuple[StepLine, ...], warm_up: int) -> int:
    """The number of steps that the lines after the warm-up cover: each line is a mean since the previous line."""
    numbers = [warm_up, *(step.number for step in steps if step.number > warm_up)]
    return numbers[-1] - numbers[0]


def _figure_columns(steps: list[StepLine]) -> dict[str, list[float]]:
    names = dict.fromkeys(name for step in steps for name in step.figures)
    return {name: [step.figures[name] for step in steps if name in step.figures] for name in names}


def _run_columns(found: dict[str, float], kept: list[StepLine], log: Log) -> dict[str, float]:
    """The figures as columns of a table."""
    row = {}
    seconds = found.get("seconds") or _seconds_by_timestamps(log, kept)
    if seconds is not None:
        row["step_time_s"] = seconds
    last = kept[-1]
    samples, tokens = last.figures.get("samples"), last.figures.get("tokens")
    if "batch" in found:
        row["global_batch"] = found["batch"]
    elif "samples_per_s" in found and "seconds" in found:
        row["global_batch"] = float(round(found["samples_per_s"] * found["seconds"]))
    elif samples is not None:
        row["global_batch"] = _sequences_per_step(kept, samples / max(1, last.number))
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


def _sequences_per_step(kept: list[StepLine], otherwise: float) -> float:
    """Sequences per step from the sample counts of two lines, because some programs count steps from 0."""
    marks = [(step.number, step.figures["samples"]) for step in kept if "samples" in step.figures]
    (first, before), (last, behind) = marks[0], marks[-1]
    return float(round((behind - before) / (last - first) if last > first else otherwise))


def _seconds_by_timestamps(log: Log, kept: list[StepLine]) -> float | None:
    """Seconds per step from the timestamps of lines, starting with the last line of the warm-up."""
    before = [step for step in log.steps if step.number < kept[0].number and step.wall is not None]
    marks = [*before[-1:], *(step for step in kept if step.wall is not None)]
    if len(marks) < 2 or marks[0].wall is None or marks[-1].wall is None:
        return None
    steps = marks[-1].number - marks[0].number
    return (marks[-1].wall - marks[0].wall) / steps if steps and marks[-1].wall > marks[0].wall else None


# Start-up logs of vLLM and SGLang as they print them: what they run with, and the pool that is left to the cache.

MARKS = re.compile(r"Available KV cache memory:|KV Cache is allocated\.|# GPU blocks:")
_GPU = re.compile(r"(?:NVIDIA|AMD|Intel|Tesla)[ _][A-Za-z0-9][\w .-]{0,60}?(?=\.json|,| \(|\"|'|\)|$)", re.M)
_VLLM, _SGLANG = "vllm", "sglang"
_KEYS: dict[str, dict[str, tuple[str, ...]]] = {  # columns, and the keys that state them, the first that is there
    _VLLM: {
        "model": ("model", "model_tag"),
        "tp": ("tensor_parallel_size",),
        "pp": ("pipeline_parallel_size",),
        "u": ("gpu_memory_utilization",),
        "max_model_len": ("max_seq_len", "max_model_len"),
        "max_num_batched_tokens": ("max_num_batched_tokens",),
        "max_num_seqs": ("max_num_seqs",),
    },
    _SGLANG: {
        "model": ("model_path",),
        "tp": ("tp_size",),
        "pp": ("pp_size",),
        "u": ("mem_fraction_static",),
        "max_model_len": ("context_len", "context_length"),
        "max_num_batched_tokens": ("chunked_prefill_size",),
        "max_num_seqs": ("max_running_requests",),
    },
}
_NARROW = ("fp8", "fbgemm_fp8", "compressed-tensors")
_NOT_STATED = ("None", "none", "null", "auto")


def is_engine_start(text: str) -> bool:
    """Whether a text is the start-up log of a serving engine: it states the size of the KV cache."""
    return MARKS.search(text) is not None


def start_as_table(text: str) -> str:
    """A start-up log as a CSV table of one row, with the columns of `costmodel explain D014`."""
    engine = _SGLANG if "KV Cache is allocated" in text else _VLLM
    cells = {"engine": engine, "engine_version": _version(text, engine), "gpu": _gpu_name(text)}
    cells |= {column: _stated_value(text, keys) for column, keys in _KEYS[engine].items()}
    cells["tp"] = cells["tp"] or "1"
    cells |= {
        "weight_bytes_per_param": _weight_type(text),
        "kv_bytes": _cache_bytes(text),
        "log_kv_gib": _cache_pool_gib(text, engine),
    }
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerows([list(cells), list(cells.values())])
    return table.getvalue()


def _stated_value(text: str, keys: tuple[str, ...]) -> str:
    """The value of the first key that the log states, as key=value or 'key': value."""
    for key in keys:
        for match in re.finditer(rf"\b{key}['\"]?\s*[=:]\s*['\"]?([^'\",)}}\s]+)", text):
            if match[1] not in _NOT_STATED:
                return match[1]
    return ""


def _version(text: str, engine: str) -> str:
    """The release of an engine."""
    pattern = (
        r"LLM engine \(v([\d.]+)|vLLM (?:API server )?version v?([\d.]+)" if engine == _VLLM else r"SGLang v?([\d.]+)"
    )
    match = re.search(pattern, text)
    return next(filter(None, match.groups()), "").rstrip(".") if match else ""


def _gpu_name(text: str) -> str:
    """The accelerator's name as its driver prints it; empty if the log has none. `nvidia-smi -L` prints it too."""
    match = _GPU.search(text)
    return match[0].strip().replace("_", " ") if match else ""


def _weight_type(text: str) -> str:
    """The bytes of a weight as text (1 or 2), or its quantisation if that has no fixed number of bytes."""
    quantised = _stated_value(text, ("quantization",))
    if quantised == "mxfp4":
        return "mx"
    return "1" if quantised in _NARROW else quantised or "2"


def _cache_bytes(text: str) -> str:
    """The bytes of a number in the KV cache, as text: 1 for fp8, else 2."""
    kept = _stated_value(text, ("kv_cache_dtype",))
    return "1" if kept.startswith("fp8") else "2"


def _cache_pool_gib(text: str, engine: str) -> str:
    """The KV-cache pool of one device in GiB, as the log states it last."""
    if engine == _SGLANG:
        found = re.findall(r"K size: ([\d.]+) GB, V size: ([\d.]+) GB", text)
        return f"{sum(map(float, found[-1])):g}" if found else _last_match(r"KV size: ([\d.]+) GB", text)
    return _last_match(r"Available KV cache memory: ([\d.]+) GiB", text)


def _last_match(pattern: str, text: str) -> str:
    """The last match of a pattern; empty without a match."""
    found = re.findall(pattern, text)
    return found[-1] if found else ""
