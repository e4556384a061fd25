// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"rifling/slurm"
)

const (
	maxToken    = 64 << 10
	renewBefore = time.Minute // read the file again this long before exp
)

// token is a JWT in a file. Its text leaves this type only into the header.
type token struct {
	file string
	now  func() time.Time

	mu    sync.Mutex
	text  string
	user  string    // the claim that names the user, "" when there is none
	exp   time.Time // zero when the token names none
	mtime time.Time
	size  int64
}

func newToken(file string, now func() time.Time) *token { return &token{file: file, now: now} }

// get returns the token and the user that it names; both are empty without a
// token file. It reads the file when it changed or the token is about to end.
func (t *token) get() (text, user string, err error) {
	if t.file == "" {
		return "", "", nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	info, err := os.Stat(t.file)
	if err != nil {
		return "", "", t.unusable(err)
	}
	fresh := t.text != "" && info.ModTime().Equal(t.mtime) && info.Size() == t.size
	if fresh && (t.exp.IsZero() || t.now().Before(t.exp.Add(-renewBefore))) {
		return t.text, t.user, nil
	}
	if info.Size() > maxToken {
		return "", "", t.unusable(fmt.Errorf("%d bytes are too long for a token", info.Size()))
	}
	raw, err := os.ReadFile(t.file)
	if err != nil {
		return "", "", t.unusable(err)
	}
	// scontrol token prints SLURM_JWT=...; such a file is as good.
	text = strings.TrimPrefix(strings.TrimSpace(string(raw)), "SLURM_JWT=")
	if text == "" {
		return "", "", t.unusable(fmt.Errorf("the file is empty"))
	}
	if strings.ContainsAny(text, " \t\r\n") {
		return "", "", t.unusable(fmt.Errorf("the file holds more than one word"))
	}
	t.text, t.mtime, t.size = text, info.ModTime(), info.Size()
	t.user, t.exp = claims(text)
	return t.text, t.user, nil
}

// expired returns the instant at which the token ended, by the host's clock;
// zero when it has not, or names none.
func (t *token) expired() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.exp.IsZero() || t.now().Before(t.exp) {
		return time.Time{}
	}
	return t.exp
}

// expiry returns the instant at which the token ends, as its claim says; zero
// when there is no token yet or it names none.
func (t *token) expiry() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.exp
}

// TokenExpiry returns the instant at which the token that was used last ends,
// by the host's clock; zero without a token, and for one that names no end.
func (c *Client) TokenExpiry() time.Time { return c.token.expiry() }

func (t *token) unusable(err error) error {
	return slurm.WithHint(fmt.Errorf("read token file %s: %w: %w", t.file, slurm.ErrAuth, err),
		"write a token there with: scontrol token username=USER lifespan=SECONDS, readable by the daemon's user only")
}

// claims reads the user and the end of life from a JWT without checking it:
// that is slurmctld's part. Anything that is no JWT yields nothing.
func claims(jwt string) (user string, exp time.Time) {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return "", time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return "", time.Time{}
	}
	var c map[string]any // tolerant: newer releases put an object under "sun"
	if json.Unmarshal(payload, &c) != nil {
		return "", time.Time{}
	}
	if s, ok := c["exp"].(float64); ok && s > 0 && s < 1<<40 {
		exp = time.Unix(int64(s), 0)
	}
	for _, claim := range []string{"sun", "username"} {
		if s, ok := c[claim].(string); ok && user == "" {
			user = s
		}
	}
	return user, exp
}
