"""A file with any damage is a skill, or one error with its place; never anything else."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tao_sdk.model.errors import TaoError
from tao_sdk.model.settings import Settings
from tao_sdk.skills.bank import PACKAGED, Bank
from tao_sdk.skills.check import check_bank
from tao_sdk.skills.errors import SkillError
from tao_sdk.skills.loader import load_skill
from tao_sdk.skills.model_job import ModelChoices, prepare_model_job
from tao_sdk.skills.names import load_named

# skills that together have every attribute
WHOLE = ("clip", "cosmos-rl", "sparse4d", "slurm", "tao-analyze-gaps-vlm-bcq", "visual-changenet")
SOURCES = [load_named(Bank(PACKAGED, "this package"), name).path for name in WHOLE]
DOCUMENTS = [yaml.safe_load(path.read_text()) for path in SOURCES]
NOWHERE = Settings({"HOME": "/nowhere"})

odd_values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just([]),
    st.just({}), st.just([[]]), st.just({"": None}), st.just([{"name": []}]), st.just("../.."),
    st.just("a[99999999999].b"), st.just({"path": {"path": 1}}), st.just("{x}"), st.just("[0]"),
)  # fmt: skip


def ways_into(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for step, item in items:
        yield (*above, step)
        if isinstance(item, (dict, list)):
            yield from ways_into(item, (*above, step))


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A skill's file in which some values are others."""
    document = copy.deepcopy(draw(st.sampled_from(DOCUMENTS)))
    for _ in range(draw(st.integers(1, 3))):
        *above, last = draw(st.sampled_from(list(ways_into(document))))
        holder = document
        for step in above:
            holder = holder[step]
        holder[last] = copy.deepcopy(draw(odd_values))
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def use(text: str) -> None:
    """Load, check and prepare, as a user would."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        path = root / "skills" / "tao-train-x" / "references" / "skill_info.yaml"
        path.parent.mkdir(parents=True)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        bank = Bank(root, "a test")
        check_bank(bank, NOWHERE)
        skill = load_skill(root, path, "tao-train-x")
        for action in skill.actions:
            values = dict.fromkeys(skill.actions[action].inputs, "s3://b/f")
            wanted = ModelChoices(
                {"train": "s3://b/x"}, values, image="any:1", gpu_count=2, num_nodes=2
            )
            try:
                prepare_model_job(bank, skill, action, wanted, NOWHERE)
            except TaoError as refused:
                assert refused.what


@pytest.mark.slow
@settings(max_examples=150)
@given(damaged())
def test_a_damaged_file_is_used_or_refused_with_its_place(text: str) -> None:
    try:
        use(text)
    except SkillError as error:
        assert error.place.path.endswith("skill_info.yaml")
        assert error.what.isprintable()


@pytest.mark.slow
@settings(max_examples=100)
@given(st.text(alphabet="ab:-[]{}&*!|>'\"#%@, \n\t\x00\x1b\ufeff", max_size=40))
def test_any_text_is_used_or_refused_with_its_place(text: str) -> None:
    try:
        use(text)
    except SkillError as error:
        assert error.what.isprintable()
