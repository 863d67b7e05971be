"""Each rule on views made by hand, and Python against compiled code on random ones."""

import numpy as np
import pytest
from policy_views import make_request, make_view, random_case

from smetric_gym.agents.memory import REASON, SESSIONS, Reason
from smetric_gym.agents.policy import POLICIES, load_policy


def decide(name, view, request, memory=None, **params):
    policy = load_policy(name, **params)
    memory = policy.new_memory(100) if memory is None else memory
    return policy(view, request, memory), Reason(int(memory[REASON]))


@pytest.mark.parametrize("name", POLICIES)
def test_python_and_compiled_choose_alike_and_never_a_dead_instance(name):
    rng = np.random.default_rng(7)
    plain, fast = load_policy(name), load_policy(name).compile()
    assert fast.compiled, fast.why_not_compiled
    ours, theirs = plain.new_memory(20, seed=3), plain.new_memory(20, seed=3)
    chosen = set()
    for _ in range(1000):
        view, request = random_case(rng, 6)
        choice = plain(view, request, ours)
        assert choice == fast(view.view(np.ndarray), request, theirs)
        assert view.alive[choice]
        chosen.add(choice)
    np.testing.assert_array_equal(ours, theirs)
    assert len(chosen) > 4 and ours[REASON] != Reason.NONE


@pytest.mark.parametrize("ties", ["least_loaded", "least_routed", "random", "first"])
def test_python_and_compiled_break_ties_alike(ties):
    rng = np.random.default_rng(8)
    plain = load_policy("smetric", ties=ties, hit_ratio=0.1)
    fast = load_policy("smetric", ties=ties, hit_ratio=0.1).compile()
    ours, theirs = plain.new_memory(20), plain.new_memory(20)
    for _ in range(300):
        view, request = random_case(rng, 6)
        assert plain(view, request, ours) == fast(view.view(np.ndarray), request, theirs)


SPREADING = [name for name in POLICIES if name not in ("always_busiest", "random_choice", "power_of_two")]


@pytest.mark.parametrize("name", SPREADING)
@pytest.mark.parametrize("hit", [0, 640])
@pytest.mark.parametrize("messages", [[0], [2], [0, 2]])
def test_equal_scores_are_spread_evenly(name, hit, messages):
    policy, view = load_policy(name), make_view(6, local_hit_tokens=hit)
    memory = policy.new_memory(300)
    counts = {m: np.zeros(6, dtype=int) for m in messages}
    for k in range(300):
        m = messages[k % len(messages)]
        counts[m][policy(view, make_request(messages=m, session=k), memory)] += 1
    assert sum(counts.values()).tolist() == [50] * 6
    if name.startswith("smetric") and hit:  # one rotation for both would make each skip instances
        assert all(count.tolist() == [300 // len(messages) // 6] * 6 for count in counts.values())


def test_smetric_branches():
    # loads: mean 3; instance 2 holds the history
    held, loads = [0, 0, 960, 0], [1, 5, 4, 2]
    view = make_view(4, local_hit_tokens=held, in_flight=loads)
    follow_up = make_request()
    assert decide("smetric", view, follow_up) == (2, Reason.STICK)
    assert decide("smetric", view, make_request(messages=0, turn=0)) == (0, Reason.FIRST_TURN)
    # an agent that drops its history looks like a first turn
    assert decide("smetric", view, make_request(messages=0, turn=5)) == (0, Reason.FIRST_TURN)
    assert decide("smetric", view, follow_up, overload=1.3) == (0, Reason.OVERLOAD)
    assert decide("smetric", view, follow_up, overload=4 / 3) == (2, Reason.STICK), "at the limit"
    assert decide("smetric", view, follow_up, hit_ratio=0.96) == (0, Reason.EVICTED), "more than the ratio"
    assert decide("smetric", view, follow_up, hit_ratio=0.95) == (2, Reason.STICK)
    assert decide("smetric", view, follow_up, hit_ratio=0.96, overload=1)[1] == Reason.OVERLOAD


def test_smetric_counts_only_the_living():
    # with the dead instance the mean would be 2, and instance 1 not overloaded
    view = make_view(3, local_hit_tokens=[0, 992, 1100], in_flight=[0, 3, 3], alive=[1, 1, 0])
    assert decide("smetric", view, make_request()) == (1, Reason.STICK)
    assert decide("smetric", view, make_request(), overload=1.9) == (0, Reason.OVERLOAD)


@pytest.mark.parametrize("overload", [1.0, float("inf")])
def test_smetric_sticks_on_an_idle_cluster(overload):
    view = make_view(3, local_hit_tokens=[0, 992, 0])
    assert decide("smetric", view, make_request(), overload=overload) == (1, Reason.STICK)


def test_smetric_among_equal_hits_takes_the_lower_load():
    view = make_view(4, local_hit_tokens=[0, 992, 992, 992], in_flight=[0, 2, 1, 1])
    assert decide("smetric", view, make_request(), overload=9)[0] == 2
    assert decide("smetric", view, make_request(), overload=9, ties="first")[0] == 1


def test_smetric_load_of_a_disaggregated_cluster_is_tokens():
    view = make_view(2, in_flight=[1, 9], unprefilled_tokens=[9000, 10])
    first = make_request(messages=0)
    assert decide("smetric", view, first)[0] == 0
    assert decide("smetric", view, first, disaggregated=True)[0] == 1
    assert decide("smetric", view, first, disaggregated=True, load="requests")[0] == 0


def test_guards_apart():
    overloaded = make_view(4, local_hit_tokens=[0, 992, 0, 0], in_flight=[0, 9, 1, 1])
    evicted = make_view(4, local_hit_tokens=[0, 160, 0, 0], in_flight=[0, 1, 1, 1])
    follow_up = make_request()
    expected = {
        "smetric": ((0, Reason.OVERLOAD), (0, Reason.EVICTED)),
        "smetric_basic": ((1, Reason.STICK), (1, Reason.STICK)),
        "smetric_overload_guard": ((0, Reason.OVERLOAD), (1, Reason.STICK)),
        "smetric_eviction_guard": ((1, Reason.STICK), (0, Reason.EVICTED)),
    }
    for name, answers in expected.items():
        assert (decide(name, overloaded, follow_up), decide(name, evicted, follow_up)) == answers, name


def test_smetric_v2():
    # 208 new tokens on instance 1 cost 11.6 ms, 1200 cost 63.6 ms
    def view(*queued):
        return make_view(3, local_hit_tokens=[0, 992, 0], unprefilled_s=queued)

    assert decide("smetric_v2", view(0, 0.9, 0), make_request()) == (1, Reason.STICK)
    assert decide("smetric_v2", view(0.2, 0.99, 0.1), make_request()) == (2, Reason.OVERLOAD)
    assert decide("smetric_v2", view(0.2, 0.99, 0.1), make_request(), slack=1.1) == (1, Reason.STICK)
    assert decide("smetric_v2", view(0.95, 5, 0.99), make_request()) == (1, Reason.STICK), "nobody can"
    assert decide("smetric_v2", view(0.2, 0.1, 0.1), make_request(messages=0)) == (1, Reason.FIRST_TURN)
    assert decide("smetric_v2", view(0.2, 0.3, 0.1), make_request(), hit_ratio=0.999) == (2, Reason.EVICTED)
    # 1000 tokens in the global tier: the least instance computes 200, 11.1 ms
    late = make_request(global_hit_tokens=1000, ttft_limit_s=1.02)
    assert decide("smetric_v2", view(1.0, 1.1, 1.1), late) == (1, Reason.STICK)
    assert decide("smetric_v2", view(1.0, 1.1, 1.1), late, global_hits=1) == (0, Reason.OVERLOAD)


def test_smetric_v2_cost_of_a_prefill():
    from smetric_gym.agents.smetric_v2 import estimate_load

    view = make_view(1, local_hit_tokens=992, unprefilled_s=0.5)
    expected = 0.5 + 5e-5 * 208 + 5e-9 * 208 * (1200 - 104)
    assert estimate_load(view, make_request(), 0) == pytest.approx(expected, rel=1e-6)


def test_bailian():
    view = make_view(2, local_hit_tokens=[0, 600], in_flight=[0, 4])
    # instance 0: lam * 1; instance 1: lam * 0.5 + (1 - lam) * 1; equal at lam = 2/3
    assert decide("bailian", view, make_request(), lam=0.66)[0] == 0
    assert decide("bailian", view, make_request(), lam=0.67)[0] == 1
    # the dead do not set the scale: with 8 as the largest, instance 1 would win at 0.66
    view = make_view(3, local_hit_tokens=[0, 600, 0], in_flight=[0, 4, 8], alive=[1, 1, 0])
    assert decide("bailian", view, make_request(), lam=0.66)[0] == 0


def test_lmetric():
    view = make_view(2, local_hit_tokens=[0, 800], in_flight=[0, 2], unprefilled_tokens=[0, 0])
    assert decide("lmetric", view, make_request())[0] in (0, 1)  # 1200 * 1 = 400 * 3
    view["unprefilled_tokens"] = [0, 1]
    assert decide("lmetric", view, make_request())[0] == 0
    view["unprefilled_tokens"] = [1, 0]
    assert decide("lmetric", view, make_request())[0] == 1
    idle = make_view(4, local_hit_tokens=[0, 0, 800, 0])
    assert decide("lmetric", idle, make_request())[0] == 2, "the cache counts on an idle cluster"


def test_lmetric_v1_zero_load():
    view = make_view(3, local_hit_tokens=[0, 800, 1000], in_flight=[0, 0, 1])
    assert decide("lmetric_v1", view, make_request())[0] == 1
    assert decide("lmetric_v1", view, make_request(), ties="first")[0] == 0
    view["in_flight"] = [4, 3, 5]  # 4800, 1200, 1000
    assert decide("lmetric_v1", view, make_request())[0] == 2


def test_load_policies():
    view = make_view(3, in_flight=[3, 2, 4], unprefilled_tokens=[9, 5, 1])
    view["running"] = [0, 2, 3]
    assert decide("load_balance", view, make_request())[0] == 1
    assert decide("load_balance", view, make_request(), disaggregated=True)[0] == 2
    assert decide("vllm", view, make_request())[0] == 1  # 12, 2, 7
    view["in_flight"], view["running"] = [1, 5, 4], [0, 5, 3]  # 4, 5, 7
    assert decide("vllm", view, make_request())[0] == 0
    view["in_flight"] = [3, 5, 4]  # two more picked for instance 0, which has not got them yet: 12, 5, 7
    assert decide("vllm", view, make_request())[0] == 1
    view["in_flight"], view["running"] = [1, 1, 1], [4, 1, 2]  # late news: nobody waits, 4, 1, 2
    assert decide("vllm", view, make_request())[0] == 1
    view["in_flight"], view["running"] = [3, 2, 4], 0
    assert decide("always_busiest", view, make_request())[0] == 2
    assert decide("always_busiest", make_view(3), make_request())[0] == 0


def test_dynamo():
    view = make_view(2, local_hit_tokens=[0, 1000], unprefilled_tokens=[0, 1001])
    assert decide("dynamo", view, make_request())[0] == 0
    assert decide("dynamo", view, make_request(), queued=0)[0] == 1


def test_dynamo_cost():
    # blocks of 16: (0 + 75) + 75 + 80 = 230; (40 + 75 - 50) + 75 + 100 = 240
    view = make_view(2, local_hit_tokens=[0, 800], unprefilled_tokens=[0, 640], in_flight_tokens=[1280, 1600])
    request = make_request()
    assert decide("dynamo_cost", view, request)[0] == 0
    assert decide("dynamo_cost", view, request, overlap=1.3)[0] == 1  # the credit is 65, the cost 225
    assert decide("dynamo_cost", view, request, overlap=1.3, decay=0.5)[0] == 0  # 65 / (1 + 0.5 * 40 / 75)
    assert decide("dynamo_cost", view, request, scale=3.1)[0] == 1  # (75 - 65) * 3.1 > 20
    assert decide("dynamo_cost", view, request, disaggregated=True)[0] == 1  # without decode: 75 and 65
    view["in_flight"] = [11, 0]
    assert decide("dynamo_cost", view, request, request_weight=1)[0] == 1
    view["in_flight"], view["unprefilled_tokens"] = 0, [1600, 2240]
    assert decide("dynamo_cost", view, request, overlap=1.6, decay=0.5)[0] == 1  # beyond the least


def test_session_sticky_keeps_and_moves_only_from_the_dead():
    policy = load_policy("session_sticky")
    memory = policy.new_memory(10)
    view = make_view(3, in_flight=[2, 1, 2])
    assert policy(view, make_request(session=4), memory) == 1 and memory[REASON] == Reason.FIRST_TURN
    view["in_flight"] = [0, 9, 3]
    assert policy(view, make_request(session=4), memory) == 1 and memory[REASON] == Reason.STICK
    assert policy(view, make_request(session=9), memory) == 0 and len(memory) == SESSIONS + 10
    view["alive"] = [1, 0, 1]
    assert policy(view, make_request(session=4), memory) == 0 and memory[REASON] == Reason.EVICTED
    view["alive"] = 1
    assert policy(view, make_request(session=4), memory) == 0


def test_round_robin_passes_over_the_dead():
    policy, view = load_policy("round_robin"), make_view(4, alive=[1, 0, 1, 1])
    memory = policy.new_memory(1)
    assert [policy(view, make_request(), memory) for _ in range(5)] == [0, 2, 3, 0, 2]


@pytest.mark.parametrize("name", ["random_choice", "power_of_two"])
def test_random_policies_are_uniform_and_follow_the_seed(name):
    policy, view = load_policy(name).compile(), make_view(5)

    def run(seed):
        memory = policy.new_memory(1, seed)
        return [policy(view, make_request(), memory) for _ in range(2000)]

    assert run(1) == run(1) != run(2)
    assert len({run(seed)[0] for seed in range(20)}) == 5, "neighbouring seeds begin alike"
    counts = np.bincount(run(1), minlength=5)
    assert (abs(counts - 400) < 5 * np.sqrt(400 * 0.8)).all()


def test_power_of_two_takes_the_less_loaded():
    policy, view = load_policy("power_of_two"), make_view(3, in_flight=[5, 1, 9])
    memory = policy.new_memory(1)
    counts = np.bincount([policy(view, make_request(), memory) for _ in range(300)], minlength=3)
    assert counts[2] == 0 and 60 < counts[0] < 140, "instance 1 wins two of three pairs"
