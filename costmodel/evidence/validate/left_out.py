"""The shipped record of prediction errors with the source held out of the fit."""

from __future__ import annotations

import json
from typing import Any

from costmodel.documents.reader.folders import shipped_file

RECORD = "hardware/left_out.json"
KINDS = ("dense", "with experts")


def left_out() -> dict[str, Any]:
    """The record: its date, the number of runs, and errors by group and by source."""
    found: dict[str, Any] = json.loads(shipped_file(RECORD).read_text("utf-8"))
    return found


def left_out_by_kind() -> dict[str, Any]:
    """The same of dense models and of mixtures of experts alone, and of services."""
    found = left_out()
    kinds = {kind: found["groups"][kind] for kind in KINDS}
    return {"date": found["date"], "runs": found["runs"], **kinds, "services": found["services"]}
