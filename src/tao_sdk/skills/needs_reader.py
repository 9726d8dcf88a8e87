"""Reads the machine that a skill or one of its actions needs: `runtime_requirements.gpu_host`."""

from __future__ import annotations

from tao_sdk.model.machines import read_arch
from tao_sdk.skills.node import Node, Reading
from tao_sdk.skills.skill import HostNeeds

REQUIREMENTS = {"gpu_host"}
GPU_HOST = {
    *("min_driver_version", "min_cuda_version", "min_container_toolkit_version"),
    *("min_gpu_count", "min_gpu_memory_gb", "gpu_archs"),
}


def read_host_needs(reading: Reading, node: Node | None) -> HostNeeds:
    """Read `runtime_requirements`, and note its mistakes."""
    if node is None:
        return HostNeeds()
    reading.warn_of_unknown(node, REQUIREMENTS)
    host = reading.mapping(node).get("gpu_host")
    if host is None:
        return HostNeeds()
    reading.warn_of_unknown(host, GPU_HOST)
    has = reading.mapping(host)
    return HostNeeds(
        int(read_amount(reading, has.get("min_gpu_count"))),
        read_amount(reading, has.get("min_gpu_memory_gb")),
        tuple(read_gpu_arch(reading, item) for item in reading.list_of(has.get("gpu_archs"))),
        read_version(reading, has.get("min_driver_version")),
        read_version(reading, has.get("min_cuda_version")),
        read_version(reading, has.get("min_container_toolkit_version")),
    )


def read_amount(reading: Reading, node: Node | None) -> float:
    """A number of 0 or more; 0 if there is none."""
    text = reading.text(node)
    if node is None or not text:
        return 0.0
    if text.replace(".", "", 1).isdecimal() and text.isascii() and len(text) < 10:
        return float(text)
    reading.refuse(node, f"is {text[:80]!r}; it must be a number.", "Write it like 80.")
    return 0.0


def read_gpu_arch(reading: Reading, node: Node) -> str:
    try:
        return read_arch(reading.text(node))
    except ValueError as mistake:
        reading.refuse(node, f"is wrong: {mistake}.", "Write it like sm_80.")
        return ""


def read_version(reading: Reading, node: Node | None) -> str:
    """A version such as 13.0; "" if there is none."""
    text = reading.text(node)
    if node is None or not text or all(part.isdecimal() for part in text.split(".")):
        return text
    reading.refuse(node, f"is {text[:80]!r}, which is no version.", "Write it like '13.0'.")
    return ""
