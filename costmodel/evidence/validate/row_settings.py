"""Scenario keys that a row states in addition to its columns: `assume.overlap.tp=0;plan.order=tp-cp-dp-pp`."""

from __future__ import annotations

from typing import Any

from costmodel.documents.keys.overrides import assign
from costmodel.documents.reader.library import DocumentReader
from costmodel.evidence.validate.imputation import Filling
from costmodel.evidence.validate.skip_reasons import CannotModel
from costmodel.ground.errors import CostModelError

COLUMN = "settings"
BETWEEN = ";"
TAKEN = ("model", "cluster", "workload", "stack", "plan", "assume")  # parts of a scenario that a row may set
_NAMED_OTHERWISE = {"node": "nic_gbps_per_gpu"}  # keys, and the imputed cell that they state


def settings_of(filling: Filling) -> list[str]:
    """The settings of a row, each as --set takes it."""
    settings = [text.strip() for text in filling.row.text(COLUMN).split(BETWEEN)]
    found = [text for text in settings if text]
    for text in found:
        path, _, value = text.partition("=")
        if path.split(".")[0].strip() not in TAKEN or not value:
            raise CannotModel("V006", f"{COLUMN}: '{text[:80]}' is no key=value of {', '.join(TAKEN)}")
    return found


def put_settings(tree: dict[str, Any], filling: Filling) -> None:
    """Put the settings of a row into its scenario; what they state is no longer imputed."""
    reader = DocumentReader()
    settings = settings_of(filling)
    try:
        assign(tree, settings, lambda kind, name, place: reader.tree(kind, name, place)[0])
    except CostModelError as error:
        raise CannotModel("V006", f"{COLUMN}: {error.faults[0].sentence}") from None
    for text in settings:
        leaf = text.partition("=")[0].strip().rpartition(".")[2]
        filling.filled.pop(_NAMED_OTHERWISE.get(leaf, leaf), None)
