"""Arrays of packed elements and of block scales in `weft.matmul`: the kinds that callers name, and the views
of arrays that have their types under other names (bytes) or in other shapes (scales).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral

from weft.dialects.element_types import PTX_INPUTS, PTX_PACKED, PTX_SCALES
from weft.dialects.operand_roles import SCALE_OF_WORDS, WORD
from weft.errors import about, shown
from weft.isa.block_scales import FORMATS, WORD_BLOCKS
from weft.launch import arrays
from weft.launch.arrays import PACKED_BITS, ArrayView
from weft.launch.kernel_arguments import packed_copy
from weft.multiply.array_views import refuse

_MLIR_ELEMENTS = {ptx: name for name, ptx in PTX_INPUTS.items()}
_MLIR_SCALES = {ptx: name for name, ptx in PTX_SCALES.items()}
_BYTES = "ui8"


@dataclass(frozen=True)
class Kind:
    """The elements of an operand and the type of their scales, by a name that callers give and MLIR's names.
    Only one of `elements` can be in arrays of bytes. Integers have no scales.
    """

    name: str
    elements: tuple[str, ...]
    scale: str = ""


def _kinds() -> dict[str, Kind]:
    """Each format, and where it has several elements also one of them: mxfp6, mxfp6_e2m3, mxfp6_e3m2. Then
    packed integers, by the names of ml_dtypes.
    """
    kinds: dict[str, Kind] = {}
    for name, each in FORMATS.items():
        elements, scale = tuple(_MLIR_ELEMENTS[ptx] for ptx in each.elements), _MLIR_SCALES[each.scale]
        kinds[name] = Kind(name, elements, scale)
        if len(elements) > 1:
            for ptx in each.elements:
                kinds[f"{name}_{ptx}"] = Kind(f"{name}_{ptx}", (_MLIR_ELEMENTS[ptx],), scale)
    integers = {arrays.numpy_dtype(element).name: element for element in PTX_PACKED}
    return kinds | {name: Kind(name, (element,)) for name, element in integers.items()}


KINDS = _kinds()


def checked(kind: object) -> tuple[Kind, Kind] | None:
    """The kinds of a and b that a caller names: one for both, or a pair; None for None. Raises WeftError for
    anything else, and for kinds whose scales differ.
    """
    if kind is None:
        return None
    names = (kind, kind) if isinstance(kind, str) else kind
    if not isinstance(names, tuple) or len(names) != 2 or not all(isinstance(n, str) for n in names):
        raise refuse(f"kind must be a name, or a pair of them for a and b, got {shown(kind)}")
    for name in names:
        if name not in KINDS:
            raise refuse(f"kind must be one of {', '.join(KINDS)}, got {shown(name)}")
    a, b = (KINDS[name] for name in names)
    if a.scale != b.scale:
        raise refuse(f"kind must have one type of scales for a and b, or none, got {a.name} and {b.name}")
    return a, b


def checked_block(block: object) -> int:
    """How many elements share a scale of words; 0 for None. Raises WeftError for illegal numbers."""
    if block is None:
        return 0
    if not isinstance(block, Integral) or block not in WORD_BLOCKS:
        legal = " or ".join(map(str, WORD_BLOCKS))
        raise refuse(f"scale_block must be {legal}, got {shown(block)}")
    return int(block)


def complaint(kinds: tuple[Kind, Kind] | None, views: Sequence[ArrayView], scaled: bool) -> str | None:
    """Why a kind can't be without scales, or bytes of a and b can't have scales without a kind."""
    if kinds is not None:
        wanted = bool(kinds[0].scale)
        must = f"must {'' if wanted else 'not '}be given"
        return None if scaled == wanted else f"scales {must} with kind {kinds[0].name}"
    of_bytes = [name for name, view in zip("ab", views, strict=True) if view.dtype == _BYTES]
    if scaled and of_bytes:
        return f"kind must be given with scales and {of_bytes[0]} of uint8, such as kind='nvfp4'"
    return None


def elements(name: str, view: ArrayView, kind: Kind | None) -> ArrayView:
    """The view of a or b in elements, packed if they have 4 or 6 bits: of an array of such elements, or with
    a kind of bytes that contain them. Raises WeftError for an array of other elements.
    """
    if kind is not None and view.dtype not in kind.elements:
        view = _of_bytes(name, view, kind)
    if view.dtype not in PACKED_BITS or view.packed:
        return view
    if view.device != "cpu":
        raise refuse(
            f"{name} must have packed elements of {view.dtype} on a GPU, got a byte for each of them: pack "
            "them as uint8, and pass kind"
        )
    with about(f"weft.matmul: {name}"):
        return packed_copy(view)


def _of_bytes(name: str, view: ArrayView, kind: Kind) -> ArrayView:
    """The elements of a kind in an array of bytes."""
    if view.dtype != _BYTES:
        legal = ", ".join(arrays.numpy_dtype(element).name for element in kind.elements)
        raise refuse(f"{name} must have elements of {legal} or uint8 with kind {kind.name}, got {view.dtype}")
    if len(kind.elements) > 1:
        legal = " or ".join(each for each in KINDS if each.startswith(f"{kind.name}_"))
        raise refuse(f"kind must be {legal} for {name} of uint8, got {kind.name}")
    (element,) = kind.elements
    if element not in PACKED_BITS:
        return replace(view, dtype=element)
    with about(f"weft.matmul: {name}"):
        return view.unpacked_from(element)


def scale_type(name: str, view: ArrayView, kinds: tuple[Kind, Kind] | None) -> str:
    """The type of block scales in an array; empty for scales of another type. Raises WeftError for an array
    that can't have the scales of a kind.
    """
    if kinds is None:
        if view.dtype == _BYTES:
            raise refuse(f"kind must be given with {name} of uint8, such as kind='nvfp4'")
        return view.dtype if view.dtype in PTX_SCALES else ""
    scale = kinds[0].scale
    if view.dtype not in (scale, _BYTES):
        dtype = arrays.numpy_dtype(scale).name
        raise refuse(
            f"{name} must have elements of {dtype} or uint8 with kind {kinds[0].name}, got {view.dtype}"
        )
    return scale


def are_words(name: str, view: ArrayView, kinds: tuple[Kind, Kind] | None, block: int) -> bool:
    """Whether an array of scales has words of four. Raises WeftError for words of which nothing specifies how
    many elements share a scale, for such a number without words, and for a kind without such scales.
    """
    if view.dtype != WORD:
        if block:
            raise refuse(f"scale_block must be given with scales of int32 only, got {name} of {view.dtype}")
        return False
    if not block:
        legal = " or ".join(map(str, WORD_BLOCKS))
        raise refuse(
            f"scale_block must be given with {name} of int32: {legal}, the elements that share each of the "
            "four scales in a word"
        )
    if kinds is not None and kinds[0].scale != SCALE_OF_WORDS:
        wanted = arrays.numpy_dtype(kinds[0].scale).name
        raise refuse(
            f"{name} must have elements of {wanted} or uint8 with kind {kinds[0].name}, got {view.dtype}"
        )
    return True
