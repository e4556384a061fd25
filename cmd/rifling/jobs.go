// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"

	"github.com/spf13/cobra"

	"rifling/report"
	"rifling/store"
)

const jobsFormat = "jobid,user,partition,name,state,gpus,group,cc,npr,action,wait,elapsed,nodes"

func (a *app) jobsCmd() *cobra.Command {
	var f filterFlags
	var t tableFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List GPU jobs with their group, rates and decisions",
		Long: "jobs lists the GPU jobs that riflingd saw pending or running in its last cycle,\n" +
			"or with -a, -j, -S or -E also those of the past.",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(a.out, t, a.jobFields(), jobsFormat, func() ([]store.Job, error) {
				filter, err := f.filter(a)
				if err != nil {
					return nil, err
				}
				filter.Current = !all && len(f.jobs) == 0 && f.since == "" && f.until == ""
				cfg, err := a.config(cmd)
				if err != nil {
					return nil, err
				}
				s, err := store.OpenReadOnly(cfg.Database)
				if err != nil {
					return nil, err
				}
				defer s.Close()
				if filter.Users, err = a.mayAsk(cfg, filter.Users); err != nil {
					return nil, err
				}
				return s.Jobs(cmd.Context(), filter)
			})
		},
	}
	f.add(cmd)
	f.addJobs(cmd)
	t.add(cmd)
	cmd.Flags().BoolVarP(&all, "all", "a", false, "jobs of the past as well")
	return cmd
}

// jobFields are the columns of a job, in the order in which -e lists them.
func (a *app) jobFields() []report.Field[store.Job] {
	return append(a.jobBasics(), a.jobFindings()...)
}

func (a *app) jobBasics() []report.Field[store.Job] {
	type j = store.Job
	text := func(name string, width int, doc string, of func(*j) string) report.Field[j] {
		return report.Field[j]{Name: name, Doc: doc, Width: width, Left: true,
			Of: func(r *j) report.Value { return report.Text(of(r)) }}
	}
	return []report.Field[j]{
		{Name: "JobID", Doc: "job id as squeue shows it", Width: 12, Of: func(r *j) report.Value { return report.Text(r.DisplayID()) }},
		{Name: "JobIDRaw", Doc: "job id without the form of arrays", Width: 10, Of: func(r *j) report.Value { return report.Int(r.ID) }},
		text("User", 9, "user", func(r *j) string { return r.User }),
		text("Account", 10, "account", func(r *j) string { return r.Account }),
		text("Partition", 9, "partition, or several of a pending job", func(r *j) string { return r.Partition }),
		text("QOS", 9, "QOS", func(r *j) string { return r.QOS }),
		text("Name", 12, "job name", func(r *j) string { return r.Name }),
		text("State", 10, "state when last seen", func(r *j) string { return r.State.String() }),
		text("Reason", 12, "why Slurm says that it waits", func(r *j) string { return r.Reason }),
		{Name: "GPUs", Doc: "GPUs asked for (a lower bound while pending) or held", Width: 4, Of: func(r *j) report.Value { return report.Int(r.GPUs) }},
		{Name: "Priority", Doc: "Slurm's priority", Width: 10, Of: func(r *j) report.Value { return report.Int(r.Priority) }},
		{Name: "Timelimit", Doc: "time limit", Width: 10, Of: func(r *j) report.Value {
			if r.Unlimited {
				return report.Text("UNLIMITED")
			}
			return report.Duration(r.TimeLimit)
		}},
		{Name: "Submit", Doc: "when it was submitted", Width: 19, Of: func(r *j) report.Value { return report.Time(a.local(r.Submit)) }},
		{Name: "Eligible", Doc: "since when it may start", Width: 19, Of: func(r *j) report.Value { return report.Time(a.local(r.Eligible)) }},
		{Name: "Start", Doc: "when it started", Width: 19, Of: func(r *j) report.Value { return report.Time(a.local(r.Start)) }},
		{Name: "End", Doc: "when it ended", Width: 19, Of: func(r *j) report.Value { return report.Time(a.local(r.End)) }},
		{Name: "Wait", Doc: "queueing delay, from eligible to start or now", Width: 10, Of: func(r *j) report.Value { return report.Duration(r.Wait()) }},
		{Name: "Elapsed", Doc: "run time so far", Width: 10, Of: func(r *j) report.Value { return report.Duration(r.Elapsed()) }},
		{Name: "Nodes", Doc: "nodes of a started job", Left: true, Of: func(r *j) report.Value { return report.Nodes(r.Nodes) }},
		{Name: "Seen", Doc: "when riflingd last saw it", Width: 19, Of: func(r *j) report.Value { return report.Time(a.local(r.LastSeen)) }},
	}
}

func (a *app) jobFindings() []report.Field[store.Job] {
	type j = store.Job
	decided := func(r *j, of func(*store.Decision) report.Value) report.Value {
		if r.Decision == nil {
			return report.None
		}
		return of(r.Decision)
	}
	return []report.Field[j]{
		{Name: "Group", Doc: "group by computation-communication ratio, 0 the most communication-bound", Width: 7,
			Of: func(r *j) report.Value { return report.Text(store.GroupName(r.Profile.Group)) }},
		{Name: "CC", Doc: "computation-communication ratio", Width: 6, Of: func(r *j) report.Value {
			if !r.Known() {
				return report.None
			}
			return report.Float(math.Exp(r.Profile.LogCC), 2)
		}},
		{Name: "CCLevel", Doc: "how near to the job the evidence for CC is", Width: 9, Left: true,
			Of: func(r *j) report.Value { return report.Text(string(r.Profile.Level)) }},
		{Name: "CCCount", Doc: "samples behind CC", Width: 7, Of: func(r *j) report.Value { return report.Int(r.Profile.Count) }},
		{Name: "NPR", Doc: "normalized processing rate, 0 to 1", Width: 5, Of: func(r *j) report.Value {
			if r.Profile.NPRCount == 0 {
				return report.None
			}
			return report.Float(r.Profile.NPR, 2)
		}},
		{Name: "RunTime", Doc: "predicted run time", Width: 10, Of: func(r *j) report.Value {
			if r.Profile.RunTime == 0 {
				return report.None
			}
			return report.Duration(r.Profile.RunTime)
		}},
		{Name: "Family", Doc: "family that it belongs to", Left: true, Of: func(r *j) report.Value { return report.Text(r.Profile.Family) }},
		{Name: "Action", Doc: "last decision: leave, pack, leaf, even, quiet, wait, skipped or none", Width: 7, Left: true,
			Of: func(r *j) report.Value { return report.Text(store.ActionName(r.Decision)) }},
		{Name: "Mode", Doc: "mode in which it was decided", Width: 7, Left: true, Of: func(r *j) report.Value {
			return decided(r, func(d *store.Decision) report.Value { return report.Text(d.Mode) })
		}},
		{Name: "Decided", Doc: "when the last decision was first made", Width: 19, Of: func(r *j) report.Value {
			return decided(r, func(d *store.Decision) report.Value { return report.Time(a.local(d.FirstAt)) })
		}},
		{Name: "Candidates", Doc: "nodes that it was narrowed to; empty: all", Left: true, Of: func(r *j) report.Value {
			return decided(r, func(d *store.Decision) report.Value { return report.Nodes(d.Candidates) })
		}},
		{Name: "Offset", Doc: "priority points added", Width: 6, Of: func(r *j) report.Value {
			return decided(r, func(d *store.Decision) report.Value { return report.Int(d.Offset) })
		}},
		{Name: "Owned", Doc: "whether rifling has something set on it", Width: 5, Of: func(r *j) report.Value { return report.Bool(r.Owned) }},
		{Name: "Why", Doc: "the decision in a sentence", Left: true, Of: func(r *j) report.Value {
			return decided(r, func(d *store.Decision) report.Value { return report.Text(d.Reason) })
		}},
	}
}
