"""How tables, drivers and people spell the accelerators that documents describe."""

from __future__ import annotations

import re

from costmodel.documents.library import names

# Names that are short for one of several documents; any other is found when letters and digits agree.
SHORT = {
    "a100": "a100-sxm-80",
    "a10080gb": "a100-sxm-80",
    "a100sxm": "a100-sxm-80",
    "a100sxm480gb": "a100-sxm-80",
    "a100sxm80gb": "a100-sxm-80",
    "a10040gb": "a100-sxm-40",
    "a100sxm440gb": "a100-sxm-40",
    "a100sxm40gb": "a100-sxm-40",
    "a100pcie": "a100-pcie-80",
    "a100pcie80gb": "a100-pcie-80",
    "a10080gbpcie": "a100-pcie-80",
    "a100pcie40gb": "a100-pcie-40",
    "a800": "a800-sxm-80",
    "a80080gb": "a800-sxm-80",
    "a800sxm480gb": "a800-sxm-80",
    "h100": "h100-sxm",
    "h10080gb": "h100-sxm",
    "h100sxm5": "h100-sxm",
    "h100sxm80gb": "h100-sxm",
    "h10080gbhbm3": "h100-sxm",
    "h10096gb": "h100-sxm-96",
    "h800": "h800-sxm",
    "h80080gb": "h800-sxm",
    "h200": "h200-sxm",
    "h200141gb": "h200-sxm",
    "h2096gb": "h20",
    "b200": "b200-sxm",
    "b200180gb": "b200-sxm",
    "b300": "b300-sxm",
    "gh200": "gh200-96",
    "gh20096gb": "gh200-96",
    "gh200480gb": "gh200-96",
    "v100": "v100-sxm2-16",
    "v100sxm2": "v100-sxm2-16",
    "v100sxm216gb": "v100-sxm2-16",
    "v10016gb": "v100-sxm2-16",
    "v10032gb": "v100-sxm2-32",
    "v100sxm232gb": "v100-sxm2-32",
    "v100pcie": "v100-pcie-16",
    "v100pcie16gb": "v100-pcie-16",
    "l40s48gb": "l40s",
    "mi200gcd": "mi250x-gcd",
    "tpuv5litepod": "tpu-v5e",
    "trillium": "tpu-v6e",
    "ironwood": "tpu-v7",
    "trainium": "trn1",
    "trainium1": "trn1",
    "trainium2": "trn2",
}
_MAKERS = re.compile(r"\b(nvidia|amd|intel|google|aws|cloud|geforce|instinct|habana|tesla|tensor core|gpu)\b")


def accelerator_named(spelling: str) -> str:
    """The accelerator that a spelling of its name means; empty when there is none."""
    key = _letters(_MAKERS.sub(" ", spelling.lower()))
    known = {_letters(name): name for name in names("accelerator")}
    return known.get(key) or SHORT.get(key, "")


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
