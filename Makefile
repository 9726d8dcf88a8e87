.PHONY: run quick test soak fuzz check bench setup

# Train the example from an empty clone, and print its accuracy.
run: setup
	. .venv/bin/activate && tao run examples/digits/job.yaml

# What needs no server and little time: within a minute on two cores. A third process runs while others wait.
quick: setup
	.venv/bin/python -m pytest -m "not docker and not slurm and not kubernetes and not network and not slow" -n 3 --dist worksteal

# Everything that CI runs.
test: check
	tools/test

# A thousand short jobs on a SLURM cluster that breaks meanwhile, a runner killed at almost every request that it sends, and a
# search whose driver is killed at each commit; `make test` does a few of each.
soak: setup
	TAO_SOAK_JOBS=1000 .venv/bin/python -m pytest tests/backends/slurm/test_slurm_soak.py
	TAO_SOAK_KILLS=50 .venv/bin/python -m pytest tests/runner/bucket/test_bucket_kills.py
	TAO_SOAK_TRIALS=12 .venv/bin/python -m pytest tests/backends/docker/test_docker_search.py tests/backends/slurm/test_slurm_search.py

# Searches each parser of foreign words for FUZZ_SECONDS (60). atheris has wheels for few interpreters: only this target wants it.
fuzz: setup
	.venv/bin/python -m pip install --quiet --disable-pip-version-check 'atheris>=2.3'
	.venv/bin/python tests/fuzz/run.py

check: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	PYRIGHT_PYTHON_GLOBAL_NODE=off .venv/bin/pyright

# Every figure of docs/performance.md, as ratios in one run.
bench: setup
	.venv/bin/python -m bench

setup:
	@tools/setup
