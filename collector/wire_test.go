// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
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

func cut(b []byte, n int) []byte { return b[:len(b)-n] }

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
		"more samples than one may":  {body(t, sound(1), sound(2), sound(3), sound(4)), nil, 413},
		"gzip that is cut short":     {zipped(body(t, sound(1)))[:60], gz, 400},
		"gzip without its end":       {cut(zipped(body(t, sound(1))), 4), gz, 400},
		"gzip with a wrong sum":      {append(cut(zipped(body(t, sound(1))), 8), 1, 2, 3, 4, 0, 0, 0, 0), gz, 400},
		"two batches in one":         {append(body(t, sound(1)), body(t, sound(2))...), nil, 400},
		"one that is when unpacked":  {zipped(bytes.Repeat([]byte(" "), 100_000)), gz, 413},
		"no gzip though it says so":  {body(t, sound(1)), gz, 400},
		"an encoding that is not":    {body(t, sound(1)), map[string]string{"Content-Encoding": "br"}, 415},
		"no JSON":                    {[]byte("hello"), nil, 400},
		"a version of another time":  {[]byte(`{"version":2,"samples":[]}`), nil, 400},
		"NaN in JSON":                {[]byte(`{"version":1,"samples":[{"compute":NaN}]}`), nil, 400},
		"more than a number can be":  {[]byte(`{"version":1,"samples":[{"compute":1e999}]}`), nil, 400},
		"a number beyond its bounds": {[]byte(`{"version":1,"samples":[{"job_id":-1}]}`), nil, 400},
	} {
		t.Run(name, func(t *testing.T) {
			r := receiver(func(o *ReceiverOptions) { o.MaxBody, o.MaxSamples = 2000, 3 })
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
	for name, tc := range map[string]struct {
		spoil func(*Sample)
		why   string
	}{
		"no node":                 {func(s *Sample) { s.Node = "" }, "bad name"},
		"a name without an end":   {func(s *Sample) { s.Node = strings.Repeat("x", 300) }, "bad name"},
		"a name with a line feed": {func(s *Sample) { s.Node = "a\nb" }, "bad name"},
		"no boot":                 {func(s *Sample) { s.Boot = "" }, "bad number"},
		"a boot without an end":   {func(s *Sample) { s.Boot = strings.Repeat("x", 300) }, "bad number"},
		"a number that blocks":    {func(s *Sample) { s.Seq = 1 << 60 }, "bad number"},
		"no job":                  {func(s *Sample) { s.JobID = 0 }, "bad job"},
		"no GPU":                  {func(s *Sample) { s.GPUs = 0 }, "bad GPUs"},
		"activity beyond 1":       {func(s *Sample) { s.Compute = 1.5 }, "bad activity"},
		"a negative rate":         {func(s *Sample) { s.NetRate = -1 }, "bad rate"},
		"a huge rate":             {func(s *Sample) { s.NVLinkRate = 1e18 }, "rate beyond its link"},
		"a huge speed":            {func(s *Sample) { s.NetSpeed, s.NetRate = 1e300, 1 }, "rate beyond its link"},
		"three times its link":    {func(s *Sample) { s.NetRate = 3 * s.NetSpeed }, "rate beyond its link"},
		"a huge interval":         {func(s *Sample) { s.Interval = 48 * time.Hour }, "bad time"},
		"an unknown source":       {func(s *Sample) { s.Source = "guess" }, "bad source"},
		"an unknown origin":       {func(s *Sample) { s.Origin = "guess" }, "malformed"},
		"a huge model":            {func(s *Sample) { s.Model = strings.Repeat("x", 300) }, "malformed"},
		"last week's":             {func(s *Sample) { s.At = start.Add(-7*24*time.Hour - time.Minute) }, "too old"},
		"tomorrow's":              {func(s *Sample) { s.At = start.Add(time.Hour) }, "from the future"},
	} {
		t.Run(name, func(t *testing.T) {
			r := receiver(nil)
			bad := sound(1)
			tc.spoil(&bad)
			w := post(r, body(t, bad, sound(2)), nil)
			want := `{"accepted":1,"duplicates":0,"rejected":1,"reasons":{"` + tc.why + `":1}}` + "\n"
			if w.Code != 200 || w.Body.String() != want {
				t.Errorf("answer %d %q, want %q", w.Code, w.Body, want)
			}
			if got := r.Drain(); len(got) != 1 || got[0].Seq != 2 {
				t.Errorf("kept %+v", got)
			}
			if s := r.Stats(); s.Rejected[tc.why] != 1 || s.Accepted != 1 {
				t.Errorf("counts %+v", s)
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

// A clock that is off moves the times of a batch with it: what counts is how
// long before the sending a sample was taken.
func TestReceiverCorrectsClocks(t *testing.T) {
	for name, tc := range map[string]struct {
		skew  time.Duration
		shown string
	}{
		"right":                {0, ""},
		"half a second ahead":  {500 * time.Millisecond, ""},
		"half a minute behind": {-30 * time.Second, ""},
		"an hour ahead":        {time.Hour, "1h0m0s"},
		"an hour behind":       {-time.Hour, "-1h0m0s"},
		"of 1970":              {-20000 * 24 * time.Hour, "-480000h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			r := receiver(nil)
			s := sound(1)
			s.At = start.Add(tc.skew - 15*time.Second)
			b, err := json.Marshal(Batch{Version: BatchVersion, Samples: []Sample{s}, SentAt: start.Add(tc.skew)})
			if err != nil {
				t.Fatal(err)
			}
			var got reply
			if err := json.Unmarshal(post(r, b, nil).Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if got.Accepted != 1 || got.Skew != tc.shown {
				t.Errorf("answer %+v, want one sample and skew %q", got, tc.shown)
			}
			if kept := r.Drain(); len(kept) != 1 || kept[0].At.Sub(start.Add(-15*time.Second)).Abs() > skewNoise {
				t.Errorf("kept %+v, want it 15 s before %v", kept, start)
			}
			if st := r.Stats(); (st.Skewed == 1) != (tc.shown != "") {
				t.Errorf("counts %+v", st)
			}
		})
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
