"""The load beside the command of an engine completes the scenario, and names what it takes the place of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.reader.library import DocumentReader
from costmodel.documents.reader.load_scenario import any_from
from costmodel.documents.text.yaml_tree import copied
from costmodel.exchange.import_result import Imported
from costmodel.explore.import_export.import_file import GivenBesideFile, import_files

SERVE = "vllm serve meta-llama/Llama-3.1-70B-Instruct --tensor-parallel-size 8\n"
BENCH = "vllm bench serve --dataset-name random --random-input-len 1000 --random-output-len 100 "
AT_ONCE = f"{SERVE}{BENCH}--max-concurrency 64\n"
SPREAD = f"{SERVE}{BENCH}--random-range-ratio 0.3 --request-rate 4\n"


def loaded(text: str, path: Path, load: dict[str, str], *assignments: str) -> Imported:
    """What a script comes to with a load beside it, which opens as a scenario."""
    file = path / "serve.sh"
    file.write_text(text, "utf-8")
    found = import_files([str(file)], GivenBesideFile(gpu="h100", assignments=assignments, load=load)).found
    any_from(DocumentReader(), copied(found.document), "serve.sh", ())
    return found


def test_the_flags_of_a_load_complete_the_scenario_of_a_command(tmp_path: Path, run: Any) -> None:
    (tmp_path / "serve.sh").write_text(SERVE, "utf-8")
    load = ("--rate", "8", "--prompt", "2048", "--answer", "512")
    assert run("import", "serve.sh", "--gpu", "h100", *load, "-o", "mine.yaml", cwd=tmp_path).code == 0
    assert "8.00 requests/s" in run("estimate", "mine.yaml", cwd=tmp_path).out.replace(
        "8 requests/s", "8.00 requests/s"
    )
    short = run("import", "serve.sh", "--gpu", "h100", cwd=tmp_path)
    assert short.code == 0
    assert all(f"; {flag} sets" in short.out for flag in ("--prompt", "--answer", "--rate or --concurrency"))
    assert run("import", "serve.sh", cwd=tmp_path).err.count("error[") == 1


def test_a_flag_counts_more_than_a_benchmark_and_its_origin_names_what_it_replaces(tmp_path: Path) -> None:
    found = loaded(AT_ONCE, tmp_path, {"rate": "8", "prompt": "{mean: 3000, spread: 50 %}"})
    workload = found.document["workload"]
    assert workload["rate"] == "8 /s"
    assert not {"concurrency", "traffic"} & set(workload)
    assert dict(workload["prompt"]) == {"mean": 3000, "spread": "50 %"}
    assert "--rate, in the place of concurrency 64" in found.origins["workload.rate"].text
    assert "in the place of prompt 1000" in found.origins["workload.prompt.mean"].text


def test_a_length_without_a_spread_takes_the_place_of_one_with_it(tmp_path: Path) -> None:
    found = loaded(SPREAD, tmp_path, {"prompt": "3000", "rate": "8"}, "workload.rate=7 /s")
    assert found.document["workload"]["prompt"] == 3000
    assert found.document["workload"]["rate"] == "7 /s"
    assert found.origins["workload.rate"].text == "--set, in the place of '8 /s' of --rate"


def test_set_of_a_part_takes_the_place_of_a_plain_length(tmp_path: Path) -> None:
    found = loaded(AT_ONCE, tmp_path, {}, "workload.output.mean=50")
    assert dict(found.document["workload"]["output"]) == {"mean": 50}
    assert found.document["workload"]["traffic"] == "burst"


def test_the_cap_of_a_rate_stays_beside_another_rate(tmp_path: Path) -> None:
    capped = f"{SERVE}{BENCH}--request-rate 4 --max-concurrency 64\n"
    both = loaded(capped, tmp_path, {})
    assert not both.losses
    workload = both.document["workload"]
    assert (workload["rate"], workload["concurrency"], "traffic" in workload) == ("4 /s", 64, False)
    faster = loaded(capped, tmp_path, {"rate": "8"}).document["workload"]
    assert (faster["rate"], faster["concurrency"]) == ("8 /s", 64)


def test_the_same_kind_of_load_keeps_how_it_arrives(tmp_path: Path) -> None:
    found = loaded(AT_ONCE, tmp_path, {"concurrency": "32"})
    assert found.document["workload"]["concurrency"] == 32
    assert found.document["workload"]["traffic"] == "burst"


@pytest.mark.parametrize(
    ("words", "mark"),
    [(("--rate", "lots"), "--rate lots"), (("--answer", "-5"), "--answer -5")],
)
def test_a_flag_that_is_wrong_is_shown_as_it_was_typed(
    words: tuple[str, ...], mark: str, run: Any, tmp_path: Path
) -> None:
    (tmp_path / "serve.sh").write_text(SERVE, "utf-8")
    given = {"--rate": "8", "--prompt": "2048", "--answer": "512", words[0]: words[1]}
    shown = run("import", "serve.sh", "--gpu", "h100", *(word for pair in given.items() for word in pair), cwd=tmp_path)
    assert shown.code == 2
    assert f"| {mark}" in shown.err


def test_a_load_has_no_effect_on_files_that_train(run: Any) -> None:
    shown = run("import", "scenarios/examples/qwen3-8b", "--rate", "8")
    assert shown.code == 2
    assert "--rate has no effect: no file generates answers" in shown.err
