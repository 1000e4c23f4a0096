"""What answers share of replicas is what each would have alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
import pytest

from costmodel.documents.reader.load_scenario import load_any, vary_any
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.estimate.serving import replica_capacity
from costmodel.estimate.serving.predict_serving import layout_of, own_plan, predict
from costmodel.estimate.serving.replica_capacity import capacity_of
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.explore.serving.search_layouts import search

OF_ONE = ("workload.rate=2 /s", "workload.rate=9 /s")
OTHERS = (
    "workload.prompt=500",
    "plan.tp=4",
    "cluster.node.accelerator.memory.bandwidth=3 TB/s",
    "limits.tpot.at_most=20 ms",
)


@pytest.fixture(scope="module")
def case() -> ServingCase:
    return serving(load_any("serve-llama-3.1-70b"))


@pytest.fixture
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Forgets what earlier answers found."""
    return lambda: monkeypatch.setattr(replica_capacity, "_KNOWN", deque(maxlen=replica_capacity.QUESTIONS))


@pytest.mark.parametrize("bands", [False, True])
def test_what_is_known_changes_no_answer(case: ServingCase, bands: bool, nothing_known: Callable[[], None]) -> None:
    varied = [serving(vary_any(case, [setting])) for setting in (*OF_ONE, *OTHERS, OF_ONE[0])]
    alone = []
    for each in varied:
        nothing_known()
        alone.append(predict(each, bands=bands).costs)
    nothing_known()
    for each, costs in zip(varied, alone, strict=True):
        assert repr(predict(each, bands=bands).costs) == repr(costs), each.changes


SPACE = "search={tp: [4, 8], budget: [2048, 8192]}"
SEARCHES = (
    (),
    ("objective=gpus_needed",),
    ("cluster.nodes=3",),
    ("workload.rate=20 /s",),
    ("limits.tpot.at_most=20 ms",),
    ("workload.rate=null", "workload.concurrency=64"),
    ("workload.rate=null", "workload.concurrency=96"),
)


def test_a_search_after_others_finds_what_it_finds_alone(case: ServingCase, nothing_known: Callable[[], None]) -> None:
    """Each digit of each plan; rows of what an earlier search evaluated are those of this one."""
    asked = [inputs_of(serving(vary_any(case, (*settings, SPACE)))) for settings in SEARCHES]
    alone = []
    for inputs in asked:
        nothing_known()
        alone.append(search(inputs).best)
    nothing_known()
    for inputs, plans in zip(asked, alone, strict=True):
        assert repr(search(inputs).best) == repr(plans), inputs.case.changes


def test_rates_have_the_same_replicas_and_other_requests_have_not(
    case: ServingCase, nothing_known: Callable[[], None]
) -> None:
    def capacity(*settings: str) -> object:
        inputs = inputs_of(serving(vary_any(case, settings)))
        return capacity_of(inputs, layout_of(inputs, own_plan(inputs))[0]).quick

    nothing_known()
    first = capacity(OF_ONE[0])
    for same in (OF_ONE[1], "limits.tpot.at_most=20 ms", "objective=tpot", "cluster.nodes=8", "plan.replicas=1"):
        assert capacity(same) is first, same
    for other in OTHERS[:3]:
        assert capacity(other) is not first, other


def test_only_the_latest_limits_and_kinds_keep_their_rates(
    case: ServingCase, nothing_known: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many limits and plans a process looks at, what it keeps is bounded; a rate is that of a first look."""
    monkeypatch.setattr(replica_capacity, "LIMITS", 2)
    monkeypatch.setattr(replica_capacity, "RATES", 1)
    nothing_known()

    def rate(limit: int, tp: int) -> float:
        inputs = inputs_of(serving(vary_any(case, [f"limits.tpot.at_most={limit} ms", f"plan.tp={tp}"])))
        found = capacity_of(inputs, layout_of(inputs, own_plan(inputs))[0]).within_limits(inputs)
        return np.asarray(found).item()

    asked = [(limit, tp) for limit in (20, 30, 40) for tp in (4, 8)]
    first = {each: rate(*each) for each in asked}
    (known,) = replica_capacity._KNOWN
    assert [len(rates) for rates in known.rates.values()] == [1, 1]
    assert all(len(capacity.known) <= 2 for _, capacity in known.capacities)
    assert {each: rate(*each) for each in reversed(asked)} == first
