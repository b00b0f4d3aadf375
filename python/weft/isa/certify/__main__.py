"""`python -m weft.isa.certify`."""

import sys

from weft.isa.certify import main

sys.exit(main())
