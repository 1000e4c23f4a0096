"""Cells of a measured run that nobody stated, filled by stated rules; every row says which of its cells were."""

from __future__ import annotations

import math
import re
from typing import TypeVar

from costmodel.documents.cells import Row
from costmodel.documents.spelling import accelerator_named
from costmodel.documents.stack import Stack
from costmodel.explore.validate.recipes import FEATURES, RECIPES, RECOMPUTE, Recipe, recipe_says

T = TypeVar("T", str, float, bool)

RULES = {
    "accelerator": "from the name of the gpu; an A100 or A800 of unsaid memory has 80 GB, a V100 16",
    "year": "2022 for BigScience, else that of the source's arXiv number, else the present",
    "gpus": "tp · cp · pp · dp",
    "gpus_per_node": "as the node of that accelerator has them",
    "nic_gbps_per_gpu": "as the node of that accelerator has it",
    "precision": "bf16 where the source leaves it open; fp8 of no recipe is the stack's own, fp8-row where features "
    "name it",
    "ffn": "4 · hidden, of an MLP that is not gated",
    "kv_heads": "as many as heads",
    "head_dim": "hidden / heads",
    "vocab": "50257 (GPT-2), gated models 32000 (Llama)",
    "glu": "not gated",
    "tied_embeddings": "tied until 2022 where the MLP is not gated",
    "tp": "1 under fully sharded data parallel",
    "pp": "1 under fully sharded data parallel",
    "global_batch": "micro_batch · dp · grad_accum",
    "dp_replicate": "dp over the group of FSDP or ZeRO 1 that is named, if that divides it; one node shards where "
    "features say HSDP",
    "micro_batch": "global_batch / (dp · grad_accum); else 1 with a pipeline, without one about 4096 tokens "
    "for each rank of tp, of a model with experts for all of them",
    "vp": "1 without a pipeline, with DeepSpeed's, or where neither column nor schedule tells of it; else the most "
    "chunks, up to 8 (2 until 2021), that divide the layers of the fullest stage, where pp divides the micro-batches",
    "stages": "even; else one layer fewer at both ends, or at the last, if that divides; else the first take the rest; "
    "with NeMo and Megatron-Bridge chunks are full but for the last and, if that is not enough, the first",
    "zero_stage": "the stack's default",
    "seq_parallel": "the stack's default",
    "recompute": "the stack's default; of DeepSeek-V3 what the recipes of NeMo or Megatron-Bridge have; in "
    "dgxc-benchmarking what its launch scripts have for DeepSeek-V3, MaxText and Pax",
    "gradients": "the stack's default; fp16 of fp16 runs until 2021 and with DeepSpeed, bf16 of NeMo and "
    "Megatron-Bridge, and of runs from 2023 on whose software nobody names; in fp16 runs fp16 for bf16",
    "loss": "2 B a logit with Megatron-Bridge, whose recipes take the fused loss of Transformer Engine",
    "fp8_param_gather": "on in fp8 and mxfp8 runs of NeMo and Megatron-Bridge: no 16-bit weights are kept",
    "shape": "as the shipped model whose name the row's begins with, where hidden, n_experts, topk and moe_ffn agree: "
    "shared experts, latent attention, node limit, and where all its layers are there windows too; of a dense one "
    "layers that are not all alike, where hidden and layers agree",
    "mtp": "multi-token prediction as in that model, where all its layers are there and no note says without",
    "moe_ffn": "ffn",
    "ep": "1",
    "etp": "1 with Megatron-Bridge, else tp, as Megatron-Core takes it",
    "compile": "false with torchtitan, which compiles when told to",
    "kernel": "flash attention without a version by year, 1 until 2023, else 2, where the stack has none; unfused in "
    "Pax/JAX without Transformer Engine, where nothing fused is named; what no rule knows is the stack's",
    "features": "of experts with Megatron-Bridge, where no recipe is known, as those of that release have it for the "
    "model, accelerator and precision: the dispatcher, tokens sent beside compute, a graph that holds the experts; of "
    "DeepSeek-V3 in dgxc-benchmarking's NeMo tokens dropped, in its 25.05 on Blackwell attention that is not fused",
    "imbalance": "1, tokens spread evenly over experts",
    "expert_host": "none where a graph holds the experts",
    "deduplicated": "where features name DeepEP or HybridEP; not where they name the plain all-to-all, tokens are "
    "dropped or a known recipe names neither; else as the stack does it",
    "overlap.ep": "as of data parallelism where features name it, else the stack's",
    "flops_convention": "model FLOP with full attention",
}

PRESENT, LAST_OF_2021, LAST_UNFUSED = 2024.0, 2021, 2022
USUAL_TOKENS = 4096.0
_GROUP = re.compile(r"(?:FSDP group|zero1_group)=([1-9]\d*)")
_GRAPHED = re.compile(r"full_iteration|cuda_graph\w*=local(?!:\[[^]])")  # a list of scopes leaves the experts out
_RECIPE = re.compile(r"\brecipe \S+@")
_ARXIV = re.compile(r"\b(\d\d)(0[1-9]|1[0-2])\.\d{4,5}\b")


class Filling:
    """The cells of one row, and what was put into those that were empty."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.filled: dict[str, str] = {}

    def put(self, name: str, value: T) -> T:
        """A value nobody stated."""
        self.filled[name] = f"{value:g}" if isinstance(value, float) else str(value).lower()
        return value

    def number(self, name: str, default: float) -> float:
        """The cell, or the default."""
        value = self.row.number(name)
        return self.put(name, default) if value is None else value

    def flag(self, name: str, default: bool) -> bool:
        """The cell, or the default."""
        value = self.row.flag(name)
        return self.put(name, default) if value is None else value

    def accelerator(self) -> str:
        """The document of what the run ran on; empty when the gpu has no known name."""
        stated = self.row.text("accelerator")
        known = accelerator_named(stated or self.row.text("gpu"))
        return self.put("accelerator", known) if known and known != stated else known

    def features(self) -> str:
        """The cell; of experts whose recipe nobody matched, what those of that release have."""
        stated = self.row.text("features")
        if stated or self.by_recipe or self.row.text("arch") != "moe":
            return stated
        switched = self._recipe(FEATURES)
        return self.put("features", switched) if switched else ""

    @property
    def said(self) -> str:
        """Features and notes, in small letters."""
        return f"{self.features()};{self.row.text('notes')}".lower()

    @property
    def graphed(self) -> bool:
        """Whether a graph holds whole layers, experts too, so that the host issues next to nothing."""
        return _GRAPHED.search(self.said) is not None

    @property
    def by_recipe(self) -> bool:
        """Whether notes name the recipe of the run, so that features left empty are off."""
        return _RECIPE.search(self.row.text("notes")) is not None

    def recompute(self, stack: Stack) -> str:
        """The cell; what the recipe of that model has; the stack's default."""
        return self.row.text("recompute") or self.put("recompute", self._recipe(RECOMPUTE) or stack.recompute[0])

    def _recipe(self, recipes: tuple[Recipe, ...]) -> str:
        software, model, precision = map(self.row.text, ("framework", "model_name", "precision"))
        return recipe_says(recipes, software, model, self.accelerator(), precision)

    def year(self) -> int:
        """Of the software."""
        stated = self.row.number("year")
        if stated is not None:
            return int(stated)
        source = self.row.text("source")
        if "BigScience" in source:
            return int(self.put("year", 2022.0))
        number = _ARXIV.search(source)
        return int(self.put("year", 2000.0 + float(number[1]) if number else PRESENT))

    def precision(self, stack: Stack) -> str:
        """The cell; fp8 alone is scaled as the stack does it."""
        written, features = self.row.text("precision"), self.row.text("features")
        if written != "fp8" and "float8" not in features:
            return written
        if "rowwise" in features:
            return "fp8-row"
        return stack.low_precision.recipes[0] if stack.low_precision else "fp8"

    @property
    def told(self) -> str:
        """Where the software is named."""
        return f"{self.row.text('framework')} {self.row.text('source')}"

    def by_nvidia(self) -> bool:
        """Whether a recipe of NeMo or Megatron-Bridge ran; dgxc-benchmarking's are, unless they name other software."""
        named = any(name in self.told for name in RECIPES)
        return named or (not self.row.text("framework") and "dgxc-benchmarking" in self.told)

    def gradients(self, stack: Stack) -> str:
        """The type of gradients, where features or notes name it."""
        default: str = stack.gradients
        said = f"{self.row.text('features')} {self.row.text('notes')}"
        named = next((kind for kind in ("fp32", "fp16", "bf16") if f"{kind} grad" in said), None)
        framework, told = self.row.text("framework"), self.told
        whole = any(name in told for name in ("DeepSpeed", "GPT-NeoX")) or self.year() <= LAST_OF_2021
        if self.row.text("precision") in ("fp16", "fp16/bf16") and whole:
            default = "fp16"
        unnamed = stack.name == "megatron-core" and not framework and "megatron" not in told.lower()
        if unnamed or self.by_nvidia():
            default = "bf16"
        if default == "bf16" and self.row.text("precision") == "fp16":
            default = "fp16"
        return named or self.put("gradients", default)


def micro_batch(filling: Filling, global_batch: float, dp: float, usual: float) -> float:
    """The cell; else what accumulation leaves; else the rule's, reduced until the batch is a whole number of them."""
    row = filling.row
    stated, accumulated = row.number("micro_batch"), row.number("grad_accum")
    if stated is not None:
        return stated
    share = global_batch / dp
    if accumulated is not None and (share / accumulated).is_integer():
        return filling.put("micro_batch", share / accumulated)
    wanted = max(1.0, float(round(usual)))
    while wanted > 1 and not (share / wanted).is_integer():
        wanted -= 1
    return filling.put("micro_batch", wanted)


def replicas(filling: Filling, dp: float) -> float:
    """Replicas of the shards: as the group of FSDP or ZeRO 1 that is named leaves them, else one."""
    row = filling.row
    named, node = _GROUP.search(f"{row.text('features')} {row.text('notes')}"), row.number("gpus_per_node")
    group = float(named[1]) if named else node if "HSDP" in row.text("features") and node else dp
    if group >= dp:
        return 1.0
    return filling.put("dp_replicate", 1.0 if dp % group else dp / group)


def chunks(filling: Filling, stack: str, layers: float, pp: float, count: float, *, looped: bool) -> float:
    """Model chunks per rank: the cell, or the most that divide a stage's layers where pp divides the micro-batches."""
    stated = filling.row.number("vp")
    if pp == 1:
        return 1.0 if stated in (None, 1.0) else filling.put("vp", 1.0)
    if stated is not None:
        return stated
    most = 2 if filling.year() <= LAST_OF_2021 else 8
    fullest = math.ceil(layers / pp)
    said = looped or "vp" in filling.row.written
    legal = said and "deepspeed" not in stack and math.fmod(count, pp) == 0
    return filling.put("vp", float(max(v for v in range(1, most + 1) if v == 1 or (legal and fullest % v == 0))))


def split(filling: Filling, layers: float, chunks: float) -> str:
    """How the layers went to the stages, which no table says."""
    if layers % chunks == 0:
        return "even"
    if (layers + 2) % chunks == 0:
        return filling.put("stages", "lighter-ends")
    if (layers + 1) % chunks == 0:
        return filling.put("stages", "lighter-last")
    missing = -layers % chunks
    full = filling.by_nvidia() and missing < 2 * math.ceil(layers / chunks)
    return filling.put("stages", "full-chunks" if full else "spread")
