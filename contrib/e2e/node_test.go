// SPDX-License-Identifier: Apache-2.0

//go:build lab

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rifling/contrib/labrun"
)

// A node that a job excludes is deleted from slurm.conf. The daemon goes on,
// and what it set can still be taken back.
func TestNodeDeletedWhileExcluded(t *testing.T) {
	shared := theLab
	ctx := within(t, 4*time.Minute)
	lab, err := labrun.Start(ctx, labrun.Options{Release: shared.Release, Nodes: 8, GPUs: 8, Name: "node-" + shared.Release})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		theLab = shared
		if err := lab.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	theLab = lab // the helpers work on this one for the test's time

	s := setScene(t)
	d := daemon(t, labrun.DaemonOptions{Mode: "steer"})
	gone := excluded(t, steered(t, s))
	last := lab.NodeNames()[7]
	if !slices.Contains(gone, last) {
		t.Fatalf("%s is not excluded: %v", last, gone)
	}
	if err := lab.Cancel(ctx, s.fillers[last]); err != nil { // a node with a job on it is not deleted
		t.Fatal(err)
	}
	deleteLastNode(t, lab)
	if _, err := lab.Verb(ctx, "restart-ctld"); err != nil {
		t.Fatal(err)
	}
	if _, err := lab.Node(ctx, last); err == nil {
		t.Fatalf("%s is still there", last)
	}
	mark := len(d.Log())
	time.Sleep(4 * time.Second) // some cycles with the changed cluster
	if !d.Running() {
		t.Fatal("riflingd ended")
	}
	t.Logf("riflingd after the restart:\n%s", d.Log()[mark:])
	out, err := d.Rifling(ctx, "status")
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if err := d.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	for _, id := range []string{s.own, s.later} {
		f := job(t, id)
		left := slices.DeleteFunc(excluded(t, f), func(n string) bool { return n == s.avoid })
		if f.State() != "PENDING" || len(left) == 0 {
			continue // of a started job the list does not matter any more
		}
		// 24.11 and later refuse every change of a job whose exclude list names
		// a node that is gone, whoever asks. Such a job starts on the nodes that
		// it has left; rifling must have said that it could not be given back.
		if _, err := lab.Exec(ctx, "scontrol", "update", "jobid="+id, "ExcNodeList="); err == nil {
			t.Errorf("job %s still excludes %v after the stop", id, left)
			continue
		}
		mustSay(t, "riflingd", d.Log(), []string{"job=" + id, "could not be given back"})
	}
}

// lastPort is the end of the nodes' range of ports, "Port=[20840-20847]": five
// digits, which no node's name has.
var lastPort = regexp.MustCompile(`-\d{5}\]`)

// deleteLastNode takes the eighth node out of the lab's configuration.
func deleteLastNode(t *testing.T, lab *labrun.Lab) {
	t.Helper()
	for _, name := range []string{"slurm.conf", "gres.conf", "topology.conf"} {
		path := filepath.Join(lab.Root, "lab", "etc", name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for line := range strings.Lines(string(text)) {
			line = strings.ReplaceAll(line, "gpu[01-08]", "gpu[01-07]")
			line = strings.ReplaceAll(line, "gpu[05-08]", "gpu[05-07]")
			line = lastPort.ReplaceAllStringFunc(line, func(m string) string {
				n, err := strconv.Atoi(m[1 : len(m)-1])
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprintf("-%d]", n-1)
			})
			lines = append(lines, line)
		}
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
