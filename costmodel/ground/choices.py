"""Names of the choices of a plan and its software, shared by documents, equations and plan batches."""

from __future__ import annotations

from typing import Literal

Zero = Literal[0, 1, 2, 3]
Recompute = Literal["none", "selective", "full"]
Method = Literal["block", "uniform"]
Module = Literal[
    "norms",
    "attention",
    "attention-output",
    "mla-up-projection",
    "mlp-activation",
    "mlp",
    "moe-activation",
    "moe",
    "shared-experts",
]
Offloaded = Literal["optimizer", "parameters", "activations"]
Where = Literal["cpu", "nvme"]
PlainSchedule = Literal["gpipe", "1f1b", "interleaved"]
LaterSchedule = Literal["zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipe", "dualpipev", "chimera", "looped-bfs"]
Schedule = Literal[PlainSchedule, LaterSchedule]
Order = Literal["tp-cp-dp-pp", "tp-cp-pp-dp", "tp-dp-cp-pp"]
Split = Literal["even", "lighter-ends", "lighter-first", "lighter-last", "spread", "full-chunks"]
ContextParallel = Literal["p2p", "all-gather", "a2a"]
CollectiveAlgorithm = Literal["tree", "nvls", "sharp", "halving-doubling"]
AttentionKernel = Literal["unfused", "memory-efficient", "flash-1", "flash-2", "flash-3"]
StackAttention = Literal["unfused", "memory-efficient", "flash-1", "flash-2", "flash-3", "sdpa"]
StreamRule = Literal["hyper-connections", "alternating"]
LinearRule = Literal["gated-delta", "kimi-delta", "lightning"]
Norm = Literal["layernorm", "layernorm-no-bias", "rmsnorm"]
