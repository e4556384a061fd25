// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParseTopology(t *testing.T) {
	text := `
# Two racks under one spine.
SwitchName=leaf1 Nodes=n[1-2] LinkSpeed=100   # the old rack
switchname=leaf2 \
   NODES="n[3-4],login"
SwitchName=spine Switches=leaf[1-2]
`
	got, err := ParseTopology(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []Switch{
		{Name: "leaf1", Nodes: []string{"n1", "n2"}},
		{Name: "leaf2", Nodes: []string{"n3", "n4", "login"}},
		{Name: "spine", Switches: []string{"leaf1", "leaf2"}},
	}
	if diff := cmp.Diff(want, got.Switches); diff != "" {
		t.Errorf("switches (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[:2], got.Leaves()); diff != "" {
		t.Errorf("leaves (-want +got):\n%s", diff)
	}
	for node, leaf := range map[string]string{"n1": "leaf1", "login": "leaf2", "n9": "", "spine": ""} {
		if got.LeafOf(node) != leaf {
			t.Errorf("LeafOf(%q) = %q, want %q", node, got.LeafOf(node), leaf)
		}
	}
	if diff := cmp.Diff([]string{"n1", "n2"}, got.LeafNodes("leaf1")); diff != "" {
		t.Errorf("LeafNodes (-want +got):\n%s", diff)
	}
}

func TestBlocksAreLeaves(t *testing.T) {
	got, err := ParseTopology("BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2,4\n")
	if err != nil || got.LeafOf("n3") != "b2" || len(got.Leaves()) != 2 {
		t.Errorf("n3 is under %q of %d leaves, %v", got.LeafOf("n3"), len(got.Leaves()), err)
	}
}

func TestAFlatTopologyHasNoLeaves(t *testing.T) {
	var flat Topology
	if flat.LeafOf("n1") != "" || flat.Leaves() != nil || flat.LeafNodes("x") != nil {
		t.Error("the zero value names leaves")
	}
}

func TestParseTopologyKeepsTheGoodLines(t *testing.T) {
	cases := map[string]struct {
		text     string
		switches []string
		rejected []string
	}{
		"a word without a value":    {"SwitchName=a Nodes=n1\nSwitchName\n", []string{"a"}, []string{"SwitchName"}},
		"an unknown key":            {"SwitchName=a Nodes=n1\nSwitchName=b Nods=n2", []string{"a"}, []string{"SwitchName=b Nods=n2"}},
		"a broken host list":        {"SwitchName=a Nodes=n[1\nSwitchName=b Nodes=n2", []string{"b"}, []string{"SwitchName=a Nodes=n[1"}},
		"nodes of no switch":        {"Nodes=n1", nil, []string{"Nodes=n1"}},
		"described twice":           {"SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2", []string{"a"}, []string{"SwitchName=a Nodes=n2"}},
		"named, not described":      {"SwitchName=a Switches=b,c\nSwitchName=c Nodes=n1", []string{"a", "c"}, []string{"b"}},
		"continued into the end":    {"SwitchName=a \\\n Nodes=n1 \\", []string{"a"}, nil},
		"a node under two switches": {"SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1", []string{"a", "b"}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseTopology(tc.text)
			var names []string
			for _, s := range got.Switches {
				names = append(names, s.Name)
			}
			if diff := cmp.Diff(tc.switches, names); diff != "" {
				t.Errorf("switches (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.rejected, rejected(err)); diff != "" {
				t.Errorf("rejected (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseTopology(f *testing.F) {
	f.Add("SwitchName=a Nodes=n[1-2]\nSwitchName=b \\\nSwitches=a # c\n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Count(text, "[") > 4 {
			return // large products only cost time here; ExpandHosts bounds them
		}
		topo, _ := ParseTopology(text)
		for _, leaf := range topo.Leaves() {
			for _, n := range leaf.Nodes {
				if topo.LeafOf(n) == "" {
					t.Fatalf("%q of %q has no leaf", n, leaf.Name)
				}
			}
		}
		again, _ := ParseTopology(text)
		if diff := cmp.Diff(topo.Switches, again.Switches, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("read differently again:\n%s", diff)
		}
	})
}
