// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"rifling/cmd/internal/brake"
	"rifling/cmd/internal/config"
	"rifling/cycle"
)

func TestTheAdminsWord(t *testing.T) {
	dir := t.TempDir()
	c := config.Default()
	c.Database, c.Brakes.KillSwitch = filepath.Join(dir, "rifling.db"), filepath.Join(dir, "stop")
	c.Brakes.QuietHours, c.Brakes.TimeZone = []string{"mon-fri 08:00-18:00"}, "Europe/Berlin"
	d := &daemon{conf: &c, log: slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil)), said: map[string]bool{}}
	quiet, err := c.QuietHours()
	if err != nil {
		t.Fatal(err)
	}
	monday, sunday := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	says := func(now time.Time, kind, why, ends string) {
		t.Helper()
		h := d.word(now, quiet)
		if h == nil {
			h = &cycle.Held{}
		}
		if h.Kind != kind || h.Why != why || h.Ends != ends {
			t.Errorf("held %+v, want %q %q %q", h, kind, why, ends)
		}
	}
	says(sunday, "", "", "")
	says(monday, cycle.HeldQuiet, "quiet hours", "ends at "+monday.Add(8*time.Hour).Local().Format("2006-01-02 15:04 MST"))
	if err := brake.Write(c.PauseFile(), brake.Pause{By: "root", Why: "new switches", At: sunday}); err != nil {
		t.Fatal(err)
	}
	says(sunday, cycle.HeldPause, "root: new switches", "ends with `rifling resume`")
	if err := os.Chmod(c.PauseFile(), 0); err != nil {
		t.Fatal(err)
	}
	if err := brake.Touch(c.Brakes.KillSwitch); err != nil {
		t.Fatal(err)
	}
	says(sunday, cycle.HeldPause, "the file "+c.Brakes.KillSwitch+" is there", "ends when "+c.Brakes.KillSwitch+" is removed")
	if d.resumed() {
		t.Error("resumed without a word")
	}
	if err := brake.Touch(c.ResumeFile()); err != nil {
		t.Fatal(err)
	}
	if !d.resumed() || d.resumed() {
		t.Error("resume must count once")
	}
}
