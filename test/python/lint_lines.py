"""What the tests of `weft lint` share: lines of PTX, and the verdicts on them."""

from weft.tools import findings, weft

F16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
F16_LINE = f"{F16} {{%f0, %f1, %f2, %f3}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {{%f0, %f1, %f2, %f3}};"
TF32_LINE = F16_LINE.replace("f16.f16", "tf32.tf32")
HEAD = ".version 9.0\n.target sm_90a\n"
WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d0, %d1, %p0"
SCALED = (
    "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0 "
    "{%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3}, %r6"
)
TCGEN05 = "tcgen05.mma.cta_group::1.kind::f16 [%r0], %d0, %d1, %r1"
REGISTERS = (
    ".reg .b32 %r<40>; .reg .f32 %f<40>; .reg .b64 %d<9>; .reg .pred %p<4>; .reg .b16 %h<4>;"
    ".reg .f64 %q<4>; .reg .v2 .b32 vector; .shared .align 128 .b8 symbol[1024];"
)


def verdicts(text, chip="sm_90a"):
    return [finding.verdict for finding in findings.lint_ptx(text, chip)]


def lint(tmp_path, capsys, text, *options, name="a.ptx"):
    path = tmp_path / name
    path.write_text(text)
    status = weft.main(["lint", str(path), *options])
    return status, capsys.readouterr()
