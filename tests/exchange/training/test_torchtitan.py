"""torchtitan through its generations: older spellings, defaults of each, recipes with names and settings, flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.reader.load_scenario import load
from costmodel.exchange.import_result import Imported
from costmodel.explore.import_export.import_file import GivenBesideFile, import_files
from costmodel.ground.errors import CostModelError

FIRST = """[model]
name = "llama3"
flavor = "70B"
[training]
batch_size = 8
seq_len = 8192
data_parallel_degree = -1
tensor_parallel_degree = 4
enable_float8_linear = true
[experimental]
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "1F1B"
pipeline_parallel_microbatches = 4
[activation_checkpoint]
mode = "full"
"""
TODAY = """[model]
name = "qwen3"
flavor = "8B"
[training]
local_batch_size = 2
seq_len = 4096
[parallelism]
tensor_parallel_degree = 2
"""
RECIPE = """from torchtitan.config import ParallelismConfig, TrainingConfig

SEQUENCE = 4096

def llama3_8b() -> Trainer.Config:
    model_spec = model_registry("8B", converters=[Float8LinearConverter.Config(model_compile_enabled=True)])
    config = Trainer.Config(
        loss=ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config(vocab=decoder_vocab_size(model_spec))),
        model_spec=model_spec,
        training=TrainingConfig(local_batch_size=1, seq_len=2 * SEQUENCE, steps=1000),
        parallelism=ParallelismConfig(data_parallel_shard_degree=8),
    )
    config.parallelism.tensor_parallel_degree = 4
    return config
"""
FLAGS = (
    "torchtitan train --module llama3 --config llama3_70b --training.local-batch-size 4 --training.seq-len=4096 \\\n"
)
FLAGS += "  --parallelism.tensor_parallel_degree 4 --parallelism.no-enable-sequence-parallel\n"


def read(text: str, path: Path, *given: str, name: str = "titan.toml", nodes: int | None = 8) -> Imported:
    file = path / name
    file.write_text(text, "utf-8")
    return import_files([str(file)], GivenBesideFile("dgx-h100", nodes, None, False, given)).found


def faults(text: str, path: Path, name: str = "titan.toml") -> list[str]:
    with pytest.raises(CostModelError) as caught:
        read(text, path, name=name)
    return [f"{fault.code} {fault.sentence}" for fault in caught.value.faults]


def has(found: Imported, section: str, **expected: Any) -> None:
    assert {key: found.document[section].get(key) for key in expected} == expected


def test_degrees_of_the_first_generation_lie_in_other_sections(tmp_path: Path) -> None:
    found = read(FIRST, tmp_path)
    has(found, "plan", tp=4, pp=2, dp=8, micro_batch=2, schedule="1f1b", recompute="full", zero=2)
    has(found, "workload", precision="fp8-cs", global_batch=8 * 8)
    assert {fault.code for fault in found.warnings} == {"X006"}
    assert any("training.tensor_parallel_degree is an older name" in fault.sentence for fault in found.warnings)
    ddp = FIRST.replace("data_parallel_degree = -1", 'data_parallel_degree = -1\ndata_parallel_type = "ddp"')
    has(read(ddp, tmp_path), "plan", zero=0)
    assert read(ddp, tmp_path).document["stack"] == "ddp"
    both = FIRST + "[parallelism]\ntensor_parallel_degree = 2\n"
    assert "X004 training.tensor_parallel_degree is 4 and parallelism.tensor_parallel_degree 2" in faults(
        both, tmp_path
    )


def test_what_is_left_out_has_the_default_of_its_generation(tmp_path: Path) -> None:
    """Half of the layers are recomputed where a TOML does not say; single operations where a recipe does not."""
    found = read(TODAY, tmp_path)
    has(found, "plan", recompute="selective", zero=3, sequence_parallel=True, dp=32)
    assert any("one in 2 layers is recomputed" in loss.sentence for loss in found.losses)
    found = read(RECIPE.replace("dgx", ""), tmp_path, name="recipe.py", nodes=None)
    has(found, "plan", recompute="selective", micro_batch=1, tp=4, dp=8)
    assert not any("layers is recomputed" in loss.sentence for loss in found.losses)


def test_a_recipe_of_0_3_counts_in_sequences(tmp_path: Path) -> None:
    found = read(RECIPE, tmp_path, name="recipe.py", nodes=None)
    has(found, "workload", sequence=8192, global_batch=8, precision="fp8-row", tokens=1000 * 8 * 8192)
    assert (found.document["model"], found.facts["accelerators"].value) == ("llama-3.1-8b", 32)
    assert "0.3.0" in found.format
    mixed = RECIPE.replace("steps=1000", "num_tokens_per_train_step=65536")
    assert faults(mixed, tmp_path, "recipe.py")[0].startswith("X005 training.num_tokens_per_train_step beside")
    open_value = RECIPE.replace("tensor_parallel_degree = 4", "tensor_parallel_degree = int(os.environ['TP'])")
    assert faults(open_value, tmp_path, "recipe.py")[0].startswith("X008 tensor_parallel_degree hangs on int(")


def test_a_recipe_in_tokens_counts_those_of_one_forward(tmp_path: Path) -> None:
    """As configs.py of torchtitan: a pipeline runs num_pp_microbatches of them in each accumulation."""
    piped = RECIPE.replace("local_batch_size=1, seq_len=2 * SEQUENCE", "max_context_length=SEQUENCE, "
                           "num_tokens_per_microbatch_per_dp_rank=2 * SEQUENCE")  # fmt: skip
    piped = piped.replace("shard_degree=8", "shard_degree=8, pipeline_parallel_degree=2, num_pp_microbatches=4")
    found = read(piped, tmp_path, name="recipe.py", nodes=None)
    has(found, "plan", micro_batch=2, pp=2, tp=4, dp=8)
    has(found, "workload", sequence=4096, global_batch=2 * 4 * 8)


def test_a_recipe_names_its_model_by_what_it_imports(tmp_path: Path) -> None:
    imported = f"from torchtitan.models.qwen3 import model_registry\n{RECIPE}".replace("def llama3_8b", "def mine")
    assert read(imported, tmp_path, name="recipe.py", nodes=None).document["model"] == "qwen-3-8b"
    hub = RECIPE.replace("model_spec=model_spec,", 'hf_model="Qwen/Qwen3-32B", model_spec=model_registry("full"),')
    assert read(hub, tmp_path, name="recipe.py", nodes=None).document["model"] == "Qwen/Qwen3-32B"
    for policy, kept in (("None", "none"), ("FullAC.Config()", "full"), ("SelectiveAC.Config()", "selective")):
        recipe = RECIPE.replace("model_spec=model_spec,", f"model_spec=model_spec, activation_checkpoint={policy},")
        has(read(recipe, tmp_path, name="recipe.py", nodes=None), "plan", recompute=kept)


def test_flags_change_a_recipe_whose_other_values_are_asked_for(tmp_path: Path) -> None:
    found = read(FLAGS, tmp_path, name="run.sh")
    has(found, "plan", tp=4, dp=16, micro_batch=4, sequence_parallel=False)
    has(found, "workload", sequence=4096, global_batch=64)
    assert found.document["model"] == "llama-3.1-70b"
    assert any("what the recipe llama3_70b states" in loss.sentence for loss in found.losses)
    assert "X002 the tokens of a sequence are not stated" in faults(
        FLAGS.replace("--training.seq-len=4096", ""), tmp_path
    )


def test_flags_behind_a_toml_change_what_they_name_alone(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(TODAY, "utf-8")
    (tmp_path / "run.sh").write_text(
        "./run_train.sh --training.steps 100 --parallelism.pipeline_parallel_degree 1", "utf-8"
    )
    names = [str(tmp_path / name) for name in ("a.toml", "run.sh")]
    found = import_files(names, GivenBesideFile("dgx-h100", 8)).found
    has(found, "plan", tp=2, sequence_parallel=True, micro_batch=2)
    has(found, "workload", sequence=4096, tokens=100 * 64 * 4096)


def test_replicas_that_shard_nothing_are_plain_data_parallelism(tmp_path: Path) -> None:
    plain = "data_parallel_replicate_degree = 32\ndata_parallel_shard_degree = 1\ntensor_parallel_degree = 2"
    found = read(TODAY.replace("tensor_parallel_degree = 2", plain), tmp_path)
    has(found, "plan", zero=0, dp=32)
    assert found.document["stack"] == "ddp"
    ringed = plain.replace("replicate_degree = 32", "replicate_degree = 16") + "\ncontext_parallel_degree = 2"
    found = read(TODAY.replace("tensor_parallel_degree = 2", ringed), tmp_path)  # ranks of cp share their shards
    has(found, "plan", zero=3, dp=16, cp=2)
    assert found.document["stack"] == "fsdp2"


@pytest.mark.parametrize(("enable", "factor"), [("false", 3.1), ("true", 1.43), ("", 1.43)])
def test_blocks_that_are_not_compiled_are_eager(enable: str, factor: float, tmp_path: Path) -> None:
    text = f"{TODAY}[compile]\nenable = {enable}\n" if enable else TODAY
    (tmp_path / "titan.toml").write_text(text)
    found = import_files([str(tmp_path / "titan.toml")], GivenBesideFile(node="dgx-h100", nodes=1))
    (tmp_path / "mine.yaml").write_text(found.text_of(None))
    assert load(str(tmp_path / "mine.yaml")).stack.kernels.traffic_factor == factor
    assert any("compile.enable" in loss.sentence for loss in found.found.losses) == (not enable)
