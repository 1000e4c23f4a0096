"""Files that start a training: what each says, several together, and what they leave open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.reader.library import DocumentReader
from costmodel.documents.reader.library import read as document
from costmodel.documents.reader.load_scenario import any_from
from costmodel.documents.text.yaml_tree import copied
from costmodel.exchange.detect import detected
from costmodel.exchange.import_result import Imported, Origin, OriginValue
from costmodel.exchange.training import deepspeed, torchtitan, transformers
from costmodel.exchange.training.file_facts import Layer
from costmodel.exchange.training.formats import read_layer
from costmodel.exchange.training.merge_training import merged_training
from costmodel.explore.import_export.import_file import GivenBesideFile, import_files
from costmodel.ground.errors import CostModelError, Fault

MEANT = Origin("assumed", "given")
SEQUENCE = "workload.sequence=4096"
OLD_OFFLOAD = {
    "train_batch_size": 8, "gradient_accumulation_steps": 1, "fp16": {"enabled": True, "loss_scale": 0},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": 7000000, "cpu_offload": True},
    "activation_checkpointing": {"partition_activations": True},
}  # fmt: skip
AUTO = {
    "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
    "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3, "overlap_comm": False},
}  # fmt: skip
WRONG = {
    "train_batch_size": 64,
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 3,
    "zero_optimization": {"stage": 1},
}
FSDP1 = """distributed_type: FSDP
mixed_precision: 'bf16'
num_processes: 2
fsdp_config:
  fsdp_sharding_strategy: FULL_SHARD
  fsdp_offload_params: false
"""
FSDP2 = """distributed_type: FSDP
fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: true
mixed_precision: bf16
num_processes: 8
"""
TITAN = """[model]
name = "llama3"
flavor = "70B"
[training]
local_batch_size = 8
seq_len = 8192
[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 8
[activation_checkpoint]
mode = "full"
"""
RECIPE = """import os
os.system("touch /tmp/planted-by-a-recipe")

def llama3_8b_mine() -> Trainer.Config:
    return Trainer.Config(
        model_spec=model_registry("8B"),
        training=TrainingConfig(
            num_tokens_per_microbatch_per_dp_rank=2 * 8192,
            num_tokens_per_train_step=1048576,
            max_context_length=8192,
        ),
        parallelism=ParallelismConfig(data_parallel_shard_degree=8, tensor_parallel_degree=2),
        activation_checkpoint=SelectiveAC.Config(),
    )
"""


def read(text: Any, world: int | None = None, **more: Any) -> Imported:
    """One text with the model, the sequence and further keys given."""
    body = text if isinstance(text, str) else json.dumps(text)
    facts = {"model": "llama-3.1-8b", "workload.sequence": 4096, "workload.precision": "bf16", **more}
    facts |= {} if world is None else {"accelerators": world}
    layer = read_layer(body, "launch", detected(body, "launch").name)
    given = {key: OriginValue(value, MEANT) for key, value in facts.items() if key not in layer.facts}
    return merged_training([layer, Layer("", given)], "launch")


def faults(text: Any, world: int | None = None, **more: Any) -> list[Fault]:
    with pytest.raises(CostModelError) as caught:
        read(text, world, **more)
    return list(caught.value.faults)


def plan(found: Imported) -> dict[str, Any]:
    return dict(found.document["plan"])


def workload(found: Imported) -> dict[str, Any]:
    return dict(found.document["workload"])


# --- DeepSpeed


def test_a_batch_that_is_no_product_is_refused_as_deepspeed_refuses_it() -> None:
    [fault] = faults(WRONG, 8)
    assert fault.code == "X005"
    assert "batch 64 is not micro-batch 4 × accumulation 3 × dp 8, 96" in fault.sentence
    assert fault.hint.endswith("at no dp is it")  # 64 is no multiple of 12


@pytest.mark.parametrize(
    "beside", [{"offload_optimizer": {"device": "cpu", "super_offload": True}},
               {"offload_optimizer": {"device": "cpu"}, "zenflow": {"overlap_step": True}}],
)  # fmt: skip
def test_an_update_beside_backward_is_read(beside: dict[str, Any]) -> None:
    found = read({"zero_optimization": {"stage": 3, **beside}, "train_micro_batch_size_per_gpu": 1}, 8)
    assert found.document["stack"]["offload"]["early"] is True


@pytest.mark.parametrize(
    ("name", "least"), [("sub_group_size", 0), ("reduce_bucket_size", 1), ("stage3_max_live_parameters", 0)]
)
def test_a_size_below_the_least_is_refused(name: str, least: int) -> None:
    batch = {"train_micro_batch_size_per_gpu": 1}
    assert read({"zero_optimization": {"stage": 3, name: least}, **batch}, 8)
    [fault] = faults({"zero_optimization": {"stage": 3, name: least - 1}, **batch}, 8)
    assert (fault.code, fault.sentence) == (
        "X005", f"zero_optimization.{name} is {least - 1}, not a number from {least}"
    )  # fmt: skip


def test_an_old_key_offloads_the_optimizer_and_its_age_is_said() -> None:
    found = read(OLD_OFFLOAD, 4)
    assert (plan(found)["offload"], plan(found)["micro_batch"], plan(found)["zero"]) == (["optimizer"], 2, 2)
    assert workload(found)["precision"] == "fp16"
    assert [fault.code for fault in found.warnings] == ["X006"]
    assert any("do not state that it recomputes" in loss.sentence for loss in found.losses)


def test_auto_leaves_a_value_to_another_file() -> None:
    found = read_layer(json.dumps(AUTO), "ds.json", deepspeed.TITLE)
    assert merged_training([found], "ds.json").missing  # batch, accelerators, type, model, sequence
    sentences = [fault.sentence for fault in merged_training([found], "ds.json").missing]
    assert "the batch is not stated" in sentences
    assert "the type to train in is not stated" in sentences
    arguments = (
        "per_device_train_batch_size: 2\ngradient_accumulation_steps: 4\nbf16: true\ngradient_checkpointing: true\n"
    )
    both = [
        found,
        read_layer(arguments, "args.yaml", transformers.TITLE),
        Layer("", {"accelerators": OriginValue(8, MEANT)}),
    ]
    together = merged_training(both, "ds.json")
    assert plan(together) == {"dp": 8, "micro_batch": 2, "zero": 3, "recompute": "full"}
    assert workload(together)["global_batch"] == 64


@pytest.mark.parametrize(("stage", "hidden"), [(1, 0), (3, None)])
def test_overlap_follows_the_stage_where_it_is_left_out(stage: int, hidden: int | None) -> None:
    text = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "zero_optimization": {"stage": stage}}
    assert read(text, 8).document.get("assume", {}).get("overlap", {}).get("dp") == hidden


# --- accelerate


def test_fsdp_of_both_versions() -> None:
    found = read(FSDP1, **{"plan.micro_batch": 1})
    assert (found.document["stack"], plan(found)["zero"], plan(found)["dp"]) == ("transformers-fsdp", 3, 2)
    found = read(FSDP2, **{"plan.micro_batch": 1})
    assert (found.document["stack"], plan(found)["zero"], plan(found)["dp"]) == ("fsdp2", 3, 8)


def test_a_key_that_is_off_by_a_letter_is_asked_about() -> None:
    found = read(FSDP2 + "num_procesess: 3\n", **{"plan.micro_batch": 1})
    [warning] = found.warnings
    assert warning.code == "X007"
    assert "num_processes" in warning.hint


# --- torchtitan


def test_a_toml_of_torchtitan() -> None:
    found = read(TITAN, 64)
    assert found.document["model"] == "llama-3.1-70b"
    assert found.document["stack"] == "fsdp2"
    expected = {"dp": 8, "tp": 8, "micro_batch": 8, "zero": 3, "recompute": "full", "sequence_parallel": True}
    assert {key: plan(found)[key] for key in expected} == expected
    assert workload(found)["global_batch"] == 64
    assert "9810191bb" in found.format


def test_a_recipe_is_read_and_not_run() -> None:
    found = read(RECIPE)
    assert not Path("/tmp/planted-by-a-recipe").exists()
    assert found.facts["accelerators"].value == 16
    assert (plan(found)["micro_batch"], workload(found)["global_batch"]) == (2, 128)
    assert workload(found)["sequence"] == 8192
    assert found.document["model"] == "llama-3.1-8b"


def test_a_recipe_whose_values_hang_on_code_is_refused() -> None:
    [fault] = faults(RECIPE.replace("2 * 8192", "int(os.environ['B'])"))
    assert fault.code == "X008"
    assert fault.place is not None
    assert fault.place.line == 8


@pytest.mark.parametrize(("each", "vpp"), [(3, 2), (6, 1)])
def test_chunks_of_a_pipeline_rank_count_the_ends(each: int, vpp: int) -> None:
    """(34 + 2) / 3 = 12 stages on 6 ranks: two chunks each."""
    pipeline = f"pipeline_parallel_degree = 6\npipeline_parallel_layers_per_stage = {each}\n"
    pipeline += "pipeline_parallel_schedule = 'Interleaved1F1B'"
    text = TITAN.replace("tensor_parallel_degree = 8", pipeline)
    layer = read_layer(text, "t.toml", torchtitan.TITLE)
    world = {"accelerators": OriginValue(48, MEANT)}
    found = merged_training([layer, Layer("", world)], "t.toml", 34)
    assert plan(found)["vpp"] == vpp
    assert plan(found)["zero"] == 2  # not resharded behind forward, in a pipeline


# --- fine-tuning

QLORA = """base_model: NousResearch/Llama-2-7b-hf
load_in_4bit: true
adapter: qlora
sequence_len: 512
lora_r: 32
gradient_accumulation_steps: 4
micro_batch_size: 4
bf16: auto
gradient_checkpointing: true
fsdp: [full_shard, auto_wrap]
fsdp_config:
  fsdp_offload_params: true
"""
MESH_OF_THREE = """base_model: Qwen/Qwen3-8B
dp_shard_size: 2
context_parallel_size: 2
tensor_parallel_size: 2
fsdp_version: 2
fsdp_config:
  reshard_after_forward: true
sequence_len: 8192
sample_packing: true
micro_batch_size: 1
bf16: true
"""
MCORE = """model_name_or_path: Qwen/Qwen3-30B-A3B
finetuning_type: full
cutoff_len: 4096
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
bf16: true
pipeline_model_parallel_size: 4
use_distributed_optimizer: true
overlap_param_gather: true
overlap_grad_reduce: true
expert_model_parallel_size: 2
recompute_granularity: full
"""


def test_adapters_of_axolotl_on_shards_that_live_on_the_host() -> None:
    found = read(QLORA, 8)
    assert workload(found)["tuning"] == {"method": "qlora", "rank": 32}
    assert (found.document["model"], found.document["stack"]) == ("NousResearch/Llama-2-7b-hf", "transformers-fsdp")
    assert (plan(found)["offload"], plan(found)["recompute"]) == (["optimizer", "parameters"], "full")
    assert workload(found)["precision"] == "bf16"
    assert workload(found)["global_batch"] == 4 * 4 * 8


@pytest.mark.parametrize(
    ("old", "new", "expected", "lost"),
    [
        ("gradient_accumulation_steps: 4", "batch_size: 32", ("global_batch", 32 * 8), None),
        ("lora_r: 32", "lora_r: 32\nload_in_8bit: true", ("sequence", 512), "8 bits"),
        ("adapter: qlora", "adapter: lora", ("tuning", {"method": "qlora", "rank": 32}), None),  # load_in_4bit
        ("gradient_checkpointing: true", "gradient_checkpointing: offload", ("sequence", 512), "live on the host"),
        ("bf16: auto", "bfloat16: true", ("precision", "bf16"), "in 16 bits"),
        ("bf16: auto", "bf16: auto\nfp8: true", ("precision", "fp8-cs"), None),
        ("fsdp: [full_shard, auto_wrap]", "fsdp: [shard_grad_op]", ("sequence", 512), None),
    ],
)
def test_words_of_axolotl(old: str, new: str, expected: tuple[str, Any], lost: str | None) -> None:
    found = read(QLORA.replace(old, new), 8)
    assert workload(found)[expected[0]] == expected[1]
    assert (plan(found)["zero"], plan(found)["recompute"]) == (2 if "shard_grad_op" in new else 3, "full")
    losses = [loss.sentence for loss in found.losses if loss.kind == "not expressible"]
    assert ([lost in sentence for sentence in losses] == [True]) if lost else not losses


def test_a_mesh_of_axolotl_says_its_accelerators() -> None:
    found = read(MESH_OF_THREE)
    assert found.facts["accelerators"].value == 8
    assert workload(found)["global_batch"] == 2
    assert (found.document["stack"], plan(found)["zero"]) == ("fsdp2", 3)


def test_llama_factory_in_bf16_alone() -> None:
    """pure_bf16 keeps no fp32, and Liger's kernels have a fused loss."""
    text = "model_name_or_path: Qwen/Qwen3-8B\nstage: sft\nfinetuning_type: full\ncutoff_len: 2048\n"
    switches = "per_device_train_batch_size: 1\npure_bf16: true\nenable_liger_kernel: true\n"
    found = read(text + switches, 1)
    expected = {"like": "ddp", "weights": "bf16", "loss": "fused"}
    assert {key: found.document["stack"][key] for key in expected} == expected


def test_llama_factory_on_megatron() -> None:
    found = read(MCORE, 8)
    assert found.document["stack"] == "megatron-core"
    expected = {"pp": 4, "ep": 2, "dp": 2, "zero": 1, "recompute": "full"}
    assert {key: plan(found)[key] for key in expected} == expected
    assert workload(found)["global_batch"] == 16


# --- several files


def test_two_engines_contradict_each_other_at_both_places(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(json.dumps(AUTO))
    (tmp_path / "acc.yaml").write_text(FSDP1)
    names = [str(tmp_path / name) for name in ("ds.json", "acc.yaml")]
    with pytest.raises(CostModelError) as caught:
        import_files(names, GivenBesideFile(node="dgx-h100", nodes=1, assignments=("model=llama-3.1-8b",)))
    [fault] = [fault for fault in caught.value.faults if fault.code == "X004"]
    assert fault.place is not None
    assert (fault.place.file, fault.place.line) == (names[1], 1)  # far from the working folder, and named to be printed
    assert fault.sentence == f"stack is 'fsdp1' here and 'deepspeed' in {names[0]}:1"


# Who trains over an engine, and whose layers therefore run: of transformers, whose attention is fused, or the engine's.
ENGINE = '{"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}, "train_micro_batch_size_per_gpu": 1}'
ARGS = "per_device_train_batch_size: 1\nbf16: true\nmax_steps: 10\ngradient_accumulation_steps: 1\noutput_dir: out\n"
ADAM = "optim: adamw_torch\n"
EAGER = f"{ADAM}attn_implementation: eager\n"
ACCELERATED = "distributed_type: DEEPSPEED\nnum_processes: 8\nnum_machines: 1\nmixed_precision: bf16\n"
HF = json.dumps({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 8, "intermediate_size": 1024, "vocab_size": 1000, "hidden_act": "silu",
    "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
})  # fmt: skip
NAMED = "model=llama-3.1-8b"


@pytest.mark.parametrize(
    ("files", "given", "stack", "attention"),
    [
        ({"ds.json": ENGINE}, (NAMED,), "deepspeed", "unfused"),
        ({"ds.json": ENGINE, "config.json": HF}, (), "transformers-deepspeed", "flash-2"),
        ({"ds.json": ENGINE, "args.yaml": ARGS + ADAM}, (NAMED,), "transformers-deepspeed", "flash-2"),
        ({"acc.yaml": ACCELERATED, "args.yaml": ARGS + ADAM}, (NAMED,), "transformers-deepspeed", "flash-2"),
        ({"acc.yaml": FSDP1, "args.yaml": ARGS + ADAM}, (NAMED,), "transformers-fsdp", "sdpa"),
        ({"ds.json": ENGINE, "args.yaml": ARGS + EAGER}, (NAMED,), "transformers-deepspeed", "unfused"),
        ({"acc.yaml": ACCELERATED, "args.yaml": ARGS + ADAM}, (NAMED, "stack=deepspeed"), "deepspeed", "unfused"),
    ],
)
def test_models_of_transformers_are_priced_with_their_own_kernels(
    files: dict[str, str], given: tuple[str, ...], stack: str, attention: str, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    beside = GivenBesideFile(node="dgx-h100", nodes=None if "acc.yaml" in files else 1, assignments=(*given, SEQUENCE))
    if "acc.yaml" in files and files["acc.yaml"] == FSDP1:
        (tmp_path / "acc.yaml").write_text(FSDP1.replace("num_processes: 2", "num_processes: 8"))
    found = import_files([str(tmp_path / name) for name in files], beside).found
    written = any_from(DocumentReader(), copied(found.document), "mine.yaml", ()).stack
    assert (written.name, written.kernels.attention) == (stack, attention)


@pytest.mark.parametrize(
    ("name", "given", "optimizer"),
    [
        ("paged_adamw_32bit", "", "paged-adamw"),
        ("paged_adamw_8bit", "", "paged-adam-8bit"),
        ("apollo_adamw", "", None),
        ("apollo_adamw", "workload.optimizer=lion", "lion"),
    ],
)
def test_an_optimizer_that_is_not_known_can_be_given_beside_the_file(
    name: str, given: str, optimizer: str | None, tmp_path: Path
) -> None:
    (tmp_path / "args.yaml").write_text(f"{ARGS}optim: {name}\n")
    more = tuple(filter(None, (NAMED, SEQUENCE, given)))
    beside = GivenBesideFile(node="dgx-h100", nodes=1, assignments=more)
    if optimizer is not None:
        found = import_files([str(tmp_path / "args.yaml")], beside).found
        assert workload(found)["optimizer"] == optimizer
        assert document("optimizer", optimizer).moments > 0
        return
    with pytest.raises(CostModelError) as caught:
        import_files([str(tmp_path / "args.yaml")], beside)
    [fault] = caught.value.faults
    assert (fault.code, fault.sentence) == ("X003", f"optim {name}: its memory per parameter is not known here")
    assert fault.hint.startswith("--set workload.optimizer=adamw")


def test_a_file_that_another_one_names_is_not_quoted_from_far_away(tmp_path: Path) -> None:
    text = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config: {deepspeed_config_file: private.json}\n"
    (tmp_path / "acc.yaml").write_text(text)
    (tmp_path / "private.json").write_text('{"zero_optimization": {"stage": "hunter2"}}')
    with pytest.raises(CostModelError) as caught:
        import_files([str(tmp_path / "acc.yaml")], GivenBesideFile(node="dgx-h100"))
    shown = " ".join(
        f"{fault.sentence} {fault.hint} {fault.place and fault.place.text}" for fault in caught.value.faults
    )
    assert "the file breaks a rule of its own format; the text is not shown" in shown
    assert "hunter2" not in shown


def test_a_file_that_is_named_and_not_there_is_named_with_its_path(tmp_path: Path) -> None:
    text = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  deepspeed_config_file: ds/z3.json\n"
    (tmp_path / "acc.yaml").write_text(text)
    with pytest.raises(CostModelError) as caught:
        import_files([str(tmp_path / "acc.yaml")], GivenBesideFile(node="dgx-h100"))
    [fault] = caught.value.faults
    assert fault.code == "X002"
    (tmp_path / "ds").mkdir()
    (tmp_path / "ds" / "z3.json").write_text(json.dumps(AUTO))
    more = ("model=llama-3.1-8b", "workload.sequence=4096", "plan.micro_batch=1", "workload.precision=bf16")
    found = import_files([str(tmp_path / "acc.yaml")], GivenBesideFile(node="dgx-h100", assignments=more)).found
    assert (plan(found)["zero"], found.document["cluster"]["nodes"]) == (3, 1)
    both = [str(tmp_path / "acc.yaml"), str(tmp_path / "ds" / ".." / "ds" / "z3.json")]
    twice = import_files(both, GivenBesideFile(node="dgx-h100", assignments=more)).found
    assert [loss.sentence for loss in twice.losses] == [loss.sentence for loss in found.losses]
    assert [key.name for key in twice.keys] == [key.name for key in found.keys]


AXOLOTL = (
    "base_model: NousResearch/Meta-Llama-3-8B\nsequence_len: 4096\nmicro_batch_size: 2\nbf16: true\n"
    "optimizer: adamw_torch\ndeepspeed: {path}\n"
)


@pytest.mark.parametrize(
    ("path", "zero", "offload"),
    [
        ("deepspeed_configs/zero1.json", 1, None),
        ("/workspace/axolotl/deepspeed_configs/zero2.json", 2, ["optimizer"]),
        ("deepspeed_configs/zero3_bf16_cpuoffload_all.json", 3, ["optimizer", "parameters"]),
    ],
)
def test_a_configuration_that_the_trainer_ships_is_known_without_its_file(
    path: str, zero: int, offload: list[str] | None, tmp_path: Path
) -> None:
    (tmp_path / "a.yml").write_text(AXOLOTL.format(path=path))
    found = import_files([str(tmp_path / "a.yml")], GivenBesideFile(node="dgx-h100", nodes=1)).found
    assert (plan(found)["zero"], plan(found).get("offload")) == (zero, offload)
    [warning] = found.warnings
    assert warning.sentence.startswith(f"{path} is not here: read as axolotl, commit")
    assert (warning.place.line, warning.code) == (6, "X006")


def test_a_file_that_is_there_goes_before_the_one_that_a_trainer_ships(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(AXOLOTL.format(path="deepspeed_configs/zero2.json"))
    (tmp_path / "deepspeed_configs").mkdir()
    config = {"zero_optimization": {"stage": 3, "sub_group_size": 0, "stage3_max_live_parameters": 0}}
    (tmp_path / "deepspeed_configs" / "zero2.json").write_text(json.dumps(config))
    found = import_files([str(tmp_path / "a.yml")], GivenBesideFile(node="dgx-h100", nodes=1)).found
    assert plan(found)["zero"] == 3
    assert not found.warnings
    assert found.document["stack"]["states"]["sub_group"] == "1 parameters"  # 0: one tensor at a time
