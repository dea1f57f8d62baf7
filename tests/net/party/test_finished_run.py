"""A finished run is read back as training wrote it, or refused in one sentence."""

import pytest
from safetensors.torch import load_file, save_file

from cutlayer.errors import CutlayerError, RunError
from cutlayer.net.party.finished_run import FinishedRun
from cutlayer.net.party.party_file import read_file
from cutlayer.net.predict.row_index import row_index_of
from tests.helpers.prediction import trained_federation


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda folder: (folder / "run.json").unlink(), "finished run"),
        (lambda folder: (folder / "serving.json").unlink(), "serving.json"),
        (lambda folder: (folder / "fitted.json").write_text("{}"), "encoding of a table"),
        (lambda folder: (folder / "models/shop.bottom.safetensors").unlink(), "found none"),
        (lambda folder: (folder / "models/shop.bottom.safetensors").write_bytes(b"x"), "as training wrote it"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_sentence(tmp_path, spoil, says):
    files, _session, _ids = trained_federation(tmp_path)
    spoil(tmp_path / "shop-run")
    with pytest.raises(CutlayerError, match=says):
        run = FinishedRun.read(files["shop"])
        run.party(row_index_of(run).features)


def test_a_model_that_was_changed_is_refused(tmp_path):
    files, _session, _ids = trained_federation(tmp_path)
    path = tmp_path / "shop-run/models/shop.bottom.safetensors"
    save_file({key: value + 1 for key, value in load_file(path).items()}, path)
    run = FinishedRun.read(files["shop"])
    with pytest.raises(RunError, match="sha256"):
        run.party(row_index_of(run).features)


def test_another_manifest_than_that_of_training_is_refused(tmp_path):
    _files, _session, _ids = trained_federation(tmp_path)
    path = tmp_path / "shop.toml"
    path.write_text(path.read_text().replace("epochs = 3", "epochs = 4"))
    with pytest.raises(RunError, match=r"epochs: here 3, at shop\.toml 4"):
        FinishedRun.read(read_file(path))
