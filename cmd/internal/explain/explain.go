// SPDX-License-Identifier: Apache-2.0

// Package explain says of one GPU job why it waits or runs where it does and
// what rifling had to do with it: one plain sentence, a few more, then the
// evidence. The command line and the status page show the same. It is pure:
// the same story, node and options give the same answer. See
// docs/design/explain.md.
package explain

import (
	"fmt"
	"strings"
	"time"

	"rifling/cmd/internal/wording"
	"rifling/report"
	"rifling/slurm"
	"rifling/store"
)

// Options are what an answer depends on beside the history.
type Options struct {
	// Now is the host's clock; its location is that of all times shown.
	Now      time.Time
	Interval time.Duration // between two cycles of the daemon
	Depth    int           // of the queue that is decided on
	// WhyNot asks about a node as well; nil asks about none.
	WhyNot *Node
}

// Node is what is known of a node that somebody asks about.
type Node struct {
	Name string
	// Jobs are those that were running there in the last cycle.
	Jobs []store.Job
	// Others counts more such jobs, of which the asker may not hear.
	Others int
	// Slurm is what Slurm says of it now, nil when it was not asked or did not
	// answer.
	Slurm *NodeState
}

// NodeState is what Slurm says of a node.
type NodeState struct {
	State      string
	Partitions []string
	GPUs, Used int // all of them, and those that jobs hold
}

// Part is a part of the evidence: a heading and lines, harmless to show.
type Part struct {
	Heading string   `json:"heading"`
	Lines   []string `json:"lines"`
}

// Answer is what is to say of a job. Its text is harmless to show.
type Answer struct {
	Sentence string   // the answer in one sentence
	More     []string // what else must be known to read it right, a paragraph each
	Parts    []Part
	story    *store.Story
	o        Options
}

// Of answers from the story of a job.
func Of(st *store.Story, o Options) *Answer {
	t := teller{st: st, o: o}
	a := &Answer{story: st, o: o, Sentence: report.Clean(t.sentence())}
	for _, s := range t.more() {
		a.More = append(a.More, report.Clean(s))
	}
	if o.WhyNot != nil {
		t.section("Why not " + o.WhyNot.Name)
		t.whyNot(o.WhyNot)
	}
	for _, tell := range []func(){
		t.next, t.job, t.decision, t.options, t.guardRails, t.earlier, t.changes, t.outcome,
	} {
		tell()
	}
	a.Parts = t.parts
	return a
}

// Text is the whole answer as text, with the evidence indented under headings.
func (a *Answer) Text() string {
	var b strings.Builder
	b.WriteString(a.Sentence + "\n")
	for i, s := range a.More {
		if i == 0 {
			b.WriteByte('\n')
		}
		b.WriteString(s + "\n")
	}
	for _, p := range a.Parts {
		b.WriteString("\n" + p.Heading + "\n")
		for _, l := range p.Lines {
			b.WriteString("  " + l + "\n")
		}
	}
	return b.String()
}

// teller gathers the parts of an answer; text of users is made harmless on the
// way in.
type teller struct {
	st    *store.Story
	o     Options
	parts []Part
}

// section starts a part under a heading.
func (t *teller) section(heading string) {
	t.parts = append(t.parts, Part{Heading: report.Clean(heading), Lines: []string{}})
}

func (t *teller) line(format string, args ...any) {
	p := &t.parts[len(t.parts)-1]
	p.Lines = append(p.Lines, report.Clean(fmt.Sprintf(format, args...)))
}

// clock writes an instant for sentences.
func (t *teller) clock(at time.Time) string {
	if at.IsZero() {
		return "an unknown time"
	}
	return at.In(t.o.Now.Location()).Format("2006-01-02 15:04:05")
}

// gone reports whether the job left Slurm's list before riflingd saw its end.
func (t *teller) gone() bool {
	return t.st.Job.End.IsZero() && t.st.Last != nil && t.st.Job.LastSeen.Before(t.st.Last.At)
}

// last is the last decision on the job; nil when there is none.
func (t *teller) last() *store.Decision {
	if len(t.st.Decisions) == 0 {
		return nil
	}
	return &t.st.Decisions[len(t.st.Decisions)-1]
}

// stands reports whether the last decision was renewed in the last cycle.
func (t *teller) stands(d *store.Decision) bool {
	return t.st.Last == nil || d.LastCycle >= t.st.Last.ID
}

// Away says that what is known is old: the daemon was stopped or seems to be
// away; "" when it is at work.
func Away(newest *store.Cycle, o Options) string {
	if newest == nil {
		return ""
	}
	age := o.Now.Sub(Heartbeat(newest))
	switch {
	case newest.Stopped():
		return fmt.Sprintf("riflingd was stopped %s ago and took back what it had set", wording.About(age))
	case age > StaleAfter(o.Interval):
		return fmt.Sprintf("riflingd's last cycle was %s ago", wording.About(age))
	}
	return ""
}

// StaleAfter is the age of the last cycle from which the daemon counts as away.
func StaleAfter(interval time.Duration) time.Duration { return max(3*interval, time.Minute) }

// Heartbeat is when the daemon was last alive, by its host's clock.
func Heartbeat(c *store.Cycle) time.Time {
	if c.Ended.After(c.Begun) {
		return c.Ended
	}
	return c.Begun
}

// hosts writes a node list.
func hosts(nodes []string) string { return slurm.CompressHosts(nodes) }
