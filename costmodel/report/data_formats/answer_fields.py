"""Parts that JSON answers of every workload have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from costmodel.documents.reader.folders import result_name
from costmodel.documents.schemas.results import ResultColumn, machine_name
from costmodel.estimate.answer_facts import Subject
from costmodel.estimate.shared.reasons import REMARKS
from costmodel.report.terminal.head import case_title, fact_fields
from costmodel.report.terminal.layout import schema_head

if TYPE_CHECKING:
    from costmodel.documents.reader.foreign_readers import Foreign
    from costmodel.documents.reader.resolved_scenario import LoadedScenario
    from costmodel.documents.schemas.default_values import Assumption, FlagQuestion


def finite(value: float) -> float | None:
    """The figure, or None if it is NaN or infinite, which JSON cannot express."""
    return float(value) if math.isfinite(value) else None


def without_places(tree: Any) -> Any:
    """A document tree without places, as JSON has it."""
    if isinstance(tree, dict):
        return {str(key): without_places(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [without_places(value) for value in tree]
    for kind in (bool, str, int, float):
        if isinstance(tree, kind):
            return kind(tree)
    return tree


def result_fields(
    case: LoadedScenario,
    facts: Subject,
    columns: Mapping[str, ResultColumn],
    varied: Sequence[str] = (),
    convention: str | None = None,
    schema: str = "costmodel/result/v1",
) -> dict[str, Any]:
    """The fields that every JSON result starts with; facts of varied keys are null."""
    stated = case_title(case)
    return {
        **schema_head(schema),
        "workload": case.kind,
        "scenario": {"title": stated, "document": {**without_places(case.whole_tree), "title": stated}},
        "facts": fact_fields(facts, varied),
        "flop_convention": convention,
        "documents": [
            {"name": name, "digest": digest, "own": name in case.own_names}
            for name, digest in case.named_digests.items()
        ],
        "read_from": import_fields(case.foreign),
        "flags": flag_fields(case.asked),
        "columns": [
            {"name": machine_name(name), "unit": column.unit, "meaning": column.meaning, "better": column.better}
            for name, column in columns.items()
        ],
    }


def import_fields(files: Mapping[str, Foreign]) -> list[dict[str, Any]]:
    """Imported files, with their assumptions and with the options that the costmodel document does not state."""
    return [
        {
            "file": result_name(file),
            "format": foreign.format,
            "assumed": assumption_fields(foreign.assumed),
            "remarks": list(foreign.remarks),
        }
        for file, foreign in files.items()
    ]


def flag_fields(flag_question: FlagQuestion) -> dict[str, Any]:
    """The flags that an answer was asked with, what they leave to defaults, and what they replace."""
    return {
        "words": list(flag_question.words),
        "assumed": assumption_fields(flag_question.assumed),
        "remarks": list(flag_question.remarks),
    }


def assumption_fields(assumed: Iterable[Assumption]) -> list[dict[str, str]]:
    """Values that are assumed, each with what they come from."""
    return [{"path": item.path, "value": item.value, "from": item.origin} for item in assumed]


def conflict_fields(conflicts: Iterable[str]) -> list[dict[str, str]]:
    """Conflicts between the plan of --set and the search, as remarks."""
    return [{"code": "N024", "text": sentence} for sentence in conflicts]


def remark_fields(plans: Iterable[Sequence[str]]) -> list[dict[str, str]]:
    """The remarks of several plans as plain values, each once."""
    codes = dict.fromkeys(code for remarked in plans for code in remarked)
    return [{"code": code, "text": REMARKS[code].meaning} for code in codes]
