"""What the documents show is what the program does."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest
from matplotlib import pyplot as plt

import odefit as of
from odefit.gallery import WITHOUT_MINIMUM, load, names, path_of

ROOT = Path(__file__).parent.parent
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]\d+)?")


def blocks(file: str, language: str) -> list[str]:
    """Return the fenced blocks of a document in one language ("" for plain output)."""
    found: list[str] = []
    inside: str | None = None
    lines: list[str] = []
    for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
        if not line.startswith("```"):
            lines.append(line)
        elif inside is None:
            inside, lines = line[3:], []
        else:
            if inside == language:
                found.append("\n".join(lines))
            inside = None
    return found


@pytest.mark.parametrize(
    ("file", "name"), [("README.md", "barnes"), ("docs/usage.md", "arrhenius"), ("docs/statistics.md", "pyridine")]
)
def test_shown_results_are_real(file, name):
    problem = of.load(path_of(name))
    [shown] = [block for block in blocks(file, "") if block.startswith(problem.title)]
    real = of.fit(problem).summary()
    # the first numbers tell how small a fraction was left; it depends on rounding
    assert [NUMBER.sub("#", line) for line in shown.splitlines()] == [NUMBER.sub("#", s) for s in real.splitlines()]
    for mine, theirs in zip(shown.splitlines()[2:], real.splitlines()[2:], strict=True):
        assert [float(x) for x in NUMBER.findall(mine)] == pytest.approx(
            [float(x) for x in NUMBER.findall(theirs)], rel=1e-3
        )


@pytest.mark.parametrize(("file", "name"), [("README.md", "barnes"), ("docs/usage.md", "arrhenius")])
def test_shown_problem_files_are_those_of_the_gallery(file, name):
    [shown] = blocks(file, "toml")
    mine, theirs = tomllib.loads(shown), tomllib.loads(path_of(name).read_text(encoding="utf-8"))

    def without_comments(content):
        lines = content["model"].pop("equations").splitlines()
        return [line.split("#")[0].strip() for line in lines]

    assert without_comments(mine) == without_comments(theirs)
    assert mine == theirs


@pytest.mark.parametrize("file", ["README.md", "docs/usage.md", "docs/statistics.md"])
def test_shown_python_runs(file, monkeypatch):
    monkeypatch.chdir(path_of("barnes").parent)
    plt.switch_backend("agg")  # no windows
    for block in blocks(file, "python"):
        exec(compile(block, file, "exec"), {})  # documents of our own
    plt.close("all")


def test_the_shown_fit_with_a_table_is_real(capsys):
    [block] = blocks("docs/tables.md", "python")
    [shown] = [block for block in blocks("docs/tables.md", "") if block.startswith("converged")]
    exec(compile(block, "docs/tables.md", "exec"), {})  # a document of our own
    mine, theirs = shown.splitlines()[2:], capsys.readouterr().out.strip().splitlines()[2:]
    assert [NUMBER.sub("#", line) for line in mine] == [NUMBER.sub("#", line) for line in theirs]
    found, expected = ([float(x) for line in lines for x in NUMBER.findall(line)] for lines in (mine, theirs))
    assert found == pytest.approx(expected, rel=1e-2)


def test_the_shown_fit_with_arguments_of_rows_is_real(tmp_path):
    plain = blocks("docs/usage.md", "")
    [toml] = [block for block in plain if block.startswith("# blots.toml")]
    [csv] = [block for block in plain if block.startswith("time,signal,scale,sigma")]
    [shown] = [block for block in plain if block.startswith("Decay on two gels")]
    (tmp_path / "blots.toml").write_text(toml)
    (tmp_path / "blots.csv").write_text(csv)
    mine, theirs = shown.splitlines()[2:], of.fit(of.load(tmp_path / "blots.toml")).summary().splitlines()[2:]
    assert [NUMBER.sub("#", line) for line in mine] == [NUMBER.sub("#", line) for line in theirs]
    found, expected = ([float(x) for line in lines for x in NUMBER.findall(line)] for lines in (mine, theirs))
    assert found == pytest.approx(expected, rel=1e-3)


def test_shown_output_of_an_evaluator_is_real(monkeypatch, capsys):
    monkeypatch.chdir(path_of("barnes").parent)
    [block] = [block for block in blocks("docs/usage.md", "python") if "of.Evaluator" in block]
    [shown] = [block for block in blocks("docs/usage.md", "") if block.startswith("('k1', 'k2', 'k3')")]
    exec(compile(block, "docs/usage.md", "exec"), {})  # a document of our own
    real = capsys.readouterr().out.strip()
    assert NUMBER.sub("#", shown) == NUMBER.sub("#", real)
    assert [float(x) for x in NUMBER.findall(shown)] == pytest.approx(
        [float(x) for x in NUMBER.findall(real)], rel=1e-3
    )


@pytest.mark.parametrize("name", names())
def test_gallery_fits(name):
    result = of.fit(load(name))
    assert result.status == ("flat-valley" if name in WITHOUT_MINIMUM else "converged")
    warned = [notice for notice in result.warnings if notice.code.startswith("convergence")]
    assert bool(warned) == (name in WITHOUT_MINIMUM)


def test_every_folder_of_the_gallery_is_described():
    table = (ROOT / "docs" / "usage.md").read_text(encoding="utf-8").split("## Gallery")[1].split("\n## ")[0]
    assert set(names()) == set(re.findall(r"`([^`]+)`", "".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE))))


@pytest.mark.parametrize("file", ["README.md", "docs/usage.md"])
def test_shown_pictures_exist_and_are_small(file, decoded):
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (ROOT / file).read_text(encoding="utf-8"))
    assert shown
    for path in shown:
        content = ((ROOT / file).parent / path).read_bytes()
        decoded(content)
        assert len(content) < 100_000


def test_pictures_are_those_that_the_command_makes(decoded):
    code = compile((ROOT / "docs" / "make_pictures.py").read_text(), "make_pictures", "exec")
    space = {"__file__": str(ROOT / "docs" / "make_pictures.py"), "__name__": "make_pictures"}
    exec(code, space)
    made = space["pictures"]()
    assert set(made) == {path.name for path in (ROOT / "docs" / "pictures").iterdir()}
    shown = (ROOT / "docs" / "pictures" / "barnes.png").read_bytes()
    assert decoded(made["barnes.png"]()).shape == decoded(shown).shape


@pytest.mark.parametrize("block", [b for b in blocks("docs/extending.md", "python") if "class " in b or "def " in b])
def test_shown_extensions_are_those_of_the_tests(block):
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_adding_a*.py")]
    for part in block.split("\n\n\n"):
        assert any(part in source for source in sources), part


def stations() -> list[tuple[str, str]]:
    """Names and files of the stations of docs/development.md."""
    text = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
    walk = text.split("## The walk of one measurement and one parameter")[1].split("\n## ")[0]
    return re.findall(r"^\| `([\w.]+)` \| `([\w/]+\.py)` \|", walk, re.MULTILINE)


def test_no_station_of_the_walk_is_passed_twice():
    assert len(stations()) == len(set(stations())) > 30


@pytest.mark.parametrize(("name", "file"), stations())
def test_stations_of_the_walk_are_where_the_document_says(name, file):
    body = ast.parse((ROOT / "src" / "odefit" / file).read_text(encoding="utf-8")).body
    for part in name.split("."):
        defined = {node.name: node.body for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
        assert part in defined
        body = defined[part]


@pytest.mark.parametrize("file", sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")))
def test_files_that_documents_name_exist(file):
    """Such as `tests/solve/test_solver_matrix.py` or `solve/freeze.py`."""
    named = re.findall(r"`((?:\w+/)+\w+\.(?:py|md))`", (ROOT / file).read_text(encoding="utf-8"))
    for name in named:
        assert (ROOT / name).exists() or (ROOT / "src" / "odefit" / name).exists(), name
