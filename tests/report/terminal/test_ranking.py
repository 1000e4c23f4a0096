"""The columns of a ranking."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from costmodel.report.trials import short_heads


@pytest.mark.parametrize(
    ("paths", "heads"),
    [
        (["cluster.nodes", "workload.precision"], ["nodes", "precision"]),
        (["assume.overlap.dp"], ["overlap.dp"]),
        (["assume.overlap.ep"], ["overlap.ep"]),
        (["limits.memory.at_most", "limits.mfu.at_least"], ["memory.at_most", "mfu.at_least"]),
        (["limits.mfu.target", "limits.mfu.within"], ["mfu.target", "mfu.within"]),
        (
            ["cluster.node.scale_out.fabric.bandwidth", "cluster.node.scale_up.fabric.bandwidth"],
            ["scale_out.fabric.bandwidth", "scale_up.fabric.bandwidth"],
        ),
        (["stack"], ["stack"]),
    ],
)
def test_a_varied_leaf_has_a_heading_of_its_own(paths: list[str], heads: list[str]) -> None:
    assert short_heads(paths) == heads


def test_no_two_columns_of_a_search_have_one_name(run: Any) -> None:
    space = ("--set", "search.tp=[8]", "--set", "search.pp=[4,8]", "--top", "2")
    ran = run("search", "llama-3-70b-512", *space, "--over", "assume.overlap.dp=80%,0%")
    (names,) = (line.split() for line in ran.out.splitlines() if line.split()[:1] == ["#"])
    assert names[:2] == ["#", "overlap.dp"]
    assert len(names) == len(set(names))


def test_one_s_own_plan_may_be_better_than_all_that_is_searched(run: Any) -> None:
    """The command of the best plan then says whose best it is."""
    apart = run("search", "quickstart", "--set", "search.tp=[8]", "--set", "search.zero=[3]").out
    assert "ranks 1st; none is better" in apart
    assert re.search(r"(?m)^Next, the best of the search: ", apart)
    among = run("search", "quickstart").out
    assert re.search(r"(?m)^Next: ", among)


def test_of_several_scenarios_one_s_own_says_which_it_is(run: Any) -> None:
    """Where no two have as many GPUs, no count of them stands, and the head claims none."""
    ran = run("search", "gpt-3-175b-1024", "--over", "cluster.nodes=64,256", "--top", "1")
    first, _, over, counts, *_ = ran.out.splitlines()
    assert first == "GPT-3 175B on a100-sxm-80, dgx-a100"
    assert over == "over cluster.nodes: 64, 256"
    assert "GPUs" not in counts
    assert "  yours (nodes 128 · tp 8 · pp 16 · dp 8 ·" in ran.out


def test_what_fits_nowhere_is_nearest_where_memory_lacks_least(run: Any) -> None:
    """On the larger of two GPUs, compared with its own memory."""
    asked = ("search", "gpt-3-175b-1024", "--set", "cluster.nodes=1", "--over", "cluster.node=dgx-a100,dgx-h200")
    lines = run(*asked).out.splitlines()
    place = next(at for at, line in enumerate(lines) if line.startswith("  nearest"))
    assert "node dgx-h200 · tp 8" in lines[place]
    assert " of 140 GiB; the largest part: " in lines[place + 1]


def test_every_reason_has_its_example_in_whichever_scenario_it_arises(run: Any) -> None:
    """On 36 nodes all batches divide, on 35 some do not."""
    asked = ("search", "gpt-3-175b-1024", "--set", "workload.global_batch=1440", "--why-not", "--json")
    first, both = (
        json.loads(run(*asked, "--over", f"cluster.nodes={nodes}").out)["refused"] for nodes in ("36", "36,35")
    )
    arisen = {entry["code"] for entry in both} - {entry["code"] for entry in first}
    assert arisen
    assert all("example" in entry for entry in both)


def test_a_front_over_several_scenarios_tells_them_apart_and_draws_what_is_known(run: Any) -> None:
    """One of the two says no tokens, so its plans, the best of all among them, have no time of a run."""
    space = ("--set", "search.micro_batch=[1,2]", "--set", "search.zero=[1]")
    ran = run("search", "quickstart", *space, "--over", "workload.tokens=null,1 T", "--pareto", "run_time,step_time")
    assert (ran.code, ran.err) == (0, "")
    (names,) = (line.split() for line in ran.out.splitlines() if line.split()[:1] == ["#"])
    assert names[:2] == ["#", "tokens"]
    assert "● on the front · ○ yours\n" in ran.out


def test_gpus_are_counted_where_all_have_as_many(run: Any) -> None:
    space = ("search", "quickstart", "--set", "search.tp=[4]", "--top", "1")
    for more, expected in (
        (("--set", "search.precision=[bf16, fp8]"), True),
        (("--over", "assume.price=1 USD/GPU/h,2 USD/GPU/h"), True),
        (("--over", "cluster.nodes=2,4"), False),
    ):
        head = run(*space, *more).out.splitlines()[0]
        assert head == f"Llama 3 8B on {'32 × ' * expected}h100-sxm, {'4 × ' * expected}dgx-h100"
