"""The two CTAs that `.cta_group::2` makes one (PTX ISA, "CTA Pair"): ranks in a cluster that differ only in
their last bit. The CTA of even rank leads: one of its threads issues the MMAs of both.
"""

PAIR = 2
"""The CTAs of a pair."""
BOTH = 0b11
"""The mask of the first pair of a cluster, for a multicast. Shift it by the leader's rank for another."""
PEER_BIT = 1 << 24
"""The bit in which addresses of `.shared::cluster` differ between the CTAs of a pair: 0 in the leader's.
The ISA doesn't publish it; CUTLASS relies on it as `Sm100MmaPeerBitMask`.
"""
