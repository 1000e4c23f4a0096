"""Reads what was measured of a training step (time, MFU, throughput, terms of a profile) and the prediction for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
from pydantic import ValidationError

from costmodel.documents.keys.suggestions import nearest
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.scenario import Plan
from costmodel.documents.text.files import LARGEST_TABLE, file_text
from costmodel.equations.run.economics import tokens_per_step, work_time
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.flop_count import flop_of_step
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.estimate.training_answer.evaluate_training import TERM_COLUMNS, Evaluation, evaluate
from costmodel.estimate.training_answer.predict_training import Answer, plan_block
from costmodel.exchange.logs.profiler_trace import is_kernel_summary
from costmodel.exchange.logs.step_lines import read_log
from costmodel.exchange.logs.trainer_log import measured_run, trainer_log
from costmodel.exchange.tables.csv_cells import read_sheet, row_of
from costmodel.exchange.tables.run_table import COLUMNS
from costmodel.explore.answer_labels import meaning_of
from costmodel.explore.compare.input_paths import case_with_number
from costmodel.ground.counts import EXCHANGING, number_of
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Place, fail
from costmodel.ground.parsing import UnitError, parse
from costmodel.ground.record import record
from costmodel.ground.units import show_time

# The terms of a step as a profile would show them, for a scenario and for changes of one of its figures.

WITHOUT_KERNELS = ("bubble", "launch")


@record
class PredictedTerms:
    """A predicted step time, its terms, and each axis's communication, hidden or not; in seconds."""

    block: Block
    step: float
    terms: dict[str, float]

    def with_added(self, term: str, time: float) -> PredictedTerms:
        """A copy that is `time` longer, with the time added to one term; without a term, to idle time."""
        terms = {**self.terms, term: self.terms[term] + time} if term else dict(self.terms)
        if term in ("", *WITHOUT_KERNELS):
            terms["idle"] += time
        return replace(self, step=self.step + time, terms=terms)


def predicted_terms(inputs: TrainingInputs, plan: Plan) -> PredictedTerms:
    """The predicted step of a plan."""
    block, _ = plan_block(inputs, plan)
    return terms_of_evaluation(evaluate(inputs, block))


def terms_of_evaluation(evaluation: Evaluation) -> PredictedTerms:
    """The predicted step of an evaluated plan."""
    costs, terms = evaluation.costs.row(), dict[str, float]()
    for column in TERM_COLUMNS.values():
        terms[column] = costs[column]
    for axis in EXCHANGING:
        of_axis = [number(transfer.total_time) for transfer in evaluation.step.transfers if transfer.axis == axis]
        terms[f"{axis}_time"] = sum(of_axis)
    terms["idle"] = sum(terms[name] for name in WITHOUT_KERNELS)
    return PredictedTerms(evaluation.block, costs["step_time"], terms)


def predicted_with_value(case: ResolvedScenario, plan: Plan, path: str, value: float) -> PredictedTerms | None:
    """The prediction with one value of the scenario changed; None if that value is invalid."""
    try:
        other: Any = case_with_number(case, path, value)
        with np.errstate(all="ignore"):
            terms = predicted_terms(training_inputs(other), plan)
    except (CostModelError, ValidationError):
        return None
    return terms if np.isfinite(terms.step) else None


# Of an axis, its communication whether hidden or not, beside the part that is exposed.
COMMUNICATION = tuple(f"{axis}_time" for axis in EXCHANGING)
TERMS = (*TERM_COLUMNS.values(), *COMMUNICATION)
IDLE = "idle"  # all that no kernel takes
WHOLE = {"step_time": "s", "tokens_per_s": "token/s", "mfu": "1"}
OPTIONS = {"step_time": "--step", "tokens_per_s": "--tokens-per-s", "mfu": "--mfu"}
_RATE, _WORK = "tokens_per_s_per_gpu", "tflops_per_gpu"  # of a log
_STATED = {"global_batch": "workload.global_batch", "seq_len": "workload.sequence"}  # of a log, and keys of a scenario
_OFF = 0.1  # the share from which a rate of a log contradicts its times, judged
_WORK_OFF = 0.4  # the same of FLOP, which a program may count with recomputation: a third more
AGREE = 0.04  # a share by which figures of one step may differ: an MFU of two digits is known to 3 %


@record
class MeasuredStep:
    """A measured step time [s], its terms, and the figures that state it.

    contradictions: what the log states about its job that does not match the scenario
    """

    step: float
    stated: dict[str, float]
    terms: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()


def measured_step(
    inputs: TrainingInputs,
    base: PredictedTerms,
    whole: Mapping[str, str],
    terms: Sequence[str],
    table: str = "",
    trace: MeasuredStep | None = None,
    busy: str = "",
) -> MeasuredStep:
    """The measured step from options, a table and a trace; raises a fault if it is missing or contradictory.

    Options and table override the trace, since recording may have slowed the step.
    """
    figures = {name: _parsed_time(name, text, OPTIONS[name]) for name, text in whole.items() if text}
    parts = dict(_parsed_term(text) for text in terms)
    if table:
        for name, value in _figures_of_file(table):
            (figures if name in WHOLE else parts)[name] = value
    log = {name: parts.pop(name) for name in (_RATE, _WORK, *_STATED) if name in parts}
    contradictions = tuple(_contradictions(inputs, base, figures, log))
    notes: tuple[str, ...] = ()
    if trace is not None:
        parts, notes = {**trace.terms, **parts}, (*notes, *(f"trace: {note}" for note in trace.notes))
        if figures and trace.stated:
            notes = (*notes, f"trace: its own steps take {show_time(trace.step)}")
        figures = figures or trace.stated
    if not figures:
        hint = "add --step 18.9s, --mfu 40%, --tokens-per-s 450k, --from FILE or --trace FILE"
        raise fail("C023", "the measured time of the step is missing", None, hint)
    if busy:
        parts[IDLE] = (1.0 - _parsed_time("mfu", busy, "--busy")) * _step_time_of_figure(
            inputs, base, *next(iter(figures.items()))
        )
    steps = {name: _step_time_of_figure(inputs, base, name, value) for name, value in figures.items()}
    low, high = min(steps.values()), max(steps.values())
    if low <= 0:
        raise fail("C023", "a measured step time must be positive", None, "for example --step 18.9s")
    if high > low * (1 + AGREE):
        said = ", ".join(f"{name} means a step of {value:.4g} s" for name, value in steps.items())
        hint = "leave out what is of another run, batch or FLOP convention (assume.flop_convention)"
        raise fail("C023", f"the figures are not of one step: {said}", None, hint)
    step = steps.get("step_time", next(iter(steps.values())))
    _check_terms_fit(step, parts)
    return MeasuredStep(step, figures, parts, notes, contradictions)


def _contradictions(
    inputs: TrainingInputs, base: PredictedTerms, figures: Mapping[str, float], log: Mapping[str, float]
) -> Iterator[str]:
    """Values of a log that contradict the scenario: sequences in a step, or a rate that implies another step time."""
    known = {"global_batch": float(inputs.global_batch), "seq_len": float(inputs.sequence)}
    others = [name for name in _STATED if name in log and log[name] != known[name]]
    for name in others:
        change = f"--set {_STATED[name]}={log[name]:.0f}"
        yield f"its {name} is {log[name]:,.0f}, the scenario has {known[name]:,.0f}: {change}"
    timed = figures.get("step_time")
    if not timed or others:
        return
    rates = {"tokens/s": (log.get(_RATE), "tokens_per_s", float(inputs.ranks), _OFF)}
    rates["TFLOP/s"] = (log.get(_WORK), "mfu", 1e12 / inputs.rates.mfu_peak, _WORK_OFF)
    for unit, (rate, name, factor, off) in rates.items():
        step = _step_time_of_figure(inputs, base, name, rate * factor) if rate else timed
        if not 1 - off < step / timed < 1 + off:
            stated = f"its {rate:,.0f} {unit} a GPU mean a step of {show_time(step)} of this scenario"
            yield f"its times mean a step of {show_time(timed)}, but {stated}"


def _check_terms_fit(step: float, parts: Mapping[str, float]) -> None:
    """Raises a fault if terms take longer than the step that they belong to."""
    longest = max(parts, key=parts.__getitem__, default="")
    added = sum(time for name, time in parts.items() if name not in (*COMMUNICATION, IDLE))
    said = ""
    if longest and parts[longest] > step * (1 + AGREE):
        said = f"{longest} takes {show_time(parts[longest])}"
    elif added > step * (1 + AGREE):
        said = f"the terms take {show_time(added)} together"
    if said:
        hint = "terms are seconds of one step: divide those of a whole profile by its steps"
        raise fail("C023", f"{said}, longer than the step of {show_time(step)}", None, hint)


def _step_time_of_figure(inputs: TrainingInputs, base: PredictedTerms, name: str, value: float) -> float:
    """The step time [s] that a measured figure implies: a time, an MFU, or tokens per second."""
    if name == "step_time":
        return value
    if value <= 0:
        return 0.0
    if name == "tokens_per_s":
        return float(tokens_per_step(inputs.global_batch, inputs.sequence)) / value
    flop = flop_of_step(inputs, base.block).model
    return number(work_time(flop, value * inputs.rates.mfu_peak, inputs.ranks))


def figure_of_step(answer: Answer, base: PredictedTerms, name: str, step: float) -> float:
    """The figure of a step time [s]: the time itself, or the MFU or tokens per second that it is."""
    return step if name == "step_time" else _step_time_of_figure(answer.inputs, base, name, 1.0) / step


def step_time_of_text(inputs: TrainingInputs, base: PredictedTerms, text: str, option: str) -> float:
    """The step time [s] in a text: a time, or an MFU in percent."""
    name = "mfu" if text.endswith("%") else "step_time"
    seconds = _step_time_of_figure(inputs, base, name, _parsed_time(name, text, option))
    if seconds <= 0:
        raise fail("C023", "a measured step time must be positive", None, "for example --also global_batch=2048:35s")
    return seconds


def _parsed_time(name: str, text: str, where: str) -> float:
    """The seconds, MFU or rate in a text; else a fault with valid examples."""
    try:
        value = _quantity(name, text)
    except UnitError as error:
        written = f"{where} {text}"
        place = Place(COMMAND_LINE, 0, len(where) + 2, "", written, max(1, len(text)))
        raise fail("C023", str(error), place, "for example --step 18.9s, --term dp_exposed=0.5s") from None
    may_be_over = name != "mfu" or (where == OPTIONS["mfu"] and "%" in text)  # which is another job's
    if not 0 <= value < 1e12 or (value > 1 and not may_be_over):
        raise fail("C023", f"{text} is no {name.replace('_', ' ')}", None, "for example --step 18.9s or --mfu 40%")
    return value


def _quantity(name: str, text: str) -> float:
    """A figure in SI units; tokens per second may omit the unit."""
    bare = name == "tokens_per_s" and "/" not in text
    return parse(f"{text} token/s" if bare else text, WHOLE.get(name, "s"))


def _parsed_term(text: str) -> tuple[str, float]:
    name, separator, value = (part.strip() for part in text.partition("="))
    if not separator or not value:
        raise fail("C023", f"'{text}' is not term=time", None, "for example --term dp_exposed=0.5s")
    return _term_name(name), _parsed_time(name, value, "--term")


def _term_name(name: str) -> str:
    """The name of a term, given as its label in `estimate` or as the axis of its communication."""
    plain = name.casefold().replace(" ", "_")
    label = (meaning_of(name) or ("", ""))[1]
    term = next((spelling for spelling in (plain, f"{plain}_time", label) if spelling in (*TERMS, IDLE)), "")
    if not term:
        close = nearest(name, TERMS)
        hint = f"did you mean '{close}'?" if close else f"one of {', '.join(TERMS)}"
        raise fail("C023", f"'{name[:60]}' is no term of a step", None, hint)
    return term


def _figures_of_file(path: str) -> list[tuple[str, float]]:
    """The figures in a file: a training log, a table of one run, or lines of name,value.

    A line has a term with its time, step_time, tokens_per_s or mfu; the first line may be a heading.
    """
    text = file_text(path, largest=LARGEST_TABLE)
    if is_kernel_summary(text):
        hint = f"--trace {path} --steps N --step TIME reads it"
        raise fail("C023", "this is a summary of kernels by Nsight Systems", Place(path), hint)
    if time := _step_time_of_run_table(path, text):
        return [("step_time", time)]
    return _figures_of_log(path, text) or _terms_of_lines(path, text)


def _step_time_of_run_table(path: str, text: str) -> float | None:
    """The step time in a table of one measured run, as `import --as runs` writes it; None for other texts."""
    if "step_time_s" not in text.partition("\n")[0].casefold():
        return None
    table = read_sheet(path, text, COLUMNS)
    rows = [row_of(place, table.names, cells, COLUMNS) for place, cells in table.records]
    if len(rows) != 1 or not rows[0].number("step_time_s"):
        hint = "keep the line of the run that is meant, with its step_time_s; or --step 18.9s"
        raise fail("C023", f"{path} has {number_of(len(rows), 'run')}, and one is compared", table.place, hint)
    return rows[0].number("step_time_s")


def _figures_of_log(path: str, text: str) -> list[tuple[str, float]]:
    """The median step time and rate of a training log after its warm-up; empty for other texts."""
    try:
        log = trainer_log(text, path) or read_log(text, path)
    except CostModelError:
        return []
    figures = measured_run(log).figures
    time = figures.get("step_time_s")
    if time is None:
        hint = f"--step 18.9s, --tokens-per-s or --mfu states it; costmodel import {path} --as runs prints what it has"
        raise fail("C023", "the log has no time of its steps", Place(path), hint)
    return [("step_time", time), *((name, figures[name]) for name in (_RATE, _WORK, *_STATED) if name in figures)]


def _terms_of_lines(path: str, text: str) -> list[tuple[str, float]]:
    """The terms in lines of name,value."""
    terms = []
    for number_of_line, line in enumerate(text.splitlines(), 1):
        name, separator, value = (part.strip() for part in line.partition(","))
        if not line.strip() or line.startswith("#") or (number_of_line == 1 and value in ("time", "value")):
            continue
        place = Place(path, number_of_line, 1, "", line, max(1, len(line)))
        if not separator:
            raise fail("C023", f"'{line[:60]}' is not name,value", place, "for example dp_exposed,0.5 s")
        if name not in (*TERMS, *WHOLE):
            raise fail("C023", f"'{name[:60]}' is no term of a step", place, f"one of {', '.join((*WHOLE, *TERMS))}")
        try:
            terms.append((name, _quantity(name, value)))
        except UnitError as error:
            raise fail("C023", str(error), place, "for example dp_exposed,0.5 s") from None
    return terms
