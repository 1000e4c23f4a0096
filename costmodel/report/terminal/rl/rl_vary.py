"""Answers of sweep and scale about reinforcement learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from costmodel.documents.reader.rl_scenario import RlCase
from costmodel.documents.schemas.results import RL_COLUMNS, is_money, machine_name
from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.estimate.machine.price import Price, price_of
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.explore.rl.vary_rl import RlScaleRow, RlTrial, SweptRl
from costmodel.ground.units import percent
from costmodel.report.machine.rl_json import plan, subject
from costmodel.report.terminal.rl.rl_formatting import iteration_words, result
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.head import (
    origin_lines,
    price_fields,
    price_lines,
    price_varies,
    prices,
    subject_words,
)
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.remark_lines import assumed_of_all
from costmodel.report.terminal.style.theme import HEAD, styled

_SCALE = ("iteration_time", "answers_per_s", "generation", "tail", "update_time")
_HEADS = {"iteration_time": "iteration", "answers_per_s": "answers", "update_time": "update", "memory_peak": "memory"}
_NAMES = {machine_name(name): name for name in RL_COLUMNS}
_TELLING = 5e-4  # relative change below which a figure is the same


def _subject(case: RlCase, varied: Sequence[str], *, price: bool = False) -> list[Line]:
    words = subject_words(subject_of(case), varied)
    own = [] if any(path.startswith(("workload", "stack")) for path in varied) else [styled(iteration_words(case))]
    priced = price_lines(price_of(case)) if price else []
    return [*([styled(words, HEAD)] if words else []), *own, *priced, *origin_lines(case)]


def sweep(found: SweptRl) -> list[Line]:
    """One row per combination, with what is against it."""
    paths = [axis.path for axis in found.axes]
    names = (*(path.rpartition(".")[2] for path in paths), *(_HEADS.get(name, name) for name in found.shown), "")
    rows = [(*_values(found, trial), *_results(found.shown, trial), _against(trial)) for trial in found.trials]
    table = CellTable(names, rows, "r" * (len(names) - 1) + "l")
    priced, own = any(map(is_money, found.shown)), price_varies(paths)
    head = _subject(found.case, paths, price=priced and not own)
    return [*head, table, *(prices(map(_price, _answered(found.trials))) if priced and own else [])]


def _answered(trials: Sequence[RlTrial]) -> list[RlAnswer]:
    return [trial.answer for trial in trials if trial.answer is not None]


def _price(answer: RlAnswer) -> Price:
    return price_of(answer.inputs.case)


def _values(found: SweptRl, trial: RlTrial) -> list[str]:
    return [setting.partition("=")[2] for setting in trial.settings[: len(found.axes)]]


def _results(shown: Sequence[str], trial: RlTrial) -> list[str]:
    if trial.answer is None or trial.answer.refused:
        return ["—"] * len(shown)
    costs = trial.costs
    failing = [not trial.works and is_money(name) for name in shown]
    return [
        "—" if fails else result(name, costs[name]) if name in costs else "unknown"
        for name, fails in zip(shown, failing, strict=True)
    ]


def _against(trial: RlTrial) -> str:
    return f"✗ {' '.join(trial.codes)}" if trial.codes else ""


def _row(trial: RlTrial, values: dict[str, Any]) -> dict[str, Any]:
    known = {} if trial.answer is None or trial.answer.refused else plan(trial.answer, trial.costs)
    fault = None if trial.fault is None else trial.fault.sentence
    priced = {} if trial.answer is None else price_fields(_price(trial.answer))
    return {**values, **known, "works": trial.works, "codes": list(trial.codes), "fault": fault, **priced}


def sweep_json(found: SweptRl) -> dict[str, Any]:
    """The sweep as plain values."""
    points = []
    for trial in found.trials:
        values = {axis.path: value for axis, value in zip(found.axes, _values(found, trial), strict=True)}
        points.append(_row(trial, values))
    shown = [machine_name(name) for name in found.shown]
    return {**head("costmodel/sweep/v1"), **subject(found.case), "shown": shown, "points": points}


def scale(case: RlCase, rows: Sequence[RlScaleRow], *, weak: bool, verbose: bool = False) -> list[Line]:
    """A row for each size; verbose, all assumptions too."""
    names = ("GPUs", *(_HEADS.get(name, name) for name in _SCALE), "efficiency", "")
    cells = [
        (
            f"{row.ranks:,.0f}",
            *_results(_SCALE, row.trial),
            percent(row.efficiency, 3) if row.efficiency == row.efficiency else "—",
            _against(row.trial),
        )
        for row in rows
    ]
    how = "prompts grow with the accelerators" if weak else "the same iteration on all sizes"
    answers = [row.trial.answer.assumed for row in rows if row.trial.answer is not None]
    assumed = [Text(), *assumed_of_all(answers)] if verbose else []
    return [*_subject(case, ["cluster.nodes"]), styled(how), CellTable(names, cells, "r" * 7 + "l"), *assumed]


def scale_json(case: RlCase, rows: Sequence[RlScaleRow], *, weak: bool) -> dict[str, Any]:
    """The same as plain values."""
    sizes = [
        _row(row.trial, {"gpus": row.ranks, "efficiency": row.efficiency if row.efficiency == row.efficiency else None})
        for row in rows
    ]
    return {**head("costmodel/scale/v1"), **subject(case), "weak": weak, "sizes": sizes}
