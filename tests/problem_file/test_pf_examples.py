"""Five realistic files: what is supported is read, what is not is refused by name, one thing after another."""

from __future__ import annotations

import pytest

from odefit import Dose
from odefit.errors import UnsupportedError

CHEM = r'''title = "Esterification, three temperatures, UV spectra, fast acid equilibrium"
[model]
equations = """
k1 = k1ref*exp(-E1/8.314*(1/T - 1/350))
k2 = k2ref*exp(-E2/8.314*(1/T - 1/350))
r1 = k1*A*H
r2 = k2*B*H
A' = -r1
B' = r1 - r2
C' = r2
algebraic H ~ 1e-3
0 = H^2 - Ka*(Htot - H)

A(0) = A0
B(0) = 0
C(0) = 0
T = 350
absorbance = eA*A + eB*B + eC*C
"""
[parameters]
k1ref = { start = 1e-2, scale = "log", unit = "L/mol/s" }
k2ref = { start = 1e-3, scale = "log" }
E1 = { start = 6e4, lower = 2e4, upper = 2e5, unit = "J/mol" }
E2 = { start = 8e4, lower = 2e4, upper = 2e5 }
Ka = { start = 1e-4, scale = "log", prior = "lognormal(1e-4, 0.2)" }
Htot = { start = 0.05, fixed = true }
A0 = { start = 1.0, per = "experiment", prior = "normal(1, 0.02)" }
eA = { per = "wavelength", linear = true, lower = 0 }
eB = { per = "wavelength", linear = true, lower = 0 }
eC = { per = "wavelength", linear = true, lower = 0 }
[data]
file = "spectra_*.csv"
melt = { into = "wavelength", value = "absorbance" }
[experiments]
b330 = { T = 330 }
b350 = { T = 350 }
b370 = { T = "330 + 0.5*min(t, 80)", use = "validate" }
plant = { T = 365, until = 7200 }
[noise]
absorbance = "estimate"
[derived]
conv_1h = "1 - A(t=3600)/A(t=0)"
'''
PK = r'''[model]
equations = """
depot'   = -ka*depot
central' = ka*depot - CL/V*central - Q/V*central + Q/Vp*periph
periph'  = Q/V*central - Q/Vp*periph
Cp = central/V
urine = integral(CLr*Cp, over=t)
CL = CLpop*(WT/70)^0.75*eCL
depot(0) = 0
central(0) = 0
periph(0) = 0
WT = 70
"""
[parameters]
ka = { start = 1, scale = "log" }
CLpop = { start = 5, scale = "log", unit = "L/h" }
CLr = { start = 1, scale = "log" }
eCL = { start = 1, scale = "log", per = "experiment", prior = "lognormal(1, 0.3)" }
V = { start = 40, scale = "log" }
Q = { start = 2, scale = "log" }
Vp = { start = 80, scale = "log" }
tlag = { start = 0.3, lower = 0, upper = 2 }
F = { start = 0.8, fixed = true }
prop = { start = 0.15, scale = "log" }
add = { start = 0.02, scale = "log" }
[data]
file = "pk.csv"
[experiments]
file = "subjects.csv"
[events]
file = "doses.csv"
lag = { depot = "tlag" }
fraction = { depot = "F" }
[noise]
Cp = { sigma = "sqrt(add^2 + (prop*Cp)^2)", below = 0.05 }
urine = { distribution = "lognormal", sigma = 0.2 }
[constraints]
rules = ["Vp >= V", "F*Q ~ normal(2, 0.5)"]
[derived]
t_half = "log(2)*V/CL"
Cmax = "max(Cp, over=t)"
AUC24 = "integral(Cp, over=t, from=0, to=24)"
'''
SYSBIO = r'''[model]
sbml = "jakstat.xml"
equations = """
pSTAT_obs = s_pS*(pSTAT + 2*pSTAT_dimer) + o_pS
tSTAT_obs = s_tS*(STAT + pSTAT + 2*pSTAT_dimer)
"""
[parameters]
"k*" = { start = 0.1, lower = 1e-5, upper = 1e3, scale = "log" }
s_pS = { linear = true, per = "gel", lower = 0 }
o_pS = { linear = true, per = "gel" }
s_tS = { linear = true, per = "gel", lower = 0 }
[data]
file = "blots.csv"
[experiments]
ctrl = { Epo = 0, start = "steady" }
dose5 = { Epo = 5, start = "steady", before = { Epo = 0 } }
dose50 = { Epo = 50, start = "steady", before = { Epo = 0 } }
knock = { Epo = 5, k3 = 0, start = "steady", before = { Epo = 0 } }
[noise]
default = { distribution = "lognormal", sigma = "estimate" }
[constraints]
rules = ["log(k2/k1) ~ normal(0, 1)"]
[fit]
starts = 200
seed = 1
'''
BATTERY = r'''[model]
equations = """
field cn(r)
field cp(x)
cn' = div(Dn*d(cn, r), r)
at r=Rn: Dn*d(cn, r) = -I(t)/(an*Ln*F)
cp' = div(Dp*d(cp, x), x)
at x=Rp: Dp*d(cp, x) = I(t)/(ap*Lp*F)
cn(0) = cn0
cp(0) = cp0
T' = (I(t)*(V - Up(xp)) + h*(Tamb - T))/Cth
T(0) = Tamb
Dn = Dnref*exp(-En/8.314*(1/T - 1/298.15))
xs = cn(r=Rn)/cnmax
xp = cp(x=Rp)/cpmax
V = Up(xp) - Un(xs) - R0*I(t)
soc = mean(cn, over=r)/cnmax
when V < 2.5: stop "cut-off voltage"
F = 96485
Tamb = 298.15
"""
[grids.r]
from = 0
to = "Rn"
points = 20
geometry = "sphere"
spacing = "geometric 0.8"
[grids.x]
from = 0
to = "Rp"
points = 20
geometry = "sphere"
[tables.I]
column = "current_A"
kind = "hold"
[tables.Un]
file = "ocp_graphite.csv"
kind = "cubic"
[tables.Up]
file = "ocp_nmc.csv"
kind = "cubic"
outside = "error"
[parameters]
Dnref = { start = 3e-14, scale = "log", lower = 1e-16, upper = 1e-11 }
Dp = { start = 1e-14, scale = "log" }
R0 = { start = 0.02, scale = "log", per = "cell" }
h = { start = 0.1, scale = "log" }
Cth = { start = 40, scale = "log" }
[data]
file = "wltp_*.csv"
columns = { "U [V]" = "V", "T_surf [K]" = "T" }
[noise]
V = { sigma = "estimate", correlated = true }
T = 0.3
'''
EPI = r'''[model]
equations = """
N = 5.4e6
S' = -beta(t)*S*I/N
E' = beta(t)*S*I/N - sigma*E
I' = sigma*E - gamma*I
R' = gamma*I
S(0) = N - I0
E(0) = 0
I(0) = I0
R(0) = 0
cases = rho(t)*integral(sigma*E, over=t)
deaths = ifr*integral(gamma*I, over=t)
sero = R/N
at t = t_import: E += 50
Rt = beta(t)/gamma*S/N
"""
[tables.beta]
x = ["2020-03-01", "2020-03-20", "2020-05-11", "2020-07-01"]
y = ["b1", "b2", "b3", "b4"]
kind = "hold"
[tables.rho]
x = [0, 120]
y = ["rho1", "rho2"]
kind = "linear"
[parameters]
b1 = { start = 0.5, scale = "log" }
b2 = { start = 0.2, scale = "log" }
b3 = { start = 0.2, scale = "log" }
b4 = { start = 0.2, scale = "log" }
rho1 = { start = 0.1, scale = "logit", lower = 0, upper = 1 }
rho2 = { start = 0.3, scale = "logit", lower = 0, upper = 1 }
sigma = { start = 0.2, prior = "lognormal(0.2, 0.1)" }
gamma = { start = 0.2, prior = "lognormal(0.2, 0.1)" }
ifr = { start = 0.007, prior = "lognormal(0.007, 0.3)" }
I0 = { start = 100, scale = "log" }
t_import = { start = 10, lower = 0, upper = 40 }
phi = { start = 10, scale = "log" }
[data]
file = "cases.csv"
time = "date"
origin = "2020-03-01"
[noise]
cases = { distribution = "negbinomial", phi = "phi" }
deaths = "poisson"
sero = { distribution = "binomial", n = "tested" }
[constraints]
rules = ["log(b2/b1) ~ normal(0, 0.5)", "log(b3/b2) ~ normal(0, 0.5)", "log(b4/b3) ~ normal(0, 0.5)"]
[derived]
R0 = "b1/gamma"
Rt_end = "Rt(t=150)"
[experiments]
forecast = { until = 180 }
'''

# per example: the files beside it, and steps: what is refused, and how the text is changed to go on
SPECTRUM = "time,350,360\n0,1,2\n10,0.5,1.5\n"
CHEM_FILES = {f"spectra_{name}.csv": SPECTRUM for name in ("b330", "b350", "b370")}
CHEM_STEPS = [
    ("linear = true of 'eA'", [('eA = { per = "wavelength", linear = true', 'eA = { per = "wavelength", start = 1')]),
    ("linear = true of 'eB'", [('eB = { per = "wavelength", linear = true', 'eB = { per = "wavelength", start = 1')]),
    ("linear = true of 'eC'", [('eC = { per = "wavelength", linear = true', 'eC = { per = "wavelength", start = 1')]),
    (r"an estimated sigma in \[noise\] absorbance", [('absorbance = "estimate"', 'absorbance = "1 %"')]),
]

PK_FILES = {
    "pk.csv": "experiment,time,Cp,urine\ns1,1,0.5,1\ns2,1,0.4,1\n",
    "subjects.csv": "experiment,WT\ns1,70\ns2,82.5\ns3,\n",
    "doses.csv": "experiment,time,target,add\ns1,0,depot,100\n",
}
# only what is refused uses these
OF_SIGMA = [('prop = { start = 0.15, scale = "log" }\nadd = { start = 0.02, scale = "log" }\n', "")]
PK_STEPS = [
    (r"'below' in \[noise\] Cp", [(", below = 0.05", "")]),
    ('the distribution "lognormal" in .noise. urine', [('distribution = "lognormal", ', "")]),
    (
        "an expression for sigma in .noise. Cp .* depends on the state 'central'",
        [('sigma = "sqrt(add^2 + (prop*Cp)^2)"', "sigma = 0.02"), *OF_SIGMA, ("log(2)*V/CL", "log(2)*V/CLpop")],
    ),
]

SYSBIO_FILES = {
    "blots.csv": "experiment,time,pSTAT_obs,tSTAT_obs,gel\n"
    + "".join(f"{name},{time},1,2,g{time}\n" for name in ("ctrl", "dose5", "dose50", "knock") for time in (1, 2))
}
SYSBIO_EQUATIONS = """
STAT' = -k1*Epo*STAT + k3*pSTAT
pSTAT' = k1*Epo*STAT - k2*pSTAT - k3*pSTAT
pSTAT_dimer' = k2*pSTAT
STAT(0) = 1
pSTAT(0) = 0
pSTAT_dimer(0) = 0
"""
SYSBIO_STEPS = [
    (r"'sbml' in \[model\]", [('sbml = "jakstat.xml"\nequations = """', 'equations = """' + SYSBIO_EQUATIONS)]),
    ("linear = true of 's_pS'", [("s_pS = { linear = true", "s_pS = { start = 1")]),
    ("linear = true of 'o_pS'", [("o_pS = { linear = true", "o_pS = { start = 0")]),
    ("linear = true of 's_tS'", [("s_tS = { linear = true", "s_tS = { start = 1")]),
    ('the distribution "lognormal" in .noise. default', [('distribution = "lognormal", ', "")]),
    ("an estimated sigma in .noise. default", [('sigma = "estimate"', 'sigma = "20 %"')]),
]

CYCLE = "U [V],T_surf [K],time,cell,current_A\n3.9,298,0,c1,1\n3.8,299,10,c1,2\n"
POTENTIAL = "x,U\n0,4.2\n0.5,3.8\n1,3\n"
BATTERY_FILES = {
    "wltp_1.csv": CYCLE,
    "wltp_2.csv": CYCLE.replace("c1", "c2"),
    "ocp_graphite.csv": POTENTIAL,
    "ocp_nmc.csv": POTENTIAL,
}
# the example leaves its constants out
CONSTANTS = '[parameters]\n"*" = { start = 1, fixed = true }\n'
BATTERY_STEPS = [
    (
        r"\[grids.r\]",
        [('[grids.r]\nfrom = 0\nto = "Rn"\npoints = 20\ngeometry = "sphere"\nspacing = "geometric 0.8"\n', "")],
    ),
    (r"\[grids.x\]", [('[grids.x]\nfrom = 0\nto = "Rp"\npoints = 20\ngeometry = "sphere"\n', "")]),
    (r"fields over a grid .*field cn\(r\)", [("field cn(r)\n", "")]),
    (r"fields over a grid .*field cp\(x\)", [("field cp(x)\n", "")]),
    ("boundary conditions .*at r=Rn", [("at r=Rn: Dn*d(cn, r) = -I(t)/(an*Ln*F)\n", "")]),
    ("boundary conditions .*at x=Rp", [("at x=Rp: Dp*d(cp, x) = I(t)/(ap*Lp*F)\n", "")]),
    ("space derivatives", [("cn' = div(Dn*d(cn, r), r)", "cn' = -Dn*cn/Rn")]),
    ("space derivatives", [("cp' = div(Dp*d(cp, x), x)", "cp' = -Dp*cp/Rp")]),
    (r"values at a point such as cn\(r=", [("cn(r=Rn)", "cn")]),
    (r"values at a point such as cp\(x=", [("cp(x=Rp)", "cp")]),
    (r"aggregates over a grid, such as mean\(", [("mean(cn, over=r)", "cn")]),
    ("an estimated sigma in .noise. V", [('sigma = "estimate"', "sigma = 0.01"), ("[parameters]\n", CONSTANTS)]),
    (r"'correlated' in \[noise\] V", [(", correlated = true", "")]),
]

EPI_FILES = {"cases.csv": "date,cases,deaths,sero\n2020-03-02,10,3,\n2020-03-03,12,1,0.1\n"}
EPI_STEPS = [
    ('the distribution "negbinomial" in .noise. cases', [('{ distribution = "negbinomial", phi = "phi" }', '"5 %"')]),
    ('the distribution "poisson" in .noise. deaths', [('"poisson"', '"5 %"')]),
    (
        'the distribution "binomial" in .noise. sero',
        # phi is used only where it was refused
        [('{ distribution = "binomial", n = "tested" }', "0.05"), ('phi = { start = 10, scale = "log" }\n', "")],
    ),
]

EXAMPLES = {
    "chem": (CHEM, CHEM_FILES, CHEM_STEPS),
    "pk": (PK, PK_FILES, PK_STEPS),
    "sysbio": (SYSBIO, SYSBIO_FILES, SYSBIO_STEPS),
    "battery": (BATTERY, BATTERY_FILES, BATTERY_STEPS),
    "epi": (EPI, EPI_FILES, EPI_STEPS),
}


@pytest.mark.parametrize(("text", "files", "steps"), EXAMPLES.values(), ids=EXAMPLES)
def test_what_is_not_built_is_refused_by_name(project, text, files, steps):
    for name, content in files.items():
        project.put(name, content)
    for refusal, changes in steps:
        with pytest.raises(UnsupportedError, match=f"not supported yet: .*{refusal}"):
            project.load(text)
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
    problem = project.load(text)
    assert len(problem.measurements) > 0


def loaded(project, name):
    """Load what is left of an example."""
    text, files, steps = EXAMPLES[name]
    for file, content in files.items():
        project.put(file, content)
    for _, changes in steps:
        for old, new in changes:
            text = text.replace(old, new)
    return project.load(text)


def test_chem(project):
    problem = loaded(project, "chem")
    assert problem.title == "Esterification, three temperatures, UV spectra, fast acid equilibrium"
    assert [e.name for e in problem.experiments] == ["b330", "b350", "b370", "plant"]
    assert dict(problem.experiments[2].periods[0].overrides) == {"T": "330 + 0.5*min(t, 80)"}
    assert problem.experiments[2].use == "validate"
    assert problem.experiments[3].until == 7200
    data = problem.measurements
    assert data.experiment.tolist() == ["b330"] * 4 + ["b350"] * 4 + ["b370"] * 4
    assert data.groups["wavelength"].tolist() == ["350", "360"] * 6
    assert problem.sigma.tolist() == pytest.approx([0.01, 0.02, 0.005, 0.015] * 3)
    assert {p.name: p.per for p in problem.parameters}["A0"] == "experiment"


def test_pk(project):
    problem = loaded(project, "pk")
    assert [dict(e.periods[0].overrides) for e in problem.experiments] == [{"WT": 70.0}, {"WT": 82.5}, {}]
    assert problem.sigma.tolist() == [0.02, 0.2] * 2
    assert problem.constraints == ("Vp >= V", "F*Q ~ normal(2, 0.5)")
    assert [e.events for e in problem.experiments] == [(Dose(0.0, "depot", 100.0),), (), ()]
    assert (problem.lag, problem.fraction) == ({"depot": "tlag"}, {"depot": "F"})


def test_sysbio(project):
    problem = loaded(project, "sysbio")
    assert [p.name for p in problem.parameters] == ["k1", "k3", "k2", "s_pS", "o_pS", "s_tS"]
    assert (problem.settings.starts, problem.settings.seed) == (200, 1)
    assert {p.scale for p in problem.parameters if p.name.startswith("k")} == {"log"}
    assert problem.measurements.groups["gel"].tolist()[:4] == ["g1", "g1", "g2", "g2"]


def test_battery(project):
    problem = loaded(project, "battery")
    assert [e.name for e in problem.experiments] == ["wltp_1", "wltp_2"]
    assert problem.observables == ("V", "T")
    assert problem.sigma.tolist() == [0.01, 0.3] * 4


def test_epi(project):
    problem = loaded(project, "epi")
    assert problem.measurements.time.tolist() == [1, 1, 1, 2, 2, 2]
    assert [(e.name, e.until) for e in problem.experiments] == [("forecast", 180)]
    assert problem.derived == {"R0": "b1/gamma", "Rt_end": "Rt(t=150)"}
    assert len(problem.constraints) == 3
    assert [event.text for event in problem.model.events] == ["at t = t_import: E += 50"]
    assert problem.event_times({}, 0) == [10.0]
