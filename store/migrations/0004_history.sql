-- SPDX-License-Identifier: Apache-2.0
-- Accounting history: one row a run, and how far an import has come. Instants
-- and 0 for unset as in 0001; those of a run but for submit and ended are
-- seconds after submit, which are fewer bytes, and NULL when unset.

-- What is said of runs in words: users, accounts, names, node lists, commands.
-- Most of them come in a million rows a few thousand times.
CREATE TABLE past_words (
    id   INTEGER PRIMARY KEY,
    hash INTEGER NOT NULL UNIQUE,              -- of the word, or the next that was free
    word TEXT    NOT NULL,
    used INTEGER NOT NULL                      -- a run used it that ended, or was submitted, so late
) STRICT;

-- The key is that of the accounting database itself: a requeue moves the
-- submit time.
CREATE TABLE past_jobs (
    cluster     INTEGER NOT NULL,              -- this and those marked w: past_words.id, NULL when empty
    job_id      INTEGER NOT NULL,              -- Slurm's raw job id
    submit      INTEGER NOT NULL,
    ended       INTEGER NOT NULL,              -- 0: not over when it was read
    state       INTEGER NOT NULL,              -- w
    start       INTEGER,
    eligible    INTEGER,
    elapsed_s   INTEGER NOT NULL,              -- without suspension
    suspended_s INTEGER,
    limit_s     INTEGER,                       -- -1: unlimited
    exit_code   INTEGER,
    restarts    INTEGER,
    array_job   INTEGER,
    array_task  INTEGER,
    het_job     INTEGER,
    user        INTEGER,                       -- w
    account     INTEGER,                       -- w
    part        INTEGER,                       -- w
    qos         INTEGER,                       -- w
    name        INTEGER,                       -- w
    command     INTEGER,                       -- w
    gpus        INTEGER NOT NULL,
    gpu_type    INTEGER,                       -- w
    nodes       INTEGER,                       -- w; host list
    node_count  INTEGER NOT NULL,
    cpus        INTEGER NOT NULL,
    priority    INTEGER,
    gpu_util    INTEGER,                       -- thousandths; NULL: not told
    gpu_memory  INTEGER,                       -- bytes; NULL: not told
    PRIMARY KEY (cluster, job_id, submit)
) STRICT, WITHOUT ROWID;
CREATE INDEX past_jobs_ended ON past_jobs (ended);

-- Ranges of time that were read whole.
CREATE TABLE past_ranges (
    since INTEGER PRIMARY KEY,
    until INTEGER NOT NULL,
    read  INTEGER NOT NULL                     -- by the host's clock
) STRICT;
