"""Assembling with ptxas: source locations of errors, crashes, time limits and missing programs."""

import tempfile

import pytest

from weft.compiler import codegen, ptxas
from weft.errors import Location, WeftError

PTX = """.version 8.4
.target sm_80
.address_size 64
.file 1 "/x/other.mlir"
.file 2 "/x/demo.mlir"
.visible .entry first(.param .u64 p)
{
	.loc 2 3 1
	ret;
}
.visible .entry kernel(.param .u64 p)
{
	.reg .b32 %r<4>;
	.reg .b64 %rd<3>;
	.shared .align 16 .b8 memory[1024];
	ld.param.u64 %rd1, [p];
	.loc 2 7 3
	mov.u32 %r1, %tid.x;
	.loc 2 0 0
	st.global.u32 [%rd1], %r1;
	ret;
}
"""


LAST = "for last; do :; done"
"""Shell: the last argument, ptxas's output, as $last."""


def for_chip(cubin: bytes, number: int) -> bytes:
    """A cubin of ptxas 13 with another chip's number in it."""
    return cubin[:49] + bytes([number]) + cubin[50:]


def refused(ptx: str, chip: str = "sm_80", **options) -> WeftError:
    with pytest.raises(WeftError) as caught:
        ptxas.assemble(ptx, chip, **options)
    return caught.value


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Puts a shell script in ptxas's place."""

    def install(script: str) -> None:
        path = tmp_path / "ptxas"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("WEFT_PTXAS", str(path))

    return install


def test_a_cubin_comes_with_each_kernels_resources():
    made = ptxas.assemble(PTX, "sm_80")
    assert made.cubin.startswith(b"\x7fELF")
    assert set(made.kernels) == {"first", "kernel"}
    assert made.kernels["kernel"].shared_bytes == 1024
    assert made.kernels["first"].shared_bytes == 0
    assert made.kernels["kernel"].registers > 0
    assert "Compiling entry function 'kernel'" in made.log


def test_spills_are_counted():
    loads = "\n".join(f"ld.volatile.global.u32 %r{i}, [%rd1+{4 * i}];" for i in range(64))
    stores = "\n".join(f"st.volatile.global.u32 [%rd1+{4 * i}], %r{i};" for i in range(64))
    ptx = f""".version 8.4
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 p)
{{
.reg .b32 %r<64>;
.reg .b64 %rd<2>;
ld.param.u64 %rd1, [p];
{loads}
{stores}
ret;
}}
"""
    resources = ptxas.assemble(ptx, "sm_80", options=["--maxrregcount=24"]).kernels["kernel"]
    assert min(resources.spill_stores, resources.spill_loads, resources.stack_bytes) > 0
    assert ptxas.assemble(ptx, "sm_80").kernels["kernel"].spill_stores == 0


def test_an_error_has_the_source_line_before_it():
    first, second = refused(PTX.replace("[%rd1], %r1", "[%rd1], %r9")).diagnostics
    assert first.location == second.location == Location("/x/demo.mlir", 7, 3)
    assert second.message == "ptxas: Unknown symbol '%r9'"
    assert second.notes[0].location == Location("<ptx>", 20, 2)
    assert second.notes[0].message == "the PTX is: st.global.u32 [%rd1], %r9;"


def test_an_error_before_its_functions_first_loc_has_its_ptx_line():
    diagnostic = refused(PTX.replace("ld.param.u64 %rd1", "ld.param.u64 %rd9"), name="k.ptx").diagnostics[-1]
    assert diagnostic.location == Location("k.ptx", 16, 2)


def test_an_error_in_generated_ptx_has_a_source_location():
    ir = """
define ptx_kernel void @kernel() !dbg !3 {
  call void asm sideeffect "wgmma.fence.sync.aligned;", ""(), !dbg !5
  ret void, !dbg !5
}
!llvm.module.flags = !{!0}
!llvm.dbg.cu = !{!1}
!0 = !{i32 2, !"Debug Info Version", i32 3}
!1 = distinct !DICompileUnit(language: DW_LANG_C, file: !2, emissionKind: DebugDirectivesOnly)
!2 = !DIFile(filename: "demo.mlir", directory: "/x")
!3 = distinct !DISubprogram(name: "kernel", file: !2, type: !4, unit: !1, spFlags: DISPFlagDefinition)
!4 = !DISubroutineType(types: !{})
!5 = !DILocation(line: 12, column: 5, scope: !3)
"""
    (diagnostic,) = refused(codegen.to_ptx(ir, "sm_80", (8, 4)).ptx).diagnostics
    assert diagnostic.location == Location("/x/demo.mlir", 12, 5)
    assert "'wgmma.fence' not supported on .target 'sm_80'" in diagnostic.message


def test_an_error_without_a_line_is_told_as_it_is():
    said = str(refused(PTX.replace("1024", "1000000")))
    assert said.startswith("ptxas: Entry function 'kernel' uses too much shared data")


def test_many_errors_are_cut_short():
    many = refused(PTX.replace("\tret;", "\tnonsense %r1;\n" * 50 + "\tret;", 1)).diagnostics
    assert len(many) <= ptxas._MOST_SHOWN + 1


@pytest.mark.parametrize("ptx", ["", "nonsense", "\0", PTX[:200], PTX.replace("8.4", "99.9")])
def test_broken_ptx_is_refused_in_words(ptx):
    assert "ptxas: " in str(refused(ptx))


def test_a_chip_that_this_ptxas_lacks_is_named():
    assert f"ptxas {ptxas.version()}" in str(refused(PTX, "sm_1"))
    assert "doesn't know sm_1" in str(refused(PTX, "sm_1"))


def test_a_chip_that_cuda_13_dropped_names_the_package_that_has_it(fake):
    fake("""[ "$1" = --version ] && echo V13.5.37 && exit
echo "ptxas fatal   : Value 'sm_70' is not defined for option 'gpu-name'" >&2; exit 255""")
    said = str(refused(PTX, "sm_70"))
    assert "ptxas 13.5.37" in said and "pip install nvidia-cuda-nvcc-cu12" in said


def test_the_ptxas_of_cuda_12_takes_what_13_dropped(tmp_path, monkeypatch):
    older = tmp_path / "nvidia" / "cuda_nvcc" / "bin" / "ptxas"
    older.parent.mkdir(parents=True)
    made_by_12 = tmp_path / "made-by-12"
    made_by_12.write_bytes(for_chip(ptxas.assemble(PTX, "sm_80").cubin, 7))
    older.write_text(f"#!/bin/sh\n{LAST}\ncat {made_by_12} > $last\n")
    older.chmod(0o755)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert ptxas.assemble(PTX, "sm_7").cubin == made_by_12.read_bytes()
    assert ptxas.assemble(PTX, "sm_80").cubin != made_by_12.read_bytes()


def test_a_missing_ptxas_is_reported_with_its_package(monkeypatch):
    monkeypatch.setattr("cuda.pathfinder.find_nvidia_binary_utility", lambda tool: None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("WEFT_PTXAS", raising=False)
    assert "ptxas not found: `pip install nvidia-cuda-nvcc`" in str(refused(PTX))


def test_a_wrong_weft_ptxas_is_refused(monkeypatch, fake):
    monkeypatch.setenv("WEFT_PTXAS", "/no/such/ptxas")
    assert "WEFT_PTXAS is /no/such/ptxas" in str(refused(PTX))
    fake("echo hello")
    with pytest.raises(WeftError, match="isn't ptxas: its --version prints 'hello'"):
        ptxas.version()


def test_a_crash_of_ptxas_is_reported(fake):
    fake("kill -SEGV $$")
    assert "ptxas was killed by signal 11" in str(refused(PTX))


def test_a_ptxas_that_hangs_is_ended(fake, monkeypatch):
    fake("exec sleep 60")
    monkeypatch.setattr(ptxas, "TIMEOUT_SECONDS", 0.2)
    assert "ptxas didn't finish within 0.2 s" in str(refused(PTX))


def test_nothing_stays_in_the_temporary_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ptxas.assemble(PTX, "sm_80")
    refused("nonsense")
    assert not list(tmp_path.iterdir())


def test_sass_of_a_cubin():
    try:
        ptxas.find("nvdisasm")
    except WeftError as error:
        pytest.skip(str(error))
    sass = ptxas.disassemble(ptxas.assemble(PTX, "sm_80").cubin)
    assert "STG.E" in sass and "EXIT" in sass
    with pytest.raises(WeftError, match="nvdisasm: "):
        ptxas.disassemble(b"nonsense")


def test_a_missing_nvdisasm_is_reported_with_its_package(monkeypatch):
    monkeypatch.setattr("cuda.pathfinder.find_nvidia_binary_utility", lambda tool: None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("WEFT_NVDISASM", raising=False)
    with pytest.raises(WeftError, match="pip install nvidia-cuda-nvdisasm"):
        ptxas.disassemble(b"")


def test_ptxas_gets_large_pages_unless_the_user_tunes_glibc(fake, tmp_path, monkeypatch):
    fake(f'printf %s "$GLIBC_TUNABLES $MALLOC_TOP_PAD_" > {tmp_path}/memory; exit 3')
    refused(PTX)
    assert (tmp_path / "memory").read_text() == "glibc.malloc.hugetlb=1 67108864"
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=0")
    refused(PTX)
    assert (tmp_path / "memory").read_text() == "glibc.malloc.hugetlb=0 67108864"
