// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"rifling/sim"
)

// worker is one rank at work.
type worker struct {
	options
	place     place
	publisher *publisher
	resumed   chan os.Signal // the process was stopped and goes on
}

// work registers this node's rank and leads or follows until the job has
// ended. The leader prints the result.
func work(ctx context.Context, o options, p place, stdout io.Writer) (err error) {
	if err := o.shared.prepare(p.Node, slices.Max(p.GPUs)+1, 0, o.nicGbps, time.Now()); err != nil {
		return fmt.Errorf("prepare %s: %w", p.Node, err)
	}
	since := time.Now()
	r := rank{Key: p.Key, Rank: p.Rank, Node: p.Node, GPUs: p.GPUs, PID: os.Getpid()}
	release, err := o.shared.register(r)
	if err != nil {
		return err
	}
	defer release()

	w := &worker{options: o, place: p, resumed: make(chan os.Signal, 1)}
	signal.Notify(w.resumed, syscall.SIGCONT)
	defer signal.Stop(w.resumed)
	w.publisher = &publisher{shared: o.shared, node: p.Node, job: uint32(p.Job), pid: r.PID}
	defer func() { err = errors.Join(err, w.publisher.close(time.Now())) }()

	if p.Rank == 0 {
		return w.lead(ctx, stdout)
	}
	return w.follow(ctx, since)
}

// sleep waits; it reports whether the process was stopped in between.
func (w *worker) sleep(ctx context.Context, d time.Duration) (stopped bool, err error) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false, context.Canceled
	case <-w.resumed:
		return true, nil
	case <-t.C:
	}
	select { // both were ready: the stop counts
	case <-w.resumed:
		return true, nil
	default:
		return false, nil
	}
}

// lead waits for all ranks, then runs the job.
func (w *worker) lead(ctx context.Context, stdout io.Writer) error {
	ranks, err := w.gather(ctx)
	if err != nil {
		return err
	}
	st := state{Key: w.place.Key, Model: w.model.Name, Lead: w.place.Node, Phase: running}
	st.Claims, st.GPUs = claims(ranks)
	speeds, slowest := map[string]float64{}, 0.0
	for node := range st.GPUs {
		if speeds[node], err = w.shared.nicSpeed(node); err != nil {
			return err
		}
		if slowest == 0 || speeds[node] < slowest {
			slowest = speeds[node]
		}
	}
	st.Contends = sim.Contends(w.model, st.GPUs, slowest)

	j := &job{worker: w, state: st, ranks: ranks, speeds: speeds, seen: map[string]bool{}, started: time.Now()}
	ideal := sim.PackedRate(w.model, gpuCount(st.GPUs))
	if w.seconds > 0 {
		w.iterations = w.seconds * ideal
	}
	err = j.run(ctx)
	switch {
	case err == nil:
		j.state.Phase = finished
	case errors.Is(err, context.Canceled):
		j.state.Phase = cancelled
	default:
		j.state.Phase = failed
	}
	return errors.Join(err, w.shared.writeState(j.state), j.print(stdout, ideal))
}

// gather waits until all ranks of the step have registered.
func (w *worker) gather(ctx context.Context) ([]rank, error) {
	deadline := time.Now().Add(w.wait)
	for {
		ranks, err := w.shared.ranks(w.place.Key)
		if err != nil {
			return nil, err
		}
		if len(ranks) == w.place.Ranks {
			return ranks, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%d of %d tasks registered within %s", len(ranks), w.place.Ranks, w.wait)
		}
		if _, err := w.sleep(ctx, min(w.tick, 100*time.Millisecond)); err != nil {
			return nil, err
		}
	}
}

// job is the leader's view of the whole job.
type job struct {
	*worker
	state   state
	ranks   []rank
	speeds  map[string]float64 // NIC, bytes per second, by node
	seen    map[string]bool
	started time.Time
	busy    time.Duration // real time at work
}

// run advances the iterations until they are done.
func (j *job) run(ctx context.Context) error {
	last := time.Now()
	for {
		j.state.Rate = j.shared.rate(j.state, j.model, j.speeds, last, j.seen)
		if err := errors.Join(j.lost(), j.shared.writeState(j.state), j.publish(j.state, last)); err != nil {
			return err
		}
		left := (j.iterations - j.state.Iterations) / (j.state.Rate * j.scale)
		stopped, err := j.sleep(ctx, min(j.tick, time.Duration(left*float64(time.Second))+time.Microsecond))
		now := time.Now()
		if stopped {
			j.publisher.pause(now)
		} else {
			j.busy += now.Sub(last)
			j.state.Iterations += j.state.Rate * j.scale * now.Sub(last).Seconds()
		}
		last = now
		if over := j.state.Iterations - j.iterations; over >= 0 {
			// The machine woke us late: the job was done before.
			j.busy -= time.Duration(over / (j.state.Rate * j.scale) * float64(time.Second))
			j.state.Iterations = j.iterations
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// lost tells when a rank has died; the job cannot go on without it.
func (j *job) lost() error {
	for _, r := range j.ranks {
		if !held(j.shared.rank(r.Node, r.Key, r.Rank)) {
			return fmt.Errorf("rank %d on %s is gone", r.Rank, r.Node)
		}
	}
	return nil
}

// result is the line that a job prints at its end.
type result struct {
	Job        uint32         `json:"job"`
	Step       string         `json:"step"`
	Model      string         `json:"model"`
	Phase      string         `json:"phase"`
	Iterations float64        `json:"iterations"`
	Seconds    float64        `json:"seconds"` // the model's time at work
	Rate       float64        `json:"rate"`    // mean, iterations per second
	IdealRate  float64        `json:"ideal_rate"`
	NPR        float64        `json:"npr"`
	Nodes      int            `json:"nodes"`
	Shape      string         `json:"shape"`
	Placement  map[string]int `json:"placement"`
	TimeScale  float64        `json:"time_scale"`
	Start      time.Time      `json:"start"`
	End        time.Time      `json:"end"`
	truth
}

func (j *job) print(w io.Writer, ideal float64) error {
	r := result{
		Job: uint32(j.place.Job), Step: j.state.Key, Model: j.model.Name, Phase: j.state.Phase,
		Iterations: j.state.Iterations, Seconds: j.busy.Seconds() * j.scale, IdealRate: ideal,
		Nodes: len(j.state.GPUs), Placement: j.state.GPUs, TimeScale: j.scale,
		Start: j.started.UTC(), End: time.Now().UTC(),
	}
	var p sim.Placement
	for node, g := range j.state.GPUs {
		p = append(p, sim.NodeShare{Node: node, GPUs: g})
	}
	r.Shape = p.Shape()
	r.truth = truthOf(j.model, j.state.GPUs, j.speeds, r.Iterations, r.Seconds)
	if r.Seconds > 0 {
		r.Rate = r.Iterations / r.Seconds
		r.NPR = r.Rate / ideal
	}
	return json.NewEncoder(w).Encode(r)
}

// follow publishes this node's counters at the leader's rate until the job has
// ended or the leader is gone. The leader writes its state only after all ranks
// have registered, so a state from before since is another run's.
func (w *worker) follow(ctx context.Context, since time.Time) error {
	for {
		st, err := w.shared.readState(w.place.Key)
		switch {
		case errors.Is(err, os.ErrNotExist) || err == nil && st.At.Before(since):
			if time.Since(since) > w.wait {
				return fmt.Errorf("rank 0 did not start within %s", w.wait)
			}
		case err != nil:
			return err
		default:
			if done, err := w.obey(st); done || err != nil {
				return err
			}
		}
		stopped, err := w.sleep(ctx, w.tick)
		if err != nil {
			return err
		}
		if stopped {
			w.publisher.pause(time.Now())
		}
	}
}

// obey does what the leader's state says; done when the job has finished.
func (w *worker) obey(st state) (done bool, err error) {
	if st.Phase == running && !held(w.shared.rank(st.Lead, st.Key, 0)) {
		// It may have ended between the two looks.
		if st, err = w.shared.readState(st.Key); err != nil {
			return false, err
		}
		if st.Phase == running {
			return false, fmt.Errorf("rank 0 on %s is gone", st.Lead)
		}
	}
	switch st.Phase {
	case finished:
		return true, nil
	case running:
		return false, w.publish(st, time.Now())
	}
	return false, fmt.Errorf("rank 0 on %s ended: %s", st.Lead, st.Phase)
}

func (w *worker) publish(st state, now time.Time) error {
	w.publisher.gpus = st.Claims[w.place.Rank]
	return w.publisher.advance(loadOf(w.model, st, len(w.publisher.gpus)), now)
}

func gpuCount(gpus map[string]int) int {
	n := 0
	for _, g := range gpus {
		n += g
	}
	return n
}
