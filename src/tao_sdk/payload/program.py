"""Program: the modules of the runner that a job can need, as one compressed text.

To make it, each module is read, stripped of the parts that Python does not need, and abbreviated.
That takes a quarter of a second, so kept_program.py keeps the result.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from tao_sdk.net.address import MODULES
from tao_sdk.payload.compressed import compressed
from tao_sdk.payload.source import imports, slim, source
from tao_sdk.runner.boot import CODES

BOOT = "runner.boot"
ALWAYS = (BOOT, "runner.main")
# Modules that others import only if a job asks for them in its document.
OPTIONAL = frozenset(
    {
        "runner.files",
        "runner.spec",
        "runner.inputs.fetch",
        "runner.inputs.staging",
        "runner.inputs.unpacking",
        "runner.inputs.archive",
        "runner.inputs.annotation",
        "runner.outputs.bucket",
        "runner.outputs.brought",
        "runner.outputs.copies",
        "runner.outputs.earlier",
        "runner.outputs.older",
        "runner.outputs.older_record",
        "runner.outputs.resume",
        *(f"net.{module}" for module in MODULES.values()),
    }
)
# a word of Python with its blank, a name, a word, or what stands between two
PIECE = re.compile(
    rb"raise |if |not |for |def |return |from |while |else |os\.path\.|"
    rb"[a-z_]+_[a-z_]+|[A-Za-z]{2,}|[^\w\0]{2,}"
)
ROUNDS = 7  # rounds of counting: once a piece is replaced, the others occur less often

# Runs under any Python 3. The payload waits on descriptor 9; one that is too old hands over to the
# next that is there.
BOOTSTRAP = """\
import sys, os
a = sys.argv
if sys.version_info < (3, 8):
    for n in range(int(a[2]), 30):
        p = "python3.%d" % n
        try: os.execvp(p, [p, "-ISXutf8", "-c", a[1], a[1], str(n + 1), a[3]])
        except OSError: pass
    import json, time
    w = "this job needs python3 3.8 or later, the image has %d.%d." % sys.version_info[:2]
    e = {"event": "failed", "time": time.time(), "code": "python3.missing", "what": w}
    sys.stderr.write("tao: %s\\n@tao %s\\n" % (w, json.dumps(e)))
    sys.exit(127)
import zlib, binascii
m, j = [zlib.decompress(binascii.a2b_base64(p)) for p in open(9, "rb").read().split(b"\\n\\n")]
n = int(m[:8])
exec(m[8:8 + n])
boot(m[8 + n:], j, a[3])"""


def bootstrap() -> str:
    """The bootstrap program, escaped for the shell's single quotes."""
    return slim(BOOTSTRAP).strip().replace("'", "'\\''")


def program(names: Iterable[str]) -> str:
    """These modules, packed."""
    boot = source(BOOT)
    others = [name for name in names if name != BOOT]
    listed = "\n".join(others).encode()
    pieces, text = abbreviated(b"\0".join([listed, *map(source, others)]))
    return compressed(b"%8d" % len(boot) + boot + b"\0".join([*pieces, b"", text]))


def abbreviated(text: bytes) -> tuple[list[bytes], bytes]:
    """The pieces that take the most room, and the text with a byte for each. boot.py writes them
    out again.

    zlib needs two bytes to repeat a word; a byte of its own needs less, and makes the whole 8 %
    smaller. A piece may hold the bytes of earlier ones.
    """
    pieces: list[bytes] = []
    for number in range(1, ROUNDS + 1):
        uses = Counter(PIECE.findall(text))
        by_room = sorted(uses, key=lambda piece: (uses[piece] * (1 - len(piece)), piece))
        codes = CODES[len(pieces) : len(CODES) * number // ROUNDS]
        for code, piece in zip(codes, by_room, strict=False):
            text = text.replace(piece, code)
            pieces.append(piece)
    return pieces, text


def modules(roots: Iterable[str]) -> tuple[str, ...]:
    """The modules that a job with these `roots` can need, and no others."""
    needed: set[str] = set()
    for root in (*ALWAYS, *roots):
        add_needed(root, needed)
    return tuple(sorted(needed, key=packing_order))


def packing_order(name: str) -> tuple[bool, int, str]:
    """The runner's modules before net's, and the modules of its rooms after its own: zlib sees 32
    KB, and finds more repeated in that order.
    """
    return name.startswith("net."), name.count("."), name


def add_needed(name: str, needed: set[str]) -> None:
    """Add a module and its imports, except modules that a job has to ask for."""
    if name in needed:
        return
    needed.add(name)
    own = imports(name)
    for other in own.at_once | (own.later - OPTIONAL):
        add_needed(other, needed)
