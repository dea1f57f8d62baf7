"""About: what is known of a dataset before any of its files is opened."""

from dataclasses import dataclass

from cutlayer.errors import DataError


@dataclass(frozen=True, slots=True)
class About:
    """One dataset in one line, and the counts that its files must have."""

    name: str
    rows: int
    columns: int  # input columns; pixel values for images; 0 for running text
    classes: int  # 0 for regression
    about: str
    papers: str = ""  # papers of this project that use it
    terms: str = ""

    def check(self, rows: int, columns: int) -> None:
        """Refuse a file that was cut short or is another edition, before it gives wrong results."""
        if (rows, columns) != (self.rows, self.columns):
            raise DataError(
                f"Expected {self.rows} rows and {self.columns} columns for {self.name}, "
                f"got {rows} rows and {columns} columns; get the complete file."
            )
