// SPDX-License-Identifier: Apache-2.0

package browser_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"rifling/contrib/browser"
	"rifling/contrib/scene"
	"rifling/slurm"
)

// stage is a riflingd that shows a small busy cluster, and a browser.
type stage struct {
	t   *testing.T
	tab *browser.Tab
	url string
}

// busy is the large scene cut down: 40 nodes and 1,000 jobs, hostile names
// among them.
func busy(now time.Time) *slurm.Snapshot {
	s := scene.Large(now, 1)
	s.Nodes, s.Jobs = s.Nodes[:40], s.Jobs[:1000]
	names := map[string]bool{}
	for i := range s.Nodes {
		names[s.Nodes[i].Name] = true
	}
	for i := range s.Partitions {
		s.Partitions[i].Nodes = nil
		for name := range names {
			s.Partitions[i].Nodes = append(s.Partitions[i].Nodes, name)
		}
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		for _, n := range j.Nodes {
			if !names[n] { // it ran on a node that is cut away
				j.State, j.Nodes, j.NodeGPUs, j.StartTime, j.Reason = slurm.State{Base: "PENDING"}, nil, nil, time.Time{}, "Priority"
				break
			}
		}
	}
	waiting := 0
	for i := range s.Jobs {
		if s.Jobs[i].Pending() && waiting < len(scene.Hostile) {
			s.Jobs[i].Name = scene.Hostile[waiting]
			waiting++
		}
	}
	return s
}

// The page in a real browser: navigation, pages, filters, a job, hostile names,
// accessibility in both schemes and as wide as a telephone.
func TestStatusPage(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a browser")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	b, err := browser.Start(ctx)
	if errors.Is(err, browser.ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	dir := t.TempDir()
	bin, err := scene.Build(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	d, err := scene.Start(ctx, busy(time.Now()), scene.Options{Bin: bin, Dir: dir, Config: "interval: 1s"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, part := range []struct {
		name string
		look browser.Look
		run  func(*stage)
	}{
		{"navigation", browser.Look{Width: 1280, Height: 800}, (*stage).navigation},
		{"paging and sorting", browser.Look{Width: 1280, Height: 800}, (*stage).paging},
		{"filters", browser.Look{Width: 1280, Height: 800}, (*stage).filters},
		{"hostile names", browser.Look{Width: 1280, Height: 800}, (*stage).hostile},
		{"keyboard", browser.Look{Width: 1280, Height: 800}, (*stage).keyboard},
		{"telephone", browser.Look{Width: 390, Height: 844}, (*stage).narrow},
		{"contrast, dark", browser.Look{Width: 1280, Height: 800, Dark: true}, (*stage).contrast},
		{"accessibility", browser.Look{Width: 1280, Height: 800}, (*stage).accessible},
	} {
		t.Run(part.name, func(t *testing.T) {
			tab, err := b.Tab(part.look)
			if err != nil {
				t.Fatal(err)
			}
			defer tab.Close()
			s := &stage{t: t, tab: tab, url: d.URL}
			part.run(s)
			for _, f := range tab.Faults() {
				t.Error(f)
			}
		})
	}
}

func (s *stage) open(path string) {
	s.t.Helper()
	if err := s.tab.Open(s.url + path); err != nil {
		s.t.Fatal(path, err)
	}
}

// text evaluates an expression that gives a string.
func (s *stage) text(expression string) string {
	s.t.Helper()
	var out string
	if err := s.tab.Eval(expression, &out); err != nil {
		s.t.Fatal(expression, err)
	}
	return out
}

func (s *stage) click(selector string) {
	s.t.Helper()
	// The page is new when the old one's mark is gone.
	if err := s.tab.Do(chromedp.Evaluate(`document.body.dataset.old = "1"`, nil), chromedp.Click(selector, chromedp.ByQuery, chromedp.NodeVisible),
		chromedp.WaitReady(`body:not([data-old])`, chromedp.ByQuery),
		// The body is there before the rest of a long page is.
		chromedp.Poll(`document.readyState === "complete"`, nil)); err != nil {
		s.t.Fatal(selector, err)
	}
}

func (s *stage) navigation() {
	s.open("/")
	for _, p := range [][2]string{
		{"/cluster", "Cluster"}, {"/queue", "Queue"}, {"/decisions", "Decisions"}, {"/learning", "Learning"}, {"/qtable", "Q-table"}, {"/finished", "Finished jobs"},
	} {
		s.click(`.top nav a[href="` + p[0] + `"]`)
		if h := s.text(`document.querySelector("h1").textContent`); h != p[1] {
			s.t.Errorf("%s has the heading %q", p[0], h)
		}
		if here := s.text(`document.querySelector("[aria-current=page]").getAttribute("href")`); here != p[0] {
			s.t.Errorf("on %s the navigation marks %s", p[0], here)
		}
	}
	s.click(`.brand`)
	s.click(`#parts ~ .scroll a`)
	if !strings.Contains(s.text(`location.href`), "/cluster?partition=") {
		s.t.Error("a partition does not lead to its map")
	}
	s.click(`.map a`)
	if !strings.HasPrefix(s.text(`document.querySelector("h1").textContent`), "Node gpu") {
		s.t.Error("a node of the map does not lead to its page")
	}
}

func (s *stage) paging() {
	s.open("/queue")
	first := s.text(`document.querySelector("tbody th a").textContent`)
	s.click(`.pager a[rel=next]`)
	if now := s.text(`document.querySelector("tbody th a").textContent`); now == first || !strings.Contains(s.text(`document.querySelector(".pager").textContent`), "101 to 200") {
		s.t.Errorf("the second page begins with %s", now)
	}
	s.click(`.pager a[rel=prev]`)
	if now := s.text(`document.querySelector("tbody th a").textContent`); now != first {
		s.t.Errorf("back on the first page, %s comes first", now)
	}
	s.click(`thead a[href*="sort=gpus"]`)
	if s.text(`document.querySelector("th[aria-sort]").textContent`) != "GPUs" || s.text(`document.querySelector("tbody tr td:nth-of-type(5)").textContent`) != "16" {
		s.t.Error("sorted by GPUs, the largest jobs do not come first")
	}
}

func (s *stage) filters() {
	s.open("/queue")
	if err := s.tab.Do(chromedp.SendKeys(`input[name=user]`, "user07", chromedp.ByQuery)); err != nil {
		s.t.Fatal(err)
	}
	s.click(`.filter button`)
	var users []string
	if err := s.tab.Eval(`[...new Set([...document.querySelectorAll("tbody tr td:nth-of-type(3)")].map(e => e.textContent))]`, &users); err != nil {
		s.t.Fatal(err)
	}
	if len(users) != 1 || users[0] != "user07" {
		s.t.Errorf("filtered by user07 the page shows jobs of %v", users)
	}
	s.click(`.filter .clear`)
	if s.text(`location.search`) != "" {
		s.t.Error("the filter is not cleared")
	}
	s.click(`.tabs a[href*="state=running"]`)
	if !strings.Contains(s.text(`document.querySelector("caption").textContent`), "Running") {
		s.t.Error("the running jobs are not shown")
	}
	s.click(`tbody th a`)
	if !strings.HasPrefix(s.text(`document.querySelector("h1").textContent`), "Job 12") || s.text(`document.querySelector("pre").textContent`) == "" {
		s.t.Error("a job does not lead to its page with its story")
	}
}

func (s *stage) hostile() {
	s.open("/queue")
	var names []string
	if err := s.tab.Eval(`[...document.querySelectorAll("td.name")].map(e => e.textContent)`, &names); err != nil {
		s.t.Fatal(err)
	}
	all := strings.Join(names, "\n")
	for _, name := range scene.Hostile {
		if strings.ContainsAny(name, "\n\x1b\u202e") {
			continue // shown with escapes
		}
		if !strings.Contains(all, name) {
			s.t.Errorf("the name %q is not shown as it is", name)
		}
	}
	for i := range scene.Hostile {
		var href string
		if err := s.tab.Eval(fmt.Sprintf(`document.querySelectorAll("td.name")[%d].closest("tr").querySelector("th a").getAttribute("href")`, i), &href); err != nil {
			s.t.Fatal(err)
		}
		s.open(href)
		if title := s.text(`document.title`); !strings.HasPrefix(title, "Job 12") {
			s.t.Errorf("%s has the title %q", href, title)
		}
		var odd int
		if err := s.tab.Eval(`document.querySelectorAll("script, img, main svg[onload], b > b").length`, &odd); err != nil || odd != 0 {
			s.t.Errorf("%s holds %d elements of a job's making, %v", href, odd, err)
		}
		s.open("/queue")
	}
}

// The first thing that the keyboard reaches skips to the content, and what has
// the focus shows it.
func (s *stage) keyboard() {
	s.open("/")
	if err := s.tab.Do(chromedp.KeyEvent("\t")); err != nil {
		s.t.Fatal(err)
	}
	if s.text(`document.activeElement.className`) != "skip" {
		s.t.Error("the first stop is not the link that skips")
	}
	if err := s.tab.Do(chromedp.KeyEvent("\r"), chromedp.Sleep(100*time.Millisecond), chromedp.KeyEvent("\t")); err != nil {
		s.t.Fatal(err)
	}
	if s.text(`String(document.querySelector("main").contains(document.activeElement))`) != "true" {
		s.t.Error("after skipping, the focus is not in the content")
	}
	if s.text(`getComputedStyle(document.activeElement).outlineStyle`) == "none" {
		s.t.Error("what has the focus does not show it")
	}
}

var paths = []string{"/", "/cluster", "/cluster?view=table", "/nodes/gpu0001", "/queue", "/queue?state=running", "/queue?user=nobody", "/decisions", "/learning", "/qtable", "/finished", "/nothing"}

// accessible asks axe-core about every page: no violation of any of its rules.
func (s *stage) accessible() { s.axe(`{resultTypes: ["violations"]}`) }

// contrast asks only what the scheme of colours changes.
func (s *stage) contrast() {
	s.axe(`{resultTypes: ["violations"], runOnly: ["color-contrast", "link-in-text-block"]}`)
}

func (s *stage) axe(options string) {
	files, err := filepath.Glob("../../.tools/web/axe-*.js")
	if err != nil || len(files) == 0 {
		s.t.Skip("no axe-core here; contrib/setup.sh web brings it")
	}
	axe, err := os.ReadFile(files[0])
	if err != nil {
		s.t.Fatal(err)
	}
	s.open("/queue")
	job := s.text(`document.querySelector("tbody th a").getAttribute("href")`)
	for _, p := range append([]string{job}, paths...) {
		s.open(p)
		if p == "/nothing" {
			s.tab.Faults() // the browser notes that it is not there
		}
		var out []struct {
			ID, Help string
			Nodes    []struct{ HTML, FailureSummary string }
		}
		var raw string
		err := s.tab.Do(chromedp.Evaluate(string(axe)+";0", nil),
			chromedp.Evaluate(`axe.run(document, `+options+`).then(r => JSON.stringify(r.violations))`, &raw, awaited))
		if err != nil {
			s.t.Fatal(p, err)
		}
		if err := json.Unmarshal([]byte(raw), &out); err != nil {
			s.t.Fatal(err)
		}
		for _, v := range out {
			n := v.Nodes[0]
			s.t.Errorf("%s: %s (%s), %d times, first %s: %s", p, v.ID, v.Help, len(v.Nodes), n.HTML, n.FailureSummary)
		}
	}
}

// narrow looks whether a page is wider than a telephone.
func (s *stage) narrow() {
	for _, p := range paths {
		s.open(p)
		if p == "/nothing" {
			s.tab.Faults() // the browser notes that it is not there
		}
		var over int
		if err := s.tab.Eval(`document.documentElement.scrollWidth - innerWidth`, &over); err != nil || over > 0 {
			s.t.Errorf("%s is %d pixels wider than the screen, %v", p, over, err)
		}
	}
}
