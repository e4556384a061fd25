// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"rifling/slurm/slurmtest"
)

// realDaemon is a riflingd, built from this source, in a process of its own
// beside a slurmrestd that behaves like one.
type realDaemon struct {
	dir, bin, address, db, conf string
	cmd                         *exec.Cmd
	close                       func()
}

// stand is what slurmtest.NewServer needs of a test.
type stand struct {
	testing.TB
	cleanup []func()
}

func (s *stand) Helper()          {}
func (s *stand) Cleanup(f func()) { s.cleanup = append(s.cleanup, f) }

// newRealDaemon builds the program and a cluster of running jobs for it.
func newRealDaemon(ctx context.Context, nodes int) (*realDaemon, error) {
	dir, err := os.MkdirTemp("", "rifling-ingest-")
	if err != nil {
		return nil, err
	}
	d := &realDaemon{dir: dir, bin: filepath.Join(dir, "riflingd"), db: filepath.Join(dir, "rifling.db"), conf: filepath.Join(dir, "rifling.yaml")}
	build := exec.CommandContext(ctx, "go", "build", "-o", d.bin, "./cmd/riflingd")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, errors.Join(fmt.Errorf("build riflingd: %w", err), os.RemoveAll(dir))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	d.address = l.Addr().String()
	_ = l.Close() // the daemon takes the port

	now := time.Now().UTC().Truncate(time.Second)
	b := slurmtest.Snapshot().At(now).Nodes(fmt.Sprintf("gpu[0001-%04d]", nodes), 8)
	for n := range nodes {
		for k := range jobsOfNode {
			b.Jobs(slurmtest.Job(ingestJob(n, k)).GPUsPerNode(8 / jobsOfNode).Running(ingestNode(n)).Started(now.Add(-48 * time.Hour)))
		}
	}
	s := &stand{}
	server := slurmtest.NewServer(s, b.Obj())
	ctx, stop := context.WithCancel(ctx)
	go func() { // Slurm's clock
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-tick.C:
				server.Advance(time.Second)
			}
		}
	}()
	d.close = func() {
		stop()
		for _, f := range s.cleanup {
			f()
		}
		_ = os.RemoveAll(dir) // in the system's folder for such
	}
	conf := fmt.Sprintf("slurm: {url: %q}\ndatabase: %s\ninterval: 5s\nlisten: {address: %q, secret-file: %s/secret}\nlog: {level: error}\n",
		server.URL, d.db, d.address, dir)
	err = errors.Join(os.WriteFile(d.conf, []byte(conf), 0o600), os.WriteFile(filepath.Join(dir, "secret"), []byte("word\n"), 0o600))
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *realDaemon) start(ctx context.Context) error {
	d.cmd = exec.CommandContext(ctx, d.bin, "--config", d.conf)
	d.cmd.Stderr = os.Stderr
	if err := d.cmd.Start(); err != nil {
		return err
	}
	for range 500 {
		if resp, err := http.Get("http://" + d.address + "/healthz"); err == nil { //nolint:noctx // a local one, in a loop with an end
			return resp.Body.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.New("riflingd does not answer")
}

// kill ends the daemon as a crash does.
func (d *realDaemon) kill() {
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait() // it was killed
}

// stop ends the daemon as systemd does.
func (d *realDaemon) stop() error {
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	return d.cmd.Wait()
}

// cpu returns the processor time that the daemon has used, and rss the most
// memory that it had.
func (d *realDaemon) cpu() (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(after)
	if len(f) < 13 {
		return 0, fmt.Errorf("odd /proc/PID/stat %q", b)
	}
	var ticks int64 // of 10 ms
	for _, s := range f[11:13] {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

func (d *realDaemon) rssMB() (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(b), "VmHWM:")
	f := strings.Fields(after)
	if len(f) == 0 {
		return 0, errors.New("no VmHWM in /proc/PID/status")
	}
	kb, err := strconv.ParseFloat(f[0], 64)
	return kb / 1000, err
}

// metric reads one of the daemon's own counts.
func (d *realDaemon) metric(name string) (float64, error) {
	resp, err := http.Get("http://" + d.address + "/metrics") //nolint:noctx // a local one
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(b), "\n") {
		if v, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(v, 64)
		}
	}
	return 0, fmt.Errorf("riflingd has no metric %s", name)
}

// dbMB is the size of the database when nothing is left to be merged.
func (d *realDaemon) dbMB() (float64, error) {
	st, err := os.Stat(d.db)
	if err != nil {
		return 0, err
	}
	return float64(st.Size()) / 1e6, nil
}
