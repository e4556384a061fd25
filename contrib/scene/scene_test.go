// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"testing"
	"time"
)

// The large scene is as large as it says, and its nodes hold no more than they
// have.
func TestLarge(t *testing.T) {
	s := Large(time.Unix(1_800_000_000, 0), 1)
	if len(s.Nodes) != LargeNodes || len(s.Jobs) != LargeJobs {
		t.Fatalf("%d nodes, %d jobs", len(s.Nodes), len(s.Jobs))
	}
	gpus, used, running := 0, 0, 0
	for i := range s.Nodes {
		gpus, used = gpus+s.Nodes[i].GPUs, used+s.Nodes[i].GPUsUsed
		if s.Nodes[i].GPUsUsed > s.Nodes[i].GPUs {
			t.Errorf("%s has %d of %d GPUs in use", s.Nodes[i].Name, s.Nodes[i].GPUsUsed, s.Nodes[i].GPUs)
		}
	}
	for i := range s.Jobs {
		if s.Jobs[i].Running() {
			running++
		}
	}
	if used < gpus*8/10 || running < 1000 {
		t.Errorf("%d of %d GPUs are in use by %d jobs", used, gpus, running)
	}
}

// The daemon starts on a scene, shows it, and stops cleanly.
func TestDaemonShowsAScene(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	bin, err := Build(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Start(ctx, Empty(time.Now()), Options{Bin: bin, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Wait(ctx, "/cluster", "gpu08"); err != nil {
		t.Error(err)
	}
	if err := d.Stop(); err != nil {
		t.Error(err)
	}
}
