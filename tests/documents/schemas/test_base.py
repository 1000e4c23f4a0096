"""Ranges of quantities: what no machine reaches is refused with the range, and zero is taken where it has a meaning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from costmodel.documents.reader.library import read
from costmodel.documents.schemas import base
from costmodel.documents.schemas.base import RANGES, Document, PartIn, Quantity
from costmodel.documents.schemas.practice import Cooling

SCENARIOS = Path(__file__).resolve().parents[3] / "docs" / "guide" / "scenarios.md"
TRAINING, SERVING = "quickstart", "serve-llama-3.1-70b"


@pytest.mark.parametrize("unit", RANGES)
def test_each_unit_has_a_least_above_zero_and_a_greatest(unit: str) -> None:
    least, greatest = RANGES[unit]
    kind = Quantity(unit)
    assert (kind.least, kind.greatest) == (least, greatest)
    for value in (0.0, least, greatest):
        assert kind.validate(base.Figure(value)) == value
    for value in (5e-324, least / 2, greatest * 2, -least, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"range|finite"):
            kind.validate(base.Figure(value))


def test_products_of_extremes_stay_finite() -> None:
    least = min(low for low, _ in RANGES.values())
    greatest = max(high for _, high in RANGES.values())
    assert 0 < least**10 < greatest**10 < float("inf")


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("Watts", "0 W", "at least 0.001 W and at most 1e09 W"),
        ("Rate", "0.5 B/s", "at least 1 B/s and at most 1e18 B/s"),
        ("Portion", "1e-320", "at least 1e-06 and at most 1"),
        ("Seconds", "1e-17 s", "0, or at least 1e-15 s and at most 1e12 s"),
        ("Seconds", "-1 s", "at least 0 and at most 1e12 s"),
    ],
)
def test_a_message_names_the_range(kind: str, text: str, words: str) -> None:
    with pytest.raises(ValidationError, match="out of range") as found:
        TypeAdapter(getattr(base, kind)).validate_python(text)
    assert words in found.value.errors()[0]["msg"]


@pytest.mark.parametrize("number", ["1e-320", "5e-324", "0.3", "1e25", "0.1000000000000001"])
def test_a_message_repeats_what_was_written(number: str) -> None:
    """A number that YAML reads as a float has no text of its own."""
    with pytest.raises(ValueError, match=rf"^{re.escape(number)} is out of range"):
        Quantity("1", 1).validate(float(number))


@pytest.mark.parametrize(("unit", "size"), [("token/s", 1), ("ktoken/s", 1000), ("/s", 1)])
def test_the_range_of_a_rate_is_in_its_own_unit(unit: str, size: float) -> None:
    with pytest.raises(ValueError, match=f"^1e-320 {unit} is out of range: at least {1 / size:g} {unit} and at most"):
        Quantity("token/s", 1).validate(f"1e-320 {unit}")


@pytest.mark.parametrize(
    ("command", "name", "setting"),
    [
        ("run", TRAINING, "run.loader=1e-3 token/s"),
        ("run", TRAINING, "run.loader=1e-320 token/s"),
        ("run", TRAINING, "run.failures.rate=0 /1000 node-days"),
        ("estimate", TRAINING, "cluster.accelerator.power.max=1e-320 W"),
        ("estimate", TRAINING, "assume.stragglers.slow_part=1e-320"),
        ("estimate", TRAINING, "assume.stragglers.slow_link=1e-320"),
        ("estimate", "grpo-qwen-2.5-7b-64", "stack.spread.lengths=1e15"),
    ],
)
def test_what_no_machine_has_is_refused(command: str, name: str, setting: str, run: Any, faults: Any) -> None:
    (found,) = faults(run(command, name, "--set", setting))
    assert found.code == "D008"
    assert "out of range: at least" in found.sentence


@pytest.mark.parametrize("limit", ["tokens_per_s_per_user.at_least=0 token/s", "requests_per_s.at_least=0"])
def test_a_limit_of_zero_is_a_limit(limit: str, run: Any) -> None:
    assert run("estimate", SERVING, "--set", f"limits.{limit}").code == 0


def test_the_guide_lists_the_ranges() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| ([\d.e-]+) \| ([\d.e-]+) \|", SCENARIOS.read_text("utf-8"), re.MULTILINE)
    shown = {unit: (f"{least:g}", f"{greatest:.3g}") for unit, (least, greatest) in RANGES.items()}
    assert {unit: (low, high) for unit, low, high in rows} == {
        unit: (low.replace("e+", "e"), high.replace("e+", "e")) for unit, (low, high) in shown.items()
    }


def _documents(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for one in kind.__subclasses__():
        yield one
        yield from _documents(one)


def test_defaults_are_made_by_functions_of_our_own() -> None:
    """Pydantic reads the signature of what makes one; that of a built-in type takes ten milliseconds."""
    read("model", "llama-3-8b")
    made = {field.default_factory for kind in _documents(Document) for field in kind.model_fields.values()}
    assert made & {dict, list, set, tuple} == set()


class _Plant(Document):
    near: Cooling | None = None
    far: Annotated[Any, PartIn("practice.Cooling")] | None = None


def test_a_part_of_another_module_is_read_written_and_described_as_one_beside_it() -> None:
    good, bad = {"pue": 1.2, "source": "mine"}, {"pue": 0.1, "pues": 1}
    plant = _Plant.model_validate({"near": good, "far": good})
    assert plant.near == plant.far == Cooling(pue=1.2, source="mine")
    assert plant.model_dump()["near"] == plant.model_dump()["far"] == {**good, "check": "seen", "note": None}
    assert _Plant(near=Cooling.model_construct(pue=1.0)).model_dump(exclude_unset=True) == {"near": {"pue": 1.0}}
    with pytest.raises(ValidationError) as raised:
        _Plant.model_validate({"near": bad, "far": bad})
    faults = [(found["loc"], found["type"], found["msg"], found["input"]) for found in raised.value.errors()]
    near, far = ([found for found in faults if found[0][0] == name] for name in ("near", "far"))
    assert len(near) == len(far) == 2
    assert [("far", *where[1:]) for where, *_ in near] == [where for where, *_ in far]
    assert [found[1:] for found in near] == [found[1:] for found in far]
    described = _Plant.model_json_schema()
    assert [described["properties"][name]["anyOf"] for name in ("near", "far")] == [
        [{"$ref": "#/$defs/Cooling"}, {"type": "null"}]
    ] * 2
    assert described["$defs"] == {"Cooling": Cooling.model_json_schema()}
