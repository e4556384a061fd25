// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"errors"
	"fmt"
)

// Update is an absolute change of one pending job. Nil fields are left alone.
type Update struct {
	JobID JobID
	// ExcludedNodes is the whole list afterwards, the user's own included; an
	// empty list clears it.
	ExcludedNodes *[]string
	// RequiredNodes is the exact node list; an empty list clears it. A lever
	// that a site must choose: see docs/design/steering.md.
	RequiredNodes *[]string
	// SiteFactor is the priority offset where the release has one (v0.0.40 and
	// later), relative to 0.
	SiteFactor *int64
	// Nice is the job's nice value afterwards, the user's own included; the
	// lever for order on releases without a site factor.
	Nice *int64
}

// Empty reports whether the update changes nothing.
func (u Update) Empty() bool {
	return u.ExcludedNodes == nil && u.RequiredNodes == nil && u.SiteFactor == nil && u.Nice == nil
}

// What slurmctld or slurmrestd may answer, told apart. Errors of slurm/rest
// wrap one of these, so callers ask with errors.Is.
var (
	ErrAuth           = errors.New("authentication refused")
	ErrGone           = errors.New("job is gone from Slurm")
	ErrStarted        = errors.New("job is no longer pending")
	ErrHeld           = errors.New("job is held")
	ErrDenied         = errors.New("permission denied")
	ErrBusy           = errors.New("slurmctld is backing off or away")
	ErrUnknownVersion = errors.New("no known REST version answers")
	ErrNoChange       = errors.New("nothing changed since")
	ErrRejected       = errors.New("update rejected")
	ErrUnreachable    = errors.New("slurmrestd cannot be reached")
	ErrUnsafe         = errors.New("unsafe on this release")
)

// HintError is an error that tells the admin what to do. The programs print
// the hint on a line of its own.
type HintError struct {
	Err  error
	Hint string
}

func (e *HintError) Error() string { return e.Err.Error() }
func (e *HintError) Unwrap() error { return e.Err }

// WithHint wraps err with what to do about it; nil stays nil.
func WithHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &HintError{Err: err, Hint: fmt.Sprintf(format, args...)}
}

// HintOf returns the hint of the outermost HintError in err's chain, or "".
func HintOf(err error) string {
	var h *HintError
	if errors.As(err, &h) {
		return h.Hint
	}
	return ""
}
