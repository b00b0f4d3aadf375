"""Compiles functions from LLVM IR for this host, without a C compiler."""

import ctypes
import pkgutil
import sys
from collections.abc import Callable, Sequence
from typing import Any

from weft.cache import disk_cache
from weft.compiler import cache_keys
from weft.launch import code_images
from weft.launch.code_images import Image
from weft.system import late_imports, locks

_METH_FASTCALL = 0x0080


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


# A separate prototype, since other libraries may change that of `ctypes.pythonapi`.
_new_function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)
_lock = locks.reentrant()
_functions: dict[str, Callable[[str], int]] = {}
"""What finds the addresses of functions, by their files."""


def functions(file: str, names: Sequence[str]) -> list[Callable[..., Any]]:
    """Functions of an .ll file of Weft as Python callables. They follow METH_FASTCALL of Python's C API, and
    live until the process ends.
    """
    callables = []
    for name in names:
        # The definition is the function's `self`, so that it lives as long as the function, which reads it.
        method = _MethodDef(name.encode(), address(file, name), _METH_FASTCALL, None)
        callables.append(_new_function(ctypes.addressof(method), method, None))
    return callables


def address(file: str, name: str, uses: Sequence[str] = ()) -> int:
    """The address of a function of an .ll file of Weft. `uses` lists the files whose functions it calls."""
    with _lock:
        if file not in _functions:
            _functions[file] = _of_file(file, uses)
        return _functions[file](name)


def _of_file(file: str, uses: Sequence[str]) -> Callable[[str], int]:
    """What finds the addresses of a file's functions."""
    text = (pkgutil.get_data("weft", file) or b"").decode()
    if code_images.supported() and (image := _image(text)) is not None:
        addresses = code_images.load(image, lambda name: _address_of(name, uses))
        return lambda name: addresses.get(name, 0)
    return _in_memory(text, uses)


def _address_of(name: str, uses: Sequence[str]) -> int:
    """The address of a function that a file calls: Python's, one of another file, or of the C library."""
    if name.startswith("Py") or not (found := next(filter(None, (address(f, name) for f in uses)), 0)):
        library = ctypes.pythonapi if name.startswith("Py") else ctypes.CDLL(None)
        found = ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    return found


def _image(text: str) -> Image | None:
    """The machine code of functions, from the cache if it is there; None if it can't be an image."""

    def key(present: bool) -> disk_cache.Key | None:
        decides = cache_keys.generating(present)
        return decides and [text, *decides]

    def make() -> bytes:
        module, machine = _parsed(text, code_images.CODE_MODEL)
        image = code_images.image_of(machine.emit_object(module))
        return b"" if image is None else image.written()

    entry = disk_cache.default().get_or_make("host", key, make)
    return Image.read(entry) if entry else None


def called(text: str, callable_of: Callable[[str, str], Any]) -> Any:
    """LLVM IR in memory, whose functions `get_function_address` finds while the result lives. `callable_of`
    returns what implements a function that the IR declares, by its name and type: a function of ctypes.
    """
    module, machine = _parsed(text, own_cpu=True)
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    engine = llvm.create_mcjit_compiler(module, machine)
    engine.callables = []  # which live as long as the code
    for each in module.functions:
        if each.is_declaration and not each.name.startswith("llvm."):
            found = callable_of(each.name, str(each.global_value_type))
            engine.callables.append(found)
            engine.add_global_mapping(each, ctypes.cast(found, ctypes.c_void_p).value)
    engine.finalize_object()
    engine.run_static_constructors()
    return engine


def _parsed(text: str, code_model: str = "jitdefault", *, own_cpu: bool = False) -> tuple[Any, Any]:
    """A module for this host, and what compiles it, for all its instructions if `own_cpu`."""
    with late_imports.whole():
        import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(text)
    target = llvm.Target.from_triple(llvm.get_process_triple())
    cpu = {}
    if own_cpu:
        cpu = {"cpu": llvm.get_host_cpu_name(), "features": llvm.get_host_cpu_features().flatten()}
    machine = target.create_target_machine(opt=2, codemodel=code_model, **cpu)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    return module, machine


def _in_memory(text: str, uses: Sequence[str]) -> Callable[[str], int]:
    """What finds the addresses of functions that LLVM compiles and loads in this process."""
    module, machine = _parsed(text)
    import llvmlite.binding as llvm

    for name in (f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")):
        llvm.add_symbol(name, _address_of(name, uses))
    if sys.platform == "win32":  # where functions call this before they use stack of variable size
        llvm.add_symbol("__chkstk", ctypes.cast(ctypes.windll.ntdll["__chkstk"], ctypes.c_void_p).value)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return lambda name: int(engine.get_function_address(name))
