"""Tables: scores and comparisons for the terminal, and rows for CSV and Parquet files."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from smetric_gym.errors import SmetricError
from smetric_gym.experiment.store import write_whole
from smetric_gym.scoring import SCORES

REQUEST_TABLES = ("none", "csv", "parquet")
SWEEP = ("tps_within_slo", "slo_attainment", "ttft_p50_s", "ttft_p99_s", "tpot_p95_s", "local_hit_ratio",
         "reuse_ratio", "load_imbalance", "saturation")  # fmt: skip
"""Scores shown for every run of a sweep; the files have all of them."""


PIPE_WIDTH = 120
"""Columns of a table that is not shown in a terminal."""


def terminal() -> Console:
    """Where tables are printed: as wide as the terminal, or ``PIPE_WIDTH`` in a pipe or file."""
    screen = Console()
    return screen if screen.is_terminal else Console(width=PIPE_WIDTH)


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1), collapse_padding=True)


def number(value: Any, unit: str = "") -> str:
    """A value as people read it: shares in %, big numbers with separators, four digits of the rest."""
    if not isinstance(value, (int, float, np.number)) or isinstance(value, bool):
        return str(value)
    if math.isnan(value):
        return "-"
    if unit == "share":
        return f"{100 * value:.1f} %"
    if isinstance(value, (int, np.integer)) or abs(float(value)) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def scores_table(scores: Mapping[str, Any], title: str, width: int = 160) -> Table:
    """One run: every score with its unit, and its definition where there is room."""
    table = _table(title)
    table.add_column("score", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    if width >= 120:
        table.add_column("what it is", style="dim", overflow="fold")
    for name, score in SCORES.items():
        unit = "" if score.unit == "share" else score.unit
        cells = (name, number(scores[name], score.unit), unit, score.definition.rstrip("."))
        table.add_row(*cells[: len(table.columns)])
    return table


def sweep_table(rows: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], title: str) -> Table:
    """Many runs: what differs between them, then the main scores, one row per run.

    Args:
        rows: (what was swept, scores) of each run.
        title: over the table.
    """
    names = dict.fromkeys(name for labels, _ in rows for name in labels)
    swept = [name for name in names if len({labels.get(name) for labels, _ in rows}) > 1]
    table = _table(title)
    for name in swept:
        table.add_column(name.rpartition(".")[2].replace("_", " "), overflow="fold")
    for name in SWEEP:
        widest = max(len(word) for word in name.split("_"))  # a header wraps at its spaces, never inside a word
        table.add_column(name.replace("_", " "), justify="right", overflow="fold", min_width=widest)
    for labels, scores in rows:
        cells = [number(scores[name], SCORES[name].unit) for name in SWEEP]
        table.add_row(*(str(labels.get(name, "")) for name in swept), *cells)
    return table


def plain_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str) -> Table:
    """Rows of anything; the first column is left-aligned text, the others are aligned by what they hold."""
    rows = [list(row) for row in rows]
    table = _table(title)
    for k, name in enumerate(columns):
        numeric = k > 0 and any(isinstance(row[k], (int, float)) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*("" if cell is None else number(cell) for cell in row))
    return table


def as_text(table: Table, width: int = 160) -> str:
    """A table as plain text."""
    text = io.StringIO()
    console = Console(width=width, file=text, force_terminal=False)
    console.print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows with the columns of the first one, whole or not at all."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue())


def request_columns(scored) -> dict[str, np.ndarray]:
    """The per-request table of a run: what every request that arrived was, and what became of it."""
    arrived = np.isfinite(scored.all["arrival_s"])
    source, outcome = scored.trace.requests[arrived], scored.all[arrived]
    columns: dict[str, np.ndarray] = {"request": np.flatnonzero(arrived), "scored": scored.mask[arrived]}
    for name in ("session", "turn", "messages", "prompt", "output", "history", "system", "trigger"):
        columns[name] = source[name]
    for name in outcome.dtype.names:
        columns[name] = outcome[name]
    columns["ttft_s"] = outcome["first_token_s"] - outcome["arrival_s"]
    steps = np.where(source["output"] > 1, source["output"] - 1.0, np.nan)
    columns["tpot_s"] = (outcome["finish_s"] - outcome["first_token_s"]) / steps
    columns["ttft_limit_s"] = scored.slo.ttft_limit_s(source["prompt"])
    within = np.zeros(len(scored.all), dtype=bool)
    within[np.flatnonzero(scored.mask)] = scored.met
    columns["within_slo"] = within[arrived]
    return columns


def write_requests(folder: Path, kind: str, scored) -> Path | None:
    """Write the per-request table of a run as ``csv`` or ``parquet``; ``none`` writes nothing."""
    if kind == "none":
        return None
    columns = request_columns(scored)
    path = folder / f"requests.{kind}"
    if kind == "csv":
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
        write_whole(path, text.getvalue())
    elif kind == "parquet":
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise SmetricError(
                "requests_table=parquet needs pyarrow (pip install 'smetric-gym[parquet]'), without it: csv"
            ) from error
        sink = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table(columns), sink)
        write_whole(path, sink.getvalue())
    else:
        raise SmetricError(f"requests_table is {kind!r}, allowed: {', '.join(REQUEST_TABLES)}")
    return path
