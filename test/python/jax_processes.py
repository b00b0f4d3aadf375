"""Programs of JAX on the CPU, in processes of their own."""

import os
import subprocess
import sys
import textwrap


def run(program, **options):
    """What a program prints. The options are those of `ended`."""
    return ended(program, **options).stdout


def ended(program, *, devices=None, timeout=60, **environment):
    """A program that has run. With `devices`, JAX makes as many of the CPU."""
    if devices is not None:
        environment["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=os.environ | {"JAX_PLATFORMS": "cpu"} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr
    return done


MESH = """
import re
import jax
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)

def placed(array, *spec):
    return jax.device_put(array, NamedSharding(mesh, P(*spec)))

def collectives(jitted, *arrays):
    kinds = "all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute"
    return sorted(set(re.findall(rf"({kinds})[(-]", jitted.lower(*arrays).compile().as_text())))
"""
"""For programs of four devices: a mesh, arrays on it, and the operations by which devices exchange data."""
