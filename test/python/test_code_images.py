"""Code for the host is kept on disk, and loaded without LLVM, where that is supported."""

import ctypes
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from cuda.bindings import driver as cuda
from fake_driver import two_gpus

import weft
from weft.launch import code_images, host_code, launcher
from weft.launch.code_images import Image

FILES = {file.stem: file for file in Path(weft.__file__).parent.rglob("*.ll")}
# A table of jumps, constants, calls within, and of functions of Python and of the C library.
FUNCTIONS = """
@numbers = internal constant [4 x i64] [i64 11, i64 22, i64 33, i64 44]
declare i64 @PyLong_AsLongLong(ptr)
declare i64 @labs(i64)
define i64 @chosen(i64 %n) {
  switch i64 %n, label %other [
    i64 0, label %a
    i64 1, label %b
    i64 2, label %c
    i64 3, label %d
    i64 4, label %e
  ]
a:
  ret i64 5
b:
  ret i64 -9
c:
  ret i64 7
d:
  %x = call i64 @labs(i64 -3)
  ret i64 %x
e:
  %y = call i64 @inner(i64 2)
  ret i64 %y
other:
  ret i64 %n
}
define internal i64 @inner(i64 %n) noinline {
  %place = getelementptr i64, ptr @numbers, i64 %n
  %number = load i64, ptr %place
  ret i64 %number
}
define i64 @of_python(ptr %object) {
  %n = call i64 @PyLong_AsLongLong(ptr %object)
  ret i64 %n
}
"""
pytestmark = pytest.mark.skipif(
    not code_images.supported(), reason="images of code are supported on x86-64 Linux only"
)


def image(text):
    """The image of LLVM IR, as another process reads it."""
    module, machine = host_code._parsed(text, code_images.CODE_MODEL)
    made = code_images.image_of(machine.emit_object(module))
    if made is not None:
        assert Image.read(made.written()) == made
    return made


def test_an_image_does_what_its_functions_do():
    addresses = code_images.load(image(FUNCTIONS), lambda name: host_code._address_of(name, ()))
    assert addresses.keys() == {"chosen", "of_python"}
    chosen = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(addresses["chosen"])
    assert [chosen(n) for n in range(6)] == [5, -9, 7, 3, 33, 5]
    of_python = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.py_object)(addresses["of_python"])
    assert of_python(12345) == 12345


def test_memory_of_code_is_not_writable():
    start = min(code_images.load(image(FUNCTIONS), lambda name: 0).values())
    maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    bounds = [(*(int(each, 16) for each in line[0].split("-")), line[1]) for line in maps]
    assert next(flags for low, high, flags in bounds if low <= start < high) == "r-xp"


def test_an_object_with_variables_or_other_references_is_no_image():
    assert image("@count = global i64 0\ndefine ptr @f() {\n  ret ptr @count\n}") is None
    module, machine = host_code._parsed(FUNCTIONS, "small")
    assert code_images.image_of(machine.emit_object(module)) is None


def test_the_code_of_launches_is_kept():
    """That of XLA's calls has variables."""
    kept = {name for name, file in FILES.items() if image(file.read_text("utf-8")) is not None}
    assert kept == {"launcher", "sequence", "torch_keys"}
    assert kept | {"xla_handler"} == FILES.keys()


def test_a_process_with_code_on_disk_needs_no_llvm(tmp_path, patch):
    patch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    program = "import sys; from weft.launch import host_code, sequence; "
    program += "assert host_code.address(sequence._FILE, 'weft_sequence', sequence._USES); "
    program += "print('llvmlite' in sys.modules)"
    said = [subprocess.check_output([sys.executable, "-c", program], text=True) for _ in range(2)]
    assert said == ["True\n", "False\n"] and len([*tmp_path.glob("host-*")]) == 2


def test_without_images_llvm_loads_the_code(patch):
    with two_gpus(patch) as driver:
        driver.stack = [100]
        patch.setattr(code_images, "supported", lambda: False)
        patch.setattr(host_code, "_functions", {})
        patch.setattr(launcher, "compiled", launcher.compiled.__wrapped__)
        made = launcher.Plan(100, 200, cuda.CUlaunchConfig(), [], 0)
        assert made.queue(9) == 0 and driver.launched == [(0, 9)]
        assert llvm.address_of_symbol("PyEval_SaveThread")
