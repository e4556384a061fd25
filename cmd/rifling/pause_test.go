// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rifling/cmd/internal/brake"
	"rifling/cycle"
)

func TestPauseAndResume(t *testing.T) {
	s := owningSite(t)
	path := filepath.Join(s.dir, "pause")
	code, out, errs := s.run("pause", "--for", "2h", "new", "switches")
	if code != 0 || errs != "" || !strings.Contains(out, "within 15s") || strings.Contains(out, "does not seem to run") {
		t.Fatalf("exit %d, %q, %q", code, out, errs)
	}
	if p := brake.Read(path, s.now.Add(119*time.Minute)); p == nil || p.Why != "new switches" || p.By == "" {
		t.Errorf("the file says %+v", p)
	}
	if p := brake.Read(path, s.now.Add(2*time.Hour)); p != nil {
		t.Errorf("after its time it says %+v", p)
	}
	if code, out, _ = s.run("resume"); code != 0 || out != "the pause is over\n" {
		t.Errorf("exit %d, %q", code, out)
	}
	if _, err := os.Stat(path + ".resume"); err != nil || brake.Read(path, s.now) != nil {
		t.Errorf("the daemon is not told: %v", err)
	}
	if code, out, _ = s.run("resume"); code != 0 || !strings.Contains(out, "there was no pause") {
		t.Errorf("again: exit %d, %q", code, out)
	}
}

// The admin's word counts whatever state the rest is in.
func TestPauseNeedsNeitherDaemonNorDatabase(t *testing.T) {
	s := newSite(t)
	if code, out, errs := s.run("pause"); code != 0 || errs != "" || !strings.Contains(out, "call `rifling release`") {
		t.Errorf("no database: exit %d, %q, %q", code, out, errs)
	}
	if err := os.WriteFile(s.db(), []byte("no database at all"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := s.run("pause"); code != 0 || errs != "" || !strings.Contains(out, "paused until `rifling resume`") {
		t.Errorf("broken database: exit %d, %q, %q", code, out, errs)
	}
	if code, _, errs := s.run("pause", "--for=-1h"); code != exitUsage || !strings.Contains(errs, "more than nothing") {
		t.Errorf("a negative time: exit %d, %q", code, errs)
	}
	s.extra = "brakes: {pause-file: /nonexistent/pause}\n"
	if code, _, errs := s.run("pause"); code != 1 || !strings.Contains(errs, "hint: run this as root") {
		t.Errorf("nowhere to write: exit %d, %q", code, errs)
	}
}

func TestResumeTellsOfTheKillSwitch(t *testing.T) {
	s := newSite(t)
	stop := filepath.Join(s.dir, "stop")
	s.extra = "brakes: {kill-switch: " + stop + "}\n"
	if err := brake.Touch(stop); err != nil {
		t.Fatal(err)
	}
	if _, out, _ := s.run("resume"); !strings.Contains(out, "note: the kill switch "+stop+" is still there") {
		t.Errorf("%q", out)
	}
}

func TestStatusTellsWhatHoldsBack(t *testing.T) {
	s := owningSite(t)
	s.extra = "mode: steer\n"
	blob, err := json.Marshal(cycle.Held{Kind: cycle.HeldPause, Why: "root: new switches", Ends: "ends with `rifling resume`", Since: t0})
	if err != nil {
		t.Fatal(err)
	}
	st := s.writer()
	if err := st.SaveState(t.Context(), cycle.StateHeld, blob); err != nil {
		t.Fatal(err)
	}
	code, out, errs := s.run("status")
	if code != 0 || !strings.Contains(out, "nothing is set on jobs since 2026-12-01 05:00:00: root: new switches") ||
		!strings.Contains(out, "ends with `rifling resume`") {
		t.Errorf("exit %d, %q:\n%s", code, errs, out)
	}
	if _, out, _ = s.run("status", "--json"); !strings.Contains(out, `"kind": "pause"`) {
		t.Errorf("as JSON:\n%s", out)
	}
	if err := st.SaveState(t.Context(), cycle.StateHeld, []byte("null")); err != nil {
		t.Fatal(err)
	}
	if _, out, _ = s.run("status"); strings.Contains(out, "nothing is set") {
		t.Errorf("nothing holds back:\n%s", out)
	}
}
