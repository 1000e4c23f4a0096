"""What cannot be modelled says why, by a code that has a page."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.evidence.validate.modelled_rows import modelled
from costmodel.evidence.validate.spelling import REASONS, CannotModel
from evidence.validate.runs_of_22b import EMPTY, SHELF, TITAN, figure
from evidence.validate.test_validate_serving import REFUSED as REFUSED_SERVING

pytestmark = pytest.mark.usefixtures("in_its_folder")


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    # Chowdhery et al. 2022: PaLM on 6144 TPU v4; no node of it is named here
    "another accelerator": ({"gpu": "Cerebras CS-3", "accelerator": EMPTY, "gpus": 64}, "V001", "Cerebras CS-3"),
    "a typing slip": ({"accelerator": "h100-sxn"}, "V001", "h100-sxn"),
    "no accelerator": ({"gpu": EMPTY, "accelerator": EMPTY}, "V001", "(not named)"),
    "another size": ({"gpu": "B200", "accelerator": EMPTY, "gpu_mem_gb": 80}, "V001", "B200 with 80 GB"),
    "experts": ({"n_experts": 8}, "V002", "does not describe experts"),  # Mixtral 8x7B has 8
    "a mixture unsaid": ({"arch": "moe"}, "V002", "experts"),
    "fp8": ({"precision": "fp8"}, "V004", "fp8"),
    "mxfp8": ({"precision": "mxfp8", "accelerator": "h100-sxm"}, "V004", "cannot multiply in mxfp8"),
    "fp8 by feature": ({"features": "torch.compile;float8 linear"}, "V004", ""),
    "nothing measured": ({"step_time_s": EMPTY}, "V005", "step_time_s"),
    "no sequence": ({"seq_len": EMPTY}, "V006", "seq_len empty"),
    "no shape": ({"layers": EMPTY, "heads": EMPTY}, "V006", "layers, heads empty"),
    "gated of unknown width": ({"glu": "true", "ffn": EMPTY}, "V006", "ffn empty"),
    "no layout": ({"tp": EMPTY, "pp": EMPTY}, "V006", "tp, pp empty"),
    "no batch": ({"global_batch": EMPTY}, "V006", "global_batch empty"),
    "no count": ({"gpus": EMPTY}, "V006", "dp empty"),
    "heads of no whole width": ({"heads": 7, "kv_heads": 7, "head_dim": EMPTY}, "V006", "head_dim: a whole number is"),
    "stage 4": ({"zero_stage": 4}, "V006", "zero_stage: 4 is not one of 0, 1, 2 or 3"),
    "a network without bounds": ({"nic_gbps_per_gpu": "1e17"}, "V006", "nic_gbps_per_gpu: 1e+17 Gb/s is out of range"),
    "no time at all": ({"step_time_s": 0}, "V010", "line 2, step_time_s: '0' is out of range: a number above 0"),
    "a time of two numbers": ({"step_time_s": "1,234.5"}, "V010", "line 2, step_time_s: a number above 0 is expected"),
    "half a rank": ({"tp": 8.5}, "V010", "line 2, tp: '8.5' is out of range: a whole number from 1 is expected here"),
    "no year": ({"year": "abc"}, "V010", "line 2, year: a whole number from 0 is expected here, not 'abc'"),
    "degrees that do not divide": ({"gpus": 12}, "V007", "L001"),
    "degrees of another world": ({"dp": 2}, "V007", "L001"),
    "heads that tp does not divide": ({"heads": 63, "kv_heads": 63}, "V007", "L003"),
    "a batch of another size": ({"global_batch": 6}, "V007", "L005"),
    "half of the optimizer offloaded": ({"features": "optimizer_offload_fraction=0.5"}, "V009", "offloaded"),
    "precision of two": ({"precision": "bf16+fp32"}, "V004", "bf16+fp32"),
    "a dense layer of unknown width": (
        {"glu": "true", "ffn": EMPTY, "n_experts": 8, "topk": 2, "moe_ffn": 1408, "n_dense_layers": 1, **TITAN},
        "V006",
        "ffn empty",
    ),
    "adapters": ({"notes": "LoRA of rank 16"}, "V009", "adapters"),
    "latent attention of nobody": ({"attention": "MLA", "model_name": "Moonlight"}, "V006", "latent attention"),
    "mixers of nobody": ({"arch": "hybrid"}, "V006", "arch hybrid"),
    "recompute unknown": ({"recompute": "every-other"}, "V009", "every-other"),
    "offload of more": ({"features": "cpu_offload=optimizer"}, "V009", "offloaded"),
    "offload not offered": ({"features": "cpu_activation_offload_layers=40"}, "V007", "L011"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_modelled_says_why(name: str, row: Any) -> None:
    cells, code, why = REFUSED[name]
    given = row(**cells)
    found = figure(given)
    assert (found.refused, found.predicted, found.error) == (code, None, None)
    assert found.measured == (1.42 if "step_time_s" not in cells else None)
    assert why in found.why
    if code not in ("V005", "V010"):
        with pytest.raises(CannotModel, match=code):
            modelled(given, SHELF)


def test_every_reason_is_tried_and_explained(run: Any) -> None:
    tried = [*REFUSED.values(), *REFUSED_SERVING.values()]
    assert {code for _, code, _ in tried} == set(REASONS)
    for code, reason in REASONS.items():
        ran = run("explain", code)
        assert (ran.code, ran.err) == (0, "")
        assert reason.meaning in ran.out
        assert code in run("explain").out
