// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// recordedJob is a job as a real slurmctld ran it.
type recordedJob struct {
	id, gpus                  int
	limit, submit, start, end time.Duration
	nodes                     []int
	backfilled                bool
}

func readRecord(t *testing.T, name string) []recordedJob {
	t.Helper()
	dir := os.Getenv("RIFLING_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared")
	}
	f, err := os.Open(filepath.Join(dir, "traces", "slurm_ground_truth", name))
	if err != nil {
		t.Skipf("no recorded schedules (set RIFLING_SHARED): %v", err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out []recordedJob
	for _, r := range rows[1:] {
		n := make([]int, len(r))
		for i, s := range r {
			n[i], _ = strconv.Atoi(s)
		}
		sec := func(i int) time.Duration { return time.Duration(n[i]) * time.Second }
		out = append(out, recordedJob{
			id: n[0], gpus: n[1], limit: sec(3), submit: sec(5), start: sec(6), end: sec(7),
			nodes: nodeNumbers(r[8]), backfilled: r[9] == "1",
		})
	}
	return out
}

// nodeNumbers reads "n3" and "n[1,4-6]", counting from 0.
func nodeNumbers(s string) []int {
	var out []int
	for part := range strings.SplitSeq(strings.Trim(s, "n[]"), ",") {
		first, last, ranged := strings.Cut(part, "-")
		a, _ := strconv.Atoi(first)
		b := a
		if ranged {
			b, _ = strconv.Atoi(last)
		}
		for ; a <= b; a++ {
			out = append(out, a-1)
		}
	}
	return out
}

// asRecorded sets the model up as the recorded slurmctld stood just before a
// backfill pass: who ran where, and who waited. It returns the jobs by id.
func asRecorded(t *testing.T, jobs []recordedJob, nodes int, now time.Duration) (*SlurmModel, map[int]*JobState) {
	t.Helper()
	var spec Spec
	for i := range nodes {
		spec.Nodes = append(spec.Nodes, NodeSpec{Name: fmt.Sprint("n", i+1), GPUs: 8})
	}
	s := DefaultSlurm()
	s.Basic, s.Cores, s.Depth, s.BackfillDepth, s.BackfillWindow = true, true, 1000, 1000, 20160*time.Minute
	s.Phase = 10 * time.Second // the recorded minute is not known; most phases give the same
	m := NewSlurm(s)
	e, err := NewEngine(spec, m, func() (Job, bool) { return Job{}, false }, nil)
	if err != nil {
		t.Fatal(err)
	}
	st := &e.st
	m.init(st)
	byID := map[int]*JobState{}
	for _, r := range jobs {
		if r.submit >= now || r.end <= now {
			continue
		}
		j := &JobState{Seq: r.id, GPUs: r.gpus, Bound: r.limit, FirstRun: -1, pos: -1, Rate: 1}
		j.Work, j.Request = 1000*time.Hour, Request{GPUs: r.gpus, MaxNodes: 1}
		if r.gpus > 8 {
			j.Request = Request{GPUsPerNode: 8, MinNodes: r.gpus / 8}
		}
		byID[r.id] = j
		st.pending.add(j)
		if r.start < now || r.start == now && !r.backfilled {
			st.now = r.start
			var on []Alloc
			for _, n := range r.nodes {
				on = append(on, Alloc{Node: int32(n), GPUs: int32(r.gpus / len(r.nodes))})
			}
			m.start(j, on, false)
			continue
		}
		m.setPriority(j)
		m.insert(j)
	}
	st.now = now
	if st.err != nil {
		t.Fatal(st.err)
	}
	return m, byID
}

// Every recorded backfill decision by itself: given who ran and who waited, the
// model starts the jobs that slurmctld started, on its nodes, and no others.
func TestBackfillDecidesAsRecorded(t *testing.T) {
	for name, nodes := range map[string]int{"run1_synthetic_4x8.csv": 4, "run3_philly_2869ce_8x8.csv": 8} {
		t.Run(name, func(t *testing.T) {
			jobs := readRecord(t, name)
			var passes []time.Duration
			for _, r := range jobs {
				if r.backfilled {
					passes = append(passes, r.start)
				}
			}
			slices.Sort(passes)
			right, wrong := 0, 0
			for _, now := range slices.Compact(passes) {
				m, byID := asRecorded(t, jobs, nodes, now)
				m.backfill()
				for _, r := range jobs {
					j := byID[r.id]
					if j == nil || r.start < now || r.start == now && !r.backfilled {
						continue
					}
					did := r.backfilled && r.start <= now+time.Second
					got := j.Status == Running
					switch {
					case did && got && int(j.Alloc[0].Node) == r.nodes[0]:
						right++
					case did || got:
						wrong++
						t.Logf("at %v: job %d started %v by slurmctld, %v by the model", now, r.id, did, got)
					}
				}
			}
			t.Logf("%d decisions as recorded, %d not", right, wrong)
			if right < 50 || wrong > right/50 {
				t.Errorf("%d decisions as recorded, %d not", right, wrong)
			}
		})
	}
}
