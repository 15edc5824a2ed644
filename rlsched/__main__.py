"""`python -m rlsched`."""

import sys

from rlsched.cli.main import main

sys.exit(main())
