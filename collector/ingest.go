// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Keeper makes samples durable.
type Keeper interface {
	// Keep keeps samples and the marks of their nodes together, both or
	// neither, and returns when a power cut can no longer take them.
	Keep(ctx context.Context, samples []Sample, marks []Mark) error
	// Marks returns what Keep was given last of each node.
	Marks(ctx context.Context) ([]Mark, error)
}

// Mark says which samples of a node were taken.
type Mark struct {
	Node  string
	At    time.Time // of its newest sample, by the daemon's clock
	State string    // JSON, for Receiver to read
}

// sender is what is known of a node's collector.
type sender struct {
	// Floor is the time of the newest sample among those runs that are
	// forgotten: a run that is not known and not newer may be one of them.
	Floor time.Time   `json:"floor,omitzero"`
	Runs  []senderRun `json:"runs"` // of the collector, the present one last

	at time.Time // of the newest sample
}

// senderRun is one run of a node's collector.
type senderRun struct {
	Boot string    `json:"boot"`
	Seq  uint64    `json:"seq"` // highest number taken
	At   time.Time `json:"at"`  // of the newest sample
}

// runsKept of a collector are remembered, so that the last samples of one may
// arrive after the first of the next.
const runsKept = 8

// pending is a batch on its way.
type pending struct {
	samples []Sample // sound ones
	answer  *reply
	err     error
	done    chan struct{} // closed when it is kept, or not
}

// Bounds of a group of batches that are kept in one transaction, in samples.
const (
	groupFull = 5000
	maxQueued = 50_000 // waiting; more are sent away
	keepFor   = 20 * time.Second
)

// Load restores which samples were taken in the life of an earlier daemon.
func (r *Receiver) Load(ctx context.Context) error {
	if r.opts.Keeper == nil {
		return nil
	}
	marks, err := r.opts.Keeper.Marks(ctx)
	if err != nil {
		return fmt.Errorf("restore what collectors sent: %w", err)
	}
	r.commit.Lock()
	defer r.commit.Unlock()
	for _, m := range marks {
		s := &sender{at: m.At}
		if err := json.Unmarshal([]byte(m.State), s); err != nil {
			return fmt.Errorf("restore what the collector of %s sent: %w", m.Node, err)
		}
		r.known[m.Node] = s
	}
	r.mu.Lock()
	r.stats.Nodes = len(r.known)
	r.mu.Unlock()
	return nil
}

// submit has a batch kept and waits for it. The first of a group waits for
// others for a moment and while the group before is being kept; then it keeps
// all of them in one transaction, since it is the wait for the disk that takes
// time.
func (r *Receiver) submit(p *pending) error {
	r.mu.Lock()
	if r.queued+len(p.samples) > maxQueued {
		r.mu.Unlock()
		return &refusal{http.StatusServiceUnavailable, "busy", busyRetry}
	}
	r.queued += len(p.samples)
	r.waiting = append(r.waiting, p)
	lead := len(r.waiting) == 1
	if r.queued >= groupFull {
		select {
		case r.full <- struct{}{}:
		default:
		}
	}
	r.mu.Unlock()
	if lead {
		r.lead()
	}
	<-p.done
	return p.err
}

func (r *Receiver) lead() {
	if r.opts.Keeper != nil && r.opts.Window > 0 {
		t := time.NewTimer(r.opts.Window)
		select {
		case <-t.C:
		case <-r.full:
			t.Stop()
		}
	}
	r.commit.Lock()
	defer r.commit.Unlock()
	r.mu.Lock()
	group := r.waiting
	r.waiting = nil
	r.mu.Unlock()
	r.keep(group)
	r.mu.Lock()
	for _, p := range group {
		r.queued -= len(p.samples)
	}
	r.mu.Unlock()
	for _, p := range group {
		close(p.done)
	}
}

// keep keeps the new samples of a group and moves the marks of their nodes.
// Nothing of it counts until the keeper has it.
func (r *Receiver) keep(group []*pending) {
	now := r.opts.Now()
	r.expire(now)
	moved := map[string]*sender{}
	var fresh []Sample
	for _, p := range group {
		// A batch may hold the samples of a run in any order.
		slices.SortStableFunc(p.samples, func(a, b Sample) int { return cmp.Compare(a.Seq, b.Seq) })
		for i := range p.samples {
			s := &p.samples[i]
			switch why := r.isNew(s, moved, now); why {
			case "":
				fresh = append(fresh, *s)
				p.answer.Accepted++
			case duplicate:
				p.answer.Duplicates++
			default:
				p.answer.Reasons[why]++
			}
		}
	}
	if len(fresh) > 0 {
		if err := r.store(fresh, moved); err != nil {
			for _, p := range group {
				p.err = &refusal{http.StatusServiceUnavailable, "samples cannot be kept", busyRetry}
			}
			if r.opts.Failed != nil {
				r.opts.Failed(err)
			}
			return
		}
	}
	for node, s := range moved {
		r.known[node] = s
	}
	r.mu.Lock()
	r.stats.Groups++
	r.stats.Nodes = len(r.known)
	r.mu.Unlock()
}

func (r *Receiver) store(fresh []Sample, moved map[string]*sender) error {
	if r.opts.Keeper == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.buf = append(r.buf, fresh...)
		if over := len(r.buf) - r.opts.Buffer; over > 0 {
			r.buf = append([]Sample(nil), r.buf[over:]...)
			r.stats.Overflow += over
		}
		return nil
	}
	marks := make([]Mark, 0, len(moved))
	for node, s := range moved {
		state, err := json.Marshal(s)
		if err != nil {
			return fmt.Errorf("encode what the collector of %s sent: %w", node, err)
		}
		marks = append(marks, Mark{Node: node, At: s.at, State: string(state)})
	}
	// A collector that hangs up must not undo the work of the others.
	ctx, cancel := context.WithTimeout(context.Background(), keepFor)
	defer cancel()
	return r.opts.Keeper.Keep(ctx, fresh, marks)
}

// duplicate says that a sample came before.
const duplicate = "came before"

// isNew tells whether a sample was not taken before, and moves the mark of its
// node. A collector sends in order, so one at or below the highest number seen
// came before.
func (r *Receiver) isNew(s *Sample, moved map[string]*sender, now time.Time) string {
	n := moved[s.Node]
	if n == nil {
		old := r.known[s.Node]
		switch {
		case old != nil:
			n = &sender{Floor: old.Floor, Runs: slices.Clone(old.Runs), at: old.at}
		case len(r.known)+len(moved) >= r.opts.Nodes:
			return "too many nodes"
		default:
			n = &sender{}
		}
	}
	i := slices.IndexFunc(n.Runs, func(run senderRun) bool { return run.Boot == s.Boot })
	switch {
	case i < 0 && !s.At.After(n.Floor):
		return "of a run of the collector that is forgotten"
	case i < 0:
		n.Runs = append(n.Runs, senderRun{Boot: s.Boot})
		i = len(n.Runs) - 1
	case s.Seq <= n.Runs[i].Seq:
		return duplicate
	}
	run := &n.Runs[i]
	run.Seq = s.Seq
	if s.At.After(run.At) {
		run.At = s.At
	}
	if s.At.After(n.at) && !s.At.After(now) {
		n.at = s.At
	}
	n.forget()
	moved[s.Node] = n
	return ""
}

// forget drops the oldest runs above the bound.
func (n *sender) forget() {
	for len(n.Runs) > runsKept {
		oldest := 0
		for i, run := range n.Runs[:len(n.Runs)-1] { // never the one just added
			if run.At.Before(n.Runs[oldest].At) {
				oldest = i
			}
		}
		if n.Runs[oldest].At.After(n.Floor) {
			n.Floor = n.Runs[oldest].At
		}
		n.Runs = slices.Delete(n.Runs, oldest, oldest+1)
	}
}

// expire forgets nodes whose samples would all be refused as too old.
func (r *Receiver) expire(now time.Time) {
	if len(r.known) < r.opts.Nodes/2 {
		return
	}
	for node, s := range r.known {
		if now.Sub(s.at) > r.opts.MaxAge+time.Hour {
			delete(r.known, node)
		}
	}
}

// future is how far a sample's time may be ahead of the daemon's clock. What
// the node's clock is off by was taken out before.
const future = 2 * time.Minute

// Bounds of what can be true.
const (
	fastest   = 4e12    // bytes per second a GPU, more than any link carries
	overSpeed = 2       // times the link's own speed
	maxSeq    = 1 << 53 // a number beyond would block the node's samples for good
)

// unsound names what is wrong with a sample, in few words that do not vary.
func (r *Receiver) unsound(s *Sample, now time.Time) string {
	switch {
	case s.Validate() != nil:
		return malformed(s)
	case strings.ContainsFunc(s.Node+s.Boot, func(c rune) bool { return c <= ' ' || c > '~' }):
		return "bad name"
	case s.Seq > maxSeq:
		return "bad number"
	case tooFast(s, s.NVLinkRate, s.NVLinkSpeed), tooFast(s, s.PCIeRate, s.PCIeSpeed), tooFast(s, s.NetRate, s.NetSpeed):
		return "rate beyond its link"
	case s.At.Before(now.Add(-r.opts.MaxAge)):
		return "too old"
	case s.At.After(now.Add(future)):
		return "from the future"
	}
	return ""
}

func tooFast(s *Sample, bytes, speed float64) bool {
	return bytes > fastest*float64(s.GPUs) || speed > fastest*float64(s.GPUs) || speed > 0 && bytes > overSpeed*speed
}

// malformed says which part of a sample cannot be.
func malformed(s *Sample) string {
	switch {
	case s.Node == "" || len(s.Node) > maxName:
		return "bad name"
	case s.Boot == "" || len(s.Boot) > maxName || s.Seq == 0:
		return "bad number"
	case s.Interval <= 0 || s.Interval > maxInterval || s.At.IsZero():
		return "bad time"
	case s.JobID == 0:
		return "bad job"
	case s.GPUs < 1 || s.GPUs > maxGPUs || len(s.UUIDs) > maxGPUs:
		return "bad GPUs"
	case s.Source.weakness() == 3 && s.Source != SourceNone:
		return "bad source"
	case !(s.Compute >= 0 && s.Compute <= 1):
		return "bad activity"
	case s.validateRates() != nil:
		return "bad rate"
	}
	return "malformed"
}
