// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"rifling/cmd/internal/config"
	"rifling/slurm"
)

// slurmSays answers Slurm's commands with what a real one of that release said.
type slurmSays map[string]string

func recorded(t *testing.T, release string) slurmSays {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", "setup", "slurm-"+release+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	says := slurmSays{"getent passwd rifling": "rifling:x:999:999::/var/lib/rifling:/usr/sbin/nologin\n"}
	for _, f := range a.Files {
		says[f.Name] = string(f.Data)
	}
	return says
}

func (s slurmSays) run(_ context.Context, name string, args ...string) (string, error) {
	text, ok := s[strings.Join(append([]string{name}, args...), " ")]
	if !ok {
		return "", slurm.WithHint(exec.ErrNotFound, "not recorded: %s %v", name, args)
	}
	return text, nil
}

// hostFile makes a file of the host that setup looks for.
func (s *site) hostFile(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.host, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// set replaces one value of scontrol show config.
func (s slurmSays) set(t *testing.T, key, value string) {
	t.Helper()
	var out []string
	found := false
	for line := range strings.Lines(s["scontrol show config"]) {
		if k, _, ok := strings.Cut(line, "="); ok && strings.TrimSpace(k) == key {
			line, found = key+" = "+value+"\n", true
		}
		out = append(out, line)
	}
	if !found {
		t.Fatalf("the record has no %s", key)
	}
	s["scontrol show config"] = strings.Join(out, "")
}

// runSetup calls the verb on a site whose slurmrestd serves like the fake one.
func runSetup(t *testing.T, s *site, says slurmSays, conf string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	serves := map[int]bool{0: true, 42: true, 41: true, 40: true}
	env := Env{Now: func() time.Time { return s.now }, Run: says.run, Root: s.host, Connect: func(c *config.Config) (Slurm, error) {
		if !serves[c.Slurm.RESTVersion] || s.onlyTCP && strings.HasPrefix(c.Slurm.URL, "unix:") {
			return nil, slurm.ErrUnknownVersion
		}
		return s.slurm, nil
	}}
	code = Main(context.Background(), append([]string{"--config", conf, "setup"}, args...), &out, &errs, env)
	return code, out.String(), errs.String()
}

// What three real releases say becomes a configuration that the programs read.
func TestSetupWritesWhatTheSiteHas(t *testing.T) {
	for _, release := range []string{"22.05", "24.11", "26.05"} {
		t.Run(release, func(t *testing.T) {
			s := newSite(t)
			s.hostFile("etc/slurm/topology.conf", "SwitchName=leaf1 Nodes=gpu[01-08]\n")
			code, out, errs := runSetup(t, s, recorded(t, release), "none.yaml", "--dry-run")
			if code != 0 {
				t.Errorf("exit %d, %s", code, errs)
			}
			before, _, _ := strings.Cut(errs, "\nrifling check:\n") // which asks this machine
			golden(t, "setup-"+release, out+"=== beside it\n"+before)
			path := filepath.Join(t.TempDir(), "rifling.yaml")
			if err := os.WriteFile(path, []byte(out), 0o600); err != nil {
				t.Fatal(err)
			}
			if c, err := config.Load(path, nil); err != nil || c.Mode != config.ModeObserve {
				t.Errorf("the configuration: mode %v, %v", c, err)
			}
		})
	}
}

func TestSetupGoesOnWithoutWhatIsMissing(t *testing.T) {
	const operators, user = "sacctmgr -i modify user rifling set adminlevel=Operator", "sacctmgr -i add user rifling account=root"
	users := "sacctmgr -nP show user name=rifling format=user,adminlevel"
	tests := map[string]struct {
		make func(*testing.T, *site, slurmSays)
		code int
		conf []string // of the configuration; a leading ! means absent
		talk []string // of the rest
	}{
		"no Slurm commands at all": {
			make: func(_ *testing.T, _ *site, says slurmSays) { clear(says) },
			conf: []string{"mode: observe", "manage.partitions stays at its default"},
			talk: []string{"fail  slurm ", "run setup on a machine where", user, operators, "useradd --system"}},
		"Slurm does not know the user": {
			make: func(_ *testing.T, s *site, says slurmSays) { says[users] = ""; s.slurm.level = "None" },
			talk: []string{"Slurm does not know the user rifling", user, operators, "warn  rights"}},
		"the user has no rights yet": {
			make: func(_ *testing.T, s *site, says slurmSays) { says[users] = "rifling|None\n"; s.slurm.level = "None" },
			talk: []string{"it may observe, not steer", operators, "!" + user}},
		"slurmdbd does not answer": {
			make: func(_ *testing.T, _ *site, says slurmSays) { delete(says, users) },
			talk: []string{"warn  rights", user, operators}},
		"no accounting": {
			make: func(t *testing.T, _ *site, says slurmSays) { says.set(t, "AccountingStorageType", "(null)") },
			talk: []string{"set up slurmdbd", "!" + user}},
		"GPUs are not accounted": {
			make: func(t *testing.T, _ *site, says slurmSays) { says.set(t, "AccountingStorageTRES", "cpu,mem") },
			talk: []string{"set AccountingStorageTRES=gres/gpu"}},
		"slurmrestd is away": {
			make: func(_ *testing.T, s *site, _ slurmSays) { s.slurm.connect = slurm.ErrUnreachable }, code: 1,
			conf: []string{"url: unix:///run/rifling/slurmrestd.sock", "once it is started"},
			talk: []string{"fail  slurmrestd", "Some of it fails yet"}},
		"no GPUs": {
			make: func(_ *testing.T, _ *site, says slurmSays) {
				says["scontrol -o show nodes"] = strings.ReplaceAll(says["scontrol -o show nodes"], "Gres=gpu:a100:8", "Gres=(null)")
			},
			talk: []string{"fail  gpus", "GresTypes=gpu"}},
		"a partition without GPUs": {
			make: func(_ *testing.T, _ *site, says slurmSays) {
				says["scontrol -o show partitions"] += "PartitionName=login Nodes=login1\n"
			},
			code: 1, // the fake slurmrestd does not know short, and the check says so
			conf: []string{"partitions: [gpu, short]", "Without: login."}},
		"collectors have their secret": {
			make: func(_ *testing.T, s *site, _ slurmSays) { s.hostFile("etc/rifling/secret", "x") },
			conf: []string{"address: 0.0.0.0:6830", "secret-file: /etc/rifling/secret"}},
		"slurmrestd by token alone": {
			make: func(_ *testing.T, s *site, _ slurmSays) {
				s.hostFile("etc/rifling/token", "x")
				s.onlyTCP = true
			},
			code: 1, // no such file outside the test's root
			conf: []string{"url: http://localhost:6820", "token-file: /etc/rifling/token"}},
		"a flat network": {
			make: func(t *testing.T, _ *site, says slurmSays) { says.set(t, "TopologyPlugin", "topology/flat") },
			conf: []string{"topology-file: \"\""}, talk: []string{"no leaf switches"}},
		"the site has a priority plugin of its own": {
			make: func(t *testing.T, _ *site, says slurmSays) {
				says.set(t, "PrioritySiteFactorPlugin", "site_factor/ours")
			},
			conf: []string{"order: slurm", "site_factor/ours"}},
		"priority/basic": {
			make: func(t *testing.T, _ *site, says slurmSays) { says.set(t, "PriorityType", "priority/basic") },
			conf: []string{"order: slurm"}},
		"backfill begins anew": {
			make: func(t *testing.T, _ *site, says slurmSays) { says.set(t, "SchedulerParameters", "bf_interval=30") },
			conf: []string{"max-changes: 5"}, talk: []string{"add bf_continue"}},
		"a long queue": {
			make: func(_ *testing.T, _ *site, says slurmSays) {
				says["squeue --noheader --format=%i"] = strings.Repeat("1\n", 8000)
			},
			conf: []string{"interval: 60s", "8000 jobs"}},
		"jobs are forgotten early": {
			make: func(t *testing.T, _ *site, says slurmSays) { says.set(t, "MinJobAge", "5 sec") },
			talk: []string{"MinJobAge is 5s"}},
		"no GPU scheduling": {
			make: func(t *testing.T, _ *site, says slurmSays) { says.set(t, "SelectType", "select/linear") },
			talk: []string{"set SelectType=select/cons_tres"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, says := newSite(t), recorded(t, "24.11")
			tc.make(t, s, says)
			code, conf, talk := runSetup(t, s, says, "none.yaml", "--dry-run")
			if code != tc.code {
				t.Errorf("exit %d, want %d", code, tc.code)
			}
			mustHold(t, "configuration", conf, tc.conf)
			mustHold(t, "rest", talk, tc.talk)
			path := filepath.Join(t.TempDir(), "c.yaml")
			if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := config.Load(path, nil); err != nil {
				t.Errorf("what it wrote cannot be read: %v", err)
			}
		})
	}
}

func mustHold(t *testing.T, what, text string, words []string) {
	t.Helper()
	flat := strings.Join(strings.Fields(strings.ReplaceAll(text, "#", "")), " ")
	for _, w := range words {
		absent, isAbsent := strings.CutPrefix(w, "!")
		w = strings.Join(strings.Fields(absent), " ")
		if strings.Contains(flat, w) == isAbsent {
			t.Errorf("%s: %q present is %t in\n%s", what, w, !isAbsent, text)
		}
	}
}

func TestSetupKeepsWhatSomebodyChose(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "etc", "rifling.yaml")
	read := func() string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	s, says := newSite(t), recorded(t, "24.11")
	if code, out, errs := runSetup(t, s, says, path); code != 0 || !strings.Contains(out, "Wrote "+path) || errs != "" {
		t.Fatalf("first: exit %d, %s%s", code, out, errs)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != configMode {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	const chosen = "mode: steer\n"
	if err := os.WriteFile(path, []byte(chosen), 0o640); err != nil {
		t.Fatal(err)
	}
	code, _, errs := runSetup(t, s, says, path)
	if code != 1 || !strings.Contains(errs, "--force") || read() != chosen {
		t.Fatalf("a file with choices: exit %d, %s, now %s", code, errs, read())
	}
	if code, _, errs = runSetup(t, s, says, path, "--force"); code != 0 || !strings.Contains(read(), "mode: observe") {
		t.Fatalf("--force: exit %d, %s", code, errs)
	}
	if old, err := os.ReadFile(path + ".old"); err != nil || string(old) != chosen {
		t.Errorf("the old file: %q, %v", old, err)
	}
}

// The sample that the packages bring says the defaults and may be replaced.
func TestSetupReplacesTheSample(t *testing.T) {
	sample, err := os.ReadFile("../../etc/rifling.yaml")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rifling.yaml")
	if err := os.WriteFile(path, sample, 0o640); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := runSetup(t, newSite(t), recorded(t, "24.11"), path); code != 0 {
		t.Fatalf("exit %d, %s%s", code, out, errs)
	}
}

func TestSetupSaysWhyItCannotWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := runSetup(t, newSite(t), recorded(t, "24.11"), filepath.Join(file, "rifling.yaml"), "--force")
	if code != 1 || !strings.Contains(errs, "hint: run as root") {
		t.Errorf("exit %d, %s", code, errs)
	}
	if code, _, errs = runSetup(t, newSite(t), nil, "x", "extra"); code != exitUsage || !strings.Contains(errs, "hint: usage") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// Names of a site come from its admins, but must never break the file.
func TestYAMLWordSurvivesOddNames(t *testing.T) {
	for _, name := range []string{"gpu", "yes", "1e3", "a: b", "a,b", "[x]", "# no", "", "it's", `q"q`, "é", "null"} {
		path := filepath.Join(t.TempDir(), "c.yaml")
		text := "manage: {partitions: " + yamlWord([]string{name, "other"}) + "}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(path, nil)
		if err != nil || len(c.Manage.Partitions) != 2 || c.Manage.Partitions[0] != name {
			t.Errorf("%q became %v, %v from %s", name, c, err, text)
		}
	}
}

func TestRunCommandSaysWhatTheProgramSaid(t *testing.T) {
	if _, err := runCommand(context.Background(), "sh", "-c", "echo no such cluster >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "no such cluster") {
		t.Error(err)
	}
	if _, err := runCommand(context.Background(), "no-such-program-of-slurm"); !errors.Is(err, exec.ErrNotFound) {
		t.Error(err)
	}
	if out, err := runCommand(context.Background(), "echo", "a b"); err != nil || out != "a b\n" {
		t.Error(out, err)
	}
}
