// SPDX-License-Identifier: Apache-2.0

// Command screens takes pictures of the status page with a real browser: of an
// empty cluster, of one like the lab's with days of history, and of 1,000 nodes
// with 10,000 jobs; light, dark, and as wide as a telephone.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"rifling/contrib/browser"
	"rifling/contrib/scene"
	"rifling/slurm"
)

func main() {
	out := flag.String("out", "dist/screens", "folder for the pictures")
	only := flag.String("only", "", "regular expression of the pictures to take, e.g. lab-queue")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *out, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "screens:", err)
		os.Exit(1)
	}
}

// stage is one scene with the pages to take of it.
type stage struct {
	name  string
	pages [][2]string // name, path
	setup func(ctx context.Context, dir string, now time.Time) (snap *slurm.Snapshot, db string, err error)
	mode  string
	count int // readings of counters to send
}

var stages = []stage{
	{
		name: "empty", mode: "observe",
		pages: [][2]string{{"overview", "/"}, {"cluster", "/cluster"}, {"queue", "/queue"}, {"learning", "/learning"}, {"qtable", "/qtable"}},
		setup: func(_ context.Context, _ string, now time.Time) (*slurm.Snapshot, string, error) {
			return scene.Empty(now), "", nil
		},
	},
	{
		name: "lab", mode: "steer", count: 16,
		pages: [][2]string{
			{"overview", "/"}, {"cluster", "/cluster"}, {"cluster-table", "/cluster?view=table"}, {"node", "/nodes/gpu01"}, {"queue", "/queue"},
			{"running", "/queue?state=running"}, {"decisions", "/decisions"}, {"learning", "/learning?span=7d"}, {"qtable", "/qtable?tried=1"},
			{"finished", "/finished"}, {"job", "JOB"}, {"job-hostile", "/jobs/90001"},
		},
		setup: func(ctx context.Context, dir string, now time.Time) (*slurm.Snapshot, string, error) {
			db := filepath.Join(dir, "lab.db")
			snap, err := scene.Lab(ctx, db, now, 1)
			return snap, db, err
		},
	},
	{
		name: "large", mode: "steer", count: 6,
		pages: [][2]string{{"overview", "/"}, {"cluster", "/cluster"}, {"queue", "/queue"}, {"queue-page", "/queue?page=30&sort=gpus"}, {"decisions", "/decisions"}},
		setup: func(_ context.Context, _ string, now time.Time) (*slurm.Snapshot, string, error) {
			return scene.Large(now, 1), "", nil
		},
	},
}

// views are the ways in which each page is looked at.
var views = []struct {
	name string
	look browser.Look
	most int
}{
	{"light", browser.Look{Width: 1440, Height: 900}, 1500},
	{"dark", browser.Look{Width: 1440, Height: 900, Dark: true}, 1500},
	{"phone", browser.Look{Width: 390, Height: 844, Scale: 2}, 1700},
}

func run(ctx context.Context, out, only string) error {
	want, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	b, err := browser.Start(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	dir, err := os.MkdirTemp("", "rifling-screens-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // in the system's folder for such
	bin, err := scene.Build(ctx, dir)
	if err != nil {
		return err
	}
	for _, s := range stages {
		if err := s.take(ctx, b, bin, filepath.Join(dir, s.name), out, want); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// wanted lists the pictures of a stage that are asked for.
func (s *stage) wanted(want *regexp.Regexp) bool {
	for _, p := range s.pages {
		for _, v := range views {
			if want.MatchString(s.name + "-" + p[0] + "-" + v.name) {
				return true
			}
		}
	}
	return false
}

func (s *stage) take(ctx context.Context, b *browser.Browser, bin, dir, out string, want *regexp.Regexp) error {
	if !s.wanted(want) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	snap, db, err := s.setup(ctx, dir, time.Now())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	d, err := scene.Start(ctx, snap, scene.Options{Bin: bin, Dir: dir, DB: db, Mode: s.mode, Config: "interval: 2s\nprofile: {regroup-every: 10s}"})
	if err != nil {
		return err
	}
	defer d.Close()
	if s.count > 0 {
		if err := d.Count(ctx, snap, s.count); err != nil {
			return err
		}
		if err := d.Wait(ctx, "/", "of the best seen"); err != nil {
			return err
		}
		time.Sleep(12 * time.Second) // another grouping, with the counters
	}
	for _, v := range views {
		tab, err := b.Tab(v.look)
		if err != nil {
			return err
		}
		for _, p := range s.pages {
			name := s.name + "-" + p[0] + "-" + v.name
			if !want.MatchString(name) {
				continue
			}
			path := p[1]
			if path == "JOB" {
				path = fmt.Sprintf("/jobs/%d", waiting(snap))
			}
			if err := picture(tab, d.URL+path, filepath.Join(out, name+".png"), v.most); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		tab.Close()
	}
	return nil
}

func picture(tab *browser.Tab, url, file string, most int) error {
	if err := tab.Open(url); err != nil {
		return err
	}
	png, err := tab.Picture(most)
	if err != nil {
		return err
	}
	if f := tab.Faults(); len(f) > 0 {
		return fmt.Errorf("the page has faults: %s", strings.Join(f, "; "))
	}
	fmt.Println(file)
	return os.WriteFile(file, png, 0o644)
}

// waiting returns a job that waits, of those that were not added for their
// names.
func waiting(s *slurm.Snapshot) slurm.JobID {
	for i := range s.Jobs {
		if s.Jobs[i].Pending() {
			return s.Jobs[i].ID
		}
	}
	return s.Jobs[0].ID
}
