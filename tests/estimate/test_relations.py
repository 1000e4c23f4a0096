"""Metamorphic relations: how answers move when a scenario changes, over drawn scenarios of training and of serving.

The suite tries each relation on one scenario; `--whole` tries all of them on 300. A relation that real machines break
within bounds states its tolerance and why.
"""

from __future__ import annotations

import functools
import json
import math
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from costmodel.documents.reader.load_scenario import load_any
from costmodel.estimate.serving.predict_serving import predict as predict_serving
from costmodel.estimate.training_answer.predict_training import predict as predict_training
from costmodel.ground.errors import CostModelError
from costmodel.report.data_formats.answer_fields import without_places

SCENARIOS = {"training": 150, "serving": 150}
BASES = {"training": "quickstart", "serving": "serve-llama-3.1-70b"}
EXACT = 1e-9
# A tile or a wave of a kernel is computed whole, so that less work may take as long, or longer by a rounded-up part.
TILES = 0.03
Figures = Mapping[str, float]


class Answered(NamedTuple):
    """What an answer is held to: its figures, and whether it works."""

    figures: dict[str, float]
    refused: tuple[str, ...]
    broken: tuple[str, ...]


class Relation(NamedTuple):
    """Settings that change a scenario, and what holds between the figures before and after.

    change: settings for a scenario's written values; None where the relation does not apply
    """

    workload: str
    change: Callable[[Mapping[str, str]], tuple[str, ...] | None]
    holds: Callable[[Answered, Answered], bool]


# --- scenarios


@functools.cache
def drawn(workload: str, seed: int) -> tuple[str, ...] | None:
    """Settings of a scenario; None where its plan is not valid."""
    rng = random.Random(f"{workload} {seed}")
    settings = _of_training(rng) if workload == "training" else _of_serving(rng)
    try:
        return None if answered(workload, settings).refused else settings
    except CostModelError:
        return None


def _of_training(rng: random.Random) -> tuple[str, ...]:
    tp, pp, nodes = rng.choice([1, 2, 4, 8]), rng.choice([1, 1, 2, 4]), rng.choice([2, 4, 8, 16])
    return (
        f"model={rng.choice(['llama-3-8b', 'llama-2-7b', 'llama-2-13b', 'llama-2-70b', 'gpt-neox-20b'])}",
        f"cluster.node={rng.choice(['dgx-h100', 'dgx-a100'])}",
        f"cluster.nodes={nodes}",
        f"plan.tp={tp}",
        f"plan.pp={pp}",
        f"plan.micro_batch={rng.choice([1, 2])}",
        f"workload.sequence={rng.choice([2048, 4096, 8192])}",
        f"workload.global_batch={rng.choice([256, 512, 1024])}",
        f"plan.recompute={rng.choice(['none', 'selective', 'full'])}",
        "workload.tokens=1 T",
        "assume.price=2.50 USD/GPU/h",
    )


def _of_serving(rng: random.Random) -> tuple[str, ...]:
    model, tp = rng.choice([("llama-3.1-8b", 1), ("llama-3.1-8b", 2), ("llama-3.1-70b", 4), ("llama-3.1-70b", 8)])
    prompt, output = round(10 ** rng.uniform(1.7, 4)), round(10 ** rng.uniform(1, 3))
    small = 0.05 * tp if model.endswith("8b") else 0.01 * tp
    rate = 16 / tp * small * rng.uniform(2, 30) * 2000 / (prompt + 4 * output)
    return (
        f"model={model}",
        f"stack={rng.choice(['vllm', 'sglang'])}",
        f"plan={{tp: {tp}, replicas: {16 // tp // 2}}}",
        f"workload.prompt={{mean: {prompt}, spread: {rng.choice([0, 0.3, 1])}}}",
        f"workload.output={{mean: {output}, spread: {rng.choice([0, 0.5])}}}",
        f"workload.rate={rate:.6g} /s",
        *((f"stack.budget={rng.choice([1024, 2048, 4096])}",) if rng.random() < 0.5 else ()),
        "limits.ttft.at_most=2 s",
    )


@functools.cache
def answered(workload: str, settings: tuple[str, ...], name: str = "") -> Answered:
    """The figures of a scenario's plan."""
    case = load_any(name or BASES[workload], settings)
    if workload == "training":
        found = predict_training(case)
        return Answered(found.evaluation.costs.row(), found.refused, found.broken)
    served = predict_serving(case, bands=False)
    return Answered(served.costs, served.refused, served.broken)


@functools.cache
def written(workload: str, settings: tuple[str, ...]) -> dict[str, str]:
    """The written values of a scenario by path, and its settings by key."""
    found = dict(item.split("=", 1) for item in settings)

    def inside(tree: Any, path: str) -> None:
        for key, value in tree.items() if isinstance(tree, dict) else ():
            inside(value, f"{path}.{key}" if path else key)
        if not isinstance(tree, dict):
            found.setdefault(path, str(tree))

    inside(without_places(load_any(BASES[workload], settings).whole_tree), "")
    return found


# --- changes and what holds


def times(path: str, factor: float) -> Callable[[Mapping[str, str]], tuple[str, ...] | None]:
    """A setting that makes a written quantity so many times as large."""

    def change(values: Mapping[str, str]) -> tuple[str, ...] | None:
        match = re.match(r"\s*([\d.,e+-]+)(.*)", values.get(path, ""))
        return (f"{path}={float(match[1].replace(',', '')) * factor:.17g}{match[2]}",) if match else None

    return change


def setting(*settings: str) -> Callable[[Mapping[str, str]], tuple[str, ...]]:
    """The same settings of every scenario."""
    return lambda values: settings


def grows(*names: str, by: float = 0.0, tolerance: float = EXACT) -> Callable[[Answered, Answered], bool]:
    """Whether none of the figures falls; by: to so many times itself at least."""

    def holds(before: Answered, after: Answered) -> bool:
        least = by or 1.0
        pairs = [(before.figures[name], after.figures[name]) for name in names]
        return all(not later < first * least * (1 - tolerance) for first, later in pairs)

    return holds


def falls(*names: str, tolerance: float = EXACT) -> Callable[[Answered, Answered], bool]:
    """Whether none of the figures grows."""
    return lambda before, after: grows(*names, tolerance=tolerance)(after, before)


def scaled(factors: Mapping[str, float], tolerance: float = EXACT) -> Callable[[Answered, Answered], bool]:
    """Whether figures change by these factors, and all others not at all."""
    return lambda before, after: all(
        _same(value * factors.get(name, 1.0), after.figures[name], tolerance) for name, value in before.figures.items()
    )


def unchanged(*names: str) -> Callable[[Answered, Answered], bool]:
    """Whether some figures do not change."""
    return lambda before, after: all(_same(before.figures[name], after.figures[name], EXACT) for name in names)


def _same(one: float, other: float, tolerance: float) -> bool:
    return (math.isnan(one) and math.isnan(other)) or one == other or math.isclose(one, other, rel_tol=tolerance)


def keeps_fitting(before: Answered, after: Answered) -> bool:
    """Whether what fits, fits still."""
    return "M001" in before.broken or "M001" not in after.broken


def keeps_limits(before: Answered, after: Answered) -> bool:
    """Whether what kept its limits keeps them still."""
    return bool(before.broken) or not after.broken


def both(*parts: Callable[[Answered, Answered], bool]) -> Callable[[Answered, Answered], bool]:
    """Whether several relations hold."""
    return lambda before, after: all(part(before, after) for part in parts)


same = scaled({})
MONEY = {f"{name}{end}": 2.0 for name in ("cost_per_mtoken", "run_cost") for end in ("", "_low", "_high")}
RUN = {f"{name}{end}": 2.0 for name in ("run_time", "run_cost") for end in ("", "_low", "_high")}
RENT = {
    **dict.fromkeys(("cost_per_mtoken", "cost_per_minput", "cost_per_moutput", "cost_per_mcached"), 2.0),
    **dict.fromkeys(("cost_within_limits", "rent_per_month", "rent_needed", "cost_of_batch"), 2.0),
}
WAITS = ("ttft", "ttft_p99", "tpot")
ROOMY = ("cluster.accelerator.memory.capacity=200 GiB", "cluster.accelerator.memory.usable=190 GiB")


def _respelled(values: Mapping[str, str]) -> tuple[str, ...]:
    sequence, batch = int(values["workload.sequence"]), int(values["workload.global_batch"])
    return (f"workload.sequence={sequence / 1024:g}Ki tokens", f"workload.global_batch={batch * sequence} tokens")


def _respelled_load(values: Mapping[str, str]) -> tuple[str, ...]:
    rate = float(values["workload.rate"].split()[0])
    return (f"workload.rate={rate:.17g} requests/s", "limits.ttft.at_most=2000 ms")


def _twice_of_both(values: Mapping[str, str]) -> tuple[str, ...]:
    tp, replicas = re.findall(r"\d+", values["plan"])
    rate = float(values["workload.rate"].split()[0])
    return (f"plan={{tp: {tp}, replicas: {2 * int(replicas)}}}", f"workload.rate={2 * rate:.17g} /s")


def _twice_the_replicas(values: Mapping[str, str]) -> tuple[str, ...]:
    return _twice_of_both(values)[:1]


def _mean(path: str, factor: int) -> Callable[[Mapping[str, str]], tuple[str, ...]]:
    return lambda values: (f"{path}.mean={int(re.findall(r'[0-9.]+', values[path])[0]) * factor}",)


RELATIONS: dict[str, Relation] = {
    "a faster network makes no step longer": Relation(
        "training", setting("cluster.fabric.bandwidth=100 GB/s"), falls("step_time")
    ),
    "faster memory makes no step longer": Relation(
        "training", setting("cluster.accelerator.memory.bandwidth=7 TB/s"), falls("step_time")
    ),
    "more memory keeps plans fitting, and times": Relation(
        "training", setting(*ROOMY), both(keeps_fitting, unchanged("step_time"))
    ),
    "twice the price costs twice as much and changes nothing else": Relation(
        "training", setting("assume.price=5 USD/GPU/h"), scaled(MONEY)
    ),
    "parts as fast as all others are no stragglers": Relation(
        "training", setting("assume.stragglers.slow_part=1", "assume.stragglers.slow_link=1"), same
    ),
    "other units of the same quantities give the same answer": Relation("training", _respelled, same),
    "twice the tokens double time and cost of a run": Relation("training", setting("workload.tokens=2 T"), scaled(RUN)),
    "a larger batch takes a longer step": Relation(
        "training", times("workload.global_batch", 2), grows("step_time", by=1.5)
    ),
    "a larger batch lowers no throughput": Relation(
        "training", times("workload.global_batch", 2), grows("tokens_per_s", tolerance=EXACT)
    ),
    "longer sequences take a longer step and more memory": Relation(
        "training", times("workload.sequence", 2), grows("step_time", "memory_peak", by=1.0)
    ),
    "twice the layers take more of everything": Relation(
        "training", setting("model.layers.0.count=160"), grows("step_time", "memory_peak", by=1.2)
    ),
    "more data-parallel ranks make no matrix product longer": Relation(
        "training", times("cluster.nodes", 2), falls("matmul", tolerance=TILES)
    ),
    "recomputing all needs no more memory and no less time": Relation(
        "training", setting("plan.recompute=full"), both(falls("memory_peak"), grows("step_time"))
    ),
    "sharding weights needs no more memory for states": Relation(
        "training", setting("plan.zero=0"), grows("memory_peak")
    ),
    "a looser limit rejects nothing": Relation("training", setting("limits.mfu.at_least=0"), keeps_limits),
    "a higher rate makes nobody wait less": Relation("serving", times("workload.rate", 1.02), grows(*WAITS)),
    "twice the rent costs twice as much and changes nothing else": Relation(
        "serving", setting("assume.price=5 USD/GPU/h"), scaled(RENT)
    ),
    "more memory keeps services fitting, and holds no fewer tokens": Relation(
        "serving", setting(*ROOMY), both(keeps_fitting, grows("cache_pool_tokens", "saturation_per_s"))
    ),
    "faster memory makes no token slower": Relation(
        "serving", setting("cluster.accelerator.memory.bandwidth=7 TB/s"), both(falls("tpot"), grows("bandwidth_bound"))
    ),
    "twice the replicas with twice the rate wait as long": Relation(
        "serving", _twice_of_both, unchanged(*WAITS, "concurrency")
    ),
    "more replicas lower no rate": Relation(
        "serving", _twice_the_replicas, both(grows("saturation_per_s", by=2.0), falls("ttft", "tpot"))
    ),
    "longer prompts make nobody wait less": Relation("serving", _mean("workload.prompt", 2), grows("ttft", "tpot")),
    "longer answers take longer": Relation("serving", _mean("workload.output", 2), grows("latency")),
    "a looser limit keeps what was kept": Relation(
        "serving", setting("limits.ttft.at_most=4 s"), both(keeps_limits, grows("rate_within_slo_per_s"))
    ),
    "other units of the same load give the same answer": Relation("serving", _respelled_load, same),
    "a limit of zero on a rate rejects nothing": Relation(
        "serving",
        setting("limits.requests_per_s.at_least=0", "limits.tokens_per_s_per_user.at_least=0 token/s"),
        keeps_limits,
    ),
}


def seeds(workload: str, whole: bool, of: str) -> list[int]:
    """Scenarios to try: all, or one that each relation draws."""
    if whole:
        return list(range(SCENARIOS[workload]))
    start = random.Random(of).randrange(SCENARIOS[workload])
    near = range(start, start + SCENARIOS[workload])
    return [next(seed for seed in near if drawn(workload, seed) is not None)]


@pytest.mark.parametrize("name", RELATIONS)
def test_a_relation_holds(name: str, request: pytest.FixtureRequest) -> None:
    relation, wrong, tried = RELATIONS[name], [], 0
    for seed in seeds(relation.workload, request.config.getoption("--whole"), name):
        settings = drawn(relation.workload, seed)
        changed = None if settings is None else relation.change(written(relation.workload, settings))
        if settings is None or changed is None:
            continue
        before = answered(relation.workload, settings)
        try:
            after = answered(relation.workload, (*settings, *changed))
        except CostModelError:
            continue
        if after.refused:
            continue
        tried += 1
        if not relation.holds(before, after):
            differs = {key: (value, after.figures[key]) for key, value in before.figures.items()
                       if not _same(value, after.figures[key], EXACT)}  # fmt: skip
            wrong.append(f"{' '.join(settings)} + {' '.join(changed)}: {differs}"[:1500])
    assert tried
    assert not wrong, f"{len(wrong)} of {tried}\n" + "\n".join(wrong[:5])


@pytest.mark.parametrize("workload", SCENARIOS)
def test_the_order_of_keys_changes_nothing(workload: str, request: pytest.FixtureRequest) -> None:
    for seed in seeds(workload, request.config.getoption("--whole"), "order"):
        if settings := drawn(workload, seed):
            named = [item for item in settings if item.startswith(("model=", "cluster.node=", "stack=", "plan={"))]
            others = [item for item in settings if item not in named]
            assert same(answered(workload, settings), answered(workload, (*named, *reversed(others)))), settings


@pytest.mark.parametrize("workload", SCENARIOS)
def test_a_scenario_of_a_result_gives_the_same_answer(
    workload: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for seed in seeds(workload, request.config.getoption("--whole"), "document"):
        if settings := drawn(workload, seed):
            path = tmp_path / f"{workload}-{seed}.json"
            path.write_text(json.dumps(without_places(load_any(BASES[workload], settings).whole_tree)))
            assert same(answered(workload, settings), answered(workload, (), str(path))), settings
