import builtins
import subprocess
import sys

import pytest
import torch

from cutlayer.errors import ConfigError
from cutlayer.models import Bert

IDS = torch.tensor([[5, 9, 3, 0, 0], [7, 2, 0, 0, 0]])


def tiny(**arguments) -> Bert:
    return Bert(**{"width": 4, "layers": 2, "hidden": 16, "heads": 2, "vocabulary": 50} | arguments)


def test_bert_ignores_padding():
    model = tiny().eval()
    output = model(IDS)
    assert output.shape == (2, 4)
    torch.testing.assert_close(model(IDS[:, :3]), output)
    changed = IDS.clone()
    changed[0, 2] = 30
    assert not torch.allclose(model(changed)[0], output[0])


def test_bert_stays_finite_on_an_empty_text():
    assert tiny()(torch.zeros(2, 5, dtype=torch.int64)).isfinite().all()


def test_a_frozen_bert_trains_its_last_layer_alone():
    model = tiny(freeze=True)
    model(IDS).sum().backward()
    assert {name for name, part in model.named_parameters() if part.grad is not None} == {
        "fc.weight",
        "fc.bias",
    }


def test_bert_reads_weights_from_a_local_folder(tmp_path):
    stored = tiny().eval()
    stored.encoder.save_pretrained(tmp_path)
    model = Bert(4, weights=str(tmp_path)).eval()
    model.fc.load_state_dict(stored.fc.state_dict())
    torch.testing.assert_close(model(IDS), stored(IDS))


def test_bert_never_downloads(tmp_path):
    with pytest.raises(ConfigError, match="nothing is downloaded"):
        Bert(4, weights="bert-base-uncased")
    tiny().encoder.config.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="to hold a BERT in safetensors form"):
        Bert(4, weights=str(tmp_path))


def test_without_transformers_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest, **more):
        if name == "transformers":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ConfigError, match=r"install cutlayer\[text\]"):
        tiny()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"width": 0}, "Expected width=0"),
        ({"layers": 0}, "Expected layers=0"),
        ({"heads": 3}, "Expected hidden=16 to be a multiple of heads=3"),
        ({"dropout": 2.0}, "Expected dropout=2.0"),
    ],
)
def test_wrong_bert_arguments_are_named(arguments, sentence):
    with pytest.raises(ConfigError, match=sentence):
        tiny(**arguments)


def test_transformers_is_imported_only_when_needed():
    code = "import sys, cutlayer.models; dir(cutlayer.models); sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
