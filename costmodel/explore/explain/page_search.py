"""Finds the page for a question in words: a frequent question, an indexed phrase, or the most similar page."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Mapping

from costmodel.documents.reader.folders import shipped
from costmodel.documents.reader.library import phrases
from costmodel.ground.record import record

# --- the questions that people ask, each answered on a page of docs/answers


FOLDER = "docs/answers"
_PAGE = re.compile(r"<!-- costmodel explain: (?P<words>[^\n]*) -->\n+# (?P<question>[^\n]*)\n(?P<text>.*)", re.DOTALL)
_PART = re.compile(r"^```.*?^```$|(?:^(?!```)[^\n]+\n?)+", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\([^)\s]*\)")
_LIST_ITEM = re.compile(r"\n(?=- )")


@record
class AnsweredQuestion:
    """A frequent question with its answer in Markdown and the words that find it."""

    words: tuple[str, ...]
    question: str
    text: str

    def parts(self) -> list[tuple[str, bool]]:
        """The blocks of the answer as plain text, each with whether it is code."""
        blocks: list[tuple[str, bool]] = []
        for part in _PART.findall(self.text):
            if part.startswith("```"):
                blocks.append(("\n".join(part.splitlines()[1:-1]), True))
            elif part.startswith("|"):
                blocks.append(("\n".join(map(_without_markup, part.splitlines())), False))
            else:
                blocks += [(_without_markup(item), False) for item in _LIST_ITEM.split(part)]
        return blocks


def _without_markup(markdown: str) -> str:
    """A text without Markdown markup, on one line."""
    return " ".join(_LINK.sub(r"\1", markdown).replace("**", "").replace("`", "").split())


def parse_question(name: str, markdown: str) -> AnsweredQuestion | None:
    """The question on a page of docs/answers; None if its first lines list no words."""
    match = _PAGE.match(markdown)
    if match is None:
        return None
    words = (word.strip() for word in match["words"].split(","))
    return AnsweredQuestion(tuple(dict.fromkeys((name, *words))), match["question"].strip(), match["text"].strip())


@functools.cache
def questions() -> tuple[AnsweredQuestion, ...]:
    """All frequent questions with their answers, from docs/answers."""
    pages = sorted(shipped(FOLDER).glob("*.md"))
    answered = (parse_question(page.stem, page.read_text(encoding="utf-8")) for page in pages)
    return tuple(question for question in answered if question is not None)


def question_of(word: str) -> AnsweredQuestion | None:
    """The question for a word; capitals, blanks and hyphens make no difference."""
    key = "-".join(word.lower().split())
    return next((question for question in questions() if key in question.words), None)


# --- finds the page that words of a question lead to


# Words that change no question.
_EMPTY = frozenset({
    "a", "about", "all", "an", "and", "another", "any", "are", "as", "at", "be", "because", "been", "being",
    "best", "better", "between", "but", "by", "can", "cause", "choose", "compare", "compared", "could", "do",
    "does", "done", "each", "else", "enough", "even", "every", "explain", "for", "from", "get", "give", "given",
    "go", "good", "had", "has", "have", "help", "here", "how", "i", "if", "in", "instead", "into", "is", "it",
    "its", "just", "know", "like", "long", "lot", "lots", "make", "many", "mean", "means", "more", "most", "much",
    "must", "my", "need", "needed", "no", "not", "of", "off", "on", "one", "only", "or", "other", "our", "own",
    "per", "possible", "really", "right", "same", "several", "should", "show", "so", "some", "such", "take",
    "than", "that", "the", "their", "them", "then", "there", "these", "they", "thing", "this", "those", "to",
    "too", "u", "up", "us", "use", "used", "useful", "using", "v", "versus", "very", "via", "vs", "want", "was",
    "way", "ways", "we", "what", "whats", "when", "where", "whether", "which", "while", "who", "why", "will",
    "with", "without", "work", "works", "would", "you", "your", "anything", "everything", "nothing", "something",
    "kind", "kinds", "happen", "happens", "happened", "keep", "keeps",
})  # fmt: skip
# Abbreviations, and words for the same thing, each as the words that count.
_SAME = {
    "a2a": "alltoall", "accum": "accumulation", "accumulate": "accumulation",
    "attn": "attention", "autoscaling": "replicas",
    "bandwith": "bandwidth", "bs": "batch size", "bw": "bandwidth", "carbon": "emissions", "ckpt": "checkpoint",
    "co2": "emissions", "comm": "communication", "comms": "communication", "cp": "context parallel",
    "crash": "failure", "crashes": "failure", "datacenter": "data center", "datacenters": "data center",
    "deadlock": "hang", "dp": "data parallel", "ep": "expert parallel", "fail": "failure", "failed": "failure",
    "failing": "failure", "fails": "failure", "finetune": "fine tune", "finetuning": "fine tune",
    "ga": "gradient accumulation", "gbs": "global batch size", "grad": "gradient", "grads": "gradient",
    "heterogenous": "heterogeneous", "ib": "infiniband", "ingestion": "loader", "inter": "between",
    "interconnects": "interconnect", "kvcache": "kv cache", "lr": "learning rate", "mbs": "micro batch size",
    "mem": "memory", "microbatch": "micro batch", "microbatches": "micro batch", "minibatch": "mini batch",
    "moe": "mixture experts", "multigpu": "multi gpu", "multinode": "multi node", "oom": "out memory",
    "ooms": "out memory", "parallelism": "parallel", "parallelise": "parallel", "parallelize": "parallel",
    "pp": "pipeline parallel", "preempt": "spot", "preempted": "spot", "preemptible": "spot", "pricing": "cost",
    "price": "cost", "prices": "cost", "qps": "requests second",
    "rlhf": "reinforcement learning", "rl": "reinforcement learning", "rps": "requests second", "seq": "sequence",
    "slower": "slow", "slowness": "slow", "sp": "sequence parallel", "stuck": "hang", "tp": "tensor parallel",
    "util": "utilization", "vram": "gpu memory", "weights": "weight", "freeze": "hang", "freezes": "hang",
    "expensive": "cost", "dollars": "cost", "usd": "cost", "speedup": "speed up",
    "big": "large", "bigger": "large", "biggest": "large", "larger": "large", "largest": "large", "ram": "memory",
    "broke": "failure", "broken": "failure", "crashed": "failure", "crashing": "failure", "dead": "failure",
    "died": "failure", "dies": "failure", "cheap": "cheapest", "cheaper": "cheapest", "dollar": "cost", "money": "cost",
    "recover": "restart", "recovering": "restart", "resume": "restart", "resuming": "restart", "max": "maximum",
}  # fmt: skip
_COLLECTIVES = re.compile(r"\b(all)[ -]?(reduce|gather|to[ -]?all)|\b(reduce)[ -]?(scatter)")  # one word each
_BRITISH = (
    ("isation", "ization"),
    ("ising", "izing"),
    ("ised", "ized"),
    ("ise", "ize"),
    ("ours", "ors"),
    ("tre", "ter"),
)
_ENDINGS = (
    "ization",
    "ations",
    "ation",
    "izing",
    "ized",
    "ize",
    "ings",
    "ing",
    "ions",
    "ion",
    "ers",
    "ed",
    "es",
    "s",
    "e",
)
_SHORTEST = 3  # letters that remain in front of an ending
_OPENED, _NAMED = 0.72, 0.2  # likeness to a phrase that opens its page, and what names a page in a hint
_ANYWHERE = 0.65  # what the same words weigh that stand anywhere on a page: less than opens one
_WORD = 3  # letters of a word that distinguishes pages


@record
class PageMatch:
    """A page that matches words, and the share of words in common, where rare words weigh more."""

    word: str
    share: float


@functools.lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """A word reduced to its stem, for comparing phrases.

    >>> [stem(word) for word in ("checkpointing", "checkpoints", "sharded", "shards", "quantisation", "batches")]
    ['checkpoint', 'checkpoint', 'shard', 'shard', 'quant', 'batch']
    """
    for old, new in _BRITISH:
        word = f"{word.removesuffix(old)}{new}" if word.endswith(old) and len(word) > len(old) + 2 else word
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST and not word.endswith("ss"):
            word = word.removesuffix(ending)
            break
    return word[:-1] if len(word) > _SHORTEST + 1 and word[-1] == word[-2] and word[-1] not in "ls" else word


@functools.lru_cache(maxsize=20_000)
def significant_words(text: str) -> frozenset[str]:
    """The stems of the words that matter in a text, regardless of order.

    >>> significant_words("How to shard checkpoints?") == significant_words("sharded checkpoint")
    True
    >>> sorted(significant_words("TP vs DP"))
    ['data', 'parallel', 'tensor']
    """
    plain = _COLLECTIVES.sub(lambda found: re.sub("[ -]", "", found[0]), text.lower().replace("_", " "))
    words = re.findall(r"[a-z0-9]+(?:\.[0-9]+)?", plain.replace("'", ""))
    full = " ".join(_SAME.get(word, word) for word in words).split()
    return frozenset(stem(word) for word in full if word not in _EMPTY)


@functools.cache
def _pages_by_phrase() -> dict[frozenset[str], str]:
    """The page of each indexed phrase, from the index and the frequent questions."""
    pages: dict[frozenset[str], str] = {}
    for word, listed in phrases().items():
        for phrase in listed:
            pages.setdefault(significant_words(str(phrase)), word)
    for asked in questions():
        parts = re.split(r"[,:?]", asked.question)
        for phrase in (*asked.words, asked.question, *(part for part in parts if len(significant_words(part)) > 1)):
            pages.setdefault(significant_words(phrase), asked.words[0])
    return {key: word for key, word in pages.items() if key}


def page_of_phrase(words: str) -> str | None:
    """The word of the page that an indexed phrase leads to; None for other phrases."""
    return _pages_by_phrase().get(significant_words(words))


def nearest_pages(words: str, texts: Mapping[str, tuple[str, str]]) -> list[PageMatch]:
    """The pages most like a question: those with a phrase that shares most words with it and has fewest others.

    Words in the text of a page count less: they can name a page in a hint, but not open it.

    texts: for the word of each page, its title with names, and its text
    """
    asked = significant_words(words)
    if max(map(len, asked), default=0) < _WORD:
        return []
    pages = _page_words(tuple(texts.items()))
    counter = Counter(word for strong, weak in pages.values() for word in strong | weak)

    def weight(those: frozenset[str]) -> float:
        """The total weight of these words; rare words weigh more."""
        return sum(math.log(1 + len(pages) / (1 + counter[word])) for word in those)

    whole = weight(asked) or 1.0
    alike: dict[str, float] = {}
    for phrase, page in _pages_by_phrase().items():
        if both := phrase & asked:
            alike[page] = max(alike.get(page, 0.0), 2 * weight(both) / (whole + weight(phrase)))
    matches = []
    for page, (strong, weak) in pages.items():
        anywhere = (weight(asked & strong) + 0.5 * weight((asked & weak) - strong)) / whole
        matches.append((max(alike.get(page, 0.0), _ANYWHERE * anywhere), -len(strong), page))
    best = sorted(matches, reverse=True)[:3]
    return [PageMatch(page, share) for share, _, page in best if share >= _NAMED]


@functools.lru_cache(maxsize=2)
def _page_words(texts: tuple[tuple[str, tuple[str, str]], ...]) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """For each page, the stems in its names and the stems in its text."""
    listed = phrases()
    return {
        page: (significant_words(" ".join((page, title, *map(str, listed.get(page, ()))))), significant_words(text))
        for page, (title, text) in texts
    }


def is_clear_match(matches: list[PageMatch]) -> bool:
    """Whether the best match is close enough to open its page at once."""
    return bool(matches) and matches[0].share >= _OPENED
