"""Metric names: recognize names of metrics, of losses, and of metrics that are better when smaller.
Pure.
"""

from __future__ import annotations

import re
from functools import lru_cache

_SMALLER_IS_BETTER = frozenset({
    "loss", "nll", "error", "err", "wer", "cer", "perplexity", "ppl", "mae", "mse", "rmse", "fid",
    "time", "latency", "cost", "memory", "distance",
})  # fmt: skip
_METRIC_WORDS = frozenset({
    "loss", "nll", "acc", "accuracy", "auc", "auroc", "map", "ap", "ar", "iou", "miou", "dice",
    "f", "precision", "recall", "psnr", "ssim", "wer", "cer", "perplexity", "ppl", "bleu",
    "rouge", "error", "err", "mae", "mse", "rmse", "score", "reward", "top", "fid",
})  # fmt: skip
_NOT_METRICS = frozenset({
    "lr", "rate", "time", "eta", "iter", "iters", "iteration", "step", "steps", "epoch", "epochs",
    "seconds", "date", "memory", "mem", "size", "gpu", "gpus", "weight", "weights", "coef",
    "threshold", "version", "target", "scale", "gain", "factor", "decay", "smoothing", "patience",
    "function", "fn", "path", "port", "bytes",
})  # fmt: skip
# Words that name an evaluation wherever they stand. `loss` and `precision` may be settings.
_EVALUATION_WORDS = frozenset({
    "acc", "accuracy", "auc", "auroc", "map", "ap", "iou", "miou", "dice", "f", "recall", "psnr",
    "ssim", "wer", "cer", "perplexity", "ppl", "bleu", "rouge", "mae", "mse", "rmse", "fid",
})  # fmt: skip
_OF_EVALUATIONS = frozenset({
    "score", "mean", "average", "avg", "macro", "micro", "weighted", "balanced", "final",
    "overall", "total", "top", "at", "loss", "precision", "error", "nll", "box", "mask", "segm",
})  # fmt: skip
_TRAINED_ON = frozenset({"train", "training"})
_HELD_OUT = frozenset({"val", "valid", "validation", "test", "eval", "dev"})


@lru_cache(maxsize=1024)
def words_of(metric: str) -> frozenset[str]:
    """The words of a name: `val_box_loss` has val, box and loss."""
    return frozenset(re.split(r"[^a-z]+", metric.lower()))


@lru_cache(maxsize=1024)
def names_metric(name: str) -> bool:
    """`val_loss`, `mAP`, `accuracy/top1`: True. `lr`, `loss_weight`, `time`: False."""
    words = words_of(name)
    if words & _NOT_METRICS:
        return False
    return any(word in _METRIC_WORDS or word.endswith("loss") for word in words)


@lru_cache(maxsize=1024)
def names_no_metric(name: str) -> bool:
    """`lr`, `time`: True. All other numbers in a record count as metrics."""
    return bool(words_of(name) & _NOT_METRICS)


@lru_cache(maxsize=1024)
def names_evaluation(name: str, held_out: bool) -> bool:
    """True for a name that is surely the metric of an evaluation: `accuracy`, `eval_loss`.

    `held_out`: the line says that it is about test or validation data.
    """
    words = words_of(name) - {""}
    if words - _EVALUATION_WORDS - _OF_EVALUATIONS - _HELD_OUT:
        return False
    if held_out or words & _HELD_OUT:
        return names_metric(name)
    return bool(words & _EVALUATION_WORDS) and name not in ("f", "map", "ap")


def names_held_out(text: str) -> bool:
    """True for a text that speaks of test or validation data."""
    return bool(words_of(text) & _HELD_OUT)


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
