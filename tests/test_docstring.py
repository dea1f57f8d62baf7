"""One reader of labelled docstrings, for pages of the documentation and for the papers of findings."""

from cutlayer.attacks import NormScore
from cutlayer.docstring import read_docstring


class Sample:
    """Prose, in which Paper: is no label.

    Needs: patience.
    Paper: Somebody et al., A Title
        (arXiv:1234.56789).

    More prose.
    """


def test_a_labels_text_ends_at_the_next_label_or_an_empty_line():
    docstring = read_docstring(Sample)
    assert docstring.labelled == {"Needs": "patience.", "Paper": "Somebody et al., A Title (arXiv:1234.56789)."}
    assert docstring.paragraphs == ("Prose, in which Paper: is no label.", "More prose.")


def test_every_finding_has_the_paper_of_its_attack():
    assert read_docstring(NormScore).labelled["Paper"].startswith("Li et al., Label Leakage")
