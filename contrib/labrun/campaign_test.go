// SPDX-License-Identifier: Apache-2.0

package labrun

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"rifling/contrib/workload"
)

// fakeLab is a lab whose lab.sh is the given shell text.
func fakeLab(t *testing.T, sh string) *Lab {
	t.Helper()
	repo := fakeRepo(t, sh)
	return &Lab{
		Name: "x", Release: "24.11", Nodes: 2, GPUs: 8, Speed: 1, repo: repo, Root: t.TempDir(),
		RESTURL: "http://127.0.0.1:20009", JWTUser: "rifling", TokenFile: "/t", Topology: "/r/topology.conf",
	}
}

func TestCampaign(t *testing.T) {
	l := fakeLab(t, `
log=$RIFLING_REPO/log
case "$*" in
as*) echo "$*" >>"$log"; wc -l <"$log" ;;
*squeue*) printf '1|RUNNING\n2|PENDING\n77|RUNNING\n' ;;
*sacct*) printf '1|COMPLETED|100|110|160|1|gpu01\n2|COMPLETED|100|120|180|2|gpu[01-02]\n3|TIMEOUT|100|100|130|1|gpu02\n' ;;
esac`)
	home := filepath.Join(l.Root, "home", "alice")
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "emujob-1.out"), []byte(`{"job":1,"model":"bert","npr":0.9,"seconds":60}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	jobs := []workload.Job{{User: "alice", GPUs: 4}, {User: "bob", GPUs: 8}, {User: "carol", GPUs: 1, Submit: time.Second}}
	c := &Campaign{Lab: l, Jobs: jobs, Compression: 1000}

	if p, err := c.Look(t.Context()); err != nil || p != (Progress{}) || c.Finished(p) {
		t.Errorf("before the first submission: %+v, %v", p, err)
	}
	if err := c.Submit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1", "2", "3"}, c.IDs()); diff != "" {
		t.Fatalf("ids (-want +got):\n%s", diff)
	}
	// Job 77 is someone else's; job 3 is no longer listed.
	p, err := c.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Progress{Waiting: 1, Running: 1, Done: 1, GPUsBusy: 4}, p); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	rows, err := c.Rows(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 3 || rows[0].Result == nil || rows[0].Result.NPR != 0.9 || rows[1].Nodes != 2 || rows[2].State != "TIMEOUT" {
		t.Errorf("rows = %+v", rows)
	}
}

func TestRowsWaitForSlurmdbd(t *testing.T) {
	for name, sacct := range map[string]string{
		"a job is missing":      `printf '9|COMPLETED|100|110|160|1|gpu01\n'`,
		"a job has not started": `printf '1|PENDING|100|Unknown|Unknown|1|None assigned\n'`,
		"a job has not ended":   `printf '1|RUNNING|100|110|Unknown|1|gpu01\n'`,
	} {
		t.Run(name, func(t *testing.T) {
			l := fakeLab(t, "case \"$*\" in as*) echo 1 ;; *sacct*) "+sacct+" ;; esac")
			c := &Campaign{Lab: l, Jobs: []workload.Job{{User: "alice", GPUs: 1}}, Compression: 60}
			if err := c.Submit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if rows, err := c.Rows(t.Context()); err == nil {
				t.Errorf("rows = %+v, want an error so that the caller waits", rows)
			}
		})
	}
}

func TestDaemonConfig(t *testing.T) {
	l := fakeLab(t, "")
	d, err := l.PrepareDaemon(DaemonOptions{Mode: "steer", Config: map[string]any{"limits.max-wait": "2m", "agent.epsilon": 0, "slurm.timeout": "3s"}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Remove()
	read := func() map[string]any {
		text, err := os.ReadFile(d.ConfigFile)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := yaml.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := map[string]any{
		"slurm": map[string]any{
			"url": "http://127.0.0.1:20009", "user": "rifling", "token-file": "/t", "topology-file": "/r/topology.conf", "timeout": "3s",
		},
		"database": d.Database, "mode": "steer", "policy": "rifling", "interval": "1s",
		"listen": map[string]any{"address": d.Address, "secret-file": d.SecretFile},
		"limits": map[string]any{"max-wait": "2m"},
		"agent":  map[string]any{"epsilon": 0},
	}
	if diff := cmp.Diff(want, read()); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	database := d.Database
	if err := d.Reconfigure(DaemonOptions{URL: "http://127.0.0.1:9"}); err != nil {
		t.Fatal(err)
	}
	got := read()
	if got["mode"] != "observe" || got["database"] != database || got["slurm"].(map[string]any)["url"] != "http://127.0.0.1:9" {
		t.Errorf("after Reconfigure: %v", got)
	}
}
