"""Reads the lines that training programs print for each step, by a table of log formats; the text is never run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from statistics import median
from typing import NamedTuple

from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record

GIB_OVER_GB = 1.073741824
MOST_LINES = 20_000  # lines of steps that are read: a median needs no more
_BEFORE = 300  # letters in front of a step's number that are of its line
_SAME_LINE = 1_000  # letters in which a word that a step's line must have begins
_FURTHEST = 1_500  # letters behind a step's number that are of its line, which may be broken
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PEAK = re.compile(r"memory \((MB|GB)\) \|[^\n(]{0,200}?max allocated:\s*([\d.]+)")
_UNITS = {"MB": 1.048576e-3, "GB": GIB_OVER_GB}  # of 2²⁰ and of 2³⁰ bytes
_OF_FULLEST = ("memory", "memory_share")
_WALL = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)[,.](\d{1,6})")


class Measure(NamedTuple):
    """A figure of a step: the pattern that finds it, and the factor that converts it to costmodel's unit."""

    pattern: re.Pattern[str]
    factor: float = 1.0


def _measure_pattern(text: str, factor: float = 1.0) -> Measure:
    return Measure(re.compile(text), factor)


class LogFormat(NamedTuple):
    """The step lines of one program: a pattern for the step number, its figures, and a word that all lines contain."""

    name: str
    step: re.Pattern[str]
    figures: dict[str, Measure]
    word: str = ""


_NUMBER = r"([\d.,]+(?:[eE][+-]?\d+)?)"

# Figures: seconds of a step, samples a second, sequences in a step, samples and tokens so far, tokens a second of an
# accelerator, its TFLOP/s, memory in GB of 10⁹ bytes and its share of the whole, model FLOP utilisation in percent.
LOG_FORMATS = (
    LogFormat(
        "Megatron-LM",
        re.compile(r"\biteration\s+(\d{1,9})\s*/\s*\d{1,9}"),
        {
            "seconds": _measure_pattern(rf"elapsed time per iteration \(ms\):\s*{_NUMBER}", 1e-3),
            "batch": _measure_pattern(rf"\b(?:global|gloabl) batch size:\s*{_NUMBER}"),
            "samples_per_s": _measure_pattern(rf"samples(?:/sec| per second):\s*{_NUMBER}"),
            "samples": _measure_pattern(rf"consumed samples:\s*{_NUMBER}"),
            "tokens": _measure_pattern(rf"consumed tokens:\s*{_NUMBER}"),
            "rate": _measure_pattern(
                rf"(?:tokens per GPU \(tokens/s/GPU\)|tokens/GPU/s|throughput \(token/sec/GPU\)):\s*{_NUMBER}"
            ),
            "tflops": _measure_pattern(
                rf"(?:throughput per GPU \(TFLOP/s/GPU\)|TFLOPs|approx flops per GPU|GPU utilization):\s*{_NUMBER}"
            ),
        },
        "elapsed time per iteration",
    ),
    LogFormat(
        "torchtitan",
        re.compile(r"\bstep:\s*(\d{1,9})\s+loss:"),
        {
            "rate": _measure_pattern(rf"\b(?:tps|wps):\s*{_NUMBER}"),
            "memory": _measure_pattern(rf"memory:\s*{_NUMBER}GiB", GIB_OVER_GB),
            "memory_share": _measure_pattern(rf"memory:\s*[\d.]+GiB\({_NUMBER}%\)"),
            "tflops": _measure_pattern(rf"tflops:\s*{_NUMBER}"),
            "mfu": _measure_pattern(rf"mfu:\s*{_NUMBER}%"),
        },
    ),
    LogFormat(
        "NeMo",
        re.compile(
            r"\biteration (\d{1,9})/\d{1,9}|\bglobal_step=(\d{1,9})(?:\.0+)?"
            r'|"step":\s*(?:\[\s*\d{1,9}\s*,\s*)?(\d{1,9})'
        ),
        {
            "seconds": _measure_pattern(rf"train_step_timing(?: in s)?\"?\s*[:=]\s*{_NUMBER}"),
            "batch": _measure_pattern(rf"global_batch_size\"?\s*[:=]\s*{_NUMBER}"),
            "samples": _measure_pattern(rf"consumed_samples\"?\s*[:=]\s*{_NUMBER}"),
        },
        "train_step_timing",
    ),
    LogFormat(
        "MaxText",
        re.compile(r"\bcompleted step: (\d{1,9})\b"),
        {
            "seconds": _measure_pattern(rf"seconds: {_NUMBER}"),
            "tflops": _measure_pattern(rf"TFLOP/s/device: {_NUMBER}"),
            "rate": _measure_pattern(rf"Tokens/s/device: {_NUMBER}"),
        },
    ),
    LogFormat(
        "DeepSpeed",
        re.compile(r"(?:global_step=|\b\d{1,9}/)(\d{1,9}), (?:RunningAvg)?SamplesPerSec="),
        {
            "samples_per_s": _measure_pattern(rf"(?:Curr|\b)SamplesPerSec={_NUMBER}"),
            "memory": _measure_pattern(
                rf"MaxMemAllocated={_NUMBER}GB", GIB_OVER_GB
            ),  # divided by 2³⁰ and printed as GB
        },
    ),
)

_OWN_STEP = re.compile(r"(?i)\b(?:step|iter|iteration)\b\s*[:=#]?\s*\[?(\d{1,9})\b")
_OWN_TIME = re.compile(
    rf"(?i)\b(?:step|iter|iteration)[ _-]?time(?:[ _]?(?:in )?\(?(ms|s)\b\)?)?\s*[:=]?\s*{_NUMBER}\s*(ms|s)?\b"
)
_TIMED = {"seconds", "rate", "samples_per_s"}


@record
class StepLine:
    """One step as printed; several lines if every rank prints it."""

    number: int
    figures: dict[str, float]
    place: Place
    wall: float | None = None


class RunSummary(NamedTuple):
    """The summary of a run in a log: seconds per step, steps, and sequences per step if known."""

    seconds: float
    steps: int
    batch: float | None
    place: Place


@record
class Log:
    """The steps of a log by number, and the memory that lines of other programs state.

    whole: the summary of a log without steps. remark: what its times include besides steps. unread: a remark if lines
    were left out because the log is long.
    """

    format: str
    file: str
    steps: tuple[StepLine, ...]
    memory: float | None = None
    whole: RunSummary | None = None
    remark: str = ""
    unread: str = ""


def read_log(text: str, file: str) -> Log:
    """The steps of the first program whose lines occur in a log; a fault if there are none."""
    plain = _COLOUR.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    for entry in LOG_FORMATS:
        marks = _step_matches(plain, entry)
        if marks:
            steps = _step_lines(plain, entry, marks[:MOST_LINES], file)
            if any(step.wall is not None or _TIMED & step.figures.keys() for step in steps):
                return Log(
                    entry.name, file, steps, max(_memory_figures(plain), default=None), unread=unread_note(marks)
                )
            own = _own_steps(plain, file)
            return Log(
                entry.name, file, own or steps, max(_memory_figures(plain), default=None), unread=unread_note(marks)
            )
    if own := _own_steps(plain, file):
        return Log("own lines with step_time", file, own)
    names = f"{', '.join(entry.name for entry in LOG_FORMATS)}, and the Trainer's progress bar or summary"
    raise fail("X001", "this log has no training step", Place(file), f"read are lines of {names}")


def _own_steps(text: str, file: str) -> tuple[StepLine, ...]:
    """The steps of lines that name a step and its time, as people write them themselves."""
    found: dict[int, StepLine] = {}
    for place, line in enumerate(text.splitlines(), 1):
        step, time = _OWN_STEP.search(line[:_FURTHEST]), _OWN_TIME.search(line[:_FURTHEST])
        value = _number_or_none(time[2]) if time else None
        if step is None or time is None or value is None:
            continue
        seconds = value * (1e-3 if "ms" in (time[1], time[3]) else 1.0)
        found.setdefault(int(step[1]), StepLine(int(step[1]), {"seconds": seconds}, Place(file, place, 1)))
        if len(found) == MOST_LINES:
            break
    return tuple(found[number] for number in sorted(found))


def unread_note(marks: Sequence[object]) -> str:
    """A remark if a log has more step lines than are read; else empty."""
    return f"only its first {MOST_LINES:,} lines of steps are read" if len(marks) > MOST_LINES else ""


def _step_matches(text: str, entry: LogFormat) -> list[re.Match[str]]:
    """The matches of a format's step pattern, up to one more than the limit."""
    found = entry.step.finditer(text)
    return list(islice(_matches_followed_by(text, found, entry.word) if entry.word else found, MOST_LINES + 1))


def _matches_followed_by(text: str, marks: Iterator[re.Match[str]], word: str) -> Iterator[re.Match[str]]:
    """The matches that are followed by a word soon after, on the same line; the text is searched only once."""
    at = 0
    for mark in marks:
        if at < mark.end():
            at = text.find(word, mark.end())
        if at < 0:
            return
        if at - mark.end() <= _SAME_LINE and "\n" not in text[mark.end() : at]:
            yield mark


def _step_windows(text: str, marks: Sequence[re.Match[str]]) -> Iterator[tuple[re.Match[str], str, str]]:
    """Each step with the text before it on its line, and the text after it up to the next step."""
    done = 0
    for index, mark in enumerate(marks):
        before = text[max(done, mark.start() - _BEFORE) : mark.start()].rpartition("\n")[2]
        end = marks[index + 1].start() if index + 1 < len(marks) else len(text)
        yield mark, before, text[mark.start() : min(end, mark.start() + _FURTHEST)]
        done = mark.end()


def _memory_figures(text: str) -> Iterator[float]:
    """Memory in GB (10⁹ bytes) that lines of DeepSpeed's timer and of Megatron-LM's ranks state."""
    deepspeed = LOG_FORMATS[-1]
    for _, _, behind in _step_windows(text, _step_matches(text, deepspeed)):
        yield from (value for name, value in _figures_in(behind, deepspeed).items() if name == "memory")
    for match in _PEAK.finditer(text):
        value = _number_or_none(match.group(2))
        if value is not None:
            yield value * _UNITS[match.group(1)]


def _step_lines(text: str, entry: LogFormat, marks: Sequence[re.Match[str]], file: str) -> tuple[StepLine, ...]:
    """The steps of a log in order, each with the figures that its line states."""
    lines_by_step: dict[int, list[StepLine]] = {}
    line, counted = 1, 0
    for mark, before, behind in _step_windows(text, marks):
        line, counted = line + text.count("\n", counted, mark.start()), mark.start()
        number = int(next(filter(None, mark.groups())))
        step = StepLine(number, _figures_in(before + behind, entry), Place(file, line, 1), _timestamp(before))
        lines_by_step.setdefault(number, []).append(step)
    return tuple(_merged_ranks(lines_by_step[number]) for number in sorted(lines_by_step))


def _figures_in(text: str, entry: LogFormat) -> dict[str, float]:
    """The figures that the text around a step states, in SI units, by name."""
    found = {}
    for name, measure in entry.figures.items():
        match = measure.pattern.search(text)
        value = _number_or_none(match.group(1)) if match else None
        if value is not None:
            found[name] = value * measure.factor
    return found


def _number_or_none(text: str) -> float | None:
    try:
        found = float(text.replace(",", "").rstrip("."))
    except ValueError:
        return None
    return found if 0 < found < 1e15 else None


def _timestamp(text: str) -> float | None:
    """Seconds since the epoch of a time in front of a line."""
    found = list(_WALL.finditer(text))
    if not found:
        return None
    match = found[-1]
    try:
        day = datetime.fromisoformat(f"{match.group(1)}T{match.group(2)}")
    except ValueError:
        return None
    return day.timestamp() + float(f"0.{match.group(3)}")


def _merged_ranks(printed: list[StepLine]) -> StepLine:
    """One step from the lines of several ranks: medians, and the memory of the most loaded rank."""
    names = dict.fromkeys(name for step in printed for name in step.figures)
    columns = {name: [step.figures[name] for step in printed if name in step.figures] for name in names}
    found = {name: max(column) if name in _OF_FULLEST else median(column) for name, column in columns.items()}
    first = printed[0]
    return StepLine(first.number, found, first.place, first.wall)
