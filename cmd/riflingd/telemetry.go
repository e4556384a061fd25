// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"rifling/cmd/internal/config"
	"rifling/collector"
	"rifling/cycle"
	"rifling/profile"
	"rifling/slurm"
	"rifling/store"
)

// telemetry takes the collectors' samples, has them kept, and hands them to the
// loop. Without a secret it takes none over the network: counters from anyone
// would let anyone steer.
type telemetry struct {
	receiver *collector.Receiver
	store    *store.Store
	open     bool // to collectors
}

func newTelemetry(ctx context.Context, c *config.Config, s *store.Store, log *slog.Logger) (*telemetry, error) {
	t := &telemetry{store: s, open: c.Listen.SecretFile != "" && c.Listen.Address != ""}
	secret := collector.SecretFile(c.Listen.SecretFile)
	if t.open {
		if _, err := secret(); err != nil {
			return nil, err
		}
	}
	failed := &seldom{log: log}
	t.receiver = collector.NewReceiver(collector.ReceiverOptions{
		Secret: secret, Now: time.Now, Keeper: keeper{s}, Failed: failed.note,
	})
	return t, t.receiver.Load(ctx)
}

// seldom logs that samples cannot be kept, once in ten minutes: each collector
// comes again and again.
type seldom struct {
	log *slog.Logger

	mu   sync.Mutex
	last time.Time
}

func (s *seldom) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.last) < 10*time.Minute {
		return
	}
	s.last = time.Now()
	s.log.Error("samples cannot be kept; the collectors hold them back", "err", err, "hint", slurm.HintOf(err))
}

// keeper is the store as the receiver needs it.
type keeper struct{ store *store.Store }

// Keep keeps samples and marks in one transaction.
func (k keeper) Keep(ctx context.Context, samples []collector.Sample, marks []collector.Mark) error {
	rows := make([]profile.Sample, len(samples))
	for i := range samples {
		s := &samples[i]
		rows[i] = profile.Sample{
			JobID: s.JobID, Node: s.Node, At: s.At, Interval: s.Interval, GPUs: s.GPUs,
			Compute: s.Compute, Source: profile.Source(s.Source),
			NVLinkRate: s.NVLinkRate, PCIeRate: s.PCIeRate, NetRate: s.NetRate,
			NVLinkSpeed: s.NVLinkSpeed, PCIeSpeed: s.PCIeSpeed, NetSpeed: s.NetSpeed, NetShared: s.NetShared,
			Origin: profile.Origin(s.Origin), Weight: s.Weight, Throttled: s.Throttled, GPUShared: s.GPUShared,
		}
	}
	senders := make([]store.Sender, len(marks))
	for i, m := range marks {
		senders[i] = store.Sender{Node: m.Node, At: m.At, State: m.State}
	}
	return k.store.KeepSamples(ctx, rows, senders)
}

// Marks returns what the last daemon kept of the collectors.
func (k keeper) Marks(ctx context.Context) ([]collector.Mark, error) {
	senders, err := k.store.Senders(ctx)
	if err != nil {
		return nil, err
	}
	marks := make([]collector.Mark, len(senders))
	for i, s := range senders {
		marks[i] = collector.Mark{Node: s.Node, At: s.At, State: s.State}
	}
	return marks, nil
}

// sincePage is how many samples are read at a time: some 3 MB.
const sincePage = 10_000

// Since reads what came in after a sample from the store, which has all that
// was acknowledged. So nothing waits in memory that a crash could take, and a
// restart goes on where the last check-point was.
func (t *telemetry) Since(ctx context.Context, mark int64) (cycle.Counters, error) {
	c := cycle.Counters{Mark: mark, Kept: true, Now: time.Now()}
	var err error
	if c.Samples, c.Mark, err = t.store.SamplesAfter(ctx, mark, sincePage); err != nil {
		return c, err
	}
	c.More = len(c.Samples) == sincePage
	return c, nil
}

// handler takes the collectors' batches; nil when there is no secret.
func (t *telemetry) handler() http.Handler {
	if !t.open {
		return nil
	}
	return t.receiver
}
