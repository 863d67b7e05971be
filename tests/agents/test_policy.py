"""Loading, calling and compiling policies, and what is said when that fails."""

import importlib
import itertools
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
import yaml
from policy_views import make_request, make_view

from smetric_gym.agents import ties
from smetric_gym.agents.policy import POLICIES, NoParams, Policy, check_choice, load_policy
from smetric_gym.errors import SmetricError

CONF = Path(__file__).parents[2] / "conf" / "policy"
WITH_PARAMS = """
from typing import NamedTuple

class Params(NamedTuple):
    alpha: float = 1.5
    most: int = 3

def weighed(view, request, memory, params):
    return int((view.in_flight * params.alpha).argmin())

def helper(x):
    return x
"""


def cheapest(view, request, memory, params):
    return int((request.prompt_tokens - view.local_hit_tokens + view.unprefilled_tokens).argmin())


def write(folder, text, name="mine.py"):
    path = folder / name
    path.write_text(text)
    return path


def test_the_users_example():
    policy = load_policy(cheapest)
    view = make_view(3, local_hit_tokens=[0, 900, 0], unprefilled_tokens=[300, 900, 0])
    assert policy.name == "cheapest" and not policy.compiled
    before = [policy(view, make_request(), policy.new_memory(1)) for _ in range(2)]
    assert policy.compile() is policy and policy.compiled and policy.why_not_compiled is None
    choice = policy(view.view(np.ndarray), make_request(), policy.new_memory(1))
    assert [choice] * 2 == before == [1, 1] and type(choice) is int


def test_a_policy_in_a_file(tmp_path):
    path = write(tmp_path, WITH_PARAMS)
    policy = load_policy(f"{path}:weighed", alpha=2)
    assert policy.params == (2.0, 3) and type(policy.params.alpha) is float
    view = make_view(2, in_flight=[1, 0])
    for _ in range(2):  # Numba confuses equal NamedTuples of two modules
        again = load_policy(f"{path}:weighed").compile()
        assert again.compiled and again(view.view(np.ndarray), make_request(), again.new_memory(0)) == 1


def test_a_policy_file_imports_the_helper_beside_it(tmp_path):
    text = "from a_helper import find\n\ndef mine(view, request, memory, params):\n    return find(view)\n"
    before = list(sys.path)
    for k, function in enumerate(("argmin", "argmax")):
        folder = tmp_path / function
        folder.mkdir()
        write(folder, f"def find(view):\n    return int(view.in_flight.{function}())\n", "a_helper.py")
        policy = load_policy(f"{write(folder, text)}:mine")
        assert policy(make_view(2, in_flight=[0, 1]), make_request(), policy.new_memory(0)) == k
    assert sys.path == before


def test_parameters_without_a_class_are_those_given():
    def mine(view, request, memory, params):
        return int(params.alpha + params.beta)

    policy = load_policy(mine, alpha=1, beta=1)
    # the module of this test has no Params
    assert policy.params._asdict() == {"alpha": 1, "beta": 1}
    assert policy.compile()(make_view(3).view(np.ndarray), make_request(), policy.new_memory(0)) == 2
    assert load_policy(policy, beta=0).params == (1, 0) and load_policy(policy) is policy


def test_every_registered_policy_has_a_file_of_its_parameters():
    assert {path.stem for path in CONF.glob("*.yaml")} == {*POLICIES, "custom"}
    for name, disaggregated in itertools.product(POLICIES, (False, True)):
        said = yaml.safe_load((CONF / f"{name}.yaml").read_text())
        assert said.pop("name") == name
        default = load_policy(name, disaggregated=disaggregated).params
        np.testing.assert_equal(load_policy(name, disaggregated=disaggregated, **said).params, default)
        hidden = {"ties"} if name in ("round_robin", "random_choice", "always_busiest") else set()
        module = importlib.import_module(f"smetric_gym.agents.{name}")  # `learned` reads its file into other fields
        assert set(said) | hidden == set(getattr(module, "Params", NoParams)._fields)


def test_words_and_auto():
    assert load_policy("smetric").params.load == 0
    assert load_policy("smetric", disaggregated=True).params.load == 1
    assert load_policy("smetric", load="auto", disaggregated=True).params.load == 1
    assert load_policy("smetric", load="requests", disaggregated=True).params.load == 0
    assert load_policy("dynamo_cost", disaggregated=True).params.decode == 0
    assert load_policy("smetric", ties="random").params.ties == ties.RANDOM
    assert load_policy("smetric", overload=float("inf")).params.overload == float("inf")


@pytest.mark.parametrize(
    ("spec", "params", "said"),
    [
        ("smetrik", {}, "did you mean smetric"),
        ("random", {}, "did you mean random_choice"),
        (3, {}, "policy is 3, allowed: a Policy"),
        ("smetric", {"overlod": 2}, "no parameter overlod (did you mean overload?), allowed: overload"),
        ("smetric", {"overload": 0}, "overload is 0, allowed: a number, more than 0"),
        ("smetric", {"overload": float("nan")}, "overload is nan"),
        ("smetric", {"overload": "much"}, "overload is 'much'"),
        ("smetric", {"hit_ratio": 1.5}, "hit_ratio is 1.5, allowed: a number, 0 or more and below 1"),
        ("smetric", {"hit_ratio": 1}, "hit_ratio is 1, allowed"),
        ("bailian", {"lam": -0.1}, "lam is -0.1"),
        ("smetric", {"ties": "last"}, "ties is 'last', allowed: first, round_robin"),
        ("smetric", {"ties": 9}, "ties is 9"),
        ("smetric", {"load": "tokens"}, "load is 'tokens', allowed: auto, requests, unprefilled_tokens"),
        ("dynamo_cost", {"block": 16.5}, "block is 16.5, allowed: a whole number, 1 or more"),
        ("nowhere/mine.py:f", {}, "mine.py does not exist"),
        ("nowhere/mine.py", {}, "names no function, allowed: nowhere/mine.py:function"),
        (lambda view, request: 0, {}, "takes (view, request), allowed: (view, request, memory, params)"),
    ],
)
def test_what_is_said_of_bad_specs(spec, params, said):
    with pytest.raises(SmetricError) as error:
        load_policy(spec, **params)
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (WITH_PARAMS, "'wieghed' (did you mean weighed?), allowed: a function of the file (weighed, helper)"),
        ("wieghed = 4\n", "has 4, no function, called 'wieghed'"),
        ("def wieghed(view:\n    pass\n", "mine.py, line 1, cannot be loaded: SyntaxError"),
        ("import nowhere_to_be_found\n", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("Params = 3\ndef wieghed(view, request, memory, params):\n    return 0\n", "a typing.NamedTuple"),
    ],
)
def test_what_is_said_of_bad_files(tmp_path, text, said):
    with pytest.raises(SmetricError) as error:
        load_policy(f"{write(tmp_path, text)}:wieghed")
    assert said in str(error.value) and "\n" not in str(error.value)


def test_what_numba_cannot_compile_runs_in_python(recwarn):
    seen = {}

    def remembers(view, request, memory, params):
        seen[float(request.session)] = True
        return len(seen) - 1

    policy = load_policy(remembers).compile()
    assert not policy.compiled and "Error" in policy.why_not_compiled and "\n" not in policy.why_not_compiled
    assert policy(make_view(2), make_request(), policy.new_memory(0)) == 0 and not recwarn.list


@pytest.mark.parametrize("compiled", [False, True])
def test_a_policy_that_raises(compiled):
    def broken(view, request, memory, params):
        return int(view.in_flight[len(view)])

    policy = load_policy(broken)
    view = make_view(2)
    if compiled:
        assert policy.compile().compiled
        view = view.view(np.ndarray)
    said = r"policy broken failed at a request \(session 5, turn 1, 1200 .*IndexError"
    with pytest.raises(SmetricError, match=said) as error:
        policy(view, make_request(session=5), policy.new_memory(0))
    assert isinstance(error.value.__cause__, IndexError)


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (1.0, "returned 1.0 (float), allowed: a whole number from 0 to 2"),
        (None, "returned None"),
        (True, "returned True (bool)"),
        (3, "returned 3, allowed: 0 to 2"),
        (-1, "returned -1"),
        (1, "returned 1, which is not alive, allowed: 0, 2"),
    ],
)
def test_bad_choices(choice, said):
    with pytest.raises(SmetricError) as error:
        check_choice("mine", choice, np.array([1, 0, 1]))
    assert "policy mine" in str(error.value) and said in str(error.value)


def test_good_choices():
    for choice in (2, np.int64(2), np.array(2), np.float32([9, 9, 1]).argmin()):
        assert type(check_choice("mine", choice, np.array([1, 0, 1]))) is int


def test_a_policy_object_and_its_name():
    Mine = namedtuple("Mine", "where")
    policy = Policy(lambda view, request, memory, params: params.where, Mine(1), name="mine")
    assert policy(make_view(2), make_request(), policy.new_memory(0)) == 1 and policy.name == "mine"


def test_registered_names_cost_no_imports():
    code = "import smetric_gym.agents.policy, sys; print([m for m in sys.modules if 'agents' in m])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "smetric_gym.agents.ties" in loaded and "bailian" not in loaded
