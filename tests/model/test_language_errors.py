from __future__ import annotations

import subprocess
import sys

import pytest

from odefit.errors import LanguageError, ModelError, UnsupportedError
from odefit.model import Model

# text, line and column of the caret, part of the message
LANGUAGE_ERRORS = [
    # statements that contradict each other
    ("x' = 1", 1, 1, 'x has an equation x\' = ... but no initial value; add "x(0) = ..."'),
    (
        "abc' = 1\nabc(0) = 1\nabd(0) = 2",
        3,
        1,
        "'abd' has no equation abd' = ..., so it takes no initial value; did you",
    ),
    ("x' = 1\nx(0) = 1\nqq(0) = 2", 3, 1, "add the equation or remove this line"),
    ("x' = 1\nx(0) = 1\nq = 1\nq(0) = 2", 4, 1, "'q' is a definition (line 3), not a state"),
    ("a = 1\n\n a = 2", 3, 2, "'a = ...' stands in line 1 already"),
    ("x' = 1\nx(0) = 1\nx' = 2", 3, 1, "'x' = ...' stands in line 1 already"),
    ("x' = 1\nx(0) = 1\nx(0) = 2", 3, 1, "'x(0) = ...' stands in line 2 already"),
    ("x' = 1\nx(0) = 1\nx = 2", 3, 1, "'x = ...' contradicts 'x' = ...' in line 1"),
    ("x = 2\nx' = 1\nx(0) = 1", 2, 1, "'x' = ...' contradicts 'x = ...' in line 1"),
    ("z = 1\na = b\nb = c + z\nc = a", 2, 1, "the definitions a -> b -> c -> a need each other"),
    ("a = 0*a", 1, 1, "the definitions a -> a need each other"),
    ("x' = 1\nx(0) = y\ny' = 1\ny(0) = 1", 2, 1, "x(0) depends on the state 'y'"),
    ("x' = 1\nx(0) = t", 2, 1, "x(0) depends on the independent variable 't'"),
    ("x' = 1\nx(0) = a\na = b\nb = 2*x", 2, 1, "x(0) depends on the state 'x' through a -> b"),
    ("x' = 1\nx(0) = a\na = sin(t)", 2, 1, "x(0) depends on the independent variable 't' through a"),
    # names
    ("t = 1", 1, 1, "'t' is the independent variable"),
    ("t' = 1", 1, 1, "'t' is the independent variable"),
    ("pi = 3", 1, 1, "'pi' is a reserved word"),
    ("inf(0) = 3", 1, 1, "'inf' is a reserved word"),
    ("at = 3", 1, 1, "'at' is a reserved word"),
    ("field' = 3", 1, 1, "'field' is a reserved word"),
    ("when(0) = 3", 1, 1, "'when' is a reserved word"),
    ("and = 3", 1, 1, "'and' is a reserved word"),
    ("y = 1 + field", 1, 9, "'field' is a reserved word and has no value"),
    ("exp = 3", 1, 1, "'exp' is a function of the language"),
    ("min' = 3", 1, 1, "'min' is a function of the language"),
    ("if = 3", 1, 1, "'if' is a function of the language"),
    ("y = 2*exp + 1", 1, 7, "'exp' is a function; write exp(...)"),
    ("y = x²", 1, 5, "'x²' is not a name"),
    ("y = k₁", 1, 5, "'k₁' is not a name"),
    # left sides
    ("dx/dt = -x", 1, 1, "write x' = ... instead of dx/dt = ..."),
    ("x'' = 1", 1, 3, "only first derivatives"),
    ("x'(0) = 1", 1, 3, "'(' does not belong there"),
    ("x(1) = 1", 1, 2, "an initial value is written x(0) = ..."),
    ("x(t) = 1", 1, 2, "an initial value is written x(0) = ..."),
    ("2*x = 3", 1, 1, "'2' cannot begin a left side"),
    ("x*2 = 3", 1, 2, "'*' does not belong there"),
    ("x += 3", 1, 3, "'+=' does not make a definition; write x = ..."),
    ("x := 3", 1, 3, "':=' does not make a definition"),
    ("x.y = 3", 1, 2, "a name has no '.'; write 'x_y'"),
    ("x[0] = 3", 1, 2, "brackets are round"),
    ("x’ = 3", 1, 2, "write a plain apostrophe"),
    ("= 3", 1, 1, "a name is missing on the left of '='"),
    ("a + b", 1, 1, "this is no equation"),
    ("y = a\n  + b", 2, 3, "a statement cannot begin with '+'"),
    ("y =\nz = 3", 1, 3, "nothing stands on the right of '='"),
    ("y = a +  # more\n\nz = 3", 1, 7, "the line ends with '+', so the next one, which has its own '='"),
    ("y = a,\nz = 3", 1, 6, "the line ends with ','"),
    ("y = z = 3", 1, 7, "a second '=' in one statement"),
    # expressions
    ("y = 2x", 1, 6, "for a product write '2*x'"),
    ("y = 2 (a + b)", 1, 7, "for a product write '2*('"),
    ("y = k (a + b)", 1, 7, "for a product write 'k*('"),
    ("y = k(a) + k", 1, 6, "for a product write 'k*('"),
    ("y = (a + b)(c)", 1, 12, "for a product write ')*('"),
    ("y = (a + b) c", 1, 13, "for a product write ')*c'"),
    ("y = a b", 1, 7, "for a product write 'a*b'"),
    ("y = a not b", 1, 7, "an operator is missing before 'not'"),
    ("y = 2*not a", 1, 7, "'not' binds weaker"),
    ("y = a < b < c", 1, 11, "comparisons do not chain"),
    ("y = if(a = 1, 2, 3)", 1, 10, "use '=='"),
    ("y = if(a + 1 = 1, 2, 3)", 1, 14, "use '=='"),
    ("y = if(a = = 1, 2, 3)", 1, 12, "write '==' without a space"),
    ("y = a if b else c", 1, 7, "a condition is written if(cond, a, b)"),
    ("y = math.exp(x)", 1, 9, "functions are written without a module: 'exp', not 'math.exp'"),
    ("y = np.exp(x)", 1, 7, "functions are written without a module: 'exp', not 'np.exp'"),
    ("y = exp()", 1, 5, "exp() takes 1 argument, but 0 came"),
    ("y = exp(a, b)", 1, 5, "exp() takes 1 argument, but 2 came"),
    ("y = min(a)", 1, 5, "min() takes 2 or more arguments, but 1 came"),
    ("y = if(a, b)", 1, 5, "if() takes 3 arguments, but 2 came"),
    ("y = atan2(a)", 1, 5, "atan2() takes 2 arguments, but 1 came"),
    ("y = ln(x)", 1, 5, "there is no function 'ln'; did you mean 'log'?"),
    ("y = sqr(x)", 1, 5, "there is no function 'sqr'; did you mean 'sqrt'?"),
    ("y = Exp(x)", 1, 5, "there is no function 'Exp'; did you mean 'exp'?"),
    ("y = pow(x, 2)", 1, 5, "there is no function 'pow'; did you mean 'x^y'?"),
    ("y = quux(x, 2, 3)", 1, 5, "there is no function 'quux'; the functions are exp, log"),
    ("x' = x(t)\nx(0) = 1", 1, 6, "'x' is a state; write 'x', without '(t)'"),
    ("y = b'", 1, 6, "a derivative stands only on the left"),
    ("y = 0,5", 1, 6, "decimals are written with a point"),
    ("y = a; z = 2", 1, 6, "one statement a line"),
    ("y = a // b", 1, 8, "there is no operator '//'"),
    ("y = a * / b", 1, 9, "after '*' a number, a name or '(' has to come, but '/' came"),
    ("y = ()", 1, 6, "after '(' a number, a name or '(' has to come, but ')' came"),
    ("y = * b", 1, 5, "at the beginning of an expression"),
    ('y = "text"', 1, 5, "text in quotes"),
    ('y = a "text"', 1, 7, "text in quotes"),
    ("y = a − b", 1, 7, "write a plain '-'"),
    ("y = a & b", 1, 7, "write 'and'"),
    ("y = a \u200b b", 1, 7, "unexpected character '\ufffd' (U+200B)"),
    ("y = 1/0", 1, 6, "division by the constant zero"),
    ("y = a/(1 - 1)", 1, 6, "division by the constant zero"),
    ("y = 1e999", 1, 5, "1e999 is too large"),
    # brackets and ends
    ("y = (a\nz = 2", 1, 5, "'(' is never closed"),
    ("y = ((a)", 1, 5, "'(' is never closed"),
    ("y = a)", 1, 6, "')' closes nothing"),
    ("z = 1\ny = a +  # more\n\n", 2, 7, "the text ends after '+'"),
    ("y =", 1, 3, "the text ends after '='"),
    ("\ty = 2x\r\n", 1, 7, "for a product write '2*x'"),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), LANGUAGE_ERRORS)
def test_language_error(text, line, column, message):
    with pytest.raises(LanguageError, match=f"^line {line}: ") as caught:
        Model.from_text(text)
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)
    shown, caret = str(caught.value).splitlines()[-2:]
    assert shown.strip() == text.splitlines()[line - 1].replace("\t", " ").replace("\u200b", "\ufffd").strip()
    assert caret.index("^") == 4 + column - 1


UNSUPPORTED = [
    ("field c(r)", "fields over a grid", 1),
    ("field T(z, r)", "fields over a grid", 1),
    ("at r=R: D*d(c,r) = j", "boundary conditions at r=... (events at a time are written at t=...)", 1),
    ("y = c(r=R)", "values at a point such as c(r=...)", 1),
    ("y = mean(x, over=r, from=0, to=1)", "aggregates over a grid, such as mean(..., over=r)", 1),
    ("y = d(u, r)", "space derivatives such as d(u, r)", 1),
    ("y = div(f, r)", "space derivatives such as div(u, r)", 1),
]


@pytest.mark.parametrize(("text", "what", "line"), UNSUPPORTED)
def test_unsupported(text, what, line):
    with pytest.raises(UnsupportedError, match="^not supported yet: ") as caught:
        Model.from_text(text)
    assert str(caught.value) == f"not supported yet: {what} (line {line}: `{text.splitlines()[line - 1]}`)"


TABLE_ERRORS = [
    ("y = quux(x, 2)", 1, 5, "there is no function and no table 'quux'; give it as [tables.quux]"),
    ("y = Heatt(t)", 1, 5, "there is no function and no table 'Heatt'; did you mean 'Heat'?"),
    ("z = 1\ny = 2*Heat", 2, 7, "'Heat' is a table; write Heat(t), or Heat of something else"),
    ("y = Heat(1, 2, 3)", 1, 5, "the table Heat() takes one or two arguments, but 3 came"),
    ("y = Heat(t=3)", 1, 11, "'=' inside an expression"),
    ("Heat' = 1\nHeat(0) = 0", 1, 1, "'Heat' is a table too; a name has one meaning: rename one of the two"),
    ("Heat = 1", 1, 1, "'Heat' is a table too"),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), TABLE_ERRORS)
def test_language_error_with_tables_that_are_known(text, line, column, message):
    with pytest.raises(LanguageError, match=f"^line {line}: ") as caught:
        Model.from_text(text, tables=["Heat"])
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize("text", ["z = 1\ny = 2*u(t)", "y = u(t + 1)", "y = u (t)", "y = u(t, 2)", "y = u(u(t))"])
def test_what_is_no_function_is_a_table_as_long_as_tables_are_not_known(text):
    assert list(Model.from_text(text).tables) == ["u"]


@pytest.mark.parametrize("text", ["", "  \n\n", "# nothing\n"])
def test_empty_text(text):
    with pytest.raises(LanguageError, match="the text holds no equation"):
        Model.from_text(text)


def test_t_stays_reserved():
    with pytest.raises(LanguageError, match="the independent variable is called 'r' here; write 'r'"):
        Model.from_text("y = 2*t", time="r")
    with pytest.raises(LanguageError, match="'t' is reserved"):
        Model.from_text("t = 2", time="r")
    with pytest.raises(LanguageError, match="'r' is the independent variable"):
        Model.from_text("r = 2", time="r")


@pytest.mark.parametrize("time", ["", "2x", "exp", "pi", "a b", None])
def test_bad_name_of_time(time):
    with pytest.raises(ModelError, match="independent variable"):
        Model.from_text("y = 1", time=time)


def test_lark_is_imported_when_used():
    code = "import sys, odefit.model; sys.exit('lark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
