"""The types training runs in: what is narrow, what that costs in bytes, which accelerators have it."""

from typing import Any, Literal

from pydantic import Field

from costmodel.documents.schemas.base import Bytes, Document, NonNegative, Sourced, Width
from costmodel.ground.errors import Place
from costmodel.ground.units import Figure

Precision = Literal["bf16", "fp16", "fp8", "fp8-cs", "fp8-row", "fp8-block", "mxfp8", "nvfp4", "int8", "fp32", "tf32"]
Full = Literal["fp32", "tf32"]
WeightType = Literal["bf16", "fp16", "fp8", "fp8-block", "int8", "int4-g128", "nvfp4", "mxfp4"]  # of an engine
Narrow = Literal["fp8", "fp8-cs", "fp8-row", "fp8-block", "mxfp8", "nvfp4", "int8"]


class Single(Document):
    """What a recipe costs where products read one converted copy of an operand in both directions."""

    quantised: Bytes = Field(description="Bytes read and written to convert an element")
    copies: Bytes = Field(description="Bytes of a weight's converted copy")


class Recipe(Sourced):
    """A precision: the three products of the layers' linear maps in `type`, everything else in `wide`."""

    name: Precision = Field(description="As a workload names it")
    title: str = Field(description="One line")
    type: Literal["bf16", "fp16", "fp8", "fp4", "int8", "fp32", "tf32"] = Field(
        description="Type of the operands, and the peak that counts"
    )
    fit: Literal["bf16", "fp16", "fp8", "nvfp4", "int8", "fp32", "tf32"] = Field(description="Key of the matmul fit")
    wide: Literal["bf16", "fp16", "fp32", "tf32"] = Field(default="bf16", description="Type of all that is not narrow")
    operand: Width = Field(description="Bytes of an operand's element, its share of the scales among them")
    quantised: Bytes = Field(default=0.0, description="Bytes read and written to convert an element both ways")
    conversions: NonNegative = Field(
        default=0.0, description="Operations that convert one tensor of a group; none where one converts them all"
    )
    copies: Bytes = Field(default=0.0, description="Bytes of a weight's two converted copies")
    single: Single | None = Field(default=None, description="Without transposed copies; none where scales forbid it")
    families: tuple[str, ...] = Field(default=(), description="Families that scale by block in hardware; empty: any")

    @property
    def narrow(self) -> bool:
        """Whether the products read fewer bits than everything else."""
        return self.type != self.wide

    @property
    def full(self) -> bool:
        """Whether weights, activations and messages are in 32 bits, without a master copy beside."""
        return self.wide in ("fp32", "tf32")


# Conversions are those of Transformer Engine's quantizers (2.9; nvfp4 2.11), of fp8-row those of torchao for groups.
_RECIPES: tuple[dict[str, Any], ...] = (
    {
        "name": "bf16",
        "title": "brain float, 16 bits",
        "type": "bf16",
        "fit": "bf16",
        "operand": "2 B",
        "source": "exact",
    },
    {
        "name": "fp16",
        "title": "IEEE half",
        "type": "fp16",
        "fit": "fp16",
        "wide": "fp16",
        "operand": "2 B",
        "source": "exact",
    },
    {
        "name": "fp8",
        "title": "fp8 with one scale a tensor, taken from the steps before (delayed scaling)",
        "type": "fp8",
        "fit": "fp8",
        "operand": "1 B",
        "quantised": "4 B",  # read 2, write the copy and its transpose; all of a group at once
        "copies": "2 B",
        "single": {"quantised": "3 B", "copies": "1 B"},
        "source": "transformer-engine",
    },
    {
        "name": "fp8-cs",
        "title": "fp8 with one scale a tensor, taken from the tensor itself (current scaling)",
        "type": "fp8",
        "fit": "fp8",
        "operand": "1 B",
        "quantised": "6 B",  # the largest value is looked for first: 2 more
        "conversions": 3,  # look for the largest value, make the scale, convert
        "copies": "2 B",
        "single": {"quantised": "5 B", "copies": "1 B"},
        "source": "transformer-engine",
    },
    {
        "name": "fp8-row",
        "title": "fp8 with one scale a row and a column",
        "type": "fp8",
        "fit": "fp8",
        "operand": "1 B",
        "quantised": "10 B",  # each direction has its own scales: twice 2 to look, 2 to read, 1 to write; all at once
        "copies": "2 B",
        "source": "torchao",
        "note": "Kernels of early releases were much slower than this (torchtitan issue 1207)",
    },
    {
        "name": "fp8-block",
        "title": "fp8 with one scale for 1 × 128 activations and 128 × 128 weights",
        "type": "fp8",
        "fit": "fp8",
        "operand": "1.03125 B",  # 4 bytes for 128
        "quantised": "4.0625 B",  # read 2, write two copies
        "conversions": 1,
        "copies": "2.0005 B",  # 4 bytes for 128 × 128, twice
        "source": "deepseek-2024",
    },
    {
        "name": "mxfp8",
        "title": "fp8 with one 8-bit scale for each 32 elements, in hardware",
        "type": "fp8",
        "fit": "fp8",
        "operand": "1.03125 B",  # 1 byte for 32
        "quantised": "4.0625 B",  # read 2, write two copies
        "conversions": 1,
        "copies": "2.0625 B",
        "families": ("blackwell", "rubin", "cdna4", "cdna5", "trainium"),
        "source": "rouhani-2023",
    },
    {
        "name": "nvfp4",
        "title": "4-bit floats with one 8-bit scale for each 16 elements",
        "type": "fp4",
        "fit": "nvfp4",
        "operand": "0.5625 B",  # 1 byte for 16
        "quantised": "5.125 B",  # 2 to look for the largest, read 2, write two copies; all of a group at once
        "copies": "1.125 B",
        "families": ("blackwell", "rubin"),
        "source": "nvidia-nvfp4",
    },
    {
        "name": "int8",
        "title": "8-bit integers with one scale a row or column, taken from the tensor itself (AQT)",
        "type": "int8",
        "fit": "int8",
        "operand": "1 B",
        "quantised": "10 B",  # each direction has its own scales: twice 2 to look, 2 to read, 1 to write; all at once
        "copies": "2 B",
        "families": ("tpu",),
        "source": "maxtext",
    },
    {
        "name": "fp32",
        "title": "IEEE single, on the vector units",
        "type": "fp32",
        "fit": "fp32",
        "wide": "fp32",
        "operand": "4 B",
        "source": "exact",
    },
    {
        "name": "tf32",
        "title": "fp32 in memory, multiplied by tensor cores with 10 bits of its mantissa",
        "type": "tf32",
        "fit": "tf32",
        "wide": "tf32",
        "operand": "4 B",
        "source": "exact",
    },
)


def _placed(recipe: Recipe | Single, name: str) -> dict[str, Figure]:
    """Its numbers, each with the part it belongs to."""
    numbers = {leaf: value for leaf, value in recipe if isinstance(value, float)}
    return {leaf: Figure(value, Place(name, path=leaf)) for leaf, value in numbers.items()}


def _recipe(entry: dict[str, Any]) -> Recipe:
    recipe = Recipe.model_validate(entry)
    single = recipe.single and recipe.single.model_copy(update=_placed(recipe.single, recipe.name))
    return recipe.model_copy(update={**_placed(recipe, recipe.name), "single": single})


RECIPES: dict[str, Recipe] = {entry["name"]: _recipe(entry) for entry in _RECIPES}
