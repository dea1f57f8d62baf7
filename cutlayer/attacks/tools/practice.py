"""Practice: an attacker rehearses on shadow data and teaches a network what its own records say."""

import copy
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import ceil
from typing import ClassVar, Literal, get_args

import torch
from torch import Generator, Tensor, nn

from cutlayer._validate import at_least, one_of, positive
from cutlayer.attack import Asks, Attack
from cutlayer.attacks.tools.records import Parameters, Records, write_records
from cutlayer.blocks.patience import since_best
from cutlayer.defence import Role
from cutlayer.errors import ConfigError, Inapplicable
from cutlayer.rng import Stream
from cutlayer.view import Shadow, View

BATCH = 64
PATIENCE = 5  # rounds without a lower error on the rows held out
HELD_OUT = 10  # one shadow row in so many is not trained on but says when to stop
FAR = 10.0  # standard deviations: numbers further out say no more than that
FirstWeights = Literal["own", "shared"]


class Reader:
    """A network (ReLU, He's uniform start) from standardised records to classes, or to the victim's rows."""

    def __init__(self, hidden: Sequence[int], practised: Records, classes: int = 0, device: str = "cpu") -> None:
        self.hidden, self.practised, self.classes, self.device = hidden, practised, classes, torch.device(device)
        scales = [_standard(part) for part in (practised.each, practised.shared)]
        self.middle, self.spread = (practised.joined(*parts).to(device) for parts in zip(*scales, strict=True))

    def learn(self, truth: Tensor, rounds: int, rate: float) -> "Reader":
        """Fit to the truth of shadow rows; keep the round that did best on rows held out. Draws from torch's stream."""
        known, values = self.practised.to(self.device), (truth if self.classes else truth.flatten(1)).to(self.device)
        self.net = self._network(known.width, self.classes or values.shape[1])
        out = torch.isin(self.practised.rows, torch.randperm(len(truth))[: max(1, len(truth) // HELD_OUT)])
        used, held = (~out).nonzero()[:, 0], out.nonzero()[:, 0].to(self.device)
        loss = nn.CrossEntropyLoss() if self.classes else nn.MSELoss()
        optimizer = torch.optim.Adam(self.net.parameters(), lr=rate)
        kept, errors = copy.deepcopy(self.net.state_dict()), list[float]()
        for _ in range(rounds):
            for part in used[torch.randperm(len(used))].to(self.device).split(BATCH):
                optimizer.zero_grad()
                loss(self.net(self._scaled(known, part)), values[known.rows[part]]).backward()
                optimizer.step()
            errors.append(float(loss(self._outputs(known, held), values[known.rows[held]])))
            if (waited := since_best(errors)) == 0:
                kept = copy.deepcopy(self.net.state_dict())
            if waited >= PATIENCE:
                break
        self.net.load_state_dict(kept)
        return self

    def read(self, records: Records) -> Tensor:
        """What records say: a class each, or a row."""
        outputs = self._outputs(records.to(self.device), torch.arange(len(records.rows), device=self.device)).cpu()
        return outputs.argmax(dim=1) if self.classes else outputs

    def _network(self, inputs: int, outputs: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for size, after in pairwise((inputs, *self.hidden, outputs)):
            layers += [_he(nn.Linear(size, after)), nn.ReLU()]
        if not self.classes:  # or a wide row of numbers would start far off, and units die on the way back
            nn.init.zeros_(layers[-2].weight)  # type: ignore[arg-type]
        return nn.Sequential(*layers[:-1]).to(self.device)

    @torch.no_grad()
    def _outputs(self, records: Records, chosen: Tensor) -> Tensor:
        return torch.cat([self.net(self._scaled(records, part)) for part in chosen.split(1024)])

    def _scaled(self, records: Records, chosen: Tensor) -> Tensor:
        """Records with mean 0 and spread 1 over those practised on."""
        return ((records.take(chosen) - self.middle) / self.spread).clamp(-FAR, FAR)


def _he(layer: nn.Linear) -> nn.Linear:
    nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
    nn.init.zeros_(layer.bias)
    return layer


def _standard(lines: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and spread of each number; where nothing varies, the spread is 1."""
    middle = lines.mean(dim=0)
    spread = (lines - middle).square().mean(dim=0).sqrt()
    floor = 1e-6 * spread.max() if len(spread) else 0.0
    return middle, spread.where(spread > floor, 1.0)


class Practised(Attack):
    """An attack that rehearses on shadow data, learns to read its own records there, and reads the run's."""

    by: ClassVar[Role] = Role.FEATURE_PARTY
    hidden: ClassVar[tuple[int, ...]]

    def __init__(
        self,
        *,
        shadow: int = 1000,
        runs: int = 20,
        epochs: int | None = None,
        rounds: int = 50,
        rate: float = 3e-4,
        start: FirstWeights = "own",
        parameters: Parameters = "none",
        adaptive: bool = True,
    ) -> None:
        at_least("shadow", shadow, 2)
        for name, count in (("runs", runs), ("epochs", epochs or 1), ("rounds", rounds)):
            at_least(name, count, 1)
        positive("rate", rate)
        one_of("start", start, get_args(FirstWeights))
        one_of("parameters", parameters, get_args(Parameters))
        self.shadow = shadow
        self.runs = runs
        self.epochs = epochs
        self.rounds = rounds
        self.rate = rate
        self.start = start
        self.parameters: Parameters = parameters
        self.adaptive = adaptive

    @property
    def asks(self) -> Asks:
        """Shadow rows, and perhaps everyone's first weights."""
        return Asks(shadow=self.shadow, start=self.start == "shared")

    def practise(
        self, view: View, rng: Generator, truth: Callable[[Shadow], Tensor], classes: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Rows of the first epoch, and what their records say about `truth(shadow)`."""
        shadow = view.hints.shadow
        if shadow is None:
            raise ConfigError(f"Expected shadow data for {self.name}: complete rows that are not trained on.")
        seeds = torch.randint(2**31, (self.runs + 1,), generator=rng).tolist()
        target = write_records([view], self.parameters, first_only=True)
        batch = min(view.manifest.recipe.batch_size, len(shadow.labels))
        steps = int(target.steps[-1]) + 1  # a rehearsal should reach the same stage of training
        epochs = self.epochs or ceil(steps * batch / len(shadow.labels))
        rehearsals = (shadow.rehearse(seed, epochs, self.adaptive) for seed in seeds[1:])
        practised = write_records(rehearsals, self.parameters)
        if practised.width != target.width:
            raise Inapplicable("the defence changes the width of messages: adaptive shadows only")
        own = view.own[view.attacker].bottom
        device = next((str(p.device) for p in own.parameters()), "cpu") if own is not None else "cpu"
        with Stream(seeds[0], "practise").scope():
            reader = Reader(self.hidden, practised, classes, device).learn(truth(shadow), self.rounds, self.rate)
            values = reader.read(target)
        return target.rows, values
