// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"rifling/slurm"
)

// jobRecord reads one record of GET /jobs. key is empty when the record names
// no job.
//
// What a release does not tell stays at its zero value: up to v0.0.41 that is
// --switches, and on v0.0.38 whether a job belongs to scrontab.
func jobRecord(r *record) (j slurm.Job, key string) {
	j = slurm.Job{
		ID:        slurm.JobID(r.id("job_id")),
		Name:      r.text("name"),
		User:      r.text("user_name"),
		UserID:    r.id("user_id"),
		Account:   r.text("account"),
		Partition: r.text("partition"),
		QOS:       r.text("qos"),
		Comment:   r.text("comment"),
		Command:   r.text("command"),
		WorkDir:   r.text("current_working_directory"),

		Reason:      r.text("state_reason"),
		Description: r.text("state_description"),

		SubmitTime:   r.instant("submit_time"),
		EligibleTime: r.instant("eligible_time"),
		StartTime:    r.instant("start_time"),

		Priority: r.num("priority").n,
		Nice:     r.signed("nice"),

		Dependency:    r.text("dependency"),
		Reservation:   r.text("resv_name"),
		Features:      r.text("features"),
		Switches:      r.count("required_switches"),
		RequiredNodes: r.hosts("required_nodes"),
		ExcludedNodes: r.hosts("excluded_nodes"),
		Exclusive:     exclusive(r),
		Contiguous:    string(r.fields["contiguous"]) == "true",
		Cron:          r.text("cron") != "" || r.hasWord("flags", "CRON_JOB"),
		Het:           r.id("het_job_id") != 0,
		Restarts:      r.count("restart_cnt"),

		MaxNodes: r.count("max_nodes"),
		MinNodes: r.count("node_count"),
		Tasks:    r.count("tasks"),
		CPUs:     cpus(r),
		Request:  gpuRequest(r),

		MemPerNodeMB: r.num("memory_per_node").n,
		MemPerCPUMB:  r.num("memory_per_cpu").n,
	}
	if j.ID == 0 {
		r.fail("job_id", "missing")
		return j, ""
	}
	j.State = slurm.ParseState(r.words("job_state"))
	if j.State.Base == "" {
		r.fail("job_state", "missing")
	}
	timeLimit(r, &j)
	array(r, &j)
	j.Held = held(&j, r.has("priority"))
	if !j.Pending() {
		started(r, &j)
	}
	return j, "job"
}

// cpus is what the job has, else what it asks for. v0.0.38 leaves "cpus" null
// where the number of tasks is not known, and at the request's count after the
// start.
func cpus(r *record) int {
	allocated, _ := slurm.ParseTRES(r.text("tres_alloc_str"))
	if n := allocated["cpu"]; n > 0 {
		return int(n)
	}
	if n := r.count("cpus"); n > 0 {
		return n
	}
	asked, _ := slurm.ParseTRES(r.text("tres_req_str"))
	return int(asked["cpu"])
}

// timeLimit reads minutes. v0.0.38 writes an infinite limit as null, and always
// gives the key.
func timeLimit(r *record, j *slurm.Job) {
	const most = 100 * 365 * 24 * 60 // minutes; a longer one is no limit
	limit := r.num("time_limit")
	_, given := r.fields["time_limit"]
	j.Unlimited = limit.infinite || given && !r.has("time_limit") || limit.n > most
	if limit.set && !j.Unlimited {
		j.TimeLimit = time.Duration(limit.n) * time.Minute
	}
}

// array reads what makes a record one of an array. A task's number means
// nothing where there is no array.
func array(r *record, j *slurm.Job) {
	j.ArrayJobID = slurm.JobID(r.id("array_job_id"))
	j.ArrayTaskID = -1
	if j.ArrayJobID == 0 {
		return
	}
	if task := r.num("array_task_id"); task.set {
		j.ArrayTaskID = task.n
	}
	j.ArrayTaskString = r.text("array_task_string")
	j.ArrayMaxTasks = r.count("array_max_tasks")
}

// held tells a job that somebody holds from one whose priority slurmctld set to
// 0 by itself: what can never run as asked (BadConstraints, a failed burst
// buffer), and what waits for another job.
func held(j *slurm.Job, priorityGiven bool) bool {
	if !j.Pending() {
		return false
	}
	if strings.HasPrefix(j.Reason, "JobHeld") || j.Reason == "JobHoldMaxRequeue" ||
		j.State.Has("REQUEUE_HOLD") || j.State.Has("SPECIAL_EXIT") {
		return true
	}
	switch j.Reason {
	case "BadConstraints", "BurstBufferOperation", "BurstBufferStageIn", "Dependency", "DependencyNeverSatisfied":
		return false
	}
	return priorityGiven && j.Priority == 0
}

// exclusive reads "shared": "none", "user", "mcs" or "topo" ask for whole
// nodes; null, [] and "oversubscribe" ("shared" on v0.0.38) do not. v0.0.45
// leaves it empty; the command line, where it has one, is the next best.
func exclusive(r *record) bool {
	return slices.ContainsFunc(r.words("shared"), func(w string) bool {
		switch strings.ToLower(w) {
		case "none", "user", "mcs", "topo":
			return true
		}
		return false
	}) || exclusiveOption.MatchString(r.text("submit_line"))
}

var exclusiveOption = regexp.MustCompile(`\s--exclusive(=\S+)?(\s|$)`)

// gpuRequest reads the four ways to ask for GPUs.
func gpuRequest(r *record) slurm.GPURequest {
	var q slurm.GPURequest
	for _, way := range []struct {
		key string
		n   *int
	}{
		{"tres_per_job", &q.PerJob},
		{"tres_per_node", &q.PerNode},
		{"tres_per_task", &q.PerTask},
		{"tres_per_socket", &q.PerSocket},
	} {
		n, kind := gpus(r, way.key, r.text(way.key))
		*way.n = n
		if q.Type == "" {
			q.Type = kind
		}
	}
	return q
}

// gpus counts the GPUs in a gres string and names their type: the one that most
// of them have.
func gpus(r *record, key, text string) (n int, kind string) {
	list, err := slurm.ParseGRES(text)
	if err != nil {
		r.fail(key, "%v", err)
		return 0, ""
	}
	n, byType := slurm.GPUs(list)
	for t, count := range byType {
		if kind == "" || count > byType[kind] || count == byType[kind] && t < kind {
			kind = t
		}
	}
	return n, kind
}

// started reads where a job runs or ran.
func started(r *record, j *slurm.Job) {
	j.EndTime = r.instant("end_time")
	j.Nodes = r.hosts("nodes")
	if len(j.Nodes) > 0 {
		j.MinNodes = len(j.Nodes)
	}
	j.NodeGPUs = nodeGPUs(r, j.Nodes)
}

// nodeGPUs reads gres_detail, one string a node in the order of the host list.
// Slurm gives it while the job holds its nodes; on one node the allocation's
// total says the same.
func nodeGPUs(r *record, nodes []string) map[string]int {
	detail := r.strings("gres_detail")
	if len(nodes) == 1 && len(detail) == 0 {
		t, err := slurm.ParseTRES(r.text("tres_alloc_str"))
		if err == nil && t.GPUs() > 0 {
			return map[string]int{nodes[0]: t.GPUs()}
		}
	}
	if len(detail) == 0 {
		return nil
	}
	if len(detail) != len(nodes) {
		r.note("gres_detail", "not one entry a node")
		return nil
	}
	out := map[string]int{}
	for i, text := range detail {
		list, err := slurm.ParseGRES(text)
		if err != nil {
			r.note("gres_detail", "%v", err)
			return nil
		}
		if n, _ := slurm.GPUs(list); n > 0 {
			out[nodes[i]] = n
		}
	}
	return out
}
