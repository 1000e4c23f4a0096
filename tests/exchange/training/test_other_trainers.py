"""nanotron, torchtune and MaxText: what each of their words says, with figures computed apart from the reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costmodel.explore.import_export.import_file import GivenBesideFile, ImportedFile, import_files
from costmodel.ground.errors import CostModelError

NANOTRON = """# a small model
model:
  dtype: bfloat16
  make_vocab_size_divisible_by: 1
  model_config: {hidden_act: silu, hidden_size: 2048, intermediate_size: 11008, is_llama_config: true,
    max_position_embeddings: 128256, num_attention_heads: 16, num_hidden_layers: 28, num_key_value_heads: 2,
    tie_word_embeddings: true, vocab_size: 128256}
optimizer:
  accumulate_grad_in_fp32: true
  optimizer_factory: {name: adamW}
  zero_stage: 0
parallelism: {dp: 4, expert_parallel_size: 1, pp: 1, pp_engine: 1f1b, tp: 2, tp_mode: REDUCE_SCATTER}
tokens: {batch_accumulation_per_replica: 1, micro_batch_size: 3, sequence_length: 4096, train_steps: 2000}
"""
MAXTEXT = """base_config: "base.yml"
model_name: "llama3-70b"
hardware: "gpu"
per_device_batch_size: 4
max_target_length: 8192
remat_policy: "full"
ici_fsdp_parallelism: 8
dcn_fsdp_parallelism: 2
dcn_data_parallelism: 1
"""
TORCHTUNE = """model: {_component_: torchtune.models.llama3_1.llama3_1_70b}
output_dir: /tmp/out
batch_size: 2
gradient_accumulation_steps: 1
optimizer: {_component_: torch.optim.AdamW, lr: 2e-5, fused: false}
enable_activation_checkpointing: true
fsdp_cpu_offload: true
dtype: bf16
tokenizer: {_component_: a.b, path: "${output_dir}/x", max_seq_len: null}
"""


def read(text: str, path: Path, *given: str, nodes: int | None = None) -> ImportedFile:
    file = path / "config.yaml"
    file.write_text(text, "utf-8")
    return import_files([str(file)], GivenBesideFile("dgx-h100", nodes, None, False, given))


def document(text: str, path: Path, *given: str, nodes: int | None = None) -> dict[str, Any]:
    return dict(read(text, path, *given, nodes=nodes).found.document)


def test_nanotron(tmp_path: Path) -> None:
    found = read(NANOTRON, tmp_path)
    # Tied: one table of the vocabulary; attention with two heads of keys and values; three matrices; two norms.
    layer = 2 * 2048 * 2048 + 2 * 2048 * 256 + 3 * 2048 * 11008 + 2 * 2048
    assert found.parameters == 128256 * 2048 + 28 * layer + 2048 == 2_420_754_432
    tree = found.found.document
    assert tree["workload"]["global_batch"] == 3 * 1 * 4
    assert tree["cluster"] == {"node": "dgx-h100", "nodes": 1}  # 4 × 2 accelerators
    plan = tree["plan"]
    assert [plan[key] for key in ("dp", "tp", "schedule", "zero")] == [4, 2, "1f1b", 0]
    assert (plan["sequence_parallel"], plan["recompute"]) == (True, "none")
    assert found.found.origins["model.hidden"].place.line == 5  # type: ignore[union-attr]


def test_nanotrons_defaults_are_its_own(tmp_path: Path) -> None:
    stated = "pp: 1, pp_engine: 1f1b, tp: 2, tp_mode: REDUCE_SCATTER"
    text = NANOTRON.replace(stated, "pp: 2, tp: 1, recompute_layer: true")
    plan = document(text, tmp_path)["plan"]
    assert [plan[key] for key in ("schedule", "sequence_parallel", "recompute")] == ["gpipe", False, "full"]
    with pytest.raises(CostModelError) as caught:
        read(NANOTRON.replace("hidden_act: silu,", "hidden_act: silu, moe_config: {num_experts: 8},"), tmp_path)
    assert caught.value.faults[0].code == "X003"


def test_maxtext(tmp_path: Path) -> None:
    tree = document(MAXTEXT, tmp_path)
    assert (tree["model"], tree["stack"], tree["cluster"]["nodes"]) == ("llama-3-70b", "maxtext", 2)
    assert tree["workload"]["global_batch"] == 4 * 16
    assert [tree["plan"][key] for key in ("dp", "zero", "recompute", "micro_batch")] == [16, 3, "full", 4]


def test_slices_of_maxtext_that_nothing_counts_are_copies(tmp_path: Path) -> None:
    """What is left of the devices beside the shards holds copies: dcn_data_parallelism is -1 where it is left out."""
    for text in (MAXTEXT.replace("dcn_data_parallelism: 1", "dcn_data_parallelism: -1"),
                 MAXTEXT.replace("dcn_data_parallelism: 1\n", "")):  # fmt: skip
        plan = document(text, tmp_path, nodes=8)["plan"]
        assert [plan.get(key) for key in ("dp", "dp_replicate", "zero")] == [64, 4, 3]
        plan = document(text, tmp_path, nodes=2)["plan"]
        assert [plan.get(key) for key in ("dp", "dp_replicate")] == [16, None]
    with pytest.raises(CostModelError) as caught:
        document(MAXTEXT.replace("dcn_data_parallelism: 1\n", ""), tmp_path, nodes=3)
    assert caught.value.faults[0].code == "X005"


def test_maxtext_shares_a_batch_among_the_devices_of_a_replica(tmp_path: Path) -> None:
    text = MAXTEXT.replace("ici_fsdp_parallelism: 8", "ici_fsdp_parallelism: 2\nici_tensor_parallelism: 4")
    tree = document(text.replace("size: 4", "size: 0.5"), tmp_path)
    assert tree["workload"]["global_batch"] == 8  # half a sequence for each of 16 devices
    assert [tree["plan"][key] for key in ("tp", "dp", "micro_batch")] == [4, 4, 2]
    with pytest.raises(CostModelError) as caught:
        read(text.replace("size: 4", "size: 0.3"), tmp_path)
    assert caught.value.faults[0].code == "X005"
    rest = MAXTEXT.replace("ici_fsdp_parallelism: 8", "ici_fsdp_parallelism: -1")
    assert document(rest, tmp_path, nodes=4)["plan"]["dp"] == 32
    saved = document(MAXTEXT.replace('"full"', "save_dot_except_mlp"), tmp_path)
    assert saved["plan"]["recompute"] == "selective"


def test_torchtune(tmp_path: Path) -> None:
    with pytest.raises(CostModelError) as caught:
        read(TORCHTUNE, tmp_path)
    assert [fault.sentence.split()[1] for fault in caught.value.faults] == ["number", "tokens"]
    found = read(TORCHTUNE, tmp_path, "workload.sequence=8192", nodes=2).found
    tree = found.document
    assert (tree["model"], tree["stack"]) == ("llama-3.1-70b", "torchtune")
    assert (tree["plan"]["zero"], tree["plan"]["offload"]) == (3, ["optimizer", "parameters"])
    assert found.origins["stack"].text == "weights, gradients and moments in bf16"


def test_adapters_of_torchtune_are_in_the_builders_name(tmp_path: Path) -> None:
    text = TORCHTUNE.replace("llama3_1_70b}", "qlora_llama3_1_8b, lora_rank: 64}").replace("null", "2048")
    tree = document(text.replace("torch.optim.AdamW", "bitsandbytes.optim.PagedAdamW8bit"), tmp_path, nodes=1)
    assert tree["workload"]["tuning"] == {"method": "qlora", "rank": 64}
    assert (tree["model"], tree["workload"]["optimizer"]) == ("llama-3.1-8b", "paged-adam-8bit")
