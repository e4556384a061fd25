// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	_ "github.com/mattn/go-sqlite3" // to lock the history's file

	"rifling/contrib/labrun"
)

// world is what a fault happens to.
type world struct {
	*chaos
	proxy  *labrun.Proxy
	daemon *labrun.Daemon
	job    string
	undo   []func() error
}

// end puts back what a fault changed.
func (w *world) end() error {
	var err error
	for _, f := range w.undo {
		err = errors.Join(err, f())
	}
	if w.daemon.Running() {
		w.daemon.Kill9()
	}
	return err
}

// fault is one thing that goes wrong. happen returns when it is over.
type fault struct {
	name    string
	prepare func(context.Context, *world, *labrun.DaemonOptions) error
	happen  func(context.Context, *world) error
}

// lasts is how long a fault lasts, a dozen cycles.
const lasts = 6 * time.Second

var faults = []fault{
	{name: "slurmctld restarts", happen: verb("restart-ctld")},
	{name: "slurmctld away for a while", happen: around("stop-ctld", "start-ctld")},
	{name: "slurmrestd gone", happen: around("stop-rest", "start-rest")},
	{name: "connections cut", happen: answers(labrun.Fault{Drop: true})},
	{name: "slow answers", happen: answers(labrun.Fault{Delay: 3 * time.Second})},
	{name: "answers beyond the time-out", happen: answers(labrun.Fault{Delay: 7 * time.Second})},
	{name: "401", happen: answers(labrun.Fault{Status: 401, Body: "Authentication failure"})},
	{name: "500", happen: answers(labrun.Fault{Status: 500, Body: `{"errors":[{"description":"Internal","error_number":-1}]}`})},
	{name: "502", happen: answers(labrun.Fault{Status: 502, Body: "Bad gateway"})},
	{name: "504", happen: answers(labrun.Fault{Status: 504, Body: ""})},
	{name: "511 with an empty queue", happen: answers(labrun.Fault{Status: 511, Body: `{"jobs":[],"errors":[]}`})},
	{name: "200 with half a body", happen: answers(labrun.Fault{Status: 200, Body: `{"jobs":[{"job_id":1,"job_state":["PEND`})},
	{name: "200 with a page of HTML", happen: answers(labrun.Fault{Status: 200, Body: "<html><body>Please log in</body></html>"})},
	{name: "200 with an empty object", happen: answers(labrun.Fault{Status: 200, Body: "{}"})},
	{name: "updates vetoed", happen: vetoed},
	{name: "node drained", happen: node("drain")},
	{name: "node down", happen: node("down")},
	{name: "scontrol reconfigure", happen: scontrol("reconfigure")},
	{name: "kill -9, then a new daemon", happen: killed},
	{name: "kill -9, then the watchdog", happen: watchdog},
	{name: "a second daemon", happen: second},
	{name: "database locked", happen: locked},
	{name: "disk full", prepare: smallDisk, happen: full},
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func verb(name string) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		_, err := w.lab.Verb(ctx, name)
		return err
	}
}

func around(begin, end string) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		_, err := w.lab.Verb(ctx, begin)
		if err == nil {
			err = sleep(ctx, lasts)
		}
		_, again := w.lab.Verb(context.WithoutCancel(ctx), end)
		return errors.Join(err, again)
	}
}

// answers gives every request the same fault for a while.
func answers(f labrun.Fault) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		w.proxy.Inject(func(*http.Request) labrun.Fault { return f })
		defer w.proxy.Inject(nil)
		return sleep(ctx, lasts+2*f.Delay)
	}
}

// vetoed refuses each update, as a job_submit plugin does, and has the job lose
// its list so that an update is wanted.
func vetoed(ctx context.Context, w *world) error {
	w.proxy.Inject(func(r *http.Request) labrun.Fault {
		if r.Method == http.MethodPost {
			return labrun.Fault{Status: 500, Body: `{"errors":[{"description":"job_submit says no","error_number":2018}]}`}
		}
		return labrun.Fault{}
	})
	defer w.proxy.Inject(nil)
	if _, err := w.lab.Exec(ctx, "scontrol", "update", "jobid="+w.job, "excnodelist="+excludes); err != nil {
		return err
	}
	return sleep(ctx, lasts)
}

func node(state string) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		// Not one of a filler that would be killed: "down" takes its jobs along.
		name := w.lab.NodeNames()[6]
		args := []string{"update", "nodename=" + name, "state=" + state, "reason=chaos"}
		if state == "down" {
			args[2] = "state=fail" // unusable for new jobs, without ending those that run
		}
		_, err := w.lab.Exec(ctx, append([]string{"scontrol"}, args...)...)
		if err == nil {
			err = sleep(ctx, lasts)
		}
		_, again := w.lab.Exec(context.WithoutCancel(ctx), "scontrol", "update", "nodename="+name, "state=resume")
		return errors.Join(err, again)
	}
}

func scontrol(args ...string) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		_, err := w.lab.Exec(ctx, append([]string{"scontrol"}, args...)...)
		return err
	}
}

func killed(ctx context.Context, w *world) error {
	w.daemon.Kill9()
	return w.daemon.Start(ctx)
}

// watchdog leaves the job to what the timer calls: here the daemon has been
// silent for longer than the time to live of a minute.
func watchdog(ctx context.Context, w *world) error {
	w.daemon.Kill9()
	if err := sleep(ctx, 62*time.Second); err != nil {
		return err
	}
	_, err := w.daemon.Rifling(ctx, "release", "--stale")
	return err
}

func second(ctx context.Context, w *world) error {
	d, err := w.lab.PrepareDaemon(labrun.DaemonOptions{Mode: "steer", URL: w.proxy.URL, Database: w.daemon.Database})
	if err != nil {
		return err
	}
	defer func() { _ = d.Remove() }() // its folder is in the lab's
	if err := d.Start(ctx); err == nil {
		d.Kill9()
		return errors.New("a second daemon started on the same database")
	}
	return nil
}

func locked(ctx context.Context, w *world) error {
	db, err := sql.Open("sqlite3", "file:"+w.daemon.Database+"?_txlock=exclusive")
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	return errors.Join(sleep(ctx, 2*lasts), tx.Rollback())
}

// smallDisk puts the database on a disk of 4 MB.
func smallDisk(_ context.Context, w *world, o *labrun.DaemonOptions) error {
	dir, err := os.MkdirTemp("", "chaos-disk-")
	if err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=0700"); err != nil {
		return errors.Join(fmt.Errorf("mount a small disk: %w", err), os.Remove(dir))
	}
	w.undo = append(w.undo, func() error {
		w.daemon.Kill9()
		return errors.Join(syscall.Unmount(dir, 0), os.Remove(dir))
	})
	o.Database = filepath.Join(dir, "rifling.db")
	return nil
}

func full(ctx context.Context, w *world) error {
	name := filepath.Join(filepath.Dir(w.daemon.Database), "filler")
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return errors.Join(err, f.Close())
	}
	return errors.Join(f.Close(), sleep(ctx, lasts), os.Remove(name))
}

var good = regexp.MustCompile(`rifling_cycles_total\{result="ok"\} (\d+)`)

// recovery is how long after the fault cycles ran again: 0 when there is no
// daemon any more, which is how some faults are meant.
func (w *world) recovery(ctx context.Context, since time.Time) time.Duration {
	if !w.daemon.Running() {
		return 0
	}
	count := func() string {
		page, err := w.daemon.Get(ctx, "/metrics")
		if m := good.FindStringSubmatch(page); err == nil && m != nil {
			return m[1]
		}
		return ""
	}
	was := count()
	for time.Since(since) < 2*time.Minute && ctx.Err() == nil {
		if now := count(); now != was && strings.TrimSpace(now) != "" {
			return time.Since(since)
		}
		if sleep(ctx, 100*time.Millisecond) != nil {
			break
		}
	}
	return -1
}
