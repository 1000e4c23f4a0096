"""Cells that a row leaves empty, by rules that follow its software, year and model."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, TypeVar, get_args

from costmodel.documents.reader.hub_names import squeezed
from costmodel.documents.reader.library import CachedReader, accelerator_named
from costmodel.documents.schemas.base import ReleaseLaunch, Releases
from costmodel.documents.schemas.model import Layers, Model
from costmodel.documents.schemas.precision import Narrow
from costmodel.documents.schemas.stack import AXES, Compile, Stack
from costmodel.estimate.model.shards import layer_count
from costmodel.evidence.validate.spelling import DELAYED, OPEN, precision_of, recompute_of, schedule_of, ulysses
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.exchange.tables.run_table import SHAPE
from costmodel.ground.units import Figure

_RELEASE = r" v?(\d\d\.\d\d(?:\.\d\d)?)"


Setting = Literal["features", "recompute", "plan"]


def launch_says(
    column: Setting,
    software: str,
    model: str,
    accelerator: str,
    precision: str,
    shelf: CachedReader,
    table: str = "",
) -> str:
    """The default that a launch script of the software has for a cell; empty if no launch matches."""
    asked = (column, software, model, accelerator, precision, table)
    if asked not in shelf.launched:
        matching = (
            launch.value
            for launch, release in _launches(column, software, table, shelf)
            if squeezed(model).startswith(squeezed(launch.model))
            and (not launch.accelerators or accelerator in launch.accelerators)
            and _is_in_range(launch, release)
            and launch.precision in (None, precision)
        )
        shelf.launched[asked] = next(matching, "")
    return shelf.launched[asked]


def planned(written: str, ranks: float | None) -> Iterator[tuple[str, float]]:
    """The cells of a launch's plan with their numbers; some need the number of GPUs."""
    for cell in filter(None, written.split(";")):
        name, _, value = cell.partition("=")
        number, _, each = value.partition("/")
        if each and ranks is None:
            continue
        yield name, float(number) * (ranks or 1.0) if each else float(number)


def _launches(column: str, software: str, table: str, shelf: CachedReader) -> Iterator[tuple[ReleaseLaunch, str]]:
    """The default launches of a software, each with its release."""
    for name in sorted(shelf.names("release")):
        document: Releases = shelf.document("release", name)
        for launched in document.launches:
            named = re.search(f"{re.escape(launched.software)}(?:{_RELEASE})?", software)
            if named and launched.table in table:
                yield from ((launch, named[1] or "") for launch in getattr(launched, column))


def _is_in_range(launch: ReleaseLaunch, release: str) -> bool:
    """Whether a release is in the range of a launch, including patches of the last."""
    first, last = launch.first or "", launch.last
    return first <= release and (last is None or release[: len(last)] <= last)


T = TypeVar("T", str, float, bool)

RULES = {
    "accelerator": "from the name of the gpu and gpu_mem_gb; where that is empty, an A100 has 80 GB, a V100 16",
    "stack": "the one that framework, or else source, names in other words; fully sharded data parallel of PyTorch by "
    "year, 1 until 2023, else 2; all other software as Megatron, by year until 2022; of Megatron-LM, of which no word "
    "states whether it overlaps, the middle of its defaults and of Megatron-Core, with both in the band",
    "year": "2022 for BigScience, else that of the source's arXiv number, else 2024",
    "gpus": "tp · cp · pp · dp",
    "gpus_per_node": "as the node of that accelerator has them",
    "nic_gbps_per_gpu": "as the node of that accelerator has it",
    "precision": "bf16, on parts without it fp16, where the source leaves it open; fp8 of no recipe is the stack's "
    "own, fp8-row where features name it",
    "ffn": "the shipped model's, see shape; else moe_ffn, or of an MLP that is not gated 4 · hidden",
    "kv_heads": "the shipped model's, see shape; else as many as heads, one of MQA",
    "head_dim": "the shipped model's, see shape; else hidden / heads",
    "vocab": "the shipped model's, see shape; else 50257 (GPT-2), of gated models 32000 (Llama)",
    "glu": "the shipped model's, see shape; else not gated",
    "tied_embeddings": "the shipped model's, see shape; else tied until 2022 where the MLP is not gated",
    "n_experts": "the shipped model's, see shape",
    "topk": "the shipped model's, see shape",
    "fsdp": "with torchtitan and all software named FSDP but Megatron's",
    "tp": "what dp, pp and cp leave of gpus; 1 under fully sharded data parallel",
    "pp": "what dp, tp and cp leave of gpus; 1 under fully sharded data parallel",
    "cp": "what dp, tp and pp leave of gpus; 1 where one of them is not stated either",
    "global_batch": "micro_batch · dp · grad_accum",
    "dp_replicate": "dp over the group of FSDP or ZeRO 1 that is named, if that divides it; one node shards where "
    "features name HSDP",
    "seq_len": "as the launch script of the software has it for the model, see plan",
    "plan": "tp, pp, ep, zero_stage, micro_batch, global_batch and seq_len of Primus, Megatron-DeepSpeed on Gaudi, "
    "neuronx-nemo-megatron, and llm-foundry on AMD and Gaudi, as their published scripts have them for the model, "
    "where a cell is empty",
    "micro_batch": "global_batch / (dp · grad_accum); else 1 with a pipeline, without one about 4096 tokens "
    "for each rank of tp, of a model with experts for all of them; with torchtitan global_batch / dp, in a pipeline of "
    "2024 one for each stage; the band holds 1, 2, 4 and 8, as far as they divide and fit in memory",
    "vp": "1 without a pipeline, with DeepSpeed's or one named 1F1B, or where neither column nor schedule gives it; "
    "else the most chunks, up to 8 (2 until 2021), that divide the layers of the most loaded stage and leave "
    "none but the "
    "ends empty, where pp divides the micro-batches; of an interleaved schedule 2 at least; the band "
    "holds all that could be",
    "schedule": "1F1B, interleaved where vp is more than 1; of HAI-LLM DualPipe, where pp is even, divides the "
    "layers and there are twice as many micro-batches; of one that is named but not known the middle of "
    "all that the stack has, with their range in the band",
    "stages": "even; else one layer fewer at both ends, or at the last, if that divides; else the first take the rest; "
    "with NeMo and Megatron-Bridge chunks are full but for the last and, if that is not enough, the first",
    "zero_stage": "that of ZeRO the software names; under fully sharded data parallel 3, with a pipeline 2; of "
    "Megatron-LM 1, as its published scripts switch the distributed optimizer on; else the stack's default",
    "seq_parallel": "the stack's default",
    "recompute": "the stack's default; of DeepSeek-V3 what the recipes of NeMo or Megatron-Bridge have; in "
    "dgxc-benchmarking what its launch scripts have for DeepSeek-V3, MaxText and Pax",
    "gradients": "the stack's default; fp16 of fp16 runs until 2021 and with DeepSpeed, bf16 of NeMo and "
    "Megatron-Bridge, and of runs from 2023 on without a named software; in fp16 runs fp16 for bf16",
    "loss": "2 B a logit with Megatron-Bridge, whose recipes take the fused loss of Transformer Engine; chunked with "
    "torchtitan from 2026 on, whose configurations have it since April",
    "fp8_param_gather": "on in fp8 and mxfp8 runs of NeMo and Megatron-Bridge: no 16-bit weights are kept",
    "layers": "the shipped model's, where hidden and heads are empty too",
    "hidden": "the shipped model's, where layers and heads are empty too",
    "heads": "the shipped model's, where layers and hidden are empty too",
    "shape": "as the shipped model whose name the row's begins with, where every cell of the shape that is stated "
    "agrees: those that are empty, shared experts, latent attention, groups, and where all its layers are there "
    "windows too; of a dense one also positions, norms and biases, which no column states",
    "low_precision": "with software whose stack has no fp8, as torchtitan has it",
    "mtp": "multi-token prediction as in that model, where all its layers are there and no note denies it",
    "moe_ffn": "the shipped model's, see shape; else ffn",
    "ep": "1 under fully sharded data parallel, else the most ranks up to 64 that divide experts and stage",
    "etp": "1 with Megatron-Bridge, else tp, as Megatron-Core takes it, where ep · tp divides the stage",
    "compile": "false with torchtitan, where compilation is optional",
    "kernel": "flash attention without a version by year, 1 until 2023, else 2, where the stack has none; unfused in "
    "Pax/JAX without Transformer Engine, where nothing fused is named; what no rule knows is the stack's",
    "features": "of experts with Megatron-Bridge, where no recipe is known, as those of that release have it for the "
    "model, accelerator and precision: the dispatcher, tokens sent beside compute, a graph that holds the experts; in "
    "dgxc-benchmarking of DeepSeek-V3 in NeMo tokens dropped, in its 25.05 on Blackwell attention that is not fused, "
    "of Pax the ranks that share one copy",
    "imbalance": "1, tokens spread evenly over experts",
    "deduplicated": "where features name DeepEP or HybridEP; not where they name the plain all-to-all, tokens are "
    "dropped or a known recipe names neither; else as the stack does it",
    "overlap.ep": "as of data parallelism where features name it, else the stack's",
    "flops_convention": "model FLOP with full attention",
}

BY_RECIPE = ("NeMo", "Megatron-Bridge")
UNSAID, LAST_OF_2021, LAST_UNFUSED = 2024.0, 2021, 2022
USUAL_TOKENS = 4096.0
_GRAPHED = re.compile(r"full_iteration|cuda_graph\w*=local(?!:\[[^]])")  # a list of scopes leaves the experts out
_ZERO = re.compile(r"\bzero[\s_-]?(?:stage[\s_-]?)?([0-3])\b")
_RECIPE = re.compile(r"\brecipe \S+@")
_ARXIV = re.compile(r"\b(\d\d)(0[1-9]|1[0-2])\.\d{4,5}\b")


class Filling:
    """The cells of one row, with imputed values for empty cells."""

    def __init__(self, row: CsvRow, shelf: CachedReader) -> None:
        self.row = row
        self.shelf = shelf
        self.filled: dict[str, str] = {}

    def put(self, name: str, value: T) -> T:
        """Stores an imputed value of a cell, and returns it."""
        self.filled[name] = f"{value:g}" if isinstance(value, float) else str(value).lower()
        return value

    def infer(self, name: str, value: float) -> float:
        """Stores a value that the other cells imply; it counts as stated from now on."""
        self.row = replace(self.row, cells={**self.row.cells, name: value})
        return self.put(name, value)

    def number(self, name: str, default: float) -> float:
        """The number in a cell; an empty cell is imputed with the default."""
        value = self.row.number(name)
        return self.put(name, default) if value is None else value

    def flag(self, name: str, default: bool) -> bool:
        """The yes or no in a cell; an empty cell is imputed with the default."""
        value = self.row.flag(name)
        return self.put(name, default) if value is None else value

    def accelerator(self) -> str:
        """The accelerator document of the run; empty where the gpu has no known name."""
        stated, memory = self.row.text("accelerator"), self.row.number("gpu_mem_gb")
        known = accelerator_named(stated or self.row.text("gpu"), memory, self.shelf)
        return self.put("accelerator", known) if known and known != stated else known

    def maker(self) -> str:
        """The maker of that accelerator; empty where it has no document."""
        name = self.accelerator()
        return str(self.shelf.document("accelerator", name).vendor) if self.shelf.has("accelerator", name) else ""

    def features(self) -> str:
        """The features cell; without a matching recipe, the defaults of that release for the model."""
        stated = self.row.text("features")
        if stated or self.by_recipe:
            return stated
        switched = self._launch_says("features")
        return self.put("features", switched) if switched else ""

    @property
    def said(self) -> str:
        """The cells `features` and `notes` together, in lower case."""
        return f"{self.features()};{self.row.text('notes')}".lower()

    @property
    def graphed(self) -> bool:
        """Whether a CUDA graph covers whole layers, experts too, so that the host issues almost nothing."""
        return _GRAPHED.search(self.said) is not None

    @property
    def by_recipe(self) -> bool:
        """Whether notes name the run's recipe, so that features which are not mentioned are off."""
        return _RECIPE.search(self.row.text("notes")) is not None

    def recompute(self, stack: Stack) -> str:
        """The cell; else the default of the model's recipe; else the stack's default."""
        return self.row.text("recompute") or self.put("recompute", self._launch_says("recompute") or stack.recompute[0])

    def planned(self) -> None:
        """Fills empty cells of layout and batch with the defaults of the software's launch script."""
        ranks = self.row.number("gpus")
        for name, value in planned(self._launch_says("plan"), ranks):
            implied = name == "global_batch" and self.row.number("grad_accum") is not None
            if self.row.number(name) is None and not implied:
                self.infer(name, value)

    def _launch_says(self, column: Setting) -> str:
        software, model, table = map(self.row.text, ("framework", "model_name", "source"))
        return launch_says(column, software, model, self.accelerator(), precision_of(self.row), self.shelf, table)

    def sharded(self) -> bool:
        """Whether the run used fully sharded data parallelism: from the cell, or from the software's name."""
        stated, framework = self.row.flag("fsdp"), self.row.text("framework").lower()
        if stated is not None:
            return stated
        named = "torchtitan" in framework or ("fsdp" in framework and "megatron" not in framework)
        return self.put("fsdp", named) if named else False

    def zero(self, stack: Stack) -> float:
        """The ZeRO stage that the cell states.

        Else the stage that framework or features name; else 3 with full sharding, 2 in a pipeline, which gathers
        weights once; 1 of Megatron-LM, as in its published scripts; else the stack's default.
        """
        named = _ZERO.search(f"{self.row.text('framework')} {self.row.text('features')}".lower())
        stages = self.row.number("pp") or 1.0
        default = 1.0 if stack.name == "megatron-lm" else float(stack.zero_with(stages)[0])
        usual = default if not self.sharded() else 3.0 if stages == 1 else 2.0
        return self.number("zero_stage", float(named[1]) if named else usual)

    def year(self) -> int:
        """The year of the software."""
        stated = self.row.number("year")
        if stated is not None:
            return int(stated)
        source = self.row.text("source")
        if "BigScience" in source:
            return int(self.put("year", 2022.0))
        number = _ARXIV.search(source)
        return int(self.put("year", 2000.0 + float(number[1]) if number else UNSAID))

    def precision(self, stack: Stack) -> str:
        """The cell; plain fp8 has the stack's scaling recipe."""
        named, features = precision_of(self.row), self.row.text("features")
        if named != "fp8" and "float8" not in features:
            return "fp8" if named == DELAYED else named
        if "rowwise" in features:
            return "fp8-row"
        return stack.low_precision.recipes[0] if stack.low_precision else "fp8"

    @property
    def told(self) -> str:
        """The cells that name the software, in lower case."""
        return f"{self.row.text('framework')} {self.row.text('source')}"

    def by_nvidia(self) -> bool:
        """Whether NeMo or Megatron-Bridge ran; dgxc-benchmarking uses them, unless it names other software."""
        named = any(name in self.told for name in BY_RECIPE)
        return named or (not self.row.text("framework") and "dgxc-benchmarking" in self.told)

    def gradients(self, stack: Stack, precision: str) -> str:
        """The type of gradients, where features or notes name it."""
        default: str = stack.gradients
        said = f"{self.row.text('features')} {self.row.text('notes')}"
        named = next((kind for kind in ("fp32", "fp16", "bf16") if f"{kind} grad" in said), None)
        framework, shown = self.row.text("framework"), self.told
        whole = any(name in shown for name in ("DeepSpeed", "GPT-NeoX")) or self.year() <= LAST_OF_2021
        if precision_of(self.row) in ("fp16", OPEN) and whole:
            default = "fp16"
        unnamed = stack.name == "megatron-core" and not framework and "megatron" not in shown.lower()
        if unnamed or self.by_nvidia():
            default = "bf16"
        if default == "bf16" and precision == "fp16":
            default = "fp16"
        return named or self.put("gradients", default)


# Finds the shipped model that the name of a row means, to fill missing columns.

_WITHOUT_CELL = ("positions", "norm", "embedding_norm")  # facts of a model for which tables have no column
_FLAGS = ("glu", "tied_embeddings")


def completed(row: CsvRow, shelf: CachedReader) -> tuple[CsvRow, dict[str, str]]:
    """A row whose empty shape cells are filled from the shipped model of its name, if all other cells agree.

    And the list of filled cells.
    """
    model = _model_named(row, shelf)
    if model is None or (model.has_experts and row.text("arch").lower() == "dense"):
        return row, {}
    shape = _common_shape(model)
    alike = row.number("heads") if row.text("attention").lower() == "mha" else row.number("kv_heads")
    stated = {name: row.number(name) for name in shape} | {"kv_heads": alike}
    if any(stated[name] not in (None, value) for name, value in shape.items()):
        return row, {}
    if not states_shape(row):
        shape |= {"layers": float(layer_count(model)), "heads": max(_heads(model), default=1.0)}
    known = {name: value for name, value in shape.items() if row.number(name) is None}
    shown = {name: str(bool(value)).lower() if name in _FLAGS else f"{value:g}" for name, value in known.items()}
    return replace(row, cells={**row.cells, **known}), shown | ({"shape": model.name} if known else {})


def _common_shape(model: Model) -> dict[str, float]:
    """The shape cells of a model that all its layers share."""
    shape: dict[str, set[float]] = {"hidden": {model.hidden}, "vocab": {model.vocab}, "tied_embeddings": {model.tied}}
    for kind in model.layers:
        if kind.attention is not None:
            shape.setdefault("kv_heads", set()).add(kind.attention.kv_heads)
            shape.setdefault("head_dim", set()).add(kind.attention.head_dim)
        if kind.mlp is not None:
            shape.setdefault("ffn", set()).add(kind.mlp.ffn_hidden)
        if (feed := kind.mlp or kind.experts) is not None:
            shape.setdefault("glu", set()).add(feed.gated)
        if (experts := kind.experts) is not None:
            cells = {"n_experts": experts.count, "topk": experts.top_k, "moe_ffn": experts.ffn_hidden}
            for name, value in cells.items():
                shape.setdefault(name, set()).add(value)
    return {name: values.pop() for name, values in shape.items() if len(values) == 1}


def known_model(filling: Filling, shelf: CachedReader) -> Model | None:
    """The shipped model of that name with experts, if width, experts and top-k match the row."""
    model = _model_named(filling.row, shelf)
    kind = with_experts(model) if model is not None else None
    if model is None or kind is None or kind.experts is None:
        return None
    experts, row = kind.experts, filling.row
    asked = [row.number(name) for name in ("hidden", "n_experts", "topk", "moe_ffn")]
    if asked != [model.hidden, experts.count, experts.top_k, experts.ffn_hidden]:
        return None
    filling.put("shape", model.name)
    return model


def known_dense(filling: Filling, shelf: CachedReader, dense: dict[str, Any]) -> dict[str, Any]:
    """Missing facts of a dense row, from the shipped model of its name if the layers match."""
    row = filling.row
    model, layers = _model_named(row, shelf), row.number("layers")
    if model is None or model.has_experts or (len(model.layers) > 1 and layers != layer_count(model)):
        return {}
    widths = {"hidden": row.number("hidden"), "ffn": dense["mlp"]["ffn_hidden"], "glu": dense["mlp"]["gated"]}
    widths |= {"kv_heads": dense["attention"]["kv_heads"], "head_dim": row.number("head_dim")}
    if any(widths.get(name) not in (None, value) for name, value in _common_shape(model).items()):
        return {}
    filling.put("shape", model.name)
    kinds = [kind.model_dump(exclude_none=True) for kind in model.layers]
    if len(kinds) == 1:
        kinds[0]["count"] = layers
    return {name: getattr(model, name) for name in _WITHOUT_CELL} | {"layers": kinds}


def known_whole(filling: Filling, shelf: CachedReader) -> dict[str, Any] | None:
    """The shipped model of the row's name, if layers and width match; for rows without standard attention."""
    row, model = filling.row, _model_named(filling.row, shelf)
    if model is None or row.number("layers") != layer_count(model) or row.number("hidden") != model.hidden:
        return None
    filling.put("shape", model.name)
    keys = {name: getattr(model, name) for name in ("vocab", "tied", "positions", "norm")}
    if model.prediction is not None:
        filling.put("mtp", model.prediction.depth)
        keys["prediction"] = model.prediction.model_dump(exclude_none=True)
    return keys | {"layers": [kind.model_dump(exclude_none=True) for kind in model.layers]}


def with_experts(model: Model) -> Layers | None:
    """The layers of a model that have experts."""
    return next((kind for kind in model.layers if kind.experts is not None), None)


def _model_named(row: CsvRow, shelf: CachedReader) -> Model | None:
    """The shipped model whose name starts the row's, ignoring separators, if the attention heads match."""
    name = _matching_name(squeezed(row.text("model_name")), shelf.names("model"))
    model: Model | None = shelf.document("model", name) if name else None
    if model is None:
        return None
    return model if row.number("heads") in _heads(model) or not states_shape(row) else None


def _heads(model: Model) -> set[float]:
    """The numbers of attention heads in the layers of a model."""
    cores = (core for kind in model.layers for core in (kind.attention, kind.latent, kind.compressed))
    return {core.heads for core in cores if core is not None}


def states_shape(row: CsvRow) -> bool:
    """Whether a row has any cell of a model's depth and width; else its name alone is the model."""
    return any(row.number(name) is not None for name in SHAPE)


@functools.lru_cache(maxsize=1024)
def _matching_name(name: str, known: frozenset[str]) -> str:
    """The longest of these names that this one begins with, else the only one that begins with it."""
    if name in _OTHER_NAMES:
        return _OTHER_NAMES[name]
    longest = max((each for each in known if name.startswith(squeezed(each))), key=len, default="")
    longer = [each for each in known if squeezed(each).startswith(name)] if len(name) >= _SHORTEST_PREFIX else []
    return longest or (longer[0] if len(longer) == 1 else "")


_OTHER_NAMES = {"deepseekv316b": "deepseek-v2-lite"}  # a flavour of torchtitan's
_SHORTEST_PREFIX = 12  # letters of a name that is cut short


# Words of a framework's name, and the stack they mean.
NAMED = (
    ("neuronx", "neuronx-distributed"),
    ("optimum-habana", "optimum-habana"),
    ("megatron-deepspeed", "megatron-deepspeed"),
    ("bigscience", "megatron-deepspeed"),
    ("gpt-neox", "gpt-neox"),
    ("internevo", "internevo"),
    ("hai-llm", "hai-llm"),
    ("pytorch ddp", "ddp"),
    ("deepspeed", "deepspeed"),
    ("llm-foundry", "llm-foundry"),
    ("maxtext", "maxtext"),
    ("jax", "maxtext"),
    ("pax", "maxtext"),
    ("levanter", "maxtext"),
    ("axlearn", "maxtext"),
    ("t5x", "maxtext"),
)
# Makers whose compiler runs some of them otherwise, and the stack that has it.
BY_MAKER = {
    ("maxtext", "Google"): "maxtext-tpu",
    ("maxtext", "AMD"): "maxtext-rocm",
    ("deepspeed", "Intel"): "megatron-deepspeed-gaudi",
    ("megatron-deepspeed", "Intel"): "megatron-deepspeed-gaudi",
}
# What rows that state torch.compile compile of each stack: the whole model, or each block within what shards it.
COMPILED: dict[str, Compile] = {
    "ddp": "model",
    "fsdp1": "blocks",
    "fsdp2": "blocks",
    "torchtune": "blocks",
}
# Words of features and notes, and the leaf of the stack they set.
SWITCHES: tuple[tuple[str, str, str, Any], ...] = (
    ("no flash attention", "kernels", "attention", "unfused"),
    ("overlap off", "overlap", "dp", 0.0),
    ("async tp", "kernels", "copied", False),  # its products write what they exchange in order
)
# Words of a cell that names the attention kernel: of those that fuse it, and of those that write its scores out.
FUSED = ("flash", "sdpa", "cudnn", "xformers", "dotproduct", "compile")
UNFUSED = ("softmax", "torch", "megatron", "unfused", "eager")
_FLASH = re.compile(r"(?:flash[\s_-]*(?:attn|attention)?|\bfa)[\s_=(-]*v?([123])(?!\d)")
_UNCOMPILED = re.compile(r"\b(?:no|not|without) (?:torch\.)?compile")
_NOT = re.compile(r"\b(?:no|not|without)\b")
LAST_FLAT = 2023
CHUNKED_SINCE = 2026  # ChunkedCELoss in the configurations of torchtitan, since pull request 2937 of April 2026
IN_PLACE = Figure(2.0)  # bytes a logit: Transformer Engine's loss writes the gradient over the 16-bit logits
PARAM_GATHER = ("fp8", "fp8-cs", "mxfp8")  # all their fp8 recipes but that of weights in blocks


def stack_name(filling: Filling) -> str:
    """The stack of a run: the one that its framework names, or its proxy."""
    stated = filling.row.text("framework")
    return stated if filling.shelf.has("stack", stated) else filling.put("stack", _proxy_stack(filling))


def _proxy_stack(filling: Filling) -> str:
    """The stack that stands for a framework without its own: sharded ones by year, else Megatron's by year."""
    row, year = filling.row, filling.year()
    framework = (row.text("framework") or row.text("source")).lower()
    if "primus" in framework:
        return "primus"
    if "zero bubble" in row.text("source").lower() or "+ zb-" in framework or "schedule=zb" in filling.said:
        return "zero-bubble"  # its 1F1B too: its memory grows with the micro-batch as unfused attention's
    named = next((stack for words, stack in NAMED if words in framework), None)
    if named:
        return BY_MAKER.get((named, filling.maker()), named)
    if filling.sharded() and not any(name in framework for name in ("megatron", "nemo")):
        return "fsdp1" if year <= LAST_FLAT or "pytorch fsdp" in framework else "fsdp2"
    if year <= LAST_UNFUSED:
        return "megatron-2021"
    return "megatron-lm" if framework.startswith("megatron-lm") and not _has_overlap(filling) else "megatron-core"


def _is_compiled(filling: Filling, stack: Stack) -> bool:
    """Whether kernels are compiled: as a row states, else as in the stack; in torchtitan only where a row states it."""
    said = filling.said
    if "compile" in said:
        return not _UNCOMPILED.search(said)
    usual = stack.compile not in (None, "none")
    if filling.row.text("framework") == stack.name:
        return usual
    if filling.row.text("features"):
        return False
    if "torchtitan" in filling.row.text("framework").lower():
        return filling.put("compile", False)
    return usual


def _has_overlap(filling: Filling) -> bool:
    return "overlap enabled" in filling.said


def stack_of(filling: Filling, shelf: CachedReader) -> Stack:
    """The stack of a run, with the settings that its row states."""
    stack: Stack = shelf.document("stack", stack_name(filling))
    said = filling.said
    for words, group, leaf, value in SWITCHES:
        if words in said:
            stack = _with_value(stack, group, leaf, value)
    if filling.graphed:
        stack = _with_value(stack, "launch", "graphs", True)
    if stack.name in COMPILED:
        stack = stack.chosen("compile", COMPILED[stack.name] if _is_compiled(filling, stack) else "none")
    if "torchtitan" in filling.told.lower() and filling.year() >= CHUNKED_SINCE:
        stack = stack.chosen("loss", filling.put("loss", "chunked"))
    attention = _attention(filling, stack)
    if attention != stack.kernels.attention:
        stack = _with_value(stack, "kernels", "attention", attention)
    if stack.low_precision and filling.by_nvidia() and filling.precision(stack) in PARAM_GATHER:
        on = filling.put("fp8_param_gather", True)
        for leaf, value in (("primary", on), ("gather", [filling.precision(stack)])):
            stack = _with_value(stack, "low_precision", leaf, value)
    if "Megatron-Bridge" in filling.told:
        stack = _with_value(stack, "buckets", "loss", filling.put("loss", IN_PLACE))
    return _stack_with_stated(stack, filling, shelf)


def _attention(filling: Filling, stack: Stack) -> str:
    """The attention kernel: from the cell, flash attention without a version by year; else the stack's."""
    named, usual = filling.row.text("kernel").lower(), stack.kernels.attention
    version, fused = _FLASH.search(named), any(word in named for word in FUSED)
    if fused and _NOT.search(named):
        return "unfused"
    if version is not None:
        return f"flash-{version[1]}"
    if not fused and any(word in named for word in UNFUSED):
        return "unfused"
    fused = fused or "flashattention" in filling.said
    if not fused and _is_plain_pax(filling):
        return filling.put("kernel", "unfused")
    if usual == "unfused" and fused:
        usual = "flash-1" if filling.year() <= LAST_FLAT else "flash-2"
    return filling.put("kernel", usual) if named else usual


def _is_plain_pax(filling: Filling) -> bool:
    """Whether Pax ran on plain JAX, which has fused attention only with Transformer Engine."""
    framework = filling.row.text("framework").lower().replace(" ", "")
    return "pax/jax" in framework and "transformerengine" not in framework


def _stack_with_stated(stack: Stack, filling: Filling, shelf: CachedReader) -> Stack:
    """The stack, extended by what the row states and the stack would refuse, since the run happened."""
    row, written = filling.row, filling.row.text("recompute")
    precision, narrow = filling.precision(stack), stack.low_precision
    if precision in get_args(Narrow) and precision not in (narrow.recipes if narrow else ()):
        narrow = narrow or shelf.document("stack", filling.put("low_precision", "fsdp2")).low_precision
        assert narrow is not None
        stack = stack.model_copy(update={"low_precision": narrow})
        stack = _with_value(stack, "low_precision", "recipes", [precision, *narrow.recipes])
    cut = (row.number("cp") or 1.0) > 1
    stated = {
        "zero": filling.zero(stack),
        "recompute": recompute_of(written).mode if written else "",
        "schedules": schedule_of(row) or ("interleaved" if (row.number("vp") or 1.0) > 1 else ""),
        "context_parallel": "a2a" if ulysses(row) else "p2p" if cut and not stack.context_parallel else "",
    }
    if stack.pipelined_zero:
        stated["pipelined_zero"] = stated["zero"]
    offered = {name: getattr(stack, name) for name in stated}
    more: dict[str, Any] = {
        name: [*offered[name], one] for name, one in stated.items() if one not in ("", *offered[name])
    }
    if stack.layouts is not None:
        lacked: dict[str, str] = {
            axis: "a run had it" for axis in AXES if (row.number(axis) or 1.0) > 1 and not stack.has(axis)
        }
        more["layouts"] = stack.layouts.model_copy(update=lacked)
    return stack.model_copy(update=more)


def _with_value(stack: Stack, group: str, leaf: str, value: Any) -> Stack:
    """A copy of the stack with one value changed."""
    return stack.model_copy(update={group: getattr(stack, group).model_copy(update={leaf: value})})
