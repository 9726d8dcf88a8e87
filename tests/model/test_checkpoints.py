from __future__ import annotations

import math
from typing import Any

import pytest

from tao_sdk.model.checkpoints import (
    Checkpoint,
    best_of,
    choose_checkpoints,
    counts_from_zero,
    list_checkpoints,
    newest_of,
    of_epoch,
    settled_at,
    with_epochs,
)
from tao_sdk.model.progress import Best, EpochMetrics, Progress
from tao_sdk.runner.outputs.tree import checkpoint_folder

Files = list[tuple[str, int, float]]


def files(*paths: str, size: int = 100) -> Files:
    """Files written one after the other, a second apart."""
    return [(path, size, 1000.0 + number) for number, path in enumerate(paths)]


def manifest(listing: Files, **sizes: int) -> dict[str, Any]:
    return {
        "files": [
            {"path": path, "size": sizes.get(path, size), "mtime": mtime, "sha256": "ab12"}
            for path, size, mtime in listing
        ],
        "whole": False,
        "exit_code": None,
        "attempt": 1,
    }


def only(path: str) -> Checkpoint:
    (found,) = list_checkpoints(files(path))
    return found


def newest(listing: Files, **kwargs: Any) -> str | None:
    found = newest_of(list_checkpoints(listing, manifest=manifest(listing)), **kwargs)
    return found.path if found else None


def best_epoch(epoch: int, epochs: int | None = None, from_zero: bool = False) -> Progress:
    return Progress(
        epoch=epoch, epochs=epochs, best=Best(epoch, "accuracy", 0.9), counts_from_zero=from_zero
    )


@pytest.mark.parametrize(
    ("path", "epoch", "step"),
    [
        ("train/model_epoch_012_step_00100.pth", 12, 100),
        ("train/epoch=3-step=100.ckpt", 3, 100),
        ("train/best-epoch=03-val_loss=0.12.ckpt", 3, None),
        ("checkpoints/iter_000000200.pt", None, 200),
        ("train/dn_model_latest.pth", None, None),
        ("train/epoch_10.pth", 10, None),
        ("train/resnet18_epoch_080.tlt", 80, None),
        ("train/weights.05-0.23.hdf5", 5, None),
        ("train/model-epoch10.pt", 10, None),
        ("checkpoints/model_0004999.pth", None, 4999),
        ("checkpoints/checkpoint_500.safetensors", None, 500),
        ("train/best_accuracy_top1_epoch_9.pth", 9, None),
        ("train/model_epoch_004.npz", 4, None),
        ("train/vit_fold2_epoch_7.pth.tar", 7, None),
    ],
)
def test_epoch_and_step_are_read_from_the_names_that_trainers_give(
    path: str, epoch: int | None, step: int | None
):
    found = only(path)
    assert (found.epoch, found.step) == (epoch, step)


@pytest.mark.parametrize(
    "path",
    [
        "/runs/epoch_99_run/train/model.pth",
        "/runs/best_run/train/model.pth",
        "/runs/step_5_b/latest-7f/train/model.pth",
        "/runs/epoch_3/best/fold/train/model.pth",
    ],
)
def test_the_folders_above_say_nothing_of_a_checkpoint(path: str):
    found = only(path)
    assert (found.epoch, found.step, found.is_best, found.is_latest) == (None, None, False, False)


def test_a_numbered_file_in_a_folder_named_best_is_what_its_own_name_says():
    found = only("best/model_epoch_003.pth")
    assert (found.path, found.epoch, found.is_best) == ("best/model_epoch_003.pth", 3, False)


def test_a_folder_of_shards_is_one_checkpoint():
    listing = files(
        "checkpoints/step_1000/model-00001-of-00002.safetensors",
        "checkpoints/step_1000/model-00002-of-00002.safetensors",
        "checkpoints/epoch_3/safetensors/model.safetensors",
    )
    found = list_checkpoints(listing)
    assert {(each.path, each.epoch, each.step, each.is_dir) for each in found} == {
        ("checkpoints/step_1000", None, 1000, True),
        ("checkpoints/epoch_3", 3, None, True),
    }
    assert max(each.size for each in found) == 200


@pytest.mark.parametrize(
    "path",
    [
        "work/digits.npz",
        "inputs/model_epoch_003.pth",
        "results/ptm/train/model.pth",
        "train/optimizer.pt",
        "train/rng_state.pth",
        "train/status.json",
        "train/model_epoch_003.tmp",
        "metrics.json",
        "images/images.npz",
        "",
    ],
)
def test_what_is_no_checkpoint_of_this_training_is_left_out(path: str):
    assert list_checkpoints(files(path)) == []


@pytest.mark.parametrize(
    "folder", ["train/last.ckpt", "train/epoch=3-step=40.ckpt", "train/ckpt_3", "train/Epoch-3"]
)
def test_a_folder_that_is_resumed_from_as_one_is_listed_as_one(folder: str):
    inside = f"{folder}/zero_pp_rank_0_mp_rank_00_model_states.pt"
    assert checkpoint_folder(inside) == folder  # of the runner, which resumes
    assert [(each.path, each.is_dir) for each in list_checkpoints(files(inside))] == [
        (folder, True)
    ]


def test_an_empty_file_is_no_checkpoint():
    assert list_checkpoints([("train/model_epoch_001.pth", 0, 1.0)]) == []


def test_the_newest_is_the_furthest_trained_and_not_the_last_written():
    assert (
        newest(files("train/model_epoch_010.pth", "train/model_epoch_009.pth"))
        == "train/model_epoch_010.pth"
    )
    assert (
        newest(files("train/epoch=3-step=900.ckpt", "train/epoch=3-step=1000.ckpt"))
        == "train/epoch=3-step=1000.ckpt"
    )
    assert newest(files("c/iter_2000.pt", "c/iter_10000.pt", "c/iter_500.pt")) == "c/iter_10000.pt"


def test_a_checkpoint_named_latest_is_not_taken_for_the_newest():
    listing = files("train/model_epoch_001.pth", "train/dn_model_latest.pth")
    assert newest(listing) == "train/model_epoch_001.pth"
    assert newest(files("train/dn_model_latest.pth")) is None


def test_a_file_without_a_number_is_the_newest_of_a_job_that_is_over_when_it_was_written_last():
    names = ["run/interrupted.pth", "run/epoch_2.pth", "run/epoch_3.pth", "run/interrupted.pth"]
    early, late = files(*names[:3]), files(*names)[1:]
    assert choose_checkpoints(late, "", None, Progress(), math.inf).newest == names[3]
    assert choose_checkpoints(early, "", None, Progress(), math.inf).newest == names[2]
    live = choose_checkpoints([*late, ("log", 1, 2000.0)], "", manifest(late), Progress())
    assert live.newest == names[2], "it may be replaced at any time"


@pytest.mark.parametrize("last", ["run/best.pth", "model.pth", "run/model.safetensors"])
def test_a_copy_or_a_file_of_another_kind_is_not_taken_for_the_newest(last: str):
    listing = files("run/epoch_2.pth", last)
    chosen = choose_checkpoints(listing, "", None, Progress(), math.inf)
    assert chosen.newest == "run/epoch_2.pth"


def test_an_exported_engine_is_nothing_to_train_on():
    assert newest(
        files("train/model_epoch_001.pth", "export/model_epoch_002.onnx", "export/model.engine")
    ) == ("train/model_epoch_001.pth")


def test_the_newest_one_is_never_complete_without_a_manifest():
    found = list_checkpoints(files("train/model_epoch_001.pth", "train/model_epoch_002.pth"))
    assert [each.complete for each in found] == [True, False]


def test_of_files_written_in_the_same_second_none_is_complete_without_a_manifest():
    found = list_checkpoints(
        [("train/model_epoch_001.pth", 9, 5.0), ("train/model_epoch_002.pth", 9, 5.0)]
    )
    assert [each.complete for each in found] == [False, False]


def test_one_that_has_not_the_size_of_the_manifest_is_not_complete():
    listing = files("train/model_epoch_001.pth", "train/model_epoch_002.pth")
    found = list_checkpoints(
        listing, manifest=manifest(listing, **{"train/model_epoch_002.pth": 101})
    )
    assert [each.complete for each in found] == [True, False]


def test_one_that_the_manifest_does_not_know_is_not_complete():
    listing = files("train/model_epoch_001.pth", "train/model_epoch_002.pth")
    found = list_checkpoints(listing, manifest=manifest(listing[:1]))
    assert [each.complete for each in found] == [True, False]


def test_one_that_was_still_being_written_when_the_manifest_was_made_is_not_complete():
    listing = files("train/model_epoch_001.pth")
    unsure = {"files": [{"path": listing[0][0], "size": 100, "mtime": 1000.0, "sha256": ""}]}
    assert [each.complete for each in list_checkpoints(listing, manifest=unsure)] == [False]


def test_a_folder_that_lacks_a_shard_is_not_complete():
    listing = files("c/step_9/model-1-of-2.safetensors", "c/step_9/model-2-of-2.safetensors")
    assert [each.complete for each in list_checkpoints(listing, manifest=manifest(listing))] == [
        True
    ]
    assert [
        each.complete for each in list_checkpoints(listing[:1], manifest=manifest(listing))
    ] == [False]
    assert [
        each.complete for each in list_checkpoints(listing, manifest=manifest(listing[:1]))
    ] == [False]


@pytest.mark.parametrize(
    "broken", [{}, {"files": None}, {"files": "x"}, {"files": [None, {"path": 1}, {"size": 3}]}]
)
def test_a_manifest_that_cannot_be_understood_vouches_for_nothing(broken: dict[str, Any]):
    assert [
        each.complete
        for each in list_checkpoints(files("train/epoch_1.pth", "train/epoch_2.pth"), "", broken)
    ] == [False] * 2


def test_paths_of_the_manifest_are_relative_to_the_results():
    below = files("train/model_epoch_001.pth")
    above = [(f"/data/inputs/job/{path}", size, mtime) for path, size, mtime in below]
    (found,) = list_checkpoints(above, "/data/inputs/job/", manifest(below))
    assert (found.path, found.complete) == ("/data/inputs/job/train/model_epoch_001.pth", True)


def test_the_best_is_the_one_that_says_so():
    found = list_checkpoints(files("train/best.ckpt", "train/model_epoch_002.pth"))
    best = best_of(found, best_epoch(2))
    assert best is not None and best.path == "train/best.ckpt"


def test_else_the_best_is_that_of_the_best_epoch():
    found = list_checkpoints(files(*[f"train/model_epoch_{n:03}.npz" for n in range(1, 21)]))
    best = best_of(found, best_epoch(17, 20))
    assert best is not None and best.path == "train/model_epoch_017.npz"


def test_a_best_epoch_that_left_no_checkpoint_has_no_neighbour_in_its_place():
    found = list_checkpoints(files("train/epoch_5.pth", "train/epoch_10.pth"))
    assert best_of(found, best_epoch(7, 10)) is None
    assert best_of(found, Progress()) is None


@pytest.mark.parametrize(
    ("names", "progress"),
    [
        (["model_epoch_000.pth", "model_epoch_001.pth"], Progress()),
        (["epoch=1-step=20.ckpt", "epoch=2-step=30.ckpt"], Progress()),
        (["model_epoch_001_step_00020.pth"], Progress(epochs=20)),
        (["epoch_1.pth", "epoch_2.pth"], Progress(counts_from_zero=True)),
    ],
)
def test_names_that_count_from_zero_are_seen_to(names: list[str], progress: Progress):
    found = list_checkpoints(files(*names))
    assert counts_from_zero(found, progress)
    second = of_epoch(found, 2, progress)
    assert second is not None and second.epoch == 1


def test_names_that_reach_the_number_of_epochs_count_from_one():
    found = list_checkpoints(files("epoch=19-step=20.ckpt", "epoch=20-step=30.ckpt"))
    assert not counts_from_zero(found, Progress(epochs=20, counts_from_zero=True))


def test_a_name_that_moves_on_is_not_taken_for_an_epoch():
    assert of_epoch(list_checkpoints(files("train/latest_epoch_3.pth")), 3) is None


def test_one_step_of_an_epoch_can_be_asked_for():
    found = list_checkpoints(
        files("epoch_1_iter_10.pth", "epoch_1_iter_20.pth", "epoch_2_iter_30.pth")
    )
    assert [of_epoch(found, 1, step=step) for step in (10, 20, 30)] == [found[0], found[1], None]


def test_what_is_chosen_is_complete():
    names = [f"train/model_epoch_{n:03}.npz" for n in (1, 2, 3)]
    listing = [(f"/runs/j/{path}", size, mtime) for path, size, mtime in files(*names)]
    whole = choose_checkpoints(listing, "/runs/j", manifest(files(*names)), best_epoch(3, 3))
    growing = choose_checkpoints(
        listing, "/runs/j", manifest(files(*names), **{names[2]: 50}), best_epoch(3, 3)
    )
    assert (whole.best, whole.newest) == ("/runs/j/train/model_epoch_003.npz",) * 2
    assert (growing.best, growing.newest) == (None, "/runs/j/train/model_epoch_002.npz")
    assert choose_checkpoints([], "/runs/j", None, Progress()).newest is None


@pytest.mark.parametrize(
    ("exit_code", "asked", "whole"),
    [
        (0, False, 2),
        (0, True, 2),
        (3, True, 2),
        (3, False, 1),
        (1, True, 1),
        (143, True, 1),
        (None, True, 1),
    ],
)
def test_without_a_manifest_what_a_command_wrote_before_it_ended_by_itself_is_whole(
    exit_code: int | None, asked: bool, whole: int
):
    files = [("r/model_epoch_1.pth", 5, 100.0), ("r/model_epoch_2.pth", 5, 119.0)]
    settled = settled_at(120.0, exit_code, asked)
    assert sum(each.complete for each in list_checkpoints(files, "r", None, settled)) == whole
    later = settled_at(130.0, exit_code, asked)
    assert all(each.complete for each in list_checkpoints(files, "r", None, later))


@pytest.mark.parametrize(
    "pattern",
    ["model_0{}.pt", "weights.0{}.h5", "ckpts/ckpt_{}.pth", "checkpoint-{}.pt", "model-{}.pt"],
)
def test_a_bare_number_is_an_epoch_where_it_fits_the_epochs_of_the_job(pattern: str) -> None:
    listing = files(*[pattern.format(number) for number in (1, 2, 3)])
    assert choose_checkpoints(listing, "", None, best_epoch(2, 3)).best is None, "3 is not reached"
    progress = Progress(epoch=3, epochs=3, best=Best(2, "accuracy", 0.9))
    assert choose_checkpoints(listing, "", None, progress).best == pattern.format(2)
    told = with_epochs(list_checkpoints(listing), progress)
    assert [(each.epoch, each.step) for each in told] == [(1, None), (2, None), (3, None)]


@pytest.mark.parametrize(
    "names",
    [
        ("model_v2.pt", "model_v3.pt"),
        ("model_2.pt",),
        ("yolo11.pt", "weights/resnet50.pth"),
        ("checkpoint-500/model.safetensors", "checkpoint-1000/model.safetensors"),
        ("checkpoint-1.pt", "checkpoint-500.pt"),
        ("model_3.pt", "model_1.pt", "model_2.pt"),
        ("epoch_1.pt", "model_2.pt", "model_3.pt"),
    ],
)
def test_a_version_or_a_step_is_no_epoch(names: tuple[str, ...]) -> None:
    found = list_checkpoints(files(*names))
    progress = Progress(epoch=3, epochs=3)
    assert with_epochs(found, progress) == found


def test_a_single_file_with_the_number_of_the_newest_epoch_is_of_that_epoch() -> None:
    listing = [*files("weights.03.h5"), ("final.h5", 100, 2000.0), ("last.h5", 100, 3000.0)]
    chosen = choose_checkpoints(listing, "", None, best_epoch(3, 3))
    assert (chosen.best, chosen.newest) == ("weights.03.h5", "final.h5")


def improving(epochs: int) -> Progress:
    history = tuple(EpochMetrics(n, {"accuracy": n / 10}) for n in range(1, epochs + 1))
    best = Best(epochs, "accuracy", epochs / 10)
    return Progress(epoch=epochs, epochs=9, best=best, history=history)


def test_while_the_newest_epoch_is_the_best_and_not_whole_the_best_so_far_is_chosen():
    names = [f"train/model_epoch_{n:03}.npz" for n in (1, 2, 3)]
    two, three = files(*names[:2]), files(*names)
    half_written = choose_checkpoints(three, "", manifest(two), improving(3))
    not_there_yet = choose_checkpoints(two, "", manifest(two), improving(3))
    assert (half_written.best, not_there_yet.best) == (names[1], names[1])


def test_a_job_that_is_over_has_no_best_checkpoint_where_that_of_the_best_epoch_was_not_kept():
    names = [f"train/model_epoch_{n:03}.npz" for n in (1, 2)]
    assert choose_checkpoints(files(*names), "", None, improving(3), settled=math.inf).best is None


def test_a_checkpoint_folder_of_hugging_face_is_never_one_of_an_epoch():
    names = [f"train/checkpoint-{n}/model.safetensors" for n in (1, 2, 3)]
    found = with_epochs(list_checkpoints(files(*names)), improving(3))
    assert [(each.epoch, each.step) for each in found] == [(None, 1), (None, 2), (None, 3)]
    assert choose_checkpoints(files(*names), "", manifest(files(*names)), improving(3)).best is None


@pytest.mark.parametrize(
    ("names", "epoch", "chosen"),
    [
        (("train/m_01.npz", "train/m_02.npz", "train/m_03.npz"), 3, "train/m_02.npz"),
        (("ckpt/net-1.pt", "ckpt/net-2.pt"), 2, "ckpt/net-2.pt"),
        (("train/m_02.npz", "train/m_04.npz"), 5, "train/m_02.npz"),  # every second one
        (("train/m_01.npz", "train/m_02.npz"), 3, "train/m_02.npz"),  # the third is to come
        (("train/m_01.npz", "train/m_03.npz"), 3, None),  # not every one
        (("train/m_01.npz", "train/m_02.npz"), 9, None),  # not up to the newest epoch
        (("train/m_02.npz",), 2, None),  # a single one tells nothing
        (("train/fold_1.npz", "train/fold_2.npz"), 2, None),
        (("train/net_v_1.pt", "train/net_v_2.pt"), 2, None),
    ],
)
def test_a_number_behind_any_word_is_an_epoch_where_the_files_count_the_epochs(
    names: tuple[str, ...], epoch: int, chosen: str | None
) -> None:
    progress = Progress(epoch=epoch, epochs=9, best=Best(2, "accuracy", 0.9))
    found = with_epochs(list_checkpoints(files(*names)), progress)
    best = of_epoch(found, 2, progress)
    assert (best.path if best else None) == chosen
