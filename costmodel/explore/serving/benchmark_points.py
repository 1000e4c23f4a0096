"""The benchmarks that determine the constants of an engine: numbers of users and two prompt lengths.

One user shows the weights that each step reads, and the host. More users show the cache and the prefill between steps.
A longer prompt separates attention from both.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from costmodel.documents.reader.load_scenario import vary_any
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.serving_scenario import serving
from costmodel.estimate.serving.predict_serving import predict, replica_ranks
from costmodel.estimate.shared.results import number
from costmodel.exchange.write_yaml import checkpoint_name
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record

ROUNDS, STEP, MOST, LONGER = 10, 4, 6, 4  # requests of a user, users over the fewer, numbers of them, longer prompts
_CLIENTS = {"sglang": "python -m sglang.bench_serving --backend sglang", "vllm": "vllm bench serve"}
_FILES = {"sglang": "--output-file {}", "vllm": "--save-result --result-filename {}"}


@record
class BenchmarkPoint:
    """One benchmark: users and lengths, the predicted results, and the command to run."""

    users: int
    prompt: int
    output: int
    token: float
    first: float
    seconds: float
    busy: float  # accelerators times seconds
    command: str


def benchmark_points(case: LoadedScenario, folder: str) -> list[BenchmarkPoint]:
    """The benchmarks of a scenario's plan; results go into a folder.

    Raises:
        CostModelError: the scenario does not serve, or its plan is invalid
    """
    return list(_points_of_folder(case, folder))


def _points_of_folder(case: LoadedScenario, folder: str) -> Iterator[BenchmarkPoint]:
    """The benchmarks to run: numbers of users in powers of four, and two prompt lengths."""
    scenario = serving(case).scenario
    workload, replicas = scenario.workload, (scenario.plan.replicas if scenario.plan is not None else None) or 1.0
    prompt, output = round(workload.mean("prompt")), round(workload.mean("output"))
    first = predict(serving(case))
    if first.refused or "M001" in first.broken:
        code = next(iter((*first.refused, "M001")))
        raise fail("C030", f"the plan cannot be measured: {code}", Place(case.file), f"costmodel explain {code}")
    held = min(first.costs["concurrency_steady"], first.inputs.sequences)
    counts = [STEP**power for power in range(MOST) if STEP**power <= max(held, 1.0)]
    shapes = [(users, prompt, output) for users in counts]
    shapes += [(users, LONGER * prompt, output) for users in counts[:2]]
    for users, long, answer in shapes:
        keys = {"rate": "null", "users": "null", "prompt": long, "output": answer, "traffic": "burst"}
        keys["concurrency"] = round(users * replicas)
        changes = [f"workload.{key}={value}" for key, value in keys.items()]
        loaded = vary_any(case, [*changes, f"plan.replicas={replicas:g}"])
        found = predict(serving(loaded))
        if found.refused or "M001" in found.broken:
            continue
        seconds = ROUNDS * found.costs["latency"]
        busy, users = seconds * replicas * number(replica_ranks(found.plan)), round(users * replicas)
        command = _command(loaded, folder, (users, long, answer))
        yield BenchmarkPoint(users, long, answer, found.costs["tpot"], found.costs["ttft"], seconds, busy, command)


def _command(case: LoadedScenario, folder: str, shape: Sequence[int]) -> str:
    """The benchmark command of the engine, or vLLM's for other engines."""
    users, prompt, output = shape
    served, name = serving(case), PurePath(case.file).stem
    client = "sglang" if served.stack.name.startswith("sglang") else "vllm"
    model = checkpoint_name(next(iter(served.hub.values()), served.model.name), list(served.hub))
    file = shlex.quote(str(PurePath(folder) / f"{name}.u{users}-{prompt}.json"))
    words = [_CLIENTS[client], f"--model {shlex.quote(model)} --dataset-name random"]
    words += [f"--random-input-len {prompt} --random-output-len {output}"]
    words += [f"--max-concurrency {users} --num-prompts {ROUNDS * users}", _FILES[client].format(file)]
    return " ".join(words)
