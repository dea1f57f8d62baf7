"""What every attack must keep to. Classes are found, not listed: a new file is tested as it is added."""

import hashlib
from contextlib import suppress

import pytest
import torch

import cutlayer.attacks
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.defence import Role
from cutlayer.errors import ConfigError, Inapplicable
from cutlayer.spec import find, parse
from tests.helpers.sharing import Sharing, sharing
from tests.helpers.toy import World, rng, world

FOUND = find(cutlayer.attacks, Attack)


def digest(view) -> str:
    """A hash over everything that an attack is given: messages, own data and models, hints."""
    total = hashlib.sha256()

    def add(tensor):
        if tensor is not None:
            total.update(tensor.detach().contiguous().numpy().tobytes())

    def add_model(model):
        for tensor in model.state_dict().values() if model is not None else ():
            add(tensor)
        modules = model.modules() if model is not None else ()
        total.update(str([module.training for module in modules]).encode())
        parameters = model.parameters() if model is not None else ()
        total.update(str([(p.requires_grad, p.grad is None) for p in parameters]).encode())

    for message in view.messages:
        add(message.batch.rows)
        add(message.payload)
    for own in view.own.values():
        add(own.features)
        add(own.labels)
        add_model(own.bottom)
        add_model(own.top)
    hints = view.hints
    add_model(hints.top)
    for known in ([] if hints.labels is None else [hints.labels], hints.features.values(), hints.embeddings.values()):
        for hint in known:
            add(hint.rows)
            add(hint.values)
    for model in hints.bottoms.values():
        add_model(model)
    add(view.manifest.train)
    add(view.manifest.test)
    return total.hexdigest()


def fitting(attack: Attack) -> tuple[World | Sharing, Guess]:
    """The first toy federation that an attack applies to, and what it guesses there."""
    worlds = (world(2), world(3), world(0), world(3, hashed=True), world(8), world(2, passports=True))  # of width 8
    for toy in (*worlds, sharing()):
        with suppress(Inapplicable):
            if attack.applies(toy.manifest) is None:
                return toy, attack.run(toy.view_for(attack), rng(1))
    raise AssertionError("applies to none of the toy federations: add one to tests/helpers/toy.py")


def test_every_attack_keeps_the_contract(subtests):
    for name, cls in FOUND.items():
        with subtests.test(name):
            assert cls().name == name
            assert isinstance(cls.by, Role) and isinstance(cls.target, Target)
            check(parse(f"{name}:{cls.settings[0]}", cutlayer.attacks, Attack, "attack"))  # as a quick audit runs it


def check(attack):
    """Repeatable from its generator; the view and global random state stay; one finite guess per row."""
    state = torch.random.get_rng_state()
    toy, guess = fitting(attack)
    view = toy.view_for(attack)
    before = digest(view)
    again = attack.run(view, rng(1))
    assert digest(view) == before, "the view was changed"
    assert torch.equal(torch.random.get_rng_state(), state), "global random state was used"
    check_guess(guess, attack, toy, view)
    assert torch.equal(guess.rows, again.rows) and torch.equal(guess.values, again.values), "not repeatable"


def check_guess(guess, attack, toy, view):
    assert guess.rows.dtype == torch.int64 and guess.rows.ndim == 1 and len(guess.rows)
    assert guess.rows.unique().numel() == len(guess.rows) == len(guess.values)
    known_rows = torch.cat([toy.manifest.train, toy.manifest.test])
    assert torch.isin(guess.rows, known_rows).all()
    assert guess.values.isfinite().all() and not guess.values.requires_grad
    if guess.form is Form.VALUES:
        assert attack.target is Target.FEATURES
        assert tuple(guess.values.shape[1:]) == view.hints.shapes[view.victim]
    elif guess.form is Form.COLUMNS:
        assert attack.target is Target.FEATURES and guess.values.ndim == 2
        assert ((guess.values == 0) | (guess.values == 1)).all()
    elif guess.form is Form.SUBMISSIONS:
        assert attack.target is Target.OUTCOME and 0 <= guess.wanted < toy.manifest.classes
        assert guess.values.shape[1:] == view.hints.embeddings[view.attacker].values.shape[1:]
    else:
        assert attack.target is Target.LABELS and guess.values.ndim == 1
    if guess.form is Form.CLASSES:
        assert guess.values.dtype == torch.int64
        assert guess.values.min() >= 0 and guess.values.max() < toy.manifest.classes
    assert guess.groups is None or guess.groups.shape == guess.rows.shape


class Careless(Attack):
    """Guesses class 0 for every row, and breaks one rule."""

    target = Target.LABELS
    by = Role.FEATURE_PARTY
    calls = 0

    def __init__(self, *, rule: str = "none") -> None:
        self.rule = rule

    @property
    def asks(self):
        return Asks(top=True)

    def run(self, view, rng):
        rows = view.manifest.train
        values = torch.zeros(len(rows), dtype=torch.int64)
        if self.rule == "changes the view":
            next(view.hints.top.parameters()).data.add_(1)
        if self.rule == "global state":
            values = torch.rand(len(rows)).round().long()
        if self.rule == "not repeatable":
            Careless.calls += 1
            values = (values + Careless.calls) % view.manifest.classes
        if self.rule == "a row short":
            values = values[1:]
        return Guess(rows, values, Form.CLASSES)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("changes the view", "the view was changed"),
        ("global state", "global random state was used"),
        ("not repeatable", "not repeatable"),
        ("a row short", "Expected one value per row|len"),
    ],
)
def test_an_attack_that_breaks_a_rule_is_refused(rule, message):
    check(Careless())
    with torch.random.fork_rng(devices=[]), pytest.raises((AssertionError, ConfigError), match=message):
        check(Careless(rule=rule))
