"""The text of a CSV file: encoding, separator, comments, quotes, lines.

The separator is the tab, semicolon or comma that splits the header and the first row into equally many
fields.  A line that starts with ``#`` is a comment; a line of nothing but separators and spaces is blank;
both are skipped, and the others keep their numbers for messages.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from odefit.errors import ProblemError

SEPARATORS = ("\t", ";", ",")
_SPACES = " \t\v\f"
_QUOTED = re.compile(r'"[^"]*("|$)')


@dataclass(frozen=True, eq=False)
class CsvText:
    """A CSV file before its cells are read.

    Attributes
    ----------
    name
        The file's name in messages.
    header
        Names of the columns, without the spaces around them.
    separator
        Between the fields of a line.
    body
        The lines below the header that are neither comments nor blank, without the last line end.
    numbers
        The one-based places of these lines in the file.
    """

    name: str
    header: tuple[str, ...]
    separator: str
    body: str
    numbers: Sequence[int]

    @property
    def decimal_comma(self) -> bool:
        """Whether a comma may be a decimal comma, because it does not separate."""
        return self.separator != ","

    def regular(self) -> bool:
        """Tell whether the body needs no care.

        Every line has the fields of the header, and every quote opens a field or closes one on the same line.
        """
        content = np.frombuffer(f"\n{self.body}\n".encode(), dtype=np.uint8)
        ends = np.flatnonzero(content == ord("\n"))
        separators = np.flatnonzero(content == ord(self.separator))
        quotes = np.flatnonzero(content == ord('"'))
        if quotes.size:
            edges = (ord("\n"), ord(self.separator))
            opened = np.isin(content[quotes[0::2] - 1], edges).all()
            closed = np.isin(content[quotes[1::2] + 1], edges).all()
            if quotes.size % 2 or not opened or not closed or (np.searchsorted(quotes, ends) % 2).any():
                return False
            separators = separators[np.searchsorted(quotes, separators) % 2 == 0]
        fields = np.diff(np.searchsorted(separators, ends)) + 1
        return bool((fields == len(self.header)).all())

    def records(self) -> tuple[list[list[str]], list[int]]:
        """Return the fields of every record, and the numbers of their first lines."""
        rows: list[list[str]] = []
        places: list[int] = []
        width = len(self.header)
        for fields, first, _ in _parsed(self.name, self.separator, self.body.split("\n"), self.numbers):
            if len(fields) != width:
                advice = "a missing value still needs its separator" if len(fields) < width else "remove some"
                if len(fields) < width or any(field.strip() for field in fields[width:]):
                    raise ProblemError(
                        f"'{self.name}', line {first} has {len(fields)} fields but the header has {width}; {advice}."
                    )
                del fields[width:]
            rows.append(fields)
            places.append(first)
        return rows, places


def split_csv(name: str, content: bytes) -> CsvText:
    """Find the header and the lines of a CSV file.

    Parameters
    ----------
    name
        The file's name for messages.
    content
        Its bytes: UTF-8, or UTF-16 with a byte order mark.
    """
    text = _decoded(name, content)
    first_two = [line for _, line in islice(_speaking(_lines(text), ""), 2)]
    separator = _separator(*first_two)
    opening = list(islice(_speaking(_lines(text), separator), 1))
    if not opening:
        raise ProblemError(f"'{name}' is empty; the first line names the columns.")
    start = opening[0][0]
    counted = islice(enumerate(_lines(text)), start, None)
    header, _, consumed = next(_parsed(name, separator, (line for _, line in counted), range(start + 1, start + 10**9)))
    offset = _offset_of_line(text, start + consumed)
    body, numbers = _body(text[offset:], start + consumed + 1, separator)
    return CsvText(name, tuple(field.strip() for field in header), separator, body, numbers)


def _decoded(name: str, content: bytes) -> str:
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ProblemError(f"'{name}', line {line} is not UTF-8 text; save the file as CSV in UTF-8.") from error
    if "\0" in text:
        raise ProblemError(f"'{name}' is not a text file; save the table as CSV.")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of `text` one after another, without splitting all of it."""
    start = 0
    while True:
        end = text.find("\n", start)
        if end < 0:
            yield text[start:]
            return
        yield text[start:end]
        start = end + 1


def _offset_of_line(text: str, index: int) -> int:
    """Return where line `index` begins; the length of `text` if it has fewer lines."""
    start = 0
    for _ in range(index):
        end = text.find("\n", start)
        if end < 0:
            return len(text)
        start = end + 1
    return start


def _speaking(lines: Iterable[str], separator: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are neither blank nor comments, with their indices."""
    spaces = _SPACES.replace(separator, "") if separator else _SPACES
    blank = _SPACES + separator
    for index, line in enumerate(lines):
        if not line or line[0] == "#":
            continue
        if line[0] not in blank or (line.strip(blank) and line.lstrip(spaces)[:1] != "#"):
            yield index, line


def _body(text: str, first: int, separator: str) -> tuple[str, Sequence[int]]:
    """Leave out blank lines and comments; also return the numbers of the lines that stay."""
    text = text.rstrip("\n")
    if not text:
        return "", range(0)
    led = f"\n{text[:1]}"
    if not any(f"\n{mark}" in text or led == f"\n{mark}" for mark in f"\n#{_SPACES}{separator}"):
        return text, range(first, first + text.count("\n") + 1)
    kept = list(_speaking(text.split("\n"), separator))
    return "\n".join(line for _, line in kept), tuple(first + index for index, _ in kept)


def _separator(header: str = "", row: str | None = None) -> str:
    """Choose the separator that occurs most; one that fits both lines goes first."""
    counts = {mark: _QUOTED.sub("", header).count(mark) for mark in SEPARATORS}
    marks = sorted((mark for mark in SEPARATORS if counts[mark]), key=lambda mark: -counts[mark])
    if row is not None:
        bare = _QUOTED.sub("", row)
        fitting = [mark for mark in marks if bare.count(mark) == counts[mark]]
        marks = fitting or marks
    return marks[0] if marks else ","


def _parsed(
    name: str, separator: str, lines: Iterable[str], numbers: Sequence[int]
) -> Iterator[tuple[list[str], int, int]]:
    """Yield the fields of each record, the number of its first line, and how many lines were read so far."""
    # the line ends come back, for a quoted field may run over several lines
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=separator, skipinitialspace=True, strict=True)
    first = 0
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ProblemError(f"'{name}', line {numbers[first]} cannot be read: {error}; check the quotes.") from error
        yield fields, numbers[first], reader.line_num
        first = reader.line_num
