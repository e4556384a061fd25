// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseSlurmConf(t *testing.T) {
	s, parts, err := ParseSlurmConf(strings.NewReader(`# a site's
ClusterName=x
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=10,bf_window=1440
PriorityType=priority/multifactor   # not basic
PriorityWeightAge=1000
PriorityMaxAge=1-0
PriorityDecayHalfLife=7-0
PriorityCalcPeriod=1
NodeName=gpu[01-08] Gres=gpu:8
PartitionName=DEFAULT State=UP
PartitionName=gpu Nodes=ALL Default=YES DefaultTime=1:00:00 MaxTime=7-0 PriorityTier=1
PartitionName=short Nodes=ALL MaxTime=INFINITE PriorityTier=2 PriorityJobFactor=3
schedulerparameters=bf_interval=30,bf_resolution=120,bf_max_job_test=1000,default_queue_depth=50,sched_min_interval=2000000,bf_continue
`))
	if err != nil {
		t.Fatal(err)
	}
	if s.Basic || s.NoBackfill || s.Weights != (PriorityWeights{Age: 1000}) || s.MaxAge != 24*time.Hour ||
		s.HalfLife != 7*24*time.Hour || s.Calc != time.Minute {
		t.Errorf("priority: %+v", s)
	}
	if s.BackfillInterval != 30*time.Second || s.BackfillResolution != 2*time.Minute || s.BackfillDepth != 1000 ||
		s.Depth != 50 || s.MinInterval != 2*time.Second {
		t.Errorf("scheduler: %+v", s)
	}
	if s.BackfillWindow != DefaultSlurm().BackfillWindow {
		t.Errorf("bf_window %v: the later line counts as a whole", s.BackfillWindow)
	}
	want := []PartitionSpec{
		{Name: "gpu", Tier: 1, MaxTime: 7 * 24 * time.Hour, DefaultTime: time.Hour},
		{Name: "short", Tier: 2, JobFactor: 3},
	}
	if diff := cmp.Diff(want, parts); diff != "" {
		t.Errorf("partitions, want -, got +:\n%s", diff)
	}
}

func TestParseSlurmConfNamesTheLine(t *testing.T) {
	for _, line := range []string{"PriorityWeightAge=lots", "PriorityMaxAge=soon", "PartitionName=a PriorityTier=high"} {
		if _, _, err := ParseSlurmConf(strings.NewReader("ClusterName=x\n" + line + "\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v, want an error that names line 2", line, err)
		}
	}
}
