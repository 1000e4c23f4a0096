"""Every command's answer: in words, as JSON, in a file, and whether it was yes or no."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from each import each

import costmodel
from costmodel.commands.command_table import QUESTIONS
from costmodel.documents.reader.find_documents import find
from costmodel.documents.reader.library import DocumentReader
from costmodel.documents.text.digest import sealed
from costmodel.estimate.shared.reasons import REFUSALS, REMARKS
from costmodel.ground.errors import FAULT_CODES

Faults = Callable[[Any], list[Any]]

ROOT = Path(__file__).resolve().parents[2]
NAME = "llama-3-70b-512"
SERVED = "serve-llama-3.1-70b"
EXAMPLE = ROOT / "scenarios" / "examples" / "qwen3-8b"
ANSWERS = {
    "estimate": (("estimate", NAME), "step time", "costmodel/result/v1"),
    "estimate in full": (("estimate", NAME, "-v"), "assume.network_share", "costmodel/result/v1"),
    "memory": (("memory", NAME), "activations", "costmodel/result/v1"),
    "memory of a model": (("memory", "llama-3-70b"), "70,553,706,496 parameters", "costmodel/model-memory/v1"),
    "comm": (("comm", NAME), "reduce-scatter", "costmodel/result/v1"),
    "search": (("search", NAME, "--top", "3"), "why not", "costmodel/search/v2"),
    "explain a figure": (("explain", NAME, "dp_exposed"), "source: ", "costmodel/explanation/v2"),
    "explain a word": (("explain", "busbw"), "busbw", "costmodel/page/v1"),
    "explain an equation": (("explain", "ring_time"), "gives", "costmodel/page/v1"),
    "explain a code": (("explain", "L002"), "layers", "costmodel/page/v1"),
    "explain alone": (("explain",), "step_time", "costmodel/words/v1"),
    "list": (("list",), NAME, "costmodel/list/v1"),
    "list a shelf": (("list", "models"), "llama-3-70b", "costmodel/list/v1"),
    "show": (("show", "h100-sxm"), "bandwidth: 3.35 TB/s", "costmodel/document/v1"),
}
every_answer = pytest.mark.parametrize("name", ANSWERS)


@every_answer
def test_in_words(name: str, run: Any) -> None:
    args, word, _ = ANSWERS[name]
    ran = run(*args)
    assert (ran.code, ran.err) == (0, "")
    assert word in ran.out
    assert ran.out.endswith("\n")
    assert "\x1b" not in ran.out
    assert not any(line != line.rstrip() for line in ran.out.splitlines())


def test_explain_alone_says_what_is_worth_asking(run: Any) -> None:
    """By kind, each strategy and equation once, and not what equations call their inputs."""
    kinds = dict(re.split(" {2,}", line, maxsplit=1) for line in run("explain").out.splitlines() if "  " in line)
    others = [f"{kind} of {wing}" for wing in ("serving", "reinforcement learning") for kind in ("results", "words")]
    assert list(kinds)[:9] == ["results", "memory", *others, "strategies", "questions", "codes"]
    layers = "compressed_query_parameters, latent_attention_parameters, mean_head_dim, latent_activations"
    first = f"{layers}, output_gate_traffic, output_gate_activations, "
    assert kinds["equations.layers.attention"].startswith(first)
    printed = [word for known in kinds.values() for word in known.split(", ")]
    assert len(printed) == len(set(printed))
    assert not {"k", "of", "p10", "step_time_low", "zero-3"} & set(printed)


@pytest.mark.parametrize(("asked", "none"), [([NAME, "--set", "plan.micro_batch=64"], True), ([NAME], False)])
def test_a_term_that_is_none_is_said_to_be(asked: list[str], none: bool, run: Any) -> None:
    """A trace of one stays in JSON."""
    (line,) = (line.split() for line in run("estimate", *asked).out.splitlines() if line.split()[:1] == ["launch"])
    plan = json.loads(run("estimate", *asked, "--json").out)["plans"][0]
    assert plan["launch_s"] > 0
    assert (line[1:3] == ["0", "s"]) is none


def refuse(constant: str) -> None:
    """NaN and infinities are no JSON."""
    raise AssertionError(constant)


@every_answer
def test_as_json(name: str, run: Any) -> None:
    args, _, schema = ANSWERS[name]
    if "-v" in args:
        args = args[:-1]
    ran = run(*args, "--json")
    assert (ran.code, ran.err) == (0, "")
    result = json.loads(ran.out, parse_constant=refuse)
    assert (result["schema"], result["costmodel"]) == (schema, costmodel.__version__)
    if not schema.startswith("costmodel/result") or args[0] != "search":
        assert run(*args, "--format", "json") == ran


@pytest.mark.parametrize("command", ["estimate", "memory", "comm", "search"])
def test_a_result_says_what_it_rests_on(command: str, run: Any) -> None:
    result = json.loads(run(command, NAME, "--json").out)
    assert set(result) >= {"costmodel", "scenario", "documents", "assumed", "columns", "plans", "refused", "notes"}
    assert result["flop_convention"] == "model-causal"
    assert result["scenario"]["document"]["model"] == "llama-3-70b"
    assert {"name": f"scenarios/{NAME}.yaml"}.items() <= result["documents"][0].items()
    assert all(len(document["digest"]) == 12 for document in result["documents"])
    assert all(set(item) == {"path", "value", "from"} for item in result["assumed"])
    for column in result["columns"]:
        assert column["meaning"]
        assert column["unit"]
        assert all(column["name"] in plan for plan in result["plans"])
    assert all(plan["verdict"] in ("fits", "tight", "does not fit") for plan in result["plans"])


def test_a_search_counts(run: Any) -> None:
    result = json.loads(run("search", NAME, "--top", "4", "--json").out)
    assert len(result["plans"]) == 4
    assert result["candidates"] >= result["evaluated"] >= result["fit"] >= 4
    assert result["elapsed_s"] > 0
    assert result["yours"]["rank"] >= 1
    refused = {entry["code"]: entry["plans"] for entry in result["refused"]}
    not_safe = refused.pop("M004")  # they fit, as more likely than not
    assert 0 < not_safe < result["fit"]
    assert sum(refused.values()) == result["candidates"] - result["fit"]
    assert {entry["code"] for entry in result["refused"]} <= set(REFUSALS)
    rates = [plan["tokens_per_s_per_gpu"] for plan in result["plans"]]
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize("more", [(), ("--pareto", "memory_peak,step_time")])
def test_a_ranking_remarks_what_estimates_of_its_plans_do(more: tuple[str, ...], run: Any) -> None:
    asked = (NAME, "--set", "cluster.node=gaudi2-8", "--set", "search.tp=[16]")
    result = json.loads(run("search", *asked, *more, "--top", "12", "--json").out)
    expected = set()
    for plan in (result["pareto"] if more else result)["plans"]:
        settings = [f"plan.{key}={plan[key]}" for key in ("tp", "pp", "dp", "vpp", "micro_batch", "zero", "recompute")]
        options = [part for setting in settings for part in ("--set", setting)]
        expected |= {note["code"] for note in json.loads(run("estimate", *asked, *options, "--json").out)["notes"]}
    assert {"N001", "N005"} <= expected
    lines = run("search", *asked, *more, "--top", "1000" if more else "12").out.splitlines()
    said = [line.split()[1] for line in lines if line.startswith("  ▲ ")]
    assert len(said) == len(set(said))
    assert set(said) == expected - {"N003"}


@each("code", [*FAULT_CODES, *REFUSALS, *REMARKS])
def test_every_code_is_explained(code: str, run: Any) -> None:
    ran = run("explain", code)
    assert ran.code == 0
    assert ran.out.startswith(code)
    assert len(ran.out.splitlines()) > 2


NO = {
    "does not fit": ("estimate", NAME, "--set", "plan.tp=1", "--set", "plan.pp=1"),
    "memory does not fit": ("memory", NAME, "--set", "plan.tp=1", "--set", "plan.pp=1"),
    "comm does not fit": ("comm", NAME, "--set", "plan.tp=1", "--set", "plan.pp=1"),
    "invalid": ("estimate", NAME, "--set", "plan.tp=3"),
    "no plan fits": (
        "search",
        NAME,
        "--set",
        "cluster.nodes=1",
        "--set",
        "search={zero: [1], recompute: [full], micro_batch: [1], schedule: [1f1b]}",
    ),
    "no plan is valid": ("search", NAME, "--set", "search.tp=[3]"),
}


@pytest.mark.parametrize("name", NO)
def test_the_answer_no(name: str, run: Any) -> None:
    ran = run(*NO[name])
    assert (ran.code, ran.err) == (1, "")
    assert any(word in ran.out for word in ("does not fit", "✗ L", "No plan fits", "No plan is valid"))
    as_json = run(*NO[name], "--json")
    assert as_json.code == 1
    result = json.loads(as_json.out, parse_constant=refuse)
    assert result["refused"] or not all(plan["fits"] for plan in result["plans"])


def test_predictions_are_held_against_measurements(run: Any, faults: Faults) -> None:
    ran = run("validate", "korthikanti-2022")
    assert (ran.code in (0, 1), ran.err) == (True, "")
    assert "22b-full" in ran.out
    result = json.loads(run("validate", "korthikanti-2022", "--json").out, parse_constant=refuse)
    assert result["schema"].startswith("costmodel/")
    (found,) = faults(run("validate", "korthikanti-2021"))
    assert (found.code, found.help) == ("D009", "did you mean 'korthikanti-2022'?")


def test_measured_memory_is_said_as_memory_is(run: Any, tmp_path: Path) -> None:
    shipped = (ROOT / "scenarios" / "measured" / "deepseek-v3.yaml").read_text("utf-8")
    mine = tmp_path / "deepseek-v3.yaml"
    mine.write_text(shipped.replace("step_time: 19.91 s", "memory_peak: 40 GiB"), "utf-8")
    (row,) = (line for line in run("validate", str(mine)).out.splitlines() if "pre-training" in line)
    assert row.split()[1:3] == ["40.00", "GiB"]
    assert row.split()[4] == "GiB"


def test_limits_are_obeyed(run: Any) -> None:
    ran = run("search", NAME, "--set", "limits.mfu.at_least=99 %")
    assert ran.code == 1
    assert "No plan" in ran.out


@pytest.mark.parametrize("command", ["estimate", "memory", "comm", "search"])
def test_a_result_is_a_scenario_again(command: str, run: Any, tmp_path: Path) -> None:
    changed = ("--set", "plan.tp=4", "--set", "plan.pp=8", "--set", "cluster.node.accelerator.memory.bandwidth=4 TB/s")
    (tmp_path / "r.json").write_text(run(command, NAME, *changed, "--json").out, "utf-8")
    expected = run("estimate", NAME, *changed).answer
    assert run("estimate", "r.json", cwd=tmp_path).answer == expected
    assert run("estimate", "-", stdin=(tmp_path / "r.json").read_bytes()).answer == expected


def without(result: dict[str, Any], *path: str) -> dict[str, Any]:
    """The result with one key gone."""
    copied: dict[str, Any] = json.loads(json.dumps(result))
    here = copied
    for part in path[:-1]:
        here = here[part]
    del here[path[-1]]
    return copied


def test_broken_results(run: Any, faults: Faults) -> None:
    result = json.loads(run("estimate", NAME, "--json").out)
    for path in (("scenario",), ("scenario", "document")):
        (found,) = faults(run("estimate", "-", stdin=json.dumps(sealed(without(result, *path)))))
        assert (found.code, found.sentence) == ("D004", "this result has no scenario")
    lacking = sealed(without(result, "scenario", "document", "workload"))
    (found,) = faults(run("estimate", "-", stdin=json.dumps(lacking)))
    assert (found.code, found.sentence) == ("D004", "the key 'workload' is missing")
    (found,) = faults(run("estimate", "-", stdin=json.dumps(without(result, "schema"), indent=1)))
    assert (found.code, found.sentence) == ("D011", "the key 'schema' is missing")
    result["scenario"]["document"]["plan"]["tp"] = 0
    text = json.dumps(sealed(result), indent=1)
    (found,) = faults(run("estimate", "-", stdin=text))
    assert (found.code, found.marked, "scenario.document.plan.tp" in found.place) == ("D008", "0", True)
    assert faults(run("estimate", "-", stdin=text[: len(text) // 2]))[0].code == "D002"


def test_words_into_a_file(run: Any, tmp_path: Path) -> None:
    ran = run("estimate", NAME, "-o", "answer.txt", cwd=tmp_path)
    assert ran == (0, "", "wrote answer.txt\n")
    assert (tmp_path / "answer.txt").read_text("utf-8") == run("estimate", NAME, cwd=tmp_path).out
    assert os.listdir(tmp_path) == ["answer.txt"]


TO_WRITE = {
    **{name: f"quickstart{more}" for name, more in (
        ("estimate", ""), ("memory", ""), ("comm", ""), ("pipeline", ""), ("run", ""), ("explain", " step_time"),
        ("search", " --top 1"), ("sweep", " --over plan.micro_batch=1,2"), ("scale", " --ranks 32,64"),
        ("sensitivity", " --top 1"), ("solve", " --over plan.micro_batch=1,2 --for 'mfu>=1 %'"),
        ("diff", " --set plan.micro_batch=2"), ("check", ""), ("diagnose", " --step 9s"), ("report", " quickstart"),
        ("export", " --to megatron --lossy"), ("show", ""),
    )},
    "buy": "--model llama-3.1-8b --gpu h100 --rate 4 --prompt 2048 --answer 256",
    "collective": "all-reduce 1GB --gpus 64",
    "validate": "korthikanti-2022",
    "calibrate": "tests/evidence/measured/gemm.csv",
    "import": f"{EXAMPLE}",
    "list": "models",
    "init": "",
    "schema": "stack",
    "measure": "",  # tests of a GPU write its table
}  # fmt: skip
FORMS = ("json", "txt", "md", "html", "xlsx")


def test_every_command_is_asked_to_write() -> None:
    assert set(TO_WRITE) == set(QUESTIONS)


@pytest.mark.parametrize("command", [command for command in TO_WRITE if command != "measure"])
def test_every_command_names_the_file_that_it_wrote(command: str, run: Any, tmp_path: Path) -> None:
    """On standard error and in one line, in every form; standard output has the answer of documents alone."""
    offered = run(command, "--help").out
    for form in FORMS if command not in ("report", "calibrate") else FORMS[:1]:
        if form in ("html", "xlsx") and form not in offered:
            continue
        ran = run(command, *shlex.split(TO_WRITE[command]), "-o", str(file := tmp_path / f"{command}.{form}"))
        if "selects no format" not in ran.err:  # of documents, which are written as YAML
            assert (ran.code in (0, 1), ran.err) == (True, f"wrote {file}\n"), form
            assert file.exists()
        assert ran.out == "" or command in ("import", "export"), form


@pytest.mark.parametrize("args", [("memory", "llama-3-70b"), ("comm", NAME), ("explain", "busbw"), ("memory", NAME)])
def test_json_into_a_file(args: tuple[str, ...], run: Any, tmp_path: Path) -> None:
    assert run(*args, "-o", "answer.json", cwd=tmp_path) == (0, "", "wrote answer.json\n")
    assert (tmp_path / "answer.json").read_text("utf-8") == run(*args, "--json", cwd=tmp_path).out


def test_a_file_gets_the_usual_permissions(run: Any, tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    run("explain", "busbw", "-o", "a.json", cwd=tmp_path)
    assert (tmp_path / "a.json").stat().st_mode == (tmp_path / "other").stat().st_mode
    (tmp_path / "a.json").chmod(0o640)
    run("explain", "L002", "-o", "a.json", "--force", cwd=tmp_path)
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o640


def test_the_answer_no_is_written_too(run: Any, tmp_path: Path) -> None:
    assert run(*NO["invalid"], "-o", "a.json", cwd=tmp_path).code == 1
    assert json.loads((tmp_path / "a.json").read_text("utf-8"))["refused"]


def test_a_form_that_is_asked_for_goes_into_a_file_of_any_suffix(run: Any, tmp_path: Path) -> None:
    assert run("explain", "busbw", "-o", "a.foo", "--format", "table", cwd=tmp_path) == (0, "", "wrote a.foo\n")
    assert (tmp_path / "a.foo").read_text("utf-8") == run("explain", "busbw").out


def test_nothing_is_overwritten_without_force(run: Any, faults: Faults, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("mine", "utf-8")
    (found,) = faults(run("estimate", NAME, "-o", "a.json", cwd=tmp_path))
    assert (found.code, found.sentence, found.place) == ("C002", "a.json exists", "a.json")
    assert "--force" in found.help
    assert (tmp_path / "a.json").read_text("utf-8") == "mine"
    assert run("estimate", NAME, "-o", "a.json", "--force", cwd=tmp_path).code == 0
    assert json.loads((tmp_path / "a.json").read_text("utf-8"))


def test_a_link_is_followed(run: Any, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("old", "utf-8")
    (tmp_path / "link.json").symlink_to("a.json")
    run("explain", "busbw", "-o", "link.json", "--force", cwd=tmp_path)
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "a.json").read_text("utf-8"))


PLACES = {
    "folder": (".", "is a folder"),
    "empty": ("", "is a folder"),
    "no such folder": ("x/a.json", "cannot be written: No such file or directory"),
    "below a file": ("file/a.json", "cannot be written: Not a directory"),
    "format to come": ("a.parquet", ".parquet is not written yet"),
    "unknown suffix": ("a.foo", ".foo selects no format"),
    "long name": (f"{'x' * 300}.json", "cannot be written: File name too long"),
}


@pytest.mark.parametrize("name", PLACES)
def test_places_that_cannot_be_written(name: str, run: Any, faults: Faults, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path, sentence = PLACES[name]
    (found,) = faults(run("explain", "busbw", "-o", path, "--force", cwd=tmp_path))
    assert found.code == "C002"
    assert sentence in found.sentence
    assert os.listdir(tmp_path) == ["file"]


UNWRITABLE = {
    "estimate of training": ("estimate llama-3-70b-512", "yaml"),
    "estimate of serving": ("estimate serve-llama-3.1-70b", "yml"),
    "search": ("search llama-3-70b-512", "parquet"),
    "capitals": ("memory llama-3-70b-512", "YAML"),
    "a document": ("show vllm", "jsonl"),
    "rows of no table": ("explain busbw", "jsonl"),
    "import of a document": (f"import {EXAMPLE}", "foo"),
    "a list": ("list models", "yaml"),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_a_suffix_that_a_command_cannot_write_is_refused_and_others_are_named(
    name: str, run: Any, faults: Faults, tmp_path: Path
) -> None:
    command, suffix = UNWRITABLE[name]
    found = run(*command.split(), "-o", f"a.{suffix}", cwd=tmp_path)
    (fault,) = faults(found)
    assert found.code == 2
    assert "json" in fault.help
    assert os.listdir(tmp_path) == []


def test_documents_go_into_yaml_and_files_of_other_programs_into_any_suffix(run: Any, tmp_path: Path) -> None:
    """A DeepSpeed configuration ends in .json, which is not the answer's JSON; capitals select as small letters do."""
    for command in ("show vllm", "init", f"import {EXAMPLE}"):
        assert run(*command.split(), "-o", "a.yaml", "--force", cwd=tmp_path).code == 0
        assert "schema: costmodel/" in (tmp_path / "a.yaml").read_text("utf-8")
    assert run("export", NAME, "--to", "deepspeed", "--lossy", "-o", "ds.json", cwd=tmp_path).code == 0
    assert "zero_optimization" in json.loads((tmp_path / "ds.json").read_text("utf-8"))
    assert run("comm", NAME, "-o", "A.JSON", cwd=tmp_path).code == 0
    assert "schema" in json.loads((tmp_path / "A.JSON").read_text("utf-8"))


def test_nothing_half_written_is_left(
    run: Any, faults: Faults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "a.json").write_text("mine", "utf-8")
    monkeypatch.setattr("os.replace", full)
    (found,) = faults(run("explain", "busbw", "-o", "a.json", "--force", cwd=tmp_path))
    assert found.sentence.endswith("a.json cannot be written: No space left on device")
    assert os.listdir(tmp_path) == ["a.json"]
    assert (tmp_path / "a.json").read_text("utf-8") == "mine"


def test_an_input_that_cannot_be_used_writes_nothing(run: Any, tmp_path: Path) -> None:
    assert run("estimate", NAME, "--set", "plan.tp=0", "-o", "a.json", cwd=tmp_path).code == 2
    assert os.listdir(tmp_path) == []


def test_a_device_is_written_to_and_not_replaced(run: Any) -> None:
    assert run("explain", "busbw", "-o", os.devnull) == (0, "", f"wrote {os.devnull}\n")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.parametrize(
    ("args", "sentence", "hint"),
    [
        (("explain", "buswb"), "'buswb' is not known", "busbw"),
        (("explain", NAME, "step_tim"), "'step_tim' is not known", "step_time"),
        (("explain", NAME), f"'{NAME}' is a scenario; name a figure of it", f"costmodel explain {NAME} step_time"),
        (("explain", SERVED), f"'{SERVED}' is a scenario; name a figure of it", f"costmodel explain {SERVED} tpot"),
        (("explain", "mine.yaml"), "'mine.yaml' is a scenario", "costmodel explain mine.yaml step_time"),
        (("show", "llama-3-70"), "no document named 'llama-3-70'", "llama-3-70b"),
        (("show", "zzzzzzzz"), "no document named 'zzzzzzzz'", "costmodel list shows them all"),
    ],
)
def test_words_that_are_not_known(args: tuple[str, ...], sentence: str, hint: str, run: Any, faults: Faults) -> None:
    (found,) = faults(run(*args))
    assert found.code in ("C003", "C030", "D009")
    assert sentence in found.sentence
    assert hint in found.help


@pytest.mark.parametrize("word", ["L001", "ring_time"])
def test_a_word_that_is_no_figure_of_a_plan_has_its_page(word: str, run: Any) -> None:
    assert run("explain", NAME, word) == run("explain", word)


def test_a_scenario_without_a_plan_has_the_best_of_its_search(run: Any, scenario: str) -> None:
    bare = scenario[: scenario.index("plan:")]
    for command in (("estimate", "-"), ("memory", "-"), ("comm", "-"), ("explain", "-", "mfu")):
        found = run(*command, stdin=bare, brief=True)
        assert (found.code, "assumed: plan best of a search" in found.out) == (0, True)
    assert run("search", "-", "--top", "1", stdin=bare).code == 0


@pytest.mark.parametrize(
    ("space", "columns"),
    [
        (("order=[tp-cp-dp-pp, tp-cp-pp-dp]", "split=[spread, lighter-ends]"), ["order"]),
        (("split=[spread, even]",), []),
        (("split=[even, spread]", "pp=[16]", "vpp=[1, 3]"), ["split"]),
        (("cp=[2]", "cp_type=[p2p, a2a]", "pp=[4]"), ["cp_type"]),
        (("split=[spread]",), []),
    ],
)
def test_no_two_rows_look_alike(space: tuple[str, ...], columns: list[str], run: Any) -> None:
    options = [part for key in space for part in ("--set", f"search.{key}")]
    lines = run("search", "llama-3-70b-512", "--top", "20", *options).out.splitlines()
    start = next(place for place, line in enumerate(lines) if line.split()[:1] == ["#"])
    names = lines[start].split()
    assert [name for name in names if name in ("order", "split", "cp_type")] == columns
    end = names.index("step")
    rows = [tuple(line.split()[1:end]) for line in lines[start + 1 : start + 21]]
    assert len(set(rows)) == 20


@pytest.mark.parametrize(("key", "value"), [("recompute_modules", "norms"), ("offload", "optimizer"), ("tp", "8")])
def test_what_should_be_a_list_is_shown_as_one(key: str, value: str, run: Any, faults: Faults) -> None:
    """As it is to be written, which then is no fault."""
    written = f"[{value}]" if key != "tp" else value
    (found,) = faults(run("search", "llama-3-70b-512", "--set", f"search.{key}={written}"))
    mended = found.help.rpartition(": ")[2]
    assert run("search", "llama-3-70b-512", "--set", f"search.{key}={mended}", "--top", "1").code in (0, 1)


def test_nothing_is_explained_of_a_plan_that_is_invalid(run: Any) -> None:
    ran = run("explain", NAME, "step_time", "--set", "plan.pp=3")
    assert (ran.code, ran.err) == (1, "")
    assert ran.out == run("estimate", NAME, "--set", "plan.pp=3").out
    printed = json.loads(run("explain", NAME, "step_time", "--set", "plan.pp=3", "--json").out)
    assert "L001" in [item["code"] for item in printed["refused"]]


@pytest.mark.parametrize(
    "asked",
    [("estimate", NAME), ("search", NAME), ("sweep", NAME, "--over", "plan.tp=4,8"), ("sensitivity", NAME)],
    ids=lambda asked: asked[0],
)
def test_documents_of_one_s_own_that_stand_before_shipped_ones_are_said(
    asked: tuple[str, ...], run: Any, tmp_path: Path
) -> None:
    """As calibrate writes them; one of another name was asked for by it, and an equal one is none."""
    shelf = tmp_path / "hardware/efficiencies"
    shelf.mkdir(parents=True)
    text = find("efficiency", "h100-sxm").read_text("utf-8")
    if asked[0] == "estimate":
        (shelf / "mine.yaml").write_text(text.replace("of: h100-sxm", "of: mine"), "utf-8")
        assert "your own" not in run(*asked, "--set", "cluster.node.accelerator.efficiency=mine", cwd=tmp_path).out
        (shelf / "h100-sxm.yaml").write_text(text, "utf-8")
        assert "your own" not in run(*asked, cwd=tmp_path).out
    (shelf / "h100-sxm.yaml").write_text(f"# measured here\n{text}", "utf-8")
    assert "with your own hardware/efficiencies/h100-sxm.yaml" in run(*asked, cwd=tmp_path).out.splitlines()


def test_documents_of_one_s_own_are_marked_for_programs(run: Any, tmp_path: Path) -> None:
    shelf = tmp_path / "scenarios/stacks"
    shelf.mkdir(parents=True)
    for stack in ("megatron-core", "megatron-lm"):
        shutil.copy(find("stack", stack), shelf)
    with (shelf / "megatron-core.yaml").open("a", encoding="utf-8") as file:
        file.write("# measured here\n")
    printed = json.loads(run("estimate", NAME, "--json", cwd=tmp_path).out)["documents"]
    assert [item["name"] for item in printed if item["own"]] == ["scenarios/stacks/megatron-core.yaml"]


def test_explaining_a_figure_of_training_loads_no_other_workload() -> None:
    code = "import sys; from costmodel.commands.start import main\ntry: main()\nfinally: print(*sys.modules)"
    words = [sys.executable, "-c", code, "explain", "quickstart", "step_time"]
    loaded = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    others = ("documents.schemas.serving", "documents.schemas.rl", "estimate.serving", "estimate.rl", "evidence")
    assert "costmodel.estimate.training" in loaded
    assert [name for name in loaded if name.startswith(tuple(f"costmodel.{room}" for room in others))] == []


FLAGS = ("--model", "llama-3.1-8b", "--gpu", "h100", "--gpus", "16")


@pytest.mark.parametrize("words", [("estimate", *FLAGS), ("estimate", NAME, "--set", "plan.tp=4"), ("search", NAME)])
def test_options_of_an_answer_build_no_schemas(words: tuple[str, ...]) -> None:
    """Texts, counts and default choices are taken as they are; nothing is loaded for a folder of a search."""
    code = "import sys; from costmodel.commands.start import main\ntry: main()\nfinally: print(*sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True).stdout
    loaded = printed.splitlines()[-1].split()
    unused = {"typer._adapters", "costmodel.explore.search.checkpoint"}
    unused |= {"costmodel.explore.search.next_measurement"} if words[0] == "estimate" else set()
    assert unused.isdisjoint(loaded)


def test_a_count_out_of_bounds_is_still_refused(run: Any) -> None:
    refused = run("estimate", "--model", "llama-3.1-8b", "--gpu", "h100", "--gpus", "0")
    assert "--gpus" in refused.err
    assert refused.code == 2
    assert run("estimate", *FLAGS[:-1], "016").out == run("estimate", *FLAGS).out


def test_flags_read_the_documents_of_their_scenario_once(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scenario is loaded for its sizes, with them, and with the best plan: each document is read for the first."""
    reads: Counter[str] = Counter()
    text_of = DocumentReader.text

    def counted(reader: DocumentReader, kind: str, name: str, *place: Any, **more: Any) -> Any:
        reads[kind] += 1
        return text_of(reader, kind, name, *place, **more)

    monkeypatch.setattr(DocumentReader, "text", counted)
    assert run("estimate", *FLAGS).out
    assert {kind: reads[kind] for kind in ("model", "stack", "optimizer", "efficiency")} == {
        "model": 1, "stack": 1, "optimizer": 1, "efficiency": 3
    }  # fmt: skip


@pytest.mark.parametrize("name", ["llama-3-70b-512", "serve-llama-3.1-70b"])
def test_an_answer_states_whose_kernels_an_accelerator_borrows(name: str, run: Any) -> None:
    """A GH200 has the fit of the H100, which names the runs that it was made from."""
    part = ("--set", "cluster.node.accelerator=gh200-96")
    words = "as fitted for h100-sxm, none measured on gh200-96"
    assert words in run("estimate", name, *part).out
    assert "none measured on" not in run("estimate", name).out
