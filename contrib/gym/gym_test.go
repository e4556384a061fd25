// SPDX-License-Identifier: Apache-2.0

package gym

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rifling/policy"
	"rifling/sim"
	"rifling/sim/run"
)

var small = Options{Nodes: "4x4", Jobs: 60, Load: 0.9, Open: 0.8, Longest: 6, Interval: 60}

// episode plays one and returns the steps, the sum of rewards and the last answer.
func episode(t *testing.T, env *Env, seed uint64, choose func(Step) int) (int, float64, Step) {
	t.Helper()
	s, err := env.Reset(seed, small)
	if err != nil {
		t.Fatal(err)
	}
	steps, total := 0, 0.0
	for !s.Terminated {
		if s, err = env.Step(choose(s)); err != nil {
			t.Fatal(err)
		}
		steps, total = steps+1, total+s.Reward
	}
	return steps, total, s
}

func theRule(s Step) int { return s.Info["rule"].(int) }

func atRandom(seed uint64) func(Step) int {
	rng := rand.New(rand.NewPCG(seed, 1))
	return func(s Step) int {
		for {
			if a := rng.IntN(len(s.Observation.Mask)); s.Observation.Mask[a] == 1 {
				return a
			}
		}
	}
}

// alone is the same work under a policy, without the environment.
func alone(t *testing.T, seed uint64, p policy.Policy) (sim.Summary, float64) {
	t.Helper()
	cfg, jobs, err := Work(seed, small)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Policy = p
	var all sim.Collector
	sum := 0.0
	rep, err := run.Run(context.Background(), cfg, run.List(jobs), func(r *sim.Result) {
		all.Add(r)
		sum += r.JCT().Seconds()
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.Summary(run.TotalGPUs(cfg.Spec), rep.Stats), sum / scaleOf(jobs)
}

func TestTheRuleHasTheFiguresOfTheSimulator(t *testing.T) {
	var env Env
	for seed := range uint64(2) {
		steps, total, last := episode(t, &env, seed, theRule)
		want, spent := alone(t, seed, policy.DefaultRule())
		t.Logf("seed %d: %d decisions, reward %.3f, %v", seed, steps, total, last.Info)
		if steps == 0 || last.Info["jobs"] != want.Jobs || last.Info["jct_mean_s"] != want.MeanJCT ||
			last.Info["makespan_s"] != want.Makespan || last.Info["anpr"] != want.ANPR {
			t.Errorf("seed %d: %v, want %+v", seed, last.Info, want)
		}
		// Reset has a reward too, of the time before the first question; nobody
		// could do anything about it, and it is not given.
		if total < -spent-1e-9 || total > -0.9*spent {
			t.Errorf("seed %d: rewards sum up to %v, the jobs spent %v", seed, total, -spent)
		}
	}
}

func TestARandomAgentComesToAnEnd(t *testing.T) {
	var env Env
	_, rule, _ := episode(t, &env, 3, theRule)
	steps, total, last := episode(t, &env, 3, atRandom(1))
	again, same, _ := episode(t, &env, 3, atRandom(1))
	if last.Info["jobs"] != small.Jobs || steps != again || total != same {
		t.Errorf("%d steps with %v, then %d with %v; %v", steps, total, again, same, last.Info)
	}
	if total == rule {
		t.Error("a random agent does as the rule does: are its actions taken?")
	}
	t.Logf("rule %.3f, random %.3f in %d steps", rule, total, steps)
	if _, err := env.Step(0); !errors.Is(err, ErrNotReset) {
		t.Errorf("a step after the end: %v", err)
	}
}

func TestActionsThatAreNotOffered(t *testing.T) {
	var env Env
	defer env.Close()
	if _, err := env.Step(0); !errors.Is(err, ErrNotReset) {
		t.Errorf("a step before reset: %v", err)
	}
	s, err := env.Reset(1, small)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []int{-1, len(policy.Actions), indexOf(s.Observation.Mask, 0)} {
		if a == math.MinInt {
			continue
		}
		if _, err := env.Step(a); !errors.Is(err, ErrBadAction) {
			t.Errorf("action %d: %v", a, err)
		}
	}
	if _, err := env.Step(theRule(s)); err != nil {
		t.Errorf("after a wrong action the right one fails: %v", err)
	}
}

func indexOf(mask []int, v int) int {
	for i, m := range mask {
		if m == v {
			return i
		}
	}
	return math.MinInt
}

func TestAnEpisodeCanBeCut(t *testing.T) {
	var env Env
	o := small
	o.Steps = 2
	s, err := env.Reset(1, o)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if s, err = env.Step(theRule(s)); err != nil {
			t.Fatal(err)
		}
	}
	if !s.Truncated || s.Terminated {
		t.Errorf("after 2 steps: truncated %v, terminated %v", s.Truncated, s.Terminated)
	}
}

func TestServe(t *testing.T) {
	in := `{"cmd":"spaces"}
{"cmd":"dance"}
nonsense
{"cmd":"step","action":0}
{"cmd":"reset","seed":1,"options":{"nodes":"eight"}}
{"cmd":"reset","seed":1,"options":{"nodes":"4x4","jobs":20,"open":1}}
{"cmd":"step"}
{"cmd":"close"}
{"cmd":"spaces"}
`
	var out bytes.Buffer
	if err := Serve(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{`"actions":["leave","pack"`, `no command \"dance\"`, "no request", "call reset first", "eight", `"observation"`, "without an action"}
	if len(lines) != len(want) {
		t.Fatalf("%d answers:\n%s", len(lines), out.String())
	}
	for i, w := range want {
		if !strings.Contains(lines[i], w) {
			t.Errorf("answer %d: %s\nlacks %s", i, lines[i], w)
		}
	}
}

// The client in Python, with nothing but its standard library, plays the same
// episodes.
func TestPythonClient(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	program := filepath.Join(t.TempDir(), "rifling-gym")
	if out, err := exec.Command("go", "build", "-o", program, "./rifling-gym").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	options, err := json.Marshal(small)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := exec.Command(python, "rifling_gym.py", program, "0", string(options)).Output()
	if err != nil {
		t.Fatalf("python: %v", err)
	}
	var got map[string]struct {
		Steps int     `json:"steps"`
		Jobs  int     `json:"jobs"`
		JCT   float64 `json:"jct_mean_s"`
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	want, _ := alone(t, 0, policy.DefaultRule())
	t.Logf("%s", raw)
	if got["rule"].JCT != want.MeanJCT || got["random"].Jobs != small.Jobs {
		t.Errorf("%v; the simulator's mean JCT is %v", got, want.MeanJCT)
	}
}
