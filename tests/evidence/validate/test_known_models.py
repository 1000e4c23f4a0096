"""What no column says of a model is that of the shipped one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.reader.library import read
from costmodel.estimate.model.shards import model_parameters
from costmodel.evidence.validate.modelled_rows import modelled
from costmodel.evidence.validate.validate import validated
from costmodel.exchange.tables.run_table import read_table
from evidence.validate.runs_of_22b import DEEPSEEK, EMPTY, MIXTRAL, SHELF, TITAN, WIRED

pytestmark = pytest.mark.usefixtures("in_its_folder")


def test_an_empty_shape_is_the_shipped_model_s(row: Any) -> None:
    """Where every cell that is there agrees; with another width it is another model."""
    cells = {"model_name": "Llama 3 8B", "layers": 32, "hidden": 4096, "heads": 32, "year": 2024, "zero_stage": 1}
    empty = dict.fromkeys(("kv_heads", "head_dim", "ffn", "vocab", "glu", "tied_embeddings"), EMPTY)
    found = modelled(row(**cells, **empty), SHELF)
    inputs = found.inputs
    (layer,) = inputs.model.layers
    assert layer.attention is not None
    assert layer.mlp is not None
    assert (layer.attention.kv_heads, layer.mlp.ffn_hidden, layer.mlp.gated, inputs.model.vocab) == (
        8,
        14336,
        True,
        128256,
    )
    assert set(empty) <= set(found.filled)
    assert found.filled["shape"] == "llama-3-8b"
    for change in ({"hidden": 4608, "head_dim": 144}, {"attention": "MHA"}, {"vocab": 32000}):
        other = modelled(row(**cells | empty | change), SHELF)
        assert "shape" not in other.filled
        assert other.inputs.model.vocab == change.get("vocab", 50257)


def test_experts_of_a_name(row: Any) -> None:
    """Mixtral 8x7B, of which nobody says that it has experts."""
    cells = {"model_name": "Mixtral 8x7B", "layers": 32, "hidden": 4096, "heads": 32, "year": 2024, "zero_stage": 1}
    cells |= {"accelerator": "h100-sxm", "arch": EMPTY}
    empty = dict.fromkeys(("kv_heads", "head_dim", "ffn", "vocab", "glu", "tied_embeddings"), EMPTY)
    found = modelled(row(**cells, **empty), SHELF)
    experts = found.inputs.model.layers[0].experts
    assert experts is not None
    assert (experts.count, experts.top_k, experts.ffn_hidden) == (8, 2, 14336)
    assert (found.filled["n_experts"], found.filled["ep"]) == ("8", "1")
    spread = modelled(row(**cells, **empty, tp=1, etp=1, global_batch=32), SHELF)
    assert spread.filled["ep"] == "8"
    sharded = modelled(row(**cells | empty | {"zero_stage": 3, "tp": 1, "etp": 1, "global_batch": 32} | TITAN), SHELF)
    assert sharded.filled["ep"] == "1"
    apart = modelled(row(**cells, **empty, **WIRED, tp=2, ep=8, gpus=16, global_batch=32), SHELF)
    assert apart.filled["etp"] == "2"
    cut = modelled(row(**cells, **empty, tp=2, ep=8, gpus=8, global_batch=32), SHELF)
    assert cut.filled["etp"] == "1"
    dense = modelled(row(**cells | empty | {"arch": "dense"}), SHELF)
    assert not dense.inputs.model.has_experts


def test_a_row_with_experts_is_the_shipped_scenario(row: Any) -> None:
    """Mixtral 8x22B, the same run as a row and as a document: the same prediction."""
    found = modelled(row(**MIXTRAL), SHELF)
    assert set(found.filled) <= {"stack", "gradients", "deduplicated", "shape"}
    name = "mixtral-8x22b-128-folded-bf16"
    ours = next(figure for figure in validated(["liu-2025"])[0].figures if figure.run == name).predicted
    assert float(found.evaluation.costs.column("step_time")[0]) == pytest.approx(ours, rel=1e-3)


def test_what_no_column_says_is_the_shipped_model(row: Any) -> None:
    found = modelled(row(**{**MIXTRAL, **DEEPSEEK}), SHELF)
    shape = found.inputs.model
    assert (found.filled["shape"], found.filled["mtp"]) == ("deepseek-v3", "1")
    assert model_parameters(shape) == model_parameters(read("model", "deepseek-v3"))
    assert shape.prediction is not None


@pytest.mark.parametrize("note", ["w/o MTP", "MoE dropless; without MTP; recipe X", "no mtp"])
def test_a_note_says_that_nothing_is_predicted_further(row: Any, note: str) -> None:
    found = modelled(row(**{**MIXTRAL, **DEEPSEEK, "notes": note}), SHELF)
    assert found.inputs.model.prediction is None
    assert "mtp" not in found.filled
    assert found.inputs.model.layers == read("model", "deepseek-v3").layers


def test_a_truncated_model_has_no_prediction_and_another_no_shape(row: Any) -> None:
    short = modelled(row(**{**MIXTRAL, **DEEPSEEK, "layers": 8}), SHELF)
    assert short.inputs.model.prediction is None
    other = modelled(row(**{**MIXTRAL, **DEEPSEEK, "hidden": 8192, "head_dim": 64}), SHELF)
    assert "shape" not in other.filled
    assert other.inputs.model.layers[1].experts.shared.ffn_hidden == 2048


@pytest.mark.parametrize(
    ("cells", "name"),
    [
        ({"model_name": "GPT OSS 120B (pretrain)", "layers": 36, "hidden": 2880, "heads": 64, "kv_heads": 8,
          "n_experts": 128, "topk": 4, "moe_ffn": 2880, "vp": 1, "pp": 2}, "gpt-oss-120b"),
        ({"model_name": "Gemma-3-12B", "layers": 48, "hidden": 3840, "heads": 16, "kv_heads": 8, "ffn": 15360,
          "glu": "true", "pp": 1}, "gemma-3-12b"),
        ({"model_name": "Nemotron-H-8B", "layers": 52, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 21504,
          "pp": 1}, "nemotron-h-8b"),
    ],
)  # fmt: skip
def test_layers_that_are_not_all_alike_are_the_shipped_model_s(row: Any, cells: dict[str, Any], name: str) -> None:
    modern = {"year": 2025, "framework": "NeMo", "zero_stage": 1, "precision": "bf16", "recompute": "none"}
    found = modelled(row(**{**modern, "tp": 2, "global_batch": 64, "head_dim": EMPTY, **cells}), SHELF)
    assert found.filled["shape"] == name
    assert found.inputs.model.layers == read("model", name).layers
    for other in ({"hidden": 4608, "moe_ffn": EMPTY}, {"layers": 2 * cells["layers"]}, {"heads": cells["heads"] // 2}):
        changed = modelled(row(**{**modern, "tp": 2, "global_batch": 64, "head_dim": 64, **cells, **other}), SHELF)
        assert changed.inputs.model.layers != read("model", name).layers


QWEN = {
    "model_name": "Qwen2.5-7B", "layers": 28, "hidden": 3584, "heads": 28, "kv_heads": 4, "ffn": 18944, "glu": "true",
    "head_dim": 128, "vocab": 152064, "tied_embeddings": "false", "tp": 2, "pp": 1, "global_batch": 64,
}  # fmt: skip


def test_what_no_column_says_of_a_dense_model_is_the_shipped_one_s(row: Any) -> None:
    """Qwen 2.5 has biases on queries, keys and values alone; a wider one of that name is another model."""
    found = modelled(row(**QWEN), SHELF)
    (kind,) = found.inputs.model.layers
    assert (found.filled["shape"], kind) == ("qwen-2.5-7b", read("model", "qwen-2.5-7b").layers[0])
    (fewer,) = modelled(row(**{**QWEN, "layers": 14}), SHELF).inputs.model.layers
    assert fewer == kind.model_copy(update={"count": 14})
    other = modelled(row(**{**QWEN, "ffn": 16384}), SHELF)
    assert "shape" not in other.filled
    assert not other.inputs.model.layers[0].attention.biases


@pytest.mark.parametrize(
    ("cells", "positions"),
    [
        ({}, "learned"),
        ({"notes": "parallel residual, rotary; mp from yml"}, "rotary"),
        ({"features": "ALiBi"}, "alibi"),
        ({"glu": "true", "notes": "no ALiBics"}, "rotary"),
        ({"model_name": "MPT-7B", "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 32, "ffn": 16384,
          "head_dim": 128, "glu": "false"}, "alibi"),
    ],
)  # fmt: skip
def test_positions_are_what_a_row_says_or_its_model_has(row: Any, cells: dict[str, Any], positions: str) -> None:
    assert modelled(row(**cells), SHELF).inputs.model.positions == positions


@pytest.mark.parametrize("name", ["llama-3-8b", "deepseek-v3", "jamba-1.5-mini"])
def test_a_name_alone_is_the_model(name: str, tmp_path: Path) -> None:
    """A table of few columns, by the words that people write; every cell that was empty is listed."""
    path = tmp_path / "few.csv"
    path.write_text(f"model,gpu,gpus,sequence,batch,tp,pp,step_time\n{name},H100,64,4096,128,8,1,9.5\n", "utf-8")
    (row,) = read_table(str(path)).rows
    found = modelled(row, SHELF)
    assert found.inputs.model == read("model", name)
    assert {"layers", "hidden", "heads"} <= set(found.filled)
    assert found.filled["shape"] == name
