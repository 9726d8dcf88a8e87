"""Packing: the runner's program, the document and the job's files as one text for a shell.

The text starts python3 in place of the shell and hands the payload over as a here-document on a
descriptor of its own, so that nothing of it is an argument or a file with a guessable name, and
standard input stays what it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tao_sdk.net.address import MODULES, scheme
from tao_sdk.payload.compressed import compressed
from tao_sdk.payload.kept_program import find_program
from tao_sdk.runner.document import Document, Input
from tao_sdk.runner.inputs.archive_names import must_unpack

# Without python3 the shell reports what the runner would: the event is for the rules, the line
# before it for people.
SHELL = """\
b='{bootstrap}'
for p in python3 /usr/bin/python3 /usr/local/bin/python3 /opt/conda/bin/python3 ''; do
command -v "$p" >/dev/null 2>&1 && break
done
[ "$p" ] || {{
w='this job needs python3 (3.8 or later) in its image, and there is none.'
echo "tao: $w"
printf '@tao {{"event":"failed","time":%d,"code":"python3.missing","what":"%s"}}\\n' \
"$(date +%s 2>/dev/null)" "$w"
exit 127
}} >&2
exec "$p" -ISXutf8 -c "$b" "$b" 8 "${{LC_CTYPE+x}}" 9<<'TAO'
{payload}
TAO
"""


def shell_text(document: Document, files: Sequence[bytes]) -> str:
    """The job's command. The same document and files give the same text."""
    contents = [("document", ascii(document).encode())]
    contents += [(str(number), content) for number, content in enumerate(files)]
    program = find_program(tuple(sorted(set(optional_modules(document)))))
    payload = f"{program.modules}\n\n{compressed(joined(contents))}"
    return SHELL.format(bootstrap=program.bootstrap, payload=payload)


def joined(blobs: Sequence[tuple[str, bytes]]) -> bytes:
    """An index of names and sizes, an empty line, the blobs."""
    index = "\n".join(f"{name} {len(blob)}" for name, blob in blobs)
    return index.encode() + b"\n\n" + b"".join(blob for _, blob in blobs)


def optional_modules(document: Document) -> Iterator[str]:
    """The optional modules that a job needs.

    The job's environment decides inside the job where its results go: outputs may always go to a
    bucket.
    """
    if document["files"]:
        yield "runner.files"
    if document["inputs"]:
        yield "runner.inputs.fetch"
        yield from input_modules(document["inputs"])
    if document["spec"]:
        yield "runner.spec"
    if document["copies"]:
        yield from ("runner.outputs.brought", "runner.outputs.copies")
        yield from ("runner.outputs.older", "runner.outputs.older_record")
    has_outputs = bool(document["outputs"] or document["copies"])
    if has_outputs:
        yield "runner.outputs.bucket"
    if document["resume"]:
        yield "runner.outputs.resume"
    if document["resume"] and has_outputs:
        yield "runner.outputs.earlier"


def input_modules(inputs: Iterable[Input]) -> Iterator[str]:
    """The modules that fetch and unpack the inputs."""
    for wanted in inputs:
        module = MODULES[scheme(wanted["uri"])]
        if module != "local":
            yield from (f"net.{module}", "runner.inputs.staging")
        if may_unpack(wanted, module):
            yield from ("runner.inputs.staging", "runner.inputs.unpacking", "runner.inputs.archive")
        if "selective" in wanted["options"]:
            yield "runner.inputs.annotation"


def may_unpack(wanted: Input, module: str) -> bool:
    """True for an archive, and for a file of a web server, whose name is known only in the job."""
    if must_unpack(wanted):
        return True
    return module == "http_file" and wanted["options"].get("extract") != "no"
