// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"rifling/slurm"
)

// PastJobs reads from slurmdbd every run that waited or ran between the two
// instants and gives each to the sink as it comes: memory holds one record at a
// time. It satisfies sacct.Source.
//
// Errors are those of every call; slurm.ErrTooWide besides, where slurmdbd will
// not serve as wide a range. Runs may have been given to the sink before.
func (c *Client) PastJobs(ctx context.Context, from, to time.Time, sink slurm.PastSink) error {
	r, _, err := c.connected(ctx)
	if err != nil {
		return err
	}
	query := url.Values{
		// Every release takes this form; a plain number is refused by v0.0.38.
		"start_time": {fmt.Sprintf("uts%d", from.Unix())},
		"end_time":   {fmt.Sprintf("uts%d", to.Unix())},
	}
	if r.REST >= 40 {
		// Without the first, only the last run of a requeued job comes; without
		// the second, slurmdbd cuts starts and ends to the range asked for.
		// v0.0.38 knows neither and always does both.
		query.Set("show_duplicates", "true")
		query.Set("disable_truncate_usage_time", "true")
	}
	if !c.gpuUsage(ctx) {
		query.Set("skip_steps", "true") // nine tenths of the answer
	}
	segments := []string{"jobs"}
	if r.REST >= 40 {
		segments = append(segments, "")
	}
	err = c.streamJobs(ctx, request{
		op: "read accounting", method: http.MethodGet, path: path("slurmdb", r.REST, segments...), query: query,
	}, sink)
	var e *Error
	if errors.As(err, &e) && (e.Number == dbTooWide || e.Number == dbTooLarge) {
		return fmt.Errorf("%w: %w", slurm.ErrTooWide, err)
	}
	return databaseHint(err)
}

// gpuUsage reports whether the site's accounting records what jobs use of
// their GPUs (AutoDetect=nvml, and AccountingStorageTRES=gres/gpu). If that
// cannot be found out, it does not.
func (c *Client) gpuUsage(ctx context.Context) bool {
	c.mu.Lock()
	known := c.usage
	c.mu.Unlock()
	if known != nil {
		return *known
	}
	found, told := false, false
	for _, segments := range [][]string{{"tres"}, {"tres", ""}} {
		a, err := c.get(ctx, "slurmdb", "read tres", nil, segments...)
		if err != nil {
			continue
		}
		for _, key := range []string{"TRES", "tres"} {
			list, _ := a.list(key)
			for _, raw := range list {
				t := newRecord(raw)
				found = found || t.text("type") == "gres" && t.text("name") == "gpuutil"
			}
		}
		told = true
		break
	}
	if told {
		c.mu.Lock()
		c.usage = &found
		c.mu.Unlock()
	}
	return found
}

// streamJobs sends r and reads the list "jobs" of the answer element by element.
func (c *Client) streamJobs(ctx context.Context, r request, sink slurm.PastSink) error {
	req, err := c.build(ctx, r)
	if err != nil {
		return err
	}
	started := c.now()
	resp, err := c.http.Do(req)
	c.count(func(s *Stats) { s.Requests++ })
	if err != nil {
		return c.late(ctx, r, err)
	}
	defer resp.Body.Close()
	took := func() time.Duration { return c.now().Sub(started) }
	if resp.StatusCode == http.StatusNotModified { // nothing in the range
		return nil
	}
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode >= 300 || !strings.HasPrefix(kind, "application/json") {
		body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if err != nil {
			return c.unreachable(ctx, r, err)
		}
		if _, err = c.interpret(r, resp.StatusCode, kind, body, took()); err == nil {
			err = &Error{Op: r.op, Status: resp.StatusCode, Kind: slurm.ErrRejected, Text: "the answer is no list of jobs"}
		}
		return err
	}
	counted := &countingReader{in: resp.Body}
	rest, err := decodeJobs(counted, sink)
	c.count(func(s *Stats) { s.BytesIn += counted.n; s.Latency = took() })
	var refused sinkError
	switch {
	case errors.As(err, &refused):
		return refused.error
	case err != nil:
		return c.late(ctx, r, fmt.Errorf("the answer broke off after %d bytes: %w", counted.n, err))
	}
	if errs := complaints(rest["errors"]); len(errs) > 0 {
		a := answer{fields: rest}
		a.readMeta()
		return c.complain(r, resp.StatusCode, sum(errs), a.release, took())
	}
	if !json.Valid(rest["jobs"]) {
		return &Error{Op: r.op, Status: resp.StatusCode, Kind: slurm.ErrRejected, Text: "the answer has no list of jobs"}
	}
	return nil
}

// late is unreachable for a request that may have asked for too much: an answer
// that takes longer than a caller waits is one of a range that is too wide.
func (c *Client) late(ctx context.Context, r request, err error) error {
	var n net.Error
	var op *net.OpError
	out := c.unreachable(ctx, r, err)
	if errors.As(err, &n) && n.Timeout() && (!errors.As(err, &op) || op.Op != "dial") && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", slurm.ErrTooWide, out)
	}
	return out
}

// sinkError is an error of whoever takes the runs.
type sinkError struct{ error }

type countingReader struct {
	in io.Reader
	n  int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	r.n += int64(n)
	return n, err
}

// decodeJobs reads one answer as it comes and returns its other members; that
// of "jobs" is an empty list when there was one.
func decodeJobs(in io.Reader, sink slurm.PastSink) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(in)
	rest := map[string]json.RawMessage{}
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, orOdd(err)
	}
	for d.More() {
		t, err := d.Token()
		key, ok := t.(string)
		if err != nil || !ok {
			return nil, orOdd(err)
		}
		if key != "jobs" {
			var raw json.RawMessage
			if err := d.Decode(&raw); err != nil {
				return nil, err
			}
			rest[key] = raw
			continue
		}
		rest[key] = json.RawMessage("[]")
		if t, err = d.Token(); err != nil || t != json.Delim('[') {
			return nil, orOdd(err)
		}
		if err := decodeList(d, sink); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return rest, err
}

func decodeList(d *json.Decoder, sink slurm.PastSink) error {
	var raw json.RawMessage
	for n := 1; d.More(); n++ {
		if err := d.Decode(&raw); err != nil {
			return err
		}
		j, odd, notes := readPastJob(raw)
		for _, note := range notes {
			sink.Odd(note.reason, fmt.Sprintf("record %d: %s", n, note.detail))
		}
		if odd != "" {
			sink.Odd("record left out", fmt.Sprintf("record %d: %s", n, odd))
			continue
		}
		if err := sink.Run(j); err != nil {
			return sinkError{err}
		}
	}
	_, err := d.Token()
	return err
}

func orOdd(err error) error {
	if err != nil {
		return err
	}
	return errors.New("not the JSON of a list of jobs")
}
