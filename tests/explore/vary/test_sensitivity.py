"""sensitivity: what each input moves by its tenth or its error, as estimate says."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.documents.reader.load_scenario import load_any, vary_any
from costmodel.explore import workloads
from costmodel.explore.compare.input_paths import input_values, make_variant
from costmodel.explore.workloads import workload_of
from explore.vary.json_answers import NAME, NETWORK, Faults, estimated, json_of


@pytest.fixture(scope="module")
def figures(run: Any) -> list[dict[str, Any]]:
    """Those of a step, the largest first."""
    found: list[dict[str, Any]] = json_of(run, "sensitivity", NAME)["figures"]
    return found


@pytest.fixture(scope="module")
def printed(run: Any) -> str:
    """All of them as a table."""
    out: str = run("sensitivity", NAME, "--top", "1000").out
    return out


def test_hardware_is_turned_by_a_tenth(figures: list[dict[str, Any]], run: Any) -> None:
    found = {item["path"]: item for item in figures}
    base = estimated(run)["step_time_s"]
    for path, low, high in (
        (NETWORK, "360 Gb/s", "440 Gb/s"),
        ("cluster.node.accelerator.memory.bandwidth", "3.015 TB/s", "3.685 TB/s"),
        ("cluster.node.accelerator.peak.bf16", "890.46 TFLOP/s", "1088.34 TFLOP/s"),
    ):
        item = found[path]
        assert (item["kind"], item["spread"]) == ("hardware", 0.1)
        for side, value in (("low", low), ("high", high)):
            step = estimated(run, f"{path}={value}")["step_time_s"]
            assert item[side] == pytest.approx(step / base - 1, rel=1e-6)
    swings = [max(i["low"], i["high"], 0) - min(i["low"], i["high"], 0) for i in figures]
    assert swings == sorted(swings, reverse=True)


def test_fits_are_turned_by_their_error(figures: list[dict[str, Any]]) -> None:
    from costmodel.documents.reader.library import read

    fit = read("efficiency", "h100-sxm").matmul["bf16"]
    item = {item["path"]: item for item in figures}["cluster.node.accelerator.efficiency.matmul.bf16.compute_share"]
    assert (item["kind"], item["spread"]) == ("fitted", fit.fitted.p90)


def test_a_share_that_a_measured_rate_stands_in_for_is_not_turned(run: Any) -> None:
    """Of a part never fitted the best measured matmul is: faster makes the step shorter."""
    figures = json_of(run, "sensitivity", NAME, "--set", "cluster.node=gaudi3-8")["figures"]
    found = {item["path"].partition("accelerator.")[2]: item for item in figures}
    assert "efficiency.matmul.bf16.compute_share" not in found
    assert found["best_matmul.bf16"]["high"] < 0 < found["best_matmul.bf16"]["low"]


def test_whole_numbers_and_bounds_are_heeded(figures: list[dict[str, Any]], run: Any) -> None:
    whole = (".domain", ".nics", ".accelerators", ".half_sequence")
    assert not any(item["path"].endswith(whole) for item in figures)
    full = json_of(run, "sensitivity", NAME, "--set", "assume.overlap.tp=1")["figures"]
    item = next(item for item in full if item["path"] == "assume.overlap.tp")
    assert item["high"] == 0.0
    assert item["low"] > 0


@pytest.mark.parametrize(
    ("asked", "marked"),
    [
        (("sweep", NAME, "--over", "plan.tpx=1,2"), "plan.tpx=1"),
        (("sweep", NAME, "--over", "plan.tp=0,-1"), "0"),
        (("search", NAME, "--over", "cluster.nodez=1,2"), "cluster.nodez=1"),
        (("search", NAME, "--over", "cluster.nodes=1,2", "--over", "workload.precision=bf16,fp4x"), "fp4x"),
        (("solve", NAME, "--over", "plan.tp=0", "--for", "mfu>=3 %"), "0"),
    ],
)
def test_a_value_that_cannot_be_is_told_at_the_option_that_gave_it(
    asked: tuple[str, ...], marked: str, run: Any, faults: Faults
) -> None:
    ran = run(*asked)
    (fault,) = faults(ran)
    assert marked.startswith(fault.marked)
    assert " | --over " in ran.err
    assert "--set" not in ran.err


def test_what_an_optimizer_keeps_moves_memory(run: Any) -> None:
    """Every path that is said can be set."""
    figures = json_of(run, "sensitivity", NAME, "--of", "memory_peak")["figures"]
    (moments,) = (item for item in figures if item["path"] == "workload.optimizer.moments")
    assert moments["kind"] == "assumption"
    more = estimated(run, "workload.optimizer.moments=8.8 B")["memory_peak_bytes"]
    assert moments["high"] == pytest.approx(more / estimated(run)["memory_peak_bytes"] - 1, abs=1e-12)


def test_the_bottleneck_is_said(figures: list[dict[str, Any]], printed: str, run: Any) -> None:
    best = min((item for item in figures if item["kind"] == "hardware"), key=lambda item: item["high"])
    assert best["path"].endswith("peak.bf16")
    assert f"10 % more peak bf16 improves step_time by {-best['high'] * 100:.2g} %." in printed
    assert run("sensitivity", NAME, "--of", "mfu").code == 0


def test_nothing_to_be_sensitive_of(run: Any, faults: Faults) -> None:
    assert faults(run("sensitivity", NAME, "--set", "plan.tp=3"))[0].code == "C004"
    assert faults(run("sensitivity", NAME, "--of", "run_cost", "--set", "workload.tokens=null"))[0].code == "C004"
    assert faults(run("sensitivity", NAME, "--of", "speed"))[0].code == "C003"


def test_what_stands_there_can_be_set(figures: list[dict[str, Any]], printed: str, run: Any) -> None:
    """Every name of the table with the figure beside it; but for fitted ones, of which it says so."""
    lines = printed.splitlines()
    start = next(place for place, line in enumerate(lines) if line.split()[:1] == ["input"]) + 1
    names = [line.split()[0] for line in lines[start : start + len(figures)]]
    fitted = [name.startswith("fit.") for name in names]
    assert fitted == [item["kind"] == "fitted" for item in figures]
    assert "not with --set" in lines[start + len(figures)]
    own = estimated(run)["step_time_s"]
    settings = [f"{name}={item['text']}" for name, item in zip(names, figures, strict=True) if item["kind"] != "fitted"]
    assert estimated(run, *settings)["step_time_s"] == own


WORKLOADS = ("llama-3-70b-512", "serve-llama-3.1-70b", "grpo-qwen-2.5-7b-64")


def test_the_answer_has_the_same_keys_for_each_workload(run: Any) -> None:
    answers = [json_of(run, "sensitivity", name) for name in WORKLOADS]
    assert {tuple(answer) for answer in answers} == {tuple(answers[0])}
    rows = [{*answer["figures"][0]} - {"sequence", "global_batch"} for answer in answers]
    assert rows[0] == rows[1] == rows[2]
    facts = [{*answer["facts"]} for answer in answers]
    assert facts[1] == facts[2] == facts[0] - {"sequence", "global_batch", "precision", "optimizer", "tuning"}


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("form", ["json", "csv", "markdown", "html", "svg"])
def test_each_format_has_the_figure_that_moves_the_result_most(run: Any, name: str, form: str) -> None:
    first = json_of(run, "sensitivity", name)["figures"][0]["path"]
    ran = run("sensitivity", name, "--format", form)
    assert (ran.code, ran.err) == (0, "")
    assert first.rpartition(".")[2] in ran.out


def test_a_share_that_ends_at_the_whole_is_not_said_to_be_turned_to_both_sides(run: Any) -> None:
    """The share of memory bandwidth that decoding reaches is 0.819: a spread of 27.6 % more is beyond all."""
    share = "cluster.node.accelerator.efficiency.serving.decode.memory_share"
    for name in WORKLOADS[1:]:
        knob = next(item for item in json_of(run, "sensitivity", name)["figures"] if item["path"] == share)
        assert knob["turned"][1] == "1"
        for form, row in (("table", "  fit.serving.decode."), ("html", '<tr><td class="long">fit.serving.decode.')):
            lines = run("sensitivity", name, "--top", "40", "--format", form).out.splitlines()
            turned = [line for line in lines if line.startswith(f"{row}memory_share")]
            assert turned
            assert all("−27.6 % to 1" in line for line in turned)


@pytest.mark.parametrize(
    ("asked", "result", "remedy"),
    [
        (("quickstart",), "goodput", "set run"),
        (("grpo-qwen-2.5-7b-64",), "goodput", "set run"),
        (
            ("grpo-qwen-2.5-7b-64", "--set", "cluster.node=gb200-nvl72", "--set", "assume.price=null"),
            "run_cost",
            "price",
        ),
        (("serve-llama-3.1-70b", "--node", "gb200-nvl72", "--set", "cluster.nodes=4"), "cost_per_mtoken", "price"),
    ],
)
def test_a_result_that_is_not_known_names_what_to_state(
    asked: tuple[str, ...], result: str, remedy: str, run: Any, faults: Faults
) -> None:
    (fault,) = faults(run("sensitivity", *asked, "--of", result))
    assert (fault.code, remedy in fault.help) == ("C004", True)


def test_a_scenario_of_learning_without_a_plan_is_asked_about_its_best(run: Any) -> None:
    name, open_plan = "grpo-qwen-2.5-7b-64", ("--set", "plan=null")
    best = json_of(run, "search", name, *open_plan, "--top", "1")["plans"][0]
    found = json_of(run, "sensitivity", name, *open_plan)
    assert found["value"] == pytest.approx(best["iteration_time_s"], rel=1e-12)
    assert found["plan"].items() <= best.items()
    assert "the best plan of costmodel search" in run("sensitivity", name, *open_plan).out
    (moved,) = (row for row in json_of(run, "diff", name, *open_plan)["figures"] if row["name"] == "iteration_time_s")
    assert moved["after"] == pytest.approx(best["iteration_time_s"], rel=1e-12)


SERVICE = "serve-llama-3.1-70b"
MIXED = ("model=deepseek-v3", "cluster.node=dgx-h200", "plan={tp: 1, dp_attention: 16, ep: 16}")
LEARNING = "grpo-qwen-2.5-7b-64"
APART = (
    "plan.rollout={colocated: false, ranks: 32}",
    "workload.rollouts=partial",
    "workload.staleness=1",
    "workload.environment={turns: 4, time: 2 s}",
)
DRAFTED = ("stack=sglang", "plan={tp: 4, pp: 2, speculation: {tokens: 4, acceptance: 50 %, draft: eagle}}")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, ()) for name in ("llama-3-70b-512", "deepseek-v3-2048", "mixed-llama-3-8b-96")),
        ("offload-llama-2-13b-8", ()),
        *((SERVICE, settings) for settings in ((), MIXED, DRAFTED, ("stack.chunked=false",))),
        *((LEARNING, settings) for settings in ((), APART)),
    ],
)
def test_a_row_of_many_variants_is_the_variant_alone(name: str, settings: tuple[str, ...]) -> None:
    """Figures of the part, a fit, the network, the host, the stack and the optimizer, each and two of them at once."""
    held = workload_of(vary_any(load_any(name), settings)).with_plan()
    known, part = input_values(held.case), "cluster.node.accelerator"
    paths = (f"{part}.memory.bandwidth", f"{part}.efficiency.matmul.bf16.compute_share", f"{part}.power.max",
             "cluster.node.scale_out.fabric.bandwidth", "cluster.node.host.bandwidth", "stack.states.master",
             f"{part}.efficiency.serving.decode.memory_share", f"{part}.efficiency.serving.all_reduce.bandwidth",
             "stack.overlap.cp", "stack.step_host", "workload.optimizer.moments", "stack.rollout.host.sequence",
             "stack.rollout.kernels.own_all_reduce", "stack.host.token", "assume.price")  # fmt: skip
    turned = [{path: 0.9 * known[path].value} for path in paths if path in known]
    variants = [make_variant(held.case, figures) for figures in (*turned, turned[0] | turned[-1])]
    for result in (
        held.usual_result,
        *(("ttft_p99", "tpot_p99") if name == SERVICE else ()),
        "memory_peak",
        "iteration_cost" if name == LEARNING else "cost_per_mtoken",
    ):
        alone = [held.for_case(each.case).answer([result]).costs[result] for each in variants]
        assert [*held.results_of(variants, result)] == pytest.approx(alone, rel=1e-14, nan_ok=True)


@pytest.mark.parametrize(("name", "key"), [(SERVICE, "stack.host.step"), (LEARNING, "workload.iterations")])
def test_keys_beside_defaults_and_read_parts_are_varied(name: str, key: str) -> None:
    """A default of 0 s has no unit written, and lengths of answers are no mapping once read."""
    case = load_any(name)
    assert input_values(make_variant(case, {key: 2.0}).case)[key].value == 2.0


@pytest.mark.parametrize("name", WORKLOADS)
def test_most_figures_are_rows_of_one_evaluation(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fall back to one after the other would go unseen: it has the same results."""
    held = workload_of(load_any(name))
    part = {path: leaf.value for path, leaf in input_values(held.case).items() if ".accelerator.efficiency." in path}
    variants = [
        make_variant(held.case, {path: 0.9 * figure})
        for path, figure in part.items()
        if isinstance(figure, float) and figure % 1
    ]
    monkeypatch.setattr(workloads.Workload, "_result_in", None)
    found = [*held.results_of(variants, held.usual_result)]
    assert len(found) > 20
    assert None not in found
