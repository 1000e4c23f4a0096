"""Groups of ranks laid over scale-up domains: how many they reach across, who shares one, and what stays idle."""

from __future__ import annotations

import numpy as np

from costmodel.equations.parallelism.counts import common_divisor
from costmodel.ground.equation import Number, equation


@equation
def group_place(period: Number, width: Number, domain: Number) -> Number:
    """Place in its domain where that group begins which reaches across the most domains.

    D − 1 − (gcd(P, D) − w)⁺

    period P: ranks after which the same comes again, of a group of n ranks every s it is n s
    width w: groups that begin side by side · domain D
    → place of its first member in its domain, from 0
    Source: composition
    Holds: all ranks of all domains taken; then by enumeration
    Pitfall: of 6 ranks on nodes of 8 every second group has two in one node and four in the next
    >>> float(group_place(6.0, 1.0, 8.0))
    6.0
    """
    place: Number = domain - 1 - np.maximum(common_divisor(period, domain) - width, 0)
    return place


@equation
def domains_spanned(ranks: Number, stride: Number, domain: Number, place: Number) -> Number:
    """Scale-up domains a group reaches across.

    min(⌊(f + (n − 1) s) / D⌋ + 1, n), at least 1

    ranks n · stride s · domain D · place f: of its first member in its domain, from 0 → domains, k
    Source: megatron-lm parallel_state.py; composition
    Monotone: increasing in ranks, place
    >>> float(domains_spanned(16.0, 4.0, 8.0, 3.0))
    8.0
    >>> float(domains_spanned(6.0, 1.0, 8.0, 6.0))
    2.0
    """
    domains: Number = np.maximum(np.minimum(np.floor((place + (ranks - 1) * stride) / domain) + 1, ranks), 1)
    return domains


@equation
def first_inside(stride: Number, domain: Number, place: Number) -> Number:
    """Members of a long group in the domain where it begins.

    ⌊(D − 1 − f) / s⌋ + 1

    stride s · domain D · place f: of its first member in its domain, from 0 → members, h
    Source: composition
    >>> float(first_inside(1.0, 8.0, 6.0))
    2.0
    """
    return np.floor((domain - 1 - place) / stride) + 1


@equation
def ranks_inside(ranks: Number, stride: Number, domain: Number, first: Number, domains: Number) -> Number:
    """Members of a group in the domain that holds the most of them.

    n in one domain; else min(⌈D / s⌉, max(h, n − h))

    ranks n · stride s · domain D · first h: members in the domain where it begins
    domains: domains the group reaches across
    → members in one domain
    Source: megatron-lm parallel_state.py; composition
    >>> float(ranks_inside(16.0, 4.0, 8.0, 2.0, 8.0))
    2.0
    >>> float(ranks_inside(6.0, 1.0, 8.0, 2.0, 2.0))
    4.0
    """
    most = np.minimum(np.ceil(domain / stride), np.maximum(first, ranks - first))
    return np.where(domains > 1, most, ranks)


@equation
def domains_filled(ranks: Number, inside: Number) -> Number:
    """Scale-up domains that so many ranks fill.

    ⌈n / g⌉

    ranks n · inside g: members in one domain → domains, k
    Source: composition
    Monotone: increasing in ranks; decreasing in inside
    >>> float(domains_filled(16.0, 2.0))
    8.0
    """
    return np.ceil(ranks / inside)


@equation
def fewest_inside(ranks: Number, first: Number, domains: Number, inside: Number) -> Number:
    """Members of a group in the domain that holds the fewest, whose interfaces carry the most each.

    n in one domain; else min(h, n − h − (k − 2) g), at least 1

    ranks n · first h: members in the domain where it begins · domains k: domains the group reaches across
    inside g: members in a full domain
    → members, g where every domain is full
    Source: composition
    >>> float(fewest_inside(14.0, 2.0, 3.0, 8.0))
    2.0
    >>> float(fewest_inside(12.0, 8.0, 2.0, 8.0))
    4.0
    """
    fewest = np.maximum(np.minimum(first, ranks - first - (domains - 2) * inside), 1)
    return np.where(domains > 1, fewest, ranks)


@equation
def ranks_in_whole_groups(domain: Number, ranks: Number) -> Number:
    """Accelerators of a domain that groups fill which lie in it whole.

    ⌊D / n⌋ n; D of groups larger than it

    domain D · ranks n: ranks in a group → accelerators, the rest of the domain is idle
    Source: composition
    >>> float(ranks_in_whole_groups(72.0, 16.0))
    64.0
    """
    return np.where(ranks > domain, domain, np.floor(domain / ranks) * ranks)


@equation
def groups_beside(domains: Number, domain: Number, larger: Number, count: Number, ranks: Number) -> Number:
    """Groups that lie whole in a domain beside so many larger ones, which a scheduler places first.

    by first fit: F ⌊(D − k m) / n⌋ + ⌊(D − r m) / n⌋ + (d − F − 1) ⌊D / n⌋ with k = ⌊D / m⌋, F = ⌊c / k⌋, r = c − F k

    domains d: scale-up domains · domain D: accelerators in each · larger m: ranks in a larger group
    count c: how many larger ones · ranks n: ranks in a group
    → groups; less than 0 where the larger ones alone have no room
    Source: composition
    Monotone: increasing in domains; decreasing in count
    >>> float(groups_beside(2.0, 72.0, 48.0, 2.0, 16.0))
    2.0
    """
    each = np.floor(domain / larger)
    full = np.floor(count / np.maximum(each, 1))
    left = np.floor((domain - each * larger) / ranks)
    last = np.floor((domain - (count - full * each) * larger) / ranks)
    most = full * left + np.where(domains > full, last + (domains - full - 1) * np.floor(domain / ranks), 0)
    lacking = (each < 1) | (count > each * domains)
    return np.where(lacking & (count > 0), -1.0, most)
