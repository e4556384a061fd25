// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"rifling/sim"
)

// shared is the directory through which emulated jobs know of one another:
//
//	scale, nic_gbps           one number each, settings for all jobs
//	jobs/KEY.json             a job's state, written by its leader
//	nodes/NODE/jobs/KEY@RANK  a task on a node, locked while it lives
//	nodes/NODE/gpu/N          GPU N as the stand-in NVML shows it
//	nodes/NODE/sys/...        InfiniBand counters as the kernel shows them
//	nodes/NODE/lock           held while counters are added to
type shared struct{ dir string }

func (s shared) node(name string) string { return filepath.Join(s.dir, "nodes", name) }
func (s shared) rank(node, key string, rank int) string {
	return filepath.Join(s.node(node), "jobs", key+"@"+strconv.Itoa(rank))
}
func (s shared) state(key string) string { return filepath.Join(s.dir, "jobs", key+".json") }

// rank is one task of a job, as it registers. Tasks may each have a GPU of
// their own (--gpus-per-task), or all those on the node.
type rank struct {
	Key  string `json:"key"`
	Rank int    `json:"rank"`
	Node string `json:"node"`
	GPUs []int  `json:"gpus"`
	PID  int    `json:"pid"`
}

// Phases of a job.
const (
	running   = "running"
	finished  = "finished"
	cancelled = "cancelled"
	failed    = "failed"
)

// state is what a job's leader tells its followers and other jobs.
type state struct {
	Key        string         `json:"key"`
	Model      string         `json:"model"`
	Lead       string         `json:"lead"`   // node of rank 0
	GPUs       map[string]int `json:"gpus"`   // by node
	Claims     map[int][]int  `json:"claims"` // the GPUs that each rank publishes, each GPU once
	Contends   bool           `json:"contends"`
	Phase      string         `json:"phase"`
	Iterations float64        `json:"iterations"`
	Rate       float64        `json:"rate"` // iterations per second of the model's time
	At         time.Time      `json:"at"`   // when it was written
}

// staleAfter is how long a leader may say nothing and still count as one that
// communicates: a stopped process (scontrol suspend) keeps its locks.
const staleAfter = 10 * time.Second

// register publishes this rank; release takes it back. It clears what a dead
// process left under the same name.
func (s shared) register(r rank) (release func(), err error) {
	dir := filepath.Join(s.node(r.Node), "jobs")
	if err := mkdirAll(dir); err != nil {
		return nil, err
	}
	if err := mkdirAll(filepath.Join(s.dir, "jobs")); err != nil {
		return nil, err
	}
	content, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var f *os.File
	path := s.rank(r.Node, r.Key, r.Rank)
	err = withLock(filepath.Join(s.node(r.Node), "lock"), func() error {
		if held(path) {
			return fmt.Errorf("rank %d of step %s runs on %s already", r.Rank, r.Key, r.Node)
		}
		f, err = hold(path, string(content)+"\n")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("register: %w", err)
	}
	return func() {
		_ = os.Remove(path)
		_ = f.Close() // only the lock mattered
	}, nil
}

// ranks returns the living ranks of a job, in order.
func (s shared) ranks(key string) ([]rank, error) {
	paths, err := filepath.Glob(filepath.Join(s.dir, "nodes", "*", "jobs", key+"@*"))
	if err != nil {
		return nil, err
	}
	var out []rank
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil || !held(path) {
			continue
		}
		var r rank
		if err := json.Unmarshal(content, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b rank) int { return a.Rank - b.Rank })
	return out, nil
}

// claims shares the GPUs out among the ranks: where several see the same one,
// the first has it.
func claims(ranks []rank) (byRank map[int][]int, byNode map[string]int) {
	type device struct {
		node string
		gpu  int
	}
	taken := map[device]bool{}
	byRank, byNode = map[int][]int{}, map[string]int{}
	for _, r := range ranks {
		for _, gpu := range r.GPUs {
			if d := (device{r.Node, gpu}); !taken[d] {
				taken[d] = true
				byRank[r.Rank] = append(byRank[r.Rank], gpu)
				byNode[r.Node]++
			}
		}
	}
	return byRank, byNode
}

func (s shared) writeState(st state) error {
	st.At = time.Now()
	content, err := json.Marshal(st)
	if err != nil {
		return err
	}
	return writeFile(s.state(st.Key), string(content)+"\n")
}

func (s shared) readState(key string) (state, error) {
	content, err := os.ReadFile(s.state(key))
	if err != nil {
		return state{}, err
	}
	var st state
	if err := json.Unmarshal(content, &st); err != nil {
		return state{}, fmt.Errorf("state of %s: %w", key, err)
	}
	return st, nil
}

// neighbours counts the other jobs that communicate over a node's NIC now. It
// clears away ranks whose process is gone. seen remembers what does not change
// of a job, whether it contends.
func (s shared) neighbours(node, key string, now time.Time, seen map[string]bool) int {
	entries, err := os.ReadDir(filepath.Join(s.node(node), "jobs"))
	if err != nil {
		return 0
	}
	sharing := map[string]bool{}
	for _, e := range entries {
		other, _, ok := strings.Cut(e.Name(), "@")
		if !ok || other == key || strings.HasPrefix(other, ".") || sharing[other] {
			continue
		}
		path := filepath.Join(s.node(node), "jobs", e.Name())
		if !held(path) {
			s.bury(node, path)
			continue
		}
		info, err := os.Stat(s.state(other))
		if err != nil || now.Sub(info.ModTime()) > staleAfter {
			continue
		}
		if _, known := seen[other]; !known {
			st, err := s.readState(other)
			if err != nil {
				continue
			}
			seen[other] = st.Contends
		}
		if seen[other] {
			sharing[other] = true
		}
	}
	return len(sharing)
}

// bury removes the registration of a dead rank, unless the name was taken
// again in the meantime.
func (s shared) bury(node, path string) {
	_ = withLock(filepath.Join(s.node(node), "lock"), func() error {
		if !held(path) {
			return os.Remove(path)
		}
		return nil
	})
}

// rate is the job's rate beside the jobs that share its NICs now.
func (s shared) rate(st state, m sim.Model, speeds map[string]float64, now time.Time, seen map[string]bool) float64 {
	return sim.Rate(m, st.GPUs, func(node string) (float64, int) {
		return speeds[node], 1 + s.neighbours(node, st.Key, now, seen)
	})
}
