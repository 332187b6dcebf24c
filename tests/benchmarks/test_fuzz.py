"""Mutated problem files: nothing but an OdefitError comes out, and no warning (``python -m benchmarks.fuzz``)."""

from __future__ import annotations

import pytest
from benchmarks.fuzz import STAGES, WRITTEN, case, run, sources

SEED = 1


@pytest.fixture(scope="module")
def problems():
    return sources()


@pytest.mark.parametrize("files", WRITTEN)
def test_written_problems_are_sound_to_begin_with(files, tmp_path):
    assert run(files, tmp_path) == "all"


def test_problems_of_the_gallery_are_among_them(problems):
    assert len(set(problems)) > len(WRITTEN) + 5


def test_cases_can_be_made_again(problems):
    made = [case(number, SEED, problems) for number in range(50)]
    assert made == [case(number, SEED, problems) for number in range(50)]
    assert len(set(made)) == 50
    assert made != [case(number, SEED + 1, problems) for number in range(50)]


@pytest.mark.parametrize("first", range(0, 500, 50))
def test_mutated_files_are_read_or_refused(problems, first, tmp_path):
    reached = [run(case(number, SEED, problems), tmp_path, fitting=False) for number in range(first, first + 50)]
    assert set(reached) == {"load", "check"}


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 500, 50))
def test_mutated_files_are_fitted_or_refused(problems, first, tmp_path):
    reached = [run(case(number, SEED, problems), tmp_path) for number in range(first, first + 50)]
    assert set(reached) <= set(STAGES)
    assert reached.count("all") > 5
