"""Trackers get every finding; they are asked for before work begins, and their absence is one sentence."""

import sys
from types import SimpleNamespace

import pytest

from cutlayer.errors import ConfigError
from cutlayer.experiment.track import figures, tracked
from tests.helpers import synthetic_record as synthetic


@pytest.fixture(scope="module")
def record():
    return synthetic.record()


def test_mlflow_gets_every_finding(record, monkeypatch):
    sent = {}
    context = type("Run", (), {"__enter__": lambda self: self, "__exit__": lambda self, *error: None})
    fake = SimpleNamespace(
        set_tracking_uri=lambda uri: sent.update(uri=uri),
        set_experiment=lambda name: sent.update(experiment=name),
        start_run=lambda run_name: context(),
        log_params=lambda params: sent.update(params=params),
        log_metric=lambda name, value: sent.setdefault("metrics", {}).update({name: value}),
    )
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    with tracked("mlflow:file:somewhere") as log:
        log(record)
    assert sent["uri"] == "file:somewhere" and sent["experiment"] == "cutlayer"
    assert sorted(sent["metrics"].values()) == sorted(figures(record).values())
    assert all(character.isalnum() or character in " _-./" for name in sent["metrics"] for character in name)


def test_tensorboard_gets_every_finding(record, monkeypatch):
    written = {}

    class Writer:
        def __init__(self, folder):
            written["folder"] = folder

        def add_scalar(self, name, value):
            written[name] = value

        def close(self):
            written["closed"] = True

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=Writer))
    with tracked("tensorboard:logs") as log:
        log(record)
    assert written["folder"] == "logs" and written["closed"] and len(written) == len(figures(record)) + 2


def test_nothing_is_tracked_unless_asked(record):
    with tracked(None) as log:
        log(record)


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("mlflow:x", "MLflow is not installed"),
        ("tensorboard:x", "TensorBoard is not installed"),
        ("mlflow", "no place"),
    ],
)
def test_what_is_missing_is_said_before_work_begins(where, text, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError, match=text), tracked(where):
        raise AssertionError
