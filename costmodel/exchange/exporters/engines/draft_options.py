"""Speculative decoding of a plan as the options of engines."""

from __future__ import annotations

import json
from typing import Any

from costmodel.exchange.exporters.engines.serving_job import ServingJob
from costmodel.exchange.exporters.job import Remarks

_OF_SGLANG = {"eagle": "EAGLE3", "mtp": "NEXTN", "ngram": "NGRAM"}
_OF_VLLM = {"eagle": "eagle3", "mtp": "mtp", "ngram": "ngram"}
_OF_TRTLLM = {"eagle": "Eagle", "mtp": "MTP", "ngram": "NGram"}


def _named(job: ServingJob, remarks: Remarks, names: dict[str, str]) -> tuple[str, int] | None:
    """The engine's name of the draft and its tokens; a draft that is a model of its own is refused."""
    draft = job.plan.speculation
    if draft is None:
        return None
    if draft.draft not in names:
        hint = "--set plan.speculation.draft=eagle, mtp or ngram"
        remarks.refuse("plan.speculation.draft", f"{draft.draft}: a model of its own is not written", hint)
        return None
    if draft.draft == "eagle":
        remarks.note(f"yours to name: the head that drafts for {job.checkpoint}")
    remarks.note(f"no option states that {100 * draft.acceptance:.3g} % of drafted tokens are accepted")
    return names[draft.draft], round(draft.tokens)


def vllm_draft(job: ServingJob, remarks: Remarks) -> list[str]:
    """Words of vLLM."""
    found = _named(job, remarks, _OF_VLLM)
    if found is None:
        return []
    return [f"--speculative-config '{json.dumps({'method': found[0], 'num_speculative_tokens': found[1]})}'"]


def sglang_draft(job: ServingJob, remarks: Remarks) -> list[str]:
    """Words of SGLang: one chain, and the token that the model adds."""
    found = _named(job, remarks, _OF_SGLANG)
    if found is None:
        return []
    words = [f"--speculative-algorithm {found[0]}"]
    if found[0] == "NGRAM":
        return [*words, f"--speculative-num-draft-tokens {found[1]}"]
    chain = f"--speculative-num-steps {found[1]} --speculative-eagle-topk 1"
    return [*words, f"{chain} --speculative-num-draft-tokens {found[1] + 1}"]


def trtllm_draft(job: ServingJob, remarks: Remarks) -> dict[str, Any]:
    """Keys of TensorRT-LLM's YAML."""
    found = _named(job, remarks, _OF_TRTLLM)
    if found is None:
        return {}
    length = "num_nextn_predict_layers" if found[0] == "MTP" else "max_draft_len"
    return {"speculative_config": {"decoding_type": found[0], length: found[1]}}
