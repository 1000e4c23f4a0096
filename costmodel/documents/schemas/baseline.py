"""Baseline of predictions: figures by scenario, written by --update and compared with those of today."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

import costmodel as program
from costmodel.documents.reader.validation_errors import validate
from costmodel.documents.schemas.base import Document, keyed
from costmodel.documents.text.digest import check_seal, written_by_another
from costmodel.documents.text.files import file_text
from costmodel.documents.text.yaml_tree import read_tree
from costmodel.ground.errors import CostModelError, Place, fail

_WHAT = "baseline"


class EquationFingerprint(Document):
    """Checksums of an equation's inputs and outputs: equal inputs with other outputs mean that it changed."""

    calls: int = Field(description="How often it was called")
    inputs: float = Field(description="Checksum of everything that went in")
    output: float = Field(description="Checksum of everything that came out")


class Entry(Document):
    """A scenario's stored results, plan and inputs in a baseline."""

    title: str = Field(description="Title of the scenario")
    plan: dict[str, str | float | bool] = Field(description="The plan that was evaluated")
    inputs: dict[str, str] = keyed("What the scenario itself states, by path")
    documents: dict[str, str] = Field(description="Digests of the documents, by file")
    figures: dict[str, float] = Field(description="Results and their terms, SI, unit as suffix")
    equations: dict[str, EquationFingerprint] = keyed("Marks by equation")


class Baseline(Document):
    """Figures of scenarios to compare with."""

    schema_: Literal["costmodel/baseline/v1"] = Field(alias="schema", description="Kind and version of this document")
    costmodel: str = Field(description="Version that wrote it")
    digest: str = Field(default="", description="Digest of all the rest; written with it")
    scenarios: dict[str, Entry] = Field(description="What was predicted, by scenario")


def read_baseline(path: str, *, updating: bool = False) -> Baseline:
    """The baseline in a file that `check --update` wrote.

    A file of another version is accepted if its keys and digest are valid in this one. For an update it needs no
    digest, and entries of other scenarios stay as they are.
    """
    tree, faults = read_tree(file_text(path), path)
    other = written_by_another(tree, _WHAT, path) if isinstance(tree, dict) else None
    if isinstance(tree, dict) and str(tree.get("schema")).startswith("costmodel/result/"):
        hint = "check SCENARIO --against NEW.json --update writes a baseline"
        raise fail("C008", "this is the result of a command, not a baseline", Place(path), hint)
    try:
        baseline = validate(Baseline, tree, path, faults)
    except CostModelError as error:
        raise CostModelError(*((other,) if other else ()), *error.faults) from None
    if not (updating and other):
        check_seal(tree, _WHAT, path, "take it back from where it was kept, or write it anew with --update")
    return baseline


def renewed(old: Baseline | None, entries: Mapping[str, Entry]) -> Baseline:
    """The baseline with new entries for these scenarios; entries of other scenarios stay."""
    scenarios = dict(sorted({**(old.scenarios if old else {}), **entries}.items()))
    return Baseline(schema="costmodel/baseline/v1", costmodel=program.__version__, scenarios=scenarios)
