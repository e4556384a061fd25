// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"rifling/agent"
	"rifling/cmd/internal/config"
	"rifling/cycle"
	"rifling/policy"
	"rifling/store"
)

// stages is a daemon with a database and no cluster.
type stages struct {
	*daemon
	t *testing.T
}

func newStages(t *testing.T) *stages {
	t.Helper()
	c := config.Default()
	c.Database = filepath.Join(t.TempDir(), "rifling.db")
	d := &stages{t: t}
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	s, err := store.Open(c.Database, store.Options{Now: func() time.Time { now = now.Add(time.Minute); return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	d.daemon = &daemon{conf: &c, log: slog.New(slog.DiscardHandler), store: s, said: map[string]bool{}}
	d.restart()
	return d
}

// restart is a new process on the same database.
func (s *stages) restart() {
	s.t.Helper()
	p, err := s.conf.NewPolicy()
	if err != nil {
		s.t.Fatal(err)
	}
	if l, ok := p.(policy.Learner); ok {
		entries, err := s.store.LoadTable(context.Background())
		if err != nil {
			s.t.Fatal(err)
		}
		l.Restore(entries)
	}
	s.loop, s.policies = &cycle.Loop{Policy: p}, policies{seen: -1}
	s.choosePolicy(context.Background())
}

func (s *stages) add(f *policy.File) string {
	s.t.Helper()
	b, v, err := f.Encode()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.store.AddPolicy(context.Background(), v, b, "test", ""); err != nil {
		s.t.Fatal(err)
	}
	return v
}

// to changes a stage and lets the next cycle look.
func (s *stages) to(version string, stage policy.Stage) {
	s.t.Helper()
	ctx := context.Background()
	last, err := s.store.LastStageChange(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	c := policy.StageChange{Version: version, Stage: stage, By: "test"}
	if stage == policy.StageShare {
		c.Share = 0.2
	}
	if err := s.store.ChangeStage(ctx, last, c); err != nil {
		s.t.Fatal(err)
	}
	s.choosePolicy(ctx)
}

func learned() *policy.File {
	m := policy.PlainModel()
	return &policy.File{Kind: policy.KindLearned, Model: &m}
}

func table(value float64) *policy.File {
	return &policy.File{Kind: policy.KindRifling, Table: &policy.TablePart{
		Params: agent.DefaultParams(), Entries: []agent.Entry{{State: "g0", Action: "pack", Value: value, Visits: 5}},
	}}
}

func (s *stages) value() float64 {
	l, ok := s.loop.Policy.(policy.Learner)
	if !ok {
		return 0
	}
	for _, e := range l.Entries() {
		if e.State == "g0" && e.Action == "pack" {
			return e.Value
		}
	}
	return 0
}

func TestAPromotionIsTakenUpWithoutARestart(t *testing.T) {
	s := newStages(t)
	configured := s.loop.Policy
	v := s.add(learned())
	s.choosePolicy(t.Context())
	if s.loop.Policy != configured {
		t.Fatal("a candidate decides")
	}
	s.to(v, policy.StageObserve)
	if s.policies.trial == nil || s.policies.trial.Share != 0 || s.policies.trial.Incumbent != configured {
		t.Fatalf("observing: %+v", s.policies.trial)
	}
	s.to(v, policy.StageShare)
	if s.policies.trial == nil || s.policies.trial.Share != 0.2 {
		t.Fatalf("a share: %+v", s.policies.trial)
	}
	s.to(v, policy.StageLive)
	if _, ok := s.loop.Policy.(*policy.Learned); !ok || s.policies.trial != nil {
		t.Fatalf("live: %T", s.loop.Policy)
	}
	s.restart()
	if _, ok := s.loop.Policy.(*policy.Learned); !ok {
		t.Fatalf("after a restart: %T", s.loop.Policy)
	}
	s.to(v, policy.StageRolledBack)
	if _, ok := s.loop.Policy.(*policy.Rifling); !ok {
		t.Fatalf("rolled back: %T", s.loop.Policy)
	}
}

// Each learner keeps its own table, whatever is in charge meanwhile.
func TestTablesAreNotMixedUp(t *testing.T) {
	s := newStages(t)
	s.loop.Policy.(policy.Learner).Restore([]policy.QEntry{{State: "g0", Action: "pack", Value: -0.5, Visits: 9}})
	v := s.add(table(-0.25))
	s.to(v, policy.StageLive)
	if got := s.value(); got != -0.25 {
		t.Fatalf("the promoted policy begins with %v, its file says -0.25", got)
	}
	// It learns, a check-point is made, and the daemon starts again.
	s.loop.Policy.(policy.Learner).Restore([]policy.QEntry{{State: "g0", Action: "pack", Value: -0.2, Visits: 6}})
	if err := s.store.SaveTable(t.Context(), time.Now(), s.loop.Policy.(policy.Learner).Entries()); err != nil {
		t.Fatal(err)
	}
	s.restart()
	if got := s.value(); got != -0.2 {
		t.Errorf("after a restart it goes on with %v, it had learned -0.2", got)
	}
	s.to(v, policy.StageRolledBack)
	if got := s.value(); got != -0.5 {
		t.Errorf("the configured policy goes on with %v, it had learned -0.5", got)
	}
	s.to(v, policy.StageLive)
	if got := s.value(); got != -0.2 {
		t.Errorf("promoted again it goes on with %v, it had learned -0.2", got)
	}
}

func TestAPolicyThatDoesHarmIsRolledBack(t *testing.T) {
	s := newStages(t)
	v := s.add(learned())
	s.to(v, policy.StageShare)
	// The daemon that ended had seen harm.
	state, err := json.Marshal(map[string]any{
		"version": v, "since": s.policies.trial.Since, "test": policy.ShareTest{Share: 0.2, Alarm: true, N: [2]int{400, 100}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.SaveState(t.Context(), policy.TrialStateName, state); err != nil {
		t.Fatal(err)
	}
	s.restart()
	if s.policies.trial == nil {
		t.Fatal("the trial does not go on after a restart")
	}
	s.followTrial(t.Context(), time.Now(), "rifling")
	s.choosePolicy(t.Context())
	if s.policies.trial != nil {
		t.Fatal("it is still tried")
	}
	changes, err := s.store.StageChanges(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	last := changes[len(changes)-1]
	if last.Stage != policy.StageRolledBack || last.By != "riflingd" || last.Why == "" {
		t.Errorf("the history says %+v", last)
	}
	// Promoted again it begins anew.
	s.to(v, policy.StageShare)
	if s.policies.trial == nil || s.policies.trial.Figures().Alarm {
		t.Error("the old alarm stands in the new trial")
	}
}

func TestAFileThatIsDamagedChangesNothing(t *testing.T) {
	s := newStages(t)
	before := s.loop.Policy
	if err := s.store.AddPolicy(t.Context(), "0123456789ab", []byte("{}"), "test", ""); err != nil {
		t.Fatal(err)
	}
	s.to("0123456789ab", policy.StageLive)
	if s.loop.Policy != before {
		t.Errorf("%T decides", s.loop.Policy)
	}
}
