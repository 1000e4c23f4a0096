"""Keys of the model document that no option of a family of transformers states, and where they come from."""

COMPRESSED = "layers.compressed"

UNSAID = {
    "schema": "fixed", "name": "from the file", "title": "from the file", "source": "the file itself",
    "sources": "the file itself", "check": "the file was read", "note": "free text", "published": "not in the file",
    "layers.leading": "from the order of the layers", "layers.attention.shared_kv": "from the order of the layers",
    "vision": "from the configuration of the tower",
    "layers.latent.heads": "as of attention",
    **dict.fromkeys((f"{COMPRESSED}.{key}" for key in ("heads", "head_dim", "window", "sinks")), "as of attention"),
    **dict.fromkeys((f"{COMPRESSED}.{key}" for key in ("query_rank", "rope_dim")), "as of latent attention"),
    f"{COMPRESSED}.entries.overlap": "of entries that an indexer picks",
    **dict.fromkeys((f"{COMPRESSED}.entries.indexer.{key}" for key in ("heads", "head_dim", "top_k")),
                    "as of latent attention"),
    "layers.experts.hashed": "from the order of the layers",
    "layers.experts.gated": "as of the MLP",
    "layers.experts.shared.gated": "as of the MLP", "layers.experts.shared.biases": "as of the MLP",
    "prediction.layer": "as the last layer",
    **dict.fromkeys(("stored", "stored_experts", "stored_wide", "stored_cache"), "from quantization_config"),
}  # fmt: skip
