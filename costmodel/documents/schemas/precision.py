"""The types training runs in: what is narrow, what that costs in bytes, which accelerators have it."""

from dataclasses import fields, replace
from typing import Any, Literal

from costmodel.ground.errors import Place
from costmodel.ground.record import record
from costmodel.ground.units import Figure

Precision = Literal[
    "bf16", "fp16", "fp8", "fp8-cs", "fp8-row", "fp8-block", "mxfp8", "nvfp4", "mxfp4", "int8", "fp32", "tf32"
]  # fmt: skip
Full = Literal["fp32", "tf32"]
CacheType = Literal["bf16", "fp16", "fp8"]  # of keys and values
WeightType = Literal[
    "bf16",
    "fp16",
    "fp8",
    "fp8-block",
    "int8",
    "int4-g32",
    "int4-g128",
    "nvfp4",
    "mxfp4",
    "q2_k",
    "q3_k",
    "q4_k",
    "q5_k",
    "q6_k",
    "q8_0",
    "q3_k_m",
    "q4_k_m",
    "q5_k_m",
]  # of an engine; from q2_k on those of GGUF, of which the last three mix two
Narrow = Literal["fp8", "fp8-cs", "fp8-row", "fp8-block", "mxfp8", "nvfp4", "mxfp4", "int8"]
DispatchType = Literal["bf16", "fp8"]  # of tokens on their way to experts
# Models whose own checkpoint is in a narrow type: all linear maps of the layers, or routed experts alone.
_BLOCKS = ("deepseek-v3", "deepseek-v3.2", "deepseek-v4-flash", "deepseek-v4-pro", "kimi-k2", "minimax-m2")
_NARROW_EXPERTS = ("deepseek-v4-flash", "deepseek-v4-pro", "gpt-oss-120b", "gpt-oss-20b")
STORED: dict[str, WeightType] = dict.fromkeys(_BLOCKS, "fp8-block")
STORED_EXPERTS: dict[str, WeightType] = dict.fromkeys(_NARROW_EXPERTS, "mxfp4")


@record
class Single:
    """What a recipe costs where products read one converted copy of an operand in both directions."""

    quantised: float  # bytes read and written to convert an element
    copies: float  # bytes of a weight's converted copy


@record
class Recipe:
    """A precision: the three products of the layers' linear maps in `type`, everything else in `wide`."""

    name: Precision
    title: str
    type: Literal["bf16", "fp16", "fp8", "fp4", "int8", "fp32", "tf32"]  # of the operands, whose peak counts
    fit: Literal["bf16", "fp16", "fp8", "nvfp4", "int8", "fp32", "tf32"]  # key of the matmul fit
    operand: float  # bytes of an operand's element, its share of the scales among them
    source: str  # key of the bibliography
    wide: Literal["bf16", "fp16", "fp32", "tf32"] = "bf16"  # type of all that is not narrow
    quantised: float = 0.0  # bytes read and written to convert an element both ways
    transposed: float = 0.0  # bytes read and written to transpose an element that arrives converted
    conversions: float = 0.0  # operations that convert one tensor of a group; none where one converts them all
    copies: float = 0.0  # bytes of a weight's two converted copies
    single: Single | None = None  # without transposed copies; none where scales forbid it
    families: tuple[str, ...] = ()  # families that scale by block in hardware; empty: any

    @property
    def narrow(self) -> bool:
        """Whether matrix products use fewer bits than everything else."""
        return self.type != self.wide

    @property
    def full(self) -> bool:
        """Whether weights, activations and messages are in 32 bits, without a separate master copy."""
        return self.wide in ("fp32", "tf32")


# Conversions are those of Transformer Engine's quantizers (2.9; nvfp4 2.11), of fp8-row those of torchao for groups.
_RECIPES = (
    Recipe(
        name="bf16",
        title="brain float, 16 bits",
        type="bf16",
        fit="bf16",
        operand=2.0,
        source="exact",
    ),
    Recipe(
        name="fp16",
        title="IEEE half",
        type="fp16",
        fit="fp16",
        wide="fp16",
        operand=2.0,
        source="exact",
    ),
    Recipe(
        name="fp8",
        title="fp8 with one scale a tensor, taken from the steps before (delayed scaling)",
        type="fp8",
        fit="fp8",
        operand=1.0,
        transposed=2.0,
        quantised=4.0,  # read 2, write the copy and its transpose; all of a group at once
        copies=2.0,
        single=Single(3.0, 1.0),
        source="transformer-engine",
    ),
    Recipe(
        name="fp8-cs",
        title="fp8 with one scale a tensor, taken from the tensor itself (current scaling)",
        type="fp8",
        fit="fp8",
        operand=1.0,
        transposed=2.0,
        quantised=6.0,  # the largest value is looked for first: 2 more
        conversions=3.0,  # look for the largest value, make the scale, convert
        copies=2.0,
        single=Single(5.0, 1.0),
        source="transformer-engine",
    ),
    Recipe(
        name="fp8-row",
        title="fp8 with one scale a row and a column",
        type="fp8",
        fit="fp8",
        operand=1.0,
        quantised=10.0,  # each direction has its own scales: twice 2 to look, 2 to read, 1 to write; all at once
        copies=2.0,
        source="torchao",
        # Kernels of early releases were much slower than this (torchtitan issue 1207)
    ),
    Recipe(
        name="fp8-block",
        title="fp8 with one scale for 1 × 128 activations and 128 × 128 weights",
        type="fp8",
        fit="fp8",
        operand=1.03125,  # 4 bytes for 128
        quantised=4.0625,  # read 2, write two copies
        conversions=1.0,
        copies=2.0005,  # 4 bytes for 128 × 128, twice
        source="deepseek-2024",
    ),
    Recipe(
        name="mxfp8",
        title="fp8 with one 8-bit scale for each 32 elements, in hardware",
        type="fp8",
        fit="fp8",
        operand=1.03125,  # 1 byte for 32
        quantised=4.0625,  # read 2, write two copies
        conversions=1.0,
        copies=2.0625,
        families=("blackwell", "rubin", "cdna4", "cdna5", "trainium"),
        source="rouhani-2023",
    ),
    Recipe(
        name="nvfp4",
        title="4-bit floats with one 8-bit scale for each 16 elements",
        type="fp4",
        fit="nvfp4",
        operand=0.5625,  # 1 byte for 16
        quantised=5.125,  # 2 to look for the largest, read 2, write two copies; all of a group at once
        copies=1.125,
        families=("blackwell", "rubin"),
        source="nvidia-nvfp4",
    ),
    Recipe(
        name="mxfp4",
        title="4-bit floats with one 8-bit scale for each 32 elements",
        type="fp4",
        fit="nvfp4",
        operand=0.53125,  # 1 byte for 32
        quantised=3.0625,  # read 2, write two copies
        conversions=1.0,
        copies=1.0625,
        families=("blackwell", "rubin", "cdna4", "cdna5"),
        source="rouhani-2023",
    ),
    Recipe(
        name="int8",
        title="8-bit integers with one scale a row or column, taken from the tensor itself (AQT)",
        type="int8",
        fit="int8",
        operand=1.0,
        quantised=10.0,  # each direction has its own scales: twice 2 to look, 2 to read, 1 to write; all at once
        copies=2.0,
        families=("tpu",),
        source="maxtext",
    ),
    Recipe(
        name="fp32",
        title="IEEE single, on the vector units",
        type="fp32",
        fit="fp32",
        wide="fp32",
        operand=4.0,
        source="exact",
    ),
    Recipe(
        name="tf32",
        title="fp32 in memory, multiplied by tensor cores with 10 bits of its mantissa",
        type="tf32",
        fit="tf32",
        wide="tf32",
        operand=4.0,
        source="exact",
    ),
)


def _placed(costs: Recipe | Single, name: str) -> dict[str, Any]:
    """The constants of a recipe by name, each with its place."""
    numbers = {part.name: getattr(costs, part.name) for part in fields(costs)}
    found = {leaf: value for leaf, value in numbers.items() if isinstance(value, float)}
    return {leaf: Figure(value, Place(name, path=leaf)) for leaf, value in found.items()}


def _with_places(recipe: Recipe) -> Recipe:
    single = recipe.single and replace(recipe.single, **_placed(recipe.single, recipe.name))
    return replace(recipe, single=single, **_placed(recipe, recipe.name))


RECIPES: dict[str, Recipe] = {recipe.name: _with_places(recipe) for recipe in _RECIPES}
