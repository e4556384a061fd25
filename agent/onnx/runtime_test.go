// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rifling/agent"
)

// modules is where contrib/setup.sh onnx puts ONNX Runtime.
const modules = "../../.tools/onnxruntime/node_modules"

// scores lets ONNX Runtime score the rows.
func scores(t *testing.T, model []byte, rows [][]float64) []float64 {
	t.Helper()
	file := filepath.Join(t.TempDir(), "model.onnx")
	if err := os.WriteFile(file, model, 0o600); err != nil {
		t.Fatal(err)
	}
	var in bytes.Buffer
	columns := len(rows[0])
	for _, row := range rows {
		for _, x := range row {
			in.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)))
		}
	}
	path, err := filepath.Abs(modules)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", "testdata/run.cjs", file, string(rune('0'+columns)))
	cmd.Env = append(os.Environ(), "NODE_PATH="+path)
	cmd.Stdin = &in
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ONNX Runtime: %v\n%s", err, errs.String())
	}
	name, list, _ := strings.Cut(string(out), "\n")
	t.Log(name)
	var got []float64
	if err := json.Unmarshal([]byte(list), &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func best(scores []float64) int {
	at := 0
	for i, s := range scores {
		if s > scores[at] {
			at = i
		}
	}
	return at
}

// ONNX Runtime, which is nobody's of ours, reads what Write writes and takes
// the same choice as the net itself in each of 1,000 drawn decisions among six
// options; so does the net that Read makes of it.
func TestONNXRuntimeTakesTheSameChoices(t *testing.T) {
	if _, err := os.Stat(modules + "/onnxruntime-web"); err != nil {
		t.Skip("ONNX Runtime is not there: contrib/setup.sh onnx brings it")
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not there: contrib/setup.sh onnx brings it")
	}
	const decisions, options, inputs = 1000, 6, 7
	for _, tc := range []struct {
		name   string
		act    agent.Activation
		hidden []int
	}{{"linear", agent.Identity, nil}, {"tanh", agent.Tanh, []int{8}}, {"relu, two layers", agent.ReLU, []int{6, 4}}} {
		t.Run(tc.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(5, 11))
			net := draw(r, tc.act, inputs, tc.hidden...)
			var rows [][]float64
			for range decisions * options {
				row := make([]float64, inputs)
				for i := range row {
					row[i] = 3 * r.NormFloat64()
				}
				rows = append(rows, row)
			}
			model, err := Write(&net, nil)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Read(model)
			if err != nil {
				t.Fatal(err)
			}
			theirs := scores(t, model, rows)
			if len(theirs) != len(rows) {
				t.Fatalf("%d scores for %d rows", len(theirs), len(rows))
			}
			furthest, same := 0.0, 0
			for d := range decisions {
				var ours, read []float64
				for _, row := range rows[d*options : (d+1)*options] {
					ours, read = append(ours, net.Score(row)), append(read, again.Net.Score(row))
				}
				for i, s := range ours {
					furthest = max(furthest, math.Abs(s-theirs[d*options+i]))
				}
				if best(ours) == best(theirs[d*options:(d+1)*options]) && best(ours) == best(read) {
					same++
				}
			}
			t.Logf("%d of %d choices are the same; scores differ by at most %.1e", same, decisions, furthest)
			if same != decisions {
				t.Errorf("only %d of %d choices are the same", same, decisions)
			}
		})
	}
}
