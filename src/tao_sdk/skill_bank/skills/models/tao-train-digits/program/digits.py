"""Reads handwritten digits: `python3 digits.py train|evaluate|inference -e spec.json`.

One layer of weights, trained by gradient descent in Python alone: a second an epoch at most. Below
results_dir, train leaves train/model_epoch_<EEE>.ckpt after every epoch, evaluate results.json, and
inference predictions.csv.
"""

import argparse
import json
import math
import random
import sys
import zipfile
from operator import mul
from pathlib import Path

PIXELS, CLASSES, BRIGHTEST = 64, 10, 16.0
TEST_IMAGES = 360  # kept for the test, the same every time
NPY_HEAD = 10  # bytes of an .npy file before its header


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=sorted(ACTIONS))
    parser.add_argument("-e", "--experiment_spec", type=Path, required=True, help="as JSON")
    arguments = parser.parse_args()
    spec = json.loads(arguments.experiment_spec.read_text())
    results = Path(spec["results_dir"])
    results.mkdir(parents=True, exist_ok=True)
    ACTIONS[arguments.action](spec, read_digits(spec["dataset"]["path"]), results)


def train(spec, digits, results):
    options = spec["train"]
    epochs = options["num_epochs"]
    layer, done = Layer(), 0
    if options["resume_training_checkpoint_path"]:
        layer, done = load(options["resume_training_checkpoint_path"])
        print(f"resumed after epoch {done}", flush=True)
    (results / "train").mkdir(exist_ok=True)
    for epoch in range(done + 1, epochs + 1):
        order = random.Random(f"{options['seed']} {epoch}")
        loss = layer.train_epoch(digits.learn, options["learning_rate"], order)
        save(results / "train" / f"model_epoch_{epoch:03}.ckpt", layer, epoch)
        accuracy = layer.accuracy(digits.test)
        print(f"epoch {epoch}/{epochs}  loss {loss:.3f}  accuracy {accuracy:.3f}", flush=True)


def evaluate(spec, digits, results):
    layer, epoch = load(spec["evaluate"]["checkpoint"])
    accuracy = layer.accuracy(digits.test)
    (results / "results.json").write_text(json.dumps({"epoch": epoch, "accuracy": accuracy}))
    print(f"checkpoint of epoch {epoch}: accuracy {accuracy:.3f} of {len(digits.test)} images")


def inference(spec, digits, results):
    layer, _ = load(spec["inference"]["checkpoint"])
    lines = [f"{number},{layer.read(image)}\n" for number, (image, _) in enumerate(digits.test)]
    (results / "predictions.csv").write_text("image,digit\n" + "".join(lines))
    print(f"{len(lines)} images read: predictions.csv")


ACTIONS = {"train": train, "evaluate": evaluate, "inference": inference}


class Digits:
    """Pairs of an image, 64 numbers between 0 and 1, and the digit that it shows."""

    def __init__(self, pairs):
        order = list(pairs)
        random.Random(0).shuffle(order)
        self.learn, self.test = order[:-TEST_IMAGES], order[-TEST_IMAGES:]


class Layer:
    """The weights of each digit, and what is added to their sum."""

    def __init__(self, weights=None, offsets=None):
        self.weights = weights or [[0.0] * PIXELS for _ in range(CLASSES)]
        self.offsets = offsets or [0.0] * CLASSES

    def scores(self, image):
        sums = [sum(map(mul, row, image)) for row in self.weights]
        return [total + offset for total, offset in zip(sums, self.offsets)]

    def read(self, image):
        """The digit that the image most likely shows."""
        scores = self.scores(image)
        return scores.index(max(scores))

    def accuracy(self, pairs):
        return sum(self.read(image) == digit for image, digit in pairs) / len(pairs)

    def train_epoch(self, pairs, learning_rate, order):
        """One pass over the images in a new order; returns the mean loss."""
        loss = 0.0
        for image, digit in order.sample(pairs, len(pairs)):
            likely = probabilities(self.scores(image))
            loss -= math.log(likely[digit] + 1e-12)
            for each, chance in enumerate(likely):
                step = learning_rate * ((each == digit) - chance)
                row = self.weights[each]
                self.weights[each] = [weight + step * pixel for weight, pixel in zip(row, image)]
                self.offsets[each] += step
        return loss / len(pairs)


def probabilities(scores):
    highest = max(scores)
    powers = [math.exp(score - highest) for score in scores]
    return [power / sum(powers) for power in powers]


def read_digits(path):
    """The images and labels of an .npz file, stored as 8-bit numbers."""
    with zipfile.ZipFile(path) as archive:
        images, labels = numbers(archive.read("images.npy")), numbers(archive.read("labels.npy"))
    rows = [images[start : start + PIXELS] for start in range(0, len(images), PIXELS)]
    return Digits(([pixel / BRIGHTEST for pixel in row], digit) for row, digit in zip(rows, labels))


def numbers(npy):
    """The numbers behind the header of an .npy file, whose size its ninth and tenth byte say."""
    return npy[NPY_HEAD + int.from_bytes(npy[8:NPY_HEAD], "little") :]


def save(path, layer, epoch):
    part = path.with_suffix(".tmp")
    state = {"epoch": epoch, "weights": layer.weights, "offsets": layer.offsets}
    part.write_text(json.dumps(state))
    part.replace(path)


def load(path):
    """(the layer of a checkpoint, the epochs that it has behind it)."""
    try:
        state = json.loads(Path(path).read_text())
        return Layer(state["weights"], state["offsets"]), state["epoch"]
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"{path} is no checkpoint of this model: {error}")


if __name__ == "__main__":
    main()
