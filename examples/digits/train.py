"""Trains a small network on handwritten digits: `python3 train.py -e spec.json`. Needs numpy and
nothing else.

Under results_dir it leaves train/model_epoch_<EEE>.npz after every epoch, a status.json with a line
for each, and metrics.json at the end. SIGTERM makes it save the epoch it is in and exit with 75 (as
sysexits.h calls it: try again later): a code below 128 says that it ended by itself, with whole
files, and one other than 0 that it is not finished. A run that is resumed from a checkpoint ends
with the same weights as one that was never interrupted.
"""

import os

os.environ.setdefault(
    "OPENBLAS_NUM_THREADS", "1"
)  # so that every machine adds up in the same order

import argparse
import json
import signal
import sys
import time
from pathlib import Path

import numpy as np

TEST_IMAGES = 360
STOPPED = 75
stop_signals = []


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "-e", "--experiment_spec", type=Path, required=True, help="the spec, as JSON"
    )
    spec = json.loads(parser.parse_args().experiment_spec.read_text())
    signal.signal(signal.SIGTERM, lambda number, _: stop_signals.append(number))
    results = Path(spec.get("results_dir") or "results")
    (results / "train").mkdir(parents=True, exist_ok=True)
    status = StatusFile(results / "status.json")
    status.write("STARTED", "Starting the training loop.")
    try:
        last = train(spec, results, status)
    except (OSError, KeyError, ValueError) as error:
        status.write("FAILURE", str(error))
        raise
    if stop_signals:
        status.write("FAILURE", "Stopped by SIGTERM; the last epoch is saved.")
        sys.exit(STOPPED)
    write_whole(results / "metrics.json", json.dumps(last, indent=1).encode())
    status.write("SUCCESS", "Training finished.", kpi=last)
    print(f"finished: accuracy {last['accuracy']:.3f}")


def train(spec, results, status):
    """Every epoch up to the last or to SIGTERM; returns the metrics of the last one."""
    options = spec["train"]
    epochs = options["num_epochs"]
    data = Digits(Path(spec["dataset"]["path"]))
    network = Network(spec["model"]["hidden_units"], options["learning_rate"], options["seed"])
    done = network.load(options.get("resume_training_checkpoint_path"))
    metrics = network.evaluate(data)
    for epoch in range(done + 1, epochs + 1):
        began = time.monotonic()
        loss = network.train_epoch(
            data, options["batch_size"], np.random.default_rng([options["seed"], epoch])
        )
        metrics = {"loss": loss, **network.evaluate(data)}
        network.save(results / "train" / f"model_epoch_{epoch:03}.npz", epoch)
        print(
            f"epoch {epoch}/{epochs}  loss {loss:.3f}  accuracy {metrics['accuracy']:.3f}",
            flush=True,
        )
        status.epoch(
            epoch, epochs, max(time.monotonic() - began, options["seconds_per_epoch"]), metrics
        )
        if epoch < epochs:
            wait_until(began + options["seconds_per_epoch"])
        if stop_signals:
            break
    return metrics


def wait_until(moment):
    while not stop_signals and time.monotonic() < moment:
        time.sleep(0.02)


class Digits:
    """Images as rows of 64 numbers between 0 and 1; 360 of them, the same every time, are kept for
    the test.
    """

    def __init__(self, path):
        with np.load(path) as file:
            images, labels = file["images"] / 16.0, file["labels"].astype(int)
        order = np.random.default_rng(0).permutation(len(labels))
        learn, test = order[:-TEST_IMAGES], order[-TEST_IMAGES:]
        self.images, self.labels = images[learn], labels[learn]
        self.test_images, self.test_labels = images[test], labels[test]


class Network:
    """Two layers, trained with Adam."""

    def __init__(self, hidden, learning_rate, seed):
        random = np.random.default_rng(seed)
        self.learning_rate = learning_rate
        self.weights = {
            "w1": random.normal(0, (2 / 64) ** 0.5, (64, hidden)),
            "b1": np.zeros(hidden),
            "w2": random.normal(0, (2 / hidden) ** 0.5, (hidden, 10)),
            "b2": np.zeros(10),
        }
        self.mean = {name: np.zeros_like(value) for name, value in self.weights.items()}
        self.square = {name: np.zeros_like(value) for name, value in self.weights.items()}
        self.steps = 0

    def forward(self, images):
        hidden = np.maximum(images @ self.weights["w1"] + self.weights["b1"], 0)
        scores = hidden @ self.weights["w2"] + self.weights["b2"]
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return hidden, scores / scores.sum(axis=1, keepdims=True)

    def train_epoch(self, data, batch_size, random):
        """One pass over the data in a new order; returns the mean loss."""
        order = random.permutation(len(data.labels))
        losses = []
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            losses.append(self.train_batch(data.images[batch], data.labels[batch]))
        return float(np.mean(losses))

    def train_batch(self, images, labels):
        hidden, likely = self.forward(images)
        loss = -np.log(likely[np.arange(len(labels)), labels] + 1e-12).mean()
        slope = (likely - np.eye(10)[labels]) / len(labels)
        behind = (slope @ self.weights["w2"].T) * (hidden > 0)
        self.adam(
            {
                "w1": images.T @ behind,
                "b1": behind.sum(0),
                "w2": hidden.T @ slope,
                "b2": slope.sum(0),
            }
        )
        return loss

    def adam(self, gradients):
        self.steps += 1
        for name, gradient in gradients.items():
            self.mean[name] = 0.9 * self.mean[name] + 0.1 * gradient
            self.square[name] = 0.999 * self.square[name] + 0.001 * gradient**2
            mean = self.mean[name] / (1 - 0.9**self.steps)
            square = self.square[name] / (1 - 0.999**self.steps)
            self.weights[name] -= self.learning_rate * mean / (np.sqrt(square) + 1e-8)

    def evaluate(self, data):
        likely = self.forward(data.test_images)[1]
        chosen = likely[np.arange(len(data.test_labels)), data.test_labels]
        return {
            "val_loss": float(-np.log(chosen + 1e-12).mean()),
            "accuracy": float((likely.argmax(axis=1) == data.test_labels).mean()),
        }

    def save(self, path, epoch):
        state = {"epoch": epoch, "steps": self.steps}
        for kind in ("weights", "mean", "square"):
            state.update({f"{kind}.{name}": value for name, value in getattr(self, kind).items()})
        whole = path.with_suffix(".tmp")
        with whole.open("wb") as file:
            np.savez(file, **state)
        whole.replace(path)

    def load(self, path):
        """Goes on from a checkpoint, if there is one; returns how many epochs it has behind it."""
        if not path:
            return 0
        with np.load(path) as state:
            for kind in ("weights", "mean", "square"):
                getattr(self, kind).update({name: state[f"{kind}.{name}"] for name in self.weights})
            self.steps = int(state["steps"])
            print(f"resumed from {path}, {int(state['epoch'])} epochs done", flush=True)
            return int(state["epoch"])


class StatusFile:
    """status.json as TAO writes it: a JSON object a line."""

    def __init__(self, path):
        self.path = path

    def write(self, status, message, **fields):
        now = time.localtime()
        line = {
            **fields,
            "date": f"{now.tm_mon}/{now.tm_mday}/{now.tm_year}",
            "time": f"{now.tm_hour}:{now.tm_min}:{now.tm_sec}",
            "status": status,
            "verbosity": "INFO",
            "message": message,
        }
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def epoch(self, epoch, epochs, seconds, metrics):
        self.write(
            "RUNNING",
            "Training loop in progress",
            epoch=epoch,
            max_epoch=epochs,
            time_per_epoch=clock(seconds),
            eta=clock(seconds * (epochs - epoch)),
            graphical={"loss": metrics["loss"]},
            kpi={name: value for name, value in metrics.items() if name != "loss"},
        )


def clock(seconds):
    minutes, second = divmod(seconds, 60)
    return f"{int(minutes // 60)}:{int(minutes % 60):02}:{second:09.6f}"


def write_whole(path, content):
    part = path.with_suffix(".tmp")
    part.write_bytes(content)
    part.replace(path)


if __name__ == "__main__":
    main()
