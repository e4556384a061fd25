-- SPDX-License-Identifier: Apache-2.0
-- What reports read: how the free GPUs lay in each cycle, how busy jobs kept
-- theirs, and indices over what was done to jobs.

-- -1: not recorded, by an older release or without nodes.
ALTER TABLE cycles ADD COLUMN free_split INTEGER NOT NULL DEFAULT -1; -- free GPUs on usable nodes that jobs have a part of
ALTER TABLE cycles ADD COLUMN unevenness REAL    NOT NULL DEFAULT -1; -- standard deviation over usable nodes of the part of their GPUs in use

-- One row a job with samples. A part of the GPU time that it held, for there
-- may be gaps.
CREATE TABLE usage (
    job_id INTEGER PRIMARY KEY,
    at     INTEGER NOT NULL,                   -- of its newest sample, by the daemon host's clock
    gpu_ms INTEGER NOT NULL,                   -- GPU time that samples cover, milliseconds
    busy   INTEGER NOT NULL                    -- the same, each weighed by its compute activity
) STRICT;
CREATE INDEX usage_at ON usage (at);

-- Samples up to this number are in usage.
CREATE TABLE usage_mark (id INTEGER NOT NULL) STRICT;

INSERT INTO usage SELECT r.job_id, max(m.at + m.res), sum(m.ms * r.gpus), round(sum(1.0 * m.ms * r.gpus * m.compute) / 1000000)
    FROM means m JOIN series r ON r.id = m.series GROUP BY r.job_id;
INSERT INTO usage_mark SELECT coalesce(min(id) - 1, 0) FROM samples;

CREATE INDEX decisions_made ON decisions (job_id) WHERE skipped = '';
CREATE INDEX changes_set ON changes (job_id, outcome) WHERE kind = 'set';
