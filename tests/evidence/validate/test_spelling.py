"""Precisions as people spell them."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.evidence.validate.spelling import CannotModel, precision_of

pytestmark = pytest.mark.usefixtures("in_its_folder")


SPELT = {
    "bf16": "bf16 BF16 bfloat16 torch.bfloat16 bf16-true bf16-mixed bf16_mixed_precision",
    "fp16": "fp16 FP16 float16 half 16-mixed 16-true fp16-true fp16-mixed",
    "fp16/bf16": "fp16/bf16 bf16/fp16",
    "fp8": "fp8 FP8 float8 fp8_e4m3 fp8-e5m2 float8_e4m3fn fp8-hybrid bf16_with_fp8_mixed",
    "fp8-delayed": "fp8-delayed fp8_delayed_scaling FP8-DS bf16_with_fp8_delayed_scaling_mixed",
    "fp8-cs": "fp8-cs FP8_current_scaling fp8-tensorwise float8_tensorwise bf16_with_fp8_current_scaling_mixed",
    "fp8-row": "fp8-row fp8_rowwise float8-rowwise",
    "fp8-block": "fp8-block fp8_blockwise FP8-SC bf16_with_fp8_subchannel_scaling_mixed",
    "mxfp8": "mxfp8 MXFP8 fp8-mx mxfp8_e4m3 bf16_with_mxfp8_mixed",
    "nvfp4": "nvfp4 NVFP4 bf16_with_nvfp4_mixed",
}


@pytest.mark.parametrize(("named", "spelt"), [(name, word) for name, words in SPELT.items() for word in words.split()])
def test_spellings_of_a_precision(named: str, spelt: str, row: Any) -> None:
    assert precision_of(row(precision=spelt)) == named


@pytest.mark.parametrize("spelt", ["16", "fp64", "fp4", "bf16-e4m3", "int4"])
def test_precisions_that_say_too_little_or_are_not_modelled(spelt: str, row: Any) -> None:
    with pytest.raises(CannotModel, match=f"V004: precision {spelt}"):
        precision_of(row(precision=spelt))
