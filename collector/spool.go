// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"rifling/slurm"
)

// SpoolOptions says where samples wait to be sent. Zero fields take the
// defaults; the zero value is a queue in memory.
type SpoolOptions struct {
	Dir      string // "": memory only
	MaxBytes int64  // of all files; 64 MiB, a week of two jobs and 8 GPUs
	Memory   int    // samples that wait where there is no disk; DefaultQueue
	// Report is told when the folder cannot be used and, with nil, when it can
	// again. May be nil.
	Report func(error)

	segment int64 // of one file; 1 MiB, and less where MaxBytes asks for it
}

// Defaults of a Spool.
const (
	DefaultQueue      = 20_000 // an hour of 80 jobs on a node, 4 samples a minute
	DefaultSpoolBytes = 64 << 20
	segmentBytes      = 1 << 20
	reopenAfter       = time.Minute // between two tries of a folder that fails
)

// Spool is a queue of samples that outlasts the collector: each is written to
// the newest file of a folder when it comes, and a file goes when all of it was
// sent. After a crash a file is sent from its beginning; the daemon knows what
// came before. When the files take too much room, the oldest goes as a whole.
// While the folder fails, samples wait in memory. Its methods may be called by
// several goroutines.
type Spool struct {
	opts SpoolOptions

	mu      sync.Mutex
	lock    *os.File   // held while the folder is ours
	segs    []*segment // oldest first; samples are added to the last
	head    []Sample   // what is still to be sent of the first; nil: not read yet
	mem     []Sample   // newer than all on disk
	turn    int        // changes when what Next gave may have moved
	tried   time.Time  // when the folder was last tried
	failing bool
	counts  SpoolCounts
}

// SpoolCounts says what became of samples.
type SpoolCounts struct {
	Waiting int   // samples
	Bytes   int64 // of files
	Dropped int   // samples that gave way for want of room
	Refused int   // samples put aside, since the daemon could not read them, or that cannot be
	Damaged int   // files of which a part could not be read, and was cut
}

// Place names a batch that Next gave.
type Place struct{ turn, n int }

// NewSpool returns a queue. A folder that cannot be used is reported, and
// tried again later.
func NewSpool(o SpoolOptions) *Spool {
	setDefault(&o.MaxBytes, DefaultSpoolBytes)
	setDefault(&o.Memory, DefaultQueue)
	setDefault(&o.segment, min(segmentBytes, o.MaxBytes/4))
	s := &Spool{opts: o}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spill()
	return s
}

// Add queues samples, but for those that the daemon would leave out: of what is
// no number there is not even a way to write it down.
func (s *Spool) Add(samples []Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waited := len(s.mem) > 0
	for i := range samples {
		if samples[i].Validate() != nil {
			s.counts.Refused++
			continue
		}
		s.mem = append(s.mem, samples[i])
	}
	s.spill()
	if waited && len(s.mem) == 0 {
		s.turn++ // what Next may have given from memory is behind other samples now
	}
	if over := len(s.mem) - s.opts.Memory; over > 0 {
		s.mem = append([]Sample(nil), s.mem[over:]...)
		s.counts.Dropped += over
		s.turn++
	}
}

// spill moves what waits in memory to the folder, if it can be used.
func (s *Spool) spill() {
	if s.opts.Dir == "" || s.failing && time.Since(s.tried) < reopenAfter {
		return
	}
	s.tried = time.Now()
	err := s.open()
	if err == nil && len(s.mem) > 0 {
		err = s.write()
	}
	if failing := err != nil; failing != s.failing {
		s.failing = failing
		if s.opts.Report != nil {
			s.opts.Report(err)
		}
	}
}

// write adds what is in memory to the newest file.
func (s *Spool) write() error {
	payload, err := json.Marshal(s.mem)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	var last *segment
	if len(s.segs) > 0 {
		last = s.segs[len(s.segs)-1]
	}
	if last == nil || last.size >= s.opts.segment || last.file == nil {
		if last, err = s.next(); err != nil {
			return err
		}
	}
	if err := last.append(payload, len(s.mem)); err != nil {
		return slurm.WithHint(fmt.Errorf("spool: %w", err), "free space or fix %s; samples wait in memory meanwhile", s.opts.Dir)
	}
	if len(s.segs) == 1 && s.head != nil {
		s.head = append(s.head, s.mem...)
	}
	s.mem = nil
	s.bound()
	return nil
}

// next begins a new file.
func (s *Spool) next() (*segment, error) {
	number := 1
	if n := len(s.segs); n > 0 {
		number = s.segs[n-1].number + 1
		s.segs[n-1].finish()
	}
	seg, err := createSegment(s.opts.Dir, number)
	if err != nil {
		return nil, slurm.WithHint(fmt.Errorf("spool: %w", err), "%s must be a folder that the collector's user may write to", s.opts.Dir)
	}
	s.segs = append(s.segs, seg)
	return seg, nil
}

// bound lets the oldest files go while all take too much room. The one that is
// being written stays.
func (s *Spool) bound() {
	for len(s.segs) > 1 && s.bytes() > s.opts.MaxBytes {
		s.counts.Dropped += s.segs[0].samples
		if s.head != nil {
			s.counts.Dropped -= s.segs[0].samples - len(s.head) // these were sent
		}
		s.remove()
	}
}

func (s *Spool) bytes() (n int64) {
	for _, seg := range s.segs {
		n += seg.size
	}
	return n
}

// remove takes the oldest file away.
func (s *Spool) remove() {
	s.segs[0].remove()
	s.segs = s.segs[1:]
	s.head = nil
	s.turn++
}

// Next returns the oldest samples, limit at most, without taking them off the
// queue.
func (s *Spool) Next(limit int) ([]Sample, Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.segs) > 1 && s.head != nil && len(s.head) == 0 {
		s.remove()
	}
	for len(s.segs) > 0 && s.head == nil {
		samples, damaged := s.segs[0].read()
		if damaged {
			s.counts.Damaged++
		}
		if len(samples) == 0 && (len(s.segs) > 1 || damaged) {
			s.remove()
			continue
		}
		s.head = append([]Sample{}, samples...)
	}
	from := s.head
	if len(from) == 0 {
		from = s.mem
	}
	n := min(limit, len(from))
	return append([]Sample(nil), from[:n]...), Place{s.turn, n}
}

// Done takes the batch of that place off the queue. When samples have moved
// meanwhile, they stay and are sent again.
func (s *Spool) Done(p Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.turn != s.turn || p.n == 0 {
		return
	}
	if len(s.head) == 0 {
		s.mem = s.mem[p.n:]
		return
	}
	s.head = s.head[p.n:]
	if len(s.head) > 0 {
		return
	}
	if len(s.segs) > 1 {
		s.remove()
		return
	}
	s.segs[0].empty()
	s.head = []Sample{}
}

// Aside keeps the newest batch that the daemon could not read in a file, for
// whoever wants to know why, and takes it off the queue.
func (s *Spool) Aside(batch []Sample, p Place) {
	s.mu.Lock()
	s.counts.Refused += len(batch)
	if s.opts.Dir != "" && !s.failing {
		if b, err := json.Marshal(batch); err == nil {
			_ = os.WriteFile(filepath.Join(s.opts.Dir, "refused.json"), b, 0o600) // only a help to people
		}
	}
	s.mu.Unlock()
	s.Done(p)
}

// Counts returns how much waits and what was lost.
func (s *Spool) Counts() SpoolCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Waiting, c.Bytes = len(s.mem), s.bytes()
	for i, seg := range s.segs {
		if i == 0 && s.head != nil {
			c.Waiting += len(s.head)
		} else {
			c.Waiting += seg.samples
		}
	}
	return c
}

// Close writes what it can to the folder and leaves that to the next collector.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mem) > 0 {
		s.tried = time.Time{}
		s.spill()
	}
	for _, seg := range s.segs {
		seg.finish()
	}
	if s.lock == nil {
		return nil
	}
	err := s.lock.Close()
	s.lock = nil
	return err
}

// errSpoolTaken says that another collector uses the folder.
var errSpoolTaken = errors.New("another collector uses the folder")
