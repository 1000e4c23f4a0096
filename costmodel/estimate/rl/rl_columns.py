"""Columns of results of reinforcement learning, with the ends of their bands and those of a whole run."""

from __future__ import annotations

from dataclasses import replace

from costmodel.documents.schemas.results import ResultColumn
from costmodel.documents.schemas.rl.rl_results import BANDED, RESULTS
from costmodel.estimate.shared.results import OF_RUN, with_unit

COLUMNS: dict[str, ResultColumn] = dict(RESULTS)
for _name in BANDED:
    for _end, _words in (("low", "P10"), ("high", "P90")):
        _column = replace(RESULTS[_name], meaning=f"{_words} of {_name}", better="neither")
        COLUMNS[f"{_name}_{_end}"] = _column
COLUMNS |= {name: column for name, column in OF_RUN.items() if name not in COLUMNS}


def machine_name(name: str) -> str:
    """The name of a column in machine output, with its unit as suffix."""
    return with_unit(name, COLUMNS[name].unit)
