"""Binary equations: read a party's 0/1 columns out of its linear messages, by trying every choice of bits."""

from typing import ClassVar, get_args

import torch
from torch import Generator

from cutlayer._validate import at_least, one_of, positive
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.attacks.tools.binary.enumeration import BITS, binary_vectors
from cutlayer.attacks.tools.binary.visible import Visible, columns, known_span, messages, not_own, with_own
from cutlayer.defence import Role
from cutlayer.errors import ConfigError, DataError, Inapplicable
from cutlayer.view import View


class BinaryEquations(Attack):
    """Find every 0/1 vector in the span of the messages: with a linear bottom these are the binary columns.

    Linear messages mix the columns by weights that the attacker does not know, but they span what the
    columns span, and a vector of that span is fixed by its values on as many rows as there are
    columns. Try 0 and 1 for all of these; what is 0 or 1 on all other rows too is a column of the
    victim, or a sum of one-hot columns. The number of tries doubles with each column, up to 2^32.

    `centred` covers a bias and columns coded by any two values; a column and its complement are then
    one. `tolerance` is how far an entry may be from 0 or 1 (1e-6 for messages in float64). `rank` is the
    dimension of the span if the messages' singular values do not tell. `visible`: see
    `cutlayer.attacks.tools.binary.visible.messages`. A constant column is not a finding.

    Sees: the victim's embeddings of all rows, as predicted after training.
    Needs: a linear bottom; the number of the victim's columns.
    Cost: 0.6 s on bank, credit, mushroom and nursery, 2 s at 2^32 candidates (results/binary).
    Specification: binary-reconstruction, section 2.
    Paper: Ye et al., Feature Reconstruction Attacks and Countermeasures of DNN training in Vertical
    Federated Learning (arXiv:2210.06771), Algorithm 1.
    """

    target: ClassVar[Target] = Target.FEATURES
    by: ClassVar[Role] = Role.LABEL_PARTY

    def __init__(
        self,
        *,
        centred: bool = False,
        tolerance: float = 1e-2,
        rank: int | None = None,
        visible: Visible = "each",
    ) -> None:
        positive("tolerance", tolerance)
        if tolerance >= 0.5:
            raise ConfigError(f"Expected tolerance={tolerance} to be below 0.5, where 0 and 1 part.")
        at_least("rank", 1 if rank is None else rank, 1)
        one_of("visible", visible, get_args(Visible))
        self.centred = centred
        self.tolerance = tolerance
        self.rank = rank
        self.visible = visible

    @property
    def asks(self) -> Asks:
        """The victim's embeddings of the training rows under the final weights."""
        return Asks(frozen_train=True)

    def run(self, view: View, rng: Generator) -> Guess:
        """Span, enumerate, leave out what is constant or known."""
        rows, matrix, own = messages(view, self.visible)
        try:
            joined = with_own(matrix, own, columns(view, self.visible))
            span = known_span(view, self.visible, joined, centred=self.centred, rank=self.rank)
            if span.rank > BITS:
                raise Inapplicable(f"2^{span.rank} candidates; use binary-search")
            vectors = binary_vectors(span, tolerance=self.tolerance)
        except DataError as error:
            raise Inapplicable(str(error)) from error
        vectors = not_own(vectors[:, ~vectors.all(axis=0)], own)
        return Guess(rows, torch.from_numpy(vectors), Form.COLUMNS)
