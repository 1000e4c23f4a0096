"""The table of families, one module for each kind; `FAMILIES` is all of them."""

from __future__ import annotations

from costmodel.exchange.importers.huggingface.families import (
    gemma,
    gpt,
    hybrids,
    latent,
    linear,
    llama,
    mixed_orders,
    mixtures,
    multimodal,
    remote,
)
from costmodel.exchange.importers.huggingface.family import Family

FAMILIES: tuple[Family, ...] = (
    *llama.FAMILIES,
    *gemma.FAMILIES,
    *gpt.FAMILIES,
    *mixtures.FAMILIES,
    *mixed_orders.FAMILIES,
    *latent.FAMILIES,
    *linear.FAMILIES,
    *hybrids.FAMILIES,
    *remote.FAMILIES,
    *multimodal.FAMILIES,
)
