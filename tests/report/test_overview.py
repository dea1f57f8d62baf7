import io

from PIL import Image

from cutlayer.report.cells import cells_of
from cutlayer.report.overview import _text, overview
from tests.helpers.synthetic_record import record


def test_the_matrix_is_one_picture_that_grows_with_the_study():
    cells = cells_of(record())
    drawn, smaller = io.BytesIO(), io.BytesIO()
    overview(cells, drawn, "all")
    overview([cell for cell in cells if cell.defence in ("none", "hash")], smaller, "some")
    with Image.open(drawn) as whole, Image.open(smaller) as part:
        assert whole.format == "PNG" and whole.height > part.height > 300


def test_a_cell_says_how_far_the_attack_got_or_why_there_is_no_figure():
    cells = cells_of(record())
    done = next(cell for cell in cells if cell.done and cell.metric == "accuracy")
    assert _text(done) == f"{100 * max(0, done.gain.mean):.0f}"
    gaps = {cell.status: _text(cell) for cell in cells if not cell.done}
    assert gaps["does not apply"] == "·" and all(len(text) == 1 for text in gaps.values())
