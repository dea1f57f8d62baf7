"""SFA's tables: networks of six layers however they are cut, equal sums, and a table that fills itself on digits."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from torch import nn

import cutlayer as cl
from cutlayer.experiment.work import work
from cutlayer.models import named
from cutlayer.papers.reproduce import reproduce
from cutlayer.papers.sfa import tables as sfa

LAYERS = (nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Dropout)
BLOCKED = ("polars", "seal", "gmpy2")


@pytest.mark.parametrize("method", ["SplitNN", "SFA-NN"])
@pytest.mark.parametrize("height", [1, 2, 3, 4, 5])
def test_a_network_has_six_layers_of_width_256_wherever_it_is_cut(method, height):
    job = sfa.job("fashion-mnist", method, height, False)
    features = cl.data.digits().features["party1"]
    bottom = named.bottom(job.bottom)(features, job.width)
    top = named.top(job.top)(job.width, 10)
    kinds = {kind: [[m for m in model.modules() if isinstance(m, kind)] for model in (bottom, top)] for kind in LAYERS}
    assert [len(layers) for layers in kinds[nn.Linear]] == [height, 6 - height]
    for kind in LAYERS[1:]:  # between any two layers; the one at the cut belongs to the top
        assert [len(layers) for layers in kinds[kind]] == [height - 1, 6 - height], kind
    assert all(layer.out_features == 256 for layer in (kinds[nn.Linear][0] + kinds[nn.Linear][1])[:-1])
    assert all(layer.p == 0.3 for layers in kinds[nn.Dropout] for layer in layers)
    assert kinds[nn.Linear][1][-1].out_features == 10


def test_table_2_shows_longer_and_faster_training_and_the_learning_rate_stays():
    cells = sfa.tables(False)["2"]
    settings = {(c.setting, c.job.epochs, c.job.lr) for c in cells}
    assert settings == {("8 epochs", 8, 1e-3), ("50 epochs", 50, 1e-3), ("8 epochs, lr 0.01", 8, 1e-2)}
    assert all(cell.job.drop_every > cell.job.epochs and cell.job.weight_decay == 0 for cell in cells)
    assert {cell.method: cell.job.cut for cell in cells} == sfa.CUTS


def test_figures_share_trainings():
    tables = sfa.tables(False)
    trained = {cell.job for cell in tables["figure 5a"]}
    for name in ("figure 2", "figure 5b", "grn-epochs", "mask"):
        assert {cell.job for cell in tables[name]} <= trained, name
    assert len({cell.job for cells in tables.values() for cell in cells}) == 33


def test_methods_differ_in_the_cut_alone():
    central, secure = (sfa.job("newsgroups", method, 1, False) for method in ("Centralized", "SFA-NN"))
    assert replace(secure, cut="sum") == central
    split, secure = (replace(sfa.job("fashion-mnist", m, 4, False), attacks=()) for m in ("SplitNN", "SFA-NN"))
    assert replace(secure, cut="concat") == split


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """All that digits can fill, at two epochs of training and of GRN."""
    folder = tmp_path_factory.mktemp("sfa")
    with pytest.MonkeyPatch.context() as patch:
        real = sfa.job
        patch.setattr(sfa, "job", lambda *a, **k: replace(real(*a, **k), epochs=2))
        patch.setattr(cl.attacks.Grn.__init__, "__kwdefaults__", cl.attacks.Grn.__init__.__kwdefaults__ | {"epochs": 2})
        patch.setattr(sfa, "EPOCHS", (1, 2))
        return reproduce("sfa", datasets=["digits"], quick=True, folder=folder)


def test_every_cell_is_filled_on_digits(rows):
    assert set(rows) == {"figure 2", "figure 5a", "figure 5b", "grn-epochs", "mask"}
    assert [row for lines in rows.values() for row in lines if row["ours"] is None] == []
    baselines = {row["method"]: row["ours"] for row in rows["figure 5b"]}
    assert baselines["zeros"] > baselines["mean row"] > baselines[next(name for name in baselines if "control" in name)]
    errors = {row["method"]: row["ours"] for row in rows["mask"]}
    assert errors["embeddings beyond own columns"] < 1e-4 < errors["W_mask"]


PROGRAM = """
import sys
sys.modules |= dict.fromkeys({blocked!r})
from dataclasses import replace
from cutlayer.papers.sfa import tables as sfa
from cutlayer.experiment.work import work
job = replace(sfa.job("digits", "SFA-NN", 2, True, 4), epochs=1, attacks=(), checks=())
print(next(work(job.unit()))["metrics"]["accuracy"])
"""


def test_simulation_needs_no_homomorphic_encryption():
    program = PROGRAM.format(blocked=BLOCKED)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=Path(__file__).parents[3], timeout=120
    )
    assert done.returncode == 0, done.stderr
    job = replace(sfa.job("digits", "SFA-NN", 2, True, 4), epochs=1, attacks=(), checks=())
    assert float(done.stdout) == next(work(job.unit()))["metrics"]["accuracy"]  # masks follow from the seed
