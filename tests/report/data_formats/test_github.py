"""Faults as workflow commands: equal ones together, as on a terminal."""

from __future__ import annotations

from costmodel.ground.errors import Fault, Place
from costmodel.report.data_formats.ci_formats import fault_annotations


def test_equal_faults_of_many_rows_are_one_line() -> None:
    rows = [Fault("D006", "no number", Place("runs.csv", line, 5), "write 1") for line in range(2, 52)]
    lines = fault_annotations([*rows, Fault("D003", "another", Place("runs.csv", 60, 1))]).splitlines()
    together = "no number; write 1; the same error is in 49 more places: 3:5, 4:5, 5:5, …"
    assert lines == [
        f"::error file=runs.csv,line=2,col=5,title=costmodel D006::{together}",
        "::error file=runs.csv,line=60,col=1,title=costmodel D003::another",
    ]
