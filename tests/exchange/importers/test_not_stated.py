"""Every key of a model, a plan and a workload is filled by each launch format, or named as one that it does not state.

A format that names its model fills its keys with it; that the table of config.json is whole, and Megatron-LM's, is
tested beside those.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from costmodel.documents.reader.library import names
from costmodel.documents.schemas.model import Model
from costmodel.documents.schemas.plan import Plan
from costmodel.documents.schemas.scenario import Training
from costmodel.documents.schemas.serving.serving_plan import ServingPlan
from costmodel.documents.schemas.serving.serving_workload import Serving
from costmodel.exchange.formats import (
    NANOTRON,
)
from costmodel.exchange.importers.huggingface.families import FAMILIES
from costmodel.exchange.importers.huggingface.fields import FIELDS, UNSAID
from costmodel.exchange.importers.launch import maxtext, nanotron, torchtitan_keys
from costmodel.exchange.importers.launch.not_stated import NOT_STATED
from costmodel.exchange.importers.launch.read import LAYERED
from costmodel.exchange.importers.serving import benchmark_commands
from costmodel.exchange.importers.serving.not_in_commands import NOT_STATED_BY_ENGINES
from costmodel.exchange.values.foreign_keys import ForeignKey
from costmodel.explore.launch_formats import ENGINES as ENGINE_NAMES
from costmodel.explore.launch_formats import TABLES as FORMATS
from exchange.importers.test_megatron_arguments import keys_of

BY_NAME = dict(FORMATS.values())
TABLES = {title: table for title, (name, table) in FORMATS.items() if name not in ENGINE_NAMES}
ENGINES = {name: BY_NAME[name] for name in ENGINE_NAMES}
BESIDE = {f"model.{key}" for key in ("schema", "name", "title", "source", "sources", "note", "check", "published")}
OF_MODELS = [key for key in keys_of(Model, "model") if key not in BESIDE]
OF_TRAINING = [*keys_of(Plan, "plan"), *keys_of(Training, "workload")]
OF_SERVING = [*keys_of(ServingPlan, "plan"), *keys_of(Serving, "workload")]


def above(key: str) -> set[str]:
    """A key and the mappings that it stands in."""
    parts = key.split(".")
    return {".".join(parts[: length + 1]) for length in range(len(parts))}


def paths(table: Mapping[str, ForeignKey]) -> set[str]:
    """The keys that a table fills."""
    return {path for rule in table.values() for path in rule.fills.split()}


def check(keys: list[str], filled: set[str], named: set[str]) -> None:
    """Each key is in one of the two, or a mapping that it stands in; nothing is in both, or no key of ours."""
    assert not [key for key in keys if not above(key) & (filled | named)]
    assert not named & filled
    assert named <= {part for key in keys for part in above(key)}


@pytest.mark.parametrize("format", TABLES)
def test_every_key_is_filled_or_named(format: str) -> None:
    filled = paths(TABLES[format])
    whole = {".".join(path.split(".")[:2]) for path in filled}  # plan.speculation.tokens fills a part of its mapping
    check([*OF_MODELS, *OF_TRAINING], filled | whole, set(NOT_STATED[format]))


@pytest.mark.parametrize("engine", ENGINES)
def test_every_key_is_filled_by_the_command_of_an_engine_or_named(engine: str) -> None:
    check(["model", *OF_SERVING], paths(ENGINES[engine]), set(NOT_STATED_BY_ENGINES[engine]))


def test_what_a_benchmark_states_is_in_its_table() -> None:
    stated = {key for key, reason in NOT_STATED_BY_ENGINES["vllm"].items() if "command of a benchmark" in reason}
    assert stated == paths(benchmark_commands.TABLE) - {"model"}


def test_models_of_nanotron_fill_every_key_or_it_is_named() -> None:
    """Its models are written out, in the words of transformers."""
    pairs = set(nanotron.CLASSES.values())
    families = [
        family for family in FAMILIES if {(name, kind) for name in family.classes for kind in family.types} & pairs
    ]
    filled = {f"model.{FIELDS[name].key}" for family in families for name in family.fields if FIELDS[name].key}
    named = {key for key in NOT_STATED[NANOTRON] if key.startswith("model.")} | {f"model.{key}" for key in UNSAID}
    leaves = [key for key in OF_MODELS if not any(other.startswith(f"{key}.") for other in OF_MODELS)]
    assert [key for key in leaves if not above(key) & (filled | named)] == []
    assert not filled & named


def test_models_that_are_named_are_of_the_library() -> None:
    """Their keys are those of its documents."""
    assert {*maxtext.MODELS.values(), *torchtitan_keys.EVERY_MODEL.values()} <= set(names("model"))


def test_every_launch_format_has_a_table() -> None:
    assert set(TABLES) == set(NOT_STATED) == set(LAYERED)
    assert set(ENGINES) == set(NOT_STATED_BY_ENGINES)
