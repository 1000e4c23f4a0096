"""What programs read: rows that can be stacked, ranks, whole numbers, and names that harm nobody."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

NAME = "quickstart"
FACTS = ("model", "cluster", "nodes", "gpus", "sequence", "global_batch")
OF_NAME = {"model": "llama-3-8b", "cluster": "dgx-h100", "nodes": 4, "gpus": 32, "sequence": 8192, "global_batch": 512}
TABLES = {
    "plans": ("estimate", NAME),
    "ledger": ("memory", NAME),
    "transfers": ("comm", NAME),
    "schedules": ("pipeline", NAME),
    "plans of a search": ("search", NAME, "--top", "3"),
    "refused": ("search", NAME, "--why-not"),
    "pareto.plans": ("search", NAME, "--pareto", "memory_peak,step_time"),
    "points": ("sweep", NAME, "--over", "plan.tp=2,4"),
    "scenarios": ("check", NAME, "--set", "limits.mfu.at_least=10%"),
}


def rows(run: Any, *args: str) -> list[dict[str, str]]:
    ran = run(*args, "--format", "csv")
    assert ran.err == ""
    return list(csv.DictReader(io.StringIO(ran.out)))


# ── Rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("table", TABLES)
def test_every_row_says_what_it_is_of(table: str, run: Any) -> None:
    """And whole numbers have no point."""
    read, result = rows(run, *TABLES[table]), json.loads(run(*TABLES[table], "--json").out)
    here: Any = result
    for part in table.split(" ")[0].split("."):
        here = here[part]
    assert read
    assert here
    assert all({name: row[name] for name in FACTS} == OF_NAME for row in here)
    for row in read:
        assert {name: row[name] for name in FACTS} == {name: str(value) for name, value in OF_NAME.items()}
        assert not [cell for cell in row.values() if re.fullmatch(r"-?\d+\.0", cell)]
    assert not [value for value in numbers(result) if value.is_integer() and abs(value) < 2**53]


def numbers(tree: Any) -> Iterator[float]:
    """All that is written as no whole number."""
    if isinstance(tree, dict | list):
        for inner in tree.values() if isinstance(tree, dict) else tree:
            yield from numbers(inner)
    elif isinstance(tree, float):
        yield tree


@pytest.mark.parametrize("table", ["ledger", "transfers", "plans of a search", "points"])
def test_rows_of_markdown_say_it_too(table: str, run: Any) -> None:
    """Of every table whose columns have names."""
    lines = run(*TABLES[table], "--format", "markdown").out.splitlines()
    heads = [at for at, line in enumerate(lines) if line.startswith("| model | cluster | sequence | global\\_batch |")]
    assert heads
    for at in heads:
        body = itertools.takewhile(lambda line: line.startswith("| "), lines[at + 2 :])
        assert all(line.startswith("| llama-3-8b | 4 × dgx-h100 | 8192 | 512 |") for line in body)
    named = [line for line in lines if re.match(r"\| *[\w\\]", line) and line.split(" | ")[0] == "| model"]
    assert len(named) == len(heads)


def test_rows_of_variants_say_their_own(run: Any) -> None:
    over = "--over", "cluster.nodes=2,4", "--over", "workload.sequence=4096,8192"
    for row in rows(run, "sweep", NAME, *over):
        assert (row["nodes"], row["sequence"]) == (row["cluster.nodes"], row["workload.sequence"])
        assert row["gpus"] == str(8 * int(row["nodes"]))
    for row in rows(run, "search", NAME, *over, "--top", "9"):
        assert (row["nodes"], row["sequence"]) == (row["cluster.nodes"], row["workload.sequence"])
    for row in rows(run, "scale", NAME, "--ranks", "16..64"):
        assert row["gpus"] == row["ranks"]
    weak = rows(run, "scale", NAME, "--ranks", "16..64", "--weak")
    assert [row["global_batch"] for row in weak] == ["256", "512", "1024"]


def test_what_a_row_without_an_answer_is_of_is_not_made_up(run: Any) -> None:
    bad, good = rows(run, "sweep", NAME, "--over", "cluster.nodes=0,4")
    assert {name: bad[name] for name in FACTS} == {
        **{name: str(OF_NAME[name]) for name in FACTS},
        "nodes": "",
        "gpus": "",
    }
    assert good["gpus"] == "32"
    other, _ = rows(run, "sweep", NAME, "--over", "model=nowhere,llama-3-70b")
    assert (other["model"], other["cluster"]) == ("", "dgx-h100")


def test_both_sides_of_a_difference(run: Any) -> None:
    for row in rows(run, "diff", NAME, "--set", "cluster.nodes=8"):
        assert (row["before_nodes"], row["after_nodes"]) == ("4", "8")
        assert row["before_model"] == row["after_model"] == "llama-3-8b"


def test_runs_that_were_measured(run: Any) -> None:
    for row in rows(run, "validate", "korthikanti-2022"):
        assert row["model"].startswith(("megatron-", "gpt-"))
        assert int(row["gpus"]) == 8 * int(row["nodes"])


@pytest.mark.parametrize("over", [(), ("--over", "cluster.nodes=2,4"), ("--pareto", "memory_peak,step_time")])
def test_ranks_are_numbered(over: tuple[str, ...], run: Any) -> None:
    found = json.loads(run("search", NAME, "--top", "7", *over, "--json").out)
    for plans in (found["plans"], (found["pareto"] or {}).get("plans", [])):
        assert [plan["rank"] for plan in plans] == list(range(1, len(plans) + 1))
    assert [row["rank"] for row in rows(run, "search", NAME, "--top", "3", *over)][:3] == ["1", "2", "3"]


def test_tables_of_several_sweeps_are_stacked(run: Any, tmp_path: Path) -> None:
    """Columns are of one kind in all of them, whatever their values are."""
    arrow = pytest.importorskip("pyarrow")
    files = pytest.importorskip("pyarrow.parquet")
    tables = []
    for number, over in enumerate(("plan.tp=2,4", "plan.tp=0", "plan.tp=8,64")):
        out = tmp_path / f"{number}.parquet"
        run("sweep", NAME, "--over", f"{over},1", "--show", "step_time,pp_exposed", "-o", str(out))
        tables.append(files.read_table(out))
    whole = arrow.concat_tables(tables)
    assert whole.num_rows == 8
    kinds = {name: str(whole.schema.field(name).type) for name in ("nodes", "step_time_s", "pp_exposed_s", "model")}
    assert kinds == {"nodes": "int64", "step_time_s": "double", "pp_exposed_s": "double", "model": "string"}


# ── Names ────────────────────────────────────────────────────────────────────────────────────────────────────────────

FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "＝1+1", "  =1", "a,b", 'a"b', "<b>&'\"", "]]>", "::x"]


def named(scenario: str, text: str) -> str:
    """A scenario whose title is that."""
    return re.sub(r"(?m)^title: .*$", lambda _: f"title: {json.dumps(text, ensure_ascii=False)}", scenario)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_name_is_no_formula_and_no_markup(name: str, run: Any, scenario: str, tmp_path: Path) -> None:
    model = (Path(__file__).resolve().parents[2] / "scenarios/models/llama-3-8b.yaml").read_text("utf-8")
    inside = "".join(f"  {line}\n" for line in named(model, name).splitlines() if line.strip()[:1] not in ("#", ""))
    text = named(scenario, name).replace("model: llama-3-70b\n", f"model:\n{inside}")
    (tmp_path / "s.yaml").write_text(text, "utf-8")
    for form in ("junit", "github", "csv", "json", "markdown"):
        ran = run("check", "s.yaml", "--set", "limits.mfu.at_least=99%", "--format", form, cwd=tmp_path)
        assert (ran.code, ran.err) == (1, ""), form
        if form == "junit":
            ElementTree.fromstring(ran.out.encode())
        if form == "csv":
            cells = [cell for row in csv.reader(io.StringIO(ran.out)) for cell in row]
            assert not [
                cell for cell in cells if re.match(r"\s*[=+\-@＝]", cell) and not re.fullmatch(r"-[\d.]+", cell)
            ]
        if form == "github":
            assert all(line.startswith("::error file=s.yaml") for line in ran.out.splitlines()[:-1])


UNSEEN = ["\x1b[31m", "\x07", "\x00", "\x85", "\u061c", "\u200e", "\u2028", "\u202a", "\u202e", "\u2066", "\u2069"]


@pytest.mark.parametrize("letters", UNSEEN, ids=ascii)
def test_what_is_not_seen_never_gets_out(letters: str, run: Any, scenario: str, tmp_path: Path) -> None:
    """Refused in a document at its place; in words of the command line shown as what it is not."""
    hostile = f"a{letters}b"
    escaped = named(scenario, hostile).replace(hostile, "a" + "".join(f"\\u{ord(one):04x}" for one in letters) + "b")
    (tmp_path / "r\u202em.yaml").write_text(scenario, "utf-8")
    runs = [
        run("estimate", "-", stdin=escaped),
        run("estimate", "-", stdin=escaped.replace("title", letters.replace("\x00", "\x01"))),
        run("explain", hostile),
        run("estimate", hostile),
        run(hostile),
        run("estimate", NAME, f"--{hostile}"),
        run("search", NAME, "--top", hostile),
        run("estimate", NAME, "--set", f"title={hostile}"),
        run("estimate", NAME, "--set", f"plan.{hostile}=1"),
        run("search", NAME, "--engine", f"dask={hostile}"),
        run("estimate", "r\u202em.yaml", cwd=tmp_path),
        run("check", hostile, "--format", "github"),
    ]
    for ran in runs:
        assert ran.code == 2 or letters == "\x85"  # which YAML takes for the end of a line, and so for a blank
        kinds = {unicodedata.category(letter) for letter in (ran.out + ran.err).replace("\n", "")}
        assert not kinds & {"Cc", "Cf", "Zl", "Zp", "Cs"}


def test_faults_of_the_input_are_annotated(run: Any, scenario: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(scenario.replace("tp: 8", "tpp: 8"), "utf-8")
    ran = run("check", "s.yaml", "nowhere", "--format", "github", cwd=tmp_path)
    line = next(number for number, text in enumerate(scenario.splitlines(), 1) if "tp: 8" in text)
    first, second = ran.out.splitlines()
    assert ran.code == 2
    assert first.startswith(f"::error file=s.yaml,line={line},col=3,title=costmodel D003::unknown key 'tpp'")
    assert second.startswith("::error title=costmodel D009::there is no scenario named 'nowhere'")
    assert "error[D003]" in ran.err
    assert run("check", "s.yaml", "--format", "junit", cwd=tmp_path).out == ""


def test_of_very_many_faults_the_first_are_annotated(run: Any, scenario: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(scenario + "".join(f"k{number}: 1\n" for number in range(500)), "utf-8")
    ran = run("check", "s.yaml", "--format", "github", cwd=tmp_path)
    lines = ran.out.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "and 480 more"
