"""Every strategy switched on at a limit where it costs nothing, and there the plain case, column by column."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, get_args

import pytest

from costmodel.documents.reader.library import strategies
from costmodel.documents.schemas.results import BAND_ENDS, OF_STEP
from costmodel.equations.network.collectives import (
    halving_doubling_time,
    network_reduce_time,
    ring_time,
    switch_reduce_time,
    two_level_all_to_all_time,
)
from costmodel.estimate.machine.number_formats import LinearTypes
from costmodel.ground.counts import Schedule
from estimate.cases import (
    adapted,
    ask,
    even_kernels,
    fabric,
    free_host,
    free_links,
    free_memory,
    ideal,
    instant_host,
    machine,
    mixed,
    model,
    one,
    with_mixer,
    with_rates,
    written_out,
)
from estimate.limits import LIMITS, Rows, limit, pipeline, row

EVERY = {*OF_STEP} - {*BAND_ENDS}
MEMORY = {"fit_chance", "memory_peak", "memory_share", "memory_free", "host_memory", "host_share"}
SINGLE = mixed(count=1, top_k=1, ffn_hidden=4096)
EVERY_SCHEDULE = written_out("stack", "megatron-core", schedules=[*get_args(Schedule)])
CONTEXT = {"ring-attention": "p2p", "all-gather-context": "all-gather", "ulysses": "a2a"}
RATE, HOP = 5e10, 5e-6


# What a whole run meets or chooses between steps, whose limits are in test_run.py; and what names no switch of a plan.
OF_THE_RUN = {"async-checkpoint", "memory-checkpoint", "reshard", "elastic", "spot"}
WITHOUT_SWITCH = {"collective-time-outs", "communication-bound", "ring-all-reduce", "stragglers", "uneven-batches"}
# What has its limits beside its other tests: test_groups.py, test_sites.py, test_stragglers.py, test_vary.py.
ELSEWHERE = {"asynchronous-sgd", "critical-batch", "diloco", "parameter-server", "unequal-machines"}
SWITCHED = [word for word in strategies() if word not in OF_THE_RUN | WITHOUT_SWITCH | ELSEWHERE]


@pytest.mark.parametrize("word", SWITCHED)
def test_every_strategy_has_limits_where_it_is_the_plain_case(word: str) -> None:
    limits = [each for each in LIMITS if each.word == word]
    assert limits, "a new strategy needs a limit below"
    for each in limits:
        for found, plain in each.pairs(word):
            compared = sorted(found.keys() - each.apart)
            known = {name: plain[name] for name in compared}
            near = known if each.exact else pytest.approx(known, rel=1e-12, abs=1e-15)
            assert compared
            assert {name: found[name] for name in compared} == near


def test_every_limit_is_of_a_strategy() -> None:
    assert {each.word for each in LIMITS} == {*SWITCHED}


# ── Parallelism ──────────────────────────────────────────────────────────────────────────────────────────────────────


@limit("data-parallel", apart={"dp_volume", "tokens_per_s", "run_time"})
def replicas_on_free_links_are_as_many_jobs() -> Rows:
    yield row(free_links(machine(8)), zero=0), row(free_links(machine(global_batch=8)), zero=0)


ALONE: dict[str, dict[str, Any]] = {
    "zero-1": {"zero": 1},
    "zero-2": {"zero": 2},
    "fsdp": {"zero": 3},
    "sequence-parallel": {"sequence_parallel": True},
    "all-gather-context": {"cp_type": "all-gather"},
    "ulysses": {"cp_type": "a2a"},
}


@limit(*ALONE, exact=True)
def one_rank_shares_with_nobody(word: str) -> Rows:
    for again in ("none", "full"):
        plain = {"zero": 0, "sequence_parallel": False, "recompute": again}
        yield row(machine(), **{**plain, **ALONE[word]}), row(machine(), **plain)


@limit("gradient-compression", exact=True)
def one_rank_sends_nothing_to_compress() -> Rows:
    for codec in ("fp16", "int8"):
        yield row(machine(), compression=codec), row(machine())


@limit("hsdp")
def as_many_replicas_as_ranks_are_data_parallel() -> Rows:
    yield row(machine(8), zero=1, dp_replicate=8), row(machine(8), zero=0)


@limit("tensor-parallel", apart={"tp_volume", "tokens_per_s_per_gpu", "cost_per_mtoken", "run_cost"})
def half_of_a_layer_twice_as_wide_is_a_layer() -> Rows:
    wide = model(heads=32, head_dim=64, ffn_hidden=8192, vocab=65536)
    half, whole = (instant_host(free_links(machine(*of, global_batch=8))) for of in ((2, wide), (1, model())))
    yield row(half, tp=2, sequence_parallel=False), row(whole, sequence_parallel=False)


@limit("context-parallel", *CONTEXT, apart={"cp_volume", *MEMORY})
def a_quarter_of_every_sequence_is_every_fourth_sequence(word: str) -> Rows:
    asked = ideal(machine(4, sequence=32768, global_batch=8))
    yield row(asked, cp=4, cp_type=CONTEXT.get(word)), row(asked, dp=4)


@limit("expert-parallel", apart={"ep_volume", "dp_volume", *MEMORY})
def an_eighth_of_the_experts_for_eight_times_the_tokens() -> Rows:
    asked = ideal(machine(8, mixed()))
    yield row(asked, ep=8), row(asked, ep=1)


@limit("expert-tensor-parallel", apart={"tp_volume", "ep_volume", "dp_volume"})
def an_only_expert_over_the_ranks_of_tp_is_an_mlp() -> Rows:
    only, dense = (instant_host(free_links(machine(4, shape))) for shape in (SINGLE, None))
    yield row(only, tp=4, etp=4), row(dense, tp=4)


@limit("pipeline-parallel", apart=EVERY - {"step_time", "tokens_per_s", "run_time"})
def stages_with_one_micro_batch_take_turns() -> Rows:
    staged, whole = (free_links(free_memory(machine(ranks, global_batch=1))) for ranks in (4, 1))
    yield row(staged, pp=4), row(whole)


@limit("layer-split", exact=True)
def what_divides_is_even_however_it_is_said() -> Rows:
    for plan in ({"first_stage_layers": 2}, {"first_stage_layers": 2, "last_stage_layers": 2}, {"split": "spread"}):
        yield row(machine(4), pp=4, **plan), row(machine(4), pp=4, split="even")
    for split in ("lighter-ends", "lighter-first", "lighter-last", "spread", "full-chunks"):
        yield row(machine(), pp=1, split=split), row(machine(), pp=1, split="even")


@limit("placement", exact=True)
def in_one_domain_all_are_neighbours() -> Rows:
    plan = {"tp": 2, "cp": 2, "pp": 2}
    for order in ("tp-cp-pp-dp", "tp-dp-cp-pp"):
        yield row(machine(8), **plan, order=order), row(machine(8), **plan, order="tp-cp-dp-pp")


# ── Schedules ────────────────────────────────────────────────────────────────────────────────────────────────────────


@limit("gpipe", "1f1b")
def one_micro_batch_leaves_no_order_to_choose(word: str) -> Rows:
    other = "1f1b" if word == "gpipe" else "gpipe"
    yield row(machine(4, global_batch=1), pp=4, schedule=word), row(machine(4, global_batch=1), pp=4, schedule=other)


@limit(*set(get_args(Schedule)) - {"1f1b", "dualpipe", "chimera", "looped-bfs"})
def one_stage_is_no_pipeline(word: str) -> Rows:
    """With one micro-batch, where the schedule lets others be live beside it."""
    asked = machine(stack=EVERY_SCHEDULE, global_batch=1 if word in ("v-half", "dualpipev") else 64)
    yield pipeline(asked, pp=1, schedule=word), pipeline(asked, pp=1, schedule="1f1b")


@limit("zb-h1", "zb-h2", apart=MEMORY)
def without_gradients_of_weights_nothing_fills_the_gaps_of_1f1b(word: str) -> Rows:
    asked = adapted("lora", 4, stack=EVERY_SCHEDULE)
    yield row(asked, pp=4, schedule=word), row(asked, pp=4, schedule="1f1b")


@limit("zb-h2", "zb-v", apart=EVERY - {"bubble", "bubble_share"})
def where_forward_backward_and_weights_take_equally_long_nothing_waits(word: str) -> Rows:
    """Layers without attention, and an optimizer that waits for no other stage."""
    stack = {**EVERY_SCHEDULE, "post_validation": True}
    yield row(ideal(machine(4, with_mixer(), stack=stack)), pp=4, schedule=word), row(machine())


@limit("looped-bfs", apart=MEMORY)
def breadth_first_waits_as_depth_first() -> Rows:
    asked = ideal(machine(4, stack=EVERY_SCHEDULE))
    yield row(asked, pp=4, vpp=2, schedule="looped-bfs"), row(asked, pp=4, vpp=2, schedule="interleaved")


@limit("v-half", "v-min", apart=EVERY - {"bubble_share"})
def of_micro_batches_without_end_the_first_and_last_do_not_count(word: str) -> Rows:
    endless = ideal(machine(4, with_mixer(), stack=EVERY_SCHEDULE, global_batch=10**18))
    yield row(endless, pp=4, schedule=word), row(machine())


@limit("chimera", apart={"pp_volume"})
@limit("dualpipe", apart={"pp_volume", *MEMORY})
def of_two_ranks_both_ways_each_holds_the_model(word: str) -> Rows:
    for shape, zero in itertools.product((None, mixed()), (0, 1)):
        asked = free_links(machine(2, shape, stack=EVERY_SCHEDULE))
        yield row(asked, pp=2, schedule=word, zero=zero), row(asked, dp=2, zero=zero)


# ── Memory ───────────────────────────────────────────────────────────────────────────────────────────────────────────


NOTHING: dict[str, dict[str, Any]] = {
    "recompute-full": {"recompute": "full", "recompute_layers": 0},
    "recompute-layers": {"recompute_layers": 0},
    "recompute-selective": {"recompute": "selective"},
    "recompute-modules": {"recompute_modules": []},
    "recompute-mla": {"recompute_modules": ["mla-up-projection"]},
    "recompute-moe": {"recompute_modules": ["moe"]},
    "recompute-moe-activation": {"recompute_modules": ["moe-activation"]},
    "recompute-shared-experts": {"recompute_modules": ["shared-experts"]},
}


@limit(*NOTHING, exact=True)
def what_is_not_there_is_not_computed_again(word: str) -> Rows:
    """No layer, no module, no core that fused attention would keep, no part that the model lacks."""
    for pp in (1, 2):
        asked = machine(2 * pp)
        yield row(asked, tp=2, pp=pp, **NOTHING[word]), row(asked, tp=2, pp=pp, recompute="none")


@limit("recompute-layers", exact=True)
def as_many_layers_as_there_are_or_each_by_itself_are_all() -> Rows:
    for pp, vpp, count in ((1, 1, 8), (2, 1, 4), (2, 2, 2)):
        plan, asked = {"tp": 2, "pp": pp, "vpp": vpp}, machine(2 * pp)
        yield row(asked, **plan, recompute_layers=count), row(asked, **plan, recompute="full")
    yield row(machine(), recompute_layers=1, recompute_method="uniform"), row(machine(), recompute="full")


@limit("recompute-moe", "recompute-moe-activation")
def an_only_expert_is_computed_again_as_an_mlp(word: str) -> Rows:
    routed = word.removeprefix("recompute-")
    only, dense = (instant_host(machine(shape=shape)) for shape in (SINGLE, None))
    yield row(only, recompute_modules=[routed]), row(dense, recompute_modules=[routed.replace("moe", "mlp")])


@limit("recompute-shared-experts", exact=True)
def within_moe_they_are_computed_again_already() -> Rows:
    asked = machine(shape=mixed(shared={"ffn_hidden": 1024, "gated": True}))
    yield row(asked, recompute_modules=["moe", "shared-experts"]), row(asked, recompute_modules=["moe"])


@limit("offload-optimizer", "offload-parameters", apart=MEMORY)
def a_host_of_any_rate_is_as_near_as_memory(word: str) -> Rows:
    asked = free_host(machine(8, stack="deepspeed"))
    kept = ["optimizer", "parameters"] if word == "offload-parameters" else ["optimizer"]
    for where in ("cpu", "nvme"):
        yield row(asked, zero=3, offload=kept, offload_to=where), row(asked, zero=3)


@limit("offload-activations")
def two_layers_stay_on_the_device() -> Rows:
    asked = free_host(machine(shape=model(layers=2), stack="deepspeed"))
    yield row(asked, recompute="none", offload=["activations"]), row(asked, recompute="none")


# ── Layers ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@limit("mixture-of-experts")
def an_only_expert_is_an_mlp() -> Rows:
    for again in ("none", "selective", "full"):
        yield row(machine(shape=SINGLE), recompute=again), row(machine(), recompute=again)


@limit("state-space")
def half_as_many_sequences_twice_as_long_are_as_many_tokens() -> Rows:
    shape = with_mixer(state_space={"heads": 32, "head_dim": 64, "groups": 1, "state": 128, "conv": 4, "chunk": 128})
    long, short = (even_kernels(machine(shape=shape, sequence=8192 // n, global_batch=32 * n)) for n in (1, 2))
    yield row(long), row(short, micro_batch=2)


@limit("latent-attention", apart={"flop_rate", "mfu", "hfu", *MEMORY})
def heads_grown_to_their_width_attend_as_any() -> Rows:
    """Where products are free, so that attention alone takes time."""
    latent = {"heads": 16, "kv_rank": 256, "nope_dim": 32, "rope_dim": 32, "value_dim": 64}
    grown, plain = (ideal(machine(shape=shape), 1e30) for shape in (with_mixer(latent=latent), model()))
    yield row(grown), row(plain)


@limit("compressed-attention", apart={"flop_rate", "mfu", "hfu", *MEMORY})
def without_entries_a_window_alone_is_seen() -> Rows:
    """Where products are free, so that attention alone takes time."""
    sizes = {"heads": 16, "head_dim": 64, "window": 128}
    narrow = {**sizes, "rope_dim": 32, "query_rank": 64, "output_groups": 4, "output_rank": 64}
    kinds: list[dict[str, Any]] = [{"compressed": narrow}, {"attention": {**sizes, "kv_heads": 4}}]
    narrowed, plain = (ideal(machine(shape=with_mixer(**kind)), 1e30) for kind in kinds)
    yield row(narrowed), row(plain)


@limit("hyper-connections", apart={"flop_rate", "mfu", "hfu", *MEMORY})
def streams_cost_nothing_where_products_and_memory_are_free() -> Rows:
    shapes = ({**model(), "residual_streams": 4}, model())
    several, one_alone = (ideal(machine(shape=shape), 1e30) for shape in shapes)
    yield row(several), row(one_alone)


@limit("hashed-experts", apart=MEMORY)
def a_table_takes_as_long_as_a_router() -> Rows:
    for again in ("none", "full"):
        yield row(machine(shape=mixed(hashed=True)), recompute=again), row(machine(shape=mixed()), recompute=again)


@limit("flash-attention", exact=True)
def without_attention_no_kernel_of_it_runs() -> Rows:
    stacks = (written_out("stack", "megatron-core", kernels={"attention": kind}) for kind in ("flash-2", "unfused"))
    fused, unfused = (machine(shape=with_mixer(), stack=stack) for stack in stacks)
    yield row(fused), row(unfused)


# ── Precision and tuning ─────────────────────────────────────────────────────────────────────────────────────────────


@limit("bf16", "fp16", exact=True)
def types_of_one_width_and_rate_are_one(word: str) -> Rows:
    mine, other = (machine(2, workload={"precision": name}) for name in (word, "fp16" if word == "bf16" else "bf16"))
    yield row(mine, tp=2), row(other, tp=2)


@limit("fp8", "fp8-block", "fp8-cs", "fp8-row", "int8", "mxfp8", "nvfp4", "mxfp4")
def at_the_rate_and_width_of_bf16_it_is_bf16(word: str) -> Rows:
    """Conversion and copies cost nothing, and inputs are kept wide."""
    named = "fsdp2" if word == "fp8-row" else "megatron-core"
    node = "tpu-v5e-slice" if word == "int8" else "dgx-b200"
    stack = written_out("stack", named, low_precision={"saved": False, "recipes": [word]})
    more = {"node": node, "stack": stack}
    narrow, wide = (machine(**more, workload={"precision": kind}) for kind in (word, "bf16"))
    recipe = replace(narrow.recipe, operand=2.0, quantised=0.0, transposed=0.0, copies=0.0)
    as_wide = with_rates(
        narrow, linear=LinearTypes(recipe, wide.rates.matmul, wide.rates.peak, 1.0), mfu_peak=wide.rates.mfu_peak
    )
    for zero in (2, 3):
        yield row(as_wide, tp=2, zero=zero), row(wide, tp=2, zero=zero)


@limit("lora", apart=EVERY - {"step_time", "matmul", "attention", "memory_bound", "launch", "optimizer"})
def an_adapter_of_no_width_leaves_out_the_gradients_of_weights() -> Rows:
    """As long as they take is said by schedules that defer them."""
    plain = row(ideal(machine()), zero=0)
    weights = 64 * one(ask(ideal(machine()), schedule="zb-h1").evaluation.step.ranks[0].deferred)
    yield row(adapted("lora"), zero=0), plain | {name: plain[name] - weights for name in ("step_time", "matmul")}


@limit("qlora", apart=MEMORY)
def weights_unpacked_in_no_time_are_those_of_lora() -> Rows:
    yield row(adapted("qlora"), zero=0), row(adapted("lora"), zero=0)


# ── Network ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@limit("rail-optimised", exact=True)
def on_one_rail_or_over_a_spine_as_wide_nothing_is_slower() -> Rows:
    aligned, across = {"tp": 8, "pp": 4}, {"tp": 3, "sequence_parallel": False}
    for rails, over, plan in (("optimised", 4, aligned), ("forwarded", 4, aligned), ("optimised", 1, across)):
        yield row(fabric(rails, over), **plan), row(fabric("none", over), **plan)


@limit("halving-doubling", "nvls", "sharp", "two-level-all-to-all")
def an_algorithm_is_another_one(word: str) -> Rows:
    """Two ranks are a ring; so is one domain, or one rank in each; of many ranks any switch sends the buffer once."""
    for size in (0.0, 1e6, 1e10):
        pair = ring_time(size, 2.0, RATE, HOP, operation="all_reduce")
        eight = ring_time(size, 8.0, RATE, HOP, operation="all_to_all")
        alike = {
            "halving-doubling": [(halving_doubling_time(size, 2.0, RATE, HOP), pair)],
            "sharp": [(network_reduce_time(size, RATE, HOP), pair)],
            "nvls": [(switch_reduce_time(size, 1e18, RATE, HOP), network_reduce_time(size, RATE, HOP))],
            "two-level-all-to-all": [
                (two_level_all_to_all_time(size, 8.0, 1.0, RATE, 1.0, HOP, 1.0), eight),
                (two_level_all_to_all_time(size, 1.0, 8.0, 1.0, RATE, 1.0, HOP), eight),
            ],
        }
        yield from (({"time": one(found)}, {"time": one(plain)}) for found, plain in alike[word])
