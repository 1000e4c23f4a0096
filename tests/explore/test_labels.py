"""Every label that a command prints has a page: `costmodel explain LABEL` says what it means.

The labels are those that the commands really print: every head of a column, the first cell of every row, the words of a
plan, what stands alone before two blanks, and the heads of every CSV table.
"""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest
from each import each

from costmodel.documents.keys.key_list import all_keys
from costmodel.documents.reader.sources import labels as stated_labels
from costmodel.explore.explain.word_explanations import page
from costmodel.ground.errors import CostModelError
from costmodel.report.terminal.layout import CellTable

from .printed_labels import ALONE, labels_of, labels_of_grid

COMMANDS = """
estimate quickstart -v
estimate llama-3-70b-512 -v --set plan.cp=2
estimate deepseek-v3-2048 -v
estimate offload-llama-2-13b-8 -v
estimate lora-llama-3-70b-8
estimate quickstart --set model=meta-llama/Llama-3.1-8B --set 'workload.global_batch=4M tokens'
memory quickstart
memory deepseek-v3-2048 -v
memory offload-llama-2-13b-8
memory llama-3-70b
memory gemma-3-27b -v
comm llama-3-70b-512 --set plan.cp=2
comm deepseek-v3-2048
pipeline llama-3-70b-512
pipeline deepseek-v3-2048
search quickstart --top 3 --why-not
search quickstart --top 3 --pareto step_time,memory_peak
search quickstart --top 3 --over cluster.nodes=2,4 --set 'search.dp_replicate=[1,2]' --set 'search.zero=[3]'
sweep quickstart --over plan.tp=1,2 --over cluster.fabric.bandwidth=100,400Gb/s --show mfu,cost_per_mtoken
sweep quickstart --over cluster.nodes=2,4 --best
scale quickstart --ranks 8..32
scale quickstart --ranks 8,16 --best
sensitivity quickstart
sensitivity quickstart --of memory_peak
solve quickstart --over cluster.nodes=2,4 --for mfu>=0.9
diff quickstart --set plan.tp=8
diff deepseek-v3-2048 --set plan.ep=32
estimate serve-llama-3.1-70b -v
memory serve-llama-3.1-70b -v
memory serve-llama-3.1-70b -v --set model=nemotron-h-8b
comm serve-llama-3.1-70b
estimate serve-llama-3.1-70b --set 'workload={kind: serving, prompt: 2048, output: 512, requests: 2000}'
estimate serve-llama-3.1-70b --set workload.turns=4 --set workload.prompt=500 --set 'workload.think_time=600 s' \
--set 'stack.host_cache.size=128 GiB' --set assume.routing=cache-aware
estimate serve-llama-3.1-70b --set 'plan.speculation={tokens: 4, chance: 70%, draft: eagle}'
estimate serve-llama-3.1-70b --set cluster.nodes=3 --set 'plan={prefill: {tp: 8, replicas: 2}, decode: {tp: 8}}'
estimate serve-llama-3.1-70b --set model=deepseek-v3 --set workload.precision=fp8 \
--set 'plan={tp: 8, ep: 16, dp_attention: 2, replicas: 1}' --set cluster.node=dgx-h200
search serve-llama-3.1-70b --top 2
search serve-llama-3.1-70b --top 2 --over cluster.node=p5,p6-b200 --set objective=rent_per_month --why-not
scale serve-llama-3.1-70b --rate 2,8
sweep serve-llama-3.1-70b --over workload.prompt=512,2048
sensitivity serve-llama-3.1-70b
check quickstart -v --set 'limits.mfu.at_least=40 %' --set 'limits.step_time.at_most=1 s'
validate korthikanti-2022
validate tests/evidence/measured/runs.csv --by gpu --worst 2
calibrate tests/evidence/measured/gemm.csv tests/evidence/measured/all_reduce_perf.txt -v
calibrate tests/evidence/measured/mine.csv
list
list measured
explain
""".strip().splitlines()
TABLES = """
estimate quickstart
search quickstart --top 2
sweep quickstart --over plan.tp=1,2
scale quickstart --ranks 8..32
sensitivity quickstart
comm quickstart
memory quickstart
pipeline llama-3-70b-512
diff quickstart --set plan.tp=8
validate korthikanti-2022
calibrate tests/evidence/measured/all_reduce_perf.txt
list nodes
""".strip().splitlines()


def _without_page(labels: set[str]) -> list[str]:
    found = []
    for label in sorted(labels):
        try:
            assert page(label).text.strip() or page(label).formulas, label
        except CostModelError:
            found.append(label)
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_every_label_printed_has_a_page(command: str, run: Any) -> None:
    found = labels_of(run, command)
    assert found
    assert _without_page(found) == []


@pytest.mark.parametrize("command", TABLES)
def test_every_head_of_a_table_for_programs_has_a_page(command: str, run: Any) -> None:
    ran = run(*shlex.split(command), "--format", "csv")
    head = next(csv.reader(io.StringIO(ran.out)))
    assert _without_page({name for name in head if "." not in name}) == []


def test_a_label_without_a_page_is_found() -> None:
    assert _without_page({"step time", "nothing of the kind"}) == ["nothing of the kind"]
    grid = CellTable(("figure", "is"), [("plan.tp", "4")], "lr")
    assert set(labels_of_grid(grid)) == {"figure", "is", "plan.tp"}
    assert ALONE.match("  cost        $0.08 per Mtoken")


@each("label", list(stated_labels()))
def test_what_a_label_points_to_is_a_page(label: str) -> None:
    meaning, see = stated_labels()[label]
    assert meaning or see
    assert not meaning.endswith(".")
    if see:
        assert page(see).text


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("mb",), "sequences in a forward pass"),
        (("sp",), "sharded over tp along the sequence"),
        (("cost",), "rent for a million tokens"),
        (("matrix", "multiply"), "matrix products of the busiest stage"),
        (("matrix multiply",), "matrix products of the busiest stage"),
        (("ends",), "both ends of the model"),
        (("pipeline", "bubble"), "waits for others"),
        (("terms", "that", "grow", "(share)"), "more accelerator time"),
        (("tp", "all-gather", "time"), "of the tp group"),
        (("MFU",), "model FLOP"),
        (("P10 – P90",), "one run in ten"),
        (("fit.matmul.bf16.compute_share",), "large matmuls"),
        (("h100-sxm",), "costmodel show h100-sxm"),
        (("step_time_s",), "wall-clock time"),
        (("in", "flight"), "requests that are being answered at once"),
        (("balance",), "the prefill instances for each decode instance"),
        (("energy",), "that of a generated token"),
        (("gain",), "of drafts, how much faster tokens come"),
        (("cache", "sent"), "from its prefill instance to that of decode"),
        (("prefill", "busy"), "prefill instances process prompts"),
        (("cached",), "an engine still holds"),
        (("gradient_accumulation_steps",), "workload.global_batch"),
    ],
)
def test_words_as_they_are_printed_are_explained(words: tuple[str, ...], meant: str, run: Any) -> None:
    ran = run("explain", *words)
    assert ran.code == 0, ran.err
    assert meant in ran.out


def test_every_key_of_a_scenario_and_its_last_word_have_a_page() -> None:
    """As `list keys` prints them; numbers stand for items of lists."""
    paths = {key.path for key in all_keys()}
    words = {path.rpartition(".")[2] for path in paths} - {"0"}
    assert _without_page(paths | words) == []


def test_a_figure_may_be_asked_for_by_its_label(run: Any) -> None:
    assert run("explain", "quickstart", "step time") == run("explain", "quickstart", "step_time")


def test_words_that_nobody_prints_are_not_known(run: Any, faults: Callable[[Any], list[Any]]) -> None:
    (found,) = faults(run("explain", "nothing", "of", "the", "kind"))
    assert (found.code, found.sentence) == ("C003", "'nothing of the kind' is not known")
    (found,) = faults(run("explain", "quickstat", "step_time"))
    assert (found.code, found.help) == ("D009", "did you mean 'quickstart'?")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("budget", "limits.run_time"),
        ("context", "model.max_sequence"),
        ("roofline", "memory bandwidth"),
        ("ring attention", "plan.cp_type p2p"),
        ("chunked prefill", "in chunks"),
        ("worst gap", "between two tokens"),
        ("KV cache", "keys and values"),
        ("token budget", "tokens of a step"),
        ("balance", "stages"),
        ("24x", "refilled batches give 2.7 times"),
        ("24 times", "brings about 1 ×"),
        ("80-90 %", "69 % on H100"),
        ("NVLink < 10 us", "A hop is; a collective need not be"),
        ("26 MB × 64", "2.52 GB"),
        ("KV heads", "need no communication"),
        ("InfiniBand", "hop-or-collective"),
        ("think_time", "workload.think_time: Time between an answer"),
        ("shared_prefix", "begin with"),
        ("max_model_len", "workload.context"),
        ("interactivity", "1 / tpot"),
        ("goodput", "rate_within_slo"),
        ("spread", "workload.prompt.spread"),
        ("gaudi", "gaudi2"),
        ("tpu", "tpu-v5p"),
    ],
)
def test_words_of_the_field_have_a_page(words: str, part: str, run: Any) -> None:
    shown = run("explain", *words.split())
    assert (shown.code, part in " ".join(shown.out.split())) == (0, True)


def test_no_word_is_suggested_twice(run: Any) -> None:
    close = run("explain", "bindz").err.split("did you mean ")[1].split("?")[0].split(" or ")
    assert len(close) == len(set(close))


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        ("GQA", "share one key-value head"),
        ("arithmetic intensity", "FLOP of a kernel over the bytes it moves"),
        ("gradient accumulation", "micro-batches of a rank before an optimizer step"),
        ("mixed precision", "optimizer states in fp32"),
        ("loss scaling", "bf16 needs none"),
        ("RoCE", "RDMA over Ethernet"),
        ("NUMA", "attached to sockets"),
        ("critical batch size", "twice the minimum of steps"),
        ("flash attention", "computed in tiles"),
        ("ring attention", "keys and values are passed around the cp ranks"),
        ("muon", "muon an optimizer, by name"),
    ],
)
def test_words_of_the_field_are_explained_without_quotes(words: str, meaning: str, run: Any) -> None:
    ran = run("explain", *words.split())
    assert (ran.code, meaning in re.sub(r"\s+", " ", ran.out)) == (0, True)


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("∞", "estimate serve-llama-3.1-70b --set 'workload.rate=50 /s'"),
        ("to answer all", "estimate serve-llama-3.1-70b --set limits={}"),
        ("mean requests", "estimate serve-llama-3.1-70b"),
        ("mean requests", "memory serve-llama-3.1-70b"),
        ("limits the rate", "estimate serve-llama-3.1-70b"),
        ("where a token's time goes", "estimate serve-llama-3.1-70b"),
        ("meet all limits", "search serve-llama-3.1-70b --top 2"),
        ("answer the load", "search serve-llama-3.1-70b --top 2 --set limits={}"),
        ("answer all that arrives", "search serve-llama-3.1-70b --top 2 --set limits={}"),
        ("spread 0", "search serve-llama-3.1-70b --top 2 --set workload.prompt=2048 --set workload.output=512"),
        ("∞", "search serve-llama-3.1-70b --top 2 --set 'workload.rate=50 /s'"),
    ],
)
def test_words_inside_the_lines_of_an_answer_are_explained(words: str, command: str, run: Any) -> None:
    """Alone, and of the scenario, as a reader would copy them."""
    assert words in run(*shlex.split(command)).out.lower()
    for asked in (("explain", words), ("explain", "serve-llama-3.1-70b", words)):
        ran = run(*asked)
        assert ran.code == 0, ran.err
        assert len(ran.out.splitlines()) > 2
