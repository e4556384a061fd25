// SPDX-License-Identifier: Apache-2.0

//go:build lab

package rest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rifling/slurm"
)

func TestLabTokens(t *testing.T) {
	l := needLab(t)
	file := func(t *testing.T, text string) string {
		name := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	short := strings.TrimPrefix(l.must("root", "scontrol token username=rifling lifespan=1"), "SLURM_JWT=")
	alice := strings.TrimPrefix(l.must("root", "scontrol token username=alice lifespan=600"), "SLURM_JWT=")
	time.Sleep(3 * time.Second)
	for _, tt := range []struct{ name, token, hint string }{
		{"expired", short, "ended at"},
		{"no JWT", "nonsense", "was refused"},
		{"signed by another", l.forge(), "was refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := New(Options{URL: l.env["LAB_REST_URL"], TokenFile: file(t, tt.token), User: "rifling"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Snapshot(context.Background())
			if !errors.Is(err, slurm.ErrAuth) || !strings.Contains(slurm.HintOf(err), tt.hint) {
				t.Errorf("%v (%s), want ErrAuth and %q", err, slurm.HintOf(err), tt.hint)
			}
			if strings.Contains(fmt.Sprint(err, slurm.HintOf(err)), tt.token) {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		c, _ := New(Options{URL: l.env["LAB_REST_URL"]})
		if _, err := c.Snapshot(context.Background()); !errors.Is(err, slurm.ErrAuth) {
			t.Errorf("%v, want ErrAuth", err)
		}
	})
	t.Run("a plain user may not steer others", func(t *testing.T) {
		l := &lab{t: t, env: l.env}
		l.cleanUp()
		id := l.submit("--hold --gpus=1 -t 10")
		c, _ := New(Options{URL: l.env["LAB_REST_URL"], TokenFile: file(t, alice)})
		nice := int64(-50)
		if err := c.Update(context.Background(), slurm.Update{JobID: id, Nice: &nice}); !errors.Is(err, slurm.ErrDenied) {
			t.Errorf("%v, want ErrDenied", err)
		}
	})
}

// forge returns a JWT of the right shape with a signature by nobody.
func (l *lab) forge() string {
	raw, err := os.ReadFile(l.env["LAB_TOKEN_FILE"])
	if err != nil {
		l.t.Fatal(err)
	}
	parts := strings.Split(strings.TrimPrefix(strings.TrimSpace(string(raw)), "SLURM_JWT="), ".")
	return parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2]))
}
