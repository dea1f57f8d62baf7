"""Small federations, trained in plain torch and recorded by hand: what attacks are tested on."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy, mse_loss

import cutlayer as cl
from cutlayer.attack import Asks, Attack, Target
from cutlayer.attacks.tools.replay import first_moments
from cutlayer.blocks.codebook import target_codes
from cutlayer.blocks.passport import PassportLayer
from cutlayer.blocks.sign import sign
from cutlayer.cut import Roster
from cutlayer.cuts.concat import Concat
from cutlayer.defence import Role
from cutlayer.defences import Hash, Passport
from cutlayer.draws import Draws
from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.recipe import Recipe
from cutlayer.rng import Stream, draw_anew
from cutlayer.transcript import Keep, Policy, Transcript
from cutlayer.view import Hints, Known, Manifest, Own, Shadow, Start, View, view_of

LABEL, FEATURE, OTHER = "bank", "shop", "tele"
ROSTER = Roster(LABEL, (LABEL, FEATURE, OTHER))
NEUTRAL = Roster(LABEL, (FEATURE, OTHER))  # a label party without columns
COLUMNS = {LABEL: 3, FEATURE: 8, OTHER: 5}
ROWS, TEST, BATCH, EPOCHS, LR = 400, 80, 40, 5, 1e-2


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draws(seed: int = 0) -> Draws:
    return Draws(seed, "test")


@dataclass(frozen=True)
class World:
    """A trained federation, with its truth. `sealed` worlds have labels that nothing depends on."""

    manifest: Manifest
    transcript: Transcript
    features: Mapping[str, Tensor]
    labels: Tensor
    bottoms: Mapping[str, nn.Module]
    top: nn.Module
    begun: tuple[Mapping[str, nn.Module], nn.Module]  # bottoms and top before training

    def view(self, party: str, asks: Asks | None = None, victim: str = "") -> View:
        """What a party saw, its own data and its hints."""
        is_label = party == LABEL
        own = Own(
            self.features.get(party),
            copy.deepcopy(self.bottoms.get(party)),
            labels=self.labels if is_label else None,
            top=copy.deepcopy(self.top) if is_label else None,
            start=lambda: Start(copy.deepcopy(self.begun[0][party]), self.features[party], Stream(0, "toy start")),
        )
        view = view_of(self.transcript, frozenset({party}), self.manifest, {party: own})
        return replace(view, hints=self.hints(asks or Asks(), party), victim=victim)

    def view_for(self, attack: Attack) -> View:
        """The view for an attack."""
        party = LABEL if attack.by is Role.LABEL_PARTY else FEATURE
        victim = (OTHER if party == FEATURE else FEATURE) if attack.target is Target.FEATURES else LABEL
        return self.view(party, attack.asks, victim)

    def hints(self, asks: Asks, party: str) -> Hints:
        """Grant what is asked: labels as even over classes as possible."""
        others = [name for name in self.manifest.roster.order if name != party]
        train = self.manifest.train
        known = train[: asks.features]
        return Hints(
            labels=self._even(asks.labels) if asks.labels else None,
            features={n: Known(known, self.features[n][known]) for n in others} if asks.features else {},
            bottoms={n: copy.deepcopy(self.bottoms[n]) for n in others} if asks.bottom else {},
            forms={n: self._form(n) for n in others} if asks.form else {},
            top=copy.deepcopy(self.top) if asks.top else None,
            embeddings=self._embeddings() if asks.top else {},
            shapes={n: tuple(self.features[n].shape[1:]) for n in others},
            shadow=self._shadow(party, asks.shadow) if asks.shadow else None,
            course={n: first_moments(self.view(n), asks.course) for n in others} if asks.course else {},
        )

    def _shadow(self, party: str, count: int) -> Shadow:
        """The first test rows, and the same federation on them, every model as it began."""
        test = self.manifest.test[:count]
        features, labels = {n: f[test] for n, f in self.features.items()}, self.labels[test]
        rows = torch.arange(len(test))
        manifest = replace(self.manifest, train=rows, test=rows[:0])

        def rehearse(seed: int, epochs: int, defended: bool) -> View:
            bottoms, top = copy.deepcopy(self.begun)
            transcript = Transcript(Keep(Policy.ALL))
            with Stream(seed, "toy shadow").scope():
                _train(transcript, manifest, features, labels, bottoms, top)
            return World(manifest, transcript, features, labels, bottoms, top, self.begun).view(party)

        return Shadow(test, features, labels, rehearse)

    def _form(self, name: str) -> nn.Module:
        """A bottom with fresh weights."""
        form = copy.deepcopy(self.bottoms[name])
        draw_anew(form, 1, "toy form", name)
        return form

    def _embeddings(self) -> dict[str, Known]:
        """What every feature party sent for the test rows."""
        test, embeddings = self.manifest.test, {}
        for (sender, _, kind, phase), channel in self.transcript.channels.items():
            if kind is Kind.EMBEDDING and phase is Phase.PREDICT:
                embeddings[sender] = Known(test, channel.read()[1][test])
        return embeddings

    def _even(self, count: int) -> Known:
        train = self.manifest.train
        classes = self.labels[train]
        same = classes[:, None] == classes[None]
        turn = (same & torch.ones_like(same).tril(-1)).sum(dim=1)  # how many of its class came before
        rows = train[turn.sort(stable=True).indices[:count]]
        return Known(rows, self.labels[rows])


@cache
def world(
    classes: int = 2, sealed: bool = False, seed: int = 0, hashed: bool = False, passports: bool = False
) -> World:
    """Train three parties on rows whose label depends on everyone's columns (0 classes: regression).

    In `hashed` worlds the label party holds no columns and the others send codes of 8 bits. With `passports` every
    bottom ends in a layer that holds some.
    """
    roster = NEUTRAL if hashed else ROSTER
    with Stream(seed, "toy").scope():
        features = {name: torch.rand(ROWS, width) for name, width in COLUMNS.items()}
        labels = _labels(features, classes)
        features = {name: features[name] for name in roster.order}
        bottoms: dict[str, nn.Module] = {
            name: nn.Sequential(nn.Linear(width, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8))
            for name, width in COLUMNS.items()
            if name in roster.order
        }
        for bottom in bottoms.values() if hashed else ():
            bottom.append(nn.BatchNorm1d(8))
        for name, bottom in bottoms.items() if passports else ():
            bottom[3] = PassportLayer(bottom[3], draws(len(name)), mean_range=2.0, variance=1.0)
        top = nn.Sequential(
            nn.Identity() if hashed else nn.ReLU(),
            nn.Linear(8 * len(bottoms), 16),
            nn.ReLU(),
            nn.Linear(16, classes or 1),
        )
        train, test = torch.arange(ROWS - TEST), torch.arange(ROWS - TEST, ROWS)
        defences = tuple(defence for defence, chosen in ((Hash(bits=8), hashed), (Passport(), passports)) if chosen)
        manifest = Manifest(
            "toy", roster, classes, train, test, Recipe(batch_size=BATCH, lr=LR), Concat(), defences=defences
        )
        transcript = Transcript(Keep(Policy.ALL))
        begun = copy.deepcopy((bottoms, top))
        _train(transcript, manifest, features, labels, bottoms, top)
        for model in (*bottoms.values(), top):
            model.eval().requires_grad_(True)
        _predict(transcript, manifest, torch.arange(ROWS), features, bottoms)
        secret = labels[torch.randperm(ROWS)] if sealed else labels
    return World(manifest, transcript, features, secret, bottoms, top, begun)


def _hashed(manifest: Manifest) -> bool:
    return manifest.uses(Hash) is not None


def _labels(features: Mapping[str, Tensor], classes: int) -> Tensor:
    weight = {LABEL: 0.5, FEATURE: 1.0, OTHER: 0.5}
    score = torch.stack([weight[n] * (values - 0.5).sum(dim=1) for n, values in features.items()]).sum(dim=0)
    if classes == 0:
        return score
    if classes == 2:
        return torch.bernoulli((score - 2).sigmoid()).long()  # rare and uncertain, as in advertising
    return torch.bucketize(score, score.quantile(torch.arange(1, classes) / classes))


def _train(
    transcript: Transcript,
    manifest: Manifest,
    features: Mapping[str, Tensor],
    labels: Tensor,
    bottoms: Mapping[str, nn.Module],
    top: nn.Module,
) -> None:
    optimizer = torch.optim.Adam([p for m in (*bottoms.values(), top) for p in m.parameters()], lr=LR)
    step = 0
    for epoch in range(EPOCHS):
        transcript.begin_epoch(epoch, epoch == EPOCHS - 1)
        for rows in manifest.train[torch.randperm(len(manifest.train))].split(BATCH):
            sent = {name: _sent(manifest, bottoms[name](features[name][rows])) for name in manifest.roster.order}
            for embedding in sent.values():
                embedding.retain_grad()
            outputs = top(torch.cat(list(sent.values()), dim=1))
            targets = labels[rows]
            loss = cross_entropy(outputs, targets) if manifest.classes else mse_loss(outputs[:, 0], targets)
            if _hashed(manifest):
                codes = target_codes(manifest.classes, 8, manifest.seed)[targets]
                loss = loss + torch.stack([(1 - cosine_similarity(e, codes)).mean() for e in sent.values()]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            for name in manifest.roster.feature_parties:
                gradient = sent[name].grad
                assert gradient is not None
                record(transcript, Kind.EMBEDDING, name, rows, sent[name].detach(), step)
                record(transcript, Kind.GRADIENT, name, rows, gradient, step)
            step += 1


def _sent(manifest: Manifest, embedding: Tensor) -> Tensor:
    return sign(embedding) if _hashed(manifest) else embedding


def _predict(
    transcript: Transcript,
    manifest: Manifest,
    rows: Tensor,
    features: Mapping[str, Tensor],
    bottoms: Mapping[str, nn.Module],
) -> None:
    with torch.no_grad():
        for name in manifest.roster.feature_parties:
            record(
                transcript,
                Kind.EMBEDDING,
                name,
                rows,
                _sent(manifest, bottoms[name](features[name][rows])),
                10_000,
                Phase.PREDICT,
            )


def record(
    transcript: Transcript,
    kind: Kind,
    party: str,
    rows: Tensor,
    payload: Tensor,
    step: int = 0,
    phase: Phase = Phase.TRAIN,
) -> None:
    """Keep one message between a feature party and the label party."""
    sender, receiver = (party, LABEL) if kind is Kind.EMBEDDING else (LABEL, party)
    transcript.write(Message(Batch(step, phase, rows), sender, receiver, kind, payload))


def gradient_view(batches: list[tuple[Tensor, Tensor]], known: Known | None = None, classes: int = 2) -> View:
    """A feature party's view of given gradients: (rows, payload) per batch."""
    transcript = Transcript(Keep(Policy.ALL))
    transcript.begin_epoch(0, True)
    for step, (rows, payload) in enumerate(batches):
        record(transcript, Kind.GRADIENT, FEATURE, rows, payload, step)
    rows = torch.cat([rows for rows, _ in batches])
    manifest = Manifest("toy", ROSTER, classes, rows, rows[:0], Recipe(batch_size=len(batches[0][0])), Concat())
    view = view_of(transcript, frozenset({FEATURE}), manifest, {FEATURE: Own(None, None)})
    return replace(view, hints=Hints(labels=known), victim=LABEL)


def inversion_view(bottom: nn.Module, inputs: Tensor, train: int = 0) -> View:
    """The label party's white-box view of a prediction pass over inputs; the first `train` rows are not test rows."""
    transcript, rows = Transcript(), torch.arange(len(inputs))
    with torch.no_grad():
        record(transcript, Kind.EMBEDDING, FEATURE, rows, bottom.eval()(inputs), phase=Phase.PREDICT)
    manifest = Manifest("toy", ROSTER, 2, rows[:train], rows[train:], Recipe(batch_size=len(rows)), Concat())
    hints = Hints(bottoms={FEATURE: bottom}, shapes={FEATURE: tuple(inputs.shape[1:])})
    view = view_of(transcript, frozenset({LABEL}), manifest, {LABEL: Own(None, None)})
    return replace(view, hints=hints, victim=FEATURE)


@cache
def digits_run(hashed: bool) -> cl.Run:
    """Halves of digits, undefended or as codes of 16 bits; the label party holds no columns."""
    task = cl.data.digits(label_party=LABEL)
    return cl.train(task, defences=[Hash(bits=16)] if hashed else [], epochs=20)


def auc(labels: Tensor, scores: Tensor) -> float:
    """The chance that a positive scores above a negative; ties count half."""
    positive, negative = scores[labels == 1, None], scores[labels == 0]
    return float(((positive > negative).double() + (positive == negative).double() / 2).mean())
