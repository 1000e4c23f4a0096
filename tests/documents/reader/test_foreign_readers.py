"""A config.json where a scenario names its model: found, read, and what it leaves out stated."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.reader.library import read
from costmodel.documents.reader.load_scenario import load, vary

Faults = Callable[[Any], Any]

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
    "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": 151936, "max_position_embeddings": 40960, "tie_word_embeddings": False,
}  # fmt: skip
GREATER = {**CONFIG, "num_hidden_layers": 40}


@pytest.fixture
def folder(tmp_path: Path, run: Any) -> Path:
    """A scenario in a folder of its own, beside it a folder with a config."""
    jobs = tmp_path / "jobs"
    (jobs / "qwen").mkdir(parents=True)
    (jobs / "qwen" / "config.json").write_text(json.dumps(CONFIG, indent=1), "utf-8")
    text = run("show", "quickstart").out
    (jobs / "mine.yaml").write_text(text.replace("model: llama-3-8b  ", "model: ./qwen/config.json  "), "utf-8")
    return tmp_path


def figures(run: Any, *args: str, cwd: Path) -> dict[str, Any]:
    """The first plan of an answer, without the name of its model: that of a foreign file is its folder's."""
    found: dict[str, Any] = json.loads(run(*args, "--json", cwd=cwd).out)["plans"][0]
    return {name: value for name, value in found.items() if name != "model"}


def test_a_path_in_a_scenario_begins_in_its_folder(folder: Path, run: Any) -> None:
    library = figures(run, "estimate", "quickstart", "--set", "model=qwen-3-8b", cwd=folder)
    for name, cwd in (
        ("jobs/mine.yaml", folder),
        ("mine.yaml", folder / "jobs"),
        ("../mine.yaml", folder / "jobs/qwen"),
    ):
        assert figures(run, "estimate", name, cwd=cwd) == library


def test_a_path_on_the_command_line_begins_in_the_working_folder(folder: Path, run: Any) -> None:
    asked = ("estimate", "jobs/mine.yaml", "--set")
    library = figures(run, "estimate", "jobs/mine.yaml", cwd=folder)
    assert figures(run, *asked, "model=jobs/qwen/config.json", cwd=folder) == library
    assert run(*asked, "model=./qwen/config.json", cwd=folder).code == 2


@pytest.mark.parametrize("name", ["./jobs/qwen", "jobs/qwen/", "jobs/qwen/config.json"])
def test_a_folder_stands_for_its_config(name: str, folder: Path, run: Any) -> None:
    assert "8,190,735,360 parameters" in run("memory", name, cwd=folder).out


def test_the_working_folder_itself_may_be_that_of_a_model(folder: Path, run: Any) -> None:
    assert "8,190,735,360 parameters" in run("memory", ".", cwd=folder / "jobs/qwen").out


def test_the_answer_states_the_format_and_what_was_assumed(folder: Path, run: Any) -> None:
    shown = run("estimate", "jobs/mine.yaml", "-v", cwd=folder).out
    assert "model read from jobs/qwen/config.json: config.json of transformers, Qwen3ForCausalLM" in shown
    assert "model.layers.0.attention.qk_norm  true" in shown
    answer = json.loads(run("estimate", "jobs/mine.yaml", "--json", cwd=folder).out)
    (source,) = answer["read_from"]
    assert source["file"] == "config.json", "files are named without their folders"
    assert {"model.norm", "model.layers.0.mlp.gated"} <= {item["path"] for item in source["assumed"]}


def test_a_result_needs_no_config_any_more(folder: Path, run: Any) -> None:
    assert run("estimate", "jobs/mine.yaml", "-o", "result.json", cwd=folder).code == 0
    before = figures(run, "estimate", "jobs/mine.yaml", cwd=folder)
    (folder / "jobs/qwen/config.json").unlink()
    assert figures(run, "estimate", "result.json", cwd=folder) == before


def test_a_leaf_of_the_config_is_set_as_of_a_document(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    changed = load("jobs/mine.yaml", ["model.layers.0.count=40"])
    (folder / "more.json").write_text(json.dumps(GREATER), "utf-8")
    assert changed.model.layers == load("jobs/mine.yaml", ["model=more.json"]).model.layers
    assert vary(load("jobs/mine.yaml"), ["model.layers.0.count=40"]).model.layers == changed.model.layers
    assert read("model", "jobs/qwen").layers[0].count == 36


@pytest.mark.parametrize(
    ("change", "code", "place"),
    [
        ({"architectures": ["BertModel"]}, "X003", "jobs/qwen/config.json:3:2"),
        ({"hidden_size": "wide"}, "D006", "jobs/qwen/config.json:6:17"),
        ({"architectures": None, "model_type": None}, "X001", "jobs/qwen/config.json:1:1"),
    ],
)
def test_a_fault_stands_in_the_config(
    change: dict[str, Any], code: str, place: str, folder: Path, run: Any, faults: Faults
) -> None:
    config = folder / "jobs/qwen/config.json"
    config.write_text(json.dumps({**CONFIG, **change}, indent=1), "utf-8")
    (found,) = faults(run("estimate", "jobs/mine.yaml", cwd=folder))
    assert found.code == code
    assert found.place.split(" ")[0].split(":")[0] == place.split(":")[0]


def test_a_missing_file_is_named_as_it_was_tried(folder: Path, run: Any, faults: Faults) -> None:
    (folder / "jobs/qwen/config.json").unlink()
    (found,) = faults(run("estimate", "jobs/mine.yaml", cwd=folder))
    assert (found.code, found.marked) == ("D001", "./qwen/config.json")
    assert "'jobs/qwen/config.json'" in found.sentence


def test_json_of_ours_is_read_as_ours(folder: Path, run: Any) -> None:
    own = {
        "schema": "costmodel/model/v1", "name": "own", "title": "Own", "vocab": 32000, "hidden": 64,
        "positions": "rotary", "max_sequence": 128, "tied": False, "norm": "rmsnorm",
        "layers": [{"count": 1, "mlp": {"ffn_hidden": 64, "gated": False}}],
    }  # fmt: skip
    (folder / "own.json").write_text(json.dumps(own), "utf-8")
    assumed, said, *_ = run("memory", "own.json", cwd=folder).out.splitlines()
    assert assumed.startswith("assumed workload.kind training: ")
    assert said.startswith("Own: ")
