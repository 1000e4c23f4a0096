"""Long logs: work in proportion to their letters, and what is left out is said."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from costmodel.exchange.logs import step_lines
from costmodel.exchange.logs.step_lines import LOG_FORMATS, MOST_LINES, Measure, read_log
from costmodel.exchange.logs.trainer_log import measured_run, trainer_log
from costmodel.explore.import_export import import_logs
from costmodel.ground.errors import CostModelError

Run = Callable[..., Any]
LETTERS = 200_000
DENSE = [  # steps without an end, in one line
    "step:1 loss: ",
    "iteration 1/1 ",
    "iteration 1/1 elapsed time per iteration ",
    "completed step: 1 1/1, SamplesPerSec= ",
    "global_step=1, SamplesPerSec= ",
    '"step": 1 "train_step_timing ',
]


class Counted:
    """A pattern that counts the letters it is given."""

    letters = 0

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern = pattern

    def search(self, text: str) -> re.Match[str] | None:
        Counted.letters += len(text)
        return self.pattern.search(text)


def counted(figures: dict[str, Measure]) -> dict[str, Any]:
    return {name: SimpleNamespace(pattern=Counted(rule.pattern), factor=rule.factor) for name, rule in figures.items()}


@pytest.mark.parametrize("part", DENSE)
def test_no_letter_is_searched_more_than_a_few_times(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    formats = tuple(entry._replace(figures=counted(entry.figures)) for entry in LOG_FORMATS)
    monkeypatch.setattr(step_lines, "LOG_FORMATS", formats)
    monkeypatch.setattr(Counted, "letters", 0)
    text = part * (LETTERS // len(part))
    with suppress(CostModelError):
        read_log(text, "run.log")
    patterns = sum(len(entry.figures) for entry in LOG_FORMATS)
    assert Counted.letters <= 2 * patterns * len(text)  # a letter is of two steps at most


def test_more_lines_of_steps_than_a_median_needs_are_left_out_and_that_is_said() -> None:
    step = "completed step: {}, seconds: {}\n"
    text = "".join(step.format(number, 2 if number < MOST_LINES else 9) for number in range(MOST_LINES + 50))
    log = read_log(text, "run.log")
    assert log.unread == "only its first 20,000 lines of steps are read"
    assert (len(log.steps), measured_run(log).figures["step_time_s"]) == (MOST_LINES, 2.0)
    assert not read_log(text[: text.index("completed step: 100,")], "run.log").unread
    bars = "".join(
        f"\n{1}%|#| {number}/90000 [{number // 60:03d}:{number % 60:02d}<1" for number in range(MOST_LINES + 9)
    )
    trained = trainer_log("{'loss': 1.0}" + bars, "run.log")
    assert trained is not None
    assert trained.unread == log.unread


def test_a_step_is_on_the_line_where_it_stands() -> None:
    log = read_log("a\r\nb\n\ncompleted step: 7, seconds: 1\rcompleted step: 8, seconds: 1\n", "run.log")
    assert [step.place.line for step in log.steps] == [4, 5]


def test_a_log_that_is_too_long_is_read_to_a_line_and_that_is_said(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_logs, "MOST_BYTES", 1_000)
    lines = [f"completed step: {number}, seconds: {2 if number < 20 else 9}\n" for number in range(60)]
    (tmp_path / "run.log").write_text("".join(lines), "utf-8")
    done = run("import", "run.log", "--as", "runs", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "X010 the log is long: only its first 1,000 bytes are read" in done.out
    head = "------------------------ arguments ------------------------\n"
    (tmp_path / "run.log").write_text(head + "".join(lines), "utf-8")
    done = run("import", "run.log", "--as", "runs", cwd=tmp_path)
    assert (done.code, "or name the file with its layout by --config" in done.err) == (2, True)
    (tmp_path / "run.log").write_text("☃\n" * 2_000 + "".join(lines), "utf-8")
    done = run("import", "run.log", "--as", "runs", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "no training step is in the first 1,000 bytes of this log" in done.err
    assert "cut the part that is to be measured out of it" in done.err
