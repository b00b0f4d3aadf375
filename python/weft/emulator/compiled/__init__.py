"""Runs parts of programs as code of this host; the interpreter's steps define what they do.

`symbols` and `tracing` turn steps into expressions, `emit` and `pieces` turn these into functions, and `plan`
turns blocks into operations. `driver` and `accesses` are the code that runs operations. `runtime` calls it
for a wave, and `tiers` decides when.
"""
