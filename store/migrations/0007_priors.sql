-- SPDX-License-Identifier: Apache-2.0
-- The learner's table keeps what was expected beside what came. Values of
-- before are of another reward: they mean nothing now, and learning begins anew.

DELETE FROM qvalues;
ALTER TABLE qvalues ADD COLUMN prior REAL NOT NULL DEFAULT 0;
