"""The tables of README.md and docs/accuracy that show how well runs are predicted; a test keeps them fresh.

They are made of the measured documents that are shipped, and of the record of sources left out of the fit:

    python -m tests.generated.accuracy_tables

writes the tables again. With tables of runs it first makes the record again: of the first one each source is left out
in turn, of the others each model on each part of other makers:

    python -m tests.generated.accuracy_tables train_runs.csv train_runs_new.csv
    python -m tests.generated.accuracy_tables --services serving_runs.csv
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from costmodel.documents.reader.measured_cases import WORKLOADS
from costmodel.evidence.validate.outcomes import Quantity
from costmodel.evidence.validate.scores import LEFT_OUT, Score, left_out, score
from costmodel.evidence.validate.validate import validated

_CHECKOUT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/accuracy/index.md", "docs/accuracy/serving.md")
SERVICES = "--services"
_BLOCK = re.compile(r"(<!-- table: ([a-z-]+);[^>]*-->\n)(.*?)(\n<!-- end of table -->)", re.DOTALL)


def fresh_pages() -> dict[str, str]:
    """The text of every page with its tables as they are now."""
    record = left_out()
    tables = {
        "accuracy": summary(record, _shipped("time"), _shipped("memory"), _shipped("time", "rl")),
        "groups": groups(record),
        "sources": sources(record),
        "services": services(record),
    }
    return {
        page: _BLOCK.sub(lambda found: f"{found[1]}{tables[found[2]]}{found[4]}", (_CHECKOUT / page).read_text("utf-8"))
        for page in PAGES
    }


def _shipped(quantity: Quantity, workload: str = "training") -> Score:
    """The score of all shipped measured documents about a workload."""
    figures = (figure for part in validated(quantity=quantity) for figure in part.figures)
    return score([figure for figure in figures if WORKLOADS.get(figure.quantity, "training") == workload])


def summary(record: dict[str, Any], time: Score, memory: Score, iterations: Score) -> str:
    """What README.md shows: runs in sample, with their source left out, peak memory, services and iterations of RL."""
    left_out = record["groups"]
    rows = [
        ("step time of dense models, each source held out of the fit and of its bands", left_out["dense"]),
        ("step time of models with experts, left out in the same way", left_out["with experts"]),
    ]
    if record["other_makers"]:
        rows.append(
            ("step time on TPUs, AMD, Gaudi, Trainium, each model on each part left out", record["other_makers"])
        )
    lines = [(name, *_cells(row)) for name, row in rows]
    lines.insert(0, ("step time, all shipped sources (used in the fit)", *_of_score(time)))
    lines.append(("peak memory", *_of_score(memory)))
    service = record["services"]["model"]
    lines += [
        ("serving: time per token, model held out of the fit", *_cells(service["tpot"])),
        ("serving: time to first token, held out in the same way", *_cells(service["ttft"])),
        ("RL: iteration time, four frameworks (one was used to set four constants)", *_of_score(iterations)),
    ]
    return _table(("measured", "runs", "median error", "P90 error", "inside P10 – P90"), lines)


def groups(record: dict[str, Any]) -> str:
    """Errors and coverage of each group of runs, with their source left out."""
    lines = [(name, *_cells(row), _percent(row["inside_shipped"], 0)) for name, row in record["groups"].items()]
    return _table(("group", "runs", "median", "P90", "inside, widths fitted without it", "inside, as shipped"), lines)


def sources(record: dict[str, Any]) -> str:
    """Errors of each source, in sample and left out, best first."""
    ordered = sorted(record["sources"].items(), key=lambda item: item[1]["left_out"]["median"])
    lines = [
        (
            name,
            str(row["runs"]),
            _middle_and_tail(row["in_sample"]),
            _middle_and_tail(row["left_out"]),
            _percent(row["left_out"]["bias"], 1, signed=True),
            _percent(row["left_out"]["inside"], 0),
        )
        for name, row in ordered
    ]
    return _table(("source", "runs", "median, P90 in sample", "left out", "bias left out", "inside P10 – P90"), lines)


def services(record: dict[str, Any]) -> str:
    """Errors and coverage of benchmarks of services, with each value of a column left out of the fit in turn."""
    lines = []
    for column, found in record["services"].items():
        token, first, rate = (found[name] for name in ("tpot", "ttft", "throughput"))
        errors = (_middle_and_tail(each) for each in (token, first, rate))
        lines.append((f"each {column}", *errors, *(_percent(each["inside"], 0) for each in (token, first))))
    head = ("left out in turn", "time per token", "first token", "tokens/s/GPU", "in band, token", "in band, first")
    return _table(head, lines)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (f"{row['runs']:,}", _percent(row["median"], 1), _percent(row["p90"], 1), _percent(row["inside"], 0))


def _of_score(found: Score) -> tuple[str, ...]:
    named = {"median": found.median_error, "p90": found.p90_error, "inside": found.inside_band}
    return _cells({"runs": found.modelled, **named})


def _middle_and_tail(row: dict[str, float]) -> str:
    return f"{_percent(row['median'], 1)}, {_percent(row['p90'], 1)}"


def _percent(value: float, digits: int, *, signed: bool = False) -> str:
    text = f"{value * 100:{'+' if signed else ''}.{digits}f} %"
    return text.replace("-", "−")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def write(tables: Sequence[str]) -> None:
    """Write the record, if tables of runs are named, and every page."""
    if tables:
        from .accuracy_record import left_out_record, services_left_out

        record = left_out()
        if tables[0] == SERVICES:
            record["services"] = services_left_out(tables[1])
        else:
            record |= left_out_record(tables[0], tables[1:], date.today().isoformat())
        (_CHECKOUT / LEFT_OUT).write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")
    for page, text in fresh_pages().items():
        (_CHECKOUT / page).write_text(text, "utf-8")


if __name__ == "__main__":
    write(sys.argv[1:])
