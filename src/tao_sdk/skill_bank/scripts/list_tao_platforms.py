#!/usr/bin/env python3
"""Lists the platforms of a skill bank; of one platform, what to ask the user for."""

import sys

try:
    from find_package import run
except ImportError:
    sys.exit("error: find_package.py is not beside this script. Copy the bank again, whole.")
run(__file__)
