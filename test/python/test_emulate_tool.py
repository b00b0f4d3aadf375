"""`weft emulate`: arguments, output and exit status."""

import json
import subprocess

import numpy as np
import pytest
import warm_tools

from weft import emulator
from weft.tools import bar, sarif
from weft.tools import emulate as tool_emulate

HEAD = ".version 8.4\n.target sm_80\n.address_size 64\n"
SCALE = (
    HEAD
    + """.visible .entry scale(.param .u64 x, .param .f32 by, .param .u32 n)
{
  .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %d<3>; .reg .pred %p;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.s32 %r1, %r1, %r2, %r3;
  ld.param.u32 %r4, [n];
  setp.ge.u32 %p, %r1, %r4;
  @%p bra done;
  ld.param.u64 %d1, [x]; ld.param.f32 %f1, [by];
  mad.wide.u32 %d1, %r1, 4, %d1;
  ld.global.f32 %f2, [%d1];
  mul.f32 %f2, %f2, %f1;
  st.global.f32 [%d1], %f2;
done: ret;
}
"""
)
STRUCT = (
    HEAD
    + """.visible .entry a(.param .align 4 .b8 s[8], .param .u64 o, .param .u16 h)
{
  .reg .b32 %r<3>; .reg .b64 %d; .reg .b16 %h;
  ld.param.u64 %d, [o]; ld.param.u32 %r1, [s+4]; ld.param.u16 %h, [h]; cvt.u32.u16 %r2, %h;
  add.u32 %r1, %r1, %r2;
  st.global.u32 [%d], %r1;
  ret;
}
.visible .entry b() { ret; }
"""
)


@pytest.fixture
def emulate(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(text, *arguments):
        from weft.tools import weft

        (tmp_path / "k.ptx").write_text(text)
        status = weft.main(["emulate", "k.ptx", *arguments])
        found = capsys.readouterr()
        assert "Traceback" not in found.err
        return status, found.out, found.err

    return run


def arguments(*values):
    return [part for value in values for part in ("--arg", value)]


def test_arrays_are_written_back(emulate, tmp_path):
    x = np.arange(100, dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    status, out, _ = emulate(SCALE, "--grid", "4", "--block", "32", *arguments("x.npy", "2.5", "100"))
    assert status == 0 and "no findings" in out and "warp instructions" in out and "ld" in out
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), x * np.float32(2.5))


@pytest.mark.parametrize("kind", ["c8", [("a", "f4"), ("b", "f4")], "V8"])
def test_arrays_of_what_is_no_number_are_described_without_a_range(emulate, tmp_path, kind):
    np.save(tmp_path / "x.npy", np.arange(100, dtype=np.float32).view(kind))
    status, out, err = emulate(SCALE, "--grid", "4", "--block", "32", *arguments("x.npy", "2.5", "100"))
    assert (status, err) == (0, "")
    assert f"argument 0  50 {np.dtype(kind).name}, changed\n" in out
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy").view(np.float32)[:2], [0, 2.5])


def test_arrays_go_to_a_folder(emulate, tmp_path):
    x = np.arange(100, dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    options = ["--grid", "4x1x1", "--block", "32,1", "--out", "results", "--seed", "3"]
    status, _, _ = emulate(SCALE, *options, *arguments("x.npy", "f32:2", "u32:100"))
    assert status == 0
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), x)
    np.testing.assert_array_equal(np.load(tmp_path / "results" / "x.npy"), x * 2)


def test_structs_and_small_scalars(emulate, tmp_path):
    np.save(tmp_path / "o.npy", np.zeros(1, np.uint32))
    (tmp_path / "s.bin").write_bytes(bytes([0, 0, 0, 0, 7, 1, 0, 0]))
    for struct in ("hex:0000000007010000", "bytes:s.bin"):
        status, _, err = emulate(STRUCT, "--kernel", "a", *arguments(struct, "o.npy", "u16:0x10"))
        assert (status, err) == (0, "") and np.load(tmp_path / "o.npy")[0] == 0x117


def test_faults_give_one_and_name_the_file(emulate, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(10, np.float32))
    status, _, err = emulate(SCALE, "--block", "32", *arguments("x.npy", "1.0", "32"))
    assert status == 1 and "k.ptx:14:1: error: out-of-bounds global access" in err
    status, _, err = emulate(
        SCALE, "--block", "32", "--max-instructions", "3", *arguments("x.npy", "1.0", "3")
    )
    assert status == 1 and "instruction limit of 3" in err


UNWRITTEN = """.version 8.4
.target sm_80
.address_size 64
.visible .entry unwritten(.param .u64 out)
{
  .shared .align 4 .b8 memory[128];
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.shared.u32 %r1, [memory];
  ld.param.u64 %rd1, [out];
  st.global.u32 [%rd1 + 4096], %r1;
  ret;
}
"""


def test_findings_before_a_fault_are_told(emulate):
    status, out, err = emulate(UNWRITTEN, "--arg", "zeros:4xf32")
    assert status == 1 and "error: out-of-bounds global access" in err
    assert "uninitialized-shared" in out and "out-of-bounds" not in out
    status, out, err = emulate(UNWRITTEN, "--arg", "zeros:4xf32", "--json")
    told = json.loads(out)
    assert status == 1 and told["error"].startswith("out-of-bounds global access")
    assert [finding["rule"] for finding in told["findings"]] == ["uninitialized-shared", "out-of-bounds"]
    _, out, _ = emulate(UNWRITTEN, "--arg", "zeros:4xf32", "--json", "--no-sanitize")
    assert json.loads(out)["findings"] is None


def test_a_loop_without_end_ends(emulate, monkeypatch):
    monkeypatch.setattr(tool_emulate, "LIMIT", 5000)
    body = ".reg .b32 %r; mov.u32 %r, 0; L: add.u32 %r, %r, 1; bra L;"
    loop = f".version 8.4\n.target sm_80\n.visible .entry k() {{ {body} }}"
    status, _, err = emulate(loop)
    assert status == 1 and "reached the instruction limit of 5000" in err
    status, _, err = emulate(loop, "--max-instructions", "70")
    assert status == 1 and "reached the instruction limit of 70" in err
    assert emulate(loop.replace("bra L", "ret"), "--max-instructions", "0")[0] == 0


def test_a_chip_runs_what_it_can(emulate):
    text = ".version 8.4\n.target sm_90a\n.visible .entry k() { ret; }"
    assert emulate(text, "--chip", "sm_90")[0] == 0
    status, _, err = emulate(text, "--chip", "sm_100a")
    assert status == 2 and "chip must be one that runs PTX for sm_90a, got sm_100a" in err


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("nonsense", [], "k.ptx:1:1: error: expected a directive"),
        (STRUCT, [], "has 2 kernels (a, b): select one with --kernel"),
        (SCALE, ["--kernel", "k"], "the module has no kernel 'k': it has scale"),
        (SCALE, [], "has 3 parameters, got 0 arguments"),
        (SCALE, ["--grid", "1,2,3,4"], "--grid expects one to three numbers"),
        (SCALE, ["--block", "-1"], "--block expects one to three numbers"),
        (SCALE, ["--block", "0", *arguments("1", "2.0", "3")], "block must be in 1..1024 on x, got 0"),
        (SCALE, ["--shared", "many"], "--shared must be a whole number of at least 0; got 'many'"),
        (
            SCALE,
            ["--seeds", "1e3", *arguments("1", "2.0", "3")],
            "--seeds must be a whole number of at least 0",
        ),
        (SCALE, ["--trace", "-", *arguments("1", "2.0", "3")], "--trace must be a file; got '-'"),
        (SCALE, ["--trace", "", *arguments("1", "2.0", "3")], "--trace must be a file; got ''"),
        (SCALE, arguments("zeros:" + "1x" * 40 + "u32"), "expected at most 32 sizes, got 40"),
        (SCALE, arguments("none.npy"), "cannot read 'none.npy'"),
        (SCALE, arguments("k.ptx.npy"), "cannot read 'k.ptx.npy'"),
        (SCALE, arguments("one"), "expected a number, TYPE:NUMBER"),
        (SCALE, arguments("q8:1"), "got 'q8'"),
        (SCALE, arguments("u8:300"), "doesn't fit 8 bits"),
        (SCALE, arguments("s32:1.5"), "expected an integer"),
        (SCALE, arguments("hex:0"), "expected hexadecimal digits"),
        (SCALE, arguments("1", "2.0", "99999999999"), "doesn't fit 32 bits"),
    ],
)
def test_mistakes_are_told(emulate, text, options, message):
    status, _, err = emulate(text, *options)
    assert status in (1, 2) and message in err


# NumPy reads the second one's header with Python's tokenizer.
@pytest.mark.parametrize("data", [b"no array", b"\x93NUMPY\x01\x00\x76\x00" + b"{" * 118])
def test_a_file_that_is_no_array(emulate, tmp_path, data):
    (tmp_path / "x.npy").write_bytes(data)
    status, _, err = emulate(SCALE, *arguments("x.npy", "1.0", "1"))
    assert status == 2 and "no array as np.save writes it" in err


def test_the_tool_runs_by_itself(tmp_path):
    (tmp_path / "k.ptx").write_text(STRUCT)
    command = [warm_tools.folder() / "weft", "emulate", tmp_path / "k.ptx", "--kernel", "b"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == "" and "no findings" in done.stdout


def test_a_dependent_launch_must_wait(emulate):
    np.save("x.npy", np.ones(64, np.float32))
    status, out, _ = emulate(SCALE, "--block", "64", *arguments("x.npy", "f32:2", "u32:64"))
    assert status == 0
    status, out, _ = emulate(SCALE, "--dependent", "--block", "64", *arguments("x.npy", "f32:2", "u32:64"))
    assert status == 1
    assert out.count("griddepcontrol-wait") == 2
    status, out, _ = emulate(SCALE, "--no-sanitize", "--block", "64", *arguments("x.npy", "f32:2", "u32:64"))
    assert status == 0 and "mistakes weren't looked for" in out and "no findings" not in out
    status, _, err = emulate(SCALE, "--no-sanitize", "--dependent", *arguments("x.npy", "f32:2", "u32:64"))
    assert status == 2 and "it is for the sanitizer" in err


RACE = (
    HEAD
    + """.visible .entry k(.param .u64 x)
{
  .reg .b32 %r<6>; .reg .b64 %d<3>; .shared .align 8 .b8 s[512];
  .loc 1 42 7
  mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, s; add.u32 %r2, %r2, %r3;
  st.shared.u32 [%r2], %r1;
  xor.b32 %r2, %r2, 128;
  ld.shared.u32 %r4, [%r2];
  ret;
}
.file 1 "kernel.cu"
"""
)
# Which warp comes first decides whether the second one's wait is needed.
LATE = (
    HEAD
    + """.visible .entry k(.param .u64 x)
{
  .reg .b32 %r<6>; .reg .b64 %d<3>; .reg .pred %p<3>; .shared .align 8 .b8 s[512];
  ld.param.u64 %d0, [x]; mov.u32 %r1, %tid.x; setp.ge.u32 %p0, %r1, 32;
  @%p0 bra SECOND;
  st.relaxed.gpu.global.u32 [%d0], 1;
  ret;
SECOND:
  ld.relaxed.gpu.global.u32 %r2, [%d0];
  setp.eq.u32 %p1, %r2, 0;
  @%p1 ld.shared.u32 %r3, [s];
  ret;
}
"""
)


def test_findings_are_written_as_sarif(emulate, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(64, np.uint32))
    status, _, _ = emulate(RACE, "--block", "64", "--arg", "x.npy", "--sarif", "found.sarif")
    assert status == 1
    found = json.loads((tmp_path / "found.sarif").read_text())
    (run,) = found["runs"]
    assert found["version"] == "2.1.0"
    assert {"shared-race", "deadlock"} <= {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    (result,) = run["results"]
    assert result["ruleId"] == "shared-race"
    place = result["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "kernel.cu"}, "region": {"startLine": 42}}
    assert result["relatedLocations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "k.ptx"


def test_sarif_has_what_ended_the_launch(emulate, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(64, np.uint32))
    text = RACE.replace("[%r2];\n  ret", "[%r2+512];\n  ret")
    status, _, _ = emulate(text, "--block", "64", "--arg", "x.npy", "--sarif", "found.sarif")
    (run,) = json.loads((tmp_path / "found.sarif").read_text())["runs"]
    assert [result["ruleId"] for result in run["results"]] == ["out-of-bounds"]
    assert status == 1


def test_names_of_files_are_uris_in_sarif(tmp_path):
    finding = emulator.Finding("shared-race", "is read", 3, "a dir/%41#?\u00e9.cu:7")
    (result,) = sarif.document([finding], str(tmp_path / "k 1.ptx"))["runs"][0]["results"]
    uri, other = (
        place["physicalLocation"]["artifactLocation"]["uri"]
        for place in (*result["locations"], *result["relatedLocations"])
    )
    assert uri == "a%20dir/%2541%23%3F%C3%A9.cu"
    assert other == f"file://{tmp_path}/k%201.ptx"


def test_a_sarif_file_that_cannot_be_written_is_refused_before_the_launch(emulate, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(64, np.uint32))
    for file in ("no/such/folder.sarif", ".", "", "-"):
        status, out, err = emulate(RACE, "--block", "64", "--arg", "x.npy", "--sarif", file)
        assert (status, out) == (2, "") and "error: " in err


def test_rules_are_left_out_by_name(emulate, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(64, np.uint32))
    status, _, _ = emulate(RACE, "--block", "64", "--arg", "x.npy", "--ignore", "shared-race")
    assert status == 0
    status, _, err = emulate(RACE, "--block", "64", "--arg", "x.npy", "--ignore", "shared-rage")
    assert status == 2
    assert "did you mean 'shared-race'" in err


def test_seeds_show_what_the_first_launch_does_not(emulate, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(64, np.uint32))
    options = ("--block", "64", "--arg", "x.npy", "--out", "out", "--json")
    _, out, _ = emulate(LATE, *options)
    assert json.loads(out)["findings"] == []
    status, out, _ = emulate(LATE, *options, "--seeds", "8")
    (found,) = json.loads(out)["findings"]
    assert status == 1
    assert found["rule"] == "uninitialized-shared"
    assert found["seed"] in range(8)
    alone, out, _ = emulate(LATE, *options, "--seed", str(found["seed"]))
    assert alone == 1
    assert [each["rule"] for each in json.loads(out)["findings"]] == [found["rule"]]


def test_a_time_limit_ends_an_endless_loop(emulate):
    text = HEAD + ".visible .entry k() { .reg .b32 %r<2>; mov.u32 %r0, 0; L: add.u32 %r0, %r0, 1; bra L; }"
    status, _, err = emulate(text, "--time-limit", "0.2", "--max-instructions", "0")
    assert status == 1
    assert "reached the time limit of 0.2 s" in err
    status, _, err = emulate(text, "--time-limit", "soon")
    assert status == 2
    assert "--time-limit expects a number of seconds, got 'soon'" in err
    counted = HEAD + ".visible .entry k(.param .u64 p) { .reg .b32 %r; L: add.u32 %r, %r, 1; bra L; }"
    status, _, err = emulate(counted, "--arg", "zeros:4xf32", "--time-limit", "0.2", "--seeds", "3")
    assert (status, "reached the time limit of 0.2 s" in err) == (1, True)


@pytest.mark.parametrize("ptx, name", [("u32", "uint32"), ("s16", "int16"), ("b64", "uint64")])
def test_new_arrays_have_types_as_ptx_spells_them(emulate, ptx, name):
    text = HEAD + ".visible .entry k(.param .u64 p) { ret; }"
    status, out, _ = emulate(text, "--arg", f"zeros:4x{ptx}", "--json")
    assert (status, json.loads(out)["arguments"][0]["type"]) == (0, name)


def test_long_runs_show_a_bar_with_the_time_left(emulate, monkeypatch):
    shown = []
    monkeypatch.setattr(bar.Bar, "__call__", lambda self, done, total: shown.append((done, total)))
    np.save("x.npy", np.ones(640, np.float32))
    arguments = ("--grid", "640", "--block", "1", "--arg", "x.npy", "--arg", "2", "--arg", "640")
    status, _, _ = emulate(SCALE, *arguments)
    assert status == 0
    assert shown[-1] == (640, 640)
    assert len(shown) > 1
