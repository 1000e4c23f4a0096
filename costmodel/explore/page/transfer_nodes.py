"""Equation trees of a plan's transfers: bytes and time of one, their number, and all bytes that are sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from costmodel.documents.schemas.results import TRAINING_COLUMNS
from costmodel.estimate.machine.process_groups import Transfer
from costmodel.estimate.training_answer.evaluate_training import TERM_COLUMNS
from costmodel.explore.explain.equation_trees import ExplainedFigure, TreeNames, trees_of
from costmodel.explore.transfer_bandwidth import transfer_trace_name
from costmodel.ground.equation import origin_of, trace

UNITS = {"message": "B", "count": "1", "time": "s", "volume": "B", "total_time": "s"}
_WORDS = {
    "message": "size",
    "count": "count",
    "time": "time of one",
    "volume": "sent in a step",
    "total_time": "total time",
}


def transfer_trees(trees: dict[str, Any], sent: Sequence[Transfer]) -> dict[str, ExplainedFigure]:
    """The equation trees of all figures in a table of transfers, by name."""
    with trace():
        origins = {
            transfer_trace_name(place, name): origin_of(getattr(item, name), name)
            for place, item in enumerate(sent)
            for name in UNITS
        }
    found = trees_of(
        TreeNames(trees, TRAINING_COLUMNS, TERM_COLUMNS),
        origins,
        {key: UNITS[key.rpartition(".")[2]] for key in origins},
    )
    return {
        transfer_trace_name(place, name): replace(
            found[transfer_trace_name(place, name)],
            name=f"{item.group.name} {item.operation.replace('_', '-')}: {words}",
        )
        for place, item in enumerate(sent)
        for name, words in _WORDS.items()
    }
