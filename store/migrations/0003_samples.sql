-- SPDX-License-Identifier: Apache-2.0
-- Samples: compact rows, what repeats between them kept once, who sent which
-- so that each is taken once, and means of those that are old. Instants of
-- samples are by the daemon host's clock.

CREATE TABLE nodes (
    id   INTEGER PRIMARY KEY,
    name TEXT    NOT NULL UNIQUE
) STRICT;

-- What is known of a node's collector. A node's row is written with its samples.
CREATE TABLE senders (
    node  INTEGER PRIMARY KEY,                 -- nodes.id
    at    INTEGER NOT NULL,                    -- of its newest sample, seconds
    seen  INTEGER NOT NULL,                    -- when it was last heard
    state TEXT    NOT NULL                     -- JSON: the last numbers taken of each run of the collector
) STRICT;

-- What the samples of a job on a node have in common, for one day: a row is
-- forgotten when that day's means are.
CREATE TABLE series (
    id           INTEGER PRIMARY KEY,
    day          INTEGER NOT NULL,             -- days since the epoch
    job_id       INTEGER NOT NULL,
    node         INTEGER NOT NULL,             -- nodes.id
    gpus         INTEGER NOT NULL,
    source       TEXT    NOT NULL,
    origin       TEXT    NOT NULL,
    weight       REAL    NOT NULL,
    net_shared   INTEGER NOT NULL,
    gpu_shared   INTEGER NOT NULL,
    nvlink_speed REAL    NOT NULL,             -- bytes per second; 0: unknown
    pcie_speed   REAL    NOT NULL,
    net_speed    REAL    NOT NULL
) STRICT;
CREATE INDEX series_day ON series (day, job_id, node);

-- Means over res seconds, each sample weighing as much as its interval.
CREATE TABLE means (
    res       INTEGER NOT NULL,                -- 300 or 3600
    at        INTEGER NOT NULL,                -- begin, seconds
    series    INTEGER NOT NULL,
    n         INTEGER NOT NULL,                -- samples
    ms        INTEGER NOT NULL,                -- their intervals added up
    compute   INTEGER NOT NULL,                -- millionths
    nvlink    INTEGER NOT NULL,                -- bytes per second
    pcie      INTEGER NOT NULL,
    net       INTEGER NOT NULL,
    throttled INTEGER NOT NULL,                -- millionths
    PRIMARY KEY (res, at, series)
) STRICT, WITHOUT ROWID;

-- What an older release kept is brought over as means.
INSERT INTO nodes (name) SELECT DISTINCT node FROM samples;
INSERT INTO series (day, job_id, node, gpus, source, origin, weight, net_shared, gpu_shared, nvlink_speed, pcie_speed, net_speed)
    SELECT DISTINCT s.at / 86400, s.job_id, n.id, s.gpus, s.source, '', 0, s.net_shared, 0, s.nvlink_speed, s.pcie_speed, s.net_speed
    FROM samples s JOIN nodes n ON n.name = s.node;
INSERT INTO means
    SELECT 300, s.at / 300 * 300, r.id, count(*), sum(max(1, s.interval_ms)), round(avg(s.compute) * 1000000),
        min(1e15, round(avg(s.nvlink_rate))), min(1e15, round(avg(s.pcie_rate))), min(1e15, round(avg(s.net_rate))), 0
    FROM samples s JOIN nodes n ON n.name = s.node JOIN series r ON r.day = s.at / 86400 AND r.job_id = s.job_id
        AND r.node = n.id AND r.gpus = s.gpus AND r.source = s.source AND r.net_shared = s.net_shared
        AND r.nvlink_speed = s.nvlink_speed AND r.pcie_speed = s.pcie_speed AND r.net_speed = s.net_speed
    GROUP BY s.at / 300, r.id;
INSERT INTO senders SELECT n.id, max(s.at), max(s.at), '' FROM samples s JOIN nodes n ON n.name = s.node GROUP BY n.id;
DROP TABLE samples;

-- The order of ids is the order of arrival. No index: rows are read and taken
-- away in that order.
CREATE TABLE samples (
    id          INTEGER PRIMARY KEY,
    series      INTEGER NOT NULL,
    at          INTEGER NOT NULL,              -- end of the interval, milliseconds
    interval_ms INTEGER NOT NULL,
    compute     INTEGER NOT NULL,              -- millionths
    nvlink      INTEGER NOT NULL,              -- bytes per second
    pcie        INTEGER NOT NULL,
    net         INTEGER NOT NULL,
    throttled   INTEGER NOT NULL               -- millionths
) STRICT;
