// SPDX-License-Identifier: Apache-2.0

package slurmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"rifling/slurm"
)

// update carries out POST /job/{id} and lists it.
func (v *view) update(id string, raw []byte) reply {
	body := map[string]any{}
	if json.Unmarshal(raw, &body) != nil {
		return v.fail(http.StatusBadRequest, 9001, "Failure during parsing", "body")
	}
	n, err := strconv.ParseUint(id, 10, 32)
	a := v.fail(http.StatusUnprocessableEntity, 9000, "Submit job update against Array Job's JobID instead of array task id", id)
	if err == nil {
		a = v.change(slurm.JobID(n), body)
	}
	v.s.posts = append(v.s.posts, Post{JobID: slurm.JobID(n), Body: body, Status: a.status})
	return a
}

// change applies the body to a job, or none of it.
func (v *view) change(id slurm.JobID, body map[string]any) reply {
	j := v.s.state.Job(id)
	if j == nil {
		return v.gone(fmt.Sprint(id))
	}
	next, site := *j, v.s.site[id]
	var warnings []any
	for _, key := range keys(body) {
		a, warning := v.set(&next, &site, key, body[key])
		if a != nil {
			return *a
		}
		if warning != "" {
			warnings = append(warnings, map[string]any{"description": warning, "source": "#/" + key + "/"})
		}
	}
	next.Priority += (site - v.s.site[id]) - (next.Nice - j.Nice)
	if j.Priority == 0 || next.Priority < 1 {
		next.Priority = min(j.Priority, 1)
	}
	*j, v.s.site[id] = next, site
	v.s.changed["jobs"] = v.s.state.TakenAt
	a := v.ok(map[string]any{})
	switch {
	case v.old() && j.ArrayJobID == j.ID:
		// v0.0.38 calls an array's success a failure, without a number.
		a.body["errors"] = []any{map[string]any{"description": "job array update from [test] failed", "source": "_parse_job_list"}}
	case !v.old() && warnings != nil:
		a.body["warnings"] = warnings
	}
	return a
}

func keys(m map[string]any) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// set applies one key. It returns an answer when the whole change is refused,
// or a warning.
func (v *view) set(j *slurm.Job, site *int64, key string, value any) (refusal *reply, warning string) {
	exclude, require := "excluded_nodes", "required_nodes"
	if v.old() {
		exclude, require = "exclude_nodes", "nodelist"
	}
	switch {
	case key == exclude:
		return v.setHosts(j, &j.ExcludedNodes, value)
	case key == require:
		return v.setHosts(j, &j.RequiredNodes, value)
	case key == "nice":
		n, ok := value.(float64)
		if !ok {
			return v.refuse(http.StatusBadRequest, 9001, "Failure during parsing"), ""
		}
		j.Nice = int64(n)
	case key == "site_factor" && !v.old():
		n, ok := value.(float64)
		if !ok {
			return v.refuse(http.StatusUnprocessableEntity, 9000, "Query empty or not RFC7320 compliant"), ""
		}
		*site = int64(n) - 1<<31
	case v.old():
		return v.refuse(http.StatusOK, 9001, "Failure during parsing"), ""
	default:
		return nil, fmt.Sprintf("Ignoring unknown field %q", key)
	}
	return nil, ""
}

// setHosts changes a node list of a pending job.
func (v *view) setHosts(j *slurm.Job, list *[]string, value any) (refusal *reply, warning string) {
	text, isString := value.(string)
	if items, ok := value.([]any); ok && !v.old() {
		if len(items) == 0 {
			return nil, "" // changes nothing, and says nothing
		}
		var names []string
		for _, item := range items {
			names = append(names, fmt.Sprint(item))
		}
		text, isString = strings.Join(names, ","), true
	}
	hosts, err := slurm.ExpandHosts(text)
	if err != nil || !isString {
		return v.refuse(http.StatusBadRequest, 9001, "Failure during parsing"), ""
	}
	for _, h := range hosts {
		if v.s.state.Node(h) == nil {
			return v.refuse(http.StatusInternalServerError, 2018, "Invalid node name specified"), ""
		}
	}
	switch {
	case slices.Equal(hosts, *list):
	case j.Done():
		return v.refuse(http.StatusInternalServerError, 2084, "Job has already finished"), ""
	case !j.Pending():
		return v.refuse(http.StatusInternalServerError, 2073, "Job is no longer pending execution"), ""
	}
	*list = hosts
	return nil, fmt.Sprintf("Expected OpenAPI type=array (Slurm type=list) but got OpenAPI type=string: %q", text)
}

func (v *view) refuse(status, number int, text string) *reply {
	a := v.fail(status, number, text, "slurm_update_job2()")
	return &a
}
