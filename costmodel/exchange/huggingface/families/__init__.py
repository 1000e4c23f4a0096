"""The table of families, one module for each kind; `FAMILIES` is all of them."""

from __future__ import annotations

from costmodel.exchange.huggingface.families import (
    deepseek,
    gemma,
    gpt,
    linear_attention,
    llama,
    mamba,
    mixtures,
    multimodal,
    remote_code,
)
from costmodel.exchange.huggingface.family import Family

FAMILIES: tuple[Family, ...] = (
    *llama.FAMILIES,
    *gemma.FAMILIES,
    *gpt.FAMILIES,
    *mixtures.FAMILIES,
    *mixtures.MIXED_ORDER_FAMILIES,
    *deepseek.FAMILIES,
    *deepseek.COMPRESSED_FAMILIES,
    *linear_attention.FAMILIES,
    *mamba.FAMILIES,
    *mamba.HYMBA_FAMILIES,
    *mamba.MAMBA_1_FAMILIES,
    *remote_code.FAMILIES,
    *multimodal.FAMILIES,
)
