// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"rifling/slurm"
)

const sample = "../../../etc/rifling.yaml"

func TestSampleIsTheDefault(t *testing.T) {
	got, err := Load(sample, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	empty := cmp.FilterValues(func(a, b []string) bool { return len(a) == 0 && len(b) == 0 }, cmp.Ignore())
	if diff := cmp.Diff(want, *got, empty); diff != "" {
		t.Errorf("etc/rifling.yaml differs from the defaults (-default +sample):\n%s", diff)
	}
}

func TestLoad(t *testing.T) {
	tests := map[string]struct {
		yaml     string
		env      map[string]string
		args     []string
		want     func(*Config) any
		wantIs   any
		wantErr  string
		wantHint string
	}{
		"a file sets a nested key": {
			yaml: "limits:\n  max-wait: 5m\n",
			want: func(c *Config) any { return c.Limits.MaxWait }, wantIs: 5 * time.Minute,
		},
		"the environment beats the file": {
			yaml: "slurm:\n  token-file: /a\n", env: map[string]string{"RIFLING_SLURM_TOKEN_FILE": "/b"},
			want: func(c *Config) any { return c.Slurm.TokenFile }, wantIs: "/b",
		},
		"a flag beats both": {
			yaml: "mode: observe\n", env: map[string]string{"RIFLING_MODE": "observe"}, args: []string{"--mode=steer"},
			want: func(c *Config) any { return c.Mode }, wantIs: "steer",
		},
		"lists come from the environment with commas": {
			env:  map[string]string{"RIFLING_MANAGE_SKIP_USERS": "alice,bob"},
			want: func(c *Config) any { return strings.Join(c.Manage.SkipUsers, " ") }, wantIs: "alice bob",
		},
		"an unknown key is an error": {
			yaml: "limits:\n  max-wiat: 5m\n", wantErr: "max-wiat", wantHint: "etc/rifling.yaml",
		},
		"a mode that there is not":    {yaml: "mode: drive\n", wantErr: "mode: drive", wantHint: "observe or steer"},
		"a life shorter than a cycle": {yaml: "interval: 1m\nlimits:\n  ttl: 1m\n", wantErr: "limits.ttl", wantHint: "twice"},
		"no YAML":                     {yaml: "mode: [\n", wantErr: "read configuration", wantHint: "YAML"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rifling.yaml")
			if err := os.WriteFile(path, []byte(tc.yaml), 0o600); err != nil {
				t.Fatal(err)
			}
			for k, v := range tc.env {
				t.Setenv(k, v)
			}
			flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
			flags.String("mode", "", "")
			if err := flags.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			c, err := Load(path, flags)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error %v does not say %q", err, tc.wantErr)
				}
				if hint := slurm.HintOf(err); !strings.Contains(hint, tc.wantHint) {
					t.Errorf("hint %q does not say %q", hint, tc.wantHint)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := tc.want(c); got != tc.wantIs {
				t.Errorf("got %v, want %v", got, tc.wantIs)
			}
		})
	}
}

func TestMissingFile(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"), nil)
	if err == nil || slurm.HintOf(err) == "" {
		t.Errorf("a file that was named and is not there gives %v with hint %q", err, slurm.HintOf(err))
	}
}
