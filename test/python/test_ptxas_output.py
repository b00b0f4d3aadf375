"""The output of ptxas is checked before use, and cached with a key that identifies ptxas."""

import copy
import os
import shutil
import struct
from pathlib import Path

import pytest
from one_product import SCHEDULES, text

from weft.compiler import cubin, ptxas, stages
from weft.errors import WeftError
from weft.isa.chips import CHIPS
from weft.target import Target

PTX = """.version 7.8
.target {chip}
.address_size 64
.visible .entry first(.param .u64 p)
{{
	ret; // .entry commented
}}
/* .entry commented_too */
.entry second$1
()
{{
	ret;
}}
"""
SCRIPT = """#!/bin/sh
for last; do :; done
if [ "$1" = --version ]; then {real} --version; exit 0; fi
{does}
"""


@pytest.fixture
def real(monkeypatch):
    """The ptxas that is installed."""
    monkeypatch.delenv("WEFT_PTXAS", raising=False)
    return ptxas.find("ptxas")


@pytest.fixture
def fake(tmp_path, real, monkeypatch):
    """Puts a script in ptxas's place that says it is the real one; `$last` is the file to write."""

    def install(does: str) -> Path:
        path = tmp_path / "ptxas"
        path.write_text(SCRIPT.format(real=real, does=does))
        path.chmod(0o755)
        monkeypatch.setenv("WEFT_PTXAS", str(path))
        return path

    return install


@pytest.fixture(scope="module")
def made():
    return ptxas.assemble(PTX.format(chip="sm_80"), "sm_80").cubin


@pytest.fixture(scope="module")
def lowered():
    """A product's PTX: a copy of it makes a cubin of its own."""
    compiled = stages.compile_module(text(SCHEDULES[0]), "sm_80")
    assert compiled.ptx
    return compiled


@pytest.mark.sampled(4)
@pytest.mark.parametrize("chip", [name for name, chip in CHIPS.items() if chip.llvm])
def test_what_each_ptxas_makes_for_each_chip_is_a_cubin(chip, real):
    major, minor = Target.of(chip).ptx
    text = PTX.format(chip=chip).replace("7.8", f"{major}.{minor}")
    taken = 0
    for program in ptxas._assemblers():
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("WEFT_PTXAS", str(program))
            try:
                whole = ptxas.assemble(text, chip).cubin
            except WeftError as error:
                assert "doesn't know" in str(error) or "Unsupported .version" in str(error)
                continue
        taken += 1
        for name, other in CHIPS.items():
            complaint = cubin.complaint(whole, name, ["first"])
            assert (complaint is None) == (other.number == CHIPS[chip].number), complaint
    assert taken


def test_kernels_are_found_in_ptx():
    assert cubin.entries(PTX) == ["first", "second$1"]
    assert cubin.entries('.file 1 ".entry x"\n.visible .func f() { ret; }') == []


def test_each_fault_of_a_cubin_is_reported(made):
    kernels = ["first", "second$1"]
    assert cubin.complaint(made, "sm_80", kernels) is None
    for broken, reason in (
        (b"", "it is empty"),
        (b"rubbish", "it isn't a 64-bit little-endian ELF file, but begins with b'rubbish'"),
        (made[:4] + b"\x01" + made[5:], "it isn't a 64-bit little-endian ELF file"),
        (made[:18] + struct.pack("<H", 62) + made[20:], "its machine must be 190 (CUDA), got 62"),
        (made[:49] + b"\x5a" + made[50:], "it must be for sm_80, got sm_90"),
        (made[:-1], "its sections lie beyond its end"),
        (made[: len(made) // 2], "its sections lie beyond its end"),
    ):
        assert str(cubin.complaint(broken, "sm_80", kernels)).startswith(reason)
    assert cubin.complaint(made, "sm_80", ["first", "third", "firs"]) == "it lacks the code of third, firs"
    for length in range(len(made)):
        assert cubin.complaint(made[:length], "sm_80", kernels) is not None


RUBBISH = {
    "text": "echo rubbish > $last",
    "nothing": "exit 0",
    "another program": "cat /bin/sh > $last",
    "another chip": '{real} -arch=sm_90 "$2" "$3" -o $last',
    "half": '{real} "$@"; truncate -s 1000 $last',
}


@pytest.mark.each_value(1)
@pytest.mark.sampled(2)
@pytest.mark.parametrize("does", RUBBISH.values(), ids=RUBBISH)
def test_rubbish_is_refused_and_never_kept(does, lowered, fake, real, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    path = fake(does.replace("{real}", str(real)))
    for _ in range(2):
        with pytest.raises(WeftError, match=f"^{path} reports success, but what it wrote is no cubin"):
            _ = copy.copy(lowered).assembled
    assert not list((tmp_path / "cache").glob("cubin-*"))
    monkeypatch.delenv("WEFT_PTXAS")
    assert copy.copy(lowered).cubin.startswith(b"\x7fELF")
    assert len(list((tmp_path / "cache").glob("cubin-*"))) == 1


def test_a_ptxas_of_the_same_version_isnt_the_same(lowered, fake, real, tmp_path, monkeypatch):
    """The one adds to a cubin what no check can see."""
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))

    def compiled() -> bytes:
        return copy.copy(lowered).cubin

    fake(f'{real} "$@" && printf AAAA >> $last')
    assert compiled().endswith(b"AAAA")
    path = fake(f'{real} "$@" && printf BBBB >> $last')
    assert compiled().endswith(b"BBBB")
    before = path.stat()
    path.write_text(path.read_text().replace("BBBB", "CCCC"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert compiled().endswith(b"CCCC")
    monkeypatch.delenv("WEFT_PTXAS")
    assert not compiled().endswith(b"CCCC")


def test_each_ptxas_that_may_serve_is_in_the_key(tmp_path, monkeypatch, real):
    before = ptxas.identity()
    older = tmp_path / "nvidia" / "cuda_nvcc" / "bin" / "ptxas"
    older.parent.mkdir(parents=True)
    older.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.9, V12.9.86'\n")
    older.chmod(0o755)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = ptxas.identity()
    assert set(before) < set(found) and {str(older), "12.9.86"} <= set(found)


def test_a_ptxas_that_is_replaced_meanwhile_keeps_nothing(lowered, fake, real, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    fake(f'{real} "$@"; echo >> $0')
    assert copy.copy(lowered).cubin
    assert not list((tmp_path / "cache").glob("cubin-*"))


def test_a_program_without_its_script_reports_its_own_version(real, tmp_path, monkeypatch):
    """A script may run any program: its version counts, too. A program is told by its file alone."""
    monkeypatch.setattr(ptxas, "_version_of", lambda program: f"version of {program.name}")
    assert not any(part.startswith("version") for part in ptxas.identity())
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("WEFT_PTXAS", str(script))
    assert ptxas.identity()[-1] == "version of script"


def test_a_kept_cubin_is_looked_at_again(lowered, tmp_path, monkeypatch):
    """Should a wrong one get there, by a fault of ours or of memory."""
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cubin, "complaint", lambda *args: None)
    rubbish = ptxas.Assembled(b"rubbish", {}, "")
    monkeypatch.setattr(ptxas, "assemble", lambda *args: rubbish)
    assert copy.copy(lowered).assembled == rubbish
    monkeypatch.undo()
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    assert copy.copy(lowered).cubin.startswith(b"\x7fELF")


def test_nvdisasm_that_prints_nothing_is_refused(made, tmp_path, monkeypatch):
    path = tmp_path / "nvdisasm"
    shutil.copy("/bin/true", path)
    monkeypatch.setenv("WEFT_NVDISASM", str(path))
    with pytest.raises(WeftError, match=f"{path} reports success, but prints nothing"):
        ptxas.disassemble(made)
