"""Accelerators that a load needs, on nodes, with what their rent counts; and commands that lead to the same figures."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest
from estimate.serving.cases import inputs

from costmodel.estimate.serving.replicas_for_load import fleet_of
from costmodel.report.terminal.serving_formatting import UNKNOWN, gpus_words, rent_words

BY_NODE = ("cluster.node=p5", "assume.price=null")


@pytest.mark.parametrize(
    ("settings", "gpus", "words"),
    [
        ((), 60, "60 GPUs on 8 nodes of 8"),
        ((), 64, "64 GPUs, 8 nodes of 8"),
        ((), 1, "1 GPU on 1 node of 8"),
        (("cluster.node.accelerators=4",), 8, "8 GPUs on 2 nodes of 8, 4 of each in use"),
        (("cluster.node.accelerators=4",), 10, "10 GPUs on 3 nodes of 8, at most 4 of each in use"),
        (("cluster.node.accelerators=4",), 4, "4 GPUs on 1 node of 8"),
        (("cluster.node.accelerators=3",), 2, "2 GPUs on 1 node of 8"),
        (("cluster.node.accelerators=1",), 1, "1 GPU on 1 node of 8"),
    ],
)
def test_accelerators_are_named_with_the_nodes_that_hold_them(
    settings: tuple[str, ...], gpus: float, words: str
) -> None:
    assert gpus_words(inputs(*settings), gpus) == words


def test_rent_states_what_it_counts() -> None:
    assert rent_words(inputs(), 60) == (
        "Their rent is $110 k a month of 730 h for 60 GPUs; 8 whole nodes (64 GPUs) cost $117 k"
    )
    assert rent_words(inputs(), 64) == "Their rent is $117 k a month of 730 h for 64 GPUs"
    assert rent_words(inputs(*BY_NODE), 60).endswith("for 8 whole nodes")
    assert fleet_of(inputs(*BY_NODE), 60).month == fleet_of(inputs(*BY_NODE), 64).month
    assert rent_words(inputs("cluster.node=mi355x-8", "assume.price=null"), 60) == UNKNOWN


def test_no_more_are_counted_in_a_node_than_there_are() -> None:
    words = rent_words(inputs("cluster.node.accelerators=3"), 2)
    assert words.endswith("for 2 GPUs; 2 of 8 in a node, the others not paid for")


def test_what_fills_no_whole_nodes_is_named_with_the_gpus_to_ask_for(run: Any) -> None:
    """--gpus 12 is refused, since nodes are whole; what is named is taken, and its replicas are those needed."""
    job = ("search", "--model", "llama-3.1-70b", "--prompt", "2000", "--answer", "500", "--rate", "12")
    over = ("--over", "cluster.node=dgx-h100,dgx-h200")
    out = run(*job, "--gpus", "8", *over).out
    found = re.search(r"need (\d+) replicas of tp 2 .*: (\d+) GPUs on 2 nodes of 8 \(--gpus (16)\)$", out, re.M)
    assert found is not None
    assert int(found[1]) * 2 == int(found[2]) < int(found[3])
    refused = run(*job, "--gpus", found[2], *over)
    assert refused.code == 2
    assert "8 GPUs, and 12 is not a multiple of 8" in refused.err
    assert "take --gpus 8 or 16; replicas may leave some of them idle" in refused.err
    assert run(*job, "--gpus", found[3], *over).code == 0


def test_scale_states_what_whole_nodes_cost(run: Any) -> None:
    asked = ("scale", "serve-llama-3.1-70b", "--set", "plan.tp=4", "--rate", "46")
    assert "of whole nodes $190 k at 46 /s" in run(*asked, "--safe", "off").out
    assert "whole nodes" not in run(*asked[:-1], "45").out  # 38 replicas of 4 GPUs fill 19 nodes
    by_node = run(*asked, "--safe", "off", *(part for each in BY_NODE for part in ("--set", each))).out
    assert "a month: rent of whole nodes; rent/M out: of the GPUs in use" in by_node
    full = run("scale", "serve-llama-3.1-70b", "--rate", "45").out
    assert "whole nodes" not in full


def test_accelerators_of_a_node_that_are_not_used_are_not_paid_for(run: Any) -> None:
    load = ("--set", "workload.rate=1 /s")  # which it answers, so that no remedies are looked for
    asked = ("serve-llama-3.1-70b", "--set", "cluster.node.accelerators=4", "--set", "plan.tp=4", *load)
    words = "4 of 8 in a node, the others not paid for"
    assert f"8 GPUs; {words}" in run("estimate", *asked).out
    assert words in run("scale", *asked, "--rate", "4").out
    assert words in run("search", *asked, "--top", "1").out
    by_node = run("estimate", *asked, *(part for each in BY_NODE for part in ("--set", each))).out
    assert words not in by_node
    assert "the whole node for 4 of 8" in by_node
    assert "has no effect" not in by_node


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (
            ("--gpus", "4", "--rate", "1000"),
            r"(\d+) replicas of tp 1: \1 GPUs on (\d+) nodes of 8(?: \(--gpus \d+\))?$",
        ),
        (("--gpus", "1", "--rate", "30"), r"(5) replicas of tp 1: 5 GPUs on (1) node of 8$"),
        (("--gpus", "2", "--rate", "10", "--set", "plan.tp=1"), r"(2) replicas of tp 1: 2 GPUs on (1) node of 8$"),
    ],
)
def test_replicas_smaller_than_a_node_fill_nodes_where_gpus_asked_for_a_part(
    given: tuple[str, ...], taken: str, run: Any
) -> None:
    words = ("search", "--model", "llama-3.1-8b", "--gpu", "h100", "--prompt", "2000", "--answer", "500", *given)
    found = re.search(f"With plan 1, .* need {taken}", run(*words).out, re.M)
    assert found is not None
    assert int(found[2]) == -(-int(found[1]) // 8)


def test_rent_of_nodes_that_replicas_fill_is_that_of_whole_nodes(run: Any) -> None:
    job = ("--model", "llama-3.1-8b", "--node", "p5", "--prompt", "2000", "--answer", "500", "--rate", "300")
    rents = [re.findall(r"Their rent is (\S+ k) .* for (\d+) whole nodes", run("search", *job, "--gpus", gpus).out)
             for gpus in ("4", "8")]  # fmt: skip
    assert rents[0] == rents[1] != []


JOB = ("--model", "llama-3.1-8b", "--gpu", "h100", "--prompt", "2000", "--answer", "500",
       "--set", "limits.ttft_p99.at_most=1s")  # fmt: skip
SCENARIO = ("serve-llama-3.1-70b", "--set")


@pytest.mark.parametrize(
    "asked",
    [
        (*JOB, "--rate", "2", "--gpus", "16"),  # one replica of one GPU
        pytest.param((*JOB, "--rate", "400", "--gpus", "16"), marks=pytest.mark.whole),  # more than the cluster holds
        pytest.param((*JOB, "--rate", "2", "--gpus", "16", "--set", "search.disaggregated=true", "--set",
                      "limits.worst_gap.at_most=10ms"), marks=pytest.mark.whole),
        pytest.param((*SCENARIO, "workload.rate=50 /s"), marks=pytest.mark.whole),
        (*SCENARIO, "workload.rate=5 /s", "--over", "cluster.nodes=3,4"),
    ],
)  # fmt: skip
def test_the_command_below_an_answer_leads_to_its_figures(asked: tuple[str, ...], run: Any) -> None:
    out = run("search", *asked).out
    first = json.loads(run("search", *asked, "--json").out)["plans"][0]
    (table,) = re.findall(r"^(?:Next|Plan 1)(?:, the nearest plan|, the surest plan)?: costmodel (.*)", out, re.M)
    (plan,) = json.loads(run(*shlex.split(table), "--json").out)["plans"]
    for name in ("tp", "pp", "replicas", "gpus", "tpot_s"):
        assert plan[name] == first[name]
    (sized,) = re.findall(r"^Next, with the [\d,]+ \w+ you need: costmodel (.*)", out, re.M)
    (fleet,) = json.loads(run(*shlex.split(sized), "--json").out)["plans"]
    assert fleet["gpus"] == first["gpus_needed"]
    (tpot,) = re.findall(r"With [\d,]+ \w+: (\S+) ms per token", out)
    assert f"{fleet['tpot_s'] * 1e3:.3g}" == f"{float(tpot):.3g}"
