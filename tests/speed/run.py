"""What the whole run adds to an estimate and to a search: `python tests/speed/run.py [runs]`.

The least of the runs of each, which take turns: the command `run` over `estimate`, whole processes by the clock; then
processor time in one process of a prediction with its report, of a search by run_time over one by step_time, and the
plans a second of a large search with `run:` over those without.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from costmodel.documents.reader.load_scenario import load
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.explore.explain.plan_choice_effects import explained_plan
from costmodel.explore.search.search import search
from costmodel.report.answers.plan_answer import estimate_document
from costmodel.report.answers.run import run_document
from costmodel.report.answers.training_view import TrainingView
from costmodel.report.terminal.document_lines import document_lines
from costmodel.report.terminal.layout import laid_out

NAME, LARGE = "llama-3-70b-512", "speed"


def seconds(work: Callable[[], object]) -> float:
    """Processor time of a piece of work."""
    began = time.process_time()
    work()
    return time.process_time() - began


def ratio(one: Callable[[], object], other: Callable[[], object], runs: int) -> tuple[float, float, float]:
    """Least time of each, and the first over the second."""
    one(), other()
    taken = [(seconds(one), seconds(other)) for _ in range(runs)]
    least, base = (min(times) for times in zip(*taken, strict=True))
    return least, base, least / base


def estimated() -> None:
    list(laid_out(document_lines(estimate_document(TrainingView(explained_plan(load(NAME))))), 80))


def whole() -> None:
    view = TrainingView(explained_plan(load(NAME, ["run={}"])))
    list(laid_out(document_lines(run_document(view)), 80))


def command(verb: str) -> float:
    """Seconds by the clock of a command, whole."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "costmodel", verb, NAME], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def commands(runs: int) -> tuple[float, float, float]:
    """The least of `run` and of `estimate`, and their ratio."""
    taken = [(command("run"), command("estimate")) for _ in range(runs)]
    least, base = (min(times) for times in zip(*taken, strict=True))
    return least, base, least / base


def searched(case: ResolvedScenario) -> Callable[[], object]:
    return lambda: search(case, workers=1)


def main(arguments: Sequence[str]) -> None:
    runs = int(arguments[0]) if arguments else 5
    by_step = load(NAME, ["objective=step_time"])
    by_run = load(NAME, ["run={}", "objective=run_time"])
    rows = (
        ("costmodel run / costmodel estimate", "1.05", commands(runs)),
        ("prediction and report of the two", "", ratio(whole, estimated, 8 * runs)),
        ("search by run_time / by step_time", "1.2", ratio(searched(by_run), searched(by_step), runs)),
        ("large search without run / with", "0.75", ratio(searched(load(LARGE)), searched(load(LARGE, ["run={}"])), 1)),
    )
    for words, aim, (first, second, found) in rows:
        print(f"{words:36} {first * 1e3:8.1f} ms {second * 1e3:8.1f} ms {found:6.2f} ×{f' (aim {aim})' if aim else ''}")


if __name__ == "__main__":
    main(sys.argv[1:])
