"""Packing: the runner's modules, the document and the job's files as one text for a shell.

The text starts python3 in place of the shell and hands the payload over as a here-document on a
descriptor of its own, so that nothing of it is an argument or a file with a guessable name, and
standard input stays what it was.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from tao_sdk.net.address import MODULES, scheme
from tao_sdk.payload.source import imports, slim, source
from tao_sdk.runner.boot import CODES
from tao_sdk.runner.document import Document, Input
from tao_sdk.runner.inputs.archive_names import packed

BOOT = "runner.boot"
ALWAYS = (BOOT, "runner.main")
# What other modules import only where a job asks for it in its document.
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
        "runner.outputs.resume",
        *(f"net.{module}" for module in MODULES.values()),
    }
)
WIDTH = 1000
PIECE = re.compile(rb"self\.|[A-Za-z]{2,}|[^\w\0]{2,}")  # a word, or what stands between two
ROUNDS = 4  # of counting pieces: the others are fewer once the first are replaced

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
    what = "this job needs python3 3.8 or later, the image has %d.%d." % sys.version_info[:2]
    event = {"event": "failed", "time": time.time(), "code": "python3.missing", "what": what}
    sys.stderr.write("tao: %s\\n@tao %s\\n" % (what, json.dumps(event)))
    sys.exit(127)
import zlib, binascii
m, j = [zlib.decompress(binascii.a2b_base64(p)) for p in open(9, "rb").read().split(b"\\n\\n")]
n = int(m[:8])
exec(compile(m[8:8 + n], "<tao_sdk/runner/boot.py>", "exec"))
boot(m[8 + n:], j, a[3])"""

# Without python3 the shell tells the event that the runner would: rules read its code, people the
# line before it.
SHELL = """\
b='{bootstrap}'
for p in python3 /usr/bin/python3 /usr/local/bin/python3 /opt/conda/bin/python3 ''; do
command -v "$p" >/dev/null 2>&1 && break
done
[ "$p" ] || {{
what='this job needs python3 (3.8 or later) in its image, and there is none.'
echo "tao: $what" >&2
printf '@tao {{"event": "failed", "time": %d, "code": "python3.missing", "what": "%s"}}\\n' \\
  "$(date +%s 2>/dev/null)" "$what" >&2
exit 127
}}
exec "$p" -ISXutf8 -c "$b" "$b" 8 "${{LC_CTYPE+x}}" 9<<'TAO_PAYLOAD'
{payload}
TAO_PAYLOAD
"""


def shell_text(document: Document, files: Sequence[bytes]) -> str:
    """The job's command. The same document and files give the same text."""
    contents = [("document", ascii(document).encode())]
    contents += [(str(number), content) for number, content in enumerate(files)]
    job = encoded(joined(contents))
    return SHELL.format(bootstrap=bootstrap(), payload=f"{program(modules(document))}\n\n{job}")


@cache
def bootstrap() -> str:
    """As it stands between the shell's quotes."""
    return slim(BOOTSTRAP).strip().replace("'", "'\\''")


@cache
def program(names: tuple[str, ...]) -> str:
    """These modules, packed: made once, as jobs differ in what they say and hardly in what they
    need.
    """
    boot = source(BOOT)
    others = [name for name in names if name != BOOT]
    listed = "\n".join(others).encode()
    pieces, text = abbreviated(b"\0".join([listed, *map(source, others)]))
    return encoded(b"%8d" % len(boot) + boot + b"\0".join([*pieces, b"", text]))


def abbreviated(text: bytes) -> tuple[list[bytes], bytes]:
    """(the pieces that take the most room, the text with a byte for each); boot.py writes them out
    again.

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


def encoded(data: bytes) -> str:
    """Compressed, in lines of letters, digits and +/= that no shell, JSON or Kubernetes changes."""
    packer = zlib.compressobj(9, memLevel=9)
    text = b64encode(packer.compress(data) + packer.flush()).decode()
    return "\n".join(text[at : at + WIDTH] for at in range(0, len(text), WIDTH))


def joined(blobs: Sequence[tuple[str, bytes]]) -> bytes:
    """An index of names and sizes, an empty line, the blobs."""
    index = "\n".join(f"{name} {len(blob)}" for name, blob in blobs)
    return index.encode() + b"\n\n" + b"".join(blob for _, blob in blobs)


def modules(document: Document) -> tuple[str, ...]:
    """The modules that this job can need, and no others."""
    needed: set[str] = set()
    for root in (*ALWAYS, *asked_for(document)):
        add_needed(root, needed)
    return tuple(sorted(needed))


def asked_for(document: Document) -> Iterator[str]:
    """The optional modules that a job asks for.

    Where its results go is decided in the job, by its environment: outputs may always go to a
    bucket.
    """
    if document["files"]:
        yield "runner.files"
    if document["inputs"]:
        yield "runner.inputs.fetch"
        yield from asked_by_inputs(document["inputs"])
    if document["spec"]:
        yield "runner.spec"
    if document["copies"]:
        yield from ("runner.outputs.brought", "runner.outputs.copies")
    has_outputs = bool(document["outputs"] or document["copies"])
    if has_outputs:
        yield "runner.outputs.bucket"
    if document["resume"]:
        yield "runner.outputs.resume"
    if document["resume"] and has_outputs:
        yield "runner.outputs.earlier"


def asked_by_inputs(inputs: Iterable[Input]) -> Iterator[str]:
    """What fetches and unpacks them."""
    for each in inputs:
        module = MODULES[scheme(each["uri"])]
        if module != "local":
            yield from (f"net.{module}", "runner.inputs.staging")
        # what a web server calls a file is known only there
        if packed(each) or (module == "http_file" and each["options"].get("extract") != "no"):
            yield from ("runner.inputs.staging", "runner.inputs.unpacking", "runner.inputs.archive")
        if "selective" in each["options"]:
            yield "runner.inputs.annotation"


def add_needed(name: str, needed: set[str]) -> None:
    """Add a module and what it imports; nothing that a job has to ask for."""
    if name in needed:
        return
    needed.add(name)
    own = imports(name)
    for other in own.at_once | (own.later - OPTIONAL):
        add_needed(other, needed)
