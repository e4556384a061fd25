// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const secret = "correct horse"

func constant(s string) func() (string, error) { return func() (string, error) { return s, nil } }

func receiver(change func(*ReceiverOptions)) *Receiver {
	o := ReceiverOptions{Secret: constant(secret), Now: func() time.Time { return start }}
	if change != nil {
		change(&o)
	}
	return NewReceiver(o)
}

// sound is a sample that nothing is wrong with.
func sound(seq uint64) Sample {
	return Sample{Node: "gpu01", Boot: "b1", Seq: seq, JobID: 17, At: start, Interval: 15 * time.Second,
		GPUs: 2, UUIDs: []string{"GPU-a", "GPU-b"}, Compute: 0.5, Source: SourcePower, NetRate: 1, NetSpeed: 2}
}

func body(t testing.TB, samples ...Sample) []byte {
	t.Helper()
	b, err := json.Marshal(Batch{Version: BatchVersion, Samples: samples})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func zipped(b []byte) []byte {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	_, _ = w.Write(b)
	_ = w.Close()
	return buf.Bytes()
}

func post(r *Receiver, content []byte, header map[string]string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodPost, "/v1/samples", bytes.NewReader(content))
	req.Header.Set("Authorization", "Bearer "+secret)
	for k, v := range header {
		req.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	return w
}

func TestReceiverRefuses(t *testing.T) {
	gz := map[string]string{"Content-Encoding": "gzip"}
	for name, tc := range map[string]struct {
		body   []byte
		header map[string]string
		status int
	}{
		"no secret":                  {body(t, sound(1)), map[string]string{"Authorization": ""}, 401},
		"a wrong secret":             {body(t, sound(1)), map[string]string{"Authorization": "Bearer correct horsf"}, 401},
		"the secret's beginning":     {body(t, sound(1)), map[string]string{"Authorization": "Bearer correct"}, 401},
		"another scheme":             {body(t, sound(1)), map[string]string{"Authorization": "Basic " + secret}, 401},
		"a body that is too large":   {bytes.Repeat([]byte(" "), 3000), nil, 413},
		"one that is when unpacked":  {zipped(bytes.Repeat([]byte(" "), 100_000)), gz, 413},
		"no gzip though it says so":  {body(t, sound(1)), gz, 400},
		"an encoding that is not":    {body(t, sound(1)), map[string]string{"Content-Encoding": "br"}, 415},
		"no JSON":                    {[]byte("hello"), nil, 400},
		"a version of another time":  {[]byte(`{"version":2,"samples":[]}`), nil, 400},
		"a number beyond its bounds": {[]byte(`{"version":1,"samples":[{"job_id":-1}]}`), nil, 400},
	} {
		t.Run(name, func(t *testing.T) {
			r := receiver(func(o *ReceiverOptions) { o.MaxBody = 2000 })
			w := post(r, tc.body, tc.header)
			if w.Code != tc.status {
				t.Errorf("status %d, want %d: %s", w.Code, tc.status, w.Body)
			}
			if got := r.Drain(); len(got) != 0 {
				t.Errorf("took %+v", got)
			}
			if s := r.Stats(); s.Requests != 1 || len(s.Refused) != 1 {
				t.Errorf("counts %+v", s)
			}
		})
	}
}

func TestReceiverLeavesOutOddSamplesAndKeepsTheRest(t *testing.T) {
	for name, spoil := range map[string]func(*Sample){
		"no node":               func(s *Sample) { s.Node = "" },
		"no boot":               func(s *Sample) { s.Boot = "" },
		"no job":                func(s *Sample) { s.JobID = 0 },
		"no GPU":                func(s *Sample) { s.GPUs = 0 },
		"activity beyond 1":     func(s *Sample) { s.Compute = 1.5 },
		"a negative rate":       func(s *Sample) { s.NetRate = -1 },
		"a huge interval":       func(s *Sample) { s.Interval = 48 * time.Hour },
		"an unknown source":     func(s *Sample) { s.Source = "guess" },
		"yesterday's":           func(s *Sample) { s.At = start.Add(-25 * time.Hour) },
		"a clock far ahead":     func(s *Sample) { s.At = start.Add(time.Hour) },
		"a name without an end": func(s *Sample) { s.Node = strings.Repeat("x", 300) },
	} {
		t.Run(name, func(t *testing.T) {
			r := receiver(nil)
			bad := sound(1)
			spoil(&bad)
			w := post(r, body(t, bad, sound(2)), nil)
			if want := `{"accepted":1,"duplicates":0,"rejected":1}` + "\n"; w.Code != 200 || w.Body.String() != want {
				t.Errorf("answer %d %q, want %q", w.Code, w.Body, want)
			}
			if got := r.Drain(); len(got) != 1 || got[0].Seq != 2 {
				t.Errorf("kept %+v", got)
			}
		})
	}
	for _, v := range []float64{math.NaN(), math.Inf(1)} { // JSON cannot carry these, a caller may
		s := sound(1)
		s.NVLinkRate = v
		if s.Validate() == nil {
			t.Errorf("rate %v passes", v)
		}
	}
}

func TestReceiverKnowsWhatCameBefore(t *testing.T) {
	r := receiver(nil)
	next := sound(1)
	next.Boot = "b2"
	late := sound(3)
	for _, batch := range [][]Sample{
		{sound(1), sound(2)}, // sent,
		{sound(1), sound(2)}, // and sent again for want of an answer
		{next},               // the collector was restarted
		{late},               // the last of the old one comes late
	} {
		post(r, zipped(body(t, batch...)), map[string]string{"Content-Encoding": "gzip"})
	}
	want := []Sample{sound(1), sound(2), next, late}
	if diff := cmp.Diff(want, r.Drain()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	s := r.Stats()
	if s.Accepted != 4 || s.Duplicates != 2 || s.Nodes != 1 {
		t.Errorf("counts %+v", s)
	}
	if again := r.Drain(); len(again) != 0 {
		t.Errorf("drained twice: %+v", again)
	}
}

func TestReceiverIsBounded(t *testing.T) {
	r := receiver(func(o *ReceiverOptions) { o.Buffer, o.Nodes, o.PerSec = 3, 1, 0.2 })
	post(r, body(t, sound(1), sound(2), sound(3), sound(4), sound(5)), nil)
	other := sound(1)
	other.Node = "gpu02"
	post(r, body(t, other), nil)
	got := r.Drain()
	if len(got) != 3 || got[0].Seq != 3 {
		t.Errorf("the buffer kept %+v, want the newest 3", got)
	}
	if s := r.Stats(); s.Overflow != 2 || s.Rejected["too many nodes"] != 1 {
		t.Errorf("counts %+v", s)
	}
	if w := post(r, body(t), nil); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("third request: %d %v", w.Code, w.Header())
	}
}

func FuzzReceiver(f *testing.F) {
	f.Add(body(f, sound(1)))
	f.Add([]byte(`{"version":1,"samples":[{"node":"x","at":"2026-12-01T12:00:00Z","compute":1e308}]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		r := receiver(nil)
		post(r, content, nil)
		for _, s := range r.Drain() {
			if err := s.Validate(); err != nil {
				t.Errorf("kept %+v: %v", s, err)
			}
		}
	})
}

// transport hands requests to a receiver, or fails.
type transport struct {
	r    *Receiver
	down atomic.Bool
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
	return w.Result(), nil
}

// The daemon goes away and comes back; no sample is lost or counted twice, and
// the trouble is reported once.
func TestPusherOutlastsTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &transport{r: receiver(nil)}
		var reports []error
		p := &Pusher{URL: "http://daemon", Secret: constant(secret), Client: &http.Client{Transport: tr},
			Report: func(err error) { reports = append(reports, err) }}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.Run(ctx, time.Second) }()

		p.Add([]Sample{sound(1)})
		synctest.Wait()
		tr.down.Store(true)
		for seq := uint64(2); seq <= 20; seq++ {
			p.Add([]Sample{sound(seq)})
			time.Sleep(15 * time.Second)
		}
		tr.down.Store(false)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		p.Add([]Sample{sound(21)})
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
	tr := &transport{r: receiver(nil)}
	p := &Pusher{URL: "http://daemon", Secret: constant(secret), Client: &http.Client{Transport: tr}, Queue: 2}
	p.Add([]Sample{sound(1), sound(2)})
	p.Add([]Sample{sound(3)})
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
	tr := &transport{r: receiver(nil)}
	p := &Pusher{URL: "http://daemon", Secret: constant("other"), Client: &http.Client{Transport: tr}}
	p.Add([]Sample{sound(1)})
	if err := p.Flush(t.Context()); !errors.Is(err, ErrRefused) {
		t.Errorf("error %v, want %v", err, ErrRefused)
	}
	if queued, _ := p.Waiting(); queued != 1 {
		t.Error("the sample was given up though the secret may yet be put right")
	}
	p.Secret, tr.r = constant(secret), receiver(func(o *ReceiverOptions) { o.MaxBody = 10 })
	if err := p.Flush(t.Context()); !errors.Is(err, ErrBadBatch) {
		t.Errorf("error %v, want %v", err, ErrBadBatch)
	}
	if queued, dropped := p.Waiting(); queued != 0 || dropped != 1 {
		t.Errorf("%d queued, %d dropped: a batch that cannot be read must not block the rest", queued, dropped)
	}
}

func TestSecretFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	read := SecretFile(path)
	if _, err := read(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	for content, want := range map[string]string{"  abc\n": "abc", " \n": ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := read()
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v", content, got, err)
		}
	}
}
