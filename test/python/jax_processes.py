"""Programs of JAX on the CPU, in processes of their own."""

import os
import subprocess
import sys
import textwrap


def run(program, *, devices=None, timeout=60, **environment):
    """What a program prints. With `devices`, JAX makes as many of the CPU."""
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
    return done.stdout
