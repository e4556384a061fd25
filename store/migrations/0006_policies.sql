-- SPDX-License-Identifier: Apache-2.0
-- Trained policies: their files, the stages that they passed, how they were
-- evaluated, and what one on trial decided beside the one in charge. None of
-- the first three is ever pruned: they are few, and an admin asks for them.

CREATE TABLE policies (
    version TEXT    PRIMARY KEY,               -- first digits of the file's hash
    file    BLOB    NOT NULL,                  -- as it was read, hash included
    added   INTEGER NOT NULL,
    by      TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE policy_stages (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    version TEXT    NOT NULL REFERENCES policies (version),
    stage   TEXT    NOT NULL,
    share   REAL    NOT NULL,                  -- of the jobs, of the stage share
    by      TEXT    NOT NULL,
    why     TEXT    NOT NULL,
    forced  INTEGER NOT NULL                   -- 1: without the evidence that the stage asks for
) STRICT;

CREATE TABLE policy_evaluations (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    version TEXT    NOT NULL REFERENCES policies (version),
    against TEXT    NOT NULL,                  -- a version, or the name of a policy
    report  TEXT    NOT NULL                   -- JSON: all of it
) STRICT;
CREATE INDEX policy_evaluations_version ON policy_evaluations (version, id);

-- What both decided last for a job, while one was on trial.
CREATE TABLE policy_pairs (
    version    TEXT    NOT NULL,
    job_id     INTEGER NOT NULL,
    first_at   INTEGER NOT NULL,
    last_at    INTEGER NOT NULL,
    mine       INTEGER NOT NULL,               -- 1: the version's decision stood
    cycles     INTEGER NOT NULL,
    differed   INTEGER NOT NULL,               -- cycles in which the two would have done different things
    incumbent  TEXT    NOT NULL,               -- JSON: the decisions, nodes as host lists
    candidate  TEXT    NOT NULL,
    PRIMARY KEY (version, job_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX policy_pairs_last ON policy_pairs (last_at);
