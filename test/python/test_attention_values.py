"""Integers of `weft.attention` in CPU memory that name tokens or pages that aren't there, and outputs."""

import ml_dtypes
import numpy as np
import pytest

import weft

F16 = np.float16


def zeros(*shape):
    return np.zeros(shape, F16)


def integers(*values):
    return np.array(values, np.int32)


@pytest.mark.parametrize(
    "starts_q, starts_k, message",
    [
        ((0, 5, 13), (0, 10, 20), r"cu_seqlens_q must be in 0..12 \(tokens of q\), got 13 at index 2"),
        ((-1, 12), (0, 20), r"cu_seqlens_q must be in 0..12 \(tokens of q\), got -1 at index 0"),
        ((0, 12), (0, 21), r"cu_seqlens_k must be in 0..20 \(tokens of k\), got 21 at index 1"),
        ((0, 6, 5, 12), (0, 6, 6, 20), "cu_seqlens_q must not decrease, got 5 after 6 at index 2"),
        (
            (0,),
            (0,),
            r"cu_seqlens_q must have shape \(sequences \+ 1\), of one sequence at least, got \(1,\)",
        ),
        (((0, 12),), (0, 20), r"cu_seqlens_q must have shape \(sequences \+ 1\), .* got \(1, 2\)"),
    ],
)
def test_starts_of_sequences(starts_q, starts_k, message):
    q, k = zeros(12, 2, 64), zeros(20, 2, 64)
    starts = {"cu_seqlens_q": np.array(starts_q, np.int32), "cu_seqlens_k": np.array(starts_k, np.int32)}
    with pytest.raises(weft.WeftError, match=f"weft.attention: {message}"):
        weft.attention(q, k, k, **starts)


@pytest.mark.parametrize(
    "lengths, table, message",
    [
        ((7, -1), None, r"lengths must be in 0..40 \(its keys\) for sequence 1, got -1"),
        ((41, 7), None, r"lengths must be in 0..40 \(its keys\) for sequence 0, got 41"),
        (
            (20, 33),
            ((0, 1), (2, 3)),
            r"lengths must be in 0..32 \(keys of its pages\) for sequence 1, got 33",
        ),
        ((20, 17), ((0, 1), (2, 6)), r"page_table must have numbers of pages in 0..5, got 6 at \[1, 1\]"),
        ((20, 17), ((-1, 1), (2, 3)), r"page_table must have numbers of pages in 0..5, got -1 at \[0, 0\]"),
        ((0, 0), ((), ()), r"page_table must have at least one page for each sequence, got shape \(2, 0\)"),
    ],
)
def test_lengths_and_pages(lengths, table, message):
    k = zeros(2, 2, 40, 64) if table is None else zeros(6, 2, 16, 64)
    given = {} if table is None else {"page_table": np.array(table, np.int32)}
    with pytest.raises(weft.WeftError, match=f"weft.attention: {message}"):
        weft.attention(zeros(2, 2, 5, 64), k, k, lengths=integers(*lengths), **given)


def test_pages_that_no_key_is_in_may_have_any_number():
    table = integers((0, 99), (3, -1))
    assert not weft.attention(
        zeros(2, 2, 5, 64), *(zeros(6, 2, 16, 64),) * 2, lengths=integers(16, 9), page_table=table
    ).any()


def test_an_output_must_be_writable_and_apart():
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 2, 40, 64)).astype(F16)
    wanted = weft.attention(q, k, v)
    with pytest.raises(weft.WeftError, match=r"out must not overlap k, which is read while out is written$"):
        weft.attention(q, k, v, out=k)
    both = np.zeros((1, 2, 48, 64), F16)
    with pytest.raises(weft.WeftError, match=r"out must not overlap q, .*; it may be q, element for element"):
        weft.attention(both[:, :, 8:], k, v, out=both[:, :, :40])
    with pytest.raises(weft.WeftError, match="out must be writable"):
        weft.attention(q, k, v, out=np.broadcast_to(q, q.shape))
    assert weft.attention(q, k, v, out=q) is q and np.array_equal(q, wanted)


@pytest.mark.parametrize("name", ["scale", "softcap"])
def test_numbers_are_finite_in_f32(name):
    k = zeros(1, 2, 40, 64)
    with pytest.raises(weft.WeftError, match=rf"{name} must be a positive number up to 2\*\*126, .*1e\+38"):
        weft.attention(k, k, k, **{name: 1e38})
    assert np.isfinite(weft.attention(k, k, k, **{name: 2.0**126})).all()


def test_an_output_of_wider_elements_is_no_q():
    memory, shape = np.zeros(2 * 2 * 40 * 64, np.uint8), (1, 2, 40, 64)
    q = memory[: len(memory) // 2].view(ml_dtypes.float8_e4m3fn).reshape(shape)
    with pytest.raises(weft.WeftError, match="out must not overlap q"):
        weft.attention(q, q.copy(), q.copy(), out=memory.view(ml_dtypes.bfloat16).reshape(shape))
