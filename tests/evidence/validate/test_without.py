"""A term left out of predictions takes its own share with it, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

TABLE = "korthikanti-2022"


def rows(run: Any, *more: str) -> dict[str, Any]:
    found = json.loads(run("validate", TABLE, *more, "--json").out)["rows"]
    return {row["id"]: row for row in found}


def shown(run: Any) -> dict[str, Any]:
    """The step of a run of the table, as an estimate of its scenario breaks it down: 22B on 8 A100."""
    found: dict[str, Any] = json.loads(run("estimate", "megatron-22b-8", "--json").out)["plans"][0]
    return found


@pytest.mark.parametrize(
    ("term", "column"), [("launch", "launch_s"), ("attention", "attention_s"), ("tp", "tp_exposed_s")]
)
def test_a_prediction_without_a_term_is_shorter_by_that_term(term: str, column: str, run: Any) -> None:
    plan = shown(run)
    whole, left = (rows(run, *more)["korthikanti-2022/22b-selective"] for more in ((), ("--without", term)))
    assert whole["measured"] == left["measured"]
    assert whole["predicted"] == pytest.approx(plan["step_time_s"])
    assert left["predicted"] == pytest.approx(plan["step_time_s"] - plan[column])
    assert left["high"] / left["predicted"] == pytest.approx(whole["high"] / whole["predicted"])


def test_rates_rise_where_times_fall(run: Any) -> None:
    """FLOP/s of a run are its work over its time."""
    whole, left = (
        json.loads(run("validate", "llama-3-2024", *more, "--json").out)["rows"]
        for more in ((), ("--without", "bubble"))
    )
    assert {row["quantity"] for row in whole} == {"flop_rate"}
    assert all(one["predicted"] < other["predicted"] for one, other in zip(whole, left, strict=True))


def test_terms_add_up(run: Any) -> None:
    """Without two terms as much is missing as without each."""
    plain, one, other, both = (
        rows(run, *(word for term in terms for word in ("--without", term)))["korthikanti-2022/22b-full"]["predicted"]
        for terms in ((), ("launch",), ("matmul",), ("launch", "matmul"))
    )
    assert plain - both == pytest.approx((plain - one) + (plain - other))


def test_memory_has_no_terms_of_a_step(run: Any, faults: Any) -> None:
    (fault,) = faults(run("validate", "qi-2023", "--quantity", "memory", "--without", "launch"))
    assert fault.code == "C005"
