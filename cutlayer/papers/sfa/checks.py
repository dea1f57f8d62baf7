"""What the SFA paper leaves out beside accuracy and attacks: honest baselines, and what regression makes of W_mask."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from cutlayer.attacks.grn import Grn
from cutlayer.attacks.tools.binary.visible import entered, opened_to
from cutlayer.attacks.tools.reading import latest
from cutlayer.auditing.secret import secret_of
from cutlayer.blocks.sparse import SparseRows
from cutlayer.cuts.parts.masking import bound_of, places_of
from cutlayer.cuts.secure_sum import SecureSum
from cutlayer.errors import ConfigError
from cutlayer.judge import grant
from cutlayer.rng import generator
from cutlayer.run import Run
from cutlayer.training import using_threads

RIDGE = 1e-4  # variance that is added to every column: keeps those that hardly vary out of the fit
EPOCHS = (1, 2, 5, 10, 20, 30, 40, 50, 60)  # at which the network's error is noted


def baselines(run: Run) -> dict[str, float]:
    """Squared error of guesses that read no message, on the first feature party's test rows.

    The uniform guess is the paper's, as an expectation. The last is a control and no guess of the
    attacker's: it is told all training rows of both parties, and shows what the attacker's columns say.
    """
    truth = _flat(run, run.task.feature_parties[0], run.task.test)
    figures = {
        "zeros": float(truth.pow(2).mean()),
        "mean row": float((truth - truth.mean(dim=0)).pow(2).mean()),
        "uniform guess": float((truth - 0.5).pow(2).mean()) + 1 / 12,
    }
    if run.task.label_party in run.task.features:
        x, y = (_flat(run, name, run.task.train) for name in (run.task.label_party, run.task.feature_parties[0]))
        weights = _ridge(_centred(x), _centred(y), RIDGE * len(x))
        guess = (_flat(run, run.task.label_party, run.task.test) - x.mean(dim=0)) @ weights + y.mean(dim=0)
        figures["linear from own columns (control, told the training rows)"] = float((truth - guess).pow(2).mean())
    return figures


def mask_regression(run: Run) -> dict[str, float]:
    """What the label party learns of W_mask by regressing the opened sums on its own columns (section 4).

    It uses one prediction pass over all rows, and that W_mask is drawn evenly from a known interval, which says
    how far to trust columns that hardly vary. All errors are relative, in Frobenius norm, of
    what is centred: 0 is exact, 1 is as bad as guessing zero. "mask": x_a W_mask, which counts directions of
    W_mask as the label party's columns show them. "embeddings": the sum less the estimated mask, against the
    true sum of embeddings. "beyond own columns": both with all projected out that is linear in x_a. There the
    mask is gone whatever W_mask is. "explained": the share of the embeddings' variance linear in x_a, which is
    what the regression takes for mask.
    """
    if not isinstance(run.plan.cut, SecureSum):
        raise ConfigError("Expected a run with --cut secure-sum, whose mask is to be estimated.")
    order = torch.cat([run.task.train, run.task.test])
    view = run.view(run.task.label_party, predict=order)
    opened = opened_to(view)
    assert opened is not None
    rows, sums = latest(*opened.read()[:2], order)
    x = entered(view, rows)
    if x is None:
        raise ConfigError("Expected a label party with columns of its own; without them there is no mask.")
    x = _centred(x.double())
    z = _centred(sums.double())
    rest = z - x @ torch.linalg.lstsq(x, z, driver="gelsd").solution
    guess = _ridge(x, z, float(rest.pow(2).mean()) / (bound_of(x.shape[1]) ** 2 / 3))
    weights = _mask(run)
    sent = _centred(sum((_embeddings(run, name, rows) for name in run.task.feature_parties), torch.zeros(())))
    own = torch.linalg.lstsq(x, sent, driver="gelsd").solution
    return {
        "W_mask": _relative(guess, weights),
        "mask": _relative(x @ guess, x @ weights),
        "embeddings": _relative(z - x @ guess, sent),
        "embeddings beyond own columns": _relative(rest, sent - x @ own),
        "explained by own columns": float((x @ own).pow(2).sum() / sent.pow(2).sum()),
    }


def grn_epochs(run: Run) -> dict[str, float]:
    """The error of GRN's answer after some epochs: under masks, the paper says, it grows as the network trains."""
    victim = run.task.feature_parties[0]
    view, secret = run.view(run.task.label_party), secret_of(run)
    attacks = [Grn(reads="message"), Grn(reads="sum"), Grn(reads="sum", learn_mask=True)]
    figures = {}
    for attack in attacks if isinstance(run.plan.cut, SecureSum) else [Grn()]:
        granted = replace(view, hints=grant(attack.asks, view, secret, run.plan.seed), victim=victim)
        with using_threads(1):
            epochs = enumerate(attack.epochs_of(granted, generator(run.plan.seed, "grn epochs")), start=1)
            for epoch, (rows, answer) in epochs:
                if epoch in EPOCHS:
                    error = (answer().flatten(1) - _flat(run, victim, rows)).pow(2).mean()
                    figures[f"{attack.describe()}, epoch {epoch}"] = float(error)
    return figures


def _flat(run: Run, party: str, rows: Tensor) -> Tensor:
    values = run.task.features[party].values
    if isinstance(values, SparseRows):
        raise ConfigError(f"Expected dense columns at {party}, got sparse ones.")
    return values[rows].flatten(1).double()


def _ridge(x: Tensor, y: Tensor, weight: float) -> Tensor:
    gram = x.T @ x
    gram.diagonal().add_(weight)
    weights: Tensor = torch.linalg.solve(gram, x.T @ y)
    return weights


def _centred(values: Tensor) -> Tensor:
    return values - values.mean(dim=0)


def _relative(guess: Tensor, truth: Tensor) -> float:
    return float((guess - truth).norm() / truth.norm())


def _mask(run: Run) -> Tensor:
    """The true W_mask, from its holder."""
    cut = run.session.parties[run.task.feature_parties[0]].cut
    assert isinstance(cut, SecureSum) and cut._holder is not None
    weights = cut._holder.weights
    places = places_of(len(weights)) if weights.dtype == np.int64 else 0  # scheme=none holds floats
    return torch.from_numpy(np.ldexp(weights.astype(np.float64), -places))


@torch.no_grad()
def _embeddings(run: Run, party: str, rows: Tensor) -> Tensor:
    """What a feature party's bottom says about rows, before masks."""
    member = run.session.parties[party]
    assert member.features is not None and member.bottom is not None
    member.bottom.eval()
    parts = [member.bottom(member.features[block.to(run.plan.device)]).flatten(1) for block in rows.split(8192)]
    return torch.cat(parts).cpu().double()
