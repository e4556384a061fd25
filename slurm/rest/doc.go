// SPDX-License-Identifier: Apache-2.0

// Package rest is the only code that talks to slurmrestd. It speaks v0.0.38
// and v0.0.40 to v0.0.45 (Slurm 22.05 to 26.05), reads the queue, the nodes and
// the partitions into package slurm's values, and changes pending jobs.
//
// # Versions
//
// Connect asks from the highest known version downwards and takes the first
// that answers; v0.0.39 is never used (its nice field ends slurmrestd). Answers
// are read by shape, not by version: a number may come as 7, as
// {"set":true,"infinite":false,"number":7}, as null or as a word, a list of
// names as a list or as one string. One odd record never fails a poll; it is
// left out and counted in slurm.Snapshot.Odd.
//
// # What a poll costs
//
// Every list is asked for with update_time, the instant of the list that is in
// the cache. slurmctld compares it with last_job_update, last_node_update or
// last_part_update and, when nothing moved, answers "no change" (HTTP 304, or
// an empty list of jobs with a warning from v0.0.40) in a few milliseconds and
// under 900 bytes. 1,180 jobs read whole on 24.11 are 9.3 MB and 0.75 s, most of
// it slurmrestd's, and 0.1 s here. On "no change" the cached records stand; they
// are never taken for an empty queue. Whatever changes in any record moves that instant (an update, a state,
// a reason, an estimate of backfill, a recomputed priority), so nothing is
// missed that a full read would have shown; slurmctld compares with one second
// of slack, so a change within the second of the last read is seen too. The
// lighter GET /jobs/state/ (v0.0.41 and later) is not used as that check: it
// tells ids and states only and would hide a changed priority, exclude list or
// reason. When something moved the same request brings the whole list, so a
// poll is never more than one request a list.
//
// Nodes are asked for with update_time on v0.0.45 only: before, slurmrestd
// answers some of these requests with a bare 500 (22.05 when nothing changed,
// 24.11 when nodes changed and partitions did not; both live). They cost 1.4 KB
// (22.05) to 2.7 KB (26.05) each, jobs 3.5 to 9 KB.
//
// # The clock
//
// Snapshot.TakenAt is slurmctld's own clock. The one answer that carries it on
// every release, changed data or not, is GET /diag (statistics.req_time, the
// second in which slurmctld answered); last_update of the lists exists from
// v0.0.40 and only in an answer with data, and the Date header is slurmrestd's
// clock. So each Snapshot asks /diag first, and the update_time of the next
// poll is the instant of this one: taken before the lists, it can only repeat a
// change, never lose one.
package rest
