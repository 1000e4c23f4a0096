"""Keys of a scenario that a launch format does not state, each with its reason; the rest is filled by its table."""

from __future__ import annotations

from costmodel.exchange.formats import (
    ACCELERATE,
    ARGUMENTS,
    AXOLOTL,
    BRIDGE,
    DEEPSPEED,
    LLAMA_FACTORY,
    MAXTEXT,
    NANOTRON,
    TORCHTITAN,
    TORCHTUNE,
)


def _all(reason: str, keys: str, under: str = "plan") -> dict[str, str]:
    return dict.fromkeys((f"{under}.{key}" for key in keys.split()), reason)


_NOWHERE = {
    **_all("its replicas take equal shares and agree at every step", "compression shares sites sync"),
    "workload.images": "a property of the data, which no option states",
    "workload.critical_batch": "a property of the loss, which no option states",
    "workload.learning_rate": "read by nothing that is predicted; options state it without the batch it is good for",
}
_TRAINS = {"workload.kind": "always a training"}
_FLAT = _all("it has no pipeline", "pp vpp schedule split first_stage_layers last_stage_layers")
_ENDS = _all("stages hold as many layers", "split first_stage_layers last_stage_layers")
_DENSE = _all("experts are not spread over ranks", "ep etp")
_WHOLE_LAYERS = _all("whole layers are recomputed, or none", "recompute_method recompute_layers recompute_modules")
_OWN_ORDER = _all("ranks lie in its own order", "order")
_ON_HOST = _all("the host is the only place, for all of a part", "offload_to offload_layers")
_NO_OFFLOAD = _all("nothing is offloaded", "offload offload_to offload_layers")
_BY_RING = _all("it has one exchange for the context", "cp_type")
_OTHER_FILE = "the arguments of the trainer state it"
_FROM_RANKS = _all("what the other degrees leave of the accelerators", "dp")
_UNSPLIT = _all("it has no tensor parallelism whose norms it could split", "sequence_parallel")
_STACKS = _all("the stack has one type of sums", "gradients", "workload")
_OTHER_MODELS = {
    **_all("none of its models has it", "position_rows token_types embedding_norm layer_embedding "
           "head_transform head_bias layers.parallel layers.latent layers.compressed layers.shared_output "
           "layers.state_space layers.linear layers.selective_scan residual_streams stream_rule "
           "layers.side_rank meta_tokens prediction vision", "model"),
    **_all("none of its models has it", "qk_norm qk_norm_whole sinks output_gate keys_as_values "
           "value_norm value_dim bidirectional shared_kv", "model.layers.attention"),
    "model.layers.experts": "moe_config is refused",
}  # fmt: skip
_CONFIGURED = {"model": "config.json states it"}

NOT_STATED: dict[str, dict[str, str]] = {
    ACCELERATE: {
        **_NOWHERE, **_TRAINS, **_CONFIGURED, **_DENSE, **_WHOLE_LAYERS, **_OWN_ORDER, **_STACKS, **_ENDS,
        **_all("Megatron-LM behind it has one schedule, without chunks", "schedule vpp"),
        **_all("a configuration of DeepSpeed states it", "offload_to offload_layers"),
        **_all(_OTHER_FILE, "micro_batch"), **_all(_OTHER_FILE, "sequence optimizer tokens tuning", "workload"),
    },
    ARGUMENTS: {
        **_NOWHERE, **_TRAINS, **_FLAT, **_DENSE, **_WHOLE_LAYERS, **_OWN_ORDER, **_STACKS, **_ON_HOST, **_FROM_RANKS,
        **_UNSPLIT, **_all("accelerate states it", "tp cp cp_type dp_replicate offload"),
    },
    AXOLOTL: {
        **_NOWHERE, **_TRAINS, **_FLAT, **_WHOLE_LAYERS, **_OWN_ORDER, **_STACKS, **_ON_HOST, **_BY_RING,
        **_all("experts are whole on their ranks", "etp"), **_UNSPLIT,
    },
    BRIDGE: {
        **_NOWHERE, **_TRAINS, **_CONFIGURED, **_all("the host is the only place", "offload_to"),
        **_all("1F1B, with chunks interleaved", "schedule"),
        **_all("train.train_iters, times batch and sequence", "tokens", "workload"),
        **_all("a recipe of its own", "tuning", "workload"),
    },
    DEEPSPEED: {
        **_NOWHERE, **_TRAINS, **_CONFIGURED, **_FLAT, **_DENSE, **_WHOLE_LAYERS, **_OWN_ORDER, **_FROM_RANKS,
        **_all("a call in the model decides it", "recompute"), **_all("all of a part", "offload_layers"),
        **_all("as the model splits", "sequence_parallel"), **_all(_OTHER_FILE, "sequence tokens tuning", "workload"),
    },
    LLAMA_FACTORY: {
        **_NOWHERE, **_ENDS, **_OWN_ORDER, **_STACKS, **_FROM_RANKS, **_BY_RING,
        **_all("with whole layers, or the attention", "recompute_modules"),
        **_all("1F1B, with chunks interleaved", "schedule"), **_all("a configuration of accelerate states it",
                                                                     "dp_replicate offload offload_to offload_layers"),
    },
    MAXTEXT: {
        **_NOWHERE, **_TRAINS, **_OWN_ORDER, **_WHOLE_LAYERS, **_ENDS, **_NO_OFFLOAD, **_BY_RING,
        **_all("stages run in rounds of its own", "schedule vpp"), **_all("fsdp, always", "zero"),
        **_all("experts are whole on their ranks", "etp"), **_all("XLA splits as it finds", "sequence_parallel"),
        **_all("full training alone", "tuning", "workload"),
    },
    NANOTRON: {
        **_OTHER_MODELS, **_NOWHERE, **_TRAINS, **_OWN_ORDER, **_WHOLE_LAYERS, **_ENDS, **_NO_OFFLOAD, **_BY_RING,
        **_all("one chunk on each rank", "vpp"), **_all("replicas alone", "dp_replicate"),
        **_all("experts are whole on their ranks", "etp"), **_all("full training alone", "tuning", "workload"),
    },
    TORCHTITAN: {
        **_NOWHERE, **_TRAINS, **_OWN_ORDER, **_WHOLE_LAYERS, **_ON_HOST,
        **_all("as many fewer as the split states", "first_stage_layers last_stage_layers"),
        **_all("a converter in code", "tuning", "workload"),
    },
    TORCHTUNE: {
        **_NOWHERE, **_TRAINS, **_FLAT, **_DENSE, **_WHOLE_LAYERS, **_OWN_ORDER, **_STACKS, **_ON_HOST, **_BY_RING,
        **_all("a plan of modules in code", "sequence_parallel"),
    },
}  # fmt: skip
