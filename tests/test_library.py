"""The library answers what the command line answers, prints nothing, and shows itself in notebooks and pandas."""

from __future__ import annotations

import concurrent.futures
import doctest
import inspect
import json
import pydoc
import signal
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

import costmodel
from costmodel import library

SERVES, LEARNS = "serve-llama-3.1-70b", "grpo-qwen-2.5-7b-64"
EVERY = ("quickstart", SERVES, LEARNS)
ASKED: list[tuple[str, tuple[str, ...], Any]] = [
    *(
        (verb, (name,), lambda verb=verb, name=name: getattr(costmodel, verb)(name))
        for verb in ("estimate", "memory", "comm", "check")
        for name in EVERY
    ),
    ("run", ("quickstart",), lambda: costmodel.run("quickstart")),
    ("pipeline", ("quickstart",), lambda: costmodel.pipeline("quickstart")),
    ("report", ("quickstart",), lambda: costmodel.report("quickstart")),
    ("search", ("quickstart", "--top", "3"), lambda: costmodel.search("quickstart", 3)),
    ("search", (SERVES, "--top", "2"), lambda: costmodel.search(SERVES, 2)),
    (
        "search",
        (SERVES, "--over", "stack=vllm,sglang", "--pareto", "tpot,ttft"),
        lambda: costmodel.search(SERVES, over=["stack=vllm,sglang"], pareto="tpot,ttft"),
    ),
    (
        "search",
        ("--model", "llama-3.1-8b", "--gpu", "h100", "--gpus", "64", "--safe", "off"),
        lambda: costmodel.search(model="llama-3.1-8b", gpu="h100", gpus=64, safe="off"),
    ),
    *(
        (
            "sweep",
            (name, "--over", "cluster.nodes=4,8"),
            lambda name=name: costmodel.sweep(name, ["cluster.nodes=4,8"]),
        )
        for name in EVERY
    ),
    ("scale", ("quickstart", "--ranks", "8..32"), lambda: costmodel.scale("quickstart", "8..32")),
    ("scale", (SERVES, "--rate", "2..4"), lambda: costmodel.scale(SERVES, rate="2..4")),
    ("sensitivity", (LEARNS, "--top", "3"), lambda: costmodel.sensitivity(LEARNS, top=3)),
    (
        "solve",
        ("quickstart", "--over", "cluster.nodes=1..8*2", "--for", "mfu>=40%"),
        lambda: costmodel.solve("quickstart", "cluster.nodes=1..8*2", "mfu>=40%"),
    ),
    ("diff", ("quickstart", "quickstart"), lambda: costmodel.diff("quickstart", "quickstart")),
    ("explain", ("quickstart", "step_time"), lambda: costmodel.explain("quickstart", "step_time")),
    ("explain", (SERVES, "tpot"), lambda: costmodel.explain(SERVES, "tpot")),
    ("explain", (LEARNS, "iteration_time"), lambda: costmodel.explain(LEARNS, "iteration_time")),
    ("explain", ("mfu",), lambda: costmodel.explain("mfu")),
    (
        "collective",
        ("all-reduce", "1GB", "--gpus", "64"),
        lambda: costmodel.collective("all-reduce", ["1GB"], gpus=64),
    ),
    ("diagnose", ("quickstart", "--step", "18.9s"), lambda: costmodel.diagnose("quickstart", "18.9s")),
    ("export", ("quickstart", "--to", "megatron"), lambda: costmodel.export("quickstart", "megatron")),
    ("list", ("grids",), lambda: costmodel.list_documents("grids")),
    ("show", ("dgx-h100",), lambda: costmodel.show("dgx-h100")),
]


def _text(figures: dict[str, Any]) -> str:
    """As one text, since a difference of two trees is costly to describe; without the time it took."""
    return json.dumps({key: value for key, value in figures.items() if key not in ("elapsed_s", "digest")})


@pytest.mark.parametrize(("command", "words", "ask"), ASKED, ids=[" ".join((c, *w)) for c, w, _ in ASKED])
def test_a_function_answers_as_its_command(
    command: str, words: tuple[str, ...], ask: Any, run: Any, capfd: Any
) -> None:
    said = json.loads(run(command, *words, "--json").out)
    capfd.readouterr()
    answer = ask()
    same = _text(answer.figures) == _text(said)
    assert same
    assert len(repr(answer).splitlines()) >= (2 if command == "check" else 3)
    assert json.loads(answer.form("json")).keys() == answer.figures.keys() | said.keys()
    assert answer._repr_html_().startswith("<pre")
    assert capfd.readouterr() == ("", "")


def test_every_command_is_a_function_with_its_options() -> None:
    """What `dir` shows is what there is; the words of a function are its command's."""
    from costmodel.commands.command_table import QUESTIONS

    assert dir(costmodel) == costmodel.__all__ == sorted(costmodel.__all__, key=lambda name: (name[0].islower(), name))
    assert {library.NAMES.get(name, name) for name in QUESTIONS} < {*dir(costmodel)}
    for name in library.FUNCTIONS:
        function = library.function(name)
        assert function.__name__ == name
        assert function.__doc__
        assert all(option.kind != option.VAR_KEYWORD for option in inspect.signature(function).parameters.values())
    swept = inspect.signature(costmodel.sweep).parameters
    assert all(f"\n    {each}: " in (costmodel.sweep.__doc__ or "") for each in swept)
    assert {"scenario", "over", "show", "best", "settings", "model", "gpu", "gpus", "rate"} < {*swept}
    assert swept["best"].kind == swept["gpus"].kind == inspect.Parameter.KEYWORD_ONLY


def test_varied_keys_may_be_a_mapping() -> None:
    texts = ["plan.tp=1,2", "plan.micro_batch=1..2", "cluster.fabric.bandwidth=100,400 Gb/s"]
    mapping = {"plan.tp": [1, 2], "plan.micro_batch": "1..2", "cluster.fabric.bandwidth": [100, "400 Gb/s"]}
    rows = [costmodel.sweep("quickstart", over, "mfu").figures["points"] for over in (mapping, texts)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: costmodel.estimate("quickstart", ["plan.tp=2"]), "estimate: too many positional arguments"),
        (lambda: costmodel.search("quickstart", "many"), "search: top: Input should be a valid integer"),
        (lambda: costmodel.sweep("quickstart"), "sweep: over is missing"),
        (lambda: costmodel.sweep("quickstart", 3), "sweep: over: Input should be a valid list"),
        (lambda: costmodel.sweep("quickstart", axes=["plan.tp=1,2"]), "keyword argument 'axes'; did you mean 'over'?"),
        (lambda: costmodel.estimate("quickstart", setting=["plan.tp=2"]), "did you mean 'settings'?"),
        (lambda: costmodel.memory("quickstart", nodes=4), "memory: got an unexpected keyword argument 'nodes'"),
        (lambda: costmodel.estimate(costmodel.load("quickstart"), gpu="h200"), "gpu: flags go with the name"),
        (lambda: costmodel.estimate(3), "estimate: a scenario is a name, a path, a mapping or a case"),
        (lambda: costmodel.estimate("quickstart", settings="plan.tp=4"), "estimate: settings are a list"),
        (lambda: costmodel.load("quickstart", [4]), "load: each of the settings is a text"),
        (lambda: costmodel.search("quickstart", 0), "search: top: Input should be greater than or equal to 1"),
        (lambda: costmodel.export("quickstart", rank=-1), "export: rank: Input should be greater"),
        (lambda: costmodel.explain("ring-all-reduce", ranks=1), "explain: ranks: Input should be greater"),
        (lambda: costmodel.memory("quickstart", gpus=True), "memory: gpus: a boolean is not a value"),
        (lambda: costmodel.diff("quickstart"), "diff: there is nothing to compare with"),
        (lambda: costmodel.diff(after="quickstart", model="gpt-3-175b", gpu="h100"), "diff: flags describe the first"),
        (lambda: costmodel.diff(after="quickstart"), "diff: flags describe the first"),
    ],
)
def test_what_a_function_does_not_take_is_an_error(ask: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        ask()


def test_a_scenario_may_be_a_mapping_a_case_or_flags() -> None:
    """The same job in four ways."""
    job = {
        "model": "llama-3-8b",
        "cluster": {"node": "dgx-h100", "nodes": 8},
        "workload": {"kind": "training", "sequence": 8192, "global_batch": 128, "precision": "bf16"},
        "assume": {"price": "2.50 USD/GPU/h"},
    }
    plan = {"plan": {"tp": 2, "micro_batch": 1}}
    mapped = costmodel.estimate({**job, **plan}).figures["plans"][0]
    settings = ["plan.tp=2", "plan.micro_batch=1", "plan.zero=1"]
    cased = costmodel.estimate(costmodel.load(job, settings)).figures["plans"][0]
    named = costmodel.estimate(
        model="llama-3-8b", gpu="h100", gpus=64, sequence=8192, batch=128, price="2.50 USD/GPU/h", settings=settings
    )
    for key in ("step_time_s", "memory_peak_bytes", "cost_per_mtoken_usd"):
        assert mapped[key] == cased[key] == pytest.approx(named.figures["plans"][0][key], rel=1e-12), key
    with pytest.raises(costmodel.CostModelError) as caught:
        costmodel.estimate({**job, "modle": "llama-3-8b"})
    assert "modle" in str(caught.value.faults[0])


def test_a_mapping_without_a_load_is_varied_over_its_load() -> None:
    served = {"model": "llama-3.1-8b", "cluster": {"node": "dgx-h100", "nodes": 1}, "plan": {"tp": 1}}
    service = {**served, "workload": {"kind": "serving", "prompt": 1000, "output": 200}}
    assert costmodel.sweep(service, ["workload.rate=1,2"]).frame()["workload.rate"].tolist() == [1, 2]
    assert costmodel.sweep(service, ["workload.concurrency=4,8"]).frame()["workload.concurrency"].tolist() == [4, 8]
    with pytest.raises(costmodel.CostModelError, match="no load is given"):
        costmodel.estimate(service)


def test_help_shows_the_function_of_a_question() -> None:
    for name in ("estimate", "report", "memory"):
        shown = pydoc.plain(pydoc.render_doc(getattr(costmodel, name)))
        assert f"{name}(scenario" in shown
        assert f"costmodel {name} " in shown


def test_other_scenarios_beside_a_case_are_their_own() -> None:
    case = costmodel.load("quickstart", ["plan.tp=2"])
    checked = costmodel.check(case, [SERVES]).figures["scenarios"]
    assert [each["workload"] for each in checked] == ["training", "serving"]
    shown = costmodel.report(case, ["megatron-22b-8"]).frame()
    assert shown["gpus"].tolist() == [32, 8]


def test_a_mapping_is_named_by_its_title_or_its_contents(tmp_path: Any) -> None:
    """Two mappings without a title are two entries of a baseline."""
    base = tmp_path / "b.json"
    job = {"model": "llama-3-8b", "cluster": {"node": "dgx-h100", "nodes": 8}, "plan": {"tp": 2, "micro_batch": 1}}
    work = {"kind": "training", "sequence": 8192, "global_batch": 128, "precision": "bf16"}
    first, second = {**job, "workload": work}, {**job, "workload": {**work, "global_batch": 256}}
    for each in (first, second):
        assert costmodel.check(each, against=base, update=True).works
    assert len(json.loads(base.read_text())["scenarios"]) == 2
    assert all(costmodel.check(each, against=base).works for each in (first, second))
    with pytest.raises(costmodel.CostModelError) as caught:
        costmodel.estimate({**first, "plan": {"tp": 0}})
    assert caught.value.faults[0].place.file == "<mapping>"  # type: ignore[union-attr]


def test_settings_may_be_a_mapping_and_a_scenario_a_path() -> None:
    by_list = costmodel.estimate("quickstart", settings=["plan.tp=2", "workload.global_batch=256"])
    path = library.Path(__file__).parents[1] / "scenarios/quickstart.yaml"
    by_mapping = costmodel.estimate(path, settings={"plan.tp": 2, "workload.global_batch": 256})
    assert by_list.figures["plans"] == by_mapping.figures["plans"]


def test_a_setting_that_a_sweep_varies_is_remarked() -> None:
    for asked in (
        costmodel.sweep("quickstart", ["plan.tp=1,2"], settings=["plan.tp=4"]),
        costmodel.sweep(costmodel.load("quickstart"), ["plan.tp=1,2"], settings=["plan.tp=4"]),
        costmodel.sweep(costmodel.load("quickstart", ["plan.tp=4"]), ["plan.tp=1,2"]),
    ):
        assert "plan.tp=4 has no effect" in repr(asked)


def test_every_form_is_there_or_refused() -> None:
    found = costmodel.memory("quickstart")
    assert found.form("table") == f"{found!r}\n"
    with pytest.raises(costmodel.CostModelError, match="has no nonsense"):
        found.form("nonsense")
    assert costmodel.report("quickstart", figure="roofline")._repr_svg_().startswith("<svg")  # type: ignore[union-attr]
    assert "figure" in repr(costmodel.report("quickstart", figure="roofline"))


def test_the_library_leaves_signals_and_threads_alone() -> None:
    """A search that watches for Ctrl-C on a terminal runs in a thread of a server too."""
    before = signal.getsignal(signal.SIGINT)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(costmodel.sweep, "quickstart", [f"plan.micro_batch={each}"]) for each in (1, 2)]
        assert all(future.result().works for future in futures)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_difference_names_what_moved() -> None:
    found = costmodel.diff("quickstart", costmodel.load("quickstart", ["plan.recompute=full"]))
    assert not found.found.same
    assert {"step_time_s", "memory_peak_bytes"} <= set(found.frame()["name"])
    flagged, wanted = costmodel.diff("quickstart", gpu="h200"), ["cluster.node=dgx-h200"]
    assert flagged.figures["figures"] == costmodel.diff("quickstart", settings=wanted).figures["figures"]
    serving = costmodel.diff(SERVES, settings=["plan.tp=4"])
    assert "tpot_s" in set(serving.frame()["name"])
    assert "Reproduce" not in serving.form("html")


def test_frames_have_a_row_for_each_plan_and_units_in_their_names() -> None:
    frame = costmodel.search("quickstart", 4).frame()
    assert frame["rank"].tolist() == [1, 2, 3, 4]
    assert frame["step_time_s"].is_monotonic_increasing or frame["tokens_per_s_per_gpu"].is_monotonic_decreasing
    points = costmodel.sweep("quickstart", ["plan.tp=2,4", "plan.micro_batch=1,2"], "mfu").frame()
    assert len(points) == 4


def test_faults_are_exceptions_with_code_place_and_remedy(tmp_path: Any) -> None:
    with pytest.raises(costmodel.CostModelError) as caught:
        costmodel.estimate("quickstrat")
    (fault,) = caught.value.faults
    assert (fault.code, "quickstart" in fault.hint) == ("D009", True)
    bad = tmp_path / "bad.yaml"
    bad.write_text("schema: costmodel/scenario/v1\ntitle: x\nmodle: llama-3-8b\n")
    with pytest.raises(costmodel.CostModelError) as caught:
        costmodel.search(str(bad))
    assert any(fault.place is not None and fault.place.line == 3 for fault in caught.value.faults)
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        costmodel.nothing_of_the_kind  # noqa: B018


def test_a_notebook_shows_hostile_names_as_text() -> None:
    case = costmodel.load("quickstart")
    model = case.model.model_copy(update={"title": "<script>alert(1)</script>", "name": "<b>x</b>"})
    shown = costmodel.estimate(replace(case, model=model))._repr_html_()
    assert "alert(1)" in shown or "&lt;b&gt;x" in shown
    assert "<script" not in shown
    assert "<b>x" not in shown


def test_examples_of_docstrings_run() -> None:
    result = doctest.testmod(library)
    assert (result.failed, result.attempted >= 6) == (0, True)


def test_an_answer_stands_once_in_jupyter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A console of rich that finds itself in Jupyter shows each line by itself."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda *_: pytest.fail("a line was shown beside the answer"))
    assert costmodel.estimate("quickstart")._repr_html_().startswith("<pre")


@pytest.mark.parametrize("name", EVERY)
def test_every_kind_of_scenario_has_figures(name: str) -> None:
    case = costmodel.load(name)
    for figure in ("time", "memory"):
        root = ElementTree.fromstring(costmodel.figure(case, figure)._repr_svg_())
        assert [item for item in root.iter() if item.get("data-name")]
    if name == "quickstart":
        assert costmodel.figure(case, "roofline")._repr_svg_().startswith("<svg")
        return
    with pytest.raises(costmodel.CostModelError, match="has no figure roofline"):
        costmodel.figure(case, "roofline")
