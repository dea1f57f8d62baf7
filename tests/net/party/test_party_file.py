"""A party's file: the examples are read back, and mistakes are named."""

import pytest

from cutlayer.errors import ConfigError
from cutlayer.net.party.example_file import example_of
from cutlayer.net.party.party_file import read_file

LABEL = """\
[party]
name = "bank"
listen = "127.0.0.1:7400"
[data]
table = "bank.csv"
id = "who"
label = "y"
[run]
parties = ["bank", "shop"]
label_party = "bank"
salt = "sixteen letters!"
"""
FEATURE = (
    LABEL.replace('name = "bank"\nlisten', 'name = "shop"\nconnect')
    .replace("bank.csv", "shop.csv")
    .replace('label = "y"\n', "")
)


@pytest.fixture
def read(tmp_path):
    def reads(text):
        path = tmp_path / "party.toml"
        path.write_text(text)
        return read_file(path)

    return reads


def test_the_examples_are_read_back_and_agree(read):
    bank, shop = read(example_of("label")), read(example_of("feature"))
    assert bank.is_label_party and not shop.is_label_party
    assert bank.run == shop.run and bank.run.digest == shop.run.digest
    assert bank.data.columns == ("age", "income") and bank.serve.http and bank.requires == ("epochs <= 50",)
    assert shop.folder == shop.path.parent / "shop-run"
    with pytest.raises(ConfigError, match="label"):
        example_of("server")


@pytest.mark.parametrize("role", ["label", "feature"])
def test_the_examples_show_a_seed_that_is_not_set(read, role):
    text = example_of(role)
    assert read(text).party.seed is None and "rehearsals only" in text
    assert read(text.replace("# seed", "seed")).party.seed is not None


def test_defaults_and_relative_paths(read):
    bank, shop = read(LABEL), read(FEATURE)
    assert bank.party.wait == 600 and bank.party.seed is None and bank.data.missing == "impute"
    assert bank.folder == bank.path.parent / "bank-run" and bank.at("keys") == bank.path.parent / "keys"
    assert shop.party.connect == "127.0.0.1:7400"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (LABEL.replace("[party]", "[partie]"), "party"),
        (LABEL.replace("listen", "listn"), "listen"),
        (LABEL.replace("table", "tables"), "table"),
        (LABEL + "[serve]\nhtpp = 'x'\n", "http"),
        (LABEL + "epoch = 3\n", "epochs"),
        (LABEL.replace('"bank.csv"', "3"), "another value for table"),
        (
            LABEL.replace('listen = "127.0.0.1:7400"', 'listen = "127.0.0.1:7400"\nwait = "long"'),
            "another value for wait",
        ),
        (LABEL.replace('listen = "127.0.0.1:7400"', 'listen = "127.0.0.1:7400"\nwait = 0'), "wait"),
        (
            LABEL.replace('listen = "127.0.0.1:7400"', 'listen = "127.0.0.1:7400"\nseed = true'),
            "another value for seed",
        ),
        (LABEL.replace('listen = "127.0.0.1:7400"', 'connect = "127.0.0.1:7400"'), "listen"),
        (FEATURE.replace("connect", "listen"), "connect"),
        (LABEL.replace("127.0.0.1:7400", "localhost"), "HOST:PORT"),
        (LABEL.replace('name = "bank"\n', ""), "a name in"),
        (LABEL.replace('name = "bank"', 'name = "bnak"'), "bank"),
        (LABEL.replace('label = "y"\n', ""), "`label`"),
        (FEATURE.replace('id = "who"', 'id = "who"\nlabel = "y"'), "of no other"),
        (LABEL.replace('id = "who"\n', ""), "`id`"),
        (LABEL.replace('id = "who"', 'id = "who"\ncoding = "one-hot"'), "onehot"),
        (LABEL.replace('id = "who"', 'id = "who"\nmissing = "drop"'), "impute"),
        (LABEL.replace('id = "who"', 'id = "who"\nrepeated = "last"'), "first"),
        (LABEL.replace('salt = "sixteen letters!"\n', ""), "`salt` in .run. .* 16 to 64 bytes, got 0"),
        (LABEL.replace("sixteen letters!", "short"), "`salt` in .run. .* 16 to 64 bytes, got 5"),
        (LABEL.replace("sixteen letters!", "é" * 33), "`salt` in .run. .* 16 to 64 bytes, got 66"),
        (LABEL + 'dataset = "digits"\n', "got both"),
        (LABEL + '[require]\nrules = ["max-norm"]\n', "requires 'max-norm'"),
        (LABEL + "[require]\nrules = [3]\n", "a list of texts"),
        (LABEL + '[require]\nrule = ["max-norm"]\n', "`rules`"),
        (LABEL.replace("[run]", "[require]\n[run"), "TOML"),
        (LABEL + '[require]\nrules = "max-norm"\n', "a list of texts"),
        (f"data = 3\n{LABEL}".replace("[data]", "[serve]"), "section .data. .* got 3"),
        ("require = 3\n" + LABEL, "section .require. .* got 3"),
        (LABEL.replace('id = "who"', 'id = "who"\ncolumns = [3]'), "another value for columns"),
        ("party = 3\n", "section"),
        ("", "section .party."),
    ],
)
def test_a_mistake_is_one_sentence(read, text, says):
    with pytest.raises(ConfigError, match=says):
        read(text)


def test_a_dataset_is_not_aligned_and_needs_no_salt(read):
    without = LABEL.replace('table = "bank.csv"\nid = "who"\nlabel = "y"\n', "")
    for salt in ("", "short"):
        assert read(without.replace("sixteen letters!", salt) + 'dataset = "digits"\n').run.salt == salt


def test_a_file_that_is_not_there_or_not_text(tmp_path):
    with pytest.raises(ConfigError, match="found none; see `cutlayer party --example label`"):
        read_file(tmp_path / "none.toml")
    (tmp_path / "odd.toml").write_bytes(b"\xff\xfe\0")
    with pytest.raises(ConfigError, match="Expected TOML"):
        read_file(tmp_path / "odd.toml")
