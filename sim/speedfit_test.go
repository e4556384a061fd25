// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// fitted names the table and the per-GPU batch that each model was fitted to.
var fitted = []struct {
	model, table string
	batch        int
}{
	{"bert", "bert", 4},
	{"yolov3", "yolov3", 8},
	{"ncf", "ncf", 64},
	{"resnet18", "cifar10", 129},
	{"resnet50", "imagenet", 57},
	{"deepspeech2", "deepspeech2", 20},
	{"resnet18-large", "cifar10", 513},
	{"resnet50-large", "imagenet", 163},
	{"deepspeech2-large", "deepspeech2", 57},
}

// measured is one row of a table, in seconds.
type measured struct{ step, sync float64 }

// fitShapes are the placements that the coefficients are fitted to; all others
// in a table only judge them.
var fitShapes = []string{"1", "4", "22", "1111"}

// fit finds compute seconds, intra-node seconds and seconds on the NIC per
// ring byte factor by least squares over the step times and their
// communication parts, each error relative to its step time. All equations
// are linear in the three.
func fit(t testing.TB, rows map[string]measured) (compute, intra, nic float64) {
	t.Helper()
	var a, b []float64
	add := func(row [3]float64, value, scale float64) {
		a = append(a, row[0]/scale, row[1]/scale, row[2]/scale)
		b = append(b, value/scale)
	}
	for _, shape := range fitShapes {
		r, ok := rows[shape]
		if !ok {
			t.Fatalf("table lacks placement %q", shape)
		}
		comm := commRow(shape)
		add([3]float64{1, comm[0], comm[1]}, r.step, r.step)
		if shape != "1" {
			add([3]float64{0, comm[0], comm[1]}, r.sync, r.step)
		}
	}
	var x mat.VecDense
	if err := x.SolveVec(mat.NewDense(len(b), 3, a), mat.NewVecDense(len(b), b)); err != nil {
		t.Fatal(err)
	}
	return x.AtVec(0), x.AtVec(1), x.AtVec(2)
}

// commRow gives the factors of intra-node seconds and NIC seconds in the
// formula's communication part.
func commRow(shape string) [2]float64 {
	gpus := placementOf(shape).ByNode()
	total, busiest := totalGPUs(gpus), 0
	for _, g := range gpus {
		busiest = max(busiest, g)
	}
	switch {
	case total < 2:
		return [2]float64{0, 0}
	case len(gpus) == 1:
		return [2]float64{1, 0}
	}
	return [2]float64{0, 2 * float64(total-1) / float64(total) * float64(busiest)}
}

// placementOf reads a table's placement: "22" is two nodes with two GPUs each.
func placementOf(shape string) Placement {
	var p Placement
	for i, c := range shape {
		p = append(p, NodeShare{Node: "n" + strconv.Itoa(i), GPUs: int(c - '0')})
	}
	return p
}

func readTable(t testing.TB, table string, batch int) map[string]measured {
	t.Helper()
	dir := os.Getenv("RIFLING_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared")
	}
	f, err := os.Open(filepath.Join(dir, "placement", "pollux_t4_"+table+".csv"))
	if err != nil {
		t.Skipf("no measured tables (set RIFLING_SHARED): %v", err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]measured{}
	for _, r := range records[1:] {
		if r[1] != strconv.Itoa(batch) {
			continue
		}
		step, err1 := strconv.ParseFloat(r[2], 64)
		sync, err2 := strconv.ParseFloat(r[3], 64)
		if err1 != nil || err2 != nil {
			t.Fatalf("%s: odd row %v", table, r)
		}
		out[r[0]] = measured{step, sync}
	}
	return out
}

func stepSeconds(m Model, shape string) float64 {
	return 1 / Rate(m, placementOf(shape).ByNode(), func(string) (float64, int) { return DefaultNICBytesPerSecond, 1 })
}

// The coefficients in the code are what the tables give; -v prints them.
func TestModelsAreWhatTheTablesGive(t *testing.T) {
	for _, c := range fitted {
		t.Run(c.model, func(t *testing.T) {
			rows := readTable(t, c.table, c.batch)
			compute, intra, nic := fit(t, rows)
			bytes := nic * DefaultNICBytesPerSecond
			t.Logf("{Name: %q, ComputeSeconds: %.4g, Bytes: %.3e, IntraSeconds: %.3g, Source: pollux + %q},",
				c.model, compute, bytes, intra, fmt.Sprintf("%s batch %d", c.table, c.batch))
			m, ok := FindModel(c.model)
			if !ok {
				t.Fatal("no such model in the code")
			}
			for _, v := range []struct {
				name      string
				code, fit float64
			}{{"ComputeSeconds", m.ComputeSeconds, compute}, {"Bytes", m.Bytes, bytes}, {"IntraSeconds", m.IntraSeconds, intra}} {
				if math.Abs(v.code-v.fit) > 0.006*math.Abs(v.fit) {
					t.Errorf("%s: code has %.4g, the fit gives %.4g", v.name, v.code, v.fit)
				}
			}
		})
	}
}

// What a scheduler gains by packing is the retention: packed step time over
// spread step time. The model must give it within 0.12 for the placements it
// was fitted to. -v prints the others, which it was not fitted to.
func TestRetentionAgainstTheTables(t *testing.T) {
	held := []string{"11", "111", "222", "2222", "44", "4444"}
	sumFit, nFit := 0.0, 0
	for _, c := range fitted {
		t.Run(c.model, func(t *testing.T) {
			rows := readTable(t, c.table, c.batch)
			m, ok := FindModel(c.model)
			if !ok {
				t.Fatal("no such model in the code")
			}
			line := &strings.Builder{}
			for _, shape := range []string{"22", "1111"} {
				want := rows["4"].step / rows[shape].step
				got := stepSeconds(m, "4") / stepSeconds(m, shape)
				fmt.Fprintf(line, " %s %.2f (measured %.2f)", shape, got, want)
				sumFit, nFit = sumFit+math.Abs(got-want), nFit+1
				if math.Abs(got-want) > 0.12 {
					t.Errorf("retention of %s: %.3f, measured %.3f", shape, got, want)
				}
			}
			line.WriteString("; step time over measured:")
			for _, shape := range held {
				if r, ok := rows[shape]; ok {
					fmt.Fprintf(line, " %s %.2f", shape, stepSeconds(m, shape)/r.step)
				}
			}
			t.Log(line)
		})
	}
	if nFit > 0 {
		t.Logf("mean absolute error of retention %.3f over %d", sumFit/float64(nFit), nFit)
		if sumFit/float64(nFit) > 0.05 {
			t.Error("mean error of retention above 0.05")
		}
	}
}
