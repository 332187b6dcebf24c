"""The keys of [data]: files, columns, dates, melting, groups, sigma and weight."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest
from pf_project import EQUATIONS, PARAMETERS

from odefit.errors import OdefitError, ProblemError
from odefit.formats import measurements_from_frame

PER = PARAMETERS.replace("k = 1\n", 'k = { start = 1, per = "gel" }\n')
SPECTRA = """[model]
equations = \"\"\"
A' = -k*A
A(0) = 1
absorbance = e*A
\"\"\"
[parameters]
k = 1
e = { start = 1, per = "wavelength" }
"""


def data(text: str, parameters: str = PARAMETERS) -> str:
    return EQUATIONS + parameters + "[data]\n" + text + "\n"


def names(measurements):
    return list(dict.fromkeys(measurements.experiment.tolist()))


class TestFiles:
    A = "time,A\n0,1\n1,0.5\n"
    B = "time,B\n0,0\n1,0.25\n"

    def test_each_of_several_files_is_an_experiment(self, project):
        problem = project.put("r2.csv", self.A).put("r1.csv", self.B).load(data('file = "r*.csv"'))
        assert names(problem.measurements) == ["r1", "r2"]
        assert [e.name for e in problem.experiments] == ["r1", "r2"]
        assert problem.measurements.row.tolist() == [0, 1, 2, 3]

    def test_a_list_keeps_its_order(self, project):
        problem = project.put("r2.csv", self.A).put("r1.csv", self.B).load(data('file = ["r2.csv", "r1.csv"]'))
        assert names(problem.measurements) == ["r2", "r1"]

    def test_a_list_with_a_pattern(self, project):
        project.put("x.csv", self.A).put("in/r2.csv", self.A).put("in/r1.csv", self.B)
        problem = project.load(data('file = ["x.csv", "in/r?.csv"]'))
        assert names(problem.measurements) == ["x", "r1", "r2"]

    def test_files_with_a_column_keep_their_experiments(self, project):
        project.put("r1.csv", "experiment,time,A\nu,0,1\nv,0,1\n").put("r2.csv", self.B)
        problem = project.load(data('file = "r*.csv"'))
        assert names(problem.measurements) == ["u", "v", "r2"]

    @pytest.mark.parametrize("described", ["low = {}\nhigh = {}", "r_low = {}\nr_high = {}"])
    def test_files_find_their_experiments(self, project, described):
        project.put("r_low.csv", self.A).put("r_high.csv", self.B)
        problem = project.load(data('file = "r_*.csv"') + "[experiments]\n" + described)
        low, high = (e.name for e in problem.experiments)
        assert problem.measurements.experiment.tolist() == [high, high, low, low]

    def test_a_file_without_experiment(self, project):
        project.put("r_low.csv", self.A).put("r_mid.csv", self.B)
        with pytest.raises(ProblemError, match="'r_mid.csv' has no column 'experiment', and no experiment.*'mid'"):
            project.load(data('file = "r_*.csv"') + "[experiments]\nlow = {}\nhigh = {}")

    def test_all_files_of_the_only_experiment(self, project):
        project.put("r1.csv", self.A).put("r2.csv", self.B)
        problem = project.load(data('file = "r*.csv"') + "[experiments]\nonly = { k = 2 }\nmore = { use = 'predict' }")
        assert names(problem.measurements) == ["only"]

    def test_data_beside_predictions_are_main(self, project):
        problem = project.load(data('file = "d.csv"') + "[experiments]\nmore = { use = 'predict', until = 9 }")
        assert [e.name for e in problem.experiments] == ["main", "more"]

    def test_data_of_the_only_experiment(self, project):
        problem = project.load(data('file = "d.csv"') + "[experiments]\nforecast = { until = 180 }")
        assert names(problem.measurements) == ["forecast"]

    def test_data_of_main_among_several(self, project):
        problem = project.load(data('file = "d.csv"') + "[experiments]\nmain = {}\nlow = { k = 2, use = 'validate' }")
        assert names(problem.measurements) == ["main"]

    def test_unknown_experiment_in_a_column(self, project):
        with pytest.raises(ProblemError, match=r"'d.csv', line 2, column 'experiment': 'lov' .* did you mean 'low'\?"):
            project.load(data('file = "d.csv"') + "[experiments]\nlow = {}", "experiment,time,A\nlov,0,1\n")

    def test_two_files_of_one_name(self, project):
        project.put("u/r.csv", self.A).put("v/r.csv", self.A)
        with pytest.raises(ProblemError, match="would both be the experiment 'r'"):
            project.load(data('file = "*/r.csv"'))

    def test_a_name_with_brackets_is_a_name(self, project):
        assert len(project.put("r[1].csv", self.A).load(data('file = "r[1].csv"')).measurements) == 2

    def test_no_data_for_experiments_that_are_described(self, project):
        problem = project.load(EQUATIONS + PARAMETERS + "[experiments]\nb = { until = 5 }")
        assert len(problem.measurements) == 0

    def test_noise_without_data(self, project):
        with pytest.raises(ProblemError, match="but there are none"):
            project.load(EQUATIONS + PARAMETERS + "[experiments]\nb = { until = 5 }\n[noise]\nA = 1")


class TestColumns:
    def test_renamed(self, project):
        toml = data('file = "d.csv"\ncolumns = { "c [M]" = "A", "s [M]" = "A.sigma", "t [s]" = "time" }')
        found = project.load(toml, "t [s];c [M];s [M]\n0;1;0,5\n1;0,5;0,25\n").measurements
        assert found.observable.tolist() == ["A", "A"]
        assert found.sigma.tolist() == [0.5, 0.25]
        assert found.time.tolist() == [0, 1]

    def test_messages_use_the_name_in_the_file(self, project):
        toml = data('file = "d.csv"\ncolumns = { "c [M]" = "A" }')
        with pytest.raises(ProblemError, match=r"line 2, column 'c \[M\]': 'x'"):
            project.load(toml, "time,c [M]\n0,x\n")

    def test_a_column_that_one_of_two_files_has(self, project):
        project.put("r1.csv", "time,c\n0,1\n").put("r2.csv", "time,A\n0,1\n")
        problem = project.load(data('file = "r*.csv"\ncolumns = { c = "A" }'))
        assert problem.observables == ("A",)

    def test_the_name_of_the_independent_variable(self, project):
        assert project.load(None, "t,A\n0,1\n3,1\n").measurements.time.tolist() == [0, 3]

    def test_time_column(self, project):
        assert project.load(data('file = "d.csv"\ntime = "h"'), "h,A\n0,1\n3,1\n").measurements.time.tolist() == [0, 3]

    def test_look_alike_letters(self, project):
        toml = EQUATIONS.replace("total", "\u03bcm") + PARAMETERS + '[data]\nfile = "d.csv"\n[noise]\n"\u00b5m" = 1'
        for csv in ("time,\u00b5m\n0,1\n", "time,observable,value\n0,\u00b5m,1\n"):
            problem = project.load(toml, csv)
            assert problem.observables == ("\u03bcm",)
            assert problem.sigma.tolist() == [1]

    def test_sigma_as_an_observable(self, project):
        toml = EQUATIONS.replace("total =", "sigma =") + PARAMETERS + '[data]\nfile = "d.csv"'
        assert project.load(toml, "time,A,sigma\n0,1,2\n").observables == ("A", "sigma")

    def test_observable_called_NA(self, project):
        toml = EQUATIONS.replace("total =", "NA =") + PARAMETERS + '[data]\nfile = "d.csv"'
        assert project.load(toml, "time,observable,value\n0,NA,2\n").observables == ("NA",)

    def test_groups(self, project):
        csv = "time,A,gel,experiment\n0,1,007,a\n1,1,007,a\n0,2,NA,b\n"
        with pytest.raises(ProblemError, match="'gel' has empty cells"):
            project.load(data('file = "d.csv"', PER), csv)
        found = project.load(data('file = "d.csv"', PER), csv.replace("NA", "8")).measurements
        assert {name: column.tolist() for name, column in found.groups.items()} == {"gel": ["007", "007", "8"]}

    def test_group_column_in_one_of_two_files(self, project):
        project.put("r1.csv", "time,A,gel\n0,1,x\n").put("r2.csv", "time,A\n0,\n")
        found = project.load(data('file = "r*.csv"', PER) + "[experiments]\nonly = {}").measurements
        assert found.groups["gel"].tolist() == ["x", ""]

    def test_misspelt_group_column(self, project):
        with pytest.raises(ProblemError, match="'gell', which is no state.*did you mean 'gel'"):
            project.load(data('file = "d.csv"', PER), "time,A,gell\n0,1,x\n")


class TestSpreads:
    def load(self, project, csv, more=""):
        return project.load(data('file = "d.csv"') + more, csv)

    def test_row_and_column_sigma(self, project):
        found = self.load(project, "time,A,B,sigma,B.sigma\n0,1,2,0.5,0.25\n1,1,2,1,2\n")
        assert found.sigma.tolist() == [0.5, 0.25, 1, 2]

    def test_weights(self, project):
        found = self.load(project, "time,A,B,weight,B.weight\n0,1,2,0.5,0\n1,1,2,,2\n")
        np.testing.assert_array_equal(found.measurements.weight, [0.5, 0, np.nan, 2])

    def test_zero_weight_beside_sigma(self, project):
        found = self.load(project, "time,A,sigma,weight\n0,1,2,0\n1,1,1,\n")
        assert found.sigma.tolist() == [2, 1]

    def test_infinite_weight_is_handed_on(self, project):
        found = self.load(project, "time,A,sigma,weight\n0,1,2,inf\n1,1,1,\n")
        np.testing.assert_array_equal(found.measurements.weight, [np.inf, np.nan])

    def test_default(self, project):
        found = self.load(project, "time,A,sigma\n0,1,2\n1,1,\n", "sigma = 0.125")
        assert found.sigma.tolist() == [2, 0.125]

    def test_own_weight_keeps_the_default_away(self, project):
        found = self.load(project, "time,A,weight\n0,1,2\n1,1,\n2,1,0\n", "sigma = 0.125")
        np.testing.assert_array_equal(found.sigma, [np.nan, 0.125, 0.125])

    def test_per_observable(self, project):
        noise = '[noise]\ndefault = "25 %"\nB = 0.5'
        found = self.load(project, "time,A,B,total\n0,-2,3,4\n1,,3,8\n", noise)
        np.testing.assert_array_equal(found.sigma, [0.5, 0.5, 1, np.nan, 0.5, 2])

    @pytest.mark.parametrize(
        "written", ["'25%'", "' 25 % '", "{ sigma = '25 %' }", "{ distribution = 'normal', sigma = '25 %' }"]
    )
    def test_percent(self, project, written):
        assert self.load(project, "time,A\n0,2\n", f"[noise]\nA = {written}").sigma.tolist() == [0.5]

    def test_zero_with_a_sigma_of_its_own(self, project):
        found = self.load(project, "time,A,sigma,weight\n0,0,2,\n1,4,,\n2,0,,0\n", '[noise]\ndefault = "25 %"')
        np.testing.assert_array_equal(found.sigma, [2, 1, np.nan])

    def test_relative_to_huge_and_tiny_values(self, project):
        with pytest.raises(OdefitError, match="sigma"):
            self.load(project, "time,A\n0,1e308\n", '[noise]\nA = "1000 %"')
        with pytest.raises(OdefitError, match="sigma"):
            self.load(project, "time,A\n0,5e-324\n", '[noise]\nA = "1 %"')


class TestDates:
    def load(self, project, csv, origin='"2020-03-01"'):
        return project.load(data(f'file = "d.csv"\ntime = "date"\norigin = {origin}'), csv).measurements

    def test_dates(self, project):
        found = self.load(project, "date,A\n2020-03-01,1\n2020-03-02,1\n2021-03-01,1\n2020-03-01T06:00,1\n")
        assert found.time.tolist() == [0, 1, 365, 0.25]

    @pytest.mark.parametrize("origin", ["2020-03-01", "2020-03-01T00:00:00", '"2020-03-01 00:00"', "'20200301'"])
    def test_origins(self, project, origin):
        assert self.load(project, "date,A\n2020-03-02 12:00:00,1\n", origin).time.tolist() == [1.5]

    def test_time_zones(self, project):
        csv = "date,A\n2020-03-02T00:00Z,1\n2020-03-02T01:00+01:00,1\n"
        assert self.load(project, csv).time.tolist() == [1, 1]
        assert self.load(project, csv, '"2020-03-01T00:00Z"').time.tolist() == [1, 1]

    def test_mixed_time_zones(self, project):
        with pytest.raises(ProblemError, match="line 3, column 'date': .* has no time zone"):
            self.load(project, "date,A\n2020-03-02T00:00Z,1\n2020-03-02T01:00,1\n")

    @pytest.mark.parametrize("wrong", ["2020-13-01", "2020-02-30", "1.3.2020", "yesterday", "3/1/2020"])
    def test_wrong_dates(self, project, wrong):
        with pytest.raises(ProblemError, match=f"line 3, column 'date': '{wrong}' is not a date"):
            self.load(project, f"date,A\n2020-03-02,1\n{wrong},1\n")

    def test_missing_date(self, project):
        with pytest.raises(ProblemError, match="line 3, column 'date': the time is missing"):
            self.load(project, "date,A\n2020-03-02,1\nNA,1\n")

    def test_dates_before_the_origin(self, project):
        with pytest.raises(ProblemError, match="before its start"):
            self.load(project, "date,A\n2020-02-28,1\n")

    @pytest.mark.parametrize(
        "time", [pd.to_datetime(["2020-03-01T00:00", "2020-03-02T12:00"]), ["2020-03-01", "2020-03-02T12:00"]]
    )
    @pytest.mark.parametrize("origin", ["2020-03-01", datetime.date(2020, 3, 1), pd.Timestamp("2020-03-01")])
    def test_frames(self, time, origin):
        found = measurements_from_frame(pd.DataFrame({"time": time, "A": [1, 2]}), origin=origin)
        assert found.time.tolist() == [0, 1.5]

    def test_frame_without_origin(self):
        frame = pd.DataFrame({"time": pd.to_datetime(["2020-03-01"]), "A": [1]})
        with pytest.raises(ProblemError, match="need an origin"):
            measurements_from_frame(frame)


class TestMelt:
    CSV = "time,350,360.5,370\n0,1,2,3\n1,0.5,,1.5\n"
    OPTION = 'melt = { into = "wavelength", value = "absorbance" }'

    def load(self, project, csv=CSV, more=""):
        return project.load(SPECTRA + f'[data]\nfile = "d.csv"\n{self.OPTION}\n' + more, csv)

    def test_matrix(self, project):
        found = self.load(project).measurements
        assert found.observable.tolist() == ["absorbance"] * 6
        assert found.groups["wavelength"].tolist() == ["350", "360.5", "370"] * 2
        assert found.row.tolist() == [0, 0, 0, 1, 1, 1]
        np.testing.assert_array_equal(found.value, [1, 2, 3, 0.5, np.nan, 1.5])
        np.testing.assert_array_equal(found.time, [0, 0, 0, 1, 1, 1])

    def test_row_columns_stay(self, project):
        found = self.load(project, "experiment,time,350,360,sigma,360.sigma\na,0,1,2,5,7\n").measurements
        assert found.experiment.tolist() == ["a", "a"]
        assert found.groups["wavelength"].tolist() == ["350", "360"]
        assert found.sigma.tolist() == [5, 7]

    def test_file_that_is_melted_already(self, project):
        tidy = "time,observable,value,wavelength\n0,absorbance,1,350\n0,absorbance,2,360\n"
        assert self.load(project, tidy).measurements.groups["wavelength"].tolist() == ["350", "360"]

    def test_nobody_uses_the_new_column(self, project):
        toml = SPECTRA.replace(', per = "wavelength"', "") + f'[data]\nfile = "d.csv"\n{self.OPTION}\n'
        assert project.load(toml, self.CSV).measurements.groups["wavelength"].tolist() == ["350", "360.5", "370"] * 2

    def test_into_experiments(self, project):
        toml = data('file = "d.csv"\nmelt = { into = "experiment", value = "A" }')
        found = project.load(toml, "time,low,high\n0,1,2\n1,3,4\n").measurements
        assert found.experiment.tolist() == ["low", "high", "low", "high"]
        assert not found.groups
        with pytest.raises(ProblemError, match="column 'high', which is not an experiment"):
            project.load(toml + "[experiments]\nlow = {}\nmid = {}", "time,low,high\n0,1,2\n1,3,4\n")

    def test_several_files_into_experiments(self, project):
        project.put("r1.csv", "time,low,high\n0,1,2\n").put("r2.csv", "time,low\n3,4\n")
        toml = data('file = "r*.csv"\nmelt = { into = "experiment", value = "A" }')
        found = project.load(toml + "[experiments]\nlow = {}\nhigh = {}").measurements
        assert found.experiment.tolist() == ["low", "high", "low"]

    def test_nothing_to_melt(self, project):
        with pytest.raises(ProblemError, match="no column to melt"):
            self.load(project, "time,sigma\n0,1\n")

    def test_place_of_a_mistake(self, project):
        with pytest.raises(ProblemError, match="line 3, column '360': 'x' is not a number"):
            self.load(project, "time,350,360\n0,1,2\n1,2,x\n")

    def test_frame(self):
        frame = pd.DataFrame({"time": [0, 1], 350: [1, 2], 360.5: [3, 4]})
        found = measurements_from_frame(frame, melt={"into": "wavelength", "value": "absorbance"})
        assert found.groups["wavelength"].tolist() == ["350", "360.5"] * 2
        assert found.value.tolist() == [1, 3, 2, 4]


class TestFrames:
    FRAME = pd.DataFrame({"time": [0, 1], "A": [1.0, 2.0]})

    def test_options(self):
        frame = pd.DataFrame({"h": [0, 1], "c": [1, 2], "gel": [1.0, 2.0], "experiment": [7, 8]})
        found = measurements_from_frame(
            frame, time="h", columns={"c": "A"}, per=["gel"], noise={"A": "50 %"}, experiments=["7", "8"]
        )
        assert found.observable.tolist() == ["A", "A"]
        assert found.groups["gel"].tolist() == ["1", "2"]
        assert found.experiment.tolist() == ["7", "8"]
        assert found.sigma.tolist() == [0.5, 1]

    def test_the_frame_is_not_changed(self):
        before = self.FRAME.copy()
        measurements_from_frame(self.FRAME, sigma=1.0)
        pd.testing.assert_frame_equal(self.FRAME, before)

    @pytest.mark.parametrize(
        ("frame", "options", "message"),
        [
            ({"time": [0]}, {}, "data frame of 'time' is a list; give a pandas DataFrame"),
            ([], {}, "there are no data frames"),
            (3, {}, "is a int; give a pandas DataFrame"),
            (FRAME.iloc[:0], {}, "the data frame has no rows"),
            ([FRAME, FRAME], {}, "data frame 0 has no column 'experiment'"),
            (FRAME.rename(columns={"A": ""}), {}, "column without a name"),
            (pd.concat([FRAME, FRAME], axis=1), {}, "two columns 'time'"),
            (FRAME.assign(A=["x", "y"]), {}, "the data frame, index 0, column 'A': 'x' is not a number"),
            (FRAME.assign(A=[True, False]), {}, "'True' is not a number"),
            (FRAME.assign(A=[[1], {}]), {}, "is not a number"),
            (FRAME.assign(time=[0, None]), {}, "index 1, column 'time': the time is missing"),
            (FRAME.assign(A=[1, np.inf]), {}, "index 1, column 'A': the value is infinite"),
            (FRAME.assign(A=[1 + 2j, 0]), {}, "is not a number"),
            (FRAME.assign(below=1), {}, "not supported yet: the data column 'below'"),
            (FRAME, {"columns": {"B": "A"}}, "renames 'B'"),
            (FRAME, {"time": "h"}, "no column 'h' for the time"),
            (FRAME, {"melt": {"into": "w"}}, "melt has no 'value'"),
            (FRAME, {"per": ["gel"]}, "no column 'gel'"),
            (FRAME, {"noise": {"B": 1}}, "no such values"),
            (FRAME, {"sigma": -1}, "sigma is -1"),
            (FRAME, {"sigma": "10 %", "noise": {"default": 1}}, "both are given"),
            (FRAME.set_axis(pd.MultiIndex.from_tuples([("a", "time"), ("a", "b")]), axis=1), {}, "several levels"),
        ],
    )
    def test_mistakes(self, frame, options, message):
        with pytest.raises(OdefitError, match=message):
            measurements_from_frame(frame, **options)

    def test_model_says_what_can_be_measured(self, project):
        with pytest.raises(ProblemError, match="column 'X', which is no state"):
            measurements_from_frame(self.FRAME.assign(X=1), project.load().model)


class TestSigmaExpressions:
    def test_in_files(self, project):
        toml = data('file = "d.csv"') + '[noise]\nA = "0.5 + t"\n'
        found = project.load(toml, "time,A\n0,2\n1,3\n")
        assert found.sigma.tolist() == [0.5, 1.5]

    def test_short_for_the_default(self, project):
        found = project.load(data('file = "d.csv"\nsigma = "2^2"'), "time,A,B\n0,2,3\n")
        assert found.sigma.tolist() == [4, 4]

    def test_a_frame_alone_cannot_evaluate_it(self):
        with pytest.raises(ProblemError, match="the sigma \"0.1\\*t\" of 'A' is an expression, which only a problem"):
            measurements_from_frame(pd.DataFrame({"time": [1], "A": [2.0]}), noise={"A": "0.1*t"})
