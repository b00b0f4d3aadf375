"""From a syntax tree to blocks of decoded instructions, and the table that decodes them."""
