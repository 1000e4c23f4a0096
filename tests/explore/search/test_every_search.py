"""A search of each workload in a folder, by processes, and over values: the same answer however it was made."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.documents.reader.load_scenario import load, load_any
from costmodel.documents.reader.rl_scenario import reinforced
from costmodel.documents.reader.serving_scenario import serving
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.explore import rl
from costmodel.explore.search import search as of_training
from costmodel.explore.search.checkpoint import written_tally
from costmodel.explore.search.stream import HERE, SearchOptions, SearchProgress, SearchResult
from costmodel.explore.search.value_ranges import axes
from costmodel.explore.serving import search_layouts
from costmodel.ground.errors import CostModelError

Search = Callable[..., SearchResult[Any, Any]]
SMALL = {
    "training": ("quickstart", ("search.tp=[2,4,8]", "search.pp=[1]", "search.zero=[1]", "search.recompute=[none]")),
    "serving": ("serve-llama-3.1-70b", ("search={tp: [4, 8], pp: [1], budget: [2048, 8192]}",)),
    "rl": ("grpo-qwen-2.5-7b-64", ("search={tp: [1], cp: [2], ranks: [8, 16], rollout_tp: [2]}",)),
}
OVER = {"training": "cluster.nodes=2,4", "serving": "cluster.nodes=2,3", "rl": "cluster.nodes=4,8"}
MANIFEST = "_manifest.json"


def of_service(*settings: str, over: Any = (), how: SearchOptions = HERE) -> SearchResult[Any, Any]:
    name, small = SMALL["serving"]
    inputs = inputs_of(serving(load_any(name, [*small, *settings])))
    return search_layouts.search(inputs, 5, over, how)


def of_job(*settings: str, over: Any = (), how: SearchOptions = HERE) -> SearchResult[Any, Any]:
    name, small = SMALL["training"]
    return of_training.search(load(name, [*small, *settings]), 5, over=over, how=how)


def of_iteration(*settings: str, over: Any = (), how: SearchOptions = HERE) -> SearchResult[Any, Any]:
    name, small = SMALL["rl"]
    return rl.search(reinforced(load_any(name, [*small, *settings])), 5, over, how=how)


SEARCHES: dict[str, Search] = {"training": of_job, "serving": of_service, "rl": of_iteration}


@pytest.fixture(params=SEARCHES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def over_values(kind: str, how: SearchOptions = HERE) -> SearchResult[Any, Any]:
    return SEARCHES[kind](over=axes([OVER[kind]]), how=how)


def text_of(found: SearchResult[Any, Any]) -> str:
    """All that it found; figures that are not known are alike."""
    return json.dumps(written_tally(found.tally))


def test_a_stopped_search_is_continued_in_its_folder(kind: str, tmp_path: Path) -> None:
    seen: list[SearchProgress] = []
    how = SearchOptions(workers=1, folder=tmp_path, watch=seen.append)
    part = over_values(kind, replace(how, stop=lambda: bool(seen)))
    assert part.stopped
    assert 0 < part.tally.work < part.total
    assert not json.loads((tmp_path / MANIFEST).read_text())["complete"]
    with pytest.raises(CostModelError, match="holds a search"):
        over_values(kind, how)
    rest, whole = over_values(kind, replace(how, resume=True)), over_values(kind)
    assert text_of(rest) == text_of(whole)
    assert rest.tally.work == rest.total
    with pytest.raises(CostModelError, match="--over has changed since"):
        SEARCHES[kind](how=replace(how, resume=True))


def test_processes_find_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costmodel.explore.search.stream.POOL_FROM", 0)
    assert text_of(over_values(kind, SearchOptions(workers=2))) == text_of(over_values(kind))


def test_other_machines_get_the_scenario_and_find_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where processes are not forked, the scenario comes to them in a serialised form."""
    monkeypatch.setattr("costmodel.explore.search.stream.POOL_FROM", 0)
    monkeypatch.setattr("multiprocessing.get_start_method", lambda: "spawn")
    assert text_of(over_values(kind, SearchOptions(workers=1, engine="local"))) == text_of(over_values(kind))
    assert text_of(over_values(kind, SearchOptions(workers=2))) == text_of(over_values(kind))


def test_every_valid_plan_is_kept_with_its_values(kind: str, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    found = over_values(kind, SearchOptions(workers=1, folder=tmp_path, plans=True))
    rows = parquet.read_table(tmp_path).to_pandas()
    assert len(rows) == found.tally.evaluated == json.loads((tmp_path / MANIFEST).read_text())["plans"]
    assert {*rows["cluster.nodes"]} == {int(value) for value in OVER[kind].partition("=")[2].split(",")}
    assert (rows["memory_share"] <= 1).sum() == found.tally.fit


def test_every_valid_plan_comes_as_columns(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tables: list[tuple[int, dict[str, Any]]] = []

    def tally(self: Any, variants: Any, unit: Any) -> Any:
        found = self.space.searched(
            variants.of(unit.variant), unit.piece, lambda rows, row: tables.append((rows, dict(row)))
        )
        found.work = unit.work
        return found.of_variant(unit.variant)

    monkeypatch.setattr("costmodel.explore.search.stream.Task.tally", tally)
    found = over_values(kind).tally
    assert sum(rows for rows, _ in tables) == found.evaluated > 0
    assert len({tuple(table) for _, table in tables}) == 1
    shares = [np.broadcast_to(table["memory_share"], rows) for rows, table in tables]
    assert int((np.concatenate(shares) <= 1).sum()) == found.fit
    for rows, table in tables:
        assert all(len(values) == rows for values in table.values() if isinstance(values, np.ndarray))


def test_counts_at_values_are_those_of_the_searches_at_each(kind: str) -> None:
    together = over_values(kind)
    path, _, values = OVER[kind].partition("=")
    for part, value in zip(together.parts, values.split(","), strict=True):
        alone = SEARCHES[kind](f"{path}={value}").tally
        assert together.values(part.number) == {path: value}
        assert (part.candidates, part.evaluated, part.fit) == (alone.candidates, alone.evaluated, alone.fit)
        assert (part.kept, part.safe, +part.refused) == (alone.kept, alone.safe, +alone.refused)
        assert part.best is not None
        assert part.best.costs["memory_peak"] == alone.top.rows[0].costs["memory_peak"]


@pytest.mark.parametrize(
    ("values", "words"), [("objective=a,b", "several objectives"), ("plan={tp: 1},{tp: 2}", "one key of the plan")]
)
def test_values_that_make_no_one_ranking(kind: str, values: str, words: str) -> None:
    with pytest.raises(CostModelError, match=words):
        SEARCHES[kind](over=axes([values]))


def test_a_value_that_no_machine_runs_leaves_the_plans_of_the_others(kind: str) -> None:
    """A GPU that has no bf16; where no value has plans the first reason is the answer."""
    found = SEARCHES[kind](over=axes(["cluster.node=dgx-h100,dgx-1v"]))
    first, second = found.parts
    assert (first.fault, second.fault and second.fault.code) == (None, "D016")
    assert {row.variant for row in found.best} == {0}
    with pytest.raises(CostModelError, match="bf16"):
        SEARCHES[kind](over=axes(["cluster.node=dgx-1v"]))


def answered(kind: str, run: Any, *more: str) -> dict[str, Any]:
    """A search as --json writes it."""
    name, small = SMALL[kind]
    ran = run("search", name, *(word for item in small for word in ("--set", item)), *more, "--json")
    found: dict[str, Any] = json.loads(ran.out)
    return found


FRONTS = {"training": "memory_peak,step_time", "serving": "tpot,gpus", "rl": "memory_peak,iteration_time"}


@pytest.mark.parametrize(("option", "values"), [("", {}), ("--over", OVER), ("--pareto", FRONTS)])
def test_answers_have_the_same_keys_for_every_workload(option: str, values: dict[str, str], run: Any) -> None:
    found = {kind: answered(kind, run, *([option, values[kind]] if option else [])) for kind in SMALL}
    first, *others = (list(answer) for answer in found.values())
    assert others == [first, first]
    assert {answer["schema"] for answer in found.values()} == {"costmodel/search/v2"}
    for answer in found.values():
        if not option:
            assert answer["candidates"] >= answer["evaluated"] >= answer["fit"] >= answer["kept"] > 0
            assert [row["rank"] for row in answer["plans"]] == [*range(1, len(answer["plans"]) + 1)]
        elif option == "--over":
            assert sum(value["evaluated"] for value in answer["values"]) == answer["evaluated"]
            assert [list(value) for value in answer["values"]] == [list(value) for value in found["rl"]["values"]]
        else:
            assert [each["name"] for each in answer["pareto"]["axes"]]
            assert len(answer["pareto"]["plans"]) > 0


def test_an_answer_over_values_shows_what_became_of_each(kind: str, run: Any) -> None:
    name, small = SMALL[kind]
    sets = (word for item in small for word in ("--set", item))
    out = run("search", name, *sets, "--over", OVER[kind]).out
    (heads,) = (line for line in out.splitlines() if line.endswith("rejected because"))
    assert "best plan" in heads
    rows = out[out.index(heads) + len(heads) :].splitlines()[1:3]
    assert [row.split()[0] for row in rows] == OVER[kind].partition("=")[2].split(",")
