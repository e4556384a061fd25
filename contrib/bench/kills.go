// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
	"rifling/store"
)

// killsChild names the database that a child process writes to until it is
// killed.
const killsChild = "RIFLING_BENCH_KILLS_DATABASE"

// killsJobs is over how many jobs the child's records go round.
const killsJobs = 500

// benchKills kills a process that writes to the history, at random moments, and
// looks at what is left: the file opens, passes SQLite's integrity check, and
// holds each record that was acknowledged. KILLS says how often; 300 without.
func benchKills(ctx context.Context, out io.Writer) error {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("KILLS"), "300"))
	if err != nil || n < 1 {
		return fmt.Errorf("KILLS=%s is no number of kills", os.Getenv("KILLS"))
	}
	dir, err := os.MkdirTemp("", "rifling-kills-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // in the system's folder for such
	k := &killing{db: filepath.Join(dir, "rifling.db"), rand: rand.New(rand.NewPCG(1, 5))}
	for i := range n {
		if err := k.once(ctx); err != nil {
			return fmt.Errorf("kill %d: %w", i+1, err)
		}
		if err := k.look(ctx, i%50 == 49 || i == n-1); err != nil {
			return fmt.Errorf("after kill %d: %w", i+1, err)
		}
	}
	info, err := os.Stat(k.db)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d kills, %d of them within a write; %d records acknowledged, %d lost; %d quick checks and %d whole checks passed, %d failed; %.1f MB\n",
		n, k.within, k.acknowledged, k.lost, k.quick, k.whole, k.failed, float64(info.Size())/1e6)
	verdict := "ok"
	if k.lost+k.failed > 0 {
		verdict = "short"
	}
	fmt.Fprintf(out, "bar: kills value=%d target=0 %s\n", k.lost+k.failed, verdict)
	return nil
}

// killing is the parent's side.
type killing struct {
	db   string
	rand *rand.Rand

	last                 int64 // cycle that was acknowledged last
	acknowledged, within int
	lost, failed         int
	quick, whole         int
}

// once lets a child write for a while, and kills it.
func (k *killing) once(ctx context.Context) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), killsChild+"="+k.db)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	// One in ten dies while it opens the file, the others while they write.
	kill := func() {
		time.AfterFunc(time.Duration(k.rand.IntN(80_000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
	}
	early := k.rand.IntN(10) == 0
	if early {
		kill()
	}
	within := true
	lines := bufio.NewScanner(pipe)
	for first := true; lines.Scan(); first = false {
		if first && !early {
			kill()
		}
		word, id, _ := strings.Cut(lines.Text(), " ")
		if within = word == "begin"; within {
			continue
		}
		if k.last, err = strconv.ParseInt(id, 10, 64); err != nil {
			return err
		}
		k.acknowledged++
	}
	if within {
		k.within++
	}
	_ = cmd.Wait() // it was killed
	return ctx.Err()
}

// look checks the file and the record that was acknowledged last; those before
// it are in earlier transactions of the same file.
func (k *killing) look(ctx context.Context, whole bool) error {
	db, err := sql.Open("sqlite3", "file:"+k.db)
	if err != nil {
		return err
	}
	defer db.Close()
	pragma := "PRAGMA quick_check"
	if k.quick++; whole {
		pragma = "PRAGMA integrity_check"
		k.quick--
		k.whole++
	}
	var verdict string
	if err := db.QueryRowContext(ctx, pragma).Scan(&verdict); err != nil || verdict != "ok" {
		fmt.Fprintf(os.Stderr, "%s: %s %v\n", pragma, verdict, err)
		k.failed++
	}
	if k.last == 0 {
		return nil // killed before its first word
	}
	st, err := store.Open(k.db, store.Options{})
	if err != nil {
		k.failed++
		return err
	}
	defer st.Close()
	var n int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM cycles WHERE id <= ? AND ended_at > 0`, k.last).Scan(&n); err != nil {
		return err
	}
	var open int // cycles that a kill left without an end: never acknowledged
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM cycles WHERE id <= ? AND ended_at = 0`, k.last).Scan(&open); err != nil {
		return err
	}
	if n < k.acknowledged {
		k.lost = max(k.lost, k.acknowledged-n)
		fmt.Fprintf(os.Stderr, "%d ended cycles up to %d, %d were acknowledged (%d open)\n", n, k.last, k.acknowledged, open)
	}
	owners, err := st.Owners(ctx)
	if err != nil {
		return err
	}
	job := killsJob(k.last)
	for _, o := range owners {
		if o.JobID == job {
			return nil
		}
	}
	k.lost++
	return nil
}

func killsJob(cycle int64) slurm.JobID { return slurm.JobID(1 + cycle%killsJobs) }

// killsWrite is the child: it writes cycles as the daemon does, and says so once
// each is kept.
func killsWrite(path string) error {
	ctx := context.Background()
	st, err := store.Open(path, store.Options{})
	if err != nil {
		return err
	}
	defer st.Close()
	last, err := st.LastCycle(ctx)
	if err != nil {
		return err
	}
	next := int64(1)
	if last != nil {
		next = last.ID + 1
	}
	for ; ; next++ {
		at := time.Unix(1_800_000_000+next, 0)
		id := killsJob(next)
		nodes := []string{"gpu01"}
		c := policy.Change{
			Kind: policy.KindSet, Update: slurm.Update{JobID: id, ExcludedNodes: &nodes}, Why: "bench",
			Owner: policy.Owner{JobID: id, SetExclude: nodes, SetAt: at, ExpiresAt: at.Add(time.Hour)},
		}
		fmt.Println("begin", next)
		got, err := st.Begin(ctx, policy.Record{
			At: at, Mode: "steer", Plan: policy.Plan{Policy: "bench", At: at}, Changes: []policy.Change{c},
			Jobs:     []slurm.Job{{ID: id, Name: "bench", User: "alice", State: slurm.State{Base: "PENDING"}, SubmitTime: at}},
			Profiles: map[slurm.JobID]profile.Profile{},
		})
		if err != nil {
			return err
		}
		if err := st.End(ctx, got, []policy.Result{{Change: c, Outcome: policy.Applied}}, time.Millisecond); err != nil {
			return err
		}
		if err := st.SaveState(ctx, "bench", []byte(strconv.FormatInt(next, 10))); err != nil {
			return err
		}
		fmt.Println("kept", got)
	}
}
