"""Fixtures of several test files."""

import sys
import weakref

import pytest


@pytest.fixture
def product_calls(monkeypatch):
    """The products of tensor cores that code of the host has computed."""
    from weft.emulator.compiled import products

    made = []
    run = products._Function.run
    monkeypatch.setattr(products._Function, "run", lambda *args: made.append(args) or run(*args))
    return made


@pytest.fixture
def lone_places(monkeypatch):
    """The caches of places keep none, as if another thread's had replaced each of them. Places that are freed
    become zeros.
    """
    from weft.emulator.instructions import fragments, tcgen05_code, tcgen05_matrices, wgmma

    memory = []

    def not_kept(cached):
        def make(*args):
            made = cached.__wrapped__(*args)
            for each in made if isinstance(made, tuple) else (made,):
                memory.append(each.elements)
                weakref.finalize(each, each.elements.fill, 0)
            return made

        return make

    caches = (fragments, "_places"), (wgmma, "_shared_places"), (tcgen05_matrices, "_places")
    for module, name in (*caches, (tcgen05_code, "_banks"), (tcgen05_code, "_rows")):
        monkeypatch.setattr(module, name, not_kept(getattr(module, name)))


@pytest.fixture
def fresh_kernels(monkeypatch):
    """Kernels are made again, since their parts have changed. Those on disk are of the unchanged parts."""
    from weft.multiply import product_kernel

    monkeypatch.setattr("weft.compiler.cache_keys.lowering", lambda: None)
    product_kernel.compiled.cache_clear()
    yield
    product_kernel.compiled.cache_clear()


@pytest.fixture(autouse=True)
def _precision_of_pytorch():
    """Measuring lets PyTorch multiply f32 as tf32, in the whole process."""
    yield
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_float32_matmul_precision("highest")
