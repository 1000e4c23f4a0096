"""Start-up logs of engines as they print them, read into the columns of a table and set against the predicted pool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costmodel.evidence.validate.validate import validated
from costmodel.exchange.tables.serving_table import read_serving_runs

VLLM = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)
INFO 03-02 10:00:00 [utils.py:233] non-default args: {'model': 'Qwen/Qwen3-14B', 'gpu_memory_utilization': 0.95}
INFO 03-02 10:00:07 [core.py:77] Initializing a V1 LLM engine (v0.17.0) with config: model='Qwen/Qwen3-14B', \
dtype=torch.bfloat16, max_seq_len=40960, tensor_parallel_size=1, pipeline_parallel_size=1, quantization=None, \
kv_cache_dtype=auto
INFO 03-02 10:00:31 [gpu_model_runner.py:2007] Model loading took 27.52 GiB memory and 5.1 seconds
INFO 03-02 10:01:02 [gpu_worker.py:276] Available KV cache memory: 45.34 GiB
INFO 03-02 10:01:02 [kv_cache_utils.py:849] GPU KV cache size: 297,136 tokens
INFO 03-02 10:01:02 [kv_cache_utils.py:853] Maximum concurrency for 40,960 tokens per request: 7.25x
"""
SGLANG = """\
[2026-03-02 10:00:00] server_args=ServerArgs(model_path='meta-llama/Llama-3.1-8B', tp_size=1, pp_size=1, \
mem_fraction_static=0.83, chunked_prefill_size=8192, max_running_requests=None, quantization=None, \
kv_cache_dtype='auto')
[2026-03-02 10:00:20] Using default MoE kernel config. Config file not found at E=8,N=14336,device_name=\
NVIDIA_H100_80GB_HBM3.json
[2026-03-02 10:00:21] KV Cache is allocated. #tokens: 411000, K size: 25.09 GB, V size: 25.09 GB
"""


def log(folder: Path, text: str) -> str:
    """A file with that text."""
    path = folder / "start.log"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_pool_of_a_vllm_log_is_predicted(tmp_path: Path) -> None:
    (found,) = validated([log(tmp_path, VLLM)])
    (figure,) = found.figures
    assert figure.quantity == "cache_pool"
    assert abs(figure.error or 1.0) < 0.01


def test_validate_prints_what_is_compared_and_both_figures_of_a_log(tmp_path: Path, run: Any) -> None:
    """Of one run its score is no answer; a table of many has its scores alone."""
    out = run("validate", log(tmp_path, VLLM)).out
    heading, head, row = out.splitlines()[:3]
    assert heading == "cache_pool: memory of one accelerator for keys and values"
    assert head.split()[:4] == ["run", "measured", "predicted", "error"]
    assert "45.34 GiB  45.23 GiB  -0.2%" in row
    assert "cache_pool:" not in run("validate", log(tmp_path, VLLM), "--worst", "1").out


def test_cells_of_a_sglang_log(tmp_path: Path) -> None:
    (row,) = read_serving_runs(log(tmp_path, SGLANG)).rows
    wanted = {"engine": "sglang", "model": "meta-llama/Llama-3.1-8B", "tp": "1", "u": "0.83", "log_kv_gib": "50.18"}
    assert {name: row.text(name) for name in wanted} == wanted
    assert row.text("gpu") == "NVIDIA H100 80GB HBM3"
    assert (row.text("max_num_batched_tokens"), row.text("max_num_seqs")) == ("8192", "")


@pytest.mark.parametrize(
    ("changed", "to", "code"),
    [("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)\n", "", "V001"), ("Qwen/Qwen3-14B", "nobody/none", "V011")],
)
def test_what_a_log_does_not_state_is_refused_with_its_reason(tmp_path: Path, changed: str, to: str, code: str) -> None:
    (found,) = validated([log(tmp_path, VLLM.replace(changed, to))])
    assert [figure.refused for figure in found.figures] == [code]
