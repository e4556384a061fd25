// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	_ "github.com/mattn/go-sqlite3" // fills the history by SQL: ninety days of cycles take too long one by one

	"rifling/contrib/scene"
	"rifling/store"
)

const (
	pageLooks    = 40               // at each page, one after the other
	pagePast     = 200_000          // finished jobs in the history
	pageDays     = 90               // of cycles, one in 15 s
	pageReaders  = 4                // beside the cycles
	pageBeside   = 20 * time.Second // for so long
	pageTarget   = 200              // ms
	pageInterval = 15 * time.Second // the default
)

// pageLoad measures the status page of a real riflingd at 1,000 nodes and 10,000
// jobs, with ninety days of history behind it: how long each page takes, and
// whether readers hold up the cycles.
func pageLoad(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "rifling-page-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // in the system's folder for such
	now := time.Now()
	db := filepath.Join(dir, "rifling.db")
	if err := fillPast(ctx, db, now); err != nil {
		return fmt.Errorf("fill the history: %w", err)
	}
	bin, err := scene.Build(ctx, dir)
	if err != nil {
		return err
	}
	snap := scene.Large(now, 1)
	d, err := scene.Start(ctx, snap, scene.Options{Bin: bin, Dir: dir, DB: db, Config: fmt.Sprintf("interval: %s\nlog: {level: error}", pageInterval)})
	if err != nil {
		return err
	}
	defer d.Close()
	fmt.Fprintf(out, "load: %d nodes, %d jobs, %d cycles and %d finished jobs in the history; %d looks at each page\n\n", scene.LargeNodes, scene.LargeJobs,
		pageDays*24*3600/15, pagePast, pageLooks)
	fmt.Fprintf(out, "%-26s %9s %9s %9s %9s\n", "page", "first ms", "p50 ms", "p99 ms", "kB")
	worst := time.Duration(0)
	for _, p := range []string{
		"/", "/cluster", "/cluster?view=table", "/queue", "/queue?page=80", "/queue?user=user07&sort=gpus", "/queue?state=running", "/decisions",
		"/learning?span=7d", "/learning?span=90d", "/qtable", "/finished", "/finished?user=user07", fmt.Sprintf("/jobs/%d", snap.Jobs[0].ID),
	} {
		p99, err := lookAt(ctx, out, d, p)
		if err != nil {
			return err
		}
		worst = max(worst, p99)
	}
	if err := beside(ctx, out, d); err != nil {
		return err
	}
	fmt.Fprintf(out, "bar: page value=%.0f target=%d %s (slowest page's 99th percentile, ms)\n", ms(worst), pageTarget, verdict(ms(worst) < pageTarget))
	return nil
}

// lookAt prints a line of the table. The first look works out what later ones
// find ready, and is told apart.
func lookAt(ctx context.Context, out io.Writer, d *scene.Daemon, path string) (p99 time.Duration, err error) {
	var took []time.Duration
	first, size := time.Duration(0), 0
	for i := range pageLooks + 1 {
		start := time.Now()
		body, err := d.Get(ctx, path)
		if err != nil {
			return 0, err
		}
		if size = len(body); i == 0 {
			first = time.Since(start)
			continue
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	p99 = took[len(took)*99/100]
	fmt.Fprintf(out, "%-26s %9.1f %9.1f %9.1f %9.0f\n", path, ms(first), ms(took[len(took)/2]), ms(p99), float64(size)/1000)
	return p99, nil
}

// beside compares the cycles without and with readers.
func beside(ctx context.Context, out io.Writer, d *scene.Daemon) error {
	alone, err := cyclesFor(ctx, d, pageBeside)
	if err != nil {
		return err
	}
	reading, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	var mu sync.Mutex
	looks := 0
	for i := range pageReaders {
		group.Go(func() {
			for k := i; reading.Err() == nil; k++ {
				if _, err := d.Get(reading, []string{"/", "/cluster", "/queue", "/finished"}[k%4]); err == nil {
					mu.Lock()
					looks++
					mu.Unlock()
				}
				wait(reading, 50*time.Millisecond)
			}
		})
	}
	with, err := cyclesFor(ctx, d, pageBeside)
	stop()
	group.Wait()
	fmt.Fprintf(out, "\nmean cycle: %.2f s alone, %.2f s beside %d readers with %d looks in %s (they share the machine's processors)\n", alone, with, pageReaders, looks, pageBeside)
	return err
}

// cyclesFor returns the mean time of the cycles in a stretch of time.
func cyclesFor(ctx context.Context, d *scene.Daemon, t time.Duration) (seconds float64, err error) {
	sum, n, err := cycleTimes(ctx, d)
	if err != nil {
		return 0, err
	}
	wait(ctx, t)
	for range 100 { // until there was one
		sum2, n2, err := cycleTimes(ctx, d)
		if err != nil {
			return 0, err
		}
		if n2 > n {
			return (sum2 - sum) / (n2 - n), nil
		}
		wait(ctx, time.Second)
	}
	return 0, errors.New("riflingd runs no cycle")
}

func cycleTimes(ctx context.Context, d *scene.Daemon) (sum, n float64, err error) {
	body, err := d.Get(ctx, "/metrics")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.SplitSeq(body, "\n") {
		if v, ok := strings.CutPrefix(line, "rifling_cycle_duration_seconds_sum "); ok {
			sum, err = strconv.ParseFloat(v, 64)
		}
		if v, ok := strings.CutPrefix(line, "rifling_cycle_duration_seconds_count "); ok && err == nil {
			n, err = strconv.ParseFloat(v, 64)
		}
	}
	return sum, n, err
}

// fillPast makes a history as ninety days leave one.
func fillPast(ctx context.Context, path string, now time.Time) (err error) {
	s, err := store.Open(path, store.Options{})
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	end := now.Unix() - 60
	for _, q := range []struct {
		text string
		args []any
	}{
		{`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ? - 1)
			INSERT INTO cycles (at, begun_at, ended_at, took_ms, mode, policy, seed, pending, pending_gpus, running, gpus, gpus_used, anpr, anpr_gpus)
			SELECT ? - 15 * (? - i), ? - 15 * (? - i), ? - 15 * (? - i) + 1, 300, 'steer', 'rifling', 1, 5000 + i % 997, 20000, 3000, 8000, 7000 + i % 800,
				0.7 + 0.1 * (i % 89) / 89.0, 6000 FROM n`,
			[]any{pageDays * 5760, end, pageDays * 5760, end, pageDays * 5760, end, pageDays * 5760}},
		{`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ? - 1)
			INSERT INTO jobs (job_id, array_job_id, array_task_id, array_tasks, name, user, account, partition, qos, state, reason, submit, eligible, start,
				estimate, ended, time_limit_s, priority, nice, gpus, request, min_nodes, max_nodes, exclusive, restarts, nodes, first_seen, last_seen)
			SELECT 100000 + i, 0, -1, '', 'train-' || i % 50, printf('user%02d', i % 60), 'physics', 'gpu', 'normal', 'COMPLETED', 'None', ? + 38 * i, ? + 38 * i,
				? + 38 * i + 600, 0, ? + 38 * i + 4200, 86400, 1000, 0, 4, '{}', 1, 1, 0, 0, 'gpu0001', ? + 38 * i, ? + 38 * i + 4260 FROM n`,
			func() []any {
				out := []any{pagePast}
				for range 6 {
					out = append(out, end-38*pagePast-4300)
				}
				return out
			}()},
		{`ANALYZE`, nil},
	} {
		if _, err := db.ExecContext(ctx, q.text, q.args...); err != nil {
			return err
		}
	}
	return nil
}
