"""A line to a login host that is far, or that hangs: `link.py far LISTEN TARGET MILLISECONDS` or
`link.py hung LISTEN`.

LISTEN and TARGET are HOST:PORT. `far` passes everything on, that many milliseconds late each way;
`hung` takes connections and never says a word.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import StreamReader, StreamWriter
from contextlib import suppress

NOTHING = b""


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


async def late(reader: StreamReader, writer: StreamWriter, seconds: float) -> None:
    """Everything that comes, in order, each piece so many seconds after it came."""
    pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    sending = asyncio.create_task(send(pieces, writer))
    data = b"?"
    while data:
        try:
            data = await reader.read(65536)
        except OSError:
            data = NOTHING
        pieces.put_nowait((asyncio.get_running_loop().time() + seconds, data))
    await sending


async def send(pieces: asyncio.Queue[tuple[float, bytes]], writer: StreamWriter) -> None:
    with suppress(OSError):
        while True:
            when, data = await pieces.get()
            await asyncio.sleep(max(0.0, when - asyncio.get_running_loop().time()))
            if data == NOTHING:
                break
            writer.write(data)
            await writer.drain()
        writer.write_eof()


async def far(listen: str, target: str, milliseconds: str) -> None:
    seconds = float(milliseconds) / 1000

    async def connected(reader: StreamReader, writer: StreamWriter) -> None:
        await asyncio.sleep(2 * seconds)  # the handshake of TCP
        with suppress(OSError):
            there, back = await asyncio.open_connection(*address(target))
            await asyncio.gather(late(reader, back, seconds), late(there, writer, seconds))
            back.close()
        writer.close()

    await (await asyncio.start_server(connected, *address(listen))).serve_forever()


async def hung(listen: str) -> None:
    async def connected(reader: StreamReader, writer: StreamWriter) -> None:
        while await reader.read(65536):
            pass

    await (await asyncio.start_server(connected, *address(listen))).serve_forever()


if __name__ == "__main__":
    asyncio.run({"far": far, "hung": hung}[sys.argv[1]](*sys.argv[2:]))
