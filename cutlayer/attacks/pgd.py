"""PGD: change what one party submits, a step at a time, until the label party predicts the class it wants."""

import copy
from typing import ClassVar, Literal, get_args

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy

from cutlayer._validate import at_least, non_negative, one_of, positive
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.attacks.tools.reading import is_code, latest
from cutlayer.blocks.sign import sign
from cutlayer.cut import Cut
from cutlayer.defence import Role
from cutlayer.errors import ConfigError, Inapplicable
from cutlayer.view import Manifest, View

Scale = Literal["paper", "embeddings"]
Choice = Literal["gradient", "seen-codes"]


class PGD(Attack):
    """Change one party's embedding by projected gradient descent until the label party predicts class `wanted`.

    e <- e - step * sign(gradient of the cross-entropy with `wanted`), `iterations` times; e - e0 is clipped to
    [-bound, bound] each time (`step`, `bound`); where all messages are codes, e is then put through Sign, with
    Sign(0) = +1, or the label party would refuse it. The paper's step and bound are absolute, so a model whose
    embeddings are large looks robust; `scale=embeddings` multiplies both by the mean |e0|.

    `choose=seen-codes` takes no step: of all messages that the party itself sends for the test rows it
    submits the one that the top turns into `wanted` with the highest probability. It needs no
    gradient, and codes do not stop it.

    Attacked are the first `rows` test rows that are not predicted as `wanted` honestly. (The paper takes
    rows whose label is another; the attacker does not know labels.) All other parties stay honest.

    Sees: everyone's embeddings of the test rows.
    Needs: the trained top model (white box) and those embeddings; a label party without columns.
    Specification: hashvfl, section 4.4.
    Paper: Qiu et al., HashVFL (arXiv:2212.00325), section V-C, after Madry et al. (arXiv:1706.06083).
    """

    settings: ClassVar[tuple[str, ...]] = ("", "choose=seen-codes")

    target: ClassVar[Target] = Target.OUTCOME
    by: ClassVar[Role] = Role.FEATURE_PARTY

    def __init__(
        self,
        *,
        wanted: int = 0,
        step: float = 0.1,
        bound: float = 1.0,
        iterations: int = 40,
        rows: int = 100,
        scale: Scale = "paper",
        choose: Choice = "gradient",
    ) -> None:
        at_least("wanted", wanted, 0)
        positive("step", step)
        non_negative("bound", bound)
        at_least("iterations", iterations, 1)
        at_least("rows", rows, 1)
        one_of("scale", scale, get_args(Scale))
        one_of("choose", choose, get_args(Choice))
        self.wanted = wanted
        self.step = step
        self.bound = bound
        self.iterations = iterations
        self.rows = rows
        self.scale = scale
        self.choose = choose

    @property
    def asks(self) -> Asks:
        """White box."""
        return Asks(top=True)

    def applies(self, manifest: Manifest) -> str | None:
        """There must be such a class, and nothing in the joint input that never crosses."""
        if manifest.classes == 0:
            return "classes-only"
        if self.wanted >= manifest.classes:
            return f"no class {self.wanted}"
        return "label party holds columns" if manifest.label_party in manifest.roster.order else None

    def run(self, view: View, rng: Generator) -> Guess:
        """Choose rows and find what to submit for them."""
        if view.hints.top is None:
            raise ConfigError("Expected the top model and all embeddings as hints; pgd needs them.")
        if not view.hints.embeddings or any(not e.values.is_floating_point() for e in view.hints.embeddings.values()):
            raise Inapplicable("embeddings cross encrypted or under masks")
        rows, game = _game(view)
        targets = (game.outputs(game.mine).argmax(dim=1) != self.wanted).nonzero()[:, 0][: self.rows]
        if not len(targets):
            raise Inapplicable("all test rows are predicted as wanted")
        chosen = game.of(targets)
        submissions = (
            self._descend(chosen) if self.choose == "gradient" else self._pick(chosen, game.mine.unique(dim=0))
        )
        return Guess(rows[targets], submissions, Form.SUBMISSIONS, wanted=self.wanted)

    def _descend(self, game: "Game") -> Tensor:
        """Follow the sign of the gradient, all rows at once."""
        start, coded = game.mine, is_code(game.mine)
        factor = float(start.abs().mean()) if self.scale == "embeddings" else 1.0
        step, bound = self.step * factor, self.bound * factor
        current = start
        for _ in range(self.iterations):
            leaf = current.clone().requires_grad_()
            outputs = game.outputs(leaf)
            loss = cross_entropy(outputs, torch.full((len(outputs),), self.wanted), reduction="sum")
            (gradient,) = torch.autograd.grad(loss, leaf)
            current = start + (current - step * gradient.sign() - start).clamp(-bound, bound)
            if coded:
                current = sign(current)
        return current

    @torch.no_grad()
    def _pick(self, game: "Game", choices: Tensor) -> Tensor:
        """For each row the choice that makes `wanted` most probable (the first among equals)."""
        picked = []
        for row in range(len(game.mine)):
            outputs = game.of(torch.full((len(choices),), row)).outputs(choices)
            picked.append(outputs.softmax(dim=1)[:, self.wanted].argmax())
        return choices[torch.stack(picked)]


class Game:
    """What the label party computes, as a function of one party's embeddings."""

    def __init__(self, top: nn.Module, cut: Cut, order: tuple[str, ...], player: str, sent: dict[str, Tensor]) -> None:
        self.top = top
        self.cut = cut
        self.order = order
        self.player = player
        self.sent = sent

    @property
    def mine(self) -> Tensor:
        """The player's honest embeddings."""
        return self.sent[self.player]

    def of(self, places: Tensor) -> "Game":
        """The same for some of the rows."""
        return Game(self.top, self.cut, self.order, self.player, {n: sent[places] for n, sent in self.sent.items()})

    def outputs(self, submitted: Tensor) -> Tensor:
        """The top's outputs if the player submits this."""
        joined = self.cut.join([submitted if name == self.player else self.sent[name] for name in self.order])
        outputs: Tensor = self.top(joined)
        return outputs


def _game(view: View) -> tuple[Tensor, Game]:
    """The test rows and what everyone sent for them."""
    known, order = view.hints.embeddings, view.manifest.roster.order
    if missing := set(order) - set(known):
        raise Inapplicable(f"no embeddings of {', '.join(sorted(missing))}")
    rows = view.manifest.test.cpu()
    for name in order:
        rows, _ = latest(known[name].rows, known[name].values, rows)
    sent = {name: latest(known[name].rows, known[name].values, rows)[1] for name in order}
    top = copy.deepcopy(view.hints.top)
    assert top is not None
    return rows, Game(top.eval().requires_grad_(False), view.manifest.cut, order, view.attacker, sent)
