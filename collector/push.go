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
	"net/http"
	"sync"
	"time"

	"rifling/slurm"
)

// Pusher sends samples to the daemon. What cannot be sent waits in memory, the
// oldest giving way when the queue is full. Add and the counts may be used
// beside Run. Set the exported fields before use.
type Pusher struct {
	URL    string // the daemon's, without /v1/samples
	Secret func() (string, error)
	Client *http.Client
	Queue  int // samples that may wait; 0 means DefaultQueue

	// Report is told of the first failure of a row of failures, and with nil
	// that sending works again. May be nil.
	Report func(error)

	mu      sync.Mutex
	queue   []Sample
	dropped int
	wake    chan struct{}
	once    sync.Once
}

// Defaults of Pusher.
const (
	DefaultQueue = 20_000 // an hour of 80 jobs on a node, 4 samples a minute
	batchSize    = 1000
	minBackoff   = 5 * time.Second
	maxBackoff   = 2 * time.Minute
)

// Errors of Send that say what to do with the batch.
var (
	ErrRefused  = errors.New("the daemon refused the secret")
	ErrBadBatch = errors.New("the daemon cannot read the samples")
)

func (p *Pusher) init() { p.once.Do(func() { p.wake = make(chan struct{}, 1) }) }

// Add queues samples and wakes Run.
func (p *Pusher) Add(samples []Sample) {
	p.init()
	p.mu.Lock()
	limit := p.Queue
	if limit == 0 {
		limit = DefaultQueue
	}
	p.queue = append(p.queue, samples...)
	if over := len(p.queue) - limit; over > 0 {
		p.queue = append([]Sample(nil), p.queue[over:]...)
		p.dropped += over
	}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Waiting returns how many samples are queued, and how many were given up for
// want of room or because the daemon could not read them.
func (p *Pusher) Waiting() (queued, dropped int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue), p.dropped
}

// Run sends what is added until ctx ends, and then tries once more, for at
// most last. While sending fails it tries less and less often.
func (p *Pusher) Run(ctx context.Context, last time.Duration) {
	p.init()
	for backoff := time.Duration(0); p.await(ctx, backoff); {
		err := p.Flush(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			if backoff == 0 {
				p.report(err)
			}
			backoff = min(maxBackoff, max(minBackoff, 2*backoff))
		case backoff > 0:
			backoff = 0
			p.report(nil)
		}
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), last)
	defer cancel()
	_ = p.Flush(end)
}

// await waits for new samples or, after a failure, for the backoff. It reports
// whether ctx goes on.
func (p *Pusher) await(ctx context.Context, backoff time.Duration) bool {
	wake := p.wake
	var retry <-chan time.Time
	if backoff > 0 {
		t := time.NewTimer(backoff)
		defer t.Stop()
		wake, retry = nil, t.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-retry:
	}
	return true
}

func (p *Pusher) report(err error) {
	if p.Report != nil {
		p.Report(err)
	}
}

// Flush sends batches until the queue is empty or one cannot be sent. A batch
// that the daemon cannot read is given up; all else stays queued.
func (p *Pusher) Flush(ctx context.Context) error {
	for {
		p.mu.Lock()
		batch := append([]Sample(nil), p.queue[:min(len(p.queue), batchSize)]...)
		p.mu.Unlock()
		if len(batch) == 0 {
			return nil
		}
		err := p.Send(ctx, batch)
		if err == nil || errors.Is(err, ErrBadBatch) {
			p.forget(batch, err != nil)
		}
		if err != nil {
			return err
		}
	}
}

// forget takes a batch off the queue, from which Add may have dropped a part
// of it meanwhile.
func (p *Pusher) forget(batch []Sample, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := batch[len(batch)-1]
	n := 0
	for n < len(p.queue) && p.queue[n].Boot == last.Boot && p.queue[n].Seq <= last.Seq {
		n++
	}
	p.queue = p.queue[n:]
	if lost {
		p.dropped += n
	}
}

// Send posts one batch. An empty one tests the way and the secret.
func (p *Pusher) Send(ctx context.Context, samples []Sample) error {
	secret, err := p.Secret()
	if err != nil {
		return err
	}
	var body bytes.Buffer
	zip := gzip.NewWriter(&body)
	if err := json.NewEncoder(zip).Encode(Batch{Version: BatchVersion, Samples: samples}); err != nil {
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
	return answer(resp)
}

// answer turns the daemon's answer into what it means for the batch.
func answer(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
	status := fmt.Sprintf("%s %s", resp.Status, bytes.TrimSpace(text))
	switch code := resp.StatusCode; {
	case code/100 == 2:
		return nil
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return slurm.WithHint(fmt.Errorf("send samples: %w: %s", ErrRefused, status),
			"the secret files of this node and of the daemon must hold the same line")
	case code == http.StatusBadRequest || code == http.StatusRequestEntityTooLarge ||
		code == http.StatusUnsupportedMediaType:
		return slurm.WithHint(fmt.Errorf("send samples: %w: %s", ErrBadBatch, status),
			"daemon and collector should be of the same release")
	default:
		return fmt.Errorf("send samples: %s", status)
	}
}
