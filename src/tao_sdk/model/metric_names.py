"""Metric names: what the name of a metric tells about it: whether smaller is better, whether it is
a loss. Pure.
"""

from __future__ import annotations

import re
from functools import lru_cache

_SMALLER_IS_BETTER = frozenset({
    "loss", "nll", "error", "err", "wer", "cer", "perplexity", "ppl", "mae", "mse", "rmse", "fid",
    "time", "latency", "cost", "memory", "distance",
})  # fmt: skip
_TRAINED_ON = frozenset({"train", "training"})
_HELD_OUT = frozenset({"val", "valid", "validation", "test", "eval", "dev"})


@lru_cache(maxsize=1024)
def words_of(metric: str) -> frozenset[str]:
    """The words of a name: `val_box_loss` has val, box and loss."""
    return frozenset(re.split(r"[^a-z]+", metric.lower()))


@lru_cache(maxsize=1024)
def smaller_is_better(metric: str) -> bool:
    """`val_loss`, `wer`, `box_error` ...: True. `accuracy`, `mAP` ...: False."""
    words = words_of(metric)
    return bool(words & _SMALLER_IS_BETTER) or any(
        word.endswith(("loss", "error")) for word in words
    )


def is_loss(metric: str) -> bool:
    """`loss`, `val_loss`, `nllloss`: True."""
    return any(word.endswith("loss") for word in words_of(metric))


@lru_cache(maxsize=1024)
def telling_order(metric: str) -> tuple[bool, bool, bool, bool, str]:
    """A sort key, the most telling metric first: val_accuracy, accuracy, val_loss, loss, box_loss,
    train_loss.
    """
    words = words_of(metric)
    part = is_loss(metric) and not is_total_loss(metric)
    return (bool(words & _TRAINED_ON), is_loss(metric), not words & _HELD_OUT, part, metric)


def is_total_loss(metric: str) -> bool:
    """`loss`, `total_loss`, `val_loss`: True. `box_loss`, one part of several: False."""
    return is_loss(metric) and not words_of(metric) - _HELD_OUT - _TRAINED_ON - {
        "loss",
        "total",
        "",
    }
