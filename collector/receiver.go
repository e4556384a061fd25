// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// ReceiverOptions says what a Receiver accepts. Zero fields take the defaults.
type ReceiverOptions struct {
	Secret  func() (string, error) // required
	Now     func() time.Time       // required
	Buffer  int                    // samples kept until Drain; 50,000
	MaxBody int64                  // bytes of a body, as sent; unpacked 16 times that; 1 MiB
	MaxAge  time.Duration          // older samples are of no use; 24 h
	PerSec  float64                // requests a second of all collectors together, in bursts of 10 s; 200
	Nodes   int                    // nodes that are kept apart; 10,000
}

// unpack bounds a body unpacked, as a multiple of MaxBody.
const unpack = 16

// Receiver is the daemon's end: POST of a Batch. It checks the secret, bounds
// what it reads, leaves out samples that are odd or came before, and keeps the
// rest until Drain.
type Receiver struct {
	opts  ReceiverOptions
	limit *rate.Limiter

	mu    sync.Mutex
	buf   []Sample
	seen  map[string][]boot // by node, the present boot last
	stats Stats
}

// boot is one run of a node's collector.
type boot struct {
	id   string
	last uint64 // highest sequence number
}

// bootsKept per node lets a collector's last samples arrive after its
// successor's first.
const bootsKept = 4

// Stats counts what a Receiver did since it was made.
type Stats struct {
	Requests     int
	Accepted     int            // samples
	Duplicates   int            // samples that came before
	Overflow     int            // samples that gave way before Drain took them
	Rejected     map[string]int // samples left out, by what was wrong with them
	Refused      map[string]int // requests refused, by why
	Nodes        int            // nodes that sent samples
	LastAccepted time.Time
}

// NewReceiver returns a Receiver.
func NewReceiver(opts ReceiverOptions) *Receiver {
	setDefault(&opts.Buffer, 50_000)
	setDefault(&opts.MaxBody, 1<<20)
	setDefault(&opts.MaxAge, 24*time.Hour)
	setDefault(&opts.PerSec, 200)
	setDefault(&opts.Nodes, 10_000)
	return &Receiver{
		opts:  opts,
		limit: rate.NewLimiter(rate.Limit(opts.PerSec), max(1, int(opts.PerSec*10))),
		seen:  map[string][]boot{},
		stats: Stats{Rejected: map[string]int{}, Refused: map[string]int{}},
	}
}

func setDefault[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// Drain returns the samples taken in since the last call, in order of arrival.
func (r *Receiver) Drain() []Sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.buf
	r.buf = nil
	return out
}

// Stats returns a copy of the counts.
func (r *Receiver) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Rejected, s.Refused = copyCounts(s.Rejected), copyCounts(s.Refused)
	s.Nodes = len(r.seen)
	return s
}

func copyCounts(m map[string]int) map[string]int {
	out := make(map[string]int, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// refusal is a request that is not taken, and the status that says so.
type refusal struct {
	status int
	why    string
}

func (e *refusal) Error() string { return e.why }

// ServeHTTP takes one batch and answers how many of its samples were new.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	batch, err := r.read(w, req)
	if err != nil {
		var no *refusal
		if !errors.As(err, &no) {
			no = &refusal{http.StatusBadRequest, err.Error()}
		}
		r.mu.Lock()
		r.stats.Requests++
		r.stats.Refused[no.why]++
		r.mu.Unlock()
		if no.status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "15")
		}
		http.Error(w, no.why, no.status)
		return
	}
	accepted, duplicates, rejected := r.take(batch.Samples)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"accepted":%d,"duplicates":%d,"rejected":%d}`+"\n", accepted, duplicates, rejected)
}

// read checks and decodes a request. The texts of refusals are few and fixed:
// they become the names of counters.
func (r *Receiver) read(w http.ResponseWriter, req *http.Request) (*Batch, error) {
	secret, err := r.opts.Secret()
	if err != nil {
		return nil, &refusal{http.StatusServiceUnavailable, "the daemon has no secret"}
	}
	given, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if !ok || !sameSecret(strings.TrimSpace(given), secret) {
		return nil, &refusal{http.StatusUnauthorized, "wrong secret"}
	}
	if req.Method != http.MethodPost {
		return nil, &refusal{http.StatusMethodNotAllowed, "not a POST"}
	}
	if !r.limit.AllowN(r.opts.Now(), 1) {
		return nil, &refusal{http.StatusTooManyRequests, "too many requests"}
	}
	body := io.Reader(http.MaxBytesReader(w, req.Body, r.opts.MaxBody))
	switch req.Header.Get("Content-Encoding") {
	case "gzip":
		if body, err = gzip.NewReader(body); err != nil {
			return nil, tooLarge(err, "not gzip")
		}
	case "", "identity":
	default:
		return nil, &refusal{http.StatusUnsupportedMediaType, "unknown encoding"}
	}
	limited := &io.LimitedReader{R: body, N: unpack*r.opts.MaxBody + 1}
	var batch Batch
	if err := json.NewDecoder(limited).Decode(&batch); err != nil {
		if limited.N <= 0 {
			return nil, &refusal{http.StatusRequestEntityTooLarge, "too large"}
		}
		return nil, tooLarge(err, "not a batch of samples")
	}
	if batch.Version != BatchVersion {
		return nil, &refusal{http.StatusBadRequest, "unknown version of batch"}
	}
	return &batch, nil
}

// tooLarge tells a body beyond its bound from one that is odd.
func tooLarge(err error, otherwise string) error {
	if e := (*http.MaxBytesError)(nil); errors.As(err, &e) {
		return &refusal{http.StatusRequestEntityTooLarge, "too large"}
	}
	return &refusal{http.StatusBadRequest, otherwise}
}

// take keeps the samples that are new and sound.
func (r *Receiver) take(samples []Sample) (accepted, duplicates, rejected int) {
	now := r.opts.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Requests++
	for i := range samples {
		s := &samples[i]
		if why := r.unsound(s, now); why != "" {
			r.stats.Rejected[why]++
			rejected++
			continue
		}
		if !r.isNew(s) {
			duplicates++
			continue
		}
		r.buf = append(r.buf, *s)
		accepted++
	}
	if over := len(r.buf) - r.opts.Buffer; over > 0 {
		r.buf = append([]Sample(nil), r.buf[over:]...)
		r.stats.Overflow += over
	}
	r.stats.Accepted += accepted
	r.stats.Duplicates += duplicates
	if accepted > 0 {
		r.stats.LastAccepted = now
	}
	return accepted, duplicates, rejected
}

// future is how far a node's clock may be ahead.
const future = 10 * time.Minute

// unsound names what is wrong with a sample, in few words that do not vary.
func (r *Receiver) unsound(s *Sample, now time.Time) string {
	switch {
	case s.Validate() != nil:
		return "malformed"
	case s.At.Before(now.Add(-r.opts.MaxAge)):
		return "too old"
	case s.At.After(now.Add(future)):
		return "from the future"
	case r.seen[s.Node] == nil && len(r.seen) >= r.opts.Nodes:
		return "too many nodes"
	}
	return ""
}

// isNew remembers the sample's number. A collector sends in order, so one at
// or below the highest seen came before.
func (r *Receiver) isNew(s *Sample) bool {
	boots := r.seen[s.Node]
	for i := range boots {
		if boots[i].id != s.Boot {
			continue
		}
		if s.Seq <= boots[i].last {
			return false
		}
		boots[i].last = s.Seq
		return true
	}
	boots = append(boots, boot{s.Boot, s.Seq})
	if len(boots) > bootsKept {
		boots = boots[1:]
	}
	r.seen[s.Node] = boots
	return true
}
