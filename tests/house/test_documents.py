"""Every shipped document validates, is named as its file, and names a source for every group; the schemas are fresh."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from each import each
from pydantic import BaseModel

from costmodel.documents.keys.json_schema import schemas
from costmodel.documents.reader.folders import FOLDER_OF
from costmodel.documents.reader.library import read
from costmodel.documents.schemas.base import Sourced
from costmodel.documents.schemas.hardware import Peak
from costmodel.ground.errors import CostModelError

from .catalogue import ROOT, SOURCES, read_yaml, relative

BIBLIOGRAPHY = set(read_yaml(SOURCES))
KINDS = {folder: kind for kind, folder in FOLDER_OF.items()} | {"scenarios/examples/shared-cluster": "scenario"}
DOCUMENTS = sorted(path for top in ("hardware", "scenarios") for path in (ROOT / top).rglob("*.y*ml"))
ACCELERATORS = sorted((ROOT / "hardware/accelerators").glob("*.yaml"))
SCHEMA_LINE = "# yaml-language-server: $schema="
every_document = each("path", DOCUMENTS)


def cited(tree: Any) -> Iterator[str]:
    """Every `source:` key of every group."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "source" and isinstance(value, str):
                yield value
            else:
                yield from cited(value)
    elif isinstance(tree, list):
        for item in tree:
            yield from cited(item)


def own_sources(tree: Any) -> set[str]:
    """Every key under a `sources:` of the document, or of a document written out inside it."""
    if isinstance(tree, dict):
        own = set(tree["sources"]) if isinstance(tree.get("sources"), dict) else set()
        return own.union(*(own_sources(value) for value in tree.values()))
    return set().union(*(own_sources(item) for item in tree)) if isinstance(tree, list) else set()


def head_fault(path: Path, text: str) -> str:
    """Why the first line does not lead an editor to the schema."""
    first = text.splitlines()[0] if text else ""
    if not first.startswith(SCHEMA_LINE):
        return f"the first line is not '{SCHEMA_LINE}…'"
    schema = (path.parent / first.removeprefix(SCHEMA_LINE).strip()).resolve()
    wanted = ROOT / relative(path).split("/", maxsplit=1)[0] / "schema.json"
    return "" if schema == wanted else f"the first line leads to {schema}"


@pytest.mark.parametrize("kind", FOLDER_OF)
def test_no_kind_is_empty(kind: str) -> None:
    assert list((ROOT / FOLDER_OF[kind]).glob("*.yaml")), f"{FOLDER_OF[kind]} holds no document"


@every_document
def test_document_validates_under_its_own_name(path: Path) -> None:
    assert path.suffix == ".yaml"
    kind = KINDS.get(relative(path.parent))
    assert kind, f"{relative(path.parent)} is the folder of no kind in costmodel.documents.reader.folders.FOLDER_OF"
    try:
        document = read(kind, str(path))
    except CostModelError as error:
        pytest.fail("\n".join(f"{fault.code} {fault.place}: {fault.sentence} ({fault.hint})" for fault in error.faults))
    name = getattr(document, "name", None) or getattr(document, "of", None)
    assert name == path.stem or kind == "scenario"


@every_document
def test_every_group_names_a_source_that_exists(path: Path) -> None:
    tree = read_yaml(path)
    assert sorted({*cited(tree)} - own_sources(tree) - BIBLIOGRAPHY) == []
    kind = KINDS[relative(path.parent)]
    assert list(unsourced(read(kind, str(path)))) == []


def unsourced(document: Any, path: str = "") -> Iterator[str]:
    """The path of every group of facts that names no source."""
    if isinstance(document, BaseModel):
        if isinstance(document, Sourced) and not document.source:
            yield path or "."
        for name, inner in document:
            yield from unsourced(inner, f"{path}.{name}")
    elif isinstance(document, list | dict):
        items = document.items() if isinstance(document, dict) else enumerate(document)
        for key, inner in items:
            yield from unsourced(inner, f"{path}.{key}")


@every_document
def test_document_reads_well_in_an_editor(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not head_fault(path, text), head_fault(path, text)
    assert [number for number, line in enumerate(text.splitlines(), 1) if len(line) > 120] == []
    assert "\t" not in text
    assert text.endswith("\n")


@each("path", ACCELERATORS)
def test_narrower_types_are_not_slower(path: Path) -> None:
    peak = read("accelerator", str(path)).peak
    rates = [rate for rate in (peak.fp32, peak.bf16, peak.fp8) if rate is not None]
    assert rates == sorted(rates)


@pytest.mark.parametrize("name", ["hardware/schema.json", "scenarios/schema.json"])
def test_schema_is_fresh(name: str) -> None:
    path = ROOT / name
    assert path.is_file(), "write it: python -m costmodel.documents.keys.json_schema"
    assert path.read_text("utf-8") == schemas()[name], "it is stale: python -m costmodel.documents.keys.json_schema"


def test_schemas_name_every_kind() -> None:
    listed = {
        definition["properties"]["schema"]["const"]
        for text in schemas().values()
        for definition in json.loads(text)["$defs"].values()
        if "schema" in definition["properties"]
    }
    assert listed == {f"costmodel/{kind}/v1" for kind in FOLDER_OF}


def test_every_field_of_a_schema_has_a_description() -> None:
    bare = [
        f"{name}: {owner}.{field}"
        for name, text in schemas().items()
        for owner, definition in json.loads(text)["$defs"].items()
        for field, content in definition["properties"].items()
        if not content.get("description") or content["description"].endswith(".")
    ]
    assert bare == []


def test_planted_faults_are_caught() -> None:
    tree = {"source": "a", "peak": {"source": "b"}, "layers": [{"source": "c"}], "sources": {"b": {"title": "B"}}}
    assert sorted(cited(tree)) == ["a", "b", "c"]
    assert own_sources(tree) == {"b"}
    peak = Peak.model_validate({"bf16": "1 TFLOP/s"})
    assert list(unsourced({"peak": peak, "other": [peak.model_copy(update={"source": "x"})]})) == [".peak"]
    path = ROOT / "hardware/accelerators/x.yaml"
    assert not head_fault(path, f"{SCHEMA_LINE}../schema.json\n")
    assert head_fault(path, f"{SCHEMA_LINE}schema.json\n")
    assert head_fault(path, "schema: costmodel/accelerator/v1\n")
