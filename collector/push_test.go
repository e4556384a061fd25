// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// transport hands requests to a receiver, or fails.
type transport struct {
	r    *Receiver
	down atomic.Bool
	lose atomic.Bool // the answer, after the receiver had the batch
}

func (tr *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if tr.down.Load() {
		return nil, errors.New("connection refused")
	}
	w := httptest.NewRecorder()
	content, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	in := httptest.NewRequest(req.Method, "/v1/samples", bytes.NewReader(content))
	in.Header = req.Header
	tr.r.ServeHTTP(w, in)
	if tr.lose.Load() {
		return nil, errors.New("connection reset")
	}
	return w.Result(), nil
}

func wallClock(o *ReceiverOptions) { o.Now = time.Now }

// fresh is a sound sample of now.
func fresh(seq uint64) Sample {
	s := sound(seq)
	s.At = time.Now()
	return s
}

func numbers(samples []Sample) (out []uint64) {
	for _, s := range samples {
		out = append(out, s.Seq)
	}
	return out
}

// The daemon goes away and comes back; no sample is lost or counted twice, and
// the trouble is reported once.
func TestPusherOutlastsTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &transport{r: receiver(wallClock)}
		var reports []error
		p := &Pusher{URL: "http://daemon", Secret: constant(secret), Client: &http.Client{Transport: tr},
			Report: func(err error) { reports = append(reports, err) }}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.Run(ctx, time.Second) }()

		p.Add([]Sample{fresh(1)})
		synctest.Wait()
		tr.down.Store(true)
		for seq := uint64(2); seq <= 20; seq++ {
			p.Add([]Sample{fresh(seq)})
			time.Sleep(15 * time.Second)
		}
		tr.down.Store(false)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		p.Add([]Sample{fresh(21)})
		cancel()
		<-done

		var got []uint64
		for _, s := range tr.r.Drain() {
			got = append(got, s.Seq)
		}
		var want []uint64
		for seq := uint64(1); seq <= 21; seq++ {
			want = append(want, seq)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if len(reports) != 2 || reports[0] == nil || reports[1] != nil {
			t.Errorf("reports %v, want one failure and one recovery", reports)
		}
	})
}

func TestPusherDropsTheOldestWhenFull(t *testing.T) {
	tr := &transport{r: receiver(wallClock)}
	p := &Pusher{URL: "http://daemon", Secret: constant(secret), Client: &http.Client{Transport: tr}, Queue: 2}
	p.Add([]Sample{fresh(1), fresh(2)})
	p.Add([]Sample{fresh(3)})
	if queued, dropped := p.Waiting(); queued != 2 || dropped != 1 {
		t.Errorf("%d queued, %d dropped", queued, dropped)
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := tr.r.Drain(); len(got) != 2 || got[0].Seq != 2 {
		t.Errorf("sent %+v", got)
	}
}

func TestPusherTellsWhatIsWrong(t *testing.T) {
	tr := &transport{r: receiver(wallClock)}
	p := &Pusher{URL: "http://daemon", Secret: constant("other"), Client: &http.Client{Transport: tr}}
	p.Add([]Sample{fresh(1)})
	if err := p.Flush(t.Context()); !errors.Is(err, ErrRefused) {
		t.Errorf("error %v, want %v", err, ErrRefused)
	}
	if queued, _ := p.Waiting(); queued != 1 {
		t.Error("the sample was given up though the secret may yet be put right")
	}
	p.Secret, tr.r = constant(secret), receiver(func(o *ReceiverOptions) { wallClock(o); o.MaxBody = 10 })
	if err := p.Flush(t.Context()); !errors.Is(err, ErrBadBatch) {
		t.Errorf("error %v, want %v", err, ErrBadBatch)
	}
	if queued, dropped := p.Waiting(); queued != 0 || dropped != 1 {
		t.Errorf("%d queued, %d dropped: a batch that cannot be read must not block the rest", queued, dropped)
	}
}

// A batch whose answer is lost is sent again, and counts once.
func TestPusherSendsAgainWhatWasNotAnswered(t *testing.T) {
	tr := &transport{r: receiver(wallClock)}
	p := &Pusher{URL: "http://daemon", Secret: constant(secret), Client: &http.Client{Transport: tr}}
	p.Add([]Sample{fresh(1), fresh(2)})
	tr.lose.Store(true)
	if err := p.Flush(t.Context()); err == nil {
		t.Fatal("no error though the answer was lost")
	}
	tr.lose.Store(false)
	p.Add([]Sample{fresh(3)})
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]uint64{1, 2, 3}, numbers(tr.r.Drain())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if queued, dropped := p.Waiting(); queued != 0 || dropped != 0 {
		t.Errorf("%d queued, %d dropped", queued, dropped)
	}
}

// A batch beyond what the daemon takes at once comes in parts.
func TestPusherHalvesWhatIsTooLarge(t *testing.T) {
	tr := &transport{r: receiver(func(o *ReceiverOptions) { wallClock(o); o.MaxSamples = 3 })}
	p := &Pusher{URL: "http://daemon", Secret: constant(secret), Client: &http.Client{Transport: tr}}
	var want []uint64
	for seq := uint64(1); seq <= 20; seq++ {
		p.Add([]Sample{fresh(seq)})
		want = append(want, seq)
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, numbers(tr.r.Drain())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// What the daemon finds odd is said once.
func TestPusherPassesOnWhatTheDaemonSays(t *testing.T) {
	tr := &transport{r: receiver(wallClock)}
	var said []string
	p := &Pusher{URL: "http://daemon", Secret: constant(secret), Client: &http.Client{Transport: tr},
		Notice: func(s string) { said = append(said, s) }}
	for seq := uint64(1); seq <= 3; seq++ {
		s := fresh(seq)
		s.NetRate = 1e300
		p.Add([]Sample{s})
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(said) != 1 || !strings.Contains(said[0], "rate beyond its link") {
		t.Errorf("said %q, want the reason once", said)
	}
}

func TestPusherHeedsRetryAfterAndSpreadsRetries(t *testing.T) {
	chance := 0.0
	p := &Pusher{Rand: func() float64 { return chance }}
	p.init()
	asked := retryLaterError{errors.New("busy"), 40 * time.Second}
	for _, tc := range []struct {
		failures int
		err      error
		chance   float64
		want     time.Duration
	}{
		{0, io.EOF, 0, 0}, // full jitter: a part of the way from nothing to the bound
		{0, io.EOF, 0.5, minBackoff / 2},
		{3, io.EOF, 0.5, 4 * minBackoff},
		{50, io.EOF, 0.5, maxBackoff / 2},
		{0, asked, 0, 40 * time.Second},
		{0, asked, 0.5, 60 * time.Second},
		{50, asked, 0.5, 40*time.Second + maxBackoff/2},
	} {
		chance = tc.chance
		if got := p.backoff(tc.failures, tc.err); got != tc.want {
			t.Errorf("after %d failures, %v, chance %v: %s, want %s", tc.failures, tc.err, tc.chance, got, tc.want)
		}
	}
	r := receiver(func(o *ReceiverOptions) { o.PerSec = 0.1 })
	post(r, body(t), nil)
	var later retryLaterError
	if err := answer(post(r, body(t), nil).Result()); !errors.As(err, &later) || later.after != busyRetry {
		t.Errorf("a daemon that is busy gives %v", err)
	}
}

// Collectors that were started at once do not send at once.
func TestPusherSpreadsSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &transport{r: receiver(wallClock)}
		p := &Pusher{URL: "http://daemon", Secret: constant(secret), Client: &http.Client{Transport: tr},
			Spread: 10 * time.Second, Rand: func() float64 { return 0.7 }}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.Run(ctx, time.Second) }()
		p.Add([]Sample{fresh(1)})
		time.Sleep(6900 * time.Millisecond)
		synctest.Wait()
		if got := tr.r.Stats().Accepted; got != 0 {
			t.Errorf("sent %d before its turn", got)
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if got := tr.r.Stats().Accepted; got != 1 {
			t.Errorf("sent %d at its turn", got)
		}
		cancel()
		<-done
	})
}

// The daemon is away, the collector ends and is started again, the daemon comes
// back: it has each sample, in order.
func TestSpoolOutlastsTheCollector(t *testing.T) {
	dir := t.TempDir()
	tr := &transport{r: receiver(wallClock)}
	var want []uint64
	seq := uint64(0)
	for run := range 3 {
		p := &Pusher{URL: "http://daemon", Secret: constant(secret), Client: &http.Client{Transport: tr}, Spool: NewSpool(SpoolOptions{Dir: dir})}
		tr.down.Store(run < 2)
		for range 5 {
			seq++
			want = append(want, seq)
			p.Add([]Sample{fresh(seq)})
			_ = p.Flush(t.Context())
		}
		if run < 2 {
			if err := p.Spool.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff(want, numbers(tr.r.Drain())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if s := tr.r.Stats(); s.Duplicates != 0 {
		t.Errorf("%d were sent twice", s.Duplicates)
	}
}

// A batch that the daemon cannot read is put aside where it can be looked at.
func TestSpoolPutsAsideWhatIsRefused(t *testing.T) {
	dir := t.TempDir()
	tr := &transport{r: receiver(func(o *ReceiverOptions) { wallClock(o); o.MaxBody = 10 })}
	p := &Pusher{URL: "http://daemon", Secret: constant(secret), Client: &http.Client{Transport: tr}, Spool: NewSpool(SpoolOptions{Dir: dir})}
	p.Add([]Sample{fresh(1)})
	if err := p.Flush(t.Context()); !errors.Is(err, ErrBadBatch) {
		t.Errorf("error %v", err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "refused.json"))
	if err != nil || !strings.Contains(string(b), `"seq":1`) {
		t.Errorf("put aside: %s, %v", b, err)
	}
	if c := p.Spool.Counts(); c.Waiting != 0 || c.Refused != 1 {
		t.Errorf("counts %+v", c)
	}
	if !slices.Equal(numbers(tr.r.Drain()), nil) {
		t.Error("the daemon took it")
	}
}
