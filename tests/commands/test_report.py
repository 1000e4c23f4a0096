"""report: one scenario or several, one figure, and a page that follows its file."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report.page.reader import Reader
from rich.text import Text

from costmodel.commands import answer_options, report
from costmodel.commands.by_workload import commands_of
from costmodel.commands.scenario_options import Question
from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.resolved_scenario import training
from costmodel.documents.reader.rl_scenario import reinforced
from costmodel.documents.reader.serving_scenario import serving
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.explore import rl
from costmodel.explore.compare.select_plan import plan_of_row
from costmodel.explore.page import report_facts
from costmodel.explore.search import search as search_module
from costmodel.explore.search.search import search
from costmodel.explore.serving import search_layouts
from costmodel.ground.counts import ordinal
from costmodel.ground.errors import CostModelError
from costmodel.report.answers.plan_answer import PlanView
from costmodel.report.answers.plan_neighbours import analyses_beside_plan
from costmodel.report.answers.search import SearchWords
from costmodel.report.answers.search_rl import RlWords
from costmodel.report.answers.search_service import ServiceWords
from costmodel.report.answers.search_training import TrainingWords
from costmodel.report.page.document_page import page_html
from costmodel.report.page.plan_page import report_page, report_text
from costmodel.report.workload_words import words_of

SERVES, LEARNS = "serve-llama-3.1-70b", "grpo-qwen-2.5-7b-64"
OF_RUNS = {"quickstart": {"measured"}}  # of other plans, as `list accelerators` has them
ALONE = tuple(f"--set={word}" for word in ("cluster.nodes=1", "cluster.node.accelerators=1", "plan.tp=1"))
ROOT = Path(__file__).resolve().parents[2]


def test_report_answers_as_estimate_where_nothing_is_drawn(run: Any) -> None:
    one, other = run("report", "quickstart", "--json"), run("estimate", "quickstart", "--json")
    assert json.loads(one.out)["plans"] == json.loads(other.out)["plans"]
    several = json.loads(run("report", "quickstart", "megatron-22b-8", "--json").out)["plans"]
    assert [row["title"] for row in several] == ["Llama 3 8B on 32 H100", "Megatron 22B on 8 A100-80GB"]
    assert several[0]["step_time_s"] == json.loads(other.out)["plans"][0]["step_time_s"]


@pytest.mark.parametrize(
    "words",
    [
        ("report", "quickstart", "--figure", "time"),
        ("report", "quickstart", "--figure", "time", "--json"),
        ("report", "quickstart", "--figure", "time", "--format", "html"),
        ("report", "quickstart", "megatron-22b-8", "--figure", "time", "--format", "svg"),
        ("report", "serve-llama-3.1-70b", "--figure", "roofline", "--format", "svg"),
        ("report", "grpo-qwen-2.5-7b-64", "--figure", "pipeline", "--format", "svg"),
        ("report", "quickstart", "--watch", "-o", "unwritten.html"),
    ],
)
def test_what_would_have_no_effect_is_refused(words: tuple[str, ...], run: Any, tmp_path: Path) -> None:
    ran = run(*words, cwd=tmp_path)
    assert ran.code == 2
    assert "error[C044]" in ran.err


def test_several_scenarios_may_be_of_any_kind(run: Any) -> None:
    names = ("quickstart", "serve-llama-3.1-70b", "grpo-qwen-2.5-7b-64", "serve-llama-3.1-70b")
    rows = json.loads(run("report", *names, "--json").out)["plans"]
    assert [row["workload"] for row in rows] == ["training", "serving", "rl", "serving"]
    for name, row in zip(names, rows, strict=True):
        (own,) = json.loads(run("estimate", name, "--json").out)["plans"]
        assert {key: row[key] for key in own} == own


def test_what_cannot_be_drawn_is_said(run: Any) -> None:
    for words in (
        (
            "comm",
            "quickstart",
            "--set",
            "cluster.nodes=1",
            "--set",
            "cluster.node.accelerators=1",
            "--set",
            "plan.tp=1",
        ),
        ("pipeline", "quickstart"),
        ("estimate", "quickstart", "--set", "plan.tp=3"),
    ):
        ran = run(*words, "--format", "svg")
        assert ran.code == 2, words
        assert "error[C007]" in ran.err


def test_a_watched_page_is_written_again_at_every_change(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second change cannot be read: that is said, and the page stays as it was."""
    scenario, page = tmp_path / "mine.yaml", tmp_path / "page.svg"
    shutil.copy(ROOT / "scenarios" / "quickstart.yaml", scenario)
    text, seen = scenario.read_text("utf-8"), list[str]()
    changes = iter([text.replace("sequence: 8192", "sequence: 4096"), "title: [", text])

    class Ended(Exception):
        """The test has seen enough."""

    def wait(paths: Any, before: Any, gone: Any) -> None:
        seen.append(page.read_text("utf-8"))
        change = next(changes, None)
        if change is None:
            raise Ended
        scenario.write_text(change, "utf-8")

    monkeypatch.setattr(report, "wait_for_change", wait)
    reply = report._answers_while_watching(Question(str(scenario), {}, (), None), str(scenario), report.FigureName.TIME)
    with pytest.raises(Ended):
        answer_options.deliver(reply, output=page)
    assert len(seen) == 4
    assert seen[0] != seen[1] == seen[2]
    assert seen[3] == seen[0]


def test_a_change_is_seen_and_a_file_that_is_gone_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("one", "utf-8")
    before, looks, missed = report.file_marks([path]), iter(["gone", "still", "still", "back"]), list[Path]()

    def sleep(seconds: float) -> None:
        look = next(looks)
        if look == "gone":
            path.unlink()
        elif look == "back":
            path.write_text("longer", "utf-8")

    report.wait_for_change([path], before, sleep, missed.append)
    assert path.read_text("utf-8") == "longer"
    assert missed == [path]


def test_a_scenario_without_a_plan_is_about_the_best(run: Any, tmp_path: Path) -> None:
    text = (ROOT / "scenarios" / "quickstart.yaml").read_text("utf-8")
    head = text.split("\nplan:")[0] + "\n"
    (tmp_path / "mine.yaml").write_text(head, "utf-8")
    ran = run("report", "mine.yaml", "--json", cwd=tmp_path)
    assert ran.code == 0, ran.err
    best = json.loads(run("search", "mine.yaml", "--top", "1", "--json", cwd=tmp_path).out)["plans"][0]
    assert json.loads(ran.out)["plans"][0]["step_time_s"] == best["step_time_s"]


def test_a_fault_of_the_first_look_ends_the_watch(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("title: [", "utf-8")
    with pytest.raises(CostModelError):
        report._answers_while_watching(Question(str(path), {}, (), None), str(path), None)


FEWER = {"serve-llama-3.1-70b": ("--safe", "off")}  # by expected figures, which take a fraction of the time
SECTIONS = {
    "serve-llama-3.1-70b": ("Where the memory goes", "Limits", "The best plans", "What if the load changes",
                            "Replicas for other rates", "What moves tpot"),
    "quickstart": ("Where the memory goes", "The best plans", "What moves step\\_time"),
    "grpo-qwen-2.5-7b-64": ("Where the memory goes", "The best plans", "What moves iteration\\_time"),
}  # fmt: skip


@pytest.mark.usefixtures("few_knobs")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.whole if name.startswith("grpo") else ()) for name in SECTIONS]
)
def test_a_report_in_markdown_holds_what_the_page_does(name: str, run: Any) -> None:
    written = run("report", name, *FEWER.get(name, ()), "--format", "markdown").out
    places = [written.index(f"**{title}**") for title in SECTIONS[name]]
    assert places == sorted(places)
    (first,) = run("estimate", name, *FEWER.get(name, ()), "--format", "markdown").out.partition("\n\n")[:1]
    assert written.count(first) == 1  # the head is not repeated
    assert "| what if | --set workload.cache=fp8" in written or name != "serve-llama-3.1-70b"


@pytest.mark.usefixtures("few_knobs")
def test_a_report_in_markdown_of_a_service_that_does_not_fit_has_its_remedies_and_no_loads(run: Any) -> None:
    shown = run("report", "serve-llama-3.1-70b", "--set", "plan.tp=1", "--format", "markdown")
    assert shown.code == 1
    assert "does not fit" in shown.out
    assert "try" in shown.out
    assert "**The best plans**" in shown.out
    assert "**What if the load changes**" not in shown.out


@pytest.mark.parametrize("name", SECTIONS)
def test_a_report_of_an_invalid_plan_has_no_figure_of_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An invalid plan has results too, which mean nothing: none of them stands in its report, and no headline does."""
    monkeypatch.setattr(
        report_facts, "published_runs_on", lambda accelerator: []
    )  # runs of other plans, which take long
    case = load_any(name, ("plan.tp=3",))
    view = commands_of(case).view(case, "report")
    assert view.answer.refused
    words = words_of(case.kind)
    stated = {words.result(each, value) for each, value in view.answer.costs.items() if each in view.columns}
    timed = {text for text in stated if re.search(r"\d\.?\d+ [a-zA-Z]", text)}  # with a unit, of two digits at least
    assert len(timed) > 5
    page = report_page(view, beside := view.beside(lambda part: None), ())
    assert not page.headlines
    assert not {"measured", "load", "results", "time", "memory"} & {part.key for part in page.parts} - OF_RUNS.get(
        name, set()
    )
    drawn = Reader(page_html(page))
    texts = [
        *drawn.words,
        *(cell.plain if isinstance(cell, Text) else repr(cell) for cell in report_text(view, beside)),
    ]
    assert not [text for text in texts if any(figure in text for figure in timed)]


def _searched(name: str, *changes: str) -> tuple[PlanView, SearchWords[Any, Any]]:
    case = replace(load_any(name, changes), assignments=())  # the search holds no key
    found: dict[str, Callable[[], SearchWords[Any, Any]]] = {
        "training": lambda: TrainingWords(search(training(case), 3)),
        "serving": lambda: ServiceWords(search_layouts.search(inputs_of(serving(case)), 3)),
        "rl": lambda: RlWords(rl.search(reinforced(case), 3)),
    }
    return commands_of(case).view(case, "report"), found[case.kind]()


@pytest.mark.parametrize(
    ("name", "changes", "gain"),
    [
        ("quickstart", ("plan.recompute=full",), "is {:.2f} × as fast"),
        ("quickstart", ("plan.tp=4", "objective=cost_per_mtoken"), "has {:.2f} × the cost_per_mtoken"),
        (
            SERVES,
            ("plan.tp=4", "plan.replicas=4", "limits.tpot.at_most=60 ms"),
            "has {:.2f} × the rate_within_slo_per_s",
        ),
        (
            LEARNS,
            (
                "plan.rollout={tp: 2, colocated: false, ranks: 16}",
                "search={tp: [1], cp: [4], rollout_tp: [2], ranks: [32]}",
            ),
            "is {:.2f} × as fast",
        ),
    ],
)
def test_a_plan_has_its_place_among_those_of_its_search(name: str, changes: tuple[str, ...], gain: str) -> None:
    """The rank is that of the search; the gain is what the best plan has, as a scenario of its own, over this one."""
    view, words = _searched(name, *changes)
    more = analyses_beside_plan(view, words, None, ()).more
    best, own = words.found.best[0], view.answer.costs[words.objective]
    settings = [f"{path}={value}" for path, value in words.settings(best).items()]
    other = load_any(name, (*changes, *settings))
    value = commands_of(other).view(other, "estimate").answer.costs[words.objective]
    ratio = own / value if words.columns[words.objective].better == "lower" else value / own
    assert ratio > 1.01
    stated = gain.format(ratio if "fast" in gain else value / own)
    assert more == f" It ranks {ordinal(words.found.your_rank)}: the best {stated} ({words.line(best)})."
    view, words = _searched(name, *changes, *settings)
    assert analyses_beside_plan(view, words, None, ()).more == " No plan of the search is better."


@pytest.mark.usefixtures("few_knobs")
@pytest.mark.parametrize("name", ["quickstart", "serve-llama-3.1-70b"])
def test_a_written_page_is_stated_in_one_line(name: str, run: Any, tmp_path: Path) -> None:
    for file in (tmp_path / "page.html", tmp_path / "page.md"):
        ran = run("report", name, *FEWER.get(name, ()), "-o", str(file))
        assert (ran.out, ran.err) == ("", f"wrote {file}\n")
        assert file.stat().st_size > 0


def test_a_report_searches_once_for_the_plan_and_for_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a scenario without a plan: the plan that it reports is the first of the ranking on its page."""
    asked = training(load_any("quickstart"))
    asked = replace(asked, scenario=asked.scenario.model_copy(update={"plan": None}))
    spaces = []
    through = search_module.through
    monkeypatch.setattr(search_module, "through", lambda space, *rest: spaces.append(space) or through(space, *rest))
    view = commands_of(asked).view(asked, "report")
    found = view.around.found
    assert len(spaces) == 1
    assert plan_of_row(found.best[0]) == view.answer.plan
    assert found.chances == search(asked, report_facts.TOP).chances
    assert found.best == search(asked, report_facts.TOP, pareto=report_facts.FRONT).best
