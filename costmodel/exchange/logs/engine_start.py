"""Start-up logs of vLLM and SGLang as they print them: what they run with, and the pool that is left to the cache."""

from __future__ import annotations

import csv
import io
import re

MARKS = re.compile(r"Available KV cache memory:|KV Cache is allocated\.|# GPU blocks:")
_GPU = re.compile(r"(?:NVIDIA|AMD|Intel|Tesla)[ _][A-Za-z0-9][\w .-]{0,60}?(?=\.json|,| \(|\"|'|\)|$)", re.M)
_VLLM, _SGLANG = "vllm", "sglang"
_KEYS: dict[str, dict[str, tuple[str, ...]]] = {  # columns, and the keys that state them, the first that is there
    _VLLM: {
        "model": ("model", "model_tag"),
        "tp": ("tensor_parallel_size",),
        "pp": ("pipeline_parallel_size",),
        "u": ("gpu_memory_utilization",),
        "max_model_len": ("max_seq_len", "max_model_len"),
        "max_num_batched_tokens": ("max_num_batched_tokens",),
        "max_num_seqs": ("max_num_seqs",),
    },
    _SGLANG: {
        "model": ("model_path",),
        "tp": ("tp_size",),
        "pp": ("pp_size",),
        "u": ("mem_fraction_static",),
        "max_model_len": ("context_len", "context_length"),
        "max_num_batched_tokens": ("chunked_prefill_size",),
        "max_num_seqs": ("max_running_requests",),
    },
}
_NARROW = ("fp8", "fbgemm_fp8", "compressed-tensors")
_NOT_STATED = ("None", "none", "null", "auto")


def is_engine_start(text: str) -> bool:
    """Whether a text is the start-up log of a serving engine: it states the size of the KV cache."""
    return MARKS.search(text) is not None


def start_as_table(text: str) -> str:
    """A start-up log as a CSV table of one row, with the columns of `costmodel explain D014`."""
    engine = _SGLANG if "KV Cache is allocated" in text else _VLLM
    cells = {"engine": engine, "engine_version": _version(text, engine), "gpu": _gpu(text)}
    cells |= {column: _stated(text, keys) for column, keys in _KEYS[engine].items()}
    cells["tp"] = cells["tp"] or "1"
    cells |= {"weight_bytes_per_param": _weights(text), "kv_bytes": _cache(text), "log_kv_gib": _pool(text, engine)}
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerows([list(cells), list(cells.values())])
    return table.getvalue()


def _stated(text: str, keys: tuple[str, ...]) -> str:
    """The value of the first key that the log states, as key=value or 'key': value."""
    for key in keys:
        for match in re.finditer(rf"\b{key}['\"]?\s*[=:]\s*['\"]?([^'\",)}}\s]+)", text):
            if match[1] not in _NOT_STATED:
                return match[1]
    return ""


def _version(text: str, engine: str) -> str:
    """The release of an engine."""
    pattern = (
        r"LLM engine \(v([\d.]+)|vLLM (?:API server )?version v?([\d.]+)" if engine == _VLLM else r"SGLang v?([\d.]+)"
    )
    match = re.search(pattern, text)
    return next(filter(None, match.groups()), "").rstrip(".") if match else ""


def _gpu(text: str) -> str:
    """The accelerator's name as its driver prints it; empty if the log has none. `nvidia-smi -L` prints it too."""
    match = _GPU.search(text)
    return match[0].strip().replace("_", " ") if match else ""


def _weights(text: str) -> str:
    quantised = _stated(text, ("quantization",))
    if quantised == "mxfp4":
        return "mx"
    return "1" if quantised in _NARROW else quantised or "2"


def _cache(text: str) -> str:
    kept = _stated(text, ("kv_cache_dtype",))
    return "1" if kept.startswith("fp8") else "2"


def _pool(text: str, engine: str) -> str:
    """The KV-cache pool of one device in GiB, as the log states it last."""
    if engine == _SGLANG:
        found = re.findall(r"K size: ([\d.]+) GB, V size: ([\d.]+) GB", text)
        return f"{sum(map(float, found[-1])):g}" if found else _last(r"KV size: ([\d.]+) GB", text)
    return _last(r"Available KV cache memory: ([\d.]+) GiB", text)


def _last(pattern: str, text: str) -> str:
    found = re.findall(pattern, text)
    return found[-1] if found else ""
