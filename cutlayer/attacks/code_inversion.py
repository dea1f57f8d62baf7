"""Code inversion: search for the input whose embedding comes nearest to a class's target code."""

from typing import ClassVar, Literal, get_args

import torch
from torch import Generator, Tensor, nn

from cutlayer._validate import at_least, non_negative, one_of, positive
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.attacks.tools.inversion import Roughness, descend, is_image, misfit
from cutlayer.attacks.tools.reading import is_code, predicted, white_box
from cutlayer.attacks.tools.shared_codes import nearest_code, shared_codes
from cutlayer.defence import Role
from cutlayer.errors import ConfigError, Inapplicable
from cutlayer.rng import Stream
from cutlayer.view import Manifest, View

Match = Literal["code", "embedding"]


class CodeInversion(Attack):
    """Search for the picture behind each class's target code (HashVFL's own reconstruction attack).

    Minimises MSE(f(x), o) + tv * TV(x) + l2 * mean(x^2) with the victim's bottom f up to what
    precedes Sign, batch norm in evaluation mode; all classes and `restarts` at once, keeping for each
    class the end with the lowest objective. With `match=code` (the paper's) o is a class's target
    code, and the guess for a test row is the picture of the target code nearest to the code that
    was received for it. `match=embedding` inverts each row's own message, which says what there is to
    protect; it applies only where messages are real numbers (undefended, or hash:sign=false), since
    the published code's target, the embedding before Sign, never crosses the cut.

    TV is the paper's, a sum of square roots over pixels, or with `tv_form=code` the mean square of the published
    code, which takes tv=1, l2=0.1, steps=30000. The paper gives no weight. The first start is grey, as in that code,
    further ones random; `lr` is the step of the search. Images stay inside [`low`, `high`]; rows of tables start at
    zero and are not bounded.

    Sees: the codes of the first `images` test rows (none: of all), sent in the prediction phase.
    Needs: the victim's trained bottom (white box), the shape of one of its rows, and shared target
    codes; dense inputs.
    Specification: hashvfl, section 4.2.
    Paper: Qiu et al., HashVFL (arXiv:2212.00325), section V-B, after He et al. (ACSAC 2019).
    """

    target: ClassVar[Target] = Target.FEATURES
    by: ClassVar[Role] = Role.LABEL_PARTY

    def __init__(
        self,
        *,
        match: Match = "code",
        images: int | None = 100,
        steps: int = 3000,
        restarts: int = 2,
        lr: float = 1e-3,
        tv: float = 1e-3,
        tv_form: Roughness = "paper",
        l2: float = 0.0,
        low: float = 0.0,
        high: float = 1.0,
    ) -> None:
        one_of("match", match, get_args(Match))
        one_of("tv_form", tv_form, get_args(Roughness))
        for name, count in (("images", images), ("steps", steps), ("restarts", restarts)):
            if count is not None:
                at_least(name, count, 1)
        positive("lr", lr)
        non_negative("tv", tv)
        non_negative("l2", l2)
        if not low < high:
            raise ConfigError(f"Expected low={low} to lie below high={high}.")
        self.match = match
        self.images = images
        self.steps = steps
        self.restarts = restarts
        self.lr = lr
        self.tv = tv
        self.tv_form = tv_form
        self.l2 = l2
        self.low = low
        self.high = high

    @property
    def asks(self) -> Asks:
        """White box."""
        return Asks(bottom=True)

    def applies(self, manifest: Manifest) -> str | None:
        """Codes can be matched only where they are known."""
        return "needs shared target codes" if self.match == "code" and shared_codes(manifest) is None else None

    def run(self, view: View, rng: Generator) -> Guess:
        """Invert the class codes, or the messages."""
        bottom, shape = white_box(view)
        rows, received = predicted(view, view.victim, view.manifest.test[: self.images])
        if self.match == "code":
            codes = shared_codes(view.manifest)
            if codes is None:
                raise ConfigError("Expected shared target codes for match=code; ask applies() first.")
            return Guess(rows, self.pictures(bottom, shape, codes, rng)[nearest_code(received, codes)], Form.VALUES)
        if is_code(received):
            raise Inapplicable("codes only")
        return Guess(rows, self.pictures(bottom, shape, received, rng), Form.VALUES)

    def pictures(self, bottom: nn.Module, shape: tuple[int, ...], targets: Tensor, rng: Generator) -> Tensor:
        """For each target, the best input found."""
        device = next((p.device for p in bottom.parameters()), torch.device("cpu"))
        start = self._start((self.restarts, len(targets), *shape), rng).to(device)
        wanted = targets.to(device).repeat(self.restarts, *[1] * (targets.ndim - 1))
        box = (self.low, self.high) if is_image(shape) else None

        def objective(x: Tensor) -> Tensor:
            return misfit(bottom, x, wanted, tv=self.tv, l2=self.l2, relative=False, form=self.tv_form)

        stream = Stream(int(torch.randint(2**62, (), generator=rng)), "code-inversion", device=device)
        with stream.scope():  # a bottom may draw numbers of its own
            ends, values = descend(objective, start.flatten(0, 1), steps=self.steps, lr=self.lr, eps=1e-8, box=box)
        best = values.view(self.restarts, -1).argmin(dim=0)
        return ends.view(start.shape)[best, torch.arange(len(targets), device=device)].cpu()

    def _start(self, size: tuple[int, ...], rng: Generator) -> Tensor:
        """The first try in the middle, the others at random."""
        if is_image(size[2:]):
            start = self.low + (self.high - self.low) * torch.rand(size, generator=rng)
            start[0] = (self.low + self.high) / 2
        else:
            start = torch.randn(size, generator=rng)
            start[0] = 0
        return start
