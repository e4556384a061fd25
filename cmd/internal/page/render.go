// SPDX-License-Identifier: Apache-2.0

package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"rifling/profile"
	"rifling/report"
	"rifling/slurm"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static/style.css
var styleSheet []byte

// stylePath changes with the style sheet, so that browsers may keep it.
var stylePath = "/static/style-" + shortHash(styleSheet) + ".css"

func shortHash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}

func style(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(styleSheet) // the reader may have left
}

// pages are the templates by name, each with the layout.
var pages = parsePages()

func parsePages() map[string]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(functions).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
	names, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		panic(err)
	}
	out := map[string]*template.Template{}
	for _, path := range names {
		name := path[len("templates/") : len(path)-len(".html")]
		if name == "layout" || name == "parts" {
			continue
		}
		out[name] = template.Must(template.Must(layout.Clone()).ParseFS(templateFiles, path))
	}
	return out
}

var functions = template.FuncMap{
	"clean": report.Clean,
	"about": about,
	"count": plural,
	"num":   number[int],
	"num64": number[int64],
	"stop":  stop,
	"hosts": slurm.CompressHosts,
	"group": groupName,
	"class": groupClass,
	"fixed": func(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) },
	"share": percent,
	"pick":  func(label, name, value string, options []string) choice { return choice{label, name, value, options} },
}

// choice is one drop-down list of a form.
type choice struct {
	Label, Name, Value string
	Options            []string
}

// shell is what the layout shows around a page.
type shell struct {
	Page, Title string
	Base, Style string
	Nav         []navItem
	Version     string
	Cluster     string // empty before the first cycle
	Release     string
	Policy      string
	Mode        string
	Paused      string
	Cycle       int64
	Age         time.Duration // of what is shown
	Late        bool          // it is older than it should be
	Clock       string
	Trouble     *Trouble
	Failing     time.Duration
	Live        bool
	LiveURL     string
	Refresh     int
	Body        any
	zone        *time.Location
	path        string
}

type navItem struct {
	Path, Name string
	Here       bool
}

var navigation = []navItem{
	{"/", "Overview", false}, {"/cluster", "Cluster", false}, {"/queue", "Queue", false}, {"/decisions", "Decisions", false},
	{"/learning", "Learning", false}, {"/qtable", "Q-table", false}, {"/finished", "Finished", false},
}

// render writes the page of that name with the layout around it.
func (q *request) render(name, title string, body any) error {
	s := q.s
	sh := shell{
		Page: name, Title: title, Base: s.o.BasePath, Style: s.o.BasePath + stylePath, Version: s.o.Version, Policy: s.o.Policy,
		Trouble: s.trouble.Load(), Live: q.live(), Refresh: refreshSeconds, Body: body, zone: s.o.Zone, path: q.URL.Path,
	}
	for _, n := range navigation {
		n.Here = n.Path == q.URL.Path
		n.Path = s.o.BasePath + n.Path
		sh.Nav = append(sh.Nav, n)
	}
	if p := s.paused.Load(); p != nil {
		sh.Paused = *p
	}
	sh.LiveURL = q.with("live", "1")
	if sh.Live {
		sh.LiveURL = q.with("live", "")
	}
	if sh.Trouble != nil {
		sh.Failing = q.now.Sub(sh.Trouble.Since)
	}
	if v := q.view; v != nil {
		sh.Cluster, sh.Release, sh.Mode, sh.Cycle = v.Snapshot.Cluster, v.Snapshot.Release.String(), v.Mode, v.Cycle
		sh.Age = max(0, q.now.Sub(v.Published))
		sh.Late = sh.Age > lateAfter(s.o.Interval)
		sh.Clock = sh.At(v.Snapshot.TakenAt)
	}
	return pages[name].ExecuteTemplate(&q.out, "layout.html", &sh)
}

// lateAfter is from what age on a view is called old.
func lateAfter(interval time.Duration) time.Duration { return max(3*interval, time.Minute) }

// At writes an instant with its day.
func (s *shell) At(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.In(s.zone).Format("2 Jan 15:04:05")
}

// ISO writes an instant for programs that read the page.
func (s *shell) ISO(t time.Time) string { return t.In(s.zone).Format(time.RFC3339) }

// To returns a path of the page as a link.
func (s *shell) To(path string) string { return s.Base + path }

// Job returns the link to a job's page.
func (s *shell) Job(id slurm.JobID) string { return fmt.Sprintf("%s/jobs/%d", s.Base, id) }

// Node returns the link to a node's page.
func (s *shell) Node(name string) string { return s.Base + "/nodes/" + url.PathEscape(name) }

// with returns the link to this page with one parameter changed; an empty
// value takes it away. A changed filter goes back to the first page.
func (q *request) with(key, value string) string {
	values := url.Values{}
	for k, v := range q.URL.Query() {
		if len(v) > 0 && v[0] != "" {
			values.Set(k, v[0])
		}
	}
	if value == "" {
		values.Del(key)
	} else {
		values.Set(key, value)
	}
	if key != "page" && key != "live" {
		values.Del("page")
	}
	link := q.s.o.BasePath + q.URL.Path
	if e := values.Encode(); e != "" {
		link += "?" + e
	}
	return link
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// stop ends a sentence that has no end yet.
func stop(s string) string {
	if s == "" || strings.ContainsAny(s[len(s)-1:], ".?!") {
		return s
	}
	return s + "."
}

// number writes 12345 as 12,345.
func number[T ~int | ~int64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// about writes a duration as people say it.
func about(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < time.Second && d > 0:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

// percent is a share in whole percent; 0 of nothing.
func percent(part, whole int) int {
	if whole <= 0 {
		return 0
	}
	return (200*part + whole) / (2 * whole)
}

// groupName is what a group is called in a cell.
func groupName(g int) string {
	if g == profile.GroupUnknown {
		return "?"
	}
	return strconv.Itoa(g)
}

// groupColours is how many groups have a colour of their own. Further ones use
// them again: the number in the cell tells them apart.
const groupColours = 6

// groupClass is the style of a group.
func groupClass(g int) string {
	if g == profile.GroupUnknown {
		return "gu"
	}
	return "g" + strconv.Itoa(g%groupColours)
}
