"""Families with Mamba-1 mixers, alone or among layers of attention."""

from __future__ import annotations

from collections.abc import Sequence

from costmodel.exchange.huggingface.families.llama import LLAMA
from costmodel.exchange.huggingface.family import Config, DerivedValue, Fact, LayerHalves, Refusal, option, single_half
from costmodel.exchange.huggingface.patterns import HIDDEN_BY_HEADS, assumed_value, layer_count
from costmodel.exchange.import_result import OriginValue

YES, NO = Fact(True), Fact(False)
_QUIET = (
    "intermediate_size", "time_step_scale", "time_step_min", "time_step_max", "time_step_init_scheme",
    "time_step_floor", "rescale_prenorm_residual", "use_mambapy", "use_falcon_mambapy", "use_associative_scan",
    "residual_in_fp32", "mixer_rms_eps",
)  # fmt: skip
_BIASED_CONVOLUTION = "the convolution of the document's selective scan has a bias"


def _inner_width(config: Config) -> OriginValue:
    wide = config["expansion"].value
    inner = int(config.number("hidden") * wide) if isinstance(wide, int | float) else 1
    return config.derived(max(1, inner), "expand x hidden size", "expansion", "hidden")


def _rank(config: Config) -> OriginValue:
    """The rank as stated, else a sixteenth of the hidden size."""
    written = config["written_rank"]
    if written.value is not None and written.value != "auto":
        return written
    return config.derived(-(-config.number("hidden") // 16), "hidden size / 16, rounded up", "hidden")


INNER = DerivedValue("expand x hidden size", _inner_width)
RANK = DerivedValue("as stated, else hidden size / 16, rounded up", _rank)


def _every(config: Config, step: str, first: str) -> list[bool]:
    """Whether each layer belongs to a pattern with this period and offset."""
    period, offset = config.number(step), int(config[first].value or 0)
    if offset >= period:
        sentence = f"the {offset + 1}. of every {period} layers is asked for"
        config.refuse("X005", sentence, config[first].place, "an offset is less than its period")
    return [index % max(period, 1) == offset for index in range(layer_count(config))]


def _jamba_layers(config: Config) -> Sequence[LayerHalves]:
    """The layers from two periods: attention in one layer of each period, and experts in one layer of each period."""
    attention, sparse = _every(config, "window_pattern", "window_from"), _every(config, "sparse_step", "expert_offset")
    several = config.number("experts") > 1
    return [
        LayerHalves("full" if full else "scan", "experts" if many and several else "mlp")
        for full, many in zip(attention, sparse, strict=True)
    ]


MAMBA = LLAMA.like(
    "mamba", ("MambaForCausalLM",), "MambaConfig", types=("mamba",), vocab=50280, hidden=768, layer_count=32,
    tied=True, max_sequence=assumed_value(1_048_576, "a state space has no longest sequence"),
    without=("heads", "kv_heads", "head_dim", "ffn_hidden", "biases", "output_bias", "mlp_biases"),
    expansion=option("expand", default=2), scan_inner=INNER, scan_state=option("state_size", default=16),
    written_rank=option("time_step_rank", default="auto"), scan_rank=RANK, scan_conv=option("conv_kernel", default=4),
    scan_norms=NO, scan_biases=option("use_bias", default=False),
    layers=lambda config: [LayerHalves("scan", "")] * layer_count(config), build=single_half,
    refusals=(Refusal("use_conv_bias", (True,), _BIASED_CONVOLUTION),), quiet=_QUIET,
)  # fmt: skip

FAMILIES = [
    MAMBA,
    MAMBA.like("falcon_mamba", ("FalconMambaForCausalLM",), "FalconMambaConfig", types=("falcon_mamba",)),
    LLAMA.like(
        "jamba", ("JambaForCausalLM",), "JambaConfig", types=("jamba",), vocab=65536, ffn_hidden=14336,
        kv_heads=option("num_key_value_heads", default=8, null=LLAMA.options["kv_heads"].null),
        head_dim=HIDDEN_BY_HEADS, biases=NO, mlp_biases=NO, max_sequence=262144,
        expansion=option("mamba_expand", default=2), scan_inner=INNER, scan_state=option("mamba_d_state", default=16),
        written_rank=option("mamba_dt_rank", default="auto"), scan_rank=RANK,
        scan_conv=option("mamba_d_conv", default=4), scan_norms=YES,
        scan_biases=option("mamba_proj_bias", default=False),
        experts=option("num_experts", "num_local_experts", default=16), top_k=option("num_experts_per_tok", default=2),
        expert_hidden=option("intermediate_size", default=14336),
        sparse_step=option("expert_layer_period", default=2), expert_offset=option("expert_layer_offset", default=1),
        window_pattern=option("attn_layer_period", default=8), window_from=option("attn_layer_offset", default=4),
        layers=_jamba_layers, refusals=(Refusal("mamba_conv_bias", (True,), _BIASED_CONVOLUTION),),
        quiet=(*_QUIET, "use_mamba_kernels", "num_logits_to_keep", "calc_logits_for_entire_prompt", "n_ctx",
               "mamba_inner_layernorms", "sliding_window"),
    ),
]  # fmt: skip
