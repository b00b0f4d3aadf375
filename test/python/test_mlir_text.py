"""Text on which MLIR or its bindings would crash is refused with a location."""

from pathlib import Path

import pytest

from weft import mlir
from weft.dialects import context
from weft.errors import Location, WeftError


def refused(text: str) -> WeftError:
    with pytest.raises(WeftError) as caught:
        mlir.parse(text, context())
    return caught.value


@pytest.mark.parametrize(
    ("text", "column"),
    [
        (r'module attributes {a.b = "\FF"} {}', 26),
        (r'module attributes {"a.\C3" = 1} {}', 20),
        (r'module {} loc("\FF":1:1)', 15),
        (r'module attributes {a.b = "\"\\\ED\A0\80"} {}', 26),
    ],
)
def test_strings_that_are_no_text_are_refused(text: str, column: int) -> None:
    (diagnostic,) = refused("\n" + text).diagnostics
    assert diagnostic.message.startswith("string must be UTF-8 text, got ")
    assert diagnostic.location == Location("-", 2, column)


def test_strings_of_text_symbols_and_the_bytes_of_a_global_are_taken() -> None:
    text = r"""
    // "\FF"
    module @"\80" attributes {a.b = "\C3\A9\00\\FF", a.c = "é"} {
      llvm.mlir.global constant @bytes("\FF\00\80") : !llvm.array<3 x i8>
    }
    """
    made = context()
    made.allow_unregistered_dialects = True
    assert "\\FF\\00\\80" in str(mlir.parse(text, made))


@pytest.mark.parametrize(("character", "what"), [("\0", "a zero byte"), ("\ud800", "half of a surrogate")])
def test_characters_that_no_file_has_are_refused(character: str, what: str) -> None:
    (diagnostic,) = refused(f"module {{}}\n  {character}").diagnostics
    assert diagnostic.message.startswith(f"text must not contain {what}")
    assert diagnostic.location == Location("-", 2, 3)


def test_a_byte_order_mark_is_named() -> None:
    """MLIR's parser finds an unexpected character, which editors don't show."""
    (diagnostic,) = refused("\ufeffmodule {}").diagnostics
    assert "must not begin with a byte order mark: save the file as UTF-8 without one" in diagnostic.message
    assert diagnostic.location == Location("-", 1, 1)


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.mlir").write_bytes(b'\nmodule attributes {a.b = "\xff"} {}')
    with pytest.raises(WeftError, match="line 2 isn't UTF-8 text"):
        mlir.parse_file(tmp_path / "x.mlir", context())


def test_strings_built_of_bytes_are_read_with_escapes() -> None:
    with context():
        assert mlir.ir.StringAttr.get(b"a\xff").value == "a\\xff"
        assert mlir.ir.StringAttr.get("é").value == "é"


@pytest.mark.parametrize(
    "text",
    [
        *("array<si32: 1>", "array<ui64>", "array<f16: 1.0>", "array<i128: 1>", "array<i1: true>"),
        *("dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>", "dense<1> : tensor<2xi7>", "unit", "i32", "@a::@b"),
        *("loc(unknown)", 'loc("x":1:2)', 'loc("n")', 'loc(callsite("a" at "b"))', 'loc(fused["a", "b"])'),
        *('loc(fused<1>["a", "b"])', "strided<[1]>", "affine_map<() -> (1)>", "distinct[0]<1 : i64>"),
    ],
)
def test_attributes_of_every_kind_are_handed_out(text: str) -> None:
    with context():
        holder = mlir.ir.Attribute.parse(f"{{a = {text}, b = [{text}]}}")
        assert str(holder["a"]) == str(mlir.ir.Attribute.parse(text))
        assert str(holder[0].attr) == str(holder["a"])
        assert [str(each) for each in holder["b"]] == [str(holder["a"])]
