"""Launch files and logs as they are published, against figures computed by hand from their options.

Texts of the same shape are typed here. Where a folder with the published files themselves lies beside the checkout,
they are read too, and every row of its expected.csv that is no model of transformers is one of the values below.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any
from unittest.mock import ANY

import pytest

from costmodel.documents.reader.library import DocumentReader
from costmodel.documents.reader.load_scenario import any_from
from costmodel.documents.reader.resolved_scenario import training
from costmodel.documents.text.yaml_tree import copied
from costmodel.equations.parallelism.counts import padded_vocab
from costmodel.exchange.logs.step_lines import read_log
from costmodel.exchange.logs.trainer_log import measured_run
from costmodel.exchange.machine_shape import TOPOLOGY, machine_shape
from costmodel.exchange.tables.nccl_tests import nccl_rows
from costmodel.explore.import_export.import_file import GivenBesideFile, ImportedFile, import_files
from costmodel.ground.errors import CostModelError, Fault
from exchange.logs.test_measured_run import MEGATRON, NEMO, NEOX
from exchange.logs.test_measured_run import TITAN as TITAN_LOG
from exchange.scripts import DEEPSEEK, LINE_70B, LLAMA_8B, MIXTRAL
from exchange.serving.test_serve_commands import VLLM
from exchange.tables.test_nccl_ranks import HEADER
from exchange.test_machine_shape import matrix

from .test_launch import AUTO, FSDP1, FSDP2, MCORE, MESH_OF_THREE, OLD_OFFLOAD, QLORA, RECIPE, TITAN, WRONG
from .test_other_trainers import MAXTEXT, NANOTRON, TORCHTUNE

PUBLISHED = Path(__file__).parents[4] / "shared" / "exchange" / "files"
A100 = HEADER + (
    "  1073741824  268435456  float  sum  -1  11774   91.20  170.99  0  11774   91.19  170.99  0\n"
    " 10737418240 2684354560  float  sum  -1  111812  96.03  180.06  0  111797  96.04  180.08  0\n"
    "# Avg bus bandwidth    : 175.531\n"
)
BATCH = ("workload.sequence=4096", "model=llama-3.1-8b")


def read(
    path: Path, nodes: int | None = 1, *given: str, vocab: int | None = None, node: str = "dgx-h100"
) -> ImportedFile:
    return import_files([str(path)], GivenBesideFile(node, nodes, vocab, False, given))


def faults(path: Path, nodes: int | None = None, *given: str, node: str = "") -> tuple[Fault, ...]:
    with pytest.raises(CostModelError) as caught:
        read(path, nodes, *given, node=node)
    return caught.value.faults


def said(found: ImportedFile, **paths: str) -> dict[str, Any]:
    """Values of a scenario by the words of the table and their paths."""
    tree, values = found.found.document, {}
    for word, path in paths.items():
        here: Any = tree
        for part in path.split("."):
            here = here.get(part) if hasattr(here, "get") else None
        values[word] = list(here) if isinstance(here, list) else here
    return values


def accelerators(found: ImportedFile) -> int:
    return int(found.found.facts["accelerators"].value)


# --- what each file says; the keys are the rows of expected.csv


def llama_fp8(path: Path) -> dict[str, Any]:
    found = read(path)
    plan = {
        f"workload.{key}": f"workload.{key}" for key in ("global_batch", "sequence", "tokens", "precision", "gradients")
    }
    more = said(found, **{"plan.tp": "plan.tp", "dp": "plan.dp", "zero": "plan.zero"}, **plan)
    origin = found.found.origins["plan.sequence_parallel"]
    assert "switched off at tp 1" in origin.text
    return more | said(found, sequence_parallel="plan.sequence_parallel") | {"parameters": found.parameters}


def mixtral(path: Path) -> dict[str, Any]:
    alone = faults(path, 1, node="dgx-h100")
    assert [fault.code for fault in alone] == ["X005", "X002"]
    four = read(path, 4, vocab=32000)
    experts = four.found.document["model"]["layers"][0]["experts"]
    least = int(alone[0].hint.split()[-2])
    assert faults(path, 4, node="dgx-h100")[0].sentence.startswith("the vocabulary is not known: Llama2Tokenizer")
    return said(four, etp="plan.etp", **{"dp at 4 nodes": "plan.dp"}) | {
        "moe ffn_hidden": experts["ffn_hidden"], "least accelerators": least, "missing": "vocabulary",
        "fault at 1 node": alone[0].hint, "parameters with vocab 32000": four.parameters,
    }  # fmt: skip


def deepseek(path: Path) -> dict[str, Any]:
    missing = [fault.sentence for fault in faults(path)]
    assert [word in " ".join(missing) for word in ("accelerators", "vocabulary")] == [True, True]
    found = read(path, 8, vocab=129_280)
    kinds = found.found.document["model"]["layers"]
    modules = said(found, modules="plan.recompute_modules")["modules"]
    return said(found, zero="plan.zero", **{"prediction.depth": "model.prediction.depth"}) | {
        "layers": [kind["count"] for kind in kinds], "recompute_modules": modules, "missing": missing,
        "parameters without MTP, vocab 129280": found.parameters,
    }  # fmt: skip


def recompute(path: Path) -> dict[str, Any]:
    found = read(path, 2)
    case = training(any_from(DocumentReader(), copied(found.found.document), "train.sh", ()))
    tp = case.scenario.plan.tp  # type: ignore[union-attr]
    [warning] = found.found.warnings
    return said(found, vpp="plan.vpp", recompute="plan.recompute", dp="plan.dp") | {
        "padded vocab at tp 4": padded_vocab(case.model.vocab, case.stack.vocab_multiple, tp),
        "warning": warning.sentence,
    }


def titan(path: Path) -> dict[str, Any]:
    assert "the number of accelerators is not stated" in [fault.sentence for fault in faults(path, node="")]
    found = read(path, 8)
    words = ("micro_batch", "recompute", "sequence_parallel")
    return (
        said(found, model="model", stack="stack", **{word: f"plan.{word}" for word in words})
        | said(found, **{"dp at 64": "plan.dp", "global_batch at 64": "workload.global_batch"})
        | {"missing": "accelerators"}
    )


def recipe(path: Path) -> dict[str, Any]:
    found = read(path, None)
    where = {
        "micro_batch": "plan.micro_batch",
        "global_batch": "workload.global_batch",
        "sequence": "workload.sequence",
    }
    return said(found, **where) | {"accelerators": accelerators(found)}


def old_offload(path: Path) -> dict[str, Any]:
    found = import_files([str(path)], GivenBesideFile("gh200-4", 1, None, False, BATCH))
    assert [fault.code for fault in found.found.warnings] == ["X006"]
    return said(
        found, offload="plan.offload", precision="workload.precision", **{"micro_batch at 4": "plan.micro_batch"}
    )


def auto(path: Path) -> dict[str, Any]:
    missing = [fault.sentence for fault in faults(path, 1, *BATCH, node="dgx-h100")]
    assert missing == ["the batch is not stated", "the type to train in is not stated"]
    found = read(path, 1, *BATCH, "plan.micro_batch=1", "workload.precision=bf16")
    return said(found, zero="plan.zero") | {"missing": missing}


def wrong(path: Path) -> dict[str, Any]:
    fault = faults(path, 1, *BATCH, "workload.precision=bf16", node="dgx-h100")[0]
    assert (fault.code, "at no dp" in fault.hint) == ("X005", True)  # 64 is no multiple of 12
    return {"fault at 8 GPUs": fault.sentence}


def fsdp(path: Path) -> dict[str, Any]:
    given = (*BATCH, "plan.micro_batch=1", "workload.precision=bf16", "plan.recompute=none")
    node = "dgx-h100" if "num_processes: 8" in path.read_text("utf-8") else "t4-2"
    return said(read(path, None, *given, node=node), stack="stack", zero="plan.zero")


def mesh(path: Path) -> dict[str, Any]:
    found = read(path, None)
    model = None if found.model is None else found.model.name
    return said(found, global_batch="workload.global_batch") | {"model": model, "accelerators": accelerators(found)}


def qlora(path: Path) -> dict[str, Any]:
    found = read(path)
    model = None if found.model is None else found.model.name
    return said(found, tuning="workload.tuning", offload="plan.offload") | {"model": model}


def mcore(path: Path) -> dict[str, Any]:
    found = read(path, 1, "model=qwen-3-30b-a3b")
    return said(found, stack="stack", **{"global_batch at 8": "workload.global_batch"})


def nanotron(path: Path) -> dict[str, Any]:
    found = read(path, None)
    words = ("sequence_parallel", "recompute")
    return said(found, global_batch="workload.global_batch", **{word: f"plan.{word}" for word in words}) | {
        "parameters": found.parameters, "accelerators": accelerators(found),
    }  # fmt: skip


def maxtext(path: Path) -> dict[str, Any]:
    found = read(path, None)
    at_16 = {"global_batch at 16": "workload.global_batch"}
    return said(found, recompute="plan.recompute", **at_16) | {"accelerators": accelerators(found)}


def torchtune(path: Path) -> dict[str, Any]:
    missing = [fault.sentence for fault in faults(path, node="")]
    found = read(path, 2, "workload.sequence=8192")
    assert found.found.document["stack"] == "torchtune"
    return {"states": found.found.origins["stack"].text, "missing": missing[:2]}


def run(path: Path) -> dict[str, float]:
    return measured_run(read_log(path.read_text("utf-8"), path.name)).figures


def megatron_log(path: Path) -> dict[str, Any]:
    found = run(path)
    return found | {"samples/s check": found["global_batch"] / found["step_time_s"]}


def neox_log(path: Path) -> dict[str, Any]:
    found = run(path)
    assert "samples_per_s" not in found
    return found | {"samples/s of the timer": 8.009}  # of DeepSpeed's own line, which is no figure of the run


def titan_log(path: Path) -> dict[str, Any]:
    found = run(path)
    capacity = found["gpu_mem_gb"] / 1.073741824
    return found | {"peak assumed": found["mfu_peak_tflops"], "capacity_gib": capacity}


def nemo_log(path: Path) -> dict[str, Any]:
    with pytest.raises(CostModelError) as caught:
        run(path)
    [fault] = caught.value.faults
    steps = read_log(path.read_text("utf-8"), path.name).steps
    return {"verdict": fault.sentence, "global_batch": steps[0].figures["batch"]}


def nccl(path: Path) -> dict[str, Any]:
    rows = nccl_rows(path.name, path.read_text("utf-8"), per_node=8)
    [ranks] = {row.number("gpus") or 0 for row in rows}
    return {"average busbw": mean(row.number("busbw") or 0 for row in rows), "busbw/algbw": 2 * (ranks - 1) / ranks}


def eight(path: Path) -> dict[str, Any]:
    shape = machine_shape(path.read_text("utf-8"), path.name, TOPOLOGY)
    with pytest.raises(CostModelError) as caught:
        import_files([str(path)], GivenBesideFile(gpu="h100-sxm"))
    [fault] = caught.value.faults
    assert "dgx-h100," in fault.hint
    return {"node shape": (shape.accelerators, shape.links, shape.nics), "guess": fault.hint}


def four(path: Path) -> dict[str, Any]:
    shape = machine_shape(path.read_text("utf-8"), path.name, TOPOLOGY)
    with pytest.raises(CostModelError) as caught:
        import_files([str(path)], GivenBesideFile(gpu="h100-sxm"))
    assert "no network interface seen" in caught.value.faults[0].sentence
    return {"node shape": (shape.accelerators, shape.links, shape.nics)}


def serve(path: Path) -> dict[str, Any]:
    found = read(path, None, "workload.prompt=2048", "workload.output=512", "workload.rate=8 /s").found.document
    return {"accelerators": found["plan"]["tp"] * found["plan"]["pp"], "verdict": found["workload"]["kind"]}


class Case:
    """A published file: a text of its shape, how it is read, and what comes of it."""

    def __init__(self, text: Any, reader: Callable[[Path], dict[str, Any]], **expected: Any) -> None:
        self.text = text if isinstance(text, str) else json.dumps(text)
        self.reader, self.expected = reader, expected


CASES = {
    "meg-llama3-8b-fp8.sh": Case(
        LLAMA_8B, llama_fp8, **{
            "parameters": 8030261248, "plan.tp": 1, "dp": 8, "zero": 1, "sequence_parallel": False,
            "workload.global_batch": 128, "workload.sequence": 8192, "workload.tokens": 16e12,
            "workload.precision": "fp8", "workload.gradients": "bf16",
        },
    ),
    "meg-mixtral-8x7b.sh": Case(
        MIXTRAL, mixtral, **{
            "moe ffn_hidden": 14336, "etp": 1, "least accelerators": 32, "dp at 4 nodes": 8, "missing": "vocabulary",
            "fault at 1 node": "dp 2 cannot hold ep; at least 32 accelerators",
            "parameters with vocab 32000": 46702792704,
        },
    ),
    "meg-deepseek-v3-fsdp.sh": Case(
        DEEPSEEK, deepseek, **{
            "zero": 3, "layers": [3, 58], "recompute_modules": ["mlp", "moe", "mla-up-projection", "norms"],
            "prediction.depth": 1, "parameters without MTP, vocab 129280": 671026419200, "missing": ANY,
        },
    ),
    "meg-recompute-activations.sh": Case(
        LINE_70B, recompute, **{
            "vpp": 5, "recompute": "selective", "padded vocab at tp 4": 32256, "dp": 1,
            "warning": "options that Megatron-LM does not have: --my-own-flag",
        },
    ),
    "titan-llama3-70b.toml": Case(
        TITAN, titan, **{
            "model": "llama-3.1-70b", "stack": "fsdp2", "sequence_parallel": True, "dp at 64": 8, "micro_batch": 8,
            "global_batch at 64": 64, "recompute": "full", "missing": "accelerators",
        },
    ),
    "titan-recipe-tokens.py": Case(RECIPE, recipe, micro_batch=2, global_batch=128, accelerators=16, sequence=8192),
    "ds-zero2-offload-old.json": Case(
        OLD_OFFLOAD, old_offload, offload=["optimizer"], precision="fp16", **{"micro_batch at 4": 2}
    ),
    "ds-z3-auto.json": Case(AUTO, auto, zero=3, missing=ANY),
    "ds-triple-wrong.json": Case(
        WRONG, wrong, **{"fault at 8 GPUs": "batch 64 is not micro-batch 4 × accumulation 3 × dp 8, 96"}
    ),
    "acc-fsdp1.yaml": Case(FSDP1, fsdp, stack="transformers-fsdp", zero=3),
    "acc-fsdp2-moe.yaml": Case(FSDP2, fsdp, stack="fsdp2", zero=3),
    "axolotl-qwen3-8b-nd.yaml": Case(MESH_OF_THREE, mesh, accelerators=8, global_batch=2, model="qwen-3-8b"),
    "axolotl-qlora-fsdp.yml": Case(
        QLORA, qlora, tuning={"method": "qlora", "rank": 32}, model="llama-2-7b", offload=["optimizer", "parameters"]
    ),
    "lf-mca-qwen3-moe.yaml": Case(MCORE, mcore, stack="megatron-core", **{"global_batch at 8": 16}),
    "nanotron-tiny-llama.yaml": Case(
        NANOTRON, nanotron, parameters=2420754432, accelerators=8, global_batch=12, sequence_parallel=True,
        recompute="none",
    ),
    "maxtext-llama3-70b-gpu.yml": Case(
        MAXTEXT, maxtext, accelerators=16, recompute="full", **{"global_batch at 16": 64}
    ),
    "torchtune-70b-full.yaml": Case(TORCHTUNE, torchtune, states="weights, gradients and moments in bf16", missing=ANY),
    "log-megatron-2023.txt": Case(
        MEGATRON, megatron_log, step_time_s=52.7281, global_batch=512, seq_len=2048, **{"samples/s check": 9.71}
    ),
    "log-deepspeed-neox.txt": Case(
        NEOX, neox_log, step_time_s=4.1031, global_batch=32, peak_mem_gb=67.98, **{"samples/s of the timer": 8.009}
    ),
    "log-torchtitan-cp2.txt": Case(
        TITAN_LOG, titan_log, **{
            "tokens_per_s_per_gpu": 5615, "peak assumed": 989, "capacity_gib": 95.0, "peak_mem_gb": 48.15,
            "step_time_s": 0.7296,
        },
    ),
    "log-nemo.txt": Case(
        NEMO, nemo_log, verdict="steps 0 to 2 are too few: 0 behind a warm-up of 5", global_batch=8
    ),
    "all_reduce_perf-16xa100-40.txt": Case(A100, nccl, **{"average busbw": 175.531, "busbw/algbw": 1.875}),
    "topo-8xh100-8nic.txt": Case(matrix(), eight, **{"node shape": (8, 18, 8), "guess": ANY}),
    "topo-4gpu-no-nic.txt": Case(matrix(gpus=4, nics=0), four, **{"node shape": (4, 18, 0)}),
    "serve-vllm-70b.txt": Case(VLLM, serve, accelerators=8, verdict="serving"),
}  # fmt: skip


def agree(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for quantity, value in expected.items():
        close = pytest.approx(value, rel=2e-4) if isinstance(value, float) else value
        assert found[quantity] == close, quantity


@pytest.mark.parametrize("name", CASES)
def test_a_text_says_what_stands_in_it(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    path = tmp_path / name
    path.write_text(case.text, "utf-8")
    agree(case.reader(path), case.expected)


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published files lie in a folder of their own")
@pytest.mark.parametrize("name", CASES)
def test_the_published_file_says_the_same(name: str) -> None:
    agree(CASES[name].reader(PUBLISHED / name), CASES[name].expected)


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published files lie in a folder of their own")
def test_every_expected_figure_is_one_of_these() -> None:
    with (PUBLISHED / "expected.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if not row["file"].startswith("hf-")]
    for row in rows:
        value = CASES[row["file"]].expected[row["quantity"]]
        if isinstance(value, bool):
            assert row["value"] == str(value).lower()
        elif isinstance(value, int | float):
            assert float(row["value"]) == pytest.approx(value, rel=1e-6), row
