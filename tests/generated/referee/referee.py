"""The page that compares programs of the field on the same published runs: docs/accuracy/referee.md.

    python -m tests.generated.referee.referee

writes the page from the recorded answers. With a program it first asks that one, and records its answers, with the
version that is named; only answers are recorded, the program is fetched and installed by hand:

    python -m tests.generated.referee.referee costmodel
    python -m tests.generated.referee.referee calculon caa4b11 --checkout ~/calculon --python ~/peers/bin/python
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[2]
RUNS, ANSWERS = HERE / "runs.csv", HERE / "answers.csv"
PAGE = CHECKOUT / "docs" / "accuracy" / "referee.md"
OURS = "costmodel"
PROGRAMS = (OURS, "simumax", "calculon", "llm-analysis", "half-of-peak", "aiconfigurator")
TITLES = {"simumax": "SimuMax", "calculon": "Calculon", "half-of-peak": "half of the peak"}
OWN = {"calculon": ("korthikanti-2022",), "simumax": ("simumax-b200",)}  # sources that the program was validated on
RUN_COLUMNS = ("run", "source", "kind", "measured", "unit", "accelerator", "accelerators", "layers", "software")
COLUMNS = ("program", "version", "date", "run", "predicted", "in_band", "seconds", "peak_bytes", "note", "refused")
Row = dict[str, str]


def read(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _write(path: Path, columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def page() -> str:
    """The text of the page, from the recorded answers."""
    runs = {row["run"]: row for row in read(RUNS)}
    answers = read(ANSWERS)
    template = (HERE / "page.md").read_text("utf-8")
    training, serving = ([row for row in runs.values() if row["kind"] == kind] for kind in ("training", "serving"))
    tables = {
        "versions": _versions(answers),
        "training": _headline(training, answers),
        "serving": _headline(serving, answers),
        "accelerators": _groups(training, answers, lambda row: f"`{row['accelerator']}`"),
        "layers": _groups(training, answers, lambda row: row["layers"]),
        "software": _groups(training, answers, lambda row: f"`{row['software']}`"),
        "sizes": _groups(training, answers, _size),
        "served": _groups(serving, answers, lambda row: f"`{row['accelerator']}`"),
        "refused": _refused(answers),
    }
    for name, table in tables.items():
        template = template.replace(f"{{{name}}}", table)
    return template


SIZES = ((8, "to 8 GPUs"), (64, "9 to 64"), (512, "65 to 512"), (10**9, "more"))


def _size(row: Row) -> str:
    return next(name for most, name in SIZES if int(row["accelerators"]) <= most)


def _versions(answers: Sequence[Row]) -> str:
    found = {row["program"]: (row["version"], row["date"]) for row in answers}
    rows = [(_title(name), *found[name]) for name in PROGRAMS if name in found]
    return _table(("program", "version or commit", "asked on"), rows)


def _headline(runs: Sequence[Row], answers: Sequence[Row]) -> str:
    """Answers and errors of each program, and of costmodel on the same runs."""
    ours = _answered(OURS, answers)
    rows = []
    for program in PROGRAMS:
        own = OWN.get(program, ())
        found = _answered(program, answers)
        asked = [row for row in runs if row["run"] in found]
        if not asked:
            continue
        judged = [row for row in asked if row["source"] not in own]
        same = "" if program == OURS else _errors(judged, ours)
        band = [float(found[row["run"]]["in_band"]) for row in judged if found[row["run"]]["in_band"]]
        seconds = statistics.median(float(found[row["run"]]["seconds"]) for row in asked)
        memory = max(float(found[row["run"]]["peak_bytes"]) for row in asked)
        cells = [_title(program), f"{len(asked)} of {len(runs)}", f"{len(judged)}", _errors(judged, found)]
        cells += [_bias(judged, found), f"{100 * statistics.fmean(band):.0f} %" if band else "none given"]
        rows.append((*cells, same, _time(seconds), f"{memory / 2**20:.0f} MiB"))
    head = ("program", "answers", "judged", "median, P90", "bias", "in band", "costmodel on these", "time", "memory")
    return _table(head, rows)


def _groups(runs: Sequence[Row], answers: Sequence[Row], name: Callable[[Row], str]) -> str:
    """Median and P90 of each program in each group of runs, with the number of its answers."""
    shown = [program for program in PROGRAMS if any(row["run"] in _answered(program, answers) for row in runs)]
    groups = Counter(name(row) for row in runs)
    rows = []
    order = [size for _, size in SIZES] if groups.keys() <= {size for _, size in SIZES} else []
    for group, count in sorted(groups.items(), key=lambda item: order.index(item[0]) if order else -item[1]):
        cells = [group, str(count)]
        for program in shown:
            found = _answered(program, answers)
            members = [row for row in runs if name(row) == group and row["run"] in found]
            judged = [row for row in members if row["source"] not in OWN.get(program, ())]
            cells.append(f"{_errors(judged, found)} ({len(judged)})" if judged else "–")
        rows.append(cells)
    return _table(("", "runs", *(_title(program) for program in shown)), rows)


def _refused(answers: Sequence[Row]) -> str:
    remarks = ((row["program"], row["refused"] or row["note"]) for row in answers)
    counts = Counter((program, remark) for program, remark in remarks if remark and "in flight" not in remark)
    order = sorted(counts.items(), key=lambda item: (PROGRAMS.index(item[0][0]), -item[1], item[0][1]))
    return _table(("program", "runs", "reason"), [(_title(name), str(count), why) for (name, why), count in order])


def _answered(program: str, answers: Sequence[Row]) -> dict[str, Row]:
    return {row["run"]: row for row in answers if row["program"] == program and row["predicted"]}


def _off(run: Row, answer: Row) -> float:
    return float(answer["predicted"]) / float(run["measured"]) - 1


def _errors(runs: Sequence[Row], found: dict[str, Row]) -> str:
    errors = [abs(_off(row, found[row["run"]])) for row in runs if row["run"] in found]
    if not errors:
        return "–"
    median, tail = np.percentile(errors, 50), np.percentile(errors, 90)
    return f"{100 * median:.1f} %, {100 * tail:.1f} %"


def _bias(runs: Sequence[Row], found: dict[str, Row]) -> str:
    return f"{100 * statistics.median(_off(row, found[row['run']]) for row in runs):+.1f} %".replace("-", "−")


def _time(seconds: float) -> str:
    if seconds < 0.95e-3:
        return f"{1e6 * seconds:.0f} µs" if seconds > 0.95e-6 else "under 1 µs"
    return f"{1e3 * seconds:.0f} ms" if seconds < 0.95 else f"{seconds:.1f} s"


def _title(program: str) -> str:
    return TITLES.get(program, program)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def ask(program: str, version: str, checkout: str, interpreter: str) -> None:
    """Ask a program about every run of its kind, and record runs and answers."""
    from .described_runs import described_runs
    from .own_answers import own_answers

    described = list(described_runs())
    runs = [
        {
            "run": run["id"],
            "unit": "s" if run["kind"] == "training" else "token/s",
            "layers": _layers(run),
            **{name: run[name] for name in RUN_COLUMNS if name in run},
        }
        for run, _ in described
    ]
    _write(RUNS, RUN_COLUMNS, runs)
    if program == OURS:
        found = own_answers(described)
    else:
        command = [interpreter, str(HERE / "peers.py"), program, checkout]
        text = json.dumps([run for run, _ in described])
        answered = subprocess.run(command, input=text, stdout=subprocess.PIPE, check=True, text=True).stdout
        found = list(map(json.loads, answered.splitlines()))
    other = {"training": "no serving", "serving": "no training"}
    kinds = {run["run"]: other[run["kind"]] for run in runs}
    asked = {"program": program, "version": version, "date": date.today().isoformat()}
    rows = [
        {**asked, "run": answer.pop("id"), **{name: _short(value) for name, value in answer.items()}}
        for answer in found
        if answer.get("refused") not in other.values()
    ]
    assert all(row["run"] in kinds for row in rows)
    kept = [row for row in read(ANSWERS) if row["program"] != program] if ANSWERS.exists() else []
    both = sorted([*kept, *rows], key=lambda row: PROGRAMS.index(row["program"]))
    _write(ANSWERS, COLUMNS, both)


def _layers(run: dict[str, Any]) -> str:
    kinds = run["model"]["layers"]
    experts = "experts" if any(kind["experts"] for kind in kinds) else "dense"
    return f"{experts}, latent attention" if any(kind["latent"] for kind in kinds) else experts


def _short(value: Any) -> Any:
    if isinstance(value, float) and value and math.isfinite(value):
        return f"{value:.5g}"
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", choices=PROGRAMS)
    parser.add_argument("version", nargs="?", default="")
    parser.add_argument("--checkout", default=".")
    parser.add_argument("--python", default=sys.executable)
    asked = parser.parse_args()
    if asked.program:
        ask(asked.program, asked.version, asked.checkout, asked.python)
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
