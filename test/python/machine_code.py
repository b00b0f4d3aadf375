"""Properties of a kernel's machine code, for tests."""

import re


def local_memory(kernel):
    """What a kernel keeps in local memory because its registers are too few: nothing, if all is well."""
    resources = kernel.resources
    counts = {name: getattr(resources, name) for name in ("spill_stores", "spill_loads", "stack_bytes")}
    return {name: count for name, count in counts.items() if count}


def brought_to_uniform_registers(sass, product):
    """The instructions between the first and the last `product` that bring a number to a uniform register."""
    lines = sass.splitlines()
    products = [at for at, line in enumerate(lines) if product in line]
    return [line for line in lines[products[0] : products[-1]] if "R2UR" in line]


def loop_with(sass, product):
    """The opcodes of the shortest loop in which an opcode contains `product`."""
    code, labels = [], {}
    for line in sass.splitlines():
        if label := re.match(r"\s*\.(L_x_\d+):", line):
            labels[label[1]] = len(code)
        elif found := re.search(r"/\*[0-9a-f]{4,}\*/\s+(?:@\S+\s+)?([A-Z][\w.]*)(.*)", line):
            code.append((found[1].partition(".")[0], found[2]))
    loops = []
    for end, (opcode, operands) in enumerate(code):
        target = re.search(r"L_x_\d+", operands) if opcode == "BRA" else None
        begin = labels.get(target[0], end) if target else end
        if begin < end and any(product in each for each, _ in code[begin:end]):
            loops.append([each for each, _ in code[begin : end + 1]])
    return min(loops, key=len)
