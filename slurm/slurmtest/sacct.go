// SPDX-License-Identifier: Apache-2.0

package slurmtest

import (
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
