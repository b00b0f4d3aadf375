"""Machine code for this host as bytes that are kept on disk, and loaded without LLVM.

LLVM takes 35 ms to load and to compile the code that queues launches. An image is made from an object file of
x86-64 Linux. With the "large" code model, every reference is an address of eight bytes.
"""

import ctypes
import json
import os
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

CODE_MODEL = "large"
"""That of the object file."""

_CODE, _ALLOCATED, _WRITTEN = 1, 2, 1  # SHT_PROGBITS; SHF_ALLOC, SHF_WRITE
_SYMBOLS, _RELOCATIONS = 2, 4  # SHT_SYMTAB, SHT_RELA
_ADDRESS = 1  # R_X86_64_64
_READ, _WRITE, _EXECUTE = 1, 2, 4  # PROT_…
_PRIVATE, _ANONYMOUS = 2, 0x20  # MAP_…


class Image(NamedTuple):
    """Code, and the constants that it reads. `functions` has the offsets of what others call. At an offset,
    each of the `patches` needs the address of a name ("" for the image itself), plus a distance.
    """

    code: bytes
    functions: dict[str, int]
    patches: list[tuple[int, str, int]]

    def written(self) -> bytes:
        """The image as the cache keeps it."""
        return json.dumps([self.code.hex(), self.functions, self.patches]).encode()

    @classmethod
    def read(cls, entry: bytes) -> "Image":
        """The inverse of `written`."""
        code, functions, patches = json.loads(entry)
        return cls(bytes.fromhex(code), functions, [(at, name, by) for at, name, by in patches])


def supported() -> bool:
    """Whether images can be made and loaded here."""
    return sys.platform == "linux" and os.uname().machine == "x86_64" and sys.maxsize > 2**32


class _Section(NamedTuple):
    """A section of an ELF file, by its header's fields."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


def image_of(elf: bytes) -> Image | None:
    """The image of an object file; None where it has variables, or references that aren't addresses."""
    start, count = struct.unpack_from("<Q", elf, 40)[0], struct.unpack_from("<H", elf, 60)[0]
    sections = [_Section(*struct.unpack_from("<IIQQQQIIQQ", elf, start + 64 * n)) for n in range(count)]
    symbols = next(each for each in sections if each.kind == _SYMBOLS)
    names = sections[symbols.link]
    code, starts = b"", dict[int, int]()
    for number, each in enumerate(sections):
        if not each.flags & _ALLOCATED or _name(elf, sections, each) == b".eh_frame" or not each.size:
            continue
        if each.kind != _CODE or each.flags & _WRITTEN:
            return None
        code += bytes(-len(code) % each.alignment)
        starts[number] = len(code)
        code += elf[each.offset : each.offset + each.size]

    def symbol(number: int) -> tuple[str, int]:
        """Its name, or "" for a place in the image, and the distance to there."""
        at, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", elf, symbols.offset + 24 * number)
        if section in starts:
            return "", starts[section] + value
        return _text(elf, names.offset + at).decode(), 0

    patches = []
    for each in sections:
        if each.kind == _RELOCATIONS and each.info in starts:
            for at, what, addend in _entries(elf, each, "<QQq"):
                if what & 0xFFFFFFFF != _ADDRESS:
                    return None
                name, distance = symbol(what >> 32)
                patches.append((starts[each.info] + at, name, distance + addend))
    functions = {
        _text(elf, names.offset + at).decode(): starts[section] + value
        for at, info, _, section, value, _ in _entries(elf, symbols, "<IBBHQQ")
        if info >> 4 and section in starts  # not local
    }
    return Image(code, functions, patches)


def _entries(elf: bytes, section: _Section, layout: str) -> Iterator[tuple[Any, ...]]:
    return struct.iter_unpack(layout, elf[section.offset : section.offset + section.size])


def _text(elf: bytes, start: int) -> bytes:
    return elf[start : elf.index(b"\0", start)]


def _name(elf: bytes, sections: list[_Section], section: _Section) -> bytes:
    names = sections[struct.unpack_from("<H", elf, 62)[0]]
    return _text(elf, names.offset + section.name)


def load(image: Image, address_of: Callable[[str], int]) -> dict[str, int]:
    """The addresses of an image's functions, once it is in memory, where it stays until the process ends.
    Raises OSError where the system doesn't allow that.
    """
    c = ctypes.CDLL(None, use_errno=True)
    c.mmap.restype, size = ctypes.c_void_p, ctypes.c_size_t(len(image.code))
    start = c.mmap(None, size, _READ | _WRITE, _PRIVATE | _ANONYMOUS, -1, ctypes.c_long(0))
    if start == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "no memory for machine code")
    code = bytearray(image.code)
    for at, name, distance in image.patches:
        struct.pack_into("<Q", code, at, (address_of(name) if name else start) + distance)
    ctypes.memmove(start, bytes(code), len(code))
    if c.mprotect(ctypes.c_void_p(start), size, _READ | _EXECUTE):
        raise OSError(ctypes.get_errno(), "the system doesn't allow machine code in memory")
    return {name: start + offset for name, offset in image.functions.items()}
