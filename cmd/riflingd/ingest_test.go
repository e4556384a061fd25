// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"rifling/collector"
	"rifling/store"
)

// asDaemon makes the test binary run as riflingd with the configuration that it
// names.
const asDaemon = "RIFLINGD_TEST_AS_DAEMON"

func TestMain(m *testing.M) {
	if path := os.Getenv(asDaemon); path != "" {
		cmd := newRoot(os.Stderr)
		cmd.SetArgs([]string{"--config", path})
		if err := cmd.Execute(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// ingesting is a daemon in a process of its own that can be killed.
type ingesting struct {
	t                 *testing.T
	address, db, conf string
	cmd               *exec.Cmd
	log               io.Writer // what it says; nil: nobody listens
}

func newIngesting(t *testing.T) *ingesting {
	t.Helper()
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &ingesting{t: t, address: l.Addr().String(), db: filepath.Join(dir, "rifling.db"), conf: filepath.Join(dir, "rifling.yaml")}
	_ = l.Close() // the daemon takes the port
	for name, text := range map[string]string{
		filepath.Join(dir, "secret"): "word\n",
		d.conf: fmt.Sprintf("slurm: {url: \"http://127.0.0.1:1\", timeout: 1s}\ndatabase: %s\nlisten: {address: %q, secret-file: %s/secret}\n",
			d.db, d.address, dir),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func (d *ingesting) start() {
	d.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		d.t.Fatal(err)
	}
	d.cmd = exec.Command(exe)
	d.cmd.Env = append(os.Environ(), asDaemon+"="+d.conf)
	d.cmd.Stderr = d.log
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	for range 200 {
		if resp, err := http.Get("http://" + d.address + "/healthz"); err == nil {
			_ = resp.Body.Close()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	d.t.Fatal("the daemon does not answer")
}

func (d *ingesting) kill() {
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait() // it was killed
}

// count returns how often each sample is in the history: they bear their number
// as a rate.
func (d *ingesting) count() map[string]int {
	d.t.Helper()
	s, err := store.OpenReadOnly(d.db)
	if err != nil {
		d.t.Fatal(err)
	}
	defer s.Close()
	got := map[string]int{}
	for mark := int64(0); ; {
		samples, next, err := s.SamplesAfter(context.Background(), mark, 10_000)
		if err != nil {
			d.t.Fatal(err)
		}
		for _, p := range samples {
			got[fmt.Sprintf("%s/%d/%.0f", p.Node, p.JobID, p.NetRate)]++
		}
		if mark = next; len(samples) < 10_000 {
			return got
		}
	}
}

func (d *ingesting) pusher() *collector.Pusher {
	return &collector.Pusher{
		URL: "http://" + d.address, Client: &http.Client{Timeout: 5 * time.Second},
		Secret: func() (string, error) { return "word", nil },
	}
}

// The daemon is killed while collectors send, again and again: what it
// acknowledged is there, and there once, whatever was sent twice.
func TestKilledDaemonLosesAndDoublesNothing(t *testing.T) {
	const nodes, rounds = 8, 4
	d := newIngesting(t)
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	sent := make([]uint64, nodes)
	for n := range nodes {
		clients.Go(func() {
			p := d.pusher()
			for ctx.Err() == nil {
				sent[n]++
				p.Add([]collector.Sample{{
					Node: fmt.Sprintf("gpu%d", n), Boot: "b", Seq: sent[n], JobID: 5, At: time.Now(), Interval: time.Second,
					GPUs: 1, Source: collector.SourceGPM, NetRate: float64(sent[n]), NetSpeed: 1e9,
				}})
				_ = p.Flush(ctx) // what could not be sent waits for the next
				time.Sleep(2 * time.Millisecond)
			}
			for range 200 {
				if p.Flush(t.Context()) == nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
			t.Error("the daemon does not take the last samples")
		})
	}
	for range rounds {
		d.start()
		time.Sleep(time.Duration(200+rand.IntN(400)) * time.Millisecond)
		d.kill()
	}
	d.start()
	cancel()
	clients.Wait()
	d.kill()

	got := d.count()
	total, lost, doubled := 0, 0, 0
	for n := range nodes {
		for seq := uint64(1); seq <= sent[n]; seq++ {
			total++
			switch got[fmt.Sprintf("gpu%d/5/%d", n, seq)] {
			case 0:
				lost++
			case 1:
			default:
				doubled++
			}
		}
	}
	if total < 100 || lost > 0 || doubled > 0 || len(got) != total {
		t.Errorf("of %d samples %d are lost and %d doubled; %d are in the history", total, lost, doubled, len(got))
	}
}

// A batch that was captured and comes again, to this daemon or its successor,
// counts once.
func TestReplayedBatchCountsOnce(t *testing.T) {
	d := newIngesting(t)
	s := collector.Sample{Node: "gpu1", Boot: "b", Seq: 9, JobID: 5, At: time.Now(), Interval: time.Second,
		GPUs: 1, Source: collector.SourceGPM, NetRate: 9, NetSpeed: 1e9}
	for range 2 {
		d.start()
		for range 2 {
			if err := d.pusher().Send(t.Context(), []collector.Sample{s}); err != nil {
				t.Fatal(err)
			}
		}
		d.kill()
	}
	if got := d.count(); len(got) != 1 || got["gpu1/5/9"] != 1 {
		t.Errorf("the history has %v", got)
	}
}

// mended is a keeper whose store can be replaced.
type mended struct{ keeper }

// A disk that fails refuses samples with a word when to come again; nothing of
// them counts as taken.
func TestStoreThatFailsLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rifling.db")
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var failed []error
	k := &mended{keeper{s}}
	r := collector.NewReceiver(collector.ReceiverOptions{
		Secret: func() (string, error) { return "word", nil }, Now: time.Now, Keeper: k, Window: -1,
		Failed: func(err error) { failed = append(failed, err) },
	})
	sample := collector.Sample{Node: "gpu1", Boot: "b", Seq: 1, JobID: 5, At: time.Now(), Interval: time.Second,
		GPUs: 1, Source: collector.SourceGPM}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if taken, err := r.Add([]collector.Sample{sample}, 0); err == nil || taken.Accepted != 0 || len(failed) != 1 {
		t.Errorf("took %+v, %v, reported %v", taken, err, failed)
	}
	if k.store, err = store.Open(path, store.Options{}); err != nil {
		t.Fatal(err)
	}
	defer k.store.Close()
	if taken, err := r.Add([]collector.Sample{sample}, 0); err != nil || taken.Accepted != 1 {
		t.Errorf("after the disk was mended: took %+v, %v", taken, err)
	}
}
