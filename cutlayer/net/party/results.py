"""Results: what a party says of a finished training, and the models that it saves."""

from collections.abc import Mapping

from safetensors.torch import save
from torch import Tensor

from cutlayer import checkpoint
from cutlayer.metrics import utility
from cutlayer.net.party.own_data import AlignedData
from cutlayer.net.party.run_folder import RunFolder
from cutlayer.party import FeatureParty, LabelParty
from cutlayer.plan import target_scale

Parties = Mapping[str, FeatureParty | LabelParty]


def score(data: AlignedData, outputs: Tensor) -> dict[str, float]:
    """How well the label party's outputs fit its test rows."""
    assert data.labels is not None and data.goal is not None
    labels = data.labels[data.test].numpy()
    if data.classes:
        return utility.classification(labels, outputs.numpy())
    mean, spread = target_scale(data.labels, data.goal, data.train)
    return utility.regression(labels, (outputs * spread + mean).numpy()[:, 0])


def model_digests(parties: Parties) -> dict[str, str]:
    """The sha256 of every model, by party and part."""
    return {
        f"{name}.{part}": checkpoint.digest(module)
        for name, party in parties.items()
        for part, module in party.modules.items()
    }


def save_models(folder: RunFolder, parties: Parties) -> None:
    """Write every model into the folder's `models`."""
    models = folder.path / "models"
    models.mkdir(exist_ok=True)
    for name, party in parties.items():
        for part, module in party.modules.items():
            state = {key: value.contiguous().cpu() for key, value in module.state_dict().items()}
            folder.write(models / f"{name}.{part}.safetensors", save(state))
