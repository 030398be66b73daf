"""Rows of the journal: what was said, in the order in which it was said."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec

from mosaic.store.lineage import Lineage
from mosaic.store.rows import KINDS
from mosaic.store.schema import INTEGER_MAX
from mosaic.worker.messages import AnyMessage, Number, to_number

# A journal row, ready for JSON: {"seq", "attempt", "type", "time", ...all fields of the message, defaults included, but
# `child` only where it is said}, and "superseded": True if a later attempt resumed from before it. Numbers that JSON
# cannot say are strings.
Row = dict[str, Any]

# The kinds with a table of their own. All others are in `events`, and so is any message that did not fit its table.
TABLES = {"step": "steps", "episode": "episodes", "metric": "metrics", "log": "logs"}

_decode = msgspec.json.decode


def number(value: float | None) -> Number:
    """As JSON carries it; NULL is NaN."""
    return "nan" if value is None else to_number(value)


def read(
    database: sqlite3.Connection, since: int, kinds: Collection[str] | None, limit: int, names: Callable[[int], str]
) -> list[Row]:
    """The first `limit` rows after `since`. `names` knows the metrics by id."""
    lineage = Lineage(database)
    wanted = frozenset(KINDS if kinds is None else kinds)
    # seqs have no gaps, so without a choice of kinds the range is known; with one it must be looked for.
    until = min(since + limit, INTEGER_MAX) if kinds is None else _end_of_page(database, since, wanted, limit)
    rows: list[Row] = []
    for kind, table in TABLES.items():
        if kind in wanted:
            found = database.execute(f"SELECT * FROM {table} WHERE seq > ? AND seq <= ? ORDER BY seq", (since, until))
            match kind:
                case "step":
                    rows += _steps(found, lineage)
                case "episode":
                    rows += _episodes(found, lineage)
                case "metric":
                    rows += _metrics(database, found.fetchall(), lineage, names)
                case "log":
                    rows += _logs(found, lineage)
    found = database.execute("SELECT * FROM events WHERE seq > ? AND seq <= ? ORDER BY seq", (since, until))
    rows += _events((row for row in found if row[2] in wanted), lineage)
    rows.sort(key=_seq)
    return rows


def newest_logs(database: sqlite3.Connection, limit: int, before: int | None, level: str | None) -> list[Row]:
    """The newest log rows, newest first."""
    sql = "SELECT * FROM logs WHERE seq < :before AND (:level IS NULL OR level = :level) ORDER BY seq DESC LIMIT :limit"
    bounds = {"before": INTEGER_MAX if before is None else before, "level": level, "limit": limit}
    found = database.execute(sql, bounds)
    return _logs(found, Lineage(database))


def newest_episodes(database: sqlite3.Connection, limit: int, before: int | None) -> list[Row]:
    """The newest episodes that are not superseded, newest first."""
    lineage = Lineage(database)
    rows: list[Row] = []
    sql = "SELECT * FROM episodes WHERE seq >= ? AND seq < ? AND step <= ? ORDER BY seq DESC LIMIT ?"
    for segment in reversed(lineage.segments):
        if segment.visible and len(rows) < limit:
            below = segment.stop_seq if before is None else min(before, segment.stop_seq)
            found = database.execute(sql, (segment.first_seq, below, segment.last_step, limit - len(rows)))
            rows += _episodes(found, lineage)
    return rows


def all_events(database: sqlite3.Connection, kind: str) -> list[Row]:
    """Every event of a kind that has no table of its own, the oldest first."""
    found = database.execute("SELECT * FROM events WHERE kind = ? ORDER BY seq", (kind,))
    return _events(found, Lineage(database))


def _end_of_page(database: sqlite3.Connection, since: int, wanted: frozenset[str], limit: int) -> int:
    """The seq of the `limit`-th row after `since` that is of the wanted kinds, or of the last."""
    parts = [f"SELECT * FROM (SELECT seq FROM {TABLES[kind]} WHERE seq > :since ORDER BY seq LIMIT :limit)"
             for kind in sorted(wanted) if kind in TABLES]  # fmt: skip
    parts += [f"SELECT * FROM (SELECT seq FROM events WHERE kind = '{kind}' AND seq > :since ORDER BY seq LIMIT :limit)"
              for kind in sorted(wanted)]  # fmt: skip
    sql = f"SELECT max(seq) FROM (SELECT seq FROM ({' UNION ALL '.join(parts)}) ORDER BY seq LIMIT :limit)"
    (end,) = database.execute(sql, {"since": since, "limit": limit}).fetchone()
    return since if end is None else int(end)


def _seq(row: Row) -> int:
    return int(row["seq"])


def _steps(found: Iterable[tuple[Any, ...]], lineage: Lineage) -> list[Row]:
    rows = []
    for seq, time, step, reward, episode, agent, env, extra in found:
        row = {"seq": seq, "attempt": 0, "type": "step", "time": time, "step": step, "reward": number(reward)}
        row.update(episode=episode, agent=agent, env=env, extra=_decode(extra) if extra else {})
        rows.append(_placed(row, lineage))
    return rows


def _episodes(found: Iterable[tuple[Any, ...]], lineage: Lineage) -> list[Row]:
    rows = []
    for seq, time, step, episode, episode_return, length, agent, env, extra in found:
        row = {"seq": seq, "attempt": 0, "type": "episode", "time": time, "step": step, "episode": episode}
        row.update(episode_return=number(episode_return), length=length, agent=agent, env=env)
        row["extra"] = _decode(extra) if extra else {}
        rows.append(_placed(row, lineage))
    return rows


def _logs(found: Iterable[tuple[Any, ...]], lineage: Lineage) -> list[Row]:
    return [
        _placed({"seq": seq, "attempt": 0, "type": "log", "time": time, "message": message, "level": level}, lineage)
        for seq, time, level, message in found
    ]


def _events(found: Iterable[tuple[Any, ...]], lineage: Lineage) -> list[Row]:
    rows = []
    for seq, time, kind, body in found:
        row = {"seq": seq, "attempt": 0, "type": kind, "time": time}
        said = {**_defaults(kind), **_decode(body)}
        row.update((key, value) for key, value in said.items() if key not in row)
        rows.append(_placed(row, lineage))
    return rows


def _metrics(
    database: sqlite3.Connection,
    found: list[tuple[int, float, int, str]],
    lineage: Lineage,
    names: Callable[[int], str],
) -> list[Row]:
    if not found:
        return []
    first, last = found[0][0], found[-1][0]
    series = {text: _decode(text) for text in {row[3] for row in found}}
    values = {
        id: dict(database.execute("SELECT seq, value FROM points WHERE series = ? AND seq BETWEEN ? AND ?",
                                  (id, first, last)))
        for id in {id for ids in series.values() for id in ids}
    }  # fmt: skip
    rows = []
    for seq, time, step, text in found:
        said = {names(id): number(values[id][seq]) for id in series[text]}
        row = {"seq": seq, "attempt": 0, "type": "metric", "time": time, "step": step, "values": said}
        rows.append(_placed(row, lineage))
    return rows


def _placed(row: Row, lineage: Lineage) -> Row:
    """Fill in the attempt, and whether the row is superseded."""
    segment = lineage.of(row["seq"])
    row["attempt"] = segment.attempt
    step = row.get("step")
    if step is not None and step > segment.cutoff:
        row["superseded"] = True
    return row


_KIND_FIELDS = {
    str(kind.__struct_config__.tag): [f for f in msgspec.structs.fields(kind) if f.name not in ("time", "child")]
    for kind in AnyMessage.__args__
}


def _defaults(kind: str) -> Row:
    """What the fields of a message are if it does not say them."""
    defaults: Row = {}
    for field in _KIND_FIELDS.get(kind, ()):
        if field.default is not msgspec.NODEFAULT:
            defaults[field.name] = field.default
        elif field.default_factory is not msgspec.NODEFAULT:
            defaults[field.name] = field.default_factory()
    return defaults
