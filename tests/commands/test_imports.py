"""import through the command line: documents that load unchanged, origins, losses, and nothing written on a fault."""

from __future__ import annotations

import itertools
import json
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from exchange.published import configs
from exchange.scripts import DEEPSEEK, LLAMA_8B, MIXTRAL

from costmodel.documents.reader.library import read
from costmodel.documents.reader.load_scenario import load_any
from costmodel.exchange.write_yaml import library_twin, model_shape
from costmodel.explore.import_export.import_file import GivenBesideFile, import_file

Faults = Callable[[Any], Any]
EXAMPLE = "scenarios/examples/qwen3-8b"

# Of each published file the parameters that memory prints, and the model of the library that it names: transformers
# builds as many, and routers' biases, which it holds in a buffer, are counted here.
READABLE = {
    "llama-2-70b": (68_976_648_192, "llama-2-70b"),
    "llama-3.1-8b": (8_030_261_248, "llama-3.1-8b"),
    "mistral-7b": (7_248_023_552, "mistral-7b"),
    "mistral-7b-v0.1": (7_241_732_096, "mistral-7b-v0.1"),
    "mixtral-8x7b": (46_702_792_704, "mixtral-8x7b"),
    "gpt2": (124_439_808, "gpt-2-small"),
    "redpajama-3b": (2_775_864_320, ""),
    "qwen1.5-1.8b-tie": (1_525_663_744, ""),
    "qwen1.5-moe-a2.7b": (14_315_784_192, ""),
    "qwen3-0.6b": (596_049_920, "qwen-3-0.6b"),
    "deepseek-v2-lite": (15_706_484_224, "deepseek-v2-lite"),
    "kimi-k2": (1_026_408_232_448, "kimi-k2"),
    "gemma-2b": (2_506_172_416, ""),
    "gemma-3-1b": (999_885_952, "gemma-3-1b"),
    "bloom-560m": (559_214_592, "bloom-560m"),
    "opt-1.3b": (1_315_758_080, "opt-1.3b"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files to be read."""
    (tmp_path / "config.json").write_text(json.dumps(configs()["deepseek-v2-lite"], indent=1), "utf-8")
    (tmp_path / "llama.sh").write_text(LLAMA_8B, "utf-8")
    (tmp_path / "mixtral.sh").write_text(MIXTRAL, "utf-8")
    (tmp_path / "deepseek.sh").write_text(DEEPSEEK, "utf-8")
    return tmp_path


def written(folder: Path) -> set[str]:
    """Files that are not those of the fixture."""
    return {path.name for path in folder.iterdir()} - {"config.json", "llama.sh", "mixtral.sh", "deepseek.sh"}


# --- config.json


@pytest.mark.parametrize("name", READABLE)
def test_memory_prints_the_parameters_and_the_model_of_the_library(name: str, run: Any, tmp_path: Path) -> None:
    parameters, twin = READABLE[name]
    (tmp_path / "config.json").write_text(json.dumps(configs()[name]), "utf-8")
    shown = run("memory", "config.json", cwd=tmp_path)
    assert f": {parameters:,} parameters;" in shown.out
    assert ("its shape is that of" in shown.out) == bool(twin)
    assert not twin or f"its shape is that of {twin} of the library" in shown.out


@pytest.mark.parametrize("name", [name for name, (_, twin) in READABLE.items() if twin])
def test_a_scenario_of_the_config_differs_from_that_of_its_twin_in_nothing_that_costs(
    name: str, run: Any, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(configs()[name]), "utf-8")
    job = ("--node", "dgx-h100", "--gpus", "256", "--sequence", "1024", "--batch", "256", "--json")

    def plans(model: str) -> list[dict[str, Any]]:
        found = json.loads(run("search", "--model", model, *job, cwd=tmp_path).out)["plans"]
        return [{**plan, "model": ""} for plan in found]

    assert plans("config.json") == plans(READABLE[name][1])


@pytest.mark.parametrize("name", sorted(set(configs()) - set(READABLE)))
def test_every_other_published_file_is_read_or_refused_with_class_and_key(
    name: str, run: Any, faults: Faults, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(configs()[name], indent=1), "utf-8")
    shown = run("import", "config.json", "-o", "mine.yaml", cwd=tmp_path)
    if shown.code:
        (found, *_) = faults(shown)
        assert found.code == "X003"
        assert found.place.startswith("config.json:")
        assert not (tmp_path / "mine.yaml").exists()
    else:
        assert "parameters" in run("memory", "mine.yaml", cwd=tmp_path).out


@pytest.mark.parametrize("name", ["llama-3-8b", "deepseek-v3", "gpt-2-small"])
def test_a_model_of_the_library_has_the_shape_of_its_twin(name: str) -> None:
    model = read("model", name)
    assert model_shape(read("model", library_twin(model))) == model_shape(model)
    assert not library_twin(model.model_copy(update={"hidden": model.hidden + 64}))
    assert not library_twin(model.model_copy(update={"tied": not model.tied}))


def test_a_model_written_is_the_model_read(folder: Path, run: Any) -> None:
    assert run("import", "config.json", "-o", "mine.yaml", cwd=folder).code == 0
    before, after = run("memory", "config.json", "--json", cwd=folder), run("memory", "mine.yaml", "--json", cwd=folder)
    figures = [{**json.loads(ran.out), "model": "", "read_from": [], "library_model": ""} for ran in (before, after)]
    for found in figures:
        found["recipes"] = [{**recipe, "model": ""} for recipe in found["recipes"]]
    for found, name in zip(figures, ("config.json", "mine.yaml"), strict=True):
        assert f"--model {name} " in found["assumed"][0]["from"]
        found["assumed"][0]["from"] = found["assumed"][0]["from"].replace(name, "")
    assert figures[0] == figures[1]


def test_every_value_has_its_origin_behind_or_above_it(folder: Path, run: Any) -> None:
    shown = run("import", "config.json", cwd=folder).out
    assert "hidden: 2048                    # config.json:" in shown
    assert "# tie_word_embeddings: default of DeepseekV2Config" in shown
    lines = shown.split("source: config")[0].splitlines()
    values = [(line, above) for above, line in itertools.pairwise(lines) if ": " in line and line.lstrip()[0] != "#"]
    fixed = [line for line, _ in values if line.split(":")[0] in ("schema", "name", "title")]
    assert [line for line, above in values if "#" not in line and above.lstrip()[0] != "#"] == fixed[1:]
    assert "#" in values[0][1]  # the head of the file stands above the schema


def test_json_lists_document_origins_and_losses(folder: Path, run: Any) -> None:
    found = json.loads(run("import", "llama.sh", "--node", "dgx-h100", "--json", cwd=folder).out)
    origins = {item["path"]: item for item in found["origins"]}
    assert origins["plan.zero"]["kind"] == "file"
    assert origins["plan.pp"]["kind"] == "default"
    assert found["document"]["plan"]["zero"] == 1
    assert {loss["kind"] for loss in found["losses"]} == {"ignored", "not expressible"}
    assert found["parameters"] == 8_030_261_248
    assert found["library_model"] == "llama-3-8b"  # the script says 8,192 positions


@pytest.mark.parametrize("option", [("--node", "dgx-h100"), ("--vocab", "32000"), ("--partial",)])
def test_an_option_without_effect_is_refused(option: tuple[str, ...], folder: Path, run: Any, faults: Faults) -> None:
    (found,) = faults(run("import", "config.json", *option, cwd=folder))
    assert (found.code, option[0] in found.sentence) == ("C001", True)
    assert [fault.code for fault in faults(run("import", "llama.sh", "--nodes", "4", cwd=folder))] == ["C001"]


def test_a_model_is_named_as_its_file(folder: Path, run: Any, faults: Faults) -> None:
    (found,) = faults(run("import", "config.json", "-o", "My Model.yaml", cwd=folder))
    assert (found.code, found.help) == ("C002", "for example my-model.yaml")
    assert not written(folder)


# --- options of Megatron-LM


@pytest.mark.parametrize(
    ("script", "more", "plan"),
    [
        ("llama.sh", (), {"tp": 1, "dp": 8, "zero": 1, "sequence_parallel": False}),
        ("mixtral.sh", ("--nodes", "4", "--vocab", "32000"), {"dp": 8, "pp": 4, "ep": 8, "etp": 1, "tp": 1}),
        ("deepseek.sh", ("--nodes", "32", "--vocab", "129280"), {"zero": 3, "ep": 8, "recompute": "selective"}),
    ],
)
def test_a_scenario_runs_as_it_was_written(
    script: str, more: tuple[str, ...], plan: dict[str, Any], folder: Path, run: Any
) -> None:
    shown = run("import", script, "--node", "dgx-h100", *more, "-o", "mine.yaml", cwd=folder)
    assert shown.code == 0, shown.err
    assert shown.out.rstrip().endswith("Next: costmodel estimate mine.yaml")
    answer = json.loads(run("estimate", "mine.yaml", "--json", cwd=folder).out)
    assert {key: answer["plans"][0][key] for key in plan} == plan
    assert import_file(
        str(folder / script), GivenBesideFile("dgx-h100", *(int(word) for word in more[1::2]))
    ).parameters


def test_on_too_few_accelerators_nothing_is_written(folder: Path, run: Any, faults: Faults) -> None:
    found = faults(run("import", "mixtral.sh", "--node", "dgx-h100", "-o", "mine.yaml", cwd=folder))
    assert found[0].code == "X005"
    assert "at least 32 accelerators" in found[0].help
    assert not written(folder)


def test_what_is_missing_is_asked_for_and_nothing_written_unless_a_part_will_do(
    folder: Path, run: Any, faults: Faults
) -> None:
    found = faults(run("import", "deepseek.sh", "-o", "mine.yaml", cwd=folder))
    assert [fault.code for fault in found] == ["X002"] * 3  # accelerators, vocabulary, machine
    assert any("--vocab" in fault.help for fault in found)
    assert not written(folder)
    shown = run("import", "deepseek.sh", "--partial", "-o", "mine.yaml", cwd=folder)
    assert shown.code == 0
    assert "fill in what is missing first" in shown.out
    text = (folder / "mine.yaml").read_text("utf-8")
    assert len([line for line in text.splitlines() if line.startswith("# ? ")]) == 3
    assert run("estimate", "mine.yaml", cwd=folder).code == 2


def test_losses_are_named_in_three_classes(folder: Path, run: Any) -> None:
    script = LLAMA_8B.replace("--attention-dropout 0.0", "--attention-dropout 0.1")
    script = script.replace(
        "--attention-dropout 0.1", "--attention-dropout 0.1 --save-interval 500 --rotary-base 500000"
    )
    (folder / "llama.sh").write_text(script, "utf-8")
    shown = run("import", "llama.sh", "--node", "dgx-h100", "-o", "mine.yaml", cwd=folder).out
    for kind in (
        "no effect: changes no time, memory or cost",
        "approximated: nearly",
        "not expressible: not in the document",
    ):
        assert kind in shown
    assert "\n    --save-interval: state it as run.checkpoint.steps, for costmodel run\n" in shown
    assert "\n    --rotary-base: of the model, and in no document: add it to what export writes\n" in shown
    text = (folder / "mine.yaml").read_text("utf-8")
    assert "# not expressible: --fp8-param-gather" in text
    assert "# approximated: --attention-dropout" in text


def test_with_strict_a_loss_is_a_no_and_nothing_is_written(folder: Path, run: Any) -> None:
    shown = run("import", "llama.sh", "--node", "dgx-h100", "--strict", "-o", "mine.yaml", cwd=folder)
    assert (shown.code, written(folder)) == (1, set())
    assert run("import", "config.json", "--strict", cwd=folder).code == 0


def test_standard_input_is_read(folder: Path, run: Any) -> None:
    text = json.dumps(configs()["llama-3.1-8b"])
    assert "hidden: 4096" in run("import", "-", stdin=text, cwd=folder).out
    assert run("import", "-", "--node", "dgx-h100", stdin=LLAMA_8B, cwd=folder).code == 0


# --- hostile files


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("ds.json", '{"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": 1}', "X002"),
        ("notes.txt", "nothing of interest", "X001"),
        ("config.json", '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": NaN}', "D008"),
        ("config.json", '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1e400}', "D008"),
        ("config.json", '{"architectures": ["LlamaForCausalLM"', "D002"),
        ("config.json", '{"architectures": ' + "[" * 10_000, "X010"),
    ],
)
def test_a_file_that_cannot_be_read(name: str, text: str, code: str, tmp_path: Path, run: Any, faults: Faults) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    started = time.process_time()
    found = faults(run("import", name, "-o", "mine.yaml", cwd=tmp_path))
    assert found[0].code == code
    assert time.process_time() - started < 2
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("mark", ["\ufeff", ""])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_marks_and_ends_of_lines_are_no_matter(mark: str, end: str, tmp_path: Path, run: Any) -> None:
    text = mark + json.dumps(configs()["llama-3.1-8b"], indent=1).replace("\n", end)
    (tmp_path / "config.json").write_bytes(text.encode())
    assert "8,030,261,248 parameters" in run("memory", "config.json", cwd=tmp_path).out


def test_files_that_are_not_there_or_too_long(tmp_path: Path, run: Any, faults: Faults) -> None:
    assert [fault.code for fault in faults(run("import", "none.json", cwd=tmp_path))] == ["D001"]
    (tmp_path / "link.json").symlink_to(tmp_path / "none.json")
    assert [fault.code for fault in faults(run("import", "link.json", cwd=tmp_path))] == ["D001"]
    (tmp_path / "long.json").write_text('{"model_type": "llama", "x": "' + "y" * 10 * 2**20 + '"}', "utf-8")
    assert [fault.code for fault in faults(run("import", "long.json", cwd=tmp_path))] == ["D001"]


def test_a_command_in_a_script_is_not_run(tmp_path: Path, run: Any, faults: Faults) -> None:
    planted = LLAMA_8B.replace("SEQ=8192", "SEQ=$(touch planted; echo 8192)")
    (tmp_path / "train.sh").write_text(planted, "utf-8")
    found = faults(run("import", "train.sh", "--node", "dgx-h100", cwd=tmp_path))
    assert "X008" in {fault.code for fault in found}
    assert [path.name for path in tmp_path.iterdir()] == ["train.sh"]


# --- the machine beside a file


@pytest.mark.parametrize(
    ("options", "node", "accelerator"),
    [
        (("--gpu", "h200"), "dgx-h200", "h200-sxm"),
        (("--gpu", "a100-40gb"), "dgx-a100", "a100-sxm-40"),  # which has no node of its own
        (("--gpu", "h20", "--node", "dgx-h100"), "dgx-h100", "h20"),
        (("--node", "dgx-h100", "--gpu", "h100"), "dgx-h100", "h100-sxm"),
    ],
)
def test_an_accelerator_states_its_usual_node(
    options: tuple[str, ...], node: str, accelerator: str, tmp_path: Path, run: Any
) -> None:
    script, made = tmp_path / "serve.sh", tmp_path / "made.yaml"
    script.write_text("vllm serve meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size 2\n", "utf-8")
    load = [word for key in ("prompt=512", "output=64", "rate=1/s") for word in ("--set", f"workload.{key}")]
    ran = run("import", str(script), *options, *load, "-o", str(made))
    assert (ran.code, ran.err) == (0, f"wrote {made}\n")
    assert "--gpu" in ran.out
    case = load_any(str(made))
    assert (case.node.name, case.accelerator.name) == (node, accelerator)


def test_an_accelerator_that_the_node_does_not_hold(tmp_path: Path, run: Any, faults: Faults) -> None:
    (tmp_path / "serve.sh").write_text("vllm serve meta-llama/Llama-3.1-8B-Instruct\n", "utf-8")
    for options, code, words in (
        (("--gpu", "h200", "--node", "dgx-h100"), "C032", "dgx-h100 holds h100-sxm"),
        (("--gpu", "h1000"), "D009", "'h1000'"),
        ((), "X002", "no file states the machine"),
    ):
        found = faults(run("import", str(tmp_path / "serve.sh"), *options))
        assert any((fault.code, words in fault.sentence) == (code, True) for fault in found)
    assert "--gpu has no effect" in faults(run("import", EXAMPLE, "--gpu", "h100"))[0].sentence


OTHERS = {
    "axolotl.yaml": "base_model: Qwen/Qwen3-8B\nadapter: lora\nsequence_len: 4096\nmicro_batch_size: 2\n"
    "gradient_accumulation_steps: 4\ndatasets:\n  - path: x\n    type: alpaca\n",
    "ds.json": '{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3}}',
    "tt.toml": "[training]\nlocal_batch_size = 2\nseq_len = 8192\n",
    "vllm serve Qwen/Qwen3-8B --quantization fp8": "",
    "torchrun pretrain_gpt.py --num-layers 32": "",
}


@pytest.mark.parametrize("question", ["estimate", "memory", "search"])
@pytest.mark.parametrize("name", OTHERS)
def test_what_import_reads_leads_to_it_from_every_question(name: str, question: str, run: Any, tmp_path: Path) -> None:
    if OTHERS[name]:
        (tmp_path / name).write_text(OTHERS[name], "utf-8")
    ran = run(question, name, cwd=tmp_path)
    assert ran.code == 2
    assert "of another program, and a scenario is expected here" in ran.err
    hint = ran.err.partition("help: costmodel ")[2].partition(" --gpu NAME")[0]
    assert shlex.split(hint) == ["import", name]


@pytest.mark.parametrize("text", ["title: x\nworkload: {kind: training}\nplan: {tp: 2}\n", '{"workload": {"tp": 1}}'])
def test_a_scenario_without_its_schema_stays_one(text: str, run: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(text, "utf-8")
    assert "help: schema: costmodel/scenario/v1" in run("estimate", "mine.yaml", cwd=tmp_path).err
