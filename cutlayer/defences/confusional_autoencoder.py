"""Confusional autoencoder: train on soft labels that hide the class, and decode predictions again."""

from copy import deepcopy
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor, nn

from cutlayer._validate import at_least, non_negative, positive
from cutlayer.defence import Defence, Role, Setting, Subject
from cutlayer.draws import Draws
from cutlayer.errors import ConfigError
from cutlayer.rng import first_weights

WIDEST = 4096  # hidden units, unless more are asked for
SHARPNESS = 0.025  # the authors' temperature


class ConfusionalAutoencoder(Defence):
    """Replace each class by a soft label that an encoder drew up for it; the label party alone can decode it.

    An encoder and a decoder, each with one hidden layer and softmax, learn to minimise
    10 CE(decoded, y) - CE(soft, y) - weight * H(soft): a class must come back, its soft label must not name it, and
    should be as even as can be (the stored script of the authors flips the sign of the last term; here entropy is
    maximised, summed over classes). The top trains on soft labels; in evaluation its outputs are
    log decoder(softmax(logits)), so that the largest is the class. The decoder is kept with the top and not trained.
    Everything is drawn from the label party's private seed, before training.

    `samples=none` trains on the C one-hot vectors, which are all that is encoded (as FATE does), for `epochs=none`:
    500, in a second or two. A number trains on that many rows softmax(U(0, 1)^C / `temperature`) in batches of 128, for
    75 epochs: the authors' way, with 30000 and 0.025, which takes about two minutes at 10 classes and ends at like
    soft labels. `hidden=none` is (6 C + 2)^2, at most 4096.

    The second CE takes log softmax of what is a softmax already. The authors' code does so in both CE. That bounds it:
    taken literally the second term has no bound and wins, so that two classes just swap names, whatever `weight` is,
    and of ten some may no longer be told apart. In the first CE it would be too weak a pull from 30 classes on
    (both measured), so that one is taken literally.

    Protects: labels; the label party applies it.
    Guarantee: none (heuristic).
    Does not hide: which rows are of one class: all get the same soft label, so that gradients cluster as before, and
    one known label per cluster gives all away (model completion). With two classes the soft labels are mirrored.
    Specification: baselines, section 10 (CAE).
    Paper: Zou et al., Defending Batch-Level Label Inference and Replacement Attacks in Vertical Federated Learning
    (IEEE TBDATA 2022; arXiv:2112.05409); CoAE in FATE.
    """

    strengths: ClassVar[tuple[str, ...]] = ("weight=0.5", "weight=1.0", "weight=2.0")

    def __init__(
        self,
        *,
        weight: float = 1.0,
        hidden: int | None = None,
        samples: int | None = None,
        temperature: float | None = None,
        epochs: int | None = None,
    ) -> None:
        non_negative("weight", weight)
        for name, value in (("hidden", hidden), ("samples", samples), ("epochs", epochs)):
            if value is not None:
                at_least(name, value, 1)
        if temperature is not None:
            positive("temperature", temperature)
            if samples is None:
                raise ConfigError(f"Expected temperature={temperature} only beside samples; set samples=30000.")
        self.weight = weight
        self.hidden = hidden
        self.samples = samples
        self.temperature = temperature
        self.epochs = epochs

    def labels(self, labels: Tensor, setting: Setting) -> Tensor:
        """Return each row's soft label."""
        if setting.role is not Role.LABEL_PARTY:
            return labels
        soft, _ = self._trained(setting)
        if labels.ndim != 1 or labels.is_floating_point():
            raise ConfigError(
                "Expected class numbers to encode; put confusional-autoencoder after defences that draw class "
                "numbers and leave out others that make soft labels."
            )
        return soft.to(labels.device)[labels]

    def model(self, model: nn.Module, setting: Setting) -> nn.Module:
        """Let the top decode what it predicts."""
        if setting.role is not Role.LABEL_PARTY or setting.subject is not Subject.TOP:
            return model
        return Decoded(model, deepcopy(self._trained(setting)[1]), setting.classes)

    def _trained(self, setting: Setting) -> tuple[Tensor, nn.Module]:
        classes = setting.classes
        if classes == 0:
            raise ConfigError("Expected classes to encode, got a regression task; leave confusional-autoencoder out.")
        return autoencoder(
            classes,
            weight=self.weight,
            hidden=self.hidden or min((6 * classes + 2) ** 2, WIDEST),
            samples=self.samples,
            temperature=self.temperature or SHARPNESS,
            epochs=self.epochs or (500 if self.samples is None else 75),
            seed=setting.private_seed,
        )


class Decoded(nn.Module):
    """A top that predicts soft labels in training, and classes in evaluation."""

    def __init__(self, top: nn.Module, decoder: nn.Module, classes: int) -> None:
        super().__init__()
        self.top = top
        self.decoder = decoder.requires_grad_(False)
        self.classes = classes

    def forward(self, joint: Tensor) -> Tensor:
        """Run the top, and decode in evaluation."""
        outputs: Tensor = self.top(joint)
        if self.training or outputs.shape[1] != self.classes:  # a top of other width cannot be trained on soft labels
            return outputs
        decoded: Tensor = self.decoder(outputs.softmax(dim=1))
        return decoded.log_softmax(dim=1)


@lru_cache(maxsize=32)
def autoencoder(
    classes: int,
    *,
    weight: float,
    hidden: int,
    samples: int | None,
    temperature: float,
    epochs: int,
    seed: int,
) -> tuple[Tensor, nn.Module]:
    """Return the soft label of each class and the decoder, less its softmax. Kept: do not change what is returned."""
    rows, draws = torch.eye(classes), Draws(seed, "confusional-autoencoder")
    with first_weights(draws):
        encoder, decoder = _layers(classes, hidden), _layers(classes, hidden)
    with torch.enable_grad():
        if samples is not None:
            rows = (draws.uniform((samples, classes)).float() / temperature).softmax(dim=1)
        rate = 1e-3 if samples is None else 5e-4
        optimiser = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=rate)
        for _ in range(epochs):
            for batch in rows[draws.permutation(len(rows))].split(128) if samples else (rows,):
                loss = confusion(encoder(batch), decoder, batch, weight)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
    with torch.no_grad():
        soft: Tensor = encoder(torch.eye(classes)).softmax(dim=1)
        decoded = decoder(soft).argmax(dim=1)
    if not torch.equal(decoded, torch.arange(classes)):
        right = int((decoded == torch.arange(classes)).sum())
        raise ConfigError(
            f"Expected confusional-autoencoder to decode all {classes} classes, got {right} right after "
            f"epochs={epochs}; raise epochs, or lower weight={weight:g}."
        )
    return soft, decoder.requires_grad_(False)


def confusion(encoded: Tensor, decoder: nn.Module, rows: Tensor, weight: float) -> Tensor:
    """10 CE(decoded, y) - CE(soft, y) - weight * H(soft), from the encoder's outputs before softmax."""
    soft = encoded.softmax(dim=1)
    decoded: Tensor = decoder(soft)
    restored = -(rows * decoded.log_softmax(dim=1)).sum(dim=1).mean()
    confused = -(rows * soft.log_softmax(dim=1)).sum(dim=1).mean()
    entropy = -(soft * encoded.log_softmax(dim=1)).sum(dim=1).mean()
    return 10 * restored - confused - weight * entropy


def _layers(classes: int, hidden: int) -> nn.Sequential:
    first, last = nn.Linear(classes, hidden), nn.Linear(hidden, classes)
    for layer in (first, last):
        nn.init.normal_(layer.weight, std=0.01)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(first, nn.ReLU(), last)
