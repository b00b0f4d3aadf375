"""Properties of a kernel's machine code, for tests."""


def brought_to_uniform_registers(sass, product):
    """The instructions between the first and the last `product` that bring a number to a uniform register."""
    lines = sass.splitlines()
    products = [at for at, line in enumerate(lines) if product in line]
    return [line for line in lines[products[0] : products[-1]] if "R2UR" in line]
