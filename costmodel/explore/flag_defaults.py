"""Default values, each with its reason, for what command-line flags leave open."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from costmodel.documents.keys.overrides import Assignment, assignment_of
from costmodel.documents.keys.paths import at
from costmodel.documents.reader.dense_models import DenseModel, dense_model
from costmodel.documents.reader.library import CachedReader
from costmodel.documents.reader.resolved_scenario import LoadedScenario, ResolvedScenario, training
from costmodel.documents.schemas.default_values import USUAL_LOAD, Assumption
from costmodel.documents.schemas.precision import RECIPES
from costmodel.documents.schemas.scenario import Scenario
from costmodel.equations.data_parallel import fitted_batch
from costmodel.equations.kernels.flop import optimal_parameters, optimal_tokens, six_n_flop
from costmodel.equations.run.economics import affordable_flop
from costmodel.estimate.model.shards import model_parameters
from costmodel.explore.workload_flags import flags_of
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Place
from costmodel.ground.units import counted

# Training software by the maker of the accelerator, where the default of a scenario is not described on it.
_STACKS = {"Google": "maxtext-tpu", "AWS": "neuronx-distributed", "Intel": "megatron-deepspeed-gaudi"}
_OF_PAIRS = "trl"  # the default for RL offers no dpo
_OF_ADAPTERS = ("transformers-ddp", "transformers-fsdp")  # of one accelerator, of several: PEFT and bitsandbytes
_MODEL_PARALLEL = tuple(f"plan.{axis}" for axis in ("tp", "pp", "ep", "etp"))  # which that software lacks
DEFAULT_SEQUENCE = 4096.0  # tokens, or the longest of the model
DEFAULT_BATCH = 4 * 2**20  # tokens
LIMIT = "workload.response.limit"
_FIXED: dict[str, tuple[int | str, str]] = {  # whatever the model, with the flag of each; as of the shipped scenarios
    **USUAL_LOAD,
    "workload.algorithm": ("grpo", "default; --rl sets it"),
    "workload.prompts": (512, "of an iteration, default; --prompts sets it"),
    "workload.samples": (16, "answers to a prompt, default; --samples sets it"),
    "workload.response.mean": (4096, "default; --answer sets it"),
}
_TAIL = 4.0  # times the mean: 1.7 % of log-normal lengths with the default spread of 95 % are longer, and are cut
_ROOM = 2.0  # memory of the default machine over those bytes

TOKENS_PER_PARAMETER = 20.0  # at the least loss for so much work: hoffmann-2022, table 3, in the middle
OPTIMAL_DEADLINE = "60d"  # assumed, of a training whose model and tokens are those that its budget trains best
_FIRST, _LEAST, _LESS = 8e9, 1e8, 0.95  # parameters that are tried first, the fewest, and the next after a size


def values_by_path(changes: Iterable[str | Assignment]) -> dict[str, Any]:
    """The values that flags and --set assign, by path; unreadable ones are left to the scenario's reader."""
    values = dict[str, Any]()
    for change in changes:
        with suppress(CostModelError):
            each = assignment_of(change) if isinstance(change, str) else change
            values[each.path] = each.value
    return values


def value_at(values: Mapping[str, Any], path: str) -> Any:
    """The value assigned to a path or to a key above it; None if nothing assigns one."""
    above, _, last = path.rpartition(".")
    if path in values or not above:
        return values.get(path)
    return at(value_at(values, above), last)


def asks_for_dpo(values: Mapping[str, Any]) -> bool:
    """Whether these values ask for DPO, which trains on given pairs of answers."""
    return bool(value_at(values, "workload.algorithm") == "dpo")


def default_stack(kind: str, values: Mapping[str, Any], *, alone: bool = False) -> list[Assumption]:
    """The usual training software, or other software for adapters and for accelerators that it does not support.

    alone: on one accelerator
    """
    if usual := flags_of(kind).engine:
        named = _OF_PAIRS if asks_for_dpo(values) else usual
        return [Assumption("stack", named, "the default; --stack names another")]
    maker = _accelerator_vendor(values)
    if maker not in _STACKS:
        return _stack_of_adapters(values, alone=alone)
    return [Assumption("stack", _STACKS[maker], f"the default on accelerators of {maker}; --stack names another")]


def _stack_of_adapters(values: Mapping[str, Any], *, alone: bool) -> list[Assumption]:
    """Software that trains adapters, if --set asks for them and for no model parallelism."""
    tuning = value_at(values, "workload.tuning")
    alone_or_usual = tuning if tuning in ("lora", "qlora") else "lora" if isinstance(tuning, Mapping) else ""
    method = value_at(values, "workload.tuning.method") or alone_or_usual
    if not method or any(value_at(values, path) is not None for path in _MODEL_PARALLEL):
        return []
    named = _OF_ADAPTERS[0 if alone else 1]
    return [Assumption("stack", named, f"the default for {method}; --stack names another")]


def fp8_recipe_of_software(case: LoadedScenario) -> Assumption | None:
    """The software's first fp8 recipe without delayed scaling."""
    stack = getattr(case, "stack", None)
    recipes = getattr(getattr(stack, "low_precision", None), "recipes", ())
    recipe = next((str(name) for name in recipes if RECIPES[name].type == "fp8"), "fp8")
    if recipe == "fp8" or case.scenario.workload.precision != "fp8":
        return None
    return Assumption("workload.precision", recipe, f"fp8 of {getattr(stack, 'name', '')}")


def usual_stack(case: ResolvedScenario) -> str:
    """The default training software for accelerators of this vendor."""
    usual = str(Scenario.model_fields["stack"].default)
    return _STACKS.get(case.accelerator.vendor, usual)


def _accelerator_vendor(values: Mapping[str, Any]) -> str:
    """The vendor of the named accelerator, or of the accelerator in the named node."""
    shelf, named = CachedReader(), value_at(values, "cluster.node")
    try:
        node = shelf.document("node", str(named)) if isinstance(named, str) else named
        held = value_at(values, "cluster.node.accelerator") or at(node, "accelerator")
        part = shelf.document("accelerator", str(held)) if isinstance(held, str) else held
    except CostModelError:  # the scenario's reader reports the place
        return ""
    return str(at(part, "vendor") or "")


def default_assignment(path: str, value: Any) -> Assignment:
    """An assignment of a default value, which no flag gives."""
    place = Place(COMMAND_LINE, 0, 0, path)
    return Assignment(path, place, value, place)


def placeholder(path: str) -> int | str:
    """A provisional value, so that a scenario can be read before its sizes are known."""
    return 10**9 if path == LIMIT else _FIXED.get(path, (1, ""))[0]


def default_sizes(
    case: LoadedScenario, paths: Iterable[str], gpus: int | None
) -> Iterator[tuple[Assumption, int | str]]:
    """A default with its reason for each of these size keys; keys that others depend on come first.

    gpus: those that --gpus asks for
    """
    paths, longest = set(paths), float(case.model.max_sequence)
    if "cluster.nodes" in paths:
        yield _default_size("cluster.nodes", *_default_nodes(case))
    for path, (usual, origin) in _FIXED.items():
        if path in paths:
            yield _default_size(path, usual, origin)
    if LIMIT in paths:
        yield _default_size(LIMIT, *_longest_answer(case, longest))
    sequence = min(DEFAULT_SEQUENCE, longest)
    if "workload.sequence" in paths:
        why = "default" if sequence == DEFAULT_SEQUENCE else "the longest of the model"
        yield _default_size("workload.sequence", int(sequence), f"{why}; --sequence sets it")
    if "workload.global_batch" in paths:
        if "workload.sequence" not in paths:
            sequence = float(training(case).scenario.workload.sequence)
        batch = _divisible_batch(DEFAULT_BATCH / sequence, gpus or int(case.node.accelerators))
        tokens = f"{counted(DEFAULT_BATCH)} tokens"
        exact = batch * sequence == DEFAULT_BATCH
        why = tokens if exact else f"near {tokens}, and many plans divide it"
        yield _default_size("workload.global_batch", batch, f"{why}; --batch sets it")


def _divisible_batch(wanted: float, gpus: int) -> int:
    """The batch nearest to a wanted one that is a power of two times the odd factor of the GPUs.

    >>> _divisible_batch(524.288, 64), _divisible_batch(1024.0, 48), _divisible_batch(0.4, 8)
    (512, 768, 1)
    """
    odd = gpus // (gpus & -gpus)
    odd = odd if odd <= wanted else 1
    return odd << max(0, round(math.log2(wanted / odd)))


def _longest_answer(case: LoadedScenario, longest: float) -> tuple[int, str]:
    """The token limit of answers: a multiple of the mean length, or what the model allows after the prompt."""
    from costmodel.documents.reader.rl_scenario import reinforced

    workload = reinforced(case).scenario.workload
    mean, room = float(workload.response.mean), longest - float(workload.prompt)
    many = max(mean, min(_TAIL * mean, room))
    why = f"{_TAIL:g} × the mean" if many == _TAIL * mean else "the longest of the model, with the prompt"
    return int(many), f"{why}; --longest sets it"


def _default_size(path: str, value: int | str, origin: str) -> tuple[Assumption, int | str]:
    return Assumption(path, value if isinstance(value, str) else counted(value), origin), value


def _default_nodes(case: LoadedScenario) -> tuple[int, str]:
    """The default number of nodes: a power of two whose memory is at least twice that of the parameters."""
    flags = flags_of(case.kind)
    held = float(model_parameters(case.model)) * flags.parameter_bytes
    needed = _ROOM * held / (float(case.accelerator.memory.usable) * float(case.node.accelerators))
    nodes = 2 ** max(0, math.ceil(math.log2(needed)))
    return nodes, f"enough GPUs for {_ROOM:g} × the {flags.held}; --gpus sets it"


_FIRST_RATE, _LEAST_RATE = 10.0, 0.01  # requests/s that are tried first, and at least
_STEP, _NEAR = 1.3, 1.02  # from one rate to the next without a bound; of two bounds that are near enough


def largest_affordable(budget: float, cost_of: Callable[[DenseModel], float]) -> tuple[DenseModel, bool]:
    """The largest dense model that a budget can train on its optimal tokens; and whether a limit stops a larger one.

    cost_of: the cost of that training [USD], infinite if no plan meets the other limits
    """
    costs, model = dict[DenseModel, float](), dense_model(_FIRST)
    while model not in costs:
        cost = costs[model] = cost_of(model)
        held = max((each.parameters for each, spent in costs.items() if spent <= budget), default=0.0)
        over = min((each.parameters for each, spent in costs.items() if spent > budget), default=math.inf)
        wanted = _affordable(budget, cost, model.parameters) if math.isfinite(cost) else 0.5 * over
        if held and not held < dense_model(wanted).parameters < over < math.inf:
            wanted = wanted if math.isinf(over) else math.sqrt(held * over)
        model = dense_model(wanted)
        while not held and model in costs and wanted > _LEAST:
            wanted *= _LESS
            model = dense_model(wanted)
    largest = max((each for each, spent in costs.items() if spent <= budget), key=lambda each: each[1], default=model)
    larger = (each for each in costs if each.parameters > largest.parameters)
    following = min(larger, key=lambda each: each.parameters, default=None)
    return largest, following is not None and math.isinf(costs[following])


def _affordable(budget: float, cost: float, parameters: float) -> float:
    """Compute-optimal parameters for a budget, at the cost per FLOP of a model that is already priced."""
    work = six_n_flop(parameters, optimal_tokens(parameters, TOKENS_PER_PARAMETER))
    return float(optimal_parameters(affordable_flop(work, cost, budget), TOKENS_PER_PARAMETER))


def highest_affordable(budget: float, cost_of: Callable[[float], float]) -> float:
    """The highest request rate [1/s] whose cost is within a budget, to about 2 %; the lowest tried if none is.

    cost_of: the cost of a rate [USD], which whole nodes raise in steps
    """
    held, over, rate = 0.0, math.inf, _FIRST_RATE
    while over > _NEAR * held and rate >= _LEAST_RATE:
        cost = cost_of(rate)
        held, over = (rate, over) if cost <= budget else (held, rate)
        likely = rate * budget / cost if cost > 0 else math.nan
        if math.isinf(over):
            wanted = max(likely, _STEP * held) if math.isfinite(likely) else _STEP * held
        elif held:
            wanted = math.sqrt(held * over)
        else:
            wanted = min(likely, over / _STEP) if math.isfinite(likely) else over / _STEP
        rate = float(f"{wanted:.3g}")
    return held or rate


def training_flags(model: DenseModel) -> dict[str, str]:
    """The flags to train a dense model: its name, its optimal number of tokens, and a batch for them.

    >>> training_flags(dense_model(70e9))
    {'model': 'dense-80x8192', 'tokens': '1411B', 'batch': '16Mi-tokens'}
    """
    tokens = float(optimal_tokens(model.parameters, TOKENS_PER_PARAMETER))
    batch = float(fitted_batch(six_n_flop(model.parameters, tokens)))
    mebi = 2 ** max(math.floor(math.log2(batch / 2**20)), 0)
    return {"model": model.name, "tokens": f"{tokens / 1e9:.4g}B", "batch": f"{mebi}Mi-tokens"}
