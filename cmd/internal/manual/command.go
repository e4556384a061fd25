// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Program is what its pages say beyond its help.
type Program struct {
	Section int // 1 for users' commands, 8 for admins'
	// Exit says what the exit statuses mean, one sentence.
	Exit string
	// Files and SeeAlso: one line each, "PATH  what it is", "name(section)".
	Files, SeeAlso []string
	// Extra are whole pages, by file name, beside those of the commands.
	Extra map[string]func() (string, error)
}

// Add gives the program a hidden verb that writes its manual pages.
func Add(root *cobra.Command, p Program) {
	root.AddCommand(&cobra.Command{
		Use: "man DIR", Hidden: true, Args: cobra.ExactArgs(1),
		Short: "Write the manual pages into a folder",
		RunE:  func(_ *cobra.Command, args []string) error { return p.write(root, args[0]) },
	})
	if len(root.Commands()) == 1 { // a program without verbs stays one
		root.CompletionOptions.DisableDefaultCmd = true
		root.SetHelpCommand(&cobra.Command{Hidden: true})
	}
}

// write writes a page for the command and each verb below it, and the extra ones.
func (p Program) write(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	put := func(name, text string) error {
		return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644) //nolint:gosec // for everybody to read
	}
	var walk func(*cobra.Command) error
	walk = func(c *cobra.Command) error {
		if err := put(p.pageName(c), p.Page(c)); err != nil {
			return err
		}
		for _, sub := range verbs(c) {
			if err := walk(sub); err != nil {
				return err
			}
		}
		return nil
	}
	if err := walk(root); err != nil {
		return err
	}
	for name, written := range p.Extra {
		text, err := written()
		if err != nil {
			return err
		}
		if err := put(name, text); err != nil {
			return err
		}
	}
	return nil
}

// verbs returns the commands below c that a user sees.
func verbs(c *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" && sub.Name() != "completion" {
			out = append(out, sub)
		}
	}
	return out
}

func title(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func (p Program) pageName(c *cobra.Command) string {
	return fmt.Sprintf("%s.%d", title(c), p.Section)
}

// Page returns the manual page of one command.
func (p Program) Page(c *cobra.Command) string {
	var b page
	b.head(title(c), p.Section, c.Root().Version)
	b.section("NAME")
	b.line(escape(title(c)) + ` \- ` + escape(strings.TrimSuffix(c.Short, ".")))
	b.section("SYNOPSIS")
	b.line(".B " + escape(c.UseLine()))
	if len(verbs(c)) > 0 {
		b.line(".br", ".B "+escape(c.CommandPath()+" COMMAND [flags]"))
	}
	b.section("DESCRIPTION")
	long := c.Long
	if long == "" {
		long = c.Short + "."
	}
	b.text(long)
	if list := verbs(c); len(list) > 0 {
		b.section("COMMANDS")
		for _, sub := range list {
			b.item(sub.Name(), sub.Short+", see "+fmt.Sprintf("%s(%d)", title(sub), p.Section)+".")
		}
	}
	b.flags("OPTIONS", c.NonInheritedFlags())
	b.flags("OPTIONS OF ALL COMMANDS", c.InheritedFlags())
	if c.Example != "" {
		b.section("EXAMPLES")
		b.verbatim(c.Example)
	}
	if p.Exit != "" {
		b.section("EXIT STATUS")
		b.text(p.Exit)
	}
	if len(p.Files) > 0 {
		b.section("FILES")
		for _, f := range p.Files {
			path, what, _ := strings.Cut(f, "  ")
			b.item(path, what)
		}
	}
	b.seeAlso(p.related(c))
	return b.String()
}

// related lists the pages above and below the command, and the program's own.
func (p Program) related(c *cobra.Command) []string {
	var out []string
	if c.HasParent() {
		out = append(out, fmt.Sprintf("%s(%d)", title(c.Parent()), p.Section))
	}
	for _, sub := range verbs(c) {
		out = append(out, fmt.Sprintf("%s(%d)", title(sub), p.Section))
	}
	return append(out, p.SeeAlso...)
}

// flags writes a section with an item for each flag that a user sees.
func (b *page) flags(heading string, set *pflag.FlagSet) {
	first := true
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		if first {
			b.section(heading)
			first = false
		}
		kind, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind != "" {
			name += " " + strings.ToUpper(kind)
		}
		if d := f.DefValue; d != "" && d != "false" && d != "0" && d != "[]" && d != "0s" && !strings.Contains(usage, "default") {
			usage += " (default " + d + ")"
		}
		b.item(name, usage)
	})
}
