"""--plots: pictures beside result.json."""

from __future__ import annotations

import json

import pytest

from odefit.gallery import path_of


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_fit_writes_a_picture(command, decoded, tmp_path):
    out = tmp_path / "results"
    code, _, err = command("fit", path_of("barnes"), "--out", out, "--plots")
    assert code == 0
    assert names(out) == ["fit.png", "result.json"]
    decoded((out / "fit.png").read_bytes())
    assert err.splitlines()[-2:] == [f"odefit: wrote {out / 'result.json'}", f"odefit: wrote {out / 'fit.png'}"]


def test_several_starts_have_pictures_of_their_own(command, decoded, tmp_path):
    code, _, err = command("fit", path_of("barnes"), "--out", tmp_path, "--plots", "--starts", "3")
    assert code == 0
    assert names(tmp_path) == ["fit.png", "parameters.png", "result.json", "waterfall.png"]
    contents = [(tmp_path / name).read_bytes() for name in ("fit.png", "parameters.png", "waterfall.png")]
    assert len(set(contents)) == 3
    for content in contents:
        decoded(content)
    assert f"odefit: wrote {tmp_path / 'waterfall.png'}" in err


def test_demo_with_json_and_a_fit_that_did_not_converge(command, tmp_path):
    code, out, err = command("demo", "herbert/ridge", "--json", "--out", tmp_path, "--plots")
    assert code == 3
    assert json.loads(out)["status"] == "flat-valley"
    assert f"odefit: wrote {tmp_path / 'fit.png'}" in err


def test_quiet_writes_and_says_nothing(command, tmp_path):
    code, out, err = command("fit", path_of("barnes"), "--quiet", "--out", tmp_path, "--plots")
    assert (code, out, err) == (0, "", "")
    assert names(tmp_path) == ["fit.png", "result.json"]


def test_without_plots_there_are_none(command, tmp_path):
    command("fit", path_of("barnes"), "--out", tmp_path)
    assert names(tmp_path) == ["result.json"]


@pytest.mark.parametrize("arguments", [("fit", path_of("barnes")), ("demo", "barnes")])
def test_plots_need_a_folder(command, arguments):
    code, out, err = command(*arguments, "--plots")
    assert (code, out) == (2, "")
    assert err == "odefit: --plots writes pictures beside result.json; say where with --out.\n"
