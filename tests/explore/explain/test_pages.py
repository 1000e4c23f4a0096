"""Pages of words of serving are complete, and their figures are those of the equations and documents."""

from __future__ import annotations

import numpy as np
import pytest
from each import each

from costmodel.documents.reader.library import bibliography, serving_words
from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.serving_scenario import serving
from costmodel.equations.serving.engine_step import (
    accepted_tokens,
    compute_bound_batch,
    dense_verify_ratio,
    fastest_user_rate,
    speculation_speedup,
)
from costmodel.equations.serving.offline_batch import static_batch_use
from costmodel.estimate.serving.engine_step import Batch, step_time
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.predict_serving import REFUSALS
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.explore.explain.word_explanations import page
from costmodel.ground.equation import EQUATIONS

LOAD = "workload={kind: serving, prompt: 100, output: 100, rate: 1 /s}"


def test_words_are_sorted_and_no_name_is_used_twice() -> None:
    assert list(serving_words()) == sorted(serving_words())
    names = [name for word, entry in serving_words().items() for name in (word, *entry.get("also", ()))]
    assert len(names) == len(set(names))


@each("word", serving_words())
def test_an_entry_is_complete(word: str) -> None:
    entry = serving_words()[word]
    assert set(entry) - {"also"} == {"title", "text", "equations", "source"}
    assert [name for name in entry["equations"] if name not in EQUATIONS] == []
    assert [key.split()[0] for key in entry["source"].split(";") if key.split()[0] not in bibliography()] == []
    for name in (word, *entry.get("also", ())):
        assert entry["text"] in page(name).text


@pytest.mark.parametrize("code", REFUSALS)
def test_every_code_has_a_page(code: str) -> None:
    assert REFUSALS[code].meaning in page(code).text or code in ("M001", "T001")


def test_one_user_gets_no_more_than_bandwidth_allows() -> None:
    assert float(fastest_user_rate(70.55e9, 1.0, 3.35e12)) == pytest.approx(47.5, abs=0.05)
    assert "47.5" in page("bandwidth_bound").text


def kernels(node: str, tp: float, batch: Batch) -> tuple[float, float]:
    """Of a step of a 7B: its kernels alone, and with its all-reduces."""
    case = serving(load_any("serve-llama-3.1-70b", ["model=llama-2-7b", f"cluster.node={node}", LOAD]))
    one = np.ones(1)
    step = step_time(inputs_of(case), PlanColumns(tp * one, one, one, one, one, 8192 * one), batch)
    beside = np.asarray(step.matmul + step.attention + step.memory_bound)
    return float(beside[0]), float((beside + step.tp)[0])


@pytest.mark.parametrize(("node", "prompt", "decode"), [("dgx-a100", 0.77, 0.62), ("dgx-h100", 0.69, 0.60)])
def test_efficiency_of_tensor_parallelism(node: str, prompt: float, decode: float) -> None:
    """A 7B at tp 4, 3,200 prompt tokens, nothing hidden: the claim of 80 to 90 % is of an older balance.

    In decode, messages are small: what four ranks of one user gain is far below it.
    """
    one = np.ones(1)
    beside, whole = kernels(node, 4.0, Batch(0 * one, 1.0, 3200 * one, 32 * one))
    assert beside / whole == pytest.approx(prompt, abs=0.01)
    one_user = Batch(one, 3264.0)
    alone, four = kernels(node, 1.0, one_user)[1], kernels(node, 4.0, one_user)[1]
    assert alone / (4 * four) == pytest.approx(decode, abs=0.01)
    assert alone / (4 * four) < 0.8
    text = page("tp_efficiency").text
    assert all(f"{share * 100:.0f} %" in text for share in (prompt, decode))


def test_what_24_times_compares() -> None:
    """The published factors, in words; `test_batch_decay` derives them."""
    text = page("PagedAttention").text
    shares = ("plain Transformers with static batches", "7B on an A10G", "13B on an A100", "from 6 sequences", "to 28")
    factors = ("4.6 times", "2.7 times", "12.6 times", "2.2 to 3.5 times", "2 to 4 times", "about 1 ×")
    assert [words for words in (*shares, *factors) if words not in text] == []


def test_speculation_gains_at_small_batches_and_loses_at_large_ones() -> None:
    accepted = float(accepted_tokens(0.8, 4.0))
    bound = float(compute_bound_batch(2.0, 989.4e12, 3.35e12))
    one, many = (
        float(speculation_speedup(accepted, float(dense_verify_ratio(batch, 4.0, bound)), 4.0, 0.05))
        for batch in (1.0, 256.0)
    )
    text = page("speculation").text
    assert f"at best {one:.1f} times" in text
    assert f"a batch of 256 {many:.2f} times as fast" in text


def test_figures_of_pages_are_those_of_their_equations() -> None:
    """Of equations that no estimate calls, as their pages explain them."""
    wide, narrow = (float(compute_bound_batch(bytes_of, 989.4e12, 3.35e12)) for bytes_of in (2.0, 0.51953125))
    text = page("bandwidth_bound").text
    assert f"From {wide:.0f} tokens" in text
    assert f"from {narrow:.0f} with weights" in text
    assert f"{1 / float(static_batch_use(8.0)):.1f} times; together" in page("PagedAttention").text


@pytest.mark.parametrize(
    ("words", "code"),
    [("cache full", "S003"), ("First token limit", "S002"), ("time per token", "S001"), ("limits at risk", "S006")],
)
def test_the_words_beside_a_code_of_a_service_lead_to_its_page(words: str, code: str) -> None:
    assert page(words) == page(code)


def test_how_many_gpus_is_the_question_of_replicas() -> None:
    assert page("how many gpus").asked == page("how many replicas").asked
