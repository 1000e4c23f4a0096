"""A search in a folder: every valid plan once, whatever ended the program; another search is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.reader.load_scenario import load
from costmodel.estimate.training_answer.predict_training import answer
from costmodel.explore.search.search import TrainingSearch, search
from costmodel.explore.search.stream import SearchOptions, SearchProgress
from costmodel.explore.search.value_ranges import axis
from costmodel.ground.errors import CostModelError

ROOT = Path(__file__).resolve().parents[3]
NAME = "megatron-7.5b-512"
SET = ["workload.tokens=1 T", "assume.price=2 USD/GPU/h"]  # so that every column is a number
NODES = "cluster.nodes=16,64"
OVER = [axis(NODES)]
A_PIECE = 256  # candidates


def found(how: SearchOptions, *, size: int = 20, over: Any = OVER, pareto: str = "") -> TrainingSearch:
    return search(load(NAME, SET), size, pareto=pareto, over=over, how=how)


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("costmodel.explore.search.training_space.CANDIDATES_A_PIECE", A_PIECE)
        yield


def table(folder: Path) -> Any:
    parquet = pytest.importorskip("pyarrow.parquet")
    return parquet.read_table(folder).to_pandas() if any(folder.glob("part-*")) else None


@pytest.fixture(scope="module")
def whole(small: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainingSearch, Path]:
    """A search that nothing ended, and its folder, which is only read."""
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("whole") / "once"
    return found(SearchOptions(workers=1, folder=folder, plans=True)), folder


@pytest.fixture(scope="module")
def once(small: None) -> TrainingSearch:
    return found(SearchOptions(workers=1), pareto="memory_peak,step_time")


def stopping(count: int, how: SearchOptions) -> SearchOptions:
    """Asked to end after so many pieces."""
    seen: list[SearchProgress] = []
    return replace(how, watch=seen.append, stop=lambda: len(seen) >= count)


def test_every_valid_plan_with_its_columns(whole: tuple[TrainingSearch, Path]) -> None:
    kept, folder = whole
    rows = table(folder)
    assert len(rows) == kept.tally.evaluated == json.loads((folder / "_manifest.json").read_text())["plans"]
    assert (rows["memory_share"] <= 1).sum() == kept.tally.fit
    names = ["dp", "tp", "pp", "vpp", "micro_batch", "zero", "recompute", "schedule", "order", "cluster.nodes"]
    assert not rows.duplicated(subset=[*names, "sequence_parallel"]).any()
    best, first = kept.best[0], rows[rows["memory_share"] <= 1].nlargest(1, "tokens_per_s_per_gpu").iloc[0]
    assert first["step_time_s"] == best.costs["step_time"]
    assert f"{first['cluster.nodes']}" == kept.values(best.variant)["cluster.nodes"]
    assert {*rows["model"], *rows["sequence"], *rows["global_batch"]} == {"megatron-7.5b", 2048, 512}
    assert (rows["gpus"] == 8 * rows["cluster.nodes"]).all()
    assert not list(folder.glob(".*"))


@pytest.mark.parametrize("plans", [False, True])
def test_stopped_and_gone_on_with(once: TrainingSearch, tmp_path: Path, plans: bool) -> None:
    if plans:
        pytest.importorskip("pyarrow")
    how = SearchOptions(workers=1, folder=tmp_path, plans=plans)
    part = found(stopping(3, how), pareto="memory_peak,step_time")
    assert part.stopped
    assert 0 < part.tally.candidates < once.tally.candidates
    assert not json.loads((tmp_path / "_manifest.json").read_text())["complete"]
    rest = found(replace(how, resume=True), pareto="memory_peak,step_time")
    assert not rest.stopped
    assert rest.tally == once.tally
    assert json.loads((tmp_path / "_manifest.json").read_text())["complete"]
    again = found(replace(how, resume=True), pareto="memory_peak,step_time")
    assert again.tally == once.tally, "nothing is counted twice"


@pytest.mark.parametrize("text", ["", "{", "[]", "\0"])
def test_a_damaged_manifest_is_another_search(tmp_path: Path, text: str) -> None:
    (tmp_path / "_manifest.json").write_text(text)
    with pytest.raises(CostModelError) as caught:
        found(SearchOptions(workers=1, folder=tmp_path, resume=True))
    assert caught.value.faults[0].code == "C021"


def started(folder: Path) -> subprocess.Popen[bytes]:
    """The command line with many small pieces and two processes, its state written after each."""
    line = ["costmodel", "search", NAME, "--over", NODES, "--top", "20", "--into", str(folder)]
    line += [
        "--keep",
        "all",
        "--resume",
        "--workers",
        "2",
        "--json",
        *(word for item in SET for word in ("--set", item)),
    ]
    code = (
        "import sys, runpy\nimport costmodel.explore.search.training_space as p, costmodel.explore.search.stream as s\n"
        "import costmodel.explore.search.checkpoint as k\n"
        f"p.CANDIDATES_A_PIECE, s.POOL_FROM, k.WRITE_EVERY = {A_PIECE}, 0, 0.0\n"
        f"sys.argv = {line!r}\n"
        "if __name__ == '__main__':\n    runpy.run_module('costmodel', run_name='__main__')\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )


def parts(folder: Path) -> int:
    return len(list(folder.glob("part-*")))


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_killed_again_and_again(whole: tuple[TrainingSearch, Path], tmp_path: Path) -> None:
    """kill -9 of everything at three places; then to the end: the same answer, every plan once."""
    once, complete = whole
    folder = tmp_path / "killed"
    kills = 0
    for share in (0.1, 0.4, 0.7):
        enough = share * parts(complete)
        with started(folder) as program:
            until(lambda enough=enough, program=program: parts(folder) >= enough or program.poll() is not None)
            kills += program.poll() is None
            os.killpg(program.pid, signal.SIGKILL)
    assert kills >= 2
    with started(folder) as program:
        out, err = program.communicate(timeout=1800)
    assert (program.returncode, err) == (0, b"")
    printed = json.loads(out)
    assert (printed["candidates"], printed["evaluated"], printed["fit"]) == (
        once.tally.candidates,
        once.tally.evaluated,
        once.tally.fit,
    )
    assert [plan["step_time_s"] for plan in printed["plans"]] == [plan.costs["step_time"] for plan in once.best]
    names = [path.name for path in sorted(folder.glob("part-*"))]
    assert names == [path.name for path in sorted(complete.glob("part-*"))]
    assert table(folder).equals(table(complete))


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("group", [False, True], ids=["program", "group"])
def test_ctrl_c_ends_with_what_is_finished(tmp_path: Path, group: bool) -> None:
    pytest.importorskip("pyarrow")
    with started(tmp_path) as program:
        until(lambda: (tmp_path / "_manifest.json").exists())
        (os.killpg if group else os.kill)(program.pid, signal.SIGINT)
        out, err = program.communicate(timeout=1800)
    assert (program.returncode, err) == (130, b"")
    printed = json.loads(out)
    assert printed["complete"] is False
    assert 0 < printed["evaluated"] == json.loads((tmp_path / "_manifest.json").read_text())["plans"]


def test_another_search_is_refused(tmp_path: Path) -> None:
    how = SearchOptions(workers=1, folder=tmp_path)
    found(how)
    with pytest.raises(CostModelError, match="holds a search"):
        found(how)
    for changed, word in (({"size": 21}, "--top"), ({"over": [axis("cluster.nodes=16,128")]}, "--over")):
        with pytest.raises(CostModelError, match=f"holds another search: {word} has changed since") as raised:
            found(replace(how, resume=True), **changed)
        assert raised.value.faults[0].hint == "take another folder"


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CostModelError, match="cannot be used"):
        found(SearchOptions(workers=1, folder=tmp_path / "file"))


def test_a_value_that_cannot_be_is_said_at_once() -> None:
    with pytest.raises(CostModelError):
        found(SearchOptions(workers=1), over=[axis("cluster.nodes=16,none")])


def test_over_is_the_same_as_one_by_one() -> None:
    together = found(SearchOptions(workers=1), size=1000)
    for number, nodes in enumerate((16, 64)):
        alone = search(load(NAME, [*SET, f"cluster.nodes={nodes}"]), 1000, workers=1)
        mine = [row for row in together.best if row.variant == number]
        assert [replace(row, variant=0) for row in mine] == alone.best[: len(mine)]
        assert together.values(number) == {"cluster.nodes": str(nodes)}
        best = answer(together.inputs_of(number), load(NAME).scenario.plan)  # type: ignore[arg-type]
        assert float(best.inputs.ranks) == nodes * 8
