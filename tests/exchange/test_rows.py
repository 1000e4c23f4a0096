"""Rows of every format: read as they are written, and every key of a scenario filled by one or named with a reason."""

from __future__ import annotations

import runpy
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from each import each

from costmodel.documents.reader.library import names
from costmodel.documents.schemas.model import Model
from costmodel.documents.schemas.rl import Rl, RlPlan
from costmodel.documents.schemas.scenario import Plan, Training
from costmodel.documents.schemas.serving import ACCEPTED, Serving, ServingPlan
from costmodel.exchange import option_rows as rows
from costmodel.exchange.detect import FORMATS as DETECTED
from costmodel.exchange.detect import RL_FORMATS
from costmodel.exchange.foreign_keys import ForeignKeys, Format
from costmodel.exchange.huggingface.families import FAMILIES
from costmodel.exchange.huggingface.family import FIELDS
from costmodel.exchange.option_rows import (
    NOTHING,
    Row,
    When,
    choice,
    nested_sections,
    option,
    option_table,
    part,
    switch,
    written,
)
from costmodel.exchange.serving import benchmark
from costmodel.exchange.serving.exported_command import ENGINES
from costmodel.exchange.training import deepspeed, maxtext, nanotron, torchtitan
from costmodel.exchange.training.file_facts import layer_of_rows
from costmodel.exchange.training.formats import LAYERED
from costmodel.explore.import_export.format_options import FORMATS
from exchange.megatron.test_megatron_arguments import keys_of
from exchange.unsaid import UNSAID

BESIDE = {f"model.{key}" for key in ("schema", "name", "title", "source", "sources", "note", "check", "published")}
OF_MODELS = [key for key in keys_of(Model, "model") if key not in BESIDE]
OF_TRAINING = [*OF_MODELS, *keys_of(Plan, "plan"), *keys_of(Training, "workload")]
OF_SERVING = ["model", *keys_of(ServingPlan, "plan"), *keys_of(Serving, "workload")]
OF_RL = ["model", *keys_of(RlPlan, "plan"), *keys_of(Rl, "workload")]
REINFORCED = {entry.name for entry in RL_FORMATS.values()}


class Stated(NamedTuple):
    """A job with one value of one key."""

    key: str
    ours: Any

    def value(self, key: str) -> Any:
        return self.ours if key == self.key else None

    def counts(self, key: str, when: When) -> bool:
        return when != "never"


def refuse(key: str, sentence: str) -> None:
    raise AssertionError(f"{key}: {sentence}")


def samples() -> Iterator[tuple[str, Row, Any]]:
    """Each row that is read and written by itself, with each value that its kind is tried with."""
    for name, entry in FORMATS.items():
        for row in entry.table.values():
            if entry.kind and row.is_stated_alone and row.when != "never" and row.kind.name != "words":
                yield from ((name, row, ours) for ours in row.kind.samples)


@each("name, row, ours", list(samples()))
def test_a_value_that_a_row_writes_is_the_one_that_it_reads(name: str, row: Row, ours: Any) -> None:
    table = {row.option: row}
    options = written(table, Stated(row.key, ours), refuse, {})
    tree: Any = {row.option: options[row.option]} if row.option in options else {}
    for stated in (
        tree,
        nested_sections(tree),
        {name: str(value) for name, value in tree.items()},
    ):  # as words of a command
        keys = ForeignKeys(stated, table, "a.yaml", "1.0")
        found = keys[row.option].value
        assert (found, keys.faults) == (ours, [])


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_samples_and_defaults_of_its_kinds(name: str) -> None:
    for row in FORMATS[name].table.values():
        if row.is_stated_alone and row.default is not None and row.kind.name != "words":
            assert row.kind.read(row.default) is not None, row.option
    assert not FORMATS[name].kind or any(each == name for each, _, _ in samples())


def above(key: str) -> set[str]:
    """A key and the mappings that it stands in."""
    parts = key.split(".")
    return {".".join(parts[: length + 1]) for length in range(len(parts))}


@pytest.mark.parametrize("name", FORMATS)
def test_every_key_of_a_scenario_is_filled_or_named(name: str) -> None:
    """A format that names its model fills its keys with it."""
    entry, keys = FORMATS[name], OF_SERVING if name in ENGINES else OF_RL if name in REINFORCED else OF_TRAINING
    stated = {*entry.elsewhere, *entry.fixed, *entry.cannot}
    inside = {part for path in entry.filled for part in above(path) if "." in part}
    assert [key for key in keys if not above(key) & (entry.filled | stated) and key not in inside] == []
    assert not entry.filled & set(entry.not_stated)
    assert {key for key in stated if key not in BESIDE} <= {part for key in keys for part in above(key)} | OF_STACKS


OF_STACKS = {"stack.trainer", "stack.rollout", "stack.executor", "stack.chunked", "stack.dispatch.two_batches",
             "stack.kernels.own_all_reduce", *(f"plan.speculation.{key}" for key in ACCEPTED), "model.stored",
             "model.stored_experts", "model.stored_cache", "model.prediction.layer",
             "model.prediction.depth"}  # fmt: skip


AS_BURSTINESS = {"workload.arrival_spread"}  # which is written as the other key for bursts, and read as that
READ_ALONE = {"workload.samples", "workload.beginnings"}  # of options that the benchmark of an export does not have


def test_what_a_benchmark_states_is_in_its_table() -> None:
    stated = {key for key, reason in ENGINES["vllm"].elsewhere.items() if "command of a benchmark" in reason}
    filled = {path for row in benchmark.TABLE.values() for path in row.fills.split()}
    assert stated - AS_BURSTINESS == filled - {"model"} - READ_ALONE
    assert stated > AS_BURSTINESS
    assert filled > READ_ALONE


def test_models_of_nanotron_fill_every_key_or_it_is_named() -> None:
    """Its models are written out, in the words of transformers."""
    pairs = set(nanotron.CLASSES.values())
    families = [
        family for family in FAMILIES if {(name, kind) for name in family.classes for kind in family.types} & pairs
    ]
    filled = {f"model.{FIELDS[name].key}" for family in families for name in family.fields if FIELDS[name].key}
    named = {key for key in nanotron.FORMAT.cannot if key.startswith("model.")} | {f"model.{key}" for key in UNSAID}
    leaves = [key for key in OF_MODELS if not any(other.startswith(f"{key}.") for other in OF_MODELS)]
    assert [key for key in leaves if not above(key) & (filled | named)] == []
    assert not filled & named


def test_models_that_are_named_are_of_the_library() -> None:
    """Their keys are those of its documents."""
    assert {*maxtext.MODELS.values(), *torchtitan.EVERY_MODEL.values()} <= set(names("model"))


def test_every_format_that_is_told_apart_has_a_table() -> None:
    by_marks = {entry.title for entry in (*ENGINES.values(), *RL_FORMATS.values())}
    titles = {entry.title for entry in FORMATS.values()} - by_marks
    apart = {"config.json of transformers", "command of a serving engine", "YAML of TensorRT-LLM"}
    assert {entry.name for entry in DETECTED} == titles | apart
    assert {entry.name for entry in LAYERED.values()} <= FORMATS.keys()


TABLE = option_table(
    option("size", "plan.tp", "count", 2),
    option("old-size", kind="count", old="size"),
    option("kept", "plan.zero", switch(3, 2)),
    option("graphs", "stack.graphs", switch(False), False),
    option("way", "plan.cp_type", choice({"ring": "p2p", "Ring": "p2p", "all": "all-gather"}, fold=True)),
    option("context", "plan.cp", "count", 1),
    part("both", "plan.dp plan.pp", "flag"),
)


def read(tree: dict[str, Any]) -> ForeignKeys:
    return ForeignKeys(tree, TABLE, "a.yaml", "1.0")


def test_rows_state_their_keys_by_themselves() -> None:
    layer = layer_of_rows(read({"size": "8", "kept": False, "graphs": "true", "both": True}), "a")
    assert {path: fact.value for path, fact in layer.facts.items()} == {
        "plan.tp": 8, "plan.zero": 2, "stack.graphs": False,
    }  # fmt: skip
    assert {path: fact.value for path, fact in layer.weak.items()} == {"plan.cp": 1}


def test_a_key_without_effect_is_not_read_and_a_word_may_be_of_either_size() -> None:
    assert "plan.cp_type" not in layer_of_rows(read({"way": "nonsense"}), "a").facts
    assert layer_of_rows(read({"way": "ALL", "context": 2}), "a").facts["plan.cp_type"].value == "all-gather"
    keys = read({"way": "nonsense", "context": 2})
    layer_of_rows(keys, "a")
    assert [fault.code for fault in keys.faults] == ["X005"]


def test_an_older_name_has_the_value_of_todays_and_its_keys() -> None:
    keys = read({"old-size": 4})
    assert layer_of_rows(keys, "a").facts["plan.tp"].value == 4
    assert ([fault.code for fault in keys.warnings], keys.losses) == (["X006"], [])
    assert TABLE["old-size"].fills == "plan.tp"


def test_what_a_row_cannot_write_is_refused_and_nothing_is_not_written() -> None:
    said: list[str] = []
    job = Stated("plan.zero", 1)
    assert written(TABLE, job, lambda key, sentence: said.append(f"{key}: {sentence}"), {}) == {}
    assert said == ["plan.zero: 1 is no value of this option"]
    assert written(TABLE, Stated("stack.graphs", True), refuse, {}) == {}
    assert written(TABLE, Stated("stack.graphs", False), refuse, {"size": 3}) == {"size": 3, "graphs": True}
    assert switch(True).read("no") == NOTHING


FILES = [path for path in Path(rows.__file__).parent.rglob("*.py") if "option_table(" in path.read_text("utf-8")]


@pytest.mark.parametrize("path", [path for path in FILES if path.name != "option_rows.py"], ids=lambda path: path.stem)
def test_an_option_stands_in_one_row_of_its_table(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twice: list[str] = []

    def counted(*entries: Row | Iterable[Row]) -> dict[str, Row]:
        every = [row for entry in entries for row in ([entry] if isinstance(entry, Row) else entry)]
        twice.extend(name for name, often in Counter(row.option for row in every).items() if often > 1)
        return option_table(every)

    monkeypatch.setattr(rows, "option_table", counted)
    runpy.run_path(str(path))
    assert twice == []


def test_an_option_is_added_in_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the row it is read, written, known and read back."""
    monkeypatch.setitem(deepspeed.TABLE, "toy.size", option("toy.size", "plan.vpp", "count", 1))
    for tree in ({"toy": {"size": 4}}, nested_sections(written(deepspeed.TABLE, Stated("plan.vpp", 4), refuse, {}))):
        layer = deepspeed.read_deepspeed(tree, "a.json")
        assert (layer.facts["plan.vpp"].value, layer.faults, layer.losses, layer.warnings) == (4, [], [], [])
        assert [(key.name, key.verdict) for key in layer.keys] == [("toy.size", "read")]
    assert not deepspeed.read_deepspeed({}, "a.json").facts.keys() & {"plan.vpp"}


def test_formats_describe_themselves() -> None:
    entry = Format("a", "A", "a 1", TABLE, fixed={"plan.order": "its own"}, cannot={"plan.tp": "not written"}, kind="Y")
    assert entry.full_name == "Y for a 1"
    assert entry.not_stated == {"plan.order": "its own"}
    assert [entry.expresses(key) for key in ("plan.tp", "plan.zero", "plan.order", "plan.ep")] == [
        False, True, True, False,
    ]  # fmt: skip
