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

// fit finds a model from the placements that are fitted.
func fit(t testing.TB, name string, rows map[string]measured) Model {
	t.Helper()
	var points []Measured
	for _, shape := range fitShapes {
		r, ok := rows[shape]
		if !ok {
			t.Fatalf("table lacks placement %q", shape)
		}
		var gpus []int
		for _, n := range placementOf(shape) {
			gpus = append(gpus, n.GPUs)
		}
		points = append(points, Measured{GPUs: gpus, Step: r.step, Comm: r.sync})
	}
	m, err := Fit(name, points, Law{}, DefaultNICBytesPerSecond)
	if err != nil {
		t.Fatal(err)
	}
	return m
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
			fit := fit(t, c.model, rows)
			t.Logf("{Name: %q, ComputeSeconds: %.4g, Bytes: %.3e, IntraSeconds: %.3g, Source: pollux + %q},",
				c.model, fit.ComputeSeconds, fit.Bytes, fit.IntraSeconds, fmt.Sprintf("%s batch %d", c.table, c.batch))
			m, ok := FindModel(c.model)
			if !ok {
				t.Fatal("no such model in the code")
			}
			for _, v := range []struct {
				name         string
				code, fitted float64
			}{{"ComputeSeconds", m.ComputeSeconds, fit.ComputeSeconds}, {"Bytes", m.Bytes, fit.Bytes}, {"IntraSeconds", m.IntraSeconds, fit.IntraSeconds}} {
				if math.Abs(v.code-v.fitted) > 0.006*math.Abs(v.fitted) {
					t.Errorf("%s: code has %.4g, the fit gives %.4g", v.name, v.code, v.fitted)
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
