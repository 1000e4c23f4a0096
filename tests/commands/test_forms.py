"""The forms an answer takes: CSV, Markdown, a terminal of 80 columns, no colour; commands to paste; completion."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ledgers
from rich.cells import cell_len

from costmodel.commands.answer_options import answering
from costmodel.commands.list_and_show import DocumentKind
from costmodel.documents.reader.folders import FOLDER_OF
from costmodel.report.data_formats.json_csv_markdown import csv_text
from costmodel.report.terminal.layout import Reply

Faults = Callable[[Any], list[Any]]
ROOT = Path(__file__).resolve().parents[2]
NAME = "llama-3-70b-512"
FULL = ("--set", "plan.tp=1", "--set", "plan.pp=1")
INVALID = ("--set", "plan.tp=3")

# ── CSV and Markdown ─────────────────────────────────────────────────────────────────────────────────────────────────

TABLES = {
    "estimate": (("estimate", NAME), "plans"),
    "memory": (("memory", NAME), "ledger"),
    "comm": (("comm", NAME), "transfers"),
    "search": (("search", NAME, "--top", "4"), "plans"),
    "front": (("search", NAME, "--pareto", "memory_peak,mfu"), "pareto.plans"),
    "refused": (("search", NAME, "--why-not"), "refused"),
    "pipeline": (("pipeline", NAME), "schedules"),
    "list": (("list",), "documents"),
    "validate": (("validate", "korthikanti-2022"), "rows"),
    "no plan fits": (
        (
            "search",
            NAME,
            "--set",
            "cluster.nodes=1",
            "--set",
            "search={zero: [1], recompute: [full], micro_batch: [1], schedule: [1f1b]}",
        ),
        "plans",
    ),
    "invalid": (("estimate", NAME, *INVALID), "plans"),
}


@pytest.mark.parametrize("form", ["csv", "markdown", "table"])
def test_two_forms_of_one_answer_are_refused(form: str, run: Any, faults: Faults) -> None:
    (found,) = faults(run("estimate", NAME, "--json", "--format", form))
    assert (found.code, found.help) == ("C007", "leave one of them out")
    assert form in found.sentence
    assert run("estimate", NAME, "--json", "--format", "json") == run("estimate", NAME, "--json")


@pytest.mark.parametrize("name", TABLES)
def test_csv_holds_the_rows_of_the_json(name: str, run: Any) -> None:
    args, path = TABLES[name]
    ran, as_json = run(*args, "--format", "csv"), run(*args, "--json")
    assert (ran.code, ran.err) == (as_json.code, "")
    rows: Any = json.loads(as_json.out)
    columns = [column["name"] for column in rows.get("columns", [])]
    for part in path.split("."):
        rows = rows[part]
    read = list(csv.DictReader(io.StringIO(ran.out)))
    assert len(read) == len(rows)
    if not rows:
        assert ran.out.strip() == ",".join(columns)
    for row, printed in zip(rows, read, strict=True):
        for column, value in row.items():
            if isinstance(value, float):
                assert float(printed[column]) == value
            elif not isinstance(value, dict):
                assert printed[column] == (
                    "" if value is None else str(value).lower() if value in (True, False) else str(value)
                )


@pytest.mark.parametrize("name", TABLES)
def test_markdown_has_a_table(name: str, run: Any) -> None:
    args, _ = TABLES[name]
    ran = run(*args, "--format", "markdown")
    assert ran.err == ""
    lines = ran.out.splitlines()
    rules = [number for number, line in enumerate(lines) if re.fullmatch(r"\|( -{3}:? \|)+", line)]
    assert rules or name in ("refused", "no plan fits", "invalid")
    for number in rules:
        assert lines[number - 1].count(" | ") == lines[number].count(" | ")
    assert sum(line == "```" for line in lines) % 2 == 0
    assert not any(line != line.rstrip() for line in lines)


def test_a_list_is_one_cell_and_mappings_are_rows() -> None:
    row = {"name": "a", "sizes": [1, 2], "of": {"modules": ["x"]}, "parts": [{"part": "b"}, {"part": "c"}], "none": []}
    result = {"rows": [row]}
    read = list(csv.DictReader(io.StringIO(csv_text(Reply(list, lambda: result, rows="rows")))))
    assert [(line["sizes"], line["of.modules"], line["part"]) for line in read] == [
        ("[1, 2]", "[x]", "b"),
        ("[1, 2]", "[x]", "c"),
    ]


@pytest.mark.parametrize(
    ("asked", "one", "other"),
    [
        (("search", NAME, "--top", "1"), (), ("--set", "search.split=[spread]", "--set", "search.recompute=[full]")),
        (("estimate", NAME), (), ("--set", "plan.recompute_modules=[norms]", "--set", "plan.last_stage_layers=2")),
        (("sweep", NAME), ("--over", "plan.tp=8"), ("--over", "plan.tp=3,8", "--set", "cluster.node=gaudi2-8")),
        (("scale", NAME, "--ranks", "256..512"), (), ("--set", "cluster.node=gaudi2-8", "--set", "plan.tp=3")),
    ],
)
def test_columns_do_not_depend_on_what_is_in_them(
    asked: tuple[str, ...], one: tuple[str, ...], other: tuple[str, ...], run: Any
) -> None:
    heads = [run(*asked, *more, "--format", "csv").out.partition("\n")[0] for more in (one, other)]
    assert heads[0] == heads[1] != ""


def test_a_model_alone_as_csv(run: Any) -> None:
    read = list(csv.DictReader(io.StringIO(run("memory", "llama-3-70b", "--format", "csv").out)))
    assert set(read[0]) == {"model", "title", "weights_bytes", "dp", "zero", "bytes"}
    assert len(read) == 3 * 2 * 4


@pytest.mark.parametrize("args", [("explain", "L002"), ("show", "h100-sxm"), ("init",), ("schema", "plan")])
def test_answers_without_a_table(args: tuple[str, ...], run: Any, faults: Faults) -> None:
    if args[0] == "schema":
        args = ("schema", "model")
    (found,) = faults(run(*args, "--format", "csv"))
    assert found.code == "C007"
    assert run(*args, "--format", "markdown").code == 0


def test_the_suffix_says_the_form(run: Any, tmp_path: Path) -> None:
    for suffix, form in (("csv", "csv"), ("md", "markdown"), ("json", "json"), ("txt", "table")):
        assert run("comm", NAME, "-o", f"a.{suffix}", cwd=tmp_path) == (0, "", f"wrote a.{suffix}\n")
        assert (tmp_path / f"a.{suffix}").read_text("utf-8") == run("comm", NAME, "--format", form).out
    assert run("comm", NAME, "-o", "b.txt", "--format", "csv", cwd=tmp_path).code == 0
    assert (tmp_path / "b.txt").read_text("utf-8") == (tmp_path / "a.csv").read_text("utf-8")
    assert run("comm", NAME, "-o", "-", "--format", "csv", cwd=tmp_path).out == (tmp_path / "a.csv").read_text("utf-8")
    assert not (tmp_path / "-").exists()


def test_a_file_in_the_way_is_found_before_the_work(run: Any, faults: Faults, tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    (found,) = faults(run("search", "nothing-of-that-name", "-o", "a.csv", cwd=tmp_path))
    assert (found.code, found.sentence) == ("C002", "a.csv exists")


def test_the_options_of_an_answer_stand_behind_a_commands_own() -> None:
    def command(name: str, loud: bool = False) -> Reply:
        raise NotImplementedError

    names = list(answering(command).__signature__.parameters)  # type: ignore[attr-defined]
    assert names == ["name", "loud", "form", "as_json", "as_csv", "output", "force", "verbose", "no_color", "help_all"]


# ── Terminals ────────────────────────────────────────────────────────────────────────────────────────────────────────

NO_CP = ("--set", "search.cp=[1]")  # a column less
NO_DAYS = ("--set", "workload.tokens=null")  # a column less
SHOWN = {
    "estimate": ("estimate", NAME, "-v"),
    "memory": ("memory", NAME, "-v"),
    "memory of a model": ("memory", "llama-3-70b"),
    "comm": ("comm", NAME),
    "comm does not fit": ("comm", NAME, *FULL),
    "invalid": ("estimate", NAME, *INVALID),
    "pipeline": ("pipeline", NAME, "--set", "plan.pp=16"),
    "search": ("search", NAME, *NO_CP, *NO_DAYS),
    "front": ("search", NAME, "--pareto", "memory_peak,cost_per_mtoken"),
    "why not": ("search", NAME, "--why-not", *NO_CP, *NO_DAYS),
    "no plan fits": (
        "search",
        NAME,
        "--set",
        "cluster.nodes=1",
        "--set",
        "search={zero: [1], recompute: [full], micro_batch: [1], schedule: [1f1b]}",
    ),
    "large": ("search", "gpt-3-175b-1024", "--set", "cluster.nodes=1024", "--set", "workload.global_batch=12288"),
    "tree": ("explain", NAME, "step_time", "--depth", "9"),
    "page": ("explain", "interleaved_time"),
    "words": ("explain",),
    "list": ("list",),
    "validate": ("validate", "korthikanti-2022"),
}


def on_a_terminal(run: Any, *args: str, **env: str) -> str:
    """What a terminal of 80 columns would be sent."""
    ran = run(*args, env={"COLUMNS": "80", "TERM": "xterm-256color", **env}, screen=True)
    assert ran.err == ""
    text: str = ran.out
    return text


def bare(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text)


@pytest.mark.parametrize("name", SHOWN)
def test_a_terminal_of_80_columns(name: str, run: Any) -> None:
    lines = bare(on_a_terminal(run, *SHOWN[name])).splitlines()
    wide = [line for line in lines if cell_len(line) > 80]
    assert [line for line in wide if "costmodel " not in line and len(line.split()[-1]) < 40] == []
    piped = run(*SHOWN[name]).out
    words = [re.sub(r"[│├└─\\]", " ", text).split() for text in ("\n".join(lines), piped)]
    if name not in ("large", "words"):  # a search tells its time, and tests register equations of their own
        shown, whole = (sorted(word for word in part if not re.fullmatch(r"\d+\.\d\d", word)) for part in words)
        assert shown == whole


@pytest.mark.parametrize(
    ("width", "left"),
    [
        (88, "sp recompute step P90 days tok/s/GPU MFU GiB fits"),
        (84, "recompute step P90 days tok/s/GPU MFU GiB fits"),
        (80, "recompute step P90 tok/s/GPU MFU GiB fits"),
        (76, "recompute step tok/s/GPU MFU GiB fits"),
        (66, "recompute step tok/s/GPU GiB fits"),
        (50, "recompute step"),
    ],
)
def test_a_narrow_terminal_drops_columns_in_order(width: int, left: str, run: Any) -> None:
    lines = bare(on_a_terminal(run, "search", NAME, COLUMNS=str(width))).splitlines()
    (head,) = [line for line in lines if line.lstrip().startswith("# ")]
    assert head.split() == f"# tp cp pp dp vpp mb zero {left}".split()


@pytest.mark.parametrize(
    ("args", "env"),
    [
        (("--no-color", "estimate", NAME), {}),
        (("estimate", NAME, "--no-color"), {}),
        (("estimate", NAME), {"NO_COLOR": "1"}),
        (("estimate", NAME), {"TERM": "dumb"}),
        (("estimate", NAME, "--no-color"), {"FORCE_COLOR": "1"}),
    ],
)
def test_without_colour(args: tuple[str, ...], env: dict[str, str], run: Any) -> None:
    plain = on_a_terminal(run, *args, **env)
    assert "\x1b" not in plain
    assert "Bound by matrix multiply" in plain
    assert "\x1b[" in on_a_terminal(run, "estimate", NAME)


def test_an_empty_no_color_says_nothing(run: Any) -> None:
    assert "\x1b[" in on_a_terminal(run, "estimate", NAME, NO_COLOR="")


def test_no_color_does_not_last(run: Any) -> None:
    run("estimate", NAME, "--no-color")
    assert "\x1b[" in run("estimate", NAME, env={"FORCE_COLOR": "1"}).out


# ── Commands to paste ────────────────────────────────────────────────────────────────────────────────────────────────


def suggested(text: str) -> list[list[str]]:
    """Every command an answer names, as the shell would take it apart."""
    return [shlex.split(found)[1:] for found in re.findall(r"(?m)(costmodel .*)$", text)]


@pytest.mark.share(2)
@pytest.mark.parametrize("command", ["estimate", "memory", "comm", "pipeline", "search"])
@pytest.mark.parametrize("more", [(), FULL, INVALID, ("--set", "search.tp=[1, 2]", "--set", "title=a b")])
def test_what_is_suggested_can_be_pasted(command: str, more: tuple[str, ...], run: Any, tmp_path: Path) -> None:
    """A share of commands with plans, unless --whole asks for all."""
    (tmp_path / "my own.yaml").write_bytes((ROOT / f"scenarios/{NAME}.yaml").read_bytes())
    ran = run(command, "my own.yaml", *more, cwd=tmp_path)
    assert "SCENARIO" not in ran.out
    commands = suggested(ran.out)
    assert commands
    for words in commands:
        assert words[1] == "my own.yaml"
        assert run(*words, cwd=tmp_path).code in (0, 1)


@pytest.mark.parametrize(
    ("scenario", "more"),
    [
        (NAME, ()),
        (NAME, ("plan.dp=16",)),
        (NAME, ("plan.tp=4", "plan.vpp=2", "plan.pp=8")),
        (NAME, ("plan.zero=3", "plan.recompute=full", "plan.sequence_parallel=false", "plan.order=tp-cp-pp-dp")),
        (NAME, ("search.schedule=[gpipe]", "search.pp=[4]", "search.recompute=[full]")),
        (NAME, ("search.order=[tp-cp-pp-dp]", "search.pp=[2]")),
        (NAME, ("plan.split=spread", "search.pp=[4]")),
        ("deepseek-v3-2048", ("plan.recompute=full", "search.pp=[16]")),
        (NAME, ("plan.recompute=full", "plan.recompute_layers=1", "plan.recompute_method=uniform")),
        (NAME, ("plan=null",)),
        ("megatron-7.5b-512", ()),
        ("gpt-3-175b-1024", ("plan.schedule=1f1b",)),
        ("quickstart", ("objective=step_time",)),
        ("speed", ("search.tp=[8]", "search.pp=[1, 2]", "search.micro_batch=[1]")),
    ],
)
def test_the_best_plan_is_the_one_suggested(scenario: str, more: tuple[str, ...], run: Any) -> None:
    sets = [word for path in more for word in ("--set", path)]
    ran = run("search", scenario, *sets, "--json")
    best = json.loads(ran.out)["plans"][0]
    words = next(words for words in suggested(run("search", scenario, *sets).out) if words[0] == "estimate")
    (alone,) = json.loads(run(*words, "--json").out)["plans"]
    assert (best.pop("rank"), best.pop("first_faster")) == (1, pytest.approx(0.5))
    assert alone.keys() == best.keys()
    for name, value in best.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        assert alone[name] == (pytest.approx(value, rel=1e-9) if number else value), name


def test_what_is_set_already_is_not_set_again(run: Any) -> None:
    for words in suggested(run("search", NAME, "--set", "plan.pp=4", "--set", "cluster.nodes=32").out):
        paths = [word.partition("=")[0] for word in words if "=" in word]
        assert len(paths) == len(set(paths))
        assert "cluster.nodes" in paths


def test_comm_says_why_the_answer_is_no(run: Any) -> None:
    ran = run("comm", NAME, *FULL)
    assert ran.code == 1
    assert "✗ M001 does not fit: " in ran.out


@pytest.mark.parametrize("command", ["estimate", "memory", "comm", "pipeline"])
def test_of_an_invalid_plan_only_the_reasons_are_told(command: str, run: Any) -> None:
    ran = run(command, NAME, *INVALID)
    assert ran.code == 1
    assert re.search(r"(?m)^  ✗ L001 ", ran.out)
    printed = "\n".join(line for line in ran.out.splitlines() if "--set" not in line)  # figures of other plans
    assert not re.search(r"\d (s|ms|GiB|%)\b|\$", printed)
    result = json.loads(run(command, NAME, *INVALID, "--json").out)
    assert (result["plans"], result["refused"][0]["code"]) == ([], "L001")
    assert not any(result.get(name) for name in ("ledger", "transfers", "schedules", "stages", "timeline"))


# ── New commands ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_start_runs_as_it_is(run: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(run("init").out, "utf-8")
    assert run("search", "mine.yaml", cwd=tmp_path).code == 0
    assert run("estimate", "mine.yaml", cwd=tmp_path).code == 0
    assert run("init", "-o", "other.yaml", cwd=tmp_path) == (0, "", "wrote other.yaml\n")
    assert (tmp_path / "other.yaml").read_bytes() == (tmp_path / "mine.yaml").read_bytes()


def test_every_line_of_the_start_that_is_commented_out_is_right(run: Any, tmp_path: Path) -> None:
    text = re.sub(r"(?m)^(\s*)# ((?:  )?\w+:.*)$", r"\1\2", run("init").out.replace("# limits", "# limits"))
    assert text.count("\nsearch:") == text.count("\nlimits:") == 1
    (tmp_path / "mine.yaml").write_text(text, "utf-8")
    ran = run("search", "mine.yaml", cwd=tmp_path)
    assert (ran.code, ran.err) in ((0, ""), (1, ""))


@pytest.mark.parametrize("kind", DocumentKind)
def test_schemas(kind: DocumentKind, run: Any) -> None:
    printed = json.loads(run("schema", kind.value).out)
    forms = [printed["$defs"][form["$ref"].rpartition("/")[2]] for form in printed.get("oneOf", [])] or [printed]
    assert len(forms) == (3 if kind in ("scenario", "stack") else 1)  # training, serving, reinforcement learning
    for form in forms:
        assert form["properties"]["schema"]["const"] == f"costmodel/{kind.value}/v1"
        assert form["additionalProperties"] is False
    assert printed["$schema"].startswith("http://json-schema.org/draft-07")
    assert run("schema", kind.value, "--json") == run("schema", kind.value)


def test_every_kind_has_a_schema() -> None:
    assert {kind.value for kind in DocumentKind} == set(FOLDER_OF)


def test_a_pipeline_as_json(run: Any) -> None:
    result = json.loads(run("pipeline", NAME, "--schedule", "1f1b,interleaved", "--json").out)
    assert {offer["schedule"] for offer in result["schedules"]} == {"1f1b", "interleaved"}
    assert (
        sum(offer["fastest"] for offer in result["schedules"])
        == sum(offer["yours"] for offer in result["schedules"])
        == 1
    )
    assert [stage["stage"] for stage in result["stages"]] == ["first", "middle", "last"]
    own = next(offer for offer in result["schedules"] if offer["yours"])
    assert own["step_time_s"] == result["plans"][0]["step_time_s"]
    first = result["timeline"][0]
    assert first == {**first, "rank": 0, "pass": "forward", "micro_batch": 0, "start_s": 0.0}
    assert first["end_s"] == result["stages"][0]["forward_s"]


def test_schedules_that_are_none(run: Any, faults: Faults) -> None:
    (found,) = faults(run("pipeline", NAME, "--schedule", "zigzag"))
    known = "gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, v-half, v-min, dualpipe, dualpipev, chimera, looped-bfs"
    assert (found.code, found.help) == ("D010", f"one of {known}")


def test_a_front_as_json(run: Any) -> None:
    result = json.loads(run("search", NAME, "--pareto", "memory_peak,step_time_s", "--json").out)
    assert result["pareto"]["axes"] == [
        {"name": "memory_peak_bytes", "better": "lower"},
        {"name": "step_time_s", "better": "lower"},
    ]
    plans = result["pareto"]["plans"]
    assert [plan["memory_peak_bytes"] for plan in plans] == sorted(plan["memory_peak_bytes"] for plan in plans)
    assert [plan["step_time_s"] for plan in plans] == sorted((plan["step_time_s"] for plan in plans), reverse=True)
    assert json.loads(run("search", NAME, "--json").out)["pareto"] is None


@pytest.mark.parametrize("count", [1, 2, 3, 100])
def test_so_many_of_a_front(count: int, run: Any) -> None:
    asked = ("search", NAME, "--pareto", "memory_peak,step_time")
    total = len(json.loads(run(*asked, "--json").out)["pareto"]["plans"])
    lines = run(*asked, "--top", str(count)).out.splitlines()
    start = next(place for place, line in enumerate(lines) if line.lstrip().startswith("#")) + 1
    shown = min(count, total)
    places = [int(line.split()[0]) for line in lines[start : start + shown]]
    assert places[0] == 1
    assert places[-1] == (total if shown > 1 else 1)
    steps = {after - before for before, after in itertools.pairwise(places)}
    assert max(steps, default=0) - min(steps, default=0) <= 1
    words = f"{count} of {total} on the front, spread evenly; --json has all"
    assert (lines[start + shown].strip() == words) is (count < total)


def test_why_not_as_json(run: Any) -> None:
    refused = json.loads(run("search", NAME, "--why-not", "--json").out)["refused"]
    assert sum(entry["share"] for entry in refused) < 1
    assert all(entry["meaning"] and entry["example"]["tp"] >= 1 for entry in refused)
    assert all("example" not in entry for entry in json.loads(run("search", NAME, "--json").out)["refused"])


def test_codes_in_lower_case(run: Any) -> None:
    assert run("explain", "l002") == run("explain", "L002")


def test_a_word_is_proposed_once(run: Any, faults: Faults) -> None:
    (found,) = faults(run("explain", "bubbel"))
    words = found.help.removeprefix("did you mean ").removesuffix("?").split(" or ")
    assert "bubble" in words
    assert len(words) == len(set(words))


# ── Completion ───────────────────────────────────────────────────────────────────────────────────────────────────────


def completed(run: Any, line: str, cwd: Path = ROOT) -> list[str]:
    """What bash would offer for the last word of a line."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    ran = run(cwd=cwd, env={"_COSTMODEL_COMPLETE": "complete_bash", **words})
    assert ran.err == ""
    offered: list[str] = ran.out.split()
    return offered


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("costmodel pip", ["pipeline"]),
        ("costmodel estimate llama", [NAME]),
        ("costmodel memory llama-3-70", [NAME, "llama-3-70b"]),
        ("costmodel explain L00", [f"L00{digit}" for digit in range(1, 10)]),
        (f"costmodel explain {NAME} bubble", ["bubble", "bubble_share"]),
        ("costmodel show dgx-h2", ["dgx-h200"]),
        ("costmodel list meas", ["measured"]),
        ("costmodel schema sta", ["stack"]),
        ("costmodel validate kor", ["korthikanti-2022"]),
        (f"costmodel search {NAME} --pareto memory_peak,mf", ["memory_peak,mfu"]),
        (f"costmodel pipeline {NAME} --schedule gpipe,i", ["gpipe,interleaved"]),
    ],
)
def test_completion(line: str, offered: list[str], run: Any) -> None:
    assert completed(run, line) == offered


def test_paths_are_completed_too(run: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").touch()
    (tmp_path / "mine.txt").touch()
    (tmp_path / "minerals").mkdir()
    assert completed(run, "costmodel estimate min", tmp_path) == ["mine.yaml", "minerals/"]


def test_completion_of_names_reads_no_document() -> None:
    code = "import sys; from costmodel.commands import completion as c; c.documents(''); print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=1800, check=True
    )
    assert "costmodel.documents.reader.folders" in ran.stdout.split()
    assert not {"numpy", "ruamel.yaml", "costmodel.documents.reader.library"} & set(ran.stdout.split())


@pytest.mark.parametrize(("pp", "stages"), [(1, ["first"]), (2, ["first", "last"]), (4, ["first", "middle", "last"])])
def test_a_ledger_has_the_stages_there_are(pp: int, stages: list[str], run: Any) -> None:
    ran = run("memory", "llama-3-70b-512", "--set", f"plan.pp={pp}", "--json")
    assert list(ledgers(json.loads(ran.out))) == stages
