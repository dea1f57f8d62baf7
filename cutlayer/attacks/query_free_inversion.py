"""Query-free inversion: train a substitute for the victim's bottom before the attacker's own top, and invert that."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy

from cutlayer._validate import at_least, non_negative, positive
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.attacks.tools.inversion import descend, is_image, total_variation
from cutlayer.attacks.tools.reading import predicted, white_box
from cutlayer.blocks.sparse import SparseRows
from cutlayer.cut import Cut
from cutlayer.defence import Role
from cutlayer.errors import ConfigError, Inapplicable
from cutlayer.rng import Stream
from cutlayer.view import Manifest, Shadow, View

RATE, HALVED, BATCH = 1e-3, 10, 64  # of the substitute: Adam, the rate halved every so many epochs


class QueryFreeInversion(Attack):
    """Invert messages with a substitute for the victim's bottom, trained on shadow rows (FedAdOb's BMI).

    The label party leaves its trained top as it is and trains bottoms of the feature parties' form before it, with
    fresh weights, on `shadow` labelled rows (cross-entropy, Adam, `epochs`): the top makes them send nearly
    what the true ones send. It then inverts the victim's messages with the victim's substitute, in `steps` steps.
    Each row minimises mean((f(x) - H)^2) / mean(H^2) + tv * TV(x) + l2 * mean((x - m)^2) / v, from m, the mean shadow
    row; v is the variance of shadow rows. TV is that of `model-inversion`. Images stay inside [0, 1]; rows of tables
    are not bounded. Of a defence the substitute knows only what is built into the form.

    The paper has no m and searches from zero with lr=0.1, tv=2, l2=0 and an error that is not relative. A substitute
    is not exact, and what is fitted to its errors has to be held back: without m most guesses are worse than m.
    The defaults were set on halves of digits of 8 pixels; finer images bear a larger tv (28 pixels: 3 to 10).

    Sees: the embeddings of the first `images` test rows that are not shadow rows, sent in the prediction phase.
    Needs: `shadow` complete rows that are not trained on; the form of all bottoms, not their weights; dense inputs.
    Cost: 1 minute on MNIST on a CPU for 100 images and 1,000 steps (results/fedadob-horizontal).
    Specification: baselines, section 3; fedadob, section 4. The pull towards m is ours.
    Paper: He et al., Model Inversion Attacks Against Collaborative Inference (ACSAC 2019), the query-free attack.
    """

    target: ClassVar[Target] = Target.FEATURES
    by: ClassVar[Role] = Role.LABEL_PARTY
    settings: ClassVar[tuple[str, ...]] = ("shadow=70,steps=200", "shadow=1000")

    def __init__(
        self,
        *,
        shadow: int = 1000,
        images: int = 100,
        epochs: int = 50,
        steps: int = 500,
        lr: float = 0.05,
        tv: float = 1.0,
        l2: float = 0.2,
    ) -> None:
        at_least("shadow", shadow, 2)
        for name, count in (("images", images), ("epochs", epochs), ("steps", steps)):
            at_least(name, count, 1)
        positive("lr", lr)
        non_negative("tv", tv)
        non_negative("l2", l2)
        self.shadow = shadow
        self.images = images
        self.epochs = epochs
        self.steps = steps
        self.lr = lr
        self.tv = tv
        self.l2 = l2

    @property
    def asks(self) -> Asks:
        """Shadow rows and the form of bottoms."""
        return Asks(shadow=self.shadow, form=True)

    def applies(self, manifest: Manifest) -> str | None:
        """The substitute learns from classes."""
        return "classes-only" if manifest.classes == 0 else None

    def run(self, view: View, rng: Generator) -> Guess:
        """Train substitutes, then invert the victim's messages with its own."""
        shadow, test = view.hints.shadow, view.manifest.test
        if shadow is None or not view.hints.forms:
            raise ConfigError(f"Expected shadow rows and the form of all bottoms as hints; {self.name} needs them.")
        wanted = test[~torch.isin(test, shadow.rows)][: self.images]
        if not len(wanted):
            raise Inapplicable(f"all test rows are shadow rows: set shadow below {len(test)}")
        rows, embeddings = predicted(view, view.victim, wanted)
        seed = int(torch.randint(2**62, (), generator=rng))
        substitutes, device = self.substitutes(view, shadow, seed)
        bottom, shape = _taken_for(view, substitutes, view.victim)
        known, target = shadow.features[view.victim].to(device), embeddings.to(device)

        def objective(x: Tensor) -> Tensor:
            return self._objective(bottom, x, target, known)

        start = known.mean(dim=0).expand(len(rows), *shape)
        with Stream(seed, "search", device=device).scope():  # a bottom may draw numbers of its own
            box = (0.0, 1.0) if is_image(shape) else None
            guess, _ = descend(objective, start, steps=self.steps, lr=self.lr, eps=1e-3, box=box)
        return Guess(rows, guess.cpu(), Form.VALUES)

    def substitutes(self, view: View, shadow: Shadow, seed: int) -> tuple[dict[str, nn.Module], torch.device]:
        """Bottoms for all feature parties, trained together before the frozen top; and the device that it is on."""
        own, cut, roster = view.own[view.attacker], view.manifest.cut, view.manifest.roster
        if type(cut).gather is not Cut.gather:
            raise Inapplicable("plain cuts only")
        if own.top is None:
            raise ConfigError("Expected the label party to attack; it alone holds the top model.")
        if isinstance(own.features, SparseRows):
            raise Inapplicable("dense-only")
        if own.bottom is not None and view.attacker not in roster.order:  # horizontal learning that shares it
            raise Inapplicable("the bottom is shared: model-inversion has it")
        for name in roster.feature_parties:
            _taken_for(view, view.hints.forms, name)
        top = copy.deepcopy(own.top).requires_grad_(False)
        device = next((p.device for p in top.parameters()), torch.device("cpu"))
        models = {name: copy.deepcopy(view.hints.forms[name]).to(device).train() for name in roster.feature_parties}
        inputs = {name: shadow.features[name].to(device) for name in roster.order}
        labels = shadow.labels.to(device)
        parameters = [p for model in models.values() for p in model.parameters() if p.requires_grad]
        if not parameters:  # then their form is all there is to know
            return models, device
        optimizer = torch.optim.Adam(parameters, lr=RATE)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, HALVED, 0.5)
        with Stream(seed, "substitute", device=device).scope():
            fixed = {}
            if own.bottom is not None:
                with torch.no_grad():
                    fixed[view.attacker] = copy.deepcopy(own.bottom)(inputs[view.attacker])
            for _ in range(self.epochs):
                for part in torch.randperm(len(labels), device=device).split(BATCH):
                    if len(part) == 1:  # batch norm has no spread of one row
                        continue
                    parts = [fixed[n][part] if n in fixed else models[n](inputs[n][part]) for n in roster.order]
                    optimizer.zero_grad()
                    cross_entropy(top(cut.join(parts)), labels[part]).backward()
                    optimizer.step()
                schedule.step()
        return models, device

    def _objective(self, bottom: nn.Module, x: Tensor, target: Tensor, known: Tensor) -> Tensor:
        """One number per row: how far it is from its message, how rough, and how far from the mean known row."""
        size, spread = target.pow(2).mean(), known.var(dim=0).mean()
        value: Tensor = (bottom(x) - target).pow(2).flatten(1).mean(dim=1) / size.where(size > 0, 1.0)
        if is_image(tuple(x.shape[1:])):
            value = value + self.tv * total_variation(x)
        far = (x - known.mean(dim=0)).pow(2).flatten(1).mean(dim=1)
        return value + self.l2 * far / spread.where(spread > 0, 1.0)


def _taken_for(view: View, models: Mapping[str, nn.Module], name: str) -> tuple[nn.Module, tuple[int, ...]]:
    """A frozen copy of a party's model among these, as if it were the true one, and the shape of the party's rows."""
    return white_box(replace(view, hints=replace(view.hints, bottoms=models), victim=name))
