"""tests/speed/history.csv has one row a release, of ratios only."""

from __future__ import annotations

import csv
import re

import costmodel

from .catalogue import ROOT


def test_every_release_has_a_row_of_ratios() -> None:
    rows = list(csv.DictReader((ROOT / "tests/speed/history.csv").read_text("utf-8").splitlines()))
    versions = [row.pop("version") for row in rows]
    released = re.findall(r"(?m)^## (\d\S*)", (ROOT / "docs/changelog.md").read_text("utf-8"))
    assert len(set(versions)) == len(versions)
    ours = set() if ".dev" in costmodel.__version__ else {costmodel.__version__}
    assert {*released} | ours == set(versions), "python tests/speed/history.py"
    assert all("_over_" in name for row in rows for name in row)
    assert all(float(value) > 0 for row in rows for value in row.values())
