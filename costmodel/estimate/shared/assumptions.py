"""The assumptions of a scenario: values that the user did not state, and where each came from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from costmodel.documents.reader.hub_names import name_words
from costmodel.documents.reader.library import UNMEASURED
from costmodel.documents.reader.resolved_scenario import LoadedScenario, ResolvedScenario
from costmodel.documents.schemas.base import FromTokens, Images
from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.schemas.model import Model
from costmodel.documents.schemas.precision import RECIPES, Precision
from costmodel.equations.parallelism.counts import remainder
from costmodel.equations.run.economics import share
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.results import number
from costmodel.ground.errors import COMMAND_LINE, fail
from costmodel.ground.units import counted, show, significant


def converted(case: ResolvedScenario) -> tuple[Assumption, ...]:
    """Assumptions for converted values: a model stated by its hub name, and batches stated in tokens."""
    shapes = (Assumption("model", shape, name_words(name, shape)) for name, shape in case.hub.items())
    stacks = (Assumption("stack", stack, f"what {name} is taken for") for name, stack in case.stacks.items())
    batches = (
        Assumption(path, f"{counted(batch)} sequences", _division(batch)) for path, batch in case.scenario.from_tokens
    )
    return (*shapes, *stacks, *batches)


def _division(batch: FromTokens) -> str:
    """How a batch in sequences follows from one in tokens, as text such as "4M tokens / 4096 = 976.6, rounded"."""
    sequences = float(share(batch.tokens, batch.sequence))
    exact = "" if sequences == batch else f" = {significant(sequences, 6)}, rounded"
    return f"{counted(batch.tokens)} tokens / {counted(batch.sequence)}{exact}"


# Assumptions that count only where an axis has several ranks: by path the axes, of which one must.
_NEEDS = {
    "assume.overlap.tp": ("tp",),
    "assume.overlap.dp": ("dp", "cp"),
    "assume.overlap.weights": ("dp", "cp"),
    "assume.overlap.pp": ("pp",),
    "assume.overlap.cp": ("cp",),
    "assume.overlap.ep": ("ep", "etp"),
    "assume.experts.dispatch": ("ep", "etp"),
    "assume.experts.deduplicated": ("ep", "etp"),
    "assume.compression.codec": ("dp", "cp"),
    "assume.compression.warm_up": ("dp", "cp"),
    "gradients on the network": ("dp", "cp"),
    "plan.sequence_parallel": ("tp",),
    "plan.schedule": ("pp",),
}


def relevant_assumptions(assumed: Iterable[Assumption], block: Block, *, leaves_domain: bool) -> tuple[Assumption, ...]:
    """The assumptions that affect the plan of a block of one row."""

    def counts(path: str) -> bool:
        """Whether the assumption at a path affects this plan."""
        if path == "assume.network_share":
            return leaves_domain
        return path not in _NEEDS or any(getattr(block, axis)[0] > 1 for axis in _NEEDS[path])

    return tuple(item for item in assumed if counts(item.path))


class AssumptionLog:
    """Returns the scenario's value, or the default and records it as an assumption."""

    def __init__(self) -> None:
        self.assumed: list[Assumption] = []

    def note(self, path: str, value: str, origin: str, *, short: str = "") -> None:
        """Adds an assumed value to the log, with its path and origin; short: what every short answer states of it."""
        self.assumed.append(Assumption(path, value, origin, short))

    def choose(self, path: str, written: float | None, default: float, origin: str, unit: str = "1") -> float:
        """The stated value, or the default."""
        if written is not None:
            return written
        self.note(path, show(number(default), unit), origin)
        return default


# Keys that no figure of an answer depends on, each with the reason, where a scenario states them.

WITHOUT_EFFECT = "without effect"
_SECTIONS = ("cluster", "model", "workload", "stack", "plan", "assume", "run", "limits")
_OF_A_RESULT = "scenario.document."  # where a result has the keys of all documents, stated or not
_PART, _IN, _OUT, _HOST = (
    f"cluster.node.{key}" for key in ("accelerator", "scale_up.fabric", "scale_out.fabric", "host")
)
_EVERY = {  # of every workload
    **dict.fromkeys((f"{links}.latency" for links in (_IN, _OUT, _HOST)), "fits of collectives have the measured one"),
    **dict.fromkeys((f"{links}.copies" for links in (_IN, _OUT)), "copies go over the links to the host"),
    **dict.fromkeys((f"{links}.efficiency" for links in (_IN, _HOST)), "fits are of the accelerator, and of scale_out"),
    f"{_HOST}.reduces": "no collective adds up in the links to the host",
    f"{_PART}.chip": "fits of kernels have the measured rates",
    f"{_PART}.held_against": "it describes the document",
    f"{_PART}.found_in": "cluster.node names the node",
    "cluster.node.price.in_part": "only buy bills nodes of which a part is rented",
}
_SERVING = {
    "cluster.node.drives": "stack.host_cache.on is not drives",
    "cluster.node.memory.bandwidth": "no optimizer step runs on the host",
    "cluster.node.memory.cores": "no optimizer step runs on the host",
    f"{_PART}.operands": "an engine reads its weights one way",
    f"{_PART}.best_matmul": "engines without runs have the common fits",
    **dict.fromkeys((f"{links}.reduces" for links in (_IN, _OUT)), "engines take the fits of all-reduces, and trees"),
}
_MULTIPLIED = {f"{_PART}.peak.int8": "training has no products in int8"}
_RUN = {
    f"run.failures.{key}": "ranges of a run are those of its iterations"
    for key in ("low", "high", "job.low", "job.high")
}
_ROLLOUT = {
    "plan.shares": "all nodes are alike",
    "model.vision.merge": "prompts have no images",
    "model.vision.positions": "prompts have no images",
    "stack.rollout.weights": "engines have the weights of the trainer",
    "stack.rollout.host_cache": "no turn comes back",
    "stack.rollout.chunked": "prompts of an iteration are given at once",
    "stack.rollout.start": "engines run through all iterations",
    "stack.rollout.spread.ttft": "no figure of an iteration has it",
    "stack.rollout.spread.pool": "no figure of an iteration has it",
}
_STORED = {
    f"model.{key}": "training keeps weights in workload.precision"
    for key in ("stored", "stored_experts", "stored_wide", "stored_cache")
}
_ALIGNED = 8  # elements: heads of another multiple do not fit the tensor cores
UNUSED: dict[str, dict[str, str]] = {
    "training": {**_EVERY, **_MULTIPLIED, **_STORED},
    "serving": {**_EVERY, **_SERVING},
    "rl": {**_EVERY, **_MULTIPLIED, **_RUN, **_ROLLOUT},
}


def unused_keys(case: LoadedScenario, further: Iterable[tuple[str, str]] = ()) -> tuple[Assumption, ...]:
    """The stated keys that have no effect on the answer, each with the reason.

    further: paths without effect in the plan of the answer, with their reasons
    """
    if not (stated := [*stated_leaves(case, _SECTIONS)]):
        return ()
    reasons = {**dict(further), **dict(_unused_cluster_keys(case)), **UNUSED[case.kind]}
    found = {leaf: reason for leaf in stated for path, reason in reasons.items() if f"{leaf}.".startswith(f"{path}.")}
    return tuple(Assumption(leaf, WITHOUT_EFFECT, reason) for leaf, reason in found.items())


def _unused_cluster_keys(case: LoadedScenario) -> Iterator[tuple[str, str]]:
    """Keys of the cluster that other keys of the scenario switch off."""
    yield from _unused_network_keys(case)
    trainer = getattr(case, "trainer", getattr(case, "stack", None))
    algorithms = getattr(trainer, "collectives", ())
    for links, name in ((_IN, "nvls"), (_OUT, "sharp")):
        if name not in algorithms:
            yield f"{links}.reduces", f"stack.collectives has no {name}"
    yield from _unused_peaks(case)
    yield from _unused_host_rate(case)
    if case.stated_price is not None:
        yield "cluster.node.price", "assume.price is stated"
    if case.stated_price is not None or case.node.list_price is not None:
        yield f"{_PART}.offer", "the price is known"


def _unused_network_keys(case: LoadedScenario) -> Iterator[tuple[str, str]]:
    """Keys of links inside a node that the topology does not use, and keys of the network between nodes."""
    cluster, topology = case.cluster, case.node.scale_up.topology
    if topology in ("switch", "none"):
        yield "cluster.node.scale_up.pair_bandwidth", f"cluster.node.scale_up.topology is {topology}"
    if cluster.rails != "optimised":  # whose other traffic goes over the spine
        if cluster.pod is None:
            yield "cluster.oversubscription", "cluster.pod is not stated, and cluster.rails is not optimised"
        elif cluster.pod >= cluster.nodes:
            yield "cluster.oversubscription", "all nodes are in one pod"
    if cluster.pod is not None and cluster.pod >= cluster.nodes:
        yield "cluster.pod", "all nodes are in one pod"
    elif cluster.oversubscription == 1:
        yield "cluster.pod", "cluster.oversubscription is 1"
    if cluster.rails == "optimised" and cluster.oversubscription == 1:
        yield "cluster.rails", "cluster.oversubscription is 1"


def _unused_peaks(case: LoadedScenario) -> Iterator[tuple[str, str]]:
    """Peaks of types in which the job computes nothing; the 16-bit peak also scales throttling."""
    workload, mixers = case.scenario.workload, case.model.layers
    named = (getattr(workload, name, None) for name in ("precision", "expert_precision", "rollout_precision"))
    precisions: set[Precision] = {name for name in named if name is not None}
    used: set[str | None] = {kind for name in precisions for kind in (RECIPES[name].type, RECIPES[name].wide)}
    used |= {"bf16" if case.accelerator.peak.bf16 else "fp16", getattr(case.scenario.assume, "mfu_peak", None)}
    if any(kind.latent is not None and kind.latent.indexer is not None for kind in mixers):
        used.add("fp8")  # scores of an indexer
    heads = (kind.attention.head_dim for kind in mixers if kind.attention is not None)
    if any(kind.selective_scan is not None for kind in mixers) or any(remainder(dim, _ALIGNED) for dim in heads):
        used.add("fp32")  # vector units
    for kind in type(case.accelerator.peak).model_fields:
        if kind not in used:
            yield f"{_PART}.peak.{kind}", f"nothing is computed in {kind}"
    sustained, part = case.efficiency.sustained, case.accelerator
    if case.efficiency.of != UNMEASURED and (sustained is None or sustained.covers(part.name, part.vendor)):
        yield f"{_PART}.best_matmul", "its own kernels are fitted"
    if RECIPES[workload.precision].single is None:
        yield f"{_PART}.operands", f"products in {workload.precision} read one copy of each operand, or need both"


def _unused_host_rate(case: LoadedScenario) -> Iterator[tuple[str, str]]:
    """The rated bandwidth of the host link, if copies have a rate of their own and nothing else uses the link."""
    node, host = case.node, case.host
    several = node.scale_out.nics > node.accelerators
    if host is None or not several:
        yield "cluster.node.scale_out.on_chip", "an accelerator has no more than one interface"
    if host is None or host.copies is None or getattr(case.scenario.assume, "host_share", None) is not None:
        return
    carries = several and not node.scale_out.on_chip
    if case.kind != "serving" and not carries and node.scale_up.topology not in ("pairs", "none"):
        yield f"{_HOST}.bandwidth", "copies take cluster.node.host.copies"


def stated_leaves(case: LoadedScenario, sections: Iterable[str]) -> Iterator[str]:
    """Paths of the values that the scenario itself states, without named documents and saved results."""
    files = (COMMAND_LINE, case.file)

    def leaves(here: Any, path: str) -> Iterator[str]:
        """Paths of the values under one mapping or list, down to single values."""
        for key, value in enumerate(here) if isinstance(here, list) else here.items():
            inner, place = f"{path}.{key}", getattr(key, "place", None)
            if isinstance(value, dict) or (isinstance(value, list) and value and isinstance(value[0], dict)):
                yield from leaves(value, inner)
            elif place is not None and place.file in files and not place.path.startswith(_OF_A_RESULT):
                yield inner

    for section in sections:
        if isinstance(case.tree.get(section), dict):
            yield from leaves(case.tree[section], section)


def seen(case: LoadedScenario, model: Model, images: Images | None, tokens: float) -> None:
    """An error for images without a vision tower, or with more tokens than the sequence or prompt."""
    if images is None:
        return
    place = case.place("workload.images")
    if model.vision is None:
        hint = "take a model with vision, or leave workload.images out"
        raise fail("D016", f"{model.name} has no vision tower for images to pass", place, hint)
    if images.count * images.tokens > tokens:
        sentence = f"{images.count:g} images of {images.tokens:g} tokens do not fit into {tokens:g} tokens"
        raise fail("D016", sentence, place, "take fewer images, or a longer sequence or prompt")


def note_borrowed_fit(log: AssumptionLog, case: LoadedScenario, fitted: Collection[str] = ()) -> None:
    """Records that an accelerator has the kernels fitted for another; `fitted` had runs that the fit used, too."""
    own, named = case.accelerator.name, case.efficiency.of
    if named != UNMEASURED and own not in (named, *fitted):
        words = f"as fitted for {named}, none measured on {own}"
        log.note("kernels", words, f"efficiencies/{named}", short=f"kernels {words}")


def note_unseen(log: AssumptionLog, model: Model, images: Images | None) -> None:
    """Records as an assumption that a model with a vision tower gets only text."""
    if model.vision is not None and images is None:
        log.note("workload.images", "none", "only text; the vision tower needs memory but has no input")
