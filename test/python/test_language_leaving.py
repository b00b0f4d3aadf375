"""Statements that can't leave loops and branches of the GPU, with what to write in their place."""

import numpy as np
import pytest
from language_mistakes import Mistakes, refused

import weft.language as w

mistakes = Mistakes()


@mistakes("'return' can't leave .*: loop by 'while' with the opposite condition, and return after the loop")
def a_return_in_a_loop(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
    with w.role():
        for i in w.range(x.rows):
            if x[i, 0] > 1.0:
                return  # here
            y[i, 0] = 1.0


@mistakes("'continue' can't leave .*: put the rest of the body under the opposite condition")
def a_skipped_iteration(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
    for i in w.range(x.rows):
        if x[i, 0] > 1.0:
            continue  # here
        y[i, 0] = 1.0


@mistakes("'break' can't leave .*: loop by 'while' with the opposite condition")
def an_end_of_a_loop(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
    for i in w.range(x.rows):
        if x[i, 0] > 1.0:
            break  # here
        y[i, 0] = 1.0


@mistakes("a kernel can't contain 'yield': define the generator outside of it, or use a list")
def a_generator(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
    def first():
        yield x[0, 0]  # here

    for each in first():
        y[0, 0] = each


@mistakes("only the GPU knows a value of w.i32: NumPy can't .*; an array that is an argument of the kernel")
def an_array_of_numpy(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
    for i in w.range(3):
        y[i, 0] = np.array([1.0, 2.0, 3.0])[i]  # here


@pytest.mark.parametrize(("function", "message"), mistakes.cases)
def test_mistakes_are_in_their_line(function, message):
    refused(function, message)
