"""Starts a script of this folder with the tao_sdk in `lib`, or the one that this bank is a part of.

Any Python 3 can read this file: one that is too old is told so.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OLDEST = (3, 8)


def run(script):
    """Run the script at this path, and end the process."""
    if sys.version_info < OLDEST:
        stop("this is Python %d.%d; 3.8 or later is needed." % sys.version_info[:2])
    for folder in (HERE / "lib", HERE.parents[2]):
        if (folder / "tao_sdk" / "skills").is_dir():
            sys.path.insert(0, str(folder))
            break
    try:
        from tao_sdk.skills.scripts import main
    except (ImportError, SyntaxError, ValueError) as error:
        stop("%s is half copied: %s. Copy the bank again, whole." % (HERE, error))
    sys.exit(main(script, sys.argv[1:], os.environ))


def stop(text):
    sys.stderr.write("error: %s\n" % text)
    sys.exit(1)
