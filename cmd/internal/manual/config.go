// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Key is one key of the configuration as the sample has it.
type Key struct {
	Name    string // with dots
	Default string // as YAML writes it
	Meaning string
	Section bool // it holds other keys
}

// Keys reads a sample configuration: a key's comment stands above it. A key
// whose section's comment says all has none of its own.
func Keys(sample string) ([]Key, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(sample), &doc); err != nil {
		return nil, fmt.Errorf("read the sample: %w", err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("the sample is no list of keys")
	}
	return keys("", doc.Content[0])
}

func keys(prefix string, m *yaml.Node) ([]Key, error) {
	var out []Key
	for i := 0; i+1 < len(m.Content); i += 2 {
		name, value := m.Content[i], m.Content[i+1]
		k := Key{Name: prefix + name.Value, Meaning: comment(name.HeadComment)}
		if value.Kind == yaml.MappingNode {
			k.Section = true
			below, err := keys(k.Name+".", value)
			if err != nil {
				return nil, err
			}
			out = append(append(out, k), below...)
			continue
		}
		text, err := yaml.Marshal(value)
		if err != nil {
			return nil, err
		}
		k.Default, _, _ = strings.Cut(strings.TrimSpace(string(text)), "\n")
		out = append(out, k)
	}
	return out, nil
}

// comment takes the paragraph that stands right above a key; what an empty line
// parts from it is about the file.
func comment(head string) string {
	parts := strings.Split(head, "\n\n")
	var words []string
	for line := range strings.Lines(parts[len(parts)-1]) {
		words = append(words, strings.Fields(strings.TrimLeft(line, "#"))...)
	}
	return strings.Join(words, " ")
}

// ConfigPage returns rifling.yaml(5).
func ConfigPage(sample, version string) (string, error) {
	list, err := Keys(sample)
	if err != nil {
		return "", err
	}
	var b page
	b.head("rifling.yaml", 5, version)
	b.section("NAME")
	b.line(`rifling.yaml \- configuration of riflingd and rifling`)
	b.section("SYNOPSIS")
	b.line(".B /etc/rifling/rifling.yaml")
	b.section("DESCRIPTION")
	b.text("The file is YAML. Keys that it does not have keep their defaults, which are shown here; a key that is not known " +
		"is an error. Every key may be given as RIFLING_ and its name in the environment, in capitals and with _ for dots and " +
		"minus signs (RIFLING_LOG_LEVEL), which goes before the file. Durations are written 30s, 15m or 2h.\n\n" +
		"rifling setup writes a file for the site, and rifling check tries it. riflingd reads the file when it starts.")
	b.section("KEYS")
	for _, k := range list {
		if k.Section {
			b.line(".SS " + escape(k.Name))
			if k.Meaning != "" {
				b.text(k.Meaning)
			}
			continue
		}
		b.item(k.Name+": "+k.Default, k.Meaning)
	}
	b.section("FILES")
	b.item("/etc/default/riflingd", "environment of riflingd and its watchdog")
	b.seeAlso([]string{"riflingd(8)", "rifling(1)", "rifling-setup(1)", "rifling-check(1)"})
	return b.String(), nil
}

// ConfigTable returns the keys as sections of a Markdown page.
func ConfigTable(sample string) (string, error) {
	list, err := Keys(sample)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	const head = "\n| key | default | meaning |\n|---|---|---|\n"
	b.WriteString("## Top level\n" + head)
	for _, k := range list { // those without a section first, wherever they stand
		if !k.Section && !strings.Contains(k.Name, ".") {
			b.WriteString(row(k))
		}
	}
	for _, k := range list {
		switch {
		case k.Section && !strings.Contains(k.Name, "."):
			fmt.Fprintf(&b, "\n## %s\n\n%s\n%s", k.Name, cell(k.Meaning), head)
		case k.Section:
			b.WriteString(row(k))
		case strings.Contains(k.Name, "."):
			b.WriteString(row(k))
		}
	}
	return b.String(), nil
}

func row(k Key) string {
	value := ""
	if k.Default != "" {
		value = "`" + cell(k.Default) + "`"
	}
	return "| `" + k.Name + "` | " + value + " | " + cell(k.Meaning) + " |\n"
}

// cell keeps a text inside its cell.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
