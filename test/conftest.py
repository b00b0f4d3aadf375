"""What holds for all tests of pytest, and for the processes that they start."""

import os

# No tuned schedules, the user's or the package's, where a test names no file of them.
os.environ["WEFT_SCHEDULES"] = ""
