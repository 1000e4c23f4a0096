"""Leaves by their paths, and the one table of keys that name documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from costmodel.documents.keys.overrides import assign
from costmodel.documents.keys.paths import LEVELS, REFERENCES, at, changed
from costmodel.documents.keys.workload_keys import SCENARIOS
from costmodel.documents.reader.load_scenario import load
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.rl import RlScenario
from costmodel.documents.schemas.scenario import Scenario
from costmodel.explore.compare.input_paths import document_of_path, input_values
from costmodel.ground.units import Figure

SCHEMA = Scenario.model_json_schema()


@pytest.fixture(scope="module")
def case() -> ResolvedScenario:
    return load("deepseek-v3-2048")


def named(node: dict[str, Any], path: str = "", schema: dict[str, Any] = SCHEMA) -> Iterator[str]:
    """Every key of a schema at which a name may stand in the place of a mapping."""
    node = {**schema["$defs"], "": node}[str(node.get("$ref", "")).rpartition("/")[2]]
    choices = [*node.get("oneOf", ()), *node.get("anyOf", ())]
    if any("$ref" in choice for choice in choices) and {"type": "string"} in choices:
        yield path
    for choice in choices:
        yield from named(choice, path, schema)
    for key, inner in node.get("properties", {}).items():
        yield from named(inner, f"{path}.{key}" if path else key, schema)


def test_every_key_that_names_a_document_is_in_the_table() -> None:
    of_rl = RlScenario.model_json_schema()
    assert {*named(SCHEMA), *named(of_rl, schema=of_rl)} == {
        path for path, reference in REFERENCES.items() if reference.inline
    }


def test_documents_are_read_behind_those_that_name_them() -> None:
    assert [len(paths) for paths in LEVELS] == [7, 6, 2]
    assert [path for paths in LEVELS for path in paths] == list(REFERENCES)


def test_what_was_put_at_a_leaf_stands_there(case: ResolvedScenario) -> None:
    found = {path: leaf.value for path, leaf in input_values(case).items() if isinstance(leaf.value, float)}
    assert len(found) > 150
    for path, value in found.items():
        held, key = document_of_path(path)
        document = getattr(case, held)
        assert at(document, key) == value, path
        again = changed(document, key, Figure(value))
        assert (again, again is document) == (document, False), path


def test_what_is_put_at_a_leaf_is_checked(case: ResolvedScenario) -> None:
    less = changed(case.accelerator, "memory.bandwidth", Figure(1e12))
    assert (at(less, "memory.bandwidth"), at(case.accelerator, "memory.bandwidth")) == (1e12, 3.35e12)
    with pytest.raises(ValidationError):
        changed(case.accelerator, "memory.bandwidth", Figure(-1.0))


@pytest.mark.parametrize("path", ["nowhere", "layers.7.count", "layers.count", "name.title", "layers.0.count.more"])
def test_nothing_stands_where_a_path_leads_nowhere(path: str, case: ResolvedScenario) -> None:
    assert at(case.model, path) is None


def test_a_key_of_software_that_is_not_named_is_one_of_the_usual_software() -> None:
    """Of each workload: the default of its schema, which a setting of one of its keys writes out."""
    stack, named = REFERENCES["stack"], dict[str, str]()
    for kind, schema in SCENARIOS.items():
        named[kind] = schema.model_fields["stack"].default
        assert stack.usual_of.get(kind, stack.usual) == named[kind], kind
    tree: dict[str, Any] = {"workload": {"kind": "serving"}}
    assign(tree, ["stack.memory.share=50%"], lambda kind, name, _: {"named": f"{kind} {name}"})
    assert tree["stack"]["named"] == f"stack {named['serving']}"
