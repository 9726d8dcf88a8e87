"""Store an object: a small one with one request, a large one in parallel parts; then verify it.

A store can keep less than it was sent and still answer 200. So each body is sent with its CRC-32,
and compared with the store's CRC-32, or else its MD5. A failed upload in parts is aborted, so that
nobody pays for its parts.
"""

from __future__ import annotations

import errno
import os
import select
import zlib
from binascii import b2a_base64

from tao_sdk.net import crc
from tao_sdk.net.crew import Crew
from tao_sdk.net.failure import Failure
from tao_sdk.net.retries import Patience
from tao_sdk.net.s3_answer import check_document
from tao_sdk.net.s3_words import NAMES, refusal
from tao_sdk.net.s3_xml import elements, inner
from tao_sdk.net.web import Changed
from tao_sdk.net.wire import SILENCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from socket import socket

    from tao_sdk.net.s3_store import Store
    from tao_sdk.net.web import Answer, Headers

PART = 8 << 20  # bytes, at least; S3 allows at most 10,000 parts
MOST_PARTS = 9_000
THREADS = 16
TRIES = 3  # for a body that arrives damaged
BLOCK = 1 << 18
BROKEN_BODY = (
    "BadDigest",
    "XAmzContentChecksumMismatch",
    "IncompleteBody",
    "InvalidDigest",
    "RequestTimeout",
)
PART_XML = (
    "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag><ChecksumCRC32>%s</ChecksumCRC32></Part>"
)


class Piece:
    """A range of an open file, or of bytes in memory, that is sent as one body."""

    def __init__(self, fd: int, data: bytes, start: int, size: int) -> None:
        self.fd, self.data, self.start, self.size = fd, data, start, size

    def read_chunks(self) -> Iterator[bytes | memoryview]:
        if self.fd < 0:
            yield memoryview(self.data)[self.start : self.start + self.size]
            return
        at, stop = self.start, self.start + self.size
        while at < stop:
            block = os.pread(self.fd, min(BLOCK, stop - at), at)
            if not block:
                raise Changed("the file became shorter")
            at += len(block)
            yield block

    @property
    def body(self) -> bytes | Piece:
        """The body of a request: the bytes of a small piece; a larger piece itself, which is sent
        in chunks.
        """
        return b"".join(self.read_chunks()) if self.size <= BLOCK else self

    def send(self, sock: socket, plain: bool) -> None:
        """Send the whole piece. Without TLS (`plain`) the kernel sends it right from the file."""
        if plain and self.fd >= 0:
            self.send_file(sock)
            return
        for chunk in self.read_chunks():
            sock.sendall(chunk)

    def send_file(self, sock: socket) -> None:
        at, stop = self.start, self.start + self.size
        while at < stop:
            try:
                count = os.sendfile(sock.fileno(), self.fd, at, stop - at)
            except BlockingIOError:
                if not select.select([], [sock], [], SILENCE)[1]:
                    raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None
                continue
            if not count:
                raise Changed("the file became shorter")
            at += count

    @property
    def crc32(self) -> int:
        checksum = 0
        for chunk in self.read_chunks():
            checksum = zlib.crc32(chunk, checksum)
        return checksum

    @property
    def md5(self) -> str:
        digest = crc.new_checksum("md5")
        for chunk in self.read_chunks():
            digest.update(chunk)
        return str(digest.hexdigest())


class Put:
    """Stores one object in a bucket."""

    def __init__(
        self, s3: Store, bucket: str, key: str, only_new: bool, good: Callable[[], object]
    ) -> None:
        self.s3, self.bucket, self.key, self.good = s3, bucket, key, good
        self.condition: Headers = {"if-none-match": "*"} if only_new else {}
        self.checksum = ""  # of the whole

    def store(self, body: bytes | str) -> str:
        """Store the object and return its version.

        Raises Failure, and Changed if the key exists and must not, or the file changes meanwhile.
        """
        if isinstance(body, bytes):
            return self.send_whole(Piece(-1, body, 0, len(body)))
        fd = os.open(body, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return self.send_whole(Piece(fd, b"", 0, os.fstat(fd).st_size))
        finally:
            os.close(fd)

    def send_whole(self, whole: Piece) -> str:
        """Store a small object with one request, a large one in parts. Return its version."""
        if whole.size <= PART:
            self.checksum = encode_checksum(whole.crc32)
            return self.stored_version(self.send_piece(whole, {}, self.condition))
        upload = Upload(self, whole)
        return upload.run()

    def send_piece(self, piece: Piece, query: dict[str, str], headers: Headers) -> Answer:
        """Send a piece and return the store's answer. A piece that arrived damaged is sent again,
        up to TRIES times. Raises Failure.
        """
        for _ in range(TRIES):
            checksum = encode_checksum(piece.crc32)
            asked = {
                **headers,
                "x-amz-checksum-crc32": checksum,
                "x-amz-sdk-checksum-algorithm": "CRC32",
            }
            answer = self.s3.ask("PUT", self.bucket, self.key, query, piece.body, asked)
            if answer.status != 200 and inner(answer.text, "Code") not in BROKEN_BODY:
                return answer
            if answer.status == 200:
                self.s3.check_object(answer, self.bucket)
            if answer.status == 200 and has_arrived(answer.headers, checksum, piece):
                return answer
        raise Failure(
            "s3.stored_wrong",
            f"s3://{self.bucket}/{self.key} does not arrive as it was sent.",
            f"What the store says it has got differs, in {TRIES} tries.",
            "Look for a proxy or a network device between the job and the "
            "store that cuts or changes bodies.",
        )

    def stored_version(self, answer: Answer) -> str:
        """The stored version. If the key exists already, that may be our own object from an earlier
        try: then its version. Raises Failure, Changed.
        """
        if answer.status == 200 and not inner(answer.text, "Code"):
            return inner(answer.text, "ETag") or answer.headers.get("etag", "")
        if answer.status in (404, 409, 412):
            there = self.s3.head(self.bucket, self.key)
            if there and there.headers.get("x-amz-checksum-crc32") == self.checksum:
                return there.version
            if answer.status != 404 and self.condition:
                raise Changed(f"s3://{self.bucket}/{self.key} is there already")
        raise refusal(answer, self.bucket, self.key, self.s3)


class Upload:
    """One object in parts."""

    def __init__(self, put: Put, whole: Piece) -> None:
        self.put, self.whole = put, whole
        size = part_size(whole.size)
        self.pieces = [
            Piece(whole.fd, whole.data, start, min(size, whole.size - start))
            for start in range(0, whole.size, size)
        ]
        self.next = iter(enumerate(self.pieces, 1))
        self.done: dict[int, tuple[str, int]] = {}  # part number -> its version, its CRC-32
        self.crew = Crew()
        self.id = ""

    def run(self) -> str:
        """Store the object in parts and return its version. Raises as Put.store."""
        asked = {"x-amz-checksum-algorithm": "CRC32", "x-amz-checksum-type": "FULL_OBJECT"}
        answer = self.ask_store("POST", {"uploads": ""}, headers=asked)
        self.id = upload_id(answer, self.put.bucket, self.put.key, self.put.s3)
        try:
            self.send_all()
            if not self.put.good():
                raise Changed("the file changed while it was sent")
            return self.complete_upload()
        except BaseException:
            self.abort_upload()
            raise

    def ask_store(
        self, method: str, query: dict[str, str], body: bytes = b"", headers: Headers | None = None
    ) -> Answer:
        return self.put.s3.ask(method, self.put.bucket, self.put.key, query, body, headers or {})

    def send_all(self) -> None:
        self.crew.start(min(THREADS, len(self.pieces)), self.send_parts)
        try:
            self.crew.join()
        except BaseException as error:
            self.crew.stop(error)
            raise

    def send_parts(self) -> None:
        while not self.crew.broken:
            with self.crew.changed:
                number, piece = next(self.next, (0, None))
            if piece is None:
                return
            answer = self.put.send_piece(
                piece, {"partNumber": str(number), "uploadId": self.id}, {}
            )
            if answer.status != 200:
                raise refusal(answer, self.put.bucket, self.put.key, self.put.s3)
            self.done[number] = answer.headers.get("etag", ""), piece.crc32

    def complete_upload(self) -> str:
        parts = [(number, *self.done[number]) for number in sorted(self.done)]
        sizes = [piece.size for piece in self.pieces]
        self.put.checksum = encode_checksum(
            crc.join_crc32((checksum, size) for (_, _, checksum), size in zip(parts, sizes))
        )
        listed = "".join(
            [
                PART_XML % (number, version, encode_checksum(checksum))
                for number, version, checksum in parts
            ]
        )
        body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>"
        asked = {
            "x-amz-checksum-crc32": self.put.checksum,
            "x-amz-checksum-type": "FULL_OBJECT",
            **self.put.condition,
        }
        pause = Patience(self.put.s3.web.patience)
        # a store may begin its answer early, and then report in a 200 that it was too busy
        while True:
            answer = self.ask_store("POST", {"uploadId": self.id}, body.encode(), asked)
            if (
                answer.status != 200
                or NAMES.get(inner(answer.text, "Code")) != "busy"
                or not pause.wait()
            ):
                break
        if answer.status == 200 and not inner(answer.text, "Code"):
            check_document(answer, "CompleteMultipartUploadResult", self.put.s3)
        return self.put.stored_version(answer)

    def abort_upload(self) -> None:
        """Abort the upload, if the store answers. The next attempt removes what stays."""
        try:
            self.ask_store("DELETE", {"uploadId": self.id})
        except (Failure, OSError):
            return


def part_size(size: int) -> int:
    """The bytes of each part for an object of `size` bytes. Objects of the same size get the same
    parts, so that an object's version can be predicted.
    """
    return max(PART, -(-size // MOST_PARTS))


def encode_checksum(checksum: int) -> str:
    return b2a_base64(checksum.to_bytes(4, "big"), newline=False).decode()


def has_arrived(headers: Headers, checksum: str, piece: Piece) -> bool:
    """True if the store's checksum is ours, or if it sends none that can be compared."""
    if "x-amz-checksum-crc32" in headers:
        return headers["x-amz-checksum-crc32"] == checksum
    version = headers.get("etag", "").strip('"')
    encrypted = headers.get("x-amz-server-side-encryption", "AES256") != "AES256"
    try:
        return len(version) != 32 or encrypted or version == piece.md5
    except ValueError:
        return True  # this Python has no MD5 to compare with


def upload_id(answer: Answer, bucket: str, key: str, s3: Store) -> str:
    """The id of the new upload. Raises Failure if the store did not begin one."""
    if answer.status != 200:
        raise refusal(answer, bucket, key, s3)
    check_document(answer, "InitiateMultipartUploadResult", s3)
    return inner(answer.text, "UploadId")


def sweep(s3: Store, bucket: str, prefix: str, keys: Container[str] | None = None) -> int:
    """Abort the unfinished uploads below a prefix, or only those of `keys`. Return the number found
    below the prefix.
    """
    answer = s3.ask("GET", bucket, "", {"uploads": "", "prefix": prefix})
    begun: list[str] = list(elements(answer.text, "Upload"))
    for each in begun:
        key = inner(each, "Key")
        if keys is None or key in keys:
            s3.ask("DELETE", bucket, key, {"uploadId": inner(each, "UploadId")})
    return len(begun)
