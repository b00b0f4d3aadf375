"""From a module to a cubin: stages, LLVM, ptxas, the cache, and the launch contract."""
