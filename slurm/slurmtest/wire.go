// SPDX-License-Identifier: Apache-2.0

package slurmtest

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"rifling/slurm"
)

// view writes the server's state in the shapes of one version.
type view struct {
	s       *Server
	version int
}

// old reports whether the version writes plain numbers and strings.
func (v *view) old() bool { return v.version < 40 }

// ok wraps a success in what every answer has.
func (v *view) ok(body map[string]any) reply {
	r := v.s.state.Release
	if v.old() {
		body["meta"] = map[string]any{"Slurm": map[string]any{
			"release": r.String(),
			"version": map[string]any{"major": r.Major, "minor": r.Minor, "micro": r.Micro},
		}}
		body["errors"] = []any{}
		return reply{status: http.StatusOK, body: body}
	}
	body["meta"] = map[string]any{"slurm": map[string]any{
		"release": r.String(), "cluster": v.s.state.Cluster,
		"version": map[string]any{"major": fmt.Sprint(r.Major), "minor": fmt.Sprintf("%02d", r.Minor), "micro": fmt.Sprint(r.Micro)},
	}}
	body["errors"], body["warnings"] = []any{}, []any{}
	return reply{status: http.StatusOK, body: body}
}

// fail is an answer with one entry in errors[] and, as the real ones have it,
// an empty list beside it.
func (v *view) fail(status, number int, text, source string) reply {
	a := v.ok(map[string]any{"jobs": []any{}})
	a.status = status
	a.body["errors"] = []any{map[string]any{
		"description": "Request failed", "error_number": number, "error": text, "source": source,
	}}
	return a
}

// num is a number that is set.
func (v *view) num(n int64) any {
	if v.old() {
		return n
	}
	return map[string]any{"set": true, "infinite": false, "number": n}
}

// unset is a number that is not.
func (v *view) unset() any {
	if v.old() {
		return nil
	}
	return map[string]any{"set": false, "infinite": false, "number": 0}
}

// infinite is a number without bound; v0.0.38 writes null.
func (v *view) infinite() any {
	if v.old() {
		return nil
	}
	return map[string]any{"set": false, "infinite": true, "number": 0}
}

func (v *view) instant(t time.Time) any {
	if t.IsZero() {
		return v.num(0)
	}
	return v.num(t.Unix())
}

// gres names GPUs as the release does in requests.
func (v *view) gres(n int, kind string) string {
	if n == 0 {
		return ""
	}
	sep := "gres/gpu:"
	if v.old() {
		sep = "gres:gpu:"
	}
	if kind != "" {
		kind += ":"
	}
	return fmt.Sprintf("%s%s%d", sep, kind, n)
}

func (v *view) jobRecord(j *slurm.Job) map[string]any {
	q := j.Request
	m := map[string]any{
		"job_id": j.ID, "name": j.Name, "user_name": j.User, "user_id": j.UserID, "account": j.Account,
		"partition": j.Partition, "qos": j.QOS, "comment": j.Comment, "command": j.Command,
		"current_working_directory": j.WorkDir, "cluster": v.s.state.Cluster,
		"state_reason": j.Reason, "state_description": j.Description,
		"submit_time": v.instant(j.SubmitTime), "eligible_time": v.instant(j.EligibleTime),
		"start_time": v.instant(j.StartTime), "end_time": v.instant(j.EndTime),
		"time_limit": v.num(int64(j.TimeLimit / time.Minute)),
		"priority":   v.num(j.Priority), "nice": j.Nice,
		"dependency": j.Dependency, "resv_name": j.Reservation, "features": j.Features,
		"required_nodes": slurm.CompressHosts(j.RequiredNodes), "excluded_nodes": slurm.CompressHosts(j.ExcludedNodes),
		"restart_cnt": j.Restarts, "flags": []string{},
		"array_job_id": v.num(int64(j.ArrayJobID)), "array_task_id": v.unset(),
		"array_task_string": j.ArrayTaskString, "array_max_tasks": v.num(int64(j.ArrayMaxTasks)),
		"het_job_id": v.num(0),
		"node_count": v.num(int64(j.MinNodes)), "max_nodes": v.num(int64(j.MaxNodes)),
		"tasks": v.num(int64(j.Tasks)), "cpus": v.num(int64(j.CPUs)),
		"tres_per_job": v.gres(q.PerJob, q.Type), "tres_per_node": v.gres(q.PerNode, q.Type),
		"tres_per_task": v.gres(q.PerTask, q.Type), "tres_per_socket": v.gres(q.PerSocket, q.Type),
		"memory_per_node": v.num(j.MemPerNodeMB), "memory_per_cpu": v.num(j.MemPerCPUMB),
		"nodes": strings.Join(j.Nodes, ","), "gres_detail": v.detail(j),
		"tres_alloc_str": "", "job_state": append([]string{j.State.Base}, j.State.Flags...),
	}
	if j.Unlimited {
		m["time_limit"] = v.infinite()
	}
	if j.ArrayTaskID >= 0 {
		m["array_task_id"] = v.num(j.ArrayTaskID)
	}
	if j.Het {
		m["het_job_id"] = v.num(int64(j.ID))
	}
	v.byVersion(m, j)
	return m
}

// byVersion sets the fields whose shape is peculiar to a version.
func (v *view) byVersion(m map[string]any, j *slurm.Job) {
	switch {
	case v.old():
		m["job_state"], m["shared"] = j.State.Base, nil
		if j.Exclusive {
			m["shared"] = "none"
		}
		switch {
		case j.Nice == 0:
			m["nice"] = nil
		case j.Nice < 0: // printed without its sign
			m["nice"] = uint32(j.Nice)
		}
		return
	case j.Exclusive && v.version < 45:
		m["shared"] = []string{"none"}
	default:
		m["shared"] = []string{}
	}
	m["hold"] = j.Priority == 0
	if v.version >= 42 {
		m["required_switches"] = j.Switches
	}
	m["cron"] = ""
	if j.Cron {
		m["cron"], m["flags"] = "0 * * * *", []string{"CRON_JOB"}
	}
}

// detail is gres_detail: one string a node while the job holds its nodes.
func (v *view) detail(j *slurm.Job) []string {
	out := []string{}
	if !j.Running() || j.NodeGPUs == nil {
		return out
	}
	for _, n := range j.Nodes {
		kind := ""
		if node := v.s.state.Node(n); node != nil && node.GPUType != "" {
			kind = node.GPUType + ":"
		}
		text := ""
		if g := j.NodeGPUs[n]; g > 0 {
			text = fmt.Sprintf("gpu:%s%d(IDX:0-%d)", kind, g, g-1)
		}
		out = append(out, text)
	}
	return out
}

func (v *view) nodeRecord(n *slurm.Node) map[string]any {
	kind := ""
	if n.GPUType != "" {
		kind = n.GPUType + ":"
	}
	m := map[string]any{
		"name": n.Name, "reason": n.Reason, "cpus": n.CPUs, "alloc_cpus": n.CPUsUsed,
		"real_memory": n.MemoryMB, "alloc_memory": n.MemUsedMB,
		"gres": "", "gres_used": "",
		"state":           append([]string{n.State.Base}, n.State.Flags...),
		"active_features": n.Features,
	}
	if n.GPUs > 0 {
		m["gres"] = fmt.Sprintf("gpu:%s%d(S:0-1)", kind, n.GPUs)
		m["gres_used"] = fmt.Sprintf("gpu:%s%d(IDX:N/A)", kind, n.GPUsUsed)
	}
	if v.old() {
		m["state"], m["state_flags"] = strings.ToLower(n.State.Base), append([]string{}, n.State.Flags...)
		m["active_features"] = strings.Join(n.Features, ",")
	}
	return m
}

func (v *view) partitionRecord(p *slurm.Partition) map[string]any {
	longest, state := v.infinite(), "DOWN"
	if p.MaxTime > 0 {
		longest = v.num(int64(p.MaxTime / time.Minute))
	}
	if p.Up {
		state = "UP"
	}
	flags := []string{}
	if p.Default {
		flags = append(flags, "default")
	}
	if v.old() {
		return map[string]any{
			"name": p.Name, "nodes": slurm.CompressHosts(p.Nodes), "state": state, "flags": flags,
			"max_time_limit": longest, "default_time_limit": nil, "priority_tier": p.PriorityTier,
		}
	}
	m := map[string]any{
		"name":      p.Name,
		"nodes":     map[string]any{"configured": slurm.CompressHosts(p.Nodes), "total": len(p.Nodes)},
		"partition": map[string]any{"state": []string{state}},
		"maximums":  map[string]any{"time": longest},
		"defaults":  map[string]any{"time": v.unset()},
		"priority":  map[string]any{"tier": p.PriorityTier, "job_factor": 1},
	}
	if v.version >= 43 {
		m["flags"] = flags
	}
	return m
}
