"""The pipeline of a text of Megatron-LM options: stages, their chunks, and how layers go to them."""

from __future__ import annotations

import re

from costmodel.exchange.imported import OriginValue
from costmodel.exchange.importers.megatron.flags import MegatronFlags

_VIRTUAL = (
    "num-layers-per-virtual-pipeline-stage",
    "num-virtual-stages-per-pipeline-rank",
    "pipeline-model-parallel-layout",
)
_REPEATED = (re.compile(r"\(([^()]+)\)\*(\d{1,4})"), re.compile(r"(.)\*(\d{1,4})"))
_LONGEST_LAYOUT = 20_000


def pipeline(flags: MegatronFlags) -> dict[str, OriginValue]:
    """Chunks, schedule and split of the stages."""
    stages = flags.number("pipeline-model-parallel-size", 1)
    given = [name for name in _VIRTUAL if flags[name].value is not None]
    if len(given) > 1:
        sentence = f"of --{', --'.join(_VIRTUAL)} at most one can stand"
        flags.refuse("X005", sentence, flags[given[1]].place)
    found = _split(flags, stages) if stages > 1 else {}
    chunks = _chunks(flags, stages)
    if chunks is not None and chunks.value > 1:
        if stages < 2:
            flags.refuse("X005", "chunks of a pipeline rank need --pipeline-model-parallel-size over 1", chunks.place)
        found["vpp"] = chunks
    if stages > 1:
        kind = "interleaved" if "vpp" in found else "1f1b"
        text = "the schedule of several chunks" if "vpp" in found else "the schedule of one chunk"
        found["schedule"] = flags.fixed(kind, text)
    return found


def _chunks(flags: MegatronFlags, stages: int) -> OriginValue | None:
    pattern = flags.first("hybrid-layer-pattern", "hybrid-override-pattern")
    if pattern.value and "|" in pattern.value:
        segments = pattern.value.split("/")[0].count("|") + 1
        if segments % stages == 0:
            return pattern._replace(value=segments // stages)
        flags.refuse("X005", f"{segments} segments of the pattern do not fill {stages} stages", pattern.place)
        return None
    each, chunks = flags[_VIRTUAL[0]], flags[_VIRTUAL[1]]
    if chunks.value:
        return chunks
    if each.value:
        return _chunks_of_layers(flags, stages, each)
    printed = flags["virtual-pipeline-model-parallel-size"]
    return printed if printed.value else None


def _chunks_of_layers(flags: MegatronFlags, stages: int, each: OriginValue) -> OriginValue | None:
    """Chunks by the layers in each; embedding and loss count as layers where they are accounted for."""
    ends = flags.on("account-for-embedding-in-pipeline-split") + flags.on("account-for-loss-in-pipeline-split")
    layers = flags.number("num-layers") + ends
    for name in ("decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers"):
        if flags[name].value:
            flags.refuse("X005", f"--{name} goes with --{_VIRTUAL[1]} alone", each.place)
    if layers % (stages * each.value):
        sentence = f"{layers} layers do not go into {stages} stages of chunks of {each.value}"
        flags.refuse("X005", sentence, each.place)
        return None
    return each._replace(value=layers // stages // each.value)


def _split(flags: MegatronFlags, stages: int) -> dict[str, OriginValue]:
    layout = flags["pipeline-model-parallel-layout"]
    if layout.value:
        return _laid_out(flags, stages, layout)
    found = {}
    for key, name in (("first_stage_layers", "first"), ("last_stage_layers", "last")):
        value = flags[f"decoder-{name}-pipeline-num-layers"]
        if value.value:
            found[key] = value
    if found:
        return found
    names = ("account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split")
    first, last = (flags.on(name) for name in names)
    if first or last:
        split = "lighter-ends" if first and last else "lighter-first" if first else "lighter-last"
        return {"split": flags.derived(split, "embedding and loss count as layers", *names)}
    if not flags.first("hybrid-layer-pattern", "hybrid-override-pattern").value and flags.number("num-layers") % stages:
        sentence = f"{flags.number('num-layers')} layers do not go into {stages} stages"
        flags.refuse(
            "X005", sentence, flags["num-layers"].place, "--decoder-first-pipeline-num-layers makes them uneven"
        )
    return {"split": flags.fixed("even", "as many layers in every stage")}


def _laid_out(flags: MegatronFlags, stages: int, layout: OriginValue) -> dict[str, OriginValue]:
    """A layout such as Et*3|(tt|)*29,m|L: its chunks, and how many layers its stages have."""
    segments = _segments(layout.value)
    if segments is None or len(segments) % stages:
        sentence = f"--pipeline-model-parallel-layout has no stages for {stages} ranks"
        flags.refuse("X005", sentence, layout.place)
        return {}
    layers = [sum(segment.count("t") for segment in segments[rank::stages]) for rank in range(stages)]
    found: dict[str, OriginValue] = {}
    if len(segments) > stages:
        found["vpp"] = layout._replace(value=len(segments) // stages)
    middle = set(layers[1:-1])
    if len(set(layers)) == 1:
        return found | {"split": layout._replace(value="even")}
    if len(middle) > 1 or 0 in (layers[0], layers[-1]):
        counts = ", ".join(map(str, layers[:16]))
        sentence = f"stages of {counts} layers: only the first and the last stage can have layers of their own number"
        flags.lose("not expressible", sentence, "pipeline-model-parallel-layout")
        return found
    found["first_stage_layers"] = layout._replace(value=layers[0])
    return found | {"last_stage_layers": layout._replace(value=layers[-1])}


def _segments(text: str) -> list[str] | None:
    """The segments of a layout, its multiplications written out."""
    text = text.replace(",", "")
    for pattern in _REPEATED:
        for repeated in pattern.finditer(text):
            if len(repeated.group(1)) * int(repeated.group(2)) > _LONGEST_LAYOUT:
                return None
        text = pattern.sub(lambda found: found.group(1) * int(found.group(2)), text)
        if len(text) > _LONGEST_LAYOUT:
            return None
    return text.split("|") if re.fullmatch(r"[EtmL|]+", text) else None
