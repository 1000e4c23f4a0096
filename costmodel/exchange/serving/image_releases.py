"""The release of an engine that the tag of a container's image states, and the stack that stands for it."""

from __future__ import annotations

import re

from costmodel.documents.reader.engine_releases import stack_of_release
from costmodel.exchange.imported import Origin, OriginValue
from costmodel.exchange.training.settle import Settled
from costmodel.exchange.values.foreign_values import printable
from costmodel.ground.errors import Fault, Place

IMAGE = "image"  # the fact of a layer
_ENGINES = re.compile(r"(?:^|/)(?:vllm-openai|lmsysorg/sglang|tensorrt-llm/release)(?P<tag>:[^@/]*)?(?:@.*)?$")
_RELEASE = re.compile(r":v?(\d+\.\d[\w.]*)")
_LONGEST = 80  # letters of an image that are shown


def image_fact(image: str, place: Place) -> OriginValue | None:
    """The container image of an engine as a fact; None for any other image.

    >>> image_fact("python3", Place("serve.sh"))
    >>> image_fact("mirror.local:5000/lmsysorg/sglang:v0.5.2-cu126", Place("pod.yaml")).value
    'lmsysorg/sglang:v0.5.2-cu126'
    """
    if _ENGINES.search(image) is None:
        return None
    short = printable("/".join(image[:_LONGEST].partition("@")[0].split("/")[-2:]))
    return OriginValue(short, Origin("file", f"image {short}", place))


def settle_release(found: Settled) -> list[Fault]:
    """Replaces the stack by the one for the image's release; returns a warning if no stack describes it."""
    image, stack = found.facts.pop(IMAGE, None), found.facts.get("stack")
    if image is None or stack is None or stack.origin.kind == "assumed":
        return []
    release = _RELEASE.search(image.value)
    held = stack_of_release(str(stack.value), release[1] if release else "")
    if held is None:
        return []
    text = f"{image.origin.text}: {'' if held.described else 'estimated as '}{held.title}"
    found.facts["stack"] = image.derived(held.stack, text)
    if held.described or release is None:
        return []
    sentence = f"no stack describes release {release[1]} of {image.value}; its figures are those of {held.title}"
    return [Fault("X006", sentence, image.place, f"--set stack={held.stack} takes them without this warning")]
