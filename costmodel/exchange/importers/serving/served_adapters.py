"""Options of engines that hold LoRA adapters beside the model, as how many there are and how wide the largest is."""

from __future__ import annotations

from costmodel.exchange.importers.launch.layer import Layer
from costmodel.exchange.values.foreign_keys import ForeignKeys

COUNT, RANK = "workload.adapters.count", "workload.adapters.rank"


def fill_vllm_adapters(keys: ForeignKeys, layer: Layer) -> None:
    """Slots of the device and their rank; adapters that wait on the host cost nothing there."""
    _say(keys, layer, "max-loras", on=bool(keys["enable-lora"].value))


def fill_sglang_adapters(keys: ForeignKeys, layer: Layer) -> None:
    """Slots of the device and their rank, which the engine else reads from the files of the adapters."""
    _say(keys, layer, "max-loras-per-batch", on=bool(keys["enable-lora"].value) or keys.given("lora-paths"))


def _say(keys: ForeignKeys, layer: Layer, slots: str, *, on: bool) -> None:
    for name, path in ((slots, COUNT), ("max-lora-rank", RANK)):
        value = keys[name]
        if not on:
            if keys.given(name):
                keys.lose("ignored", f"{name}: without --enable-lora there are no adapters", name)
        elif value.value is None:
            continue
        elif value.value < 1:
            keys.refuse("X005", f"{name} is 0, and adapters are switched on", name)
        else:
            layer.facts[path] = value
