// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"errors"
	"fmt"
	"net/http"
	"os/user"
	"strings"

	"rifling/slurm"
)

// Error is what Slurm, slurmrestd or the way to it answered to one request. It
// wraps one of the sentinels of package slurm.
type Error struct {
	Op     string // what was tried: "read jobs"
	Status int    // HTTP status; 0 when no answer came
	Number int    // Slurm's error number; 0 when none was given
	Text   string // the answer's words, shortened
	Kind   error  // a sentinel of package slurm

	// unsent is set when slurmctld certainly did not carry the request out.
	unsent bool
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v", e.Op, e.Kind)
	if e.Text != "" {
		fmt.Fprintf(&b, ": %s", e.Text)
	}
	switch {
	case e.Number != 0:
		fmt.Fprintf(&b, " (Slurm error %d)", e.Number)
	case e.Status != 0:
		fmt.Fprintf(&b, " (HTTP %d)", e.Status)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Kind }

// Slurm's error numbers (slurm/slurm_errno.h) that rifling tells apart.
const (
	noChange      = 1900
	accessDenied  = 2002
	invalidJob    = 2017
	transition    = 2020
	alreadyDone   = 2021
	standby       = 2027
	jobHeld       = 2042
	notPending    = 2073
	jobStarted    = 2083
	jobFinished   = 2084
	notPendingRun = 2086
	useBackup     = 2131
	dbConnection  = 7000
	dbTooLarge    = 7006 // ESLURM_RESULT_TOO_LARGE
	dbTooWide     = 7007 // ESLURM_DB_QUERY_TOO_WIDE
	restAuthFail  = 9008
	authFirst     = 6000 // ESLURM_AUTH_*
	authLast      = 6099
	protocolAuth  = 1007
	ctldFirst     = 1800 // SLURMCTLD_COMMUNICATIONS_*
	ctldConnect   = 1800
	ctldBackoff   = 1804
	ctldLast      = 1899
	commFirst     = 1001 // SLURM_COMMUNICATIONS_*
	commConnect   = 1001
	commLast      = 1099
	socketFirst   = 5003 // socket time-outs
	socketLast    = 5099
)

// kindOf maps an error number to a sentinel; nil when it tells nothing.
func kindOf(number int) error {
	switch {
	case number == noChange:
		return slurm.ErrNoChange
	case number == accessDenied:
		return slurm.ErrDenied
	case number == invalidJob, number == alreadyDone, number == jobFinished:
		return slurm.ErrGone
	case number == notPending, number == jobStarted, number == notPendingRun:
		return slurm.ErrStarted
	case number == jobHeld:
		return slurm.ErrHeld
	case number == protocolAuth, number == restAuthFail, authFirst <= number && number <= authLast:
		return slurm.ErrAuth
	case number == transition, number == standby, number == useBackup, number == dbConnection,
		ctldFirst <= number && number <= ctldLast,
		commFirst <= number && number <= commLast,
		socketFirst <= number && number <= socketLast:
		return slurm.ErrBusy
	case number > 0:
		return slurm.ErrRejected
	}
	return nil
}

// neverArrived reports whether the number says that slurmctld did not take the
// request: there was no connection, or it asked for a pause before reading.
func neverArrived(number int) bool {
	switch number {
	case ctldConnect, ctldBackoff, commConnect, standby, useBackup:
		return true
	}
	return false
}

// classify makes an error from an HTTP status, Slurm's number and its words.
// It returns nil for a success.
func (c *Client) classify(r request, status, number int, text string) error {
	e := &Error{Op: r.op, Status: status, Number: number, Text: c.clean(text), Kind: kindOf(number), unsent: neverArrived(number)}
	if e.Kind == nil {
		e.Kind = kindOfStatus(status, text)
	}
	switch {
	case e.Kind == nil:
		return nil
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		e.unsent = true
	}
	return c.hinted(e)
}

// kindOfStatus maps what is left when the answer holds no known number. Up to
// 24.05 a refused token is a 500 whose only sign is its wording.
func kindOfStatus(status int, text string) error {
	words := strings.ToLower(text)
	switch {
	case status == http.StatusNetworkAuthenticationRequired, status == http.StatusUnauthorized:
		return slurm.ErrAuth
	case status == http.StatusForbidden:
		return slurm.ErrDenied
	case status >= 400 && strings.Contains(words, "authenticat"):
		return slurm.ErrAuth
	case status == http.StatusNotModified:
		return slurm.ErrNoChange
	case status == http.StatusTooManyRequests, status >= 500:
		return slurm.ErrBusy
	case status >= 300:
		return slurm.ErrRejected
	}
	return nil
}

// hinted adds what an admin can do.
func (c *Client) hinted(e *Error) error {
	switch {
	case errors.Is(e.Kind, slurm.ErrAuth):
		return slurm.WithHint(e, "%s", c.authHint())
	case errors.Is(e.Kind, slurm.ErrDenied):
		return slurm.WithHint(e, "the user needs AdminLevel=Operator: sacctmgr modify user %s set adminlevel=operator", c.userName())
	case errors.Is(e.Kind, slurm.ErrBusy):
		return slurm.WithHint(e, "is slurmctld up? scontrol ping; see also SlurmctldParameters=rl_enable")
	}
	return e
}

func (c *Client) authHint() string {
	if c.opt.TokenFile == "" {
		return "no token file is set: use slurmrestd -a rest_auth/local on a unix socket as the same user, or set a token file"
	}
	if end := c.token.expired(); !end.IsZero() {
		return fmt.Sprintf("the token in %s ended at %s; renew it before its exp", c.opt.TokenFile, end.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	return fmt.Sprintf("the token in %s was refused: is it of this cluster (same jwt_key), not expired, and does its user match %s?", c.opt.TokenFile, c.userName())
}

// userName is the user that Slurm takes the client for: as configured, else as
// the token says, else (rest_auth/local) the process's own.
func (c *Client) userName() string {
	if c.opt.User != "" {
		return c.opt.User
	}
	if _, name, err := c.token.get(); err == nil && name != "" {
		return name
	}
	if u, err := user.Current(); err == nil && c.opt.TokenFile == "" {
		return u.Username
	}
	return "USER"
}

const maxText = 300

// clean shortens foreign text to one line and takes a token out of it, should
// a proxy have echoed the headers.
func (c *Client) clean(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if jwt, _, err := c.token.get(); err == nil && jwt != "" {
		text = strings.ReplaceAll(text, jwt, "[token]")
	}
	if r := []rune(text); len(r) > maxText {
		text = string(r[:maxText]) + "..."
	}
	return text
}
