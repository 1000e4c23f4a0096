"""A step of an engine: what Ray adds to it, and prompts that are computed whole."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.serving_scenario import serving
from costmodel.estimate.serving.operating_point import ExactSteps, micro_batch
from costmodel.estimate.serving.plan_columns import SIZES, PlanColumns
from costmodel.estimate.serving.predict_serving import predict
from costmodel.ground.errors import CostModelError
from estimate.serving.cases import UNLAUNCHED, inputs, one

NAME = "serve-llama-3.1-70b"


def costs(*settings: str) -> dict[str, float]:
    return predict(serving(load_any(NAME, list(settings)))).costs


def test_processes_of_the_engine_are_the_default() -> None:
    assert costs("stack.executor=mp")["tpot"] == costs()["tpot"]


def test_ray_adds_its_time_to_each_step() -> None:
    found, plain = costs("stack.executor=ray"), costs()
    assert found["host_time"] - plain["host_time"] == pytest.approx(50e-6)
    assert found["tpot"] > plain["tpot"] + 50e-6  # the longer step meets more prompts


def test_an_engine_without_ray_refuses_it() -> None:
    with pytest.raises(CostModelError, match="no executor of Ray"):
        costs("stack=sglang", "stack.executor=ray")


def test_a_prompt_that_is_computed_whole_must_fit_into_a_step() -> None:
    long = ("stack=trt-llm", "workload.prompt=16384", "workload.rate=1 /s")
    found = predict(serving(load_any(NAME, list(long))))
    assert found.refused == ("L062",)
    whole, parts = costs(*long, "stack.budget=18432")["ttft"], costs(*long, "stack.chunked=true")["ttft"]
    assert parts == pytest.approx(whole, rel=0.2)  # the same work, in one step or in two
    alone = predict(serving(load_any(NAME, [*long, "stack.budget=16384", "limits={}"])))  # nothing beside a prompt
    assert alone.broken == ("S004",)
    apart = "plan={prefill: {tp: 8}, decode: {tp: 8}}"
    assert predict(serving(load_any(NAME, [*long, apart]))).refused == ("L062",)
    assert predict(serving(load_any(NAME, [*long, apart, "stack.chunked=true"]))).refused == ()


def test_a_pipeline_of_8_multiplies_throughput_not_speed() -> None:
    """70B in bf16, 64 in flight: a token waits for the weights of all eight stages, 49.8 ms at 0.845 of the bandwidth.

    So 64 tokens come in that time, 1,284 a second; 1.5 % fewer here, for each product has a fixed time too.
    """
    stated = inputs("limits={}")
    stages = PlanColumns(**{name: np.ones(1) for name in SIZES} | {"pp": np.array([8.0]), "budget": np.array([8192.0])})
    weights = one(ExactSteps(stated, stages).breakdown(micro_batch(stages, 64.0)).matmul)
    assert weights * 1e3 == pytest.approx(49.8, rel=0.02)
    assert 64 / weights == pytest.approx(1284, rel=0.02)
    load = "workload={kind: serving, prompt: 16, output: 512, concurrency: 64, precision: bf16}"
    plans = ("plan={tp: 1, pp: 8, replicas: 1}", "plan={tp: 8, replicas: 1}")
    deep, wide = (costs(load, plan, "cluster.nodes=1", "limits={}", *UNLAUNCHED) for plan in plans)
    assert deep["tpot"] > 4 * wide["tpot"]
    assert deep["matmul"] == pytest.approx(weights)
