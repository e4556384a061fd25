// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rifling/collector"
	"rifling/slurm"
	"rifling/slurm/slurmtest"
)

// Daemon is a riflingd beside a slurmrestd that shows a scene.
type Daemon struct {
	URL string // of the status page, without a slash at the end
	DB  string
	Log string // file

	Server *slurmtest.Server
	cmd    *exec.Cmd
	done   chan error
	close  []func()
	secret string
}

// Options say how the daemon runs.
type Options struct {
	Bin    string // riflingd
	Dir    string // for its files
	DB     string // empty: a new one
	Mode   string
	Config string // further lines of YAML, with no key that is here
	Listen string // further keys of listen, as "page: on, base-path: /x"
}

// Build builds riflingd from this source into dir and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	bin := filepath.Join(dir, "riflingd")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", bin, "rifling/cmd/riflingd")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build riflingd: %w\n%s", err, out.String())
	}
	return bin, nil
}

// stand is what slurmtest.NewServer needs of a test.
type stand struct {
	testing.TB
	cleanup []func()
}

// Helper has no lines of a test to hide.
func (s *stand) Helper() {}

// Cleanup keeps what is to be called when the scene is taken down.
func (s *stand) Cleanup(f func()) { s.cleanup = append(s.cleanup, f) }

// Start starts the daemon and waits until its first cycle has been shown. The
// server's clock goes with the host's.
func Start(ctx context.Context, snap *slurm.Snapshot, o Options) (*Daemon, error) {
	d, err := Prepare(snap, o)
	if err != nil {
		return nil, err
	}
	if err := d.Launch(ctx, o); err != nil {
		d.Close()
		return nil, err
	}
	if err := d.Wait(ctx, "/", "GPUs in use"); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Prepare starts the slurmrestd and writes the configuration.
func Prepare(snap *slurm.Snapshot, o Options) (*Daemon, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	_ = l.Close() // the daemon takes the port
	d := &Daemon{URL: "http://" + address, DB: o.DB, Log: filepath.Join(o.Dir, "riflingd.log"), secret: "word"}
	if d.DB == "" {
		d.DB = filepath.Join(o.Dir, "rifling.db")
	}
	s := &stand{}
	d.Server = slurmtest.NewServer(s, snap)
	d.close = append(d.close, s.cleanup...)
	stop := make(chan struct{})
	d.close = append(d.close, func() { close(stop) })
	go d.clock(snap.TakenAt, stop)
	mode := o.Mode
	if mode == "" {
		mode = "steer"
	}
	listen := fmt.Sprintf("address: %q, secret-file: %q", address, filepath.Join(o.Dir, "secret"))
	if o.Listen != "" {
		listen += ", " + o.Listen
	}
	topology := filepath.Join(o.Dir, "topology.conf")
	conf := fmt.Sprintf("slurm: {url: %q, topology-file: %q}\ndatabase: %q\nmode: %s\nlisten: {%s}\n%s\n", d.Server.URL, topology, d.DB, mode, listen, o.Config)
	return d, errors.Join(
		os.WriteFile(filepath.Join(o.Dir, "rifling.yaml"), []byte(conf), 0o600),
		os.WriteFile(topology, []byte(leaves(snap)), 0o600),
		os.WriteFile(filepath.Join(o.Dir, "secret"), []byte(d.secret+"\n"), 0o600))
}

// leaves is the scene's topology.conf.
func leaves(s *slurm.Snapshot) string {
	under := map[string][]string{}
	for i := range s.Nodes {
		under[s.Nodes[i].Leaf] = append(under[s.Nodes[i].Leaf], s.Nodes[i].Name)
	}
	var b strings.Builder
	for _, leaf := range slices.Sorted(maps.Keys(under)) {
		fmt.Fprintf(&b, "SwitchName=%s Nodes=%s\n", leaf, slurm.CompressHosts(under[leaf]))
	}
	fmt.Fprintf(&b, "SwitchName=top Switches=%s\n", slurm.CompressHosts(slices.Sorted(maps.Keys(under))))
	return b.String()
}

// clock makes Slurm's clock go.
func (d *Daemon) clock(begin time.Time, stop chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	at := begin
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			if now := time.Now().Truncate(time.Second); now.After(at) {
				d.Server.Advance(now.Sub(at))
				at = now
			}
		}
	}
}

// Launch starts the program.
func (d *Daemon) Launch(ctx context.Context, o Options) error {
	log, err := os.Create(d.Log)
	if err != nil {
		return err
	}
	defer log.Close()
	d.cmd = exec.CommandContext(ctx, o.Bin, "--config", filepath.Join(o.Dir, "rifling.yaml"))
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.Cancel = func() error { return d.cmd.Process.Signal(os.Interrupt) }
	d.cmd.WaitDelay = 20 * time.Second
	if err := d.cmd.Start(); err != nil {
		return err
	}
	d.done = make(chan error, 1)
	go func() { d.done <- d.cmd.Wait() }()
	return nil
}

// Wait waits until a path of the daemon answers with a text in it.
func (d *Daemon) Wait(ctx context.Context, path, text string) error {
	last := ""
	for {
		body, err := d.Get(ctx, path)
		if err == nil && strings.Contains(body, text) {
			return nil
		}
		if err != nil {
			last = err.Error()
		}
		select {
		case err := <-d.done:
			d.done <- err
			log, _ := os.ReadFile(d.Log) // empty when there is none
			return fmt.Errorf("riflingd ended (%w) and logged: %s", cmp.Or(err, errors.New("without an error")), log)
		case <-ctx.Done():
			return fmt.Errorf("%s does not show %q: %w (%s)", path, text, ctx.Err(), last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Get reads a path of the daemon.
func (d *Daemon) Get(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", path, resp.Status)
	}
	return string(b), err
}

// Count sends counters of the running jobs as collectors would have for a few
// minutes up to now: what a job is like hangs on its name.
func (d *Daemon) Count(ctx context.Context, snap *slurm.Snapshot, readings int) error {
	p := &collector.Pusher{
		URL: d.URL, Secret: func() (string, error) { return d.secret, nil }, Client: &http.Client{Timeout: 30 * time.Second}, Queue: 1 << 20,
	}
	const every = 15 * time.Second
	rng := rand.New(rand.NewPCG(1, 7))
	seqs := map[string]uint64{}
	now := time.Now()
	boot := fmt.Sprintf("scene-%d", now.UnixNano())
	for k := range readings {
		at := now.Add(-every * time.Duration(readings-1-k))
		var batch []collector.Sample
		for i := range snap.Jobs {
			j := &snap.Jobs[i]
			if !j.Running() {
				continue
			}
			for node, gpus := range j.NodeGPUs {
				seqs[node]++
				batch = append(batch, reading(j, node, gpus, boot, seqs[node], at, every, rng))
			}
		}
		for len(batch) > 0 {
			n := min(len(batch), 2000)
			if err := p.Send(ctx, batch[:n]); err != nil {
				return err
			}
			batch = batch[n:]
		}
	}
	return nil
}

func reading(j *slurm.Job, node string, gpus int, boot string, seq uint64, at time.Time, every time.Duration, rng *rand.Rand) collector.Sample {
	h := fnv.New32a()
	_, _ = h.Write([]byte(j.Name)) // never fails
	kind := []float64{0.9, 0.35, 0.07}[h.Sum32()%3]
	noise := 0.95 + 0.1*rng.Float64()
	s := collector.Sample{
		Node: node, Boot: boot, Seq: seq, JobID: j.ID, At: at, Interval: every, GPUs: gpus,
		Compute: min(1, (0.45+0.4*(1-kind))*noise), Source: collector.SourceGPM, Model: "NVIDIA H100 80GB HBM3",
		NVLinkSpeed: 450e9 * float64(gpus), PCIeSpeed: 63e9 * float64(gpus), NetSpeed: 50e9,
	}
	switch {
	case len(j.Nodes) > 1:
		s.NetRate = kind * 4e9 * float64(gpus) * noise
	case gpus > 1:
		s.NVLinkRate = kind * 4e9 * float64(gpus) * noise
	}
	return s
}

// Stop ends the daemon as systemd does.
func (d *Daemon) Stop() error {
	if d.cmd == nil || d.cmd.Process == nil {
		return nil
	}
	_ = d.cmd.Process.Signal(os.Interrupt) // it may have ended
	select {
	case err := <-d.done:
		return err
	case <-time.After(20 * time.Second):
		_ = d.cmd.Process.Kill() // it may have ended
		return errors.New("riflingd did not stop within 20 s")
	}
}

// Close stops the daemon and what is around it.
func (d *Daemon) Close() {
	if d.cmd != nil {
		_ = d.Stop() // the caller looks at something else
	}
	for _, f := range d.close {
		f()
	}
}
