"""Packing of arguments, checks of launches, and messages without a GPU."""

import contextlib
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from weft.errors import WeftError
from weft.launch import cuda_driver, kernel_handle, runtime

H200 = runtime.Device(0, "H200", "sm_90a", 132, 232_448, 1024, 141 << 30)


def test_arguments_become_the_bytes_of_their_parameters():
    packed = kernel_handle.pack(
        [("i", -2), ("P", 0x7F00_0000_1000), ("f", 1.5), ("e", 1.0), ("Q", 2**64 - 1), b"xyz"]
    )
    assert [parameter.data for parameter in packed] == [
        b"\xfe\xff\xff\xff",
        b"\0\x10\0\0\0\x7f\0\0",
        b"\0\0\xc0?",
        b"\0<",
        b"\xff" * 8,
        b"xyz",
    ]


@pytest.mark.parametrize("argument", [("i", 2**31), ("I", -1), ("i", 1.5), ("f", 1e300), ("e", 1e9)])
def test_a_number_that_doesnt_fit_is_refused(argument):
    with pytest.raises(WeftError, match=r"kernel argument 1: .* doesn't fit format"):
        kernel_handle.pack([("i", 0), argument])


@pytest.mark.parametrize("form", ["s", "", "ii", "4i", "x"])
def test_an_unknown_format_is_refused(form):
    with pytest.raises(WeftError, match="kernel argument 0: unknown format"):
        kernel_handle.pack([(form, 0)])


@pytest.mark.parametrize(
    ("grid", "block", "shared_bytes", "cluster", "complaint"),
    [
        ((1, 1, 1), (1024, 1, 1), 232_448, (1, 1, 1), None),
        ((4, 6, 1), (32, 1, 1), 0, (2, 3, 1), None),
        ((0, 1, 1), (32, 1, 1), 0, (1, 1, 1), "must be at least 1 in each dimension"),
        ((1, 1, 1), (32, 33, 1), 0, (1, 1, 1), "at most 1024 threads"),
        ((3, 1, 1), (32, 1, 1), 0, (2, 1, 1), "multiple of cluster"),
        ((1, 1, 1), (32, 1, 1), 232_449, (1, 1, 1), "shared_bytes must be in 0..232448 on"),
    ],
)
def test_launches_beyond_the_devices_limits_are_explained(grid, block, shared_bytes, cluster, complaint):
    said = runtime._complaint(H200, grid, block, shared_bytes, cluster)
    assert said is None if complaint is None else complaint in said


def test_a_launch_configuration_has_the_requested_values(monkeypatch):
    from cuda.bindings import driver

    monkeypatch.setattr(cuda_driver, "api", lambda: driver)
    launch = cuda_driver.launch_config((4, 6, 8), (32, 2, 3), 4096, (4, 2, 1), False)
    assert (launch.gridDimX, launch.gridDimY, launch.gridDimZ) == (4, 6, 8)
    assert (launch.blockDimX, launch.blockDimY, launch.blockDimZ) == (32, 2, 3)
    assert (launch.sharedMemBytes, launch.numAttrs) == (4096, 1)
    dim = launch.attrs[0].value.clusterDim
    assert launch.attrs[0].id == driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    assert (dim.x, dim.y, dim.z) == (4, 2, 1)
    assert cuda_driver.launch_config((1, 1, 1), (1, 1, 1), 0, (1, 1, 1), False).numAttrs == 0


def test_streams_of_other_libraries_are_taken():
    for stream in (
        7,
        SimpleNamespace(cuda_stream=7),
        SimpleNamespace(ptr=7),
        SimpleNamespace(__cuda_stream__=lambda: (0, 7)),
    ):
        assert runtime.stream_handle(stream) == 7
    assert runtime.stream_handle(None) == 0
    with pytest.raises(WeftError, match="stream must be a stream of PyTorch or CuPy, or a handle, got str"):
        runtime.stream_handle("default")


def test_importing_needs_no_driver_and_loads_no_cuda():
    check = "import sys, weft.launch.runtime; print(any(name.startswith('cuda') for name in sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", check], text=True) == "False\n"


@pytest.mark.skipif(runtime.available() is None, reason="this machine has a GPU")
def test_without_a_gpu_every_function_reports_it():
    reason = runtime.available()
    assert "no NVIDIA driver" in reason or "no GPU" in reason
    for attempt in (
        runtime.device,
        runtime.synchronize,
        lambda: runtime.load(b""),
        lambda: runtime.time(lambda: None),
        lambda: runtime.DeviceArray((2,), "f32"),
        lambda: runtime.DeviceArray.from_numpy(np.zeros(2)),
    ):
        with pytest.raises(WeftError) as caught:
            attempt()
        assert caught.value.diagnostics[0].message == reason


@pytest.mark.parametrize(
    "cause, is_chip", [("CUDA_ERROR_NO_BINARY_FOR_GPU", True), ("CUDA_ERROR_NOT_READY", False)]
)
def test_a_cubin_of_another_chip_names_what_to_do(monkeypatch, cause, is_chip):
    def refuse(action, status):
        raise WeftError(f"{action}: {status}")

    results = SimpleNamespace(CUDA_ERROR_NO_BINARY_FOR_GPU="CUDA_ERROR_NO_BINARY_FOR_GPU")
    driver = SimpleNamespace(cuModuleLoadData=lambda cubin: (cause, None), CUresult=results)
    monkeypatch.setattr(runtime, "api", lambda: driver)
    monkeypatch.setattr(runtime, "context", lambda _: None)
    monkeypatch.setattr(runtime, "entered", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(runtime, "_current_device", lambda: H200)
    monkeypatch.setattr(runtime, "check", refuse)
    with pytest.raises(WeftError, match=f"loading a cubin of 3 bytes on H200 .*{cause}") as caught:
        runtime.load(b"elf")
    remedy = "compiled for another chip: compile for sm_90a (without arch), or run it in the emulator"
    assert str(caught.value).endswith(remedy) == is_chip
