// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// ReceiverOptions says what a Receiver accepts. Zero fields take the defaults.
type ReceiverOptions struct {
	Secret func() (string, error) // required
	Now    func() time.Time       // required
	// Keeper makes samples durable before they are acknowledged. Without one
	// they wait in memory for Drain, Buffer at most.
	Keeper Keeper
	Buffer int // 50,000
	// Failed is told when the keeper fails. May be nil.
	Failed func(error)

	MaxBody    int64         // bytes of a body, as sent; unpacked 16 times that; 1 MiB
	MaxSamples int           // in a batch; 5,000
	MaxAge     time.Duration // older samples are of no use; 7 days
	PerSec     float64       // requests a second of all collectors together, in bursts of 10 s; 200
	// Samples a second of one node, and how many at once: what a spool holds
	// after a weekend comes in one go. 50; 20,000
	NodePerSec float64
	NodeBurst  int
	Nodes      int           // nodes that are kept apart; 10,000
	Window     time.Duration // how long the first batch of a group waits for others; 100 ms; negative: not at all
	Decoders   int           // bodies that are unpacked at a time, up to 17 MiB each; 8
}

// unpack bounds a body unpacked, as a multiple of MaxBody.
const unpack = 16

func (o *ReceiverOptions) setDefaults() {
	setDefault(&o.Buffer, 50_000)
	setDefault(&o.MaxBody, 1<<20)
	setDefault(&o.MaxSamples, 5000)
	setDefault(&o.MaxAge, 7*24*time.Hour)
	setDefault(&o.PerSec, 200)
	setDefault(&o.NodePerSec, 50)
	setDefault(&o.NodeBurst, 20_000)
	setDefault(&o.Nodes, 10_000)
	setDefault(&o.Window, 100*time.Millisecond)
	setDefault(&o.Decoders, 8)
}

func setDefault[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// Receiver is the daemon's end: POST of a Batch. It checks the secret, bounds
// what it reads, leaves out samples that are odd or came before, and answers
// once the rest is kept.
type Receiver struct {
	opts    ReceiverOptions
	limit   *rate.Limiter
	decoder chan struct{} // a place for each body being unpacked

	commit gate // held while a group is being kept; guards known
	known  map[string]*sender

	mu      sync.Mutex // guards what follows
	waiting []*pending // batches of the next group
	queued  int        // samples in them and in the group being kept
	full    chan struct{}
	limits  map[string]*rate.Limiter // by node
	buf     []Sample                 // without a keeper
	stats   Stats
}

// gate is a mutex that is held for as long as the disk takes. Being a channel,
// it lets a test's clock run meanwhile.
type gate chan struct{}

// Lock waits until nobody holds the gate, and holds it.
func (g gate) Lock() { g <- struct{}{} }

// Unlock lets the next one in.
func (g gate) Unlock() { <-g }

// Stats counts what a Receiver did since it was made.
type Stats struct {
	Requests   int
	Accepted   int            // samples
	Duplicates int            // samples that came before
	Overflow   int            // samples that gave way before Drain took them
	Rejected   map[string]int // samples left out, by what was wrong with them
	Refused    map[string]int // requests refused, by why
	Nodes      int            // nodes that sent samples
	Groups     int            // transactions of the keeper
	Skewed     int            // batches of nodes whose clock is off by more than a minute; their times are corrected
	// Skew is by how much the clock of the last such batch's node was ahead of
	// the daemon's, and SkewNode that node.
	Skew         time.Duration
	SkewNode     string
	LastAccepted time.Time
}

// NewReceiver returns a Receiver. With a Keeper, Load must be called before it
// serves.
func NewReceiver(opts ReceiverOptions) *Receiver {
	opts.setDefaults()
	return &Receiver{
		opts:    opts,
		limit:   rate.NewLimiter(rate.Limit(opts.PerSec), max(1, int(opts.PerSec*10))),
		decoder: make(chan struct{}, opts.Decoders),
		commit:  make(gate, 1),
		known:   map[string]*sender{},
		full:    make(chan struct{}, 1),
		limits:  map[string]*rate.Limiter{},
		stats:   Stats{Rejected: map[string]int{}, Refused: map[string]int{}},
	}
}

// Drain returns the samples taken in since the last call, in order of arrival,
// where there is no Keeper.
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
	s.Rejected, s.Refused = maps.Clone(s.Rejected), maps.Clone(s.Refused)
	return s
}

// refusal is a request that is not taken, and the status that says so.
type refusal struct {
	status int
	why    string        // few and fixed words: they become the names of counters
	retry  time.Duration // when to come again; 0: not said
}

func (e *refusal) Error() string { return e.why }

// reply is the body of a success.
type reply struct {
	Accepted   int            `json:"accepted"`
	Duplicates int            `json:"duplicates"`
	Rejected   int            `json:"rejected"`
	Reasons    map[string]int `json:"reasons,omitempty"` // of those rejected
	Skew       string         `json:"skew,omitempty"`    // how far the node's clock is ahead, if more than a minute
}

// ServeHTTP takes one batch and answers how many of its samples were new, once
// these are kept.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	a, err := r.serve(w, req)
	r.mu.Lock()
	r.stats.Requests++
	r.mu.Unlock()
	if err != nil {
		var no *refusal
		if !errors.As(err, &no) {
			no = &refusal{status: http.StatusBadRequest, why: err.Error()}
		}
		r.mu.Lock()
		r.stats.Refused[no.why]++
		r.mu.Unlock()
		if no.retry > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(no.retry.Seconds())))
		}
		http.Error(w, no.why, no.status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a) // the sender is gone: it will ask again
}

func (r *Receiver) serve(w http.ResponseWriter, req *http.Request) (*reply, error) {
	if err := r.admit(req); err != nil {
		return nil, err
	}
	select {
	case r.decoder <- struct{}{}:
	case <-req.Context().Done():
		return nil, &refusal{http.StatusServiceUnavailable, "busy", busyRetry}
	}
	batch, err := r.read(w, req)
	<-r.decoder
	if err != nil {
		return nil, err
	}
	return r.take(batch)
}

// busyRetry is when a collector should come again that was sent away.
const busyRetry = 15 * time.Second

// admit checks what can be told without the body.
func (r *Receiver) admit(req *http.Request) error {
	secret, err := r.opts.Secret()
	if err != nil {
		return &refusal{http.StatusServiceUnavailable, "the daemon has no secret", busyRetry}
	}
	given, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if !ok || !sameSecret(strings.TrimSpace(given), secret) {
		return &refusal{http.StatusUnauthorized, "wrong secret", 0}
	}
	if req.Method != http.MethodPost {
		return &refusal{http.StatusMethodNotAllowed, "not a POST", 0}
	}
	if !r.limit.AllowN(r.opts.Now(), 1) {
		return &refusal{http.StatusTooManyRequests, "too many requests", busyRetry}
	}
	return nil
}

// read unpacks and decodes a request.
func (r *Receiver) read(w http.ResponseWriter, req *http.Request) (*Batch, error) {
	body := io.Reader(http.MaxBytesReader(w, req.Body, r.opts.MaxBody))
	switch req.Header.Get("Content-Encoding") {
	case "gzip":
		zip, err := gzip.NewReader(body)
		if err != nil {
			return nil, tooLarge(err, "not gzip")
		}
		body = zip
	case "", "identity":
	default:
		return nil, &refusal{http.StatusUnsupportedMediaType, "unknown encoding", 0}
	}
	limited := &io.LimitedReader{R: body, N: unpack*r.opts.MaxBody + 1}
	var batch Batch
	dec := json.NewDecoder(limited)
	if err := dec.Decode(&batch); err != nil {
		if limited.N <= 0 {
			return nil, &refusal{http.StatusRequestEntityTooLarge, "too large", 0}
		}
		return nil, tooLarge(err, cutShort(err, "not a batch of samples"))
	}
	// What follows must be nothing: the end of the stream holds gzip's checksum.
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, tooLarge(err, cutShort(err, "something follows the batch"))
	}
	if batch.Version != BatchVersion {
		return nil, &refusal{http.StatusBadRequest, "unknown version of batch", 0}
	}
	if len(batch.Samples) > r.opts.MaxSamples {
		return nil, &refusal{http.StatusRequestEntityTooLarge, "too many samples in a batch", 0}
	}
	return &batch, nil
}

// tooLarge tells a body beyond its bound from one that is odd.
func tooLarge(err error, otherwise string) error {
	if e := (*http.MaxBytesError)(nil); errors.As(err, &e) {
		return &refusal{http.StatusRequestEntityTooLarge, "too large", 0}
	}
	return &refusal{http.StatusBadRequest, otherwise, 0}
}

func cutShort(err error, otherwise string) string {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "cut short"
	}
	if errors.Is(err, gzip.ErrChecksum) {
		return "damaged on the way"
	}
	return otherwise
}

// skewShown is how far a node's clock may be off before it is shown. Times are
// corrected whatever the difference, but for what the way of a batch takes.
const (
	skewShown = time.Minute
	skewNoise = 2 * time.Second
)

// correct sets the samples' times to the daemon's clock: SentAt is the node's
// clock at the moment that is now here.
func (r *Receiver) correct(b *Batch, now time.Time) (skew time.Duration) {
	if b.SentAt.IsZero() {
		return 0
	}
	skew = b.SentAt.Sub(now)
	if skew.Abs() <= skewNoise {
		return 0
	}
	for i := range b.Samples {
		if !b.Samples[i].At.IsZero() {
			b.Samples[i].At = b.Samples[i].At.Add(-skew)
		}
	}
	return skew
}

// take sorts the samples, has the sound ones kept, and tells what came of them.
func (r *Receiver) take(b *Batch) (*reply, error) {
	now := r.opts.Now()
	a := &reply{Reasons: map[string]int{}}
	if skew := r.correct(b, now); skew.Abs() > skewShown && len(b.Samples) > 0 {
		a.Skew = fmt.Sprint(skew.Round(time.Second))
		r.mu.Lock()
		r.stats.Skewed++
		r.stats.Skew, r.stats.SkewNode = skew, printable(b.Samples[0].Node)
		r.mu.Unlock()
	}
	p := &pending{answer: a, done: make(chan struct{})}
	counts := map[string]int{}
	for i := range b.Samples {
		s := &b.Samples[i]
		if why := r.unsound(s, now); why != "" {
			a.Reasons[why]++
			continue
		}
		counts[s.Node]++
		p.samples = append(p.samples, *s)
	}
	if err := r.allow(counts, now); err != nil {
		return nil, err
	}
	if err := r.submit(p); err != nil {
		return nil, err
	}
	for _, n := range a.Reasons {
		a.Rejected += n
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for why, n := range a.Reasons {
		r.stats.Rejected[why] += n
	}
	r.stats.Accepted += a.Accepted
	r.stats.Duplicates += a.Duplicates
	if a.Accepted > 0 {
		r.stats.LastAccepted = now
	}
	return a, nil
}

// printable bounds what a log shows of a name from outside.
func printable(s string) string {
	if len(s) > 64 {
		s = s[:64]
	}
	return strconv.QuoteToASCII(s)
}

// allow bounds what one node may send. The batch is not lost: it may come again
// later.
func (r *Receiver) allow(counts map[string]int, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.limits) > r.opts.Nodes {
		clear(r.limits) // names that are made up; each begins anew
	}
	for node, n := range counts {
		l := r.limits[node]
		if l == nil {
			l = rate.NewLimiter(rate.Limit(r.opts.NodePerSec), r.opts.NodeBurst)
			r.limits[node] = l
		}
		if !l.AllowN(now, min(n, r.opts.NodeBurst)) {
			return &refusal{http.StatusTooManyRequests, "too many samples of a node", time.Minute}
		}
	}
	return nil
}
