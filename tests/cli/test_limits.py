"""Wrong files and huge numbers: one sentence, exit code 2, in bounded time; no control character reaches a terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from odefit.cli.changes import read_result
from odefit.errors import OdefitError, ProblemError, caret, plain
from odefit.formats import file_content, file_patterns, load_problem
from odefit.formats.file_content import read_content
from odefit.formats.file_patterns import TooManyEntriesError, matching_files
from odefit.formats.toml_text import parse_toml

TOML = """[model]
equations = '''
x' = -k*x
x(0) = 1
'''
[parameters]
k = 1
[data]
file = "FILE"
"""
CSV = "time,x\n0,1\n1,0.5\n2,0.3\n"
posix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with a name are those of POSIX systems")


@pytest.fixture
def problem(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("d.csv").write_text(CSV)

    def write(file: str = "d.csv", name: str = "p.toml") -> Path:
        Path(name).write_text(TOML.replace("FILE", file))
        return Path(name)

    write()
    return write


# ------------------------------------------------------------------------------------------------------ results


CONTENTS = {
    "nothing in it": b"",
    "no text": bytes(range(256)) * 9,
    "a list": b"[1, 2]",
    "another JSON": b'{"parameters": 5}',
    "nested": b"[" * 100_000,
    "a huge number": b'{"parameters": {"k": {"estimate": ' + b"9" * 5000 + b"}}}",
}


@pytest.mark.parametrize("name", CONTENTS)
def test_from_a_wrong_file(command, problem, name):
    Path("r.json").write_bytes(CONTENTS[name])
    code, out, err = command("fit", "p.toml", "--from", "r.json", "-q")
    assert (code, out) == (2, "")
    assert err.startswith("odefit: 'r.json' is not a result file")
    assert err.count("\n") == 1


@pytest.mark.parametrize("estimate", ["null", '"1"', "true", "[]", "Infinity", "NaN", "1" + "0" * 400])
def test_estimates_that_are_no_numbers_are_left_out(problem, estimate):
    content = '{"parameters": {"k": {"estimate": ESTIMATE}, "m": 3, "n": {"estimate": 2}}}'
    Path("r.json").write_text(content.replace("ESTIMATE", estimate))
    assert list(read_result(Path("r.json"))["parameters"]) == ["n"]


@posix
@pytest.mark.parametrize(("name", "words"), [("pipe", "it is a pipe, not a file"), ("/dev/zero", "it is a device")])
@pytest.mark.parametrize("what", ["problem", "data", "result"])
def test_what_is_no_file_is_not_read(command, problem, name, words, what):
    os.mkfifo("pipe")
    problem(name, "other.toml")
    arguments = {"problem": [name], "data": ["other.toml"], "result": ["p.toml", "--from", name]}[what]
    code, _, err = command("fit", *arguments, "-q")
    assert code == 2
    assert words in err
    assert err.count("\n") == 1


def test_large_files_are_refused_by_their_size(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 3_000_000)
    assert len(read_content(path, 3_000_000)) == 3_000_000
    with pytest.raises(OSError, match="it has more than 2 MB"):
        read_content(path, 2_000_000)


def test_large_data_are_refused_before_they_are_read(problem, monkeypatch):
    with open("large.csv", "wb") as stream:
        stream.truncate(file_content.LARGEST_DATA + 10**6)  # takes no space on the disk
    with pytest.raises(ProblemError, match="the data files have 257 MB; at most 256 MB can be read"):
        load_problem(problem("large.csv"))


# ---------------------------------------------------------------------------------------------------- patterns


FILES = (
    "a.csv",
    "b.csv",
    "c.txt",
    ".hidden.csv",
    "deep/a.csv",
    "deep/er/b.csv",
    "deep/er/c.csv",
    ".dot/a.csv",
    "[x].csv",
)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.csv", "[x].csv a.csv b.csv"),
        ("?.csv", "a.csv b.csv"),
        ("[ab].*", "a.csv b.csv"),
        (".*.csv", ".hidden.csv"),
        ("*/*.csv", "deep/a.csv"),
        ("**/*.csv", "[x].csv a.csv b.csv deep/a.csv deep/er/b.csv deep/er/c.csv"),
        ("deep/**/*.csv", "deep/a.csv deep/er/b.csv deep/er/c.csv"),
        ("**/er/b.*", "deep/er/b.csv"),
        ("deep/**", "deep/a.csv deep/er/b.csv deep/er/c.csv"),
        ("nothing/*", ""),
    ],
)
def test_patterns(tmp_path, pattern, found):
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "deep" / "circle").symlink_to(tmp_path)
    for one in (pattern, f"{tmp_path}/{pattern}"):
        assert [path.relative_to(tmp_path).as_posix() for path in matching_files(one, tmp_path)] == found.split()


def test_patterns_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(file_patterns, "MOST_ENTRIES", 50)
    for i in range(60):
        (tmp_path / f"{i}").mkdir()
    with pytest.raises(TooManyEntriesError):
        matching_files("**/*.csv", tmp_path)


def test_a_pattern_without_end_is_answered_in_a_sentence(problem, monkeypatch):
    monkeypatch.setattr(file_patterns, "MOST_ENTRIES", 0)
    with pytest.raises(ProblemError, match=r"the pattern '\*\*/\*' in \[data\] file leads to more than .* folder"):
        load_problem(problem("**/*"))


# ----------------------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "p.toml", "--starts", "1000000000"], "'starts' is 1000000000; it must be at most 100000"),
        (["fit", "p.toml", "--starts", "2", "--seed", "-1"], "--seed"),
        (["simulate", "p.toml", "--noise", "1", "--seed", "-1"], "--seed"),
        (["simulate", "p.toml", "--times", "0:1:1000000000"], "asks for 1000000000 times; at most 1000000"),
    ],
)
def test_numbers_out_of_reach(command, problem, arguments, words):
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert words in err


def test_a_simulation_that_cannot_go_on_has_exit_code_3(command, problem):
    Path("p.toml").write_text(TOML.replace("FILE", "d.csv").replace("-k*x", "k*x^2"))
    code, out, err = command("simulate", "p.toml", "--times", "0:2:5")
    assert code == 3
    assert len(out.splitlines()) == 6
    assert out.splitlines()[-1].endswith(",")
    assert "odefit: experiment 'main'" in err
    assert "Warning" not in err


# ---------------------------------------------------------------------------------------------------- messages


LINES = {
    "a word": "a" * 40_000,
    "spaces": "a" + " " * 40_000 + "b",
    "quotes": '"\\' * 20_000,
    "open brackets": "a(" * 20_000,
    "points": "a." * 20_000 + "b = 1",
    "numbers": "x = " + "1," * 20_000,
    "equals": "=" * 40_000,
}


@pytest.mark.parametrize("name", LINES)
def test_a_long_line_is_answered_at_once(name):
    """In a process that is killed if it takes long; the quadratic searches took 20 s and more."""
    script = f"from odefit.formats.toml_text import parse_toml\nparse_toml(({LINES[name]!r}).encode())"
    done = subprocess.run([sys.executable, "-"], input=script, capture_output=True, text=True, timeout=120)
    assert "ProblemError" in done.stderr
    last = done.stderr.partition("ProblemError")[2]
    assert len(last) < 1000


def test_a_long_line_is_shown_around_the_caret():
    shown, mark = caret("x" * 5000 + "!" + "y" * 5000, 1, 5001).split("\n")
    assert len(shown) < 150
    assert shown[mark.index("^")] == "!"
    assert caret("short", 1, 3) == "    short\n      ^"


@pytest.mark.parametrize("text", ["\x1b[2J", "\x07", "\x9b31m", "\u202e", "\u200b", "\x00", "\ud800", "\u2028"])
def test_messages_do_not_speak_to_the_terminal(text):
    assert str(OdefitError(f"a{text}b")) == plain(f"a{text}b")
    assert text[0] not in str(OdefitError(text))
    assert plain("Größe 1\tα\n") == "Größe 1\tα\n"


def test_messages_are_bounded():
    assert len(str(OdefitError("the text '" + "x" * 10**6 + "' is wrong; shorten it."))) < 1000
    assert str(OdefitError("x" * 10**6 + " shorten it.")).endswith("shorten it.")


def test_a_title_does_not_speak_to_the_terminal(command, problem):
    Path("p.toml").write_text('title = "\\u001b[2J\\u0007"\n' + TOML.replace("FILE", "d.csv"))
    for name in ("check", "fit"):
        code, out, err = command(name, "p.toml")
        assert code == 0
        assert "\x1b" not in out + err
        assert "\x07" not in out + err


SECRET = "root:$6$secret$hash:19000:0:99999:7:::"


@pytest.mark.parametrize("content", [SECRET, f"{SECRET}\n{SECRET}\n", f"x {SECRET}, y\n1,2\n", "-----KEY-----\nMIIB\n"])
def test_content_of_files_that_are_no_data_is_not_quoted(problem, content):
    Path("secret").write_text(content)
    Path("base.toml").write_text('base = "secret"\n')
    for path in (problem("secret"), Path("base.toml"), Path("secret")):
        with pytest.raises(OdefitError, match=".") as caught:
            load_problem(path)
        assert "$6$" not in str(caught.value) or "y" in content
        assert "MIIB" not in str(caught.value)
        assert "KEY" not in str(caught.value)


def test_lines_of_problem_files_are_shown():
    with pytest.raises(ProblemError, match="k = abc"):
        parse_toml(b"k = abc")


# ------------------------------------------------------------------------------------------------------ signals


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_imports_ends_without_a_word(number):
    process = subprocess.Popen(
        [sys.executable, "-m", "odefit", "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    maps = Path(f"/proc/{process.pid}/maps")
    if maps.exists():
        while process.poll() is None and "numpy" not in maps.read_text():
            time.sleep(0.001)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == -number
    assert err == ""


ENDING = """
import os, sys, threading
import odefit.api
from odefit.cli import main

fit = odefit.api.fit
fit(odefit.api.load("p.toml").with_settings(max_steps=10))  # now everything is compiled

def ended(*arguments, **options):
    threading.Timer(0.5, os.kill, (os.getpid(), NUMBER)).start()
    return fit(*arguments, **options)

odefit.api.fit = ended
sys.argv = ["odefit", "fit", "p.toml", "--out", "results"]
main()
"""


@pytest.mark.slow
@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("ignoring", [False, True], ids=["", "in the background"])
def test_a_request_to_end_keeps_the_result(problem, number, ignoring):
    """During a long integration; a process in the background of a script ignores Ctrl-C."""
    script = ENDING.replace("NUMBER", str(int(number)))
    integrator = "[integrator]\nmethod = 'dopri5'\nmax_steps = 100000000\n"
    text = TOML.replace("FILE", "d.csv").replace("-k*x", "k*1e3*cos(k*1e3*t)") + integrator
    Path("p.toml").write_text(text)
    Path("d.csv").write_text("time,x\n0.001,0.5\n1e5,0.5\n")
    how = signal.SIG_IGN if ignoring else signal.SIG_DFL
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300,
        preexec_fn=lambda: signal.signal(signal.SIGINT, how),
    )  # fmt: skip
    assert done.returncode == 128 + number, done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(Path("results/result.json").read_text())["status"] == "interrupted"
