"""What would move the goodput of a run: each change tried on the same steps."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from costmodel.estimate.machine.price import price_per_accelerator
from costmodel.estimate.run.whole_run import RunFigures, whole_run
from costmodel.estimate.shared.results import number
from costmodel.ground.record import record
from costmodel.ground.units import show, show_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from costmodel.estimate.shared.run_inputs import RunInputs
    from costmodel.estimate.training_answer.predict_training import Answer


@record
class RunLever:
    """A change to the run, the setting that makes it, and the resulting goodput."""

    words: str
    settings: tuple[str, ...]
    goodput: float


@record
class RunOutlook:
    """Changes that would affect a run; each evaluates a whole run, so they are computed when a page asks for them."""

    answer: Answer
    run: RunInputs

    @cached_property
    def at_best_interval(self) -> RunFigures:
        """The figures at the best interval."""
        return _run_figures(self.answer, _with_best_interval(self.run))

    @cached_property
    def levers(self) -> list[RunLever]:
        """Single changes to the run, the most helpful first."""
        return _all_levers(self.answer, self.run)


def outlook(answer: Answer) -> RunOutlook | None:
    """The possible changes to the run of a valid plan; None without a run or a valid plan."""
    run = answer.inputs.run
    return None if run is None or answer.refused else RunOutlook(answer, run)


def _all_levers(answer: Answer, run: RunInputs) -> list[RunLever]:
    """Each possible change to the run with the goodput that results, the best first."""
    levers = [
        RunLever(words, settings, number(_run_figures(answer, changed).goodput))
        for words, settings, changed in _changes(run, answer)
    ]
    return sorted(levers, key=lambda lever: -lever.goodput)


def _with_best_interval(run: RunInputs) -> RunInputs:
    return replace(run, checkpoint=replace(run.checkpoint, interval=None, steps=None, memory_interval=None))


def _run_figures(answer: Answer, run: RunInputs) -> RunFigures:
    evaluation, inputs = answer.evaluation, answer.inputs
    return whole_run(inputs, run, evaluation.block, evaluation.step.total, price_per_accelerator(inputs.case))


def _changes(run: RunInputs, answer: Answer) -> Iterator[tuple[str, tuple[str, ...], RunInputs]]:
    """Each change that a run allows: its words, the settings, and the inputs with it."""
    saved = answer.evaluation.run
    assert saved is not None
    if run.checkpoint.interval is not None or run.checkpoint.steps is not None:
        keys = ("interval=best", "steps=null") if run.checkpoint.steps is not None else ("interval=best",)
        yield "the best interval", tuple(f"run.checkpoint.{key}" for key in keys), _with_best_interval(run)
    half = run.restart.start / 2
    faster = replace(run.restart, start=half)
    yield f"a start of {show_time(half)}", (f"run.restart.start={half:.4g} s",), replace(run, restart=faster)
    write = number(saved.saved.nbytes) / number(saved.columns["checkpoint_write"])
    store = replace(run.checkpoint, write=2 * write)
    inputs = (f"run.checkpoint.storage.write={2 * write / 1e9:.4g} GB/s",)
    yield f"a store that writes {show(2 * write, 'B/s')}", inputs, replace(run, checkpoint=store)
    modes = {"sync": "async", "async": "memory"}
    if run.elastic is None and run.checkpoint.mode in modes:
        mode = modes[run.checkpoint.mode]
        other = replace(_with_best_interval(run).checkpoint, mode=mode)  # type: ignore[arg-type]
        yield f"mode {mode}", (f"run.checkpoint.mode={mode}",), replace(run, checkpoint=other)
    rates = run.failures
    fewer = replace(rates, node=rates.node / 2)
    inputs = (f"run.failures.rate={rates.node * 43.2e6:.4g} /1000 node-days",)
    yield "half the failures of nodes", inputs, replace(run, failures=fewer)
