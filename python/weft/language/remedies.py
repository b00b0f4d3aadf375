"""What to do in a kernel about what the emulator finds, by the rules of its sanitizer."""

REMEDIES = {
    "shared-race": "put w.barrier(), or w.warpgroup_barrier(), between the two",
    "global-race": "let one thread write each element, or use w.atomic_add",
    "missing-proxy-fence": "call w.fence(), and then a barrier, after the store",
    "out-of-bounds": "guard elements by a condition, as 'if i < x.rows'; w.load and w.store of tiles mask "
    "rows and columns after the last one, and before the first one where a constant is subtracted",
    "uninitialized-shared": "store to the buffer, or fill the ring, before; w.sum and others of all threads "
    "can't be in a branch that only some threads take",
    "async-not-awaited": "take the stage of the ring, or w.wait for the product, before",
    "async-source-overwritten": "w.wait for the products that read the stage before its release",
    "async-at-exit": "take each stage of a ring that is filled: both roles must have as many iterations",
    "cluster-exit": "take each stage of a ring that is filled, and let CTAs of a cluster that access each "
    "other's buffers meet at w.cluster_barrier() at their end",
    "wgmma-in-flight": "w.wait for the product before",
    "divergent-aligned": "let all threads of the warpgroup get there: not in a branch on the thread's number",
    "shuffle-source": "let all threads of the warp get there: none of them must return before, or be outside "
    "of the branch",
    "deadlock": "each taker of a ring must take as many stages as are filled, takers= is the number of "
    "warpgroups that take each one, and all threads of a role must get to its barriers",
}
