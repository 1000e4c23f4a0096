"""The columns of a ranking."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.report.ranking import headings


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
    assert headings(paths) == heads


def test_no_two_columns_of_a_search_have_one_name(run: Any) -> None:
    space = ("--set", "search.tp=[8]", "--set", "search.pp=[4,8]", "--top", "2")
    ran = run("search", "llama-3-70b-512", *space, "--over", "assume.overlap.dp=80%,0%")
    (names,) = (line.split() for line in ran.out.splitlines() if line.split()[:1] == ["#"])
    assert names[:2] == ["#", "overlap.dp"]
    assert len(names) == len(set(names))


def test_one_s_own_plan_may_be_better_than_all_that_is_searched(run: Any) -> None:
    """The last line then says whose best it is."""
    apart = run("search", "quickstart", "--set", "search.tp=[8]", "--set", "search.zero=[3]").out
    assert "ranks 1st; none is better" in apart
    assert apart.splitlines()[-1].startswith("Best of the search: ")
    among = run("search", "quickstart").out
    assert among.splitlines()[-1].startswith("Best: ")
