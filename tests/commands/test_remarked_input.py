"""Input that is rarely meant, has no effect, or names one thing in the place of another: what an answer says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ENGINES = "engines: neuronx-inference, optimum-habana-inference, sglang, trt-llm, vllm, vllm-0.16"
SERVED = ("estimate", "--model", "llama-3.1-8b", "--gpu", "h100", "--gpus", "8", "--rate")


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        (("estimate", "quickstart", "--set", "workload.tokens=15"), 0, "N041 fewer tokens than a step"),
        (("estimate", "quickstart", "--price", "0.0025USD/GPU/h"), 0, "N042 unusual price"),
        (("estimate", "serve-llama-3.1-70b", "--price", "2500USD/GPU/h"), 0, "N042 unusual price"),
        (("estimate", "quickstart", "--node", "tpu-v5p-slice"), None, "N040 software not described for this vendor"),
        (("estimate", "--model", "llama-3.1-8b", "--gpu", "tpu-v5p", "--rate", "2"), 0, "N040"),
        (("estimate", "quickstart", "--set", "plan.tp=2", "--set", "plan.tp=4"), 0, "--set plan.tp=2 has no effect"),
        (
            ("estimate", "--model", "llama-3.1-8b", "--set", "plan.tp=2", "--set", "plan={tp: 1}"),
            0,
            "--set plan.tp=2 counts in --set plan={tp: 1}, whatever their order",
        ),
        (("estimate", "serve-llama-3.1-70b", "--set", "assume.experts.imbalance=1.5"), 0, "N008 no experts"),
        (("sweep", "quickstart", "--over", "cluster.node=mi300x,dgx-h100"), 0, "did you mean 'hgx-mi300x'?"),
        ((*SERVED, "4", "--set", "plan={prefill: {tp: 1}, decode: {tp: 1}}"), 0, "prefill 4 × tp 1"),
        (("scale", "serve-llama-3.1-70b", "--rate", "1"), 0, "  1 /s"),
    ],
)
def test_an_answer_says_what_is_odd(given: tuple[str, ...], code: int | None, words: str, run: Any) -> None:
    shown = run(*given)
    assert code is None or shown.code == code
    assert words in shown.out


@pytest.mark.parametrize(
    ("given", "found", "words"),
    [
        (("estimate", "serve-llama-3.1-70b", "--set", "stack=megatron-core"), "D010", ENGINES),
        (("estimate", "serve-llama-3.1-70b", "--set", "stack=tgi"), "D009", ENGINES),
        ((*SERVED[:3], "--gpu", "mi300x", "--rate", "4", "--stack", "trt-llm"), "D016", "engines that do: sglang"),
        (("scale", *SERVED[1:-1], "--concurrency", "64"), "C010", "this one states concurrency"),
        ((*SERVED, "-5"), "D008", "-5 /s is out of range"),
        (("estimate", "--model", "qwen-2.5-7b", "--set", "workload.kind=learning"), "C030", "workload.kind=learning"),
        (("sweep", "serve-llama-3.1-70b", "--over", "limits.ttft.at_most=2,8"), "D007", "2 has no unit; write '2 s'"),
        (("estimate", "scenarios/examples/qwen3-8b"), "D001", "--model scenarios/examples/qwen3-8b names the model"),
        (
            ("search", "scenarios/examples/qwen3-8b/config.json"),
            "D011",
            "--model scenarios/examples/qwen3-8b/config.json",
        ),
    ],
)
def test_a_fault_names_the_remedy(given: tuple[str, ...], found: str, words: str, run: Any) -> None:
    shown = run(*given)
    assert shown.code == 2
    assert f"[{found}]" in shown.err
    assert words in " ".join(shown.err.split())


@pytest.mark.parametrize(
    ("gpu", "stack"),
    [
        ("h100", "megatron-core"),
        ("mi300x", "megatron-core"),
        ("tpu-v5p", "maxtext-tpu"),
        ("gaudi3", "megatron-deepspeed-gaudi"),
        ("trn2", "neuronx-distributed"),
    ],
)
def test_the_default_software_is_described_on_the_accelerator(gpu: str, stack: str, run: Any) -> None:
    shown = run("estimate", "--model", "llama-3.1-8b", "--gpu", gpu)
    assert f" · {stack}\n" in shown.out
    assert ("assumed stack" in shown.out) == (stack != "megatron-core")
    assert "N040" not in shown.out


def test_a_near_word_of_a_foreign_file_is_shown(run: Any, tmp_path: Path) -> None:
    (tmp_path / "serve.sh").write_text("vllm serve meta-llama/Llama-3.1-8B --tensor-paralel-size 4\n", "utf-8")
    settings = ("workload.prompt=512", "workload.output=128", "workload.rate=2 /s")
    more = [word for setting in settings for word in ("--set", setting)]
    shown = run("import", "serve.sh", "--node", "dgx-h100", *more, cwd=tmp_path)
    assert "did you mean tensor-parallel-size" in shown.out.replace("\n# ", " ")
    config = json.loads(Path("scenarios/examples/qwen3-8b/config.json").read_text("utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_key_value_head": 8}), "utf-8")
    assert "did you mean num_key_value_heads" in run("estimate", "--model", "config.json", cwd=tmp_path).out


@pytest.mark.parametrize("name", ["llama-3-70b-512", "serve-llama-3.1-70b", "grpo-qwen-2.5-7b-64"])
def test_a_title_is_for_the_reader_of_the_file_whatever_the_workload(name: str, run: Any, tmp_path: Path) -> None:
    text = Path(f"scenarios/{name}.yaml").read_text("utf-8")
    title = next(line for line in text.splitlines() if line.startswith("title: "))
    (tmp_path / "own.yaml").write_text(text.replace(title, "title: A name of mine"), "utf-8")
    assert "A name of mine" not in run("estimate", "own.yaml", cwd=tmp_path).out
    (tmp_path / "own.yaml").write_text(text.replace(title, ""), "utf-8")
    shown = run("estimate", "own.yaml", cwd=tmp_path)
    assert "error[D004]: the key 'title' is missing" in shown.err
    assert "One line for the reader of the file; answers print what was computed" in shown.err
