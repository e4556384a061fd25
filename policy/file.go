// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"rifling/agent"
)

// FileSchema is the format of policy files that this release writes and reads.
const FileSchema = 1

// mostFile bounds a policy file: a model has some kilobytes, a large table one
// or two megabytes.
const mostFile = 16 << 20

// Kinds of policy that a file may hold.
const (
	KindLearned = "learned" // a trained scorer
	KindRifling = "rifling" // a table of values
)

// What can be wrong with a policy file, told apart.
var (
	ErrNotPolicy  = errors.New("not a policy file")
	ErrSchema     = errors.New("policy file of another schema")
	ErrBrokenHash = errors.New("the policy's hash does not fit its content")
)

// File is a trained policy with the record of its training. It is immutable:
// its version is a part of the hash of its content.
type File struct {
	Kind     string      `json:"kind"`
	Model    *Model      `json:"model,omitempty"` // of kind learned
	Table    *TablePart  `json:"table,omitempty"` // of kind rifling
	Training TrainRecord `json:"training"`
}

// TablePart is a learner's table as a policy file holds it.
type TablePart struct {
	Params  agent.Params  `json:"params"`
	FCFS    bool          `json:"fcfs,omitempty"`
	Entries []agent.Entry `json:"entries"`
}

// TrainRecord says where a policy comes from and what it was seen to do.
type TrainRecord struct {
	At      time.Time `json:"at"`      // when the training ended
	Release string    `json:"release"` // of the rifling that trained it
	// Parent is the version that the training began with, "" for the shipped
	// parameters.
	Parent string `json:"parent,omitempty"`
	// Data says in words on what it was trained, Settings the flags that
	// differed from the defaults, as they were given.
	Data     string   `json:"data"`
	Settings []string `json:"settings,omitempty"`
	// Begin and End bound the submit times of history that training has seen,
	// zero for other data. An evaluation is held out when it lies after End.
	Begin time.Time `json:"begin,omitzero"`
	End   time.Time `json:"end,omitzero"`
	// TrainSeeds and TestSeeds have no seed in common.
	TrainSeeds  []uint64  `json:"train_seeds,omitempty"`
	TestSeeds   []uint64  `json:"test_seeds,omitempty"`
	Objective   Objective `json:"objective"`
	Generations int       `json:"generations,omitempty"`
	Population  int       `json:"population,omitempty"`
	SearchSeed  uint64    `json:"search_seed,omitempty"`
	// Train and Test are the figures on the lists of the two kinds of seeds.
	Train []Figure `json:"train,omitempty"`
	Test  []Figure `json:"test,omitempty"`
}

// Figure is one policy on several lists of jobs: means with their standard
// errors over the lists, which are 0 for one list.
type Figure struct {
	Policy string `json:"policy"`
	Lists  int    `json:"lists"`
	// Cost is the objective: 1 is Slurm on the same lists, less is better.
	Cost     Mean `json:"cost"`
	JCT      Mean `json:"jct_s"`
	P95      Mean `json:"jct_p95_s"`
	Makespan Mean `json:"makespan_s"`
	ANPR     Mean `json:"anpr"`
	Longest  Mean `json:"wait_longest_s"`
}

// Mean is a mean with its standard error.
type Mean struct {
	Mean float64 `json:"mean"`
	SE   float64 `json:"se"`
}

// envelope is the file itself. The hash is over Policy without white space, so
// that reading a file into an editor that indents it breaks nothing.
type envelope struct {
	Format string          `json:"format"`
	Schema int             `json:"schema"`
	Hash   string          `json:"hash"`
	Policy json.RawMessage `json:"policy"`
}

const (
	fileFormat = "rifling-policy"
	hashPrefix = "sha256:"
	// versionDigits of the hash name a policy: enough that two of a site's
	// policies never share them.
	versionDigits = 12
)

// Encode writes the file and returns its version. Equal content gives equal
// bytes. It refuses what Decode would refuse.
func (f *File) Encode() (b []byte, version string, err error) {
	if err := f.Validate(); err != nil {
		return nil, "", err
	}
	body, err := json.Marshal(f)
	if err != nil {
		return nil, "", fmt.Errorf("write policy: %w", err)
	}
	hash := hashOf(body)
	b, err = json.MarshalIndent(envelope{Format: fileFormat, Schema: FileSchema, Hash: hash, Policy: body}, "", " ")
	if err != nil {
		return nil, "", fmt.Errorf("write policy: %w", err)
	}
	return append(b, '\n'), versionOf(hash), nil
}

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hashPrefix + hex.EncodeToString(sum[:])
}

func versionOf(hash string) string { return hash[len(hashPrefix):][:versionDigits] }

// DecodeFile reads a policy file and returns it with its version. Errors wrap
// ErrNotPolicy, ErrSchema or ErrBrokenHash, or say what the content lacks.
func DecodeFile(b []byte) (*File, string, error) {
	if len(b) > mostFile {
		return nil, "", fmt.Errorf("%w: %d bytes are more than the %d that one may have", ErrNotPolicy, len(b), mostFile)
	}
	var e envelope
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrNotPolicy, err)
	}
	switch {
	case e.Format != fileFormat:
		return nil, "", fmt.Errorf("%w: its format is %q, not %q", ErrNotPolicy, e.Format, fileFormat)
	case e.Schema != FileSchema:
		return nil, "", fmt.Errorf("%w: %d, this release reads %d", ErrSchema, e.Schema, FileSchema)
	}
	if err := strict(b, &e); err != nil {
		return nil, "", err
	}
	var body bytes.Buffer
	if err := json.Compact(&body, e.Policy); err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrNotPolicy, err)
	}
	if e.Hash != hashOf(body.Bytes()) {
		return nil, "", fmt.Errorf("%w: it was changed by hand, or the copy is damaged", ErrBrokenHash)
	}
	var f File
	if err := strict(e.Policy, &f); err != nil {
		return nil, "", err
	}
	if err := f.Validate(); err != nil {
		return nil, "", err
	}
	return &f, versionOf(e.Hash), nil
}

// strict decodes one value without fields that this release does not know,
// whose meaning would get lost, and with nothing behind it.
func strict(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%w: %w", ErrNotPolicy, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: there is more behind its end", ErrNotPolicy)
	}
	return nil
}

// Validate reports everything for which the policy must not decide.
func (f *File) Validate() error {
	errs := []error{f.Training.validate()}
	switch f.Kind {
	case KindLearned:
		if f.Model == nil || f.Table != nil {
			errs = append(errs, errors.New("a policy of kind learned has a model and no table"))
		} else if err := f.Model.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("model: %w", err))
		}
	case KindRifling:
		if f.Table == nil || f.Model != nil {
			errs = append(errs, errors.New("a policy of kind rifling has a table and no model"))
		} else if err := f.Table.validate(); err != nil {
			errs = append(errs, fmt.Errorf("table: %w", err))
		}
	default:
		errs = append(errs, fmt.Errorf("there is no kind %q; there are %s and %s", f.Kind, KindLearned, KindRifling))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	return nil
}

func (t *TablePart) validate() error {
	errs := []error{t.Params.Validate()}
	seen := map[[2]string]bool{}
	for _, e := range t.Entries {
		key := [2]string{e.State, e.Action}
		switch {
		case e.State == "" || !slices.Contains(Actions, Action(e.Action)):
			errs = append(errs, fmt.Errorf("state %q, action %q: no such cell", e.State, e.Action))
		case seen[key]:
			errs = append(errs, fmt.Errorf("state %q, action %q is there twice", e.State, e.Action))
		case !finite(e.Value) || !finite(e.Var) || e.Var < 0 || e.Visits < 0:
			errs = append(errs, fmt.Errorf("state %q, action %q: a value that cannot be", e.State, e.Action))
		}
		seen[key] = true
	}
	return errors.Join(errs...)
}

func (r *TrainRecord) validate() error {
	var errs []error
	if r.Parent != "" && !IsVersion(r.Parent) {
		errs = append(errs, fmt.Errorf("training: the parent %q is no version", r.Parent))
	}
	if r.End.Before(r.Begin) {
		errs = append(errs, errors.New("training: the history ends before it begins"))
	}
	for _, s := range r.TestSeeds {
		if slices.Contains(r.TrainSeeds, s) {
			errs = append(errs, fmt.Errorf("training: seed %d is of the training and of the test", s))
		}
	}
	for _, f := range slices.Concat(r.Train, r.Test) {
		for _, m := range []Mean{f.Cost, f.JCT, f.P95, f.Makespan, f.ANPR, f.Longest} {
			if !finite(m.Mean) || !finite(m.SE) || m.SE < 0 {
				errs = append(errs, fmt.Errorf("training: a figure of %q is not a number", f.Policy))
				break
			}
		}
	}
	if r.Objective != (Objective{}) {
		errs = append(errs, r.Objective.Validate())
	}
	return errors.Join(errs...)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// IsVersion reports whether the word is a policy's version.
func IsVersion(s string) bool {
	return len(s) == versionDigits && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("0123456789abcdef", r)
	})
}

// Policy returns the policy that the file holds, made anew. Parameters that the
// file says nothing of come from o.
func (f *File) Policy(o Options) (Policy, error) {
	switch f.Kind {
	case KindLearned:
		o.Model = f.Model
		return New(KindLearned, o)
	case KindRifling:
		o.Agent, o.FCFS = f.Table.Params, f.Table.FCFS
		p, err := New(KindRifling, o)
		if err != nil {
			return nil, err
		}
		if l, ok := p.(Learner); ok {
			l.Restore(f.Table.Entries)
		}
		return p, nil
	}
	return nil, fmt.Errorf("there is no kind %q", f.Kind)
}
