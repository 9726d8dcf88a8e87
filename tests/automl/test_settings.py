"""Settings: every documented name with its default, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tao_automl.algorithms import SAMPLERS, TABLE, check, chosen, samplers_of
from tao_automl.settings import (
    ALGORITHMS,
    AUTO,
    NAMES,
    SearchSettings,
    SettingError,
    read_settings,
    settings_from_json,
)
from tao_automl.space.search_block import read_parameters
from tao_automl.trial import Objective


@pytest.mark.parametrize(
    ("name", "field", "default"),
    [
        ("algorithm", "algorithm", "bayesian"),
        ("automl_max_recommendations", "max_trials", 20),
        ("num_recommendations", "max_trials", 20),
        ("automl_max_trials", "max_trials", 20),
        ("max_trials", "max_trials", 20),
        ("max_experiments", "max_experiments", None),
        ("automl_max_epochs", "max_epochs", 27),
        ("automl_reduction_factor", "reduction_factor", 3),
        ("epoch_multiplier", "min_epochs", 1),
        ("automl_max_concurrent", "max_concurrent", None),
        ("automl_population_size", "population_size", 10),
        ("max_generations", "max_generations", 20),
        ("automl_eval_interval", "eval_interval", 10),
        ("automl_perturbation_factor", "perturbation_factor", 1.2),
        ("automl_mutation_factor", "mutation_factor", 0.5),
        ("automl_crossover_prob", "crossover_prob", 0.5),
        ("automl_early_stop_threshold", "early_stop_threshold", 0.1),
        ("automl_min_early_stop_epochs", "min_early_stop_epochs", 3),
        ("automl_kde_samples", "kde_samples", 64),
        ("automl_top_n_percent", "top_n_percent", 15.0),
        ("automl_min_points_in_model", "min_points_in_model", None),
        ("automl_min_top_configs", "min_top_configs", None),
        ("automl_delete_intermediate_ckpt", "delete_intermediate_ckpt", False),
        ("automl_checkpoint_retention_strategy", "checkpoint_retention_strategy", "auto"),
        ("automl_retain_failed_artifacts", "retain_failed_artifacts", True),
        ("override_automl_disabled_params", "override_automl_disabled_params", False),
        ("train_sample_count", "train_sample_count", None),
        ("num_train_samples", "train_sample_count", None),
        ("train_samples", "train_sample_count", None),
        ("dataset_size", "train_sample_count", None),
        ("max_recommendations", "max_trials", 20),
        ("experiment_id", "experiment_id", ""),
        ("final_evaluation", "final_evaluation", None),
        ("final_evaluation_record_path", "final_evaluation_record_path", ""),
        ("llm_endpoint", "llm_endpoint", ""),
        ("base_url", "llm_endpoint", ""),
        ("model", "llm_model", ""),
        ("llm_temperature", "llm_temperature", 0.7),
        ("llm_max_tokens", "llm_max_tokens", 4096),
        ("llm_analysis_interval", "llm_analysis_interval", 5),
        ("hybrid_enable_llm_range_narrowing", "hybrid_enable_llm_range_narrowing", False),
        ("research_program", "research_program", ""),
        ("run_baseline", "run_baseline", True),
        ("baseline_metric", "baseline_metric", None),
        ("run_final_evaluation", "run_final_evaluation", True),
        ("final_evaluation_metric", "final_evaluation_metric", None),
        ("reuse_best_metric_for_final_evaluation", "reuse_best_metric_for_final_evaluation", False),
        ("baseline_record_path", "baseline_record_path", ""),
        ("evaluation_records_dir", "evaluation_records_dir", ""),
        ("session_id", "session_id", ""),
        ("seed", "seed", None),
        ("automl_max_jobs", "max_jobs", None),
        ("automl_max_gpu_hours", "max_gpu_hours", None),
        ("automl_max_wall_time", "max_wall_time", None),
        ("automl_stop_poor", "stop_poor", False),
        ("automl_start", "start", ()),
        ("warm_start_from", "warm_start", ()),
        ("metric_at", "metric_at", "last"),
        ("epochs_key", "epochs_key", ""),
    ],
)
def test_each_documented_name_has_its_default(name: str, field: str, default: Any) -> None:
    assert NAMES[name] == field
    assert getattr(SearchSettings(), field) == default
    assert read_settings({name: None}) == SearchSettings()


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"algorithm": "b"}, "algorithm", "bayesian"),
        ({"algorithm": "HES"}, "algorithm", "hyperband_es"),
        ({"automl_max_recommendations": "12"}, "max_trials", 12),
        ({"max_wall_time": "1h30m"}, "max_wall_time", 5400.0),
        ({"warm_start": "search-1"}, "warm_start", ("search-1",)),
        ({"stop_poor": "yes"}, "stop_poor", True),
    ],
)
def test_values_are_read_as_people_write_them(given: Any, field: str, value: Any) -> None:
    assert getattr(read_settings(given), field) == value


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"automl_max_recomendations": 3}, ["automl_max_recomendations", "automl_max_recommendations"]),
        ({"algorithm": "baysian"}, ["'baysian'", "Did you mean bayesian?"]),
        ({"max_trials": 0}, ["max_trials is 0", "from 1 on"]),
        ({"max_trials": 2.5}, ["2.5"]),
        ({"max_trials": True}, ["True"]),
        ({"reduction_factor": 1}, ["from 2 on"]),
        ({"crossover_prob": 1.5}, ["from 0 to 1"]),
        ({"max_gpu_hours": 0}, ["above 0"]),
        ({"max_wall_time": "30:00"}, ["duration"]),
        ({"metric_at": "first"}, ["last, best"]),
        ({"direction": "down"}, ["minimize, maximize"]),
        ({"max_trials": 5, "automl_max_recommendations": 6}, ["5", "6", "Keep one of"]),
        ({"objectives": [{"metric": "a", "wieght": 1}]}, ["Did you mean weight?"]),
        ({"objectives": [{"metric": "a", "at_most": 1}]}, ["limit alone", "direction"]),
        ({"objectives": ["a", "a"]}, ["twice"]),
        ({"objectives": [{}]}, ["name its metric"]),
        ({"metric": 3}, ["metric is 3"]),
    ],
)  # fmt: skip
def test_a_mistake_says_what_is_allowed(given: Any, words: list[str]) -> None:
    with pytest.raises(SettingError) as caught:
        read_settings(given)
    assert isinstance(caught.value, ValueError)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("metric", "direction"),
    [
        ("val_loss", "minimize"),
        ("val_error", "minimize"),
        ("wer", "minimize"),
        ("latency", "minimize"),
        ("test/perplexity", "minimize"),
        ("answer_accuracy", "maximize"),
        ("power", "maximize"),
        ("soccer", "maximize"),
        ("sentiment_f1", "maximize"),
        ("mAP", "maximize"),
    ],
)
def test_the_direction_follows_from_whole_words_of_the_metric(metric: str, direction: str) -> None:
    assert read_settings({"metric": metric}).objectives == (Objective(metric, direction),)
    other = "maximize" if direction == "minimize" else "minimize"
    explicit = read_settings({"metric": metric, "direction": other})
    assert explicit.objectives[0].direction == other


def test_objectives_have_limits_weights_and_scales() -> None:
    found = read_settings({"objectives": ["accuracy", {"metric": "latency", "at_most": 20}]})
    assert found.objectives[1] == Objective("latency", at_most=20.0)
    assert [goal.metric for goal in found.goals] == ["accuracy"]
    named = read_settings(
        {"metric": "accuracy", "metric_weight": 2, "include_latency": True, "latency_scale": 10}
    )
    assert named.objectives == (
        Objective("accuracy", "maximize", 2.0),
        Objective("latency", "minimize", 1.0, 10.0),
    )


def test_the_latency_is_a_goal_of_its_own_with_its_own_words() -> None:
    found = read_settings(
        {
            "metric": "accuracy", "metric_weight": 2, "metric_scale": 0.5, "multi_objective": True,
            "include_latency": True, "latency_metric": "seconds", "latency_direction": "minimize",
            "latency_weight": 3, "latency_scale": 10,
        }
    )  # fmt: skip
    assert found.objectives == (
        Objective("accuracy", "maximize", 2.0, 0.5),
        Objective("seconds", "minimize", 3.0, 10.0),
    )
    assert read_settings({"latency_objective": True}).objectives[1].metric == "latency"


def test_a_key_is_known_and_never_kept() -> None:
    found = read_settings({"llm_api_key": "nvapi-secret", "api_key": "other-secret"})
    assert "secret" not in json.dumps(found.to_json())
    assert "secret" not in repr(found)


def test_settings_come_back_from_json() -> None:
    found = read_settings(
        {
            "objectives": ["accuracy", {"metric": "latency", "at_most": 20}],
            "start": [{"lr": 0.1}],
            "warm_start": ["a", "b"],
            "max_wall_time": "2h",
        }
    )
    assert settings_from_json(json.loads(json.dumps(found.to_json()))) == found


def test_every_algorithm_has_a_schedule_and_a_sampler() -> None:
    assert set(TABLE) == set(ALGORITHMS) - {AUTO}
    for algorithm in TABLE:
        settings = read_settings({"algorithm": algorithm})
        assert set(samplers_of(settings)) <= set(SAMPLERS)
        check(settings)


@pytest.mark.parametrize(
    ("given", "algorithm"),
    [
        ({}, "bayesian"),
        ({"max_trials": 500}, "tpe"),
        ({"objectives": ["accuracy", "latency"]}, "motpe"),
        ({"epochs_key": "train.num_epochs", "max_trials": 60}, "bohb"),
        ({"epochs_key": "train.num_epochs", "max_trials": 60, "max_concurrent": 8}, "asha"),
        ({"epochs_key": "train.num_epochs"}, "bayesian"),
    ],
)
def test_auto_picks_by_its_rule(given: Any, algorithm: str) -> None:
    space = read_parameters({"lr": {"min": 1e-4, "max": 1e-1}})
    assert chosen(read_settings({"algorithm": "auto", **given}), space) == algorithm
    few = read_parameters({"a": [1, 2], "b": [1, 2, 3]})
    if not given:
        assert chosen(read_settings({"algorithm": "auto"}), few) == "grid"


def test_what_an_algorithm_cannot_do_is_refused() -> None:
    with pytest.raises(SettingError, match="one objective"):
        check(read_settings({"algorithm": "cmaes", "objectives": ["accuracy", "latency"]}))
    with pytest.raises(SettingError, match="not in this version"):
        check(read_settings({"hybrid_enable_llm_range_narrowing": True}))
