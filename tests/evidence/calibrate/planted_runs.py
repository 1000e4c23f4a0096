"""Measured runs for fits: published ones, and those that known constants would have given."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

from costmodel.documents.reader.library import CachedReader
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.estimate.training_answer.predict_training import answer, own_plan
from costmodel.evidence.calibrate.regression_problem import TimedRun, shipped_priors, timed
from costmodel.exchange.tables.csv_cells import CsvRow

FOLDER = Path(__file__).parents[1] / "measured"
SHELF = CachedReader()
PRIORS = shipped_priors(SHELF)
ALONE = {"mean": 1.15, "spread": 0.15, "like": ""}
SUSTAINED = next(prior for prior in PRIORS if prior.name == "sustained, ampere").model_copy(update=ALONE)
LAUNCH = next(prior for prior in PRIORS if prior.name == "host, an operation")
HIDDEN = next(prior for prior in PRIORS if prior.name == "overlap, tp")
SIZES = [(24, 1024, 1), (24, 1024, 2), (16, 1024, 4), (24, 2048, 1), (24, 4096, 2), (32, 6144, 4), (40, 8192, 2)]


def ran(rows: list[CsvRow], sustained: float, launch: float) -> list[TimedRun]:
    """The runs with the times that a scenario of its own writing has at these constants."""
    found = []
    for run in timed(rows, SHELF)[0]:
        scenario = run.case.scenario
        assume = scenario.assume.model_copy(update={"sustained": sustained})
        host = run.case.stack.launch.model_copy(update={"operation": launch})
        stack = run.case.stack.model_copy(update={"launch": host})
        case = replace(run.case, stack=stack, scenario=scenario.model_copy(update={"assume": assume}))
        inputs = training_inputs(case)
        found.append(replace(run, measured=number(answer(inputs, own_plan(inputs)).evaluation.step.total)))
    return found


def mine(folder: Path, **cells: str) -> Path:
    """The runs of mine.csv with other cells."""
    with (FOLDER / "mine.csv").open() as file:
        rows = [{**row, **cells} for row in csv.DictReader(file)]
    with (folder / "other.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder / "other.csv"
