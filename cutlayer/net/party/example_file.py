"""Example files: a party's file to start from, for each role."""

from cutlayer._validate import one_of

LABEL_EXAMPLE = """\
# bank.toml: the label party. It listens; feature parties dial in.
[party]
name = "bank"
listen = "0.0.0.0:7400"
keys = "bank-keys"           # made by `cutlayer keys request` and `install`
folder = "bank-run"          # checkpoints, ledger, models
wait = 600                   # seconds to wait for a missing party
# seed = 1                   # rehearsals only, to repeat them; in earnest leave it out, or its draws can be guessed

[data]
table = "bank.csv"           # CSV or Parquet
id = "customer"
label = "default"
columns = ["age", "income"]  # leave out to use all columns

{run}
[require]                    # what this party insists on, whatever [run] says
rules = ["epochs <= 50"]

[serve]
http = "127.0.0.1:8400"      # online prediction: `cutlayer predict bank.toml --serve`
"""
FEATURE_EXAMPLE = """\
# shop.toml: a feature party. It dials the label party and opens no port.
[party]
name = "shop"
connect = "bank.example.com:7400"
keys = "shop-keys"
folder = "shop-run"
# seed = 2                   # rehearsals only, to repeat them; in earnest leave it out, or its draws can be guessed

[data]
table = "shop.csv"
id = "customer"

{run}
[require]
rules = ["max-norm"]         # no gradients that tell labels by their length
"""
RUN_EXAMPLE = """\
[run]                        # the same in every party's file, or nothing starts
parties = ["bank", "shop"]
label_party = "bank"
salt = "choose-a-long-random-text"  # 16 to 64 bytes, known to the parties only
epochs = 30
batch_size = 128
lr = 0.002
cut = "concat"
defences = ["max-norm"]
seed = 0
"""


def example_of(role: str) -> str:
    """A file to start from."""
    one_of("role", role, ("label", "feature"))
    return (LABEL_EXAMPLE if role == "label" else FEATURE_EXAMPLE).format(run=RUN_EXAMPLE)
