import io

import numpy as np
import pytest
from PIL import Image

from cutlayer.errors import ConfigError
from cutlayer.report.plots import reconstructions, trade_off

ROW = {
    "defence": "none",
    "strength": "",
    "attack": "norm-score",
    "attacker": "shop",
    "target": "labels",
    "victim": "bank",
    "metric": "auc",
    "value": 0.9,
    "baseline": 0.5,
    "low": 0.85,
    "high": 0.95,
    "accuracy": 0.97,
    "utility_metric": "accuracy",
}
NAN = float("nan")


def opened(path):
    with Image.open(path) as image:
        image.load()
        assert image.format == "PNG"
        return image.copy()


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [ROW],
        [ROW, ROW | {"defence": "noise", "value": 0.6, "low": 0.5, "high": 0.7, "accuracy": 0.9, "baseline": 0.55}],
        [ROW | {"attack": f"attack-{n}", "defence": f"defence-{n}"} for n in range(9)],
        [ROW | {"task": "a task", "metric": "mse", "value": 0.01, "low": 0.01, "high": 0.01, "baseline": 0.07}],
        [ROW, ROW | {"attack": "binary", "value": NAN, "low": NAN, "high": NAN, "baseline": NAN, "victim": ""}],
    ],
)
def test_trade_off_writes_a_png_for_any_findings(rows, tmp_path):
    trade_off(rows, tmp_path / "plot.png")
    assert min(opened(tmp_path / "plot.png").size) > 300


def test_trade_off_is_drawn_to_a_stream_too_and_is_repeatable():
    first, second = io.BytesIO(), io.BytesIO()
    trade_off([ROW], first)
    trade_off([ROW], second)
    assert first.getvalue() == second.getvalue() and first.getvalue().startswith(b"\x89PNG")


@pytest.mark.parametrize("colours", [(), (3,)])
def test_reconstructions_writes_a_line_per_defence(colours, tmp_path):
    images = np.random.default_rng(0).random((4, 8, 8, *colours))
    reconstructions(images, {}, tmp_path / "one.png")
    guesses = {"none": images, "a defence with a long name:std=0.1": 1 - images}
    reconstructions(images, guesses, tmp_path / "three.png", own_columns=4, notes={"none": "error 0"})
    assert opened(tmp_path / "three.png").height > 2 * opened(tmp_path / "one.png").height


def test_reconstructions_refuses_guesses_of_another_shape(tmp_path):
    with pytest.raises(ConfigError, match="'none'"):
        reconstructions(np.zeros((4, 8, 8)), {"none": np.zeros((4, 8, 4))}, tmp_path / "plot.png")
