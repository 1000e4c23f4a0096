"""Fields of a model that families of transformers state: what each holds, and the key of the document that it fills."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["count", "flag", "word", "list", "figure", "width"]


class Field(NamedTuple):
    """The kind of value of a field, and the key of the model document that it fills (empty if only rules read it)."""

    kind: Kind
    key: str = ""
    optional: bool = False

    @property
    def of_each_layer(self) -> bool:
        """Whether a file may list one value for every layer."""
        return self.key.startswith("layers.") and self.key.count(".") > 1


_ATTENTION, _LATENT, _STATE = "layers.attention", "layers.latent", "layers.state_space"
_LINEAR, _INDEXER, _SCAN = "layers.linear", f"{_LATENT}.indexer", "layers.selective_scan"
_COMPRESSED = "layers.compressed"
_MLP, _EXPERTS = "layers.mlp", "layers.experts"

FIELDS: dict[str, Field] = {
    # the model
    "vocab": Field("count", "vocab"),
    "hidden": Field("count", "hidden"),
    "layer_count": Field("count", "layers.count"),
    "max_sequence": Field("count", "max_sequence"),
    "position_rows": Field("count", "position_rows", optional=True),
    "positions": Field("word", "positions"),
    "norm": Field("word", "norm"),
    "norms": Field("count", "layers.norms"),
    "tied": Field("flag", "tied"),
    "embedding_norm": Field("flag", "embedding_norm"),
    "meta_tokens": Field("count", "meta_tokens", optional=True),
    "token_types": Field("count", "token_types", optional=True),
    "head_transform": Field("flag", "head_transform"),
    "head_has_bias": Field("flag", "head_bias"),
    "bidirectional": Field("flag", f"{_ATTENTION}.bidirectional"),
    "parallel": Field("flag", "layers.parallel"),
    "shared_output": Field("flag", "layers.shared_output"),
    "streams": Field("count", "residual_streams", optional=True),
    "stream_rule": Field("word", "stream_rule", optional=True),
    "side_rank": Field("count", "layers.side_rank", optional=True),
    "prediction_depth": Field("count", "prediction.depth", optional=True),
    # attention
    "heads": Field("count", f"{_ATTENTION}.heads"),
    "kv_heads": Field("count", f"{_ATTENTION}.kv_heads"),
    "head_dim": Field("count", f"{_ATTENTION}.head_dim"),
    "attention_value_dim": Field("count", f"{_ATTENTION}.value_dim", optional=True),
    "window": Field("count", f"{_ATTENTION}.window", optional=True),
    "biases": Field("flag", f"{_ATTENTION}.biases"),
    "output_bias": Field("flag", f"{_ATTENTION}.output_bias"),
    "qk_norm": Field("flag", f"{_ATTENTION}.qk_norm"),
    "qk_norm_whole": Field("flag", f"{_ATTENTION}.qk_norm_whole"),
    "sinks": Field("flag", f"{_ATTENTION}.sinks"),
    "output_gate": Field("flag", f"{_ATTENTION}.output_gate"),
    "keys_as_values": Field("flag", f"{_ATTENTION}.keys_as_values"),
    "value_norm": Field("flag", f"{_ATTENTION}.value_norm"),
    "query_rank": Field("count", f"{_LATENT}.query_rank", optional=True),
    "kv_rank": Field("count", f"{_LATENT}.kv_rank"),
    "nope_dim": Field("count", f"{_LATENT}.nope_dim"),
    "rope_dim": Field("count", f"{_LATENT}.rope_dim"),
    "value_dim": Field("count", f"{_LATENT}.value_dim"),
    "index_heads": Field("count", f"{_INDEXER}.heads"),
    "index_dim": Field("count", f"{_INDEXER}.head_dim"),
    "index_top_k": Field("count", f"{_INDEXER}.top_k"),
    # compressed attention
    "output_groups": Field("count", f"{_COMPRESSED}.output_groups"),
    "output_rank": Field("count", f"{_COMPRESSED}.output_rank"),
    "sparse_rate": Field("count", f"{_COMPRESSED}.entries.rate"),
    "heavy_rate": Field("count", f"{_COMPRESSED}.entries.rate"),
    # state space
    "state_heads": Field("count", f"{_STATE}.heads"),
    "state_head_dim": Field("count", f"{_STATE}.head_dim"),
    "state_groups": Field("count", f"{_STATE}.groups"),
    "state_size": Field("count", f"{_STATE}.state"),
    "state_conv": Field("count", f"{_STATE}.conv"),
    "state_chunk": Field("count", f"{_STATE}.chunk"),
    "state_norm": Field("flag", f"{_STATE}.norm"),
    # linear attention
    "linear_rule": Field("word", f"{_LINEAR}.rule"),
    "linear_heads": Field("count", f"{_LINEAR}.heads"),
    "linear_value_dim": Field("count", f"{_LINEAR}.value_dim"),
    "linear_key_heads": Field("count", f"{_LINEAR}.key_heads"),
    "linear_key_dim": Field("count", f"{_LINEAR}.key_dim"),
    "linear_conv": Field("count", f"{_LINEAR}.conv", optional=True),
    "linear_chunk": Field("count", f"{_LINEAR}.chunk"),
    # selective scan
    "scan_inner": Field("count", f"{_SCAN}.inner"),
    "scan_state": Field("count", f"{_SCAN}.state"),
    "scan_rank": Field("count", f"{_SCAN}.rank"),
    "scan_conv": Field("count", f"{_SCAN}.conv"),
    "scan_norms": Field("flag", f"{_SCAN}.norms"),
    "scan_biases": Field("flag", f"{_SCAN}.biases"),
    # feed-forward
    "ffn_hidden": Field("count", f"{_MLP}.ffn_hidden"),
    "gated": Field("flag", f"{_MLP}.gated"),
    "mlp_biases": Field("flag", f"{_MLP}.biases"),
    "experts": Field("count", f"{_EXPERTS}.count", optional=True),
    "top_k": Field("count", f"{_EXPERTS}.top_k"),
    "expert_hidden": Field("count", f"{_EXPERTS}.ffn_hidden"),
    "expert_biases": Field("flag", f"{_EXPERTS}.biases"),
    "router_bias": Field("flag", f"{_EXPERTS}.router_bias"),
    "shared_hidden": Field("count", f"{_EXPERTS}.shared.ffn_hidden", optional=True),
    "shared_gate": Field("flag", f"{_EXPERTS}.shared_gate"),
    "module_runs": Field("word", f"{_EXPERTS}.module_runs", optional=True),
    "groups": Field("count", f"{_EXPERTS}.groups", optional=True),
    "group_limit": Field("count", f"{_EXPERTS}.group_limit", optional=True),
    "expert_latent": Field("count", f"{_EXPERTS}.latent_dim", optional=True),
    # tables beside the embedding
    "entry_rows": Field("count", "layer_embedding.rows"),
    "entry_width": Field("count", "layer_embedding.width", optional=True),
    # read by rules alone: which layers are of which kind
    "layer_types": Field("list", optional=True),
    "mlp_types": Field("list", optional=True),
    "entry_ratios": Field("list", optional=True),
    "hash_layers": Field("figure", optional=True),
    "numbered_layers": Field("list", optional=True),
    "leading_dense": Field("figure", optional=True),
    "sparse_step": Field("count"),
    "window_pattern": Field("figure", optional=True),
    "expert_offset": Field("figure", optional=True),
    "leading_pattern": Field("count"),
    "window_from": Field("figure", optional=True),
    "windowed": Field("flag"),
    # read by rules alone: other ways to state the above
    "shared_experts": Field("figure", optional=True),
    "written_rope": Field("count"),
    "rotary_share": Field("figure", optional=True),
    "expansion": Field("figure", optional=True),
    "global_head_dim": Field("count", optional=True),
    "global_kv_heads": Field("count", optional=True),
    "shared_layers": Field("figure", optional=True),
    "wide_when_shared": Field("flag"),
    "expert_blocks": Field("flag"),
    "written_experts": Field("count", optional=True),
    "mixer_width": Field("figure", optional=True),
    "routing_method": Field("word", optional=True),
    "written_head_dim": Field("width", optional=True),
    "written_rank": Field("width", optional=True),
    "pattern": Field("word", optional=True),
    "prediction_types": Field("list", optional=True),
    "prediction_pattern": Field("word", optional=True),
    "both_halves": Field("count"),
    "query_groups": Field("count"),
    "block_types": Field("list", optional=True),
    "alibi": Field("flag"),
    "falcon_kv_heads": Field("count"),
    "falcon_norms": Field("count", optional=True),
    "last_norm": Field("flag"),
    "head_bias": Field("flag"),
    "last_sparse": Field("figure", optional=True),
    "rms_epsilon": Field("figure", optional=True),
    "post_norms": Field("flag"),
    "multi_query": Field("flag"),
    "new_decoder": Field("flag"),
    "parallel_attention": Field("flag"),
}
# Keys of the model document that no option of a family states.
UNSAID = {
    "schema": "fixed", "name": "from the file", "title": "from the file", "source": "the file itself",
    "sources": "the file itself", "check": "the file was read", "note": "free text", "published": "not in the file",
    "layers.leading": "from the order of the layers", "layers.attention.shared_kv": "from the order of the layers",
    "vision": "from the configuration of the tower",
    "layers.latent.heads": "as of attention",
    **dict.fromkeys((f"{_COMPRESSED}.{key}" for key in ("heads", "head_dim", "window", "sinks")), "as of attention"),
    **dict.fromkeys((f"{_COMPRESSED}.{key}" for key in ("query_rank", "rope_dim")), "as of latent attention"),
    f"{_COMPRESSED}.entries.overlap": "of entries that an indexer picks",
    **dict.fromkeys((f"{_COMPRESSED}.entries.indexer.{key}" for key in ("heads", "head_dim", "top_k")),
                    "as of latent attention"),
    "layers.experts.hashed": "from the order of the layers",
    "layers.experts.gated": "as of the MLP",
    "layers.experts.shared.gated": "as of the MLP", "layers.experts.shared.biases": "as of the MLP",
    "prediction.layer": "as the last layer",
    **dict.fromkeys(("stored", "stored_experts", "stored_wide", "stored_cache"), "from quantization_config"),
}  # fmt: skip
