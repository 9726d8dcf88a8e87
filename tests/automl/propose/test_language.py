"""A language model: what it is told, which answers count, and that chance never takes its place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.simulated_search import SimulatedDriver, new_search
from tao_automl.decisions import AskModel, EndStatus, Known, Outcome, StartTrial
from tao_automl.propose.language import AnswerMistake, question, read_answer

GOOD = {"lr": 0.01, "layers": 3, "optimizer": "sgd", "momentum": 0.9}


def answer(**params: Any) -> Known:
    return Known(answer=json.dumps({"params": {**GOOD, **params}, "notes": "lr matters"}))


def asked(algorithm: str = "llm", **settings: Any) -> SimulatedDriver:
    """A driver whose search has just asked for its second trial."""
    driver = SimulatedDriver(new_search(algorithm=algorithm, **settings))
    driver.look()
    driver.look(Known((driver.finish((1, 0)),)))
    return driver


def test_an_answer_becomes_a_trial_of_the_model() -> None:
    driver = asked()
    assert len(driver.questions) == 1
    assert driver.look(answer()) == (StartTrial(2, GOOD),)
    assert driver.search.trial(2).proposed_by == "llm"
    assert driver.search.dialogue.notes == "lr matters"


def test_it_is_told_space_goals_history_and_its_notes() -> None:
    driver = asked("autoresearch", research_program="find out what momentum does")
    driver.look(answer())
    failed = driver.finish((2, 0), outcome=Outcome.FAILED, values=None, reason="out of memory")
    driver.look(Known((failed,)))
    text = "\n".join(message["content"] for message in driver.questions[-1].messages)
    for words in [
        "minimize val_loss", '"lr": a number from 1e-05 to 0.1, on a log scale',
        'one of ["adam", "sgd"]', "only for optimizer sgd", "find out what momentum does",
        "out of memory", "lr matters", "The best is trial 1.", "1. {", ": complete, {",
    ]:  # fmt: skip
        assert words in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I think a learning rate of 0.1 is best.", "no JSON object"),
        ("[1, 2]", "no JSON object"),
        ('{"lr": 0.1}', '"params"'),
        (json.dumps({"params": {**GOOD, "lr": 5}}), "lr is 5; it must be from 1e-05 to 0.1"),
        (json.dumps({"params": {**GOOD, "lrr": 5}}), "Did you mean lr?"),
        (json.dumps({"params": {"lr": 0.01}}), "no value for layers"),
        (json.dumps({"params": {**GOOD, "optimizer": "adam"}}), "does not apply"),
        ('{"params": {"lr": NaN, "layers": 1}}', "lr is nan"),
        ("{" * 5000, "no JSON object"),
    ],
)
def test_a_wrong_answer_is_told_to_the_model_and_asked_again(text: str, words: str) -> None:
    driver = asked()
    decisions = driver.look(Known(answer=text))
    assert [type(one) for one in decisions] == [AskModel]
    assert words in driver.questions[-1].messages[-1]["content"]
    driver.restart()
    assert isinstance(driver.look(answer())[0], StartTrial)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"params": GOOD}),
        f"```json\n{json.dumps({'params': GOOD})}\n```",
        f"Here it is:\n{json.dumps({'params': GOOD})}\nGood luck!",
    ],
)
def test_an_answer_may_stand_between_words(text: str) -> None:
    assert read_answer(asked().search, text).params == GOOD


def test_after_three_mistakes_the_search_ends_with_the_models_words() -> None:
    for known in (Known(answer="no idea"), Known(model_failure="404 Not Found: no such model")):
        driver = asked()
        for _ in range(3):
            assert driver.end is None
            driver.look(known)
        assert driver.end
        assert driver.end.status is EndStatus.ERROR
        expected = "no JSON object" if known.answer else "404 Not Found: no such model"
        assert expected in driver.end.reason
        assert [trial.proposed_by for trial in driver.search.trials] == ["spec"]


def test_hybrid_asks_the_model_for_every_other_trial() -> None:
    driver = SimulatedDriver(new_search(algorithm="hybrid", max_trials=6))
    driver.look()
    while not driver.end:
        if driver.live:
            driver.look(Known((driver.finish(next(iter(driver.live))),)))
        else:
            driver.look(answer(lr=0.001 * (1 + len(driver.search.trials))))
    assert [trial.proposed_by for trial in driver.search.trials] == [
        "spec",
        "llm",
        "gp",
        "llm",
        "gp",
        "llm",
    ]


def test_the_best_and_the_newest_of_many_trials_are_told() -> None:
    driver = SimulatedDriver(new_search(algorithm="random", max_trials=150))
    search = driver.run(lambda job: float(job.trial))
    lines = question(search)[1]["content"].splitlines()
    told = [int(line.split(".")[0]) for line in lines if line[:1].isdigit()]
    assert told[:2] == [1, 2]
    assert told[-1] == 150
    assert len(told) == 60


@given(st.text(max_size=300))
def test_any_text_is_an_answer_or_a_mistake(text: str) -> None:
    search = new_search(algorithm="llm")
    for words in (text, '{"params": ' + text + "}"):
        try:
            read_answer(search, words)
        except AnswerMistake as mistake:
            assert str(mistake)
