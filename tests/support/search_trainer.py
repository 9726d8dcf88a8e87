"""A trainer for searches in rungs: it trains the epochs that are missing, with the standard library
alone.
"""

from __future__ import annotations

TRAINER = """
import json, os, sys
spec = json.load(open(sys.argv[1]))
resumed = spec["train"]["resume_training_checkpoint_path"]
done = json.load(open(resumed)) if resumed else 0
folder = os.path.join(spec["results_dir"], "train")
os.makedirs(folder, exist_ok=True)
last = spec["train"]["num_epochs"]
for epoch in range(done + 1, last + 1):
    print(f"epoch {epoch}/{last} accuracy {spec['train']['lr'] * epoch:.6f}", flush=True)
    with open(os.path.join(folder, f"model_epoch_{epoch:03}.pth"), "w") as file:
        json.dump(epoch, file)
"""
