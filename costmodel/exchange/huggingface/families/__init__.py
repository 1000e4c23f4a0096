"""The table of families, one module for each kind; `FAMILIES` is all of them."""

from __future__ import annotations

from costmodel.exchange.huggingface.families import (
    compressed,
    gemma,
    gpt,
    hybrids,
    hymba,
    latent,
    linear,
    llama,
    mixed_orders,
    mixtures,
    multimodal,
    remote,
    selective,
)
from costmodel.exchange.huggingface.family import Family

FAMILIES: tuple[Family, ...] = (
    *llama.FAMILIES,
    *gemma.FAMILIES,
    *gpt.FAMILIES,
    *mixtures.FAMILIES,
    *mixed_orders.FAMILIES,
    *latent.FAMILIES,
    *compressed.FAMILIES,
    *linear.FAMILIES,
    *hybrids.FAMILIES,
    *hymba.FAMILIES,
    *selective.FAMILIES,
    *remote.FAMILIES,
    *multimodal.FAMILIES,
)
