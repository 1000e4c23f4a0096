"""Parts that JSON answers of every workload have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from costmodel.documents.reader.folders import result_name
from costmodel.documents.schemas.results import ResultColumn, machine_name
from costmodel.estimate.answer_facts import Subject
from costmodel.estimate.shared.reasons import REMARKS
from costmodel.report.terminal.head import fact_fields, title
from costmodel.report.terminal.layout import head

if TYPE_CHECKING:
    from costmodel.documents.reader.foreign_readers import Foreign
    from costmodel.documents.reader.resolved_scenario import LoadedScenario
    from costmodel.documents.schemas.default_values import Assumption, FlagQuestion


def known(value: float) -> float | None:
    """The figure, or None if it is NaN or infinite, which JSON cannot express."""
    return float(value) if math.isfinite(value) else None


def plain(tree: Any) -> Any:
    """A document tree without places, as JSON has it."""
    if isinstance(tree, dict):
        return {str(key): plain(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [plain(value) for value in tree]
    for kind in (bool, str, int, float):
        if isinstance(tree, kind):
            return kind(tree)
    return tree


def frame(
    case: LoadedScenario,
    facts: Subject,
    columns: Mapping[str, ResultColumn],
    varied: Sequence[str] = (),
    convention: str | None = None,
    schema: str = "costmodel/result/v1",
) -> dict[str, Any]:
    """The fields that every JSON result starts with; facts of varied keys are null."""
    stated = title(case)
    return {
        **head(schema),
        "workload": case.kind,
        "scenario": {"title": stated, "document": {**plain(case.whole_tree), "title": stated}},
        "facts": fact_fields(facts, varied),
        "flop_convention": convention,
        "documents": [
            {"name": name, "digest": digest, "own": name in case.own_names}
            for name, digest in case.named_digests.items()
        ],
        "read_from": read_from(case.foreign),
        "flags": flags_json(case.asked),
        "columns": [
            {"name": machine_name(name), "unit": column.unit, "meaning": column.meaning, "better": column.better}
            for name, column in columns.items()
        ],
    }


def read_from(files: Mapping[str, Foreign]) -> list[dict[str, Any]]:
    """Imported files, with their assumptions and with the options that the costmodel document does not state."""
    return [
        {
            "file": result_name(file),
            "format": foreign.format,
            "assumed": assumed_json(foreign.assumed),
            "remarks": list(foreign.remarks),
        }
        for file, foreign in files.items()
    ]


def flags_json(flag_question: FlagQuestion) -> dict[str, Any]:
    """The flags that an answer was asked with, what they leave to defaults, and what they replace."""
    return {
        "words": list(flag_question.words),
        "assumed": assumed_json(flag_question.assumed),
        "remarks": list(flag_question.remarks),
    }


def assumed_json(assumed: Iterable[Assumption]) -> list[dict[str, str]]:
    """Values that are assumed, each with what they come from."""
    return [{"path": item.path, "value": item.value, "from": item.origin} for item in assumed]


def notes(plans: Iterable[Sequence[str]]) -> list[dict[str, str]]:
    """The remarks of several plans as plain values, each once."""
    codes = dict.fromkeys(code for remarked in plans for code in remarked)
    return [{"code": code, "text": REMARKS[code].meaning} for code in codes]
