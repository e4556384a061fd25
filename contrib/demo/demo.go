// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rifling/contrib/labrun"
	"rifling/contrib/workload"
	"rifling/slurm"
	"rifling/store"
)

// demo is one showing.
type demo struct {
	options
	out     io.Writer
	started time.Time

	lab        *labrun.Lab
	daemon     *labrun.Daemon
	collectors *labrun.Collectors
	campaign   *labrun.Campaign
	submitted  chan error
}

// run shows the whole and cleans up whatever came up.
func (d *demo) run(ctx context.Context) (err error) {
	if err := d.preflight(); err != nil {
		return err
	}
	unlock, err := lockDemo()
	if err != nil {
		return err
	}
	defer unlock()
	defer func() { err = errors.Join(err, d.cleanUp()) }()
	for _, step := range []func(context.Context) error{
		d.bringUp, d.check, d.startRifling, d.submit, d.watch, d.explain, d.sumUp,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) preflight() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("%w: it needs Linux", labrun.ErrHost)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w for a chroot with a real Slurm in it", labrun.ErrNeedsRoot)
	}
	for _, name := range []string{"riflingd", "rifling", "rifling-collector", "emujob", "libnvidia-ml.so.1"} {
		repo, err := labrun.Repo()
		if err != nil {
			return err
		}
		if _, err := os.Stat(repo + "/bin/" + name); err != nil {
			return slurm.WithHint(fmt.Errorf("bin/%s is not built", name), "run make build first, or make demo, which does")
		}
	}
	return nil
}

// lockDemo keeps a second demo from taking down the lab of the first. The
// kernel lets go of the lock however the process ends.
func lockDemo() (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "rifling-demo.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, slurm.WithHint(errors.Join(errors.New("another demo runs on this machine"), f.Close()), "wait for its end, or stop it with Ctrl-C")
	}
	return func() { _ = f.Close() }, nil
}

// labName keeps the demo's lab apart from those that people bring up.
const labName = "demo"

func (d *demo) bringUp(ctx context.Context) error {
	d.title("A real Slurm %s with emulated GPUs: %d nodes x %d GPUs", d.release, d.nodes, d.gpus)
	log := &indent{w: d.out}
	opts := labrun.Options{Release: d.release, Nodes: d.nodes, GPUs: d.gpus, Name: labName, Log: log}
	// What an earlier showing left, when it was killed, is in the way.
	if err := labrun.Remove(ctx, labName); err != nil {
		return err
	}
	began := time.Now()
	lab, err := labrun.Start(ctx, opts)
	if err != nil {
		return err
	}
	d.lab = lab
	d.say("slurmctld, slurmdbd, slurmrestd and %d slurmds are up (%.0f s).", d.nodes, time.Since(began).Seconds())
	return lab.SetCompression(d.compression)
}

func (d *demo) check(ctx context.Context) error {
	config := labrun.Paced(float64(d.lab.Speed) / d.compression)
	config["seed"] = d.seed
	daemon, err := d.lab.PrepareDaemon(labrun.DaemonOptions{Mode: "steer", Policy: d.policy, Config: config})
	if err != nil {
		return err
	}
	d.daemon = daemon
	d.title("Can rifling work with it?")
	return d.show(ctx, "check")
}

func (d *demo) startRifling(ctx context.Context) error {
	if err := d.daemon.Start(ctx); err != nil {
		return err
	}
	collectors, err := d.lab.StartCollectors(ctx, d.daemon, nil)
	if err != nil {
		return err
	}
	d.collectors = collectors
	d.say("riflingd steers, %d collectors read the nodes' counters.", d.nodes)
	return nil
}

func (d *demo) submit(ctx context.Context) error {
	jobs, err := workload.Generate(d.seed, workload.Options{
		Jobs: d.jobs, Nodes: d.nodes, GPUsPerNode: d.gpus, Load: 1.5, MeanWork: 40 * time.Minute,
	})
	if err != nil {
		return err
	}
	d.title("Users submit training jobs with sbatch, as ever")
	d.say("%s.", workload.Describe(jobs))
	d.say("A job's hour passes in %.0f s. The first job's script:", 3600/d.compression)
	fmt.Fprintln(d.out)
	d.campaign = &labrun.Campaign{Lab: d.lab, Jobs: jobs, Compression: d.compression}
	if _, err := io.WriteString(&indent{w: d.out}, jobs[0].Script(d.campaign.Scale())); err != nil {
		return err
	}
	d.submitted = make(chan error, 1)
	go func() { d.submitted <- d.campaign.Submit(ctx) }()
	return nil
}

// watch prints progress until all jobs have ended.
func (d *demo) watch(ctx context.Context) error {
	d.title("Progress")
	begun := time.Now()
	gpus := d.nodes * d.gpus
	d.say("plan: jobs that rifling chose a place for, or to wait; set: updates that Slurm took.")
	d.say(progressHeader)
	last := ""
	for {
		p, err := d.campaign.Look(ctx)
		if err != nil {
			return err
		}
		s, err := look(ctx, d.daemon.Database)
		if err != nil {
			return err
		}
		if s.last == last {
			s.last = ""
		} else {
			last = s.last
		}
		fmt.Fprintln(d.out, progressLine(time.Since(begun), p, gpus, s))
		if d.campaign.Finished(p) {
			return nil
		}
		if err := d.pause(ctx); err != nil {
			return err
		}
	}
}

// pause waits for the next line, the daemon's death, or a failed submission.
func (d *demo) pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-d.daemon.Done():
		return fmt.Errorf("riflingd ended: %s", tail(d.daemon.Log(), 5))
	case err := <-d.submitted:
		if err != nil {
			return err
		}
		d.submitted = nil // all are submitted; a nil channel never answers again
	case <-time.After(d.every):
	}
	return nil
}

func (d *demo) explain(ctx context.Context) error {
	ids, err := interesting(ctx, d.daemon.Database)
	if err != nil {
		return err
	}
	d.title("What rifling decided, and why")
	for _, id := range ids {
		if err := d.show(ctx, "explain", fmt.Sprint(id)); err != nil {
			return err
		}
	}
	return nil
}

// sumUp shows rifling's own reports, and beside them the figures that are not
// rifling's: Slurm's accounting and what the jobs printed.
func (d *demo) sumUp(ctx context.Context) error {
	d.title("What rifling learned of the jobs")
	if err := d.show(ctx, "groups"); err != nil {
		return err
	}
	d.title("What came of it")
	if err := d.show(ctx, "report"); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	all := func([]labrun.Row) bool { return true }
	rows, err := labrun.Wait(wait, "slurmdbd to know of all jobs", d.campaign.Rows, all)
	if err != nil {
		return err
	}
	s := labrun.Summarize(rows, d.compression, float64(d.lab.Speed))
	d.title("By Slurm's accounting and the jobs' own output, in the jobs' time")
	d.say("%d jobs, %d of them not completed; makespan %s, mean completion time %s (95 %% within %s),",
		s.Jobs, s.Killed, labrun.Duration(s.Makespan), labrun.Duration(s.MeanJCT), labrun.Duration(s.P95JCT))
	d.say("mean queueing delay %s; the jobs ran at %.0f %% of the speed that they have inside one node.",
		labrun.Duration(s.MeanDelay), 100*s.ANPR)
	return nil
}

// cleanUp ends and removes all that came up, in reverse. It works after an
// interruption too.
func (d *demo) cleanUp() error {
	if d.lab == nil && d.daemon == nil {
		return labrun.Remove(context.Background(), labName) // a half-built lab
	}
	var errs []error
	d.title("Cleaning up")
	if d.collectors != nil {
		errs = append(errs, d.collectors.Stop())
	}
	if d.daemon != nil && d.daemon.Process != nil {
		errs = append(errs, d.daemon.Stop())
	}
	if d.keep {
		d.say("Kept, as asked. The lab: LAB=%s contrib/lab/lab.sh list; down removes it.", labName)
		d.say("rifling: bin/rifling --config %s report", d.daemon.ConfigFile)
		return errors.Join(errs...)
	}
	if d.daemon != nil {
		errs = append(errs, d.daemon.Remove())
	}
	errs = append(errs, d.lab.Down(context.Background()))
	d.say("Done after %s; nothing is left but the package cache.", time.Since(d.started).Round(time.Second))
	return errors.Join(errs...)
}

func (d *demo) title(format string, args ...any) {
	fmt.Fprintf(d.out, "\n== "+format+"\n", args...)
}

func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, format+"\n", args...)
}

// show runs the rifling command and shows the call and what it printed.
func (d *demo) show(ctx context.Context, args ...string) error {
	fmt.Fprintf(d.out, "\n$ rifling %s\n", strings.Join(args, " "))
	out, err := d.daemon.Rifling(ctx, args...)
	fmt.Fprint(d.out, out)
	return err
}

// look reads the daemon's history as any reader may while it works.
func look(ctx context.Context, database string) (steering, error) {
	st, err := store.OpenReadOnly(database)
	if err != nil {
		return steering{}, err
	}
	defer st.Close()
	jobs, err := st.Jobs(ctx, store.Filter{})
	if err != nil {
		return steering{}, err
	}
	status, err := st.Status(ctx)
	if err != nil {
		return steering{}, err
	}
	return steeringOf(jobs, status), nil
}

// interesting returns jobs worth explaining.
func interesting(ctx context.Context, database string) ([]slurm.JobID, error) {
	st, err := store.OpenReadOnly(database)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	jobs, err := st.Jobs(ctx, store.Filter{})
	if err != nil {
		return nil, err
	}
	var stories []*store.Story
	for i := range jobs {
		s, err := st.Story(ctx, jobs[i].ID)
		if err != nil {
			return nil, err
		}
		stories = append(stories, s)
	}
	return choose(stories), nil
}

// tail returns the last n lines.
func tail(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// indent sets whole lines off from the left.
type indent struct {
	w   io.Writer
	mid bool // inside a line
}

func (i *indent) Write(p []byte) (int, error) {
	var b bytes.Buffer
	for line := range bytes.Lines(p) {
		if !i.mid {
			b.WriteString("    ")
		}
		b.Write(line)
		i.mid = !bytes.HasSuffix(line, []byte("\n"))
	}
	if _, err := i.w.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}
