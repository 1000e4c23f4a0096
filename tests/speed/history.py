"""Appends a release to tests/speed/history.csv: `python tests/speed/history.py [runs]`.

The version is that of the package; one that is there already is measured again. Figures are ratios of processor
time, so that rows of different machines can be compared: a command, whole, over what importing typer and rich takes; a
prediction with its report, a search, and one of plans that serve, over a thousand multiplications of 16,384 numbers by
NumPy; and what `run` adds to both of training.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import run
import serving
import start

import costmodel
from costmodel.documents.reader.load_scenario import load
from costmodel.explore.serving.search_layouts import search

FILE = Path(__file__).with_name("history.csv")
COMMANDS = {"help": "costmodel --help", "estimate": "costmodel estimate", "search": "costmodel search"}


def multiplications() -> None:
    """What a machine is compared by: it runs in the cache of one core."""
    numbers = np.linspace(1.0, 2.0, 16_384)
    for _ in range(1000):
        np.multiply(numbers, numbers, out=numbers)
        numbers.fill(1.5)


def ratios(runs: int) -> dict[str, float]:
    """Every ratio of this version on this machine, by column."""
    asked = {name: start.COMMANDS[name] for name in COMMANDS.values()} | {"": start.BASE}
    rounds = [{name: start.seconds(arguments) for name, arguments in asked.items()} for _ in range(runs)]
    least = {name: min(turn[name] for turn in rounds) for name in asked}
    base = least[""]
    by_step, by_run = load(run.NAME, ["objective=step_time"]), load(run.NAME, ["run={}", "objective=run_time"])
    served = serving.inputs(serving.LOADS["dense, at a rate"])
    return {
        **{f"{column}_over_import": least[name] / base for column, name in COMMANDS.items()},
        "prediction_over_numpy": run.ratio(run.estimated, multiplications, runs)[2],
        "search_over_numpy": run.ratio(run.searched(by_step), multiplications, runs)[2],
        "serving_search_over_numpy": run.ratio(lambda: search(served, 10), multiplications, runs)[2],
        "run_over_prediction": run.ratio(run.whole, run.estimated, runs)[2],
        "search_of_runs_over_search": run.ratio(run.searched(by_run), run.searched(by_step), runs)[2],
    }


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    row = {"version": costmodel.__version__} | {name: f"{value:.3g}" for name, value in ratios(runs).items()}
    rows = list(csv.DictReader(FILE.read_text("utf-8").splitlines())) if FILE.exists() else []
    with FILE.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(row), lineterminator="\n")
        table.writeheader()
        table.writerows([*(old for old in rows if old["version"] != row["version"]), row])
    print(FILE.read_text("utf-8"), end="")


if __name__ == "__main__":
    main()
