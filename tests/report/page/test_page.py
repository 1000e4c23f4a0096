"""Pages: their figures are the numbers of the JSON, what a stranger wrote stays text, and nothing else is needed."""

from __future__ import annotations

import json
import re
import shlex
import statistics
import unicodedata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from conftest import ledgers
from each import share_of

from costmodel.documents.reader.library import read
from costmodel.explore.page import rl_facts
from costmodel.explore.page.report_facts import published_runs_on
from costmodel.explore.vary.sensitivity import Sensitivity
from costmodel.explore.workload_interface import Knob
from costmodel.ground.units import show_time, significant
from costmodel.report.answers.validate import measured_section
from costmodel.report.page.document_page import HtmlPage, page_html
from costmodel.report.page.plots import Scale, ticks
from costmodel.report.terminal.formatting import percent
from costmodel.report.terminal.serving_formatting import result

from .reader import Reader, alike, column

MOST_BYTES = 400_000
SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"
SERVES, LEARNS = "serve-llama-3.1-70b", "grpo-qwen-2.5-7b-64"
HOSTILE = "</title></script><script>alert(1)</script>\"'><svg onload=alert(2)>&amp;{{7*7}}=1+1"
PAGES: dict[str, tuple[str, ...]] = {
    "estimate": ("estimate", "llama-3-70b-512"),
    "search": ("search", "quickstart", "--pareto", "memory_peak,step_time", "--top", "20"),
    "sweep": ("sweep", "quickstart", "--over", "plan.tp=2,4", "--over", "cluster.fabric.bandwidth=100,400 Gb/s"),
    "scale": ("scale", "quickstart", "--ranks", "8..32"),
    "check": ("check", "quickstart", "--set", "limits.mfu.at_least=10%"),
    "sensitivity": ("sensitivity", SERVES),
    "solve": ("solve", SERVES, "--over", "workload.rate=8..16", "--for", "tpot<=30ms", "--safe", "off"),
    "unsolved": ("solve", LEARNS, "--over", "cluster.nodes=8,16", "--for", "iteration_time<=1 s"),
    "diff": ("diff", "quickstart", "--set", "plan.recompute=full"),
    "changed": ("diff", SERVES, "--set", "cluster.nodes=8"),
    "run": ("run", "quickstart"),
    "validate": ("validate", "korthikanti-2022"),
    "serving": ("estimate", SERVES),
    "refused": ("estimate", "quickstart", "--set", "plan.tp=3"),
    "several": ("report", "quickstart", "megatron-22b-8"),
    "kinds": ("report", "quickstart", SERVES, LEARNS),
    "rl": ("estimate", LEARNS),
    "splits": ("search", LEARNS, "--set", "search={tp: [1], cp: [2], rollout_tp: [1, 2]}"),
    "sizes": ("scale", LEARNS, "--ranks", "32..128"),
    "layouts": ("search", SERVES),
    "rates": ("scale", SERVES, "--rate", "2..8"),
}
WHOLE = {"several", "changed", "unsolved", "splits", "sizes", "rates"}  # of commands with a page of another workload
EVERY = [pytest.param(name, marks=pytest.mark.whole if name in WHOLE else ()) for name in PAGES]


class Pages(dict[str, str]):
    """The text of every page, made when it is first looked at."""

    def __init__(self, run: Any) -> None:
        self.run = run

    def __missing__(self, name: str) -> str:
        """What says no leaves with 1 and has a page all the same."""
        ran = self.run(*PAGES[name], "--format", "html")
        assert ran.code in (0, 1), ran.err
        return self.setdefault(name, ran.out)


@pytest.fixture(scope="module")
def pages(run: Any) -> dict[str, str]:
    return Pages(run)


@pytest.mark.parametrize("name", EVERY)
def test_a_page_needs_nothing_else(name: str, pages: dict[str, str]) -> None:
    page = Reader(pages[name])
    assert len(pages[name].encode()) < MOST_BYTES
    assert [item for item in page.references if not item.startswith("#")] == []
    assert {"link", "img", "iframe", "object", "embed", "base"} & page.tags == set()
    assert page.handlers == []
    assert "default-src 'none'" in pages[name]
    assert re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", pages[name].split("<header>")[0]) is None
    assert len(page.ids) == len(set(page.ids))
    assert {item[1:] for item in page.references} <= set(page.ids)


@pytest.mark.parametrize("name", EVERY)
def test_a_page_says_its_conclusion_first(name: str, pages: dict[str, str]) -> None:
    conclusion = re.search(r'<p class="conclusion (\w+)" id="conclusion">(.+?)</p>', pages[name])
    assert conclusion is not None
    assert conclusion[2][0].isupper() or conclusion[2][0].isdigit()
    assert conclusion[2].endswith(".")
    others = {"bad": ("refused", "unsolved"), "warn": ("serving", "layouts", "sizes"),
              "plain": ("sensitivity", "diff", "changed")}  # fmt: skip
    assert conclusion[1] == next((verdict for verdict, names in others.items() if name in names), "good")


def test_the_conclusion_of_a_page_is_printed_and_begins_with_time_and_money(run: Any, tmp_path: Path) -> None:
    ran = run("report", "quickstart", "--set", "workload.tokens=1 T", "-o", "page.html", cwd=tmp_path)
    row = json.loads(run("estimate", "quickstart", "--set", "workload.tokens=1 T", "--json").out)["plans"][0]
    ends = [significant(row[name] / 86400) for name in ("run_time_s", "run_time_low_s", "run_time_high_s")]
    said = " ".join(ran.err.split())
    assert re.match(rf"The whole job takes {ends[0]} days \({ends[1]} – {ends[2]} days\)", said), said
    assert "without failures" in said
    assert said.endswith("wrote page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.index("The whole job takes") < page.index("A step takes")


def test_every_figure_is_the_number_of_the_json(run: Any, pages: dict[str, str]) -> None:
    page = Reader(pages["estimate"])
    (plan,) = json.loads(run(*PAGES["estimate"], "--json").out)["plans"]
    named = {name: values for name, values in page.numbers.items() if name in plan}
    assert len(named) > 40
    for name, values in named.items():
        assert all(alike(value, plan[name]) for value in values), name
    for name in ("memory_bound_s", "tp_exposed_s", "dp_exposed_s", "bubble_s", "step_time_s"):
        assert page.marks[name][0] == plan[name]
    held = ledgers(json.loads(run("memory", "llama-3-70b-512", "--json").out))
    assert set(held) == {"first", "middle", "last"}
    for stage, lines in held.items():
        assert {name: page.marks[f"{stage}.{name}_bytes"][0] for name in lines} == lines
    assert max(sum(lines.values()) for lines in held.values()) == pytest.approx(plan["memory_peak_bytes"])


@pytest.mark.parametrize("name", ["serving", "rl"])
def test_pages_of_other_workloads_have_the_numbers_of_the_json(name: str, run: Any, pages: dict[str, str]) -> None:
    page, words = Reader(pages[name]), PAGES[name][1:]
    (plan,) = json.loads(run(*PAGES[name], "--json").out)["plans"]
    named = {key: values for key, values in page.numbers.items() if key in plan}
    assert len(named) > 20
    for key, values in named.items():
        assert plan[key] in values, key
    held = ledgers(json.loads(run("memory", *words, "--json").out))
    if name == "serving":
        (lines,) = held.values()
        assert {name: page.marks[f"{name}_bytes"][0] for name in lines} == lines
        terms = ("matmul_s", "attention_s", "prompts_between_s", "tp_exposed_s", "memory_bound_s", "host_time_s")
        assert sum(page.marks[key][0] for key in terms) == pytest.approx(plan["tpot_s"])
        return
    assert set(held) == {"generating", "updating"}
    for phase, lines in held.items():
        assert {name: page.marks[f"{phase}.{name}_bytes"][0] for name in lines} == lines
    phases = ("generation_s", "old_log_probabilities_s", "reference_time_s", "update_time_s", "switch_s",
              "weight_sync_s")  # fmt: skip
    assert sum(page.marks[key][0] for key in phases) == pytest.approx(page.marks["iteration_time_s"][0])
    for key in phases:
        assert page.marks[key][0] == plan[key]


def test_the_parts_of_a_run_and_the_rows_of_several_are_those_of_the_json(run: Any, pages: dict[str, str]) -> None:
    shares = json.loads(run("run", "quickstart", "--json").out)["run"]["shares"]
    drawn = {key.removeprefix("shares."): values[0] for key, values in Reader(pages["run"]).marks.items() if
             key.startswith("shares.")}  # fmt: skip
    assert drawn
    assert drawn == {key: shares[key] for key in drawn}
    numbers = Reader(pages["kinds"]).numbers
    for plan in json.loads(run(*PAGES["kinds"], "--json").out)["plans"]:
        wanted = {"training": "step_time_s", "serving": "tpot_s", "rl": "iteration_time_s"}[plan["workload"]]
        assert plan[wanted] in numbers[wanted]


@pytest.mark.parametrize("name", EVERY)
def test_every_number_opens_how_it_was_made(name: str, pages: dict[str, str]) -> None:
    """By a button with its trace, or as a figure of another plan by that plan's trace or command."""
    page, without = Reader(pages[name]), ("refused", "unsolved")
    assert page.unexplained == []
    of_rows = {f"{key}-rows" for key in ("plans", "front", "sweep", "scale", "ends")}
    assert page.packed.keys() & {"trace", *of_rows} or name in without
    if name in ("estimate", "serving", "rl"):
        assert any(key.startswith("transfers.") for key in page.numbers)


def test_the_best_plans_of_a_search_open_their_trace(run: Any, pages: dict[str, str]) -> None:
    """The figures of the table for the first ten; nodes that plans share are held once."""
    page = Reader(pages["search"])
    nodes, traces = page.packed["trace"]["nodes"], page.packed["plans-rows"]["traces"]
    count = min(10, len(page.packed["plans-rows"]["settings"]))
    for name, places in traces.items():
        assert [nodes[place][0] for place in places] == [name] * count
    of_front = {"memory_peak_high"}  # which the table of the front has besides
    assert {*traces, *of_front} == set(re.findall(r'data-figure="(\w+)"', pages["search"]))
    assert len({json.dumps(node) for node in nodes}) == len(nodes)
    shown = [float(nodes[place][1].removesuffix(" GiB")) for place in traces["memory_peak"]]
    exact = [value / 2**30 for value in column(page.packed["plans-rows"], "memory_peak_bytes")[:count]]
    assert shown == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "rows", "figure", "place"),
    [("search", "plans-rows", "mfu", 14), ("sweep", "sweep-rows", "step_time", 1),
     ("scale", "scale-rows", "memory_peak", 2),
     ("serving", "load-rows", "ttft_p99", 7), ("layouts", "plans-rows", "tpot", 1), ("solve", "ends-rows", "ttft", 1),
     pytest.param("splits", "plans-rows", "generation", 1, marks=pytest.mark.whole),
     pytest.param("rates", "scale-rows", "gpus", 2, marks=pytest.mark.whole),
     pytest.param("sizes", "scale-rows", "tail", 1, marks=pytest.mark.whole)],
)  # fmt: skip
def test_a_command_explains_a_figure_of_another_plan(
    name: str, rows: str, figure: str, place: int, run: Any, pages: dict[str, str]
) -> None:
    """The command that the page gives prints the number that stands there."""
    held = Reader(pages[name]).packed[rows]
    words = shlex.split(f"explain {held['scenario']} {figure} {held['settings'][place]} --json --depth 1")
    value = json.loads(run(*words).out)["figures"][0]["value"]
    assert value == pytest.approx(_cell(pages[name], rows, figure, place), rel=2e-3)
    if "columns" in held:
        (known,) = (each["values"][place] for each in held["columns"] if each.get("figure") == figure)
        assert value == pytest.approx(known, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "figure"),
    [("diff", "step_time"), pytest.param("changed", "tpot", marks=pytest.mark.whole), ("check", "mfu")],
)
def test_a_figure_of_a_side_opens_its_command(name: str, figure: str, run: Any, pages: dict[str, str]) -> None:
    """Each side of a difference, and what is checked, has the command that prints the figure that stands there."""
    held = Reader(pages[name]).packed["trace"]
    found = [(text, held["texts"][made]) for title, text, made, *_ in held["nodes"] if title == figure]
    assert len(found) == (1 if name == "check" else 2)
    for text, line in found:
        command = shlex.split(line.removesuffix(" prints how it was made"))
        value = json.loads(run(*command[1:], "--json", "--depth", "1").out)["figures"][0]["value"]
        shown = (
            show_time(value) if figure == "step_time" else result(figure, value) if figure == "tpot" else percent(value)
        )
        assert text.startswith(shown)


def test_a_change_opens_the_figure_turned_and_its_command(run: Any, pages: dict[str, str]) -> None:
    """What moves a result: the turned result over its own, less one, and the command that prints the turned one."""
    page = Reader(pages["sensitivity"])
    nodes, texts = page.packed["trace"]["nodes"], page.packed["trace"]["texts"]
    turned = next(node for node in nodes if node[0].startswith("tpot with cluster.accelerator.peak.bf16"))
    change = next(node for node in nodes if node[4] and nodes[node[4][0]] == turned)
    assert texts[change[2]] == ["= ", " / ", " − 1"]
    value = json.loads(run(*shlex.split(texts[turned[2]])[1:], "--json").out)["figures"][0]["value"]
    own = json.loads(run("explain", SERVES, "tpot", "--json").out)["figures"][0]["value"]
    assert result("tpot", value) == turned[1]
    assert float(change[1].removesuffix(" %").replace("−", "-")) == pytest.approx((value / own - 1) * 100, abs=0.06)
    assert "hardware/accelerators/h100-sxm.yaml" in texts[nodes[turned[4][0]][3]]


def _cell(text: str, rows: str, figure: str, place: int) -> float:
    """A number of a table as it is read there, in the unit of programs."""
    table = text.partition(f'data-rows="{rows}"')[2].partition("</table>")[0]
    heads, *cells = table.split("<tr>")[1:]
    at = next(i for i, head in enumerate(heads.split("<th ")[1:]) if f'data-figure="{figure}"' in head)
    words = re.split(r"<td>", cells[place])[1 + at]
    exact = re.search(r'<data value="([^"]*)"', words)
    shown = words.split("<")[0].strip()
    return float(exact[1]) if exact else float(shown.removesuffix(" %")) * (0.01 if shown.endswith(" %") else 1.0)


def test_the_waterfall_ends_at_the_step(pages: dict[str, str]) -> None:
    page = Reader(pages["estimate"])
    names = ("ideal_s", "recomputed_s", "kernels_s", "memory_bound_s", "launch_s", "optimizer_s", "bubble_s")
    names = (*names, *(f"{axis}_exposed_s" for axis in ("tp", "cp", "ep", "pp", "dp")))
    total = sum(page.marks[name][0] for name in names if name in page.marks)
    assert total == pytest.approx(page.marks["step_time_s"][0], rel=1e-12)
    assert page.marks["ideal_s"][0] / page.marks["step_time_s"][0] == pytest.approx(page.numbers["mfu"][0])


def test_the_plans_of_a_search_are_those_of_the_json(run: Any, pages: dict[str, str]) -> None:
    page, result = Reader(pages["search"]), json.loads(run(*PAGES["search"], "--json").out)
    plans = page.packed["plans-rows"]
    for name in ("step_time_s", "mfu", "memory_peak_bytes", "tp", "micro_batch", "matmul_s", "step_time_high_s"):
        values = [plan[name] for plan in result["plans"]]
        assert all(map(lambda one, other: alike(one, other, 6), column(plans, name), values)), name
    front = {(plan["memory_peak_bytes"], plan["step_time_s"]) for plan in result["pareto"]["plans"]}
    assert {(x, y) for name, x, y in page.points if name == "on the front"} == front
    assert len(plans["settings"]) == len(result["plans"])


def test_traces_open_equation_inputs_and_source(run: Any, pages: dict[str, str]) -> None:
    trace = Reader(pages["estimate"]).packed["trace"]
    tree = json.loads(run("explain", "llama-3-70b-512", "optimizer", "--json").out)["figures"][0]
    node = next(node for node in trace["nodes"] if node[0].startswith("optimizer") and node[4])
    how = trace["texts"][node[2]]
    assert tree["equation"] in how
    assert tree["source"] in how
    inputs = [trace["nodes"][place] for place in node[4]]
    assert len(inputs) == len(tree["inputs"])
    written = [trace["texts"][inner[3]] for inner in inputs if inner[3] >= 0]
    assert any("hardware/accelerators/h100-sxm.yaml" in text for text in written)


@pytest.fixture
def of_a_stranger(tmp_path: Path, inline: str) -> list[str]:
    """Scenarios of training, a service and RL whose titles and names are no text that anybody would trust."""
    title = json.dumps(HOSTILE)
    text = re.sub(r"(?m)^title: .*$", lambda _: f"title: {title}", inline)
    text = re.sub(r"(?m)^  title: .*$", lambda _: f"  title: {title}", text)
    paths = [str(tmp_path / f"<img src=x onerror=alert({place})>.yaml") for place in range(3)]
    Path(paths[0]).write_text(text, "utf-8")
    spaces = {SERVES: "{tp: [8], pp: [1], budget: [8192]}", LEARNS: "{tp: [1], cp: [2], rollout_tp: [2]}"}
    for path, (name, space) in zip(paths[1:], spaces.items(), strict=True):
        own = (SCENARIOS / f"{name}.yaml").read_text("utf-8") + f"\nsearch: {space}\n"
        Path(path).write_text(re.sub(r"(?m)^title: .*$", lambda _: f"title: {title}", own), "utf-8")
    return paths


OF_OTHERS = share_of([(verb, place) for place in (1, 2) for verb in ("search", "check", "estimate")], 3)


@pytest.mark.usefixtures("few_knobs")
@pytest.mark.parametrize(("verb", "place"), [("estimate", 0), ("check", 0), ("report", None), *OF_OTHERS])
def test_what_a_stranger_wrote_stays_text(verb: str, place: int | None, run: Any, of_a_stranger: list[str]) -> None:
    files = [*of_a_stranger, "quickstart"] if place is None else [of_a_stranger[place]]
    ran = run(verb, *files, "--format", "html")
    assert ran.code == 0, ran.err
    page = Reader(ran.out)
    assert verb == "check" or "alert(1)" in page.text
    assert verb == "check" or "{{7*7}}" in page.text
    assert page.handlers == []
    assert ran.out.count("<script") <= 2
    assert "<img" not in ran.out


def test_what_a_stranger_wrote_stays_text_in_a_picture(run: Any, of_a_stranger: list[str]) -> None:
    ElementTree.fromstring(run("estimate", of_a_stranger[0], "--format", "svg").out)


def test_the_report_of_reinforcement_learning_is_whole(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    knob = Knob("cluster.node.accelerator.memory.bandwidth", "3.35 TB/s", "hardware", 0.1, 0.05, -0.04)
    moved = "iteration_time", 350.0, (knob,)
    monkeypatch.setattr(rl_facts, "sensitivity", lambda asked: Sensitivity(asked, asked.answer(), *moved))
    space = "search={tp: [1], cp: [2], rollout_tp: [2]}"
    out = run("report", LEARNS, "--set", space, "--format", "html").out
    page = Reader(out)
    assert len(out.encode()) < MOST_BYTES
    parts = {"time", "memory", "network", "plans", "sensitivity", "measured", "results", "inputs", "scenario"}
    assert parts <= set(page.ids)
    assert page.packed["plans-rows"]["notes"][1][0].startswith("Against plan 1: +")


def test_a_page_of_a_thousand_plans_stays_small(run: Any) -> None:
    out = run("search", "quickstart", "--top", "1000", "--format", "html").out
    assert len(out.encode()) < MOST_BYTES
    assert len(re.findall(r"<button class=row>", out)) > 900


def test_the_same_answer_makes_the_same_page(run: Any, pages: dict[str, str]) -> None:
    assert run(*PAGES["estimate"], "--format", "html").out == pages["estimate"]


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (("estimate", "llama-3-70b-512"), "step_time_s"),
        (("memory", "llama-3-70b-512"), "first.weights_bytes"),
        (("comm", "llama-3-70b-512"), "tp_exposed_s"),
        (("sensitivity", "quickstart", "--top", "3"), ".high"),
        (("run", "quickstart"), "shares.steps"),
    ],
)
def test_a_figure_alone_is_an_image(command: tuple[str, ...], named: str, run: Any, tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    assert run(*command, "-o", str(path)).code == 0
    root = ElementTree.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.findtext("{http://www.w3.org/2000/svg}title")
    assert root.findtext("{http://www.w3.org/2000/svg}desc")
    names = [item.get("data-name", "") for item in root.iter()]
    assert any(name.endswith(named) for name in names)


def test_a_figure_is_drawn_as_png(run: Any, tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    path = tmp_path / "roofline.png"
    assert run("report", "quickstart", "--figure", "roofline", "-o", str(path)).code == 0
    assert path.read_bytes().startswith(b"\x89PNG")


def test_ticks_are_round() -> None:
    assert ticks(0.0, 1.0, 4) == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert ticks(-3.0, 3.0, 3) == [-2.0, 0.0, 2.0]
    scale = Scale(1.0, 1000.0, 0.0, 300.0, logarithmic=True)
    assert [scale(value) for value in (1.0, 10.0, 1000.0)] == pytest.approx([0.0, 100.0, 300.0])


def test_letters_that_turn_or_hide_text_are_replaced() -> None:
    text = page_html(HtmlPage("a\u202eb\x1b[31m", ["c\u200bd"], "e\u2066f\x00.", "plain", [], []))
    assert Reader(text).packed == {}
    assert not [letter for letter in text if unicodedata.category(letter) in ("Cf", "Cc") and letter != "\n"]
    assert "a\ufffdb" in text


@pytest.mark.parametrize("name", ["h100-sxm", "a100-sxm-80", "mi300x", "trn1"])
def test_the_runs_on_an_accelerator_are_those_that_list_shows(name: str) -> None:
    """One number of runs and one median: on the page of a plan, in `list accelerators` and in docs/accuracy."""
    accelerator, figures = read("accelerator", name), published_runs_on(name)
    stated, part = accelerator.held_against, measured_section(figures, accelerator)
    errors = [abs(figure.error) for figure in figures if figure.error is not None]
    assert not errors or (len(errors), statistics.median(errors)) == (
        stated.runs,
        pytest.approx(stated.median, abs=5e-4),
    )
    assert part.lead.startswith(f"{stated.runs:g} measured runs on {name}: median error {percent(stated.median, 2)}")
