// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sharedCase is one row of cases.json: a string that broke other tools beside
// Slurm, and the right reading of it.
type sharedCase struct {
	ID       string          `json:"id"`
	Title    string          `json:"title"`
	Input    string          `json:"input"`
	Expected json.RawMessage `json:"expected"`
}

// want decodes the expected reading.
func (c sharedCase) want(t *testing.T) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(c.Expected, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// check compares a reading with the expected one, both as JSON.
func (c sharedCase) check(t *testing.T, got any) {
	t.Helper()
	b, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c.want(t), v); diff != "" {
		t.Errorf("%q (-want +got):\n%s", c.Input, diff)
	}
}

// obj is an expected reading in the neutral form of cases.json.
type obj map[string]any

// elsewhere names rows of this package's letters that no string parser
// answers, and who does.
var elsewhere = map[string]string{
	"A13": "a column that sacct no longer has: whoever runs sacct",
	"P08": "GPUs are keyed by UUID: collector",
	"P11": "samples above the link's speed: collector",
	"P13": "an idle GPU has no processes: collector",
}

// readers has a reader for each row that has a form of its own, and one for
// each letter.
var readers = map[string]func(*testing.T, sharedCase){
	"G": readGRESCase, "G25": readTRESInText, "G26": readTRESCase, "G28": readNodeCase, "G29": readCutOffCase,
	"H": readHostsCase, "H11": readNoHosts,
	"J": readJobIDCase, "J08": readTwoIDs, "J10": readCutOffTasks,
	"S": readStateCase, "S04": readRequeued, "S07": readCompactCase, "S08": readCutOffState,
	"N": readStateCase, "N05": readCompactCase, "N07": readCompactCase,
	"A01": readPipeInName, "A02": readLimitWords, "A04": readDurations, "A05": readEfficiency,
	"A07": readMemory, "A08": readReqMem, "A10": readUsage, "A11": readSteps,
	"F01": readCutOffColumns,
	"P":   readCgroupCase, "P10": readDevicesCase,
	"R22": readReasonCase,
}

func TestSharedCases(t *testing.T) {
	seen := map[string]int{}
	for _, c := range loadSharedCases(t) {
		letter := c.ID[:1]
		seen[letter]++
		switch {
		case elsewhere[c.ID] != "":
			t.Logf("%s is answered elsewhere: %s", c.ID, elsewhere[c.ID])
			continue
		case readers[c.ID] == nil && strings.Contains("RU", letter):
			continue // REST answers and updates: slurm/rest
		}
		read := readers[c.ID]
		if read == nil {
			read = readers[letter]
		}
		t.Run(c.ID+" "+c.Title, func(t *testing.T) {
			if read == nil {
				t.Fatalf("no reader for a row of letter %s", letter)
			}
			read(t, c)
		})
	}
	t.Logf("rows by letter: %v", seen)
	for letter := range seen {
		if !strings.Contains("GHJSNAFPRU", letter) {
			t.Errorf("letter %s is new", letter)
		}
	}
}

// loadSharedCases reads cases.json, or skips the test where there is none.
func loadSharedCases(t *testing.T) []sharedCase {
	t.Helper()
	dir := os.Getenv("RIFLING_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared")
	}
	path := filepath.Join(dir, "cases", "cases.json")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no shared cases at %s; set RIFLING_SHARED", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	var cases []sharedCase
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatalf("%s has no rows", path)
	}
	return cases
}

// must returns v, and fails the test on an error.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// orEmpty makes an empty list of none, as JSON tells them apart.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func gresForm(gs []GRES) []obj {
	out := []obj{}
	for _, g := range gs {
		o := obj{"name": g.Name, "type": g.Type, "count": g.Count}
		if g.Index != nil {
			o["idx"] = g.Index
		}
		if g.Sockets != nil {
			o["sockets"] = g.Sockets
		}
		if g.PerDevice != nil {
			o["per_device"] = g.PerDevice
		}
		out = append(out, o)
	}
	return out
}

func readGRESCase(t *testing.T, c sharedCase) {
	c.check(t, gresForm(must(ParseGRES(c.Input))(t)))
}

func readTRESCase(t *testing.T, c sharedCase) {
	tres := must(ParseTRES(c.Input))(t)
	c.check(t, obj{"gpus": tres.GPUs(), "by_type": tres.GPUsByType()})
}

// quoted finds what stands in double quotes.
var quoted = regexp.MustCompile(`"([^"]*)"`)

// inQuotes returns all that stands in double quotes.
func inQuotes(s string) []string {
	var out []string
	for _, m := range quoted.FindAllStringSubmatch(s, -1) {
		out = append(out, m[1])
	}
	return out
}

func readTRESInText(t *testing.T, c sharedCase) {
	q := inQuotes(c.Input)
	for _, none := range q[:2] {
		if n, _ := GPUs(must(ParseGRES(none))(t)); n != 0 {
			t.Errorf("%q gives %d GPUs", none, n)
		}
	}
	c.check(t, obj{"gpus": must(ParseTRES(q[2]))(t).GPUs()})
}

func readNodeCase(t *testing.T, c sharedCase) {
	q := inQuotes(c.Input)
	if n := must(ParseTRES(q[0]))(t).GPUs(); n != 0 {
		t.Errorf("%q gives %d GPUs", q[0], n)
	}
	total, _ := GPUs(must(ParseGRES(q[1]))(t))
	used, _ := GPUs(must(ParseGRES(q[2]))(t))
	c.check(t, obj{"gpus_total": total, "gpus_used": used})
}

func readCutOffCase(t *testing.T, c sharedCase) {
	gs, err := ParseGRES(c.Input)
	n, _ := GPUs(gs)
	c.check(t, obj{"gpus": n, "rejected": rejected(err)})
}

func readHostsCase(t *testing.T, c sharedCase) {
	hosts := must(ExpandHosts(c.Input))(t)
	c.check(t, hosts)
	checkSameSet(t, CompressHosts(hosts), hosts)
}

func readNoHosts(t *testing.T, c sharedCase) {
	for _, in := range inQuotes(c.Input) {
		c.check(t, orEmpty(must(ExpandHosts(in))(t)))
	}
}

func readJobIDCase(t *testing.T, c sharedCase) {
	ref := must(ParseJobID(c.Input))(t)
	o := obj{"job": ref.Job}
	if ref.Task >= 0 {
		o["task"] = ref.Task
	}
	if ref.TasksKnown {
		o["tasks"] = ref.Tasks
	}
	if ref.Throttle > 0 {
		o["throttle"] = ref.Throttle
	}
	if ref.HetOffset >= 0 {
		o["het_offset"] = ref.HetOffset
	}
	if ref.Step != "" {
		o["step"] = ref.Step
	}
	c.check(t, o)
}

func readTwoIDs(t *testing.T, c sharedCase) {
	row := must(SplitRows(c.Input, "|", 3))(t)[0]
	array, raw := must(ParseJobID(row[0]))(t), must(ParseJobID(row[1]))(t)
	c.check(t, obj{"array_job": array.Job, "task": array.Task, "job": raw.Job})
}

func readCutOffTasks(t *testing.T, c sharedCase) {
	count, _, known, err := ParseTasks(inQuotes(c.Input)[0])
	if err != nil || count != 5 {
		t.Errorf("at least %d tasks, %v; want 5", count, err)
	}
	c.check(t, obj{"tasks_known": known})
}

// checkState compares what the row says of a state: its base, and where the
// row names them the flags and whether a node is usable.
func (c sharedCase) checkState(t *testing.T, got State) {
	t.Helper()
	o := obj{"base": got.Base}
	for key, value := range c.want(t).(map[string]any) {
		switch key {
		case "flags":
			o[key] = orEmpty(got.Flags)
		case "usable":
			o[key] = value
			if usable := (&Node{State: got}).Usable(); value == false && usable {
				t.Errorf("a node in %v is taken for usable", got)
			}
		case "error", "schedulable":
			o[key] = value // no reading of a state fails; holds are not in it
		}
	}
	c.check(t, o)
}

// stateWords takes the quoted words of a row and leaves the keys out.
func stateWords(s string) []string {
	return slices.DeleteFunc(inQuotes(s), func(w string) bool {
		return w == "state" || w == "state_flags" || w == "job_state"
	})
}

func readStateCase(t *testing.T, c sharedCase) { c.checkState(t, ParseState(stateWords(c.Input))) }

func readRequeued(t *testing.T, c sharedCase) {
	for alternative := range strings.SplitSeq(c.Input, "/") {
		got := ParseState(stateWords(alternative))
		c.checkState(t, got)
		if len(got.Flags) != 1 {
			t.Errorf("%q lost its flag: %v", alternative, got)
		}
	}
}

func readCompactCase(t *testing.T, c sharedCase) {
	in := c.Input
	if q := inQuotes(in); q != nil {
		in = q[0]
	}
	c.checkState(t, must(ParseCompactState(in))(t))
}

func readCutOffState(t *testing.T, c sharedCase) {
	_, err := ParseCompactState(c.Input)
	hint, _, _ := strings.Cut(HintOf(err), " (")
	c.check(t, obj{"reject": err != nil, "hint": hint})
}

func readPipeInName(t *testing.T, c sharedCase) {
	row, _, _ := strings.Cut(c.Input, " (naive")
	if rows, err := SplitRows(row, "|", 5); rows != nil || !strings.Contains(HintOf(err), "--delimiter") {
		t.Errorf("split at the pipe: %q, %v with hint %q", rows, err, HintOf(err))
	}
	fields := []string{"29919940", "CANCELLED by 1001", "Partition_Limit", "00:00:00", "some_job . | grep hot"}
	rows := must(SplitRows(strings.Join(fields, "\x1f"), "\x1f", 5))(t)
	if diff := cmp.Diff([][]string{fields}, rows); diff != "" {
		t.Errorf("split at a control character (-want +got):\n%s", diff)
	}
}

func readLimitWords(t *testing.T, c sharedCase) {
	for word := range strings.SplitSeq(c.Input, "/") {
		d, unlimited, err := ParseDuration(word)
		if d != 0 || unlimited == errors.Is(err, ErrUnset) {
			t.Errorf("%q: %v, %t, %v; want no number", word, d, unlimited, err)
		}
	}
}

func readDurations(t *testing.T, c sharedCase) {
	var got []float64
	for in := range strings.SplitSeq(c.Input, "/") {
		d, _, err := ParseDuration(in)
		got = append(got, must(d, err)(t).Seconds())
	}
	c.check(t, got)
}

func readEfficiency(t *testing.T, c sharedCase) {
	words := strings.Fields(c.Input)
	used, _, err := ParseDuration(words[1])
	elapsed, _, err2 := ParseDuration(words[4])
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	if ratio, clamped := Efficiency(used, elapsed, 2); ratio != 1 || !clamped || used < 40*time.Hour {
		t.Errorf("%v of 2 x %v: %v, clamped %t", used, elapsed, ratio, clamped)
	}
}

func readMemory(t *testing.T, c sharedCase) {
	var got []int64
	for in := range strings.SplitSeq(c.Input, "/") {
		got = append(got, must(ParseMemory(in))(t))
	}
	c.check(t, got)
}

func readReqMem(t *testing.T, c sharedCase) {
	var sizes []int64
	var pers []string
	for in := range strings.SplitSeq(c.Input, "/") {
		bytes, per, err := ParseReqMem(in)
		sizes = append(sizes, must(bytes, err)(t))
		pers = append(pers, per)
	}
	c.check(t, obj{"per": strings.Join(pers, " / "), "bytes": sizes})
}

func readUsage(t *testing.T, c sharedCase) {
	in, _, _ := strings.Cut(c.Input, " ")
	tres := must(ParseTRES(in))(t)
	c.check(t, obj{"gpumem": tres["gres/gpumem"], "gpuutil_sum": tres["gres/gpuutil"]})
}

func readSteps(t *testing.T, c sharedCase) {
	id, rest, _ := strings.Cut(c.Input, "|")
	extern := StepUsage{must(ParseJobID(id))(t).Step, must(ParseTRES(strings.Trim(rest, ".")))(t)}
	got := MaxUsage([]StepUsage{extern, {"0", TRES{"gres/gpuutil": 40}}, {"1", TRES{"gres/gpuutil": 90}}})
	if diff := cmp.Diff(TRES{"gres/gpuutil": 90}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func readCutOffColumns(t *testing.T, c sharedCase) {
	rows, err := SplitRows(c.Input, "", 5)
	if rows != nil || !slices.Equal(rejected(errors.Unwrap(err)), []string{c.Input}) {
		t.Errorf("rows %q, %v", rows, err)
	}
}

func readCgroupCase(t *testing.T, c sharedCase) {
	job, ok := ParseCgroup(c.Input)
	if !ok {
		c.check(t, nil)
		return
	}
	o := obj{"step": job.Step}
	if job.JobID != 0 {
		o["job"] = job.JobID
	}
	if job.SLUID != "" {
		o["sluid"] = job.SLUID
	}
	c.check(t, o)
}

func readDevicesCase(t *testing.T, c sharedCase) {
	env := map[string]string{}
	for setting := range strings.SplitSeq(c.Input, " ; ") {
		key, value, _ := strings.Cut(setting, "=")
		env[key] = value
	}
	getenv := func(key string) string { return env[key] }
	if diff := cmp.Diff([]Device{{Index: 0}, {Index: 1}}, must(JobDevices(getenv))(t)); diff != "" {
		t.Errorf("SLURM_JOB_GPUS does not come first (-want +got):\n%s", diff)
	}
	delete(env, "SLURM_JOB_GPUS")
	want := []Device{{Index: -1, UUID: "GPU-aaaa"}, {Index: -1, UUID: "GPU-bbbb"}}
	if diff := cmp.Diff(want, must(JobDevices(getenv))(t)); diff != "" {
		t.Errorf("CUDA_VISIBLE_DEVICES (-want +got):\n%s", diff)
	}
}

func readReasonCase(t *testing.T, c sharedCase) {
	q := inQuotes(c.Input)
	word, nodes := ParseReason(q[0], q[1])
	c.check(t, obj{"reason": word, "nodes": nodes})
}
