// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"rifling/cmd/internal/config"
	"rifling/cycle"
	"rifling/slurm"
	"rifling/slurm/slurmtest"
	"rifling/store"
)

// What was imported teaches the book at the start, once a day anew, and goes
// by its own retention.
func TestPastJobsTeachTheBook(t *testing.T) {
	c := config.Default()
	c.Database = filepath.Join(t.TempDir(), "rifling.db")
	s, err := store.Open(c.Database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	book, err := c.Book()
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{conf: &c, log: slog.New(slog.DiscardHandler), store: s, loop: &cycle.Loop{Book: book}, said: map[string]bool{}}
	now := time.Now().Truncate(time.Second)
	save := func(first slurm.JobID, n int, ended time.Time) {
		t.Helper()
		var runs []slurm.PastJob
		for i := range n {
			runs = append(runs, slurm.PastJob{
				ID: first + slurm.JobID(i), ArrayTaskID: -1, Name: "train", User: "ada", Account: "lab", Partition: "gpu",
				State: slurm.State{Base: "COMPLETED"}, Submit: ended.Add(-2 * time.Hour), Start: ended.Add(-time.Hour), End: ended,
				Elapsed: time.Hour, TimeLimit: 10 * time.Hour, GPUs: 4, NodeCount: 1, Nodes: []string{"gpu01"}, GPUUtil: -1, GPUMemory: -1,
			})
		}
		if _, _, err := s.PastWriter().SavePast(context.Background(), runs, time.Time{}, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	predicted := func() time.Duration {
		snap := slurmtest.Snapshot().Nodes("gpu[01-02]", 8).
			Jobs(slurmtest.Job(9000).Name("train").User("ada").Account("lab").GPUs(4).TimeLimit(10 * time.Hour)).Obj()
		book.Track(snap)
		return book.Profiles(snap)[9000].RunTime
	}
	save(1, 5, now.Add(-200*24*time.Hour)) // too long ago to learn from
	d.learnPast(context.Background())
	if got := predicted(); got != 0 {
		t.Errorf("predicted %s from what ended 200 days ago", got)
	}
	save(100, 20, now.Add(-time.Hour))
	d.learnPast(context.Background()) // not again within a day
	if got := predicted(); got != 0 {
		t.Errorf("learnt twice a day: %s", got)
	}
	d.learned = now.Add(-25 * time.Hour)
	d.learnPast(context.Background())
	if got := predicted(); got < 50*time.Minute || got > 70*time.Minute {
		t.Errorf("predicted %s, twenty runs took an hour", got)
	}

	c.History.Retention = 100 * 24 * time.Hour
	d.prune(context.Background(), now)
	st, err := s.PastStatus(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if st.Runs != 20 {
		t.Errorf("%d runs are left of 20", st.Runs)
	}
}
