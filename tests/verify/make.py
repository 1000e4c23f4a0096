"""Write the reference files again from the real software: python -m tests.verify.make (needs the extra [verify]).

That of exported files needs the extra [exchange] as well: python -m pytest tests/verify -k exported.
That of Megatron-LM's arguments needs a checkout of it too, which $MEGATRON_LM names.
"""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import Any

from .real import exported_files

REFERENCE = Path(__file__).parent / "reference"
PARTS: tuple[str, ...] = (
    "parameters",
    "activations",
    "latent",
    "loss",
    "update",
    "communication",
    "gathered",
    "experts",
    "schedules",
    "ring",
    "linear",
    "compressed",
    "scan",
    "lightning",
    "kimi_delta",
    "sinks",
    "joint",
    "sharing",
    "encoder",
    "vision",
    "config_parameters",
    "config_options",
    "config_wrappers",
    "config_published",
    *(["exported_files"] if exported_files.installed() else []),
    *(["megatron_arguments"] if "MEGATRON_LM" in os.environ else []),
)


def counted(part: str) -> Any:
    """What the real software does, as plain values."""
    found = importlib.import_module(f".real.{part}", __package__).counted()
    return json.loads(json.dumps(found))


def written(found: Any) -> str:
    """The text of a reference file."""
    return json.dumps(found, indent=1) + "\n"


def reference(part: str) -> Any:
    """What it did when the reference file was written."""
    return json.loads(kept(part).read_text(encoding="utf-8"))


def kept(part: str) -> Path:
    return REFERENCE / f"{part}.json"


if __name__ == "__main__":
    for each in PARTS:
        kept(each).write_text(written(counted(each)), encoding="utf-8")
