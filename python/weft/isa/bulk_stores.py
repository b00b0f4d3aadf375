"""The limits of `st.bulk`, which fills shared memory (PTX ISA, "Data Movement and Conversion Instructions:
st.bulk").
"""

STEP = 8
"""The number of bytes is a multiple of this."""
MOST_BYTES = 1 << 24
VALUE = 0
"""The only value that memory can be filled with."""
