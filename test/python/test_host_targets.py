"""Code for the host, which llvmlite compiles when it is needed, compiles for each processor and system."""

import re

import llvmlite.binding as llvm
import pytest
from test_emulator_native_sums import RULES, SCALED

from weft.emulator.numerics.arithmetic import Rule
from weft.emulator.numerics.native_sums import _text

# Triples, and the oldest processor that is expected there.
TARGETS = {
    "x86_64-unknown-linux-gnu": "x86-64-v2",
    "aarch64-unknown-linux-gnu": "",
    "arm64-apple-macosx11.0.0": "",
    "x86_64-pc-windows-msvc": "x86-64-v2",
}
SUMS = sorted(
    {
        _text(Rule.of(how, depth, depth // 2, types[3]))
        for how, types, *_ in (*RULES, *SCALED)
        for depth in (2 * how.group or 4,)
    }
)
# Of processors of one kind, or of one assembler; and types of C whose size differs between systems.
OWN = re.compile(
    r"\basm\b|target-(cpu|features)|llvm\.(x86|aarch64|arm)\.|x86_fp80|ppc_fp128|PyLong_(As|From)(Unsigned)?Long\b"
)


def assembly(text, triple):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(text, llvm.create_context())
    machine = llvm.Target.from_triple(triple).create_target_machine(
        cpu=TARGETS[triple], opt=2, codemodel="small"
    )
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    return machine.emit_assembly(module)


def called(text):
    """The functions that an assembly calls or jumps to by name."""
    jumps = re.findall(r"^\s+(?:callq?|jmp|bl|b)\s+([A-Za-z_]\w*)(?:@PLT)?\s*$", text, re.MULTILINE)
    return {name.removeprefix("_") for name in jumps if not name.startswith("LBB")}


@pytest.mark.each_value(1)
@pytest.mark.parametrize("triple", TARGETS)
def test_sums_of_the_emulator(triple):
    """They need no function of a library, which the process may lack."""
    for text in SUMS:
        assert not OWN.search(text)
        assert not called(assembly(text, triple))


def test_what_belongs_to_one_processor_is_noticed():
    head = "define void @f(ptr %p) {\n"
    assert OWN.search(head + '  call void asm "pause", ""()\n  ret void\n}')
    assert OWN.search("declare ptr @PyLong_FromLong(i64)") and not OWN.search("@PyLong_FromLongLong(i64)")
    power = "declare double @llvm.pow.f64(double, double)\n" + head
    power += "  %x = load double, ptr %p\n  %y = call double @llvm.pow.f64(double %x, double %x)\n"
    power += "  store double %y, ptr %p\n  ret void\n}"
    assert all(called(assembly(power, triple)) == {"pow"} for triple in TARGETS)
