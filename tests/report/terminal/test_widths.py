"""Every command at every width: no line longer than the terminal, but for words that cannot be cut; nothing lost."""

from __future__ import annotations

import io
import itertools
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from each import each
from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME
from rich.text import Text

from costmodel.commands import answer_options
from costmodel.commands.command_table import QUESTIONS
from costmodel.explore.explain.word_explanations import all_words
from costmodel.ground.errors import Fault, Place
from costmodel.report.terminal.faults import fault_report
from costmodel.report.terminal.layout import (
    FEW_COLOURS,
    LEFT_OUT,
    PALETTE,
    CellTable,
    Line,
    WidthDrawing,
    laid_out,
    lines_of_length,
    shell_line,
)
from costmodel.report.terminal.progress import ProgressLine, ProgressMark, parts_that_fit

NAME = "llama-3-70b-512"
RL = "grpo-qwen-2.5-7b-64"
ROOT = Path(__file__).resolve().parents[3]
SERVICE = "serve-llama-3.1-70b"
APART = "--set cluster.nodes=3 --set 'plan={prefill: {tp: 8, replicas: 2}, decode: {tp: 8}}'"
WIDTHS = (40, 60, 77, 80, 100, 120)
ANSWERS = (
    f"estimate {NAME} -v",
    "estimate lora-llama-3-70b-8",
    f"estimate {NAME} --set plan.tp=6",
    f"estimate {NAME} --set plan.tp=1 --set plan.micro_batch=4",
    f"memory {NAME} -v",
    "memory offload-llama-2-13b-8",
    "memory deepseek-v3",
    f"comm {NAME}",
    f"pipeline {NAME} --set plan.pp=16",
    f"estimate {RL} -v",
    f"memory {RL}",
    f"comm {RL}",
    f"run {RL}",
    f"search {RL} --why-not --set search.tp=[1] --set search.cp=[2] --set search.rollout_tp=[1,8]",
    "explain",
    f"explain {NAME} step_time --depth 5",
    "explain interleaved_time",
    "explain N010",
    f"search {NAME}",
    f"search {NAME} --top 3 --why-not",
    f"search {NAME} --set plan.tp=3 --set plan.zero=1",
    f"search {NAME} --set cluster.nodes=1",
    f"search {NAME} --pareto communication_efficiency,cost_per_mtoken --top 5",
    f"search {NAME} --over cluster.nodes=32,64 --over cluster.node=dgx-h100,dgx-h200 --top 3",
    f"search {NAME} --set objective=cost_per_mtoken --top 3",
    "search serve-llama-3.1-70b --over cluster.node=p5,p6-b200 --over cluster.nodes=1,2 --set objective=rent_per_month",
    f"search {NAME} --set 'limits.step_time.at_most=14 s'",
    f"sweep {NAME} --over plan.tp=2,3,4,8 --over plan.micro_batch=1,2",
    f"sweep {NAME} --over plan.tp=4,8 --show mfu,step_time,memory_peak,tokens_per_s,cost_per_mtoken,run_cost --best",
    f"sweep {NAME} --over 'cluster.fabric.bandwidth=25..400 GB/s*2' --show step_time --chart",
    f"scale {NAME} --ranks 64..256 --best",
    f"sensitivity {NAME} --top 8",
    f"solve {NAME} --over 'cluster.fabric.bandwidth=100..400 GB/s*2' --for 'mfu>=45 %'",
    f"diff {NAME} --set plan.recompute=full",
    f"diff {NAME} gpt-3-175b-1024",
    f"run {NAME}",
    f"report {NAME} quickstart",
    "buy --model llama-3.1-8b --gpu h100,l40s --rate 4 --prompt 2048 --answer 256 --ttft 2s",
    f"diagnose {NAME} --step 18.9s --term dp_exposed=0.5s",
    "collective all-reduce 1GB --gpus 64 --node dgx-h100",
    f"estimate {SERVICE} {APART}",
    f"memory {SERVICE} --set workload.requests=20000 --set workload.rate=null -v",
    f"explain {SERVICE} tpot --depth 6",
    f"explain {SERVICE} ttft_p99 {APART}",
    f"search {SERVICE} --set 'workload.rate=50 /s'",
    f"solve {SERVICE} --over workload.rate --for 'tpot<=20 ms' --set workload.prompt=3000 --set workload.output=300",
    f"check {NAME} quickstart --set 'limits.mfu.at_least=60 %' -v",
    "validate korthikanti-2022 --by source",
    "calibrate tests/evidence/measured/gemm.csv tests/evidence/measured/all_reduce_perf.txt",
    "list",
    "list keys plan.",
    "list formats",
    "list formats llama-factory",
    "collective all-reduce 1GB --gpus 64",
    "memory scenarios/examples/qwen3-8b -v",
    "estimate --model scenarios/examples/qwen3-8b --gpus 16",
    "search --model scenarios/examples/qwen3-8b --gpus 64 --batch 4M-tokens --top 3",
)
ONE = "--model llama-3.1-8b --gpu h100-sxm --gpus 2 --prompt 2000 --answer 300"
OF_SERVICES = (
    f"estimate {SERVICE}",
    f"estimate {ONE} --rate 50 --set 'limits.ttft_p99={{at_most: 1 s}}'",
    f"memory {SERVICE}",
    "memory --model gpt-oss-120b --gpu h200 --gpus 1 --prompt 2000 --answer 300 --rate 2 -v",
    f"comm {SERVICE}",
    f"search {SERVICE} --top 3",
    f"search {ONE} --rate 50",
    f"scale {SERVICE} --rate 2,8",
    f"sweep {SERVICE} --over 'workload.rate=2 /s,16 /s'",
    f"diff {SERVICE} --set plan.tp=4",
    f"check {SERVICE} --set 'workload.rate=50 /s' -v",
    f"explain {SERVICE} tpot",
    "explain tpot",
)
RAILS = re.compile(r"[│├└─·█▉▊▋▌▍▎▏▕▐]")
SCENARIOS = {path.stem: path.read_text("utf-8") for path in (ROOT / "scenarios").glob("*.yaml")}
SERVICES = [name for name, text in SCENARIOS.items() if "kind: serving" in text]
OBJECTIVES = {"step_time": "step", "tokens_per_s_per_gpu": "tok/s/GPU", "cost_per_mtoken": "cost"}


@pytest.fixture
def lines_of(run: Any) -> Iterator[Any]:
    """`lines_of("estimate …")` gives the items of an answer, before they are laid out."""
    found: list[list[Line]] = []
    for known in QUESTIONS.values():
        known.load()  # a command takes its options of output from what is replaced here

    def lines(command: str) -> list[Line]:
        ran = run(*shlex.split(command))
        assert found, ran.err
        return found.pop()

    with pytest.MonkeyPatch.context() as patch:  # of how an answer is printed, which changes no cached reply
        patch.setattr(answer_options, "deliver", lambda reply, **_: found.append(lines_of_length(reply.lines())))
        yield lines


def words(lines: Sequence[Text]) -> Counter[str]:
    """Words without rails, rules and bars, and without what a shell needs to continue reading."""
    text = RAILS.sub(" ", " ".join(line.plain for line in lines))
    return Counter(word for word in text.split() if word != "\\")


def too_long(lines: Sequence[Text], width: int) -> Iterator[str]:
    """Lines over the width of which no word is, nor what stands in quotes to be pasted."""
    for line in lines:
        inside = re.findall(r"'[^']*'|\"[^\"]*\"|\S+", RAILS.sub(" ", line.plain).removesuffix(" \\"))
        if cell_len(line.plain) > width >= max(map(cell_len, inside), default=0) + 2:
            yield line.plain


def wider(items: Sequence[Line], width: int) -> list[str]:
    """Lines over the width, even those whose words in quotes are as long: at 100 columns there are none."""
    return [line.plain for line in laid_out(items, width) if cell_len(line.plain) > width]


def whole(item: Line, width: int) -> Counter[str]:
    """What an item says at a width: a table without the columns that it may drop, anything else as it is."""
    if not isinstance(item, CellTable):
        return words(list(laid_out([item], None)))
    kept = item.kept(width)
    cells = [Text(" ".join(row[index] for index in kept)) for row in item.all_rows()]
    left = [*filter(None, item.left_out(width))]  # bars have no name
    named = f"{LEFT_OUT} {', '.join(left)}." if left else ""
    return words([*cells, Text(item.legend_words(kept) if item.rows else ""), Text(named)])


def test_every_command_is_here() -> None:
    documents = {"show", "init", "schema", "import", "export"}  # are printed as they are written
    assert {answer.split()[0] for answer in ANSWERS} | documents | {"measure"} == set(QUESTIONS)


@pytest.mark.parametrize("command", ANSWERS)
def test_an_answer_keeps_within_every_width_and_loses_nothing(command: str, lines_of: Any) -> None:
    items = lines_of(command)
    for width in WIDTHS:
        assert list(too_long(list(laid_out(items, width)), width)) == []
        assert width < 100 or wider(items, width) == []
        for item in items:
            drawn = list(laid_out([item], width))
            if isinstance(item, WidthDrawing) and not drawn[0].plain.lstrip().startswith(("Next", "costmodel")):
                continue  # a figure has as many cells as there is room for
            assert words(drawn) == whole(item, width)


@pytest.mark.parametrize("command", OF_SERVICES)
def test_no_answer_about_a_service_is_wider_than_100_columns(command: str, lines_of: Any) -> None:
    assert wider(lines_of(command), 100) == []


def test_a_row_of_a_difference_of_services_is_one_line_at_100_columns(lines_of: Any) -> None:
    """Bands leave before a row would continue on a second line; a pipe has them all."""
    (table,) = [item for item in lines_of(f"diff {SERVICE} --set plan.tp=4") if isinstance(item, CellTable)][1:]
    assert len(table.lines(100)) == len(table.lines()) == len(table.rows) + 1
    assert "P10 – P90 before" in table.lines()[0].plain


def test_every_page_of_explain_keeps_within_a_terminal(lines_of: Any, request: pytest.FixtureRequest) -> None:
    """A share of them, unless --whole asks for all."""
    for word in [*all_words()][:: 1 if request.config.getoption("--whole") else 5]:
        if word not in SCENARIOS:  # of a scenario, one of its figures is asked for
            assert list(too_long(list(laid_out(lines_of(f"explain {shlex.quote(word)}"), 80)), 80)) == [], word


@pytest.mark.parametrize("more", ["", APART, "--set workload.context=200000", "--set workload.shared_prefix=500"])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trt-llm"])
@pytest.mark.parametrize("name", SERVICES)
def test_an_exported_command_keeps_within_a_terminal(name: str, engine: str, more: str, run: Any) -> None:
    """As it is written, also where no terminal wraps it: only a path or a value in quotes may be longer."""
    ran = run("export", name, "--to", engine, "--lossy", *shlex.split(more))
    assert ran.out, ran.err
    assert list(too_long([Text(line) for line in ran.out.splitlines()], 80)) == []


@pytest.mark.parametrize("name", [None, *sorted(QUESTIONS)])
def test_help_keeps_within_every_width_and_is_plain_where_it_should(name: str | None, run: Any) -> None:
    asked = ("--help",) if name is None else (name, "--help")
    piped = run(*asked).out
    for width in WIDTHS:
        ran = run(*asked, env={"COLUMNS": str(width), "TERM": "xterm-256color"}, screen=True)
        shown = [Text(line) for line in re.sub(r"\x1b\[[\d;]*m", "", ran.out).splitlines()]
        assert list(too_long(shown, width)) == []
        assert words(shown) == words([Text(piped)])
    plain = [run("--no-color", *asked, screen=True), run(*asked, "--no-color", screen=True)]
    plain += [run(*asked, env=env, screen=True) for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"})]
    for ran in plain:
        assert ran.code == 0
        assert "\x1b" not in ran.out
        assert not set("╭╮╰╯│─") & set(ran.out)


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {}])
def test_an_error_of_usage_is_plain_where_it_should(env: dict[str, str], run: Any) -> None:
    more = () if env else ("--no-color",)
    ran = run("search", NAME, "--nope", *more, env=env, screen=True)
    assert ran.code == 2
    assert "No such option: --nope" in ran.err
    assert "\x1b" not in ran.err
    assert "╭" not in ran.err


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_objective_s_column_is_never_dropped(objective: str, lines_of: Any) -> None:
    (grid,) = (
        item
        for item in lines_of(f"search {NAME} --top 3 --set objective={objective} --set 'assume.price=2.50 USD/GPU/h'")
        if isinstance(item, CellTable) and item.names[0] == "#"
    )
    for width in (*WIDTHS, 24):
        shown = [grid.names[index] for index in grid.kept(width)]
        assert OBJECTIVES[objective] in shown
        heads = " ".join(line.plain for line in grid.lines(width)).split()
        assert OBJECTIVES[objective] in heads


def test_what_is_weighed_and_what_is_shown_is_never_dropped(lines_of: Any) -> None:
    axes = ["communication_efficiency", "cost_per_mtoken"]
    front = lines_of(f"search {NAME} --pareto {','.join(axes)} --top 3")
    swept = lines_of(f"sweep {NAME} --over plan.tp=4,8 --show {','.join(axes)}")
    for items in (front, swept):
        grid = max((item for item in items if isinstance(item, CellTable)), key=lambda item: len(item.names))
        for width in (*WIDTHS, 24):
            assert {*axes} <= {grid.names[index] for index in grid.kept(width)}


def test_a_table_that_no_column_may_leave_goes_on_in_further_lines() -> None:
    grid = CellTable(("name", "figure", "rate"), [("alpha", "123456", "7 GB/s"), ("beta", "1", "22 GB/s")], "lrr")
    assert [line.plain for line in grid.lines(20)] == [
        "  name   figure",
        "       rate",
        "  alpha  123456",
        "     7 GB/s",
        "  beta        1",
        "    22 GB/s",
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_command_can_be_pasted_at_every_width(width: int) -> None:
    command = f"costmodel estimate {NAME} --set 'workload.tuning={{method: qlora}}' --set plan.tp=4 --set plan.pp=8"
    lines = [line.plain for line in shell_line("Next:", command).lines(width)]
    assert all(cell_len(line) <= width for line in lines)
    pasted = "\n".join(lines).removeprefix("Next:")
    assert shlex.split(pasted.replace("\\\n", "")) == shlex.split(command)


@each("width", range(30, 121))
def test_the_line_of_progress_is_one_line(width: int) -> None:
    """It names how far it is at any width, and the best so far where there is room."""
    stream = io.StringIO()
    screen = Console(file=stream, width=width, height=20, force_terminal=True, color_system=None)
    meter = ProgressLine(screen)
    mark = ProgressMark(3_000, 7_000_000, 1_968, "1,968,000 valid of 7,840,000 plans", "best 1,108 token/s")
    meter.show(mark)
    meter.show(mark)
    meter.close()
    shown = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "\n", stream.getvalue()).replace("\r", "\n").splitlines()
    assert all(cell_len(line.rstrip()) <= width for line in shown)
    assert any("1,968,000 valid" in line for line in shown) or width < 40
    assert any("best 1,108" in line for line in shown) == (width >= 77)


def test_of_the_parts_of_a_line_those_come_first_that_fit() -> None:
    assert parts_that_fit(["1 of 4", "", "3/s"], 80) == "1 of 4 · 3/s"
    assert parts_that_fit(["1 of 4", "a long part of it", "3/s"], 14) == "1 of 4 · 3/s"


@pytest.mark.parametrize("width", WIDTHS)
def test_a_fault_keeps_within_the_terminal_and_its_caret_under_the_word(width: int) -> None:
    text = f"  tp: 8  # {'word ' * 30}"
    fault = Fault(
        "D003", "unknown key 'tp' and a sentence that continues for a while", Place("s.yaml", 7, 3, "a.b", text, 2), "y"
    )
    lines = [line.plain for line in fault_report([fault], width)]
    assert all(cell_len(line) <= width for line in lines)
    source, caret = next((line, after) for line, after in itertools.pairwise(lines) if "^" in after)
    assert source[caret.index("^") :].startswith("tp")


@pytest.mark.parametrize(("column", "width"), [(90, 40), (150, 40), (3, 40), (90, 60)])
def test_of_a_long_line_what_is_marked_is_shown(column: int, width: int) -> None:
    text = "x" * (column - 1) + "WRONG" + "y" * 60
    lines = [line.plain for line in fault_report([Fault("D003", "no", Place("s", 1, column, "", text, 5), "")], width)]
    source, caret = next((line, after) for line, after in itertools.pairwise(lines) if "^" in after)
    start = caret.index("^")
    assert source[start : start + 5] == "WRONG"
    assert cell_len(source) <= width


def luminance(red: int, green: int, blue: int) -> float:
    """Relative luminance, WCAG 2.1."""
    shares = (channel / 255 for channel in (red, green, blue))
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


XTERM = {"red": (205, 0, 0), "magenta": (205, 0, 205)}


@pytest.mark.parametrize("style", [*PALETTE.values(), *FEW_COLOURS.values()])
def test_colours_are_legible_on_white_and_on_black(style: str) -> None:
    """A contrast of 3 at least, which WCAG 2.1 asks of large text and of graphics; yellow on white has 1.7."""
    if style == "none":
        return
    rgb = XTERM.get(style) or tuple(Color.parse(style).get_truecolor(DEFAULT_TERMINAL_THEME))
    light = luminance(*rgb)
    assert 1.05 / (light + 0.05) >= 3
    assert (light + 0.05) / 0.05 >= 3


def test_no_answer_is_yellow(run: Any) -> None:
    for asked in (("--help",), ("search", "--help"), ("estimate", NAME, "--set", "plan.tp=16")):
        for term in ("xterm", "xterm-256color"):
            out = run(*asked, env={"TERM": term, "COLUMNS": "100"}, screen=True).out
            assert not re.search(r"\x1b\[(\d+;)*(33|93)(;\d+)*m", out)


def test_many_equal_faults_are_one_with_their_places() -> None:
    """20,000 wrong cells in two ways and one fault of its own: three faults, with the number and the first places."""
    wrong = [
        Fault("D006", f"not {line % 2}", Place("runs.csv", line, 5, "", "1,x", 1), "mend it")
        for line in range(2, 20002)
    ]
    lines = [
        line.plain for line in fault_report([*wrong, Fault("D004", "one is missing", Place("runs.csv", 1, 1))], 100)
    ]
    assert [line for line in lines if line.startswith("error")] == [
        "error[D006]: not 0",
        "error[D006]: not 1",
        "error[D004]: one is missing",
    ]
    assert [line for line in lines if "more" in line] == [
        "the same error is in 9,999 more places: 4:5, 6:5, 8:5, …",
        "the same error is in 9,999 more places: 5:5, 7:5, 9:5, …",
    ]
    assert lines[-1] == "20,001 errors. Details: costmodel explain D006"
