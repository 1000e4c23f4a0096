"""Phrasings of common questions lead to a page of `explain`, whatever their form; unknown ones to pages by meaning."""

from __future__ import annotations

import json
from typing import Any

import pytest

from costmodel.documents.reader.library import phrases
from costmodel.explore.explain.page_search import (
    is_clear_match,
    nearest_pages,
    page_of_phrase,
    questions,
    significant_words,
)
from costmodel.explore.explain.word_explanations import page, page_or_nearest
from costmodel.ground.errors import CostModelError

# Phrasings as people type them, and the page on which the answer stands, read off the pages.
ASKED = {
    "gpu failure": "node-failures", "sharded checkpoint": "sharded-checkpoint", "global batch size": "global-batch",
    "linear scaling rule": "learning-rate", "distributed inference": "multi-gpu-serving",
    "heterogeneous gpus": "mixed-gpus", "rdma": "network-kinds", "double binary tree": "ring-or-tree",
    "FSDP out of memory": "out-of-memory", "DDP hangs": "collective-timeouts", "nccl timeout": "collective-timeouts",
    "gradient accumulation": "global-batch", "why is my MFU low": "low-mfu",
    "how many GPUs do I need": "gpus-for-training", "pipeline bubble": "bubble",
    "tensor parallel across nodes": "tp-or-pp", "kv cache size": "kv-cache-size",
    "paged attention": "what-24-times-compares", "straggler": "stragglers", "spot instances": "spot-or-on-demand",
    "checkpoint interval": "how-often-to-save", "activation memory": "activation-checkpointing",
    "mixed precision": "mixed-precision", "fp8 training": "mixed-precision", "weak scaling": "strong-or-weak-scaling",
    "scaling efficiency": "strong-or-weak-scaling", "allreduce vs reduce-scatter": "all-reduce-or-reduce-scatter",
    "nvlink vs infiniband": "network-kinds", "roce": "network-kinds", "gpu hours": "cost-of-tokens",
    "cost per million tokens": "cost-of-tokens", "square-root learning rate": "learning-rate",
    "the model does not fit in memory": "out-of-memory", "dataloader is slow": "data-loading",
    "H100 vs A100": "which-gpu", "memory bound or compute bound": "roofline", "loss diverges": "not-predicted",
}  # fmt: skip
# Phrasings by page, as users typed them in failures, about memory, batches, cost, networks, tuning, serving and GPUs.
TYPED = {
    "node-failures": ("my gpu broke", "a gpu died during training", "resume after crash", "node crashed",
        "hardware fault", "machine went down", "resume training", "restart training from checkpoint",
        "job killed", "link flapping", "network is down", "what happens when a gpu fails", "recover from a crash",
        "server reboot during training"),
    "collective-timeouts": ("training froze", "gpu hang", "all-reduce hangs", "stuck at nccl"),
    "spares-and-elastic": ("resume on a different number of gpus", "continue with fewer gpus"),
    "out-of-memory": ("CUDA out of memory during backward", "gpu memory is full", "max batch size for my gpu",
        "memory leak", "expandable_segments", "sequence length too long oom", "oom on long context",
        "ran out of memory", "memory spikes", "not enough memory", "reduce vram usage", "how much vram do I need",
        "does it fit", "largest batch that fits", "biggest batch size that fits", "optimizer memory usage",
        "fsdp memory"),
    "critical-batch": ("how big a batch", "bigger batch", "how large a batch"),
    "global-batch": ("increase batch size", "batch too small", "per_device_train_batch_size"),
    "energy-and-carbon": ("power draw of cluster", "electricity bill", "cooling", "power consumption of a gpu",
        "megawatts"),
    "gpus-for-training": ("chinchilla optimal tokens", "compute optimal", "how many gpus to train a 70b model",
        "how many tokens should I train on", "optimal model size", "how many epochs", "days to train llama 70b"),
    "cost-of-tokens": ("dollar cost of training", "cost of training llama 3", "cloud gpu price",
        "gpu rental price"),
    "which-gpu": ("H100 vs A100 which is cheaper", "which gpu to buy", "cheapest way to train",
        "which gpu for llama 70b", "is a100 enough", "consumer gpu", "amd gpus", "rtx 4090 for training"),
    "lora-or-full": ("LoRA memory", "qlora memory", "fine-tune a 70b model", "fine-tune on a single gpu",
        "4-bit training"),
    "pretraining-or-fine-tuning": ("instruction tuning cost", "gpus for supervised fine-tuning"),
    "cold-start": ("cold start time of a model server", "model server startup time", "time to load a model",
        "scale to zero", "warm up of a server", "slow model loading"),
    "sequence-packing": ("sequence packing", "packing sequences", "padding", "variable length sequences",
        "document masking"),
    "torch-compile": ("torch.compile", "compile the model", "kernel fusion", "triton kernels", "inductor"),
    "launch-overhead": ("kernel launch overhead", "python overhead", "cpu bound", "host overhead"),
    "nccl": ("all-reduce bandwidth", "all-gather bandwidth", "nccl bandwidth test", "collective bandwidth"),
    "network-requirements": ("cluster network congestion", "oversubscribed network", "bandwidth between nodes"),
    "communication-bound": ("slow network", "network latency too high"),
    "network-kinds": ("bandwidth between gpus", "pcie bottleneck"),
    "data-loading": ("gpu direct storage", "dataset on s3"),
    "how-often-to-save": ("checkpoint too slow", "saving takes too long", "lost checkpoint"),
    "sharded-checkpoint": ("checkpoint to s3", "oom when saving checkpoint", "size of a checkpoint"),
    "latency-or-throughput": ("slow first token", "serving is slow", "low throughput in vllm",
        "batch size in vllm"),
    "kv-cache-size": ("context length for serving", "kv cache full"),
    "multi-gpu-serving": ("how to serve llama 70b", "serve a 70b model"),
    "low-mfu": ("tokens per second too low", "training throughput too low"),
    "slow-step": ("fsdp is slow", "training slowed down", "zero 3 is slow"),
    "strong-or-weak-scaling": ("scaling is bad", "adding gpus does not help"),
    "mixed-precision": ("fp8 speedup", "fp16 overflow", "int8 training"),
    "ddp-or-fsdp": ("fsdp or deepspeed", "megatron vs fsdp"),
    "spot-or-on-demand": ("job was preempted", "reserved or on demand"),
}  # fmt: skip
OF_WORDS = {
    "continuous batching": "batching", "chunked prefill": "chunked prefill", "expert parallelism": "expert-parallel",
    "many lora adapters": "served_adapters",
    "goodput": "goodput", "hybrid sharding": "hsdp", "zero bubble pipeline": "zb-h1",
}  # fmt: skip


@pytest.mark.parametrize("words", ASKED)
def test_a_common_question_leads_to_its_page(words: str, run: Any) -> None:
    found = page_or_nearest(words)
    assert found.asked is not None
    assert found.asked.words[0] == ASKED[words]


@pytest.mark.parametrize("target", TYPED)
def test_what_users_type_leads_to_the_page_that_answers_it(target: str) -> None:
    pages = {words: page_or_nearest(words).asked for words in TYPED[target]}
    assert {words: asked.words[0] if asked else None for words, asked in pages.items()} == dict.fromkeys(pages, target)


@pytest.mark.parametrize(
    "words", ["my cat at the server", "weather of the cluster", "python install", "int7 pie chart"]
)
def test_a_loose_match_opens_no_page(words: str, run: Any, faults: Any) -> None:
    (fault,) = faults(run("explain", words))
    assert fault.code == "C003"
    assert "did you mean" not in fault.help


def test_words_anywhere_on_a_page_name_it_and_open_none() -> None:
    pages = {"made-up": ("spare bubble carbon", "spare bubble carbon")}
    (only,) = nearest_pages("spare bubble carbon", pages)
    assert only.word == "made-up"
    assert not is_clear_match([only])


def test_the_page_of_a_phrase_is_printed(run: Any) -> None:
    ran = run("explain", "FSDP", "out", "of", "memory")
    assert (ran.code, ran.err) == (0, "")
    assert "CUDA out of memory: where do the bytes go" in ran.out
    assert "The common mistake: " in ran.out


@pytest.mark.parametrize("words", OF_WORDS)
def test_a_word_with_a_page_of_its_own_stays_there(words: str) -> None:
    assert page(words).word == OF_WORDS[words]


def test_every_phrase_of_the_index_has_one_page() -> None:
    """More than 1,000 terms of the field; none is empty, none leads to two pages, and all pages are there."""
    pages: dict[frozenset[str], str] = {}
    for word, listed in phrases().items():
        assert page(word)
        for phrase in listed:
            key = significant_words(str(phrase))
            assert key, phrase
            assert pages.setdefault(key, word) == word, phrase
    assert len(pages) >= 1050


def test_every_question_and_every_term_leads_to_a_page(request: pytest.FixtureRequest) -> None:
    """A share of the phrasings of a question and of the terms, unless --whole asks for all."""
    share = 1 if request.config.getoption("--whole") else 4
    asked = [word for question in questions() for word in question.words]
    terms = [str(phrase) for listed in phrases().values() for phrase in listed]
    lost = []
    for words in (*asked[::share], *terms[::share]):
        try:
            assert not page(words).nearest_to
        except CostModelError:
            lost.append(words)
    assert lost == []
    assert [question.question for question in questions() if page(question.question).asked != question] == []


def forms(phrase: str) -> list[str]:
    """The same phrase in other forms."""
    words = phrase.replace("-", " ").split()
    plural = phrase if phrase.endswith("s") or len(words) > 3 else f"{phrase}s"  # a longer one ends with a verb
    return [" ".join(reversed(words)), "-".join(words), phrase.upper(), f"What about {phrase}?", plural]


def test_the_form_of_a_phrase_makes_no_difference() -> None:
    for words, target in ASKED.items():
        for form in forms(words) if page_of_phrase(words) == target and "reduce" not in words else ():
            assert page_of_phrase(form) == target, form


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("DP vs FSDP", "fsdp or data parallelism"),
        ("quantisation of the KV cache", "quantized KV-cache"),
        ("OOM with MoE", "out of memory, mixture of experts"),
        ("data centre training", "training in datacenters"),
        ("all reduce", "all-reduce"),
        ("grad accum", "gradient accumulation"),
    ],
)
def test_spelling_and_abbreviations_make_no_difference(one: str, other: str) -> None:
    assert significant_words(one) == significant_words(other)


def test_words_that_change_the_question_count() -> None:
    assert (
        len(
            {significant_words(text) for text in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "reduce")}
        )
        == 5
    )


def test_a_question_that_no_page_is_named_after_leads_to_the_nearest(run: Any) -> None:
    ran = run("explain", "gradient all reduce bucket size")
    assert ran.code == 0
    assert "No page is named 'gradient all reduce bucket size'; this one has most of its words; also " in ran.out
    assert "What does gradient bucketing do" in ran.out
    found = json.loads(run("explain", "gradient all reduce bucket size", "--json").out)
    assert found["nearest_to"] == "gradient all reduce bucket size"


def test_the_hint_for_unknown_words_is_by_meaning_and_by_spelling(run: Any, faults: Any) -> None:
    (meant,) = faults(run("explain", "why is my cat so slow in training"))
    assert meant.code == "C003"
    assert "pages about it: " in meant.help
    (spelt,) = faults(run("explain", "bubbel"))
    assert "did you mean bubble" in spelt.help
    (nothing,) = faults(run("explain", "zzzzqqq"))
    assert "costmodel explain, without a word, lists" in nothing.help


def test_a_figure_of_a_scenario_is_no_phrase(run: Any) -> None:
    assert "No page is named" not in run("explain", "llama-3-70b-512", "dp_exposed").out
    assert run("explain", "llama-3-70b-512", "goodputt").code == 2


def test_a_table_of_a_page_is_a_row_a_line(run: Any) -> None:
    lines = run("explain", "linear scaling rule").out.splitlines()
    (head,) = (line for line in lines if "rate for a batch B" in line)
    beneath = lines[lines.index(head) + 1]
    assert head.split()[0] == "rule"
    assert beneath.split()[0] == "linear"
    assert beneath.index("η₀ B / B₀") == head.index("rate for a batch B")
    assert "|" not in "".join(lines)


def test_a_figure_of_a_scenario_is_looked_for_in_no_page(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking for a page of both words would list every key of every document first."""
    monkeypatch.setattr("costmodel.explore.explain.word_explanations.page", None)
    assert run("explain", "llama-3-70b-512", "tp_volume", "--depth", "1").code == 0
