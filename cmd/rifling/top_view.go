// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/uniseg"

	"rifling/cmd/internal/config"
	"rifling/profile"
	"rifling/report"
	"rifling/slurm"
	"rifling/store"
)

// topHead is how many lines stand above the jobs.
const topHead = 6

// topView is what is shown and how.
type topView struct {
	cfg   *config.Config
	now   func() time.Time
	data  *topData
	err   error // of the last reading; the data is older then
	color bool
	plain bool // printed, not on a screen

	order   int // of topOrders
	reverse bool
	states  int // of topStates
	filter  string
	editing bool
	paused  bool
	help    bool
	first   int // the job at the top
}

// tone is how text is to be told from other text.
type tone int

const (
	toneText tone = iota
	toneBar
	toneHead
	toneDim
	toneWarn
	toneWait
	toneRun
)

// toned is text of one tone.
type toned struct {
	text string
	tone tone
}

// screenLine is one line of the screen.
type screenLine []toned

// String is the line's text.
func (l screenLine) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.text)
	}
	return b.String()
}

func (v *topView) style(t tone) tcell.Style {
	s := tcell.StyleDefault
	colored := func(c tcell.Color) tcell.Style {
		if !v.color {
			return s
		}
		return s.Foreground(c)
	}
	switch t {
	case toneBar:
		return s.Reverse(true)
	case toneHead:
		return s.Bold(true).Underline(true)
	case toneDim:
		return colored(tcell.ColorGray)
	case toneWarn:
		return colored(tcell.ColorRed).Bold(true)
	case toneWait:
		return colored(tcell.ColorOlive)
	case toneRun:
		return colored(tcell.ColorGreen)
	}
	return s
}

// draw puts the view on the screen.
func (v *topView) draw(screen tcell.Screen) {
	width, height := screen.Size()
	screen.Clear()
	for y, l := range v.lines(width, height) {
		if y >= height {
			break
		}
		x := 0
		for _, s := range l {
			style := v.style(s.tone)
			gr := uniseg.NewGraphemes(s.text)
			for gr.Next() {
				runes := gr.Runes()
				screen.SetContent(x, y, runes[0], runes[1:], style)
				x += max(1, gr.Width())
			}
		}
	}
	screen.Show()
}

// lines are what fits into the given size, in columns and lines.
func (v *topView) lines(width, height int) []screenLine {
	if width < 20 || height < 4 {
		return []screenLine{{{fit("too small", width, true), toneText}}}
	}
	if v.help {
		return v.helpLines(width)
	}
	jobs := v.chosen()
	room := max(0, height-topHead-1)
	v.first = min(max(0, v.first), max(0, len(jobs)-room))
	out := v.head(width)
	columns := topColumns(width)
	var head screenLine
	for i, c := range columns {
		head = append(head, toned{fit(c.name, c.width, c.left), toneHead}, gap(i < len(columns)-1, toneHead))
	}
	out = append(out, head)
	for i := v.first; i < len(jobs) && i < v.first+room; i++ {
		out = append(out, v.row(jobs[i], columns))
	}
	if len(jobs) == 0 {
		out = append(out, screenLine{{fit(v.nothing(), width, true), toneDim}})
	}
	if v.plain {
		return out
	}
	for len(out) < height-1 {
		out = append(out, nil)
	}
	return append(out[:height-1], v.foot(width, len(jobs), room))
}

func gap(on bool, t tone) toned {
	if !on {
		return toned{}
	}
	return toned{" ", t}
}

func (v *topView) nothing() string {
	if v.filter != "" || v.states != 0 {
		return "no job like that"
	}
	return "no GPU job waits or runs"
}

// head is the lines above the columns' names, one less than topHead.
func (v *topView) head(width int) []screenLine {
	st := v.data.status
	full := func(t tone, format string, args ...any) screenLine {
		return screenLine{{fit(report.Clean(fmt.Sprintf(format, args...)), width, true), t}}
	}
	if st.Last == nil {
		return []screenLine{full(toneBar, " rifling top"), full(toneWarn, "%s", v.away(v.cfg)), nil, nil, v.warn(width)}
	}
	c := st.Last
	title := fmt.Sprintf(" rifling top  %s  %s  %s  cycle %d, %s ago", v.now().Format("15:04:05"), c.Mode, c.Policy, c.ID, about(v.now().Sub(lastBeat(c))))
	if v.paused {
		title += "  PAUSED"
	}
	anpr := "unknown"
	if c.ANPRGPUs > 0 {
		anpr = fmt.Sprintf("%.3f", c.ANPR)
	}
	part := 0.0
	if c.GPUs > 0 {
		part = float64(c.GPUsUsed) / float64(c.GPUs)
	}
	return []screenLine{
		full(toneBar, "%s", title),
		full(toneText, "GPUs  %s %d of %d%s  ANPR %s  %d waiting for %d GPUs, %d running", bar(part, min(20, width/8)), c.GPUsUsed, c.GPUs, percent(c.GPUsUsed, c.GPUs), anpr, c.Pending, c.PendingGPUs, c.Running),
		full(toneText, "Did   %s; %s with something set", decisionCounts(st), count(st.Owned, "job", "jobs")),
		full(toneText, "Kinds %s", v.groups()),
		v.warn(width),
	}
}

// bar draws a part of 1 in so many columns.
func bar(part float64, columns int) string {
	n := int(math.Round(min(1, max(0, part)) * float64(columns)))
	return "[" + strings.Repeat("#", n) + strings.Repeat(".", columns-n) + "]"
}

// groups counts the shown jobs of each group.
func (v *topView) groups() string {
	n := map[int]int{}
	for i := range v.data.jobs {
		n[v.data.jobs[i].Profile.Group]++
	}
	var out []string
	for _, g := range v.data.groups {
		out = append(out, fmt.Sprintf("group %d (cc %.2f): %s", g.Index, math.Exp(g.Center), count(n[g.Index], "job", "jobs")))
		delete(n, g.Index)
	}
	rest := 0
	for _, k := range n {
		rest += k
	}
	return strings.Join(append(out, fmt.Sprintf("unknown: %d", rest)), "   ")
}

// warn is the line that says what is wrong; empty when nothing is.
func (v *topView) warn(width int) screenLine {
	var out []string
	if away := v.away(v.cfg); away != "" && v.data.status.Newest != nil {
		out = append(out, away)
	}
	if age := v.now().Sub(v.data.at); v.err != nil || age > 30*time.Second {
		line := fmt.Sprintf("data of %s ago", about(age))
		if v.err != nil {
			line += ": " + v.err.Error()
		}
		out = append(out, line)
	}
	if v.data.hidden > 0 {
		out = append(out, fmt.Sprintf("%s of others not shown", count(v.data.hidden, "job", "jobs")))
	}
	return screenLine{{fit(report.Clean(strings.Join(out, "; ")), width, true), toneWarn}}
}

func (v *topView) foot(width, jobs, room int) screenLine {
	if v.editing {
		return screenLine{{fit("filter: "+report.Clean(v.filter)+"_   (Enter keeps it, Esc drops it)", width, true), toneBar}}
	}
	where := fmt.Sprintf("%d of %d", jobs, len(v.data.jobs))
	if jobs > room {
		where = fmt.Sprintf("%d-%d of %d", v.first+1, min(jobs, v.first+room), jobs)
	}
	order := topOrders[v.order].name
	if v.reverse {
		order += ", reversed"
	}
	text := fmt.Sprintf(" q quit  s by %s  r reverse  t %s  / filter  p pause  ? help   %s", order, topStates[v.states], where)
	if v.filter != "" {
		text += "  filter: " + v.filter
	}
	return screenLine{{fit(report.Clean(text), width, true), toneBar}}
}

func (v *topView) helpLines(width int) []screenLine {
	var out []screenLine
	for i, l := range []string{
		" rifling top: help", "",
		"q, Ctrl-C     quit", "s             next order: by wait, GPUs, user, group, run time, id",
		"r             reverse the order", "t             all jobs, those that wait, those that run",
		"/             filter by text in id, user, name, partition, nodes, action or reason",
		"Esc           drop the filter", "p, Space      pause: read nothing new", "arrows, j, k  scroll; page keys, Home, End too",
		"Ctrl-L        draw anew", "",
		"CC is seconds of computing for each of communication, NPR the processing",
		"rate as a part of the best seen, Action what rifling decided last.", "", "Any key goes back.",
	} {
		t := toneText
		if i == 0 {
			t = toneBar
		}
		out = append(out, screenLine{{fit(l, width, true), t}})
	}
	return out
}

// topStates are what t goes through.
var topStates = []string{"all", "waiting", "running"}

// topOrders are what s goes through: the least comes first.
var topOrders = []struct {
	name string
	less func(a, b *store.Job) int
}{
	{"wait", func(a, b *store.Job) int { return cmp.Or(pendingFirst(a, b), cmp.Compare(b.Wait(), a.Wait())) }},
	{"GPUs", func(a, b *store.Job) int { return cmp.Compare(b.GPUs, a.GPUs) }},
	{"user", func(a, b *store.Job) int { return cmp.Compare(a.User, b.User) }},
	{"group", func(a, b *store.Job) int { return cmp.Compare(a.Profile.Group, b.Profile.Group) }},
	{"run time", func(a, b *store.Job) int { return cmp.Compare(b.Elapsed(), a.Elapsed()) }},
	{"id", func(a, b *store.Job) int { return cmp.Compare(a.ID, b.ID) }},
}

func pendingFirst(a, b *store.Job) int {
	switch {
	case a.Pending() && !b.Pending():
		return -1
	case !a.Pending() && b.Pending():
		return 1
	}
	return 0
}

// chosen are the jobs that pass, in order.
func (v *topView) chosen() []*store.Job {
	var out []*store.Job
	want := strings.ToLower(v.filter)
	for i := range v.data.jobs {
		j := &v.data.jobs[i]
		if v.states == 1 && !j.Pending() || v.states == 2 && !j.Running() {
			continue
		}
		text := strings.Join([]string{j.DisplayID(), j.User, j.Name, j.Partition, slurm.CompressHosts(j.Nodes), store.ActionName(j.Decision), j.Reason, j.State.String()}, "\n")
		if want == "" || strings.Contains(strings.ToLower(text), want) {
			out = append(out, j)
		}
	}
	slices.SortStableFunc(out, func(a, b *store.Job) int {
		n := cmp.Or(topOrders[v.order].less(a, b), cmp.Compare(a.ID, b.ID))
		if v.reverse {
			return -n
		}
		return n
	})
	return out
}

// topColumn is a column of the jobs.
type topColumn struct {
	name  string
	width int
	left  bool
	rank  int // the higher, the sooner it goes where there is no room
	of    func(*store.Job) string
}

// topColumns chooses the columns that fit; the last takes what is left over.
func topColumns(width int) []topColumn {
	all := []topColumn{
		{"JobID", 12, false, 0, func(j *store.Job) string { return j.DisplayID() }},
		{"User", 9, true, 0, func(j *store.Job) string { return j.User }},
		{"Partition", 9, true, 3, func(j *store.Job) string { return j.Partition }},
		{"Account", 10, true, 5, func(j *store.Job) string { return j.Account }},
		{"Name", 10, true, 2, func(j *store.Job) string { return j.Name }},
		{"St", 2, true, 0, func(j *store.Job) string { return j.State.Base[:min(1, len(j.State.Base))] }},
		{"GPUs", 4, false, 0, func(j *store.Job) string { return fmt.Sprint(j.GPUs) }},
		{"Group", 5, false, 1, groupCell},
		{"CC", 6, false, 3, ratioCell},
		{"NPR", 4, false, 3, rateCell},
		{"Action", 7, true, 0, func(j *store.Job) string { return store.ActionName(j.Decision) }},
		{"Wait", 10, false, 1, func(j *store.Job) string { return slurm.FormatDuration(j.Wait()) }},
		{"Elapsed", 10, false, 4, func(j *store.Job) string { return slurm.FormatDuration(j.Elapsed()) }},
		{"Where or why", 12, true, 0, whereCell},
		{"Decision", 40, true, 6, func(j *store.Job) string {
			if j.Decision == nil {
				return ""
			}
			return j.Decision.Reason
		}},
	}
	need := func() (n int) {
		for _, c := range all {
			n += c.width + 1
		}
		return n - 1
	}
	for rank := 6; rank > 0 && need() > width; rank-- {
		all = slices.DeleteFunc(all, func(c topColumn) bool { return c.rank == rank })
	}
	for len(all) > 1 && need() > width {
		all = all[:len(all)-1]
	}
	if left := width - need(); left > 0 {
		all[len(all)-1].width += left
	}
	return all
}

func groupCell(j *store.Job) string {
	if j.Profile.Group == profile.GroupUnknown {
		return "?"
	}
	return fmt.Sprint(j.Profile.Group)
}

func ratioCell(j *store.Job) string {
	if !j.Known() {
		return ""
	}
	return fmt.Sprintf("%.2f", math.Exp(j.Profile.LogCC))
}

func rateCell(j *store.Job) string {
	if j.Profile.NPRCount == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", j.Profile.NPR)
}

// whereCell is the nodes of a job that runs, the reason of one that waits.
func whereCell(j *store.Job) string {
	if j.Pending() {
		return "(" + j.Reason + ")"
	}
	return slurm.CompressHosts(j.Nodes)
}

func (v *topView) row(j *store.Job, columns []topColumn) screenLine {
	t := toneRun
	if j.Pending() {
		t = toneWait
	}
	var l screenLine
	for i, c := range columns {
		tone := toneText
		if c.name == "St" || c.name == "Action" {
			tone = t
		}
		l = append(l, toned{fit(report.Clean(c.of(j)), c.width, c.left), tone}, gap(i < len(columns)-1, toneText))
	}
	return l
}

// fit cuts or pads harmless text to so many columns, and marks a cut with "+".
func fit(s string, columns int, left bool) string {
	if columns <= 0 {
		return ""
	}
	w := uniseg.StringWidth(s)
	if w > columns {
		var b strings.Builder
		w = 0
		gr := uniseg.NewGraphemes(s)
		for gr.Next() && w+gr.Width() < columns {
			b.WriteString(gr.Str())
			w += gr.Width()
		}
		return b.String() + "+" + strings.Repeat(" ", columns-1-w)
	}
	if left {
		return s + strings.Repeat(" ", columns-w)
	}
	return strings.Repeat(" ", columns-w) + s
}
