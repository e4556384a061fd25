// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"rifling/slurm"
)

// maxFree bounds the name and the command of a past job, in bytes.
const maxFree = 1024

// pastNote is something odd in a record that costs one field of it.
type pastNote struct{ reason, detail string }

// readPastJob reads one record of slurmdbd. odd says why it cannot be used.
func readPastJob(raw json.RawMessage) (j *slurm.PastJob, odd string, notes []pastNote) {
	r := newRecord(raw)
	if r.odd != "" {
		return nil, r.odd, nil
	}
	j = &slurm.PastJob{
		ID: slurm.JobID(r.id("job_id")), ArrayTaskID: -1, GPUUtil: -1, GPUMemory: -1,
		Name: clipText(r.text("name")), Account: r.text("account"), Partition: r.text("partition"),
		QOS: r.text("qos"), Cluster: r.text("cluster"), Command: clipText(r.text("submit_line")),
	}
	if j.User = r.text("user"); j.User == "" {
		j.User = r.sub("association").text("user")
	}
	note := func(reason, detail string) {
		notes = append(notes, pastNote{reason, fmt.Sprintf("job %d: %s", j.ID, detail)})
	}
	t := r.sub("time")
	for key, at := range map[string]*time.Time{"submission": &j.Submit, "eligible": &j.Eligible, "start": &j.Start, "end": &j.End} {
		if *at = t.instant(key); !at.IsZero() {
			*at = at.UTC()
		}
	}
	j.Elapsed, j.Suspended = pastSeconds(t, "elapsed"), pastSeconds(t, "suspended")
	j.TimeLimit, j.Unlimited = pastLimit(t)
	j.State = slurm.ParseState(r.sub("state").words("current"))
	j.ExitCode = pastExit(r.sub("exit_code"))
	j.Restarts = r.count("restart_cnt")
	if p := r.num("priority"); p.set && p.n > 0 {
		j.Priority = p.n
	}
	pastReference(r, j)
	r.inherit(t)
	switch {
	case r.odd != "":
		return nil, r.odd, notes
	case j.ID == 0:
		return nil, "no job id", notes
	case j.Submit.IsZero():
		return nil, "no submit time", notes
	case j.State.Base == "":
		return nil, "no state", notes
	}
	nodes := r.text("nodes")
	var err error
	if j.Nodes, err = slurm.ExpandHosts(nodes); err != nil {
		note("odd node list", nodes)
	}
	tres := r.sub("tres")
	j.SetResources(pastTRES(tres, "allocated"), pastTRES(tres, "requested"))
	if steps := pastSteps(r); len(steps) > 0 {
		j.SetGPUUsage(steps)
	}
	for _, what := range j.Tidy() {
		note(what, j.State.String())
	}
	return j, "", notes
}

// pastSeconds reads a number of seconds; negative ones are none.
func pastSeconds(r *record, key string) time.Duration {
	n := r.num(key)
	if !n.set || n.n < 0 || n.n > math.MaxUint32 {
		return 0
	}
	return time.Duration(n.n) * time.Second
}

// pastLimit reads a time limit in minutes.
func pastLimit(t *record) (time.Duration, bool) {
	n := t.num("limit")
	if n.infinite || strings.EqualFold(t.wordOf("limit"), "UNLIMITED") {
		return 0, true
	}
	if !n.set || n.n < 0 || n.n > math.MaxUint32 {
		return 0, false
	}
	return time.Duration(n.n) * time.Minute, false
}

// wordOf returns the value under key where it is a string.
func (r *record) wordOf(key string) string {
	s, _ := text(bytes.TrimSpace(r.fields[key]))
	return s
}

// pastExit reads return code and signal; the signal's key changed its name.
func pastExit(e *record) int {
	signal := e.sub("signal")
	for _, key := range []string{"id", "signal_id"} {
		if s := signal.num(key); s.set && s.n > 0 && s.n < 128 {
			return 128 + int(s.n)
		}
	}
	if c := e.num("return_code"); c.set && c.n >= 0 && c.n <= math.MaxInt32 {
		return int(c.n)
	}
	return 0
}

// pastReference reads the array or the heterogeneous job that it belongs to.
func pastReference(r *record, j *slurm.PastJob) {
	a := r.sub("array")
	if j.ArrayJobID = slurm.JobID(a.id("job_id")); j.ArrayJobID != 0 {
		if t := a.num("task_id"); t.set {
			j.ArrayTaskID = t.n
		}
	}
	het := r.sub("het")
	j.HetJobID = slurm.JobID(het.id("job_id"))
	r.inherit(a, het)
}

// pastTRES reads a list of {type, name, id, count}; resources of which there
// are none are left out.
func pastTRES(r *record, key string) slurm.TRES {
	list, ok := elements(r.fields[key])
	if !ok {
		return nil
	}
	out := slurm.TRES{}
	for _, raw := range list {
		t := newRecord(raw)
		name := t.text("type")
		if n := t.text("name"); n != "" {
			name += "/" + n
		}
		if n := t.num("count"); n.set && n.n > 0 && name != "" {
			out[name] = n.n
		}
	}
	return out
}

// pastSteps reads what the steps used, where it says anything of GPUs.
func pastSteps(r *record) []slurm.StepUsage {
	list, _ := elements(r.fields["steps"])
	var out []slurm.StepUsage
	for _, raw := range list {
		s := newRecord(raw)
		used := s.sub("tres").sub("requested")
		total := slurm.TRES{}
		entries, _ := elements(used.fields["total"])
		for _, e := range entries {
			t := newRecord(e)
			if n := t.num("count"); n.set && n.n >= 0 && t.text("type") == "gres" {
				total["gres/"+t.text("name")] = n.n
			}
		}
		// v0.0.38: {"job_id":9,"id":"batch"}; later "9.batch" or an object.
		step := s.sub("step")
		name := step.text("id")
		if i := strings.LastIndexByte(name, '.'); i >= 0 {
			name = name[i+1:]
		}
		if name == "" {
			name = strconv.Itoa(len(out))
		}
		out = append(out, slurm.StepUsage{Step: name, Used: total})
	}
	return out
}

func clipText(s string) string {
	if len(s) > maxFree {
		s = strings.ToValidUTF8(s[:maxFree], "\uFFFD")
	}
	return s
}
