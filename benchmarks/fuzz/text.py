"""Changes of text: tokens and bytes cut out, doubled, exchanged, replaced by what programs stumble over."""

from __future__ import annotations

import random
from typing import Any

from benchmarks.fuzz.sources import Files

NUMBERS = (
    "0", "-1", "1e308", "-1e308", "1e-308", "5e-324", "1e400", "nan", "inf", "-inf", "1e999999999", "9" * 400, "0x1F",
    "1_000", "1.", ".5", "1e", "2**63", "-0.0", "9223372036854775807", "1e15", "1e-15", "true", "[]", "{}", '""',
)  # fmt: skip
WORDS = (
    "x", "t", "pi", "inf", "if(t > 1, 1, 2)", "exp(1e5)", "log(-1)", "1/0", "0/0", "x^x^x^x", "sqrt(-1)", "(" * 60,
    ")" * 60, "((((1))))", "k'", "x(0)", "a = b", "abs(", "min(1,2)", "max(", "not", "and", "x' = 1", "2^1000^2",
    "sin(1e300)", "1e300*1e300", "and and", "lambda", "__import__('os')", "+" * 80 + "1", "-" * 300 + "1", "tan(x)^-9",
)  # fmt: skip
TOKENS = (
    "[", "]", "{", "}", "=", ",", ";", '"', "'", '"""', "\n", "#", "\t", ".", "\\", "(0)", "*", "?", "%", "~", "[[",
    "]]", "[data]", "[noise]", "[experiments]", "[parameters]", "[fit]", "[derived]", "[integrator]", "start = ",
    "lower = ", "upper = ", 'scale = "log"', 'scale = "logit"', "fixed = true", 'per = "experiment"',
    'prior = "normal(0, 1)"', 'method = "incremental"', 'start = "auto"', 'sigma = "5 %"', "starts = 3",
    "rtol = 1e-14", "until = 1e9",
    'file = "*.csv"', 'file = "**"', 'base = "p.toml"', "weight", "sigma", "experiment", "time",
)  # fmt: skip
CHARACTERS = (
    "\x00",
    "\x1b[2J",
    "\x7f",
    "\x85",
    "\u202e",
    "\ufeff",
    "\r",
    "é",
    "\u0660",
    "α",
    "𝒳",
    "\ud7ff",
    "´",
    "\u200b",
)


def changed_text(files: Files, draw: random.Random) -> Files:
    """Return files of which the text of one was changed, mostly."""
    toml, csv = files.toml, files.csv
    for _ in range(draw.choice((1, 1, 1, 2, 3, 6))):
        if draw.random() < 0.65:
            toml = _changed(toml, draw)
        else:
            csv = _changed(csv, draw)
    return Files(toml, csv)


def _changed(content: bytes, draw: random.Random) -> bytes:
    if draw.random() < 0.15:
        return _changed_bytes(content, draw)
    return _changed_letters(content.decode("utf-8", "replace"), draw).encode("utf-8", "surrogatepass")


def _changed_bytes(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content) + 1)
    kind = draw.randrange(4)
    if kind == 0:
        return content[:place]
    if kind == 1:
        return content[:place] + bytes([draw.randrange(256)]) + content[place + 1 :]
    if kind == 2:
        return content[:place] + draw.randbytes(draw.randrange(1, 9)) + content[place:]
    return b"\xff\xfe" + content.decode("utf-8", "replace").encode("utf-16-le")


def _changed_letters(text: str, draw: random.Random) -> str:
    kind = draw.randrange(8)
    if kind == 0:  # a number becomes another
        return _replaced(text, draw, str.isdigit, NUMBERS)
    if kind == 1:  # a word becomes another, or a formula
        return _replaced(text, draw, str.isalpha, (*WORDS, *NUMBERS, *text.split()[:40]))
    if kind == 2:  # lines: exchanged, doubled, cut out
        lines = text.split("\n")
        one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
        lines[one] = draw.choice((lines[other], "", lines[one] + lines[other], lines[one] + "\n" + lines[one]))
        return "\n".join(lines)
    place = draw.randrange(len(text) + 1)
    end = min(len(text), place + draw.choice((0, 1, 1, 3, 10, 40)))
    piece = {
        3: "", 4: text[place:end] * draw.choice((2, 2, 50)), 5: draw.choice(TOKENS), 6: draw.choice((*WORDS, *NUMBERS)),
        7: draw.choice(CHARACTERS),
    }[kind]  # fmt: skip
    return text[:place] + piece + text[end:]


def _replaced(text: str, draw: random.Random, is_part: Any, others: tuple[str, ...]) -> str:
    places = [i for i, letter in enumerate(text) if is_part(letter) and (i == 0 or not is_part(text[i - 1]))]
    if not places:
        return text
    start = end = draw.choice(places)
    while end < len(text) and (is_part(text[end]) or (is_part is str.isdigit and text[end] == ".")):
        end += 1
    return text[:start] + draw.choice(others) + text[end:]
