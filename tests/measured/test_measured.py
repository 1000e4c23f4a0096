"""Every shipped measured table within its own stated tolerance."""

import pytest

from costmodel.documents.library import names, read
from costmodel.explore.validate.validate import Compared, compared

TABLES = names("measured")
FIGURES = [(table, figure) for table in TABLES for figure in compared(read("measured", table))]


def test_there_are_tables() -> None:
    assert "korthikanti-2022" in TABLES


@pytest.mark.parametrize(("table", "figure"), FIGURES, ids=[f"{table}-{figure.run}" for table, figure in FIGURES])
def test_figure_is_within_its_tolerance(table: str, figure: Compared) -> None:
    assert figure.tolerance is not None
    assert abs(figure.error) <= figure.tolerance, f"{table} {figure.run}: {figure.error:+.1%}"
