// SPDX-License-Identifier: Apache-2.0

//go:build lab

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"rifling/contrib/labrun"
	simrun "rifling/sim/run"
)

// A site's own accounting is imported and replayed: what Slurm did, what the
// simulator says that Slurm does, and what other policies would have done, each
// with its interval.
func TestBacktest(t *testing.T) {
	begin := time.Now().UTC().Truncate(time.Second)
	gpus := theLab.GPUs
	const jobs = 20
	var ids []string
	for i := range jobs {
		// A node and a half of work for each node, so that some must wait.
		g := []int{gpus, gpus / 2, gpus, gpus / 4}[i%4]
		ids = append(ids, submit(t, []string{"alice", "bob"}[i%2], fmt.Sprintf("#!/bin/bash\nsleep %d\n", 4+i%5),
			fmt.Sprintf("--job-name=past%d", i%3), "--nodes=1", fmt.Sprintf("--gres=gpu:%d", g), "--time=5", "--output=/dev/null"))
	}
	for _, id := range ids {
		waitJob(t, id, "end", func(f labrun.Fields) bool { return f.State() == "COMPLETED" })
	}
	d := daemon(t, labrun.DaemonOptions{Mode: "observe"})
	text, err := theLab.Exec(within(t, 10*time.Second), "cat", "/lab/etc/slurm.conf")
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	since := begin.Format("2006-01-02T15:04:05")
	type verdict struct {
		What     string           `json:"what"`
		Wait     simrun.Interval  `json:"wait_mean_s"`
		JCT      simrun.Interval  `json:"jct_mean_s"`
		WaitDiff *simrun.Interval `json:"wait_difference_s"`
	}
	var got struct {
		Jobs     int       `json:"jobs"`
		Verdicts []verdict `json:"verdicts"`
	}
	// slurmdbd learns of a job's end a moment after slurmctld.
	look := func() error {
		if _, err := d.Rifling(within(t, time.Minute), "history", "import", "--from=rest", "--since="+since, "--again"); err != nil {
			return err
		}
		out, err := d.Rifling(within(t, time.Minute), "backtest", "--json", "--since="+since, "--warm-up=0",
			"--slurm-conf="+conf, "--policies=strict,rule")
		if err != nil {
			return err
		}
		got.Jobs, got.Verdicts = 0, nil
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			return fmt.Errorf("%w in %s", err, out)
		}
		if got.Jobs != jobs {
			return fmt.Errorf("%d jobs were judged, want %d", got.Jobs, jobs)
		}
		return nil
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Second) {
		if err = look(); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Verdicts) != 4 {
		t.Fatalf("%d lines, want what Slurm did, what the simulator says of it, strict and rule: %+v", len(got.Verdicts), got.Verdicts)
	}
	for i, v := range got.Verdicts {
		if !(v.Wait.Low <= v.Wait.Mean && v.Wait.Mean <= v.Wait.High && v.JCT.Low <= v.JCT.Mean && v.JCT.Mean <= v.JCT.High) {
			t.Errorf("%s: a mean outside its interval: %+v", v.What, v)
		}
		if v.JCT.Mean < 4 || (i == 0) != (v.WaitDiff == nil) {
			t.Errorf("%s: jobs of 4 s and more end after %.1f s; difference %v", v.What, v.JCT.Mean, v.WaitDiff)
		}
	}
	t.Logf("mean wait: Slurm %.1f s, the simulator's %.1f s", got.Verdicts[0].Wait.Mean, got.Verdicts[1].Wait.Mean)
}
