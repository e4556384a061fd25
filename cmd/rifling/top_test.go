// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"rifling/cmd/internal/config"
	"rifling/report"
)

// topOf is the view of a busy site, ten seconds after its last cycle.
func topOf(t *testing.T) *topView {
	s := busySite(t)
	r := topReader{path: s.db()}
	d, err := r.read(t.Context(), s.now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	cfg := config.Default()
	return &topView{cfg: &cfg, now: func() time.Time { return s.now }, data: d}
}

// shown draws the view on a simulated screen and returns its text.
func shown(t *testing.T, v *topView, width, height int) (string, tcell.SimulationScreen) {
	t.Helper()
	screen := tcell.NewSimulationScreen("UTF-8")
	if err := screen.Init(); err != nil {
		t.Fatal(err)
	}
	screen.SetSize(width, height)
	v.draw(screen)
	return text(screen), screen
}

func text(screen tcell.SimulationScreen) string {
	cells, width, height := screen.GetContents()
	var b strings.Builder
	for y := range height {
		var line strings.Builder
		for x := range width {
			if r := cells[y*width+x].Runes; len(r) > 0 {
				line.WriteString(string(r))
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

func TestTopScreens(t *testing.T) {
	for name, tc := range map[string]struct {
		width, height int
		change        func(*topView)
	}{
		"80x24":    {80, 24, func(*topView) {}},
		"200x30":   {200, 30, func(*topView) {}},
		"short":    {80, 10, func(v *topView) { v.first = 99 }},
		"help":     {80, 24, func(v *topView) { v.help = true }},
		"filtered": {80, 12, func(v *topView) { v.filter, v.editing = "BOB", true }},
		"waiting":  {100, 16, func(v *topView) { v.states, v.order, v.reverse = 1, 5, true }},
		"nothing":  {80, 10, func(v *topView) { v.filter = "nobody" }},
		"old":      {80, 12, func(v *topView) { v.err = errors.New("disk\x1b[2J is away"); late(v, time.Hour) }},
	} {
		t.Run(name, func(t *testing.T) {
			v := topOf(t)
			tc.change(v)
			got, screen := shown(t, v, tc.width, tc.height)
			defer screen.Fini()
			golden(t, "top-"+name, got)
		})
	}
}

// late moves the clock on.
func late(v *topView, by time.Duration) {
	now := v.now()
	v.now = func() time.Time { return now.Add(by) }
}

// Whatever the size and whatever users call their jobs, each line is as wide as
// the screen at most and there are as many as it has.
func TestTopFitsAnyScreen(t *testing.T) {
	v := topOf(t)
	rapid.Check(t, func(rt *rapid.T) {
		width, height := rapid.IntRange(1, 250).Draw(rt, "width"), rapid.IntRange(1, 60).Draw(rt, "height")
		v.data.jobs[0].Name = rapid.String().Draw(rt, "name")
		v.data.jobs[0].User = rapid.SampledFrom([]string{"ada", "模型训练", "e\u0301\u0301ve", "\x1b[31m"}).Draw(rt, "user")
		v.first = rapid.IntRange(-5, 50).Draw(rt, "first")
		lines := v.lines(width, height)
		if width >= 20 && height >= 4 && len(lines) != height {
			rt.Errorf("%d lines on a screen of %d", len(lines), height)
		}
		for _, l := range lines {
			s := l.String()
			if uniseg.StringWidth(s) > width || report.Clean(s) != s {
				rt.Errorf("%d columns: %q", width, s)
			}
		}
	})
}

// The keys are typed at a simulated terminal, which is made smaller meanwhile.
func TestTopAnswersKeysAndResizing(t *testing.T) {
	s := busySite(t)
	screen := tcell.NewSimulationScreen("UTF-8")
	if err := screen.Init(); err != nil {
		t.Fatal(err)
	}
	screen.SetSize(100, 20)
	v, r := topOf(t), &topReader{path: s.db()}
	done := make(chan error)
	go func() { done <- watch(context.Background(), screen, v, r, time.Hour) }()
	for _, k := range "s?/xbob" { // ? and any key, then the filter
		screen.InjectKey(tcell.KeyRune, k, tcell.ModNone)
	}
	screen.InjectKey(tcell.KeyRune, '/', tcell.ModNone)
	for _, k := range "bobb" {
		screen.InjectKey(tcell.KeyRune, k, tcell.ModNone)
	}
	screen.InjectKey(tcell.KeyBackspace2, 0, tcell.ModNone)
	screen.InjectKey(tcell.KeyEnter, 0, tcell.ModNone)
	screen.SetSize(80, 12)
	screen.InjectKey(tcell.KeyRune, 'p', tcell.ModNone)
	screen.InjectKey(tcell.KeyRune, 'q', tcell.ModNone)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.close()
	if v.filter != "bob" || v.order != 1 || !v.paused || v.help || v.editing {
		t.Errorf("filter %q, order %d, paused %v, help %v, editing %v", v.filter, v.order, v.paused, v.help, v.editing)
	}
}

// A database that goes and comes again is survived, and told.
func TestTopSurvivesAMissingDatabase(t *testing.T) {
	v := topOf(t)
	r := topReader{path: t.TempDir() + "/nowhere.db"}
	_, err := r.read(t.Context(), v.now())
	v.take(reading{nil, err})
	got, screen := shown(t, v, 120, 12)
	screen.Fini()
	if !strings.Contains(got, "there is no database yet") || !strings.Contains(got, "train") {
		t.Errorf("got:\n%s", got)
	}
	v.take(reading{v.data, nil})
	if v.err != nil {
		t.Error("the error stays")
	}
}

func TestTopWithoutATerminalPrintsOnce(t *testing.T) {
	s := busySite(t)
	code, out, errs := s.run("top")
	if code != 0 || errs != "" || strings.Contains(out, "\x1b") || strings.Contains(out, "quit") {
		t.Fatalf("exit %d, %q:\n%s", code, errs, out)
	}
	golden(t, "top-plain", out)
	s = newSite(t)
	if code, out, errs := s.run("top"); code != 1 || out != "" || !strings.Contains(errs, "no database yet") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	if code, _, errs := s.run("top", "--every", "1ms"); code != 2 || !strings.Contains(errs, "200ms") {
		t.Errorf("exit %d, %q", code, errs)
	}
	s.writer().Close()
	if code, out, _ := s.run("top"); code != 0 || !strings.Contains(out, "not finished a cycle") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

func TestTopWithoutColours(t *testing.T) {
	for _, color := range []bool{false, true} {
		v := topOf(t)
		v.color = color
		_, screen := shown(t, v, 80, 24)
		cells, _, _ := screen.GetContents()
		found := false
		for _, c := range cells {
			fg, _, _ := c.Style.Decompose()
			found = found || fg != tcell.ColorDefault
		}
		screen.Fini()
		if found != color {
			t.Errorf("colours %v, found %v", color, found)
		}
	}
}
