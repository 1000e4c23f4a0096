"""Engines: Dask workers find what this process finds, bit for bit; a lost one costs its pieces."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.reader.load_scenario import load
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.explore.search import worker_pools as engines
from costmodel.explore.search.scenario_variants import Variants
from costmodel.explore.search.search import TrainingSearch, inputs_of_case, search
from costmodel.explore.search.stream import SearchOptions, results, work_of
from costmodel.explore.search.training_space import TrainingSpace
from costmodel.explore.search.value_ranges import axis
from costmodel.explore.search.worker_pools import SearchEngine, SearchStopped, engine, shared_out
from costmodel.ground.errors import CostModelError

ROOT = Path(__file__).resolve().parents[3]
NAME = "gpt-3-175b-1024"
OVER = [axis("cluster.nodes=16,32")]


def asked(*more: str) -> ResolvedScenario:
    """With tokens and a price, so that every column is a number."""
    return load(NAME, ["search.pp=[2,4,8]", "workload.tokens=1 T", "assume.price=2 USD/GPU/h", *more])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many pieces and a pool for them."""
    monkeypatch.setattr("costmodel.explore.search.training_space.CANDIDATES_A_PIECE", 64)
    monkeypatch.setattr("costmodel.explore.search.stream.POOL_FROM", 0)


def found_by(how: SearchOptions, pareto: str = "memory_peak,step_time") -> TrainingSearch:
    return search(asked(), 30, pareto=pareto, over=OVER, how=how)


@pytest.mark.parametrize("text", ["dusk", "dask=", "mpi", "local=2", ""])
def test_engines_that_are_none(text: str) -> None:
    with pytest.raises(CostModelError, match="there is no engine"):
        engine(text, 1)


@pytest.mark.parametrize(
    "address",
    [
        "foo",
        "tcp://",
        "tcp://h:p",
        "tcp://h:99999",
        "h:0",
        "http://h:1",
        ":::",
        "tcp://[::1",
        " ",
        "\x00",
        "h:1/x",
        "²:²",
    ],
)
def test_addresses_that_are_none(address: str, run: Any, tmp_path: Path) -> None:
    ran = run("search", NAME, "--engine", f"dask={address}", "--into", str(tmp_path / "new"))
    assert (ran.code, ran.out) == (2, "")
    assert "is no address of a Dask scheduler" in ran.err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "address", ["host:8786", "tcp://host:8786", "tls://10.0.0.1:1", "[::1]:8786", "ws://a-b.c:65535"]
)
def test_addresses(address: str) -> None:
    assert engine(f"dask={address}", 1).address == address


@pytest.mark.parametrize("wait", ["5", "-1 s", "soon", "5 GB", "inf s"])
def test_times_to_wait_that_are_none(wait: str, run: Any) -> None:
    ran = run("search", NAME, "--wait", wait)
    assert (ran.code, ran.out) == (2, "")
    assert f"'{wait}' is no time" in ran.err


@pytest.mark.filterwarnings("default")
def test_a_scheduler_without_workers(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is said that one is waited for, and after the time that was set the search ends, and leaves nothing."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr("costmodel.explore.search.worker_pools.SAY_AFTER", 0.1)
    monkeypatch.setattr("costmodel.explore.search.worker_pools.COUNT_EVERY", 0.05)
    with distributed.LocalCluster(
        n_workers=0, processes=False, dashboard_address=None, host="127.0.0.1", silence_logs=50, protocol="tcp"
    ) as cluster:
        at = cluster.scheduler_address
        line = ("search", NAME, "--engine", f"dask={at}", "--wait", "0.5 s", "--into", str(tmp_path / "new"))
        ran = run(*line)
    assert (ran.code, ran.out) == (2, "")
    said, fault, *_ = ran.err.splitlines()
    assert said == f"{at} has no Dask workers; waiting 0.5 s for one (--wait)"
    assert fault == f"error[C020]: no Dask worker came to {at} within 0.5 s"
    assert not (tmp_path / "new").exists()


@pytest.mark.usefixtures("small")
def test_processes_and_this_one() -> None:
    alone, shared = found_by(SearchOptions(workers=1)), found_by(SearchOptions(workers=2))
    assert {row.variant for row in alone.best} == {0, 1}
    assert shared.tally == alone.tally


@pytest.mark.usefixtures("small")
def test_a_search_that_begins_meanwhile_changes_nothing() -> None:
    """Each has processes of its own, which work on what it was asked."""
    both = [Variants(inputs_of_case(asked(f"cluster.nodes={nodes}")), inputs_of_case) for nodes in (16, 32)]
    space, shared = TrainingSpace(3, "tokens_per_s_per_gpu"), SearchOptions(workers=2)
    begun = [results(space, each, shared, work_of(space, each)) for each in both]
    alone = [list(results(space, each, SearchOptions(workers=1), work_of(space, each))) for each in both]
    assert alone[0] != alone[1]
    assert [list(found) for found in begun] == alone


@pytest.fixture
def scheduler() -> Iterator[str]:
    """A Dask scheduler and two workers, each a process of its own."""
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1", silence_logs=50
    )
    with cluster:
        yield cluster.scheduler_address


@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("small")
def test_dask_finds_the_same(scheduler: str) -> None:
    assert found_by(SearchOptions(f"dask={scheduler}")).tally == found_by(SearchOptions(workers=1)).tally


@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("small")
def test_a_lost_dask_worker(scheduler: str) -> None:
    """One of two workers is killed while it works; Dask gives its pieces to another."""
    from distributed import Client

    with Client(scheduler) as client:
        victim = next(iter(client.run(os.getpid).values()))
    seen: list[int] = []

    def kill(sight: Any) -> None:
        seen.append(sight.candidates)
        if len(seen) == 2:
            os.kill(victim, signal.SIGKILL)

    assert found_by(SearchOptions(f"dask={scheduler}", watch=kill)).tally == found_by(SearchOptions(workers=1)).tally


@pytest.mark.filterwarnings("default")
def test_no_dask_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("costmodel.explore.search.worker_pools.ANSWER_WITHIN", 1)
    with (
        pytest.raises(CostModelError, match="no Dask scheduler answers"),
        SearchEngine("dask", "tcp://127.0.0.1:9", 1).opened(),
    ):
        pass


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("banner", [b"", b"HTTP/1.0 200 OK\r\nServer: x\r\n\r\n", b"SSH-2.0-OpenSSH_9.6\r\n"])
def test_a_port_that_is_not_dask(banner: bytes, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that accepts connections and does not speak the protocol of Dask ends the search within --wait."""
    pytest.importorskip("distributed")
    monkeypatch.setattr("costmodel.explore.search.worker_pools.AT_LEAST", 0.5)
    held = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    held.append(server.accept()[0])
                    held[-1].sendall(banner)

        threading.Thread(target=serve, daemon=True).start()
        at = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        ran = run("search", NAME, "--engine", f"dask={at}", "--wait", "0.5 s")
        for connection in held:
            connection.close()
    assert (ran.code, ran.out) == (2, "")
    assert f"error[C020]: no Dask scheduler answers at {at}" in ran.err


def test_a_client_that_never_ends(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is costmodel's own: it does not depend on Dask to end."""
    ended = threading.Event()

    class Client:
        def __init__(self, address: str, timeout: float) -> None:
            ended.wait()

    fake = types.SimpleNamespace(Client=Client, KilledWorker=RuntimeError, LocalCluster=None)
    monkeypatch.setitem(sys.modules, "distributed", fake)
    monkeypatch.setattr("costmodel.explore.search.worker_pools.AT_LEAST", 0.01)
    ran = run("search", NAME, "--engine", "dask=tcp://127.0.0.1:9", "--wait", "0.01 s")
    ended.set()
    assert (ran.code, ran.out) == (2, "")
    assert "nothing there answered as a Dask scheduler within 0.01 s" in ran.err


def fragile(path: Path, number: int) -> int:
    """Kills its process the first time number 5 comes."""
    if number == 5 and not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    with open(path.with_suffix(".log"), "a") as log:
        log.write(f"{number}\n")
    return number * number


def test_a_lost_process_costs_only_its_pieces(tmp_path: Path) -> None:
    path = tmp_path / "lost"

    def submit(pool: Executor, number: int) -> Future[int]:
        return pool.submit(fragile, path, number)

    results = list(shared_out(SearchEngine("local", "", 2), iter(range(40)), submit, lambda: False))
    assert results == [number * number for number in range(40)]
    done = path.with_suffix(".log").read_text().split()
    assert path.exists()
    assert len(done) < 40 + 8, "only what was ahead is done again"


def always_lost(_number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def test_a_piece_that_kills_every_worker() -> None:
    def submit(pool: Executor, number: int) -> Future[int]:
        return pool.submit(always_lost, number)

    with pytest.raises(CostModelError, match="lost 4 times in a row"):
        list(shared_out(SearchEngine("local", "", 1), iter(range(3)), submit, lambda: False))


def test_stopping_ends_with_what_is_finished() -> None:
    def submit(pool: Executor, number: int) -> Future[int]:
        return pool.submit(abs, number)

    got: list[int] = []
    results = shared_out(SearchEngine("local", "", 1), iter(range(10**9)), submit, lambda: len(got) >= 5)
    with pytest.raises(SearchStopped):
        got.extend(iter(results))
    assert got == [0, 1, 2, 3, 4]


def test_workers_end_with_their_parent() -> None:
    """A parent that is killed leaves no process behind."""
    code = (
        "import os, time\nfrom costmodel.explore.search.worker_pools import SearchEngine\n"
        "if __name__ == '__main__':\n"
        "    with SearchEngine('local', '', 1).opened() as pool:\n"
        "        print(pool.executor.submit(os.getpid).result(), flush=True)\n        time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        assert parent.stdout.read() == "", "ends when the worker, which holds it open too, is gone"


def test_the_pool_is_the_seam() -> None:
    with engines.engine("local", 1).opened() as pool:
        assert isinstance(pool.executor, ProcessPoolExecutor)
