// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rifling/slurm"
	"rifling/slurm/slurmtest"
)

// FuzzSplit compares with encoding/json on what that accepts.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, ` { "a" : 1 , "b":[1,{"c":"}"}] } `, `[1,"a\"b",null,true,{"x":[]}]`, `{"a":1,"a":2}`,
		`{"\u0061":"x","é":""}`, `[,]`, `{"a":}`, `{"a":1,}`, `[1 2]`, `["`, `{"a\`, `[]]`, `[-1.5e3]`, "[\"\xff\"]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		object, isObject := members(raw)
		list, isList := elements(raw)
		var wantObject map[string]json.RawMessage
		if json.Unmarshal(raw, &wantObject) == nil && wantObject != nil {
			if diff := cmp.Diff(wantObject, object); diff != "" || !isObject {
				t.Errorf("members (-json +split):\n%s", diff)
			}
		}
		var wantList []json.RawMessage
		if json.Unmarshal(raw, &wantList) == nil && wantList != nil {
			if diff := cmp.Diff(wantList, list); diff != "" || !isList {
				t.Errorf("elements (-json +split):\n%s", diff)
			}
		}
	})
}

// BenchmarkDecode reads a queue of 1,000 jobs as v0.0.42 writes it.
func BenchmarkDecode(b *testing.B) {
	s := slurmtest.Snapshot().Nodes("gpu[01-08]", 8)
	for id := range slurm.JobID(1000) {
		s.Jobs(slurmtest.Job(id+1).GPUs(4).Exclude("gpu01", "gpu02"))
	}
	srv := slurmtest.NewServer(b, s.Obj())
	resp, err := http.Get(srv.URL + "/slurm/v0.0.42/jobs")
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	c, err := New(Options{URL: srv.URL})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		a, err := c.interpret(request{method: http.MethodGet}, 200, "application/json", raw, 0)
		if err != nil {
			b.Fatal(err)
		}
		items, _ := a.list("jobs")
		if got := decode("jobs", items, jobRecord, &poller{}); len(got.items) != 1000 || len(got.odd) != 0 {
			b.Fatalf("%d jobs, odd %v", len(got.items), got.odd)
		}
	}
}
