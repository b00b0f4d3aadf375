"""Host time of jitted calls of JAX: of an empty FFI call, of `weft.jax.matmul`, and of `jnp.matmul`.

Prints a line of JSON for each, in microseconds of a call (the least of many rounds):

    XLA_PYTHON_CLIENT_PREALLOCATE=false python test/gpu/jax_host.py
"""

import json
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import llvmlite.binding as llvm

import weft.jax
from weft.bench import scripts

EMPTY = """
define ptr @empty(ptr %frame) {
  %extension.at = getelementptr i8, ptr %frame, i64 8
  %extension = load ptr, ptr %extension.at
  %plain = icmp eq ptr %extension, null
  br i1 %plain, label %done, label %metadata
metadata:
  %metadata.at = getelementptr i8, ptr %extension, i64 24
  %asked = load ptr, ptr %metadata.at
  %major = getelementptr i8, ptr %asked, i64 24
  store i32 0, ptr %major
  %minor = getelementptr i8, ptr %asked, i64 28
  store i32 1, ptr %minor
  %traits = getelementptr i8, ptr %asked, i64 32
  store i32 TRAITS, ptr %traits
  ret ptr null
done:
  ret ptr null
}
"""
ROUNDS, CALLS = 60, 50
kept = []


def empty(traits: int) -> Callable[..., Any]:
    """A jitted call of a handler that does nothing."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(EMPTY.replace("TRAITS", str(traits)))
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(opt=2)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    kept.append(engine)
    target = f"empty_{traits}"
    platform = "CUDA" if jax.default_backend() == "gpu" else "cpu"
    address = engine.get_function_address("empty")
    jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(address), platform=platform)
    return lambda a, b: jax.ffi.ffi_call(target, jax.typeof(a))(a, b)


def chain(product: Callable[..., Any], count: int) -> Callable[..., Any]:
    def run(a: Any, b: Any) -> Any:
        for _ in range(count):
            a = product(a, b)
        return a

    return run


def microseconds(call: Callable[..., Any], *operands: Any) -> float:
    jax.block_until_ready([call(*operands) for _ in range(20)])
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(CALLS):
            result = call(*operands)
        best = min(best, time.perf_counter() - start)
        jax.block_until_ready(result)
    return best / CALLS * 1e6


def main() -> None:
    scripts.parser(__doc__).parse_args()
    a, b = jnp.ones((128, 128), jnp.bfloat16), jnp.ones((128, 128), jnp.bfloat16)
    products = {
        "empty": empty(0),
        "empty, captured": empty(1),
        "weft": weft.jax.matmul,
        "jnp": jnp.matmul,
    }
    for count in (1, 8):
        for name, product in products.items():
            time_ = microseconds(jax.jit(chain(product, count)), a, b)
            print(json.dumps({"calls": count, "product": name, "us": round(time_, 2)}), flush=True)


if __name__ == "__main__":
    main()
