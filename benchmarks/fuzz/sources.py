"""The problems that are changed: small ones that use much of the language, and those of the gallery."""

from __future__ import annotations

from dataclasses import dataclass

SMALL = '''title = "small"
[model]
equations = """
rate = k*A/(1 + A/K)
A' = -rate
B' = rate - k2*B
A(0) = A0
B(0) = 0
total = A + B
"""
[parameters]
k = { start = 1, lower = 0, upper = 9, scale = "log", unit = "1/h" }
k2 = { start = 0.5, prior = "lognormal(1, 0.3)" }
K = 2
A0 = { start = 1, per = "experiment" }
[data]
file = "p.csv"
[noise]
A = 0.1
B = 0.1
[experiments]
b1 = { K = 2, until = 6 }
b2 = { "B(0)" = "2*k2" }
[constraints]
rules = ["log(k/k2) ~ normal(0, 1)"]
[derived]
half = "log(2)/k"
[integrator]
rtol = 1e-6
[fit]
tol = 1e-5
'''
SMALL_DATA = "experiment,time,A,B,A.sigma\nb1,0,1,0,0.1\nb1,1,0.6,0.3,0.1\nb2,1,0.5,,0.1\nb2,2,0.4,0.3,0.2\n"

PULSES = '''title = "pulses"
[model]
equations = """
dose = if(t >= lag and t < lag + 0.5, F, 0)
depot' = dose - ka*depot
c' = ka*depot - ke*c
depot(0) = 0
c(0) = base
seen = scale*c + off
"""
[parameters]
lag = { start = 0.4, lower = 0, upper = 2 }
ka = { start = 1.5, scale = "log" }
ke = { start = 0.4, scale = "log10" }
F = { start = 0.8, lower = 0.01, upper = 1, scale = "logit" }
base = { expression = "0.2*ke" }
off = { start = 0.05, fixed = true }
scale = { start = 1, per = "lab" }
[data]
file = "p.csv"
[derived]
peak = "F/(ke + ka)"
[fit]
method = "incremental"
'''
PULSES_DATA = "time,observable,value,weight,lab\n" + "".join(
    f"{t},{name},{value},{weight},{lab}\n"
    for t, name, value, weight, lab in [
        (0, "c", 0.1, 1, "x"), (0.5, "seen", 0.12, 2, "x"), (1, "seen", 0.3, 1, "y"), (1.5, "seen", 0.35, 1, "x"),
        (2, "seen", 0.33, 0, "y"), (3, "c", 0.24, 1, "x"), (4, "seen", 0.17, 1, "y"), (6, "c", 0.08, 1, "x"),
    ]
)  # fmt: skip

CURVE = '''title = "curve"
[model]
equations = """
y = a + b*exp(-k*t)
"""
[parameters]
a = 1.0
b = { start = 2, prior = "normal(2, 1)" }
k = { start = 0.7, lower = 0 }
[data]
file = "p.csv"
sigma = "5 %"
[derived]
half = "log(2)/k"
'''
CURVE_DATA = "time,y\n0,3.1\n1,2.02\n2,1.45\n3,1.25\n4,1.13\n6,1.02\n"


@dataclass(frozen=True)
class Files:
    """A problem as text: the problem file, and the data file that it names "p.csv"."""

    toml: bytes
    csv: bytes


WRITTEN = tuple(
    Files(toml.encode(), csv.encode())
    for toml, csv in ((SMALL, SMALL_DATA), (PULSES, PULSES_DATA), (CURVE, CURVE_DATA))
)


def sources() -> list[Files]:
    """Return the problems that are changed, those as often that are to be taken oftener."""
    from odefit.gallery import names, path_of

    found = [*WRITTEN] * 3
    for name in names():
        path = path_of(name)
        text = path.read_text() if path.suffix == ".toml" else ""
        data = sorted(path.parent.glob("*.csv"))
        named = [one for one in data if f'"{one.name}"' in text]
        if len(named) == 1 and "base" not in text and len(text) < 5000:
            content = named[0].read_bytes()
            found.append(Files(text.replace(f'"{named[0].name}"', '"p.csv"').encode(), content[:20_000]))
    return found
