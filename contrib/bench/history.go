// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"rifling/slurm"
	"rifling/slurm/rest"
	"rifling/slurm/sacct"
	"rifling/slurm/slurmtest"
	"rifling/store"
)

const (
	historyRuns   = 1_000_000
	historyRate   = 20_000 // rows a second to reach
	historyMemory = 200e6  // bytes of the importing process to stay below
	historyKills  = 6
	historySeed   = 3
	historyJSON   = 40_000 // runs read by way of slurmrestd
)

// history imports a generated year of accounting with the program that a site
// uses. A stand-in for the command sacct, this very binary under that name,
// writes what the year has of the range that it is asked for.
func history(ctx context.Context, out io.Writer) error {
	b, err := newHistoryBench(ctx, out)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(b.dir) }()
	truth := newTally()
	for i := range historyRuns {
		j := pastRun(i)
		truth.add(&j)
	}
	fmt.Fprintf(out, "%d runs of a year, seed %d, every %dth row followed by an odd one (%d kinds)\n", truth.n, historySeed, oddEvery, len(oddKinds()))
	if err := b.whole(ctx, truth); err != nil {
		return err
	}
	if err := b.killed(ctx); err != nil {
		return err
	}
	return b.byREST(ctx)
}

type historyBench struct {
	out                  io.Writer
	dir, rifling, config string
	rate                 float64 // of the first import, runs a second
}

func newHistoryBench(ctx context.Context, out io.Writer) (*historyBench, error) {
	dir, err := os.MkdirTemp("", "rifling-history-")
	if err != nil {
		return nil, err
	}
	b := &historyBench{out: out, dir: dir, rifling: filepath.Join(dir, "rifling"), config: filepath.Join(dir, "rifling.yaml")}
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, "sacct"))
	}
	if err == nil {
		err = os.WriteFile(b.config, []byte("slurm:\n  topology-file: \"\"\n"), 0o600)
	}
	if err == nil {
		build := exec.CommandContext(ctx, "go", "build", "-o", b.rifling, "./cmd/rifling")
		build.Stderr = os.Stderr
		err = build.Run()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return b, nil
}

func (b *historyBench) database(name string) string { return filepath.Join(b.dir, name+".db") }

// start starts `rifling history import`, in a group of its own so that it can
// be killed with its sacct.
func (b *historyBench) start(ctx context.Context, db, since, until string, more ...string) (*exec.Cmd, *bytes.Buffer, error) {
	args := append([]string{
		"--config", b.config, "--database", b.database(db), "history", "import",
		"--from", "sacct", "--since", since, "--until", until,
	}, more...)
	cmd := exec.CommandContext(ctx, b.rifling, args...) //nolint:gosec // built a moment ago
	cmd.Env = append(os.Environ(), "PATH="+b.dir+":"+os.Getenv("PATH"), "TZ=UTC")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = said, said
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd, said, cmd.Start()
}

// whole imports the year at once: rate, memory, size.
func (b *historyBench) whole(ctx context.Context, truth tally) error {
	begun := time.Now()
	cmd, said, err := b.start(ctx, "whole", "2025-01-01", "2026-02-01")
	if err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("import: %w: %s", err, said)
	}
	took := time.Since(begun)
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return errors.New("the kernel tells no memory of a process")
	}
	fmt.Fprint(b.out, said)
	stored, err := b.tally(ctx, "whole")
	if err != nil {
		return err
	}
	size, err := os.Stat(b.database("whole"))
	if err != nil {
		return err
	}
	rate, memory := float64(truth.n)/took.Seconds(), float64(usage.Maxrss)*1024
	b.rate = rate
	fmt.Fprintf(b.out, "%d runs in %.1f s (user %.1f s, system %.1f s), peak memory %.0f MB, %.0f bytes a run on disk\n", truth.n, took.Seconds(),
		cmd.ProcessState.UserTime().Seconds(), cmd.ProcessState.SystemTime().Seconds(), memory/1e6, float64(size.Size())/float64(truth.n))
	fmt.Fprintf(b.out, "stored %d, checksum %016x; generated %d, checksum %016x\n", stored.n, stored.sum, truth.n, truth.sum)
	historyBar(b.out, "history-rate", rate, historyRate, rate >= historyRate)
	historyBar(b.out, "history-memory-mb", memory/1e6, historyMemory/1e6, memory < historyMemory)
	historyBar(b.out, "history-complete", float64(stored.n), float64(truth.n), stored == truth)
	return nil
}

// killed imports a quarter of a year and kills the program at random moments;
// then it imports the same again.
func (b *historyBench) killed(ctx context.Context) error {
	const since, until = "2025-03-01", "2025-06-01"
	from, to := time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC), time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)
	truth := newTally()
	for i := range historyRuns {
		if j := pastRun(i); inWindow(&j, from, to) {
			truth.add(&j)
		}
	}
	rng := rand.New(rand.NewPCG(historySeed, 9))
	whole := float64(truth.n) / b.rate // seconds, as far as the first import tells
	deaths := 0
	for range historyKills {
		cmd, said, err := b.start(ctx, "killed", since, until)
		if err != nil {
			return err
		}
		wait := time.Duration((0.02 + 0.25*rng.Float64()) * whole * float64(time.Second))
		timer := time.AfterFunc(wait, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) //nolint:errcheck // it may have ended
		err = cmd.Wait()
		timer.Stop()
		if err == nil {
			break
		}
		if cmd.ProcessState.Exited() {
			return fmt.Errorf("import: %w: %s", err, said)
		}
		deaths++
		part, err := b.tally(ctx, "killed")
		if err != nil && !errors.Is(err, store.ErrMissing) && !errors.Is(err, store.ErrOlder) { // killed while it made the file
			return err
		}
		fmt.Fprintf(b.out, "killed after %.1f s: %d of %d runs are stored\n", wait.Seconds(), part.n, truth.n)
	}
	last := ""
	for _, more := range [][]string{nil, {"--again"}} {
		cmd, said, err := b.start(ctx, "killed", since, until, more...)
		if err != nil {
			return err
		}
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("import: %w: %s", err, said)
		}
		last, _, _ = strings.Cut(said.String(), "\n")
		fmt.Fprintf(b.out, "%s %s\n", strings.Join(append([]string{"import"}, more...), " "), last)
	}
	stored, err := b.tally(ctx, "killed")
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "after %d kills: stored %d, checksum %016x; generated %d, checksum %016x\n", deaths, stored.n, stored.sum, truth.n, truth.sum)
	historyBar(b.out, "history-killed", float64(stored.n), float64(truth.n), stored == truth && deaths > 0)
	unchanged := strings.Contains(last, ": 0 new, 0 changed,")
	historyBar(b.out, "history-repeated", boolean(unchanged), 1, unchanged)
	return nil
}

// byREST reads the first runs of the year as slurmrestd would give them.
func (b *historyBench) byREST(ctx context.Context) error {
	srv := httptest.NewServer(http.HandlerFunc(serveHistory))
	defer srv.Close()
	client, err := rest.New(rest.Options{URL: srv.URL, Timeout: 5 * time.Minute})
	if err != nil {
		return err
	}
	defer client.Close()
	s, err := store.Open(b.database("rest"), store.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	last := pastRun(historyJSON - 1)
	im := sacct.Import{Source: client, Keeper: s.PastWriter(), From: yearBegin, To: last.Submit, Rows: 5000, Now: time.Now}
	begun := time.Now()
	sum, err := im.Run(ctx)
	if err != nil {
		return err
	}
	took := time.Since(begun)
	fmt.Fprintf(b.out, "by slurmrestd's JSON: %d runs in %.1f s, %.0f a second, writing the JSON included; %.1f KB of it a run\n",
		sum.New, took.Seconds(), float64(sum.Rows)/took.Seconds(), float64(client.Stats().BytesIn)/float64(sum.Rows)/1e3)
	if sum.New < historyJSON/2 || len(sum.Odd) > 0 {
		return fmt.Errorf("by slurmrestd: %+v", sum)
	}
	return nil
}

func serveHistory(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case !strings.Contains(r.URL.Path, "/v0.0.42/"):
		http.Error(w, "Unable to find requested URL", http.StatusNotFound)
	case strings.HasSuffix(r.URL.Path, "/ping"):
		fmt.Fprint(w, `{"meta":{"slurm":{"version":{"major":"24","micro":"5","minor":"11"}}},"errors":[]}`)
	case strings.Contains(r.URL.Path, "/tres"):
		fmt.Fprint(w, `{"TRES":[],"errors":[]}`)
	default:
		from, _ := strconv.ParseInt(strings.TrimPrefix(r.URL.Query().Get("start_time"), "uts"), 10, 64)
		to, _ := strconv.ParseInt(strings.TrimPrefix(r.URL.Query().Get("end_time"), "uts"), 10, 64)
		fmt.Fprint(w, `{"jobs":[`)
		comma, buf := "", []byte(nil)
		window(time.Unix(from, 0), time.Unix(to, 0), func(_ int, j *slurm.PastJob) {
			buf = slurmtest.AppendPastJSON(append(buf[:0], comma...), j)
			w.Write(buf)
			comma = ","
		})
		fmt.Fprint(w, `],"meta":{},"errors":[],"warnings":[]}`)
	}
}

// tally is a count and a sum over runs that knows no order.
type tally struct {
	n   int
	sum uint64
}

func newTally() tally { return tally{} }

func (t *tally) add(j *slurm.PastJob) {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %d %d %d %d %s %d %s %s %v %d %d %q %d %d", j.ID, j.Submit.Unix(), j.Start.Unix(), j.End.Unix(), j.Elapsed,
		j.State.Base, j.GPUs, j.GPUType, j.User, j.Nodes, j.TimeLimit, j.ExitCode, j.Name, j.ArrayTaskID, j.CPUs)
	t.n++
	t.sum += h.Sum64()
}

func (b *historyBench) tally(ctx context.Context, db string) (tally, error) {
	s, err := store.OpenReadOnly(b.database(db))
	if err != nil {
		return tally{}, err
	}
	defer s.Close()
	t := newTally()
	err = s.EachPast(ctx, time.Time{}, time.Time{}, func(j *slurm.PastJob) error { t.add(j); return nil })
	return t, err
}

func historyBar(out io.Writer, name string, value, target float64, ok bool) {
	word := "short"
	if ok {
		word = "ok"
	}
	fmt.Fprintf(out, "bar: %s value=%.0f target=%.0f %s\n", name, value, target, word)
}

func boolean(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}

// historySacct is the stand-in for sacct.
func historySacct(args []string) int {
	out := bufio.NewWriterSize(os.Stdout, 256<<10)
	defer func() { _ = out.Flush() }() // whoever reads has gone
	var from, to int64
	delimiter := "|"
	for _, a := range args {
		key, value, _ := strings.Cut(a, "=")
		switch key {
		case "--helpformat":
			fmt.Fprintln(out, strings.ReplaceAll(slurmtest.SacctColumns, ",", " "))
			return 0
		case "--delimiter":
			delimiter = value
		case "--starttime":
			from, _ = strconv.ParseInt(strings.TrimPrefix(value, "uts"), 10, 64)
		case "--endtime":
			to, _ = strconv.ParseInt(strings.TrimPrefix(value, "uts"), 10, 64)
		}
	}
	fmt.Fprint(out, slurmtest.SacctHeader(delimiter))
	kinds := oddKinds()
	var buf []byte
	window(time.Unix(from, 0), time.Unix(to, 0), func(i int, j *slurm.PastJob) {
		buf = slurmtest.AppendSacctRow(buf[:0], j, delimiter)
		out.Write(buf) //nolint:errcheck // the flush tells
		if i%oddEvery == 0 {
			out.WriteString(kinds[i/oddEvery%len(kinds)](string(buf), delimiter)) //nolint:errcheck // likewise
		}
	})
	return 0
}
