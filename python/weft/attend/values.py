"""The values of `lengths`, `cu_seqlens` and page tables, checked where they are in CPU memory."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.attend.problem import Sizes, refuse
from weft.launch.arrays import ArrayView

Integers = np.ndarray[Any, Any]


def check(views: Mapping[str, ArrayView], sizes: Sizes) -> None:
    """Raises WeftError for values that name tokens or pages that aren't there."""
    given = {name: view.numpy() for name, view in views.items() if view.dtype == "i32"}
    for name, tokens in (("cu_seqlens_q", sizes.queries), ("cu_seqlens_k", sizes.keys)):
        if name in given:
            _check_starts(name, given[name], tokens)
    if "lengths" not in given:
        return
    lengths, table = given["lengths"], given.get("page_table")
    if table is not None:
        _check_lengths(lengths, np.full(len(lengths), table.shape[1] * sizes.page), "keys of its pages")
        used, pages = -(-lengths // sizes.page), views["k"].shape[0]
        of_sequence = np.arange(table.shape[1]) < used[:, None]
        wrong = np.argwhere(of_sequence & ((table < 0) | (table >= pages)))
        if len(wrong):
            row, column = wrong[0].tolist()
            got = f"got {table[row, column]} at [{row}, {column}]"
            raise refuse(f"page_table must have numbers of pages in 0..{pages - 1}, {got}")
        return
    starts = given.get("cu_seqlens_k")
    keys = np.full(len(lengths), sizes.keys) if starts is None else np.diff(starts)
    _check_lengths(lengths, keys, "its keys")


def _check_starts(name: str, starts: Integers, tokens: int) -> None:
    if len(wrong := np.flatnonzero((starts < 0) | (starts > tokens))):
        at = int(wrong[0])
        raise refuse(f"{name} must be in 0..{tokens} (tokens of {name[-1]}), got {starts[at]} at index {at}")
    if len(wrong := np.flatnonzero(np.diff(starts) < 0)):
        at = int(wrong[0]) + 1
        raise refuse(f"{name} must not decrease, got {starts[at]} after {starts[at - 1]} at index {at}")


def _check_lengths(lengths: Integers, keys: Integers, what: str) -> None:
    if len(wrong := np.flatnonzero((lengths < 0) | (lengths > keys))):
        at = int(wrong[0])
        most = f"0..{keys[at]} ({what})"
        raise refuse(f"lengths must be in {most} for sequence {at}, got {lengths[at]}")
