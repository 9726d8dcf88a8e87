"""Search for inputs that a parser cannot take: `make fuzz`, or `python fuzz/run.py NAME [libFuzzer
options]`.

Without a name every target runs for FUZZ_SECONDS (60). A finding is written beside the corpus, in
.cache/fuzz/NAME.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import atheris

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]
with atheris.instrument_imports(include=["nvidia_container_runtime"]):
    import targets


def search(name: str, options: list[str]) -> None:
    corpus = HERE.parent / ".cache/fuzz" / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(targets.SEEDS[name]):
        (corpus / f"seed-{number}").write_bytes(seed)
    words = [
        sys.argv[0],
        str(corpus),
        "-max_len=2048",
        f"-artifact_prefix={corpus}-finding-",
        *options,
    ]
    atheris.Setup(words, targets.TARGETS[name])
    atheris.Fuzz()


def main() -> int:
    if len(sys.argv) > 1:
        search(sys.argv[1], sys.argv[2:])
    limit = f"-max_total_time={os.environ.get('FUZZ_SECONDS', '60')}"
    failed: list[str] = []
    for name in targets.TARGETS:
        done = subprocess.run(
            [sys.executable, __file__, name, limit], stderr=subprocess.PIPE, text=True, check=False
        )
        print(
            f"{name}: {done.stderr.splitlines()[-1] if done.returncode == 0 else done.stderr[-3000:]}",
            flush=True,
        )
        failed += [name] if done.returncode else []
    print(f"findings: {', '.join(failed) or 'none'}")
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())
