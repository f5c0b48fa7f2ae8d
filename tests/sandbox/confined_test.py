"""Every escape, in full confinement and on kernels that offer less: none does harm, or the code was
not run and that was said, or it was allowed to run and what lacks was said.
"""

from __future__ import annotations

import pytest
from confined import ESCAPES, FULL, OWNERS, WEAKER, Kernel

MEMORY = [name for name, each in ESCAPES.items() if each.victim == "memory"]
OTHERS = [name for name in ESCAPES if name not in MEMORY]

# What an end has to name as missing where an escape of this area is possible.
_AREAS = {
    "files": "writing",
    "metadata": "system_calls",
    "devices": "devices",
    "ipc": "system_calls",
    "network": "network",
    "descriptors": "processes",
    "processes": "processes",
    "namespaces": "system_calls",
    "interfaces": "system_calls",
    "memory": "memory",
}
# The same of single victims and escapes, which other rules keep.
_VICTIMS = {
    "shared memory": "writing",
    "left shared memory": "writing",
    "left temporary file": "writing",
    "abstract socket": "network",
    "setting": "writing",
}
_ESCAPES = {"bind": "network"}
# All that is possible without namespaces as long as Landlock is new and seccomp there.
_SEEN_OR_SLOWED = {
    *("command_line", "setpriority", "setpriority_of_user", "affinity", "scheduler"),
    *("scheduler_attributes", "ioprio", "terminal_settings", "terminal_size"),
}
# Never, whatever the kernel lacks.
_NEVER = {name for name, each in ESCAPES.items() if each.victim.startswith("inherited")}


def word_of(name: str) -> str:
    each = ESCAPES[name]
    return _ESCAPES.get(name) or _VICTIMS.get(each.victim) or _AREAS[each.area]


def not_said(outcome) -> list[str]:
    return [
        each for each in outcome.harms if each in _NEVER or word_of(each) not in outcome.missing
    ]


def test_there_are_at_least_60_and_each_has_a_victim():
    from machine import KINDS

    assert len(ESCAPES) >= 60
    assert {each.victim for each in ESCAPES.values()} <= KINDS.keys()


@pytest.mark.parametrize("owner", OWNERS)
def test_each_escape_does_harm_where_nothing_confines_it(place, owner, user_namespaces):
    """Else it would say nothing that it does none in the sandbox."""
    names = [
        name
        for name in OTHERS
        if ESCAPES[name].control and (owner == "root" or not ESCAPES[name].root)
    ]
    outcome = place.attempt(names, None, owner)
    harmless = {each: outcome.said.get(each) for each in names if each not in outcome.harms}
    # What devices there are, and who may use them, is the machine's.
    if owner != "root":
        harmless.pop("open_dangerous", None)
    assert harmless == {}


@pytest.mark.parametrize("name", MEMORY)
def test_each_takes_the_memory_where_nothing_confines_it(place, name):
    outcome = place.attempt([name], None, next(iter(OWNERS)))
    assert name in outcome.harms, outcome.said


@pytest.mark.parametrize("owner", OWNERS)
def test_nothing_escapes(place, owner, request):
    if owner != "root":
        request.getfixturevalue("user_namespaces")
    outcome = place.attempt(OTHERS, FULL, owner)
    assert outcome.ran and outcome.missing == set(), outcome.told()
    assert outcome.end["exit_code"] == 0 and outcome.end["exceeded"] == "", outcome.told()
    assert set(outcome.said) == set(OTHERS)
    assert outcome.harms == {}, outcome.told()


@pytest.mark.parametrize("name", MEMORY)
def test_no_memory_is_uncounted(place, name, user_namespaces):
    outcome = place.attempt([name], FULL, list(OWNERS)[-1])
    assert outcome.ran and outcome.missing == set(), outcome.told()
    assert outcome.harms == {}, outcome.told()


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("kernel", WEAKER, ids=lambda each: each.name)
def test_what_is_weaker_is_refused(place, kernel: Kernel, owner):
    outcome = place.attempt(["chmod"], kernel, owner)
    if outcome.end.get("refused"):
        assert not outcome.ran and outcome.missing
    else:  # as strong all the same
        assert outcome.ran and outcome.missing == set(), outcome.told()
        again = place.attempt(OTHERS, kernel, owner)
        assert again.harms == {}, again.told()


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(each, id=each.name, marks=[] if each.often else [pytest.mark.slow])
        for each in WEAKER
    ],
)
def test_what_is_allowed_to_be_weaker_is_said(place, kernel: Kernel, owner):
    outcome = place.attempt(OTHERS, kernel, owner, allow=True)
    assert outcome.ran and set(outcome.said) == set(OTHERS), outcome.told()
    assert not_said(outcome) == [], outcome.told(not_said(outcome))
    if set(kernel.layers) <= {"namespaces", "mounts"} and kernel.landlock is None:
        assert outcome.harms.keys() <= _SEEN_OR_SLOWED, outcome.told()


@pytest.mark.slow
@pytest.mark.parametrize("name", MEMORY)
@pytest.mark.parametrize("kernel", WEAKER, ids=lambda each: each.name)
def test_memory_that_is_not_counted_is_said(place, kernel: Kernel, name):
    outcome = place.attempt([name], kernel, list(OWNERS)[-1], allow=True)
    assert outcome.ran
    assert not_said(outcome) == [], outcome.told()
