"""The page itself, a marimo notebook: it only arranges what the modules beside it compute, draw and say."""

# /// script
# [tool.marimo.display]
# theme = "system"
# ///

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="full", app_title="smetric_gym playground", css_file="page.css")


@app.cell
def _():
    import marimo as mo

    from smetric_gym.errors import SmetricError
    from smetric_gym.experiment.settings import choices
    from smetric_gym.play import charts, game_pictures, pictures, scenario
    from smetric_gym.play.clock import Clock
    from smetric_gym.play.game import Game
    from smetric_gym.play.journey import journey, told
    from smetric_gym.play.sentence import comparison, what_happens
    from smetric_gym.play.why import explain

    request = mo.app_meta().request
    given = (request.meta if request is not None else None) or {}
    return (
        Clock,
        Game,
        SmetricError,
        charts,
        choices,
        comparison,
        explain,
        game_pictures,
        given,
        journey,
        mo,
        pictures,
        scenario,
        told,
        what_happens,
    )


@app.cell
def _(choices, given, mo, scenario):
    page = mo.ui.radio(["Two routers", "Be the router"], value="Two routers", inline=True)
    names = [*[name for name in choices("policy") if name != "custom"], *given.get("policies", [])]
    left = mo.ui.dropdown(names, value=(given.get("policies") or ["smetric"])[0], label="Left policy")
    right = mo.ui.dropdown(names, value="load_balance", label="Right policy")
    start = scenario.Scenario()
    file = bool(given.get("trace"))
    workload = mo.ui.dropdown(
        scenario.workloads(), value=scenario.FILE if file else start.workload, label="Workload"
    )
    path = mo.ui.text(value=given.get("trace") or "", label="Trace file", placeholder="for workload file")
    load = mo.ui.slider(0.25, 2.5, 0.05, value=1 if file else start.load, label="Load", show_value=True)
    cluster = mo.ui.dropdown(choices("cluster"), value=start.cluster, label="Architecture")
    instances = mo.ui.slider(
        steps=[2, 4, 8, 12, 16, 24, 32], value=start.instances, label="Instances*", show_value=True
    )
    tier = mo.ui.slider(
        steps=[0, 0.4, 0.8, 1.6, 3.2, 6.4], value=start.global_tier, label="Tier (x local)", show_value=True
    )
    loads = mo.ui.dropdown(["blocking", "async"], value=start.loads, label="Fetches")
    nics = mo.ui.slider(steps=[1, 2, 4, 8], value=start.nics, label="NICs per server", show_value=True)
    speed_gb = mo.ui.slider(
        steps=[1, 2.5, 5, 10, 25, 50], value=start.nic_gbytes_per_s, label="GB/s per NIC", show_value=True
    )
    slo = mo.ui.dropdown(choices("slo"), value=start.slo, label="SLO")
    slo_scale = mo.ui.slider(
        steps=[0.25, 0.5, 0.75, 1, 1.5, 2, 3], value=start.slo_scale, label="SLO limits x", show_value=True
    )
    length = mo.ui.slider(
        steps=[300, 600, 900, 1800, 3600], value=start.window_s, label="Window (s)", show_value=True
    )
    seed = mo.ui.number(0, 10**6, value=0, label="Seed")
    # A list of their own: a cell that named the controls would be drawn anew, without the focus, when one is moved.
    scenario_rows = [
        workload, path, load, cluster, instances, tier, loads, nics, speed_gb, slo, slo_scale, length, seed,
    ]  # fmt: skip
    return (
        cluster,
        instances,
        left,
        length,
        load,
        loads,
        nics,
        page,
        path,
        right,
        scenario_rows,
        seed,
        slo,
        slo_scale,
        speed_gb,
        tier,
        workload,
    )


@app.cell
def _(charts, mo, scenario):
    def sliders(policy):
        """One slider for each number of a policy."""
        return mo.ui.dictionary(
            {
                name: mo.ui.slider(
                    steps=steps, value=value, label="lambda" if name == "lam" else name.upper(), show_value=True
                )
                for name, (steps, value) in scenario.parameters(policy).items()
            }
        )

    def router(policy, values):
        """The policy with those of its numbers that were moved."""
        defaults = scenario.parameters(policy)
        return scenario.Router(policy, tuple((k, v) for k, v in values.items() if v != defaults[k][1]))

    def chart(figure, **more):
        """A figure as marimo shows it from its own copy of plotly, without a network."""
        return mo.ui.plotly(figure, config=charts.CONFIG, **more)

    return chart, router, sliders


@app.cell
def _(left, sliders):
    left_sliders = sliders(left.value)
    left_rows = [left, *left_sliders.elements.values()]
    return left_rows, left_sliders


@app.cell
def _(right, sliders):
    right_sliders = sliders(right.value)
    right_rows = [right, *right_sliders.elements.values()]
    return right_rows, right_sliders


@app.cell
def _(left_rows, mo, page, pictures, right_rows, scenario_rows):
    _note = mo.md("<small>* mixed and failing have instances of their own.</small>")
    _task = mo.md(
        "Choose an instance for one request after the other. A request whose cache lies on a least loaded instance is "
        "sent there without asking; you get the others: **follow the cache, or spread the load?** The keys are Alt and "
        "the number of the instance."
    )
    _two = [*left_rows, *right_rows, mo.md("---"), *scenario_rows, _note]
    _rows = _two if page.value == "Two routers" else [_task]
    mo.sidebar(mo.vstack([mo.Html(pictures.heading("smetric_gym playground")), page, *_rows], gap=0.6), width="290px")
    return


@app.cell
def _(
    SmetricError,
    cluster,
    instances,
    left,
    left_sliders,
    length,
    load,
    loads,
    mo,
    nics,
    page,
    path,
    right,
    right_sliders,
    router,
    scenario,
    seed,
    slo,
    slo_scale,
    speed_gb,
    tier,
    workload,
):
    mo.stop(page.value != "Two routers")
    _scenario = scenario.Scenario(
        cluster=cluster.value,
        instances=instances.value,
        workload=workload.value,
        path=path.value.strip() if workload.value == scenario.FILE else "",
        load=load.value,
        global_tier=tier.value,
        loads=loads.value,
        nics=nics.value,
        nic_gbytes_per_s=speed_gb.value,
        slo=slo.value,
        slo_scale=slo_scale.value,
        window_s=float(length.value),
        seed=int(seed.value or 0),
    )
    pair, _wrong = None, ""
    try:
        pair = (
            scenario.record(_scenario, router(left.value, left_sliders.value)),
            scenario.record(_scenario, router(right.value, right_sliders.value)),
        )
    except SmetricError as error:
        _wrong = str(error)
    mo.stop(pair is None, mo.callout(_wrong, kind="danger"))
    return (pair,)


@app.cell
def _(comparison, mo, pair, pictures):
    mo.vstack(
        [
            mo.Html(pictures.say(comparison(*pair))),
            mo.hstack(
                [mo.Html(f'<p class="p-name">{_run.label}</p>{pictures.headline(_run)}') for _run in pair],
                widths="equal",
                gap=1.5,
            ),
        ],
        gap=0.5,
    )
    return


@app.cell
def _(Clock, mo):
    time = Clock()
    get_moves, set_moves = mo.state(0)  # moves of the clock: a new value redraws what depends on the time
    get_jumps, set_jumps = mo.state(0)  # the same without those of the slider, which is not made anew while it moves
    get_picked, set_picked = mo.state(-1)  # request; below 0: the one that waits on the left
    return (
        get_jumps,
        get_moves,
        get_picked,
        set_jumps,
        set_moves,
        set_picked,
        time,
    )


@app.cell
def _(pair, set_jumps, set_moves, time):
    clock = time.follow(pair)

    def jump(action):
        """Move the clock, and let the slider and the pictures show it."""
        action()
        set_moves(lambda n: n + 1)
        set_jumps(lambda n: n + 1)

    return clock, jump


@app.cell
def _(clock, get_jumps, mo, set_moves):
    def _slide(time_s):
        clock.go(time_s)
        set_moves(lambda n: n + 1)

    _ = get_jumps()
    time_slider = mo.ui.slider(
        0,
        max(0.1, round(clock.end_s, 1)),
        0.1,
        value=min(round(clock.time_s, 1), max(0.1, round(clock.end_s, 1))),
        label="time (s)",
        show_value=True,
        full_width=True,
        on_change=_slide,
    )
    return (time_slider,)


@app.cell
def _(clock, jump, mo):
    def button(words, key, action, tip, **more):
        """A button that also has a key."""
        return mo.ui.button(
            label=words, keyboard_shortcut=key, tooltip=f"{tip} ({key})", on_click=lambda _: action(), **more
        )

    speed = mo.ui.dropdown({"1 s": 1, "2 s": 2, "5 s": 5, "15 s": 15, "60 s": 60}, value="5 s", label="a tick is")
    jumps = [
        button("One decision", "Alt-N", lambda: jump(clock.step), "the next decision of either policy"),
        button("− 10 s", "Alt-B", lambda: jump(lambda: clock.forward(-10)), "back"),
        button("Worst of left", "Alt-L", lambda: jump(lambda: clock.worst(0)), "its fullest instance above the mean"),
        button("Worst of right", "Alt-R", lambda: jump(lambda: clock.worst(1)), "its fullest instance above the mean"),
    ]
    return button, jumps, speed


@app.cell
def _(clock, mo):
    _ = clock
    play = mo.ui.button(
        value=False, on_click=lambda on: not on, label="Play / pause", keyboard_shortcut="Alt-P", tooltip="Alt-P"
    )
    return (play,)


@app.cell
def _(mo, play):
    ticker = mo.ui.refresh(default_interval=1) if play.value else None
    return (ticker,)


@app.cell
def _(clock, jump, speed, ticker):
    if ticker is not None and ticker.value and not clock.ended:
        jump(lambda: clock.forward(speed.value))
    return


@app.cell
def _(jumps, mo, play, speed, ticker, time_slider):
    mo.vstack(
        [
            mo.hstack(
                [play, *jumps, speed, *([ticker] if ticker is not None else [])],
                justify="start",
                align="center",
                wrap=True,
            ),
            time_slider,
        ],
        gap=0.3,
    )
    return


@app.cell
def _(clock, get_moves, get_picked, pair):
    _ = get_moves()
    now_s = clock.time_s
    moments = [_run.visit(_run.index_at(now_s)) for _run in pair]
    picked = get_picked() if 0 <= get_picked() < len(pair[0].setup.trace) else moments[0].request
    session = int(pair[0].setup.trace.requests["session"][picked])
    return moments, now_s, picked, session


@app.cell
def _(mo, moments, pair, pictures, session, what_happens):
    mo.hstack(
        [
            mo.vstack(
                [
                    mo.Html(f'<p class="p-name">{_run.label} at {_moment.time_s:,.1f} s</p>'),
                    mo.Html(f'<div class="p-now">{pictures.say(what_happens(_run, _moment))}</div>'),
                    mo.Html(pictures.tiles(_moment, session, int(_moment.tokens[: _moment.targets].argmax()))),
                ],
                gap=0.4,
            )
            for _run, _moment in zip(pair, moments, strict=True)
        ],
        widths="equal",
        gap=1.5,
    )
    return


@app.cell
def _(chart, charts, mo, now_s, pair, pictures):
    _top = max(float(_run.in_flight_tokens.max()) for _run in pair)
    mo.vstack(
        [
            mo.Html(pictures.legend()),
            mo.hstack([chart(charts.heat(_run, _top, now_s)) for _run in pair], widths="equal", gap=1.5),
        ],
        gap=0.4,
    )
    return


@app.cell
def _(explain, mo, moments, pair, pictures):
    mo.vstack(
        [
            mo.Html(pictures.heading("Why this instance?")),
            mo.hstack(
                [
                    mo.Html(
                        f'<p class="p-dim">{pictures.request_words(_moment)}</p>'
                        f"{pictures.why(explain(_run.policy, _moment))}"
                    )
                    for _run, _moment in zip(pair, moments, strict=True)
                ],
                widths="equal",
                gap=1.5,
                align="start",
            ),
        ]
    )
    return


@app.cell
def _(get_picked, mo, pair, set_picked):
    picker = mo.ui.number(
        -1,
        len(pair[0].setup.trace) - 1,
        value=min(get_picked(), len(pair[0].setup.trace) - 1),
        step=1,
        label="Request (-1: the one that waits on the left)",
        on_change=lambda _value: set_picked(int(_value if _value is not None else -1)),
    )
    follow = mo.ui.button(label="Follow the clock", on_click=lambda _: set_picked(-1))
    return follow, picker


@app.cell
def _(
    chart,
    charts,
    follow,
    journey,
    mo,
    now_s,
    pair,
    picked,
    picker,
    pictures,
    session,
    told,
):
    _paths = [journey(_run, picked) for _run in pair]
    mo.vstack(
        [
            mo.Html(pictures.heading(f"The path of session {session}")),
            mo.hstack([picker, follow], justify="start", align="center"),
            mo.md("  \n".join(told(_run, _path) for _run, _path in zip(pair, _paths, strict=True))),
            chart(charts.path(pair, _paths, now_s)),
        ],
        gap=0.4,
    )
    return


@app.cell
def _(chart, charts, mo, pair, set_picked):
    def _pick(k):
        requests = charts.shown(pair[k])

        def pick(points):
            if points:
                set_picked(int(requests[points[0]["pointIndex"]]))

        return pick

    clouds = [
        chart(charts.requests(_run, _k), on_change=_pick(_k))
        for _k, _run in enumerate(pair)
    ]
    return (clouds,)


@app.cell
def _(clouds, mo, pair, pictures):
    mo.vstack(
        [
            mo.Html(pictures.heading("Requests: click one to see the path of its session")),
            mo.hstack(
                [
                    mo.vstack([mo.Html(f'<p class="p-name">{_run.label}</p>'), _cloud], gap=0)
                    for _run, _cloud in zip(pair, clouds, strict=True)
                ],
                widths="equal",
                gap=1.5,
            ),
        ]
    )
    return


@app.cell
def _(chart, charts, mo, pair, pictures):
    mo.vstack(
        [
            mo.Html(pictures.heading("The whole run (dotted lines: the limits)")),
            mo.hstack(
                [
                    mo.vstack([chart(charts.over_time(pair))]),
                    mo.vstack([chart(charts.sources(pair)), chart(charts.latency(pair))]),
                ],
                widths="equal",
                gap=1.5,
            ),
        ]
    )
    return


@app.cell
def _(mo):
    get_number, set_number = mo.state(0)
    get_turn, set_turn = mo.state(0)  # decisions so far, in all games: a new value redraws the page
    return get_number, get_turn, set_number, set_turn


@app.cell
def _(Game, get_number, mo, page):
    mo.stop(page.value != "Be the router")
    game = Game(get_number())
    return (game,)


@app.cell
def _(game, mo, set_number, set_turn):
    def _after(action):
        """A button's work: act, then show what became of it."""

        def work(_):
            if not game.over:
                action()
            set_turn(lambda turn: turn + 1)

        return work

    sends = [
        mo.ui.button(
            label=f"Send to {_i}",
            kind="success",
            full_width=True,
            keyboard_shortcut=f"Alt-{_i}",
            tooltip=f"Alt-{_i}",
            on_click=_after(lambda i=_i: game.pick(i)),
        )
        for _i in range(game.size.instances)
    ]
    autopilots = [
        mo.ui.button(label=f"SMetric decides {_words}", on_click=_after(lambda n=_n: game.autopilot(n)))
        for _words, _n in (("this one", 1), ("five", 5), ("all that are left", None))
    ]
    new_game = mo.ui.button(label="New game", kind="neutral", on_click=lambda _: set_number(lambda n: n + 1))
    return autopilots, new_game, sends


@app.cell
def _(autopilots, game, game_pictures, get_turn, mo, new_game, pictures, sends):
    _turn = get_turn()
    _last = game.moves[-1] if game.moves else None
    if game.over:
        _table = game.standings()
        _parts = [
            mo.Html(pictures.say(game.verdict(_table))),
            mo.Html(game_pictures.standings(_table)),
            new_game,
        ]
    else:
        _moment = game.moment()
        _session = int(_moment.asked.session)
        _parts = [
            mo.Html(game_pictures.progress(game)),
            mo.Html(pictures.say(pictures.request_words(_moment))),
            mo.Html(pictures.tiles(_moment, _session, chosen=False)),
            mo.hstack(sends, widths="equal", gap=0.75),
            mo.Html(game_pictures.router_table(_moment)),
            mo.hstack([*autopilots, new_game], justify="start", wrap=True),
            mo.Html(pictures.legend()),
        ]
    mo.vstack([mo.Html(pictures.heading("Be the router")), *_parts], gap=0.7)
    return


if __name__ == "__main__":
    app.run()
