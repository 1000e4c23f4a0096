"""One table of results: units, names in machine output and bands of all workloads."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from costmodel.documents.schemas.limits import Limits, RlLimits, ServingLimits
from costmodel.documents.schemas.results import (
    COLUMNS,
    RUN_RESULTS,
    TRAINING_RESULTS,
    is_share,
    machine_name,
)

COUNTS = {"longest", "rollout_ranks", "training_ranks"}


def test_a_name_has_one_unit_one_direction_and_one_name_in_machine_output() -> None:
    """A result of two workloads may have another meaning, but never another unit: tables of both are stacked."""
    for columns in COLUMNS.values():
        for name, column in columns.items():
            others = [other[name] for other in COLUMNS.values() if name in other]
            assert {(other.unit, other.better) for other in others} == {(column.unit, column.better)}, name
            assert machine_name(name).startswith(name)


def test_every_band_has_both_ends_in_the_unit_of_its_result() -> None:
    for columns in COLUMNS.values():
        for name, column in columns.items():
            ends = [columns.get(f"{name}_{end}") for end in ("low", "high")]
            assert all(ends) == bool(column.band), name
            assert {end.unit for end in ends if end is not None} <= {column.unit}


def test_plain_numbers_of_training_are_shares() -> None:
    plain = {name for name, column in (TRAINING_RESULTS | RUN_RESULTS).items() if column.unit == "1"}
    assert plain == {name for name in TRAINING_RESULTS | RUN_RESULTS if is_share(name)}
    assert not any(map(is_share, COUNTS))


@pytest.mark.parametrize("limits", [Limits, ServingLimits, RlLimits])
def test_limits_can_be_sent_to_other_processes(limits: Any) -> None:
    """Searches of several processes send scenarios; classes made from the table of results are found by name."""
    assert pickle.loads(pickle.dumps(limits())) == limits()
