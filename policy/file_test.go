// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rifling/agent"
)

func learnedFile() *File {
	m := PlainModel()
	m.Place.Layers[0].W[0] = math.Nextafter(0.3, 1)
	return &File{Kind: KindLearned, Model: &m, Training: TrainRecord{
		At: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC), Release: "1.2", Data: "generated work",
		TrainSeeds: []uint64{1, 2}, TestSeeds: []uint64{1001}, Objective: DefaultObjective(),
		Test: []Figure{{Policy: "slurm", Lists: 1, Cost: Mean{Mean: 1}}},
	}}
}

func tableFile() *File {
	return &File{Kind: KindRifling, Table: &TablePart{Params: agent.DefaultParams(), Entries: []agent.Entry{
		{State: "g0 n1 open one nic0 q0", Action: "pack", Value: -0.25, Visits: 3, Var: 0.01},
	}}}
}

func encodeFile(t *testing.T, f *File) ([]byte, string) {
	t.Helper()
	b, v, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b, v
}

func TestFilesComeBackAsTheyWere(t *testing.T) {
	for name, f := range map[string]*File{"a model": learnedFile(), "a table": tableFile()} {
		b, v := encodeFile(t, f)
		got, gotV, err := DecodeFile(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(f, got); diff != "" || v != gotV || !IsVersion(v) {
			t.Errorf("%s: version %s and %s, (-wrote +read):\n%s", name, v, gotV, diff)
		}
		again, _ := encodeFile(t, got)
		if !bytes.Equal(b, again) {
			t.Errorf("%s: written twice it differs", name)
		}
		if _, err := got.Policy(Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// White space is no content: a file that an editor has laid out anew is the same.
		var flat bytes.Buffer
		if err := json.Compact(&flat, b); err != nil {
			t.Fatal(err)
		}
		if _, flatV, err := DecodeFile(flat.Bytes()); err != nil || flatV != v {
			t.Errorf("%s without white space: %s, %v", name, flatV, err)
		}
	}
}

func TestARestoredTableDecides(t *testing.T) {
	p, err := tableFile().Policy(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.(Learner).Entries(); len(got) == 0 || got[0].Visits != 3 {
		t.Errorf("entries %v", got)
	}
}

// resign changes the body of a file and gives it a hash that fits.
func resign(t *testing.T, b []byte, from, to string) []byte {
	t.Helper()
	var e envelope
	if err := json.Unmarshal(b, &e); err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	if err := json.Compact(&body, e.Policy); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(body.String(), from) {
		t.Fatalf("the body has no %s", from)
	}
	e.Policy = json.RawMessage(strings.Replace(body.String(), from, to, 1))
	e.Hash = hashOf(e.Policy)
	out, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFilesThatAreRefused(t *testing.T) {
	good, _ := encodeFile(t, learnedFile())
	table, _ := encodeFile(t, tableFile())
	edit := func(from, to string) []byte { return []byte(strings.Replace(string(good), from, to, 1)) }
	tests := map[string]struct {
		file []byte
		is   error
		says string
	}{
		"nothing":                          {nil, ErrNotPolicy, ""},
		"another format":                   {[]byte(`{"format":"x","schema":1}`), ErrNotPolicy, `"x"`},
		"a later schema":                   {edit(`"schema": 1`, `"schema": 2`), ErrSchema, "2, this release reads 1"},
		"a weight that was edited":         {edit(`0.30000000000000004`, `0.4`), ErrBrokenHash, "changed by hand"},
		"a hash that was edited":           {edit(`sha256:`, `sha256:0`), ErrBrokenHash, ""},
		"a field of the envelope":          {edit(`"schema"`, `"extra": 1, "schema"`), ErrNotPolicy, `"extra"`},
		"a second value behind the first":  {append(good, '1'), ErrNotPolicy, ""},
		"a field that is not known":        {resign(t, good, `"margin"`, `"marginal":1,"margin"`), ErrNotPolicy, `"marginal"`},
		"an input that does not exist":     {resign(t, good, `"log_run"`, `"log_walk"`), nil, `"log_walk"`},
		"a number that overflows":          {resign(t, good, `0.30000000000000004`, `1e999`), ErrNotPolicy, "1e999"},
		"a scale of nothing":               {resign(t, good, `"scale":[1`, `"scale":[0`), nil, "scale 0"},
		"a kind that there is not":         {resign(t, good, `"kind":"learned"`, `"kind":"oracle"`), nil, `"oracle"`},
		"a kind that its content is not":   {resign(t, good, `"kind":"learned"`, `"kind":"rifling"`), nil, "a table and no model"},
		"a test on the training's seeds":   {resign(t, good, `"test_seeds":[1001]`, `"test_seeds":[2]`), nil, "seed 2"},
		"a parent that is no version":      {resign(t, good, `"data"`, `"parent":"v1","data"`), nil, `"v1"`},
		"a cell of an action not there":    {resign(t, table, `"Action":"pack"`, `"Action":"fly"`), nil, `"fly"`},
		"a table whose rate is too high":   {resign(t, table, `"Alpha":0.05`, `"Alpha":5`), nil, "alpha 5"},
		"a cell that was visited -3 times": {resign(t, table, `"Visits":3`, `"Visits":-3`), nil, "cannot be"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := DecodeFile(tc.file)
			if err == nil || tc.is != nil && !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v; want %v, saying %q", err, tc.is, tc.says)
			}
		})
	}
}

func TestFilesThatCannotBeWritten(t *testing.T) {
	nan := learnedFile()
	nan.Model.Order.Layers[0].B[0] = math.NaN()
	if _, _, err := nan.Encode(); err == nil || !strings.Contains(err.Error(), "not a number") {
		t.Errorf("a weight that is no number: %v", err)
	}
	inf := learnedFile()
	inf.Training.Test[0].Cost.SE = math.Inf(1)
	if _, _, err := inf.Encode(); err == nil {
		t.Error("a figure without bound was written")
	}
}

// Whatever the weights are, they come back to the last bit.
func TestWeightsComeBackToTheLastBit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := learnedFile()
		f.Model.Order = agent.Dense(OrderInputs, agent.Tanh, rapid.IntRange(1, 4).Draw(t, "hidden"))
		p := f.Model.Order.Params()
		for i := range p {
			p[i] = rapid.Float64Range(-1e6, 1e6).Draw(t, "w")
		}
		if err := f.Model.Order.SetParams(p); err != nil {
			t.Fatal(err)
		}
		b, _, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := DecodeFile(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, got.Model.Order.Params()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// What is read can be written, and is then the same.
func FuzzDecodeFile(f *testing.F) {
	for _, file := range []*File{learnedFile(), tableFile()} {
		b, _, err := file.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"format":"rifling-policy","schema":1,"hash":"sha256:","policy":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, version, err := DecodeFile(b)
		if err != nil {
			return
		}
		out, _, err := file.Encode()
		if err != nil || !IsVersion(version) {
			t.Fatalf("version %q; what was read cannot be written: %v", version, err)
		}
		again, _, err := DecodeFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(file, again); diff != "" {
			t.Fatal(diff)
		}
	})
}
