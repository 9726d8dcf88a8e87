"""Packing: the runner's modules, the document and the job's files as one text for a shell.

The text starts python3 in place of the shell and hands the payload over as a here-document on a descriptor of its own, so
that nothing of it is an argument or a file with a guessable name, and standard input stays what it was.
"""

from __future__ import annotations

import zlib
from base64 import b85encode
from collections.abc import Iterable, Sequence
from functools import cache

from tao_sdk.payload.source import slim, source
from tao_sdk.runner.document import Document, Input
from tao_sdk.runner.scheme import MODULES, packed, scheme

START = (
    "boot",
    "main",
    "report",
    "place",
    "process",
    "signals",
    "quote",
    "template",
    "outputs",
    "local",
    "scheme",
    "atomic",
    "jsontext",
    "private",
)
STAGING = ("staging", "cache", "entry", "lock", "shown")
FETCHING = ("transfer", "hashing", "journal", "crew", "crc", "web", "wire", "percent", "shown")
S3 = ("s3", "s3_answer", "s3_credentials", "s3_sign", "s3_words", "s3_xml", "shown")
NEEDS = {  # the module of a scheme -> those that it needs
    "s3_input": (*FETCHING, *S3),
    "hub_input": ("http_source", *FETCHING),
    "ngc_input": ("http_source", *FETCHING),
    "http_input": ("http_source", *FETCHING),
}
KEEP = ("keep", "ending", "folder", "manifest", "tree", "crew")
COPIES = ("copies", "brought")
BUCKET = ("bucket", "brought", "remote", "sending", "s3_put", "s3_input", *NEEDS["s3_input"])
# The order in which modules are packed: neighbours share words, and the compressor looks back over 32 KB only.
ORDER = (
    "boot", "bucket", "signals", "process", "main", "spec", "local", "outputs", "inputs", "files", "brought",
    "manifest", "resume", "crew", "folder", "staging", "cache", "keep", "ending", "report", "lock", "place", "atomic", "entry",
    "scheme", "private", "tree", "copies", "unpacking", "sending", "archive", "jsontext", "quote", "journal",
    "transfer", "hashing", "shown", "percent", "remote", "web", "http_source", "s3_put", "s3_sign", "s3_input", "crc", "wire",
    "s3", "s3_answer", "hub_input", "s3_credentials", "s3_words", "ngc_input", "annotation", "http_input", "template", "s3_xml",
)  # fmt: skip
WIDTH = 1000

# Five of these characters are four bytes: a sixteenth shorter than base64. Those that a shell, JSON or Kubernetes would
# double or replace (quotes, backslash, $) are not among them.
DIGITS = bytes(range(37, 122)).translate(bytes.maketrans(b"'\\`", b"z{|"))
B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

# Runs under any Python 3. The payload waits on descriptor 9; one that is too old hands over to the next that is there.
BOOTSTRAP = """\
import sys, os
a = sys.argv
if sys.version_info < (3, 8):
    for n in range(int(a[2]), 30):
        p = "python3.%d" % n
        try: os.execvp(p, [p, "-ISXutf8", "-c", a[1], a[1], str(n + 1), a[3]])
        except OSError: pass
    sys.stderr.write("tao: this job needs python3 3.8 or later, the image has %d.%d.\\n" % sys.version_info[:2])
    sys.exit(127)
import zlib
d = open(9, "rb").read().translate(bytes.maketrans(b"z{|", b"\\x27\\x5c\\x60"), b"\\n")
d = zip(*[iter(d)] * 5)
d = [((((v * 85 + w) * 85 + x) * 85 + y) * 85 + z - 1954416257).to_bytes(4, "big") for v, w, x, y, z in d]
d = zlib.decompress(b"".join(d))
n = int(d[:8])
exec(compile(d[8:8 + n], "<runner/boot.py>", "exec"))
boot(d, 8 + n, a[3])"""

SHELL = """\
b='{bootstrap}'
for p in python3 /usr/bin/python3 /usr/local/bin/python3 /opt/conda/bin/python3 ''; do
command -v "$p" >/dev/null 2>&1 && break
done
[ "$p" ] || {{ echo 'tao: this job needs python3 (3.8 or later) in its image, and there is none.' >&2; exit 127; }}
exec "$p" -ISXutf8 -c "$b" "$b" 8 "${{LC_CTYPE+x}}" 9<<'TAO_PAYLOAD'
{payload}
TAO_PAYLOAD
"""


def shell_text(document: Document, files: Sequence[bytes]) -> str:
    """The job's command. The same document and files give the same text."""
    boot, *others = modules(document)
    blobs = [(name, source(name)) for name in others]
    blobs.append(("document", ascii(document).encode()))
    blobs += [(str(number), content) for number, content in enumerate(files)]
    data = b"%8d" % len(source(boot)) + source(boot) + joined(blobs)
    payload = b85encode(compressed(data), pad=True).translate(bytes.maketrans(B85, DIGITS)).decode()
    lines = (payload[at : at + WIDTH] for at in range(0, len(payload), WIDTH))
    return SHELL.format(bootstrap=bootstrap(), payload="\n".join(lines))


@cache
def bootstrap() -> str:
    """As it stands between the shell's quotes."""
    return slim(BOOTSTRAP).strip().replace("'", "'\\''")


def compressed(data: bytes) -> bytes:
    packer = zlib.compressobj(9, memLevel=9)
    return packer.compress(data) + packer.flush()


def joined(blobs: Sequence[tuple[str, bytes]]) -> bytes:
    """An index of names and sizes, an empty line, the blobs."""
    index = "\n".join(f"{name} {len(blob)}" for name, blob in blobs)
    return index.encode() + b"\n\n" + b"".join(blob for _, blob in blobs)


def modules(document: Document) -> list[str]:
    """The runner's modules that this job can need, and no others; the first to run is the first.

    Where its results go is decided in the job, by its environment: outputs may always go to a bucket.
    """
    wanted: list[str] = [*START, *KEEP]
    if document["inputs"]:
        wanted += ["inputs", *fetchers(document["inputs"])]
    if document["spec"]:
        wanted.append("spec")
    if document["copies"]:
        wanted += COPIES
    if document["outputs"] or document["copies"]:
        wanted += BUCKET
    if document["resume"]:
        wanted.append("resume")
    if document["files"]:
        wanted.append("files")
    return sorted(set(wanted), key=ORDER.index)


def fetchers(inputs: Iterable[Input]) -> list[str]:
    """The modules that fetch these, with what they need themselves."""
    wanted = list[str]()
    for each in inputs:
        module = MODULES[scheme(each["uri"])]
        wanted += [module, *NEEDS.get(module, ()), *(() if module == "local" else STAGING)]
        if packed(each) or (module == "http_input" and each["options"].get("extract") != "no"):
            wanted += [*STAGING, "unpacking", "archive"]  # what a web server calls a file is known only there
        if "selective" in each["options"]:
            wanted.append("annotation")
    return sorted(set(wanted))
