// SPDX-License-Identifier: Apache-2.0

package policy

import (
	stdcmp "cmp"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rifling/profile"
	"rifling/slurm"
)

func TestShippedModelIsValid(t *testing.T) {
	for name, m := range map[string]Model{"default": DefaultModel(), "plain": PlainModel()} {
		if err := m.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad := DefaultModel()
	bad.Order.Inputs = append([]string{"user_name"}, bad.Order.Inputs[1:]...)
	bad.Margin, bad.Objective = math.NaN(), Objective{}
	err := bad.Validate()
	for _, want := range []string{`no input "user_name"`, "margin NaN", "all weights are 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

// With scorers that say nothing, learned is the rule.
func TestSilentScorersAreTheRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		plain := Learned{Model: PlainModel()}
		want, got := DefaultRule().Decide(in), plain.Decide(in)
		got.Policy = want.Policy
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("plan (-rule +learned):\n%s", diff)
		}
	})
}

func TestInputsAreFinite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)}))
		f := OrderFacts{
			Run: number.Draw(t, "run"), RunLow: number.Draw(t, "low"), RunHigh: number.Draw(t, "high"), RunMean: number.Draw(t, "mean"),
			Limit: number.Draw(t, "limit"), GPUs: rapid.Int().Draw(t, "gpus"), Nodes: rapid.Int().Draw(t, "nodes"),
			Age: number.Draw(t, "age"), Ready: number.Draw(t, "ready"), Use: number.Draw(t, "use"),
			Queue: QueueFacts{number.Draw(t, "pressure"), number.Draw(t, "broken"), number.Draw(t, "backlog")},
		}
		x := f.Inputs()
		if len(x) != len(OrderInputs) {
			t.Fatalf("%d values for %d inputs", len(x), len(OrderInputs))
		}
		for i, v := range x {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%s is %v", OrderInputs[i], v)
			}
		}
	})
}

// queued is a full node of 8 GPUs and jobs that want all of it, by ascending
// id with descending priority, of these run times in minutes.
func queued(minutes ...int) Input {
	in := withRunning(cluster(slurm.Job{}, 0), false, time.Hour, map[string]int{"gpu01": 8})
	in.Snapshot.Jobs = in.Snapshot.Jobs[1:]
	for i, m := range minutes {
		id, run := slurm.JobID(i+1), time.Duration(m)*time.Minute
		in.Snapshot.Jobs = append(in.Snapshot.Jobs, slurm.Job{
			ID: id, Partition: "gpu", State: slurm.State{Base: "PENDING"}, Priority: int64(1000 - 10*i), ArrayTaskID: -1,
			MinNodes: 1, MaxNodes: 1, Request: slurm.GPURequest{PerNode: 8}, TimeLimit: 24 * time.Hour, SubmitTime: noon.Add(-time.Minute),
		})
		in.Profiles[id] = profile.Profile{
			Group: profile.GroupUnknown, RunTime: run, RunTimeLow: run / 2, RunTimeHigh: 2 * run, RunTimeLevel: profile.LevelFamily,
		}
	}
	slices.SortFunc(in.Snapshot.Jobs, func(a, b slurm.Job) int { return stdcmp.Compare(a.ID, b.ID) })
	in.Limits.MaxOffset, in.Limits.SlackNodes = 1000, 0
	return in
}

func byOffset(in Input, p Plan) []slurm.JobID {
	type standing struct {
		id       slurm.JobID
		priority int64
	}
	var all []standing
	for _, d := range p.Decisions {
		all = append(all, standing{d.JobID, basePriority(in.Snapshot.Job(d.JobID), in) + d.Offset})
	}
	slices.SortStableFunc(all, func(a, b standing) int { return int(b.priority - a.priority) })
	var out []slurm.JobID
	for _, s := range all {
		out = append(out, s.id)
	}
	return out
}

func TestLearnedOrder(t *testing.T) {
	tests := map[string]struct {
		change func(in *Input, m *Model)
		want   []slurm.JobID
	}{
		"the shortest goes first": {func(*Input, *Model) {}, []slurm.JobID{3, 2, 1}},
		"an order out of reach is left to Slurm": {
			func(in *Input, _ *Model) { in.Limits.MaxOffset = 5 }, []slurm.JobID{1, 2, 3}},
		"a doubtful gain is left to Slurm": {
			func(_ *Input, m *Model) { m.Margin = 10 }, []slurm.JobID{1, 2, 3}},
		"who has waited half as long as may be goes first": {
			func(in *Input, _ *Model) {
				in.Limits.Starvation = 10 * time.Hour
				in.Snapshot.Job(1).SubmitTime = noon.Add(-6 * time.Hour)
			}, []slurm.JobID{1, 3, 2}},
		"another QOS is not passed": {
			func(in *Input, _ *Model) { in.Snapshot.Job(1).QOS = "high" }, []slurm.JobID{1, 3, 2}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			in, l := queued(600, 60, 5), Learned{Model: DefaultModel()}
			tc.change(&in, &l.Model)
			if diff := cmp.Diff(tc.want, byOffset(in, Restrict(l.Decide(in), in))); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

// A job that has waited too long is Slurm's alone, and nobody is lifted over it.
func TestNobodyIsLiftedOverAStarvedJob(t *testing.T) {
	in, l := queued(600, 60, 5), Learned{Model: DefaultModel()}
	in.Limits.Starvation = time.Hour
	in.Snapshot.Job(2).SubmitTime = noon.Add(-2 * time.Hour)
	for _, d := range l.Decide(in).Decisions {
		j := in.Snapshot.Job(d.JobID)
		if d.JobID == 3 && j.Priority+d.Offset >= in.Snapshot.Job(2).Priority {
			t.Errorf("job 3 is lifted to %d, over a starved job of %d", j.Priority+d.Offset, in.Snapshot.Job(2).Priority)
		}
	}
}

// What the order needs is written once: the next cycle, a minute later, finds
// it done.
func TestLearnedOrderSettles(t *testing.T) {
	in, l := queued(600, 60, 5, 61, 5), Learned{Model: DefaultModel()}
	in.Owned = map[slurm.JobID]Owner{}
	first := l.Decide(in)
	for _, d := range first.Decisions {
		if d.Offset != 0 {
			offset := d.Offset
			in.Snapshot.Job(d.JobID).Priority += offset
			in.Owned[d.JobID] = Owner{JobID: d.JobID, SetSiteFactor: &offset}
			if !strings.Contains(d.Reason, "raised to place") || !strings.Contains(d.Reason, "log_run") {
				t.Errorf("job %d is raised, and the reason is %q", d.JobID, d.Reason)
			}
		}
	}
	in.Snapshot.TakenAt = noon.Add(time.Minute)
	for i, d := range l.Decide(in).Decisions {
		if d.Offset != first.Decisions[i].Offset || d.JobID != first.Decisions[i].JobID {
			t.Errorf("job %d has offset %d after job %d had %d", d.JobID, d.Offset, first.Decisions[i].JobID, first.Decisions[i].Offset)
		}
	}
}

func TestModelForObjective(t *testing.T) {
	weight := func(m Model, name string) float64 { return m.Order.Layers[0].W[slices.Index(OrderInputs, name)] }
	short, long := ModelFor(DefaultObjective()), ModelFor(Objective{Makespan: 1})
	for name, m := range map[string]Model{"mean completion time": short, "makespan": long} {
		if err := m.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if weight(short, "log_run_mean") >= 0 || weight(short, "log_gpus") >= 0 {
		t.Error("for the mean completion time the least GPU time must come first")
	}
	if weight(long, "log_run_mean") <= 0 || weight(long, "log_gpus") <= 0 {
		t.Error("for the makespan the most GPU time must come first")
	}
	if long.Objective != (Objective{Makespan: 1}) {
		t.Errorf("the objective is %+v", long.Objective)
	}
}
