"""Checks cubins: each must be an ELF file for one chip that has the code of each kernel."""

import re
import struct
from collections.abc import Iterable

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_ELF64_LITTLE = b"\x7fELF\x02\x01"
_EM_CUDA = 190
_NO_BITS = 8  # the type of a section that takes no room in the file
# The byte of e_flags that holds the chip's number, by ELF's OS ABI: up to ptxas 12.9, and since (which 12.9
# has for sm_100 and later).
_CHIP_SHIFT = {0x33: 0, 0x41: 8}
_QUIET = re.compile(r'/\*.*?\*/|//[^\n]*|"[^"\n]*"', re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([\w$%]+)")


def entries(ptx: str) -> list[str]:
    """The names of the kernels that a PTX text defines or declares."""
    return _ENTRY.findall(_QUIET.sub(" ", ptx))


def complaint(cubin: bytes, chip: str, kernels: Iterable[str]) -> str | None:
    """Why these bytes aren't a cubin for `chip` ("sm_90a") that holds these kernels; None where they are."""
    if not cubin:
        return "it is empty"
    if len(cubin) < _HEADER.size or not cubin.startswith(_ELF64_LITTLE):
        return f"it isn't a 64-bit little-endian ELF file, but begins with {cubin[:16]!r}"
    header = _HEADER.unpack_from(cubin)
    ident, machine, flags = header[0], header[2], header[7]
    if machine != _EM_CUDA:
        return f"its machine must be {_EM_CUDA} (CUDA), got {machine}"
    number = int("".join(filter(str.isdigit, chip)))
    shift = _CHIP_SHIFT.get(ident[7])
    if shift is not None and flags >> shift & 0xFF != number:
        return f"it must be for {chip}, got sm_{flags >> shift & 0xFF}"
    names = _sections(cubin, header)
    if names is None:
        return "its sections lie beyond its end"
    missing = [kernel for kernel in kernels if f".text.{kernel}".encode() not in names]
    return f"it lacks the code of {', '.join(missing)}" if missing else None


def _sections(cubin: bytes, header: tuple[int, ...]) -> set[bytes] | None:
    """The names of an ELF file's sections; None where it isn't whole."""
    start, size, count, strings = header[6], header[11], header[12], header[13]
    if header[5] + header[9] * header[10] > len(cubin):  # the program headers, which may be at the end
        return None
    if size != _SECTION.size or strings >= count or start + size * count > len(cubin):
        return None
    sections = [_SECTION.unpack_from(cubin, start + size * number) for number in range(count)]
    if any(kind != _NO_BITS and at + length > len(cubin) for _, kind, _, _, at, length, *_ in sections):
        return None
    at, length = sections[strings][4:6]
    table = cubin[at : at + length]
    return {table[name:].partition(b"\0")[0] for name, *_ in sections}
