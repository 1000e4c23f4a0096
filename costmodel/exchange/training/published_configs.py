"""DeepSpeed configurations that trainers ship, for launch files that name one without having it beside them."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any, NamedTuple


class PublishedConfig(NamedTuple):
    """What a configuration states of a job, and the program and commit that ship it."""

    owner: str
    tree: dict[str, Any]

    @property
    def text(self) -> str:
        """The configuration as JSON, which DeepSpeed's reader reads."""
        return json.dumps(self.tree)


_AUTO = {"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}}
_BF16 = {"bf16": {"enabled": True}}
_ON_HOST = {"device": "cpu"}
_BY_TENSOR = {"sub_group_size": 0, "reduce_bucket_size": "auto"}  # axolotl's stage 3


def _config(owner: str, types: dict[str, Any], stage: int, *, overlap: bool, **more: Any) -> PublishedConfig:
    return PublishedConfig(owner, {"zero_optimization": {"stage": stage, "overlap_comm": overlap, **more}, **types})


_AXOLOTL, _FACTORY = "axolotl, commit {}", "LLaMA-Factory, commit 1d6e8b21"
_BY_PATH = {
    "deepspeed_configs/zero1.json": _config(_AXOLOTL.format("3fa91bdb"), _AUTO, 1, overlap=True),
    "deepspeed_configs/zero2.json": _config(
        _AXOLOTL.format("58b1d3a4"), _AUTO, 2, overlap=True, offload_optimizer=_ON_HOST
    ),
    "deepspeed_configs/zero3.json": _config(
        _AXOLOTL.format("2341b2c0"), _AUTO, 3, overlap=True, stage3_max_live_parameters=0, **_BY_TENSOR
    ),
    "deepspeed_configs/zero3_bf16.json": _config(_AXOLOTL.format("1aaebb0d"), _BF16, 3, overlap=True, **_BY_TENSOR),
    "deepspeed_configs/zero3_bf16_cpuoffload_params.json": _config(
        _AXOLOTL.format("1377ccc3"), _BF16, 3, overlap=True, offload_param=_ON_HOST, **_BY_TENSOR
    ),
    "deepspeed_configs/zero3_bf16_cpuoffload_all.json": _config(
        _AXOLOTL.format("1377ccc3"), _BF16, 3, overlap=True,
        offload_param=_ON_HOST, offload_optimizer=_ON_HOST, **_BY_TENSOR,
    ),
    **{
        f"deepspeed/ds_z{stage}_config.json": _config(_FACTORY, _AUTO, stage, overlap=False, **sizes)
        for stage, sizes in (
            (0, {"reduce_bucket_size": 500_000_000}),
            (2, {"reduce_bucket_size": 500_000_000}),
            (3, {"sub_group_size": 1_000_000_000, "stage3_max_live_parameters": 1_000_000_000}),
        )
    },
    "deepspeed/ds_z2_offload_config.json": _config(
        _FACTORY, _AUTO, 2, overlap=False, offload_optimizer=_ON_HOST, reduce_bucket_size=500_000_000
    ),
    "deepspeed/ds_z3_offload_config.json": _config(
        _FACTORY, _AUTO, 3, overlap=False, offload_optimizer=_ON_HOST, offload_param=_ON_HOST,
        sub_group_size=1_000_000_000, stage3_max_live_parameters=1_000_000_000,
    ),
}  # fmt: skip


def published_config(name: str) -> PublishedConfig | None:
    """The configuration that a trainer ships at such a path; None for other paths.

    >>> published_config("/workspace/axolotl/deepspeed_configs/zero2.json").tree["zero_optimization"]["stage"]
    2
    >>> published_config("mine/zero2.json")
    """
    return _BY_PATH.get("/".join(PurePath(name).parts[-2:]))
