"""Parts that JSON answers of every workload have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from costmodel.estimate.shared.remarks import REMARKS

if TYPE_CHECKING:
    from costmodel.documents.schemas.default_values import Assumption, FlagQuestion


def known(value: float) -> float | None:
    """A figure, or nothing where it is not known or has no end, which JSON cannot hold."""
    return float(value) if math.isfinite(value) else None


def plain(tree: Any) -> Any:
    """A document tree as plain JSON values."""
    if isinstance(tree, dict):
        return {str(key): plain(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [plain(value) for value in tree]
    for kind in (bool, str, int, float):
        if isinstance(tree, kind):
            return kind(tree)
    return tree


def flags_json(asked: FlagQuestion) -> dict[str, Any]:
    """The flags that an answer was asked with, what they leave to defaults, and what they replace."""
    return {"words": list(asked.words), "assumed": assumed_json(asked.assumed), "remarks": list(asked.remarks)}


def assumed_json(assumed: Iterable[Assumption]) -> list[dict[str, str]]:
    """Values that are assumed, each with what they come from."""
    return [{"path": item.path, "value": item.value, "from": item.origin} for item in assumed]


def notes(plans: Iterable[Sequence[str]]) -> list[dict[str, str]]:
    """Every remark on one of the plans once."""
    codes = dict.fromkeys(code for remarked in plans for code in remarked)
    return [{"code": code, "text": REMARKS[code].meaning} for code in codes]
