"""Logs of the Trainer of transformers: its progress bar, and the summary that it and trainer_state.json end with."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from costmodel.exchange.logs.step_lines import GIB_OVER_GB, MOST_LINES, Log, RunSummary, StepLine, unread
from costmodel.exchange.rows import figure
from costmodel.ground.errors import Place, fail

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
    whole = _whole(text, file)
    if is_trainer_state(text):
        return _of_state(text, file, whole)
    marks = list(islice(_BAR.finditer(text), MOST_LINES + 1))
    steps = _bars(text, file, marks[:MOST_LINES], whole)
    if not steps and whole is None:
        return None
    timed = [step.wall for step in steps if step.wall is not None]
    if whole is not None and (not timed or timed[-1] - timed[0] < _SHORTEST):
        return Log(NAME, file, (), None, whole, "mean of the whole run: start-up, evaluation and saving count too")
    remark = "timed by a progress bar in whole seconds; evaluation and saving between its steps count too"
    return Log(NAME, file, tuple(steps), None, None, remark, unread(marks))


def is_trainer_state(text: str) -> bool:
    """Whether a text is the state of the Trainer as JSON.

    >>> is_trainer_state('{"global_step": 2, "log_history": []}'), is_trainer_state("{'loss': 1.0}")
    (True, False)
    """
    return text.lstrip().startswith("{") and _HISTORY in text


def _of_state(text: str, file: str, whole: RunSummary | None) -> Log:
    """The steps or the summary of trainer_state.json; a fault if neither has times."""
    place = Place(file, text.count("\n", 0, text.index(_HISTORY)) + 1, 1)
    try:
        history = json.loads(text).get("log_history")
    except (ValueError, RecursionError):
        raise fail("X001", f"{STATE} is no whole JSON", place, "give the file as the Trainer wrote it") from None
    batch = None if whole is None else whole.batch
    entries = history if isinstance(history, list) else []
    found = {step.number: step for each in entries[:MOST_LINES] if (step := _entry(each, place, batch)) is not None}
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


def _entry(entry: Any, place: Place, batch: float | None) -> StepLine | None:
    """One training entry of log_history; None for an evaluation or a summary."""
    stated = entry if isinstance(entry, Mapping) else {}
    number = figure(stated.get("step"))
    if not number or not 0 < number < _MOST_STEPS or any(str(key).startswith("eval_") for key in stated):
        return None
    values = {name: (figure(stated.get(key)), factor) for name, (key, factor) in _FIGURES.items()}
    figures = {name: value * factor for name, (value, factor) in values.items() if value is not None and value > 0}
    if batch is not None:
        figures |= {"batch": batch, "samples": batch * number}
    clock = None if "train_loss" in stated else figure(stated.get("train_runtime"))
    return StepLine(int(number), figures, place, clock if clock is None or 0 < clock < _LONGEST else None)


def _number(text: str, name: str) -> tuple[float | None, int]:
    """The last value of a key, and its position in the text."""
    marks = list(re.finditer(rf"""['"]{name}['"]:\s*['"]?([\d.]+(?:[eE][+-]?\d+)?)""", text))
    try:
        value = float(marks[-1].group(1)) if marks else 0.0
    except ValueError:
        value = 0.0
    return (value if 0 < value < 1e15 else None), (marks[-1].start() if marks else 0)


def _whole(text: str, file: str) -> RunSummary | None:
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


def _bars(text: str, file: str, marks: list[re.Match[str]], whole: RunSummary | None) -> list[StepLine]:
    """Steps with elapsed time, from the progress bar that runs longest."""
    found: dict[int, dict[int, StepLine]] = {}
    line, counted = 1, 0
    for mark in marks:
        line, counted = line + text.count("\n", counted, mark.start()), mark.start()
        number, total, elapsed = int(mark.group(1)), int(mark.group(2)), _seconds(mark.group(3))
        if number and elapsed is not None:
            figures = {} if whole is None or whole.batch is None else {"batch": whole.batch}
            step = StepLine(number, figures, Place(file, line, 1), elapsed)
            found.setdefault(total, {})[number] = step
    if not found:
        return []
    longest = max(found.values(), key=lambda steps: max(step.wall or 0.0 for step in steps.values()))
    return [longest[number] for number in sorted(longest)]


def _seconds(text: str) -> float | None:
    """Seconds of 1:02:03.

    >>> _seconds("1:02:03"), _seconds("00:20"), _seconds("::")
    (3723.0, 20.0, None)
    """
    total = 0.0
    for part in text.split(":"):
        if not part:
            return None
        total = total * 60 + int(part)
    return total if total < _LONGEST else None
