"""Every key of a plan and of a workload is filled by each launch format, or named as one that it does not state."""

from __future__ import annotations

import pytest

from costmodel.documents.schemas.plan import Plan
from costmodel.documents.schemas.scenario import Training
from costmodel.exchange.formats import (
    ACCELERATE,
    ARGUMENTS,
    AXOLOTL,
    BRIDGE,
    DEEPSPEED,
    LLAMA_FACTORY,
    MAXTEXT,
    NANOTRON,
    TORCHTITAN,
    TORCHTUNE,
)
from costmodel.exchange.importers.launch import (
    accelerate,
    axolotl,
    bridge,
    deepspeed,
    llama_factory,
    maxtext,
    nanotron,
    torchtitan_keys,
    torchtune,
    training_arguments,
)
from costmodel.exchange.importers.launch.not_stated import NOT_STATED
from costmodel.exchange.importers.launch.read import LAYERED
from exchange.importers.test_megatron_arguments import keys_of

TABLES = {
    ACCELERATE: accelerate.TABLE, ARGUMENTS: training_arguments.TABLE, AXOLOTL: axolotl.TABLE, BRIDGE: bridge.TABLE,
    DEEPSPEED: deepspeed.TABLE, LLAMA_FACTORY: llama_factory.TABLE, MAXTEXT: maxtext.TABLE, NANOTRON: nanotron.TABLE,
    TORCHTITAN: torchtitan_keys.TABLE, TORCHTUNE: torchtune.TABLE,
}  # fmt: skip
KEYS = ["model", *keys_of(Plan, "plan"), *keys_of(Training, "workload")]


def above(key: str) -> set[str]:
    """A key and the mappings that it stands in."""
    parts = key.split(".")
    return {".".join(parts[: length + 1]) for length in range(len(parts))}


@pytest.mark.parametrize("format", TABLES)
def test_every_key_is_filled_or_named(format: str) -> None:
    filled = {path for rule in TABLES[format].values() for path in rule.fills.split()}
    whole = {".".join(path.split(".")[:2]) for path in filled}  # plan.speculation.tokens fills a part of its mapping
    named = set(NOT_STATED[format])
    assert not [key for key in KEYS if not above(key) & (filled | whole | named)]
    assert not named & filled
    assert named <= {part for key in KEYS for part in above(key)}


def test_every_launch_format_has_a_table() -> None:
    assert set(TABLES) == set(NOT_STATED) == set(LAYERED)
