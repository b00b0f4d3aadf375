"""Fixtures of several test files."""

import pytest


@pytest.fixture
def product_calls(monkeypatch):
    """The products of tensor cores that code of the host has computed."""
    from weft.emulator.compiled import products

    made = []
    run = products._Function.run
    monkeypatch.setattr(products._Function, "run", lambda *args: made.append(args) or run(*args))
    return made
