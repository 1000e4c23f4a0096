"""Plan keys that the command line sets: a search holds each of them, unless its space lists the key.

The keys under `plan:` in the scenario's file are the user's own plan, which a search ranks among the others. A key from
`--set plan.KEY=…` is a constraint. `search:` takes precedence over both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any

from costmodel.documents.keys.overrides import full
from costmodel.documents.schemas.scenario import Plan, Space
from costmodel.ground.errors import value_text
from costmodel.ground.record import record

_PRECISION = "workload.precision"
_MODE_OF = {"recompute_modules": "selective", "recompute_layers": "full"}
_ENDS = ("first_stage_layers", "last_stage_layers")


@record
class HeldKeys:
    """The plan keys that the command line fixes in a search, the remaining space, and the conflicts.

    values: plan keys with the value that every plan of the search has. conflicts: a sentence for each assigned key that
    is not fixed, or only in part. all_keys: whether the command line gave every plan key, so that there is only one
    plan to rank.
    """

    values: dict[str, Any] = field(default_factory=dict)
    space: Space = field(default_factory=Space.model_construct)
    conflicts: tuple[str, ...] = ()
    all_keys: bool = False


def held_keys(plan: Plan | None, search: Space | None, precision: str, assignments: Iterable[str]) -> HeldKeys:
    """The plan keys that assignments on the command line fix in a search."""
    space, paths = search or Space.model_construct(), [full(text.partition("=")[0].strip()) for text in assignments]
    chosen = _chosen_keys(plan, paths)
    listed = {key: there for key in chosen if (there := getattr(space, key)) is not None}
    values = {key: value for key, value in chosen.items() if key not in listed}
    apart = {key: there for key, there in listed.items() if there != [chosen[key]]}
    conflicts = [_why_not_held(f"plan.{key}", chosen[key], key, there) for key, there in apart.items()]
    if _PRECISION in paths and space.precision is not None and space.precision != [precision]:
        conflicts.append(_why_not_held(_PRECISION, precision, "precision", space.precision))
    update: dict[str, Any] = {key: [value] for key, value in values.items()}
    for narrow in (_recompute_conflicts, _end_layer_conflicts):
        conflicts += narrow(values, space, update)
    all_keys = plan is not None and bool(chosen) and "plan" not in paths and plan.model_fields_set <= {*chosen}
    return HeldKeys(values, space.model_copy(update=update), tuple(conflicts), all_keys)


def _chosen_keys(plan: Plan | None, paths: Iterable[str]) -> dict[str, Any]:
    """The plan keys that assignments set to a value; null does not count."""
    if plan is None:
        return {}
    named = {path.split(".")[1] for path in paths if path.startswith("plan.")}
    whole = "plan" in paths
    keys = (key for key in Space.model_fields if key in plan.model_fields_set and (whole or key in named))
    return {key: value for key in keys if (value := getattr(plan, key)) is not None}


def _why_not_held(path: str, value: Any, key: str, values: Iterable[Any]) -> str:
    """The reason why a key that the search space lists is not fixed."""
    there = ", ".join(map(value_text, values))
    held = f"--set search.{key}=[{value_text(value)}] fixes it"
    return f"{path}={value_text(value)} is not fixed, because search.{key} lists {there}; {held}"


def _recompute_conflicts(values: dict[str, Any], space: Space, update: dict[str, Any]) -> Iterator[str]:
    """Conflicts of the recompute mode with its options: modules need `selective`, a layer count needs `full`."""
    for key, mode in _MODE_OF.items():
        other = values.get("recompute", mode) != mode
        if key in values and other:
            mode_set = _setting_text(values, "recompute")
            yield f"{_setting_text(values, key)} cannot be combined with {mode_set}: it needs recompute {mode}"
            del values[key]
            update[key] = None
        elif other and getattr(space, key) is not None:
            yield f"search.{key} is not tried, because {_setting_text(values, 'recompute')} is fixed"
            update[key] = None
        elif key in values and "recompute" not in values:
            if space.recompute is None:
                update["recompute"] = [mode]
            elif space.recompute != [mode]:
                modes, held = ", ".join(space.recompute), _setting_text(values, key)
                yield f"{held} is fixed for recompute {mode} alone, because search.recompute lists {modes}"


def _end_layer_conflicts(values: dict[str, Any], space: Space, update: dict[str, Any]) -> Iterator[str]:
    """Conflicts of `split` with the layers of the first or last stage; such layers take the place of a split."""
    ends = [key for key in _ENDS if key in values]
    listed = [key for key in _ENDS if getattr(space, key) is not None]
    if ends and "split" in values:
        taken = _setting_text(values, ends[0])
        yield f"{_setting_text(values, 'split')} cannot be combined with {taken}, which replaces it"
        del values["split"]
        update["split"] = []
    elif ends and space.split is not None:
        splits = ", ".join(space.split)
        yield f"{_setting_text(values, ends[0])} is not fixed for every plan, because search.split lists {splits}"
    elif ends:
        update["split"] = []
    elif "split" in values and listed:
        yield f"search.{listed[0]} is not tried, because {_setting_text(values, 'split')} is fixed"
        update |= dict.fromkeys(listed)


def _setting_text(values: dict[str, Any], key: str) -> str:
    return f"plan.{key}={value_text(values[key])}"
