import gzip
import lzma

import numpy as np
import pytest
import torch

from cutlayer.data import ColumnKind, Goal, load
from cutlayer.data.sets.avazu import parse as parse_avazu
from cutlayer.data.sets.covertype import parse as parse_covertype
from cutlayer.data.sets.fate import parse as parse_pair
from cutlayer.errors import ConfigError, DataError

BANK_HEADER = (
    '"age";"job";"marital";"education";"default";"housing";"loan";"contact";"month";"day_of_week";"duration";'
    '"campaign";"pdays";"previous";"poutcome";"emp.var.rate";"cons.price.idx";"cons.conf.idx";"euribor3m";'
    '"nr.employed";"y"\n'
)


def bank_file(rows=20):
    jobs, contacts = ("admin.", "services", "retired"), ("cellular", "telephone")
    lines = [
        f'{20 + i};"{jobs[i % 3]}";"single";"basic.4y";"no";"no";"unknown";"{contacts[i % 2]}";"may";"mon";'
        f'{i};1;999;0;"nonexistent";1.1;93.994;-36.4;4.857;5191;"{("no", "yes")[i % 2]}"\n'
        for i in range(rows)
    ]
    return gzip.compress((BANK_HEADER + "".join(lines)).encode())


def credit_file():
    pay = ",".join(f'"PAY_{n}"' for n in (0, 2, 3, 4, 5, 6))
    amounts = ",".join([f'"BILL_AMT{n}"' for n in range(1, 7)] + [f'"PAY_AMT{n}"' for n in range(1, 7)])
    header = f'"ID","LIMIT_BAL","SEX","EDUCATION","MARRIAGE","AGE",{pay},{amounts},"default.payment.next.month"\n'
    rows = [f"{i},{1000 * i},{1 + i % 2},{i % 4},{i % 3},{20 + i}" + ",0" * 18 + f",{i % 2}\n" for i in range(20)]
    return gzip.compress((header + "".join(rows)).encode())


def categories_file(width, classes, first):
    """Rows of letters; column k cycles through k+2 of them."""
    rows = []
    for i in range(24):
        cells = ["abcdefghijklmnopqrstuvwxyz"[i % (2 + column)] for column in range(width)]
        label = classes[i % len(classes)]
        rows.append(",".join([label, *cells] if first else [*cells, label]))
    return gzip.compress(("\n".join(rows) + "\n\n").encode())


def covertype_file(rows=30):
    lines = []
    for i in range(rows):
        wild = [int(i % 4 == n) for n in range(4)]
        lines.append(",".join(map(str, [2000 + i, *range(9), *wild, *[0] * 40, 1 + i % 7])))
    return ("\n".join(lines) + "\n").encode()


FILES = {
    "bank": ("bank_marketing/bank-additional-full.csv.gz", bank_file(), "20 rows and 20 columns"),
    "credit": ("default_credit/UCI_Credit_Card.csv.gz", credit_file(), "20 rows and 23 columns"),
    "mushroom": (
        "mushroom/agaricus-lepiota.data.gz",
        categories_file(22, "ep", True),
        "24 rows and 21 columns",
    ),
    "nursery": ("nursery/nursery.data.gz", categories_file(8, ["no", "yes"], False), "24 rows and 8 columns"),
    "covertype": ("covertype/covtype.data.xz", lzma.compress(covertype_file()), "30 rows and 54 columns"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_short_is_refused(put, name):
    path, content, counts = FILES[name]
    put(path, content)
    with pytest.raises(DataError, match=rf"Expected \d+ rows and \d+ columns for {name}, got {counts}"):
        load(name)


@pytest.mark.parametrize(
    ("name", "width"), [("bank", 8), ("credit", 10), ("mushroom", 15), ("nursery", 6), ("covertype", 10)]
)
def test_the_first_columns_go_to_the_feature_party_in_0_1(put, any_size, name, width):
    put(*FILES[name][:2])
    task = load(name)
    assert task.label_party == "party1" and task.feature_parties == ("party2",)
    features = task.features["party2"]
    assert features.values.shape[1] == len(features.columns) == width
    assert float(features.values.min()) == 0 and float(features.values.max()) == 1
    rows = len(task.labels)
    assert len(task.test) == round(rows / 10) and len(task.train) == rows - len(task.test)


def test_bank_codes_categories_by_the_alphabet(put, any_size):
    put(*FILES["bank"][:2])
    held = load("bank").features["party2"]
    columns = {column.name: values for column, values in zip(held.columns, held.values.T, strict=True)}
    assert columns["job"][:4].tolist() == [0, 1, 0.5, 0]
    assert columns["contact"][:3].tolist() == [0, 1, 0]
    kinds = {c.name: c.kind for c in held.columns}
    assert kinds["contact"] is ColumnKind.BINARY and kinds["age"] is ColumnKind.NUMERIC


def test_more_parties_share_the_feature_columns(put, any_size):
    put(*FILES["credit"][:2])
    task = load("credit", parties=3, label_party="server")
    assert [part.values.shape[1] for part in task.features.values()] == [13, 5, 5]
    assert task.feature_parties == ("party1", "party2", "party3")


def test_mushroom_drops_the_constant_veil_type(put, any_size):
    put(*FILES["mushroom"][:2])
    held = load("mushroom").features
    assert "veil-type" not in [column.name for part in held.values() for column in part.columns]


def test_covertype_gives_the_wilderness_indicators_away(put, any_size):
    put(*FILES["covertype"][:2])
    task = load("covertype")
    names = [column.name for column in task.features["party2"].columns]
    assert names[:1] + names[6:] == [
        "vertical_distance_to_hydrology",
        *(f"wilderness_area_{n}" for n in range(1, 5)),
    ]
    assert task.features["party2"].values[:, 6:].sum(dim=1).tolist() == [1.0] * 30
    assert task.labels[:8].tolist() == [0, 1, 2, 3, 4, 5, 6, 0]


@pytest.mark.parametrize("damage", [(b",", b",x,"), (b"2000,", b""), (b"2000", b"20.5")])
def test_covertype_refuses_other_rows(damage):
    with pytest.raises(DataError, match=r"covtype\.data"):
        parse_covertype(covertype_file().replace(*damage, 1))


def sensorless_file():
    rng = np.random.default_rng(0)
    rows = [" ".join([f"{x:.5g}" for x in rng.normal(size=48)] + [str(1 + i % 11)]) for i in range(55)]
    return gzip.compress(("\n".join(rows) + "\n").encode())


def test_sensorless_is_between_minus_1_and_1_and_dealt_out_at_random(put, any_size):
    put("sensorless_drive/Sensorless_drive_diagnosis.balanced2200.txt.gz", sensorless_file())
    task = load("sensorless")
    both = torch.cat([part.values for part in task.features.values()], dim=1)
    assert both.shape == (55, 48) and (both.amin(0) == -1).all() and (both.amax(0) == 1).all()
    names = [[int(c.name[1:]) for c in part.columns] for part in task.features.values()]
    assert sorted(names[0] + names[1]) == list(range(1, 49)) and names[0] != list(range(1, 25))
    assert torch.bincount(task.labels[task.test]).tolist() == [1] * 11


def test_sensorless_reads_the_full_set_when_asked(put):
    put("sensorless_drive/Sensorless_drive_diagnosis.txt.gz", sensorless_file())
    with pytest.raises(DataError, match="Expected 58509 rows and 48 columns for sensorless, got 55 rows"):
        load("sensorless", full=True)


def test_bankruptcy_is_raw_and_balanced_unless_told(put, any_size):
    rows = [f"{int(i < 4)},{i}000000000,{i % 3},{i}" for i in range(40)]
    put("company_bankruptcy/data.csv", "Bankrupt?, Size, Flag, Ratio\n" + "\n".join(rows))
    task = load("bankruptcy")
    assert torch.bincount(task.labels).tolist() == [36, 36]
    assert [column.name for part in task.features.values() for column in part.columns] == [
        "Size",
        "Flag",
        "Ratio",
    ]
    assert float(task.features["party1"].values.max()) == pytest.approx(39e9)
    plain = load("bankruptcy", smote="none", scaled=True)
    assert torch.bincount(plain.labels).tolist() == [36, 4] and len(plain.test) == 12
    assert abs(float(plain.features["party1"].values[plain.train].mean())) < 1e-6
    with pytest.raises(ConfigError, match="Unknown smote 'after'"):
        load("bankruptcy", smote="after")


def test_avazu_ranks_codes_by_frequency_and_balances(put, any_size):
    rows = [f"{int(i % 4 == 0)},{i % 24:02d},{'aab'[i % 3]}" for i in range(40)]
    put("avazu/avazu_random_15000.csv", "click,hour,site_id\n" + "\n".join(rows))
    task = load("avazu")
    assert torch.bincount(task.labels).tolist() == [10, 10]
    assert len(load("avazu", balance=False).labels) == 40
    raw = parse_avazu(b"id,click,site_id\n9,0,b\n8,1,a\n7,0,a\n")
    assert raw.names == ("site_id",) and raw.values.T.tolist() == [[1, 0, 0]]
    with pytest.raises(ConfigError, match="Unknown sample 'all': expected one of random, first-hour"):
        load("avazu", sample="all")


def test_porto_seguro_scales_by_training_rows(put, any_size):
    rows = [f"{i},{int(i % 5 == 0)},{i},{i % 2}" for i in range(50)]
    put(
        "porto_seguro/porto_seguro_train_first10000.csv",
        "id,target,ps_ind_01,ps_ind_06_bin\n" + "\n".join(rows),
    )
    task = load("porto-seguro")
    held = task.features["party1"].values[task.train]
    assert float(held.min()) == 0 and float(held.max()) == 1
    assert task.features["party2"].columns[0].kind is ColumnKind.BINARY


def test_higgs_keeps_its_own_split(put, any_size):
    put("higgs_sample/binary.train", "1\t0.5\t2.0\n0\t1.5\t4.0\n0\t1.5\t4.0\n1\t0.5\t2.0\n")
    put("higgs_sample/binary.test", "1\t0.5\t6.0\n")
    task = load("higgs")
    assert task.train.tolist() == [0, 1, 2, 3] and task.test.tolist() == [4]
    assert task.features["party2"].values.flatten().tolist() == [-1, 1, 1, -1, 3]
    put("higgs_sample/binary.test", "1\tx\t6.0\n")
    with pytest.raises(DataError, match="Expected rows of numbers in the HIGGS sample"):
        load("higgs")


def test_empty_cells_are_refused_where_a_set_has_none(put, any_size):
    put("porto_seguro/porto_seguro_train_first10000.csv", "id,target,a,b\n1,0,,1\n2,1,3,1\n3,0,3,1\n4,1,3,1\n")
    with pytest.raises(DataError, match="Expected a number in every cell of porto-seguro"):
        load("porto-seguro")


def fate_pair(put, stem, label, values):
    guest = [f"{i},{values[i]},{i * 2}," for i in range(len(values))]
    host = [f"{i},{i * 3},{i % 2},1" for i in range(len(values))]
    put(f"fate_vfl_examples/{stem}_hetero_guest.csv", f"id,{label},x0,x1\n" + "\n".join(guest))
    put(f"fate_vfl_examples/{stem}_hetero_host.csv", "id,x0,x1,x2\n" + "\n".join(host))


def test_fate_pairs_keep_who_holds_what(put, any_size):
    fate_pair(put, "vehicle_scale", "y", [3, 0, 1, 2] * 5)
    task = load("fate-vehicle")
    assert task.goal is Goal.MULTICLASS and task.classes == ("0", "1", "2", "3")
    assert [column.name for column in task.features["party1"].columns] == ["guest_x0", "guest_x1"]
    assert task.features["party1"].values[3].tolist() == [6, 0]
    assert task.features["party2"].values[3].tolist() == [9, 1, 1]
    assert task.labels[:4].tolist() == [3, 0, 1, 2]


def test_fate_regression_and_scaling(put, any_size):
    fate_pair(put, "motor", "motor_speed", [0.5 * i for i in range(20)])
    task = load("fate-motor", scaled=True, parties=3, limit=8)
    assert task.goal is Goal.REGRESSION and task.classes == () and task.labels.dtype == torch.float32
    assert (len(task.train), len(task.test)) == (8, 2)
    assert list(task.features) == ["party1", "party2", "party3"]


def test_fate_files_must_hold_the_same_ids():
    with pytest.raises(DataError, match="same ids in the same order"):
        parse_pair(b"id,y,x\n1,0,1\n", b"id,x\n2,1\n", "y", 2)
