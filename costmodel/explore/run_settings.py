"""What a scenario states and no column of a table of measured runs has, as the cell `settings`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from costmodel.evidence.validate.row_settings import BETWEEN

_IN_COLUMNS = {
    "workload": ("kind", "sequence", "global_batch", "precision"),
    "plan": (
        *("dp", "tp", "pp", "vpp", "cp", "ep", "etp", "zero", "sequence_parallel", "micro_batch", "schedule"),
        *("recompute", "recompute_layers"),
    ),
    "stack": ("schema", "name", "title", "like", "source", "sources"),
    "model": ("schema", "name", "title", "source", "sources", "vocab", "hidden", "tied", "layers"),
    "cluster": ("nodes",),
}
_OF_NO_STEP = ("tokens", "critical_batch", "learning_rate", "price", "server_price")  # of the whole run, or of its cost


def settings_cell(scenario: Mapping[str, Any]) -> str | None:
    """The keys of a scenario that columns do not have; none where they have all."""
    found = list(_settings(scenario))
    return BETWEEN.join(f"{path}={_text(value)}" for path, value in found) or None


def _settings(scenario: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for part in ("model", "cluster", "workload", "stack", "plan", "assume"):
        held, left_out = scenario.get(part), (*_IN_COLUMNS.get(part, ()), *_OF_NO_STEP)
        if part == "model" and isinstance(held, str):
            yield part, held
        for key, value in held.items() if isinstance(held, Mapping) else ():
            if key not in left_out:
                yield from _leaves(f"{part}.{key}", value)


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}", inner)
    else:
        yield path, value


def _text(value: Any) -> str:
    """A value as --set takes it."""
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)
