"""A row of a table of serving runs becomes a scenario, or is skipped with a named reason."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import field
from typing import Any

import numpy as np

from costmodel.documents.reader.find_documents import stack_of_release
from costmodel.documents.reader.hub_names import shape_of
from costmodel.documents.reader.library import CachedReader, accelerator_named
from costmodel.documents.reader.resolved_scenario import proxy_node, proxy_tree
from costmodel.documents.schemas.model import Model
from costmodel.equations.serving.offline_batch import CHAT_SPREAD
from costmodel.evidence.validate.spelling import CannotModel, needed
from costmodel.exchange.tables.csv_cells import CsvRow, cell_words
from costmodel.ground.counts import LengthLaw
from costmodel.ground.record import record

ENGINES = {
    "vllm": "vllm", "sglang": "sglang", "trtllm": "trt-llm", "tensorrtllm": "trt-llm",
    "optimumhabana": "optimum-habana-inference",
    "transformersneuronx": "neuronx-inference", "neuronxdistributedinference": "neuronx-inference",
}  # fmt: skip
RULES = {
    "engine": "the stack of that engine; vLLM before 0.17 is vllm-0.16",
    "precision": "fp4 is nvfp4 on Blackwell, else 4-bit weights multiplied in 16 bits; int4 is weights alone",
    "expert_precision": "checkpoints of mixtures in 4 bits narrow the routed experts alone, or these and dense MLPs: "
    "attention stays in 16 bits",
    "cache_type": "fp8 of checkpoints in 8 or 4 bits on Blackwell, as recipes have it there; else bf16",
    "traffic": "burst: benchmarks start all their requests at once",
    "prompt_wait": "60 steps with attention DP on TensorRT-LLM, as recipes have it there (enable_balance)",
    "poll": "30 steps of SGLang on Blackwell in rows of InferenceX, 10 under 16 users, as its scripts have it",
    "captured": "all users in rows of InferenceX of more than 256, as its scripts have it (cuda-graph-max-bs)",
    "budget": "of TensorRT-LLM, whose steps take whole prompts, what holds the prompt beside all users where the "
    "default does not, a multiple of 64, as scripts of InferenceX have it (max_num_tokens)",
    "length_share": "1, lengths are those stated",
    "requests": "N of rows whose doubt states 'N requests at once', in place of a concurrency by Little's law",
    "cached_share": "of SGLang's cookbook: of the prompts of one seed, what earlier benchmarks on its page had sent",
    "length_spread": "1.05, and the law of chats, of rows whose doubt names ShareGPT's lengths; 0.58, as "
    "of uniform ones, where there is a cached_share; else 0",
}
_PROMPT_WAIT = 60.0  # steps: attention_dp_config.timeout_iters of InferenceX, and of NVIDIA's own DeepSeek R1

_BUDGET_STEP = 64.0  # tokens
_CAPTURED = 256.0  # sequences for which every engine captures graphs by default on accelerators of 60 GiB and more
# SGLang's bench_serving draws lengths and texts from seed 1 and leaves the prefix cache as it is, so that on one server
# prompts begin as those of any earlier run do. Pages of the cookbook have three pairs of longest prompts and answers,
# each with 10 requests, 80, and 320 or 500, in this order.
UNIFORM = 3**-0.5  # standard deviation over mean of lengths from 1 to the longest
_LONGEST = ((1000, 1000), (1000, 8000), (8000, 1000))
_DRAWN, _OTHER = (10, 80, 320, 500), 320  # requests; one or the other from 320 on
_NEAR = 2.0  # tokens off a printed mean
_POLL, _POLL_OF_FEW, _MANY = 30.0, 10.0, 16.0  # steps: scheduler-recv-interval of InferenceX on Blackwell


@record
class ServingRow:
    """A row as input of a prediction: the scenario without its load, the layout, and the imputed cells."""

    row: CsvRow
    scenario: dict[str, Any]
    layout: tuple[float, float, float, float]  # tp of attention, pp, ep, groups of attention
    lengths: tuple[float, float]  # mean tokens of prompts and of answers
    users: float  # in flight, or in all where the benchmark sends them at once
    learned_positions: bool
    filled: dict[str, str] = field(default_factory=dict)
    launched: dict[str, float] = field(default_factory=dict)  # keys of the engine as the benchmark set them
    cached_share: float = 0.0  # of a prompt's tokens that earlier benchmarks left in the cache

    @property
    def at_once(self) -> bool:
        """Whether the benchmark sends all its requests at once and ends with the last answer."""
        return "requests" in self.scenario["workload"]

    @property
    def gpus(self) -> float:
        """Accelerators of the replica."""
        tp, pp, _, groups = self.layout
        return tp * pp * groups


def serving_row(row: CsvRow, shelf: CachedReader) -> ServingRow:
    """Turns a row into the input of a prediction, or raises the reason why that is impossible."""
    filled: dict[str, str] = {}
    readable(row)
    model = model_of(row, shelf)
    accelerator, node, each = machine_of(row, shelf)
    prompt, output = needed(row, "prompt", "output")
    requests, spread, law = _batch_of_requests(row, filled)
    users = requests or next(needed(row, "concurrency"))
    layout = _layout(row)
    ranks = math.prod(layout) / layout[2]
    share = row.number("length_share") or 1.0
    family = shelf.document("accelerator", accelerator).family
    engine = engine_of(row, filled)
    lengths = (float(max(round(prompt * share), 1)), float(max(round(output * share), 1)))
    found = cached_share(*lengths) if engine == "sglang" and "sgl-cookbook" in row.text("source") else 0.0
    if found:
        spread, filled["length_spread"] = spread or UNIFORM, "uniform"
        filled["cached_share"] = f"{found:.0%}"
    load = {"requests": users} if requests else {"concurrency": users, "traffic": _arrival_pattern(row, filled)}
    scenario = {
        "schema": "costmodel/scenario/v1",
        "title": "row",
        "model": model.name,
        "cluster": {"node": node, "nodes": float(math.ceil(ranks / each))},
        "workload": {
            "kind": "serving",
            "prompt": {"mean": lengths[0], "spread": spread},
            "output": {"mean": lengths[1], "spread": spread, "law": law},
            **load,
            **_number_types(row, model, family, filled),
        },
        "stack": engine,
        "plan": {},
    }
    learned = model.positions == "learned"
    launched = _launched(row, engine, (family, layout[3], users), filled)
    if engine.startswith("trt-llm") and "budget" not in launched:
        whole = _BUDGET_STEP * math.ceil((prompt + users / layout[3]) / _BUDGET_STEP)
        if whole > shelf.document("stack", engine).defaults[-1].budget:
            launched["budget"], filled["budget"] = whole, f"{whole:g} tokens"
    return ServingRow(row, scenario, layout, lengths, users, learned, filled, launched, found)


@functools.cache
def cached_share(prompt: float, output: float) -> float:
    """Share of prompt tokens that earlier benchmarks of the series had sent; 0 where no benchmark has these means.

    >>> [round(cached_share(prompt, 510.0), 2) for prompt in (496.0, 300.0)]
    [0.15, 0.0]
    """
    sent = np.zeros(max(_DRAWN))  # longest beginning of each prompt so far
    for longest in _LONGEST:
        now = sent.copy()
        for count in _DRAWN:
            drawn = np.random.RandomState(1)
            prompts, outputs = (drawn.randint(1, most + 1, size=count) for most in longest)
            sent[0] = max(sent[0], prompts[0])  # its warm-up
            if abs(prompts.mean() - prompt) <= _NEAR and abs(outputs.mean() - output) <= _NEAR:
                return float(np.minimum(sent[:count], prompts).sum() / prompts.sum())
            now[:count] = np.maximum(now[:count], prompts)
            sent = now.copy() if count < _OTHER else sent
        sent = now
    return 0.0


def _batch_of_requests(row: CsvRow, filled: dict[str, str]) -> tuple[float, float, LengthLaw]:
    """Requests that a benchmark sends at once, 0 of a closed loop, the spread of its lengths, and their law."""
    stated, doubt = row.number("requests"), row.text("doubt")
    spread = row.number("length_spread") or 0.0
    if found := re.search(r"\b([1-9][\d,]{0,8}) requests at once\b", doubt):
        stated = stated or float(found[1].replace(",", ""))
        filled["requests"] = f"{stated:g} at once"
    elif row.number("concurrency"):
        stated = None  # of a loop, no more than so many at a time
    if "ShareGPT" not in doubt or spread:
        return stated or 0.0, spread, "log-normal"
    filled["length_spread"] = "of ShareGPT"
    return stated or 0.0, CHAT_SPREAD, "chat"


def readable(row: CsvRow) -> None:
    """Refuse a row with a cell that cannot be read."""
    if row.faults:
        shown = "; ".join(cell_words(fault) for fault in row.faults)
        raise CannotModel("V010", f"line {row.place.line}, {shown}")
    if row.number("dp_attention") is not None and row.number("tp") is None:
        next(needed(row, "tp"))


def machine_of(row: CsvRow, shelf: CachedReader) -> tuple[str, str | dict[str, Any], float]:
    """The accelerator of a row, its node or a proxy node with that accelerator, and the accelerators per node."""
    accelerator = accelerator_named(row.text("gpu"), shelf=shelf)
    stand = proxy_node(shelf, accelerator) if accelerator and shelf.has("accelerator", accelerator) else None
    if stand is None:
        name = row.text("gpu") or "that is not stated (nvidia-smi -L prints it; add that line to a start-up log)"
        raise CannotModel("V001", f"no document of the accelerator {name} and its node")
    each = float(shelf.document("node", stand.node).accelerators)
    return accelerator, proxy_tree(shelf, accelerator, stand), each


def model_of(row: CsvRow, shelf: CachedReader) -> Model:
    """The shipped model with the shape of the model that a row names."""
    stated = row.text("model")
    found = shape_of(stated, sorted(shelf.names("model"))) if stated else ""
    if not found:
        raise CannotModel("V011", f"no document of the model {stated or 'not stated'}")
    document: Model = shelf.document("model", found)
    return document


def _layout(row: CsvRow) -> tuple[float, float, float, float]:
    """The layout of a row (tp, pp, ep, dp_attention); its tp may count the ranks of all attention groups."""
    tp = next(needed(row, "tp"))
    groups, ep = row.number("dp_attention") or 1.0, row.number("ep") or 1.0
    pp, gpus = row.number("pp") or 1.0, row.number("gpus")
    if gpus is not None and gpus < tp * pp:
        raise CannotModel("V012", f"{gpus:g} GPUs hold no tp {tp:g} with {pp:g} stages")
    if gpus is not None and gpus == tp * pp * groups:
        return tp, pp, ep, groups
    if tp % groups:
        raise CannotModel("V012", f"dp_attention {groups:g} does not divide tp {tp:g}")
    return tp / groups, pp, ep, groups


def engine_of(row: CsvRow, filled: dict[str, str]) -> str:
    """The stack of a row's engine and release."""
    stated, version = row.text("engine").lower(), row.text("engine_version") or row.text("version")
    engine = ENGINES.get(re.sub(r"[^a-z]", "", stated), stated)
    if engine not in ENGINES.values():
        raise CannotModel("V013", f"no stack of the engine {stated or 'not stated'}")
    held = stack_of_release(engine, version)
    return filled.setdefault("engine", engine if held is None else held.stack)


def _launched(row: CsvRow, engine: str, load: tuple[str, float, float], filled: dict[str, str]) -> dict[str, float]:
    """Engine settings that published benchmarks use for this GPU family and load."""
    family, groups, users = load
    budget = row.number("max_num_batched_tokens")
    found = {"budget": budget} if budget else {}
    if engine.startswith("trt-llm") and groups > 1:
        filled["prompt_wait"] = f"{_PROMPT_WAIT:g} steps"
        found["prompt_wait"] = _PROMPT_WAIT
    if engine == "sglang" and family.startswith("blackwell") and groups == 1 and "InferenceX" in row.text("source"):
        found["poll"] = _POLL if users >= _MANY else _POLL_OF_FEW
        filled["poll"] = f"{found['poll']:g} steps"
    if users > _CAPTURED and "InferenceX" in row.text("source"):
        found["captured"] = users
        filled["captured"] = f"{users:g} sequences"
    return found


def _arrival_pattern(row: CsvRow, filled: dict[str, str]) -> str:
    """How requests of a closed loop arrive: as the row states it, else in a burst."""
    stated = row.text("traffic").lower()
    if stated in ("burst", "steady"):
        return stated
    return filled.setdefault("traffic", "burst")


def _number_types(row: CsvRow, model: Model, family: str, filled: dict[str, str]) -> dict[str, str]:
    """The number types of products, weights and KV cache that the precision of a row stands for."""
    stated = row.text("precision").lower().replace("-", "_")
    dense, experts = row.text("gemm_type") or stated, row.text("expert_type") or row.text("gemm_type") or stated
    narrow_cache = family.startswith("blackwell") and (stated or dense)[:3] in ("fp8", "fp4", "nvf")
    cache = row.text("cache_type") or filled.setdefault("cache_type", "fp8" if narrow_cache else "bf16")
    mixture = model.has_experts
    if stated == "fp4" or dense in ("nvfp4", "mxfp4", "fp4"):
        return _four_bits(model, family, filled) | {"cache": cache}
    if stated == "int4" or dense.startswith("int4"):
        narrow = {"expert_weights": "int4-g128"} if mixture else {"weights": "int4-g128"}
        return {"precision": "bf16", **narrow, "cache": cache}
    names = {"": "bf16", "bf16": "bf16", "fp16": "fp16", "fp8": "fp8", "fp8_block": "fp8-block"}
    if dense not in names or experts not in names:
        raise CannotModel("V004", f"precision {dense} {experts}")
    found = {"precision": names[dense], "cache": cache}
    if mixture and names[experts] != names[dense]:
        found["expert_precision"] = names[experts]
    return found


def _four_bits(model: Model, family: str, filled: dict[str, str]) -> dict[str, str]:
    """The types of 4-bit checkpoints: only experts in a mixture; Blackwell also multiplies in 4 bits."""
    blackwell = family.startswith("blackwell")
    filled["precision"] = "nvfp4" if blackwell else "bf16"
    if not model.has_experts:
        return {"precision": "nvfp4"} if blackwell else {"precision": "bf16", "weights": "nvfp4"}
    filled["expert_precision"] = filled["precision"]
    if blackwell:
        return {"precision": "bf16", "expert_precision": "nvfp4"}
    return {"precision": "bf16", "expert_weights": "mxfp4"}
