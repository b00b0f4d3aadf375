"""`weft debug`: breakpoints, steps and inspection of a kernel in the emulator. It uses `emulator.Hooks`."""
