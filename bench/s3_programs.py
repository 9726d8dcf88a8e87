"""One transfer between a folder and a bucket, by one of those that the bench compares; run as a
program of its own.

    python -m bench.s3_programs WHO down|up BUCKET PREFIX FOLDER        prints the most memory it
    took, in KiB

Everybody gets the same endpoint and keys by the environment. What is the best of a library's own
ways is used: a pool of threads for many small files, its parallel transfer for a large one. Run
with -m so that `ours` finds the runner.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

POOL = 32
PART = 16 << 20


def ours_down(bucket: str, prefix: str, folder: str) -> None:
    from tao_sdk.net import s3_source, transfer
    from tao_sdk.net.web import Web

    found = s3_source.look(f"s3://{bucket}/{prefix}/", "", Web(os.environ))
    transfer.fetch(found.sources, folder, lambda _bytes, _files: None)


def ours_up(bucket: str, prefix: str, folder: str) -> None:
    from tao_sdk.net.s3 import S3
    from tao_sdk.net.web import Web

    s3 = S3(Web(os.environ))
    with ThreadPoolExecutor(POOL) as pool:
        list(
            pool.map(
                lambda path: s3.put(bucket, f"{prefix}/{path.name}", str(path)),
                Path(folder).iterdir(),
            )
        )


def boto3_down(bucket: str, prefix: str, folder: str) -> None:
    client = boto3_client()
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix + "/")
    keys = [each["Key"] for page in pages for each in page["Contents"]]
    Path(folder).mkdir(parents=True)
    with ThreadPoolExecutor(POOL) as pool:
        list(
            pool.map(
                lambda key: client.download_file(bucket, key, f"{folder}/{Path(key).name}"), keys
            )
        )


def boto3_up(bucket: str, prefix: str, folder: str) -> None:
    client = boto3_client()
    with ThreadPoolExecutor(POOL) as pool:
        files = Path(folder).iterdir()
        list(
            pool.map(
                lambda path: client.upload_file(str(path), bucket, f"{prefix}/{path.name}"), files
            )
        )


def boto3_client():
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3", config=Config(max_pool_connections=POOL, s3={"addressing_style": "path"})
    )


def obstore_store(bucket: str):
    from obstore.store import S3Store

    ca = os.environ.get("AWS_CA_BUNDLE", "")
    options = {"allow_http": True, **({"root_certificate": Path(ca).read_bytes()} if ca else {})}
    return S3Store(bucket, endpoint=os.environ["AWS_ENDPOINT_URL"], client_options=options)


def obstore_down(bucket: str, prefix: str, folder: str) -> None:
    import obstore

    store = obstore_store(bucket)
    Path(folder).mkdir(parents=True)
    gate = asyncio.Semaphore(POOL)

    async def part(path: str, file: int, start: int, stop: int) -> None:
        async with gate:
            data = await obstore.get_range_async(store, path, start=start, end=stop)
            os.pwrite(file, data, start)

    async def one(path: str, size: int) -> None:
        file = os.open(f"{folder}/{Path(path).name}", os.O_WRONLY | os.O_CREAT)
        await asyncio.gather(
            *(part(path, file, at, min(size, at + PART)) for at in range(0, size, PART))
        )
        os.close(file)

    async def everything() -> None:
        pages = obstore.list(store, prefix=prefix + "/")
        await asyncio.gather(*(one(each["path"], each["size"]) for page in pages for each in page))

    asyncio.run(everything())


def obstore_up(bucket: str, prefix: str, folder: str) -> None:
    import obstore

    store = obstore_store(bucket)
    gate = asyncio.Semaphore(POOL)

    async def one(path: Path) -> None:
        async with gate:
            await obstore.put_async(store, f"{prefix}/{path.name}", path, chunk_size=PART)

    async def everything() -> None:
        await asyncio.gather(*map(one, Path(folder).iterdir()))

    asyncio.run(everything())


def published_down(bucket: str, prefix: str, folder: str) -> None:
    from tao_sdk import script_runner

    script_runner.download_folder(f"s3://{bucket}/{prefix}", folder)


def published_up(bucket: str, prefix: str, folder: str) -> None:
    from tao_sdk import script_runner

    script_runner.upload_results(folder, f"s3://{bucket}/{prefix}", [])


if __name__ == "__main__":
    who, way, *where = sys.argv[1:]
    transfer: Callable[..., None] = globals()[f"{who}_{way}"]
    transfer(*where)
    peak = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    )
    print(peak.split()[1], flush=True)
    os._exit(
        0
    )  # a library that falls over its own threads at the end has done its transfer all the same
