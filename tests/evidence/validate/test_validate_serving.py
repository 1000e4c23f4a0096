"""Validate of serving: rows to scenarios, what is refused, start-up logs, and published figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.documents.reader.hub_names import squeezed
from costmodel.documents.reader.library import CachedReader, names
from costmodel.estimate.serving.predict_serving import predict
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.evidence.validate.outcomes import Compared
from costmodel.evidence.validate.scores import scoreboard
from costmodel.evidence.validate.serving_rows import RULES, serving_row
from costmodel.evidence.validate.validate import validated
from costmodel.evidence.validate.validate_serving import case_of_group, groups, of_group
from costmodel.exchange.tables.serving_table import read_serving_runs
from costmodel.ground.errors import CostModelError
from costmodel.report.answers.validate import validation_json

pytestmark = pytest.mark.usefixtures("in_its_folder")

HEADER = (
    "id,source,engine,engine_version,model,gpu,gpus,tp,dp_attention,ep,precision,expert_type,prompt,output,length_share,"
    "concurrency,requests_per_s,ttft_s,tpot_s"
)
LLAMA = "InferenceX,vllm,0.18.0,meta-llama/Llama-3.1-70B,h100-sxm,8,8,1,1,fp8,,1024,1024,0.9"
DEEPSEEK = "InferenceX,sglang,0.5.9,deepseek-ai/DeepSeek-R1,h200-sxm,8,8,1,1,fp8,fp8_block,1024,1024,0.9"
LOGS = "engine,version,model,gpu,total_gib,tp,u,weight_bytes_per_param,kv_bytes,log_kv_gib"


def _table(*rows: str, header: str = HEADER) -> str:
    Path("runs.csv").write_text("\n".join([header, *rows]) + "\n")
    return "runs.csv"


def _figures(*rows: str, header: str = HEADER, quantity: str | None = None) -> list[Compared]:
    (found,) = validated([_table(*rows, header=header)], quantity=quantity)  # type: ignore[arg-type]
    return found.figures


def test_published_times_per_token() -> None:
    """InferenceX: Llama 3.1 70B in fp8 on 8 H100 within 15 %, DeepSeek-R1 on 8 H200 within 30 %."""
    rows = [f"l4,{LLAMA},4,,,0.00911", f"l64,{LLAMA},64,,,0.0155"]
    rows += [f"d4,{DEEPSEEK},4,,,0.0103", f"d64,{DEEPSEEK},64,,,0.0330"]
    figures = _figures(*rows)
    assert [figure.refused for figure in figures] == [None] * 4
    errors = [abs(figure.error or 0.0) for figure in figures]
    assert max(errors[:2]) < 0.15
    assert max(errors[2:]) < 0.30
    assert all(figure.low < figure.predicted < figure.high for figure in figures)  # type: ignore[operator]


def test_rows_together_are_the_scenario_alone() -> None:
    """A row evaluated beside others is what estimate answers for its scenario."""
    table = read_serving_runs(_table(f"a,{LLAMA},4,,,0.009", f"b,{LLAMA.replace(',8,8,', ',4,4,')},64,,,0.015"))
    shelf = CachedReader()
    rows = [serving_row(row, shelf) for row in table.rows]
    assert groups(rows) == [[0, 1]]
    inputs = inputs_of(case_of_group(rows, shelf))
    for row, found in zip(rows, of_group(inputs, rows), strict=True):
        tree = {**row.scenario, "plan": {"tp": row.layout[0], "replicas": 1.0}}
        alone = predict(case_of_group([replace(row, scenario=tree)], shelf))
        assert isinstance(found, dict)
        np.testing.assert_allclose(
            [found[name] for name in ("tpot", "ttft")], [alone.costs["tpot"], alone.costs["ttft"]]
        )


def test_requests_at_once_are_a_batch_that_runs_out() -> None:
    """Of a benchmark that sends 1,000 requests and waits for the last, tokens a second are those until then."""
    load = "b,x,vllm,0.11.0,Qwen/Qwen3-14B,h100-sxm,1,1,1,1,bf16,,217,202,1"
    header = f"{HEADER},requests,length_spread,tokens_per_s_per_gpu,doubt"
    stated = f"{load},,,,0.2,1000,,3000,lengths of ShareGPT"
    doubted = f"{load},1062,,,0.2,,,3000,1000 requests at once (ShareGPT lengths); concurrency by Little's law"
    looped = f"{load},64,,,0.2,1000,,3000,"
    first, second, loop = _figures(stated, doubted, looped, header=header, quantity="throughput")
    assert first.predicted == second.predicted
    assert second.filled["requests"] == "1000 at once"
    assert "requests" not in loop.filled
    (row,) = read_serving_runs(_table(stated, header=header)).rows
    asked = serving_row(row, CachedReader())
    tree = {**asked.scenario, "plan": {"tp": 1.0, "replicas": 1.0}}
    alone = predict(case_of_group([replace(asked, scenario=tree)], CachedReader()))
    assert alone.costs["tokens_per_s_per_gpu"] == pytest.approx(first.predicted, rel=1e-9)
    assert first.predicted < 0.8 * alone.costs["saturation_per_s"] * 202  # much of the time the engine is nearly empty


def test_rows_of_other_lengths_are_predicted_as_if_alone() -> None:
    """Prompts, answers and users of one engine are columns; those of learned positions bound the lengths they serve."""
    opt = LLAMA.replace("meta-llama/Llama-3.1-70B", "facebook/opt-66b").replace(",fp8,", ",bf16,")
    lengths = [("1024,1024", "8000,200"), ("1024,1024", "200,1"), ("1024,1024", "512,600"), ("1024,1024", "1024,1024")]
    rows = [f"{place},{LLAMA.replace(*pair)},{4 + place},,,0.1" for place, pair in enumerate(lengths)]
    rows += [f"o{place},{opt.replace(*pair)},{4 + place},,,0.1" for place, pair in enumerate(lengths)]
    alone = [_figures(row)[0] for row in rows]
    assert _figures(*rows) == alone
    assert [figure.refused for figure in alone] == [None] * 4 + ["V004", None, None, None]
    shelf = CachedReader()
    asked = [serving_row(row, shelf) for row in read_serving_runs(_table(*rows)).rows]
    assert groups(asked) == [[0, 1, 2, 3], [4], [5], [6], [7]]
    inputs = inputs_of(case_of_group(asked[:4], shelf))
    assert of_group(inputs, asked[1:2]) == of_group(inputs, asked[:4])[1:2]  # of some rows of a group, as in a fit


def test_a_table_reads_each_name_once() -> None:
    """40 rows of one model: every name of a model or an accelerator is stripped of its signs once, not once a row."""
    squeezed.cache_clear()
    _figures(*(f"r{users},{LLAMA},{users},,,0.009" for users in range(1, 41)))
    assert squeezed.cache_info().misses <= len(names("model")) + len(names("accelerator")) + 3


REFUSED = {
    "model": (f"a,{LLAMA.replace('Llama-3.1-70B', 'Nobody-7B')},4,,,0.009", "V011", "Nobody-7B"),
    "engine": (f"a,{LLAMA.replace('vllm', 'teapot')},4,,,0.009", "V013", "teapot"),
    "accelerator": (f"a,{LLAMA.replace('h100-sxm', 'abacus')},4,,,0.009", "V001", "abacus"),
    "precision": (f"a,{LLAMA.replace('fp8', 'fp5')},4,,,0.009", "V004", "fp5"),
    "layout": (f"a,{LLAMA.replace(',8,8,', ',4,8,')},4,,,0.009", "V012", "4 GPUs hold no tp 8"),
    "memory": (f"a,{LLAMA.replace(',8,8,1,1,fp8', ',1,1,1,1,bf16')},4,,,0.009", "V007", "M001"),
    "length": (f"a,{LLAMA.replace('1024,1024', ',1024')},4,,,0.009", "V006", "prompt empty"),
    "cell": (f"a,{LLAMA},4.5,,,0.009", "V010", "line 2, concurrency: "),
    "nothing": (f"a,{LLAMA},4,,0.1,", "V005", "tpot"),
    "rate": (f"a,{LLAMA},4,0.01,0.1,0.009", "V015", "requests in flight"),
    "bandwidth": (f"a,{LLAMA},4,,,0.002", "V014", "weights are read once"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    """A row that cannot be modelled says why; the rows beside it are."""
    row, code, words = REFUSED[case]
    first, second = _figures(row, f"b,{LLAMA},4,,,0.009")
    assert (first.refused, second.refused) == (code, None)
    assert words in first.why


def test_rate_of_a_minute() -> None:
    """Oracle's page has 4.53 requests a minute at 32 in flight and 6.59 s each: by Little's law they are a second's."""
    row = "Oracle,vllm,0.18.0,meta-llama/Llama-3.3-70B-Instruct,h100-sxm,8,8,1,1,bf16,,200,200,1"
    token = (6.59 - 0.2) / 199
    minute, second = _figures(f"m,{row},32,0.0755,0.2,{token}", f"s,{row},32,4.53,0.2,{token}")
    assert (minute.refused, second.refused) == ("V015", None)
    assert "concurrency is 32" in minute.why


def test_throughput_of_times() -> None:
    """Tokens a second follow from the times of a closed loop."""
    (figure,) = _figures(f"a,{LLAMA},64,,0.5,0.015", quantity="throughput")
    assert figure.measured == pytest.approx(64 * 922 / ((0.5 + 921 * 0.015) * 8))


def test_start_up_logs() -> None:
    """vLLM's logs on an H100: the pool of the cache, and what its sampler took until 0.16."""
    rows = [
        "vllm,0.19.0,Llama-3.1-8B,H100,79.19,1,0.95,2,2,58.11",
        "vllm,0.19.0,Llama-3.1-8B,H100,79.19,1,0.95,1,2,64.61",
        "vllm,0.16.0,Qwen3-14B,H100,79.19,1,0.95,2,2,41.94",
        "vllm,0.17.0,Qwen3-14B,H100,79.19,1,0.95,2,2,45.34",
        "vllm,0.19.0,Llama-3.1-8B,H100,79.19,1,0.95,4,4,42.8",
    ]
    figures = _figures(*rows, header=LOGS)
    assert {figure.quantity for figure in figures} == {"cache_pool"}
    assert max(abs(figure.error or 0.0) for figure in figures[:4]) < 0.005
    assert figures[4].refused == "V004"


def test_logs_that_state_tokens_or_only_the_memory_of_a_gpu() -> None:
    """Tokens of 128 KiB each (32 layers, 8 heads of 128, keys and values in 16 bits) have the error of those GiB; a GPU
    without a document is another one with its total; bytes of a parameter lead to the type nearest to them.
    """
    log = "vllm,0.19.0,Llama-3.1-8B,{},{},1,0.95,{},2,{}"
    tokens = 58.11 * 2**30 / 2**17
    stated, counted, unnamed, small, narrow, none = _figures(
        log.format("H100", "79.19", "2", "58.11,"),
        log.format("H100", "79.19", "2", f",{tokens:.0f}"),
        log.format("80 GB", "79.19", "2", "58.11,"),
        log.format("RTX 4070 8 GB", "7.65", "1.06", ","),
        log.format("H100", "79.19", "1.02", "64.61,"),
        log.format("80 GB", "", "2", "58.11,"),
        header=f"{LOGS},log_kv_tokens",
    )
    assert counted.error == pytest.approx(stated.error, abs=1e-4)
    assert counted.filled["log_kv_gib"] == "of log_kv_tokens"
    assert unnamed.error == pytest.approx(stated.error, abs=1e-4)
    assert unnamed.filled["gpu"].endswith(", by its memory")
    assert abs(narrow.error or 1.0) < 0.005
    assert (small.refused, none.refused) == ("V005", "V001")


def test_quantities_of_a_table() -> None:
    """A table of serving has no time of a step, start-up logs only the cache, and training no time per token."""
    runs = _table(f"a,{LLAMA},4,,,0.009")
    for tables, quantity in ((runs, "time"), (runs, "cache"), ("korthikanti-2022", "tpot")):
        with pytest.raises(CostModelError, match="C005"):
            validated([tables], quantity=quantity)  # type: ignore[arg-type]


def test_missing_column() -> None:
    """A header without a column that every row needs is refused with the one that was meant."""
    with pytest.raises(CostModelError, match="'concurrency' is missing"):
        read_serving_runs(_table("", header=HEADER.replace("concurrency", "concurrancy")))


def test_json_tells_the_rules() -> None:
    """What was filled stands in the JSON with its rule."""
    found = validation_json(scoreboard(validated([_table(f"a,{LLAMA.replace('h100', 'b200')},4,,,0.009")])))
    assert found["rules"]["cache_type"] == RULES["cache_type"]
    (row,) = json.loads(json.dumps(found))["rows"]
    assert "cache_type=fp8" in row["filled"]
    assert row["model"] == "meta-llama/Llama-3.1-70B"


def test_shipped_documents_about_serving_stand_apart() -> None:
    """One error of each result, and none of them in that of step times."""
    found = scoreboard(validated(["korthikanti-2022", "tensorrt-llm-1.0", "vllm-cache-pools"]))
    assert {figure.quantity for figure in found.figures} == {"step_time"}
    rows = {name: board.together.score.modelled for name, board in found.others.items()}
    assert rows == {"output_tokens_per_s": 40, "cache_pool_tokens": 6}
    shown = validation_json(found)
    assert (shown["overall"]["rows"], len(shown["rows"])) == (4, 50)
    assert shown["serving"]["output_tokens_per_s"]["overall"]["median_error"] < 0.06


def test_a_document_about_serving_has_its_own_quantities(run: Any) -> None:
    assert "40 figures" in run("validate", "--quantity", "throughput").out
    assert "C005" in run("validate", "tensorrt-llm-1.0", "--quantity", "time").err
    assert "C005" in run("validate", "--quantity", "tpot").err


def test_a_result_of_another_workload_is_a_fault(run: Any, tmp_path: Path) -> None:
    text = run("show", "vllm-cache-pools").out.replace("name: vllm-cache-pools", "name: mine")
    (tmp_path / "mine.yaml").write_text(text.replace("cache_pool_tokens: 476000", "step_time: 2 s", 1), "utf-8")
    answer = run("validate", str(tmp_path / "mine.yaml"))
    assert answer.code == 2
    assert "D016" in answer.err


def test_a_row_may_state_the_tokens_of_a_step() -> None:
    """TensorRT-LLM computes whole prompts: one of 8,192 tokens beside no other in a step of as many. In a row that does
    not state them, a step has room for its prompt beside its users, as in the scripts of InferenceX.
    """
    row = "InferenceX,trtllm,1.0,meta-llama/Llama-3.1-70B,h100-sxm,8,8,1,1,fp8,,8192,1024,1,16,,,0.02"
    header = HEADER + ",max_num_tokens"
    default, same, twice = _figures(f"a,{row},", f"b,{row},8192", f"c,{row},16384", header=header, quantity="ttft")
    assert (default.refused, same.refused) == (twice.refused, twice.refused)
    shelf = CachedReader()
    rows = [serving_row(each, shelf) for each in read_serving_runs("runs.csv").rows]
    assert [each.launched.get("budget") for each in rows] == [8256, 8192, 16384]
    times = [of_group(inputs_of(case_of_group([each], shelf)), [each])[0]["ttft"] for each in rows]  # type: ignore[index]
    assert times[1] > 5 * times[0] > 4 * times[2]
    assert rows[0].filled["budget"] == "8256 tokens"


def test_scripts_of_inferencex_let_sglang_look_seldom_on_blackwell() -> None:
    few = DEEPSEEK.replace("h200-sxm", "b200-sxm")
    table = read_serving_runs(_table(f"a,{few},4,,,0.01", f"b,{few},64,,,0.02", f"c,{DEEPSEEK},64,,,0.02"))
    other = read_serving_runs(_table(f"d,{few.replace('InferenceX', 'mine')},64,,,0.02"))
    shelf = CachedReader()
    rows = [serving_row(row, shelf) for row in (*table.rows, *other.rows)]
    assert [row.launched.get("poll", 1) for row in rows] == [10, 30, 1, 1]
    assert [row.filled.get("poll") for row in rows] == ["10 steps", "30 steps", None, None]


def test_prompts_of_the_cookbook_are_found_in_the_cache() -> None:
    """Its tables print 610 tokens in and 421 out for 10 requests, 496 and 509 for 80, as seed 1 draws them."""
    mine = DEEPSEEK.replace("InferenceX", "sgl-cookbook page").replace("1024,1024,0.9", "{},{},1")
    lengths = (610, 422), (496, 509), (610, 4446), (3981, 531), (1024, 1024)
    table = read_serving_runs(_table(*(f"{n},{mine.format(*each)},4,,0.1,0.01" for n, each in enumerate(lengths))))
    shelf = CachedReader()
    rows = [serving_row(row, shelf) for row in table.rows]
    assert [round(row.cached_share, 2) for row in rows] == [0.01, 0.15, 1.0, 0.33, 0.0]
    assert rows[1].filled["cached_share"] == "15%"
    assert [row.scenario["workload"]["prompt"]["spread"] > 0 for row in rows] == [True] * 4 + [False]
    whole = replace(rows[3], cached_share=0.0)
    found, uncached = of_group(inputs_of(case_of_group([whole], shelf)), [rows[3], whole])
    assert found["ttft"] < uncached["ttft"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("engine", "gpu", "stack"),
    [
        ("optimum-habana", "gaudi3", "optimum-habana-inference"),
        ("transformers-neuronx", "trn1", "neuronx-inference"),
        ("vllm", "tpu-v6e", "vllm-0.20"),
    ],
)
def test_engines_of_other_makers_have_the_band_of_what_was_never_measured(engine: str, gpu: str, stack: str) -> None:
    """That of Gaudi was compared with nineteen benchmarks, which the band of a measured engine holds."""
    row = f"a,x,{engine},0.17,meta-llama/Llama-3.1-8B,{gpu},8,8,1,1,bf16,,1024,1024,1,16,,,0.02"
    (found,) = _figures(row, quantity="tpot")
    assert found.filled["engine"] == stack
    assert (found.high / found.predicted > 2) is (engine != "optimum-habana")
    assert found.predicted / found.low < 2
