"""One test a mistake: the message names the thing and the place, and nothing but an OdefitError escapes."""

from __future__ import annotations

import re

import pytest
from pf_project import CSV, DATA, EQUATIONS, PARAMETERS

from odefit.errors import OdefitError

GOOD = EQUATIONS + PARAMETERS + DATA


def parameters(text: str) -> str:
    return EQUATIONS + "[parameters]\nk2 = 0.5\nA0 = 1\n" + text + "\n" + DATA


def with_section(text: str) -> str:
    return GOOD + text + "\n"


def data(text: str) -> str:
    return EQUATIONS + PARAMETERS + "[data]\n" + text + "\n"


# name: (problem file, data file, what the message says)
TOML = {
    "initial value key": (GOOD + "[experiments.b1]\nA(0) = 2\n", r'line 16 .*quote it: "A\(0\)" = '),
    "initial value key inline": (GOOD + "[experiments]\nb1 = { A(0) = 2 }\n", r'quote it: "A\(0\)"'),
    "inline table over lines": (GOOD + "[experiments]\nb1 = { k = 2,\n use = 'fit' }\n", "inline table stands on one"),
    "inline table opened": (GOOD + "[experiments]\nb1 = {\n k = 2 }\n", r"use \[experiments.b1\]"),
    "inline table not closed": (GOOD + "[experiments]\nb1 = { k = 2\n}\n", "stands on one line"),
    "Greek key": (parameters("α = 1"), 'quote it: "α"'),
    "Greek letter in a key": (parameters("kα = 1"), 'quote it: "kα"'),
    "Greek key inline": (GOOD + "[experiments]\nb1 = { α = 1 }\n", 'quote it: "α"'),
    "backslash": (data('file = "data\\d.csv"'), "write / instead of"),
    "decimal comma": (parameters("k = 1,5"), "decimals are written with a point"),
    "number without digit": (parameters("k = .5"), "digit before the point"),
    "number with open point": (parameters("k = 1."), "both sides of the point"),
    "text without quotes": (parameters("k = { start = 1, scale = log }"), 'text needs quotes: "log"'),
    "True": (parameters("k = { start = 1, fixed = True }"), "small letters"),
    "nothing after =": (parameters("k ="), "has to follow '='"),
    "two equal signs": (parameters("k == 1"), "one '='"),
    "key given twice": (parameters("k = 1\nk = 2"), "given twice"),
    "section given twice": (GOOD + "[data]\nfile = 'd.csv'\n", "given twice"),
    "comma at the end": (parameters("k = { start = 1, }"), "remove the comma"),
    "colon": (parameters("k : 1"), "write key = value"),
    "open text": ('[model]\nequations = """\nx', "never closed"),
    "open list": (GOOD + '[constraints]\nrules = ["k ~ normal(1, 1)"', "bracket is never closed"),
    "not UTF-8": (GOOD.encode() + b"title = '\xff'", "line 15 is not UTF-8"),
    "nested": ("x = " + "[" * 5000, "nested too deeply"),
    "digits": ("x = " + "1" * 5000, "thousands of digits"),
    "unknown section": (GOOD + "[paramters]\nk = 1\n", "no section or key 'paramters'; did you mean 'parameters'"),
    "unknown top key": ("titel = 'x'\n" + GOOD, "'titel'; did you mean 'title'"),
    "title below a section": (GOOD + "title = 'x'\n", "at the top of the file"),
    "time is a number": ("time = 3\n" + GOOD, "time must be text in quotes, not 3"),
    "time is no name": ("time = '2x'\n" + GOOD, "is not a name"),
    "section is no table": ("model = 3", r"\[model\] must be a table of keys, not 3"),
    "events": (GOOD + "[events]\nfile = 'e.csv'\n", r"the file of \[events\] 'e.csv' does not exist"),
    "grids": (GOOD + "[grids.r]\nfrom = 0\n", r"not supported yet: \[grids.r\]"),
    "no equations": (PARAMETERS + DATA, "there are no equations"),
    "equation mistake": (GOOD.replace("k*A - k2", "k*A - * k2"), "equations, line 2:"),
    "sbml": ('[model]\nsbml = "m.xml"\n', r"not supported yet: 'sbml' in \[model\]"),
    "python": ('[model]\npython = "m.py:rhs"\n', r"not supported yet: 'python' in \[model\]"),
    "unknown model key": (GOOD.replace("[model]", "[model]\nequation = 0"), "unknown key 'equation'; did you mean"),
    "t0 is text": (GOOD.replace("[model]", "[model]\nt0 = '0'"), r"\[model\] t0 must be a number"),
    "t0 is infinite": (GOOD.replace("[model]", "[model]\nt0 = inf"), "finite time"),
}
PARAMETER = {
    "start is text": (parameters('k = "1"'), r"start value of 'k' must be a number, not the text '1'"),
    "start is a flag": (parameters("k = true"), "must be a number, not true"),
    "start is another word": (parameters('k = { start = "automatic" }'), "'start' of 'k' must be a number"),
    "linear": (parameters("k = { linear = true, lower = 0 }"), "not supported yet: linear = true of 'k'"),
    "no start": (parameters("k = { lower = 0 }"), "'k' has no start value"),
    "unknown key": (parameters("k = { strat = 1 }"), "unknown key 'strat'; did you mean 'start'"),
    "scale": (parameters("k = { start = 1, scale = 'ln' }"), "scale 'ln'"),
    "prior": (parameters("k = { start = 1, prior = 'normal(1)' }"), "prior"),
    "prior is a number": (parameters("k = { start = 1, prior = 3 }"), "'prior' of 'k' must be text"),
    "fixed is text": (parameters("k = { start = 1, fixed = 'yes' }"), "must be true or false"),
    "per without column": (parameters("k = { start = 1, per = 'gel' }"), 'per = "gel", but the data have no column'),
    "per is reserved": (parameters("k = { start = 1, per = 'sigma' }"), "another meaning"),
    "per is an observable": (parameters("k = { start = 1, per = 'total' }"), "state or definition"),
    "missing parameter": (parameters(""), "'k' is used in the equations but has no value"),
    "left over": (parameters("k = 1\nkk = 1"), "'kk' does not occur"),
    "pattern of nothing": (parameters('k = 1\n"z*" = 1'), r"pattern 'z\*' in \[parameters\] matches no"),
    "two patterns": (parameters('"k*" = 1\n"?" = 2'), r"'k' matches the patterns 'k\*' and '\?'"),
    "huge number": (parameters("k = 1" + "0" * 400), "too large"),
    "no file": (parameters("file = 'q.csv'"), "file of parameters 'q.csv' does not exist"),
    "file is a list": (parameters("file = ['q.csv']"), r"\[parameters\] file must be text"),
    "slot of nothing": (
        parameters('k = { start = 1, per = "experiment" }\n"k[b]" = 2'),
        r"'k\[b\]'",
    ),
    "slot is text": (parameters('k = { start = 1, per = "experiment" }\n"k[main]" = "2"'), "must be a number"),
}
EXPERIMENT = {
    "no table": (with_section("[experiments]\nb1 = 2"), "experiment 'b1' must be a table"),
    "start": (
        with_section('[experiments]\nb1 = { start = "stady" }'),
        "'start' of experiment 'b1' is the text 'stady'; it is \"steady\" or left out",
    ),
    "start is a number": (with_section("[experiments]\nb1 = { start = 3 }"), "the time of the start is t0 in .model."),
    "before": (
        with_section("[experiments]\nb1 = { before = { k = 0 } }"),
        "experiment 'b1' has 'before', .* add start = \"steady\"",
    ),
    "before is a number": (
        with_section('[experiments]\nb1 = { start = "steady", before = 2 }'),
        "'before' of experiment 'b1' must be a table, not 2; write before = { k = 2 }",
    ),
    "before: unknown name": (
        with_section('[experiments]\nb1 = { start = "steady", before = { kk = 0 } }'),
        "'before' of experiment 'b1' sets 'kk', which the model does not have",
    ),
    "before: no number": (
        with_section('[experiments]\nb1 = { start = "steady", before = { k = [0] } }'),
        "'k' in 'before' of experiment 'b1' must be a number or the text of an expression",
    ),
    "use": (with_section("[experiments]\nb1 = { use = 'fti' }"), "use = 'fti'"),
    "use is a number": (with_section("[experiments]\nb1 = { use = 1 }"), "'use' of experiment 'b1' must be text"),
    "until": (with_section("[experiments]\nb1 = { until = '60' }"), "'until' of experiment 'b1' must be a number"),
    "unknown name": (with_section("[experiments]\nb1 = { kk = 1 }"), "sets 'kk', which the model does not have"),
    "state": (with_section("[experiments]\nb1 = { A = 1 }"), r'write "A\(0\)"'),
    "no state": (with_section('[experiments]\nb1 = { "C(0)" = 1 }'), "'C' is not a state"),
    "flag": (with_section("[experiments]\nb1 = { k = true }"), "must be a number or the text of an expression"),
    "list": (with_section("[experiments]\nb1 = { k = [1] }"), "not a list"),
    "expression": (with_section("[experiments]\nb1 = { k = '2*' }"), "'k' in experiment 'b1'"),
    "several, no column": (with_section("[experiments]\nb1 = {}\nb2 = {}"), "no column 'experiment'.*'b1', 'b2'"),
    "no file": (with_section("[experiments]\nfile = 'runs.csv'"), "file of experiments 'runs.csv' does not exist"),
}
OTHER = {
    "rules": (with_section("[constraints]\nrules = 'k ~ normal(1, 1)'"), "must be a list of texts"),
    "rule is a number": (with_section("[constraints]\nrules = [1]"), "must be text"),
    "rule with <": (with_section("[constraints]\nrules = ['k < 2']"), "'<' cannot be held by a fit; write <="),
    "rule of unknown name": (with_section("[constraints]\nrules = ['q ~ normal(1, 1)']"), "'q'"),
    "constraints key": (with_section("[constraints]\nrule = []"), "unknown key 'rule'; did you mean 'rules'"),
    "derived is a number": (with_section("[derived]\nx = 1"), r"\[derived\] x must be text"),
    "derived": (with_section("[derived]\nx = 'log(2)/q'"), "'q'"),
    "units": (with_section("[units]\nq = 'h'"), r"\[units\] has 'q'"),
    "unit is a number": (with_section("[units]\nk = 1"), r"\[units\] k must be text"),
    "integrator": (with_section("[integrator]\nrtoll = 1e-3"), "unknown key 'rtoll'; did you mean 'rtol'"),
    "rtol": (with_section("[integrator]\nrtol = 2"), "'rtol' is 2"),
    "max_steps": (with_section("[integrator]\nmax_steps = 1.5"), "whole number"),
    "max_steps is huge": (with_section("[integrator]\nmax_steps = 0xffffffffffffffffff"), "too large"),
    "criterion": (with_section("[fit]\ncriterion = 'x'"), "there is no criterion 'x'. There are: least-squares"),
    "criterion to come": (
        with_section("[fit]\ncriterion = 'determinant'"),
        "not supported yet: criterion = 'determinant'",
    ),
    "solver": (with_section("[fit]\nsolver = 3"), r"solver must be text"),
    "starts": (with_section("[fit]\nstarts = 0"), "'starts' is 0; it must be at least 1"),
    "seed": (with_section("[fit]\nseed = -1"), "'seed' is -1; it must not be negative"),
    "horizons": (with_section("[fit]\nhorizons = 3"), r"\[fit\] horizons must be a list of numbers, not 3"),
    "horizons of text": (with_section('[fit]\nhorizons = [1, "b"]'), "entry 2, must be a number"),
    "start of the fit": (with_section('[fit]\nstart = "best"'), "'start' is 'best'"),
    "fit key": (with_section("[fit]\ntoll = 1e-3"), "unknown key 'toll'; did you mean 'tol'"),
    "base is a number": ("base = 3\n" + GOOD, "base must be text"),
    "base is missing": ("base = 'q.toml'\n" + GOOD, "base 'q.toml' of 'p.toml' cannot be read"),
    "base is itself": ("base = 'p.toml'\n" + GOOD, "circle: 'p.toml' -> 'p.toml'"),
}
NOISE = {
    "sigma is zero": (data("file = 'd.csv'\nsigma = 0"), r"\[data\] sigma is 0"),
    "sigma is negative": (with_section("[noise]\ndefault = -1"), r"\[noise\] default is -1"),
    "both": (data("file = 'd.csv'\nsigma = 1") + "[noise]\ndefault = 1\n", "both are given"),
    "estimate": (with_section('[noise]\nA = "estimate"'), r"not supported yet: an estimated sigma in \[noise\] A"),
    "expression": (with_section('[noise]\nA = "0.1*A"'), r"not supported yet: an expression for sigma in \[noise\] A"),
    "word": (with_section('[noise]\nA = "poisson"'), 'not supported yet: the distribution "poisson"'),
    "distribution": (
        with_section('[noise]\nA = { distribution = "lognormal", sigma = 0.2 }'),
        r'not supported yet: the distribution "lognormal" in \[noise\] A',
    ),
    "below": (with_section("[noise]\nA = { sigma = 1, below = 0.1 }"), r"not supported yet: 'below' in \[noise\] A"),
    "correlated": (with_section("[noise]\nA = { sigma = 1, correlated = true }"), "not supported yet: 'correlated'"),
    "key": (with_section("[noise]\nA = { sgma = 1 }"), "unknown key 'sgma'; did you mean 'sigma'"),
    "not measured": (with_section("[noise]\ntotal = 1"), r"\[noise\] has an entry 'total', but no such values"),
    "percentage": (with_section("[noise]\nA = 'x %'"), "not a percentage"),
    "zero percent": (with_section("[noise]\nA = '0 %'"), "positive"),
    "zero value": (with_section("[noise]\ndefault = '10 %'"), "'d.csv', line 2, column 'B': the value is 0"),
    "flag": (with_section("[noise]\nA = true"), r"\[noise\] A must be a number"),
    "data estimate": (data("file = 'd.csv'\nsigma = 'estimate'"), "not supported yet: an estimated sigma"),
}
DATA_KEYS = {
    "no data": (EQUATIONS + PARAMETERS, "there are no data"),
    "no file": (data("time = 'time'"), 'add file = "....csv"'),
    "no such file": (data("file = 'dd.csv'"), "'dd.csv' does not exist in .*; did you mean 'd.csv'"),
    "folder": (data("file = '.'"), "cannot be read"),
    "empty name": (data("file = ''"), "is empty"),
    "file is a number": (data("file = 3"), r"\[data\] file must be text"),
    "empty list": (data("file = []"), "empty list"),
    "list with a number": (data("file = ['d.csv', 1]"), r"\[data\] file must be text"),
    "twice": (data("file = ['d.csv', '*.csv']"), "'d.csv' is named twice"),
    "no match": (data("file = 'x_*.csv'"), r"no file in .* matches 'x_\*.csv'"),
    "unknown key": (data("file = 'd.csv'\ncolums = {}"), "unknown key 'colums'; did you mean 'columns'"),
    "columns is text": (data("file = 'd.csv'\ncolumns = 'A'"), "must be a table of keys"),
    "columns to a number": (data("file = 'd.csv'\ncolumns = { A = 1 }"), "new name of column 'A' must be text"),
    "columns to nothing": (data("file = 'd.csv'\ncolumns = { A = '' }"), "empty name"),
    "columns of nothing": (data("file = 'd.csv'\ncolumns = { 'A [M]' = 'A' }"), r"renames 'A \[M\]', but"),
    "columns to another": (data("file = 'd.csv'\ncolumns = { A = 'B' }"), r"two columns 'B' \('A' and 'B'\)"),
    "time column": (data("file = 'd.csv'\ntime = 'tme'"), "no column 'tme' for the time; did you mean 'time'"),
    "melt without value": (data("file = 'd.csv'\nmelt = { into = 'w' }"), "melt has no 'value'"),
    "melt key": (data("file = 'd.csv'\nmelt = { int = 'w' }"), "unknown key 'int'; did you mean 'into'"),
    "melt into time": (data("file = 'd.csv'\nmelt = { into = 'time', value = 'A' }"), "cannot be the name"),
    "melt into a column with a meaning": (
        data("file = 'd.csv'\nmelt = { into = 'below', value = 'A' }"),
        "cannot be the name",
    ),
    "melt into a column": (data("file = 'd.csv'\nmelt = { into = 'A', value = 'B' }"), "has a column 'A' already"),
    "melt value": (data("file = 'd.csv'\nmelt = { into = 'w', value = 'totl' }"), "'totl' is no state .* 'total'"),
    "origin is no date": (data("file = 'd.csv'\norigin = '1.3.2020'"), "origin '1.3.2020' is not a date"),
    "origin is a number": (data("file = 'd.csv'\norigin = 3"), "origin must be a date"),
    "origin without dates": (data("file = 'd.csv'\norigin = '2020-03-01'"), "'d.csv', line 2.*'0' is not a date"),
}
CELLS = {
    "empty file": ("", "'d.csv' is empty"),
    "comments only": ("# nothing\n\n", "'d.csv' is empty"),
    "no rows": ("time,A\n", "no rows"),
    "binary": (b"time,A\n0,\0\n", "not a text file"),
    "not UTF-8": (b"time,A\n0,1\n\xe9,2\n", "line 3 is not UTF-8"),
    "text": ("time,A\n0,1\n# remark\n1,x\n", "'d.csv', line 4, column 'A': 'x' is not a number"),
    "text quoted": ('time,A\n0,1\n\n"1","x"\n', "'d.csv', line 4, column 'A': 'x' is not a number"),
    "below": ("time,A\n0,<0.1\n", "'<0.1' is not a number; values known to lie below"),
    "decimal comma": ('time,A\n0,"0,1"\n', "decimal point"),
    "thousands": ("time;A\n0;1.000,5\n", "decimal point"),
    "underscore": ("time,A\n0,1_0\n", "'1_0' is not a number"),
    "short line": ("time,A,B\n0,1,2\n1,2\n", "line 3 has 2 fields but the header has 3"),
    "long line": ("time,A,B\n0,1,2,3\n", "line 2 has 4 fields"),
    "open quote": ('time,A\n0,"1\n1,2\n', "line 2 cannot be read"),
    "two columns": ("time,A,A\n0,1,2\n", "two columns 'A', numbers 2 and 3"),
    "column without name": (",time,A\n1,0,1\n2,1,1\n", r"column without a name \(number 1\)"),
    "unknown column": ("time,A,totl\n0,1,1\n", "'totl', which is no state .*; did you mean 'total'"),
    "no header": ("0,1\n1,2\n", "must name the columns"),
    "spaces separate": ("time A B\n0 1 2\n", "separated by commas, semicolons or tabs"),
    "no time": ("t1,A\n0,1\n", "no column 'time' or 't' for the time"),
    "missing time": ("time,A\n0,1\n,2\n", "'d.csv', line 3, column 'time': the time is missing"),
    "infinite time": ("time,A\n-inf,1\n", r"line 2, .*the time is not finite; every row needs the time"),
    "minus infinite time": ("time,A\n-inf,1\n", "the time is not finite"),
    "dates": ("time,A\n2020-03-01,1\n", "the times are dates, which need an origin"),
    "early": ("time,A\n-1,1\n", "before its start"),
    "infinite value": ("time,A\n0,inf\n", "line 2, column 'A': the value is infinite"),
    "no values": ("time,sigma\n0,1\n", "no column with measured values"),
    "zero sigma": ("time,A,sigma\n0,1,0\n", "line 2, column 'sigma': its sigma is 0"),
    "negative sigma": ("time,A,A.sigma\n0,1,1\n1,1,-2\n", "line 3, column 'A.sigma': its sigma is -2"),
    "infinite sigma": ("time,A,sigma\n0,1,inf\n", "its sigma is inf"),
    "negative weight": ("time,A,weight\n0,1,-1\n", "its weight is -1"),
    "sigma and weight": ("time,A,sigma,weight\n0,1,1,0\n0,1,1,2\n", "line 3, column 'A': it has both"),
    "sigma of nothing": ("time,A,B.sigma\n0,1,1\n", "'B.sigma', but no measured column 'B'"),
    "sigma of time": ("time,A,time.sigma\n0,1,1\n", "no measured column 'time'"),
    "below column": ("time,A,below\n0,1,1\n", "not supported yet: the data column 'below' in 'd.csv'"),
    "above column": ("time,A,above\n0,1,1\n", "not supported yet: the data column 'above'"),
    "from column": ("time,A,from\n0,1,1\n", "line 2, column 'A': its interval is from 1 to 0; it must begin"),
    "from of a state": (
        "time,A,from\n2,1,1\n",
        "its interval begins at 1, but 'A' is measured at a time; leave 'from'",
    ),
    "side column": ("time,A,side\n0,1,later\n", "line 2, column 'side': 'later' is no side"),
    "tidy below": ("time,observable,value,below\n0,A,1,1\n", "not supported yet: the data column 'below'"),
    "tidy column": ("time,observable,value,sgma\n0,A,1,1\n", "'sgma' without a meaning; did you mean 'sigma'"),
    "tidy name": ("time,observable,value\n0,totl,1\n", "line 2, column 'observable': 'totl' is not .* 'total'"),
    "tidy no name": ("time,observable,value\n0,A,1\n0,,1\n", "line 3, column 'observable': the cell is empty"),
    "tidy half": ("time,value\n0,1\n", "a tidy file needs a column 'observable'"),
    "tidy row": ("time,observable,value,row\n0,A,1,0.5\n", "line 2, column 'row': the row is not a whole number"),
    "no experiment": ("experiment,time,A\na,0,1\n,0,1\n", "line 3, column 'experiment': the cell is empty"),
}
TABLES = {
    "parameters: column": ("parameters", "name,strat\nk,1\n", "'q.csv' has an unknown column 'strat'"),
    "parameters: no name": ("parameters", "start\n1\n", "no column 'name'"),
    "parameters: empty name": (
        "parameters",
        "name,start\nk,1\n,2\n",
        "'q.csv', line 3, column 'name': the cell is empty",
    ),
    "parameters: twice": ("parameters", "name,start\nk,1\nk,2\n", "line 3, column 'name': the parameter 'k' is given"),
    "parameters: number": ("parameters", "name,start,lower\nk,1,x\n", "line 2, column 'lower': 'x' is not a number"),
    "parameters: fixed": ("parameters", "name,start,fixed\nk,1,x\n", "line 2, column 'fixed': 'x' is neither"),
    "parameters: another word": ("parameters", "name,start\nk,automatic\n", "'automatic' is not a number"),
    "parameters: linear": ("parameters", "name,linear\nk,true\n", "not supported yet: linear"),
    "parameters: rows": ("parameters", "name,start\n", "no rows"),
    "experiments: no name": ("experiments", "k\n1\n", "no column 'experiment'"),
    "experiments: empty name": ("experiments", "name,k\n,1\n", "line 2, column 'name': the cell is empty"),
    "experiments: twice": ("experiments", "experiment,k\na,1\na,2\n", "line 3.*'a' is given twice"),
    "experiments: column": ("experiments", "experiment,kk\na,1\n", "column 'kk', which the model does not have"),
    "experiments: state": ("experiments", "experiment,A\na,1\n", r"a state; write 'A\(0\)'"),
    "experiments: until": ("experiments", "experiment,until\na,x\n", "line 2, column 'until': 'x' is not a number"),
    "experiments: start": (
        "experiments",
        "experiment,start\na,stady\n",
        "'start' of experiment 'a' is the text 'stady'",
    ),
    "experiments: before": ("experiments", "experiment,before\na,1\n", "not supported yet: the column 'before'"),
    "experiments: expression": ("experiments", "experiment,k\na,2*\n", "'k' in experiment 'a'"),
}


def cases(table):
    return [pytest.param(*entry, id=name) for name, entry in table.items()]


FILES = [*cases(TOML), *cases(PARAMETER), *cases(EXPERIMENT), *cases(OTHER), *cases(NOISE), *cases(DATA_KEYS)]


@pytest.mark.parametrize(("toml", "message"), FILES)
def test_mistake_in_the_problem_file(project, toml, message):
    with pytest.raises(OdefitError, match=message) as caught:
        project.load(toml)
    assert_readable(str(caught.value))


@pytest.mark.parametrize(("csv", "message"), cases(CELLS))
def test_mistake_in_the_data_file(project, csv, message):
    with pytest.raises(OdefitError, match=message) as caught:
        project.load(None, csv)
    assert_readable(str(caught.value))


@pytest.mark.parametrize(("section", "csv", "message"), cases(TABLES))
def test_mistake_in_a_table(project, section, csv, message):
    toml = parameters("file = 'q.csv'") if section == "parameters" else with_section("[experiments]\nfile = 'q.csv'")
    with pytest.raises(OdefitError, match=message) as caught:
        project.load(toml, CSV, q_csv=csv)
    assert_readable(str(caught.value))


def test_there_are_many_mistakes():
    assert len(FILES) + len(CELLS) + len(TABLES) > 150


def assert_readable(message: str) -> None:
    """The file is named once at the beginning; nothing of Python shows."""
    assert message.startswith("p.toml: ")
    assert not re.search(r"Traceback|<class|object at 0x|None\b", message)
    assert ".." not in message.replace("...", "")
    assert "?." not in message
