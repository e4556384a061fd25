// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"rifling/agent"
	"rifling/agent/onnx"
	"rifling/policy"
	"rifling/slurm"
)

// Files of a folder that `policy export --onnx` writes. The policy file is the
// one that was exported: what the scorers do not hold (the rule, the margin)
// comes from there.
const baseFile = "policy.json"

// metaScorer is the key of an exported model's metadata that names the scorer.
const metaScorer = "rifling.scorer"

// scorers are a model's nets with the inputs that each may have.
func scorers(m *policy.Model) []scorer {
	return []scorer{{"place", &m.Place, policy.PlaceInputs}, {"order", &m.Order, policy.OrderInputs}}
}

type scorer struct {
	name  string
	net   *agent.Net
	known []string
}

func (a *app) policyExportCmd() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "export VERSION | FILE --onnx DIR", Short: "Write a policy's scorers as ONNX models", Args: args(cobra.ExactArgs(1)),
		Long: "export writes place.onnx and order.onnx into a new folder, and policy.json beside them.\n" +
			"Both take a matrix of doubles, one row for each choice, and give a score for each; the\n" +
			"names of the columns are in the model's metadata under rifling.inputs. Train them\n" +
			"further in another program, and bring them back with import.",
		RunE: func(cmd *cobra.Command, list []string) error {
			if dir == "" {
				return usageError{errors.New("give the folder with --onnx")}
			}
			s, err := a.history(cmd)
			if err != nil {
				s = nil
			} else {
				defer s.Close()
			}
			f, v, err := a.named(cmd, s, list[0])
			if err != nil {
				return err
			}
			if f.Model == nil {
				return slurm.WithHint(fmt.Errorf("policy %s is of kind %s", v, f.Kind), "ONNX holds the scorers of kind learned")
			}
			return a.export(f, v, dir)
		},
	}
	cmd.Flags().StringVar(&dir, "onnx", "", "folder to write into")
	return cmd
}

func (a *app) export(f *policy.File, version, dir string) error {
	base, _, err := f.Encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--onnx: %w", err)
	}
	files := map[string][]byte{baseFile: base}
	for _, s := range scorers(f.Model) {
		if files[s.name+".onnx"], err = onnx.Write(s.net, map[string]string{metaScorer: s.name, "rifling.policy": version}); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	for _, name := range []string{"place.onnx", "order.onnx", baseFile} {
		if err := writeNew(filepath.Join(dir, name), files[name]); err != nil {
			return err
		}
		fmt.Fprintln(a.out, filepath.Join(dir, name))
	}
	return nil
}

func (a *app) policyImportCmd() *cobra.Command {
	var dir, out, data string
	cmd := &cobra.Command{
		Use: "import --onnx DIR", Short: "Make a policy of ONNX models that another program trained", Args: args(cobra.NoArgs),
		Long: "import reads place.onnx and order.onnx from a folder that export wrote; one that is not\n" +
			"there stays as policy.json has it. A model is what PyTorch's exporter writes for\n" +
			"Linear, Tanh and ReLU, with one input and one output. A model without the metadata\n" +
			"rifling.inputs takes the same columns as the one that was exported.",
		RunE: func(_ *cobra.Command, _ []string) error {
			if dir == "" {
				return usageError{errors.New("give the folder with --onnx")}
			}
			if err := freeToWrite(out); err != nil {
				return err
			}
			return a.importONNX(dir, out, data)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&dir, "onnx", "", "folder to read")
	fl.StringVarP(&out, "out", "o", "rifling-policy.json", "policy file to write")
	fl.StringVar(&data, "data", "another program, from ONNX", "on what it was trained, for the record")
	return cmd
}

func (a *app) importONNX(dir, out, data string) error {
	base, parent, err := readPolicyFile(filepath.Join(dir, baseFile))
	if err != nil {
		return err
	}
	if base.Model == nil {
		return fmt.Errorf("%s: it is of kind %s and has no scorers", filepath.Join(dir, baseFile), base.Kind)
	}
	m := *base.Model
	read := 0
	for _, s := range scorers(&m) {
		name := filepath.Join(dir, s.name+".onnx")
		b, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			fmt.Fprintf(a.out, "%s is not there: that scorer stays as it is\n", name)
			continue
		}
		if err == nil {
			err = s.take(b)
		}
		if err != nil {
			return slurm.WithHint(fmt.Errorf("%s: %w", name, err), "docs/policies.md shows a model that can be read")
		}
		read++
	}
	if read == 0 {
		return fmt.Errorf("%s holds neither place.onnx nor order.onnx", dir)
	}
	f := policy.File{Kind: policy.KindLearned, Model: &m, Training: policy.TrainRecord{
		At: a.env.Now().UTC(), Release: version, Parent: parent, Data: data, Objective: m.Objective,
	}}
	b, v, err := f.Encode()
	if err != nil {
		return err
	}
	if err := writeNew(out, b); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "policy %s, from %s, written to %s\n", v, count(read, "model", "models"), out)
	return nil
}

// take puts a model in the scorer's place.
func (s *scorer) take(b []byte) error {
	m, err := onnx.Read(b)
	if err != nil {
		return err
	}
	if of, ok := m.Metadata[metaScorer]; ok && of != s.name {
		return fmt.Errorf("it is the scorer %q, not %s", of, s.name)
	}
	if m.Net.Inputs == nil {
		if m.Columns != len(s.net.Inputs) {
			return fmt.Errorf("it takes %d columns, the scorer had %d", m.Columns, len(s.net.Inputs))
		}
		m.Net.Inputs = slices.Clone(s.net.Inputs)
	}
	for _, in := range m.Net.Inputs {
		if !slices.Contains(s.known, in) {
			return fmt.Errorf("there is no input %q in this release", in)
		}
	}
	*s.net = m.Net
	return m.Net.Validate()
}
