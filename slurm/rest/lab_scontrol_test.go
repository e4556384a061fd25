// SPDX-License-Identifier: Apache-2.0

//go:build lab

package rest

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rifling/slurm"
)

var scontrolField = regexp.MustCompile(`(?:^|\s)([A-Z][A-Za-z:/]*)=`)

// scontrol reads "scontrol show job" as fields by record.
func (l *lab) scontrol() map[slurm.JobID]map[string]string {
	out := map[slurm.JobID]map[string]string{}
	for line := range strings.SplitSeq(l.must("root", "scontrol -o -d show job"), "\n") {
		at := scontrolField.FindAllStringSubmatchIndex(line, -1)
		f := map[string]string{}
		for i, m := range at {
			end := len(line)
			if i+1 < len(at) {
				end = at[i+1][0]
			}
			key := line[m[2]:m[3]]
			if _, seen := f[key]; !seen { // Nodes= comes again for each node
				f[key] = strings.TrimSpace(line[m[1]:end])
			}
		}
		if id, err := strconv.ParseUint(f["JobId"], 10, 32); err == nil {
			out[slurm.JobID(id)] = f
		}
	}
	return out
}

func TestLabScontrol(t *testing.T) {
	l := needLab(t)
	l.cleanUp()
	c := l.client("tcp")
	first := l.submit("--gpus=2 -t 10")
	for _, options := range []string{
		"-N2 --gpus-per-node=a100:1 -t 10", "-n3 --gpus-per-task=1 -t 10", "-N1 --gres=gpu:a100:2 -t 10",
		"-N1-3 --gpus=3 -t 10", "-N1-3 --gpus=12 -t 30", "--exclusive -N1 --gpus=1 -t 10", "--exclusive=user -N1 --gpus=1 -t 10",
		"-n1 -t 10", "--array=1-6%2 --gpus=1 -t 10", "--array=1-3 -N2 --gpus-per-node=8 -t 20", "--hold --gpus=1 -t 10",
		fmt.Sprintf("--dependency=afterany:%d --gpus=1 -t 10", first), fmt.Sprintf("--hold --dependency=afterok:%d --gpus=1", first),
		"--begin=now+3600 --gpus=1 -t 10", "--switches=1@5 -N2 --gpus=2 -t 10", "--nodelist=gpu03 --gpus=1 -t 10",
		"--exclude=gpu01,gpu02 --gpus=1 -t 10", "--gpus=1 -t UNLIMITED", "--gpus=1", "-p gpu,short --gpus=1 -t 5",
		"-N8 --gpus-per-node=8 -t 1-02:03:00 --nice=17 --comment hello", "--oversubscribe --gpus=1 -t 10",
		"--sockets-per-node=2 --gpus-per-socket=1 -t 10",
	} {
		if out, err := l.sh("alice", "cd /tmp && sbatch --parsable -J rest-test -o /dev/null "+options+" --wrap 'sleep 900'"); err != nil {
			t.Errorf("sbatch %s: %s", options, out)
		}
	}
	l.must("alice", `cd /tmp && printf '#!/bin/sh\nsleep 900\n' >rest.sh && sbatch -J rest-het -o /dev/null -t 10 -N1 --gpus=1 : -N1 --gpus=1 rest.sh && sbatch -J rest-test -o /dev/null -t 10 --gpus=1 rest.sh a b`)
	var differ map[string]string
	for range 6 {
		differ = map[string]string{}
		s, err := c.Snapshot(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		want := l.scontrol()
		compared := 0
		for id, f := range want {
			j := s.Job(id)
			if j == nil {
				differ[fmt.Sprint(id)] = "missing"
				continue
			}
			for key, pair := range fieldsOf(j, f) {
				compared++
				if pair[0] != pair[1] {
					differ[fmt.Sprintf("%d %s", id, key)] = fmt.Sprintf("%q, scontrol %q", pair[0], pair[1])
				}
			}
		}
		t.Logf("%d jobs, %d fields compared, %d differ", len(want), compared, len(differ))
		if len(differ) == 0 {
			return
		}
		time.Sleep(time.Second)
	}
	for _, key := range slices.Sorted(maps.Keys(differ)) {
		t.Errorf("%s: %s", key, differ[key])
	}
}

// fieldsOf pairs what the client decoded with what scontrol prints.
func fieldsOf(j *slurm.Job, f map[string]string) map[string][2]string {
	null := func(s string) string {
		if s == "(null)" || s == "N/A" || s == "Unknown" || s == "None" {
			return ""
		}
		return s
	}
	hosts := func(s string) string {
		list, _ := slurm.ExpandHosts(null(s))
		return strings.Join(list, ",")
	}
	when := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return at.UTC().Format("2006-01-02T15:04:05")
	}
	user, _, _ := strings.Cut(f["UserId"], "(")
	least, most, ranged := strings.Cut(f["NumNodes"], "-")
	if !ranged {
		most = least
	}
	limit := f["TimeLimit"]
	if limit == "Partition_Limit" {
		limit = "01:00:00"
	}
	got := "UNLIMITED"
	if !j.Unlimited {
		got = slurm.FormatDuration(j.TimeLimit)
	}
	dependency, _, _ := strings.Cut(null(f["Dependency"]), "(")
	out := map[string][2]string{
		"name":       {j.Name, f["JobName"]},
		"user":       {j.User, user},
		"account":    {j.Account, f["Account"]},
		"qos":        {j.QOS, f["QOS"]},
		"partition":  {j.Partition, f["Partition"]},
		"priority":   {fmt.Sprint(j.Priority), f["Priority"]},
		"nice":       {fmt.Sprint(j.Nice), f["Nice"]},
		"state":      {j.State.Base, f["JobState"]},
		"restarts":   {fmt.Sprint(j.Restarts), f["Restarts"]},
		"limit":      {got, limit},
		"submit":     {when(j.SubmitTime), null(f["SubmitTime"])},
		"eligible":   {when(j.EligibleTime), null(f["EligibleTime"])},
		"required":   {strings.Join(j.RequiredNodes, ","), hosts(f["ReqNodeList"])},
		"excluded":   {strings.Join(j.ExcludedNodes, ","), hosts(f["ExcNodeList"])},
		"nodes":      {strings.Join(j.Nodes, ","), hosts(f["NodeList"])},
		"least":      {fmt.Sprint(j.MinNodes), least},
		"tasks":      {fmt.Sprint(j.Tasks), f["NumTasks"]},
		"features":   {j.Features, null(f["Features"])},
		"comment":    {j.Comment, null(f["Comment"])},
		"dir":        {j.WorkDir, f["WorkDir"]},
		"array":      {fmt.Sprint(j.ArrayJobID), cmpOr(f["ArrayJobId"], "0")},
		"het":        {fmt.Sprint(j.Het), fmt.Sprint(f["HetJobId"] != "")},
		"held":       {fmt.Sprint(j.Held), fmt.Sprint(f["JobState"] == "PENDING" && f["Priority"] == "0" && f["Reason"] != "BadConstraints")},
		"dependency": {strings.SplitN(j.Dependency, "(", 2)[0], dependency},
		"reserved":   {j.Reservation, null(f["Reservation"])},
	}
	if reason := null(f["Reason"]); reason != strings.ReplaceAll(j.Description, " ", "_") {
		out["reason"] = [2]string{null(j.Reason), reason}
	}
	if !j.Done() {
		out["cpus"] = [2]string{fmt.Sprint(j.CPUs), f["NumCPUs"]}
	}
	if tasks := f["NumTasks"]; tasks == "N/A" {
		out["tasks"] = [2]string{fmt.Sprint(j.Tasks), "0"}
	}
	if j.Pending() && j.MaxNodes > 0 {
		out["most"] = [2]string{fmt.Sprint(j.MaxNodes), most}
	}
	if j.ArrayTaskID >= 0 {
		out["task"] = [2]string{fmt.Sprint(j.ArrayTaskID), f["ArrayTaskId"]}
	} else if !j.Done() {
		out["tasks string"] = [2]string{j.ArrayTaskString, f["ArrayTaskId"]}
	}
	switch over := f["OverSubscribe"]; {
	case f["Exclusive"] != "":
		out["exclusive"] = [2]string{fmt.Sprint(j.Exclusive), fmt.Sprint(f["Exclusive"] != "NO")}
	default:
		out["exclusive"] = [2]string{fmt.Sprint(j.Exclusive), fmt.Sprint(over == "NO" || over == "USER" || over == "MCS")}
	}
	for _, way := range []struct {
		key string
		n   int
	}{
		{"TresPerJob", j.Request.PerJob}, {"TresPerNode", j.Request.PerNode},
		{"TresPerTask", j.Request.PerTask}, {"TresPerSocket", j.Request.PerSocket},
	} {
		text := f[way.key]
		digits := text[strings.LastIndexAny(text, ":=")+1:]
		out[way.key] = [2]string{fmt.Sprint(way.n), cmpOr(digits, "0")}
	}
	if j.Running() && j.WantsGPU() {
		t, _ := slurm.ParseTRES(cmpOr(f["AllocTRES"], f["TRES"]))
		out["gpus"] = [2]string{fmt.Sprint(j.Total()), fmt.Sprint(t.GPUs())}
	}
	return out
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}
