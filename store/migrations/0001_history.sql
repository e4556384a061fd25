-- SPDX-License-Identifier: Apache-2.0
-- What happened: cycles, the jobs they saw, what was decided and written.
-- Instants are whole seconds since the epoch, UTC, by slurmctld's clock unless
-- said otherwise; 0 means unset. Node lists are Slurm's host lists.

CREATE TABLE cycles (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    at           INTEGER NOT NULL,
    begun_at     INTEGER NOT NULL,             -- by the daemon host's clock
    ended_at     INTEGER NOT NULL DEFAULT 0,   -- likewise; 0: not ended, the daemon died in it or is at it
    took_ms      INTEGER NOT NULL DEFAULT 0,
    mode         TEXT    NOT NULL,             -- observe, steer
    policy       TEXT    NOT NULL,
    seed         INTEGER NOT NULL,             -- the bits of an unsigned number
    pending      INTEGER NOT NULL,             -- GPU jobs of managed partitions
    pending_gpus INTEGER NOT NULL,
    running      INTEGER NOT NULL,
    gpus         INTEGER NOT NULL,
    gpus_used    INTEGER NOT NULL,
    anpr         REAL    NOT NULL,             -- meaningless when anpr_gpus is 0
    anpr_gpus    INTEGER NOT NULL,
    odd          TEXT    NOT NULL DEFAULT '{}' -- JSON: what could not be read, and how often
) STRICT;
CREATE INDEX cycles_at ON cycles (at);

CREATE TABLE jobs (
    job_id         INTEGER PRIMARY KEY,        -- Slurm's raw job id
    array_job_id   INTEGER NOT NULL,
    array_task_id  INTEGER NOT NULL,
    array_tasks    TEXT    NOT NULL,
    name           TEXT    NOT NULL,
    user           TEXT    NOT NULL,
    account        TEXT    NOT NULL,
    partition      TEXT    NOT NULL,
    qos            TEXT    NOT NULL,
    state          TEXT    NOT NULL,           -- base and flags, as scontrol joins them
    reason         TEXT    NOT NULL,
    submit         INTEGER NOT NULL,
    eligible       INTEGER NOT NULL,
    start          INTEGER NOT NULL,           -- 0 while pending
    estimate       INTEGER NOT NULL,           -- Slurm's estimate of a pending job's start
    ended          INTEGER NOT NULL,           -- 0 until the job is done
    time_limit_s   INTEGER NOT NULL,           -- -1: unlimited
    priority       INTEGER NOT NULL,
    nice           INTEGER NOT NULL,
    gpus           INTEGER NOT NULL,
    request        TEXT    NOT NULL,           -- JSON: the request for GPUs
    min_nodes      INTEGER NOT NULL,
    max_nodes      INTEGER NOT NULL,
    exclusive      INTEGER NOT NULL,
    restarts       INTEGER NOT NULL,
    nodes          TEXT    NOT NULL,           -- of a started job
    first_seen     INTEGER NOT NULL,
    last_seen      INTEGER NOT NULL,
    -- the profile; level '' until there was one
    family         TEXT    NOT NULL DEFAULT '',
    grp            INTEGER NOT NULL DEFAULT -1,
    log_cc         REAL    NOT NULL DEFAULT 0,
    cc_count       INTEGER NOT NULL DEFAULT 0,
    cc_var         REAL    NOT NULL DEFAULT 0,
    cc_level       TEXT    NOT NULL DEFAULT '',
    comm_bound     INTEGER NOT NULL DEFAULT 0,
    compute_bound  INTEGER NOT NULL DEFAULT 0,
    npr            REAL    NOT NULL DEFAULT 0,
    npr_count      INTEGER NOT NULL DEFAULT 0,
    run_time_s     INTEGER NOT NULL DEFAULT 0,
    run_time_level TEXT    NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX jobs_last_seen ON jobs (last_seen);
CREATE INDEX jobs_submit ON jobs (submit);

CREATE TABLE decisions (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id      INTEGER NOT NULL,
    first_cycle INTEGER NOT NULL,              -- the cycle may have been pruned
    last_cycle  INTEGER NOT NULL REFERENCES cycles (id) ON DELETE CASCADE,
    first_at    INTEGER NOT NULL,
    last_at     INTEGER NOT NULL,
    mode        TEXT    NOT NULL,
    policy      TEXT    NOT NULL,
    action      TEXT    NOT NULL,
    state       TEXT    NOT NULL,
    candidates  TEXT,                          -- NULL: all nodes
    target      TEXT,                          -- what the shape that is meant would take now; NULL: cannot start
    offset      INTEGER NOT NULL,
    skipped     TEXT    NOT NULL,
    explored    INTEGER NOT NULL,
    reason      TEXT    NOT NULL,
    value       REAL    NOT NULL,
    deadline    INTEGER NOT NULL,
    considered  TEXT    NOT NULL               -- JSON: the options
) STRICT;
CREATE INDEX decisions_job ON decisions (job_id, id);
CREATE INDEX decisions_last_cycle ON decisions (last_cycle);

CREATE TABLE changes (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    cycle    INTEGER REFERENCES cycles (id) ON DELETE CASCADE, -- NULL: by rifling release
    job_id   INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    kind     TEXT    NOT NULL,                 -- set, take-back
    change   TEXT    NOT NULL,                 -- JSON: the update
    why      TEXT    NOT NULL,
    outcome  TEXT    NOT NULL DEFAULT '',      -- '': recorded, but its end is not known
    detail   TEXT    NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX changes_job ON changes (job_id, id);
CREATE INDEX changes_cycle ON changes (cycle);
CREATE INDEX changes_at ON changes (at);

-- What rifling has set on jobs. Never pruned by age: a row goes when its job is
-- gone from Slurm or all of it was taken back. JSON lists; NULL: not used.
CREATE TABLE owners (
    job_id          INTEGER PRIMARY KEY,
    user_exclude    TEXT,
    user_nice       INTEGER NOT NULL,
    user_required   TEXT,
    set_exclude     TEXT,
    set_required    TEXT,
    set_nice        INTEGER,
    set_site_factor INTEGER,
    prev_exclude    TEXT,
    prev_required   TEXT,
    prev_nice       INTEGER,
    set_at          INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    shunned         TEXT    NOT NULL
) STRICT;
