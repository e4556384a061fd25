// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	_ "github.com/mattn/go-sqlite3" // writes the history that no daemon could in the time

	"rifling/store"
)

const (
	reportJobs    = 1_000_000
	reportDays    = 90
	reportCycles  = reportDays * 24 * 60 * 4 // one each 15 s
	reportSeconds = 2.0
	reportMemory  = 300e6 // bytes of the process at its largest
	reportTries   = 3
)

// reportBench times `rifling report` over a made history of a million jobs: the
// program itself, from its start to its end, file cache warm. Everything that
// the report reads is there: jobs, a decision on each second and a change on
// each fourth of them, the usage of all, and the cycles of 90 days.
func reportBench(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "rifling-report-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, bin := filepath.Join(dir, "history.db"), filepath.Join(dir, "rifling")
	build := exec.CommandContext(ctx, "go", "build", "-o", bin, "./cmd/rifling")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "rifling.yaml"), []byte("database: "+db+"\n"), 0o600); err != nil {
		return err
	}
	if err := makeHistory(ctx, db); err != nil {
		return fmt.Errorf("make a history: %w", err)
	}
	size, err := os.Stat(db)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d jobs, %d cycles, %.0f MB; wall clock and processor time, the best of %d runs each\n", reportJobs, reportCycles, float64(size.Size())/1e6, reportTries)
	wall, memory := 0.0, 0.0
	for i, args := range []string{"", "--by user", "--by day", "--by partition,gpu", "--before-after now-45days", "--by user --html"} {
		w, cpu, m, err := timeReport(ctx, bin, dir, strings.Fields(args))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "rifling report %-28s %5.2f s wall, %5.2f s processor, %4.0f MB\n", args, w, cpu, m/1e6)
		if i < 2 { // the plain report, and the one by user
			wall = max(wall, w)
		}
		memory = max(memory, m)
	}
	bar := func(name string, value, target float64) {
		verdict := "ok"
		if value >= target {
			verdict = "short"
		}
		fmt.Fprintf(out, "bar: %s value=%.2f target=<%.0f %s\n", name, value, target, verdict)
	}
	bar("report-seconds", wall, reportSeconds)
	bar("report-memory-mb", memory/1e6, reportMemory/1e6)
	return nil
}

// timeReport runs the program and returns the least wall clock and processor
// time of some runs, seconds, and the most memory of any, bytes.
func timeReport(ctx context.Context, bin, dir string, args []string) (wall, cpu, memory float64, err error) {
	for i := range reportTries {
		cmd := exec.CommandContext(ctx, bin, append([]string{"--config", filepath.Join(dir, "rifling.yaml"), "report"}, args...)...) //nolint:gosec // built a moment ago
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = io.Discard, &said
		begun := time.Now()
		if err := cmd.Run(); err != nil {
			return 0, 0, 0, fmt.Errorf("rifling report %s: %w: %s", strings.Join(args, " "), err, said.String())
		}
		w := time.Since(begun).Seconds()
		usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		if !ok {
			return 0, 0, 0, errors.New("the kernel tells no memory of a process")
		}
		c := (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
		if i == 0 {
			wall, cpu = w, c
		}
		wall, cpu, memory = min(wall, w), min(cpu, c), max(memory, float64(usage.Maxrss)*1024)
	}
	return wall, cpu, memory, nil
}

// makeHistory fills a database as a daemon of 90 days would have: 300 users,
// 40 accounts, three partitions. What is drawn comes from a multiplicative hash
// of the row's number, so each run has the same.
func makeHistory(ctx context.Context, path string) error {
	s, err := store.Open(path, store.Options{})
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	db, err := sql.Open("sqlite3", "file:"+path+"?_journal_mode=OFF&_synchronous=OFF")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	begin := time.Now().Unix() - reportDays*86400
	const count = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d),
		r AS (SELECT i, i * 2654435761 %% 4294967296 AS h FROM n) `
	for _, q := range []string{
		// Two waits of three are short, the rest up to ten hours; jobs run up to eight.
		fmt.Sprintf(count, reportJobs) + fmt.Sprintf(`INSERT INTO jobs (job_id, array_job_id, array_task_id, array_tasks, name, user, account, partition,
			qos, state, reason, submit, eligible, start, estimate, ended, time_limit_s, priority, nice, gpus, request,
			min_nodes, max_nodes, exclusive, restarts, nodes, first_seen, last_seen, family, grp, npr, npr_count)
			SELECT 1000000 + i, 0, -1, '', 'train_' || (h %% 977), 'user' || (h %% 300), 'account' || (h %% 40),
			CASE h %% 4 WHEN 0 THEN 'long' WHEN 1 THEN 'short' ELSE 'gpu' END, 'normal', 'COMPLETED', 'None', t, t, t + w, 0, t + w + d,
			86400, 4000, 0, 1 << (h %% 5), '{"per_job":' || (1 << (h %% 5)) || ',"type":"' || iif(h %% 3, 'a100', 'h100') || '"}', 1, 0, 0, 0,
			'gpu' || (h %% 100), t, t + w + d, 'user' || (h %% 300) || '/train', h %% 4 - 1, h %% 1000 / 1000.0, iif(h %% 5, 20, 0)
			FROM (SELECT i, h, %d + i * %d / %d AS t, iif(h %% 3, h / 7 %% 300, h / 7 %% 36000) AS w, 60 + h / 11 %% 28800 AS d FROM r)`,
			begin, reportDays*86400-90_000, reportJobs),
		`INSERT INTO usage SELECT job_id, ended, (ended - start) * gpus * 1000, (ended - start) * gpus * (job_id % 900) FROM jobs`,
		fmt.Sprintf(count, reportCycles) + fmt.Sprintf(`INSERT INTO cycles (at, begun_at, ended_at, took_ms, mode, policy, seed, pending, pending_gpus, running,
			gpus, gpus_used, anpr, anpr_gpus, free_split, unevenness)
			SELECT %d + i * 15, %d + i * 15, %d + i * 15, 80, 'steer', 'rifling', 1, h %% 200, h %% 900, 150, 800, 700 + h %% 100, 0.8, 600, h %% 50, 0.2 FROM r`, begin, begin, begin),
		`INSERT INTO decisions (job_id, first_cycle, last_cycle, first_at, last_at, mode, policy, action, state, candidates, target, offset,
			skipped, explored, reason, value, deadline, considered)
			SELECT job_id, 1, 1, submit, submit, 'steer', 'rifling', 'pack', 'g0 n1 open one nic0 q2', 'gpu[01-40]', 'gpu01', 0,
			iif(job_id % 10, '', 'it is held'), 0, 'packing on 1 node is valued highest', -0.02, 0, '[{"action":"leave","value":-0.4,"shape":"2 nodes"},{"action":"pack","nodes":"gpu[01-40]","shape":"1 node","value":-0.02,"visits":12}]'
			FROM jobs WHERE job_id % 2 = 0`,
		`INSERT INTO changes (cycle, job_id, at, kind, change, why, outcome)
			SELECT 1, job_id, submit, 'set', '{"excluded_nodes":"gpu[41-99]"}', 'pack', iif(job_id % 12, 'applied', 'failed') FROM jobs WHERE job_id % 4 = 0`,
	} {
		if _, err := db.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	return nil
}
