-- SPDX-License-Identifier: Apache-2.0
-- What is learnt: counters of jobs, groups, episodes, the learner's table, and
-- the state that a daemon carries over a restart.

CREATE TABLE samples (
    id           INTEGER PRIMARY KEY,
    job_id       INTEGER NOT NULL,
    node         TEXT    NOT NULL,
    at           INTEGER NOT NULL,
    interval_ms  INTEGER NOT NULL,
    gpus         INTEGER NOT NULL,
    compute      REAL    NOT NULL,             -- 0..1
    source       TEXT    NOT NULL,
    nvlink_rate  REAL    NOT NULL,             -- bytes per second, as the speeds
    pcie_rate    REAL    NOT NULL,
    net_rate     REAL    NOT NULL,
    nvlink_speed REAL    NOT NULL,             -- 0: unknown
    pcie_speed   REAL    NOT NULL,
    net_speed    REAL    NOT NULL,
    net_shared   INTEGER NOT NULL
) STRICT;
CREATE INDEX samples_job ON samples (job_id, at);
CREATE INDEX samples_at ON samples (at);

CREATE TABLE groups (
    at      INTEGER NOT NULL,                  -- when the jobs were grouped
    idx     INTEGER NOT NULL,
    center  REAL    NOT NULL,                  -- log cc
    spread  REAL    NOT NULL,
    members INTEGER NOT NULL,
    PRIMARY KEY (at, idx)
) STRICT, WITHOUT ROWID;

CREATE TABLE episodes (
    job_id           INTEGER NOT NULL,
    decided          INTEGER NOT NULL,
    state            TEXT    NOT NULL,
    action           TEXT    NOT NULL,
    actual           TEXT    NOT NULL,
    gpus             INTEGER NOT NULL,
    submitted        INTEGER NOT NULL,
    started          INTEGER NOT NULL,
    ended            INTEGER NOT NULL,
    nodes            TEXT    NOT NULL,
    npr              REAL    NOT NULL,
    npr_count        INTEGER NOT NULL,
    neighbour_delta  REAL    NOT NULL,
    idle_gpu_seconds REAL    NOT NULL,
    reward           REAL    NOT NULL,
    learned          INTEGER NOT NULL,
    PRIMARY KEY (job_id, decided)
) STRICT, WITHOUT ROWID;
CREATE INDEX episodes_decided ON episodes (decided);

CREATE TABLE qvalues (
    state   TEXT    NOT NULL,
    action  TEXT    NOT NULL,
    value   REAL    NOT NULL,
    visits  INTEGER NOT NULL,
    var     REAL    NOT NULL,
    changed INTEGER NOT NULL,
    saved   INTEGER NOT NULL,
    PRIMARY KEY (state, action)
) STRICT, WITHOUT ROWID;

CREATE TABLE states (
    name  TEXT    PRIMARY KEY,
    blob  BLOB    NOT NULL,
    saved INTEGER NOT NULL                     -- by the daemon host's clock
) STRICT, WITHOUT ROWID;
