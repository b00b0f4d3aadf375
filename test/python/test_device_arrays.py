"""`a @ b` with a DeviceArray: whose product it is, without a GPU."""

import numpy as np
import pytest
from fake_driver import two_gpus

import weft
from weft.launch import runtime


@pytest.fixture(autouse=True)
def driver(monkeypatch):
    with two_gpus(monkeypatch) as driver:
        yield driver


def device_array():
    return runtime.DeviceArray((4, 4), "f16", 0)


@pytest.fixture
def products(monkeypatch):
    """The operands of `weft.matmul`, which returns "Weft's"."""
    made = []
    monkeypatch.setattr(weft, "matmul", lambda *operands: made.append(operands) or "Weft's")
    yield made
    made.clear()  # of arrays, which the driver frees


def theirs(library):
    if library == "DeviceArray":
        return device_array()
    if library == "NumPy":
        return np.ones((4, 4), np.float16)
    if library == "PyTorch":
        return pytest.importorskip("torch").ones(4, 4)
    return pytest.importorskip("jax.numpy").ones((4, 4))


@pytest.mark.parametrize("library", ["DeviceArray", "NumPy", "PyTorch", "JAX"])
def test_a_product_with_an_array_of_any_library_is_wefts_on_both_sides(library, products):
    ours, other = device_array(), theirs(library)
    assert ours @ other == "Weft's"
    assert other @ ours == "Weft's"
    assert [tuple(map(id, pair)) for pair in products] == [(id(ours), id(other)), (id(other), id(ours))]


class Asks:
    """An array that multiplies itself, as NumPy's protocol asks for it."""

    __array_ufunc__ = None
    __array_interface__ = np.ones((4, 4), np.float16).__array_interface__
    __dlpack__ = None

    def __rmatmul__(self, other):
        return "its own", other

    def __matmul__(self, other):
        return other, "its own"


def test_a_product_with_an_array_that_asks_for_it_is_its_own(products):
    ours, other = device_array(), Asks()
    assert ours @ other == ("its own", ours)
    assert other @ ours == (ours, "its own")
    assert not products


@pytest.mark.parametrize("other", [3, 2.5, "text", None, [[1.0]], np.ndarray], ids=str)
def test_a_product_with_what_is_no_array_is_refused_by_python(other, products):
    ours = device_array()
    with pytest.raises(TypeError, match="unsupported operand type"):
        ours @ other
    with pytest.raises(TypeError, match="unsupported operand type"):
        other @ ours
    assert not products


def test_numpys_functions_leave_products_to_operators(products):
    ours = device_array()
    with pytest.raises(TypeError, match="__array_ufunc__"):
        np.matmul(np.ones((4, 4), np.float16), ours)
    with pytest.raises(TypeError, match="__array_ufunc__"):
        ours * np.ones((4, 4), np.float16)
    assert not products
