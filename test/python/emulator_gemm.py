"""LLVM IR of a matrix product with cp.async, ldmatrix and mma.sync, written without Weft's compiler."""

import llvmlite.binding as llvm

HEAD = """
target triple = "nvptx64-nvidia-cuda"
@smem = external addrspace(3) global [0 x i8], align 16
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare void @llvm.nvvm.barrier0()
declare void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3), ptr addrspace(1))
declare void @llvm.nvvm.cp.async.commit.group()
declare void @llvm.nvvm.cp.async.wait.group(i32)
declare {i32,i32,i32,i32} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3))
declare {float,float,float,float} @llvm.nvvm.mma.m16n8k16.row.col.bf16(
  i32,i32,i32,i32, i32,i32, float,float,float,float)
define ptx_kernel void @gemm(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %d, i32 %n, i32 %k) {
entry:
"""


def to_ptx(ir: str, chip: str = "sm_80", ptx: int = 84) -> str:
    """The PTX that LLVM makes of some IR."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(ir)
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    machine = target.create_target_machine(cpu=chip, features=f"+ptx{ptx}", opt=3)
    return machine.emit_assembly(module)


class Gemm:
    """d[m, n] = a[m, k] @ b[n, k].T in bf16 with f32 accumulators; every extent is a multiple of its tile."""

    def __init__(self, warps: tuple[int, int], warp_tile: tuple[int, int], depth: int = 32) -> None:
        self.lines: list[str] = []
        self.count = 0
        self.warps, self.warp_tile, self.depth = warps, warp_tile, depth
        self.tile = warps[0] * warp_tile[0], warps[1] * warp_tile[1]
        self.threads = 32 * warps[0] * warps[1]
        self.stage_bytes = (self.tile[0] + self.tile[1]) * depth * 2
        self.shared_bytes = 2 * self.stage_bytes

    def emit(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def do(self, text: str) -> None:
        self.lines.append("  " + text)

    def op(self, name: str, x: object, y: object) -> str:
        return self.emit(f"{name} i32 {x}, {y}")

    def ir(self) -> str:
        self.lines, self.count = [HEAD], 0
        tm, tn = self.tile
        tid = self.emit("call i32 @llvm.nvvm.read.ptx.sreg.tid.x()")
        row0 = self.op("mul", self.emit("call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()"), tm)
        col0 = self.op("mul", self.emit("call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()"), tn)
        lane, warp = self.op("and", tid, 31), self.op("lshr", tid, 5)
        warp_row = self.op("mul", self.op("udiv", warp, self.warps[1]), self.warp_tile[0])
        warp_col = self.op("mul", self.op("urem", warp, self.warps[1]), self.warp_tile[1])
        self.load_stage(tid, row0, col0, "0", "0")
        self.do("br label %loop")
        self.lines.append("loop:")
        frags = self.warp_tile[0] // 16 * (self.warp_tile[1] // 8) * 4
        self.do("%kk = phi i32 [ 0, %entry ], [ %kn, %join ]")
        self.do("%stage = phi i32 [ 0, %entry ], [ %other, %join ]")
        for i in range(frags):
            self.do(f"%acc{i} = phi float [ 0.0, %entry ], [ %new{i}, %join ]")
        self.do(f"%kn = add i32 %kk, {self.depth}")
        self.do(f"%other = sub i32 {self.stage_bytes}, %stage")
        self.do("%more = icmp slt i32 %kn, %k")
        self.do("br i1 %more, label %fetch, label %compute")
        self.lines.append("fetch:")
        self.load_stage(tid, row0, col0, "%kn", "%other")
        self.do("br label %compute")
        self.lines.append("compute:")
        self.do("%left = zext i1 %more to i32")
        self.do("br i1 %more, label %wait1, label %wait0")
        for pending in (1, 0):
            self.lines.append(f"wait{pending}:")
            self.do(f"call void @llvm.nvvm.cp.async.wait.group(i32 {pending})")
            self.do("br label %join")
        self.lines.append("join:")
        self.do("call void @llvm.nvvm.barrier0()")
        self.compute(lane, warp_row, warp_col)
        self.do("call void @llvm.nvvm.barrier0()")
        self.do("br i1 %more, label %loop, label %done")
        self.lines.append("done:")
        self.store(lane, self.op("add", row0, warp_row), self.op("add", col0, warp_col))
        self.do("ret void\n}")
        return "\n".join(self.lines)

    def load_stage(self, tid: str, row0: str, col0: str, k: str, stage: str) -> None:
        """Copies both tiles for depth k into a stage, 16 bytes a thread at a time."""
        chunks = self.depth // 8
        base = 0
        for matrix, first, rows in (("%a", row0, self.tile[0]), ("%b", col0, self.tile[1])):
            for at in range(0, rows * chunks, self.threads):
                index = self.op("add", tid, at)
                row, chunk = self.op("udiv", index, chunks), self.op("urem", index, chunks)
                column = self.op("add", k, self.op("mul", chunk, 8))
                place = self.op("add", self.op("mul", self.op("add", first, row), "%k"), column)
                wide = self.emit(f"zext i32 {place} to i64")
                source = self.emit(f"getelementptr i16, ptr addrspace(1) {matrix}, i64 {wide}")
                byte = self.op("add", self.op("mul", index, 16), base)
                target = self.op("add", byte, stage)
                to = self.emit(f"getelementptr i8, ptr addrspace(3) @smem, i32 {target}")
                self.do(
                    f"call void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3) {to}, "
                    f"ptr addrspace(1) {source})"
                )
            base += rows * self.depth * 2
        self.do("call void @llvm.nvvm.cp.async.commit.group()")

    def ldmatrix(self, byte: str) -> list[str]:
        at = self.emit(f"getelementptr i8, ptr addrspace(3) @smem, i32 {byte}")
        quad = self.emit(
            "call {i32,i32,i32,i32} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3) "
            + at
            + ")"
        )
        return [self.emit(f"extractvalue {{i32,i32,i32,i32}} {quad}, {i}") for i in range(4)]

    def compute(self, lane: str, warp_row: str, warp_col: str) -> None:
        row_bytes = self.depth * 2
        low, high = self.op("and", lane, 15), self.op("lshr", lane, 4)
        b_row = self.op("add", self.op("and", lane, 7), self.op("mul", high, 8))
        b_half = self.op("and", self.op("lshr", lane, 3), 1)
        a_base = self.op(
            "add", self.op("mul", self.op("add", warp_row, low), row_bytes), self.op("mul", high, 16)
        )
        b_base = self.op(
            "add", self.op("mul", self.op("add", warp_col, b_row), row_bytes), self.op("mul", b_half, 16)
        )
        b_base = self.op("add", b_base, self.tile[0] * row_bytes)
        a_base, b_base = self.op("add", a_base, "%stage"), self.op("add", b_base, "%stage")
        acc = {i: f"%acc{i}" for i in range(self.warp_tile[0] // 16 * (self.warp_tile[1] // 8) * 4)}
        steps = range(0, self.depth, 16)
        for k in steps:
            a = [
                self.ldmatrix(self.op("add", a_base, m * row_bytes + 2 * k))
                for m in range(0, self.warp_tile[0], 16)
            ]
            b = [
                self.ldmatrix(self.op("add", b_base, n * row_bytes + 2 * k))
                for n in range(0, self.warp_tile[1], 16)
            ]
            for m, fragment in enumerate(a):
                for n in range(self.warp_tile[1] // 8):
                    first = (m * (self.warp_tile[1] // 8) + n) * 4
                    pair = b[n // 2][2 * (n % 2) : 2 * (n % 2) + 2]
                    self.mma(acc, first, fragment, pair, last=k == steps[-1])

    def mma(self, acc: dict[int, str], first: int, a: list[str], b: list[str], last: bool) -> None:
        words = ", ".join(f"i32 {r}" for r in [*a, *b])
        sums = ", ".join(f"float {acc[first + i]}" for i in range(4))
        quad = self.emit(
            f"call {{float,float,float,float}} @llvm.nvvm.mma.m16n8k16.row.col.bf16({words}, {sums})"
        )
        for i in range(4):
            text = f"extractvalue {{float,float,float,float}} {quad}, {i}"
            if last:
                self.do(f"%new{first + i} = {text}")
            else:
                acc[first + i] = self.emit(text)

    def store(self, lane: str, row: str, column: str) -> None:
        row = self.op("add", row, self.op("lshr", lane, 2))
        column = self.op("add", column, self.op("mul", self.op("and", lane, 3), 2))
        for m in range(self.warp_tile[0] // 16):
            for half in range(2):
                at = self.op("mul", self.op("add", row, 16 * m + 8 * half), "%n")
                for n in range(self.warp_tile[1] // 8):
                    first = (m * (self.warp_tile[1] // 8) + n) * 4 + 2 * half
                    place = self.emit(f"zext i32 {self.op('add', at, self.op('add', column, 8 * n))} to i64")
                    to = self.emit(f"getelementptr float, ptr addrspace(1) %d, i64 {place}")
                    one = self.emit(f"insertelement <2 x float> poison, float %new{first}, i32 0")
                    two = self.emit(f"insertelement <2 x float> {one}, float %new{first + 1}, i32 1")
                    self.do(f"store <2 x float> {two}, ptr addrspace(1) {to}, align 8")
