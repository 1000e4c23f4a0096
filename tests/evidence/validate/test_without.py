"""A term left out of predictions takes its own share with it, and nothing else."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from report.page.reader import Reader

from costmodel.commands.validate import StepTerm
from costmodel.estimate.training.training_step import TERMS

from .test_regret import laid_out, runs

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


STATED = "Steps are predicted without launch, memory-bound; no constant is fitted again."


@pytest.mark.parametrize("quantity", ["time", "regret"])
def test_every_form_states_what_is_left_out(quantity: str, run: Any, tmp_path: Path) -> None:
    path = runs(tmp_path, *(laid_out(number) for number in range(5)))
    asked = ("validate", path, "--quantity", quantity, "--without", "launch", "--without", "memory_bound")
    assert run(*asked).out.startswith(f"{STATED}\n")
    assert STATED in run(*asked, "--format", "markdown").out.replace("\\", "")
    assert STATED in Reader(run(*asked, "--format", "html").out).words
    assert json.loads(run(*asked, "--json").out)["without"] == ["launch", "memory_bound"]
    rows = list(csv.DictReader(io.StringIO(run(*asked, "--csv").out)))
    assert {row["without"] for row in rows} == {"launch, memory_bound"}
    whole = asked[:4]
    assert "Steps are predicted" not in run(*whole).out
    assert json.loads(run(*whole, "--json").out)["without"] == []
    assert "without" not in run(*whole, "--csv").out


def test_the_terms_are_those_of_a_step() -> None:
    assert sorted(StepTerm) == sorted(TERMS)


@pytest.mark.parametrize(
    ("tables", "more", "named"),
    [
        (("qi-2023",), ("--quantity", "memory"), "qi-2023"),
        (("tensorrt-llm-1.0",), (), "tensorrt-llm-1.0"),
        ((TABLE, "vllm-cache-pools"), (), "vllm-cache-pools"),
    ],
)
def test_a_table_without_times_of_steps_is_a_fault(
    tables: tuple[str, ...], more: tuple[str, ...], named: str, run: Any, faults: Any
) -> None:
    (fault,) = faults(run("validate", *tables, *more, "--without", "launch"))
    assert fault.code == "C005"
    assert f"{named} has no predicted time" in fault.sentence
