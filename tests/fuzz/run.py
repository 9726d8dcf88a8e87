"""Search for inputs that a parser cannot take: `make fuzz`, or `python tests/fuzz/run.py NAME
[libFuzzer options]`.

Without a name every target runs for FUZZ_SECONDS (60). A finding is written beside the corpus, in
.cache/fuzz/NAME.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import atheris  # pyright: ignore[reportMissingImports]  only `make fuzz` installs it

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache" / "fuzz"
sys.path.insert(0, str(HERE.parent))
with atheris.instrument_imports(include=["tao_sdk"]):
    from support import targets


def search(name: str, options: list[str]) -> None:
    corpus = CACHE / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(targets.SEEDS[name]):
        (corpus / f"seed-{number}").write_bytes(seed)
    words = [
        sys.argv[0],
        str(corpus),
        "-max_len=4096",
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
            f"{name}: "
            f"{done.stderr.splitlines()[-1] if done.returncode == 0 else done.stderr[-3000:]}",
            flush=True,
        )
        failed += [name] if done.returncode else []
    print(f"findings: {', '.join(failed) or 'none'}")
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())
