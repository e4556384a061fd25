// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rifling/slurm"
	"rifling/slurm/slurmtest"
)

// sharedCase is one row of cases.json: an answer that broke other tools beside
// Slurm, and the right reading of it.
type sharedCase struct {
	ID, Title, Input string
	Expected         json.RawMessage
}

// answers has a test for each row on REST answers (R) and updates (U).
var answers = map[string]func(*testing.T, sharedCase){
	"R01": readsNumber, "R02": readsNumber, "R05": readsNumber,
	"R04": readsPlainOrNull, "R07": readsAbsentNice, "R08": readsHostLists, "R10": readsTimes,
	"R11": toleratesExitCodes, "R13": keepsQueueOnNoChange, "R14": tellsExpiredToken, "R16": triesNextVersion,
	"R17": tellsUnknownJob, "R19": toleratesArrays, "R20": dropsSentinels, "R22": keepsReason,
	"U01": sendsOldKeys, "U02": sendsOldKeys, "U04": neverSendsNice, "U05": neverClearsNodes,
	"U07": hasNoTaskIDs, "U08": tellsStarted, "U10": neverSendsPriority, "U11": neverSendsPriority,
	"U13": sendsNodesOnlyOnRequest, "U14": tellsRejected,
}

func TestSharedCases(t *testing.T) {
	dir := os.Getenv("RIFLING_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "cases", "cases.json"))
	if err != nil {
		t.Skipf("no shared cases (set RIFLING_SHARED): %v", err)
	}
	var cases []sharedCase
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, c := range cases {
		if c.ID[0] != 'R' && c.ID[0] != 'U' {
			continue
		}
		seen++
		t.Run(c.ID+" "+c.Title, func(t *testing.T) {
			f, ok := answers[c.ID]
			if !ok {
				t.Fatal("no test for this row")
			}
			f(t, c)
		})
	}
	if seen != len(answers) {
		t.Errorf("%d rows, %d tests", seen, len(answers))
	}
}

// field reads a record with one key.
func field(t *testing.T, value string) *record {
	t.Helper()
	return newRecord(json.RawMessage(`{"x":` + value + `}`))
}

func readsNumber(t *testing.T, c sharedCase) {
	value := strings.TrimPrefix(c.Input, `"number": `)
	got := field(t, value).num("x")
	var want *int64
	if err := json.Unmarshal(c.Expected, &want); err != nil {
		t.Fatal(err)
	}
	if got.set != (want != nil) || want != nil && got.n != *want || got.infinite {
		t.Errorf("%s is read as %+v", value, got)
	}
	wrapped := field(t, `{"set":true,"infinite":false,"number":`+value+`}`).num("x")
	if value[0] != '{' && wrapped != got {
		t.Errorf("as an object %+v, plain %+v", wrapped, got)
	}
}

func readsPlainOrNull(t *testing.T, _ sharedCase) {
	for value, want := range map[string]number{
		"1000": {n: 1000, set: true}, "null": {}, `"Infinity"`: {infinite: true}, `"NaN"`: {}, "1000.0": {n: 1000, set: true},
		`{"set":false,"infinite":true,"number":0}`: {infinite: true}, "4294967295": {infinite: true}, "4294967294": {},
	} {
		r := field(t, value)
		if got := r.num("x"); got != want || r.odd != "" {
			t.Errorf("%s is read as %+v (%s), want %+v", value, got, r.odd, want)
		}
	}
}

func readsAbsentNice(t *testing.T, _ sharedCase) {
	for value, want := range map[string]int64{
		"null": 0, "0": 0, "17": 17, "-1": -1, "-2": -2, "-500": -500,
		"4294966796": -500, "4294967295": -1, "4294967294": -2, // v0.0.38, live: printed without the sign
		`{"set":true,"infinite":false,"number":-2}`: -2,
	} {
		if got := field(t, value).signed("x"); got != want {
			t.Errorf("nice %s is read as %d, want %d", value, got, want)
		}
	}
}

func readsHostLists(t *testing.T, _ sharedCase) {
	for value, want := range map[string][]string{
		"null": nil, `""`: nil, `"gpu[01-02]"`: {"gpu01", "gpu02"}, `["gpu01","gpu02"]`: {"gpu01", "gpu02"}, `[]`: nil, `"(null)"`: nil,
	} {
		r := field(t, value)
		if got := r.hosts("x"); !slices.Equal(got, want) || r.odd != "" {
			t.Errorf("%s is read as %v (%s), want %v", value, got, r.odd, want)
		}
	}
}

func readsTimes(t *testing.T, _ sharedCase) {
	want := time.Unix(1762787291, 0)
	for _, value := range []string{"1762787291", `{"set":true,"infinite":false,"number":1762787291}`} {
		if got := field(t, value).instant("x"); !got.Equal(want) {
			t.Errorf("%s is read as %v", value, got)
		}
	}
	for _, value := range []string{"0", "null", "4294967294", `{"set":false,"infinite":false,"number":0}`, `{"set":true,"infinite":false,"number":0}`} {
		if got := field(t, value).instant("x"); !got.IsZero() {
			t.Errorf("%s is read as %v, want no time", value, got)
		}
	}
}

// reads decodes one job record and fails when it is odd.
func reads(t *testing.T, extra string) slurm.Job {
	t.Helper()
	r := newRecord(json.RawMessage(`{"job_id":7,"job_state":["PENDING"],"time_limit":{"set":true,"infinite":false,"number":5},` + extra + `}`))
	j, _ := jobRecord(r)
	if r.odd != "" || len(r.notes) > 0 {
		t.Errorf("%s is odd: %s %v", extra, r.odd, r.notes)
	}
	return j
}

func toleratesExitCodes(t *testing.T, _ sharedCase) {
	for _, value := range []string{"0", `{"set":true,"infinite":false,"number":0}`, `{"status":["SUCCESS"],"return_code":{"set":true,"infinite":false,"number":0},"signal":{"id":{"set":false},"name":""}}`} {
		reads(t, `"exit_code":`+value)
	}
}

func keepsQueueOnNoChange(t *testing.T, _ sharedCase) { TestNoChangeKeepsTheQueue(t) }

func tellsExpiredToken(t *testing.T, _ sharedCase) {
	onEach(t, func(t *testing.T, r slurm.Release) {
		srv := slurmtest.NewServer(t, queue(r).Obj())
		srv.Token("good")
		now := time.Unix(2000, 0)
		c, _ := client(t, srv, Options{User: "rifling", TokenFile: tokenFile(t, jwt(`{"exp":1000,"sun":"rifling"}`)), Now: func() time.Time { return now }})
		_, err := c.Snapshot(t.Context())
		if !errors.Is(err, slurm.ErrAuth) || !strings.Contains(slurm.HintOf(err), "1970-01-01 00:16:40 UTC") {
			t.Errorf("%s; want ErrAuth and when the token ended", fmtErr(err))
		}
	})
	t.Run("24.05", func(t *testing.T) {
		r := slurm.Release{Major: 24, Minor: 5, Micro: 4, REST: 41}
		srv := slurmtest.NewServer(t, queue(r).Obj())
		srv.Token("good")
		c, _ := client(t, srv, Options{User: "rifling", TokenFile: tokenFile(t, "other")})
		if _, err := c.Snapshot(t.Context()); !errors.Is(err, slurm.ErrAuth) {
			t.Errorf("%s; want ErrAuth", fmtErr(err))
		}
	})
}

func triesNextVersion(t *testing.T, _ sharedCase) {
	onEach(t, func(t *testing.T, r slurm.Release) {
		c, _ := client(t, slurmtest.NewServer(t, queue(r).Obj()), Options{})
		if got, err := c.Connect(t.Context()); err != nil || got != r {
			t.Errorf("%v v0.0.%d, %v; want %v v0.0.%d", got, got.REST, err, r, r.REST)
		}
	})
}

func tellsUnknownJob(t *testing.T, _ sharedCase) { TestJobIsReadAfresh(t) }

func toleratesArrays(t *testing.T, _ sharedCase) {
	for value, want := range map[string]bool{
		`"none"`: true, `["none"]`: true, `["user"]`: true, `"mcs"`: true,
		`[]`: false, `null`: false, `"shared"`: false, `["oversubscribe"]`: false,
	} {
		if got := reads(t, `"shared":`+value).Exclusive; got != want {
			t.Errorf("shared %s: exclusive is %v, want %v", value, got, want)
		}
	}
	for _, binding := range []string{"0", "[]"} {
		r := newRecord(json.RawMessage(`{"name":"gpu","partition":{"state":["UP"]},"nodes":{"configured":"gpu[01-02]"},"cpus":{"task_binding":` + binding + `}}`))
		if p, _ := partitionRecord(r); r.odd != "" || !p.Up || len(p.Nodes) != 2 {
			t.Errorf("task_binding %s: %+v, %s", binding, p, r.odd)
		}
	}
}

func dropsSentinels(t *testing.T, _ sharedCase) {
	for _, value := range []string{"-2", "18446744073709551614", "1.8446744073709552e19"} {
		r := field(t, value)
		if got := r.num("x"); got.set || got.infinite || r.odd != "" {
			t.Errorf("%s is read as %+v (%s), want unset", value, got, r.odd)
		}
	}
}

func keepsReason(t *testing.T, _ sharedCase) {
	j := reads(t, `"state_reason":"ReqNodeNotAvail","state_description":"ReqNodeNotAvail, UnavailableNodes:gpu07"`)
	word, nodes := slurm.ParseReason(j.Reason, j.Description)
	if word != "ReqNodeNotAvail" || !slices.Equal(nodes, []string{"gpu07"}) {
		t.Errorf("%q %v", word, nodes)
	}
}

// sent is the body of an update as its keys and values.
func sent(t *testing.T, r slurm.Release, u slurm.Update) map[string]any {
	t.Helper()
	raw, err := updateBody(r, u)
	if err != nil {
		t.Fatal(err)
	}
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		t.Fatal(err)
	}
	return body
}

func sendsOldKeys(t *testing.T, _ sharedCase) {
	body := sent(t, slurm2205, slurm.Update{JobID: 7, ExcludedNodes: &[]string{"gpu05", "gpu06", "gpu07", "gpu08"}, RequiredNodes: &[]string{"gpu01"}, Nice: ptr(int64(3))})
	if len(body) != 3 || body["exclude_nodes"] != "gpu[05-08]" || body["nodelist"] != "gpu01" || body["nice"] != 3.0 {
		t.Errorf("body %v", body)
	}
}

func neverSendsNice(t *testing.T, _ sharedCase) {
	for _, tt := range []struct {
		r    slurm.Release
		safe bool
	}{
		{slurm.Release{Major: 23, Minor: 2, Micro: 7, REST: 39}, false},
		{slurm.Release{Major: 23, Minor: 11, Micro: 1, REST: 40}, false},
		{slurm.Release{Major: 23, Minor: 11, Micro: 2, REST: 40}, true},
		{slurm.Release{Major: 23, Minor: 11, Micro: 1, REST: 38}, true},
		{slurm.Release{Major: 24, Minor: 5, Micro: 0, REST: 40}, true},
	} {
		_, err := updateBody(tt.r, slurm.Update{JobID: 7, Nice: ptr(int64(100))})
		if errors.Is(err, slurm.ErrUnsafe) == tt.safe {
			t.Errorf("%v v0.0.%d: %v", tt.r, tt.r.REST, err)
		}
	}
	if _, err := New(Options{URL: "http://localhost:1", Version: 39}); !errors.Is(err, slurm.ErrUnsafe) {
		t.Errorf("v0.0.39 on request: %v, want ErrUnsafe", err)
	}
	for micro, want := range map[int]int{0: 38, 1: 38, 2: 40} {
		r := release(23, 11, micro)
		c, _ := client(t, slurmtest.NewServer(t, queue(r).Obj()), Options{})
		if got, err := c.Connect(t.Context()); err != nil || got.REST != want {
			t.Errorf("Slurm %v: v0.0.%d, %v; want v0.0.%d", r, got.REST, err, want)
		}
	}
}

func neverClearsNodes(t *testing.T, _ sharedCase) {
	for micro, safe := range map[int]bool{0: false, 1: false, 2: true} {
		r := slurm.Release{Major: 23, Minor: 2, Micro: micro, REST: 38}
		if _, err := updateBody(r, slurm.Update{JobID: 7, RequiredNodes: &[]string{}}); errors.Is(err, slurm.ErrUnsafe) == safe {
			t.Errorf("%v: %v", r, err)
		}
		if _, err := updateBody(r, slurm.Update{JobID: 7, RequiredNodes: &[]string{"gpu01"}}); err != nil {
			t.Errorf("%v, setting it: %v", r, err)
		}
	}
}

// hasNoTaskIDs: a slurm.JobID is a number, so "123_5" cannot be asked for. The
// pending tasks are changed under the array's id.
func hasNoTaskIDs(t *testing.T, _ sharedCase) {
	onEach(t, func(t *testing.T, r slurm.Release) {
		srv := slurmtest.NewServer(t, queue(r).Obj())
		c, _ := client(t, srv, Options{})
		if err := c.Update(t.Context(), slurm.Update{JobID: 4, ExcludedNodes: &[]string{"gpu01"}}); err != nil {
			t.Error(fmtErr(err))
		}
		if got := srv.Job(4).ExcludedNodes; !slices.Equal(got, []string{"gpu01"}) {
			t.Errorf("the array excludes %v", got)
		}
	})
}

func tellsStarted(t *testing.T, _ sharedCase) {
	onEach(t, func(t *testing.T, r slurm.Release) {
		srv := slurmtest.NewServer(t, queue(r).Obj())
		c, naps := client(t, srv, Options{})
		mustSnapshot(t, c)
		srv.Run(3, "gpu02", "gpu03")
		err := c.Update(t.Context(), slurm.Update{JobID: 3, ExcludedNodes: &[]string{"gpu01"}, Nice: ptr(int64(9))})
		var e *Error
		if !errors.Is(err, slurm.ErrStarted) || !errors.As(err, &e) || e.Number != 2073 {
			t.Errorf("%s, want ErrStarted with 2073", fmtErr(err))
		}
		if j := srv.Job(3); len(j.ExcludedNodes) > 0 || j.Nice != 0 || len(srv.Posts()) != 1 || len(*naps) != 0 {
			t.Errorf("job %+v after %d posts; nothing may change, and nothing be sent again", j, len(srv.Posts()))
		}
	})
}

// neverSendsPriority checks all that an update can send.
func neverSendsPriority(t *testing.T, _ sharedCase) {
	for _, r := range []slurm.Release{slurm2205, slurm2411, slurm2605} {
		u := slurm.Update{JobID: 7, ExcludedNodes: &[]string{}, RequiredNodes: &[]string{}, Nice: ptr(int64(1))}
		if r.HasSiteFactor() {
			u.SiteFactor = ptr(int64(1))
		}
		for key := range sent(t, r, u) {
			if key == "priority" || key == "hold" {
				t.Errorf("%v: %q is sent", r, key)
			}
		}
	}
	if kindOf(2042) != slurm.ErrHeld {
		t.Error("2042 is not ErrHeld")
	}
}

func sendsNodesOnlyOnRequest(t *testing.T, _ sharedCase) {
	for _, r := range []slurm.Release{slurm2205, slurm2411} {
		body := sent(t, r, slurm.Update{JobID: 7, ExcludedNodes: &[]string{"gpu01"}})
		if len(body) != 1 {
			t.Errorf("%v: body %v, want the exclusions only", r, body)
		}
	}
}

func tellsRejected(t *testing.T, _ sharedCase) {
	srv := slurmtest.NewServer(t, queue(slurm2411).Obj())
	srv.Fail(slurmtest.Fault{Method: http.MethodPost, Status: http.StatusUnprocessableEntity, Number: 2006, Text: "Node count specification invalid"})
	c, _ := client(t, srv, Options{})
	err := c.Update(t.Context(), slurm.Update{JobID: 2, RequiredNodes: &[]string{"gpu01", "gpu02", "gpu03"}})
	if !errors.Is(err, slurm.ErrRejected) || !strings.Contains(err.Error(), "Node count specification invalid") {
		t.Error(fmtErr(err))
	}
}
