"""Rendezvous: the variables with which the processes of one job find each other.

There are two sets of names. TAO's containers read WORLD_SIZE as the number of nodes; torchrun reads
NNODES and NPROC_PER_NODE.
"""

from __future__ import annotations

MASTER_PORT = 29500
PER_NODE = ("NUM_GPU_PER_NODE", "NPROC_PER_NODE")


def rendezvous(
    nodes: int, gpus_per_node: int, node_rank: int | str, master: str, port: int | str = MASTER_PORT
) -> dict[str, str]:
    """The variables of one node.

    Rank, master and port may be shell text that only the node can evaluate.
    """
    return {
        "WORLD_SIZE": str(nodes),
        "NUM_GPU_PER_NODE": str(gpus_per_node),
        "NNODES": str(nodes),
        "NPROC_PER_NODE": str(max(gpus_per_node, 1)),
        "NODE_RANK": str(node_rank),
        "MASTER_ADDR": master,
        "MASTER_PORT": str(port),
    }


def single_node(gpus: int | None, port: int = MASTER_PORT) -> dict[str, str]:
    """The variables of a job on one node.

    `gpus` is None if the number is not known here. Then the names that count GPUs are left out.
    """
    known = rendezvous(1, gpus or 0, node_rank=0, master="127.0.0.1", port=port)
    return {
        name: value for name, value in known.items() if gpus is not None or name not in PER_NODE
    }
