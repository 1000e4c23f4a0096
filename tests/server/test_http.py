"""The program that answers over HTTP: hosts, limits, back-pressure, and the wall around the processes that answer."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import http.client
import importlib
import json
import operator
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("starlette")
uvicorn = pytest.importorskip("uvicorn")

from costmodel.commands.command_table import QUESTIONS  # noqa: E402
from costmodel.server.http import application, run_job  # noqa: E402
from costmodel.server.open_and_mcp import listening_socket  # noqa: E402
from costmodel.server.request import (  # noqa: E402
    NOT_OFFERED,
    Job,
    answer_or_faults,
)
from costmodel.server.workers import Limits, Workers, warm_context  # noqa: E402

QUICK = b'{"scenario": "quickstart"}'
MODEL = """schema: costmodel/model/v1
name: mine
title: Mine
vocab: 32000
hidden: 1024
source: {key: own, where: here}
"""


class Said(NamedTuple):
    """A response."""

    status: int
    headers: dict[str, str]
    body: Any


class Door:
    """A program that listens, in a thread, with processes of its own."""

    def __init__(self, folder: Path | None, limits: Limits) -> None:
        self.workers = Workers(folder, limits)
        self.socket = listening_socket("127.0.0.1", 0)
        self.port = self.socket.getsockname()[1]
        config = uvicorn.Config(application(self.workers), log_level="warning", ws="none")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],))
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def __call__(self, path: str, body: bytes | None = QUICK, **headers: str) -> Said:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        sent = {"Content-Type": "application/json"} | {key.replace("_", "-"): value for key, value in headers.items()}
        try:
            connection.request("GET" if body is None else "POST", path, body=body, headers=sent)
            got = connection.getresponse()
            text = got.read()
            stated = {name.lower(): value for name, value in got.getheaders()}
            return Said(got.status, stated, json.loads(text) if "json" in stated.get("content-type", "") else text)
        finally:
            connection.close()

    def end(self) -> None:
        self.server.should_exit = True
        self.thread.join(600)


@pytest.fixture(scope="module", autouse=True)
def no_process_is_left() -> Iterator[None]:
    """A command that fails ends the processes of its own, and with them that of the tests."""
    yield
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]
    warm_context.cache_clear()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of one's own: a scenario, which names another model by its path, and a file that no one is to see."""
    made = tmp_path_factory.mktemp("own")
    (made / "scenarios").mkdir()
    text = (Path(__file__).resolve().parents[2] / "scenarios/quickstart.yaml").read_text("utf-8")
    (made / "scenarios/mine.yaml").write_text(text.replace("title: ", "title: My "))
    (made.parent / "secret").write_text("SESAME")
    return made


@pytest.fixture(scope="module")
def door(folder: Path) -> Iterator[Door]:
    made = Door(folder, Limits(seconds=60, patience=600))
    yield made
    made.end()


def test_a_question_is_answered(door: Door, run: Any) -> None:
    said = door("/v2/estimate")
    assert (said.status, said.headers["costmodel-works"]) == (200, "yes")
    assert said.body == json.loads(run("estimate", "quickstart", "--json").out)
    assert not [name for name in said.headers if name.startswith("access-control")]
    assert door("/v2/estimate", b'{"scenario": "mine"}').body["scenario"]["title"].startswith("My ")
    assert door("/v2/memory", Accept="text/csv").body.startswith(b"model,cluster,")
    assert door("/v2/memory", Accept="video/mp4").body["errors"][0]["place"] == "Accept"


@pytest.mark.parametrize(
    ("status", "path", "body", "headers"),
    [
        (421, "/v2/estimate", QUICK, {"Host": "planner.evil.example"}),
        (421, "/v2/estimate", QUICK, {"Host": "127.0.0.1.evil.example:80"}),
        (421, "/v2/estimate", QUICK, {"Origin": "http://evil.example"}),
        (421, "/v2/estimate", QUICK, {"Origin": "null"}),
        (415, "/v2/estimate", QUICK, {"Content_Type": "text/plain"}),
        (413, "/v2/estimate", b" " * 1_000_001, {}),
        (404, "/v3/estimate", QUICK, {}),
        (404, "/v2/../estimate", QUICK, {}),
        (405, "/v2/estimate", None, {}),
        (400, "/v2/nothing", QUICK, {}),
    ],
)
def test_what_is_no_request_is_refused(
    status: int, path: str, body: bytes | None, headers: dict[str, str], door: Door
) -> None:
    said = door(path, body, **headers)
    assert said.status == status
    assert said.body["errors"][0]["code"] in ("H001", "H003")
    assert said.body["errors"][0]["remedy"]


def test_a_body_without_a_stated_length_has_the_same_limit(door: Door) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=600)
    parts = (b" " * 100_000 for _ in range(11))
    connection.request("POST", "/v2/estimate", body=parts, headers={"Content-Type": "application/json"},
                       encode_chunked=True)  # fmt: skip
    assert connection.getresponse().status == 413
    connection.close()


def test_openapi_describes_every_question(door: Door) -> None:
    said = door("/openapi.json", None).body
    assert {path.rpartition("/")[2] for path in said["paths"]} == {*QUESTIONS} - {*NOT_OFFERED}
    for name, path in said["paths"].items():
        keys = path["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert all(each["description"] for each in keys["properties"].values()), name
        assert {*keys.get("required", ())} <= {*keys["properties"]}
    search = said["paths"]["/v2/search"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert search["gpus"]["anyOf"][0]["type"] == "integer"
    assert said["paths"]["/v2/solve"]["post"]["requestBody"]["content"]["application/json"]["schema"]["required"] == [
        "over",
        "wanted",
    ]


def ask(door: Door, *call: Any) -> Any:
    """What a process makes of a call, through the queue of the door."""
    return asyncio.run_coroutine_threadsafe(run_job(door.workers, Job(*call)), door.workers.loop).result(600)


def test_a_process_reads_documents_alone(door: Door, folder: Path) -> None:
    """Whatever a question would come to: files, folders, links out of the folder, programs, connections."""
    (folder / "link").symlink_to(folder.parent / "secret")
    calls: list[tuple[str, str, tuple[Any, ...]]] = [
        ("pathlib", "Path.read_text", (folder.parent / "secret",)),
        ("pathlib", "Path.read_text", (folder / "link",)),
        ("os", "listdir", (str(folder.parent),)),
        ("os", "remove", (str(folder / "link"),)),
        ("os", "system", ("true",)),
        ("subprocess", "run", (["true"],)),
        ("socket", "create_connection", (("127.0.0.1", door.port),)),
        ("pathlib", "Path.write_text", (folder / "new", "x")),
        ("os", "open", (str(folder / "new"), 0o100 | 1)),
    ]
    for module, function, arguments in calls:
        found = ask(door, "tests.server.test_http", "called", (module, function, arguments))
        assert (found.status, json.loads(found.body)["errors"][0]["code"]) == (400, "H002"), function
    assert not (folder / "new").exists()
    assert (folder / "link").is_symlink()


def called(module: str, function: str, arguments: tuple[Any, ...]) -> Any:
    """A call within the wall, whose faults are those of a question."""
    return answer_or_faults(
        functools.partial(operator.attrgetter(function)(importlib.import_module(module)), *arguments)
    )


def test_an_answer_that_takes_too_long_is_ended() -> None:
    door = Door(None, Limits(seconds=0.2, patience=600, workers=1))
    try:
        found = ask(door, "time", "sleep", (600,))
        assert (found.status, json.loads(found.body)["errors"][0]["code"]) == (504, "H003")
    finally:
        door.end()


def test_a_program_that_ends_while_it_starts_leaves_no_process(folder: Path) -> None:
    workers = Workers(folder, Limits())
    workers.end()
    for worker in workers.all:
        worker.begin()
    assert [worker.number for worker in workers.all] == [None, None]


def test_a_process_that_ends_is_replaced(door: Door) -> None:
    numbers = {worker.number for worker in door.workers.all}
    assert [ask(door, "os", "_exit", (1,)).status for _ in door.workers.all] == [504, 504]
    assert [door("/v2/estimate").status for _ in door.workers.all] == [200, 200]
    assert numbers.isdisjoint(worker.number for worker in door.workers.all)


def test_requests_beyond_those_that_may_wait_are_told_when_to_ask_again(folder: Path, tmp_path: Path) -> None:
    door = Door(folder, Limits(seconds=600, patience=600, workers=1, waiting=1, plans=1000))
    try:
        assert "more than 1,000 plans" in door("/v2/search").body["errors"][0]["message"]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            call = "tests.server.test_http", "wait_for", (tmp_path / "go",)
            asked = [pool.submit(ask, door, *call) for _ in range(2)]
            while door.workers.waiting < 1:
                time.sleep(0.01)
            said = door("/v2/estimate")
            (tmp_path / "go").touch()
            assert [each.result() for each in asked] == [True, True]
        assert (said.status, said.headers["retry-after"]) == (503, "1")
        assert said.body["errors"][0]["code"] == "H004"
        assert door("/v2/estimate").status == 200
    finally:
        door.end()


def wait_for(path: Path) -> bool:
    """Waits in a process until there is a file."""
    while not path.exists():
        time.sleep(0.01)
    return True


@pytest.mark.parametrize("clients", [24, pytest.param(200, marks=pytest.mark.whole)])
def test_many_clients_get_an_answer_or_are_told_when_to_ask_again(clients: int, door: Door) -> None:
    """And the memory of the processes does not grow with the requests."""
    batches = [{"workload.global_batch": 512 * (1 + each % 7)} for each in range(clients)]
    bodies = [json.dumps({"scenario": "quickstart", "settings": each}).encode() for each in batches]
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        first = [*pool.map(lambda body: door("/v2/estimate", body), bodies)]
        before = [memory(worker.number) for worker in door.workers.all]
        second = [*pool.map(lambda body: door("/v2/estimate", body), bodies)]
    after = [memory(worker.number) for worker in door.workers.all]
    statuses = [said.status for said in (*first, *second)]
    assert {*statuses} <= {200, 503}
    assert statuses.count(200) >= 2
    assert all(said.headers["retry-after"] == "1" for said in (*first, *second) if said.status == 503)
    assert max(now - then for now, then in zip(after, before, strict=True)) < 20e6


def memory(process: int | None) -> float:
    """Bytes of memory that a process holds."""
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        pytest.skip("this system does not list the memory of a process")
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return float(line.split()[1]) * 1024


def test_the_command_listens_answers_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    """As it is installed; how soon is printed, for a busy machine says little."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "costmodel", "open", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[0]
        listens = time.perf_counter() - started
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=600)
        connection.request("POST", "/v2/estimate", body=QUICK, headers={"Content-Type": "application/json"})
        assert json.loads(connection.getresponse().read())["schema"] == "costmodel/result/v1"
        print(f"listens after {listens:.2f} s, answers after {time.perf_counter() - started:.2f} s")
        connection.close()
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130
