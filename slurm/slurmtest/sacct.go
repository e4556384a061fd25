// SPDX-License-Identifier: Apache-2.0

package slurmtest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"rifling/slurm"
)

// SacctColumns are the fields of a row by SacctRow, in sacct's names.
const SacctColumns = "JobIDRaw,JobID,Cluster,User,Account,Partition,QOS,State,ExitCode,Submit,Eligible,Start,End," +
	"ElapsedRaw,Suspended,TimelimitRaw,Priority,Restarts,AllocTRES,ReqTRES,NodeList,JobName,SubmitLine"

// SacctHeader is the first line that sacct --parsable2 writes.
func SacctHeader(delimiter string) string {
	return strings.ReplaceAll(SacctColumns, ",", delimiter) + "\n"
}

// AppendSacctRow writes a run as sacct --allocations --parsable2 --noconvert
// does under SLURM_TIME_FORMAT=%s.
func AppendSacctRow(b []byte, j *slurm.PastJob, delimiter string) []byte {
	id := strconv.Itoa(int(j.ID))
	switch {
	case j.ArrayJobID != 0 && j.ArrayTaskID >= 0:
		id = fmt.Sprintf("%d_%d", j.ArrayJobID, j.ArrayTaskID)
	case j.ArrayJobID != 0:
		id = fmt.Sprintf("%d_[1-9%%2]", j.ArrayJobID)
	case j.HetJobID != 0:
		id = fmt.Sprintf("%d+%d", j.HetJobID, j.ID-j.HetJobID)
	}
	state := j.State.Base
	if state == "CANCELLED" {
		state += " by 1000"
	}
	exit := fmt.Sprintf("%d:0", j.ExitCode)
	if j.ExitCode > 128 {
		exit = fmt.Sprintf("0:%d", j.ExitCode-128)
	}
	limit := strconv.Itoa(int(j.TimeLimit / time.Minute))
	switch {
	case j.Unlimited:
		limit = "UNLIMITED"
	case j.TimeLimit == 0:
		limit = "Partition_Limit"
	}
	tres := fmt.Sprintf("billing=%d,cpu=%d,mem=64000M,node=%d", j.CPUs, j.CPUs, j.NodeCount)
	if j.GPUs > 0 {
		tres += fmt.Sprintf(",gres/gpu=%d", j.GPUs)
		if j.GPUType != "" {
			tres += fmt.Sprintf(",gres/gpu:%s=%d", j.GPUType, j.GPUs)
		}
	}
	allocated, nodes := tres, slurm.CompressHosts(j.Nodes)
	if len(j.Nodes) == 0 {
		allocated, nodes = "", "None assigned"
	}
	for i, field := range []string{
		strconv.Itoa(int(j.ID)), id, j.Cluster, j.User, j.Account, j.Partition, j.QOS, state, exit,
		sacctTime(j.Submit), sacctTime(j.Eligible), sacctTime(j.Start), sacctTime(j.End),
		strconv.Itoa(int(j.Elapsed / time.Second)), slurm.FormatDuration(j.Suspended), limit,
		strconv.FormatInt(j.Priority, 10), strconv.Itoa(j.Restarts), allocated, tres, nodes, j.Name, j.Command,
	} {
		if i > 0 {
			b = append(b, delimiter...)
		}
		b = append(b, field...)
	}
	return append(b, '\n')
}

func sacctTime(t time.Time) string {
	if t.IsZero() {
		return "Unknown"
	}
	return strconv.FormatInt(t.Unix(), 10)
}

// AppendPastJSON writes a run as slurmdbd's answer of v0.0.40 and later has it,
// without its steps, but for what nobody reads.
func AppendPastJSON(b []byte, j *slurm.PastJob) []byte {
	tres := func(allocated bool) string {
		if allocated && len(j.Nodes) == 0 {
			return "[]"
		}
		out := fmt.Sprintf(`[{"type":"cpu","name":"","id":1,"count":%d},{"type":"mem","name":"","id":2,"count":64000},{"type":"node","name":"","id":4,"count":%d},{"type":"billing","name":"","id":5,"count":%d}`, j.CPUs, j.NodeCount, j.CPUs)
		if j.GPUs > 0 {
			out += fmt.Sprintf(`,{"type":"gres","name":"gpu","id":1001,"count":%d}`, j.GPUs)
			if j.GPUType != "" {
				out += fmt.Sprintf(`,{"type":"gres","name":"gpu:%s","id":1002,"count":%d}`, j.GPUType, j.GPUs)
			}
		}
		return out + "]"
	}
	number := func(n int64, set bool) string {
		return fmt.Sprintf(`{"set":%t,"infinite":false,"number":%d}`, set, n)
	}
	limit := number(int64(j.TimeLimit/time.Minute), j.TimeLimit > 0)
	if j.Unlimited {
		limit = `{"set":false,"infinite":true,"number":0}`
	}
	code, signal := j.ExitCode, 0
	if code > 128 {
		code, signal = 0, code-128
	}
	state := j.State.Base
	if state == "REQUEUED" {
		state = `PENDING","REQUEUED`
	}
	nodes := slurm.CompressHosts(j.Nodes)
	if nodes == "" {
		nodes = "None assigned"
	}
	seconds := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return t.Unix()
	}
	return fmt.Appendf(b, `{"account":%s,"comment":{"administrator":"","job":"","system":""},"allocation_nodes":%d,`+
		`"array":{"job_id":%d,"limits":{"max":{"running":{"tasks":0}}},"task_id":%s,"task":""},`+
		`"association":{"account":%s,"cluster":%s,"partition":"","user":%s,"id":5},"block":"","cluster":%s,"constraints":"","container":"",`+
		`"derived_exit_code":{"status":["SUCCESS"],"return_code":{"set":true,"infinite":false,"number":0},"signal":{"id":{"set":false,"infinite":false,"number":0},"name":""}},`+
		`"time":{"elapsed":%d,"eligible":%d,"end":%d,"planned":{"set":true,"infinite":false,"number":15},"start":%d,"submission":%d,"suspended":%d,`+
		`"system":{"seconds":0,"microseconds":0},"limit":%s,"total":{"seconds":0,"microseconds":0},"user":{"seconds":0,"microseconds":0}},`+
		`"exit_code":{"status":["SUCCESS"],"return_code":%s,"signal":{"id":%s,"name":""}},"extra":"","failed_node":"","flags":["START_RECEIVED"],"group":"staff",`+
		`"het":{"job_id":%d,"job_offset":{"set":false,"infinite":false,"number":0}},"job_id":%d,"name":%s,"licenses":"","mcs":{"label":""},"nodes":%q,"partition":%s,"hold":false,`+
		`"priority":%s,"qos":%s,"qosreq":"","required":{"CPUs":%d,"memory_per_cpu":{"set":false,"infinite":false,"number":0},"memory_per_node":{"set":true,"infinite":false,"number":0}},`+
		`"kill_request_user":"","restart_cnt":%d,"reservation":{"id":0,"name":""},"script":"","stdout":"/dev/null","stderr":"","stdin":"/dev/null",`+
		`"state":{"current":["%s"],"reason":"None"},"steps":[],"submit_line":%s,"tres":{"allocated":%s,"requested":%s},"used_gres":"","user":%s,"wckey":{"wckey":"","flags":[]},"working_directory":"/tmp"}`,
		quoted(j.Account), len(j.Nodes), j.ArrayJobID, number(j.ArrayTaskID, j.ArrayTaskID >= 0),
		quoted(j.Account), quoted(j.Cluster), quoted(j.User), quoted(j.Cluster),
		j.Elapsed/time.Second, seconds(j.Eligible), seconds(j.End), seconds(j.Start), seconds(j.Submit), j.Suspended/time.Second, limit,
		number(int64(code), true), number(int64(signal), signal > 0),
		j.HetJobID, j.ID, quoted(j.Name), nodes, quoted(j.Partition), number(j.Priority, true), quoted(j.QOS), j.CPUs, j.Restarts,
		state, quoted(j.Command), tres(true), tres(false), quoted(j.User))
}

func quoted(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always can
	}
	return b
}
