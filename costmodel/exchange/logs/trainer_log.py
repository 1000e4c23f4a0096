"""Logs of the Trainer of transformers: its progress bar, and the summary that it and trainer_state.json end with."""

from __future__ import annotations

import re
from itertools import islice

from costmodel.exchange.logs.step_lines import MOST_LINES, Log, RunSummary, StepLine, unread
from costmodel.ground.errors import Place

NAME = "Trainer of transformers"
_STATE = re.compile(r"""['"]train_runtime['"]:|['"]loss['"]:\s*['"]?[\d.]|"log_history":""")
# A progress bar without a name in front is that of steps, or of an evaluation, whose own is shorter.
_BAR = re.compile(r"(?m)^[ \t]*\d{1,3}%\|[^|\n]{0,200}\|[ \t]*(\d{1,9})/(\d{1,9})[ \t]*\[([\d:]{4,12})<")
_SHORTEST = 20.0  # seconds that a clock of whole seconds may time
_LONGEST = 366 * 86_400.0


def trainer_log(text: str, file: str) -> Log | None:
    """The run of the Trainer that a text states; None where it is no such text."""
    if not _STATE.search(text):
        return None
    whole = _whole(text, file)
    marks = list(islice(_BAR.finditer(text), MOST_LINES + 1))
    steps = _bars(text, file, marks[:MOST_LINES], whole)
    if not steps and whole is None:
        return None
    timed = [step.wall for step in steps if step.wall is not None]
    if whole is not None and (not timed or timed[-1] - timed[0] < _SHORTEST):
        return Log(NAME, file, (), None, whole, "mean of the whole run: start-up, evaluation and saving count too")
    remark = "timed by a progress bar in whole seconds; evaluation and saving between its steps count too"
    return Log(NAME, file, tuple(steps), None, None, remark, unread(marks))


def _number(text: str, name: str) -> tuple[float | None, int]:
    """The last value of a key, and where it stands."""
    marks = list(re.finditer(rf"""['"]{name}['"]:\s*['"]?([\d.]+(?:[eE][+-]?\d+)?)""", text))
    try:
        value = float(marks[-1].group(1)) if marks else 0.0
    except ValueError:
        value = 0.0
    return (value if 0 < value < 1e15 else None), (marks[-1].start() if marks else 0)


def _whole(text: str, file: str) -> RunSummary | None:
    """Seconds of a step and steps of the whole run, from its summary."""
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
    """Steps with the time since the start, of the bar that runs longest."""
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
