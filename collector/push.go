// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"rifling/slurm"
)

// Pusher sends samples to the daemon, in the order in which they were added.
// What cannot be sent waits in the spool. Add and the counts may be used beside
// Run. Set the exported fields before use.
type Pusher struct {
	URL    string // the daemon's, without /v1/samples
	Secret func() (string, error)
	Client *http.Client
	// Spool is where samples wait; nil means in memory, Queue samples at most
	// (0: DefaultQueue).
	Spool *Spool
	Queue int
	// Spread is the time over which the collectors of a cluster, whose
	// readings may be in step, spread their sending: each waits its own part.
	Spread time.Duration
	// Rand returns a random number in [0, 1); nil means the global source.
	Rand func() float64

	// Report is told of the first failure of a row of failures, and with nil
	// that sending works again. May be nil.
	Report func(error)
	// Notice is told what the daemon found odd in samples that it took or left
	// out, each thing once. May be nil.
	Notice func(string)

	wake    chan struct{}
	once    sync.Once
	size    int // samples in a batch; less after one was too large
	noticed map[string]bool
}

// How batches are cut and how long a failure is waited out.
const (
	batchSize  = 1000
	minBackoff = 5 * time.Second
	maxBackoff = 2 * time.Minute
	maxRetry   = 10 * time.Minute // of what the daemon asks for
)

// Errors of Send that say what to do with the batch.
var (
	ErrRefused  = errors.New("the daemon refused the secret")
	ErrBadBatch = errors.New("the daemon cannot read the samples")
)

// errTooLarge is a bad batch of which a part may be good.
var errTooLarge = fmt.Errorf("%w: too large", ErrBadBatch)

// retryLaterError is a failure after which the daemon said when to come again.
type retryLaterError struct {
	error
	after time.Duration
}

func (e retryLaterError) Unwrap() error { return e.error }

func (p *Pusher) init() {
	p.once.Do(func() {
		p.wake = make(chan struct{}, 1)
		p.size, p.noticed = batchSize, map[string]bool{}
		if p.Rand == nil {
			p.Rand = rand.Float64
		}
		if p.Spool == nil {
			p.Spool = NewSpool(SpoolOptions{Memory: p.Queue})
		}
	})
}

// Add queues samples and wakes Run.
func (p *Pusher) Add(samples []Sample) {
	p.init()
	p.Spool.Add(samples)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Waiting returns how many samples are queued, and how many were given up for
// want of room or because the daemon could not read them.
func (p *Pusher) Waiting() (queued, dropped int) {
	p.init()
	c := p.Spool.Counts()
	return c.Waiting, c.Dropped + c.Refused
}

// Run sends what an earlier collector left and what is added until ctx ends,
// and then tries once more, for at most last. While sending fails it tries less
// and less often, at random moments, so that the collectors of a cluster do not
// all come back at once.
func (p *Pusher) Run(ctx context.Context, last time.Duration) {
	p.init()
	failures := 0
	for wait := p.part(p.Spread); p.await(ctx, failures > 0, wait); {
		err := p.Flush(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			if failures == 0 {
				p.report(err)
			}
			wait = p.backoff(failures, err)
			failures++
			continue
		case failures > 0:
			failures = 0
			p.report(nil)
		}
		wait = p.part(p.Spread)
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), last)
	defer cancel()
	_ = p.Flush(end) // what is left waits in the spool
}

// part returns a random part of d.
func (p *Pusher) part(d time.Duration) time.Duration { return time.Duration(p.Rand() * float64(d)) }

// backoff returns how long to wait after one more failure. What the daemon asks
// for is the least.
func (p *Pusher) backoff(failures int, err error) time.Duration {
	limit := min(maxBackoff, minBackoff<<min(failures, 10))
	if later := (retryLaterError{}); errors.As(err, &later) {
		return min(maxRetry, later.after) + p.part(max(limit, later.after))
	}
	return p.part(limit)
}

// await waits for new samples and then for its part of the spread or, after a
// failure, for the backoff. It reports whether ctx goes on.
func (p *Pusher) await(ctx context.Context, failed bool, wait time.Duration) bool {
	if !failed && p.Spool.Counts().Waiting == 0 {
		select {
		case <-ctx.Done():
			return false
		case <-p.wake:
		}
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
	}
	return true
}

func (p *Pusher) report(err error) {
	if p.Report != nil {
		p.Report(err)
	}
}

// Flush sends batches until the queue is empty or one cannot be sent. A batch
// that is too large is sent in parts; one that the daemon cannot read is put
// aside; all else stays queued.
func (p *Pusher) Flush(ctx context.Context) error {
	p.init()
	for {
		batch, at := p.Spool.Next(p.size)
		if len(batch) == 0 {
			return nil
		}
		err := p.Send(ctx, batch)
		switch {
		case err == nil:
			p.Spool.Done(at)
			p.size = min(batchSize, 2*p.size)
		case errors.Is(err, errTooLarge) && len(batch) > 1:
			p.size = len(batch) / 2
		case errors.Is(err, ErrBadBatch):
			p.Spool.Aside(batch, at)
			return err
		default:
			return err
		}
	}
}

// Send posts one batch. An empty one tests the way and the secret.
func (p *Pusher) Send(ctx context.Context, samples []Sample) error {
	secret, err := p.Secret()
	if err != nil {
		return err
	}
	p.init()
	var body bytes.Buffer
	zip := gzip.NewWriter(&body)
	if err := json.NewEncoder(zip).Encode(Batch{Version: BatchVersion, Samples: samples, SentAt: time.Now()}); err != nil {
		return fmt.Errorf("encode samples: %w", err)
	}
	if err := zip.Close(); err != nil {
		return fmt.Errorf("encode samples: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL+"/v1/samples", &body)
	if err != nil {
		return fmt.Errorf("send samples: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Content-Encoding", "gzip")
	req.Header.Set("Authorization", "Bearer "+secret)
	resp, err := p.Client.Do(req)
	if err != nil {
		return slurm.WithHint(fmt.Errorf("send samples: %w", err), "does riflingd run there, and is listen.address open to this node?")
	}
	defer resp.Body.Close()
	if err := answer(resp); err != nil {
		return err
	}
	p.heed(resp.Body)
	return nil
}

// heed passes on what the daemon says of samples that it took.
func (p *Pusher) heed(body io.Reader) {
	var r reply
	if json.NewDecoder(io.LimitReader(body, 64<<10)).Decode(&r) != nil || p.Notice == nil {
		return // an older daemon may answer otherwise
	}
	say := func(key, what string) {
		if !p.noticed[key] {
			p.noticed[key] = true
			p.Notice(what)
		}
	}
	for why, n := range r.Reasons {
		say(why, fmt.Sprintf("the daemon left out %d samples: %s", n, why))
	}
	if r.Skew != "" {
		say("skew", "this node's clock is off by "+r.Skew+" against the daemon's; the daemon corrects the samples' times")
	}
}

// answer turns the daemon's answer into what it means for the batch.
func answer(resp *http.Response) error {
	code := resp.StatusCode
	if code/100 == 2 {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
	status := fmt.Sprintf("%s %s", resp.Status, bytes.TrimSpace(text))
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return slurm.WithHint(fmt.Errorf("send samples: %w: %s", ErrRefused, status),
			"the secret files of this node and of the daemon must hold the same line")
	case http.StatusRequestEntityTooLarge:
		return fmt.Errorf("send samples: %w: %s", errTooLarge, status)
	case http.StatusBadRequest, http.StatusUnsupportedMediaType:
		return slurm.WithHint(fmt.Errorf("send samples: %w: %s", ErrBadBatch, status),
			"daemon and collector should be of the same release")
	}
	err := fmt.Errorf("send samples: %s", status)
	if s, bad := strconv.Atoi(resp.Header.Get("Retry-After")); bad == nil && s > 0 {
		return retryLaterError{err, time.Duration(s) * time.Second}
	}
	return err
}
